//! One arena of a name at a time, and none of what an earlier one may have left.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::ArenaPlan;
use crate::bench::Path;
use crate::lab::{self, LabError};

/// Held by whoever may have an arena of this name.
///
/// A bound name of the kernel's abstract namespace: it goes with the process, however that ends, and leaves no file.
#[derive(Debug)]
pub(super) struct Claim {
    _bound: UnixListener,
}

impl Claim {
    /// Takes the name, and removes what a process that was killed left behind under it.
    ///
    /// # Errors
    /// When another process has it, or something resists removal.
    pub(super) fn take(plan: &ArenaPlan) -> Result<Self, LabError> {
        let bound = SocketAddr::from_abstract_name(format!("felt-arena/{}", plan.name));
        let claim = match bound.and_then(|name| UnixListener::bind_addr(&name)) {
            Ok(listener) => Self { _bound: listener },
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let name = &plan.name;
                return Err(LabError::Probe(format!(
                    "a benchmark called `{name}` is under way on this machine, and two would spoil each other's figures; wait for \
                     it, or end it"
                )));
            }
            Err(reason) => return Err(LabError::Step { step: "claim this machine for a benchmark".to_owned(), reason }),
        };
        for path in Path::ALL {
            lab::down(&plan.lab_name(path)?)?;
        }
        Ok(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_once_at_a_time() {
        let plan = ArenaPlan { name: format!("claim-{}", std::process::id()), ..ArenaPlan::new("felt".into()) };
        let other = ArenaPlan { name: format!("claim-{}-b", std::process::id()), ..plan.clone() };
        let claim = Claim::take(&plan).unwrap();
        assert!(Claim::take(&plan).unwrap_err().to_string().contains("is under way"));
        assert!(Claim::take(&other).is_ok());
        drop(claim);
        assert!(Claim::take(&plan).is_ok());
    }
}
