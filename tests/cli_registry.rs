//! `felt serve` and `felt config get|set` of the real binary, on the embedded store and where there is no registry.

mod cli_support;

use std::fs;
use std::path::Path;

use cli_support::{Running, felt, felt_with};
use tempfile::TempDir;

const CONFIG: &str = r#"{"Network":"10.5.0.0/16"}"#;

fn store(directory: &TempDir) -> String {
    directory.path().join("registry.redb").display().to_string()
}

#[test]
fn a_config_put_into_a_store_is_there_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory);
    let ran = felt_with(&format!("config set - --store {store}"), &[], CONFIG);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    let ran = felt_with("config get", &[("FELT_STORE", &store)], "");
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{CONFIG}\n")));
}

#[test]
fn reading_makes_no_store() {
    let directory = tempfile::tempdir().unwrap();
    let ran = felt(&format!("config get --store {}", store(&directory)));
    assert!(ran.code == Some(2) && ran.stderr.contains("no registry store at"), "{ran:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_store_without_config_is_answered_no() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::serve(&format!("--store {}", store(&directory)));
    server.end();
    let ran = felt(&format!("config get --store {}", store(&directory)));
    assert!(ran.code == Some(5) && ran.stderr.contains("felt config set FILE"), "{ran:?}");
}

#[test]
fn a_registry_out_of_reach_has_an_exit_code_of_its_own() {
    // Port 1 on loopback: nobody listens there.
    let ran = felt("config get --etcd-endpoints http://127.0.0.1:1");
    assert!(ran.code == Some(3) && ran.stderr.contains("127.0.0.1:1"), "{ran:?}");
    let ran = felt_with("config set - --etcd-endpoints http://127.0.0.1:1", &[], CONFIG);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

#[test]
fn an_endpoint_that_is_none_is_a_usage_error() {
    let ran = felt("config get --etcd-endpoints ftp://127.0.0.1");
    assert!(ran.code == Some(2) && ran.stderr.contains("ftp://127.0.0.1"), "{ran:?}");
}

#[test]
fn a_server_takes_as_many_connections_as_the_system_allows() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::serve_with_few_files(&format!("--store {}", store(&directory)), 64);
    let limits = server.file_limits();
    assert!(limits[0] == limits[1] && limits[0] > 64, "{limits:?}");
    server.end();
}

#[test]
fn a_server_tells_where_it_listens_and_ends_on_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::serve(&format!("--store {}", store(&directory)));
    assert!(server.log().contains("no network config"), "{}", server.log());
    let ran = felt(&format!("serve --listen {} --store {}2", server.address(), store(&directory)));
    assert!(ran.code == Some(4) && ran.stderr.contains(server.address()), "{ran:?}");
    let ran = felt(&format!("config get --store {}", store(&directory)));
    assert!(ran.code == Some(4) && ran.stderr.contains("in use by another process"), "{ran:?}");
    server.end();
    assert!(Path::new(&store(&directory)).exists());
}

#[test]
fn a_running_server_s_config_is_put_and_read_through_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::serve(&format!("--store {}", store(&directory)));
    let remote = ("FLANNELD_REMOTE", server.address());
    let ran = felt_with("config get", &[remote], "");
    assert!(ran.code == Some(5) && ran.stderr.contains("felt config set FILE"), "{ran:?}");
    let ran = felt_with("config set -", &[remote], CONFIG);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = felt_with("config get", &[remote], "");
    assert!(ran.code == Some(0) && ran.stdout.contains(r#""Network":"10.5.0.0/16""#), "{ran:?}");
    server.end();
    // What was put is kept as it was written.
    let ran = felt(&format!("config get --store {}", store(&directory)));
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{CONFIG}\n")));
    let ran = felt_with("config get --remote 127.0.0.1:1", &[], "");
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

#[test]
fn a_server_refuses_what_makes_no_sense() {
    for (line, part) in [
        ("serve --listen nowhere", "--listen: expected a listen address"),
        ("serve --listen udp://127.0.0.1:1", "--listen: expected a listen address"),
        ("serve --listen 127.0.0.1:0 --remote-cafile /nonexistent", "--remote-certfile"),
        ("serve --listen 127.0.0.1:0 --remote-certfile /nonexistent/c --remote-keyfile /nonexistent/k", "/nonexistent/"),
        ("serve --listen 127.0.0.1:0 --store /nonexistent/a --etcd-endpoints http://127.0.0.1:1", "--store and --etcd-endpoints"),
    ] {
        let ran = felt(line);
        assert!(ran.code == Some(2) && ran.stderr.contains(part), "{line}: {ran:?}");
    }
}
