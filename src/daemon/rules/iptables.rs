//! The programs of iptables, which come in two kinds: for nf_tables, and for the older ip_tables.

use super::iptables_text::{OwnChain, concerning, empty, fill, is_whole};
use super::steady::steady;
use crate::sys::program::{self, ProgramError};

/// Seconds to wait for another iptables to finish.
const PATIENCE: &str = "5";

/// What is behind it in the kernel. A packet meets both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nf_tables.
    NfTables,
    /// ip_tables, its predecessor.
    Legacy,
}

/// A set of programs, by what their names begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Iptables(&'static str);

impl Kind {
    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NfTables => "nf_tables",
            Self::Legacy => "ip_tables",
        }
    }
}

impl Iptables {
    /// Whatever this host calls iptables.
    pub(super) const USUAL: Self = Self("iptables");
    /// For ip_tables.
    pub(super) const LEGACY: Self = Self("iptables-legacy");
    /// For nf_tables.
    pub(super) const NF_TABLES: Self = Self("iptables-nft");

    /// The one for this kind.
    ///
    /// # Errors
    /// When none is installed.
    pub(super) fn of(kind: Kind) -> Result<Self, ProgramError> {
        let named = match kind {
            Kind::NfTables => Self::NF_TABLES,
            Kind::Legacy => Self::LEGACY,
        };
        let Err(missing) = program::run(named.0, &["--version"], "") else { return Ok(named) };
        match program::run(Self::USUAL.0, &["--version"], "") {
            // Versions before 1.8 know of the older kind only, and do not say so.
            Ok(version) if version.contains("nf_tables") == (kind == Kind::NfTables) => Ok(Self::USUAL),
            _ => Err(missing),
        }
    }

    /// Fills chains, each table in one step, and has them jumped to; what is told of them
    /// then, if that is [steady].
    pub(super) fn put(self, chains: &[OwnChain]) -> Result<Option<String>, ProgramError> {
        let put = || {
            for chain in chains {
                let saved = self.save(chain.table)?;
                self.restore(&[], &fill(chain, &saved))?;
            }
            self.told(chains)
        };
        steady(put, |told| is_whole(chains, told))
    }

    /// Whether the kernel would take them. Nothing is changed, but that ip_tables has the tables from now on.
    pub(super) fn check(self, chains: &[OwnChain]) -> Result<(), ProgramError> {
        chains.iter().try_for_each(|chain| self.restore(&["--test"], &fill(chain, "")))
    }

    /// What is told of chains and the jumps to them.
    pub(super) fn told(self, chains: &[OwnChain]) -> Result<String, ProgramError> {
        chains.iter().map(|chain| Ok(concerning(&self.save(chain.table)?, &chain.name))).collect()
    }

    /// Removes the chains of a table for whose names `is_ours` holds.
    pub(super) fn remove(self, table: &str, is_ours: impl Fn(&str) -> bool) -> Result<(), ProgramError> {
        let input = empty(table, &self.save(table)?, is_ours);
        if input.is_empty() { Ok(()) } else { self.restore(&[], &input) }
    }

    /// A table, as text.
    pub(super) fn save(self, table: &str) -> Result<String, ProgramError> {
        program::run(&format!("{}-save", self.0), &["-t", table], "")
    }

    fn restore(self, further: &[&str], input: &str) -> Result<(), ProgramError> {
        let arguments = [&["--noflush", "-w", PATIENCE], further].concat();
        program::run(&format!("{}-restore", self.0), &arguments, input).map(drop)
    }
}
