//! The act of policy: everything refused, one thing allowed, all of it lifted, by manifests that come and go as files.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Stage;
use super::claims::{PATIENCE, SILENCE, claim, pod_of, reaches, require_reach};
use super::figures::time;
use crate::lab::probe::{Door, ping};
use crate::lab::{Interrupt, Lab, LabError, NAMESPACE, Place};

/// The port of the server that one client is let in by; pods name it `web`.
const WEB: u16 = 80;
/// A port that nobody is let in by.
const OTHER: u16 = 8080;
/// How long a change may take until it is in force, on a busy machine.
const IN_FORCE: Duration = Duration::from_secs(5);
/// How long one question may go unanswered while a change is awaited.
const GLANCE: Duration = Duration::from_millis(150);
/// The nodes whose pods are asked; with more, these stand for the others.
const NODES: u16 = 3;
/// How a daemon's log tells of a refused flow.
const REFUSED: &str = "flow refused";
/// The policy that denies.
const DENY: &str = "default-deny";
const DENY_FILE: &str = "demo-deny.yaml";
const ALLOW_FILE: &str = "demo-allow.yaml";

/// Plays it.
pub(super) fn act(lab: &Lab, stage: &mut Stage<'_>, interrupt: &Interrupt) -> Result<(), LabError> {
    let play = Play::new(lab, interrupt)?;
    stage.act("Policy is enforced, pod by pod, by the daemons themselves");
    play.deny(stage)?;
    play.allow(stage)?;
    play.lift(stage)
}

/// Who plays, and what is open at the server.
struct Play<'a> {
    lab: &'a Lab,
    interrupt: &'a Interrupt,
    client: Place,
    server: Place,
    /// Somebody else who asks the server, from across the tunnel too; not in the smallest lab.
    stranger: Option<Place>,
    web: Door,
    other: Door,
}

impl<'a> Play<'a> {
    fn new(lab: &'a Lab, interrupt: &'a Interrupt) -> Result<Self, LabError> {
        let (client, server) = (pod_of(1), pod_of(2));
        let stranger = lab.pods().filter(|pod| *pod != client && !matches!(pod, Place::Pod { node: 2, .. })).last();
        let (netns, address) = (lab.netns(server)?, lab.address(server)?);
        let (web, other) = (Door::open(&netns, address, WEB)?, Door::open(&netns, address, OTHER)?);
        Ok(Self { lab, interrupt, client, server, stranger, web, other })
    }

    fn deny(&self, stage: &mut Stage<'_>) -> Result<(), LabError> {
        let Self { client, server, .. } = self;
        for door in [&self.web, &self.other] {
            if !self.enters(*client, door, PATIENCE)? {
                return Err(claim(format!("{client} cannot connect to {server} though no policy is there")));
            }
        }
        let logs = self.logs();
        stage.doing(&format!("a policy is written: nothing gets into any pod of namespace {NAMESPACE}"));
        let begin = Instant::now();
        self.lab.put_manifest(DENY_FILE, &[default_deny()])?;
        let took = self.until(begin, "the deny", || Ok(!self.enters(*client, &self.web, GLANCE)?))?;
        stage.done(&format!("a policy that lets nothing into any pod of namespace {NAMESPACE} is in force after {}", time(took)));
        stage.doing("listening for answers");
        self.require_closed(*client, &self.web, WEB)?;
        self.require_closed(*client, &self.other, OTHER)?;
        let pairs = self.pairs();
        for (from, to) in &pairs {
            self.until(begin, "the deny", || self.is_silent(*from, *to, GLANCE))?;
            if reaches(self.lab, *from, *to, SILENCE, self.interrupt)? {
                return Err(claim(format!("{to} answers {from} though policy forbids it")));
            }
        }
        stage.done(&format!("{client} cannot connect to {server}, and none of {} pings is answered", pairs.len()));
        stage.doing("reading the log of the node");
        let server_names = [server.to_string(), self.lab.address(*server)?.to_string()];
        let line = self.interrupt.wait(PATIENCE, || Ok(refusal(&logs, &server_names)))?;
        let (node, line) = line.ok_or_else(|| claim(format!("no daemon logged a `{REFUSED}` to {server} by {DENY}")))?;
        stage.done(&format!("{node} says why in its log:"));
        stage.note(&line);
        Ok(())
    }

    fn allow(&self, stage: &mut Stage<'_>) -> Result<(), LabError> {
        let Self { client, server, .. } = self;
        stage.doing(&format!("another policy is written: {client} may connect to port web of {server}"));
        let begin = Instant::now();
        self.lab.put_manifest(ALLOW_FILE, &[let_in(*client, *server)])?;
        let took = self.until(begin, "the allow", || self.enters(*client, &self.web, GLANCE))?;
        let after = time(took);
        stage.done(&format!("a second one allows {client} to connect to port web of {server}: it does, after {after}"));
        stage.doing("trying what is not allowed");
        self.require_closed(*client, &self.other, OTHER)?;
        let stranger = match self.stranger {
            Some(stranger) => {
                self.require_closed(stranger, &self.web, WEB)?;
                format!(", {stranger} not to {WEB}")
            }
            None => String::new(),
        };
        if !self.is_silent(*client, *server, SILENCE)? {
            return Err(claim(format!("{server} answers a ping of {client}, which no policy allows")));
        }
        stage.done(&format!("and nothing else: {client} gets to port {WEB} and not to {OTHER}{stranger}, no ping is answered"));
        Ok(())
    }

    fn lift(&self, stage: &mut Stage<'_>) -> Result<(), LabError> {
        let Self { client, server, .. } = self;
        stage.doing("both are removed");
        let begin = Instant::now();
        self.lab.remove_manifest(ALLOW_FILE)?;
        self.lab.remove_manifest(DENY_FILE)?;
        let took = self.until(begin, "the end of both", || self.enters(*client, &self.other, GLANCE))?;
        stage.done(&format!("both are removed: {client} gets to port {OTHER} of {server} again, after {}", time(took)));
        stage.doing("asking everybody");
        let pairs = self.pairs();
        for (from, to) in &pairs {
            require_reach(self.lab, *from, *to, IN_FORCE, self.interrupt)?;
        }
        if let Some(stranger) = self.stranger
            && !self.enters(stranger, &self.web, PATIENCE)?
        {
            return Err(claim(format!("{stranger} still cannot connect to {server}")));
        }
        stage.done(&format!("{} of {} pings are answered, everything is as before", pairs.len(), pairs.len()));
        Ok(())
    }

    /// When `holds` was first asked what then held, since `begin`. To within a [`GLANCE`].
    fn until(&self, begin: Instant, what: &str, mut holds: impl FnMut() -> Result<bool, LabError>) -> Result<Duration, LabError> {
        let patience = IN_FORCE.saturating_sub(begin.elapsed()).max(GLANCE);
        let found = self.interrupt.wait(patience, || {
            let asked = begin.elapsed();
            Ok(holds()?.then_some(asked))
        })?;
        found.ok_or_else(|| claim(format!("{what} is not in force after {}", time(begin.elapsed()))))
    }

    fn enters(&self, from: Place, door: &Door, patience: Duration) -> Result<bool, LabError> {
        Ok(door.admits(&self.lab.netns(from)?, patience)?.is_some())
    }

    fn require_closed(&self, from: Place, door: &Door, port: u16) -> Result<(), LabError> {
        self.interrupt.check()?;
        let enters = self.enters(from, door, SILENCE)?;
        if enters { Err(claim(format!("{from} gets to port {port} of {} against policy", self.server))) } else { Ok(()) }
    }

    fn is_silent(&self, from: Place, to: Place, patience: Duration) -> Result<bool, LabError> {
        Ok(ping(&self.lab.netns(from)?, self.lab.address(to)?, patience, self.interrupt)?.is_none())
    }

    /// Pods of different nodes, each with each, in both directions.
    fn pairs(&self) -> Vec<(Place, Place)> {
        let nodes = 1..=self.lab.plan().nodes.min(NODES);
        nodes
            .clone()
            .flat_map(|from| nodes.clone().map(move |to| (pod_of(from), pod_of(to))))
            .filter(|(from, to)| from != to)
            .collect()
    }

    /// The logs of all nodes, and how long they are now.
    fn logs(&self) -> Vec<(Place, PathBuf, usize)> {
        let length = |log: &PathBuf| fs::read(log).map_or(0, |bytes| bytes.len());
        self.lab.nodes().map(|node| (node.place(), node.log())).map(|(place, log)| (place, log.clone(), length(&log))).collect()
    }
}

/// The first refusal of a flow to one of these names or addresses, by the policy that denies, that was logged since.
fn refusal(logs: &[(Place, PathBuf, usize)], names: &[String]) -> Option<(Place, String)> {
    logs.iter().find_map(|(place, log, from)| {
        let bytes = fs::read(log).ok()?;
        let text = String::from_utf8_lossy(bytes.get(*from..)?).into_owned();
        text.lines().find_map(|line| told_refusal(line, names)).map(|line| (*place, line))
    })
}

fn told_refusal(line: &str, names: &[String]) -> Option<String> {
    let told = line.get(line.find(REFUSED)?..)?;
    let (_, to) = told.split_once(" to=")?;
    (names.iter().any(|name| to.contains(name.as_str())) && to.contains(DENY)).then(|| told.to_owned())
}

fn default_deny() -> Value {
    policy(DENY, &json!({ "podSelector": {}, "policyTypes": ["Ingress"] }))
}

fn let_in(client: Place, server: Place) -> Value {
    let app = |place: Place| json!({ "matchLabels": { "app": place.to_string() } });
    policy(
        "let-client-in",
        &json!({
            "podSelector": app(server),
            "policyTypes": ["Ingress"],
            "ingress": [{ "from": [{ "podSelector": app(client) }], "ports": [{ "protocol": "TCP", "port": "web" }] }],
        }),
    )
}

fn policy(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::lab::LabPlan;
    use crate::net::{FlowKey, Protocol};
    use crate::policy::manifest::{self, Read};
    use crate::policy::{Change, Cluster, Scope, Verdict};

    #[test]
    fn a_refusal_is_told_from_where_it_speaks_of_it() {
        let names = ["node2-pod1".to_owned(), "10.99.7.2".to_owned()];
        let line = "2026-01-01T00:00:00Z  WARN flow refused from=\"node1-pod1\" to=\"10.99.7.2:80\" by=\"lab/default-deny\"";
        let told = "flow refused from=\"node1-pod1\" to=\"10.99.7.2:80\" by=\"lab/default-deny\"";
        assert_eq!(told_refusal(line, &names).unwrap(), told);
        for other in [
            "flow refused from=node2-pod1 to=node3-pod1 by=default-deny",
            "flow refused from=node1-pod1 to=node2-pod1 by=unknown pod",
            "node2-pod1 is known",
            "10.99.7.2: then flow refused",
            "",
        ] {
            assert_eq!(told_refusal(other, &names), None, "{other}");
        }
    }

    #[test]
    fn the_policies_mean_what_they_are_said_to() {
        let plan = LabPlan::new("felt".into());
        let address = |node| Ipv4Addr::new(10, 99, node, 2);
        let pods = [1, 2, 3].map(|node| (pod_of(node.into()), address(node)));
        // Which of these get in: the client by port web, by another, a stranger by port web.
        let admitted = |policies: &[Value]| {
            let mut cluster = Cluster::new(Scope::default());
            for object in plan.objects(pods).iter().chain(policies).flat_map(manifest::read) {
                match object.unwrap() {
                    Read::Object { object, remarks } if remarks.is_empty() => cluster.apply(Change::Put(object)),
                    other => panic!("{other:?}"),
                }
            }
            let policies = cluster.compile();
            [(1, WEB), (1, OTHER), (3, WEB)].map(|(from, port)| {
                let key = FlowKey::new(Protocol::TCP, (address(from).into(), 40_000), (address(2).into(), port));
                policies.verdict(&key) == Verdict::Allowed
            })
        };
        assert_eq!(admitted(&[]), [true; 3]);
        assert_eq!(admitted(&[default_deny()]), [false; 3]);
        assert_eq!(admitted(&[default_deny(), let_in(pod_of(1), pod_of(2))]), [true, false, false]);
    }
}
