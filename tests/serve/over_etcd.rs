//! The server over a real etcd: what a node behind it sees while etcd has a bad day.

use std::sync::Arc;

use felt::control::registry::etcd::{EtcdConfig, EtcdStore};
use felt::control::registry::remote::RemoteRegistry;
use felt::control::registry::{Registry, RegistryAdmin, Renewal, StoreRegistry};
use felt::control::tls::TlsFiles;
use felt::lease::{Change, LeaseEvent, Update};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::etcd::Etcd;
use crate::support::{CONFIG, LONG, Running, node};

async fn next(watch: &mut Receiver<Update>) -> Change {
    timeout(LONG, watch.recv()).await.unwrap().unwrap().change
}

#[tokio::test]
async fn nodes_behind_the_server_see_what_happens_in_etcd() {
    let mut etcd = Etcd::start().await;
    let config = EtcdConfig::plain([etcd.url()], "/coreos.com/network");
    let by_hand = StoreRegistry::with_default_ttl(EtcdStore::new(&config).unwrap());
    by_hand.put_config(CONFIG).await.unwrap();
    let behind = StoreRegistry::with_default_ttl(EtcdStore::new(&config).unwrap());
    let server = Running::start(Arc::new(behind), "127.0.0.1:0", None).await;
    let remote = RemoteRegistry::new(&server.address.to_string(), &TlsFiles::default()).unwrap();

    let ours = remote.acquire(&node(1)).await.unwrap();
    let mut watch = remote.watch_leases().await;
    assert!(matches!(next(&mut watch).await, Change::Snapshot(leases) if leases.len() == 1));
    let theirs = by_hand.acquire(&node(2)).await.unwrap();
    let Change::Events(events) = next(&mut watch).await else { panic!("no events") };
    assert!(matches!(&events[..], [LeaseEvent::Added(lease)] if lease.subnet == theirs.subnet));

    etcd.kill();
    assert!(remote.renew(&ours, &ours.attrs).await.unwrap_err().is_unreachable());
    assert_eq!(remote.leases().await.unwrap().len(), 2, "the leases known are still told");
    etcd.restart().await;
    by_hand.revoke(&theirs.subnet).await.unwrap();
    let mut gone = false;
    while !gone {
        gone = match next(&mut watch).await {
            Change::Events(events) => events.contains(&LeaseEvent::Removed(theirs.subnet)),
            Change::Snapshot(leases) => leases.iter().all(|lease| lease.subnet != theirs.subnet),
        };
    }
    assert!(matches!(remote.renew(&ours, &ours.attrs).await.unwrap(), Renewal::Renewed(_)));

    // A cluster that lost everything counts its revisions from one again: nobody may take old ones for new.
    etcd.restart_empty().await;
    let emptied = async { while !matches!(next(&mut watch).await, Change::Snapshot(leases) if leases.is_empty()) {} };
    timeout(LONG, emptied).await.unwrap();
}
