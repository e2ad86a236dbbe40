//! The data plane under policy: what goes, what does not and why, what follows what went before.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use etherparse::{IcmpEchoHeader, Icmpv4Type, IpFragOffset, Ipv4Header, PacketBuilder, icmpv4};
use felt::buf::{Batch, Datagram, Gather, TrainLimit};
use felt::flow::{FlowTable, OnChange, Seed};
use felt::forward::{Counters, DropReason, Forwarder, Gate, Outgoing, Rules, Scope, SourceCheck, Totals, Tunnel};
use felt::net::{Endpoint, Moment, Offload, PartialChecksum, Protocol, SegmentKind, Segmentation, Supers, v4_bits};
use felt::policy::manifest::{Read, read};
use felt::policy::{self, Change, Cluster, Policies, RefusalQueue};
use serde_json::{Value, json};

/// A pod of ours that no policy selects.
const FREE: [u8; 4] = [10, 5, 16, 2];
/// A pod of ours that lets nobody in but the friend, on TCP 80 and UDP 53.
const SHY: [u8; 4] = [10, 5, 16, 3];
/// A pod of ours that may reach the friend's TCP 80 only.
const TIED: [u8; 4] = [10, 5, 16, 4];
/// One of our addresses that no pod is known to have.
const NOBODY: [u8; 4] = [10, 5, 16, 77];
/// A pod of the peer's, and another one.
const FRIEND: [u8; 4] = [10, 5, 20, 2];
const STRANGER: [u8; 4] = [10, 5, 20, 3];
/// Somebody outside.
const WORLD: [u8; 4] = [198, 51, 100, 7];

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;

fn pod(name: &str, address: [u8; 4], node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", "labels": {"app": name}},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "podIP": Ipv4Addr::from(address).to_string()}
    })
}

fn policy_for(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "lab"}, "spec": spec
    })
}

fn put(cluster: &mut Cluster, object: &Value) {
    match read(object).pop() {
        Some(Ok(Read::Object { object, remarks })) if remarks.is_empty() => cluster.apply(Change::Put(object)),
        other => panic!("{other:?} of {object}"),
    }
}

fn scope() -> policy::Scope {
    policy::Scope {
        node: Some("n16".to_owned()),
        own4: vec!["10.5.16.0/24".parse().unwrap()],
        host: vec![Ipv4Addr::new(10, 5, 16, 0).into()],
        ..policy::Scope::default()
    }
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(scope());
    put(&mut cluster, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}));
    let pods = [
        ("free", FREE, "n16"),
        ("shy", SHY, "n16"),
        ("tied", TIED, "n16"),
        ("friend", FRIEND, "n20"),
        ("stranger", STRANGER, "n20"),
    ];
    for (name, address, node) in pods {
        put(&mut cluster, &pod(name, address, node));
    }
    let friend = json!({"podSelector": {"matchLabels": {"app": "friend"}}});
    let ports = json!([{"port": 80}, {"port": 53, "protocol": "UDP"}]);
    put(
        &mut cluster,
        &policy_for(
            "shy",
            &json!({"podSelector": {"matchLabels": {"app": "shy"}}, "ingress": [{"from": [friend], "ports": ports}]}),
        ),
    );
    put(
        &mut cluster,
        &policy_for(
            "tied",
            &json!({
                "podSelector": {"matchLabels": {"app": "tied"}}, "policyTypes": ["Egress"],
                "egress": [{"to": [friend], "ports": [{"port": 80}]}]
            }),
        ),
    );
    cluster
}

/// A node under policy, with ports that are batches.
struct Node {
    cluster: Cluster,
    flows: Arc<FlowTable>,
    refusals: Arc<RefusalQueue>,
    /// One for each thread of a worker.
    outward: Forwarder,
    inward: Forwarder,
    outgoing: Outgoing,
    now: Moment,
}

impl Node {
    fn new(rules: Rules) -> Self {
        let mut cluster = cluster();
        let policies = cluster.compile();
        Self::with(cluster, &policies, rules)
    }

    fn with(cluster: Cluster, policies: &Arc<Policies>, rules: Rules) -> Self {
        let flows = Arc::new(FlowTable::new(1024, Seed::new([1, 2])).unwrap());
        let refusals = Arc::new(RefusalQueue::new(64));
        let thread = || {
            let mut forwarder = Forwarder::new(Arc::new(Counters::default()));
            forwarder.adopt(Some(&tunnel()));
            forwarder.enforce(Some(Gate::new(rules, Arc::clone(policies), Arc::clone(&flows), Arc::clone(&refusals))));
            forwarder
        };
        let (outward, inward) = (thread(), thread());
        let outgoing = Outgoing { to_wire: Batch::new(64, 70_000), back: Batch::new(64, 70_000), answers: Batch::new(64, 2048) };
        Self { cluster, flows, refusals, outward, inward, outgoing, now: Moment::ZERO }
    }

    /// Puts what the cluster knows now in force.
    fn recompile(&mut self) {
        let policies = self.cluster.compile();
        for forwarder in [&mut self.outward, &mut self.inward] {
            forwarder.gate().unwrap().follow(Arc::clone(&policies));
        }
    }

    /// How many of these packets from the TUN leave to the wire, and which go back.
    fn out(&mut self, packets: &[(Vec<u8>, Offload)]) -> (usize, Vec<(Vec<u8>, Offload)>) {
        let mut from_tun = Batch::new(64, 70_000);
        for (bytes, offload) in packets {
            let slot = from_tun.vacant().unwrap();
            slot.0.fill(bytes);
            slot.1 = *offload;
            from_tun.commit(1);
        }
        let limit = TrainLimit { datagrams: 128, bytes: 65_000 };
        assert!(!self.outward.egress(self.now, &mut peers, limit, &mut from_tun, &mut self.outgoing));
        let sent = self.outgoing.to_wire.used().iter().map(|(packet, note)| note.count(packet.bytes().len())).sum();
        self.outward.sent(self.now, &mut self.outgoing.to_wire, |_| None, &mut self.outgoing.answers);
        let back = self.outgoing.back.used().iter().map(|(packet, offload)| (packet.bytes().to_vec(), *offload)).collect();
        self.outward.returned(&mut self.outgoing.back, 0);
        assert!(self.outgoing.answers.is_empty(), "a refusal is silent");
        (sent, back)
    }

    /// Whether a packet from the TUN leaves to the wire.
    fn goes(&mut self, packet: Vec<u8>) -> bool {
        self.out(&[(packet, Offload::default())]).0 == 1
    }

    /// Whether a packet from the peer is delivered.
    fn comes(&mut self, packet: &[u8]) -> bool {
        let (mut from_wire, mut to_tun) = (Batch::new(1, 2048), Gather::new(4, 4));
        let slot = from_wire.vacant().unwrap();
        slot.0.fill(packet);
        slot.1 = Datagram { peer: endpoint(20), ..Datagram::default() };
        from_wire.commit(1);
        assert!(!self.inward.ingress(self.now, &mut peers, Supers::default(), &mut from_wire, &mut to_tun));
        let delivered = to_tun.packets().count() == 1;
        self.inward.written(&mut to_tun, 0);
        delivered
    }

    fn totals(&self) -> Totals {
        Totals::of([self.outward.counters(), self.inward.counters()])
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.totals().dropped(reason)
    }
}

fn strict() -> Rules {
    Rules { on_change: OnChange::Strict, multicast: true, scope: Scope::Overlay }
}

fn endpoint(host: u8) -> Endpoint {
    Endpoint::from(([192, 0, 2, host], 8285))
}

fn tunnel() -> Tunnel {
    Tunnel {
        own: "10.5.16.0/24".parse().unwrap(),
        network: "10.5.0.0/16".parse().unwrap(),
        mtu: 1472,
        endpoint: endpoint(16),
        source_check: SourceCheck::Strict,
    }
}

fn peers(address: Ipv4Addr) -> Option<Endpoint> {
    (address.octets()[..3] == [10, 5, 20]).then(|| endpoint(20))
}

fn tcp(from: ([u8; 4], u16), to: ([u8; 4], u16), flags: u8) -> Vec<u8> {
    let mut builder = PacketBuilder::ipv4(from.0, to.0, 64).tcp(from.1, to.1, 1, 1000);
    if flags & SYN != 0 {
        builder = builder.syn();
    }
    if flags & ACK != 0 {
        builder = builder.ack(1);
    }
    let mut bytes = Vec::new();
    builder.write(&mut bytes, b"data").unwrap();
    bytes
}

fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    let mut bytes = Vec::new();
    PacketBuilder::ipv4(from.0, to.0, 64).udp(from.1, to.1).write(&mut bytes, b"data").unwrap();
    bytes
}

fn echo(from: [u8; 4], to: [u8; 4], reply: bool) -> Vec<u8> {
    let header = IcmpEchoHeader { id: 7, seq: 1 };
    let kind = if reply { Icmpv4Type::EchoReply(header) } else { Icmpv4Type::EchoRequest(header) };
    let mut bytes = Vec::new();
    PacketBuilder::ipv4(from, to, 64).icmpv4(kind).write(&mut bytes, b"data").unwrap();
    bytes
}

/// A fragment of a datagram: so many bytes of UDP from `at` on.
fn fragment(from: [u8; 4], to: [u8; 4], id: u16, at: u16, payload: &[u8], more: bool) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap();
    let mut ip = Ipv4Header::new(length, 64, etherparse::IpNumber::UDP, from, to).unwrap();
    ip.identification = id;
    ip.more_fragments = more;
    ip.dont_fragment = false;
    ip.fragment_offset = IpFragOffset::try_new(at / 8).unwrap();
    ip.header_checksum = ip.calc_header_checksum();
    let mut bytes = Vec::new();
    ip.write(&mut bytes).unwrap();
    bytes.extend(payload);
    bytes
}

/// The UDP header of a datagram that goes on in other fragments, and a bit of its payload.
fn udp_head(from: u16, to: u16) -> Vec<u8> {
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &[4, 0, 0, 0], &[0; 16]].concat()
}

#[test]
fn each_end_is_asked_where_its_pod_lives() {
    let mut node = Node::new(strict());
    assert!(node.goes(tcp((FREE, 40_000), (STRANGER, 9), SYN)));
    assert!(node.goes(tcp((TIED, 40_000), (FRIEND, 80), SYN)));
    assert!(!node.goes(tcp((TIED, 40_000), (FRIEND, 81), SYN)));
    assert!(!node.goes(tcp((TIED, 40_000), (STRANGER, 80), SYN)));
    assert!(!node.goes(udp((TIED, 40_000), (FRIEND, 80))));
    assert_eq!((node.dropped(DropReason::PolicyEgress), node.dropped(DropReason::PolicyIngress)), (3, 0));

    assert!(node.comes(&tcp((STRANGER, 40_000), (FREE, 80), SYN)));
    assert!(node.comes(&tcp((FRIEND, 40_000), (SHY, 80), SYN)));
    assert!(node.comes(&udp((FRIEND, 40_000), (SHY, 53))));
    assert!(!node.comes(&tcp((FRIEND, 40_001), (SHY, 81), SYN)));
    assert!(!node.comes(&tcp((STRANGER, 40_000), (SHY, 80), SYN)));
    assert!(!node.comes(&echo(FRIEND, SHY, false)));
    assert_eq!((node.dropped(DropReason::PolicyEgress), node.dropped(DropReason::PolicyIngress)), (3, 3));
    let totals = node.totals();
    assert_eq!((totals.flows_allowed, totals.flows_refused), (5, 6));

    let told: Vec<_> = std::iter::from_fn(|| node.refusals.pop()).collect();
    assert_eq!(told.len(), 6);
    assert!(told.iter().all(|event| event.opens && event.version == 1));
    assert_eq!(told[0].key.to_string(), "TCP 10.5.16.4:40000 to 10.5.20.2:81");
    assert_eq!((told[0].key.protocol, told[0].key.destination), (Protocol::TCP, v4_bits(FRIEND.into())));
    assert!(told[0].refused.egress.is_some() && told[0].refused.ingress.is_none());
    assert!(told[3].refused.egress.is_none() && told[3].refused.ingress.is_some());
}

#[test]
fn replies_come_back_by_another_thread_and_nothing_else_does() {
    let mut node = Node::new(strict());
    // `tied` isolates for egress only; make it isolated for ingress as well.
    put(&mut node.cluster, &policy_for("closed", &json!({"podSelector": {"matchLabels": {"app": "tied"}}, "ingress": []})));
    node.recompile();
    assert!(!node.comes(&tcp((FRIEND, 80), (TIED, 40_000), SYN)));
    assert!(node.goes(tcp((TIED, 40_000), (FRIEND, 80), SYN)));
    assert!(node.comes(&tcp((FRIEND, 80), (TIED, 40_000), SYN_ACK)));
    assert!(node.goes(tcp((TIED, 40_000), (FRIEND, 80), ACK)));
    assert!(node.comes(&tcp((FRIEND, 80), (TIED, 40_000), ACK)));
    // The same ports the other way round are another connection.
    assert!(!node.comes(&tcp((FRIEND, 80), (TIED, 40_000), SYN)));
    assert!(node.comes(&tcp((FRIEND, 80), (TIED, 40_000), ACK)));
    assert!(!node.comes(&udp((FRIEND, 80), (TIED, 40_000))));

    // UDP: an answer, and after a long silence no answer any more.
    assert!(node.comes(&udp((FRIEND, 40_000), (SHY, 53))));
    put(
        &mut node.cluster,
        &policy_for("mute", &json!({"podSelector": {"matchLabels": {"app": "shy"}}, "policyTypes": ["Egress"]})),
    );
    node.recompile();
    assert!(node.goes(udp((SHY, 53), (FRIEND, 40_000))));
    assert!(!node.goes(udp((SHY, 53), (FRIEND, 40_001))));
    node.now = node.now + Duration::from_mins(10);
    assert!(!node.goes(udp((SHY, 53), (FRIEND, 40_000))));
}

#[test]
fn a_change_ends_what_it_forbids_and_nothing_else() {
    let lifted = json!({"podSelector": {"matchLabels": {"app": "shy"}}, "ingress": [{"ports": [{"port": 443}]}]});
    for (on_change, goes_on) in [(OnChange::Strict, false), (OnChange::Keep, true)] {
        let mut node = Node::new(Rules { on_change, ..strict() });
        assert!(node.comes(&tcp((FRIEND, 40_000), (SHY, 80), SYN)));
        assert!(node.comes(&tcp((STRANGER, 40_000), (FREE, 80), SYN)));
        for flow in [(SHY, FRIEND), (FREE, STRANGER)] {
            assert!(node.goes(tcp((flow.0, 80), (flow.1, 40_000), SYN_ACK)));
        }
        put(&mut node.cluster, &policy_for("shy", &lifted));
        node.recompile();
        assert_eq!(node.goes(tcp((SHY, 80), (FRIEND, 40_000), ACK)), goes_on, "{on_change:?}");
        assert_eq!(node.comes(&tcp((FRIEND, 40_000), (SHY, 80), ACK)), goes_on);
        assert!(node.goes(tcp((FREE, 80), (STRANGER, 40_000), ACK)));
        assert!(node.comes(&tcp((STRANGER, 40_000), (FREE, 80), ACK)));
        assert!(!node.comes(&tcp((FRIEND, 40_002), (SHY, 80), SYN)), "a new one is judged by what is so now");
    }
}

#[test]
fn after_a_restart_connections_go_on_by_whichever_side_speaks_first() {
    for server_first in [true, false] {
        let mut node = Node::new(strict());
        if server_first {
            assert!(node.goes(tcp((SHY, 80), (FRIEND, 40_000), ACK)));
        }
        assert!(node.comes(&tcp((FRIEND, 40_000), (SHY, 80), ACK)));
        assert!(!node.comes(&tcp((STRANGER, 40_000), (SHY, 80), SYN)));
        assert!(node.comes(&tcp((FRIEND, 80), (TIED, 40_000), ACK)));
        assert!(!node.goes(tcp((TIED, 40_000), (STRANGER, 80), ACK)));
    }
}

#[test]
fn every_drop_reason_of_policy_can_happen() {
    let mut node = Node::new(Rules { multicast: false, ..strict() });
    assert!(!node.goes(udp((TIED, 1), (FRIEND, 53))));
    assert!(!node.comes(&udp((STRANGER, 1), (SHY, 53))));
    assert!(!node.goes(udp((NOBODY, 1), (FRIEND, 53))));
    assert!(!node.comes(&udp((FRIEND, 1), (NOBODY, 53))));
    assert!(!node.goes(udp((FREE, 1), ([224, 0, 0, 5], 53))));
    let mut cut_short = udp((FREE, 1), (FRIEND, 53))[..24].to_vec();
    cut_short[3] = 24;
    assert!(!node.goes(cut_short));
    assert!(!node.goes(fragment(FREE, FRIEND, 1, 0, &[0; 4], true)));
    assert!(!node.goes(fragment(FREE, FRIEND, 2, 1480, &[0; 64], false)));
    let closed = Arc::new(Policies::closed(&scope(), 1));
    node.outward.gate().unwrap().follow(Arc::clone(&closed));
    node.inward.gate().unwrap().follow(closed);
    assert!(!node.goes(udp((FREE, 1), (FRIEND, 53))));
    assert!(!node.comes(&udp((FRIEND, 1), (FREE, 53))));
    let expected = [
        (DropReason::PolicyEgress, 1),
        (DropReason::PolicyIngress, 1),
        (DropReason::PolicyUnsynced, 2),
        (DropReason::UnknownPod, 2),
        (DropReason::Multicast, 1),
        (DropReason::BadTransport, 1),
        (DropReason::TinyFragment, 1),
        (DropReason::OrphanFragment, 1),
    ];
    assert_eq!(node.totals().drops().filter(|(_, count)| *count > 0).collect::<Vec<_>>(), expected);
}

#[test]
fn fragments_follow_their_first() {
    let mut node = Node::new(strict());
    assert!(node.comes(&fragment(FRIEND, SHY, 7, 0, &udp_head(40_000, 53), true)));
    assert!(node.comes(&fragment(FRIEND, SHY, 7, 24, &[0; 64], false)));
    assert!(!node.comes(&fragment(FRIEND, SHY, 8, 24, &[0; 64], false)));
    assert!(!node.comes(&fragment(FRIEND, SHY, 9, 0, &udp_head(40_000, 54), true)));
    assert!(!node.comes(&fragment(FRIEND, SHY, 9, 24, &[0; 64], false)));
    assert_eq!((node.dropped(DropReason::OrphanFragment), node.dropped(DropReason::PolicyIngress)), (2, 1));
}

#[test]
fn errors_about_a_live_flow_get_through() {
    let mut node = Node::new(strict());
    put(&mut node.cluster, &policy_for("closed", &json!({"podSelector": {"matchLabels": {"app": "tied"}}, "ingress": []})));
    node.recompile();
    let about = |original: &[u8]| {
        let kind = Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1400 });
        let mut bytes = Vec::new();
        PacketBuilder::ipv4(FRIEND, TIED, 64).icmpv4(kind).write(&mut bytes, &original[..28]).unwrap();
        bytes
    };
    let (live, unknown) = (tcp((TIED, 40_000), (FRIEND, 80), SYN), tcp((TIED, 40_001), (FRIEND, 80), SYN));
    assert!(node.goes(live.clone()));
    assert!(node.comes(&about(&live)));
    assert!(!node.comes(&about(&unknown)));
    assert!(!node.comes(&echo(FRIEND, TIED, false)));
    assert!(!node.comes(&echo(FRIEND, TIED, true)));
}

#[test]
fn in_scope_node_the_host_delivers_what_was_judged_here() {
    let mut node = Node::new(Rules { scope: Scope::Node, ..strict() });
    let offload = Offload {
        checksum: Some(PartialChecksum { start: 20, offset: 16 }),
        segmentation: Some(Segmentation {
            kind: SegmentKind::Tcp4,
            segment_bytes: 1432.try_into().unwrap(),
            header_bytes: 40,
            ecn: false,
        }),
    };
    let packets = [
        // Same host, allowed; same host, refused by either end; to the world; from it; to a peer.
        (tcp((FREE, 40_000), (FREE, 80), ACK), Offload::default()),
        (tcp((FREE, 40_000), (SHY, 80), SYN), Offload::default()),
        (tcp((TIED, 40_000), (FREE, 80), SYN), Offload::default()),
        (tcp((FREE, 40_000), (WORLD, 443), SYN), offload),
        (tcp((WORLD, 443), (FREE, 40_000), SYN_ACK), Offload::default()),
        (udp((WORLD, 1), (SHY, 53)), Offload::default()),
        (tcp((FREE, 40_000), (FRIEND, 80), SYN), Offload::default()),
    ];
    let (sent, back) = node.out(&packets);
    assert_eq!((sent, back), (1, vec![packets[0].clone(), packets[3].clone(), packets[4].clone()]));
    assert_eq!((node.dropped(DropReason::PolicyIngress), node.dropped(DropReason::PolicyEgress)), (2, 1));
    assert_eq!(node.totals().sent_back, 3);
}

#[test]
fn only_packets_that_tell_nothing_new_are_taken_for_the_one_before() {
    let mut node = Node::new(strict());
    let (syn, ack) = (tcp((FRIEND, 40_000), (SHY, 80), SYN), tcp((FRIEND, 40_000), (SHY, 80), ACK));
    assert!(node.comes(&syn));
    let plain = |packet: Vec<u8>| (packet, Offload::default());
    // One batch: a known flow, then others that differ from it in one thing each.
    assert!(node.goes(tcp((SHY, 80), (FRIEND, 40_000), ACK)));
    put(
        &mut node.cluster,
        &policy_for("mute", &json!({"podSelector": {"matchLabels": {"app": "shy"}}, "policyTypes": ["Egress"]})),
    );
    node.recompile();
    let packets = [
        plain(tcp((SHY, 80), (FRIEND, 40_000), ACK)),
        plain(tcp((SHY, 80), (FRIEND, 40_000), ACK)),
        plain(tcp((SHY, 80), (FRIEND, 40_000), SYN)),
        plain(tcp((SHY, 80), (FRIEND, 40_001), SYN)),
        plain(tcp((SHY, 81), (FRIEND, 40_000), SYN)),
        plain(tcp((SHY, 80), (STRANGER, 40_000), SYN)),
        plain(udp((SHY, 80), (FRIEND, 40_000))),
        plain(tcp((SHY, 80), (FRIEND, 40_000), ACK)),
    ];
    assert_eq!(node.out(&packets).0, 3);
    assert_eq!(node.dropped(DropReason::PolicyEgress), 5);
    assert!(node.comes(&ack));
    assert!(node.flows.live(node.now) >= 1);
}

/// A pod of ours that has kept an address of a former subnet.
const OLD: [u8; 4] = [10, 5, 17, 2];

#[test]
fn a_pod_of_a_former_subnet_is_served_until_another_node_leases_that() {
    let mut node = Node::new(Rules { scope: Scope::Node, ..strict() });
    let former = ["10.5.17.0/24", "10.5.20.0/24"].map(|subnet| subnet.parse().unwrap());
    node.outward.gate().unwrap().remember(former.into(), Arc::default());
    put(&mut node.cluster, &pod("old", OLD, "n16"));
    put(
        &mut node.cluster,
        &policy_for("old", &json!({"podSelector": {"matchLabels": {"app": "old"}}, "egress": [{"ports": [{"port": 443}]}]})),
    );
    node.recompile();
    let plain = |packet| (packet, Offload::default());
    let packets = [
        plain(tcp((OLD, 40_000), (WORLD, 443), SYN)),
        plain(tcp((WORLD, 443), (OLD, 40_000), SYN_ACK)),
        plain(tcp((OLD, 40_000), (WORLD, 80), SYN)),
        plain(tcp((FREE, 40_000), (OLD, 80), SYN)),
    ];
    assert_eq!(node.out(&packets), (0, packets[..2].to_vec()));
    assert_eq!((node.dropped(DropReason::PolicyIngress), node.dropped(DropReason::PolicyEgress)), (1, 1));

    // The peer leases the other one: what goes there is the peer's, and nobody here is one of its pods.
    assert!(node.goes(tcp((FREE, 40_000), (FRIEND, 80), SYN)) && node.comes(&tcp((FRIEND, 80), (FREE, 40_000), SYN_ACK)));
    assert!(node.comes(&tcp((FRIEND, 1), (FREE, 80), SYN)), "over the wire");
    let strays = [plain(tcp((FRIEND, 40_000), (WORLD, 443), SYN)), plain(udp((STRANGER, 1), (FREE, 53)))];
    assert_eq!(node.out(&strays), (0, Vec::new()));
    assert_eq!(node.dropped(DropReason::UnknownPod), 2);
    // Policy has not heard that a former one is nobody's again.
    node.outward.gate().unwrap().remember(former.into(), former[..1].into());
    assert_eq!(node.out(&packets), (0, Vec::new()));
    assert_eq!(node.dropped(DropReason::UnknownPod), 6);
}
