//! Snapshots that were replaced, held until nobody else does.
//!
//! Whoever lets go of the last reference to a snapshot frees it, and a large one takes long. What lies here is never freed by a
//! worker, for its reference is not the last; control frees it when the workers have let go.

use std::sync::Arc;

/// Replaced snapshots.
#[derive(Debug)]
pub struct Retired<T> {
    held: Vec<Arc<T>>,
}

impl<T> Retired<T> {
    /// Holds a snapshot that is being replaced. To be called before its readers can see the new one.
    pub fn hold(&mut self, snapshot: Arc<T>) {
        self.held.push(snapshot);
    }

    /// Gives up the snapshots that nobody else holds. They are freed when the result is dropped.
    pub fn take_unused(&mut self) -> Vec<Arc<T>> {
        // Nobody can make a reference of one that is held here alone, so a count of one stays so.
        self.held.extract_if(.., |snapshot| Arc::strong_count(snapshot) == 1).collect()
    }
}

impl<T> Default for Retired<T> {
    fn default() -> Self {
        Self { held: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread::{self, ThreadId};

    use super::super::Publisher;
    use super::*;

    static FREED_BY: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

    /// Says which thread has freed it.
    struct Probe;

    impl Drop for Probe {
        fn drop(&mut self) {
            FREED_BY.lock().unwrap().push(thread::current().id());
        }
    }

    #[test]
    fn control_frees_what_workers_let_go_of() {
        const SNAPSHOTS: usize = 1000;
        let (publisher, mut retired) = (Publisher::new(Probe), Retired::default());
        let mut subscription = publisher.subscribe();
        thread::scope(|scope| {
            let control = scope.spawn(|| {
                for _ in 0..SNAPSHOTS {
                    retired.hold(publisher.current());
                    publisher.publish(Probe);
                    retired.take_unused();
                }
                thread::current().id()
            });
            while !control.is_finished() {
                subscription.refresh();
            }
            subscription.refresh();
            let control = control.join().unwrap();
            assert!(FREED_BY.lock().unwrap().iter().all(|thread| *thread == control), "a worker has freed one");
        });
        let before = FREED_BY.lock().unwrap().len();
        drop(retired.take_unused());
        assert_eq!(FREED_BY.lock().unwrap().len(), SNAPSHOTS, "all but the one in force; {before} before the last look");
    }
}
