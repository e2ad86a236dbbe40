//! What was measured on: machine, kernel, settings. Part of every output, since figures mean nothing without it.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::thread;

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The machine, and how it was set up for the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Host {
    /// The kernel's release.
    pub kernel: String,
    /// The processors' name.
    pub cpu: String,
    /// How many of them this process may use.
    pub cpus: usize,
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
    /// Felt's version.
    pub felt: String,
    /// What TCP was measured with, as the kernel told. Filled in by the run.
    pub congestion_control: String,
    /// MTU of the underlay, in bytes.
    pub mtu: u32,
    /// When the measurement began, RFC 3339 in UTC.
    pub date: String,
    /// The share of the machine's time that a hypervisor took away during TCP runs, in percent. Filled in by the run.
    pub stolen_percent: f64,
    /// Settings of ground and run, by name.
    pub settings: BTreeMap<String, String>,
    /// What a reader should know: paths that are missing, runs that failed, rates that the sender bounded.
    pub notes: Vec<String>,
}

impl Host {
    /// This machine, now; what it does not tell is empty or 0. MTU and settings are the ground's to fill in.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let now = OffsetDateTime::now_utc().truncate_to_second();
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: cpu_model(&read("/proc/cpuinfo")),
            cpus: thread::available_parallelism().map_or(0, NonZero::get),
            memory_bytes: memory_bytes(&read("/proc/meminfo")).unwrap_or_default(),
            felt: env!("CARGO_PKG_VERSION").to_owned(),
            date: now.format(&Rfc3339).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// In one line, for people.
    #[must_use]
    pub fn in_a_line(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a size for people")]
        let gibibytes = self.memory_bytes as f64 / f64::from(1 << 30);
        let Self { kernel, cpu, cpus, felt, congestion_control, mtu, date, .. } = self;
        format!(
            "felt {felt} · Linux {kernel} · {cpus} × {cpu} · {gibibytes:.1} GiB · TCP {congestion_control} · underlay MTU {mtu} \
             · {date}"
        )
    }

    /// The settings in one line, for people.
    #[must_use]
    pub fn settings_in_a_line(&self) -> String {
        let settings = self.settings.iter().map(|(name, value)| format!("{name} {value}"));
        settings.collect::<Vec<_>>().join(" · ")
    }
}

/// From the text of `/proc/cpuinfo`. ARM's has no names.
fn cpu_model(cpuinfo: &str) -> String {
    let value = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
        Some(line.split_once(':')?.1.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    value("model name").or_else(|| value("Model")).or_else(|| value("CPU part")).unwrap_or_else(|| "unnamed CPU".to_owned())
}

/// From the text of `/proc/meminfo`.
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_understood() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some(R)  CPU @ 2.0GHz\n";
        assert_eq!(cpu_model(cpuinfo), "Some(R) CPU @ 2.0GHz");
        assert_eq!(cpu_model("processor : 0\nCPU part\t: 0xd0c\n"), "0xd0c");
        assert_eq!(cpu_model(""), "unnamed CPU");
        assert_eq!(memory_bytes("MemTotal:        8039724 kB\nMemFree: 1 kB\n"), Some(8_039_724 * 1024));
        assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn this_machine_has_something_of_everything() {
        let host = Host::of_this_machine();
        assert!(!host.kernel.is_empty() && !host.cpu.is_empty() && host.cpus > 0 && host.memory_bytes > 1 << 20, "{host:?}");
        assert!(OffsetDateTime::parse(&host.date, &Rfc3339).is_ok(), "{}", host.date);
    }
}
