//! Immutable snapshots on their way from control to the workers.
//!
//! Each subscriber owns a mailbox of one place. Publishing replaces what lies in it, so a slow worker sees the newest
//! snapshot and never a queue of old ones. Looking into an empty mailbox is a few atomic loads and never waits for anybody.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crossbeam::queue::ArrayQueue;

type Mailbox<T> = ArrayQueue<Arc<T>>;

/// Control's end: publishes snapshots to every subscriber there is and will be.
#[derive(Debug)]
pub struct Publisher<T> {
    // Shared by control tasks only; workers never touch it.
    inner: Mutex<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    current: Arc<T>,
    mailboxes: Vec<Weak<Mailbox<T>>>,
}

/// A worker's end: the snapshot in force, renewed by [`refresh`](Subscription::refresh) once per batch.
#[derive(Debug)]
pub struct Subscription<T> {
    mailbox: Arc<Mailbox<T>>,
    current: Arc<T>,
}

impl<T> Publisher<T> {
    /// A publisher whose first snapshot is `initial`.
    pub fn new(initial: T) -> Self {
        Self { inner: Mutex::new(Inner { current: Arc::new(initial), mailboxes: Vec::new() }) }
    }

    /// Puts `snapshot` in force for every subscriber at its next refresh.
    pub fn publish(&self, snapshot: T) {
        let snapshot = Arc::new(snapshot);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.current = Arc::clone(&snapshot);
        inner.mailboxes.retain(|mailbox| match mailbox.upgrade() {
            Some(mailbox) => {
                mailbox.force_push(Arc::clone(&snapshot));
                true
            }
            None => false,
        });
    }

    /// A new subscriber, starting from the snapshot in force.
    pub fn subscribe(&self) -> Subscription<T> {
        let mailbox = Arc::new(ArrayQueue::new(1));
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.mailboxes.push(Arc::downgrade(&mailbox));
        Subscription { mailbox, current: Arc::clone(&inner.current) }
    }

    /// The snapshot in force.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.inner.lock().unwrap_or_else(PoisonError::into_inner).current)
    }
}

impl<T> Subscription<T> {
    /// Takes a newer snapshot if there is one, and returns the one in force. Never waits.
    #[inline]
    pub fn refresh(&mut self) -> &Arc<T> {
        self.newer();
        &self.current
    }

    /// Takes a newer snapshot if there is one; `None` if the one in force stays. Never waits.
    #[inline]
    pub fn newer(&mut self) -> Option<&Arc<T>> {
        if self.mailbox.is_empty() {
            return None;
        }
        self.current = self.mailbox.pop()?;
        Some(&self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_sees_the_newest_snapshot_only() {
        let publisher = Publisher::new(0);
        let mut early = publisher.subscribe();
        publisher.publish(1);
        publisher.publish(2);
        let mut late = publisher.subscribe();
        assert_eq!((**early.refresh(), **late.refresh()), (2, 2));
        assert_eq!(*publisher.current(), 2);
    }

    #[test]
    fn a_dropped_subscriber_is_forgotten() {
        let publisher = Publisher::new(0);
        drop(publisher.subscribe());
        publisher.publish(1);
        assert!(publisher.inner.lock().unwrap().mailboxes.is_empty());
    }

    #[test]
    fn snapshots_arrive_in_order_while_both_sides_run() {
        let publisher = Publisher::new(0u32);
        let mut subscription = publisher.subscribe();
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=10_000).for_each(|n| publisher.publish(n)));
            let mut last = 0;
            while last < 10_000 {
                let now = **subscription.refresh();
                assert!(now >= last, "went back from {last} to {now}");
                last = now;
            }
        });
    }
}
