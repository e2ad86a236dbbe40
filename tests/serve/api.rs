//! The API byte for byte, as flannel's clients see it.

use std::time::Duration;

use felt::sys::netlink::Netlink;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::support::{Answer, CONFIG, LONG, Running, ask, memory, parse, send};
use crate::sys_support::TestNetns;

const JSON: &str = "application/json; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Status, content type and body; and that nothing else is in the headers.
fn assert_answer(answer: &Answer, status: u16, kind: Option<&str>, body: &str) {
    assert_eq!((answer.status, answer.body.as_str()), (status, body));
    assert_eq!(answer.header("content-type"), kind, "{body}");
    assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()));
    let known = ["content-type", "content-length", "connection", "felt-error", "x-content-type-options"];
    let unknown: Vec<_> = answer.headers.iter().filter(|(name, _)| !known.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The body with its `Expiration` values taken out.
fn timeless(body: &str) -> String {
    let end = |rest: &str| rest.find('"').unwrap();
    let mut parts = body.split(r#""Expiration":""#);
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        text.push_str(r#""Expiration":""#);
        text.push_str(&part[end(part)..]);
    }
    text
}

#[tokio::test]
async fn the_config_comes_parsed_with_its_defaults() {
    let registry = memory(r#"{"network": "10.1.2.3/16", "Backend": { "Type": "udp",  "Port": 7890 }}"#).await;
    let server = Running::start(registry, "127.0.0.1:0", None).await;
    let expected = r#"{"Network":"10.1.0.0/16","SubnetMin":"10.1.1.0","SubnetMax":"10.1.255.0","SubnetLen":24,"Backend":{"Type":"udp","Port":7890}}"#;
    assert_answer(&server.ask("GET", "/v1/_/config", "").await, 200, Some(JSON), &format!("{expected}\n"));

    let server = Running::in_memory().await;
    let expected = r#"{"Network":"10.1.0.0/16","SubnetMin":"10.1.1.0","SubnetMax":"10.1.255.0","SubnetLen":24}"#;
    assert_answer(&server.ask("GET", "/v1/_/config", "").await, 200, Some(JSON), &format!("{expected}\n"));
}

#[tokio::test]
async fn a_lease_from_acquire_to_revoke() {
    let server = Running::in_memory().await;
    let attrs = r#"{"PublicIP":"1.1.1.1","BackendType":"vxlan","BackendData":{"VtepMAC":"82:4b:b6:2f:54:4e"}}"#;
    let answer = server.ask("POST", "/v1/_/leases?previous=10.1.5.0-24&node=abc", attrs).await;
    let lease = format!(r#"{{"Subnet":"10.1.5.0/24","Attrs":{attrs},"Expiration":""}}"#);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(JSON)));
    assert_eq!(timeless(&answer.body), format!("{lease}\n"));
    let granted: Value = serde_json::from_str(&answer.body).unwrap();
    let end =
        time::OffsetDateTime::parse(granted["Expiration"].as_str().unwrap(), &time::format_description::well_known::Rfc3339);
    let day = end.unwrap() - time::OffsetDateTime::now_utc();
    assert!((86_390..=86_400).contains(&day.whole_seconds()), "{day}");

    // The body decides, not the path; backend data comes back as the object it is.
    let renewed = server.ask("PUT", "/v1/_/leases/whatever", &answer.body).await;
    assert_eq!((renewed.status, timeless(&renewed.body)), (200, format!("{lease}\n")));

    let listed = server.ask("GET", "/v1/_/leases", "").await;
    let cursor = server.json("/v1/_/leases").await["cursor"].as_str().unwrap().to_owned();
    cursor.parse::<u64>().unwrap();
    let snapshot = format!(r#"{{"events":null,"snapshot":[{lease}],"cursor":"{cursor}"}}"#);
    assert_eq!((listed.status, listed.header("content-type")), (200, Some(JSON)));
    assert_eq!(timeless(&listed.body), format!("{snapshot}\n"));
    let one = server.ask("GET", "/v1/_/leases/10.1.5.0-24", "").await;
    assert_eq!(timeless(&one.body), format!("{snapshot}\n"));

    assert_answer(&server.ask("DELETE", "/v1/_/leases/10.1.5.0-24", "").await, 200, None, "");
    assert_answer(&server.ask("DELETE", "/v1/_/leases/10.1.5.0-24", "").await, 200, None, "");
    let gone = server.ask("GET", "/v1/_/leases/10.1.5.0-24", "").await;
    assert_answer(&gone, 500, Some(TEXT), "lease 10.1.5.0-24 not found");
    let cursor = server.json("/v1/_/leases").await["cursor"].as_str().unwrap().to_owned();
    let empty = format!("{{\"events\":null,\"snapshot\":[],\"cursor\":\"{cursor}\"}}\n");
    assert_answer(&server.ask("GET", "/v1/_/leases", "").await, 200, Some(JSON), &empty);

    let lost = server.ask("PUT", "/v1/_/leases/10.1.5.0-24", &answer.body).await;
    assert_eq!((lost.status, lost.header("felt-error")), (500, Some(r#"{"kind":"lost"}"#)));
    assert!(lost.body.contains("cannot be renewed") && !lost.body.ends_with('\n'), "{}", lost.body);
}

#[tokio::test]
async fn a_watch_wakes_with_the_event_and_the_next_cursor() {
    let server = Running::in_memory().await;
    let cursor = server.json("/v1/_/leases").await["cursor"].as_str().unwrap().to_owned();
    let address = server.address;
    let path = format!("/v1/_/leases?next={cursor}");
    let waiting = tokio::spawn(async move { ask(address, "GET", &path, "").await });
    server.until_waiting(1).await;
    server.ask("POST", "/v1/_/leases?previous=10.1.7.0-24", r#"{"PublicIP":"1.1.1.2"}"#).await;
    let answer = timeout(LONG, waiting).await.unwrap().unwrap();
    let next = server.json("/v1/_/leases").await["cursor"].as_str().unwrap().to_owned();
    assert!(next.parse::<u64>().unwrap() > cursor.parse().unwrap());
    let lease = r#"{"Subnet":"10.1.7.0/24","Attrs":{"PublicIP":"1.1.1.2"},"Expiration":""}"#;
    let added = format!(r#"{{"events":[{{"type":"added","lease":{lease}}}],"snapshot":null,"cursor":"{next}"}}"#);
    assert_eq!(timeless(&answer.body), format!("{added}\n"));
    assert_eq!(answer.header("content-type"), Some(JSON));

    let bare = r#"{"Subnet":"10.1.7.0/24","Attrs":{"PublicIP":"0.0.0.0"},"Expiration":"0001-01-01T00:00:00Z"}"#;
    let mut removals = Vec::new();
    for path in [format!("/v1/_/leases?next={next}"), format!("/v1/_/leases/10.1.7.0-24?next={next}")] {
        removals.push(tokio::spawn(async move { ask(address, "GET", &path, "").await }));
    }
    server.until_waiting(2).await;
    server.ask("DELETE", "/v1/_/leases/10.1.7.0-24", "").await;
    let cursor = server.json("/v1/_/leases").await["cursor"].as_str().unwrap().to_owned();
    for removal in removals {
        let answer = timeout(LONG, removal).await.unwrap().unwrap();
        let removed = format!(r#"{{"events":[{{"type":"removed","lease":{bare}}}],"snapshot":null,"cursor":"{cursor}"}}"#);
        assert_eq!(answer.body, format!("{removed}\n"));
    }
}

#[tokio::test]
async fn a_cursor_of_another_life_gets_a_snapshot_and_a_bad_one_an_error() {
    let server = Running::in_memory().await;
    for cursor in ["0", "7", "18446744073709551615"] {
        let body = server.json(&format!("/v1/_/leases?next={cursor}")).await;
        assert_eq!((&body["events"], &body["snapshot"]), (&Value::Null, &Value::Array(vec![])), "{cursor}");
    }
    for cursor in ["", "abc", "-1", "1e3", "99999999999999999999"] {
        let answer = server.ask("GET", &format!("/v1/_/leases?next={cursor}"), "").await;
        let text = format!("failed to parse cursor: expected a decimal number, found {cursor:?}");
        assert_answer(&answer, 500, Some(TEXT), &text);
    }
}

#[tokio::test]
async fn a_late_watcher_of_one_lease_is_told_of_its_removal() {
    let server = Running::in_memory().await;
    let body = server.json("/v1/_/leases/10.1.9.0-24?next=1").await;
    assert_eq!(body["events"][0]["type"], "removed");
    assert_eq!(body["events"][0]["lease"]["Subnet"], "10.1.9.0/24");
    assert_eq!(body["snapshot"], Value::Null);
}

#[tokio::test]
async fn only_the_unnamed_network_is_there() {
    let server = Running::in_memory().await;
    let networks = server.ask("GET", "/v1/", "").await;
    let cursor = server.json("/v1/").await["cursor"].as_str().unwrap().to_owned();
    let expected = format!("{{\"events\":null,\"snapshot\":[],\"cursor\":\"{cursor}\"}}\n");
    assert_answer(&networks, 200, Some(JSON), &expected);
    let address = server.address;
    let waiting = tokio::spawn(async move { ask(address, "GET", &format!("/v1/?next={cursor}"), "").await });
    server.until_waiting(1).await;
    waiting.abort();
    server.until_waiting(0).await;
    let text = "network \"blue\" is unknown: this server has only the unnamed network, spelled `_`";
    for (method, path) in [("GET", "/v1/blue/config"), ("POST", "/v1/blue/leases"), ("GET", "/v1/blue/leases?next=1")] {
        assert_answer(&server.ask(method, path, "{}").await, 500, Some(TEXT), text);
    }
}

#[tokio::test]
async fn an_address_that_is_no_node_s_is_refused_and_nothing_is_written() {
    let server = Running::in_memory().await;
    let lease = server.ask("POST", "/v1/_/leases", r#"{"PublicIP":"1.1.1.1"}"#).await.body;
    let before = timeless(&server.ask("GET", "/v1/_/leases", "").await.body);
    for address in ["0.0.0.0", "224.0.0.1", "239.255.255.255", "255.255.255.255"] {
        let reservation = format!(r#"{{"Subnet":"10.1.10.0/24","PublicIP":"{address}"}}"#);
        for (method, path, body) in [
            ("POST", "/v1/_/leases", format!(r#"{{"PublicIP":"{address}"}}"#)),
            ("PUT", "/v1/_/leases/any", lease.replace("1.1.1.1", address)),
            ("POST", "/v1/_/reservations", reservation),
        ] {
            let answer = server.ask(method, path, &body).await;
            assert_eq!(answer.status, 400, "{method} {path}: {}", answer.body);
            assert!(answer.body.ends_with(&format!("found {address}")), "{}", answer.body);
        }
    }
    assert_eq!(server.ask("POST", "/v1/_/leases", "{}").await.status, 400, "flannel takes that for 0.0.0.0");
    assert_eq!(timeless(&server.ask("GET", "/v1/_/leases", "").await.body), before);
}

#[tokio::test]
async fn reservations() {
    let server = Running::in_memory().await;
    assert_answer(&server.ask("GET", "/v1/_/reservations", "").await, 200, Some(JSON), "[]\n");
    let reservation = r#"{"Subnet":"10.1.10.0/24","PublicIP":"52.195.12.13"}"#;
    let other = r#"{"Subnet":"10.1.10.0/24","PublicIP":"52.195.12.14"}"#;
    let outside = r#"{"Subnet":"10.9.10.0/24","PublicIP":"52.195.12.13"}"#;
    let refused = server.ask("POST", "/v1/_/reservations", outside).await;
    assert_eq!(refused.status, 500);
    assert!(refused.body.starts_with("internal error: "), "{}", refused.body);
    assert_answer(&server.ask("POST", "/v1/_/reservations", reservation).await, 200, None, "");
    assert_answer(&server.ask("POST", "/v1/_/reservations", reservation).await, 200, None, "");
    let taken = server.ask("POST", "/v1/_/reservations", other).await;
    assert_eq!((taken.status, taken.header("content-type")), (500, Some(TEXT)));
    assert!(taken.body.starts_with("internal error: ") && taken.body.contains("already taken"), "{}", taken.body);
    assert_answer(&server.ask("GET", "/v1/_/reservations", "").await, 200, Some(JSON), &format!("[{reservation}]\n"));

    let lease = server.ask("POST", "/v1/_/leases", r#"{"PublicIP":"52.195.12.13"}"#).await;
    let kept = r#"{"Subnet":"10.1.10.0/24","Attrs":{"PublicIP":"52.195.12.13"},"Expiration":"0001-01-01T00:00:00Z"}"#;
    assert_answer(&lease, 200, Some(JSON), &format!("{kept}\n"));
    assert_answer(&server.ask("PUT", "/v1/_/leases/10.1.10.0-24", kept).await, 200, Some(JSON), &format!("{kept}\n"));

    assert_answer(&server.ask("DELETE", "/v1/_/reservations/10.1.10.0-24", "").await, 200, None, "");
    assert_answer(&server.ask("GET", "/v1/_/reservations", "").await, 200, Some(JSON), "[]\n");
    let listed = server.json("/v1/_/leases").await;
    assert_ne!(listed["snapshot"][0]["Expiration"], "0001-01-01T00:00:00Z");
    let twice = server.ask("DELETE", "/v1/_/reservations/10.1.10.0-24", "").await;
    assert_answer(&twice, 500, Some(TEXT), "subnet 10.1.10.0-24 is not reserved");
}

#[tokio::test]
async fn errors_as_flannel_words_them() {
    let server = Running::in_memory().await;
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/v1"),
        ("GET", "/v1/_/config/"),
        ("POST", "/v1/_/config"),
        ("HEAD", "/v1/_/nothing"),
        ("PATCH", "/v1/_/leases"),
        ("GET", "/healthz"),
    ] {
        let answer = server.ask(method, path, "").await;
        let body = if method == "HEAD" { "" } else { "404 page not found\n" };
        assert_eq!((answer.status, answer.body.as_str()), (404, body), "{method} {path}");
        assert_eq!(answer.header("content-type"), Some(TEXT));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let moved = server.ask("GET", "/v1//_/leases?next=0", "").await;
    assert_eq!((moved.status, moved.header("location")), (301, Some("/v1/_/leases?next=0")));

    for (method, path, text) in [
        ("DELETE", "/v1/_/leases/10.1.5.0", "failed to parse subnet"),
        ("GET", "/v1/_/leases/10.1.5.0-33", "bad subnet"),
        ("DELETE", "/v1/_/reservations/ten-24", "bad subnet"),
    ] {
        assert_answer(&server.ask(method, path, "").await, 400, Some(TEXT), text);
    }
    for (method, path) in [("POST", "/v1/_/leases"), ("PUT", "/v1/_/leases/10.1.5.0-24"), ("POST", "/v1/_/reservations")] {
        for body in ["", "{", "[]", "{\"PublicIP\":7,\"Subnet\":7}", "\u{0}"] {
            let answer = server.ask(method, path, body).await;
            assert_eq!(answer.status, 400, "{method} {path} {body:?}");
            assert!(answer.body.starts_with("JSON decoding error: "), "{}", answer.body);
            assert_eq!(answer.header("content-type"), Some(TEXT));
        }
    }
    let full = memory(r#"{"Network":"10.1.0.0/28","SubnetLen":30,"SubnetMin":"10.1.0.4","SubnetMax":"10.1.0.4"}"#).await;
    let server = Running::start(full, "127.0.0.1:0", None).await;
    server.ask("POST", "/v1/_/leases", r#"{"PublicIP":"1.1.1.1"}"#).await;
    let answer = server.ask("POST", "/v1/_/leases", r#"{"PublicIP":"1.1.1.2"}"#).await;
    assert_eq!(answer.status, 500);
    assert!(answer.body.starts_with("out of subnets"), "{}", answer.body);
}

#[tokio::test]
async fn the_config_can_be_set_from_the_servers_own_machine() {
    let server = Running::in_memory().await;
    assert_answer(&server.ask("PUT", "/v1/_/config", r#"{"Network":"10.9.0.0/16"}"#).await, 200, None, "");
    assert_eq!(server.json("/v1/_/config").await["Network"], "10.9.0.0/16");
    let bad = server.ask("PUT", "/v1/_/config", r#"{"Network":"10.9.0.0/40"}"#).await;
    assert_eq!(bad.status, 400);
    assert!(bad.body.starts_with("network config: "), "{}", bad.body);
    assert_eq!(server.json("/v1/_/config").await["Network"], "10.9.0.0/16");
}

#[test]
fn the_servers_own_machine_is_known_by_any_of_its_addresses() {
    let netns = TestNetns::new("own");
    let ran = netns.run_in(|| {
        let netlink = Netlink::open().unwrap();
        let lo = netlink.link("lo").unwrap().index;
        for address in ["192.0.2.1/32", "192.0.2.2/32"] {
            netlink.add_address(lo, address.parse().unwrap()).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for at in ["0.0.0.0:0", "[::]:0"] {
                let server = Running::start(memory(CONFIG).await, at, None).await;
                // From 192.0.2.2 as from another machine.
                let froms = [("192.0.2.1", 200), ("127.0.0.1", 200), ("192.0.2.2", 403)];
                let asked = [("PUT /v1/_/config", CONFIG), ("POST /v1/_/policy", "[]")];
                for ((from, expected), (line, body)) in froms.into_iter().flat_map(|from| asked.map(|asked| (from, asked))) {
                    let socket = TcpSocket::new_v4().unwrap();
                    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
                    let mut stream = socket.connect(([192, 0, 2, 1], server.address.port()).into()).await.unwrap();
                    let head = format!("{line} HTTP/1.1\r\nHost: r\r\nConnection: close\r\nContent-Length:");
                    stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
                    let mut answer = String::new();
                    timeout(LONG, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
                    assert_eq!(parse(&answer).status, expected, "{line} from {from} to {at}: {answer}");
                }
                server.stop().await;
            }
        });
    });
    ran.unwrap();
}

#[tokio::test]
async fn a_registry_without_config_says_so() {
    let store = felt::control::registry::embedded::EmbeddedStore::in_memory().unwrap();
    let registry = std::sync::Arc::new(felt::control::registry::StoreRegistry::with_default_ttl(store));
    let server = Running::start(registry, "127.0.0.1:0", None).await;
    for (method, path) in [("GET", "/v1/_/config"), ("POST", "/v1/_/leases")] {
        let answer = server.ask(method, path, r#"{"PublicIP":"1.1.1.1"}"#).await;
        assert_eq!(answer.status, 500);
        assert!(answer.body.starts_with("no network config at"), "{}", answer.body);
        assert!(answer.header("felt-error").unwrap().contains("no-config"));
    }
}

#[tokio::test]
async fn hostile_bytes_get_an_error_and_the_server_goes_on() {
    let server = Running::in_memory().await;
    let status = |bytes: Vec<u8>| if bytes.is_empty() { 0 } else { parse(&String::from_utf8_lossy(&bytes)).status };
    let big = format!("POST /v1/_/leases HTTP/1.1\r\nHost: r\r\nContent-Length: 1000000\r\n\r\n{}", "x".repeat(1_000_000));
    for (name, bytes, expected) in [
        ("binary", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), vec![400, 0]),
        ("no http", b"HELO registry\r\n\r\n".to_vec(), vec![400]),
        ("bad path", b"GET /v1/%zz HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n".to_vec(), vec![400]),
        ("huge header", format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "h".repeat(100_000)).into_bytes(), vec![431, 0]),
        ("huge body", big.into_bytes(), vec![413]),
        ("two lengths", b"POST /v1/_/leases HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}".to_vec(), vec![400]),
        (
            "odd node",
            b"POST /v1/_/leases?node= HTTP/1.1\r\nHost: r\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
            vec![400],
        ),
    ] {
        let found = status(send(server.address, &bytes).await);
        assert!(expected.contains(&found), "{name}: {found}");
    }
    let deep = "[".repeat(60_000);
    assert_eq!(server.ask("POST", "/v1/_/leases", &deep).await.status, 400);
    // Requests that never end must not stand in the way of others.
    let mut slow = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /v1/_/config HTTP/1.1\r\nHost: ").await.unwrap();
        slow.push(stream);
    }
    assert_eq!(server.ask("GET", "/v1/_/config", "").await.status, 200);
    assert_eq!(server.ask("POST", "/v1/_/leases", r#"{"PublicIP":"1.1.1.1"}"#).await.status, 200);
}

#[tokio::test]
async fn clients_that_leave_free_their_handler() {
    let server = Running::in_memory().await;
    let cursor = server.json("/v1/_/leases").await["cursor"].as_str().unwrap().to_owned();
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let request = format!("GET /v1/_/leases?next={cursor} HTTP/1.1\r\nHost: r\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    server.until_waiting(20).await;
    streams.truncate(5);
    server.until_waiting(5).await;
    drop(streams);
    server.until_waiting(0).await;
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = Running::in_memory().await;
    let request =
        "GET /v1/_/config HTTP/1.1\r\nHost: r\r\n\r\n".repeat(3) + "GET /x HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n";
    let answers = String::from_utf8(send(server.address, request.as_bytes()).await).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3);
    assert_eq!(answers.matches("HTTP/1.1 404 Not Found").count(), 1);
    assert_eq!(answers.matches(&CONFIG[1..CONFIG.len() - 1]).count(), 3);
    timeout(Duration::from_secs(5), server.stop()).await.unwrap();
}
