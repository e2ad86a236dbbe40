//! Policy objects through the server: the routes byte for byte, and our client across restarts.

use std::sync::Arc;

use felt::control::registry::embedded::EmbeddedStore;
use felt::control::registry::remote::RemoteRegistry;
use felt::control::registry::{PolicyEntry, PolicyEvent, PolicyStore, PolicyUpdate, Registry as _, RegistryError, StoreRegistry};
use felt::control::tls::TlsFiles;
use felt::policy::model::ObjectId;
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::flanneld::Flanneld;
use crate::logs;
use crate::proxy::{Proxy, Way};
use crate::support::{Answer, LONG, Running, ask, memory};

const JSON: Option<&str> = Some("application/json; charset=utf-8");
const TEXT: Option<&str> = Some("text/plain; charset=utf-8");
const PATH: &str = "/v1/_/policy";

fn assert_answer(answer: &Answer, status: u16, kind: Option<&str>, body: &str) {
    assert_eq!((answer.status, answer.header("content-type"), answer.body.as_str()), (status, kind, body));
}

async fn cursor(server: &Running) -> String {
    server.json(PATH).await["cursor"].as_str().unwrap().to_owned()
}

fn waiting(server: &Running, cursor: &str) -> JoinHandle<Answer> {
    let (address, path) = (server.address, format!("{PATH}?next={cursor}"));
    tokio::spawn(async move { ask(address, "GET", &path, "").await })
}

fn next_of(answer: &Answer) -> String {
    serde_json::from_str::<Value>(&answer.body).unwrap()["cursor"].as_str().unwrap().to_owned()
}

pub fn put(name: &str, body: &str) -> PolicyEvent {
    PolicyEvent::Put(PolicyEntry { id: ObjectId::Namespace(name.into()), body: body.into() })
}

fn deleted(name: &str) -> PolicyEvent {
    PolicyEvent::Deleted(ObjectId::Namespace(name.into()))
}

pub fn policies(server: &Running) -> Arc<dyn PolicyStore> {
    RemoteRegistry::new(&server.address.to_string(), &TlsFiles::default()).unwrap().policy_store().unwrap()
}

pub async fn next(updates: &mut Receiver<PolicyUpdate>) -> PolicyUpdate {
    timeout(LONG, updates.recv()).await.expect("in time").expect("the watch lives")
}

#[tokio::test]
async fn objects_are_written_told_and_watched() {
    let server = Running::in_memory().await;
    let empty = cursor(&server).await;
    let body = format!("{{\"events\":null,\"snapshot\":[],\"cursor\":\"{empty}\"}}\n");
    assert_answer(&server.ask("GET", PATH, "").await, 200, JSON, &body);

    let watchers = [waiting(&server, &empty), waiting(&server, &empty)];
    server.until_waiting(2).await;
    let put = r#"{"type":"put","key":"networkpolicy/web/deny","body":"{\"any\": \"text\"}\n"}"#;
    let other = r#"{"type":"put","key":"namespace/_/web","body":"{}"}"#;
    assert_answer(&server.ask("POST", PATH, &format!("[{put},{other}]")).await, 200, None, "");
    let now = cursor(&server).await;
    for watcher in watchers {
        let answer = timeout(LONG, watcher).await.unwrap().unwrap();
        let body = format!("{{\"events\":[{put},{other}],\"snapshot\":null,\"cursor\":\"{now}\"}}\n");
        assert_answer(&answer, 200, JSON, &body);
    }
    // Sorted by kind, with the manifest to the byte.
    let object = put.replace(r#""type":"put","#, "");
    let web = other.replace(r#""type":"put","#, "");
    let all = format!("{{\"events\":null,\"snapshot\":[{web},{object}],\"cursor\":\"{now}\"}}\n");
    assert_answer(&server.ask("GET", PATH, "").await, 200, JSON, &all);

    let gone = r#"{"type":"deleted","key":"networkpolicy/web/deny"}"#;
    assert_answer(&server.ask("POST", PATH, &format!("[{gone}]")).await, 200, None, "");
    let answer = waiting(&server, &now).await.unwrap();
    let body = format!("{{\"events\":[{gone}],\"snapshot\":null,\"cursor\":\"{}\"}}\n", next_of(&answer));
    assert_answer(&answer, 200, JSON, &body);
    // Nothing new within the time asked for.
    let now = next_of(&answer);
    let body = format!("{{\"events\":[],\"snapshot\":null,\"cursor\":\"{now}\"}}\n");
    assert_answer(&server.ask("GET", &format!("{PATH}?next={now}&wait=0"), "").await, 200, JSON, &body);
}

#[tokio::test]
async fn a_cursor_of_another_life_gets_everything_and_a_bad_one_an_error() {
    let server = Running::in_memory().await;
    server.ask("POST", PATH, r#"[{"type":"put","key":"node/_/n","body":"{}"}]"#).await;
    let before = cursor(&server).await;
    for strange in ["0", "7", "18446744073709551615"] {
        let answer = waiting(&server, strange).await.unwrap();
        let body =
            format!("{{\"events\":null,\"snapshot\":[{{\"key\":\"node/_/n\",\"body\":\"{{}}\"}}],\"cursor\":\"{before}\"}}\n");
        assert_answer(&answer, 200, JSON, &body);
    }
    for bad in ["", "abc", "-1"] {
        let answer = server.ask("GET", &format!("{PATH}?next={bad}"), "").await;
        let text = format!("failed to parse cursor: expected a decimal number, found {bad:?}");
        assert_answer(&answer, 500, TEXT, &text);
    }
    assert_eq!(server.ask("GET", &format!("{PATH}?wait=long"), "").await.status, 400);
}

#[tokio::test]
async fn one_bad_change_and_nothing_is_written() {
    let server = Running::in_memory().await;
    let good = r#"{"type":"put","key":"node/_/n","body":"{}"}"#;
    for (bad, part) in [
        (r#"{"type":"put","key":"secret/_/n","body":"{}"}"#, "change 1: expected a key of the form"),
        (r#"{"type":"put","key":"pod/_/n/x","body":"{}"}"#, "found \"pod/_/n/x\""),
        (r#"{"type":"deleted","key":"networkpolicy/a/../b"}"#, "change 1: "),
        (r#"{"key":"node/_/n"}"#, "JSON decoding error: "),
        (r#"{"type":"put","key":"node/_/n","body":{}}"#, "JSON decoding error: "),
        ("{", "JSON decoding error: "),
    ] {
        let answer = server.ask("POST", PATH, &format!("[{good},{bad}]")).await;
        assert!(answer.status == 400 && answer.body.contains(part), "{bad}: {answer:?}");
    }
    assert_eq!(server.ask("POST", PATH, good).await.status, 400, "no list");
    assert_eq!(server.json(PATH).await["snapshot"], json!([]));
    let large = format!(r#"[{{"type":"put","key":"node/_/n","body":"{}"}}]"#, "x".repeat(4 << 20));
    assert_eq!(server.ask("POST", PATH, &large).await.status, 413);
    let fits = large.replacen(&"x".repeat(1000), "", 1);
    assert_eq!(server.ask("POST", PATH, &fits).await.status, 200);
    for (method, path) in [("PUT", PATH), ("DELETE", PATH), ("GET", "/v1/_/policy/")] {
        assert_answer(&server.ask(method, path, "").await, 404, TEXT, "404 page not found\n");
    }
}

#[tokio::test]
async fn many_objects_go_through_and_changes_come_alone() {
    let server = Running::in_memory().await;
    let store = policies(&server);
    let body = format!(r#"{{"pad":"{}"}}"#, "x".repeat(1000));
    let many: Vec<_> = (0..5000).map(|number| put(&format!("n{number}"), &body)).collect();
    store.write_policies(&many).await.unwrap();
    assert_eq!(store.policies().await.unwrap().len(), 5000);
    let mut watch = store.watch_policies().await;
    assert!(matches!(next(&mut watch).await, PolicyUpdate::Snapshot(all) if all.len() == 5000));
    server.until_waiting(1).await;
    store.write_policies(&[put("n7", "{}")]).await.unwrap();
    assert_eq!(next(&mut watch).await, PolicyUpdate::Events(vec![put("n7", "{}")]));
    // Written in several portions, told in several answers, none of them everything.
    store.write_policies(&many).await.unwrap();
    let mut told = 0;
    while told < 5000 {
        let PolicyUpdate::Events(events) = next(&mut watch).await else { panic!("a snapshot") };
        assert!(events.len() <= 1000, "{}", events.len());
        told += events.len();
    }
    assert_eq!(told, 5000);
}

#[tokio::test]
async fn watches_go_on_across_a_restart_of_the_server() {
    logs::collect();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let open = async || Arc::new(StoreRegistry::with_default_ttl(EmbeddedStore::open(&path).await.unwrap()));
    let server = Running::start(open().await, "127.0.0.1:0", None).await;
    let remote = RemoteRegistry::new(&server.address.to_string(), &TlsFiles::default()).unwrap();
    let store = remote.policy_store().unwrap();
    store.write_policies(&[put("a", "1"), put("b", "1")]).await.unwrap();
    let mut leases = remote.watch_leases().await;
    leases.recv().await.unwrap();
    let mut watch = store.watch_policies().await;
    assert!(matches!(next(&mut watch).await, PolicyUpdate::Snapshot(all) if all.len() == 2));
    let at = server.address.to_string();
    server.stop().await;
    assert!(store.policies().await.unwrap_err().is_unreachable());
    assert!(store.write_policies(&[put("c", "1")]).await.unwrap_err().is_unreachable());

    // Meanwhile somebody else has written.
    let registry = open().await;
    registry.policy_store().unwrap().write_policies(&[deleted("a"), put("b", "2")]).await.unwrap();
    let server = Running::start(registry, &at, None).await;
    let PolicyUpdate::Snapshot(all) = next(&mut watch).await else { panic!("no snapshot after the gap") };
    assert_eq!(all.into_iter().map(PolicyEvent::Put).collect::<Vec<_>>(), [put("b", "2")]);
    server.until_waiting(2).await;
    store.write_policies(&[deleted("b"), put("c", "1")]).await.unwrap();
    assert_eq!(next(&mut watch).await, PolicyUpdate::Events(vec![deleted("b"), put("c", "1")]));
    // Two watches, one server, one line each.
    let said = logs::with(&format!("registry server {at}: watch"));
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(said[0].contains("watch lost, going on with what is known") && said[1].contains("watch is back"), "{said:#?}");
    drop((watch, leases));
    server.until_waiting(0).await;
}

/// No contact for a while is no reason to be told everything.
#[tokio::test]
async fn a_broken_connection_costs_no_snapshot() {
    let server = Running::in_memory().await;
    let proxy = Proxy::to(server.address.port()).await;
    let remote = RemoteRegistry::new(proxy.url().trim_start_matches("http://"), &TlsFiles::default()).unwrap();
    let mut watch = remote.policy_store().unwrap().watch_policies().await;
    assert_eq!(next(&mut watch).await, PolicyUpdate::Snapshot(Vec::new()));
    server.until_waiting(1).await;
    proxy.turn(Way::Closed);
    proxy.cut(false);
    server.until_waiting(0).await;
    policies(&server).write_policies(&[put("a", "1")]).await.unwrap();
    proxy.turn(Way::Open);
    assert_eq!(next(&mut watch).await, PolicyUpdate::Events(vec![put("a", "1")]));
}

#[tokio::test]
async fn a_server_over_a_registry_without_policy_says_so() {
    let behind = Running::start(memory("{}").await, "127.0.0.1:0", None).await;
    let flanneld = Flanneld::start(&[(404, "404 page not found\n"), (404, "404 page not found\n")]).await;
    for error in [
        flanneld.client().policy_store().unwrap().policies().await.unwrap_err(),
        flanneld.client().policy_store().unwrap().write_policies(&[put("a", "1")]).await.unwrap_err(),
    ] {
        assert!(matches!(error, RegistryError::Unsupported(_)), "{error}");
        assert!(error.to_string().contains("keeps no policy objects"), "{error}");
    }
    assert_eq!(flanneld.requests(), ["GET /v1/_/policy", "POST /v1/_/policy"]);
    // A server of ours before another: it passes on what it is told.
    let relay = RemoteRegistry::new(&behind.address.to_string(), &TlsFiles::default()).unwrap();
    let relay = Running::start(Arc::new(relay), "127.0.0.1:0", None).await;
    policies(&relay).write_policies(&[put("a", "1")]).await.unwrap();
    assert_eq!(policies(&behind).policies().await.unwrap().len(), 1);
}
