//! Kernel vxlan devices, set up as flannel does it and as iproute2 shows it. Needs root.

mod sys_support;

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use felt::sys::netlink::{LinkKind, Netlink, Route, VxlanDevice};
use felt::sys::netns::Netns;
use ipnetwork::{IpNetwork, Ipv4Network};
use sys_support::TestNetns;

const PORT: u16 = 8472;

/// What a program prints in a namespace.
fn printed(netns: &Netns, argv: &[&str]) -> String {
    let mut command = Command::new(argv[0]);
    netns.place(command.args(&argv[1..])).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn underlay(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, 0, number)
}

fn overlay(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 98, number, 0)
}

#[test]
fn two_namespaces_talk_over_vxlan() {
    let places = [TestNetns::new("vx1"), TestNetns::new("vx2")];
    let netlinks = [0, 1].map(|place: usize| places[place].run_in(Netlink::open).unwrap().unwrap());
    netlinks[0].create_veth("eth0", "eth0", Some(places[1].as_fd())).unwrap();
    let devices = [0, 1].map(|place: usize| {
        let (netlink, number) = (&netlinks[place], u8::try_from(place).unwrap() + 1);
        let eth0 = netlink.link("eth0").unwrap().index;
        netlink.add_address(eth0, Ipv4Network::new(underlay(number), 24).unwrap().into()).unwrap();
        netlink.set_up(eth0).unwrap();
        let wanted = VxlanDevice { vni: 1, underlay: eth0, local: underlay(number), port: PORT, learning: false };
        let link = netlink.create_vxlan("flannel.1", wanted).unwrap();
        assert_eq!((link.mtu, link.kind, link.up), (1450, Some(LinkKind::Vxlan), false));
        netlink.add_address(link.index, IpNetwork::from(IpAddr::from(overlay(number)))).unwrap();
        netlink.set_up(link.index).unwrap();
        let hardware = netlink.hardware_address(link.index).unwrap().unwrap();
        assert_eq!(hardware.0[0] & 3, 2, "unicast, locally administered");
        (link.index, hardware)
    });
    for (place, netlink) in netlinks.iter().enumerate() {
        let ((device, _), (_, hardware)) = (devices[place], devices[1 - place]);
        let peer = u8::try_from(1 - place).unwrap() + 1;
        // Again, since a peer may say again what is known.
        for _ in 0..2 {
            netlink.set_neighbour(device, overlay(peer).into(), hardware).unwrap();
            netlink.set_forwarding(device, hardware, underlay(peer).into()).unwrap();
            let subnet = Ipv4Network::new(overlay(peer), 24).unwrap();
            let route = Route::new(subnet.into()).gateway(overlay(peer).into()).device(device).onlink();
            netlink.replace_route(&route).unwrap();
        }
        let route = netlink.routes().unwrap().into_iter().find(|route| route.to.ip() == IpAddr::from(overlay(peer))).unwrap();
        assert!(route.onlink && route.gateway == Some(overlay(peer).into()));
    }

    let link = printed(&places[0], &["ip", "-d", "link", "show", "flannel.1"]);
    for shown in ["mtu 1450", "vxlan id 1 local 10.1.0.1 dev eth0", "dstport 8472 nolearning", " udpcsum"] {
        assert!(link.contains(shown), "{shown}: {link}");
    }
    let hardware = devices[1].1;
    let forwarding = printed(&places[0], &["bridge", "fdb", "show", "dev", "flannel.1"]);
    assert_eq!(forwarding.trim(), format!("{hardware} dst 10.1.0.2 self permanent"));
    let neighbours = printed(&places[0], &["ip", "neigh", "show", "dev", "flannel.1"]);
    assert_eq!(neighbours.trim(), format!("10.98.2.0 lladdr {hardware} PERMANENT"));
    let routes = printed(&places[0], &["ip", "route", "show", "10.98.2.0/24"]);
    assert_eq!(routes.trim(), "10.98.2.0/24 via 10.98.2.0 dev flannel.1 onlink");

    let server = places[1].run_in(|| UdpSocket::bind((overlay(2), 7000)).unwrap()).unwrap();
    let client = places[0].run_in(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap()).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client.send_to(b"over", (overlay(2), 7000)).unwrap();
    let mut buffer = [0; 10];
    let (length, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from.ip()), (b"over".as_slice(), overlay(1).into()));
}

#[test]
fn refusals_are_told_apart() {
    let place = TestNetns::new("vx");
    let netlink = place.run_in(Netlink::open).unwrap().unwrap();
    netlink.create_veth("eth0", "eth1", None).unwrap();
    let underlay = netlink.link("eth0").unwrap().index;
    let device = VxlanDevice { vni: 1, underlay, local: Ipv4Addr::new(10, 1, 0, 1), port: PORT, learning: false };
    let error = netlink.create_vxlan("flannel.1", VxlanDevice { vni: 1 << 24, ..device }).unwrap_err();
    assert!(!error.is_unsupported() && error.to_string().starts_with("cannot create vxlan device flannel.1"), "{error}");
    netlink.create_vxlan("flannel.1", device).unwrap();
    assert_eq!(netlink.create_vxlan("flannel.2", device).unwrap_err().errno(), Some(libc::EEXIST));
    assert_eq!(netlink.hardware_address(9999).unwrap(), None);
}
