//! One thread of a worker. A worker is a TUN queue and a socket; one of its threads carries packets from the queue to the
//! socket, the other from the socket to the queue, each to completion.
//!
//! Two, because what leaves through a socket or enters through a queue runs the kernel's whole network stack in passing, and
//! most of a thread's time is that: acknowledgements would wait for data and data for acknowledgements.
//!
//! It takes orders from a mailbox and snapshots from a subscription, both looked at once per batch; it counts, beats its
//! pulse, and says when its device is gone. It waits in poll(2) only: for packets, for a wake-up, or for the next beat.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Release;
use std::time::Duration;

use crossbeam::queue::ArrayQueue;
use tokio::sync::mpsc::UnboundedSender;

use super::bearer::BearerError;
use super::clock;
use super::device::DeviceError;
use super::policy::Enforcement;
use super::spin::Spin;
use super::tuning::Tuning;
use super::turn::{Broken, Turn};
use crate::forward::{Counters, DropReason, Forwarder, Tunnel};
use crate::lease::{LeaseTable, TableReader};
use crate::net::Moment;
use crate::obs::Pulse;
use crate::port::os::{OsTun, OsUdp};
use crate::sync::Subscription;
use crate::sys::poll::{self, Interest, Waker};

/// An idle worker still beats its pulse this often.
const IDLE_BEAT: Duration = Duration::from_secs(1);

/// What all workers go by: published by the node, replaced as a whole.
#[derive(Debug)]
pub struct Snapshot {
    /// Our place in the overlay; `None` while no lease is held.
    pub tunnel: Option<Tunnel>,
    /// Who leases what.
    pub table: Arc<LeaseTable>,
}

/// A TUN queue and the socket that goes with it, as one thread has them.
pub struct Ports {
    /// Where inner packets come from and go to.
    pub tun: OsTun,
    /// The underlay.
    pub udp: OsUdp,
}

/// What a worker works on, once for each of its threads.
pub struct Pair {
    /// For the thread that reads the queue.
    pub outward: Ports,
    /// For the thread that reads the socket.
    pub inward: Ports,
}

/// Which way a thread carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the TUN to the underlay.
    Outward,
    /// From the underlay to the TUN.
    Inward,
}

/// What a worker can be told.
pub(super) enum Order {
    /// Work on these from now on, or on nothing until others come.
    Ports(Option<Box<Ports>>),
    /// End.
    Stop,
}

/// What a worker has to say.
#[derive(Debug)]
pub enum WorkerNews {
    /// Its queue broke, most likely because the device was removed; it has let go of its ports and waits for new ones.
    DeviceGone {
        /// Which worker.
        worker: usize,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// Its socket broke; it has let go of its ports and waits for new ones.
    SocketGone {
        /// Which worker.
        worker: usize,
        /// What the kernel said.
        error: std::io::Error,
    },
}

/// What a worker is given at birth and keeps.
pub(super) struct Fittings {
    pub index: usize,
    pub direction: Direction,
    pub orders: Arc<ArrayQueue<Order>>,
    pub waker: Arc<Waker>,
    /// Whether the worker has ports.
    pub equipped: Arc<AtomicBool>,
    pub news: UnboundedSender<WorkerNews>,
    pub counters: Arc<Counters>,
    pub pulse: Pulse,
    pub snapshots: Subscription<Snapshot>,
    /// `None`: nothing is judged.
    pub enforcement: Option<Enforcement>,
    pub tuning: Tuning,
}

pub(super) struct Worker {
    fittings: Fittings,
    forwarder: Forwarder,
    reader: TableReader,
    ports: Option<Box<Ports>>,
    turn: Turn,
    overflows: Overflows,
    spin: Spin,
}

/// What ports count for themselves: datagrams the socket had no room for, packets that asked for something unknown.
#[derive(Default)]
struct Overflows {
    seen: u32,
    misread: u64,
    look_at: Moment,
}

impl Worker {
    pub fn new(mut fittings: Fittings) -> Self {
        let snapshot = fittings.snapshots.refresh();
        let reader = snapshot.table.reader();
        let mut forwarder = Forwarder::new(Arc::clone(&fittings.counters));
        forwarder.adopt(snapshot.tunnel.as_ref());
        if let Some(enforcement) = &mut fittings.enforcement {
            enforcement.install(&mut forwarder);
        }
        Self {
            forwarder,
            reader,
            ports: None,
            turn: Turn::new(&fittings.tuning.sizes),
            overflows: Overflows::default(),
            spin: Spin::new(fittings.tuning.spin),
            fittings,
        }
    }

    /// Works until told to stop.
    pub fn run(mut self) {
        loop {
            self.fittings.pulse.beat();
            if self.obey() {
                return;
            }
            self.follow();
            match self.move_packets() {
                Ok(true) => self.spin.busy(),
                Ok(false) => self.idle(),
                Err(broken) => self.report(broken),
            }
        }
    }

    /// Takes orders; says whether one of them was to stop.
    fn obey(&mut self) -> bool {
        while let Some(order) = self.fittings.orders.pop() {
            match order {
                Order::Ports(ports) => self.put(ports),
                Order::Stop => return true,
            }
        }
        false
    }

    fn put(&mut self, ports: Option<Box<Ports>>) {
        // The kernel counts anew for each socket.
        self.overflows = Overflows::default();
        self.ports = ports;
        self.fittings.equipped.store(self.ports.is_some(), Release);
    }

    /// Goes by the newest snapshot.
    fn follow(&mut self) {
        if let Some(snapshot) = self.fittings.snapshots.newer() {
            self.reader = snapshot.table.reader();
            self.forwarder.adopt(snapshot.tunnel.as_ref());
        }
        if let Some(enforcement) = &mut self.fittings.enforcement {
            enforcement.follow(&mut self.forwarder);
        }
    }

    /// Moves what is ready, at most a batch each way; says whether there was anything.
    fn move_packets(&mut self) -> Result<bool, Broken> {
        let Some(ports) = &mut self.ports else { return Ok(false) };
        let Ports { tun, udp } = &mut **ports;
        let direction = self.fittings.direction;
        let now = clock::now();
        if now >= self.overflows.look_at {
            self.overflows.look(now, direction, tun, udp, self.forwarder.counters());
        }

        let (forwarder, peers) = (&mut self.forwarder, &mut self.reader.batch());
        match direction {
            Direction::Outward => self.turn.outward(now, forwarder, peers, tun, udp),
            Direction::Inward => self.turn.inward(now, forwarder, peers, tun, udp),
        }
    }

    /// Looks again, or sleeps.
    fn idle(&mut self) {
        if !self.spin.is_on() || self.ports.is_none() {
            self.rest();
        } else if self.spin.looks_again(clock::now()) {
            // Whoever is to send the next packet may want this very core.
            std::thread::yield_now();
        } else {
            self.rest();
            self.spin.slept(clock::now());
        }
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self) {
        let waker = Interest::readable(self.fittings.waker.as_fd());
        let waited = match &self.ports {
            Some(ports) => {
                let source = match self.fittings.direction {
                    Direction::Outward => ports.tun.as_fd(),
                    Direction::Inward => ports.udp.as_fd(),
                };
                poll::wait(&mut [waker, Interest::readable(source)], Some(IDLE_BEAT))
            }
            None => poll::wait(&mut [waker], Some(IDLE_BEAT)),
        };
        self.fittings.waker.take();
        self.forwarder.counters().wakeups.add(1);
        if waited.is_err() {
            // Out of kernel memory: nothing to do but not to spin on it.
            std::thread::sleep(IDLE_BEAT);
        }
    }

    /// Lets go of broken ports, with what was in hand, and says so; said before it is seen to have let go, so that whoever
    /// has waited for that has heard of it, too.
    fn report(&mut self, broken: Broken) {
        self.turn.abandon(&mut self.forwarder);
        let worker = self.fittings.index;
        let news = match broken {
            Broken::Tun(error) => WorkerNews::DeviceGone { worker, error },
            Broken::Udp(error) => WorkerNews::SocketGone { worker, error },
        };
        // The node may be gone already, on its way down.
        let _ = self.fittings.news.send(news);
        self.put(None);
    }
}

impl Pair {
    /// Shares `ports` between the two threads.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn share(ports: Ports) -> Result<Self, BearerError> {
        let udp = ports.udp.try_clone().map_err(BearerError::Descriptor)?;
        let tun = ports.tun.try_clone().map_err(DeviceError::Tun)?;
        Ok(Self { inward: Ports { tun, udp }, outward: ports })
    }
}

impl Overflows {
    /// Counts what has come about since the last look at the port that is read; to be called about once per beat.
    fn look(&mut self, now: Moment, direction: Direction, tun: &OsTun, udp: &OsUdp, counters: &Counters) {
        self.look_at = now + IDLE_BEAT;
        counters.count_drop(DropReason::BadOffload, tun.misread() - self.misread);
        self.misread = tun.misread();
        if direction == Direction::Inward
            && let Ok(seen) = udp.socket().receive_drops()
        {
            counters.receive_overflows.add(u64::from(seen.wrapping_sub(self.seen)));
            self.seen = seen;
        }
    }
}
