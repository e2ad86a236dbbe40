//! The leases of all nodes by the nodes' names, and what a change of one node does to the leases.
//!
//! Two nodes with one podCIDR are a fault of the cluster's that must not make leases come and go: the node whose name comes first
//! has it, until it is gone.

use std::collections::BTreeMap;

use super::AnnotationPrefix;
use super::node::Node;
use crate::lease::{Lease, LeaseAttrs, LeaseEvent, SubnetKey};

/// What is known of nodes.
#[derive(Debug)]
pub(super) struct Records {
    prefix: AnnotationPrefix,
    leases: BTreeMap<String, Lease>,
    /// What is wrong with nodes, each told once.
    wrong: BTreeMap<String, String>,
}

/// Our own node, while it holds its lease: whatever its object says meanwhile, this is what it publishes.
pub(super) struct Own<'a> {
    pub(super) name: &'a str,
    pub(super) attrs: &'a LeaseAttrs,
}

impl Records {
    pub(super) fn new(prefix: AnnotationPrefix) -> Self {
        Self { prefix, leases: BTreeMap::new(), wrong: BTreeMap::new() }
    }

    /// All there is from now on.
    pub(super) fn replace(&mut self, nodes: &[Node], own: Option<&Own<'_>>) {
        let leases = nodes.iter().filter_map(|node| Some((node.metadata.name.clone(), self.lease(node, own)?))).collect();
        self.leases = leases;
        self.wrong.retain(|name, _| nodes.iter().any(|node| node.metadata.name == *name));
    }

    /// Takes in a node as it is now; what that changes.
    pub(super) fn put(&mut self, node: &Node, own: Option<&Own<'_>>) -> Vec<LeaseEvent> {
        let lease = self.lease(node, own);
        self.change(&node.metadata.name, lease)
    }

    /// Takes in that a node is gone; what that changes.
    pub(super) fn remove(&mut self, name: &str) -> Vec<LeaseEvent> {
        self.wrong.remove(name);
        self.change(name, None)
    }

    /// Every lease, one for each subnet.
    pub(super) fn leases(&self) -> Vec<Lease> {
        // In the order of names, so the first of a subnet is put last.
        let by_subnet: BTreeMap<_, _> = self.leases.values().rev().map(|lease| (lease.subnet, lease)).collect();
        by_subnet.into_values().cloned().collect()
    }

    fn lease(&mut self, node: &Node, own: Option<&Own<'_>>) -> Option<Lease> {
        let name = &node.metadata.name;
        let lease = match own.filter(|own| own.name == name) {
            Some(own) => node.subnet().map(|subnet| Some(super::node::lease(subnet, own.attrs.clone()))),
            None => node.lease(&self.prefix),
        };
        match lease {
            Ok(lease) => {
                self.wrong.remove(name);
                lease
            }
            Err(error) => {
                let error = error.to_string();
                if self.wrong.get(name) != Some(&error) {
                    tracing::warn!("node {name} has no lease: {error}");
                    self.wrong.insert(name.clone(), error);
                }
                None
            }
        }
    }

    fn change(&mut self, name: &str, lease: Option<Lease>) -> Vec<LeaseEvent> {
        if self.leases.get(name) == lease.as_ref() {
            return Vec::new();
        }
        let mut subnets: Vec<SubnetKey> = lease.iter().chain(self.leases.get(name)).map(|lease| lease.subnet).collect();
        subnets.dedup();
        // What goes is told before what comes, lest they seem to overlap.
        subnets.reverse();
        let before: Vec<_> = subnets.iter().map(|subnet| self.holder(subnet).cloned()).collect();
        match lease {
            Some(lease) => self.leases.insert(name.to_owned(), lease),
            None => self.leases.remove(name),
        };
        let changes = subnets.into_iter().zip(before).filter_map(|(subnet, before)| match (before, self.holder(&subnet)) {
            (before, Some(after)) if before.as_ref() != Some(after) => Some(LeaseEvent::Added(after.clone())),
            (Some(_), None) => Some(LeaseEvent::Removed(subnet)),
            _ => None,
        });
        changes.collect()
    }

    fn holder(&self, subnet: &SubnetKey) -> Option<&Lease> {
        self.leases.values().find(|lease| lease.subnet == *subnet)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::node::tests::node as object;
    use super::*;

    fn node(name: &str, subnet: u8, address: u8) -> Node {
        let address = format!("192.0.2.{address}");
        let annotations = [("kube-subnet-manager", "true"), ("public-ip", address.as_str())];
        object(name, json!({"podCIDR": format!("10.244.{subnet}.0/24")}), &annotations)
    }

    fn records() -> Records {
        Records::new(AnnotationPrefix::default())
    }

    /// Events in few words: subnet and last byte of the address, or a minus.
    fn words(events: Vec<LeaseEvent>) -> Vec<String> {
        let word = |event| match event {
            LeaseEvent::Added(lease) => format!("{}={}", lease.subnet.v4.base().octets()[2], lease.attrs.public_ip.octets()[3]),
            LeaseEvent::Removed(subnet) => format!("{}-", subnet.v4.base().octets()[2]),
        };
        events.into_iter().map(word).collect()
    }

    #[test]
    fn only_differences_are_told() {
        let mut records = records();
        assert_eq!(words(records.put(&node("a", 1, 1), None)), ["1=1"]);
        assert!(records.put(&node("a", 1, 1), None).is_empty(), "a heartbeat");
        assert_eq!(words(records.put(&node("a", 1, 2), None)), ["1=2"], "another address");
        assert_eq!(words(records.put(&node("a", 3, 2), None)), ["1-", "3=2"], "another podCIDR");
        assert_eq!(words(records.put(&object("a", json!({"podCIDR": "10.244.3.0/24"}), &[]), None)), ["3-"], "takes no part");
        assert!(records.remove("a").is_empty());
        records.put(&node("a", 1, 1), None);
        assert_eq!(words(records.remove("a")), ["1-"]);
    }

    #[test]
    fn one_subnet_has_one_holder_whatever_comes_first() {
        for order in [["a", "b"], ["b", "a"]] {
            let mut records = records();
            for name in order {
                records.put(&node(name, 1, if name == "a" { 1 } else { 2 }), None);
            }
            assert_eq!(records.leases().len(), 1);
            assert_eq!(records.leases()[0].attrs.public_ip.octets()[3], 1, "{order:?}");
            assert!(records.put(&node("b", 1, 3), None).is_empty());
            assert_eq!(words(records.remove("a")), ["1=3"]);
            assert_eq!(words(records.remove("b")), ["1-"]);
        }
    }

    #[test]
    fn our_own_node_is_what_it_publishes() {
        let mut records = records();
        let attrs = LeaseAttrs::udp("192.0.2.9".parse().unwrap());
        let own = Some(Own { name: "a", attrs: &attrs });
        records.replace(&[node("a", 1, 1), node("b", 2, 2)], own.as_ref());
        assert_eq!(records.leases().iter().map(|lease| lease.attrs.public_ip.octets()[3]).collect::<Vec<_>>(), [9, 2]);
        assert!(records.put(&object("a", json!({"podCIDR": "10.244.1.0/24"}), &[]), own.as_ref()).is_empty());
        assert_eq!(words(records.put(&node("a", 5, 1), own.as_ref())), ["1-", "5=9"]);
    }

    #[test]
    fn what_is_wrong_is_told_once() {
        let mut records = records();
        let broken = object("a", json!({}), &[("kube-subnet-manager", "true"), ("public-ip", "192.0.2.1")]);
        assert!(records.put(&broken, None).is_empty());
        assert_eq!(records.wrong.len(), 1);
        assert_eq!(words(records.put(&node("a", 1, 1), None)), ["1=1"]);
        assert!(records.wrong.is_empty());
        assert_eq!(words(records.put(&broken, None)), ["1-"]);
        records.replace(&[], None);
        assert!(records.wrong.is_empty());
    }
}
