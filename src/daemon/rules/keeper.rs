//! The thread that keeps rules in force. Programs and their locks may take long, and the node's loop must not wait for them.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{io, thread};

use tokio::sync::watch;

use super::ground::RuleSet;
use super::prepared::Prepared;
use super::work::Work;
use crate::net::Prefix4;

/// Rules of a running node. When this is dropped the thread ends, and the rules stay.
#[derive(Debug)]
pub struct HostRules {
    wishes: mpsc::Sender<RuleSet>,
    state: watch::Receiver<State>,
}

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was done yet.
    Pending,
    /// Everything is in force.
    InForce,
    /// Something that was demanded is not.
    Lacking,
}

impl HostRules {
    /// Starts the thread, in the network namespace of the calling one. Nothing is done before something is [wanted](Self::want).
    /// Of `former`, the subnet that an earlier run held, nothing is left then.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(prepared: Prepared, former: Option<Prefix4>) -> io::Result<Self> {
        let (wishes, wanted) = mpsc::channel();
        let (told, state) = watch::channel(State::Pending);
        let resync = prepared.options.resync;
        let mut work = Work::new(prepared, former);
        thread::Builder::new().name("host-rules".to_owned()).spawn(move || {
            each(&wanted, resync, |rules| {
                let now = if work.look(rules) { State::InForce } else { State::Lacking };
                told.send_if_modified(|state| std::mem::replace(state, now) != now);
            });
        })?;
        Ok(Self { wishes, state })
    }

    /// Has these rules in force from now on, instead of former ones.
    pub fn want(&self, rules: RuleSet) {
        // Without the thread nobody would ever say that they are in force.
        _ = self.wishes.send(rules);
    }

    /// Whether nothing has been tried yet.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        *self.state.borrow() == State::Pending
    }

    /// Whether everything is in force that was demanded.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        *self.state.borrow() == State::InForce
    }

    /// Waits until that changes. Safe to drop and ask again.
    pub async fn news(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Calls `look` with the newest wish, as it comes and every `resync` after.
fn each(wanted: &mpsc::Receiver<RuleSet>, resync: Duration, mut look: impl FnMut(&RuleSet)) {
    let Ok(mut rules) = wanted.recv() else { return };
    loop {
        while let Ok(newer) = wanted.try_recv() {
            rules = newer;
        }
        look(&rules);
        match wanted.recv_timeout(resync) {
            Ok(newer) => rules = newer,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
