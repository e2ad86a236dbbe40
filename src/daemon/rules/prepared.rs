//! Whether what is asked for is possible on this host, found out before a lease is taken or anything touched.

use std::path::Path;

use super::forward::Forward;
use super::ground::Names;
use super::masquerade::{Masquerade, MasqueradeError};
use super::options::{ForwardRules, HostRulesOptions};
use crate::sys::program::ProgramError;

/// What was asked for by a flag cannot be done here. Nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// Masquerading.
    #[error("--ip-masq cannot be done here: {0}; or leave the flag out")]
    Masquerade(#[from] MasqueradeError),
    /// Accepting.
    #[error(
        "--iptables-forward-rules cannot be done here: {0}; install iptables and use a kernel that has it, or leave the flag out: \
         without netfilter nothing is dropped"
    )]
    Forward(ProgramError),
}

/// What can be done, and by which means.
#[derive(Debug)]
pub struct Prepared {
    pub(super) options: HostRulesOptions,
    pub(super) names: Names,
    pub(super) masquerade: Option<Masquerade>,
    pub(super) forward: Option<Forward>,
}

impl RulesError {
    /// Whether the kernel does not let us.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Masquerade(error) => matches!(error, MasqueradeError::NotPermitted(_)),
            Self::Forward(error) => error.is_permission(),
        }
    }
}

impl Prepared {
    /// Finds the means for a daemon with this subnet file; `None` if nothing is asked for. `through` is the name, or template,
    /// of the TUN if all traffic of local pods passes it twice.
    ///
    /// # Errors
    /// When a flag asks for what cannot be done.
    pub fn find(options: HostRulesOptions, subnet_file: &Path, through: Option<&str>) -> Result<Option<Self>, RulesError> {
        if !options.is_any() {
            return Ok(None);
        }
        let names = Names::of(subnet_file);
        let masquerade = options.ip_masq.then(|| Masquerade::find(&names, options.fully_random, through)).transpose()?;
        if options.forward == ForwardRules::Demanded {
            Forward::check().map_err(RulesError::Forward)?;
        }
        let forward = (options.forward != ForwardRules::Off).then(|| Forward::new(names.clone()));
        Ok(Some(Self { options, names, masquerade, forward }))
    }
}
