//! `felt lease`: the leases of a registry by hand, one file per subcommand. Any registry will do that a node can use.
//!
//! `changes` compares what a watch says with what was known before; `shown` is how a lease looks to people and programs.

mod changes;
mod list;
mod reserve;
mod revoke;
mod shown;
mod watch;

use super::lease_args::LeaseCommand;
use super::{Failure, options};

/// Does what was asked for.
pub fn lease(command: LeaseCommand) -> Result<(), Failure> {
    match command {
        LeaseCommand::List(args) => list::list(args.json, options::target(*args.registry)?),
        LeaseCommand::Watch(args) => watch::watch(args.json, options::target(*args.registry)?),
        LeaseCommand::Reserve { subnet, public_ip, registry } => reserve::reserve(subnet, public_ip, options::target(*registry)?),
        LeaseCommand::Unreserve(args) => reserve::unreserve(args.subnet, options::target(*args.registry)?),
        LeaseCommand::Revoke(args) => revoke::revoke(args.subnet, options::target(*args.registry)?),
    }
}
