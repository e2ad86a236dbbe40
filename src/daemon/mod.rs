//! One node, running: start-up, the control loop, the workers, shutdown.
//!
//! | file | what |
//! |---|---|
//! | `run` | from start to end |
//! | `options`, `registry` | what a node is asked to be, and the registry it uses |
//! | `interface`, `machine_id` | which host this is: its underlay, its identity |
//! | `node`, `calls`, `news` | the control loop, registry calls beside it, and what it makes of what it hears |
//! | `holding`, `upkeep`, `reconfigure` | what it does under a lease, as the host changes, as the config changes |
//! | `overlay`, `paths` | one network config and everything that hangs on it; ways to peers that are too narrow for it |
//! | `bearer`, `device` | the TUN device and the sockets |
//! | `scope` | rules and routes by which all traffic of local pods goes through the device, if it is to |
//! | `rules` | what is done on the host beside the tunnel, if asked for: masquerading and the like |
//! | `workers`, `worker`, `tuning` | the threads that move packets |
//! | `policy` | where policy comes from, and what the workers judge by |
//! | `subnet_env`, `docker_opts`, `whole_file` | the file container runtimes read, what Docker makes of it, and how files are put there |
//! | `cleanup` | what daemons have left on a host, removed |
//! | `clock`, `complaint`, `signals` | time, repeated trouble, the end |

mod bearer;
mod calls;
pub mod cleanup;
mod clock;
mod complaint;
pub mod device;
pub mod docker_opts;
mod holding;
pub mod interface;
mod machine_id;
mod news;
mod node;
mod offloads;
mod options;
mod overlay;
mod paths;
pub mod policy;
mod reconfigure;
mod registry;
pub mod rules;
mod run;
pub mod scope;
mod signals;
mod spin;
pub mod subnet_env;
pub mod tuning;
pub mod turn;
mod upkeep;
pub mod whole_file;
mod worker;
mod workers;

pub use crate::forward::SourceCheck;
pub use bearer::BearerError;
pub use options::{Offloads, RegistryChoice, RemoteChoice, RunOptions};
pub use overlay::OverlayError;
pub use registry::{RegistryChoiceError, open_registry};
pub use run::{RunError, run};
pub use signals::stop_on_signals;
