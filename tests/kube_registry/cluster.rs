//! A cluster: a lab's nodes and pods, an API server in its hub, and daemons that have their leases from there.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use felt::lab::probe::{Pinger, ping};
use felt::lab::{EphemeralLab, HUB_ADDRESS, Interrupt, LabPlan, Place, UPLINK};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::http::{get, metrics};
use crate::kube_support::{FELT, KubeServer};
use crate::lab::{PATIENCE, eventually, node, plan, pod, up};
use crate::manifest;

/// What our annotations begin with.
pub const PREFIX: &str = "flannel.alpha.coreos.com/";

/// How long a daemon may take to get ready.
const READY: Duration = Duration::from_secs(30);

/// A cluster whose nodes are called node1, node2 and so on, with podCIDRs 10.244.1.0/24, 10.244.2.0/24 and so on.
pub struct Cluster {
    // Dropped before the namespaces that they live in.
    pub daemons: Vec<Daemon>,
    pub server: KubeServer,
    pub lab: EphemeralLab,
    directory: TempDir,
}

impl Cluster {
    /// So many nodes, all ready, their pods at their new addresses.
    pub fn up(test: &str, nodes: u16) -> Self {
        let mut cluster = Self::with_objects(test, nodes);
        for number in 1..=nodes {
            cluster.start(number, &[]);
        }
        for number in 1..=nodes {
            cluster.wait_ready(number);
            cluster.lab.node(number).unwrap().attach_pods().unwrap();
        }
        cluster
    }

    /// So many nodes that are known to the API and do not run yet.
    pub fn with_objects(test: &str, nodes: u16) -> Self {
        let cluster = Self::build(test, nodes);
        for number in 1..=nodes {
            cluster.create_node(&format!("node{number}"), &format!("10.244.{number}.0/24"), &json!({}));
        }
        cluster
    }

    /// An API alone.
    pub fn without_nodes(test: &str) -> Self {
        Self::build(test, 1)
    }

    fn build(test: &str, nodes: u16) -> Self {
        let lab = up(LabPlan { config: manifest::text("net-conf.json"), ..plan(test, nodes) });
        // The lab's own registry has served to build it.
        for node in lab.nodes() {
            node.stop().unwrap();
            let _ = fs::remove_file(node.subnet_file());
        }
        lab.registry().stop().unwrap();
        let server = KubeServer::start(&lab.netns(Place::Hub).unwrap(), HUB_ADDRESS);
        manifest::apply(&server);
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("net-conf.json"), manifest::text("net-conf.json")).unwrap();
        Self { daemons: Vec::new(), server, lab, directory }
    }

    /// The file with the network config.
    pub fn net_config(&self) -> PathBuf {
        self.directory.path().join("net-conf.json")
    }

    /// Makes a node object.
    pub fn create_node(&self, name: &str, cidr: &str, annotations: &Value) {
        self.server.create(
            "/api/v1/nodes",
            &json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations},
                "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
            }),
        );
    }

    /// Makes a node object as a flanneld with the udp backend at `address` leaves it.
    pub fn create_flannel(&self, name: &str, cidr: &str, address: &str) {
        let words = [("kube-subnet-manager", "true"), ("backend-type", ""), ("backend-data", "null"), ("public-ip", address)];
        let annotations: Value =
            words.iter().map(|(word, value)| (format!("{PREFIX}{word}"), json!(value))).collect::<serde_json::Map<_, _>>().into();
        self.create_node(name, cidr, &annotations);
    }

    /// The command of the daemon of node `number`, as the manifest has it, with the rights of its service account.
    pub fn command(&self, number: u16, args: &[&str]) -> Command {
        let lab_node = self.lab.node(number).unwrap();
        fs::create_dir_all(lab_node.subnet_file().parent().unwrap()).unwrap();
        let mut command = Command::new(&self.lab.plan().felt);
        command.args(manifest::arguments()).args(["--iface", UPLINK, "--subnet-file"]).arg(lab_node.subnet_file());
        command.arg("--kubeconfig-file").arg(self.server.kubeconfig(FELT)).arg("--net-config-path").arg(self.net_config());
        command.args(args).env("NODE_NAME", format!("node{number}"));
        command
    }

    /// Starts the daemon of node `number` in the background; those of lower numbers have been started.
    pub fn start(&mut self, number: u16, args: &[&str]) {
        let daemon = Daemon::start(&self.lab, &node(&self.lab, number), self.command(number, args));
        assert_eq!(usize::from(number), self.daemons.len() + 1);
        self.daemons.push(daemon);
    }

    /// Waits until node `number` is ready.
    pub fn wait_ready(&self, number: u16) {
        let netns = node(&self.lab, number);
        let ready = || get(&netns, "/readyz").is_ok_and(|answer| answer.status == 200).then_some(());
        let begin = std::time::Instant::now();
        while ready().is_none() {
            assert!(begin.elapsed() < READY, "node {number} is not ready:\n{}", self.log(number));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the daemon of node `number` has said.
    pub fn log(&self, number: u16) -> String {
        self.daemons[usize::from(number) - 1].log()
    }

    /// How many peers node `number` has.
    pub fn peers(&self, number: u16) -> u64 {
        metrics(&node(&self.lab, number)).value("felt_peers")
    }

    /// The annotations of a node that are the network's, without what their names begin with.
    pub fn annotations(&self, name: &str) -> Value {
        let object = self.server.read(&format!("/api/v1/nodes/{name}"));
        let annotations = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let ours = annotations.into_iter().filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?.to_owned(), value)));
        Value::Object(ours.collect())
    }

    /// The underlay address of node `number`.
    pub fn underlay(&self, number: u16) -> Ipv4Addr {
        self.lab.plan().underlay(number)
    }

    /// Pings from node 1's pod to node 2's, which reach each other.
    pub fn pinger(&self, pace: Duration) -> Pinger {
        let address = |number| self.lab.address(Place::Pod { node: number, pod: 1 }).unwrap();
        for (from, to) in [(1, 2), (2, 1)] {
            let reach = || ping(&pod(&self.lab, from), address(to), Duration::from_millis(500), &Interrupt::new()).unwrap();
            eventually("pods reach each other", PATIENCE, reach);
        }
        Pinger::start(&pod(&self.lab, 1), address(2), pace).unwrap()
    }
}
