//! The report as text for a terminal.

use comfy_table::{CellAlignment, Table, presets};

use super::figures::{figure, range, ratio};
use crate::bench::{Measure, Path, Report, Row, Underlay};

/// The whole report: a table for each underlay, then what it was measured on, then notes.
#[must_use]
pub fn table(report: &Report) -> String {
    let underlays = report.present(&Underlay::ALL, |row| row.underlay).into_iter();
    let tables = underlays.map(|underlay| format!("{underlay}: {}\n\n{}", underlay.describe(), of_underlay(report, underlay)));
    tables.chain(cost_of_policy(report)).chain([legend(report)]).collect::<Vec<_>>().join("\n\n")
}

fn of_underlay(report: &Report, underlay: Underlay) -> String {
    let paths = report.present(&Path::ALL, |row| row.path);
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let titles = ["MEASURE", "UNIT"].map(str::to_owned).into_iter();
    table.set_header(titles.chain(paths.iter().map(|path| path.as_str().to_uppercase())));
    for measure in report.present(&Measure::ALL, |row| row.measure) {
        let rows: Vec<_> = paths.iter().map(|path| report.row(underlay, *path, measure)).collect();
        if rows.iter().all(Option::is_none) {
            continue;
        }
        let names = [measure.describe().to_owned(), measure.unit().to_owned()].into_iter();
        table.add_row(names.chain(rows.into_iter().map(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
        if column.index >= 2 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// The median and its ratio, and below, what the rounds lay between.
fn cell(row: Option<&Row>) -> String {
    let Some(row) = row else { return "-".to_owned() };
    let ratio = row.ratio_to_vxlan.map(|value| format!("  {}", ratio(value))).unwrap_or_default();
    format!("{}{ratio}\n{}", figure(row.median), range(row.min, row.max))
}

/// What policy costs: each figure's ratio to that of the same nodes without policy.
fn cost_of_policy(report: &Report) -> Option<String> {
    let ratios = report.results.iter().filter_map(|row| Some((row, row.ratio_to_felt?)));
    let lines: Vec<_> =
        ratios.map(|(row, value)| format!("{:8}{:27}{:>6}", row.underlay, row.measure.describe(), ratio(value))).collect();
    (!lines.is_empty()).then(|| format!("{} : {}\n\n{}", Path::FeltPolicy, Path::Felt, lines.join("\n")))
}

fn legend(report: &Report) -> String {
    let runs = report.results.iter().map(|row| row.runs);
    let (least, most) = (runs.clone().min().unwrap_or_default(), runs.max().unwrap_or_default());
    let runs = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let host = &report.host;
    let mut lines = vec![
        format!("Medians of {runs} interleaved runs; × is the ratio to kernel vxlan; below, least and most of the runs."),
        host.in_a_line(),
        host.settings_in_a_line(),
    ];
    if host.stolen_percent >= 1.0 {
        lines.push(format!("the hypervisor took {} % of the time away", host.stolen_percent));
    }
    lines.extend(host.notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::show::sample::report;

    #[test]
    fn the_table_is_this() {
        insta::assert_snapshot!(table(&report()), @r"
        super: underlay keeps super-packets whole (veth's default)

        MEASURE                  UNIT               VETH          VXLAN           FELT   FELT-POLICY     FELT-PLAIN
        TCP, 1 stream            Gb/s        25.3  1.45×    17.5  1.00×    14.2  0.81×   14.0  0.80×   0.97  0.055×
                                               24.0–26.1      16.9–18.2      13.9–14.6     13.8–14.5      0.95–0.98
        UDP 64 B, loss ≤ 0.5 %   packets/s             -   175 k  1.00×   457 k  2.61×             -              -
                                                            171 k–182 k    420 k–470 k
        round trip p50           us                    -    68.0  1.00×     111  1.63×    112  1.65×              -
                                                              64.0–71.0        103–128       104–126
        CPU per GB, machine      s/GB                  -    0.78  1.00×    1.10  1.41×             -              -
                                                              0.75–0.80      1.00–1.20

        single: underlay carries single segments (veth's offloads off)

        MEASURE         UNIT   VETH   VXLAN        FELT   FELT-POLICY   FELT-PLAIN
        TCP, 1 stream   Gb/s      -       -        10.1             -            -
                                              9.80–10.4

        felt-policy : felt

        super   TCP, 1 stream               0.99×
        super   round trip p50              1.01×

        Medians of 3 interleaved runs; × is the ratio to kernel vxlan; below, least and most of the runs.
        felt 0.1.0 · Linux 6.18.44 · 2 × Some(R) CPU & Co. <2.0GHz> · 8.0 GiB · TCP cubic · underlay MTU 1500 · 2026-03-01T12:00:00Z
        rounds 3, interleaved · tcp 1s after 250ms, 128 KiB a call
        note: single vxlan is left out: the kernel has no vxlan
        ");
    }

    #[test]
    fn much_stolen_time_is_told() {
        let mut report = report();
        report.host.stolen_percent = 12.3;
        assert!(table(&report).contains("the hypervisor took 12.3 % of the time away"));
    }
}
