//! A report as people see it: a table, a chart, or side by side with an older report. Pure: text out of figures.

mod compare;
mod figures;
mod svg;
mod table;

#[cfg(test)]
pub(super) mod sample;

pub use compare::{OldReport, OldReportError, compare};
pub use figures::figure;
pub use svg::svg;
pub use table::table;
