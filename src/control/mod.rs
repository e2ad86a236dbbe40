//! Adapters to the outside: where leases are stored and watched, and the server that offers them to other nodes.

pub mod registry;
pub mod server;
pub mod tls;
pub mod v1;
