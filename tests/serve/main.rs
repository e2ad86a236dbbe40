//! The registry server and its client over real sockets on loopback, with the embedded store and with etcd underneath.

mod api;
#[path = "../support/etcd.rs"]
mod etcd;
mod flanneld;
mod over_etcd;
mod remote;
mod shutdown;
mod store;
mod support;
#[path = "../sys_support/mod.rs"]
mod sys_support;
mod tls;
