//! The flags of flannel that lead into a guarded etcd, from the command line to the lease.

use std::path::Path;

use etcd_client::Permission;
use felt::lab::{LabPlan, RegistryKind};
use felt::sys::netns::Netns;

use crate::daemon::Daemon;
use crate::lab::{CONFIG, PATIENCE, eventually, node, plan, up};
use crate::server::{Etcd, EtcdOptions, TlsDir};

/// Runs `work` in `netns` with a runtime of its own.
fn within<T: Send>(netns: &Netns, work: impl AsyncFnOnce() -> T + Send) -> T {
    netns
        .run_in(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work())
        })
        .unwrap()
}

/// An etcd with certificates and a user, and the config under `prefix`.
async fn guarded(tls: TlsDir, client_certificates: bool, prefix: &str) -> Etcd {
    let etcd = Etcd::start_with(EtcdOptions { tls: Some(tls), client_certificates, ..EtcdOptions::default() }).await;
    etcd.put(&format!("{prefix}/config"), CONFIG).await;
    let mut client = etcd.client().await;
    client.user_add("root", "rootpass", None).await.unwrap();
    client.user_grant_role("root", "root").await.unwrap();
    client.role_add("felt").await.unwrap();
    client.role_grant_permission("felt", Permission::read_write(format!("{prefix}/")).with_prefix()).await.unwrap();
    client.user_add("felt", "feltpass", None).await.unwrap();
    client.user_grant_role("felt", "felt").await.unwrap();
    client.auth_enable().await.unwrap();
    etcd
}

/// A daemon with flannel's flags gets a lease from such an etcd; `prefix` is as typed.
fn enters(test: &str, client_certificates: bool, prefix: &str) {
    let lab = up(LabPlan { registry: RegistryKind::Absent, ..plan(test, 1) });
    let netns = node(&lab, 1);
    let directory = tempfile::tempdir().unwrap();
    let tls = TlsDir::make(directory.path());
    let etcd = within(&netns, async || guarded(tls.clone(), client_certificates, "/felt/test").await);
    let shown = |path: &Path| path.display().to_string();
    let (url, ca, cert, key) = (etcd.url(), shown(&tls.ca()), shown(&tls.client_cert()), shown(&tls.client_key()));
    let mut args = vec!["-etcd-endpoints", &url, "-etcd-prefix", prefix, "-etcd-cafile", &ca];
    args.extend(["-etcd-username=felt", "-etcd-password=feltpass"]);
    if client_certificates {
        args.extend(["-etcd-certfile", &cert, "-etcd-keyfile", &key]);
    }
    let daemon = Daemon::run(&lab, &netns, directory.path(), &args);
    let file = directory.path().join("subnet.env");
    eventually(&format!("a subnet file; log: {}", shown(&daemon.log_file())), PATIENCE, || {
        std::fs::read_to_string(&file).ok().filter(|text| text.contains("FLANNEL_SUBNET=10.99."))
    });
    let log = daemon.log();
    assert!(!log.contains("feltpass"), "{log}");
}

#[test]
fn a_daemon_enters_by_authority_and_password() {
    enters("tls", false, "/felt/test");
}

#[test]
fn a_daemon_enters_by_certificate_and_an_odd_prefix() {
    enters("mutual", true, "felt//test/");
}
