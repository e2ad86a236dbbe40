//! The flags about a Kubernetes cluster, and what they mean.

use std::path::PathBuf;

use clap::Args;

use super::Failure;
use super::go_values::boolean;
use crate::control::kube::KubeAccess;
use crate::control::registry::kube::{AnnotationPrefix, KubeChoice, NodeIdentity};

/// A Kubernetes cluster.
#[derive(Debug, Args)]
pub struct KubeArgs {
    /// Take the lease from the Kubernetes API instead of etcd: subnets are podCIDRs, and nodes publish in annotations
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "false", hide_default_value = true, value_parser = boolean, action = clap::ArgAction::Set)]
    pub kube_subnet_mgr: bool,
    /// URL of the Kubernetes API server, in the place of the one that --kubeconfig-file names
    #[arg(long, value_name = "URL")]
    pub kube_api_url: Option<String>,
    /// Kubeconfig file; with neither this nor --kube-api-url, the API is that of the cluster in which this is a pod
    #[arg(long, value_name = "FILE")]
    pub kubeconfig_file: Option<PathBuf>,
    /// What the names of the annotations begin with: a domain, and maybe a slash and a word
    #[arg(long, value_name = "PREFIX", default_value = "flannel.alpha.coreos.com")]
    pub kube_annotation_prefix: AnnotationPrefix,
    /// File with the network config, where subnets come from Kubernetes
    #[arg(long, value_name = "FILE", default_value = "/etc/kube-flannel/net-conf.json")]
    pub net_config_path: PathBuf,
    /// Set the node's condition NetworkUnavailable to False once the network is up
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(default_value = "true", value_parser = boolean, action = clap::ArgAction::Set)]
    pub set_node_network_unavailable: bool,
}

/// The way to the API.
pub fn access(args: &KubeArgs) -> KubeAccess {
    let given = |text: &String| !text.is_empty();
    KubeAccess {
        api_url: args.kube_api_url.clone().filter(given),
        kubeconfig: args.kubeconfig_file.clone().filter(|path| !path.as_os_str().is_empty()),
    }
}

/// The cluster as registry, if it is to be that. `variable` looks into the environment.
pub fn choice(args: KubeArgs, variable: impl Fn(&str) -> Option<String>) -> Option<KubeChoice> {
    args.kube_subnet_mgr.then(|| KubeChoice {
        access: access(&args),
        prefix: args.kube_annotation_prefix,
        net_config: args.net_config_path,
        node: identity(variable),
        set_condition: args.set_node_network_unavailable,
    })
}

/// # Errors
/// When a node of the cluster is to run that does not know its name.
pub fn check_node(choice: &KubeChoice) -> Result<(), Failure> {
    if choice.node == NodeIdentity::Unknown {
        let why = "--kube-subnet-mgr needs to know this node's name in the cluster, and the environment does not say; set NODE_NAME, \
                   or POD_NAME and POD_NAMESPACE";
        return Err(Failure::Usage(why.to_owned()));
    }
    Ok(())
}

fn identity(variable: impl Fn(&str) -> Option<String>) -> NodeIdentity {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    match (variable("NODE_NAME"), variable("POD_NAMESPACE"), variable("POD_NAME")) {
        (Some(name), ..) => NodeIdentity::Named(name),
        (None, Some(namespace), Some(name)) => NodeIdentity::OfPod { namespace, name },
        _ => NodeIdentity::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::Command;
    use super::super::parse::parse;
    use super::*;

    fn choice_of(line: &str, variables: &[(&str, &str)]) -> Option<KubeChoice> {
        let args = match parse(format!("felt run{line}").split(' ').map(Into::into), |_| None).unwrap().command {
            Command::Run(args) => args.kube,
            other => panic!("{other:?}"),
        };
        choice(args, |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_cluster_is_the_registry_if_that_is_said() {
        assert!(choice_of(" -kubeconfig-file f -net-config-path=n -kube-annotation-prefix org.com", &[]).is_none());
        let line =
            " -kube-subnet-mgr -kube-api-url=https://h -kubeconfig-file= -kube-annotation-prefix org.com/a -net-config-path n";
        let cluster = choice_of(&format!("{line} -set-node-network-unavailable=false"), &[]).unwrap();
        assert_eq!(cluster.access, KubeAccess { api_url: Some("https://h".into()), kubeconfig: None });
        assert_eq!(
            (cluster.prefix.name("x"), cluster.net_config, cluster.set_condition),
            ("org.com/a-x".into(), "n".into(), false)
        );
        let cluster = choice_of(" -kube-subnet-mgr", &[]).unwrap();
        assert_eq!(cluster.prefix, AnnotationPrefix::default());
        assert_eq!((cluster.net_config.to_str(), cluster.set_condition), (Some("/etc/kube-flannel/net-conf.json"), true));
    }

    #[test]
    fn a_node_is_told_its_name_or_asks_for_its_pod() {
        let pod = [("POD_NAME", "p"), ("POD_NAMESPACE", "s")];
        let of_pod = NodeIdentity::OfPod { namespace: "s".into(), name: "p".into() };
        for (variables, expected) in [
            (&[("NODE_NAME", "n"), pod[0], pod[1]][..], NodeIdentity::Named("n".into())),
            (&[("NODE_NAME", ""), pod[0], pod[1]], of_pod.clone()),
            (&pod, of_pod),
            (&pod[..1], NodeIdentity::Unknown),
            (&[], NodeIdentity::Unknown),
        ] {
            let cluster = choice_of(" -kube-subnet-mgr", variables).unwrap();
            assert_eq!(cluster.node, expected);
            assert_eq!(check_node(&cluster).is_err(), expected == NodeIdentity::Unknown);
        }
    }
}
