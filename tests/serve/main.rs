//! The registry server and its client over real sockets on loopback, with the embedded store and with etcd underneath.

mod api;
#[path = "../support/etcd.rs"]
mod etcd;
mod flanneld;
#[path = "../support/logs.rs"]
mod logs;
mod over_etcd;
mod policies;
#[path = "../support/proxy.rs"]
mod proxy;
mod remote;
mod shutdown;
mod store;
mod support;
#[path = "../sys_support/mod.rs"]
mod sys_support;
mod tls;
