//! The overlay's device and the external interface against the running kernel. Needs root.

mod sys_support;

use std::net::{IpAddr, Ipv4Addr};

use felt::daemon::device::{DeviceError, OverlayDevice, Plan, restore};
use felt::daemon::interface::{self, Wishes};
use felt::sys::capability;
use felt::sys::netlink::{LinkAddress, Netlink, Route, RouteType};
use felt::sys::tun::{Multiqueue, TunError, TunQueue};
use ipnetwork::IpNetwork;
use sys_support::TestNetns;

fn net(text: &str) -> IpNetwork {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn plan(name: &str, subnet: &str) -> Plan {
    Plan {
        name: name.to_owned(),
        network: "10.5.0.0/16".parse().unwrap(),
        subnet: subnet.parse().unwrap(),
        mtu: 1472,
        queues: 1,
        offloads: true,
        underlay: 1,
    }
}

fn inside<T: Send>(purpose: &str, work: impl FnOnce(&Netlink) -> T + Send) -> T {
    TestNetns::new(purpose).run_in(|| work(&Netlink::open().unwrap())).unwrap()
}

fn addresses(netlink: &Netlink, index: u32) -> Vec<String> {
    let own = |entry: &LinkAddress| entry.device == index && entry.address.is_ipv4();
    let mut found: Vec<_> = netlink.addresses().unwrap().into_iter().filter(own).map(|entry| entry.address.to_string()).collect();
    found.sort();
    found
}

/// IPv4 routes of every table, without the device's index, which a new device has another of.
fn routes(netlink: &Netlink, index: u32) -> Vec<Route> {
    let mut found = netlink.routes().unwrap();
    found.retain(|route| route.device == Some(index) && route.to.is_ipv4());
    for route in &mut found {
        route.device = None;
    }
    found
}

#[test]
fn a_fresh_device_is_up_addressed_and_routed() {
    inside("fresh", |netlink| {
        let device = OverlayDevice::bring_up(&plan("flannel%d", "10.5.1.0/24"), netlink).unwrap();
        assert_eq!((device.name.as_str(), device.queues.len(), device.ours), ("flannel0", 1, true));
        let link = netlink.link("flannel0").unwrap();
        assert_eq!((link.index, link.mtu, link.txqlen, link.up), (device.index, 1472, 4096, true));
        assert_eq!(addresses(netlink, device.index), ["10.5.1.0/32"]);
        // R24: a peer's subnet that is the network's first is reached like any other, from our base address.
        for peer in ["10.5.0.5", "10.5.0.0", "10.5.255.255", "10.5.77.1"] {
            let way = netlink.route_to(ip(peer)).unwrap();
            let expected = (Some(device.index), Some(ip("10.5.1.0")), RouteType::Unicast);
            assert_eq!((way.device, way.source, way.kind), expected, "{peer}");
        }
        assert!(!restore(&plan("flannel0", "10.5.1.0/24"), device.index, "flannel0", netlink).unwrap(), "nothing to do");
    });
}

#[test]
fn a_device_left_behind_keeps_foreign_addresses_and_loses_stale_ones() {
    inside("left", |netlink| {
        let prepared = TunQueue::open("flannel0", Multiqueue::No).unwrap();
        prepared.set_persistent(true).unwrap();
        drop(prepared);
        let index = netlink.link("flannel0").unwrap().index;
        for address in ["169.254.7.7/16", "192.168.1.125/24", "10.5.9.0/32", "10.5.8.0/16"] {
            netlink.add_address(index, net(address)).unwrap();
        }
        netlink.set_up(index).unwrap();
        let stale = Route { metric: Some(50), ..Route::new(net("10.5.0.0/16")).device(index) };
        netlink.add_route(&stale).unwrap();

        let plan = plan("flannel0", "10.5.1.0/24");
        let first = OverlayDevice::bring_up(&plan, netlink).unwrap();
        assert_eq!((first.index, first.ours), (index, false), "taken over, not made anew");
        let expected = ["10.5.1.0/32", "169.254.7.7/16", "192.168.1.125/24"];
        assert_eq!(addresses(netlink, index), expected);
        let way = netlink.route_to(ip("10.5.0.5")).unwrap();
        assert_eq!((way.device, way.source), (Some(index), Some(ip("10.5.1.0"))));
        let before = routes(netlink, index);
        assert_eq!(before.iter().filter(|route| route.to == net("10.5.0.0/16")).count(), 1);

        OverlayDevice::remove(index, netlink).unwrap();
        drop(first);
        assert!(netlink.find_link("flannel0").unwrap().is_some(), "prepared by somebody else: stays");
        let second = OverlayDevice::bring_up(&plan, netlink).unwrap();
        assert_eq!(second.index, index);
        assert_eq!(addresses(netlink, index), expected);
        assert_eq!(routes(netlink, index), before);
    });
}

#[test]
fn a_prepared_device_needs_no_privileges() {
    inside("unpriv", |netlink| {
        let plan = plan("felt0", "10.5.1.0/24");
        let prepared = TunQueue::open("felt0", Multiqueue::No).unwrap();
        prepared.set_persistent(true).unwrap();
        let index = netlink.link("felt0").unwrap().index;
        restore(&plan, index, "felt0", netlink).unwrap();
        netlink.set_txqlen(index, 500).unwrap();
        drop(prepared);
        capability::drop_all_of_thread().unwrap();
        let device = OverlayDevice::bring_up(&plan, netlink).unwrap();
        assert_eq!((device.index, device.ours), (index, false));
        // What is not prepared is refused, and told.
        let error = restore(&Plan { mtu: 1400, ..plan }, index, "felt0", netlink).unwrap_err();
        assert!(error.to_string().starts_with("cannot set mtu 1400 on device felt0: "), "{error}");
    });
}

#[test]
fn a_killed_daemon_finds_its_device_again_and_a_clean_end_removes_it() {
    inside("killed", |netlink| {
        let plan = plan("flannel%d", "10.5.1.0/24");
        let first = OverlayDevice::bring_up(&plan, netlink).unwrap();
        let (index, before) = (first.index, routes(netlink, first.index));
        drop(first);
        assert_eq!(addresses(netlink, index), ["10.5.1.0/32"], "state outlives the process");
        let second = OverlayDevice::bring_up(&plan, netlink).unwrap();
        assert_eq!((second.index, second.name.as_str(), second.ours), (index, "flannel0", true));
        assert_eq!(routes(netlink, index), before);
        // While it is held, nobody else gets it; the template makes another.
        let held = OverlayDevice::bring_up(&Plan { name: "flannel0".to_owned(), ..plan.clone() }, netlink).unwrap_err();
        assert!(matches!(held, DeviceError::Tun(TunError::Busy { .. })), "{held}");
        OverlayDevice::remove(index, netlink).unwrap();
        assert!(netlink.find_link("flannel0").unwrap().is_none());
    });
}

#[test]
fn a_multiqueue_device_in_use_is_not_shared() {
    inside("mq", |netlink| {
        let plan = Plan { queues: 3, ..plan("felt0", "10.5.1.0/24") };
        let first = OverlayDevice::bring_up(&plan, netlink).unwrap();
        assert_eq!(first.queues.len(), 3);
        let error = OverlayDevice::bring_up(&plan, netlink).unwrap_err();
        assert!(matches!(error, DeviceError::Tun(TunError::Busy { .. })), "{error}");
        drop(first);
        // Made for several queues, now one is wanted: the device is kept.
        let second = OverlayDevice::bring_up(&Plan { queues: 1, ..plan.clone() }, netlink).unwrap();
        assert_eq!(second.queues.len(), 1);
        drop(second);
        assert_eq!(OverlayDevice::bring_up(&plan, netlink).unwrap().queues.len(), 3);
    });
}

#[test]
fn another_subnet_or_network_replaces_the_former() {
    inside("change", |netlink| {
        let mut plan = plan("felt0", "10.5.1.0/24");
        let first = OverlayDevice::bring_up(&plan, netlink).unwrap();
        plan.subnet = "10.5.2.0/24".parse().unwrap();
        assert!(restore(&plan, first.index, "felt0", netlink).unwrap());
        assert_eq!(addresses(netlink, first.index), ["10.5.2.0/32"]);
        assert_eq!(netlink.route_to(ip("10.5.1.1")).unwrap().source, Some(ip("10.5.2.0")));
        drop(first);
        (plan.network, plan.subnet) = ("10.77.0.0/16".parse().unwrap(), "10.77.3.0/24".parse().unwrap());
        let second = OverlayDevice::bring_up(&plan, netlink).unwrap();
        assert_eq!(addresses(netlink, second.index), ["10.77.3.0/32"]);
        let destinations: Vec<_> = routes(netlink, second.index).iter().map(|route| route.to.to_string()).collect();
        assert!(!destinations.iter().any(|to| to.starts_with("10.5.")), "{destinations:?}");
    });
}

#[test]
fn what_others_changed_is_put_right() {
    inside("restore", |netlink| {
        let plan = plan("felt0", "10.5.1.0/24");
        let device = OverlayDevice::bring_up(&plan, netlink).unwrap();
        let before = routes(netlink, device.index);
        let harms: [fn(&Netlink, u32); 4] = [
            |netlink, index| netlink.delete_address(index, net("10.5.1.0/32")).unwrap(),
            |netlink, index| netlink.set_down(index).unwrap(),
            |netlink, index| netlink.delete_route(&Route::new(net("10.5.0.0/16")).device(index)).unwrap(),
            |netlink, index| netlink.set_mtu(index, 1500).unwrap(),
        ];
        for harm in harms {
            harm(netlink, device.index);
            assert!(restore(&plan, device.index, "felt0", netlink).unwrap());
            assert!(!restore(&plan, device.index, "felt0", netlink).unwrap());
            assert_eq!(addresses(netlink, device.index), ["10.5.1.0/32"]);
            assert_eq!(routes(netlink, device.index), before);
            assert_eq!(netlink.link("felt0").unwrap().mtu, 1472);
        }
        netlink.delete_link(device.index).unwrap();
        let error = restore(&plan, device.index, "felt0", netlink).unwrap_err();
        assert!(matches!(error, DeviceError::Gone { .. }));
        // With the dead queues still open, as when workers have not let go yet.
        let again = OverlayDevice::bring_up(&plan, netlink).unwrap();
        assert_eq!((again.name.as_str(), routes(netlink, again.index)), ("felt0", before));
    });
}

#[test]
fn a_network_that_is_the_hosts_own_is_refused_untouched() {
    inside("overlap", |netlink| {
        let lan = netlink.create_veth("eth0", "eth1", None).unwrap();
        netlink.set_up(lan.index).unwrap();
        netlink.add_address(lan.index, net("10.5.0.20/16")).unwrap();
        let plan = Plan { underlay: lan.index, ..plan("felt0", "10.5.1.0/24") };
        let before = netlink.routes().unwrap();
        let error = OverlayDevice::bring_up(&plan, netlink).unwrap_err();
        assert!(matches!(&error, DeviceError::Overlap { found, .. } if found == "address 10.5.0.20/16 dev eth0"), "{error}");
        assert!(netlink.find_link("felt0").unwrap().is_none());
        assert_eq!(netlink.routes().unwrap(), before);

        // The pods' bridge on our own subnet is no overlap.
        netlink.delete_address(lan.index, net("10.5.0.20/16")).unwrap();
        let bridge = netlink.create_bridge("cni0").unwrap();
        netlink.add_address(bridge.index, net("10.5.1.1/24")).unwrap();
        netlink.set_up(bridge.index).unwrap();
        OverlayDevice::bring_up(&plan, netlink).unwrap();
    });
}

#[test]
fn a_name_that_is_no_tun_device_is_refused() {
    inside("kind", |netlink| {
        let bridge = netlink.create_bridge("felt0").unwrap();
        let error = OverlayDevice::bring_up(&plan("felt0", "10.5.1.0/24"), netlink).unwrap_err();
        assert!(matches!(error, DeviceError::Tun(TunError::OtherKind { .. })), "{error}");
        assert_eq!(addresses(netlink, bridge.index), [""; 0]);
    });
}

#[test]
fn the_external_interface_is_found_on_a_host_with_several() {
    inside("iface", |netlink| {
        let hosts = [("eth0", "192.168.7.1/24"), ("eth1", "203.0.113.5/24"), ("wg0", "172.16.32.100/24")];
        for (name, address) in hosts {
            let link = netlink.create_veth(name, &format!("{name}p"), None).unwrap();
            netlink.add_address(link.index, net(address)).unwrap();
            netlink.set_up(link.index).unwrap();
            netlink.set_up(netlink.link(&format!("{name}p")).unwrap().index).unwrap();
        }
        let index = |name: &str| netlink.link(name).unwrap().index;
        netlink.add_address(index("eth0"), net("192.168.7.2/24")).unwrap();
        netlink.set_mtu(index("wg0"), 1420).unwrap();
        netlink.add_route(&Route::default_by(ip("192.168.7.254")).device(index("eth0")).mtu(1450)).unwrap();
        let overlay = OverlayDevice::bring_up(&plan("flannel0", "10.5.1.0/24"), netlink).unwrap();

        let base = Wishes { overlay_device: overlay.name.clone(), ..Wishes::default() };
        let address = |text: &str| Some(text.parse::<Ipv4Addr>().unwrap());
        let regexes = |text: &str| vec![text.to_owned()];
        let cases = [
            (base.clone(), "eth0 1450 192.168.7.1 192.168.7.1"),
            (Wishes { public_ip: address("198.51.100.9"), ..base.clone() }, "eth0 1450 192.168.7.1 198.51.100.9"),
            (Wishes { public_ip: address("203.0.113.5"), ..base.clone() }, "eth1 1500 203.0.113.5 203.0.113.5"),
            (Wishes { ifaces: regexes("192.168.7.2"), ..base.clone() }, "eth0 1450 192.168.7.2 192.168.7.2"),
            (Wishes { regexes: regexes("wg|flannel"), ..base.clone() }, "wg0 1420 172.16.32.100 172.16.32.100"),
            (Wishes { regexes: regexes("^10[.]5[.]|th1$"), ..base.clone() }, "eth1 1500 203.0.113.5 203.0.113.5"),
            (Wishes { can_reach: address("172.16.32.254"), ..base.clone() }, "wg0 1420 172.16.32.100 172.16.32.100"),
            (Wishes { can_reach: address("9.9.9.9"), ..base }, "eth0 1450 192.168.7.1 192.168.7.1"),
        ];
        for (wishes, expected) in cases {
            let found = interface::find(&wishes, netlink).unwrap();
            assert_eq!(format!("{} {} {} {}", found.name, found.mtu, found.bind, found.announce), expected, "{wishes:?}");
            assert_eq!(found.index, index(&found.name));
        }
    });
}
