//! Families of metrics, written one by one.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

pub(super) fn counters<'a>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    samples: impl IntoIterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, count) in samples {
        ConstCounter::new(count).encode(family.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}

pub(super) fn gauges_of<'a>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    samples: impl IntoIterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (value, number) in samples {
        ConstGauge::new(number).encode(family.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}

pub(super) fn counter(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, count: u64) -> fmt::Result {
    ConstCounter::new(count).encode(to.encode_descriptor(name, help, None, MetricType::Counter)?)
}

pub(super) fn gauge(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstGauge::new(value).encode(to.encode_descriptor(name, help, None, MetricType::Gauge)?)
}
