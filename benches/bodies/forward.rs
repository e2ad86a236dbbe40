//! The whole packet path: out of one node and into another, over ports without memory of their own.

use std::sync::Arc;
use std::time::Duration;

use felt::daemon::tuning::Sizes;
use felt::daemon::turn::Turn;
use felt::forward::{Counters, Forwarder, Totals};
use felt::net::{Moment, Offload};

use super::overlay::{node, peers};
use super::ports::{Loop, Tun};

/// Two nodes and what is between them.
pub struct Path {
    counters: Arc<Counters>,
    here: Forwarder,
    there: Forwarder,
    turn: Turn,
    tun: Tun,
    silent: Tun,
    udp: Loop,
    turns: u64,
}

impl Path {
    /// One that carries `packets`, in turn, for ever.
    pub fn new(packets: Vec<(Vec<u8>, Offload)>, udp: Loop) -> Self {
        let counters = Arc::new(Counters::default());
        let (here, there) = (node(1, &counters), node(2, &counters));
        let turn = Turn::new(&Sizes::default());
        Self { counters, here, there, turn, tun: Tun::new(packets), silent: Tun::new(Vec::new()), udp, turns: 0 }
    }

    /// A batch leaves the one node and enters the other.
    pub fn carry(&mut self) {
        let now = Moment::from_origin(Duration::from_millis(self.turns));
        self.turns += 1;
        self.udp.receives = false;
        self.turn.run(now, &mut self.here, &mut peers, &mut self.tun, &mut self.udp).unwrap();
        self.udp.receives = true;
        self.turn.run(now, &mut self.there, &mut peers, &mut self.silent, &mut self.udp).unwrap();
    }

    /// What both nodes have counted.
    pub fn totals(&self) -> Totals {
        Totals::of([&*self.counters])
    }
}
