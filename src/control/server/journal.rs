//! Named things as of now, with the changes that led there: what any number of watchers share of one upstream watch.
//!
//! A cursor is the number of a change, counted from a random one, so that a cursor from the server's former life is recognised without
//! a clock. A watcher that is not too far behind gets events, so many at a time; any other gets a snapshot. Nothing is
//! kept per watcher.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// How many events, and bytes of them, are kept for watchers that are behind.
const KEPT: (usize, usize) = (16_384, 32 << 20);

/// How many events, and bytes of them, a watcher is told at a time; one event is told however large it is.
const AT_ONCE: (usize, usize) = (1000, 1 << 20);

/// What watchers are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News<K, V> {
    /// Where they go on.
    pub(super) cursor: u64,
    /// What is new.
    pub(super) change: Change<K, V>,
}

/// Everything, or what has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change<K, V> {
    /// All things, in the order of their names.
    Snapshot(Vec<(K, V)>),
    /// A thing as it is now, or `None` for one that is gone; in order.
    Events(Vec<(K, Option<V>)>),
}

/// How many bytes an event about a thing, or its absence, has.
pub(super) type Weigh<K, V> = fn(&K, Option<&V>) -> usize;

/// See the module's story.
#[derive(Debug)]
pub(super) struct Journal<K, V> {
    pages: Mutex<Pages<K, V>>,
    weigh: Weigh<K, V>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Pages<K, V> {
    things: BTreeMap<K, V>,
    events: VecDeque<Event<K, V>>,
    /// Of all `events`.
    bytes: usize,
    /// The number of the last change.
    last: u64,
    /// Whether the upstream has been heard of.
    started: bool,
}

#[derive(Debug)]
struct Event<K, V> {
    name: K,
    thing: Option<V>,
    bytes: usize,
}

impl<K: Ord + Clone, V: PartialEq + Clone> Journal<K, V> {
    /// A journal of nothing, which nobody is told of until there was a snapshot.
    pub(super) fn new(weigh: Weigh<K, V>) -> Self {
        let pages = Pages {
            things: BTreeMap::new(),
            events: VecDeque::new(),
            bytes: 0,
            // Far enough from both ends that it never wraps.
            last: rand::random_range(1 << 32..1 << 62),
            started: false,
        };
        Self { pages: Mutex::new(pages), weigh, changed: watch::Sender::new(()) }
    }

    /// Takes in everything there is. Watchers are told of the differences.
    pub(super) fn replace(&self, things: impl IntoIterator<Item = (K, V)>) {
        let mut pages = self.locked();
        let wanted: BTreeMap<K, V> = things.into_iter().collect();
        let gone: Vec<K> = pages.things.keys().filter(|name| !wanted.contains_key(name)).cloned().collect();
        // What is new comes first: what is to take the place of something must be there before that goes.
        for (name, thing) in wanted {
            if pages.things.get(&name) != Some(&thing) {
                pages.record(name, Some(thing), self.weigh);
            }
        }
        for name in gone {
            pages.record(name, None, self.weigh);
        }
        if !std::mem::replace(&mut pages.started, true) {
            pages.forget();
        }
        drop(pages);
        self.changed.send_replace(());
    }

    /// Takes in changes.
    pub(super) fn apply(&self, changes: impl IntoIterator<Item = (K, Option<V>)>) {
        let mut pages = self.locked();
        for (name, thing) in changes {
            pages.record(name, thing, self.weigh);
        }
        drop(pages);
        self.changed.send_replace(());
    }

    /// Completes once there was a first snapshot.
    pub(super) async fn started(&self) {
        self.wait(|pages| pages.started.then_some(())).await;
    }

    /// Everything, as soon as there was a first snapshot.
    pub(super) async fn snapshot(&self) -> News<K, V> {
        self.wait(|pages| pages.started.then(|| pages.snapshot())).await
    }

    /// What comes after `cursor`, as soon as there is something.
    pub(super) async fn after(&self, cursor: u64) -> News<K, V> {
        self.wait(|pages| if pages.started { pages.since(cursor) } else { None }).await
    }

    /// Waits until `look` says yes to what is there.
    pub(super) async fn until(&self, look: impl Fn(&BTreeMap<K, V>) -> bool) {
        self.wait(|pages| look(&pages.things).then_some(())).await;
    }

    async fn wait<T>(&self, look: impl Fn(&Pages<K, V>) -> Option<T>) -> T {
        // Subscribed before looking, so that no change falls between.
        let mut bell = self.changed.subscribe();
        loop {
            if let Some(found) = look(&self.locked()) {
                return found;
            }
            if bell.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, Pages<K, V>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone, V: PartialEq + Clone> Pages<K, V> {
    fn record(&mut self, name: K, thing: Option<V>, weigh: Weigh<K, V>) {
        match &thing {
            Some(thing) => drop(self.things.insert(name.clone(), thing.clone())),
            None => drop(self.things.remove(&name)),
        }
        let bytes = weigh(&name, thing.as_ref());
        self.last += 1;
        self.bytes += bytes;
        self.events.push_back(Event { name, thing, bytes });
        while self.events.len() > KEPT.0 || self.bytes > KEPT.1 {
            let Some(event) = self.events.pop_front() else { break };
            self.bytes -= event.bytes;
        }
    }

    fn forget(&mut self) {
        self.events.clear();
        self.bytes = 0;
    }

    fn snapshot(&self) -> News<K, V> {
        let things = self.things.iter().map(|(name, thing)| (name.clone(), thing.clone()));
        News { cursor: self.last, change: Change::Snapshot(things.collect()) }
    }

    /// What a watcher that knows everything up to `cursor` has yet to learn; `None` if nothing.
    fn since(&self, cursor: u64) -> Option<News<K, V>> {
        let behind = self.last.checked_sub(cursor).and_then(|behind| usize::try_from(behind).ok());
        let Some(first) = behind.and_then(|behind| self.events.len().checked_sub(behind)) else {
            return Some(self.snapshot());
        };
        let mut bytes = 0;
        let mut told = Vec::new();
        for event in self.events.range(first..).take(AT_ONCE.0) {
            bytes += event.bytes;
            if bytes > AT_ONCE.1 && !told.is_empty() {
                break;
            }
            told.push((event.name.clone(), event.thing.clone()));
        }
        let cursor = cursor + told.len() as u64;
        (!told.is_empty()).then_some(News { cursor, change: Change::Events(told) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape of Weigh")]
    fn weigh(_: &u32, thing: Option<&usize>) -> usize {
        thing.copied().unwrap_or(0)
    }

    async fn started() -> (Journal<u32, usize>, u64) {
        let journal = Journal::new(weigh);
        journal.replace([(1, 10), (2, 20)]);
        let News { cursor, change } = journal.snapshot().await;
        assert_eq!(change, Change::Snapshot(vec![(1, 10), (2, 20)]));
        (journal, cursor)
    }

    fn since(journal: &Journal<u32, usize>, cursor: u64) -> Option<Change<u32, usize>> {
        journal.locked().since(cursor).map(|news| news.change)
    }

    #[tokio::test]
    async fn a_watcher_gets_exactly_what_it_lacks() {
        let (journal, cursor) = started().await;
        assert_eq!(since(&journal, cursor), None);
        journal.apply([(3, Some(30)), (1, None)]);
        assert_eq!(since(&journal, cursor), Some(Change::Events(vec![(3, Some(30)), (1, None)])));
        assert_eq!(since(&journal, cursor + 1), Some(Change::Events(vec![(1, None)])));
        // A snapshot that differs becomes events, what is new first.
        journal.replace([(2, 21), (4, 40)]);
        let told = vec![(2, Some(21)), (4, Some(40)), (3, None)];
        assert_eq!(since(&journal, cursor + 2), Some(Change::Events(told)));
        assert_eq!(journal.after(cursor + 4).await, News { cursor: cursor + 5, change: Change::Events(vec![(3, None)]) });
    }

    #[tokio::test]
    async fn a_cursor_that_is_none_of_this_life_gets_a_snapshot() {
        let (journal, cursor) = started().await;
        let everything = Some(Change::Snapshot(vec![(1, 10), (2, 20)]));
        for strange in [0, cursor - 1, cursor + 1, u64::MAX] {
            assert_eq!(since(&journal, strange), everything, "{strange}");
        }
        assert_ne!(started().await.1, cursor);
    }

    #[tokio::test]
    async fn what_is_told_and_kept_is_bounded() {
        let (journal, cursor) = started().await;
        journal.apply((0..2500).map(|_| (1, Some(1))));
        let mut at = cursor;
        let mut told = Vec::new();
        while at < cursor + 2500 {
            let News { cursor: next, change: Change::Events(events) } = journal.after(at).await else { panic!("a snapshot") };
            assert_eq!(next, at + events.len() as u64);
            told.push(events.len());
            at = next;
        }
        assert_eq!(told, [1000, 1000, 500]);
        // By weight as well; what is too heavy goes alone.
        journal.apply([(1, Some(AT_ONCE.1)), (2, Some(2 * AT_ONCE.1)), (3, Some(1))]);
        let lengths = [at, at + 1, at + 2].map(|at| match since(&journal, at) {
            Some(Change::Events(events)) => events.len(),
            other => panic!("{other:?}"),
        });
        assert_eq!(lengths, [1, 1, 1]);
        journal.apply([(1, Some(KEPT.1))]);
        assert!(matches!(since(&journal, at), Some(Change::Snapshot(_))));
        assert_eq!(since(&journal, at + 3), Some(Change::Events(vec![(1, Some(KEPT.1))])));
    }

    #[tokio::test]
    async fn nothing_is_told_before_everything_is_known() {
        let journal = Journal::<u32, usize>::new(weigh);
        let soon = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, journal.snapshot()).await.is_err());
        assert!(tokio::time::timeout(soon, journal.after(7)).await.is_err());
        journal.replace([]);
        assert_eq!(journal.snapshot().await.change, Change::Snapshot(vec![]));
        assert_eq!(journal.after(7).await.change, Change::Snapshot(vec![]));
    }
}
