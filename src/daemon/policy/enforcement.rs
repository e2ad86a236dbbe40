//! What a worker's thread needs to judge flows.

use std::sync::Arc;

use super::board::PolicyView;
use super::options::{Established, PolicyOptions, PolicyScope};
use crate::flow::{FlowTable, OnChange};
use crate::forward::{Forwarder, Gate, Rules, Scope};
use crate::policy::RefusalQueue;
use crate::sync::Subscription;

/// One thread's part in policy: what it judges by, where it remembers flows and says what it refused.
pub struct Enforcement {
    views: Subscription<PolicyView>,
    flows: Arc<FlowTable>,
    refusals: Arc<RefusalQueue>,
    rules: Rules,
}

impl Enforcement {
    pub(super) fn new(
        views: Subscription<PolicyView>,
        flows: Arc<FlowTable>,
        refusals: Arc<RefusalQueue>,
        options: &PolicyOptions,
    ) -> Self {
        Self { views, flows, refusals, rules: rules(options) }
    }

    /// Puts it into the way of what `forwarder` carries.
    pub(in super::super) fn install(&mut self, forwarder: &mut Forwarder) {
        let view = self.views.refresh();
        let (policies, former, foreign) = (Arc::clone(&view.policies), Arc::clone(&view.former), Arc::clone(&view.foreign));
        let mut gate = Gate::new(self.rules, policies, Arc::clone(&self.flows), Arc::clone(&self.refusals));
        gate.remember(former, foreign);
        forwarder.enforce(Some(gate));
    }

    /// Has `forwarder` go by the newest view. To be called after the node's own snapshot was taken.
    pub(in super::super) fn follow(&mut self, forwarder: &mut Forwarder) {
        if let (Some(view), Some(gate)) = (self.views.newer(), forwarder.gate()) {
            gate.follow(Arc::clone(&view.policies));
            gate.remember(Arc::clone(&view.former), Arc::clone(&view.foreign));
        }
    }
}

fn rules(options: &PolicyOptions) -> Rules {
    Rules {
        on_change: match options.established {
            Established::Strict => OnChange::Strict,
            Established::Keep => OnChange::Keep,
        },
        multicast: options.allow_mcast,
        scope: match options.scope {
            PolicyScope::Overlay => Scope::Overlay,
            PolicyScope::Node => Scope::Node,
        },
    }
}
