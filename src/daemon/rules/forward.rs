//! Accepting overlay traffic in the `FORWARD` chains of iptables, which Docker for one makes drop by default.

use super::ground::{Names, RuleSet};
use super::iptables::{Iptables, Kind};
use super::iptables_text;
use crate::sys::netfilter;
use crate::sys::netlink::NetlinkError;
use crate::sys::program::ProgramError;

const FILTER: &str = "filter";
const FORWARD: &str = "FORWARD";

/// Overlay traffic is not accepted where the host may drop it.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// No program.
    #[error(
        "the FORWARD chain of iptables ({kind}) may drop overlay traffic and accepting it there is impossible: {source}; \
         install iptables, or accept the overlay network there yourself and say --iptables-forward-rules=false",
        kind = kind.as_str()
    )]
    Program {
        /// Whose chain.
        kind: Kind,
        /// Why.
        source: ProgramError,
    },
    /// It cannot be seen what the kernel has.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

/// What is accepted where.
#[derive(Debug)]
pub struct Forward {
    names: Names,
    /// How the rules of each kind were listed just after they were put there.
    listed: Vec<(Kind, String)>,
}

impl Forward {
    /// Nothing yet.
    #[must_use]
    pub fn new(names: Names) -> Self {
        Self { names, listed: Vec::new() }
    }

    /// Whether there is a program by which to accept, that can do so. Nothing is changed.
    ///
    /// # Errors
    /// The most telling reason why not.
    pub fn check() -> Result<(), ProgramError> {
        let of_kind = |kind| Iptables::of(kind)?.save(FILTER);
        match of_kind(Kind::NfTables) {
            Ok(_) => Ok(()),
            Err(error) => match of_kind(Kind::Legacy) {
                Ok(_) => Ok(()),
                Err(other) if error.is_missing() => Err(other),
                Err(_) => Err(error),
            },
        }
    }

    /// Sees to it that every `FORWARD` chain there is accepts; whether anything that had been there was missing.
    ///
    /// # Errors
    /// Where that is impossible. What can be done is done nevertheless.
    pub fn look(&mut self, rules: &RuleSet) -> Result<bool, ForwardError> {
        let (mut repaired, mut trouble) = (false, None);
        for kind in present()? {
            match self.accept(kind, rules) {
                Ok(changed) => repaired |= changed,
                Err(source) => trouble = trouble.or(Some(ForwardError::Program { kind, source })),
            }
        }
        trouble.map_or(Ok(repaired), Err)
    }

    /// Takes rules of a former network for none of ours.
    pub fn forget(&mut self) {
        self.listed.clear();
    }

    fn accept(&mut self, kind: Kind, rules: &RuleSet) -> Result<bool, ProgramError> {
        let chain = [iptables_text::forward(&self.names, rules)];
        let iptables = Iptables::of(kind)?;
        let former = self.listed.iter().position(|(listed, _)| *listed == kind).map(|at| self.listed.swap_remove(at).1);
        let now = iptables.told(&chain)?;
        let changed = former.as_ref() != Some(&now);
        let now = if changed { iptables.put(&chain)? } else { Some(now) };
        self.listed.extend(now.map(|now| (kind, now)));
        Ok(changed && former.is_some())
    }
}

/// Which kinds of iptables have a `FORWARD` chain here.
fn present() -> Result<Vec<Kind>, NetlinkError> {
    let mut kinds = Vec::new();
    if netfilter::chains()?.iter().any(|chain| chain.table == FILTER && chain.name == FORWARD) {
        kinds.push(Kind::NfTables);
    }
    if netfilter::legacy_tables().iter().any(|table| table == FILTER) {
        kinds.push(Kind::Legacy);
    }
    Ok(kinds)
}
