//! What a registry costs while etcd is away: alone in this file, because it measures the whole process.

#[path = "support/etcd.rs"]
mod server;

use std::time::Duration;

use felt::control::registry::etcd::{EtcdConfig, EtcdStore};
use felt::control::registry::{LEASE_TTL, Registry, StoreRegistry};
use server::Etcd;

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    // USER_HZ, 100 on every architecture that matters here.
    Duration::from_millis(ticks * 10)
}

#[tokio::test]
async fn watching_a_dead_and_a_frozen_server_costs_nearly_nothing() {
    let (mut dead, frozen) = (Etcd::start().await, Etcd::start().await);
    let mut watches = Vec::new();
    for etcd in [&dead, &frozen] {
        let registry = StoreRegistry::new(EtcdStore::new(&EtcdConfig::plain([etcd.url()], "/felt")).unwrap(), LEASE_TTL);
        let mut updates = registry.watch_leases().await;
        updates.recv().await.unwrap();
        watches.push((updates, registry.watch_config().await, registry));
    }
    dead.kill();
    frozen.freeze();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = processor_time();
    tokio::time::sleep(Duration::from_secs(15)).await;
    let spent = processor_time().saturating_sub(before);
    frozen.thaw();
    assert!(spent < Duration::from_millis(300), "{spent:?} of processor time in 15 s without etcd");
}
