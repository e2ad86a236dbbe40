//! The view in force, and which subnet is ours: what the node, the policy task and the workers share.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::options::{Established, PolicyOptions, UntilSynced};
use crate::lease::SubnetKey;
use crate::policy::{Policies, Scope};
use crate::sync::{Publisher, Subscription};

/// What workers judge flows by: published, and replaced as a whole.
#[derive(Clone, Debug)]
pub struct PolicyView {
    /// The answer to each flow's first packet.
    pub policies: Arc<Policies>,
    /// Whether flows are judged again when the version of `policies` has changed.
    pub strict: bool,
    /// Whether multicast passes unasked; if not, it does not pass.
    pub allow_mcast: bool,
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
    /// Grows whenever `scope` changes.
    edition: u64,
    synced: bool,
}

impl Board {
    /// A board for a node with these options, whose host has these addresses. No subnet is ours yet, and nothing known.
    pub(super) fn new(options: &PolicyOptions, host: Vec<IpAddr>) -> Self {
        let scope = Scope { node: Some(options.node_name.clone()), host, unknown_pods: options.unknown_pods, ..Scope::default() };
        let policies = match options.until_synced {
            UntilSynced::Deny => Policies::closed(&scope),
            UntilSynced::Allow => Policies::default(),
        };
        let view = PolicyView {
            policies: Arc::new(policies),
            strict: options.established == Established::Strict,
            allow_mcast: options.allow_mcast,
            synced: false,
        };
        Self {
            views: Publisher::new(view),
            state: Mutex::new(State { scope, edition: 0, synced: false }),
            changed: Notify::new(),
            until_synced: options.until_synced,
        }
    }

    /// This subnet is ours from now on. What is judged there is closed until there is a snapshot that knows of it.
    pub(super) fn set_own(&self, subnet: &SubnetKey) {
        let (own4, own6) = (vec![subnet.v4], subnet.v6.into_iter().collect::<Vec<_>>());
        let mut state = self.state();
        if (&state.scope.own4, &state.scope.own6) == (&own4, &own6) {
            return;
        }
        (state.scope.own4, state.scope.own6) = (own4, own6);
        state.edition += 1;
        self.close(&state);
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
            self.close(&state);
        }
        self.changed.notify_one();
    }

    /// Completes when the scope is another than it was.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whose flows are judged, and the edition of that.
    pub(super) fn scope(&self) -> (Scope, u64) {
        let state = self.state();
        (state.scope.clone(), state.edition)
    }

    /// Puts `policies` in force, compiled by the scope of this edition. Whether they are: not, if the scope is another meanwhile.
    pub(super) fn publish(&self, policies: Arc<Policies>, edition: u64, synced: bool) -> bool {
        let mut state = self.state();
        if state.edition != edition {
            return false;
        }
        state.synced |= synced;
        // With the lock held, so that no older view comes after a newer one.
        self.views.publish(PolicyView { policies, synced, ..self.view() });
        true
    }

    /// The view in force, renewed by looking.
    pub(super) fn subscribe(&self) -> Subscription<PolicyView> {
        self.views.subscribe()
    }

    fn close(&self, state: &State) {
        if state.synced || self.until_synced == UntilSynced::Deny {
            self.views.publish(PolicyView { policies: Arc::new(Policies::closed(&state.scope)), synced: false, ..self.view() });
        }
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
    use crate::net::{FlowKey, Protocol};
    use crate::policy::{Cluster, UnknownPods, Verdict};

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
        SubnetKey::from(text.parse::<crate::net::Prefix4>().unwrap())
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
        let (scope, edition) = board.scope();
        let mut cluster = Cluster::new(Scope { unknown_pods: UnknownPods::Allow, ..scope });
        assert!(board.publish(cluster.compile(), edition, true) && passes(&board, "10.5.1.2"));
        // Compiled by what was so before, and too late.
        board.set_own(&subnet("10.5.2.0/24"));
        assert!(!board.publish(cluster.compile(), edition, true));
        assert!(!passes(&board, "10.5.2.2") && !board.subscribe().refresh().synced);
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
