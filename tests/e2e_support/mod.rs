//! What end-to-end tests share: labs of real daemons, and ways to look at them from inside and outside.
#![allow(dead_code, unused_imports, reason = "each test binary uses its own part")]

mod acquainted;
mod daemon;
mod etcd;
mod http;
mod lab;
mod outsider;
mod packet;
mod pinning;
mod thread_stop;

pub use acquainted::acquainted;
pub use daemon::{Daemon, cpu_time};
pub use etcd::put;
pub use http::{Answer, Metrics, get, metrics, request, scrape};
pub use lab::{CONFIG, PATIENCE, eventually, fragments_made, lines, netlink, node, note, plan, pod, pod_address};
pub use lab::{receive_overflows, up};
pub use outsider::{Flannel, Outsider};
pub use packet::{Inner, RawIp, icmp_errors, sniffer, udp_in};
pub use pinning::pin_to_one_cpu;
pub use thread_stop::StoppedThread;
