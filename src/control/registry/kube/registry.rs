//! The registry. What it stores are annotations of node objects; subnets are given by the cluster.

use std::net::Ipv4Addr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::config_file::ConfigFile;
use super::node::{Node, lease};
use super::nodes::Nodes;
use super::published::annotate;
use super::records::Records;
use super::upkeep::OwnNode;
use super::{AnnotationPrefix, KubeChoice, NodeIdentity, watch};
use crate::control::contact::Contact;
use crate::control::kube::{KubeAccessError, KubeFailure};
use crate::control::registry::{AcquireRequest, Registry, RegistryAdmin, RegistryError, Renewal, Reservation};
use crate::lease::{Lease, LeaseAttrs, NetworkConfig, SubnetKey, Update};

/// A Kubernetes cluster as registry.
pub struct KubeRegistry {
    nodes: Nodes,
    prefix: AnnotationPrefix,
    config: ConfigFile,
    identity: NodeIdentity,
    own: Arc<OwnNode>,
    contact: Arc<Contact>,
}

impl KubeRegistry {
    /// The cluster chosen; no contact is made. Must be called within a runtime.
    ///
    /// # Errors
    /// When the way there makes no sense.
    pub fn new(choice: &KubeChoice) -> Result<Self, KubeAccessError> {
        let nodes = Nodes::new(choice.access.api()?);
        let contact = Contact::new(nodes.describe());
        let own = Arc::new(OwnNode::new(choice.prefix.clone(), choice.set_condition));
        Ok(Self {
            nodes,
            prefix: choice.prefix.clone(),
            config: ConfigFile::new(choice.net_config.clone()),
            identity: choice.node.clone(),
            own,
            contact,
        })
    }

    /// Our node's name; a pod asks for it once.
    async fn name(&self) -> Result<&str, RegistryError> {
        if let Some(name) = self.own.name() {
            return Ok(name);
        }
        let name = match &self.identity {
            NodeIdentity::Named(name) => name.clone(),
            NodeIdentity::OfPod { namespace, name } => {
                let what = format!("pod {namespace}/{name}");
                let node = self.nodes.node_of_pod(namespace, name).await.map_err(|failure| self.nodes.error(&what, failure))?;
                node.ok_or_else(|| self.refused(format!("{what} runs on no node yet")))?
            }
            NodeIdentity::Unknown => {
                return Err(RegistryError::Unsupported(
                    "this node's name in the cluster is not known; set NODE_NAME, or POD_NAME and POD_NAMESPACE".into(),
                ));
            }
        };
        Ok(self.own.set_name(name))
    }

    /// Our node; `None` if there is no such object.
    async fn node(&self) -> Result<Option<Node>, RegistryError> {
        let name = self.name().await?;
        match self.nodes.node(name).await {
            Ok(node) => Ok(Some(node)),
            Err(KubeFailure::Missing) => Ok(None),
            Err(failure) => Err(self.nodes.error(&format!("node {name}"), failure)),
        }
    }

    /// Has our node say `attrs`, and us hold its subnet.
    async fn publish(&self, node: Node, subnet: SubnetKey, attrs: &LeaseAttrs) -> Result<Lease, RegistryError> {
        let name = self.name().await?;
        let node = match annotate(&node, &self.prefix, attrs) {
            None => node,
            Some(patch) => {
                let patched = self.nodes.patch(name, patch).await;
                patched.map_err(|failure| self.nodes.error(&format!("annotate node {name}"), failure))?
            }
        };
        self.own.hold(node, attrs.clone());
        Ok(lease(subnet, attrs.clone()))
    }

    /// # Errors
    /// When the network config has no room for `subnet`.
    async fn check(&self, name: &str, subnet: &SubnetKey) -> Result<(), RegistryError> {
        let config = NetworkConfig::parse(&self.config.read().await?);
        let config = config.map_err(|error| RegistryError::BadConfig(error.to_string()))?;
        match config.ipv4 {
            Some(range) if !range.network.covers(&subnet.v4) => Err(RegistryError::BadConfig(format!(
                "podCIDR {} of node {name} lies outside the network {}; make `Network` the cluster's pod network (--cluster-cidr)",
                subnet.v4, range.network
            ))),
            _ => Ok(()),
        }
    }

    fn refused(&self, reason: String) -> RegistryError {
        RegistryError::Refused { registry: self.nodes.describe(), reason }
    }
}

#[async_trait]
impl Registry for KubeRegistry {
    fn describe(&self) -> String {
        format!("{}, annotations {}*", self.nodes.describe(), self.prefix)
    }

    async fn config(&self) -> Result<String, RegistryError> {
        self.config.read().await
    }

    async fn watch_config(&self) -> mpsc::Receiver<String> {
        self.config.clone().follow()
    }

    fn cuts_subnets(&self) -> bool {
        false
    }

    async fn wanted_address(&self) -> Result<Option<Ipv4Addr>, RegistryError> {
        let name = self.name().await?;
        let node = self.node().await?.ok_or_else(|| self.refused(format!("there is no node {name}")))?;
        node.wanted_address(&self.prefix).map_err(|error| self.refused(format!("node {name}: {error}")))
    }

    async fn acquire(&self, request: &AcquireRequest) -> Result<Lease, RegistryError> {
        let name = self.name().await?;
        let node = self.node().await?.ok_or_else(|| self.refused(format!("there is no node {name}")))?;
        let subnet = node.subnet().map_err(|error| self.refused(format!("node {name}: {error}")))?;
        self.check(name, &subnet).await?;
        self.publish(node, subnet, &request.attrs).await
    }

    async fn renew(&self, lease: &Lease, attrs: &LeaseAttrs) -> Result<Renewal, RegistryError> {
        let node = self.node().await?.filter(|node| node.subnet().is_ok_and(|subnet| subnet == lease.subnet));
        let Some(node) = node else {
            self.own.let_go();
            return Ok(Renewal::Lost);
        };
        Ok(Renewal::Renewed(self.publish(node, lease.subnet, attrs).await?))
    }

    async fn revoke(&self, _: &SubnetKey) -> Result<(), RegistryError> {
        Err(RegistryError::Unsupported("in a Kubernetes cluster a lease goes with its node; use `kubectl delete node`".into()))
    }

    async fn watch_leases(&self) -> mpsc::Receiver<Update> {
        watch::leases(self.nodes.clone(), Arc::clone(&self.own), self.prefix.clone(), self.contact.join())
    }

    fn network_is_up(&self) {
        self.own.up();
    }
}

#[async_trait]
impl RegistryAdmin for KubeRegistry {
    async fn put_config(&self, _: &str) -> Result<(), RegistryError> {
        Err(RegistryError::Unsupported(
            "the network config of a Kubernetes cluster is a file on each node; change the ConfigMap that is mounted there"
                .into(),
        ))
    }

    async fn leases(&self) -> Result<Vec<Lease>, RegistryError> {
        let listed = self.nodes.list().await.map_err(|failure| self.nodes.error("nodes", failure))?;
        let mut records = Records::new(self.prefix.clone());
        records.replace(&listed.nodes, None);
        Ok(records.leases())
    }

    async fn lease(&self, subnet: &SubnetKey) -> Result<Option<Lease>, RegistryError> {
        Ok(self.leases().await?.into_iter().find(|lease| lease.subnet == *subnet))
    }

    async fn reserve(&self, _: &Reservation) -> Result<(), RegistryError> {
        Err(no_reservations())
    }

    async fn unreserve(&self, _: &SubnetKey) -> Result<bool, RegistryError> {
        Err(no_reservations())
    }

    async fn reservations(&self) -> Result<Vec<Reservation>, RegistryError> {
        Err(no_reservations())
    }
}

fn no_reservations() -> RegistryError {
    let why = "a Kubernetes cluster keeps no reservations: its controller manager gives subnets to nodes, who keep them";
    RegistryError::Unsupported(why.into())
}
