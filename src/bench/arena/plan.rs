//! What an arena is to look like.

use std::path::PathBuf;
use std::str::FromStr;

use crate::bench::Path;
use crate::lab::{LabError, LabName, LabPlan, LabPolicy, Link, RegistryKind};

/// Options that take `felt run` back to one packet a system call: every offload off, batches of one.
pub const PLAIN_ARGS: &[&str] = &["--no-tun-offload", "--no-udp-gso", "--no-udp-gro", "--batch", "1"];

/// Network of the kernel's vxlan, beside Felt's own.
const VXLAN_CONFIG: &str = r#"{"Network": "10.98.0.0/16"}"#;

/// What an arena is to look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaPlan {
    /// Its labs are called this, a dash, and the path's name.
    pub name: String,
    /// The `felt` binary.
    pub felt: PathBuf,
    /// Which paths there are to be.
    pub paths: Vec<Path>,
    /// What is at their ends.
    pub ends: EndKind,
    /// MTU of the wire, in bytes.
    pub underlay_mtu: u32,
    /// Further arguments of `felt run`, for [`Path::Felt`] and [`Path::FeltPolicy`].
    pub felt_args: Vec<String>,
    /// How many policies [`Path::FeltPolicy`] enforces. It judges pods, so they have to be at the ends.
    pub policies: u32,
}

/// What is at the ends of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndKind {
    /// The nodes themselves: nothing is measured but the path.
    #[default]
    Nodes,
    /// A pod on each node, so that packets also pass the pod's veth pair and the node's routing: what users have.
    Pods,
}

impl ArenaPlan {
    /// Every usual path between nodes, on a wire of 1500 bytes.
    #[must_use]
    pub fn new(felt: PathBuf) -> Self {
        Self {
            name: "felt-bench".to_owned(),
            felt,
            paths: Path::USUAL.to_vec(),
            ends: EndKind::Nodes,
            underlay_mtu: 1500,
            felt_args: Vec::new(),
            policies: 0,
        }
    }

    /// The name of a path's lab.
    pub(super) fn lab_name(&self, path: Path) -> Result<LabName, LabError> {
        format!("{}-{path}", self.name).parse()
    }

    /// The lab of a path.
    pub(super) fn lab(&self, path: Path) -> Result<LabPlan, LabError> {
        let common = LabPlan {
            name: self.lab_name(path)?,
            nodes: 2,
            link: Link::Direct,
            pods_per_node: u16::from(self.ends == EndKind::Pods),
            underlay_mtu: self.underlay_mtu,
            run_args: self.run_args(path),
            ..LabPlan::new(self.felt.clone())
        };
        Ok(match path {
            Path::Veth => LabPlan { registry: RegistryKind::Absent, ..common },
            Path::Vxlan => LabPlan { registry: RegistryKind::Absent, config: VXLAN_CONFIG.to_owned(), ..common },
            Path::Felt | Path::FeltPlain => common,
            Path::FeltPolicy if self.ends == EndKind::Nodes => {
                return Err(LabError::BadPlan(format!("{path} needs pods at its ends: policy judges no node")));
            }
            Path::FeltPolicy => LabPlan { policy: Some(LabPolicy::default()), ..common },
        })
    }

    /// Arguments of `felt run` that make the path what it is.
    pub(super) fn run_args(&self, path: Path) -> Vec<String> {
        match path {
            Path::Felt | Path::FeltPolicy => self.felt_args.clone(),
            Path::FeltPlain => PLAIN_ARGS.iter().map(ToString::to_string).collect(),
            Path::Veth | Path::Vxlan => Vec::new(),
        }
    }
}

impl FromStr for EndKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "nodes" => Ok(Self::Nodes),
            "pods" => Ok(Self::Pods),
            _ => Err(format!("expected nodes or pods, found {text}")),
        }
    }
}

impl EndKind {
    /// What it is, for people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Nodes => "node to node",
            Self::Pods => "pod to pod",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_a_lab_of_its_own() {
        let plan = ArenaPlan { felt_args: vec!["--spin".to_owned()], ..ArenaPlan::new("felt".into()) };
        let labs: Vec<LabPlan> = Path::USUAL.iter().map(|path| plan.lab(*path).unwrap()).collect();
        assert!(labs.iter().all(|lab| lab.check().is_ok() && lab.link == Link::Direct && lab.pods_per_node == 0));
        let names: Vec<String> = labs.iter().map(|lab| lab.name.to_string()).collect();
        assert_eq!(names, ["felt-bench-veth", "felt-bench-vxlan", "felt-bench-felt", "felt-bench-felt-plain"]);
        assert_eq!(
            [&labs[2].run_args, &labs[3].run_args].map(|args| args.join(" ")),
            ["--spin".to_owned(), PLAIN_ARGS.join(" ")]
        );
        let with_pods = ArenaPlan { ends: EndKind::Pods, ..plan.clone() };
        assert_eq!(with_pods.lab(Path::Veth).unwrap().pods_per_node, 1);
        let policy = with_pods.lab(Path::FeltPolicy).unwrap();
        assert!(policy.check().is_ok() && policy.policy.is_some() && policy.name.as_str() == "felt-bench-felt-policy");
        assert_eq!(
            LabPlan { policy: None, name: with_pods.lab_name(Path::Felt).unwrap(), ..policy },
            with_pods.lab(Path::Felt).unwrap()
        );
        assert!(plan.lab(Path::FeltPolicy).unwrap_err().to_string().contains("needs pods"));
        assert!(ArenaPlan { name: "No".to_owned(), ..plan }.lab(Path::Veth).is_err());
    }
}
