//! Ways in: TLS, users, members that do not answer.

use std::path::PathBuf;
use std::time::Instant;

use felt::control::registry::{Registry, RegistryError};

use super::*;
use crate::proxy::{Proxy, Way};
use crate::server::{EtcdOptions, TlsDir};

fn config_of(config: &EtcdConfig) -> impl Future<Output = Result<Option<String>, RegistryError>> + use<> {
    let store = EtcdStore::new(config).unwrap();
    async move { store.config().await }
}

#[tokio::test]
async fn tls_with_a_ca_with_a_client_certificate_and_what_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let tls = TlsDir::make(&directory.path().join("a"));
    let stranger = TlsDir::make(&directory.path().join("b"));
    let one_way = Etcd::start_with(EtcdOptions { tls: Some(tls.clone()), ..EtcdOptions::default() }).await;
    let mutual = EtcdOptions { tls: Some(tls.clone()), client_certificates: true, ..EtcdOptions::default() };
    let mutual = Etcd::start_with(mutual).await;
    for etcd in [&one_way, &mutual] {
        etcd.put("/coreos.com/network/config", CONFIG).await;
    }
    let with = |etcd: &Etcd, ca: Option<PathBuf>, identity: Option<&TlsDir>| EtcdConfig {
        cafile: ca,
        certfile: identity.map(TlsDir::client_cert),
        keyfile: identity.map(TlsDir::client_key),
        ..EtcdConfig::plain([etcd.url()], PREFIX)
    };
    let works = |config: EtcdConfig| async move { assert_eq!(config_of(&config).await.unwrap().as_deref(), Some(CONFIG)) };
    works(with(&one_way, Some(tls.ca()), None)).await;
    works(with(&one_way, Some(tls.ca()), Some(&tls))).await;
    works(with(&mutual, Some(tls.ca()), Some(&tls))).await;
    let watching = StoreRegistry::with_default_ttl(EtcdStore::new(&with(&mutual, Some(tls.ca()), Some(&tls))).unwrap());
    snapshot(&mut watching.watch_leases().await, SOON).await;

    let begin = Instant::now();
    for (config, words) in [
        // The system's authorities do not vouch for it.
        (with(&one_way, None, None), "certificate"),
        (with(&one_way, Some(stranger.ca()), None), "certificate"),
        (with(&mutual, Some(tls.ca()), None), "fatal alert"),
        (with(&mutual, Some(tls.ca()), Some(&stranger)), "fatal alert"),
    ] {
        let error = config_of(&config).await.unwrap_err().to_string();
        assert!(error.contains(&config.endpoints[0]) && error.contains(words), "{words}: {error}");
    }
    assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed());

    // Plain HTTP spoken to a TLS server, and the other way round.
    let plain = EtcdConfig::plain([mutual.url().replace("https", "http")], PREFIX);
    assert!(config_of(&plain).await.unwrap_err().is_unreachable());
    let absent = EtcdConfig { cafile: Some("/nonexistent/ca.pem".into()), ..plain };
    assert!(EtcdStore::new(&absent).unwrap_err().to_string().contains("/nonexistent/ca.pem"));
}

/// A server with a user `felt` who may do everything below the prefix, and with short-lived tokens.
async fn with_users(token_ttl: Duration) -> Etcd {
    let etcd = Etcd::start_with(EtcdOptions { token_ttl: Some(token_ttl), ..EtcdOptions::default() }).await;
    etcd.put("/coreos.com/network/config", CONFIG).await;
    let mut client = etcd.client().await;
    client.user_add("root", "rootpass", None).await.unwrap();
    client.user_grant_role("root", "root").await.unwrap();
    client.role_add("felt").await.unwrap();
    let below = etcd_client::Permission::read_write(PREFIX).with_prefix();
    client.role_grant_permission("felt", below).await.unwrap();
    client.user_add("felt", "feltpass", None).await.unwrap();
    client.user_grant_role("felt", "felt").await.unwrap();
    client.auth_enable().await.unwrap();
    etcd
}

fn login(etcd: &Etcd, user: Option<&str>, password: Option<&str>) -> EtcdConfig {
    EtcdConfig { username: user.map(Into::into), password: password.map(Into::into), ..EtcdConfig::plain([etcd.url()], PREFIX) }
}

#[tokio::test]
async fn a_user_enters_and_stays_when_its_token_runs_out() {
    let etcd = with_users(Duration::from_secs(2)).await;
    let store = EtcdStore::new(&login(&etcd, Some("felt"), Some("feltpass"))).unwrap();
    let registry = StoreRegistry::with_default_ttl(store);
    let mut updates = registry.watch_leases().await;
    snapshot(&mut updates, SOON).await;
    let lease = registry.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    until_there(&mut updates, &lease.subnet.to_string(), SOON).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    registry.renew(&lease, &lease.attrs).await.unwrap();
    registry.revoke(&lease.subnet).await.unwrap();
    create(registry.store(), "10.3.9.0-24", OURS, Some(LEASE_TTL)).await;
    until_there(&mut updates, "10.3.9.0-24", SOON).await;
}

#[tokio::test]
async fn who_may_not_enter_is_told_so() {
    let etcd = with_users(Duration::from_mins(1)).await;
    for (user, password) in [(Some("felt"), Some("wrong")), (Some("nobody"), Some("feltpass")), (None, None)] {
        let error = config_of(&login(&etcd, user, password)).await.unwrap_err();
        assert!(matches!(error, RegistryError::Denied { .. }), "{error}");
        assert!(error.to_string().contains(&etcd.url()), "{error}");
    }
    let elsewhere = EtcdConfig { prefix: "/elsewhere".into(), ..login(&etcd, Some("felt"), Some("feltpass")) };
    let error = config_of(&elsewhere).await.unwrap_err();
    assert!(matches!(error, RegistryError::Denied { .. }) && error.to_string().contains("permission denied"), "{error}");
}

#[tokio::test]
async fn a_role_for_flannels_keys_is_enough() {
    logs::collect();
    let etcd = with_users(Duration::from_mins(1)).await;
    let root = etcd_client::ConnectOptions::new().with_user("root", "rootpass");
    let mut client = etcd_client::Client::connect([etcd.url()], Some(root)).await.unwrap();
    client.role_add("flannel").await.unwrap();
    let config = etcd_client::Permission::read(format!("{PREFIX}/config"));
    client.role_grant_permission("flannel", config).await.unwrap();
    let leases = etcd_client::Permission::read_write(format!("{PREFIX}/subnets")).with_prefix();
    client.role_grant_permission("flannel", leases).await.unwrap();
    client.user_add("flannel", "flannelpass", None).await.unwrap();
    client.user_grant_role("flannel", "flannel").await.unwrap();

    let config = login(&etcd, Some("flannel"), Some("flannelpass"));
    let registry = StoreRegistry::with_default_ttl(EtcdStore::new(&config).unwrap());
    let lease = registry.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    assert!(matches!(registry.renew(&lease, &lease.attrs).await.unwrap(), felt::control::registry::Renewal::Renewed(_)));
    let again = StoreRegistry::with_default_ttl(EtcdStore::new(&config).unwrap());
    assert_eq!(again.acquire(&request(OURS, None, Some("machine-b"))).await.unwrap().subnet, lease.subnet);
    again.revoke(&lease.subnet).await.unwrap();
    assert!(registry.store().list().await.unwrap().leases.is_empty());
}

#[tokio::test]
async fn a_password_is_not_needed_where_nobody_asks() {
    let (etcd, _) = start().await;
    assert!(config_of(&login(&etcd, Some("felt"), Some("feltpass"))).await.unwrap().is_some());
}

#[tokio::test]
async fn a_member_that_swallows_everything_does_not_hold_up_a_start() {
    logs::collect();
    let (etcd, _) = start().await;
    let hole = Proxy::to(etcd.port()).await;
    hole.turn(Way::Silent);
    let store = EtcdStore::new(&EtcdConfig::plain([hole.url(), etcd.url()], PREFIX)).unwrap();
    let registry = StoreRegistry::with_default_ttl(store);
    let begin = Instant::now();
    let mut updates = registry.watch_leases().await;
    registry.config().await.unwrap();
    let lease = registry.acquire(&request(OURS, None, Some("machine-a"))).await.unwrap();
    until_there(&mut updates, &lease.subnet.to_string(), Duration::from_secs(10)).await;
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn the_other_member_takes_over_when_one_goes() {
    let (etcd, _) = start().await;
    let (one, two) = (Proxy::to(etcd.port()).await, Proxy::to(etcd.port()).await);
    let registry = StoreRegistry::with_default_ttl(EtcdStore::new(&EtcdConfig::plain([one.url(), two.url()], PREFIX)).unwrap());
    let mut updates = registry.watch_leases().await;
    snapshot(&mut updates, SOON).await;
    for (gone, back) in [(&one, &two), (&two, &one)] {
        back.turn(Way::Open);
        gone.turn(Way::Closed);
        gone.cut(true);
        registry.config().await.unwrap();
        let subnet = if std::ptr::eq(gone, &raw const one) { "10.3.1.0-24" } else { "10.3.2.0-24" };
        create(&store_at(&etcd.url()), subnet, OTHER, Some(LEASE_TTL)).await;
        until_there(&mut updates, subnet, SOON).await;
    }
}

#[tokio::test]
async fn nobody_there_is_said_at_once_with_where_and_why() {
    let port = server::free_port();
    let begin = Instant::now();
    let error = config_of(&EtcdConfig::plain([format!("http://127.0.0.1:{port}")], PREFIX)).await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert!(error.is_unreachable(), "{error}");
    assert!(error.to_string().contains(&port.to_string()) && error.to_string().contains("refused"), "{error}");
}
