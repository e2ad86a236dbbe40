//! How control and workers talk without sharing a lock: snapshots go down through [`Publisher`] and [`Subscription`],
//! counts come up through [`Counter`].

mod counter;
mod publish;
mod retired;

pub use counter::Counter;
pub use publish::{Publisher, Subscription};
pub use retired::Retired;
