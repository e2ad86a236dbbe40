//! A node's counters and gauges in the `OpenMetrics` text form, summed when asked for.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::PolicyGauges;
use super::families::{counter, counters, gauge, gauges_of};
use crate::forward::{Counters, Totals};
use crate::net::Moment;

/// What control says about itself; each written by the node's task, read at a scrape.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Subnets of other nodes that have a route.
    pub peers: AtomicU64,
    /// Whole snapshots taken in from the registry's watch: the first, and one after each gap.
    pub resyncs: AtomicU64,
    /// Leases acquired since start.
    pub acquired: AtomicU64,
    /// Renewals that succeeded.
    pub renewed: AtomicU64,
    /// Registry calls that failed.
    pub registry_errors: AtomicU64,
    /// Whether a lease is held now.
    pub lease_held: AtomicBool,
    /// Receive buffer granted to each underlay socket, in bytes.
    pub receive_buffer_bytes: AtomicU64,
    /// Send buffer granted to each underlay socket, in bytes.
    pub send_buffer_bytes: AtomicU64,
    /// Bridges by which local pods talk to each other past the policy.
    pub bypassed_bridges: AtomicU64,
    /// Which offloads are in use.
    pub offloads: OffloadGauges,
    // Milliseconds after the clock's origin; negative: no end.
    lease_expires_ms: AtomicI64,
}

/// Which offloads are in use by all workers.
#[derive(Debug, Default)]
pub struct OffloadGauges {
    /// TCP super-packets through the TUN device.
    pub tun_tso: AtomicBool,
    /// UDP super-packets through the TUN device.
    pub tun_uso: AtomicBool,
    /// Trains of datagrams sent in one message.
    pub udp_gso: AtomicBool,
    /// Trains of datagrams received in one message.
    pub udp_gro: AtomicBool,
}

/// Everything a scrape shows.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Control's side.
    pub gauges: Gauges,
    /// What policy says about itself, where there is any.
    pub policy: PolicyGauges,
    workers: Mutex<Vec<Arc<Counters>>>,
}

impl Gauges {
    /// When the lease ends unless renewed; `None`: it does not, or none is held.
    pub fn set_lease_expiry(&self, expires: Option<Moment>) {
        let ms = expires.map_or(-1, |moment| i64::try_from(moment.since_origin().as_millis()).unwrap_or(i64::MAX));
        self.lease_expires_ms.store(ms, Relaxed);
    }

    fn lease_left(&self, now: Moment) -> Option<Duration> {
        let ms = u64::try_from(self.lease_expires_ms.load(Relaxed)).ok()?;
        Some(Moment::from_origin(Duration::from_millis(ms)).since(now))
    }
}

impl Metrics {
    /// From now on these are the workers whose counters are summed.
    pub fn set_workers(&self, workers: Vec<Arc<Counters>>) {
        *self.workers.lock().unwrap_or_else(PoisonError::into_inner) = workers;
    }

    /// The sum over all workers.
    pub fn totals(&self) -> Totals {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        Totals::of(workers.iter().map(|worker| &**worker))
    }

    /// The whole text of a scrape at `now`.
    pub fn exposition(self: &Arc<Self>, now: Moment) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape { metrics: Arc::clone(self), now }));
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

/// One look at everything, at one moment.
#[derive(Debug)]
struct Scrape {
    metrics: Arc<Metrics>,
    now: Moment,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.packets(&mut encoder)?;
        self.control(&mut encoder)?;
        self.metrics.policy.encode(&mut encoder, &self.metrics.totals(), self.now)
    }
}

impl Scrape {
    fn packets(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let totals = self.metrics.totals();
        let direction = |egress, ingress| [("egress", egress), ("ingress", ingress)];
        let packets = direction(totals.egress_packets, totals.ingress_packets);
        counters(to, "felt_packets", "Inner packets forwarded", "direction", packets)?;
        let bytes = direction(totals.egress_bytes, totals.ingress_bytes);
        counters(to, "felt_bytes", "Bytes of inner packets forwarded", "direction", bytes)?;
        let batches = direction(totals.egress_batches, totals.ingress_batches);
        counters(to, "felt_batches", "Batches that were not empty", "direction", batches)?;
        let supers = direction(totals.egress_supers, totals.ingress_supers);
        counters(to, "felt_supers", "Super-packets passed through the TUN device", "direction", supers)?;
        let trains = direction(totals.egress_trains, totals.ingress_trains);
        counters(to, "felt_trains", "Trains of several datagrams passed in one piece", "direction", trains)?;
        let drops = totals.drops().map(|(reason, count)| (reason.as_str(), count));
        counters(to, "felt_drops", "Packets dropped, by reason", "reason", drops)?;
        let icmp = [("sent", totals.icmp_sent), ("suppressed", totals.icmp_suppressed)];
        counters(to, "felt_icmp_errors", "ICMP errors due to senders of dropped packets", "outcome", icmp)?;
        let overflows = totals.receive_overflows;
        counter(to, "felt_receive_overflows", "Datagrams lost because an underlay socket's receive buffer was full", overflows)?;
        counter(to, "felt_worker_wakeups", "Times a worker woke up", totals.wakeups)
    }

    fn control(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let gauges = &self.metrics.gauges;
        let load = |value: &AtomicU64| value.load(Relaxed);
        gauge(to, "felt_peers", "Subnets of other nodes that have a route", load(&gauges.peers))?;
        gauge(to, "felt_lease_held", "Whether this node holds a lease", u64::from(gauges.lease_held.load(Relaxed)))?;
        if let Some(left) = gauges.lease_left(self.now) {
            gauge(to, "felt_lease_seconds", "Seconds until the lease ends unless renewed", left.as_secs())?;
        }
        let (receive, send) = (load(&gauges.receive_buffer_bytes), load(&gauges.send_buffer_bytes));
        gauge(to, "felt_receive_buffer_bytes", "Receive buffer granted to each underlay socket", receive)?;
        gauge(to, "felt_send_buffer_bytes", "Send buffer granted to each underlay socket", send)?;
        let on = |flag: &AtomicBool| u64::from(flag.load(Relaxed));
        let bypassed = "Bridges by which local pods talk to each other past the policy";
        gauge(to, "felt_policy_bypassed_bridges", bypassed, load(&gauges.bypassed_bridges))?;
        let OffloadGauges { tun_tso, tun_uso, udp_gso, udp_gro } = &gauges.offloads;
        let offloads = [("tun_tso", on(tun_tso)), ("tun_uso", on(tun_uso)), ("udp_gso", on(udp_gso)), ("udp_gro", on(udp_gro))];
        gauges_of(to, "felt_offload_enabled", "Whether an offload is in use by all workers", "offload", offloads)?;
        counter(to, "felt_registry_resyncs", "Whole snapshots taken in from the registry", load(&gauges.resyncs))?;
        counter(to, "felt_registry_errors", "Registry calls that failed", load(&gauges.registry_errors))?;
        counter(to, "felt_leases_acquired", "Leases acquired since start", load(&gauges.acquired))?;
        counter(to, "felt_leases_renewed", "Renewals that succeeded", load(&gauges.renewed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::DropReason;

    #[test]
    fn a_scrape_shows_every_drop_reason_and_the_time_left() {
        let metrics = Arc::new(Metrics::default());
        let worker = Arc::new(Counters::default());
        worker.egress_packets.add(7);
        worker.count_drop(DropReason::NoRoute, 3);
        metrics.set_workers(vec![Arc::clone(&worker), Arc::new(Counters::default())]);
        metrics.gauges.set_lease_expiry(Some(Moment::from_origin(Duration::from_secs(100))));
        metrics.gauges.peers.store(2, Relaxed);
        metrics.gauges.bypassed_bridges.store(1, Relaxed);
        metrics.gauges.offloads.udp_gso.store(true, Relaxed);
        let text = metrics.exposition(Moment::from_origin(Duration::from_secs(40)));
        for line in [
            "felt_packets_total{direction=\"egress\"} 7",
            "felt_drops_total{reason=\"no_route\"} 3",
            "felt_lease_seconds 60",
            "felt_peers 2",
            "felt_policy_bypassed_bridges 1",
            "felt_offload_enabled{offload=\"udp_gso\"} 1",
            "felt_offload_enabled{offload=\"tun_uso\"} 0",
            "# TYPE felt_registry_resyncs counter",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        for reason in DropReason::ALL {
            assert!(text.contains(&format!("reason=\"{}\"", reason.as_str())), "{reason:?}");
        }
        metrics.gauges.set_lease_expiry(None);
        assert!(!metrics.exposition(Moment::ZERO).contains("felt_lease_seconds"));
    }
}
