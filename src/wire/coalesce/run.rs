//! A super-packet in the making.

use super::super::checksum;
use super::super::headers::{Family, Headers, Transport};
use super::parts::{self, ACK, ECE, FIN, PSH, long, put, word};
use super::verify;
use crate::net::{Offload, Segmentation};

/// Bytes a super-packet may have: the most an IPv4 header can say, and kept for IPv6 too.
pub const SUPER_BYTES: usize = 65_535;

/// Datagrams of a UDP super-packet. Linux takes 128 since 6.9 (tried on 6.18: 129 give EINVAL); before that, 64 is all it cuts.
/// A receive buffer of a UDP socket with GRO holds 64 too, so nothing is lost by it.
pub const UDP_SEGMENTS: usize = 64;

/// Segments of a TCP super-packet: half of what one `writev` takes, far more than 64 KiB have at any sensible size.
pub const TCP_SEGMENTS: usize = 512;

/// An IPv6 header and a TCP header with all options.
const HEADER_BYTES: usize = 100;

/// A super-packet in the making: the first packet's header, what must come next, and how much there is.
///
/// Nothing of the payloads is kept here.
#[derive(Clone, Debug)]
pub struct Run {
    /// The first packet's, `headers.payload_at` bytes of it.
    header: [u8; HEADER_BYTES],
    headers: Headers,
    /// Sum of addresses and protocol.
    pseudo: u16,
    /// Whether another packet may follow.
    open: bool,
    /// Packets so far.
    count: usize,
    payload_bytes: usize,
    segment_bytes: usize,
    /// TCP: the next sequence number.
    sequence: u32,
    /// IPv4: the last identification, and by how much the next one must differ.
    identification: u16,
    step: Step,
    /// IPv4: see [`verify::varying_sum`].
    varying: u16,
    /// TCP: PSH and FIN of the last.
    ending: u8,
}

/// Whether a packet belongs to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It is part of the run now.
    Appended,
    /// It is part of the run now, and nothing may follow it.
    Last,
    /// It does not belong there, and nothing has changed. If it is of the same flow, the run must end before it goes.
    No,
}

/// How identifications go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Not known before there are two; `dont_fragment` packets may all have the same.
    Unknown { dont_fragment: bool },
    /// By one.
    One,
    /// Not at all.
    None,
}

impl Run {
    /// Begins a run with `packet`, whose headers are these. `None` if nothing could ever be appended to it.
    ///
    /// A first packet with a wrong transport checksum begins none. It is not judged by that: it goes as it is.
    #[inline]
    #[must_use]
    pub fn begin(packet: &[u8], headers: &Headers) -> Option<Self> {
        let Headers { family, transport, transport_at, payload_at, packet_len } = *headers;
        let segment_bytes = packet_len.checked_sub(payload_at)?;
        if segment_bytes == 0
            || packet_len != packet.len()
            || packet_len > SUPER_BYTES
            || transport_at != verify::plain_ip_header(family)
        {
            return None;
        }
        let (identification, step, varying) = match family {
            Family::V4 => begin_ipv4(packet.first_chunk()?)?,
            Family::V6 => (0, Step::One, 0),
        };
        let segment = packet.get(transport_at..)?;
        let sequence = match transport {
            Transport::Tcp => begin_tcp(segment.first_chunk()?, segment_bytes)?,
            Transport::Udp => begin_udp(*segment.first_chunk()?, segment.len())?,
        };
        let pseudo = verify::shared_pseudo_sum(packet, headers);
        if !verify::is_right(segment, transport, pseudo) {
            return None;
        }
        let mut header = [0; HEADER_BYTES];
        header.get_mut(..payload_at)?.copy_from_slice(packet.get(..payload_at)?);
        Some(Self {
            header,
            headers: *headers,
            pseudo,
            open: true,
            count: 1,
            payload_bytes: segment_bytes,
            segment_bytes,
            sequence,
            identification,
            step,
            varying,
            ending: 0,
        })
    }

    /// Bytes of the header that every packet of the run begins with.
    #[inline]
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        self.headers.payload_at
    }

    /// How many packets it consists of.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Makes `packet` part of the run if it belongs there. Any bytes may be asked about.
    #[inline]
    pub fn append(&mut self, packet: &[u8]) -> Fit {
        self.follow(packet).unwrap_or(Fit::No)
    }

    /// The header of the super-packet and what is left to do on it; `None` for a run of one packet, which goes as it is.
    #[inline]
    pub fn finish(&mut self) -> Option<(&[u8], Offload)> {
        if self.count < 2 {
            return None;
        }
        let Headers { family, transport, transport_at, payload_at, .. } = self.headers;
        let field = self.headers.checksum_field();
        let ip_payload = length(payload_at - transport_at + self.payload_bytes)?;
        let header = self.header.get_mut(..payload_at)?;
        match family {
            Family::V4 => {
                put(header, 2, length(payload_at + self.payload_bytes)?);
                put(header, 10, 0);
                let sum = checksum::checksum(header.get(..transport_at)?);
                put(header, 10, sum);
            }
            Family::V6 => put(header, 4, ip_payload),
        }
        match transport {
            Transport::Tcp => *header.get_mut(transport_at + 13)? |= self.ending,
            Transport::Udp => put(header, transport_at + 4, ip_payload),
        }
        put(header, usize::from(field.start + field.offset), checksum::add(self.pseudo, ip_payload));
        let segmentation = Segmentation {
            kind: self.headers.segment_kind(),
            segment_bytes: length(self.segment_bytes)?.try_into().ok()?,
            header_bytes: length(payload_at)?,
            // A packet with CWR is never merged.
            ecn: false,
        };
        Some((header, Offload { checksum: Some(field), segmentation: Some(segmentation) }))
    }

    #[inline]
    fn follow(&mut self, packet: &[u8]) -> Option<Fit> {
        match (self.headers.family, self.headers.transport) {
            (Family::V4, Transport::Tcp) => self.follow_as::<40, true, true>(packet, &parts::TCP4),
            (Family::V4, Transport::Udp) => self.follow_as::<28, true, false>(packet, &parts::UDP4),
            (Family::V6, Transport::Tcp) => self.follow_as::<60, false, true>(packet, &parts::TCP6),
            (Family::V6, Transport::Udp) => self.follow_as::<48, false, false>(packet, &parts::UDP6),
        }
    }

    /// One for each kind of header: where their fields lie is known when this is compiled, and no bound is checked twice.
    /// `FIXED` is the bytes of IP and transport header without options, `fixed` the bits in which they must agree.
    #[inline]
    fn follow_as<const FIXED: usize, const V4: bool, const TCP: bool>(
        &mut self,
        packet: &[u8],
        fixed: &[u8; FIXED],
    ) -> Option<Fit> {
        let start = if V4 { 20 } else { 40 };
        let (ours, theirs) = (self.header.first_chunk::<FIXED>()?, packet.first_chunk::<FIXED>()?);
        let payload_bytes = packet.len().checked_sub(self.headers.payload_at)?;
        let all_bytes = self.payload_bytes + payload_bytes;
        let fits = self.open
            && payload_bytes != 0
            && payload_bytes <= self.segment_bytes
            && self.headers.payload_at + all_bytes <= SUPER_BYTES
            && parts::alike(ours, theirs, fixed);
        // What the IP header says of the length.
        let said = if V4 { usize::from(word(theirs, 2)) } else { usize::from(word(theirs, 4)) + 40 };
        if !fits || said != packet.len() {
            return None;
        }
        let (identification, step) = if V4 { self.follow_ipv4(theirs)? } else { (0, self.step) };
        let (ending, most) = if TCP {
            let options = FIXED..self.headers.payload_at;
            if long(theirs, start + 4) != self.sequence
                || !parts::same_options(self.header.get(options.clone())?, packet.get(options)?)
            {
                return None;
            }
            (word(theirs, start + 12).to_be_bytes()[1] & (PSH | FIN), TCP_SEGMENTS)
        } else {
            if usize::from(word(theirs, start + 4)) + start != packet.len() {
                return None;
            }
            (0, UDP_SEGMENTS)
        };
        let transport = if TCP { Transport::Tcp } else { Transport::Udp };
        if !verify::is_right(packet.get(start..)?, transport, self.pseudo) {
            return None;
        }

        self.count += 1;
        self.payload_bytes = all_bytes;
        // TCP sequence numbers go round.
        self.sequence = self.sequence.wrapping_add(u32::from(length(payload_bytes)?));
        (self.identification, self.step, self.ending) = (identification, step, ending);
        self.open = ending == 0 && payload_bytes == self.segment_bytes && self.count < most;
        Some(if self.open { Fit::Appended } else { Fit::Last })
    }

    /// The identification of an IPv4 header, and how they go on, if that may follow and the checksum is right.
    #[inline]
    fn follow_ipv4<const FIXED: usize>(&self, theirs: &[u8; FIXED]) -> Option<(u16, Step)> {
        if verify::varying_sum(theirs) != self.varying || word(theirs, 10) == 0xffff {
            return None;
        }
        let identification = word(theirs, 4);
        match (self.step, identification.wrapping_sub(self.identification)) {
            (Step::Unknown { .. } | Step::One, 1) => Some((identification, Step::One)),
            (Step::Unknown { dont_fragment: true } | Step::None, 0) => Some((identification, Step::None)),
            _ => None,
        }
    }
}

/// Identification, how they go on, and the sum of what varies.
#[inline]
fn begin_ipv4(header: &[u8; 20]) -> Option<(u16, Step, u16)> {
    let flags = header[6] & 0xe0;
    let plain = (flags == 0 || flags == 0x40) && verify::is_ipv4_header_right(header);
    plain.then(|| (word(header, 4), Step::Unknown { dont_fragment: flags != 0 }, verify::varying_sum(header)))
}

/// The sequence number that comes next.
#[inline]
fn begin_tcp(header: &[u8; 20], payload_bytes: usize) -> Option<u32> {
    let plain = header[13] & !ECE == ACK;
    plain.then_some(long(header, 4).wrapping_add(u32::from(length(payload_bytes)?)))
}

#[inline]
fn begin_udp(header: [u8; 8], segment_bytes: usize) -> Option<u32> {
    (usize::from(word(&header, 4)) == segment_bytes).then_some(0)
}

/// A length in a packet, which has 16 bits.
#[inline]
fn length(bytes: usize) -> Option<u16> {
    u16::try_from(bytes).ok()
}
