//! A registry offered to other nodes over HTTP: flannel's `--listen` API (0.6 and 0.7), so that flanneld's and our own
//! `--remote` clients can use any registry we have, embedded or etcd.
//!
//! One upstream watch feeds a log that every waiting client reads from: a thousand watchers cost the registry one watch. A
//! cursor is the registry's revision; one that the log no longer reaches gets a snapshot.
//!
//! Where flannel had faults the right thing is done, invisibly to its clients: raw backend data in renewals, handlers that end with their
//! client, removals told to a watcher that comes back late. Added for our own: `previous` and `node` on `POST leases`, the
//! `felt-error` header, and `PUT /v1/_/config`: only from the server's own machine (loopback) or with a client certificate, since
//! the config decides over the whole network. A proxy on the same machine makes everybody local: let it not pass `PUT` on.
//!
//! Policy objects have routes of our own: `GET /v1/_/policy` tells all of them and a cursor, with `?next=CURSOR` what has changed since,
//! as soon as something has, or once `&wait=SECONDS` are over, nothing; `POST /v1/_/policy` takes a list of puts and deletes
//! from whoever may set the config. A server that has no such routes answers 404. Here, too, one upstream watch feeds everybody;
//! watchers are told events, at most a thousand or a mebibyte at a time, and everything only at the start and after a gap.
//!
//! Only the unnamed network `_` is served.

mod answer;
mod connection;
mod handler;
mod journal;
mod leases;
mod listen;
mod policies;
mod route;
mod upstream;

pub use connection::Server;
pub use listen::{ListenAddress, ListenError};
