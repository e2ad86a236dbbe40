//! Where a daemon may not do as it likes: each way to be refused has its own message and remedy (R65), and those that
//! suffice do suffice.
#![allow(unsafe_code, reason = "the owner of a TUN device is set by ioctl(2)")]

mod e2e_support;

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use e2e_support::{Daemon, PATIENCE, cpu_time, eventually, get, netlink, node, plan, put, up};
use felt::lab::probe::ping;
use felt::lab::{EphemeralLab, HEALTH_PORT, Interrupt, LabPlan, RegistryKind};
use felt::sys::netlink::Route;
use felt::sys::process::Signal;
use felt::sys::tun::{Multiqueue, TunQueue};

/// What is prepared, what is taken away, further arguments; what is said.
type Setup<'a> = (&'a str, &'a [&'a str], &'a [&'a str], [&'a str; 2]);

const NOBODY: u32 = 65_534;
/// Hides the machine's device node, in a mount namespace of its own.
const HIDE: &str = "mount -t tmpfs none /dev/net";

/// A lab whose first node's daemon is stopped, and a directory that anybody may write to.
fn up_without_first(test: &str) -> (EphemeralLab, tempfile::TempDir) {
    let lab = up(LabPlan { pods_per_node: 0, ..plan(test, 2) });
    lab.node(1).unwrap().stop().unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    (lab, directory)
}

/// Starts a daemon in node 1, after `preparation` in a mount namespace of its own, under `setpriv` with these options.
fn run(lab: &EphemeralLab, directory: &Path, preparation: &str, privileges: &[&str], args: &[&str]) -> Daemon {
    let netns = node(lab, 1);
    let mut command = Command::new("unshare");
    let script = format!("{preparation} && exec setpriv {} \"$0\" \"$@\"", privileges.join(" "));
    command.args(["--mount", "sh", "-c", &script]).arg(&lab.plan().felt).args(Daemon::run_words(lab, &netns, directory));
    let port = HEALTH_PORT.to_string();
    command.args(["--healthz-ip", "127.0.0.1", "--healthz-port", &port]).args(args);
    Daemon::start(lab, &netns, command)
}

#[test]
fn each_refusal_says_which_it_is_and_what_helps() {
    let (lab, directory) = up_without_first("refused");
    let held = node(&lab, 1).run_in(|| TunQueue::open("felt7", Multiqueue::No).unwrap()).unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];
    let forbidden = format!("{HIDE} && mknod -m 600 /dev/net/tun c 10 200");
    let no_driver = format!("{HIDE} && mknod -m 666 /dev/net/tun c 10 253");
    let setups: [Setup<'_>; 5] = [
        (HIDE, &["--no-new-privs"], &[], ["device node /dev/net/tun is missing", "--device /dev/net/tun"]),
        (&forbidden, &nobody, &[], ["opening /dev/net/tun was refused", "--device /dev/net/tun"]),
        (&no_driver, &["--no-new-privs"], &[], ["no TUN driver", "CONFIG_TUN"]),
        (
            "true",
            &["--inh-caps=-net_admin", "--bounding-set=-net_admin"],
            &[],
            ["CAP_NET_ADMIN is needed", "--cap-add NET_ADMIN"],
        ),
        ("true", &["--no-new-privs"], &["--tun-name", "felt7"], ["felt7 is in use by another process", "another name"]),
    ];
    let mut told = Vec::new();
    for (preparation, privileges, args, expected) in setups {
        let mut daemon = run(&lab, directory.path(), preparation, privileges, args);
        let code = daemon.ended(PATIENCE).code();
        let log = daemon.log();
        assert_eq!(code, Some(4), "{log}");
        let error = log.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{log}")).to_owned();
        assert!(expected.iter().all(|part| error.contains(part)) && !log.contains("modprobe"), "{log}");
        assert!(netlink(&node(&lab, 1)).find_link("flannel0").unwrap().is_none());
        told.push(error);
    }
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 5);
    drop(held);
}

#[test]
fn a_device_node_that_vanishes_is_waited_for() {
    let (lab, directory) = up_without_first("vanishes");
    let shared = directory.path().join("dev");
    std::fs::create_dir(&shared).unwrap();
    // Made where this test can take it away under the daemon's eyes.
    let preparation =
        format!("mount -t tmpfs none {0} && mount --bind {0} /dev/net && mknod /dev/net/tun c 10 200", shared.display());
    let mut daemon = run(&lab, directory.path(), &preparation, &["--no-new-privs"], &[]);
    ready_and_reaching(&lab, &mut daemon);
    let (netns, tun) = (node(&lab, 1), format!("/proc/{}/root/dev/net/tun", daemon.pid()));
    std::fs::remove_file(&tun).unwrap();
    let root = netlink(&netns);
    root.delete_link(root.link("flannel0").unwrap().index).unwrap();
    eventually("told", PATIENCE, || daemon.log().contains("device node /dev/net/tun is missing").then_some(()));
    let before = cpu_time(daemon.pid());
    std::thread::sleep(Duration::from_secs(2));
    assert!(cpu_time(daemon.pid()).saturating_sub(before) < Duration::from_millis(400));
    assert_eq!(get(&netns, "/readyz").unwrap().status, 503);
    assert_eq!(daemon.log().matches("is missing").count(), 1, "{}", daemon.log());
    let made = Command::new("mknod").args([&tun, "c", "10", "200"]).status().unwrap();
    assert!(made.success());
    ready_and_reaching(&lab, &mut daemon);
}

#[test]
fn nobody_with_the_one_capability_will_do() {
    let (lab, directory) = up_without_first("ambient");
    let privileges =
        ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+net_admin", "--ambient-caps=+net_admin"];
    let open_node = format!("{HIDE} && mknod -m 666 /dev/net/tun c 10 200");
    let mut daemon = run(&lab, directory.path(), &open_node, &privileges, &[]);
    ready_and_reaching(&lab, &mut daemon);
    daemon.signal(Signal::Terminate);
    assert_eq!(daemon.ended(PATIENCE).code(), Some(0));
    assert!(netlink(&node(&lab, 1)).find_link("flannel0").unwrap().is_none());
}

#[test]
fn nobody_with_a_device_prepared_for_them_will_do() {
    let (lab, directory) = up_without_first("prepared");
    let netns = node(&lab, 1);
    let base = lab.node(1).unwrap().subnet().unwrap().unwrap().subnet.base();
    let prepare = || {
        let queue = TunQueue::open("felt0", Multiqueue::No).unwrap();
        queue.set_persistent(true).unwrap();
        // SAFETY: TUNSETOWNER takes a number, not a pointer, and the descriptor is open.
        let done = unsafe { libc::ioctl(queue.as_fd().as_raw_fd(), libc::TUNSETOWNER, libc::c_ulong::from(NOBODY)) };
        assert_eq!(done, 0);
    };
    netns.run_in(prepare).unwrap();
    let root = netlink(&netns);
    let index = root.link("felt0").unwrap().index;
    root.set_mtu(index, 1472).unwrap();
    root.add_address(index, ipnetwork::Ipv4Network::from(base).into()).unwrap();
    root.set_up(index).unwrap();
    root.add_route(&Route::new("10.99.0.0/16".parse().unwrap()).device(index).source(base.into())).unwrap();

    let privileges = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];
    let open_node = format!("{HIDE} && mknod -m 666 /dev/net/tun c 10 200");
    let mut daemon = run(&lab, directory.path(), &open_node, &privileges, &["--tun-name", "felt0"]);
    ready_and_reaching(&lab, &mut daemon);
    daemon.signal(Signal::Terminate);
    assert_eq!(daemon.ended(PATIENCE).code(), Some(0), "{}", daemon.log());
    assert_eq!(root.link("felt0").unwrap().index, index, "prepared by somebody else: stays");
}

/// Waits until the daemon in node 1 is ready, and the tunnel's other end answers.
fn ready_and_reaching(lab: &EphemeralLab, daemon: &mut Daemon) {
    let netns = node(lab, 1);
    eventually("ready", PATIENCE, || {
        assert!(daemon.is_running(), "{}", daemon.log());
        get(&netns, "/readyz").ok().filter(|answer| answer.status == 200)
    });
    let far = lab.node(2).unwrap().subnet().unwrap().unwrap().subnet.base();
    eventually("the other end answers", PATIENCE, || ping(&netns, far, Duration::from_millis(500), &Interrupt::new()).unwrap());
}

#[test]
fn a_config_that_makes_no_sense_is_told_once_and_waited_out() {
    const KEY: &str = "/coreos.com/network/config";
    let lab = up(LabPlan { pods_per_node: 0, registry: RegistryKind::Etcd, ..plan("config", 1) });
    lab.node(1).unwrap().stop().unwrap();
    let netns = node(&lab, 1);
    let directory = tempfile::tempdir().unwrap();
    put(&lab, KEY, r#"{"Network":"10.99.0.0/16",}"#);
    let mut daemon = Daemon::run(&lab, &netns, directory.path(), &[]);
    let rows = [
        (r#"{"Network":"10.99.0.0/16",}"#, "trailing comma"),
        (r#"{"Network":"10.99.0.0/16","SubnetLen":31}"#, "SubnetLen"),
        (r#"{"Network":"10.99.0.0/16","Backend":{"Type":"udp","Port":"9555"}}"#, "Port"),
        (r#"{"Network":"10.99.0.0/16","Backend":{"Type":"carrier-pigeon"}}"#, "carrier-pigeon"),
        (r#"{"SubnetLen":24}"#, "Network"),
    ];
    for (row, (config, part)) in rows.into_iter().enumerate() {
        put(&lab, KEY, config);
        let told = eventually(config, PATIENCE, || errors(&daemon).get(row).cloned());
        assert!(told.contains(part), "{told}");
    }
    let told = errors(&daemon);
    assert_eq!(told.len(), rows.len(), "one line for each: {told:#?}");
    assert!(netlink(&netns).find_link("flannel0").unwrap().is_none() && daemon.is_running());
    put(&lab, KEY, e2e_support::CONFIG);
    let file = directory.path().join("subnet.env");
    eventually("started when the config makes sense", PATIENCE, || file.exists().then_some(()));
    assert_eq!(errors(&daemon).len(), rows.len());
    daemon.signal(Signal::Terminate);
    daemon.ended(PATIENCE);

    // A network that is the host's own LAN would cut it off.
    put(&lab, KEY, r#"{"Network":"172.30.0.0/16"}"#);
    let mut daemon = Daemon::run(&lab, &netns, directory.path(), &[]);
    assert_eq!(daemon.ended(PATIENCE).code(), Some(1));
    assert!(daemon.log().contains("172.30.0.0/16 overlaps address 172.30.1.1/16 dev eth0"), "{}", daemon.log());
    assert_eq!(netlink(&netns).route_to(felt::lab::HUB_ADDRESS.into()).unwrap().source, Some(lab.plan().underlay(1).into()));
}

fn errors(daemon: &Daemon) -> Vec<String> {
    daemon.log().lines().filter(|line| line.contains("ERROR")).map(str::to_owned).collect()
}
