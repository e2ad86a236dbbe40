//! What a watch asks of etcd beside watching.

use felt::control::registry::{Registry, RegistryAdmin, Renewal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// How often etcd has been asked how long an etcd lease lasts.
async fn questions(etcd: &Etcd) -> u64 {
    let mut stream = TcpStream::connect(("127.0.0.1", etcd.port())).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let asked = |line: &&str| line.starts_with("grpc_server_started_total") && line.contains("\"LeaseTimeToLive\"");
    let line = text.lines().find(asked).unwrap_or_else(|| panic!("no count of questions: {text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn a_node_asks_how_long_its_own_lease_lasts_and_no_other() {
    const SHORT: Duration = Duration::from_mins(5);
    let (etcd, others) = start().await;
    for n in 1..=9 {
        create(others.store(), &format!("10.3.{n}.0-24"), OTHER, Some(SHORT)).await;
    }
    create(others.store(), "10.3.10.0-24", OTHER, None).await;
    let node = registry_at(&etcd.url(), SHORT);
    let own = node.acquire(&request(OURS, Some("10.3.25.0/24"), None)).await.unwrap();
    let mut updates = node.watch_leases().await;
    let Change::Snapshot(leases) = next(&mut updates, SOON).await.change else { panic!("no snapshot") };
    assert_eq!(leases.len(), 11);
    for lease in leases {
        match lease.ttl {
            Some(left) if lease.subnet == own.subnet => assert!(left <= SHORT, "{left:?}"),
            other => assert_eq!(other, (lease.subnet != key("10.3.10.0-24")).then_some(LEASE_TTL)),
        }
    }
    for n in 11..=19 {
        create(others.store(), &format!("10.3.{n}.0-24"), OTHER, Some(SHORT)).await;
        events(&mut updates, SOON).await;
    }
    assert_eq!(questions(&etcd).await, 1);

    // Our own events are exact, and so are answers to those who ask.
    let Renewal::Renewed(own) = node.renew(&own, &own.attrs).await.unwrap() else { panic!("lost") };
    let seen = events(&mut updates, SOON).await;
    assert!(
        matches!(&seen[..], [LeaseEvent::Added(lease)] if lease.subnet == own.subnet && lease.ttl <= Some(SHORT)),
        "{seen:?}"
    );
    let left = node.leases().await.unwrap().into_iter().map(|lease| lease.ttl);
    assert!(left.into_iter().flatten().all(|left| left <= SHORT));
}
