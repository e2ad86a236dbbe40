//! The engine under test, fed with Kubernetes objects and asked for the letters of the fixtures.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use felt::net::{FlowKey, Protocol};
use felt::policy::manifest::{Read, read};
use felt::policy::model::{Object, ObjectId};
use felt::policy::{Change, Cluster, Policies, Refused, Scope, Verdict};
use serde_json::Value;

/// An engine and what it has been told.
pub struct Engine {
    cluster: Cluster,
    known: BTreeMap<ObjectId, Object>,
}

impl Engine {
    /// Knows nothing, judges every pod.
    pub fn new() -> Self {
        Self::of(Scope::default())
    }

    /// Knows nothing, judges by `scope`.
    pub fn of(scope: Scope) -> Self {
        Self { cluster: Cluster::new(scope), known: BTreeMap::new() }
    }

    /// Judges by another scope.
    pub fn set_scope(&mut self, scope: Scope) {
        self.cluster.set_scope(scope);
    }

    /// What leads from what it knows to these objects.
    pub fn changes(&self, objects: &[Value]) -> Vec<Change> {
        let new: BTreeMap<_, _> = objects.iter().map(understood).map(|object| (object.id(), object)).collect();
        let gone = self.known.keys().filter(|id| !new.contains_key(id)).cloned().map(Change::Delete);
        let changed = new.iter().filter(|(id, object)| self.known.get(id) != Some(object));
        gone.chain(changed.map(|(_, object)| Change::Put(object.clone()))).collect()
    }

    /// Tells it.
    pub fn apply(&mut self, change: Change) {
        match &change {
            Change::Put(object) => _ = self.known.insert(object.id(), object.clone()),
            Change::Delete(id) => _ = self.known.remove(id),
        }
        self.cluster.apply(change);
    }

    /// The snapshot of what it knows.
    pub fn compile(&mut self) -> Arc<Policies> {
        self.cluster.compile()
    }
}

/// What the engine says of a flow, and what it says when asked why.
pub fn reasons(engine: &mut Engine, from: IpAddr, to: IpAddr, protocol: &str, port: u16) -> (Refused, Refused) {
    let explanation = engine.cluster.explain(&key(from, to, protocol, port));
    let verdict = match explanation.verdict {
        Verdict::Allowed => Refused::default(),
        Verdict::Refused(refused) => refused,
    };
    (verdict, Refused { egress: explanation.egress.refusal, ingress: explanation.ingress.refusal })
}

/// The object that a manifest is read as.
pub fn understood(manifest: &Value) -> Object {
    match read(manifest).pop() {
        Some(Ok(Read::Object { object, .. })) => object,
        other => panic!("{other:?} of {manifest}"),
    }
}

/// The letter for the first packet of a flow; allowed where neither end is a pod.
pub fn letter(policies: &Policies, from: IpAddr, to: IpAddr, protocol: &str, port: u16) -> char {
    match policies.verdict(&key(from, to, protocol, port)) {
        Verdict::Allowed => '.',
        Verdict::Refused(Refused { egress: None, ingress: Some(_) }) => 'i',
        Verdict::Refused(Refused { egress: Some(_), ingress: None }) => 'e',
        Verdict::Refused(Refused { egress: Some(_), ingress: Some(_) }) => 'b',
        Verdict::Refused(refused) => panic!("{refused:?} by nobody"),
    }
}

fn key(from: IpAddr, to: IpAddr, protocol: &str, port: u16) -> FlowKey {
    let protocol = match protocol {
        "TCP" => Protocol::TCP,
        "UDP" => Protocol::UDP,
        "SCTP" => Protocol::SCTP,
        other => panic!("{other}"),
    };
    FlowKey::new(protocol, (from, 40_000), (to, port))
}
