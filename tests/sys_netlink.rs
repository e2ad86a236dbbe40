//! Namespaces and netlink against the running kernel. Needs root.

mod sys_support;

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::Command;

use felt::sys::netlink::{Event, LinkKind, Monitor, Netlink, NetlinkError, Route, RouteScope};
use felt::sys::netns::Netns;
use ipnetwork::IpNetwork;
use sys_support::TestNetns;

fn net(text: &str) -> IpNetwork {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn namespaces_are_those_of_ip_netns() {
    let ours = TestNetns::new("ns");
    assert!(Netns::list().unwrap().contains(&ours.name().to_owned()));
    let shown = Command::new("ip").args(["netns", "list"]).output().unwrap();
    assert!(String::from_utf8(shown.stdout).unwrap().contains(ours.name()));
    assert!(Netns::open(ours.name()).unwrap().is_same(&ours));
    assert_eq!(Netns::create(ours.name()).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert!(ours.run_in(|| Netns::current().unwrap().is_same(&ours)).unwrap());
    assert!(!Netns::current().unwrap().is_same(&ours), "the caller stays where it is");
    assert!(Netns::create("a/b").is_err() && Netns::open("").is_err());
}

#[test]
fn a_device_with_an_unreadable_alias_hides_no_other() {
    use std::os::unix::ffi::OsStrExt as _;
    let ours = TestNetns::new("alias");
    let listed = ours.run_in(|| {
        let netlink = Netlink::open().unwrap();
        let (bad, good) = (netlink.create_bridge("bad0").unwrap(), netlink.create_bridge("good0").unwrap());
        let alias = std::ffi::OsStr::from_bytes(b"\xff\xfe");
        let set = Command::new("ip").args(["link", "set", "bad0", "alias"]).arg(alias).status().unwrap();
        assert!(set.success());
        assert!(matches!(netlink.link_at(bad.index), Err(NetlinkError::Unreadable { .. })), "asked for by itself");
        // The socket is still in step.
        assert_eq!(netlink.link_at(good.index).unwrap().unwrap().name, "good0");
        assert_eq!(netlink.addresses().unwrap().len(), 2, "those of loopback");
        (1..=2).map(|_| netlink.links().unwrap().into_iter().map(|link| link.name).collect::<Vec<_>>()).collect::<Vec<_>>()
    });
    for names in listed.unwrap() {
        assert!(names.contains(&"good0".to_owned()) && names.contains(&"lo".to_owned()), "{names:?}");
    }
}

#[test]
fn a_name_can_be_taken_again_after_deletion() {
    let name = format!("felt-again-{}", std::process::id());
    let first = Netns::create(&name).unwrap();
    Netns::delete(&name).unwrap();
    assert!(Netns::open(&name).is_err() && Netns::delete(&name).is_err());
    let second = Netns::create(&name).unwrap();
    Netns::delete(&name).unwrap();
    assert!(!first.is_same(&second));
}

#[test]
fn commands_start_inside_and_are_found_there() {
    let ours = TestNetns::new("cmd");
    let mut command = Command::new("sleep");
    ours.place(command.arg("60")).unwrap();
    let mut child = command.spawn().unwrap();
    assert_eq!(ours.processes().unwrap(), [child.id()]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_panic_inside_comes_out() {
    let ours = TestNetns::new("panic");
    let result = std::panic::catch_unwind(|| ours.run_in(|| panic!("inside")));
    assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "inside");
}

#[test]
fn a_veth_pair_joins_two_namespaces() {
    let (left, right) = (TestNetns::new("left"), TestNetns::new("right"));
    left.run_in(|| {
        let netlink = Netlink::open().unwrap();
        let link = netlink.create_veth("eth0", "eth1", Some(right.as_fd())).unwrap();
        assert_eq!((link.name.as_str(), link.mtu, link.up, link.kind), ("eth0", 1500, false, Some(LinkKind::Veth)));
        netlink.set_mtu(link.index, 1400).unwrap();
        netlink.set_txqlen(link.index, 77).unwrap();
        netlink.rename(link.index, "under0").unwrap();
        netlink.set_up(link.index).unwrap();
        let link = netlink.link("under0").unwrap();
        assert_eq!((link.mtu, link.txqlen, link.up, link.running), (1400, 77, true, false));
        assert!(netlink.find_link("eth0").unwrap().is_none());
        let names: Vec<_> = netlink.links().unwrap().into_iter().map(|link| link.name).collect();
        assert_eq!(names, ["lo", "under0"]);
        netlink.set_down(link.index).unwrap();
        assert!(!netlink.link_at(link.index).unwrap().unwrap().up);
    })
    .unwrap();
    right
        .run_in(|| {
            let netlink = Netlink::open().unwrap();
            netlink.delete_link(netlink.link("eth1").unwrap().index).unwrap();
        })
        .unwrap();
    assert!(left.run_in(|| Netlink::open().unwrap().find_link("under0").unwrap().is_none()).unwrap());
}

#[test]
fn a_bridge_takes_ports_and_devices_move() {
    let (ours, other) = (TestNetns::new("bridge"), TestNetns::new("moved"));
    ours.run_in(|| {
        let netlink = Netlink::open().unwrap();
        let bridge = netlink.create_bridge("br0").unwrap();
        let port = netlink.create_veth("p0", "p1", None).unwrap();
        netlink.set_master(port.index, Some(bridge.index)).unwrap();
        assert_eq!(netlink.link("p0").unwrap().master, Some(bridge.index));
        netlink.set_master(port.index, None).unwrap();
        assert_eq!(netlink.link("p0").unwrap().master, None);
        netlink.move_to(netlink.link("p1").unwrap().index, other.as_fd()).unwrap();
        assert!(netlink.find_link("p1").unwrap().is_none());
    })
    .unwrap();
    other.run_in(|| Netlink::open().unwrap().link("p1").unwrap()).unwrap();
}

#[test]
fn addresses_come_and_go() {
    let ours = TestNetns::new("addr");
    ours.run_in(|| {
        let netlink = Netlink::open().unwrap();
        let link = netlink.create_bridge("br0").unwrap();
        for address in ["10.1.15.3/24", "10.1.15.4/24", "169.254.7.7/16", "fd00::7/64"] {
            netlink.add_address(link.index, net(address)).unwrap();
        }
        let error = netlink.add_address(link.index, net("10.1.15.3/24")).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EEXIST));
        netlink.delete_address(link.index, net("10.1.15.3/24")).unwrap();
        netlink.add_address(link.index, net("10.1.15.3/24")).unwrap();
        let mut found = netlink.addresses().unwrap();
        found.retain(|address| address.device == link.index);
        let shown: Vec<_> = found.iter().map(|address| (address.address.to_string(), address.secondary)).collect();
        let expected = [("10.1.15.3/24", false), ("169.254.7.7/16", false), ("fd00::7/64", false)];
        for (text, secondary) in expected {
            assert!(shown.contains(&(text.to_owned(), secondary)), "{text} in {shown:?}");
        }
        assert!(found.iter().all(|address| address.permanent && !address.deprecated && !address.host_scope));
    })
    .unwrap();
}

#[test]
fn routes_are_added_replaced_found_and_deleted() {
    let ours = TestNetns::new("route");
    ours.run_in(|| {
        let netlink = Netlink::open().unwrap();
        let link = netlink.create_veth("eth0", "eth1", None).unwrap();
        netlink.set_up(netlink.link("eth1").unwrap().index).unwrap();
        netlink.set_up(link.index).unwrap();
        netlink.add_address(link.index, net("192.168.5.2/24")).unwrap();
        let overlay = Route::new(net("10.5.0.0/16")).device(link.index).source(ip("192.168.5.2")).scope(RouteScope::Link);
        netlink.add_route(&overlay).unwrap();
        let error = netlink.add_route(&overlay).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EEXIST));
        assert!(error.to_string().starts_with("cannot add route 10.5.0.0/16 dev eth0: "), "{error}");
        netlink.replace_route(&overlay.clone().mtu(1400)).unwrap();
        netlink.add_route(&Route::default_by(ip("192.168.5.1")).device(link.index)).unwrap();

        let routes = netlink.routes().unwrap();
        let found: Vec<_> = routes.iter().filter(|route| route.to == net("10.5.0.0/16")).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(*found[0], overlay.clone().mtu(1400));
        assert!(routes.iter().any(|route| route.is_default() && route.gateway == Some(ip("192.168.5.1"))));

        let way = netlink.route_to(ip("10.5.1.1")).unwrap();
        assert_eq!((way.device, way.source, way.gateway, way.mtu), (Some(link.index), Some(ip("192.168.5.2")), None, Some(1400)));
        assert_eq!(netlink.route_to(ip("8.8.8.8")).unwrap().gateway, Some(ip("192.168.5.1")));

        netlink.delete_route(&overlay).unwrap();
        assert_eq!(netlink.delete_route(&overlay).unwrap_err().errno(), Some(libc::ESRCH));
        netlink.set_down(link.index).unwrap();
        assert_eq!(netlink.route_to(ip("8.8.8.8")).unwrap_err().errno(), Some(libc::ENETUNREACH));
    })
    .unwrap();
}

#[test]
fn refusals_say_what_was_attempted() {
    let ours = TestNetns::new("refuse");
    ours.run_in(|| {
        let netlink = Netlink::open().unwrap();
        let error = netlink.link("nowhere").unwrap_err();
        assert_eq!(error.to_string(), "expected a device named `nowhere` in this network namespace, found none");
        let error = netlink.set_mtu(netlink.create_bridge("br0").unwrap().index, 7).unwrap_err();
        assert!(error.to_string().starts_with("cannot set mtu 7 on device br0: "), "{error}");
        assert!(error.to_string().contains("mtu less than device minimum"), "the kernel's own words: {error}");
        let error = netlink.add_address(4711, net("10.0.0.1/32")).unwrap_err();
        assert!(error.is_no_device() && error.to_string().contains("to device 4711"), "{error}");
        let error = netlink.add_route(&Route::new(net("10.0.0.0/8")).gateway(ip("192.168.77.1"))).unwrap_err();
        assert!(error.to_string().starts_with("cannot add route 10.0.0.0/8 via 192.168.77.1: "), "{error}");
    })
    .unwrap();
}

#[test]
fn a_monitor_hears_of_addresses_and_devices() {
    let ours = TestNetns::new("monitor");
    ours.run_in(|| {
        let netlink = Netlink::open().unwrap();
        let mut monitor = Monitor::open().unwrap();
        assert_eq!(monitor.next_event().unwrap(), None);
        let link = netlink.create_bridge("br0").unwrap();
        netlink.add_address(link.index, net("10.5.1.0/32")).unwrap();
        netlink.delete_address(link.index, net("10.5.1.0/32")).unwrap();
        netlink.delete_link(link.index).unwrap();
        let events: Vec<_> = std::iter::from_fn(|| monitor.next_event().unwrap()).collect();
        assert!(matches!(&events[0], Event::Link(found) if found.name == "br0"));
        let position = |wanted: fn(&Event) -> bool| events.iter().position(wanted).unwrap();
        let added = position(|event| matches!(event, Event::Address(found) if found.address == net("10.5.1.0/32")));
        let taken = position(|event| matches!(event, Event::AddressGone(found) if found.address == net("10.5.1.0/32")));
        let gone = position(|event| matches!(event, Event::LinkGone(found) if found.name == "br0"));
        assert!(added < taken && taken < gone);
        let fd = monitor.as_fd().try_clone_to_owned().unwrap();
        drop(monitor);
        drop(fd);
    })
    .unwrap();
}

#[test]
fn news_can_be_waited_for() {
    let netns = TestNetns::new("wait");
    netns
        .run_in(|| {
            let netlink = Netlink::open().unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut monitor = Monitor::open().unwrap().awaitable().unwrap();
                let moment = std::time::Duration::from_millis(50);
                assert!(tokio::time::timeout(moment, monitor.readable()).await.is_err());
                netlink.create_bridge("br0").unwrap();
                monitor.readable().await.unwrap().clear_ready();
                assert!(matches!(monitor.get_mut().next_event().unwrap(), Some(Event::Link(link)) if link.name == "br0"));
            });
        })
        .unwrap();
}
