//! The task that owns policy: hears of objects and of this host, has policies compiled, and puts them in force.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::desk::Desk;
use super::host::{self, Host};
use crate::control::source::{PolicySource, SourceReport};
use crate::obs::Pulse;

/// How often the task moves when nothing happens: its pulse.
const TICK: Duration = Duration::from_secs(1);

/// Every so many ticks the host is looked at even if nothing was heard of it.
const LOOK_ANYWAY_TICKS: u32 = 10;

/// Reports that may wait for the task.
const AHEAD: usize = 64;

/// What is heard: from which source, and what; `None` when it has ended.
type Heard = (usize, Option<SourceReport>);

/// The task and what it works with.
pub(super) struct Task {
    pub desk: Desk,
    pub board: Arc<Board>,
    pub pulse: Pulse,
    pub end: CancellationToken,
}

impl Task {
    /// Works until told to end.
    pub(super) async fn run(mut self, sources: Vec<Box<dyn PolicySource>>) {
        let mut heard = follow(sources);
        let mut host = Host::listen();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ticks = 0u32;
        let end = self.end.clone();
        loop {
            tokio::select! {
                Some(first) = heard.recv() => {
                    self.take(first);
                    // What has come meanwhile is compiled together.
                    while let Ok(more) = heard.try_recv() {
                        self.take(more);
                    }
                }
                () = self.board.changed() => {}
                () = host.changed() => self.look_at_host(),
                _ = tick.tick() => {
                    self.pulse.beat();
                    self.board.sweep();
                    ticks = ticks.wrapping_add(1);
                    if ticks.is_multiple_of(LOOK_ANYWAY_TICKS) {
                        self.look_at_host();
                    }
                }
                () = end.cancelled() => return,
            }
            self.compile().await;
        }
    }

    fn take(&mut self, (source, report): Heard) {
        match report {
            Some(report) => self.desk.take(source, report),
            None => self.desk.lost(source),
        }
    }

    fn look_at_host(&self) {
        match host::addresses() {
            Ok(addresses) => self.board.set_host(addresses),
            Err(error) => tracing::debug!("the host's addresses stay as they were for policy: {error}"),
        }
    }

    /// Has compiled what there is to compile, and moves meanwhile.
    async fn compile(&mut self) {
        let Some(work) = self.desk.work() else { return };
        let mut working = spawn_blocking(|| work.run());
        let done = loop {
            tokio::select! {
                done = &mut working => break done,
                () = tokio::time::sleep(TICK) => self.pulse.beat(),
            }
        };
        self.desk.finish(done.ok());
    }
}

/// What all sources have to say, in one row.
fn follow(sources: Vec<Box<dyn PolicySource>>) -> mpsc::Receiver<Heard> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    for (number, source) in sources.into_iter().enumerate() {
        let (sender, mut reports) = (sender.clone(), source.follow());
        tokio::spawn(async move {
            loop {
                let report = tokio::select! {
                    report = reports.recv() => report,
                    () = sender.closed() => return,
                };
                let is_last = report.is_none();
                if sender.send((number, report)).await.is_err() || is_last {
                    return;
                }
            }
        });
    }
    receiver
}
