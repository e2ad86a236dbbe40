//! Which offloads are in use: told when the tunnel comes up, said once when one fails later, shown in the metrics.
//!
//! The ports decide; this only watches their standing from the node's task.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::node::Node;
use super::worker::Pair;
use crate::buf::TRAIN_DATAGRAMS;
use crate::port::os::{Switch, TunStanding, UdpStanding};

/// The standing of all ports of a device.
#[derive(Debug, Default)]
pub struct OffloadWatch {
    tuns: Vec<Arc<TunStanding>>,
    sockets: Vec<Arc<UdpStanding>>,
    told: [bool; KINDS],
}

const KINDS: usize = 4;

/// What all ports make use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// TCP super-packets.
    pub tun_tso: bool,
    /// UDP super-packets.
    pub tun_uso: bool,
    /// Datagrams of a train that is sent; 1: no trains.
    pub segments: usize,
    /// Trains are received.
    pub udp_gro: bool,
}

/// An offload that has failed.
#[derive(Debug)]
pub struct Failed {
    /// Its name in the metrics.
    pub offload: &'static str,
    /// The flag that does without it from the start.
    pub flag: &'static str,
    /// What the kernel said.
    pub error: io::Error,
}

impl OffloadWatch {
    /// Watches over `ports`.
    pub fn of(ports: &[Pair]) -> Self {
        Self {
            tuns: ports.iter().map(|ports| Arc::clone(ports.outward.tun.standing())).collect(),
            sockets: ports.iter().map(|ports| Arc::clone(ports.outward.udp.standing())).collect(),
            told: [false; KINDS],
        }
    }

    /// What is in use now.
    pub fn in_use(&self) -> InUse {
        InUse {
            tun_tso: self.tuns.iter().all(|tun| tun.tso.is_on()),
            tun_uso: self.tuns.iter().all(|tun| tun.uso.is_on()),
            segments: self.sockets.iter().map(|socket| socket.segments()).min().unwrap_or(TRAIN_DATAGRAMS),
            udp_gro: self.sockets.iter().all(|socket| socket.gro.is_on()),
        }
    }

    /// What has failed since this was asked last; each offload once, however many ports it fails on.
    pub fn news(&mut self) -> Vec<Failed> {
        let Self { tuns, sockets, told } = self;
        let kinds: [(_, _, Vec<&Switch>); KINDS] = [
            ("tun_tso", "--no-tun-offload", tuns.iter().map(|tun| &tun.tso).collect()),
            ("tun_uso", "--no-tun-offload", tuns.iter().map(|tun| &tun.uso).collect()),
            ("udp_gso", "--no-udp-gso", sockets.iter().map(|socket| &socket.gso).collect()),
            ("udp_gro", "--no-udp-gro", sockets.iter().map(|socket| &socket.gro).collect()),
        ];
        let mut failed = Vec::new();
        for ((offload, flag, switches), told) in kinds.into_iter().zip(told) {
            let error = switches.into_iter().find_map(Switch::news).filter(|_| !*told);
            if let Some(error) = error {
                *told = true;
                failed.push(Failed { offload, flag, error });
            }
        }
        failed
    }
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tun = match (self.tun_tso, self.tun_uso) {
            (true, true) => "tso+uso",
            (true, false) => "tso",
            (false, true) => "uso",
            (false, false) => "off",
        };
        write!(f, "tun {tun}, gso ")?;
        match self.segments {
            1 => write!(f, "off")?,
            segments => write!(f, "{segments}")?,
        }
        write!(f, ", gro {}", if self.udp_gro { "on" } else { "off" })
    }
}

impl Node {
    /// Brings the metrics in line with what carries our traffic, and says what of it has failed.
    pub(super) fn show_bearer(&mut self) {
        let Some(bearer) = &mut self.bearer else { return };
        let gauges = &self.metrics.gauges;
        let granted = bearer.granted();
        gauges.receive_buffer_bytes.store(granted.receive as u64, Relaxed);
        gauges.send_buffer_bytes.store(granted.send as u64, Relaxed);
        gauges.bypassed_bridges.store(bearer.bypassed().len() as u64, Relaxed);
        let Some(watch) = bearer.offloads() else { return };
        for Failed { offload, flag, error } in watch.news() {
            tracing::warn!(
                offload,
                "the kernel or a device refuses this offload ({error}): going on without it, nothing was lost; {flag} spares the attempt"
            );
        }
        let InUse { tun_tso, tun_uso, segments, udp_gro } = watch.in_use();
        gauges.offloads.tun_tso.store(tun_tso, Relaxed);
        gauges.offloads.tun_uso.store(tun_uso, Relaxed);
        gauges.offloads.udp_gso.store(segments > 1, Relaxed);
        gauges.offloads.udp_gro.store(udp_gro, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_is_told_in_words() {
        let all = InUse { tun_tso: true, tun_uso: true, segments: 128, udp_gro: true };
        assert_eq!(all.to_string(), "tun tso+uso, gso 128, gro on");
        assert_eq!(InUse { tun_uso: false, segments: 64, ..all }.to_string(), "tun tso, gso 64, gro on");
        let none = InUse { tun_tso: false, tun_uso: false, segments: 1, udp_gro: false };
        assert_eq!(none.to_string(), "tun off, gso off, gro off");
    }

    #[test]
    fn a_failure_is_news_once_for_all_ports() {
        let standing = || Arc::new(UdpStanding::new(true, true));
        let sockets = vec![standing(), standing(), standing()];
        let mut watch = OffloadWatch { sockets: sockets.clone(), ..OffloadWatch::default() };
        assert!(watch.news().is_empty() && watch.in_use().segments == 128);
        sockets[1].gso.refuse(libc::EIO);
        let news = watch.news();
        assert_eq!(news.iter().map(|failed| failed.offload).collect::<Vec<_>>(), ["udp_gso"]);
        assert_eq!(news[0].error.raw_os_error(), Some(libc::EIO));
        sockets[2].gso.refuse(libc::EINVAL);
        assert!(watch.news().is_empty());
        assert_eq!((watch.in_use().segments, watch.in_use().udp_gro), (1, true));
    }
}
