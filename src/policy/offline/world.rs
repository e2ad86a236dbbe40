//! A cluster as files tell of it, and the ends of flows in it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::contest::Contest;
use super::{End, EndKind};
use crate::net::FlowKey;
use crate::policy::model::{Labels, Object, ObjectId, Policy};
use crate::policy::{Change, Cluster, Explanation, Policies, Scope, Verdict};

/// Everything read, compiled: every pod has a say.
#[derive(Debug)]
pub struct World {
    objects: BTreeMap<ObjectId, Object>,
    ends: Vec<End>,
    cluster: Cluster,
    contest: Contest,
    policies: Arc<Policies>,
}

/// A name that names no end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownEnd {
    /// Nothing that was read has this name.
    #[error("there is no {0} in what was read")]
    Absent(String),
    /// It has finished, so it has no address.
    #[error("pod {0} has finished and has no address any more")]
    Finished(String),
    /// It is no way to name an end.
    #[error("expected NAMESPACE/POD, node:NAME, ext:NAME or an address, found `{0}`")]
    Syntax(String),
}

impl World {
    /// Of several objects with one name the last counts. `externals` are names for addresses outside.
    #[must_use]
    pub fn new(objects: impl IntoIterator<Item = Object>, externals: impl IntoIterator<Item = (String, Vec<IpAddr>)>) -> Self {
        let objects: BTreeMap<_, _> = objects.into_iter().map(|object| (object.id(), object)).collect();
        let mut cluster = Cluster::new(Scope::default());
        for object in objects.values() {
            cluster.apply(Change::Put(object.clone()));
        }
        let ends = objects.values().filter_map(|object| match object {
            Object::Pod(pod) => End::of_pod(pod),
            _ => None,
        });
        let nodes = objects.values().filter_map(|object| match object {
            Object::Node(node) => Some(End::of_node(node)),
            _ => None,
        });
        let externals: BTreeMap<_, _> = externals.into_iter().collect();
        let externals = externals.into_iter().map(|(name, addresses)| End { kind: EndKind::External(name), addresses });
        let ends = ends.chain(nodes).chain(externals).collect();
        let policies = cluster.compile();
        Self { contest: Contest::of(&objects), objects, ends, cluster, policies }
    }

    /// A policy that was read.
    #[must_use]
    pub fn policy(&self, id: &ObjectId) -> Option<&Policy> {
        match self.objects.get(id) {
            Some(Object::Policy(policy)) => Some(policy),
            _ => None,
        }
    }

    /// Whether a flow between these two may be.
    pub fn verdict(&mut self, from: &End, to: &End, flow: &FlowKey) -> Verdict {
        match self.contest.cluster(&self.objects, from, to) {
            Some(cluster) => cluster.compile().verdict(flow),
            None => self.policies.verdict(flow),
        }
    }

    /// Why it is judged so.
    pub fn explain(&mut self, from: &End, to: &End, flow: &FlowKey) -> Explanation {
        self.contest.cluster(&self.objects, from, to).unwrap_or(&mut self.cluster).explain(flow)
    }

    /// Addresses that several live pods claim, and who. In a network one of them has it; here each is judged as if it had.
    pub fn contested(&self) -> impl Iterator<Item = (IpAddr, &[ObjectId])> {
        self.contest.claims()
    }

    /// Pods, then nodes, then what is outside, each in the order of their names.
    #[must_use]
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    /// Everything read, in the order of kinds and names.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.values()
    }

    /// The end that somebody wrote. A pod on its host's network is one too here, with its host's addresses.
    ///
    /// # Errors
    /// [`UnknownEnd`], if there is none of that name.
    pub fn end(&self, text: &str) -> Result<End, UnknownEnd> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(self.end_at(address.to_canonical()));
        }
        if let Some(end) = self.ends.iter().find(|end| end.to_string() == text) {
            return Ok(end.clone());
        }
        if let Some(name) = text.strip_prefix("node:") {
            return Err(UnknownEnd::Absent(format!("node {name}")));
        }
        if let Some(name) = text.strip_prefix("ext:") {
            return Err(UnknownEnd::Absent(format!("address named {name}")));
        }
        let Some((namespace, name)) = text.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
        else {
            return Err(UnknownEnd::Syntax(text.to_owned()));
        };
        match self.objects.get(&ObjectId::Pod { namespace: namespace.to_owned(), name: name.to_owned() }) {
            Some(Object::Pod(pod)) if pod.finished => Err(UnknownEnd::Finished(text.to_owned())),
            Some(Object::Pod(pod)) => Ok(self.host_of(&pod.node, &pod.addresses)),
            _ => Err(UnknownEnd::Absent(format!("pod {text}"))),
        }
    }

    /// The pods whose labels, and whose namespace's name and labels, are as asked.
    pub fn pods(&self, mut fits: impl FnMut(&str, &Labels, &Labels) -> bool) -> Vec<End> {
        let none = Labels::new();
        let pods = self.objects.values().filter_map(|object| match object {
            Object::Pod(pod) => Some(pod),
            _ => None,
        });
        let fitting =
            pods.filter(|pod| fits(&pod.namespace, self.namespace_labels(&pod.namespace).unwrap_or(&none), &pod.labels));
        fitting.filter_map(End::of_pod).collect()
    }

    /// Whether anything read is in, or is, this namespace.
    #[must_use]
    pub fn has_namespace(&self, name: &str) -> bool {
        self.namespace_labels(name).is_some() || self.namespaces().contains(name)
    }

    fn namespaces(&self) -> BTreeSet<&str> {
        let of_pods = self.objects.keys().filter_map(|id| match id {
            ObjectId::Pod { namespace, .. } => Some(namespace.as_str()),
            _ => None,
        });
        of_pods.collect()
    }

    fn namespace_labels(&self, name: &str) -> Option<&Labels> {
        match self.objects.get(&ObjectId::Namespace(name.to_owned())) {
            Some(Object::Namespace(namespace)) => Some(&namespace.labels),
            _ => None,
        }
    }

    /// The pod or node that has this address, or the address alone.
    fn end_at(&self, address: IpAddr) -> End {
        let kind = match self.policies.name_of(address) {
            Some(ObjectId::Pod { namespace, name }) => EndKind::Pod { namespace: namespace.clone(), name: name.clone() },
            Some(ObjectId::Node(name)) => EndKind::Node(name.clone()),
            _ => EndKind::Address(address),
        };
        End { kind, addresses: vec![address] }
    }

    /// A pod on its host's network is its host.
    fn host_of(&self, node: &str, addresses: &[IpAddr]) -> End {
        match self.ends.iter().find(|end| matches!(&end.kind, EndKind::Node(name) if name == node)) {
            Some(end) => end.clone(),
            None => End { kind: EndKind::Node(node.to_owned()), addresses: addresses.to_vec() },
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::super::{Letter, Matrix, Probe, Table};
    use super::*;
    use crate::policy::manifest::{Read, read};

    /// A running pod in `shop`, labelled with its name.
    pub(in crate::policy::offline) fn pod(name: &str, address: &str) -> Object {
        object(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": name, "labels": {"app": name}},
                       "spec": {"nodeName": "n1"}, "status": {"phase": "Running", "podIP": address}}),
        )
    }

    fn object(value: &serde_json::Value) -> Object {
        match read(value).pop() {
            Some(Ok(Read::Object { object, remarks })) if remarks.is_empty() => object,
            other => panic!("{other:?}"),
        }
    }

    fn policy() -> Object {
        object(
            &json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"namespace": "shop", "name": "db"},
                       "spec": {"podSelector": {"matchLabels": {"app": "db"}},
                                "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "b"}}}]}]}}),
        )
    }

    #[test]
    fn ends_are_found_by_what_is_written() {
        let world = World::new([pod("a", "10.1.0.1")], [("web".to_owned(), vec!["192.0.2.7".parse().unwrap()])]);
        for (text, name) in [("shop/a", "shop/a"), ("10.1.0.1", "shop/a"), ("::ffff:10.1.0.1", "shop/a"), ("ext:web", "ext:web")]
        {
            assert_eq!(world.end(text).unwrap().to_string(), name, "{text}");
        }
        assert_eq!(world.end("192.0.2.9").unwrap().kind, EndKind::Address("192.0.2.9".parse().unwrap()));
        for text in ["shop/b", "node:n", "ext:x"] {
            assert!(matches!(world.end(text), Err(UnknownEnd::Absent(_))), "{text}");
        }
        for text in ["", "shop", "/a", "shop/"] {
            assert_eq!(world.end(text), Err(UnknownEnd::Syntax(text.to_owned())));
        }
    }

    #[test]
    fn each_of_two_claimants_is_judged_as_if_it_had_the_address() {
        let objects = [pod("a", "10.1.0.1"), pod("b", "10.1.0.1"), pod("db", "10.1.0.2"), policy()];
        let mut world = World::new(objects, []);
        assert_eq!(world.contested().map(|(_, pods)| pods.len()).collect::<Vec<_>>(), [2]);
        let matrix = Matrix::of(&mut world, &[Probe::parse("TCP/80").unwrap()]);
        let rows: Vec<_> = matrix.tables[0].rows.iter().map(|row| Table::letters(row)).collect();
        assert_eq!(rows, ["..i", "...", "..."]);
        let (from, to) = (world.end("shop/b").unwrap(), world.end("shop/db").unwrap());
        let flow = from.flow(&to, matrix.tables[0].probe, matrix.tables[0].family).unwrap();
        assert_eq!(Letter::of(world.explain(&from, &to, &flow).conclusion()), Letter::Allowed);
    }
}
