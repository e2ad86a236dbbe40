//! What a worker counts, and the sum over all workers that a scrape reads.

use super::DropReason;
use crate::sync::Counter;

/// One set of counts; `T` is [`Counter`] for a worker and `u64` for a sum. Bytes are those of inner packets.
#[derive(Debug, Default)]
pub struct Tally<T> {
    /// Packets the underlay socket took.
    pub egress_packets: T,
    /// Their bytes.
    pub egress_bytes: T,
    /// Batches read from the TUN that were not empty.
    pub egress_batches: T,
    /// Super-packets read from the TUN, each counted as several packets above.
    pub egress_supers: T,
    /// Trains of several datagrams the underlay socket took in one piece.
    pub egress_trains: T,
    /// Packets the TUN took.
    pub ingress_packets: T,
    /// Bytes of the packets handed to the TUN; the few it refuses (`tun_refused`) are not taken off.
    pub ingress_bytes: T,
    /// Batches received from the underlay that were not empty.
    pub ingress_batches: T,
    /// Super-packets handed to the TUN, each counted as several packets above.
    pub ingress_supers: T,
    /// Trains of several datagrams that came from the underlay in one piece.
    pub ingress_trains: T,
    /// ICMP errors the TUN took.
    pub icmp_sent: T,
    /// ICMP errors that were due but not sent: above the rate limit, no free slot, or refused by the TUN.
    pub icmp_suppressed: T,
    /// Datagrams the kernel dropped because the socket's receive buffer was full; the worker's loop counts these.
    pub receive_overflows: T,
    /// Times the worker was woken up; the worker's loop counts these.
    pub wakeups: T,
    /// Packets written back to the TUN after policy let them pass, for the host to deliver.
    pub sent_back: T,
    /// Times policy was asked about a flow and allowed it.
    pub flows_allowed: T,
    /// Times it refused one.
    pub flows_refused: T,
    /// Live flows that gave way to new ones because their part of the flow table was full.
    pub flows_displaced: T,
    /// Flows that were allowed without being remembered.
    pub flows_unrecorded: T,
    drops: [T; DropReason::COUNT],
}

/// The counts of one worker, alone on its cache lines so that workers do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters(Tally<Counter>);

impl std::ops::Deref for Counters {
    type Target = Tally<Counter>;

    fn deref(&self) -> &Tally<Counter> {
        &self.0
    }
}

/// The counts of all workers, read at about one moment.
pub type Totals = Tally<u64>;

impl Tally<Counter> {
    /// Counts `packets` dropped for `reason`. To be called by the owning worker only.
    #[inline]
    pub fn count_drop(&self, reason: DropReason, packets: u64) {
        if let Some(counter) = self.drops.get(reason as usize) {
            counter.add(packets);
        }
    }
}

impl Totals {
    /// The sum over `workers`.
    #[must_use]
    pub fn of<'a>(workers: impl IntoIterator<Item = &'a Counters>) -> Self {
        let mut sum = Self::default();
        for worker in workers {
            sum.egress_packets += worker.egress_packets.value();
            sum.egress_bytes += worker.egress_bytes.value();
            sum.egress_batches += worker.egress_batches.value();
            sum.egress_supers += worker.egress_supers.value();
            sum.egress_trains += worker.egress_trains.value();
            sum.ingress_packets += worker.ingress_packets.value();
            sum.ingress_bytes += worker.ingress_bytes.value();
            sum.ingress_batches += worker.ingress_batches.value();
            sum.ingress_supers += worker.ingress_supers.value();
            sum.ingress_trains += worker.ingress_trains.value();
            sum.icmp_sent += worker.icmp_sent.value();
            sum.icmp_suppressed += worker.icmp_suppressed.value();
            sum.receive_overflows += worker.receive_overflows.value();
            sum.wakeups += worker.wakeups.value();
            sum.sent_back += worker.sent_back.value();
            sum.flows_allowed += worker.flows_allowed.value();
            sum.flows_refused += worker.flows_refused.value();
            sum.flows_displaced += worker.flows_displaced.value();
            sum.flows_unrecorded += worker.flows_unrecorded.value();
            for (total, counter) in sum.drops.iter_mut().zip(&worker.drops) {
                *total += counter.value();
            }
        }
        sum
    }

    /// Packets dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops.get(reason as usize).copied().unwrap_or_default()
    }

    /// Every reason with its count, zeros too.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().copied().zip(self.drops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_over_workers() {
        let workers = [Counters::default(), Counters::default()];
        for (worker, n) in workers.iter().zip(1..) {
            let fields = [
                &worker.egress_packets,
                &worker.egress_bytes,
                &worker.egress_batches,
                &worker.ingress_packets,
                &worker.ingress_bytes,
                &worker.ingress_batches,
                &worker.icmp_sent,
                &worker.icmp_suppressed,
                &worker.receive_overflows,
                &worker.wakeups,
                &worker.egress_supers,
                &worker.egress_trains,
                &worker.ingress_supers,
                &worker.ingress_trains,
                &worker.sent_back,
                &worker.flows_allowed,
                &worker.flows_refused,
                &worker.flows_displaced,
                &worker.flows_unrecorded,
            ];
            for (field, weight) in fields.into_iter().zip(1..) {
                field.add(n * weight);
            }
            worker.count_drop(DropReason::Shut, n);
            worker.count_drop(DropReason::TunRefused, 10 * n);
        }
        let sum = Totals::of(&workers);
        assert_eq!((sum.egress_packets, sum.egress_bytes, sum.egress_batches), (3, 6, 9));
        assert_eq!((sum.ingress_packets, sum.ingress_bytes, sum.ingress_batches), (12, 15, 18));
        assert_eq!((sum.icmp_sent, sum.icmp_suppressed, sum.receive_overflows, sum.wakeups), (21, 24, 27, 30));
        assert_eq!((sum.egress_supers, sum.egress_trains), (33, 36));
        assert_eq!((sum.ingress_supers, sum.ingress_trains), (39, 42));
        assert_eq!((sum.sent_back, sum.flows_allowed, sum.flows_refused), (45, 48, 51));
        assert_eq!((sum.flows_displaced, sum.flows_unrecorded), (54, 57));
        assert_eq!((sum.dropped(DropReason::Shut), sum.dropped(DropReason::TunRefused)), (3, 30));
        assert_eq!(sum.drops().map(|(_, count)| count).sum::<u64>(), 33);
    }

    #[test]
    fn workers_share_no_cache_line() {
        assert!(align_of::<Counters>() >= 128 && size_of::<Counters>().is_multiple_of(128));
    }
}
