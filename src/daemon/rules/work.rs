//! One look at the host: what is not as it should be is put right, and said once.

use super::forward::Forward;
use super::ground::{Names, RuleSet};
use super::masquerade::Masquerade;
use super::options::{ForwardRules, HostRulesOptions};
use super::prepared::Prepared;
use super::{blackhole, nft};
use crate::daemon::complaint::Complaint;
use crate::net::Prefix4;
use crate::sys::netfilter;
use crate::sys::netlink::Netlink;

/// What is kept in force.
pub(super) struct Work {
    options: HostRulesOptions,
    names: Names,
    masquerade: Option<Masquerade>,
    forward: Option<Forward>,
    /// What was put there last.
    done: Option<RuleSet>,
    /// A subnet held before, of which a route may be left.
    former: Option<Prefix4>,
    trouble: Trouble,
}

#[derive(Default)]
struct Trouble {
    masquerade: Complaint,
    forward: Complaint,
    blackhole: Complaint,
}

impl Work {
    pub(super) fn new(prepared: Prepared, former: Option<Prefix4>) -> Self {
        let Prepared { options, names, masquerade, forward } = prepared;
        let (done, trouble) = (None, Trouble::default());
        Self { options, names, masquerade, forward, done, former, trouble }
    }

    /// Brings everything in line with `rules`; whether all of it is in force that was demanded.
    pub(super) fn look(&mut self, rules: &RuleSet) -> bool {
        if self.done.as_ref() != Some(rules) {
            self.former = self.done.as_ref().map(|done| done.subnet).or(self.former);
        }
        let in_force = [self.masquerade(rules), self.accept(rules), self.keep_blackhole(rules)];
        self.done = Some(rules.clone());
        in_force.iter().all(|part| *part)
    }

    fn masquerade(&mut self, rules: &RuleSet) -> bool {
        let Some(masquerade) = &mut self.masquerade else {
            if self.done.is_none() {
                drop_leftover(&self.names);
            }
            return true;
        };
        let first = self.done.as_ref() != Some(rules);
        if !first && masquerade.is_there(rules) {
            return true;
        }
        match masquerade.put(rules) {
            Ok(()) => {
                let over = self.trouble.masquerade.is_over();
                if first || over {
                    tracing::info!(network = %rules.network, subnet = %rules.subnet, "masquerading what leaves the overlay");
                } else {
                    tracing::warn!("the masquerade rules had been changed: they are restored");
                }
                true
            }
            Err(error) => {
                if self.trouble.masquerade.is_news(&error) {
                    tracing::error!("what leaves the overlay is not masqueraded: {error}; trying again");
                }
                false
            }
        }
    }

    fn accept(&mut self, rules: &RuleSet) -> bool {
        let Some(forward) = &mut self.forward else { return true };
        if self.done.as_ref().is_some_and(|done| done.network != rules.network) {
            forward.forget();
        }
        match forward.look(rules) {
            Ok(repaired) => {
                if self.trouble.forward.is_over() {
                    tracing::info!("overlay traffic is accepted in the FORWARD chain");
                } else if repaired {
                    tracing::warn!(
                        "the rules that accept overlay traffic in the FORWARD chain had been changed: they are restored"
                    );
                }
                true
            }
            Err(error) => {
                let demanded = self.options.forward == ForwardRules::Demanded;
                if self.trouble.forward.is_news(&error) {
                    if demanded {
                        tracing::error!("{error}");
                    } else {
                        tracing::info!("{error}");
                    }
                }
                !demanded
            }
        }
    }

    fn keep_blackhole(&mut self, rules: &RuleSet) -> bool {
        if !self.options.blackhole {
            return true;
        }
        match Netlink::open().and_then(|netlink| blackhole::look(rules, self.former, &netlink)) {
            Ok(changed) => {
                if changed && !self.trouble.blackhole.is_over() && self.done.as_ref() == Some(rules) {
                    tracing::warn!("the blackhole route of our subnet had been removed: it is restored");
                }
                true
            }
            Err(error) => {
                if self.trouble.blackhole.is_news(&error) {
                    tracing::error!("there is no blackhole route for our subnet: {error}; trying again");
                }
                false
            }
        }
    }
}

/// Removes the table of an earlier run that masqueraded, where this one does not.
fn drop_leftover(names: &Names) {
    let is_left = netfilter::chains().unwrap_or_default().iter().any(|chain| chain.table == names.table);
    if is_left {
        match nft::remove(&names.table) {
            Ok(()) => tracing::info!("masquerade rules of an earlier run are removed"),
            Err(error) => tracing::warn!("masquerade rules of an earlier run stay: {error}"),
        }
    }
}
