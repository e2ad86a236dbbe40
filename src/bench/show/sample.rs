//! A report to try the views on.

use crate::bench::Path::{Felt, FeltPlain, FeltPolicy, Veth, Vxlan};
use crate::bench::Underlay::{Single, Super};
use crate::bench::{Host, Measure, Report, Row, SCHEMA};

/// Figures of about the right size, some of them missing.
pub(in crate::bench) fn report() -> Report {
    let row = |underlay, path, measure: Measure, (median, min, max): (f64, f64, f64), ratio_to_vxlan| Row {
        underlay,
        path,
        measure,
        unit: measure.unit(),
        median,
        min,
        max,
        runs: 3,
        ratio_to_vxlan,
        ratio_to_felt: None,
    };
    let with_policy = |row, ratio_to_felt| Row { ratio_to_felt: Some(ratio_to_felt), ..row };
    let results = vec![
        row(Super, Veth, Measure::Tcp1, (25.3, 24.0, 26.1), Some(1.45)),
        row(Super, Vxlan, Measure::Tcp1, (17.5, 16.9, 18.2), Some(1.0)),
        row(Super, Felt, Measure::Tcp1, (14.2, 13.9, 14.6), Some(0.811)),
        with_policy(row(Super, FeltPolicy, Measure::Tcp1, (14.0, 13.8, 14.5), Some(0.8)), 0.986),
        row(Super, FeltPlain, Measure::Tcp1, (0.97, 0.95, 0.98), Some(0.0554)),
        row(Super, Vxlan, Measure::Udp64, (175_000.0, 171_000.0, 182_000.0), Some(1.0)),
        row(Super, Felt, Measure::Udp64, (457_000.0, 420_000.0, 470_000.0), Some(2.61)),
        row(Super, Vxlan, Measure::RttP50, (68.0, 64.0, 71.0), Some(1.0)),
        row(Super, Felt, Measure::RttP50, (111.0, 103.0, 128.0), Some(1.63)),
        with_policy(row(Super, FeltPolicy, Measure::RttP50, (112.0, 104.0, 126.0), Some(1.65)), 1.01),
        row(Super, Vxlan, Measure::Cpu, (0.78, 0.75, 0.8), Some(1.0)),
        row(Super, Felt, Measure::Cpu, (1.1, 1.0, 1.2), Some(1.41)),
        // Over the second underlay there was no vxlan.
        row(Single, Felt, Measure::Tcp1, (10.1, 9.8, 10.4), None),
    ];
    Report { schema: SCHEMA, host: host(), results, failed: 0 }
}

fn host() -> Host {
    let settings = [("rounds", "3, interleaved"), ("tcp", "1s after 250ms, 128 KiB a call")];
    Host {
        kernel: "6.18.44".into(),
        cpu: "Some(R) CPU & Co. <2.0GHz>".into(),
        cpus: 2,
        memory_bytes: 8 << 30,
        felt: "0.1.0".into(),
        congestion_control: "cubic".into(),
        mtu: 1500,
        date: "2026-03-01T12:00:00Z".into(),
        stolen_percent: 0.4,
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        notes: vec!["single vxlan is left out: the kernel has no vxlan".into()],
    }
}
