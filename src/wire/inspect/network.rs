//! The network layer: addresses, what is above, and whether it is whole.

use super::inspected::{FragmentId, Unfit};
use crate::net::{Protocol, v4_bits};

/// Extension headers that are walked: the five kinds there are, one of them twice (RFC 8200 section 4.1), and two to spare.
const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// A packet below its transport header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network<'a> {
    pub(super) v6: bool,
    pub(super) source: u128,
    pub(super) destination: u128,
    /// What the payload is, or would be if this were the first fragment.
    pub(super) protocol: Protocol,
    /// What lies behind the last header read.
    pub(super) payload: &'a [u8],
    pub(super) fragment: Option<Fragment>,
}

/// One fragment of several. A datagram in one fragment (RFC 6946) is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    pub(super) id: FragmentId,
    /// Where it lies in the datagram's payload, in bytes.
    pub(super) offset: u16,
    /// How much it brings of that, in bytes.
    pub(super) bytes: u16,
}

/// How much of a packet is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All that its header says.
    Whole,
    /// Its beginning, as ICMP errors quote it.
    Quoted,
}

impl<'a> Network<'a> {
    /// Reads the headers in front of `bytes`. Bytes behind the packet's end are no part of it.
    #[inline]
    pub(super) fn read(bytes: &'a [u8], extent: Extent) -> Result<Self, Unfit> {
        match bytes.first().map(|first| first >> 4) {
            Some(4) => Self::read_v4(bytes, extent),
            Some(6) => Self::read_v6(bytes, extent),
            _ => Err(Unfit::Malformed),
        }
    }

    #[inline]
    fn read_v4(bytes: &'a [u8], extent: Extent) -> Result<Self, Unfit> {
        let header = bytes.first_chunk::<20>().ok_or(Unfit::Malformed)?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let here = match extent {
            Extent::Whole => total_len,
            Extent::Quoted => total_len.min(bytes.len()),
        };
        if header_len < header.len() || total_len < header_len {
            return Err(Unfit::Malformed);
        }
        let payload = bytes.get(header_len..here).ok_or(Unfit::Malformed)?;
        if header_len > header.len() && is_source_routed(bytes.get(header.len()..header_len).unwrap_or_default()) {
            return Err(Unfit::SourceRouted);
        }
        let address = |at: usize| {
            let bytes = header.get(at..).and_then(|bytes| bytes.first_chunk::<4>());
            v4_bits(bytes.copied().unwrap_or_default().into())
        };
        let (source, destination) = (address(12), address(16));
        let protocol = Protocol(header[9]);
        let place = u16::from_be_bytes([header[6], header[7]]);
        let (offset, more) = (place << 3, place & 0x2000 != 0);
        let id = u32::from(u16::from_be_bytes([header[4], header[5]]));
        let fragment = (offset != 0 || more)
            .then(|| Fragment::new(FragmentId { source, destination, protocol, id }, offset, payload, extent))
            .transpose()?;
        Ok(Self { v6: false, source, destination, protocol, payload, fragment })
    }

    fn read_v6(bytes: &'a [u8], extent: Extent) -> Result<Self, Unfit> {
        let (header, rest) = bytes.split_first_chunk::<40>().ok_or(Unfit::Malformed)?;
        let payload = match (rest.get(..usize::from(u16::from_be_bytes([header[4], header[5]]))), extent) {
            (Some(payload), _) => payload,
            (None, Extent::Quoted) => rest,
            (None, Extent::Whole) => return Err(Unfit::Malformed),
        };
        let address = |at: usize| {
            let bytes = header.get(at..).and_then(|bytes| bytes.first_chunk::<16>());
            u128::from_be_bytes(bytes.copied().unwrap_or_default())
        };
        let (source, destination) = (address(8), address(24));
        if [source, destination].into_iter().any(|address| address >> 32 == 0xffff) {
            return Err(Unfit::MappedAddress);
        }
        let packet = Self { v6: true, source, destination, protocol: Protocol(header[6]), payload, fragment: None };
        packet.walk(extent)
    }

    /// Steps over the extension headers, up to the transport or to a later fragment's middle.
    fn walk(mut self, extent: Extent) -> Result<Self, Unfit> {
        for _ in 0..=MAX_EXTENSIONS {
            let Protocol(kind) = self.protocol;
            if !matches!(kind, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS) {
                return Ok(self);
            }
            // A first fragment has all of them, or nobody behind it can judge it either.
            let cut = if self.fragment.is_some() { Unfit::TinyFragment } else { Unfit::Malformed };
            let &[next, len, third, fourth, ..] = self.payload.first_chunk::<8>().ok_or(cut)?;
            let len = match kind {
                FRAGMENT => 8,
                AUTHENTICATION => (usize::from(len) + 2) * 4,
                _ => (usize::from(len) + 1) * 8,
            };
            let (extension, behind) = self.payload.split_at_checked(len).ok_or(cut)?;
            (self.protocol, self.payload) = (Protocol(next), behind);
            if kind == ROUTING && fourth != 0 {
                return Err(Unfit::SourceRouted);
            }
            if kind != FRAGMENT {
                continue;
            }
            if self.fragment.is_some() {
                return Err(Unfit::Malformed);
            }
            let &[.., a, b, c, d] = extension.first_chunk::<8>().ok_or(cut)?;
            let place = u16::from_be_bytes([third, fourth]);
            let (offset, more) = (place & !7, place & 1 != 0);
            if offset != 0 || more {
                let Self { source, destination, .. } = self;
                let id = FragmentId { source, destination, protocol: Protocol(FRAGMENT), id: u32::from_be_bytes([a, b, c, d]) };
                self.fragment = Some(Fragment::new(id, offset, behind, extent)?);
            }
            if offset != 0 {
                return Ok(self);
            }
        }
        Err(Unfit::TooManyExtensions)
    }
}

impl Fragment {
    /// No datagram is longer than 65,535 bytes; a fragment that ends behind that is an attack of old.
    #[inline]
    fn new(id: FragmentId, offset: u16, payload: &[u8], extent: Extent) -> Result<Self, Unfit> {
        let bytes = u16::try_from(payload.len()).map_err(|_| Unfit::Malformed)?;
        if extent == Extent::Whole && offset.checked_add(bytes).is_none() {
            return Err(Unfit::Malformed);
        }
        Ok(Self { id, offset, bytes })
    }
}

/// Whether IPv4 options name stops to come (RFC 791: loose and strict source routes). Anything that is no list of options may be
/// one to somebody else.
#[cold]
fn is_source_routed(options: &[u8]) -> bool {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let mut left = options;
    loop {
        left = match left {
            [] | [END, ..] => return false,
            [NOTHING, rest @ ..] => rest,
            [LOOSE | STRICT, ..] | [_] => return true,
            [_, length, ..] => match left.get(usize::from(*length).max(2)..) {
                Some(rest) => rest,
                None => return true,
            },
        };
    }
}
