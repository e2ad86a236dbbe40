//! The etcd registry against real etcd servers: what is stored, who wins races, what a watch survives, how it is entered.

#[path = "../support/logs.rs"]
mod logs;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/etcd.rs"]
mod server;

mod access;
mod policies;
mod questions;
mod races;
mod records;
mod stories;
mod watches;

use std::net::Ipv4Addr;
use std::time::Duration;

use felt::control::registry::etcd::{EtcdConfig, EtcdStore};
use felt::control::registry::store::Store;
use felt::control::registry::{AcquireRequest, LEASE_TTL, StoreRegistry};
use felt::lease::{Change, Lease, LeaseAttrs, LeaseEvent, SubnetKey, Update};
use server::Etcd;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

const PREFIX: &str = "/coreos.com/network";
const CONFIG: &str = r#"{"Network":"10.3.0.0/16","SubnetMin":"10.3.1.0","SubnetMax":"10.3.25.0"}"#;
const OURS: Ipv4Addr = Ipv4Addr::new(1, 2, 3, 4);
const OTHER: Ipv4Addr = Ipv4Addr::new(1, 1, 1, 1);

/// What a new lease has left for some time.
const NEARLY_WHOLE: Duration = Duration::from_secs(LEASE_TTL.as_secs() - 60);

/// How long something may take that should come at once.
const SOON: Duration = Duration::from_secs(5);

fn store_at(url: &str) -> EtcdStore {
    EtcdStore::new(&EtcdConfig::plain([url], PREFIX)).unwrap()
}

fn registry_at(url: &str, ttl: Duration) -> StoreRegistry<EtcdStore> {
    StoreRegistry::new(store_at(url), ttl)
}

/// A server with a config, and a registry on it.
async fn start() -> (Etcd, StoreRegistry<EtcdStore>) {
    let etcd = Etcd::start().await;
    etcd.put("/coreos.com/network/config", CONFIG).await;
    let registry = registry_at(&etcd.url(), LEASE_TTL);
    (etcd, registry)
}

fn key(text: &str) -> SubnetKey {
    text.parse().unwrap()
}

fn lease_key(subnet: &str) -> String {
    format!("{PREFIX}/subnets/{subnet}")
}

fn request(public_ip: Ipv4Addr, previous: Option<&str>, node: Option<&str>) -> AcquireRequest {
    AcquireRequest {
        attrs: LeaseAttrs::udp(public_ip),
        previous: previous.map(|text| text.parse().unwrap()),
        node: node.map(Into::into),
    }
}

/// Creates a lease for somebody.
async fn create(store: &EtcdStore, subnet: &str, public_ip: Ipv4Addr, ttl: Option<Duration>) -> Lease {
    store.create(&key(subnet), &LeaseAttrs::udp(public_ip), ttl).await.unwrap().expect("a free subnet")
}

/// The next report of a watch.
async fn next(updates: &mut Receiver<Update>, within: Duration) -> Update {
    timeout(within, updates.recv()).await.expect("a report in time").expect("the watch lives")
}

/// The subnets of the snapshot that comes next.
async fn snapshot(updates: &mut Receiver<Update>, within: Duration) -> Vec<String> {
    match next(updates, within).await.change {
        Change::Snapshot(leases) => leases.iter().map(|lease| lease.subnet.to_string()).collect(),
        Change::Events(events) => panic!("expected a snapshot, found {events:?}"),
    }
}

/// The events that come next.
async fn events(updates: &mut Receiver<Update>, within: Duration) -> Vec<LeaseEvent> {
    match next(updates, within).await.change {
        Change::Events(events) => events,
        Change::Snapshot(leases) => panic!("expected events, found a snapshot {leases:?}"),
    }
}

/// Reads on, through events and snapshots, until `subnet` is there.
async fn until_there(updates: &mut Receiver<Update>, subnet: &str, within: Duration) {
    let subnet = key(subnet);
    let there = async {
        loop {
            match updates.recv().await.expect("the watch lives").change {
                Change::Snapshot(leases) if leases.iter().any(|lease| lease.subnet == subnet) => return,
                Change::Events(events) if events.iter().any(|e| matches!(e, LeaseEvent::Added(l) if l.subnet == subnet)) => {
                    return;
                }
                _ => {}
            }
        }
    };
    timeout(within, there).await.unwrap_or_else(|_| panic!("{subnet} was not seen within {within:?}"));
}
