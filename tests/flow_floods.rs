//! Floods of every kind of segment, none of which takes another's flow away or takes more than the table has.

use std::sync::Arc;

use felt::flow::{Admission, FlowTable, Inserted, OnChange, Passed, Phase, Seed, Tracker};
use felt::net::{FlowKey, Moment, Protocol};
use felt::wire::inspect::{Inspected, TcpFlags};

/// Segments of each kind.
const SEGMENTS: u32 = 100_000;
/// Flows the table is made for.
const FLOWS: usize = 1000;

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const FIN: TcpFlags = TcpFlags::FIN;
const RST: TcpFlags = TcpFlags::RST;
const NONE: TcpFlags = TcpFlags(0);
const ALL: TcpFlags = TcpFlags(0xff);

/// The flow of somebody else, from its client to its server.
const SPARED: FlowKey = FlowKey { source: 1, destination: 2, source_port: 40_000, destination_port: 80, protocol: Protocol::TCP };

/// What becomes of a segment where policy allows everything.
fn admit(tracker: &mut Tracker, key: FlowKey, flags: TcpFlags) -> Admission<()> {
    tracker.admit(Moment::ZERO, &Inspected::Flow { key, tcp: Some(flags), first_fragment: None }, 1, |_| Ok(()))
}

#[test]
fn no_kind_of_segment_takes_anothers_flow_away() {
    let kinds = [SYN, SYN.and(FIN), SYN.and(ACK), ACK, FIN, FIN.and(ACK), RST, RST.and(ACK), NONE, ALL];
    for flags in kinds {
        let table = Arc::new(FlowTable::new(FLOWS, Seed::new([1, 2])).unwrap());
        let mut tracker = Tracker::new(Arc::clone(&table), OnChange::Strict);
        for (key, flags) in [(SPARED, SYN), (SPARED.reversed(), SYN.and(ACK)), (SPARED, ACK)] {
            admit(&mut tracker, key, flags);
        }
        let (mut displaced, mut remembered) = (0, 0);
        for n in 0..SEGMENTS {
            let (source_port, destination_port) = (u16::try_from(n & 0xffff).unwrap(), u16::try_from(n >> 16).unwrap());
            let key = FlowKey { source: 3, source_port, destination_port, ..SPARED };
            match admit(&mut tracker, key, flags) {
                Admission::Passed(Passed::New(inserted)) => {
                    remembered += 1;
                    displaced += u32::from(inserted == Inserted::Displaced);
                }
                Admission::Passed(Passed::Single) => {}
                other => panic!("{flags:?}: {other:?}"),
            }
        }
        // A reset of nothing leaves nothing behind; everything else gives way to its like, and each that does is counted.
        assert_eq!(remembered, if flags.has(RST) { 0 } else { SEGMENTS }, "{flags:?}");
        let held = table.flows(Moment::ZERO).count();
        assert_eq!(u32::try_from(held).unwrap(), remembered - displaced + 1, "{flags:?}");
        let known = Admission::Passed(Passed::Known);
        assert_eq!([admit(&mut tracker, SPARED.reversed(), ACK), admit(&mut tracker, SPARED, ACK)], [known; 2], "{flags:?}");
        assert_eq!(table.find(&SPARED, Moment::ZERO).map(|hit| hit.phase()), Some(Phase::Established), "{flags:?}");
    }
}
