//! What a desk makes of reports.

use super::super::board::tests::options;
use super::*;
use crate::control::source::SourceNews;
use crate::lease::SubnetKey;
use crate::net::{FlowKey, Protocol};
use crate::policy::Verdict;
use crate::policy::model::{Labels, Namespace, Object, Pod, Policy, PolicyKind, Selector, Subject, Tier};

/// A desk with two sources at a node whose subnet is 10.5.1.0/24.
struct Stand {
    desk: Desk,
    board: Arc<Board>,
    metrics: Arc<Metrics>,
}

impl Stand {
    fn new(until_synced: UntilSynced) -> Self {
        let (options, metrics) = (options(until_synced), Arc::<Metrics>::default());
        let board = Arc::new(Board::new(&options, Vec::new()));
        board.set_own(&SubnetKey::from("10.5.1.0/24".parse::<crate::net::Prefix4>().unwrap()));
        let names = vec!["files".to_owned(), "registry".to_owned()];
        Self { desk: Desk::new(&options, names, Arc::clone(&board), Arc::clone(&metrics)), board, metrics }
    }

    fn hear(&mut self, source: usize, news: SourceNews) {
        self.desk.take(source, SourceReport { news, complaints: Vec::new() });
        self.work();
    }

    fn work(&mut self) {
        while let Some(work) = self.desk.work() {
            self.desk.finish(Some(work.run()));
        }
    }

    /// Whether somebody outside reaches the pod.
    fn passes(&self) -> bool {
        let key = FlowKey::new(Protocol::TCP, ("192.0.2.1".parse().unwrap(), 1), ("10.5.1.2".parse().unwrap(), 80));
        self.board.subscribe().refresh().policies.verdict(&key) == Verdict::Allowed
    }
}

fn pod() -> Object {
    Object::Pod(Pod {
        namespace: "default".into(),
        name: "p".into(),
        uid: String::new(),
        labels: Labels::new(),
        addresses: vec!["10.5.1.2".parse().unwrap()],
        ports: Vec::new(),
        node: "n1".into(),
        host_network: false,
        finished: false,
        running: true,
    })
}

fn deny() -> Object {
    Object::Policy(Policy {
        kind: PolicyKind::NetworkPolicy,
        namespace: "default".into(),
        name: "deny".into(),
        tier: Tier::NetworkPolicy,
        priority: 0,
        subject: Subject::Own(Selector::everything()),
        ingress: Some(Vec::new()),
        egress: None,
    })
}

#[test]
fn pods_are_closed_until_every_source_has_spoken() {
    let mut stand = Stand::new(UntilSynced::Deny);
    stand.work();
    assert!(!stand.passes());
    stand.hear(0, SourceNews::Snapshot(vec![pod()]));
    assert!(!stand.passes() && !stand.metrics.policy.synced.load(Relaxed), "the registry has not spoken");
    stand.hear(1, SourceNews::Snapshot(Vec::new()));
    assert!(stand.passes() && stand.metrics.policy.synced.load(Relaxed));
    assert!(stand.board.subscribe().refresh().synced);
    assert!(stand.desk.work().is_none(), "nothing is compiled without a cause");
    stand.hear(1, SourceNews::Changes(vec![Change::Put(deny())]));
    assert!(!stand.passes());
    stand.hear(1, SourceNews::Snapshot(Vec::new()));
    assert!(stand.passes());
    stand.hear(0, SourceNews::Snapshot(Vec::new()));
    assert!(!stand.passes(), "an unknown pod's address");
}

#[test]
fn until_synced_what_is_known_may_be_all_that_counts() {
    let mut stand = Stand::new(UntilSynced::Allow);
    stand.work();
    assert!(stand.passes());
    stand.hear(0, SourceNews::Changes(vec![Change::Put(pod()), Change::Put(deny())]));
    assert!(!stand.passes(), "what is known counts");
    stand.hear(0, SourceNews::Changes(vec![Change::Delete(deny().id())]));
    stand.hear(0, SourceNews::Changes(vec![Change::Delete(pod().id())]));
    assert!(stand.passes(), "which pods there are is not known yet");
    stand.hear(0, SourceNews::Snapshot(Vec::new()));
    stand.hear(1, SourceNews::Snapshot(Vec::new()));
    assert!(!stand.passes());
}

#[test]
fn a_compilation_that_breaks_down_is_made_good_by_the_next_one() {
    let mut stand = Stand::new(UntilSynced::Deny);
    stand.hear(0, SourceNews::Snapshot(vec![pod()]));
    stand.hear(1, SourceNews::Snapshot(vec![deny()]));
    assert!(!stand.passes());
    stand.desk.take(1, SourceReport { news: SourceNews::Snapshot(Vec::new()), complaints: Vec::new() });
    let _ = stand.desk.work().unwrap();
    stand.desk.finish(None);
    assert!(!stand.passes() && stand.metrics.policy.errors.load(Relaxed) == 1, "as it was");
    let other = Namespace { name: "other".into(), labels: Labels::new() };
    stand.hear(0, SourceNews::Changes(vec![Change::Put(Object::Namespace(other))]));
    assert!(stand.passes());
}

#[test]
fn remarks_are_said_once_and_errors_each_time() {
    let mut stand = Stand::new(UntilSynced::Deny);
    let complaints = vec![Complaint::remark("a, line 1", "odd"), Complaint::error("b", "bad")];
    let moved = vec![Complaint::remark("a, line 2", "odd"), Complaint::error("b", "bad")];
    for complaints in [complaints, moved] {
        stand.desk.take(0, SourceReport { news: SourceNews::none(), complaints });
    }
    let policy = &stand.metrics.policy;
    assert_eq!((policy.remarks.load(Relaxed), policy.errors.load(Relaxed)), (1, 2));
    let both = |source| (source, SourceNews::Snapshot(vec![pod()]));
    for (source, news) in [both(1), both(0), (1, SourceNews::Changes(vec![Change::Put(deny())]))] {
        stand.hear(source, news);
    }
    let mut files = pod();
    if let Object::Pod(pod) = &mut files {
        pod.name = "q".into();
    }
    stand.hear(0, SourceNews::Changes(vec![Change::Put(files.clone())]));
    stand.hear(1, SourceNews::Changes(vec![Change::Put(files)]));
    assert_eq!(stand.metrics.policy.remarks.load(Relaxed), 2, "one object in two sources");
}

#[test]
fn a_pod_with_our_address_and_another_node_is_spoken_of_once() {
    let mut stand = Stand::new(UntilSynced::Deny);
    let Object::Pod(pod) = pod() else { unreachable!() };
    let on = |name: &str, node: &str, address: &str| {
        Object::Pod(Pod { name: name.into(), node: node.into(), addresses: vec![address.parse().unwrap()], ..pod.clone() })
    };
    let here = [on("a", "n1", "10.5.1.2"), on("b", "", "10.5.1.3"), on("c", "n2", "10.5.2.4")];
    stand.hear(0, SourceNews::Snapshot(here.to_vec()));
    assert_eq!(stand.metrics.policy.remarks.load(Relaxed), 0);
    for _ in 0..2 {
        stand.hear(0, SourceNews::Changes(vec![Change::Put(on("d", "N1", "10.5.1.5"))]));
    }
    assert_eq!(stand.metrics.policy.remarks.load(Relaxed), 1);
    // What was another node's pod has our address by our new subnet.
    stand.board.set_own(&SubnetKey::from("10.5.2.0/24".parse::<crate::net::Prefix4>().unwrap()));
    stand.work();
    assert_eq!(stand.metrics.policy.remarks.load(Relaxed), 2);
}
