//! All workers of a node: started once, told and asked together, joined at the end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam::queue::ArrayQueue;
use tokio::sync::mpsc::UnboundedSender;

use super::clock;
use super::policy::PolicyControl;
use super::tuning::Tuning;
use super::worker::{Direction, Fittings, Order, Pair, Snapshot, Worker, WorkerNews};
use crate::forward::Counters;
use crate::obs::Health;
use crate::sync::Publisher;
use crate::sys::poll::Waker;

/// Orders a worker may have waiting: it takes them many times a second, so more never pile up.
const MAILBOX: usize = 8;

/// How long a worker may take to let go of its ports, or to end, before it is taken for stuck.
const LET_GO_PATIENCE: Duration = Duration::from_millis(500);

/// The workers. Dropping them stops and joins them, except those that are stuck: nobody should wait for these.
pub struct Workers {
    /// Of each worker the outward and the inward one, in turn.
    threads: Vec<Hand>,
}

/// One thread of a worker, from outside.
struct Hand {
    orders: Arc<ArrayQueue<Order>>,
    waker: Arc<Waker>,
    equipped: Arc<AtomicBool>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` workers, without ports yet.
    ///
    /// # Errors
    /// When the kernel has no thread or descriptor left.
    pub fn start(
        count: usize,
        tuning: Tuning,
        snapshots: &Publisher<Snapshot>,
        policy: Option<&PolicyControl>,
        health: &Health,
        news: &UnboundedSender<WorkerNews>,
    ) -> io::Result<Self> {
        let threads = (0..count).flat_map(|index| [(index, Direction::Outward), (index, Direction::Inward)]);
        let start = |(index, direction)| Hand::start(index, direction, tuning, snapshots, policy, health, news);
        Ok(Self { threads: threads.map(start).collect::<io::Result<_>>()? })
    }

    /// What each counts.
    pub fn counters(&self) -> Vec<Arc<Counters>> {
        self.threads.iter().map(|worker| Arc::clone(&worker.counters)).collect()
    }

    /// Gives each worker its ports, in order; workers for whom there are none have none then.
    pub fn equip(&self, pairs: Vec<Pair>) {
        let mut ports = pairs.into_iter().flat_map(|pair| [pair.outward, pair.inward]);
        for thread in &self.threads {
            thread.tell(Order::Ports(ports.next().map(Box::new)));
        }
    }

    /// Has every worker let go of its ports, and waits until they have: a matter of one turn each.
    pub fn let_go_of_ports(&self) {
        for thread in &self.threads {
            thread.tell(Order::Ports(None));
        }
        let patience = Instant::now() + LET_GO_PATIENCE;
        while self.threads.iter().any(|worker| !worker.orders.is_empty() || worker.equipped.load(Acquire)) {
            if Instant::now() > patience {
                tracing::error!("a worker does not let go of its ports");
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Makes each worker look at its newest snapshot now instead of at its next packet.
    pub fn wake(&self) {
        self.threads.iter().for_each(|worker| worker.waker.wake());
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.threads.iter().for_each(|worker| worker.tell(Order::Stop));
        let patience = Instant::now() + LET_GO_PATIENCE;
        for thread in self.threads.iter_mut().filter_map(|worker| worker.thread.take()) {
            while !thread.is_finished() && Instant::now() < patience {
                thread::sleep(Duration::from_millis(1));
            }
            if !thread.is_finished() {
                tracing::error!("a worker does not end: it is left behind");
            } else if thread.join().is_err() {
                tracing::error!("a worker had panicked");
            }
        }
    }
}

impl Hand {
    fn start(
        index: usize,
        direction: Direction,
        tuning: Tuning,
        snapshots: &Publisher<Snapshot>,
        policy: Option<&PolicyControl>,
        health: &Health,
        news: &UnboundedSender<WorkerNews>,
    ) -> io::Result<Self> {
        let orders = Arc::new(ArrayQueue::new(MAILBOX));
        let waker = Arc::new(Waker::new()?);
        let equipped = Arc::new(AtomicBool::new(false));
        let counters = Arc::new(Counters::default());
        let name = match direction {
            Direction::Outward => format!("worker {index} out"),
            Direction::Inward => format!("worker {index} in"),
        };
        let fittings = Fittings {
            index,
            direction,
            orders: Arc::clone(&orders),
            waker: Arc::clone(&waker),
            equipped: Arc::clone(&equipped),
            news: news.clone(),
            counters: Arc::clone(&counters),
            pulse: health.watch(name.clone(), clock::now()),
            snapshots: snapshots.subscribe(),
            enforcement: policy.map(PolicyControl::enforcement),
            tuning,
        };
        let thread = thread::Builder::new().name(name).spawn(move || Worker::new(fittings).run())?;
        Ok(Self { orders, waker, equipped, counters, thread: Some(thread) })
    }

    fn tell(&self, order: Order) {
        // The newest order counts: if a worker is so stuck that its mailbox is full, the oldest one gives way.
        self.orders.force_push(order);
        self.waker.wake();
    }
}
