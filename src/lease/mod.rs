//! Leases as the rules know them: which node holds which subnet, how one is acquired, kept, lost and acquired again.
//!
//! Everything here is pure. Registries (in `control`) store and watch; time and events come in as arguments.

pub mod allocation;
mod attrs;
mod backend;
mod config;
mod json;
mod keeper;
mod key;
mod network;
mod table;
mod update;
mod view;

pub use attrs::{AttrsError, LeaseAttrs, RawJson, check_public_ip};
pub use backend::{Backend, DEFAULT_UDP_PORT, MIN_UNDERLAY_MTU};
pub use config::{ConfigError, NetworkConfig};
pub use keeper::{ACQUIRE_PAUSE, ACQUIRE_PAUSE_MAX, Action, Keeper, KeeperSettings, RENEW_PAUSE, RENEW_PAUSE_MAX};
pub use key::{KeyError, SubnetKey};
pub use network::SubnetRange;
pub use table::{LeaseTable, Lookup, MAX_SLOT_BITS, TableReader};
pub use update::{Change, Lease, LeaseEvent, Update};
pub use view::{LeaseView, LeaseWarning, OwnNews, Route, ViewChange};
