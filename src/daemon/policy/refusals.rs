//! Refused flows, logged within limits and counted by port.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::board::PolicyView;
use super::words::Words;
use crate::daemon::clock;
use crate::forward::Limiter;
use crate::net::Moment;
use crate::obs::{Metrics, PolicyGauges};
use crate::policy::{Policies, RefusalEvent, RefusalQueue};
use crate::sync::Subscription;

/// From one look into the queue to the next.
const PAUSE: Duration = Duration::from_millis(250);

/// Lines a second on average, and at once.
const LINES: (u32, u32) = (10, 50);

/// What went unsaid is summed up this often.
const SUMMARY: Duration = Duration::from_secs(10);

/// Snapshots kept for the names in what was refused under them: a worker may be a few versions behind.
const KEPT: usize = 8;

/// Logs and counts until `end`.
pub(super) async fn tell(
    queue: Arc<RefusalQueue>,
    views: Subscription<PolicyView>,
    metrics: Arc<Metrics>,
    end: CancellationToken,
) {
    let mut log = Log::new(views);
    let mut tick = tokio::time::interval(PAUSE);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => log.look(&queue, &metrics.policy, clock::now()),
            () = end.cancelled() => return,
        }
    }
}

/// What is said, and what no more.
struct Log {
    views: Subscription<PolicyView>,
    known: VecDeque<Arc<Policies>>,
    limiter: Limiter,
    unsaid: u64,
    summed_up: Moment,
}

impl Log {
    fn new(mut views: Subscription<PolicyView>) -> Self {
        let known = VecDeque::from([Arc::clone(&views.refresh().policies)]);
        Self { views, known, limiter: Limiter::new(LINES.0, LINES.1), unsaid: 0, summed_up: Moment::ZERO }
    }

    /// Empties the queue.
    fn look(&mut self, queue: &RefusalQueue, gauges: &PolicyGauges, now: Moment) {
        if let Some(view) = self.views.newer() {
            self.known.push_front(Arc::clone(&view.policies));
            self.known.truncate(KEPT);
        }
        while let Some(event) = queue.pop() {
            if event.opens {
                gauges.count_blocked(event.key.protocol, event.key.destination_port);
            }
            if self.limiter.admit(now) {
                self.say(&event);
            } else {
                self.unsaid += 1;
            }
        }
        let lost = queue.take_lost();
        gauges.refusals_lost.fetch_add(lost, Relaxed);
        self.unsaid += lost;
        if self.unsaid > 0 && now.since(self.summed_up) >= SUMMARY {
            tracing::warn!(flows = self.unsaid, "more flows refused than are shown one by one");
            (self.unsaid, self.summed_up) = (0, now);
        }
    }

    fn say(&self, event: &RefusalEvent) {
        let policies = self.known.iter().find(|policies| policies.version() == event.version);
        let Words { protocol, from, to, port, direction, by } = Words::of(event, policies.map(|policies| &**policies));
        tracing::warn!(protocol, from, to, port, direction, by, "flow refused");
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::Board;
    use super::super::board::tests::options;
    use super::super::options::UntilSynced;
    use super::*;
    use crate::net::{FlowKey, Protocol};
    use crate::policy::{Cause, Refused};

    fn at(seconds: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn what_is_too_much_is_summed_up_and_all_that_opens_is_counted() {
        let board = Board::new(&options(UntilSynced::Deny), Vec::new());
        let mut log = Log::new(board.subscribe());
        let (queue, metrics) = (RefusalQueue::new(200), Arc::<Metrics>::default());
        let gauges = &metrics.policy;
        let refused = Refused { egress: Some(Cause::Unsynced), ingress: None };
        let fill = |count: u16| {
            for port in 0..count {
                let key = FlowKey { source: 1, destination: 2, source_port: port, destination_port: 80, protocol: Protocol::TCP };
                queue.push(RefusalEvent { key, refused, version: 0, opens: port % 2 == 0 });
            }
        };
        fill(250);
        log.look(&queue, gauges, at(1));
        assert_eq!((log.unsaid, gauges.refusals_lost.load(Relaxed)), (200, 50));
        // Ten seconds after nothing was said: of these the bucket has room for fifty again.
        fill(60);
        log.look(&queue, gauges, at(20));
        assert_eq!((log.unsaid, log.summed_up), (0, at(20)));
        gauges.configured.store(true, Relaxed);
        let line = "weavenpc_blocked_connections_total{protocol=\"tcp\",dport=\"80\"} 130";
        assert!(metrics.exposition(Moment::ZERO).lines().any(|found| found == line));
    }
}
