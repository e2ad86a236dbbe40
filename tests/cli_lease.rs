//! `felt lease` of the real binary, against a real etcd and a real `felt serve`: the same story on both.

mod cli_support;
#[path = "support/etcd.rs"]
mod etcd;

use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use cli_support::{Ran, Running, felt, felt_with};
use etcd::Etcd;
use felt::control::registry::etcd::{EtcdConfig, EtcdStore};
use felt::control::registry::remote::RemoteRegistry;
use felt::control::registry::{AcquireRequest, RegistryAdmin, StoreRegistry};
use felt::control::tls::TlsFiles;
use felt::lease::{Lease, LeaseAttrs};
use serde_json::{Value, json};

const CONFIG: &str = r#"{"Network":"10.5.0.0/16"}"#;
const NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PATIENCE: Duration = Duration::from_secs(15);

/// A registry, by the flags that name it.
struct Stand {
    flags: String,
    registry: Box<dyn RegistryAdmin>,
}

impl Stand {
    fn felt(&self, line: &str) -> Ran {
        felt(&format!("lease {line} {}", self.flags))
    }

    /// The same, going well and without a word on standard error.
    fn well(&self, line: &str) -> String {
        let ran = self.felt(line);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{line}: {ran:?}");
        ran.stdout
    }

    /// The same, failing with a code and for a reason.
    fn fails(&self, line: &str, code: i32, part: &str) {
        let ran = self.felt(line);
        assert!(ran.code == Some(code) && ran.stdout.is_empty() && ran.stderr.contains(part), "{line}: {ran:?}");
    }

    fn leases(&self) -> Value {
        serde_json::from_str(&self.well("list --json")).unwrap()
    }

    async fn acquire(&self, public_ip: Ipv4Addr, previous: &str) -> Lease {
        let previous = Some(previous.parse().unwrap());
        let request = AcquireRequest { attrs: LeaseAttrs::udp(public_ip), previous, node: None };
        self.registry.acquire(&request).await.unwrap()
    }
}

/// A `felt lease watch --json`; ended with this value.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    fn begin(stand: &Stand) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_felt"));
        command.args(["lease", "watch", "--json"]).args(stand.flags.split(' ')).env_clear().stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// The next change: what it is, and of which subnet.
    fn next(&self) -> (Value, String) {
        let line = self.lines.recv_timeout(PATIENCE).expect("a line of the watch");
        let line: Value = serde_json::from_str(&line).unwrap();
        let told = format!("{} {}", line["change"].as_str().unwrap(), line["lease"]["subnet"].as_str().unwrap());
        (line, told)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

async fn story(stand: &Stand) {
    assert_eq!(stand.well("list").trim(), "SUBNET  NODE  BACKEND  TIME LEFT");
    assert_eq!(stand.leases(), json!([]));

    // A node's lease, with which a watch begins.
    stand.acquire(NODE, "10.5.7.0/24").await;
    let watch = Watch::begin(stand);
    assert_eq!(watch.next().1, "present 10.5.7.0/24");
    let table = stand.well("list");
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[..3].to_vec(), row.len()), (vec!["10.5.7.0/24", "192.0.2.1", "udp"], 5), "{table}");
    assert!(["23h 59m", "1d 0h"].contains(&row[3..].join(" ").as_str()), "{table}");

    // A reservation, and what stands in its way.
    assert_eq!(stand.well("reserve 10.5.9.0/24 192.0.2.2"), "10.5.9.0/24 is reserved for 192.0.2.2\n");
    assert_eq!(watch.next().1, "added 10.5.9.0/24");
    assert_eq!(stand.well("reserve 10.5.9.0-24 192.0.2.2"), "10.5.9.0/24 is reserved for 192.0.2.2\n", "twice is no error");
    stand.fails("reserve 10.5.7.0/24 192.0.2.2", 5, "192.0.2.1 holds 10.5.7.0/24 for another ");
    stand.fails("reserve 10.5.9.0/24 192.0.2.1", 5, "192.0.2.2 holds 10.5.9.0/24 without an end");
    stand.fails("reserve 10.5.9.0/25 192.0.2.1", 2, "expected a /24 subnet of 10.5.0.0/16 from 10.5.1.0 to 10.5.255.0");
    stand.fails("reserve 10.6.9.0/24 192.0.2.1", 2, "found 10.6.9.0/24");
    stand.fails("reserve 10.5.8.0/24 10.5.1.1", 2, "lies inside the overlay");
    stand.fails("reserve 10.5.9.7/24 192.0.2.1", 2, "such as 10.5.9.0/24");
    assert_eq!(stand.acquire(OTHER, "10.5.30.0/24").await.subnet.to_string(), "10.5.9.0-24", "that is what it is for");
    let leases = stand.leases();
    let expected = json!({
        "subnet": "10.5.9.0/24", "ipv6_subnet": null, "public_ip": "192.0.2.2", "public_ipv6": null, "backend": null,
        "backend_data": null, "reserved": true, "seconds_left": null,
    });
    assert_eq!((leases.as_array().unwrap().len(), &leases[1]), (2, &expected));
    assert_eq!(watch.next().1, "renewed 10.5.9.0/24");

    // A lease becomes a reservation, and a lease again.
    stand.well("reserve 10.5.7.0/24 192.0.2.1");
    let (line, told) = watch.next();
    assert_eq!((told.as_str(), &line["before"]), ("changed 10.5.7.0/24", &json!({"reserved": "false"})), "{line}");
    let said = stand.well("reserve 10.5.8.0/24 192.0.2.1");
    assert!(said.contains("192.0.2.1 also holds 10.5.7.0/24"), "{said}");
    assert_eq!(watch.next().1, "added 10.5.8.0/24");
    let said = stand.well("unreserve 10.5.7.0/24");
    assert!(said.starts_with("10.5.7.0/24 is reserved no more: its lease of "), "{said}");
    assert_eq!(watch.next().0["before"], json!({"reserved": "true"}));
    stand.fails("unreserve 10.5.7.0/24", 5, "not reserved: 192.0.2.1 leases it");
    stand.fails("unreserve 10.5.77.0/24", 5, "nobody leases it");

    // Taken away.
    let said = stand.well("revoke 10.5.7.0/24");
    assert!(said.starts_with("lease 10.5.7.0/24 of 192.0.2.1 is revoked; if that node runs, it stops forwarding"), "{said}");
    assert_eq!(watch.next().1, "removed 10.5.7.0/24");
    stand.fails("revoke 10.5.7.0/24", 5, "nobody leases 10.5.7.0/24");
    assert!(stand.well("revoke 10.5.8.0/24").starts_with("reservation 10.5.8.0/24 of 192.0.2.1"));
    assert_eq!(watch.next().1, "removed 10.5.8.0/24");

    // A watch that begins later begins with what there is.
    assert_eq!(Watch::begin(stand).next().1, "present 10.5.9.0/24");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_an_etcd_by_hand() {
    let etcd = Etcd::start().await;
    etcd.put("/coreos.com/network/config", CONFIG).await;
    let store = EtcdStore::new(&EtcdConfig::plain([&etcd.url()], "/coreos.com/network")).unwrap();
    let registry = Box::new(StoreRegistry::with_default_ttl(store));
    let stand = Stand { flags: format!("--etcd-endpoints {}", etcd.url()), registry };
    story(&stand).await;
    // What is written is flannel's, and a reservation hangs on no etcd lease.
    stand.well("reserve 10.5.40.0/24 192.0.2.40");
    let kept = etcd.value("/coreos.com/network/subnets/10.5.40.0-24").await;
    assert_eq!(kept, Some((r#"{"PublicIP":"192.0.2.40","PublicIPv6":null}"#.to_owned(), 0)));
    etcd.put("/coreos.com/network/subnets/10.5.41.0-24", r#"{"PublicIP":"192.0.2.41","BackendType":"vxlan"}"#).await;
    assert!(stand.well("list").contains("192.0.2.41  vxlan    no end     reserved"), "{}", stand.well("list"));
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_a_registry_server_by_hand() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("registry.redb").display().to_string();
    let server = Running::serve(&format!("--store {store}"));
    let set = felt_with(&format!("config set - --remote {}", server.address()), &[], CONFIG);
    assert_eq!(set.code, Some(0), "{set:?}");
    let registry = Box::new(RemoteRegistry::new(server.address(), &TlsFiles::default()).unwrap());
    let stand = Stand { flags: format!("--remote {}", server.address()), registry };
    story(&stand).await;
    server.end();
    stand.fails("list", 3, "cannot be reached");
    // And of the store of a server that does not run.
    let stand = Stand { flags: format!("--store {store}"), ..stand };
    assert_eq!(stand.leases()[0]["subnet"], "10.5.9.0/24");
}

#[test]
fn a_registry_that_is_not_there_is_told_at_once() {
    let begin = Instant::now();
    for line in ["list", "watch", "reserve 10.5.1.0/24 192.0.2.1", "unreserve 10.5.1.0/24", "revoke 10.5.1.0/24"] {
        let ran = felt(&format!("lease {line} --etcd-endpoints http://127.0.0.1:1"));
        assert!(ran.code == Some(3) && ran.stderr.contains("127.0.0.1:1"), "{line}: {ran:?}");
        let ran = felt(&format!("lease {line} --store /nonexistent/registry.redb"));
        assert!(ran.code == Some(2) && ran.stderr.contains("no registry store at"), "{line}: {ran:?}");
    }
    assert!(begin.elapsed() < Duration::from_mins(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_its_reader() {
    let etcd = Etcd::start().await;
    etcd.put("/coreos.com/network/config", CONFIG).await;
    let flags = ["lease", "watch", "--etcd-endpoints", &etcd.url()].map(str::to_owned);
    let mut watch = Command::new(env!("CARGO_BIN_EXE_felt")).args(flags).env_clear().stdout(Stdio::piped()).spawn().unwrap();
    drop(watch.stdout.take());
    let begin = Instant::now();
    let mut number = 1;
    let status = loop {
        // Whatever is told first, somebody has to listen for it to go on.
        etcd.put(&format!("/coreos.com/network/subnets/10.5.{number}.0-24"), r#"{"PublicIP":"192.0.2.1"}"#).await;
        number = number % 250 + 1;
        if let Some(status) = watch.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            drop(watch.kill());
            panic!("the watch goes on without a reader");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(status.code(), Some(0));
}
