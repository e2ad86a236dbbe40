//! The arena: its paths, raised and handed out.

use super::claim::Claim;
use super::stand::Stand;
use super::{ArenaPlan, vxlan, wire};
use crate::bench::{Absent, Ends, Ground, Host, Path, Underlay};
use crate::lab::{Interrupt, LabError, Progress};

/// Every path of a plan, standing until this value goes.
#[derive(Debug)]
pub struct Arena {
    plan: ArenaPlan,
    /// In the order they were asked for; what this machine cannot have is there with the reason.
    stands: Vec<(Path, Result<Stand, String>)>,
    /// Given back after the labs are gone: fields go in this order.
    claim: Claim,
}

impl Arena {
    /// Builds the paths of `plan`. Needs root, and nothing else that a machine with a TUN device has not.
    ///
    /// # Errors
    /// When another arena of this name stands, or a path that should be there could not be built. Whatever was built is taken
    /// down, also once `interrupt` is raised.
    pub fn raise(plan: ArenaPlan, progress: &mut dyn Progress, interrupt: &Interrupt) -> Result<Self, LabError> {
        let claim = Claim::take(&plan)?;
        let mut arena = Self { plan, stands: Vec::new(), claim };
        for path in arena.plan.paths.clone() {
            if arena.find(path).is_some() {
                continue;
            }
            let stand = match Stand::raise(&arena.plan, path, &mut Named { path, progress: &mut *progress }, interrupt) {
                Ok(stand) => Ok(stand),
                Err(Absent::Missing(reason)) => Err(reason),
                Err(Absent::Lab(error)) => return Err(error),
            };
            arena.stands.push((path, stand));
        }
        Ok(arena)
    }

    /// Takes it down now, and tells how that went.
    ///
    /// # Errors
    /// The first thing that resisted; the rest is removed all the same.
    pub fn down(self) -> Result<(), LabError> {
        let Self { stands, claim, .. } = self;
        let mut outcome = Ok(());
        for (_, stand) in stands {
            if let Ok(stand) = stand {
                outcome = outcome.and(stand.down());
            }
        }
        drop(claim);
        outcome
    }

    fn find(&self, path: Path) -> Option<&Result<Stand, String>> {
        self.stands.iter().find(|(known, _)| *known == path).map(|(_, stand)| stand)
    }
}

impl Ground for Arena {
    fn ends(&mut self, underlay: Underlay, path: Path) -> Result<Ends, Absent> {
        match self.find(path) {
            Some(Ok(stand)) => Ok(stand.ends(underlay)?),
            Some(Err(reason)) => Err(Absent::Missing(reason.clone())),
            None => Err(Absent::Missing("it was not asked for when the ground was built".to_owned())),
        }
    }

    fn host(&self) -> Host {
        let mut host = Host { mtu: self.plan.underlay_mtu, ..Host::of_this_machine() };
        let mut set = |name: String, value: String| drop(host.settings.insert(name, value));
        set("ends".to_owned(), self.plan.ends.describe().to_owned());
        for underlay in Underlay::ALL {
            set(underlay.to_string(), wire::describe(underlay).to_owned());
        }
        for (path, _) in self.stands.iter().filter(|(_, stand)| stand.is_ok()) {
            let value = match path {
                Path::Veth => continue,
                Path::Vxlan => vxlan::describe(),
                Path::Felt | Path::FeltPolicy | Path::FeltPlain => match self.plan.run_args(*path) {
                    args if args.is_empty() => "defaults".to_owned(),
                    args => args.join(" "),
                },
            };
            let policies = self.plan.policies;
            set(path.to_string(), if *path == Path::FeltPolicy { format!("{policies} policies, {value}") } else { value });
        }
        host
    }
}

/// Tells of a path's building with the path's name.
struct Named<'a> {
    path: Path,
    progress: &'a mut dyn Progress,
}

impl Progress for Named<'_> {
    fn step(&mut self, what: &str) {
        self.progress.step(&format!("{}: {what}", self.path));
    }
}
