//! A connection in use: whether it still gets answers, and when it last did.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::probes::exchange;

/// A connection over which a byte goes back and forth without pause.
pub struct Talk {
    stop: Arc<AtomicBool>,
    exchanges: Arc<AtomicU64>,
    thread: JoinHandle<Option<Instant>>,
}

impl Talk {
    /// Talks until told to stop, or until an answer does not come within `patience`.
    pub fn over(mut stream: TcpStream, patience: Duration) -> Self {
        stream.set_read_timeout(Some(patience)).unwrap();
        let (stop, exchanges) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (ended, count) = (Arc::clone(&stop), Arc::clone(&exchanges));
        let thread = thread::spawn(move || {
            let mut last = Instant::now();
            while !ended.load(Relaxed) {
                if !exchange(&mut stream) {
                    return Some(last);
                }
                last = Instant::now();
                count.fetch_add(1, Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
            None
        });
        Self { stop, exchanges, thread }
    }

    /// Exchanges so far.
    pub fn so_far(&self) -> u64 {
        self.exchanges.load(Relaxed)
    }

    /// Whether it has broken off by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// When it last got an answer, if it broke off.
    pub fn broke_off(self) -> Option<Instant> {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap()
    }
}
