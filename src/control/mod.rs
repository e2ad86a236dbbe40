//! Adapters to the outside: where leases are stored and watched, the server that offers them to other nodes, and where policy
//! objects come from.

mod contact;
pub mod kube;
pub mod registry;
pub mod server;
mod settling;
pub mod source;
pub mod tls;
pub mod v1;
