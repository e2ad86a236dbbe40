//! The view in force, and which subnet is ours: what the node, the policy task and the workers share.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::options::{Established, PolicyOptions, UntilSynced};
use crate::lease::SubnetKey;
use crate::net::{Prefix4, Prefix6};
use crate::policy::{Policies, Scope};
use crate::sync::{Publisher, Retired, Subscription};

/// What workers judge flows by: published, and replaced as a whole.
#[derive(Clone, Debug)]
pub struct PolicyView {
    /// The answer to each flow's first packet.
    pub policies: Arc<Policies>,
    /// Whether flows are judged again when the version of `policies` has changed.
    pub strict: bool,
    /// Whether multicast passes unasked; if not, it does not pass.
    pub allow_mcast: bool,
    /// Subnets that were ours, of which pods may still have addresses.
    pub former: Arc<[Prefix4]>,
    /// Those of them that `policies` take for another node's.
    pub foreign: Arc<[Prefix4]>,
    /// Whether `policies` are those of every source, rather than what holds until these are known.
    pub synced: bool,
}

/// Where views are pinned up.
pub(super) struct Board {
    views: Publisher<PolicyView>,
    state: Mutex<State>,
    changed: Notify,
    until_synced: UntilSynced,
}

struct State {
    scope: Scope,
    own4: Option<Prefix4>,
    /// Former subnets that are nobody's now.
    unleased: Vec<Prefix4>,
    /// Grows whenever `scope` changes.
    edition: u64,
    /// Of the policies in force.
    version: u64,
    synced: bool,
    /// Policies that were in force: workers may hold them still, and are not to be the ones who free them.
    retired: Retired<Policies>,
}

/// What policies are to be compiled by.
pub(super) struct Brief {
    /// Whose flows are judged.
    pub(super) scope: Scope,
    /// The edition of that.
    pub(super) edition: u64,
    /// The version in force: what is compiled has to be newer.
    pub(super) version: u64,
}

impl Board {
    /// A board for a node with these options, whose host has these addresses. No subnet is ours yet, and nothing known.
    pub(super) fn new(options: &PolicyOptions, host: Vec<IpAddr>) -> Self {
        let scope = Scope { node: Some(options.node_name.clone()), host, unknown_pods: options.unknown_pods, ..Scope::default() };
        let policies = match options.until_synced {
            UntilSynced::Deny => Policies::closed(&scope, 0),
            UntilSynced::Allow => Policies::default(),
        };
        let view = PolicyView {
            policies: Arc::new(policies),
            strict: options.established == Established::Strict,
            allow_mcast: options.allow_mcast,
            former: Arc::default(),
            foreign: Arc::default(),
            synced: false,
        };
        Self {
            views: Publisher::new(view),
            state: Mutex::new(State {
                scope,
                own4: None,
                unleased: Vec::new(),
                edition: 0,
                version: 0,
                synced: false,
                retired: Retired::default(),
            }),
            changed: Notify::new(),
            until_synced: options.until_synced,
        }
    }

    /// This subnet is ours from now on. What is judged there is closed until there is a snapshot that knows of it.
    pub(super) fn set_own(&self, subnet: &SubnetKey) {
        let mut state = self.state();
        state.own4 = Some(subnet.v4);
        self.own(state, subnet.v6.into_iter().collect());
    }

    /// These subnets were ours; as long as they are `unleased`, by others, they count as ours.
    pub(super) fn set_former(&self, former: Vec<Prefix4>, unleased: Vec<Prefix4>) {
        let mut state = self.state();
        if *self.views.current().former != *former {
            self.views.publish(PolicyView { former: former.into(), ..self.view() });
        }
        state.unleased = unleased;
        let own6 = state.scope.own6.clone();
        self.own(state, own6);
    }

    /// The subnet of IPv4 that is ours, without former ones.
    pub(super) fn own4(&self) -> Option<Prefix4> {
        self.state().own4
    }

    fn own(&self, mut state: MutexGuard<'_, State>, own6: Vec<Prefix6>) {
        let own4: Vec<Prefix4> = state.own4.iter().chain(&state.unleased).copied().collect();
        if (&state.scope.own4, &state.scope.own6) == (&own4, &own6) {
            return;
        }
        // A former one that is nobody's again is shut until there is a snapshot that knows of it: it is foreign by then.
        let former = Arc::clone(&self.views.current().former);
        let is_known = |own: &Prefix4| state.scope.own4.contains(own) || former.contains(own);
        let is_new = !own4.iter().all(is_known) || !own6.iter().all(|own| state.scope.own6.contains(own));
        (state.scope.own4, state.scope.own6) = (own4, own6);
        state.edition += 1;
        // One that is another's now is no reason to close ours.
        if is_new {
            self.close(&mut state);
        }
        self.changed.notify_one();
    }

    /// The host has these addresses from now on.
    pub(super) fn set_host(&self, host: Vec<IpAddr>) {
        let mut state = self.state();
        if state.scope.host == host {
            return;
        }
        state.scope.host = host;
        state.edition += 1;
        // One that the last snapshot does not know of is an unknown pod's there. Only where nothing is known is it told at once.
        if !state.synced {
            self.close(&mut state);
        }
        self.changed.notify_one();
    }

    /// Completes when the scope is another than it was.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What policies are to be compiled by now.
    pub(super) fn brief(&self) -> Brief {
        let state = self.state();
        Brief { scope: state.scope.clone(), edition: state.edition, version: state.version }
    }

    /// Puts `policies` in force, compiled by the brief of this edition. Whether they are: not, if the scope is another meanwhile.
    pub(super) fn publish(&self, policies: Arc<Policies>, edition: u64, synced: bool) -> bool {
        let mut state = self.state();
        if state.edition != edition {
            return false;
        }
        state.synced |= synced;
        self.put_up(&mut state, policies, synced);
        true
    }

    /// Frees policies that were in force before and that nobody holds any more. To be called now and then, by nobody in a hurry.
    pub(super) fn sweep(&self) {
        let unused = self.state().retired.take_unused();
        // Not with the lock held: it may take long.
        drop(unused);
    }

    /// The view in force, renewed by looking.
    pub(super) fn subscribe(&self) -> Subscription<PolicyView> {
        self.views.subscribe()
    }

    /// Closes what is judged, under a version of its own: flows that were allowed under another are judged anew.
    fn close(&self, state: &mut State) {
        if state.synced || self.until_synced == UntilSynced::Deny {
            let policies = Arc::new(Policies::closed(&state.scope, state.version + 1));
            self.put_up(state, policies, false);
        }
    }

    /// Puts `policies` in force, made by the scope of `state`. With the lock held, so that no older view comes after a newer one.
    fn put_up(&self, state: &mut State, policies: Arc<Policies>, synced: bool) {
        state.version = policies.version();
        let before = self.view();
        let foreign = before.former.iter().filter(|subnet| !state.scope.own4.contains(subnet)).copied().collect();
        state.retired.hold(Arc::clone(&before.policies));
        self.views.publish(PolicyView { policies, foreign, synced, ..before });
    }

    fn view(&self) -> PolicyView {
        (*self.views.current()).clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::options::PolicyScope;
    use super::*;
    use crate::flow::{Admission, FlowTable, Inserted, OnChange, Passed, Seed, Tracker};
    use crate::net::{FlowKey, Moment, Protocol};
    use crate::policy::{Cluster, Refused, UnknownPods, Verdict};
    use crate::wire::inspect::Inspected;

    pub(in super::super) fn options(until_synced: UntilSynced) -> PolicyOptions {
        PolicyOptions {
            manifests: Vec::new(),
            from_registry: false,
            scope: PolicyScope::Overlay,
            until_synced,
            unknown_pods: UnknownPods::Refuse,
            established: Established::Strict,
            flows: 1024,
            allow_mcast: true,
            node_name: "n1".into(),
        }
    }

    fn subnet(text: &str) -> SubnetKey {
        SubnetKey::from(text.parse::<Prefix4>().unwrap())
    }

    fn passes(board: &Board, to: &str) -> bool {
        let key = FlowKey::new(Protocol::TCP, ("192.0.2.1".parse().unwrap(), 1), (to.parse().unwrap(), 80));
        board.subscribe().refresh().policies.verdict(&key) == Verdict::Allowed
    }

    #[test]
    fn a_subnet_is_closed_from_the_moment_it_is_ours() {
        let board = Board::new(&options(UntilSynced::Deny), Vec::new());
        assert!(passes(&board, "10.5.1.2"), "nobody's pod as far as we know");
        board.set_own(&subnet("10.5.1.0/24"));
        assert!(!passes(&board, "10.5.1.2") && passes(&board, "10.5.2.2"));
        let Brief { scope, edition, .. } = board.brief();
        let mut cluster = Cluster::new(Scope { unknown_pods: UnknownPods::Allow, ..scope });
        assert!(board.publish(cluster.compile(), edition, true) && passes(&board, "10.5.1.2"));
        // Compiled by what was so before, and too late.
        board.set_own(&subnet("10.5.2.0/24"));
        assert!(!board.publish(cluster.compile(), edition, true));
        assert!(!passes(&board, "10.5.2.2") && !board.subscribe().refresh().synced);
    }

    /// Whether a flow that was let through goes on, and whether it is judged again: what a worker's gate makes of the view.
    fn goes_on(board: &Board, tracker: &mut Tracker, key: &FlowKey) -> Admission<Refused> {
        let policies = Arc::clone(&board.subscribe().refresh().policies);
        let inspected = Inspected::Flow { key: *key, tcp: None, first_fragment: None };
        tracker.admit(Moment::ZERO, &inspected, policies.version(), |key| match policies.verdict(key) {
            Verdict::Allowed => Ok(()),
            Verdict::Refused(refused) => Err(refused),
        })
    }

    #[test]
    fn closing_ends_flows_that_were_let_through_before() {
        let flows = Arc::new(FlowTable::new(100, Seed::new([1, 2])).unwrap());
        let mut tracker = Tracker::new(flows, OnChange::Strict);
        let key = FlowKey::new(Protocol::UDP, ("192.0.2.1".parse().unwrap(), 1), ("10.5.1.2".parse().unwrap(), 53));
        let board = Board::new(&options(UntilSynced::Deny), Vec::new());
        let new = Admission::Passed(Passed::New(Inserted::New));
        let (known, rejudged) = (Admission::Passed(Passed::Known), Admission::Passed(Passed::Rejudged));
        let is_cut = |admission| matches!(admission, Admission::Refused { cut: true, .. });
        assert_eq!(goes_on(&board, &mut tracker, &key), new, "nobody's pod");
        board.set_own(&subnet("10.5.1.0/24"));
        assert!(is_cut(goes_on(&board, &mut tracker, &key)), "ours, and closed");

        let mut cluster = Cluster::new(Scope::default());
        let compile = |cluster: &mut Cluster| {
            let Brief { scope, edition, version } = board.brief();
            cluster.set_scope(Scope { unknown_pods: UnknownPods::Allow, ..scope });
            cluster.outdate(version);
            assert!(board.publish(cluster.compile(), edition, true));
        };
        compile(&mut cluster);
        assert_eq!([goes_on(&board, &mut tracker, &key), goes_on(&board, &mut tracker, &key)], [new, known]);
        // There and back again: as it was when the last policies were compiled.
        board.set_own(&subnet("10.5.2.0/24"));
        assert_eq!(goes_on(&board, &mut tracker, &key), rejudged, "nobody's pod any more");
        board.set_own(&subnet("10.5.1.0/24"));
        assert!(is_cut(goes_on(&board, &mut tracker, &key)));
        compile(&mut cluster);
        assert_eq!(goes_on(&board, &mut tracker, &key), new);
    }

    #[test]
    fn policies_are_freed_here_and_by_nobody_else() {
        let board = Board::new(&options(UntilSynced::Deny), Vec::new());
        let mut views = board.subscribe();
        let held = Arc::clone(&views.refresh().policies);
        let probe = Arc::downgrade(&held);
        board.set_own(&subnet("10.5.1.0/24"));
        views.refresh();
        board.sweep();
        drop(held);
        assert!(probe.upgrade().is_some(), "whoever held them last has not freed them");
        board.sweep();
        assert!(probe.upgrade().is_none());
        let in_force = Arc::downgrade(&views.refresh().policies);
        drop(views);
        board.sweep();
        assert!(in_force.upgrade().is_some(), "what is in force stays");
    }

    #[test]
    fn a_former_subnet_is_ours_until_another_node_leases_it() {
        let board = Board::new(&options(UntilSynced::Deny), Vec::new());
        let (old, new): (Prefix4, Prefix4) = ("10.5.1.0/24".parse().unwrap(), "10.5.2.0/24".parse().unwrap());
        board.set_own(&subnet("10.5.1.0/24"));
        board.set_former(vec![old], vec![old]);
        board.set_own(&subnet("10.5.2.0/24"));
        assert!(!passes(&board, "10.5.1.2") && !passes(&board, "10.5.2.2"));
        let Brief { scope, edition, .. } = board.brief();
        assert_eq!(scope.own4, [new, old]);
        assert!(board.publish(Cluster::new(scope).compile(), edition, true));
        assert!(!passes(&board, "10.5.1.2"), "an unknown pod's");

        board.set_former(vec![old], Vec::new());
        let Brief { scope, edition, .. } = board.brief();
        assert_eq!((scope.own4.as_slice(), board.own4()), ([new].as_slice(), Some(new)));
        let mut views = board.subscribe();
        assert!(views.refresh().synced, "nothing of ours is closed by that");
        assert!(board.publish(Cluster::new(scope).compile(), edition, true));
        assert!(passes(&board, "10.5.1.2") && !passes(&board, "10.5.2.2"));
        let view = views.refresh();
        assert_eq!((&*view.former, &*view.foreign), ([old].as_slice(), [old].as_slice()));

        // Nobody's again: nothing else is closed, and it is foreign until policy knows.
        board.set_former(vec![old], vec![old]);
        let Brief { scope, edition, .. } = board.brief();
        assert!(views.refresh().synced && *views.refresh().foreign == [old]);
        assert!(board.publish(Cluster::new(scope).compile(), edition, true));
        assert!(!passes(&board, "10.5.1.2") && views.refresh().foreign.is_empty());
    }

    #[test]
    fn until_synced_may_mean_open() {
        let board = Board::new(&options(UntilSynced::Allow), Vec::new());
        board.set_own(&subnet("10.5.1.0/24"));
        assert!(passes(&board, "10.5.1.2"));
        let mut view = board.subscribe();
        let view = view.refresh();
        assert!(view.strict && view.allow_mcast && !view.synced);
    }
}
