//! What was typed, what it means, and what is printed. The only room that prints.
//!
//! The way of a command: `go_flags` and `environment` bring flannel's spelling into clap's, `parse` gives typed [`args`],
//! `options` says what they mean, and one file per subcommand does it. A [`Failure`] carries the exit code:
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | Felt itself failed |
//! | 2 | what was typed, or put into a variable, makes no sense |
//! | 3 | the registry cannot be reached |
//! | 4 | not permitted: by the system or by the registry |
//! | 5 | a check was answered "no" |
//!
//! Results go to standard output, for people by default and for programs with `--json`; logs and errors go to standard error.

pub mod args;
pub mod logging;

mod bench;
mod bench_args;
mod bench_progress;
mod cleanup;
mod config;
mod dispatch;
mod docker_opts;
mod environment;
mod failure;
mod flannel_flags;
mod fold;
mod go_flags;
mod go_values;
mod host_args;
mod kube_args;
mod lab;
mod lab_args;
mod lab_table;
mod lease;
mod lease_args;
mod meaning;
mod options;
mod output;
mod parse;
mod policy;
mod policy_args;
mod policy_options;
mod registry_args;
mod run;
mod serve;
mod static_args;
mod store;

pub use dispatch::dispatch;
pub use failure::Failure;
pub use parse::parse;
