//! What a worker says of a flow it refused, on its way to whoever logs it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam::queue::ArrayQueue;

use super::Refused;
use crate::net::FlowKey;

/// A packet was refused that began, or would have begun, a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalEvent {
    /// The flow, in the direction the packet had.
    pub key: FlowKey,
    /// Which ends refused it, and why.
    pub refused: Refused,
    /// The version of the snapshot that did; numbers in `refused` are that snapshot's.
    pub version: u64,
    /// Whether the packet opens a connection: of TCP one with SYN and without ACK, of other protocols any.
    pub opens: bool,
}

/// From any number of workers to one reader. Neither side waits for the other.
#[derive(Debug)]
pub struct RefusalQueue {
    queue: ArrayQueue<RefusalEvent>,
    lost: AtomicU64,
}

impl RefusalQueue {
    /// A queue with room for so many, at least one.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { queue: ArrayQueue::new(room.max(1)), lost: AtomicU64::new(0) }
    }

    /// Says so. Where there is no room it goes unsaid, and is counted.
    #[inline]
    pub fn push(&self, event: RefusalEvent) {
        if self.queue.push(event).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// The oldest there is.
    #[must_use]
    pub fn pop(&self) -> Option<RefusalEvent> {
        self.queue.pop()
    }

    /// How many went unsaid since this was last asked.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Protocol;

    #[test]
    fn what_finds_no_room_is_counted() {
        let queue = RefusalQueue::new(2);
        let key = FlowKey { source: 1, destination: 2, source_port: 3, destination_port: 4, protocol: Protocol::UDP };
        for version in 1..=5 {
            queue.push(RefusalEvent { key, refused: Refused::default(), version, opens: true });
        }
        let versions: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|event| event.version).collect();
        assert_eq!((versions, queue.take_lost(), queue.take_lost()), (vec![1, 2], 3, 0));
    }
}
