//! What is fuzzed: every parser that reads bytes somebody else wrote. Each target takes any bytes and checks more than
//! "does not panic": what was read must survive being written and read again.

#[path = "../coalesce_support/check.rs"]
mod check;
#[path = "../policy_proof/mod.rs"]
mod policy_proof;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;

use felt::buf::Datagram;
use felt::flow::{Admission, FlowTable, OnChange, Passed, Seed, Tracker};
use felt::forward::{SourceCheck, Tunnel, egress, ingress};
use felt::lease::{LeaseAttrs, NetworkConfig, SubnetKey};
use felt::net::{Endpoint, Moment, Offload, PartialChecksum, SegmentKind, Segmentation};
use felt::policy::manifest::{Read, read_text};
use felt::policy::model::Object;
use felt::policy::{Change, Cluster, Scope};
use felt::wire::checksum;
use felt::wire::headers::Headers;
use felt::wire::inspect::{Inspected, inspect as inspected};
use felt::wire::ipv4::Ipv4;
use felt::wire::segment::{Segments, complete};
use policy_proof::engine::{self, Engine};
use policy_proof::random::PROBES;

/// A network config: read, served, read again.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match NetworkConfig::parse(text) {
        Ok(config) => assert_eq!(NetworkConfig::parse(&config.to_json()), Ok(config), "{text}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The name of a subnet: there is one spelling for each.
pub fn subnet_key(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(key) = text.parse::<SubnetKey>() {
        assert_eq!(key.to_string(), text);
    }
}

/// The value of a lease: what is kept of it is stable.
pub fn lease_value(data: &[u8]) {
    if let Ok(attrs) = LeaseAttrs::parse(data) {
        assert_eq!(LeaseAttrs::parse(attrs.to_json().as_bytes()).unwrap(), attrs);
    }
}

/// A datagram from the underlay: the first byte says how it came, the rest is what came.
pub fn datagram(data: &[u8]) {
    let Some((&how, payload)) = data.split_first() else { return };
    let peer = Endpoint::from(([192, 0, 2, how & 3], if how & 4 == 0 { 8285 } else { 9999 }));
    let ecn = felt::net::Ecn::from_tos(how >> 6);
    let note = Datagram { peer, ecn, truncated: how & 8 != 0, ..Datagram::default() };
    for source_check in [SourceCheck::Strict, SourceCheck::Address, SourceCheck::Off] {
        if ingress::judge(&tunnel(source_check), &mut peers, &note, payload).is_ok() {
            let packet = Ipv4::parse(payload).unwrap();
            assert!(tunnel(source_check).own.contains(packet.destination()) && packet.total_len() <= payload.len());
            assert!(source_check == SourceCheck::Off || peers(packet.source()).unwrap().ip() == peer.ip());
        }
    }
}

/// A packet from the TUN device.
pub fn tun_packet(data: &[u8]) {
    if let Ok(passage) = egress::judge(&tunnel(SourceCheck::Strict), &mut peers, data, &Offload::default()) {
        let packet = Ipv4::parse(data).unwrap();
        assert_eq!((Some(passage.peer), passage.len), (peers(packet.destination()), packet.total_len()));
        assert!(packet.ttl() > 1 && passage.len <= data.len());
    }
}

/// A packet from the TUN device with something left to do: the first seven bytes say what, the rest is the packet. Whatever
/// can be cut becomes packets whose checksums are right and whose payloads are the packet's.
pub fn segments(data: &[u8]) {
    let Some((&[what, head @ ..], packet)) = data.split_first_chunk::<7>() else { return };
    let [start, offset, segment_bytes] = [0, 2, 4].map(|at| u16::from_be_bytes([head[at], head[at + 1]]));
    let kind = [SegmentKind::Tcp4, SegmentKind::Tcp6, SegmentKind::Udp, SegmentKind::Udp][usize::from(what >> 2 & 3)];
    let segmentation = NonZeroU16::new(segment_bytes).filter(|_| what & 2 != 0);
    let segmentation = segmentation.map(|segment_bytes| Segmentation { kind, segment_bytes, header_bytes: offset, ecn: false });
    let offload = Offload { checksum: (what & 1 != 0).then_some(PartialChecksum { start, offset }), segmentation };
    let Ok(segments) = Segments::new(packet, &offload) else { return };

    let mut written = Vec::new();
    for at in 0..segments.count() {
        let mut room = vec![0; segments.len_of(at)];
        assert_eq!(segments.write(at, &mut room), Some(room.len()));
        written.push(room);
    }
    match (segmentation, offload.checksum) {
        (None, None) => assert_eq!(written, [packet]),
        (None, Some(field)) => {
            let mut whole = packet.to_vec();
            complete(&mut whole, field).unwrap();
            assert_eq!(written, [whole]);
        }
        (Some(_), _) => {
            let whole = Headers::find(packet).unwrap();
            let payload = &packet[whole.payload_at..whole.packet_len];
            let payloads: Vec<&[u8]> = written.iter().map(|segment| checked_payload(segment)).collect();
            assert_eq!(payloads, payload.chunks(usize::from(segment_bytes)).collect::<Vec<_>>());
        }
    }
}

/// The payload of a TCP or UDP packet, once its length and its transport checksum are found to be right.
fn checked_payload(packet: &[u8]) -> &[u8] {
    let headers = Headers::find(packet).unwrap();
    assert_eq!(headers.packet_len, packet.len());
    let pseudo = headers.pseudo_sum(packet, packet.len() - headers.transport_at);
    assert_eq!(checksum::add(pseudo, checksum::sum(&packet[headers.transport_at..])), 0xffff);
    &packet[headers.payload_at..]
}

/// A batch of inner packets, each behind its length in two bytes: what is merged can be cut again. The first byte says whether
/// checksums are made right first, without which hardly anything would be merged.
pub fn coalesce(data: &[u8]) {
    let Some((&how, mut rest)) = data.split_first() else { return };
    let mut packets = Vec::new();
    while let Some((len, bytes)) = rest.split_first_chunk() {
        let (packet, others) = bytes.split_at(bytes.len().min(u16::from_be_bytes(*len).into()));
        let mut packet = packet.to_vec();
        if let Some(headers) = Headers::find(&packet).filter(|_| how & 1 == 1) {
            let field = headers.checksum_field();
            packet.truncate(headers.packet_len);
            check::mend(&mut packet, field.start.into(), usize::from(field.start + field.offset));
        }
        packets.push(packet);
        rest = others;
    }
    check::merge_checked(&packets);
}

/// A packet for policy: what is found is in it, agrees with what the data plane finds, and goes nowhere if policy refuses.
pub fn inspect(data: &[u8]) {
    let found = inspected(data);
    match found {
        Inspected::Flow { key, first_fragment, .. }
        | Inspected::Answer { key, first_fragment }
        | Inspected::Message { key, first_fragment } => {
            let of = |id: felt::wire::inspect::FragmentId| (id.source, id.destination) == (key.source, key.destination);
            assert!(first_fragment.is_none_or(|first| of(first.id) && usize::from(first.bytes) < data.len()));
        }
        Inspected::LaterFragment { offset, .. } => assert!(offset >= 8 && offset % 8 == 0),
        Inspected::IcmpError { key, quoted } => assert_eq!(key.destination, quoted.source),
        Inspected::Neighbour | Inspected::Unfit(_) => {}
    }
    if let Some(headers) = Headers::find(data)
        && let Inspected::Flow { key, .. } = found
    {
        let ports = [0, 2].map(|at| u16::from_be_bytes([data[headers.transport_at + at], data[headers.transport_at + at + 1]]));
        assert_eq!([key.source_port, key.destination_port], ports);
    }
    let table = Arc::new(FlowTable::new(1, Seed::new([1, 2])).unwrap());
    let mut tracker = Tracker::new(table, OnChange::Strict);
    let admission = tracker.admit(Moment::ZERO, &found, 1, |_| Err(()));
    assert_eq!(matches!(admission, Admission::Passed(_)), found == Inspected::Neighbour);
    let admission = tracker.admit(Moment::ZERO, &found, 1, |_| Ok::<_, ()>(()));
    assert!(!matches!(admission, Admission::Refused { .. }));
    if matches!(found, Inspected::Flow { tcp: None, .. }) {
        let again = tracker.admit(Moment::ZERO, &found, 1, |_| Err(()));
        assert_eq!(again, Admission::Passed(Passed::Known));
    }
}

/// Manifests: whatever they say, each object is an object with few remarks, skipped, or an error, and the engine can take it.
pub fn manifest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut cluster = Cluster::new(Scope::default());
    for item in read_text(text) {
        match item {
            Ok(Read::Object { object, remarks }) => {
                assert!(remarks.len() <= 32 && remarks.iter().all(|remark| remark.object == object.id()), "{text}");
                assert!(remarks.iter().all(|remark| remark.to_string().len() < 1_000 + text.len()));
                cluster.apply(Change::Put(object));
            }
            Ok(Read::Skipped { kind, .. }) => assert!(!kind.is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let policies = cluster.compile();
    for to in ["10.0.0.1", "fd00::1", "192.0.2.1"] {
        engine::letter(&policies, "10.0.0.2".parse().unwrap(), to.parse().unwrap(), "TCP", 80);
    }
}

/// The policy engine: a cluster as manifests is judged alike whatever the order it came in, and as the rules read out say; and
/// nothing is left of it once all is gone.
pub fn policy_engine(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let objects = read_text(text).into_iter().filter_map(|item| match item {
        Ok(Read::Object { object, .. }) => Some((object.id(), object)),
        _ => None,
    });
    let objects: BTreeMap<_, _> = objects.collect();
    let claimed: Vec<IpAddr> = objects.values().flat_map(addresses_of).collect();
    // Of two pods that claim one address the later one has it, so there the order matters.
    let alone = |address: &&IpAddr| claimed.iter().filter(|other| other == address).count() == 1;
    let mut addresses: Vec<IpAddr> = claimed.iter().filter(alone).take(8).copied().collect();
    addresses.extend(["192.0.2.1", "2001:db8::1"].map(|text| text.parse::<IpAddr>().unwrap()));

    let (mut engine, mut backwards) = (Engine::new(), Engine::new());
    for object in objects.values() {
        engine.apply(Change::Put(object.clone()));
    }
    for object in objects.values().rev() {
        backwards.apply(Change::Put(object.clone()));
        backwards.compile();
    }
    let (one, other) = (engine.compile(), backwards.compile());
    let flows = addresses.iter().flat_map(|from| addresses.iter().map(move |to| (*from, *to))).zip(PROBES.iter().cycle());
    for ((from, to), &(protocol, port)) in flows.clone() {
        let (verdict, explained) = engine::reasons(&mut engine, from, to, protocol, port);
        assert_eq!(verdict, explained, "{from} to {to} {protocol}/{port} in {text}");
        let letters = [&one, &other].map(|policies| engine::letter(policies, from, to, protocol, port));
        assert_eq!(letters[0], letters[1], "{from} to {to} {protocol}/{port} in {text}");
    }
    for id in objects.keys() {
        backwards.apply(Change::Delete(id.clone()));
    }
    let empty = backwards.compile();
    assert!(flows.clone().all(|((from, to), &(protocol, port))| engine::letter(&empty, from, to, protocol, port) == '.'));
}

fn addresses_of(object: &Object) -> Vec<IpAddr> {
    match object {
        Object::Pod(pod) => pod.addresses.clone(),
        Object::Node(node) => node.addresses.clone(),
        Object::Namespace(_) | Object::Policy(_) => Vec::new(),
    }
}

fn tunnel(source_check: SourceCheck) -> Tunnel {
    Tunnel {
        own: "10.5.16.0/24".parse().unwrap(),
        network: "10.5.0.0/16".parse().unwrap(),
        mtu: 1472,
        endpoint: Endpoint::from(([192, 0, 2, 16], 8285)),
        source_check,
    }
}

/// Nodes 192.0.2.0 to .3 lease 10.5.0.0/24 to 10.5.3.0/24, and 192.0.2.3 also 10.5.20.0/24.
fn peers(address: Ipv4Addr) -> Option<Endpoint> {
    match address.octets() {
        [10, 5, node @ 0..=3, _] => Some(Endpoint::from(([192, 0, 2, node], 8285))),
        [10, 5, 20, _] => Some(Endpoint::from(([192, 0, 2, 3], 8285))),
        _ => None,
    }
}
