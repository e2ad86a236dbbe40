//! What policy says about itself: sources, compiling, refused connections. Shown only where a policy source is configured.
//!
//! Two names are weave-npc's, so that its dashboards go on: `weavenpc_blocked_connections_total`, and
//! `weavenpc_policy_enforcement_errors`, a counter that never had the suffix of one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::families::{counter, counters, gauge, gauges_of};
use crate::flow::FlowTable;
use crate::forward::Totals;
use crate::net::{Moment, Protocol};

/// Pairs of protocol and port that are told apart; whoever scans ports must not fill the memory of those who scrape.
const PORTS_TOLD_APART: usize = 1000;

/// What control says of policy; each written by one task, read at a scrape.
#[derive(Debug, Default)]
pub struct PolicyGauges {
    /// Whether there is a policy source. If not, nothing is shown.
    pub configured: AtomicBool,
    /// Whether every source has said what it has.
    pub synced: AtomicBool,
    /// Version of the snapshot in force.
    pub version: AtomicU64,
    /// Snapshots compiled.
    pub compiles: AtomicU64,
    /// Parts of objects that were not understood and fail closed.
    pub remarks: AtomicU64,
    /// Objects and files that could not be read, and snapshots that could not be compiled.
    pub errors: AtomicU64,
    /// Refused flows of which there was no room to speak; counted nowhere else in this list.
    pub refusals_lost: AtomicU64,
    compile_last_us: AtomicU64,
    compile_max_us: AtomicU64,
    flows: OnceLock<Arc<FlowTable>>,
    objects: Mutex<Vec<(&'static str, u64)>>,
    blocked: Mutex<BTreeMap<(Blocked, Port), u64>>,
}

/// Protocols whose refused connections are counted. Source: weave-npc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Blocked {
    Tcp,
    Udp,
}

/// A destination port, or one of those that are not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Port {
    Number(u16),
    Other,
}

impl PolicyGauges {
    /// A snapshot was compiled, which took so long.
    pub fn compiled(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.compiles.fetch_add(1, Relaxed);
        self.compile_last_us.store(us, Relaxed);
        self.compile_max_us.fetch_max(us, Relaxed);
    }

    /// Flows are remembered here.
    pub fn set_flows(&self, flows: Arc<FlowTable>) {
        // Policy is started once.
        let _ = self.flows.set(flows);
    }

    /// So many objects are in force, by kind.
    pub fn set_objects(&self, counts: impl Iterator<Item = (&'static str, u64)>) {
        let mut objects = locked(&self.objects);
        objects.clear();
        objects.extend(counts);
    }

    /// A connection to `port` was refused. Only TCP and UDP are counted.
    pub fn count_blocked(&self, protocol: Protocol, port: u16) {
        let protocol = match protocol {
            Protocol::TCP => Blocked::Tcp,
            Protocol::UDP => Blocked::Udp,
            _ => return,
        };
        let mut blocked = locked(&self.blocked);
        let key = (protocol, Port::Number(port));
        let is_full = blocked.len() >= PORTS_TOLD_APART && !blocked.contains_key(&key);
        *blocked.entry(if is_full { (protocol, Port::Other) } else { key }).or_default() += 1;
    }

    pub(super) fn encode(&self, to: &mut DescriptorEncoder<'_>, totals: &Totals, now: Moment) -> fmt::Result {
        if !self.configured.load(Relaxed) {
            return Ok(());
        }
        let load = |value: &AtomicU64| value.load(Relaxed);
        let synced = u64::from(self.synced.load(Relaxed));
        gauge(to, "felt_policy_synced", "Whether every policy source has said what it has", synced)?;
        let objects = locked(&self.objects).clone();
        gauges_of(to, "felt_policy_objects", "Objects from policy sources, by kind", "kind", objects)?;
        gauge(to, "felt_policy_version", "Version of the policy snapshot in force", load(&self.version))?;
        counter(to, "felt_policy_compiles", "Policy snapshots compiled", load(&self.compiles))?;
        self.encode_compile_times(to)?;
        let remarks = load(&self.remarks);
        counter(to, "felt_policy_remarks", "Parts of policy objects that were not understood and fail closed", remarks)?;
        let errors = load(&self.errors);
        counter(to, "felt_policy_errors", "Policy objects and files that could not be read, and failed compilations", errors)?;
        let lost = load(&self.refusals_lost);
        counter(to, "felt_policy_refusals_untold", "Refused flows neither logged nor counted by port, for want of room", lost)?;
        self.encode_flows(to, totals, now)?;
        self.encode_blocked(to)?;
        let help = "Policy objects and files that could not be read, and failed compilations";
        let errors_of_weave = to.encode_descriptor("weavenpc_policy_enforcement_errors", help, None, MetricType::Unknown)?;
        ConstGauge::new(errors).encode(errors_of_weave)
    }

    fn encode_flows(&self, to: &mut DescriptorEncoder<'_>, totals: &Totals, now: Moment) -> fmt::Result {
        let verdicts = [("allowed", totals.flows_allowed), ("refused", totals.flows_refused)];
        counters(to, "felt_policy_verdicts", "Times policy was asked about a flow, by its answer", "verdict", verdicts)?;
        if let Some(flows) = self.flows.get() {
            gauge(to, "felt_flows", "Flows remembered, about", flows.live(now) as u64)?;
            gauge(to, "felt_flows_room", "Flows that can be remembered", flows.slots() as u64)?;
        }
        let displaced = totals.flows_displaced;
        counter(to, "felt_flows_displaced", "Live flows that gave way to new ones for want of room", displaced)?;
        let unrecorded = totals.flows_unrecorded;
        counter(to, "felt_flows_unrecorded", "Flows allowed without being remembered", unrecorded)?;
        counter(to, "felt_sent_back", "Packets given back to the host to deliver after they were judged", totals.sent_back)
    }

    fn encode_compile_times(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Seconds that compiling a policy snapshot took";
        let mut family = to.encode_descriptor("felt_policy_compile_seconds", help, None, MetricType::Gauge)?;
        for (of, us) in [("last", &self.compile_last_us), ("max", &self.compile_max_us)] {
            let seconds = Duration::from_micros(us.load(Relaxed)).as_secs_f64();
            ConstGauge::new(seconds).encode(family.encode_family(&[("of", of)])?)?;
        }
        Ok(())
    }

    fn encode_blocked(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let blocked = locked(&self.blocked).clone();
        let help = "Connections refused by policy, by protocol and destination port";
        let mut family = to.encode_descriptor("weavenpc_blocked_connections", help, None, MetricType::Counter)?;
        for ((protocol, port), count) in blocked {
            let protocol = match protocol {
                Blocked::Tcp => "tcp",
                Blocked::Udp => "udp",
            };
            let port = match port {
                Port::Number(number) => number.to_string(),
                Port::Other => "other".to_owned(),
            };
            ConstCounter::new(count).encode(family.encode_family(&[("protocol", protocol), ("dport", &port)])?)?;
        }
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Metrics;
    use super::*;
    use crate::flow::Seed;
    use crate::net::Moment;

    #[test]
    fn a_scrape_shows_policy_where_there_is_any() {
        let metrics = Arc::new(Metrics::default());
        let policy = &metrics.policy;
        policy.compiled(Duration::from_millis(20));
        policy.compiled(Duration::from_millis(5));
        policy.set_objects([("Pod", 3), ("NetworkPolicy", 1)].into_iter());
        policy.errors.store(2, Relaxed);
        for port in [53, 53, 80] {
            policy.count_blocked(Protocol::UDP, port);
        }
        policy.count_blocked(Protocol::ICMP, 0);
        let text = metrics.exposition(Moment::ZERO);
        assert!(!text.contains("felt_policy_synced") && !text.contains("weavenpc") && !text.contains("felt_flows"));
        policy.set_flows(Arc::new(FlowTable::new(1000, Seed::new([1, 2])).unwrap()));
        policy.configured.store(true, Relaxed);
        let text = metrics.exposition(Moment::ZERO);
        for line in [
            "felt_policy_synced 0",
            "felt_policy_objects{kind=\"Pod\"} 3",
            "felt_policy_compiles_total 2",
            "felt_policy_verdicts_total{verdict=\"refused\"} 0",
            "felt_flows 0",
            "felt_flows_room 2000",
            "felt_flows_displaced_total 0",
            "felt_policy_compile_seconds{of=\"last\"} 0.005",
            "felt_policy_compile_seconds{of=\"max\"} 0.02",
            "felt_policy_errors_total 2",
            "weavenpc_blocked_connections_total{protocol=\"udp\",dport=\"53\"} 2",
            "weavenpc_blocked_connections_total{protocol=\"udp\",dport=\"80\"} 1",
            "weavenpc_policy_enforcement_errors 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains("icmp\",dport"));
    }

    #[test]
    fn a_port_scan_does_not_grow_the_list() {
        let gauges = PolicyGauges::default();
        for port in 0..=u16::MAX {
            gauges.count_blocked(Protocol::TCP, port);
        }
        gauges.count_blocked(Protocol::TCP, 7);
        gauges.count_blocked(Protocol::UDP, 7);
        let blocked = locked(&gauges.blocked);
        assert_eq!(blocked.len(), PORTS_TOLD_APART + 2);
        assert_eq!(blocked[&(Blocked::Tcp, Port::Number(7))], 2);
        assert_eq!(blocked[&(Blocked::Tcp, Port::Other)], 65_536 - PORTS_TOLD_APART as u64);
        assert_eq!(blocked[&(Blocked::Udp, Port::Other)], 1);
    }
}
