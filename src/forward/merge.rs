//! Puts the packets of one receive batch together to super-packets: decisions of [`coalesce`](crate::wire::coalesce) carried
//! out on a [`Gather`].
//!
//! Packets of one flow keep their order, and nothing that might belong to a flow passes its packets: fragments, ICMP and
//! whatever else has no ports ends all runs between its two addresses. Packets of different flows may change places.
//! Nothing is held back for a later batch.
//!
//! Not here: whether a packet may be delivered, and what the TUN takes: it is asked for with each packet.

use crate::buf::{Gather, Piece};
use crate::net::Supers;
use crate::wire::coalesce::{Ends, Fit, Flow, Run};
use crate::wire::headers::{Headers, Transport};

/// Runs open at the same time.
///
/// Flows mostly come in trains, so a few would do. More only help where small packets of many flows alternate, and all keys
/// are looked through for each packet that begins a run.
pub const RUNS: usize = 16;

/// The super-packets in the making for one [`Gather`]. Memory is part of the value; one per worker.
///
/// For each batch: [`push`](Self::push) every packet, then [`finish`](Self::finish), and only then look at the gather or
/// clear it.
#[derive(Debug)]
pub struct Merge {
    /// The flow of each open run; none where none is open.
    flows: [Option<Flow>; RUNS],
    ends: [Option<Ends>; RUNS],
    open: [Option<Open>; RUNS],
    /// Where the last packet went.
    latest: usize,
    /// Whose turn it is to make room.
    turn: usize,
}

#[derive(Debug)]
struct Open {
    run: Run,
    /// The packet's number in the gather.
    number: usize,
}

impl Default for Merge {
    fn default() -> Self {
        Self { flows: [None; RUNS], ends: [None; RUNS], open: [const { None }; RUNS], latest: 0, turn: 0 }
    }
}

impl Merge {
    /// Adds a packet, as part of a super-packet if it belongs there and `supers` has its kind. `packet` is the bytes of `piece`, its header as it is to
    /// be delivered. `false`, with nothing changed, when the gather is full: finish, have it written, clear it, push again.
    #[inline]
    pub fn push(&mut self, supers: Supers, gather: &mut Gather, piece: Piece, packet: &[u8]) -> bool {
        if gather.is_full() {
            return false;
        }
        // Most packets belong where the one before them went: that needs no key.
        if self.append(self.latest, gather, piece, packet) {
            return true;
        }
        let headers = Headers::find(packet);
        let Some((headers, flow)) = headers.and_then(|headers| Some((headers, Flow::of(packet, &headers)?))) else {
            self.close_between(Ends::of(packet), gather);
            return gather.push(piece).is_some();
        };
        let found = self.flows.iter().position(|open| *open == Some(flow));
        if let Some(at) = found {
            if at != self.latest && self.append(at, gather, piece, packet) {
                self.latest = at;
                return true;
            }
            self.close(at, gather);
        }
        let mergeable = match headers.transport {
            Transport::Tcp => supers.tcp,
            Transport::Udp => supers.udp,
        };
        let run = if mergeable { Run::begin(packet, &headers) } else { None };
        let Some(run) = run else { return gather.push(piece).is_some() };
        let at = found.unwrap_or_else(|| self.make_room(gather));
        let Some(number) = gather.push(piece) else { return false };
        self.begin(at, flow, Ends::of(packet), Open { run, number });
        true
    }

    /// Ends all runs: gives each super-packet its header. Comes after the last packet of a batch.
    #[inline]
    pub fn finish(&mut self, gather: &mut Gather) {
        for at in 0..RUNS {
            self.close(at, gather);
        }
    }

    #[inline]
    fn append(&mut self, at: usize, gather: &mut Gather, piece: Piece, packet: &[u8]) -> bool {
        let Some(Some(Open { run, number })) = self.open.get_mut(at) else { return false };
        let fit = run.append(packet);
        if fit == Fit::No {
            return false;
        }
        let number = *number;
        let header = u32::try_from(run.header_bytes()).unwrap_or(piece.len).min(piece.len);
        let payload = Piece { start: piece.start + header, len: piece.len - header, ..piece };
        if fit == Fit::Last {
            self.close(at, gather);
        }
        // There is room: that was asked first.
        gather.append(number, payload)
    }

    #[inline]
    fn begin(&mut self, at: usize, flow: Flow, ends: Option<Ends>, open: Open) {
        let slots = (self.flows.get_mut(at), self.ends.get_mut(at), self.open.get_mut(at));
        if let (Some(flow_at), Some(ends_at), Some(open_at)) = slots {
            (*flow_at, *ends_at, *open_at) = (Some(flow), ends, Some(open));
            self.latest = at;
        }
    }

    /// A place where no run is open. If there is none, the one that was begun longest ago ends, or nearly that.
    #[inline]
    fn make_room(&mut self, gather: &mut Gather) -> usize {
        if let Some(free) = self.flows.iter().position(Option::is_none) {
            return free;
        }
        let at = self.turn;
        self.turn = (at + 1) % RUNS;
        self.close(at, gather);
        at
    }

    /// Ends the runs between these addresses; all if there are none.
    fn close_between(&mut self, ends: Option<Ends>, gather: &mut Gather) {
        for at in 0..RUNS {
            if ends.is_none() || self.ends.get(at) == Some(&ends) {
                self.close(at, gather);
            }
        }
    }

    #[inline]
    fn close(&mut self, at: usize, gather: &mut Gather) {
        let slots = (self.flows.get_mut(at), self.ends.get_mut(at), self.open.get_mut(at));
        let (Some(flow), Some(ends), Some(slot)) = slots else { return };
        if let Some(Open { run, number }) = slot
            && let Some((header, offload)) = run.finish()
        {
            gather.crown(*number, header, offload);
        }
        (*flow, *ends, *slot) = (None, None, None);
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IpHeaders, Ipv4Extensions, Ipv4Header, PacketBuilder};

    use super::*;
    use crate::net::Offload;

    /// The `number`th packet of 10 bytes of a flow, whichever transport.
    fn packet(udp: bool, flow: u16, number: u16) -> Vec<u8> {
        let mut ip = Ipv4Header { time_to_live: 63, identification: number, ..Default::default() };
        (ip.source, ip.destination) = ([10, 5, 20, 3], [10, 5, 16, 2]);
        let builder = PacketBuilder::ip(IpHeaders::Ipv4(ip, Ipv4Extensions::default()));
        let mut bytes = Vec::new();
        if udp {
            builder.udp(1000 + flow, 80).write(&mut bytes, &[1; 10]).unwrap();
        } else {
            let tcp = builder.tcp(1000 + flow, 80, u32::from(number) * 10, 512).ack(1);
            tcp.write(&mut bytes, &[2; 10]).unwrap();
        }
        bytes
    }

    /// The same addresses, but no flow that could be told.
    fn icmp() -> Vec<u8> {
        let mut bytes = packet(true, 0, 0);
        bytes[9] = 1;
        bytes
    }

    fn piece(slot: usize, bytes: &[u8]) -> Piece {
        Piece { slot: u16::try_from(slot).unwrap(), start: 5, len: u32::try_from(bytes.len()).unwrap() }
    }

    /// Which of `packets` became one packet, in the order the packets go.
    fn merged(supers: Supers, packets: &[Vec<u8>]) -> Vec<Vec<u16>> {
        merged_by(&mut Merge::default(), supers, packets)
    }

    fn merged_by(merge: &mut Merge, supers: Supers, packets: &[Vec<u8>]) -> Vec<Vec<u16>> {
        let mut gather = Gather::new(64, 64);
        for (slot, bytes) in packets.iter().enumerate() {
            assert!(merge.push(supers, &mut gather, piece(slot, bytes), bytes));
        }
        merge.finish(&mut gather);
        for packet in gather.packets() {
            let whole =
                packet.originals().all(|found| found == piece(usize::from(found.slot), &packets[usize::from(found.slot)]));
            assert!(whole, "{packet:?}");
            assert_eq!(packet.header().is_empty(), packet.count() == 1);
            assert_eq!(*packet.offload() == Offload::default(), packet.count() == 1);
        }
        gather.packets().map(|packet| packet.pieces().map(|piece| piece.slot).collect()).collect()
    }

    #[test]
    fn flows_in_turn_become_one_packet_each() {
        let packets: Vec<_> = (0..9).map(|at| packet(at % 3 == 2, at % 3, at / 3)).collect();
        assert_eq!(merged(Supers::ALL, &packets), [[0, 3, 6], [1, 4, 7], [2, 5, 8]]);
        let apart: [&[u16]; 5] = [&[0, 3, 6], &[1, 4, 7], &[2], &[5], &[8]];
        assert_eq!(merged(Supers { udp: false, ..Supers::ALL }, &packets), apart);
        assert_eq!(merged(Supers::default(), &packets).len(), 9);
    }

    #[test]
    fn what_does_not_fit_ends_its_flow_only() {
        let mut other = packet(false, 0, 1);
        other[33] = 0x12;
        let packets = [packet(false, 0, 0), packet(false, 1, 0), other, packet(false, 0, 1), packet(false, 1, 1)];
        let expected: [&[u16]; 4] = [&[0], &[1, 4], &[2], &[3]];
        assert_eq!(merged(Supers::ALL, &packets), expected);
        let packets = [0, 1, 5, 6, 2].map(|number| packet(false, 0, number));
        let expected: [&[u16]; 3] = [&[0, 1], &[2, 3], &[4]];
        assert_eq!(merged(Supers::ALL, &packets), expected);
    }

    #[test]
    fn what_has_no_ports_ends_all_runs_between_its_addresses() {
        let mut elsewhere = icmp();
        elsewhere[15] = 9;
        let flows = |number| [packet(false, 0, number), packet(true, 1, number)];
        let with = |middle: Vec<u8>| [&flows(0)[..], &[middle], &flows(1)[..]].concat();
        let together: [&[u16]; 3] = [&[0, 3], &[1, 4], &[2]];
        assert_eq!(merged(Supers::ALL, &with(elsewhere)), together);
        assert_eq!(merged(Supers::ALL, &with(icmp())), [[0], [1], [2], [3], [4]]);
        assert_eq!(merged(Supers::ALL, &with(vec![0x45; 3])), [[0], [1], [2], [3], [4]]);
    }

    #[test]
    fn of_too_many_flows_the_oldest_ends() {
        let many = u16::try_from(RUNS).unwrap() + 1;
        let packets: Vec<_> =
            (0..many).chain([many - 1, 1, 0]).zip(0..).map(|(flow, at)| packet(false, flow, at / many)).collect();
        let found = merged(Supers::ALL, &packets);
        assert_eq!((found.len(), &found[0], &found[1]), (usize::from(many) + 1, &vec![0], &vec![1, many + 1]));
        assert_eq!((&found[usize::from(many) - 1], &found[usize::from(many)]), (&vec![many - 1, many], &vec![many + 2]));
    }

    #[test]
    fn a_full_gather_changes_nothing_and_a_batch_ends_all_runs() {
        let mut merge = Merge::default();
        let mut gather = Gather::new(2, 2);
        let packets: Vec<_> = (0..4).map(|number| packet(false, 0, number)).collect();
        for turn in 0..2 {
            for (slot, bytes) in packets.iter().enumerate().skip(turn * 2) {
                assert_eq!(merge.push(Supers::ALL, &mut gather, piece(slot, bytes), bytes), slot < turn * 2 + 2);
            }
            merge.finish(&mut gather);
            assert_eq!(gather.packets().map(|packet| (packet.count(), packet.header().len())).collect::<Vec<_>>(), [(2, 40)]);
            gather.clear();
        }
        assert_eq!(merged_by(&mut merge, Supers::ALL, &packets), [[0, 1, 2, 3]]);
    }
}
