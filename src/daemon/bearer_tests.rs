//! What is planned for an underlay, and policy scope `node` around a device. Needs root.

use std::net::Ipv4Addr;

use super::*;
use crate::control::registry::etcd::EtcdConfig;
use crate::daemon::options::RegistryChoice;
use crate::daemon::overlay::Overlay;
use crate::daemon::rules::HostRulesOptions;
use crate::daemon::scope;
use crate::forward::SourceCheck;
use crate::lease::NetworkConfig;
use crate::sys::capability;
use crate::sys::netlink::Route;
use crate::sys::netns::Netns;

fn options() -> RunOptions {
    RunOptions {
        registry: RegistryChoice::Etcd(EtcdConfig::default()),
        iface: Vec::new(),
        iface_regex: Vec::new(),
        iface_can_reach: None,
        public_ip: None,
        subnet_file: "/nonexistent/subnet.env".into(),
        renew_margin: Duration::from_hours(1),
        lease_ttl: Duration::from_hours(24),
        healthz: None,
        metrics: None,
        policy: None,
        host_rules: HostRulesOptions::NONE,
        tun_name: "flannel%d".into(),
        workers: 1,
        keep_device: false,
        node_id: None,
        source_check: SourceCheck::Strict,
        udp_buffer: 4096,
        offloads: Offloads::ALL,
        batch: tuning::BATCH,
        spin: Duration::ZERO,
    }
}

/// The device's MTU on an interface with `nic`, under a config with this `Backend`.
fn device_mtu(nic: u32, backend: &str) -> Result<u32, BearerError> {
    let address = Ipv4Addr::new(192, 0, 2, 1);
    let external = External { name: "eth0".into(), index: 2, mtu: nic, bind: address, announce: address, up: true };
    let config = NetworkConfig::parse(&format!(r#"{{"Network":"10.5.0.0/16","Backend":{backend}}}"#)).unwrap();
    let overlay = Overlay::new(&config, address).unwrap();
    let underlay_mtu = overlay.underlay_mtu.map_or(external.mtu, u32::from);
    let network = overlay.range.network;
    let plan = Plan::new(&options(), "10.5.7.0/24".parse().unwrap(), network, &external, underlay_mtu, overlay.port)?;
    assert_eq!((plan.bind.to_string().as_str(), plan.device.underlay), ("192.0.2.1:8285", 2));
    Ok(plan.device.mtu)
}

#[test]
fn the_device_is_narrower_than_the_underlay_by_the_outer_headers() {
    for (nic, expected) in [(576, 548), (1280, 1252), (1420, 1392), (1500, 1472), (9000, 8972)] {
        assert_eq!(device_mtu(nic, r#"{"Type":"udp"}"#).unwrap(), expected, "{nic}");
        // The config speaks of the underlay, too, and wins over what the interface has.
        for (backend, expected) in [
            (r#"{"Type":"udp","MTU":576}"#, 548),
            (r#"{"Type":"udp","MTU":1400}"#, 1372),
            (r#"{"Type":"udp","MTU":1500}"#, 1472),
            (r#"{"Type":"udp","MTU":9000}"#, 8972),
        ] {
            assert_eq!(device_mtu(nic, backend).unwrap(), expected, "{nic} under {backend}");
        }
    }
}

#[test]
fn an_underlay_without_room_for_packets_is_refused() {
    assert_eq!(device_mtu(96, r#"{"Type":"udp"}"#).unwrap(), 68);
    for nic in [0, 27, 28, 95] {
        let error = device_mtu(nic, r#"{"Type":"udp"}"#).unwrap_err();
        assert!(matches!(error, BearerError::Mtu { found } if found == nic), "{error}");
        assert!(error.to_string().contains("at least 96"), "{error}");
    }
}

/// Runs `work` in a namespace of its own, within a runtime that does I/O.
fn inside(purpose: &str, work: impl AsyncFnOnce(&Netlink) + Send) {
    let name = format!("felt-{purpose}-{}", std::process::id());
    let netns = Netns::create(&name).expect("these tests need root");
    let outcome = std::thread::scope(|scope| {
        let inside = || {
            let netlink = Netlink::open().unwrap();
            netlink.set_up(netlink.link("lo").unwrap().index).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work(&netlink));
        };
        scope.spawn(|| netns.run_in(inside).unwrap()).join()
    });
    Netns::delete(&name).unwrap();
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn plan(subnet: &str, node_scope: bool) -> Plan {
    let (network, name) = ("10.5.0.0/16".parse().unwrap(), "felt0".to_owned());
    let device =
        device::Plan { name, network, subnet: subnet.parse().unwrap(), mtu: 1472, queues: 1, offloads: true, underlay: 1 };
    let buffers = BufferBytes { receive: 4096, send: 4096 };
    let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Plan { device, bind, buffers, offloads: Offloads::ALL, batch: tuning::BATCH, node_scope }
}

/// Takes the news of what was done to bring devices up: IPv6 has some even seconds later.
async fn settle(bearer: &mut Bearer) {
    while tokio::time::timeout(Duration::from_secs(3), bearer.news()).await.is_ok() {}
}

/// The rule by which what comes from pods goes into the device.
fn from_pods(netlink: &Netlink) -> Vec<String> {
    let rules = netlink.rules().unwrap().into_iter().filter(|rule| rule.priority == scope::FIRST_PRIORITY + 4);
    rules.map(|rule| rule.to_string()).collect()
}

const FROM_PODS: &str = "101: from 10.5.1.0/24 lookup 8285";
const OTHERS: &str = "101: from 10.5.2.0/24 lookup 8285";

#[test]
fn the_rules_of_scope_node_come_stay_and_go_with_the_device() {
    inside("rules", async |netlink| {
        let before = netlink.rules().unwrap();
        let (mut bearer, ports) = Bearer::raise(plan("10.5.1.0/24", true)).unwrap();
        assert_eq!(from_pods(netlink), [FROM_PODS]);
        assert_eq!(bearer.check().unwrap(), Condition::Good);

        bearer.readdress(&plan("10.5.2.0/24", true)).unwrap();
        assert_eq!(from_pods(netlink), [FROM_PODS, OTHERS], "pods have kept their addresses");
        assert_eq!(bearer.former(), ["10.5.1.0/24".parse().unwrap()]);
        bearer.release(false);
        drop(ports);
        assert_eq!(netlink.rules().unwrap(), before);

        // Where the subnet is to be another, pods of that are covered before there are any.
        let (mut bearer, ports) = Bearer::raise(plan("10.5.1.0/24", true)).unwrap();
        bearer.cover(&plan("10.5.2.0/24", true)).unwrap();
        assert_eq!(
            (from_pods(netlink), bearer.subnet()),
            (vec![FROM_PODS.into(), OTHERS.into()], "10.5.1.0/24".parse().unwrap())
        );
        bearer.release(false);
        drop(ports);
        let (mut bearer, ports) = Bearer::raise(plan("10.5.1.0/24", true)).unwrap();

        // Gone: the rules stay, and lead nowhere until the device is back.
        netlink.delete_link(netlink.link("felt0").unwrap().index).unwrap();
        assert_eq!((bearer.check().unwrap(), from_pods(netlink)), (Condition::Gone, vec![FROM_PODS.to_owned()]));
        drop(ports);
        let ports = bearer.replace(&plan("10.5.1.0/24", true)).unwrap();
        assert_eq!(bearer.check().unwrap(), Condition::Good);

        // A daemon that is killed leaves all of it to the next.
        drop((bearer, ports));
        assert_eq!(from_pods(netlink), [FROM_PODS]);
        let (mut bearer, ports) = Bearer::raise(plan("10.5.1.0/24", true)).unwrap();
        assert_eq!(bearer.check().unwrap(), Condition::Good);
        drop(ports);
        bearer.release(true);
        assert_eq!(from_pods(netlink), [FROM_PODS], "kept as wished");

        // The next one may be of another scope, which must not leave pods cut off.
        let (bearer, ports) = Bearer::raise(plan("10.5.1.0/24", false)).unwrap();
        assert_eq!(netlink.rules().unwrap(), before);
        drop((bearer, ports));
        let (bearer, ports) = Bearer::raise(plan("10.5.7.0/24", true)).unwrap();
        drop(ports);
        bearer.release(false);
        assert_eq!((netlink.rules().unwrap(), netlink.find_link("felt0").unwrap()), (before, None));
    });
}

#[test]
fn a_rule_that_is_removed_is_news_and_put_back() {
    inside("news", async |netlink| {
        let (mut bearer, _ports) = Bearer::raise(plan("10.5.1.0/24", true)).unwrap();
        settle(&mut bearer).await;
        for rule in netlink.rules().unwrap().iter().filter(|rule| rule.protocol == Some(scope::PROTOCOL)) {
            netlink.delete_rule(rule).unwrap();
        }
        assert!(from_pods(netlink).is_empty());
        tokio::time::timeout(Duration::from_secs(5), bearer.news()).await.expect("told");
        assert_eq!((bearer.check().unwrap(), bearer.check().unwrap()), (Condition::Mended, Condition::Good));
        assert_eq!(from_pods(netlink), [FROM_PODS]);
        assert!(bearer.bypassed().is_empty());
        let bridge = netlink.create_bridge("cni0").unwrap().index;
        netlink.add_address(bridge, "10.5.1.1/24".parse().unwrap()).unwrap();
        netlink.set_up(bridge).unwrap();
        bearer.check().unwrap();
        assert_eq!(bearer.bypassed(), ["cni0"]);
        bearer.release(false);
    });
}

#[test]
fn a_table_that_is_flushed_is_news_and_what_others_do_to_their_routes_is_not() {
    inside("flush", async |netlink| {
        let (mut bearer, _ports) = Bearer::raise(plan("10.5.1.0/24", true)).unwrap();
        netlink.create_veth("a0", "b0", None).unwrap();
        let other = netlink.link("a0").unwrap().index;
        for index in [other, netlink.link("b0").unwrap().index] {
            netlink.set_up(index).unwrap();
        }
        settle(&mut bearer).await;
        for number in 0..=255 {
            netlink.add_route(&Route::new(format!("192.168.{number}.0/24").parse().unwrap()).device(other)).unwrap();
        }
        assert!(tokio::time::timeout(Duration::from_secs(1), bearer.news()).await.is_err(), "no news of ours");
        for route in netlink.routes().unwrap().iter().filter(|route| route.table == scope::TABLE) {
            netlink.delete_route(route).unwrap();
        }
        tokio::time::timeout(Duration::from_secs(5), bearer.news()).await.expect("told");
        assert_eq!((bearer.check().unwrap(), bearer.check().unwrap()), (Condition::Mended, Condition::Good));
        bearer.release(false);
    });
}

#[test]
fn rules_that_cannot_be_put_back_stand_in_the_way_until_they_can() {
    inside("hinder", async |netlink| {
        let (mut bearer, _ports) = Bearer::raise(plan("10.5.1.0/24", true)).unwrap();
        assert!(bearer.covers_pods() && bearer.hindrance().is_none());
        for rule in netlink.rules().unwrap().iter().filter(|rule| rule.protocol == Some(scope::PROTOCOL)) {
            netlink.delete_rule(rule).unwrap();
        }
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| {
                capability::drop_all_of_thread().unwrap();
                bearer.check().unwrap_err().to_string()
            });
            assert!(refused.join().unwrap().contains("not in force"));
        });
        let why = bearer.hindrance().unwrap();
        assert!(why.contains("policy scope `node` is not in force") && why.contains("add rule"), "{why}");
        assert!(!bearer.covers_pods() && bearer.is_up());
        assert_eq!(bearer.check().unwrap(), Condition::Mended);
        assert!(bearer.covers_pods() && bearer.hindrance().is_none());
        bearer.release(false);
    });
}
