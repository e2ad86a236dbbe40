//! A lab that does not outlive its owner.

use std::ops::Deref;

use super::teardown::Removed;
use super::{Interrupt, Lab, LabError, LabPlan, Progress, build, requirements};

/// A lab that is taken down when this value goes, also while a panic unwinds. For tests, benchmarks and the demo.
#[derive(Debug)]
pub struct EphemeralLab(Option<Lab>);

impl EphemeralLab {
    /// Builds a lab. See [`Lab::up`].
    ///
    /// # Errors
    /// See [`Lab::up`].
    pub fn up(plan: LabPlan, progress: &mut dyn Progress, interrupt: &Interrupt) -> Result<Self, LabError> {
        plan.check()?;
        requirements::check(&plan)?;
        // From here on an early return takes down what there is.
        let guard = Self(Some(Lab::begin(plan)?));
        match build::build(&guard, progress, interrupt) {
            Ok(()) => Ok(guard),
            Err(error) => {
                guard.down()?;
                Err(error)
            }
        }
    }

    /// Takes it down now, and tells how that went.
    ///
    /// # Errors
    /// See [`super::down`].
    pub fn down(mut self) -> Result<Removed, LabError> {
        self.0.take().map_or_else(|| Ok(Removed::default()), Lab::down)
    }

    /// Lets it stand.
    #[must_use]
    pub fn keep(mut self) -> Lab {
        // Only `down` and this take the lab out, and both consume the guard.
        self.0.take().unwrap_or_else(|| unreachable!("the guard holds a lab as long as it lives"))
    }
}

impl Deref for EphemeralLab {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        self.0.as_ref().unwrap_or_else(|| unreachable!("the guard holds a lab as long as it lives"))
    }
}

impl Drop for EphemeralLab {
    fn drop(&mut self) {
        if let Some(lab) = self.0.take()
            && let Err(error) = lab.down()
        {
            tracing::error!("{error}");
        }
    }
}
