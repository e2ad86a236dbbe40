//! Processor time of the machine and of processes, from `/proc`.

use std::fs;
use std::io;
use std::time::Duration;

/// The kernel's unit of processor time towards programs (`USER_HZ`), the same on every architecture Felt is built for.
const TICK: Duration = Duration::from_millis(10);

/// Processor time spent since some moment of the past; subtract two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// All processors together, neither idle nor waiting for a disk.
    pub busy: Duration,
    /// What the hypervisor gave to others while we had work.
    pub stolen: Duration,
    /// The given processes, all their threads.
    pub processes: Duration,
}

impl CpuTime {
    /// Now, with the processes `pids` together. One that is gone counts nothing.
    ///
    /// # Errors
    /// When `/proc` does not say.
    pub fn now(pids: &[u32]) -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let (busy, stolen) =
            machine_ticks(&stat).ok_or_else(|| io::Error::other("expected a line `cpu` in /proc/stat, found none to read"))?;
        let of_process = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| ticks_of(&stat));
        let processes: u64 = pids.iter().filter_map(of_process).sum();
        Ok(Self { busy: time(busy), stolen: time(stolen), processes: time(processes) })
    }

    /// What was spent since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            processes: self.processes.saturating_sub(earlier.processes),
        }
    }
}

fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(TICK.as_millis().try_into().unwrap_or(10)))
}

/// Busy and stolen ticks, from the text of `/proc/stat`. What guests used is part of `user` already.
fn machine_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    let &[user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = fields.as_slice() else { return None };
    Some((user + nice + system + irq + softirq, steal))
}

/// User and system ticks of a process, from the text of `/proc/PID/stat`.
#[must_use]
pub fn ticks_of(stat: &str) -> Option<u64> {
    // The name, second field, may hold anything, blanks and brackets included.
    let (_, rest) = stat.rsplit_once(')')?;
    // Field 3, the state, is the first of the rest; utime and stime are 14 and 15.
    let mut fields = rest.split_whitespace().skip(14 - 3);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_is_not_busy_and_steal_is_apart() {
        let stat = "cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 9 9 9 9 9 9 9 9 9 9\n";
        assert_eq!(machine_ticks(stat), Some((31, 32)));
        assert_eq!(machine_ticks("cpu  1 2 3\n"), None);
        assert_eq!(machine_ticks(""), None);
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 150 250 7 9 20 0 1 0 12345 1000 100";
        assert_eq!(ticks_of(stat), Some(400));
        assert_eq!(ticks_of("42 (x) S 1"), None);
    }

    #[test]
    fn work_is_seen() {
        let own = [std::process::id()];
        let before = CpuTime::now(&own).unwrap();
        let mut sum = 0u64;
        let mut spent = CpuTime::default();
        while spent.processes < 3 * TICK {
            sum = std::hint::black_box((0..1_000_000u64).fold(sum, |sum, x| sum ^ x.wrapping_mul(sum | 1)));
            spent = CpuTime::now(&own).unwrap().since(before);
        }
        assert!(spent.busy > Duration::ZERO, "{spent:?}");
        assert_eq!(CpuTime::now(&[u32::MAX]).unwrap().processes, Duration::ZERO);
    }
}
