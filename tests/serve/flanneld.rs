//! Our client against servers that answer as flanneld 0.5 and 0.6 did, byte for byte, habits included.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use felt::control::registry::remote::RemoteRegistry;
use felt::control::registry::{AcquireRequest, Registry, RegistryAdmin, RegistryError, Renewal, Reservation};
use felt::control::tls::TlsFiles;
use felt::lease::{Change, Lease, LeaseEvent};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::support::{LONG, node};

/// Answers requests with what the script says, in its order; after its end it only listens.
pub struct Flanneld {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

type Script = Arc<Mutex<VecDeque<(u16, String)>>>;

impl Flanneld {
    pub async fn start(script: &[(u16, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script: Script = Arc::new(Mutex::new(script.iter().map(|(code, body)| (*code, (*body).to_owned())).collect()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, Arc::clone(&script), Arc::clone(&requests)));
            }
        });
        Self { address, seen }
    }

    pub fn client(&self) -> RemoteRegistry {
        RemoteRegistry::new(&self.address.to_string(), &TlsFiles::default()).unwrap()
    }

    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(line, _)| line.clone()).collect()
    }

    fn body(&self, index: usize) -> String {
        self.seen.lock().unwrap()[index].1.clone()
    }
}

async fn converse(stream: TcpStream, script: Script, seen: Arc<Mutex<Vec<(String, String)>>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut request, mut length, mut line) = (String::new(), 0, String::new());
        while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) && line != "\r\n" {
            if request.is_empty() {
                request = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        if request.is_empty() {
            return;
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        seen.lock().unwrap().push((request, String::from_utf8(body).unwrap()));
        let Some((status, body)) = script.lock().unwrap().pop_front() else {
            // A long poll: held until the client leaves.
            let _ = stream.read_u8().await;
            return;
        };
        let (reason, kind) = match status {
            200 => ("OK", "application/json; charset=utf-8"),
            404 => ("Not Found", "text/plain; charset=utf-8"),
            _ => ("Internal Server Error", "text/plain; charset=utf-8"),
        };
        let answer = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nDate: Tue, 23 Aug 2016 12:00:00 GMT\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// A lease of node 1, an hour before its end by the server's clock of 2016.
const OURS: &str = r#"{"Subnet":"10.1.5.0/24","Attrs":{"PublicIP":"192.0.2.1","BackendType":"vxlan","BackendData":{"VtepMAC":"82:4b:b6:2f:54:4e"}},"Expiration":"2016-08-23T13:00:00.123456789Z"}"#;
const GARBLED: &str = r#"{"Subnet":"10.1.5.0/24","Attrs":{"PublicIP":"192.0.2.1","BackendType":"vxlan","BackendData":"eyJWdGVwTUFDIjoiODI6NGI6YjY6MmY6NTQ6NGUifQ=="},"Expiration":"2016-08-24T12:00:00Z"}"#;
const THEIRS: &str = r#"{"Subnet":"10.1.5.0/24","Attrs":{"PublicIP":"192.0.2.9"},"Expiration":"2016-08-24T12:00:00Z"}"#;
const RESERVED: &str = r#"{"Subnet":"10.1.5.0/24","Attrs":{"PublicIP":"192.0.2.1"},"Expiration":"0001-01-01T00:00:00Z"}"#;

fn listing(leases: &str) -> String {
    format!("{{\"events\":null,\"snapshot\":[{leases}],\"cursor\":\"7\"}}\n")
}

async fn acquired(server: &Flanneld) -> Lease {
    let attrs =
        serde_json::from_str(r#"{"PublicIP":"192.0.2.1","BackendType":"vxlan","BackendData":{"VtepMAC":"82:4b:b6:2f:54:4e"}}"#);
    server.client().acquire(&AcquireRequest { attrs: attrs.unwrap(), ..node(1) }).await.unwrap()
}

#[tokio::test]
async fn garbled_backend_data_is_not_believed_and_clocks_may_differ() {
    let server = Flanneld::start(&[(200, OURS), (200, &listing(OURS)), (200, GARBLED)]).await;
    let lease = acquired(&server).await;
    assert_eq!(lease.ttl.unwrap().as_secs(), 3600, "by the server's clock, ten years behind");
    let Renewal::Renewed(renewed) = server.client().renew(&lease, &lease.attrs).await.unwrap() else { panic!("lost") };
    assert_eq!((renewed.ttl.unwrap().as_secs(), &renewed.attrs), (86_400, &lease.attrs));
    assert_eq!(server.requests(), ["POST /v1/_/leases", "GET /v1/_/leases", "PUT /v1/_/leases/10.1.5.0-24"]);
    assert_eq!(server.body(0), r#"{"PublicIP":"192.0.2.1","BackendType":"vxlan","BackendData":{"VtepMAC":"82:4b:b6:2f:54:4e"}}"#);
    assert!(server.body(2).contains(r#""BackendData":{"VtepMAC":"82:4b:b6:2f:54:4e"}"#), "{}", server.body(2));
}

#[tokio::test]
async fn nobody_is_overwritten_by_a_renewal() {
    for others in ["", THEIRS] {
        let server = Flanneld::start(&[(200, OURS), (200, &listing(others))]).await;
        let lease = acquired(&server).await;
        assert_eq!(server.client().renew(&lease, &lease.attrs).await.unwrap(), Renewal::Lost);
        assert_eq!(server.requests().len(), 2, "no PUT");
    }
    // Gone between look and write.
    let error = "100: Key not found (/coreos.com/network/subnets/10.1.5.0-24) [9]";
    let server = Flanneld::start(&[(200, OURS), (200, &listing(OURS)), (500, error), (200, &listing(""))]).await;
    let lease = acquired(&server).await;
    assert_eq!(server.client().renew(&lease, &lease.attrs).await.unwrap(), Renewal::Lost);
    // Still ours: then it is the server's trouble, in its words.
    let error = "501: All the given peers are not reachable (failed to propose on members) [0]";
    let server = Flanneld::start(&[(200, OURS), (200, &listing(OURS)), (500, error), (200, &listing(OURS))]).await;
    let lease = acquired(&server).await;
    let failed = server.client().renew(&lease, &lease.attrs).await.unwrap_err();
    assert!(failed.to_string().contains(error), "{failed}");
}

#[tokio::test]
async fn a_reservation_is_not_turned_into_a_lease() {
    let server = Flanneld::start(&[(200, RESERVED), (200, &listing(RESERVED))]).await;
    let lease = server.client().acquire(&node(1)).await.unwrap();
    assert!(lease.is_reservation());
    assert_eq!(server.client().renew(&lease, &lease.attrs).await.unwrap(), Renewal::Renewed(lease));
    assert_eq!(server.requests().len(), 2, "no PUT");
}

#[tokio::test]
async fn every_form_of_watch_answer() {
    let added = format!(r#"{{"events":[{{"type":"added","lease":{OURS}}}],"snapshot":null,"cursor":"8"}}"#);
    let removed = format!(r#"{{"events":[{{"type":"removed","lease":{RESERVED}}}],"snapshot":[],"cursor":"9"}}"#);
    let (ours, theirs) = (listing(OURS), listing(THEIRS));
    let script = [
        // A list of nothing as 0.5 writes it, then an event as either writes it.
        (200, r#"{"events":null,"snapshot":null,"cursor":"7"}"#),
        (200, added.as_str()),
        (200, removed.as_str()),
        // Nothing happened, or nothing is there: 0.5 and 0.6 disagree. So it is listed.
        (200, r#"{"events":[],"snapshot":null,"cursor":"10"}"#),
        (200, theirs.as_str()),
        // etcd lost its history: the server lists by itself.
        (200, ours.as_str()),
        // The server is in trouble: list again.
        (500, "501: All the given peers are not reachable () [0]"),
        (200, theirs.as_str()),
    ];
    let server = Flanneld::start(&script).await;
    let mut watch = server.client().watch_leases().await;
    let mut next = async || timeout(LONG, watch.recv()).await.unwrap().unwrap();
    let snapshot_of = |change: Change| match change {
        Change::Snapshot(leases) => leases.iter().map(|lease| lease.attrs.public_ip.octets()[3]).collect::<Vec<_>>(),
        Change::Events(events) => panic!("{events:?}"),
    };
    let first = next().await;
    assert_eq!((first.revision, snapshot_of(first.change)), (7, vec![]));
    let second = next().await;
    assert!(matches!(&second.change, Change::Events(events) if matches!(&events[..], [LeaseEvent::Added(_)])));
    assert_eq!(second.revision, 8);
    assert_eq!(next().await.change, Change::Events(vec![LeaseEvent::Removed("10.1.5.0-24".parse().unwrap())]));
    assert_eq!(snapshot_of(next().await.change), [9]);
    assert_eq!(snapshot_of(next().await.change), [1]);
    assert_eq!(snapshot_of(next().await.change), [9]);
    let held = async {
        while server.requests().len() < 9 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, held).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[..4], ["", "?next=7", "?next=8", "?next=9"].map(|query| format!("GET /v1/_/leases{query}")));
    assert_eq!(requests[8], "GET /v1/_/leases?next=7");
}

#[tokio::test]
async fn what_old_servers_lack_is_said() {
    let absent = "404 page not found\n";
    let server = Flanneld::start(&[(404, absent), (404, absent), (404, absent)]).await;
    let client = server.client();
    let subnet = "10.1.5.0-24".parse().unwrap();
    let reservation = Reservation { subnet, public_ip: [192, 0, 2, 1].into() };
    for error in [
        client.revoke(&subnet).await.unwrap_err(),
        client.reserve(&reservation).await.unwrap_err(),
        client.put_config("{}").await.unwrap_err(),
    ] {
        assert!(matches!(error, RegistryError::Unsupported(_)), "{error}");
    }
    let missing = "100: Key not found (/coreos.com/network/config) [5]";
    let server = Flanneld::start(&[(500, missing), (500, "something else"), (200, "{\"events\":7}")]).await;
    assert!(matches!(server.client().config().await, Err(RegistryError::NoConfig { .. })));
    let error = server.client().config().await.unwrap_err();
    assert!(matches!(error, RegistryError::Refused { .. }), "{error}");
    assert!(matches!(server.client().leases().await, Err(RegistryError::Protocol { .. })));
    // Absence is no error for a revocation.
    let gone = "100: Key not found (/coreos.com/network/subnets/10.1.5.0-24) [9]";
    let server = Flanneld::start(&[(500, gone), (200, &listing(""))]).await;
    server.client().revoke(&subnet).await.unwrap();
}
