//! Hosts on a lab's underlay that run no daemon of ours.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::Duration;

use felt::lab::{HUB_ADDRESS, Lab, Place, UNDERLAY_LEN, UPLINK};
use felt::net::Prefix4;
use felt::sys::netlink::Route;
use felt::sys::netns::Netns;
use ipnetwork::Ipv4Network;

use super::{PATIENCE, eventually, metrics, netlink, node, request};

/// Flannel's port.
const PORT: u16 = 8285;

/// A host that hangs on the lab's hub as its nodes do. It goes with the lab, for its namespace is called like a node's.
pub struct Outsider {
    pub netns: Netns,
    pub address: Ipv4Addr,
}

/// A host that behaves as flanneld with the udp backend does: a lease in the registry, a socket on flannel's port.
pub struct Flannel {
    pub host: Outsider,
    pub socket: UdpSocket,
    pub subnet: Prefix4,
}

impl Outsider {
    /// Joins the underlay as the host of this number, which must be none of the lab's nodes.
    pub fn join(lab: &Lab, number: u16) -> Self {
        assert!(number > lab.plan().nodes);
        let address = lab.plan().underlay(number);
        let netns = Netns::create(&lab.plan().name.namespace(Place::Node(number))).unwrap();
        let hub = netlink(&lab.netns(Place::Hub).unwrap());
        let port = hub.create_veth(&format!("node{number}"), UPLINK, Some(netns.as_fd())).unwrap();
        // The bridge of a lab is called so.
        hub.set_master(port.index, Some(hub.link("br0").unwrap().index)).unwrap();
        hub.set_mtu(port.index, lab.plan().underlay_mtu).unwrap();
        hub.set_up(port.index).unwrap();
        let own = netlink(&netns);
        own.set_up(own.link("lo").unwrap().index).unwrap();
        let uplink = own.link(UPLINK).unwrap().index;
        own.set_mtu(uplink, lab.plan().underlay_mtu).unwrap();
        own.add_address(uplink, Ipv4Network::new(address, UNDERLAY_LEN).unwrap().into()).unwrap();
        own.set_up(uplink).unwrap();
        own.add_route(&Route::default_by(HUB_ADDRESS.into())).unwrap();
        let outsider = Self { netns, address };
        eventually("the outsider reaches the hub", PATIENCE, || outsider.reaches(HUB_ADDRESS).then_some(()));
        outsider
    }

    /// Whether an address answers pings.
    pub fn reaches(&self, address: Ipv4Addr) -> bool {
        let ping = felt::lab::probe::ping(&self.netns, address, Duration::from_millis(500), &felt::lab::Interrupt::new());
        ping.unwrap().is_some()
    }

    /// Has the registry give a lease to the host whose attributes these are; its subnet.
    pub fn lease(&self, lab: &Lab, attributes: &str, wanted: Option<&str>) -> Prefix4 {
        let path =
            wanted.map_or("/v1/_/leases".to_owned(), |subnet| format!("/v1/_/leases?previous={}", subnet.replace('/', "-")));
        let answer = request(&self.netns, registry(lab), "POST", &path, attributes).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let subnet = body["Subnet"].as_str().unwrap();
        assert!(wanted.is_none_or(|wanted| wanted == subnet), "{wanted:?} {subnet}");
        subnet.parse().unwrap()
    }

    /// Takes a lease out of the registry.
    pub fn revoke(&self, lab: &Lab, subnet: Prefix4) {
        let path = format!("/v1/_/leases/{}", subnet.to_string().replace('/', "-"));
        assert_eq!(request(&self.netns, registry(lab), "DELETE", &path, "").unwrap().status, 200);
    }

    /// A socket on the underlay.
    pub fn socket(&self, port: u16) -> UdpSocket {
        super::udp_in(&self.netns, (self.address, port))
    }
}

impl Flannel {
    /// Joins as flanneld 0.5 to 0.14 does, or as later ones do if `null` is to be written for IPv6.
    pub fn join(lab: &Lab, number: u16, null: bool, wanted: Option<&str>) -> Self {
        let host = Outsider::join(lab, number);
        let ipv6 = if null { r#","PublicIPv6":null"# } else { "" };
        let subnet = host.lease(lab, &format!(r#"{{"PublicIP":"{}"{ipv6}}}"#, host.address), wanted);
        let socket = host.socket(PORT);
        Self { host, socket, subnet }
    }

    /// An address of its subnet.
    pub fn pod(&self, number: u8) -> Ipv4Addr {
        self.subnet.nth(number.into()).unwrap()
    }

    /// Waits until the nodes of the lab know so many peers each.
    pub fn wait_known(lab: &Lab, peers: u64) {
        for number in lab.plan().node_numbers() {
            let netns = node(lab, number);
            let known = || (metrics(&netns).value("felt_peers") == peers).then_some(());
            eventually(&format!("node {number} knows {peers} peers"), PATIENCE, known);
        }
    }

    /// Sends an inner packet to a node, as flannel would.
    pub fn send(&self, to: Ipv4Addr, packet: &[u8]) {
        self.socket.send_to(packet, (to, PORT)).unwrap();
    }

    /// The next datagram that `wanted` takes, and where it came from.
    pub fn receive(&self, wanted: impl Fn(&[u8]) -> bool) -> (Vec<u8>, SocketAddr) {
        let mut buffer = vec![0; 65_536];
        loop {
            let (length, from) = self.socket.recv_from(&mut buffer).expect("a datagram for the flannel peer");
            if wanted(&buffer[..length]) {
                return (buffer[..length].to_vec(), from);
            }
        }
    }
}

fn registry(lab: &Lab) -> SocketAddr {
    lab.plan().registry_endpoint().unwrap().into()
}
