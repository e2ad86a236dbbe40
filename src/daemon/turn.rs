//! One turn of a worker's threads: what is ready moves, at most a batch each way, from the TUN to the underlay and back.
//!
//! Works on any ports, so that simulations and benches run the very loop that carries traffic. Nothing here waits.

use std::io;

use super::tuning::Sizes;
use crate::buf::{Batch, Datagram, Gather};
use crate::forward::{Forwarder, Outgoing, Peers};
use crate::net::{Moment, Offload};
use crate::port::{TunPort, UdpPort};

/// The packet memory of one worker.
#[derive(Debug)]
pub struct Turn {
    from_tun: Batch<Offload>,
    outgoing: Outgoing,
    from_wire: Batch<Datagram>,
    to_tun: Gather,
}

/// A port that cannot be used any more.
#[derive(Debug)]
pub enum Broken {
    /// The TUN queue, most likely because the device was removed.
    Tun(io::Error),
    /// The socket.
    Udp(io::Error),
}

impl Turn {
    /// Memory of these sizes. The only place that allocates.
    #[must_use]
    pub fn new(sizes: &Sizes) -> Self {
        Self {
            from_tun: Batch::new(sizes.batch, sizes.slot_bytes),
            outgoing: Outgoing {
                to_wire: Batch::new(sizes.batch, sizes.slot_bytes),
                back: Batch::new(sizes.batch, sizes.slot_bytes),
                answers: Batch::new(sizes.batch, sizes.answer_bytes),
            },
            from_wire: Batch::new(sizes.batch, sizes.slot_bytes),
            to_tun: Gather::new(sizes.gathered, sizes.pieces),
        }
    }

    /// Moves what is ready at `now`; says whether there was anything.
    ///
    /// # Errors
    /// When a port is broken. What was in hand is lost with it: call [`abandon`](Self::abandon).
    pub fn run<T: TunPort, U: UdpPort>(
        &mut self,
        now: Moment,
        forwarder: &mut Forwarder,
        peers: &mut impl Peers,
        tun: &mut T,
        udp: &mut U,
    ) -> Result<bool, Broken> {
        let outward = self.outward(now, forwarder, peers, tun, udp)?;
        let inward = self.inward(now, forwarder, peers, tun, udp)?;
        Ok(outward || inward)
    }

    /// Forgets what is in hand.
    pub fn abandon(&mut self, forwarder: &mut Forwarder) {
        forwarder.abandon();
        self.from_tun.clear();
        self.outgoing.to_wire.clear();
        self.outgoing.back.clear();
        self.outgoing.answers.clear();
        self.from_wire.clear();
        self.to_tun.clear();
    }

    /// From the TUN to the underlay; says whether there was anything.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn outward<T: TunPort, U: UdpPort>(
        &mut self,
        now: Moment,
        forwarder: &mut Forwarder,
        peers: &mut impl Peers,
        tun: &mut T,
        udp: &mut U,
    ) -> Result<bool, Broken> {
        let Self { from_tun, outgoing, .. } = self;
        if tun.recv(from_tun).map_err(Broken::Tun)? == 0 {
            return Ok(false);
        }
        loop {
            let more = forwarder.egress(now, peers, udp.train(), from_tun, outgoing);
            let Outgoing { to_wire, answers, .. } = outgoing;
            udp.send(to_wire).map_err(Broken::Udp)?;
            forwarder.sent(now, to_wire, |peer| udp.path_mtu(peer), answers);
            if !more {
                break;
            }
        }
        let Outgoing { back, answers, .. } = outgoing;
        if !back.is_empty() {
            let refused = tun.send_back(back).map_err(Broken::Tun)?;
            forwarder.returned(back, refused);
        }
        if !answers.is_empty() {
            let refused = tun.send(answers).map_err(Broken::Tun)?;
            forwarder.answered(answers, refused);
        }
        Ok(true)
    }

    /// From the underlay to the TUN; says whether there was anything.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn inward<T: TunPort, U: UdpPort>(
        &mut self,
        now: Moment,
        forwarder: &mut Forwarder,
        peers: &mut impl Peers,
        tun: &mut T,
        udp: &mut U,
    ) -> Result<bool, Broken> {
        let Self { from_wire, to_tun, .. } = self;
        if udp.recv(from_wire).map_err(Broken::Udp)? == 0 {
            return Ok(false);
        }
        loop {
            let more = forwarder.ingress(now, peers, tun.supers(), from_wire, to_tun);
            let refused = tun.send_gathered(to_tun, from_wire).map_err(Broken::Tun)?;
            forwarder.written(to_tun, refused);
            if !more {
                break;
            }
        }
        from_wire.clear();
        Ok(true)
    }
}
