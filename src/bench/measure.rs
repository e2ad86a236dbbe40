//! What is measured, in which unit, and which run of which generator yields it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::path::find;

/// A figure of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// TCP payload, one stream, client to server.
    Tcp1,
    /// TCP payload, four streams, client to server, all together.
    Tcp4,
    /// TCP payload, one stream, server to client.
    Tcp1Reverse,
    /// Datagrams of 64 bytes delivered at the highest rate that loses 0.5 % at most.
    Udp64,
    /// The same with 1400 bytes.
    Udp1400,
    /// Round trip, median: 64 bytes to and fro, the next request as soon as the answer is there, no other load.
    RttP50,
    /// The same, 99th percentile.
    RttP99,
    /// Round trip, median, with a pause of 1 ms before each request, in which processors fall asleep.
    RttIdleP50,
    /// The same, 99th percentile.
    RttIdleP99,
    /// Processor time of the whole machine, load generators included, while one TCP stream moves a gigabyte.
    Cpu,
    /// Of that, what the path's own processes took; none where it has none.
    CpuDaemons,
}

/// A run of a load generator. One run may yield several measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Job {
    /// TCP in bulk.
    Tcp {
        /// Connections side by side.
        streams: usize,
        /// The server sends.
        reverse: bool,
    },
    /// The search for the highest rate of datagrams.
    Udp {
        /// Bytes of payload of each.
        payload_bytes: usize,
    },
    /// Ping-pong.
    RoundTrip {
        /// With a pause before each request.
        idle: bool,
    },
}

impl Measure {
    /// All, in the order they are shown in.
    pub const ALL: [Self; 11] = [
        Self::Tcp1,
        Self::Tcp4,
        Self::Tcp1Reverse,
        Self::Udp64,
        Self::Udp1400,
        Self::RttP50,
        Self::RttP99,
        Self::RttIdleP50,
        Self::RttIdleP99,
        Self::Cpu,
        Self::CpuDaemons,
    ];

    /// Its name in files and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp1 => "tcp1",
            Self::Tcp4 => "tcp4",
            Self::Tcp1Reverse => "tcp1r",
            Self::Udp64 => "udp64",
            Self::Udp1400 => "udp1400",
            Self::RttP50 => "rtt_p50",
            Self::RttP99 => "rtt_p99",
            Self::RttIdleP50 => "rtt_idle_p50",
            Self::RttIdleP99 => "rtt_idle_p99",
            Self::Cpu => "cpu_s_per_gb",
            Self::CpuDaemons => "cpu_s_per_gb_daemons",
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Tcp1 => "TCP, 1 stream",
            Self::Tcp4 => "TCP, 4 streams",
            Self::Tcp1Reverse => "TCP, 1 stream, reverse",
            Self::Udp64 => "UDP 64 B, loss ≤ 0.5 %",
            Self::Udp1400 => "UDP 1400 B, loss ≤ 0.5 %",
            Self::RttP50 => "round trip p50",
            Self::RttP99 => "round trip p99",
            Self::RttIdleP50 => "round trip p50, 1 ms apart",
            Self::RttIdleP99 => "round trip p99, 1 ms apart",
            Self::Cpu => "CPU per GB, machine",
            Self::CpuDaemons => "CPU per GB, daemons",
        }
    }

    /// The unit its values are in.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Tcp1 | Self::Tcp4 | Self::Tcp1Reverse => "Gb/s",
            Self::Udp64 | Self::Udp1400 => "packets/s",
            Self::RttP50 | Self::RttP99 | Self::RttIdleP50 | Self::RttIdleP99 => "us",
            Self::Cpu | Self::CpuDaemons => "s/GB",
        }
    }

    /// The run that yields it.
    #[must_use]
    pub fn job(self) -> Job {
        match self {
            Self::Tcp1 | Self::Cpu | Self::CpuDaemons => Job::Tcp { streams: 1, reverse: false },
            Self::Tcp4 => Job::Tcp { streams: 4, reverse: false },
            Self::Tcp1Reverse => Job::Tcp { streams: 1, reverse: true },
            Self::Udp64 => Job::Udp { payload_bytes: 64 },
            Self::Udp1400 => Job::Udp { payload_bytes: 1400 },
            Self::RttP50 | Self::RttP99 => Job::RoundTrip { idle: false },
            Self::RttIdleP50 | Self::RttIdleP99 => Job::RoundTrip { idle: true },
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { streams, reverse } => {
                let (plural, way) = (if *streams == 1 { "" } else { "s" }, if *reverse { ", reverse" } else { "" });
                write!(f, "TCP {streams} stream{plural}{way}")
            }
            Self::Udp { payload_bytes } => write!(f, "UDP {payload_bytes} B"),
            Self::RoundTrip { idle } => f.write_str(if *idle { "round trip, 1 ms apart" } else { "round trip" }),
        }
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        find(text, &Self::ALL, |measure| measure.as_str())
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Whether more of what this unit counts is better.
#[must_use]
pub(super) fn more_is_better(unit: &str) -> bool {
    unit.ends_with("/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_name() {
        for measure in Measure::ALL {
            assert_eq!(measure.as_str().parse(), Ok(measure));
        }
        assert!("tcp2".parse::<Measure>().unwrap_err().contains("tcp1, tcp4"));
    }

    #[test]
    fn throughput_is_good_and_time_is_not() {
        let good: Vec<_> = Measure::ALL.into_iter().filter(|measure| more_is_better(measure.unit())).collect();
        assert_eq!(good, [Measure::Tcp1, Measure::Tcp4, Measure::Tcp1Reverse, Measure::Udp64, Measure::Udp1400]);
    }
}
