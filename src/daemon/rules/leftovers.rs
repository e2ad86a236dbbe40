//! What is on this host of rules and routes that some daemon of ours has put there.

use std::fmt;

use super::ground::Names;
use super::iptables::{Iptables, Kind};
use super::{blackhole, iptables_text, nft};
use crate::sys::netfilter::{self, Chain};
use crate::sys::netlink::{Netlink, NetlinkError, Route};
use crate::sys::program::ProgramError;

/// The tables of iptables in which we may have chains.
const TABLES: [&str; 3] = ["raw", "nat", "filter"];

/// Something of ours.
#[derive(Clone, Debug)]
pub enum Leftover {
    /// A table of nf_tables.
    Table(String),
    /// Chains in a table of iptables.
    Chains {
        /// Of which kind.
        kind: Kind,
        /// The table.
        table: &'static str,
    },
    /// A blackhole for a subnet.
    Blackhole(Route),
}

/// It cannot be seen or removed.
#[derive(Debug, thiserror::Error)]
pub enum LeftoverError {
    /// By a program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// By the kernel.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl LeftoverError {
    /// Whether the kernel does not let us.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Program(error) => error.is_permission(),
            Self::Netlink(error) => matches!(error.errno(), Some(libc::EPERM | libc::EACCES)),
        }
    }
}

impl Leftover {
    /// Everything there is. No program is run where the kernel has nothing that it would be needed for.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn all(netlink: &Netlink) -> Result<Vec<Self>, LeftoverError> {
        let chains = netfilter::chains()?;
        let mut tables: Vec<&str> =
            chains.iter().map(|chain| chain.table.as_str()).filter(|name| Names::is_table(name)).collect();
        tables.dedup();
        let mut found: Vec<Self> = tables.into_iter().map(|name| Self::Table(name.to_owned())).collect();
        for table in TABLES {
            let has_ours = |chain: &Chain| chain.table == table && Names::is_chain(&chain.name);
            if chains.iter().any(has_ours) {
                found.push(Self::Chains { kind: Kind::NfTables, table });
            }
        }
        let legacy = netfilter::legacy_tables();
        for table in TABLES.into_iter().filter(|table| legacy.iter().any(|found| found == table)) {
            // Without the program that knows them there are none of ours.
            if let Ok(iptables) = Iptables::of(Kind::Legacy)
                && iptables_text::chains(&iptables.save(table)?).any(Names::is_chain)
            {
                found.push(Self::Chains { kind: Kind::Legacy, table });
            }
        }
        found.extend(blackhole::all(netlink)?.into_iter().map(Self::Blackhole));
        Ok(found)
    }

    /// Removes it.
    ///
    /// # Errors
    /// When that is refused, or the program for it is not installed.
    pub fn remove(&self, netlink: &Netlink) -> Result<(), LeftoverError> {
        match self {
            Self::Table(name) => nft::remove(name)?,
            Self::Chains { kind, table } => Iptables::of(*kind)?.remove(table, Names::is_chain)?,
            Self::Blackhole(route) => blackhole::gone(netlink.delete_route(route))?,
        }
        Ok(())
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name) => write!(f, "nft table ip {name}"),
            Self::Chains { kind, table } => write!(f, "chains in table {table} of iptables ({})", kind.as_str()),
            Self::Blackhole(route) => write!(f, "route blackhole {}", route.to),
        }
    }
}
