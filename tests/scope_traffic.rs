//! Policy scope `node` as traffic meets it: local pods, the world, and a forwarder that lets everything back through the TUN.
//! Needs root.

mod lab_support;

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use felt::buf::Batch;
use felt::daemon::device::{OverlayDevice, Plan};
use felt::daemon::scope::{Keeping, NodeScope, TABLE};
use felt::lab::{EphemeralLab, Interrupt, Lab, LabPlan, Place, RegistryKind, Silent};
use felt::net::{Offload, Supers};
use felt::port::TunPort;
use felt::port::os::{OsTun, TurnLimit};
use felt::sys::netlink::{Netlink, Route, TABLE_MAIN};
use felt::sys::netns::Netns;
use felt::sys::poll::{self, Interest};
use ipnetwork::IpNetwork;
use lab_support::plan;

const PODS: [Place; 2] = [Place::Pod { node: 1, pod: 1 }, Place::Pod { node: 1, pod: 2 }];
/// Another host on the underlay, which is not part of the overlay here.
const WORLD: Place = Place::Node(2);
const SUBNETS: [&str; 2] = ["10.99.1.0/24", "fd05:1::/64"];
const NOBODY: [&str; 2] = ["10.99.1.77", "fd05:1::77"];

const BULK: usize = 100 << 20;
const LITTLE: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(400);

/// Packets of one way, by source and destination.
type Ways = HashMap<(IpAddr, IpAddr), usize>;

/// Node 1 of a lab without daemons, with a TUN in the state a daemon gives it, and IPv6 beside.
struct Ground {
    lab: EphemeralLab,
    netlink: Netlink,
    scope: NodeScope,
    port: Option<OsTun>,
}

impl Ground {
    fn new(test: &str) -> Self {
        let plan = LabPlan { registry: RegistryKind::Absent, nodes: 2, pods_per_node: 2, ..plan(test) };
        let lab = EphemeralLab::up(plan, &mut Silent, &Interrupt::new()).unwrap();
        add_ipv6(&lab);
        let device = Plan {
            name: "felt0".to_owned(),
            network: "10.99.0.0/16".parse().unwrap(),
            subnet: "10.99.1.0/24".parse().unwrap(),
            mtu: 1472,
            queues: 1,
            offloads: true,
            underlay: 1,
        };
        let node = lab.netns(Place::Node(1)).unwrap();
        let (netlink, mut device) = node
            .run_in(|| {
                let netlink = Netlink::open().unwrap();
                let device = OverlayDevice::bring_up(&device, &netlink).unwrap();
                (netlink, device)
            })
            .unwrap();
        let queue = device.queues.remove(0);
        let supers = OsTun::negotiate(&queue, Supers::ALL);
        let port = OsTun::new(queue, TurnLimit::NONE, supers);
        let (network, subnets) = (Some(net("10.99.0.0/16")), SUBNETS.map(net).to_vec());
        let scope = NodeScope { device: device.name, index: device.index, network, subnets, former: Vec::new() };
        let ground = Self { lab, netlink, scope, port: Some(port) };
        for (ipv6, (from, to)) in ways_and_families() {
            // Links and neighbours need a moment.
            assert!((0..20).any(|_| ground.connects(from, to, ipv6)), "{from} never reached {to}, IPv6: {ipv6}");
        }
        ground
    }

    /// Lets everything through until it is stopped.
    fn forward(&mut self) -> Forwarder {
        Forwarder::start(self.port.take().unwrap())
    }

    fn netns(&self, place: Place) -> Netns {
        self.lab.netns(place).unwrap()
    }

    /// The reverse-path filter of everything that is there and will be.
    fn filter_reverse_paths(&self, mode: &str) {
        self.netns(Place::Node(1))
            .run_in(|| {
                for device in std::fs::read_dir("/proc/sys/net/ipv4/conf").unwrap().flatten() {
                    if device.file_name() != "felt0" {
                        std::fs::write(format!("/proc/sys/net/ipv4/conf/{}/rp_filter", device.file_name().display()), mode)
                            .unwrap();
                    }
                }
            })
            .unwrap();
    }

    /// Carries `bytes` from one place to the other and compares them.
    fn carries(&self, from: Place, to: Place, ipv6: bool, bytes: usize) {
        let target = SocketAddr::new(address(&self.lab, to, ipv6), 5001);
        let listener = self.netns(to).run_in(|| TcpListener::bind(target).unwrap()).unwrap();
        let receiver = thread::spawn(move || {
            let (mut stream, peer) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (mut block, mut at) = (vec![0; 1 << 16], 0);
            loop {
                let count = stream.read(&mut block).unwrap();
                if count == 0 {
                    break;
                }
                assert!(block[..count].iter().enumerate().all(|(offset, byte)| *byte == pattern(at + offset)), "at {at}");
                at += count;
            }
            stream.write_all(b"all of it").unwrap();
            (at, peer.ip())
        });
        let sent = self.netns(from).run_in(|| {
            let mut stream = TcpStream::connect_timeout(&target, PATIENCE).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut at = 0;
            while at < bytes {
                let block: Vec<u8> = (at..bytes.min(at + (1 << 18))).map(pattern).collect();
                stream.write_all(&block).unwrap();
                at += block.len();
            }
            stream.shutdown(Shutdown::Write).unwrap();
            let mut word = Vec::new();
            stream.read_to_end(&mut word).unwrap();
            word
        });
        assert_eq!(sent.unwrap(), b"all of it");
        assert_eq!(receiver.join().unwrap(), (bytes, address(&self.lab, from, ipv6)), "{from} to {to}");
    }

    /// Whether a connection is made between two places.
    fn connects(&self, from: Place, to: Place, ipv6: bool) -> bool {
        let target = SocketAddr::new(address(&self.lab, to, ipv6), 5002);
        let _listener = self.netns(to).run_in(|| TcpListener::bind(target).unwrap()).unwrap();
        self.netns(from).run_in(|| TcpStream::connect_timeout(&target, SHORT).is_ok()).unwrap()
    }
}

/// Reads what comes out of a TUN and writes it back, and counts.
struct Forwarder {
    stop: Arc<AtomicBool>,
    ways: Arc<Mutex<Ways>>,
    supers: Arc<AtomicUsize>,
    thread: JoinHandle<OsTun>,
}

impl Forwarder {
    fn start(mut port: OsTun) -> Self {
        let (stop, ways, supers) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Ways>>::default(), Arc::<AtomicUsize>::default());
        let (ended, seen, whole) = (Arc::clone(&stop), Arc::clone(&ways), Arc::clone(&supers));
        let thread = thread::spawn(move || {
            let (mut batch, mut back) = (Batch::<Offload>::new(64, 65_536), Batch::<Offload>::new(64, 65_536));
            while !ended.load(Relaxed) {
                poll::wait(&mut [Interest::readable(port.as_fd())], Some(Duration::from_millis(20))).unwrap();
                batch.clear();
                port.recv(&mut batch).unwrap();
                for (packet, offload) in batch.used_mut() {
                    // What the kernel itself says to all on a new link is nobody's.
                    let Some(way) = way(packet.bytes()).filter(|(_, to)| !to.is_multicast()) else { continue };
                    *seen.lock().unwrap().entry(way).or_default() += 1;
                    whole.fetch_add(usize::from(offload.segmentation.is_some()), Relaxed);
                    back.swap_in(packet, *offload);
                }
                assert_eq!(port.send_back(&back).unwrap(), 0, "refused");
                back.clear();
            }
            port
        });
        Self { stop, ways, supers, thread }
    }

    fn saw(&self, lab: &Lab, from: Place, to: Place, ipv6: bool) -> bool {
        self.ways.lock().unwrap().contains_key(&(address(lab, from, ipv6), address(lab, to, ipv6)))
    }

    fn stop(self) -> OsTun {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap()
    }
}

fn net(text: &str) -> IpNetwork {
    text.parse().unwrap()
}

#[expect(clippy::cast_possible_truncation, reason = "bytes made of a counter")]
fn pattern(at: usize) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

fn way(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match etherparse::IpSlice::from_slice(packet).ok()? {
        etherparse::IpSlice::Ipv4(ip) => Some((ip.header().source_addr().into(), ip.header().destination_addr().into())),
        etherparse::IpSlice::Ipv6(ip) => Some((ip.header().source_addr().into(), ip.header().destination_addr().into())),
    }
}

fn address(lab: &Lab, place: Place, ipv6: bool) -> IpAddr {
    match place {
        _ if !ipv6 => lab.address(place).unwrap().into(),
        Place::Pod { node, pod } => format!("fd05:{node}::{pod}").parse().unwrap(),
        Place::Node(node) => format!("fd01::{node}").parse().unwrap(),
        Place::Hub => unreachable!("not used here"),
    }
}

/// Gives node 1, its pods and node 2 addresses and routes of IPv6, as the lab gives them those of IPv4.
fn add_ipv6(lab: &Lab) {
    let inside = |place: Place, work: &(dyn Fn(&Netlink) + Sync)| {
        let work = || {
            for device in ["all", "default", "eth0", "pod1", "pod2"] {
                let sysctl = |name: &str| format!("/proc/sys/net/ipv6/conf/{device}/{name}");
                // Not there in all places. Addresses are of use at once without a search for others that have them.
                let _ = std::fs::write(sysctl("accept_dad"), "0");
                let _ = std::fs::write(sysctl("forwarding"), "1");
            }
            work(&Netlink::open().unwrap());
        };
        lab.netns(place).unwrap().run_in(work).unwrap();
    };
    let index = |netlink: &Netlink, name: &str| netlink.link(name).unwrap().index;
    for node in [1, 2] {
        inside(Place::Node(node), &|netlink| {
            netlink.add_address(index(netlink, "eth0"), net(&format!("fd01::{node}/64"))).unwrap();
        });
    }
    inside(Place::Node(1), &|netlink| {
        for pod in [1, 2] {
            let port = index(netlink, &format!("pod{pod}"));
            netlink.add_address(port, net("fe80::1/64")).unwrap();
            netlink.add_route(&Route::new(net(&format!("fd05:1::{pod}/128"))).device(port)).unwrap();
        }
    });
    for (pod, place) in (1..).zip(PODS) {
        inside(place, &|netlink| {
            let uplink = index(netlink, "eth0");
            netlink.add_address(uplink, net(&format!("fd05:1::{pod}/128"))).unwrap();
            netlink.add_route(&Route::default_by("fe80::1".parse().unwrap()).device(uplink)).unwrap();
        });
    }
    inside(WORLD, &|netlink| {
        netlink.add_route(&Route::new(net("fd05:1::/64")).gateway("fd01::1".parse().unwrap())).unwrap();
    });
}

/// Who speaks to whom across the TUN.
const PAIRS: [(Place, Place); 3] = [(PODS[0], PODS[1]), (PODS[0], WORLD), (WORLD, PODS[1])];

fn ways_and_families() -> impl Iterator<Item = (bool, (Place, Place))> {
    [false, true].into_iter().flat_map(|ipv6| PAIRS.map(|pair| (ipv6, pair)))
}

#[test]
fn all_traffic_of_local_pods_passes_the_tun_under_any_reverse_path_filter() {
    let mut ground = Ground::new("scope");
    ground.scope.ensure(&ground.netlink).unwrap();
    let forwarder = ground.forward();
    for mode in ["0", "1", "2"] {
        ground.filter_reverse_paths(mode);
        assert!(!ground.scope.ensure(&ground.netlink).unwrap());
        forwarder.ways.lock().unwrap().clear();
        for (ipv6, (from, to)) in ways_and_families() {
            ground.carries(from, to, ipv6, LITTLE);
            let both_ways = forwarder.saw(&ground.lab, from, to, ipv6) && forwarder.saw(&ground.lab, to, from, ipv6);
            assert!(both_ways, "{from} and {to} went past the TUN (IPv6: {ipv6}, rp_filter {mode})");
        }
        // A node and its own pods are none of the policy's.
        for ipv6 in [false, true] {
            assert!(ground.connects(Place::Node(1), PODS[0], ipv6) && ground.connects(PODS[0], Place::Node(1), ipv6));
            assert!(!forwarder.saw(&ground.lab, Place::Node(1), PODS[0], ipv6));
            assert!(!forwarder.saw(&ground.lab, PODS[0], Place::Node(1), ipv6));
        }
    }
    forwarder.stop();
}

#[test]
fn bulk_arrives_whole_and_in_super_packets() {
    let mut ground = Ground::new("bulk");
    ground.filter_reverse_paths("1");
    ground.scope.ensure(&ground.netlink).unwrap();
    let forwarder = ground.forward();
    for (ipv6, (from, to)) in ways_and_families() {
        let before = forwarder.supers.load(Relaxed);
        ground.carries(from, to, ipv6, BULK);
        let supers = forwarder.supers.load(Relaxed) - before;
        assert!(supers > BULK / 65_536, "only {supers} super-packets from {from} to {to}");
    }
    let port = forwarder.stop();
    assert_eq!(port.supers(), Supers::ALL, "none was refused");
}

#[test]
fn without_a_forwarder_pods_are_cut_off_and_without_the_scope_they_are_not() {
    let ground = Ground::new("closed");
    ground.scope.ensure(&ground.netlink).unwrap();
    let reach = |open: bool| {
        for (ipv6, (from, to)) in ways_and_families() {
            assert_eq!(ground.connects(from, to, ipv6), open, "{from} to {to}, IPv6: {ipv6}");
        }
        assert!(ground.connects(Place::Node(1), PODS[0], false) && ground.connects(PODS[0], Place::Node(1), false));
    };
    reach(false);
    // Nor when the device is down, or gone.
    ground.netlink.set_down(ground.scope.index).unwrap();
    reach(false);
    ground.netlink.delete_link(ground.scope.index).unwrap();
    reach(false);
    NodeScope::remove(&ground.scope.device, &ground.netlink).unwrap();
    reach(true);
}

#[test]
fn pods_of_a_former_subnet_stay_under_policy() {
    let mut ground = Ground::new("former");
    let later = NodeScope { subnets: ["10.99.7.0/24", "fd05:7::/64"].map(net).to_vec(), ..ground.scope.clone() };
    let mut keeping = Keeping::begin(Some(ground.scope.clone()), &later.device, &ground.netlink).unwrap();
    keeping.change(Some(later.clone()));
    keeping.look(&ground.netlink).unwrap();
    // Nobody reads what comes out of the TUN.
    for (ipv6, (from, to)) in ways_and_families() {
        assert!(!ground.connects(from, to, ipv6), "{from} got past the TUN to {to}, IPv6: {ipv6}");
    }
    let forwarder = ground.forward();
    let passes = |when: &str| {
        forwarder.ways.lock().unwrap().clear();
        for (ipv6, (from, to)) in ways_and_families() {
            ground.carries(from, to, ipv6, LITTLE);
            let both_ways = forwarder.saw(&ground.lab, from, to, ipv6) && forwarder.saw(&ground.lab, to, from, ipv6);
            assert!(both_ways, "{from} and {to} went past the TUN {when} (IPv6: {ipv6})");
        }
    };
    passes("after the change");
    drop(keeping);
    let mut keeping = Keeping::begin(Some(later), &ground.scope.device, &ground.netlink).unwrap();
    assert!(!keeping.look(&ground.netlink).unwrap());
    passes("after a restart");
    // The overlay's own route leads into the TUN, and this is nobody's.
    let nobody: IpAddr = NOBODY[0].parse().unwrap();
    let told = ground.netns(PODS[0]).run_in(|| TcpStream::connect_timeout(&(nobody, 9).into(), PATIENCE).unwrap_err().kind());
    assert!(matches!(told.unwrap(), ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable));
    let way = (address(&ground.lab, PODS[0], false), nobody);
    assert_eq!(forwarder.ways.lock().unwrap().get(&way).copied(), Some(1));
    forwarder.stop();
}

#[test]
fn while_the_table_is_empty_pods_are_cut_off() {
    let ground = Ground::new("flushed");
    ground.scope.ensure(&ground.netlink).unwrap();
    for route in ground.netlink.routes().unwrap().iter().filter(|route| route.table == TABLE) {
        ground.netlink.delete_route(route).unwrap();
    }
    for (ipv6, (from, to)) in ways_and_families() {
        assert!(!ground.connects(from, to, ipv6), "{from} got past the TUN to {to}, IPv6: {ipv6}");
        assert!(ground.connects(Place::Node(1), PODS[0], ipv6) && ground.connects(PODS[0], Place::Node(1), ipv6));
    }
}

#[test]
fn a_judged_packet_without_a_way_on_does_not_come_back() {
    let mut ground = Ground::new("nowhere");
    let is_default = |route: &Route| route.to.prefix() == 0 && route.table == TABLE_MAIN;
    for route in ground.netlink.routes().unwrap().into_iter().filter(is_default) {
        ground.netlink.delete_route(&route).unwrap();
    }
    ground.scope.ensure(&ground.netlink).unwrap();
    let forwarder = ground.forward();
    for (ipv6, nowhere) in [(false, "203.0.113.9"), (true, "2001:db8::9")] {
        let nowhere: IpAddr = nowhere.parse().unwrap();
        assert!(ground.netns(Place::Node(1)).run_in(|| Netlink::open().unwrap().route_to(nowhere)).unwrap().is_err());
        let told =
            ground.netns(PODS[0]).run_in(|| TcpStream::connect_timeout(&(nowhere, 9).into(), PATIENCE).unwrap_err().kind());
        assert!(matches!(told.unwrap(), ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable), "{nowhere}");
        let count = forwarder.ways.lock().unwrap().get(&(address(&ground.lab, PODS[0], ipv6), nowhere)).copied();
        assert_eq!(count, Some(1), "{nowhere}");
    }
    forwarder.stop();
}

#[test]
fn a_judged_packet_for_nobody_does_not_come_back() {
    let mut ground = Ground::new("nobody");
    ground.scope.ensure(&ground.netlink).unwrap();
    let forwarder = ground.forward();
    for (ipv6, nobody) in [false, true].into_iter().zip(NOBODY) {
        let nobody: IpAddr = nobody.parse().unwrap();
        for from in [WORLD, PODS[0]] {
            let told =
                ground.netns(from).run_in(|| TcpStream::connect_timeout(&(nobody, 9).into(), PATIENCE).unwrap_err().kind());
            assert!(matches!(told.unwrap(), ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable), "{from} to {nobody}");
            let count = forwarder.ways.lock().unwrap().get(&(address(&ground.lab, from, ipv6), nobody)).copied();
            assert_eq!(count, Some(1), "{from} to {nobody}");
        }
    }
    forwarder.stop();
}
