//! The lab's etcd by a client that knows nothing of Felt, as an operator with `etcdctl` sees it.

use std::time::Duration;

use etcd_client::{Client, ConnectOptions, DeleteOptions, Error, EventType, GetOptions, KeyValue, PutOptions, WatchOptions};
use felt::lab::{Lab, Place};
use felt::net::Prefix4;
use felt::sys::netns::Netns;

use crate::lab::eventually;

/// Where flannel keeps leases.
const LEASES: &str = "/coreos.com/network/subnets/";
/// How long etcd may take to answer after it was down.
const PATIENCE: Duration = Duration::from_secs(20);

/// The way to the lab's etcd.
pub struct Store {
    hub: Netns,
    url: String,
}

/// A key's value and history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub value: String,
    pub created: i64,
    pub modified: i64,
    /// The etcd lease it hangs on.
    pub lease: i64,
}

/// The key of a subnet's lease.
pub fn key(subnet: Prefix4) -> String {
    format!("{LEASES}{}", subnet.to_string().replace('/', "-"))
}

/// The value flannel would write for a node.
pub fn value(public_ip: &str) -> String {
    format!(r#"{{"PublicIP":"{public_ip}","BackendData":null}}"#)
}

impl Store {
    pub fn of(lab: &Lab) -> Self {
        let url = format!("http://{}", lab.plan().registry_endpoint().unwrap());
        Self { hub: lab.netns(Place::Hub).unwrap(), url }
    }

    /// A subnet's lease.
    pub fn lease(&self, subnet: Prefix4) -> Option<Record> {
        let key = key(subnet);
        let found = self.ask(async |mut client| client.get(key.as_str(), None).await);
        found.kvs().first().map(Record::of)
    }

    /// How many leases there are.
    pub fn leases(&self) -> i64 {
        self.ask(async |mut client| client.get(LEASES, Some(GetOptions::new().with_prefix().with_count_only())).await).count()
    }

    /// Puts a lease that ends by itself long after the test.
    pub fn put(&self, subnet: Prefix4, public_ip: &str) {
        let (key, value) = (key(subnet), value(public_ip));
        self.ask(async |mut client| {
            let lease = client.lease_grant(3600, None).await?.id();
            client.put(key.as_str(), value.as_str(), Some(PutOptions::new().with_lease(lease))).await
        });
    }

    /// Puts the network config.
    pub fn put_config(&self, config: &str) {
        self.ask(async |mut client| client.put("/coreos.com/network/config", config, None).await);
    }

    /// Deletes a subnet's lease.
    pub fn delete(&self, subnet: Prefix4) {
        let key = key(subnet);
        let deleted = self.ask(async |mut client| client.delete(key.as_str(), None).await).deleted();
        assert_eq!(deleted, 1, "{key} was there");
    }

    /// Deletes every lease.
    pub fn wipe(&self) {
        self.ask(async |mut client| client.delete("/coreos.com/network/", Some(DeleteOptions::new().with_prefix())).await);
    }

    /// Revokes an etcd lease.
    pub fn revoke(&self, lease: i64) {
        self.ask(async |mut client| client.lease_revoke(lease).await);
    }

    /// Forgets all history.
    pub fn compact(&self) {
        self.ask(async |mut client| {
            let revision = client.get("x", None).await?.header().expect("a header").revision();
            client.compact(revision, None).await
        });
    }

    /// Every value a subnet's lease has had since revision `since` up to now; `None` for a deletion.
    pub fn history(&self, subnet: Prefix4, since: i64) -> Vec<Option<String>> {
        let key = key(subnet);
        self.ask(async |mut client| {
            let now = client.get(key.as_str(), None).await?.kvs().first().expect("a lease").mod_revision();
            let options = WatchOptions::new().with_start_revision(since);
            let mut stream = client.watch(key.as_str(), Some(options)).await?;
            let mut values = Vec::new();
            while let Some(answer) = stream.message().await? {
                for event in answer.events() {
                    let kv = event.kv().expect("a key");
                    let put = event.event_type() == EventType::Put;
                    values.push(put.then(|| String::from_utf8_lossy(kv.value()).into_owned()));
                    if kv.mod_revision() >= now {
                        return Ok(values);
                    }
                }
            }
            Ok(values)
        })
    }

    /// Asks again while there is no answer.
    fn ask<T: Send>(&self, question: impl AsyncFn(Client) -> Result<T, Error> + Send + Sync) -> T {
        eventually("etcd answers", PATIENCE, || {
            let answer = self.hub.run_in(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let moment = Duration::from_secs(2);
                    let options = ConnectOptions::new().with_timeout(moment).with_connect_timeout(moment);
                    let client = Client::connect([self.url.as_str()], Some(options)).await?;
                    question(client).await
                })
            });
            answer.unwrap().ok()
        })
    }
}

impl Record {
    fn of(kv: &KeyValue) -> Self {
        let value = String::from_utf8_lossy(kv.value()).into_owned();
        Self { value, created: kv.create_revision(), modified: kv.mod_revision(), lease: kv.lease() }
    }
}
