//! Masquerading: by which program, and whether its rules are as they should be.

use std::net::Ipv4Addr;

use super::ground::{Names, RuleSet};
use super::iptables::Iptables;
use super::{iptables_text, nft};
use crate::net::Prefix4;
use crate::sys::program::ProgramError;

/// What rules speak of that only find out what is possible: an address for documentation (RFC 5737).
const NOBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Masquerading is impossible here.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each field is named by its message")]
pub enum MasqueradeError {
    /// No program.
    #[error("neither `nft` nor `iptables` is found in PATH: install one (Debian: nftables)")]
    NoProgram,
    /// No right.
    #[error(
        "not permitted to change netfilter's rules ({0}): CAP_NET_ADMIN is needed in this network namespace; grant it \
         (`--cap-add NET_ADMIN`, or `AmbientCapabilities=CAP_NET_ADMIN` in a systemd unit)"
    )]
    NotPermitted(ProgramError),
    /// No kernel support.
    #[error(
        "this kernel, or what is installed to use it, cannot masquerade ({nft}; {iptables}): use a kernel with \
         CONFIG_NF_TABLES and CONFIG_NFT_MASQ, or CONFIG_IP_NF_NAT and CONFIG_IP_NF_TARGET_MASQUERADE"
    )]
    NoKernel { nft: ProgramError, iptables: ProgramError },
    /// The device's name would end a word of a rule, or mean several devices.
    #[error(
        "expected a device name of letters, digits and `-_.@` for rules that name it, found `{0}`: choose another --tun-name"
    )]
    DeviceName(String),
}

/// How masquerading is done.
#[derive(Debug)]
pub struct Masquerade {
    names: Names,
    tool: Tool,
    random: bool,
    /// How the rules were listed just after they were put there.
    listed: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Tool {
    Nft,
    Iptables(Iptables),
}

impl Masquerade {
    /// Finds out how it can be done, changing nothing: by nft, or else by iptables; with ports at random if `random` and the kernel
    /// can. `through` is the name, or template, of a TUN that all traffic of local pods passes twice.
    ///
    /// # Errors
    /// When it cannot be done.
    pub fn find(names: &Names, random: bool, through: Option<&str>) -> Result<Self, MasqueradeError> {
        if let Some(name) = through.filter(|name| !is_plain(name)) {
            return Err(MasqueradeError::DeviceName(name.to_owned()));
        }
        let rules = probe(through);
        let found = |tool, random| Self { names: names.clone(), tool, random, listed: None };
        let nft = match by_randomness(random, |random| nft::check(names, &rules, random)) {
            Ok(random) => return Ok(found(Tool::Nft, random)),
            Err(error) => denied(error)?,
        };
        let mut refusal = None;
        for iptables in [Iptables::USUAL, Iptables::LEGACY] {
            let check = |random| iptables.check(&iptables_text::masquerade(names, &rules, random));
            match by_randomness(random, check) {
                Ok(random) => {
                    tracing::info!("masquerading by iptables: {nft}");
                    return Ok(found(Tool::Iptables(iptables), random));
                }
                Err(error) if error.is_missing() => refusal = refusal.or(Some(error)),
                Err(error) => refusal = Some(denied(error)?),
            }
        }
        match refusal {
            Some(iptables) if !(nft.is_missing() && iptables.is_missing()) => Err(MasqueradeError::NoKernel { nft, iptables }),
            _ => Err(MasqueradeError::NoProgram),
        }
    }

    /// Puts the rules there instead of former ones.
    ///
    /// # Errors
    /// When the program fails. By nft nothing is changed then, and by iptables no table in part.
    pub fn put(&mut self, rules: &RuleSet) -> Result<(), ProgramError> {
        self.listed = None;
        self.listed = match self.tool {
            Tool::Nft => nft::replace(&self.names, rules, self.random)?,
            Tool::Iptables(iptables) => iptables.put(&iptables_text::masquerade(&self.names, rules, self.random))?,
        };
        Ok(())
    }

    /// Whether the rules are still as [`put`](Self::put) left them.
    #[must_use]
    pub fn is_there(&self, rules: &RuleSet) -> bool {
        let now = match self.tool {
            Tool::Nft => nft::list(&self.names),
            Tool::Iptables(iptables) => iptables.told(&iptables_text::masquerade(&self.names, rules, self.random)),
        };
        // Not listed is not there, for all that is known; what is wrong will be seen when they are put there.
        now.ok().is_some_and(|now| self.listed.as_ref() == Some(&now))
    }
}

/// With ports at random if that is wanted and can be had; whether it is so.
fn by_randomness(wanted: bool, check: impl Fn(bool) -> Result<(), ProgramError>) -> Result<bool, ProgramError> {
    match check(wanted) {
        Ok(()) => Ok(wanted),
        Err(ProgramError::Failed { .. }) if wanted && check(false).is_ok() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whoever is not permitted would not be by another program either.
fn denied(error: ProgramError) -> Result<ProgramError, MasqueradeError> {
    if error.is_permission() { Err(MasqueradeError::NotPermitted(error)) } else { Ok(error) }
}

fn probe(through: Option<&str>) -> RuleSet {
    let nobody = Prefix4::host(NOBODY);
    RuleSet { network: nobody, subnet: nobody, through: through.map(|name| name.replace("%d", "0")) }
}

/// Whether a name stands for itself in a rule.
fn is_plain(name: &str) -> bool {
    name.replacen("%d", "", 1).bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_in_a_rule_are_refused() {
        assert!(is_plain("flannel%d") && is_plain("felt-0.1_a@b"));
        for name in ["a\"b", "fla*", "a;b", "a{", "a\\", "ä"] {
            let error = Masquerade::find(&Names::of("/x".as_ref()), true, Some(name)).unwrap_err();
            assert!(matches!(error, MasqueradeError::DeviceName(found) if found == name));
        }
    }

    #[test]
    fn randomness_is_done_without_where_it_cannot_be_had() {
        let failed = || ProgramError::Failed { program: "nft".to_owned(), said: "no".to_owned() };
        let old = |random| if random { Err(failed()) } else { Ok(()) };
        assert!(!by_randomness(true, old).unwrap() && !by_randomness(false, old).unwrap());
        assert!(by_randomness(true, |_| Ok(())).unwrap() && by_randomness(true, |_| Err(failed())).is_err());
    }
}
