//! Each rule one case.

use super::super::checksum;
use super::super::headers::Headers;
use super::{Fit, Run, SUPER_BYTES, TCP_SEGMENTS, UDP_SEGMENTS};
use crate::net::{Offload, PartialChecksum, SegmentKind, Segmentation};

/// A packet, every field of it that a rule speaks of.
#[derive(Clone, Copy)]
struct Packet {
    v6: bool,
    udp: bool,
    tos: u8,
    id: u16,
    fragment: u16,
    ttl: u8,
    source: u8,
    ip_options: usize,
    port: u16,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: &'static [u8],
    payload: usize,
}

const DF: u16 = 0x4000;
const TCP: Packet = Packet {
    v6: false,
    udp: false,
    tos: 0,
    id: 7,
    fragment: DF,
    ttl: 63,
    source: 2,
    ip_options: 0,
    port: 4000,
    seq: u32::MAX - 150,
    ack: 9,
    flags: 0x10,
    window: 512,
    options: &[],
    payload: 100,
};
const UDP: Packet = Packet { udp: true, ..TCP };

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let mut segment = Vec::from(self.port.to_be_bytes());
        segment.extend(80u16.to_be_bytes());
        if self.udp {
            segment.extend(u16::try_from(8 + self.payload).unwrap().to_be_bytes());
            segment.extend([0; 2]);
        } else {
            segment.extend(self.seq.to_be_bytes());
            segment.extend(self.ack.to_be_bytes());
            segment.extend([u8::try_from(5 + self.options.len() / 4).unwrap() << 4, self.flags]);
            segment.extend(self.window.to_be_bytes());
            segment.extend([0; 4]);
            segment.extend(self.options);
        }
        segment.extend((0..self.payload).map(|at| u8::try_from((at * 31 + usize::from(self.id)) % 256).unwrap()));
        let mut bytes = Vec::new();
        if self.v6 {
            bytes.extend([0x60 | self.tos >> 4, self.tos << 4, 0, 9]);
            bytes.extend(u16::try_from(segment.len()).unwrap().to_be_bytes());
            bytes.extend([if self.udp { 17 } else { 6 }, self.ttl]);
            bytes.extend([[self.source; 16], [3; 16]].concat());
        } else {
            let header = 20 + self.ip_options;
            bytes.extend([0x40 | u8::try_from(header / 4).unwrap(), self.tos]);
            bytes.extend(u16::try_from(header + segment.len()).unwrap().to_be_bytes());
            bytes.extend([self.id.to_be_bytes(), self.fragment.to_be_bytes()].concat());
            bytes.extend([self.ttl, if self.udp { 17 } else { 6 }, 0, 0, 10, 5, 16, self.source, 10, 5, 20, 3]);
            bytes.extend(vec![1; self.ip_options]);
        }
        bytes.extend(segment);
        mended(bytes)
    }

    /// The packet that would come after this one.
    fn next(&self) -> Self {
        let seq = self.seq.wrapping_add(u32::try_from(self.payload).unwrap());
        Self { id: self.id.wrapping_add(1), seq, ..*self }
    }
}

/// With right checksums, whatever the fragment field says.
fn mended(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut whole = bytes.clone();
    if whole[0] >> 4 == 4 {
        (whole[6], whole[7]) = (0, 0);
        bytes[10..12].fill(0);
        let end = usize::from(bytes[0] & 15) * 4;
        let header = checksum::checksum(&bytes[..end]);
        bytes[10..12].copy_from_slice(&header.to_be_bytes());
    }
    let headers = Headers::find(&whole).unwrap();
    let field = headers.checksum_field();
    let at = usize::from(field.start + field.offset);
    bytes[at..at + 2].fill(0);
    let segment = &bytes[headers.transport_at..];
    let sum = !checksum::add(headers.pseudo_sum(&bytes, segment.len()), checksum::sum(segment));
    let sum = if sum == 0 && field.offset == 6 { 0xffff } else { sum };
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn begin(bytes: &[u8]) -> Option<Run> {
    Run::begin(bytes, &Headers::find(bytes)?)
}

/// `packet` with some bytes set and nothing mended.
fn with(packet: &Packet, edits: &[(usize, u8)]) -> Vec<u8> {
    let mut bytes = packet.bytes();
    for (at, value) in edits {
        bytes[*at] = *value;
    }
    bytes
}

#[test]
fn what_can_begin_a_run() {
    let tcp = |flags| Packet { flags, ..TCP }.bytes();
    let table = [
        ("TCP", true, TCP.bytes()),
        ("UDP", true, UDP.bytes()),
        ("TCP over IPv6", true, Packet { v6: true, ..TCP }.bytes()),
        ("UDP over IPv6", true, Packet { v6: true, ..UDP }.bytes()),
        ("with options", true, Packet { options: &[1; 40], ..TCP }.bytes()),
        ("ECE", true, tcp(0x50)),
        ("may be fragmented", true, Packet { fragment: 0, ..TCP }.bytes()),
        ("CWR", false, tcp(0x90)),
        ("URG", false, tcp(0x30)),
        ("SYN", false, tcp(0x12)),
        ("RST", false, tcp(0x14)),
        ("no ACK", false, tcp(0)),
        ("PSH: nothing may follow", false, tcp(0x18)),
        ("FIN: nothing may follow", false, tcp(0x11)),
        ("pure ACK", false, Packet { payload: 0, ..TCP }.bytes()),
        ("empty datagram", false, Packet { payload: 0, ..UDP }.bytes()),
        ("first fragment", false, Packet { fragment: 0x2000, ..UDP }.bytes()),
        ("later fragment", false, Packet { fragment: 9, ..UDP }.bytes()),
        ("reserved flag", false, Packet { fragment: 0x8000, ..UDP }.bytes()),
        ("IP options", false, Packet { ip_options: 4, ..TCP }.bytes()),
        ("bytes behind the end", false, [TCP.bytes(), vec![0]].concat()),
        ("cut off", false, TCP.bytes()[..139].to_vec()),
        ("wrong header checksum", false, with(&TCP, &[(11, TCP.bytes()[11] ^ 1)])),
        ("wrong checksum", false, with(&TCP, &[(139, TCP.bytes()[139] ^ 1)])),
        ("wrong checksum of UDP", false, with(&UDP, &[(26, UDP.bytes()[26] ^ 1)])),
        ("no checksum", false, with(&UDP, &[(26, 0), (27, 0)])),
        ("UDP shorter than IP says", false, mended(with(&UDP, &[(25, 107)]))),
        ("ICMP", false, with(&UDP, &[(9, 1)])),
        ("IPv6 extension", false, with(&Packet { v6: true, ..UDP }, &[(6, 60)])),
        ("nothing", false, Vec::new()),
    ];
    for (name, expected, bytes) in table {
        assert_eq!(begin(&bytes).is_some(), expected, "{name}");
    }
}

#[test]
fn what_can_be_second() {
    use Fit::{Appended, Last, No};
    const NOW: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1];
    const LATER: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 2, 0, 0, 0, 1];
    let first = Packet { options: &NOW, ..TCP };
    let next = first.next();
    let v6 = Packet { v6: true, ..TCP };
    let cases = [
        ("next", Appended, &first, next),
        ("shorter", Last, &first, Packet { payload: 99, ..next }),
        ("longer", No, &first, Packet { payload: 101, ..next }),
        ("empty", No, &first, Packet { payload: 0, ..next }),
        ("PSH", Last, &first, Packet { flags: 0x18, ..next }),
        ("FIN", Last, &first, Packet { flags: 0x11, ..next }),
        ("CWR", No, &first, Packet { flags: 0x90, ..next }),
        ("ECE comes", No, &first, Packet { flags: 0x50, ..next }),
        ("RST", No, &first, Packet { flags: 0x14, ..next }),
        ("another sequence", No, &first, Packet { seq: next.seq + 1, ..next }),
        ("the same again", No, &first, first),
        ("another acknowledgement", No, &first, Packet { ack: 10, ..next }),
        ("another window", No, &first, Packet { window: 511, ..next }),
        ("another time", No, &first, Packet { options: &LATER, ..next }),
        ("fewer options", No, &first, Packet { options: &NOW[..8], ..next }),
        ("another port", No, &first, Packet { port: 4001, ..next }),
        ("another source", No, &first, Packet { source: 9, ..next }),
        ("another TTL", No, &first, Packet { ttl: 62, ..next }),
        ("congestion marked", No, &first, Packet { tos: 3, ..next }),
        ("another service", No, &first, Packet { tos: 4, ..next }),
        ("may be fragmented", No, &first, Packet { fragment: 0, ..next }),
        ("a fragment", No, &first, Packet { fragment: DF | 0x2000, ..next }),
        ("IP options", No, &first, Packet { ip_options: 4, ..next }),
        ("the same id, never fragmented", Appended, &first, Packet { id: 7, ..next }),
        ("id jumps", No, &first, Packet { id: 9, ..next }),
        ("id goes back", No, &first, Packet { id: 6, ..next }),
        ("UDP after TCP", No, &first, Packet { udp: true, ..next }),
        ("UDP", Appended, &UDP, UDP.next()),
        ("UDP, shorter", Last, &UDP, Packet { payload: 1, ..UDP.next() }),
        ("UDP, longer", No, &UDP, Packet { payload: 101, ..UDP.next() }),
        ("UDP, empty", No, &UDP, Packet { payload: 0, ..UDP.next() }),
        ("UDP, another port", No, &UDP, Packet { port: 1, ..UDP.next() }),
        ("IPv6", Appended, &v6, v6.next()),
        ("IPv6, congestion marked", No, &v6, Packet { tos: 3, ..v6.next() }),
        ("IPv6, another hop limit", No, &v6, Packet { ttl: 62, ..v6.next() }),
        ("IPv6 after IPv4", No, &TCP, v6.next()),
        ("IPv6, UDP", Appended, &Packet { udp: true, ..v6 }, Packet { udp: true, ..v6.next() }),
    ];
    for (name, expected, first, second) in cases {
        let mut run = begin(&first.bytes()).unwrap();
        assert_eq!(run.append(&second.bytes()), expected, "{name}");
        let merged = usize::from(expected != No);
        assert_eq!((run.count(), run.finish().is_some()), (1 + merged, merged == 1), "{name}");
        if expected == Last {
            assert_eq!(run.append(&second.next().bytes()), No, "{name}, and another");
        } else {
            // What did not belong there has changed nothing.
            let mut after = if merged == 1 { second.next() } else { first.next() };
            if merged == 1 && second.id == first.id {
                after.id = first.id;
            }
            assert_eq!(run.append(&after.bytes()), Appended, "{name}, and the right one");
        }
    }
}

#[test]
fn identifications_go_on_as_they_began() {
    let fits = |fragment, ids: &[u16]| {
        let mut packet = Packet { fragment, id: ids[0], ..UDP };
        let mut run = begin(&packet.bytes()).unwrap();
        let fit = |id: &u16| {
            packet.id = *id;
            run.append(&packet.bytes()) == Fit::Appended
        };
        ids[1..].iter().map(fit).collect::<Vec<_>>()
    };
    assert_eq!(fits(DF, &[0xffff, 0, 1]), [true, true]);
    assert_eq!(fits(DF, &[5, 6, 6]), [true, false]);
    assert_eq!(fits(DF, &[5, 5, 5, 6]), [true, true, false]);
    assert_eq!(fits(0, &[5, 5, 6, 7]), [false, true, true]);
}

#[test]
fn a_wrong_checksum_is_never_merged() {
    for (packet, fields) in [(TCP, [11, 37, 139]), (UDP, [11, 27, 127]), (Packet { v6: true, ..TCP }, [8, 57, 159])] {
        let next = packet.next();
        for at in fields {
            let mut run = begin(&packet.bytes()).unwrap();
            let bad = with(&next, &[(at, next.bytes()[at] ^ 0x10)]);
            assert_eq!((run.append(&bad), run.count()), (Fit::No, 1), "byte {at}");
            assert_eq!(run.append(&next.bytes()), Fit::Appended);
        }
    }
    let no_checksum = with(&UDP.next(), &[(26, 0), (27, 0)]);
    assert_eq!(begin(&UDP.bytes()).unwrap().append(&no_checksum), Fit::No);
}

#[test]
fn zero_in_its_other_spelling_is_never_merged() {
    // A payload whose last word makes the checksum come out as zero.
    let zeroed = |packet: &Packet, field: usize| {
        let mut bytes = packet.bytes();
        let sum = u16::from_be_bytes([bytes[field], bytes[field + 1]]);
        let end = bytes.len() - 2;
        let last = checksum::add(u16::from_be_bytes([bytes[end], bytes[end + 1]]), sum);
        bytes[end..].copy_from_slice(&last.to_be_bytes());
        bytes[field..field + 2].fill(0);
        bytes
    };
    let mut bytes = zeroed(&TCP.next(), 36);
    assert_eq!(begin(&TCP.bytes()).unwrap().append(&bytes), Fit::Appended);
    bytes[36..38].fill(0xff);
    assert_eq!((begin(&TCP.bytes()).unwrap().append(&bytes), begin(&bytes).is_some()), (Fit::No, false));

    let mut bytes = zeroed(&UDP.next(), 26);
    assert_eq!(begin(&UDP.bytes()).unwrap().append(&bytes), Fit::No);
    bytes[26..28].fill(0xff);
    assert_eq!(begin(&UDP.bytes()).unwrap().append(&bytes), Fit::Appended);
}

#[test]
fn runs_end_at_what_lengths_and_the_kernel_can_hold() {
    let count = |first: &Packet| {
        let mut packet = *first;
        let mut run = begin(&packet.bytes()).unwrap();
        let mut fit = Fit::Appended;
        while fit == Fit::Appended {
            packet = packet.next();
            fit = run.append(&packet.bytes());
        }
        let header = run.finish().unwrap().0.to_vec();
        (run.count(), fit, usize::from(u16::from_be_bytes([header[2], header[3]])))
    };
    assert_eq!(count(&Packet { payload: 1448, options: &[1; 12], ..TCP }), (45, Fit::No, 45 * 1448 + 52));
    assert_eq!(count(&Packet { payload: 13_099, ..TCP }), (5, Fit::No, SUPER_BYTES));
    assert_eq!(count(&Packet { payload: 13_100, ..TCP }).0, 4);
    assert_eq!(count(&Packet { payload: 1, ..TCP }), (TCP_SEGMENTS, Fit::Last, TCP_SEGMENTS + 40));
    assert_eq!(count(&Packet { payload: 10, ..UDP }), (UDP_SEGMENTS, Fit::Last, 28 + 10 * UDP_SEGMENTS));
    assert_eq!(count(&Packet { payload: 1400, ..UDP }).0, 46);
}

#[test]
fn the_header_says_how_much_there_is_and_what_is_left_to_do() {
    for v6 in [false, true] {
        let ip = if v6 { 40 } else { 20 };
        let first = Packet { v6, options: &[1; 4], flags: 0x50, ..TCP };
        let mut run = begin(&first.bytes()).unwrap();
        assert_eq!(run.header_bytes(), ip + 24);
        run.append(&first.next().bytes());
        run.append(&Packet { flags: 0x59, payload: 7, ..first.next().next() }.bytes());
        let (header, offload) = run.finish().unwrap();
        // The same fields over all of the payload, PSH and FIN with them.
        let mut expected = Packet { payload: 207, flags: 0x59, ..first }.bytes();
        let headers = Headers::find(&expected).unwrap();
        let partial = headers.pseudo_sum(&expected, 24 + 207);
        expected[ip + 16..ip + 18].copy_from_slice(&partial.to_be_bytes());
        assert_eq!(header, &expected[..ip + 24]);
        let (start, kind) = if v6 { (40, SegmentKind::Tcp6) } else { (20, SegmentKind::Tcp4) };
        let header_bytes = start + 24;
        let segmentation = Segmentation { kind, segment_bytes: 100.try_into().unwrap(), header_bytes, ecn: false };
        let checksum = Some(PartialChecksum { start, offset: 16 });
        assert_eq!(offload, Offload { checksum, segmentation: Some(segmentation) });

        let first = Packet { v6, ..UDP };
        let mut run = begin(&first.bytes()).unwrap();
        run.append(&first.next().bytes());
        let (header, offload) = run.finish().unwrap();
        let mut expected = Packet { payload: 200, ..first }.bytes();
        let partial = Headers::find(&expected).unwrap().pseudo_sum(&expected, 208);
        expected[ip + 6..ip + 8].copy_from_slice(&partial.to_be_bytes());
        assert_eq!(header, &expected[..ip + 8]);
        assert_eq!(offload.segmentation.unwrap().kind, SegmentKind::Udp);
        assert_eq!(offload.checksum, Some(PartialChecksum { start, offset: 6 }));
    }
}
