//! The report as a chart to paste into a document: grouped bars with whiskers, a column for each underlay.
//!
//! Self-contained: no script, no style sheet, no font but what a viewer has. All bars begin at zero. Each plot has a scale
//! of its own, since the two underlays differ by an order of magnitude: compare lengths within a plot, numbers across.

use std::fmt::{self, Write as _};

use super::figures::{figure, range, ratio};
use crate::bench::{Measure, Path, Report, Row, Underlay};

/// Measures of one unit that share a scale.
struct Panel {
    title: &'static str,
    measures: &'static [(Measure, &'static str)],
}

const PANELS: [Panel; 5] = [
    Panel {
        title: "TCP throughput, Gb/s (more is better)",
        measures: &[(Measure::Tcp1, "1 stream"), (Measure::Tcp4, "4 streams"), (Measure::Tcp1Reverse, "1 stream, reverse")],
    },
    Panel {
        title: "UDP delivered at ≤ 0.5 % loss, packets/s (more is better)",
        measures: &[(Measure::Udp64, "64 bytes"), (Measure::Udp1400, "1400 bytes")],
    },
    Panel {
        title: "Round trip, median, µs (less is better)",
        measures: &[(Measure::RttP50, "back to back"), (Measure::RttIdleP50, "1 ms apart")],
    },
    // On a scale of its own: on a busy machine the slowest take a hundred times as long.
    Panel {
        title: "Round trip, 99th percentile, µs (less is better)",
        measures: &[(Measure::RttP99, "back to back"), (Measure::RttIdleP99, "1 ms apart")],
    },
    Panel {
        title: "CPU seconds per gigabyte, 1 TCP stream (less is better)",
        measures: &[(Measure::Cpu, "whole machine"), (Measure::CpuDaemons, "daemons only")],
    },
];

const WIDTH: f64 = 1120.0;
const MARGIN: f64 = 24.0;
/// Room for the scale's numbers.
const AXIS: f64 = 46.0;
const GAP: f64 = 28.0;
const PLOT_HEIGHT: f64 = 150.0;
/// From one panel's top to the next: title, plot, group names.
const PANEL_HEIGHT: f64 = PLOT_HEIGHT + 74.0;
const HEADER_HEIGHT: f64 = 96.0;
const LINE_HEIGHT: f64 = 16.0;
/// Characters of a line of small text that fit the width.
const LINE_CHARS: usize = 165;
/// The part of a group's width that its bars take.
const FILLED: f64 = 0.86;

/// The whole report as an SVG document.
#[must_use]
pub fn svg(report: &Report) -> String {
    let panels: Vec<_> = PANELS.iter().filter(|panel| values(report, panel).next().is_some()).collect();
    let underlays = report.present(&Underlay::ALL, |row| row.underlay);
    let notes = small_print(report);
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let (panels_height, notes_height) = (panels.len() as f64 * PANEL_HEIGHT, notes.len() as f64 * LINE_HEIGHT);
    let height = HEADER_HEIGHT + panels_height + notes_height + MARGIN;
    let mut svg = Svg::new(WIDTH, height);
    svg.text(MARGIN, 34.0, 20.0, "start", "700", "Felt beside kernel vxlan and plain veth");
    legend(&mut svg, report);

    #[expect(clippy::cast_precision_loss, reason = "one or two")]
    let columns = underlays.len().max(1) as f64;
    let column_width = (WIDTH - 2.0 * MARGIN - (columns - 1.0) * GAP) / columns;
    let mut left = MARGIN;
    for underlay in underlays {
        svg.text(left, 88.0, 13.0, "start", "700", underlay.describe());
        let mut top = HEADER_HEIGHT;
        for panel in &panels {
            let area = Area { left: left + AXIS, top: top + 34.0, width: column_width - AXIS, height: PLOT_HEIGHT };
            svg.text(left, top + 18.0, 12.0, "start", "400", panel.title);
            plot(&mut svg, report, underlay, panel, &area);
            top += PANEL_HEIGHT;
        }
        left += column_width + GAP;
    }
    let mut line_at = HEADER_HEIGHT + panels_height + LINE_HEIGHT;
    for line in notes {
        svg.text(MARGIN, line_at, 11.0, "start", "400", &line);
        line_at += LINE_HEIGHT;
    }
    svg.end()
}

struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

fn values<'a>(report: &'a Report, panel: &'a Panel) -> impl Iterator<Item = &'a Row> {
    report.results.iter().filter(|row| panel.measures.iter().any(|(measure, _)| *measure == row.measure))
}

fn legend(svg: &mut Svg, report: &Report) {
    let mut left = MARGIN;
    for path in report.present(&Path::ALL, |row| row.path) {
        svg.rect((left, 52.0, 12.0, 12.0), colour(path), None);
        svg.text(left + 18.0, 62.0, 12.0, "start", "400", path.describe());
        left += 150.0;
    }
    svg.text(WIDTH - MARGIN, 34.0, 11.0, "end", "400", "bars: median · whiskers: least and most · ×: ratio to kernel vxlan");
}

/// What each path is painted in: told apart also by those who see few colours, and in print.
fn colour(path: Path) -> &'static str {
    match path {
        Path::Veth => "#a9adb3",
        Path::Vxlan => "#3b6ea8",
        Path::Felt => "#d1602b",
        Path::FeltPolicy => "#8a3d14",
        Path::FeltPlain => "#f0b78f",
    }
}

fn plot(svg: &mut Svg, report: &Report, underlay: Underlay, panel: &Panel, area: &Area) {
    let most = values(report, panel).filter(|row| row.underlay == underlay).map(|row| row.max).fold(0.0, f64::max);
    let (step, top) = scale(most);
    let bottom = area.top + area.height;
    let at = |value: f64| bottom - value / top * area.height;
    let mut tick = 0.0;
    while tick <= top * 1.001 {
        svg.line((area.left, at(tick), area.left + area.width, at(tick)), if tick == 0.0 { "#555" } else { "#ddd" });
        svg.text(area.left - 6.0, at(tick) + 3.5, 10.0, "end", "400", &mark(tick));
        tick += step;
    }
    let measures: Vec<_> =
        panel.measures.iter().filter(|(measure, _)| values(report, panel).any(|row| row.measure == *measure)).collect();
    let paths = report.present(&Path::ALL, |row| row.path);
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let (group, bars) = (area.width / measures.len().max(1) as f64, paths.len().max(1) as f64);
    let bar = (group * FILLED / bars).min(44.0);
    let mut middle = area.left + group / 2.0;
    for (measure, name) in measures {
        svg.text(middle, bottom + 16.0, 11.0, "middle", "400", name);
        let mut left = middle - bar * bars / 2.0;
        for path in &paths {
            if let Some(row) = report.row(underlay, *path, *measure) {
                draw_bar(svg, row, (left, bar * 0.9), at);
            }
            left += bar;
        }
        middle += group;
    }
}

fn draw_bar(svg: &mut Svg, row: &Row, (left, width): (f64, f64), at: impl Fn(f64) -> f64) {
    let middle = left + width / 2.0;
    let ratio = row.ratio_to_vxlan.map(|value| format!(", {} kernel vxlan", ratio(value))).unwrap_or_default();
    let (value, spread) = (figure(row.median), range(row.min, row.max));
    let told = format!("{}, {}: {value} {} ({spread}, {} runs){ratio}", row.path, row.measure, row.unit, row.runs);
    svg.rect((left, at(row.median), width, at(0.0) - at(row.median)), colour(row.path), Some(&told));
    if row.max > row.min {
        svg.line((middle, at(row.max), middle, at(row.min)), "#222");
        for end in [row.max, row.min] {
            svg.line((middle - 3.0, at(end), middle + 3.0, at(end)), "#222");
        }
    }
    let above = at(row.max) - 4.0;
    svg.text(middle, above, 9.0, "middle", "600", &value);
    if let Some(ratio) = row.ratio_to_vxlan.filter(|_| row.path != Path::Vxlan).map(super::figures::ratio) {
        svg.text(middle, above - 10.0, 9.0, "middle", "400", &ratio);
    }
}

/// The distance of marks and the end of a scale that holds `most` and its labels.
fn scale(most: f64) -> (f64, f64) {
    if most <= 0.0 {
        return (1.0, 1.0);
    }
    // Room above the longest bar for two lines of text.
    let top = most * 1.2;
    let raw = top / 4.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= raw).unwrap_or(raw);
    (step, (top / step).ceil() * step)
}

/// A round number of the scale, without needless digits.
fn mark(value: f64) -> String {
    let short = |value: f64| format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned();
    match value {
        value if value >= 1e6 => format!("{} M", short(value / 1e6)),
        value if value >= 1e4 => format!("{} k", short(value / 1e3)),
        value => short(value),
    }
}

fn small_print(report: &Report) -> Vec<String> {
    let host = &report.host;
    let mut lines = wrapped(&host.in_a_line(), " · ");
    lines.extend(wrapped(&host.settings_in_a_line(), " · "));
    lines.extend(host.notes.iter().flat_map(|note| wrapped(&format!("note: {note}"), " ")));
    lines
}

/// Breaks a text at `between` where it is too long for the picture.
fn wrapped(text: &str, between: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split(between) {
        match lines.last_mut() {
            Some(line) if [line.as_str(), between, part].iter().map(|text| text.chars().count()).sum::<usize>() <= LINE_CHARS => {
                line.push_str(between);
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

/// A document under construction. Text is escaped here and nowhere else.
struct Svg(String);

impl Svg {
    fn new(width: f64, height: f64) -> Self {
        let mut svg = Self(String::new());
        svg.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} \
             {height:.0}\" role=\"img\" font-family=\"system-ui, Segoe UI, Helvetica, Arial, sans-serif\" fill=\"#222\">\n\
             <title>felt bench</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        ));
        svg
    }

    fn rect(&mut self, (x, y, width, height): (f64, f64, f64, f64), fill: &str, told: Option<&str>) {
        self.put(format_args!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\">"));
        if let Some(told) = told {
            self.put(format_args!("<title>{}</title>", escaped(told)));
        }
        self.put(format_args!("</rect>\n"));
    }

    fn line(&mut self, (x1, y1, x2, y2): (f64, f64, f64, f64), stroke: &str) {
        self.put(format_args!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\"/>\n"));
    }

    fn text(&mut self, x: f64, y: f64, size: f64, anchor: &str, weight: &str, text: &str) {
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{}</text>\n",
            escaped(text)
        ));
    }

    fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        // A string takes whatever comes.
        let _ = self.0.write_fmt(text);
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::show::sample::report;

    #[test]
    fn every_figure_has_its_bar() {
        let report = report();
        let picture = svg(&report);
        assert_eq!(picture.matches("</title></rect>").count(), report.results.len());
        for part in [
            "felt, tcp1: 14.2 Gb/s (13.9–14.6, 3 runs), 0.81× kernel vxlan",
            "Linux 6.18.44",
            "Some(R) CPU &amp; Co. &lt;2.0GHz&gt;",
            "TCP cubic",
            "2026-03-01T12:00:00Z",
            "note: single vxlan is left out",
            "rounds 3, interleaved",
            "Gb/s (more is better)",
            "median, µs (less is better)",
            "kernel vxlan",
        ] {
            assert!(picture.contains(part), "{part}");
        }
        // Nothing of a panel nobody measured.
        let mut report = report.clone();
        report.results.retain(|row| row.measure == Measure::Tcp1);
        assert!(!svg(&report).contains("Round trip"));
    }

    #[test]
    fn it_is_well_formed() {
        let picture = svg(&report());
        let mut open: Vec<&str> = Vec::new();
        for tag in picture.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').unwrap();
            let name = tag.trim_start_matches('/').split(' ').next().unwrap();
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) => assert_eq!(open.pop(), Some(name)),
                (false, false) => open.push(name),
                (false, true) => {}
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            let entities = ["&amp;", "&lt;", "&gt;", "&quot;"].iter().map(|entity| text.matches(entity).count()).sum::<usize>();
            assert_eq!(text.matches('&').count(), entities, "{text}");
        }
        assert!(open.is_empty(), "{open:?}");
        assert!(!picture.contains("NaN") && !picture.contains("inf"));
    }

    #[test]
    #[allow(clippy::float_cmp, reason = "round numbers")]
    fn scales_are_round_and_leave_room() {
        assert_eq!(scale(26.1), (10.0, 40.0));
        assert_eq!(scale(470_000.0), (200_000.0, 600_000.0));
        assert_eq!(scale(0.0), (1.0, 1.0));
        for most in [0.003, 0.7, 1.0, 9.0, 123.0, 4.2e6] {
            let (step, top) = scale(most);
            assert!(top >= most * 1.2 && (2.0..=5.0).contains(&(top / step).round()), "{most}: {step} {top}");
        }
        assert_eq!([0.0, 2.5, 15_000.0, 1.5e6].map(mark), ["0", "2.5", "15 k", "1.5 M"]);
    }

    #[test]
    fn long_lines_are_broken_between_parts() {
        let lines = wrapped(&vec!["some words"; 40].join(" · "), " · ");
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= LINE_CHARS && !line.starts_with(' ')));
        assert_eq!(lines.join(" · "), vec!["some words"; 40].join(" · "));
    }
}
