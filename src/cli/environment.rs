//! Flags from the environment: `FLANNELD_*` for the flags flannel has, `FELT_*` for those only Felt has.
//!
//! A variable counts only where its flag was not typed; an empty one is no variable. A repeatable flag gets exactly one element.
//! Source: flannel. Unlike flannel, which logs an unreadable value and starts without it, Felt refuses to start: a node that
//! ignores what it was told is worse than one that says why it does not run.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{Arg, Command};

use super::args::OWN;
use super::go_flags::Typed;

/// Flags never read from the environment: the first two as in flannel, the others because they say what to do this time.
const TYPED_ONLY: [&str; 4] = ["version", "help", "file", "namespace"];

/// What the environment adds to a command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FromEnvironment {
    /// The flags, in clap's spelling.
    pub words: Vec<OsString>,
    /// Which variable each flag came from, by the flag's name.
    pub variables: BTreeMap<String, String>,
}

/// The flags of `command` that were not typed but have a variable.
pub fn read(command: &Command, typed: &Typed, lookup: impl Fn(&str) -> Option<OsString>) -> FromEnvironment {
    let mut found = FromEnvironment::default();
    for flag in command.get_arguments().filter(|flag| flag.get_action().takes_values()) {
        let Some(name) = flag.get_long().filter(|name| !TYPED_ONLY.contains(name) && !typed.given.contains(*name)) else {
            continue;
        };
        let variable = variable(flag, name);
        if let Some(value) = lookup(&variable).filter(|value| !value.is_empty()) {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            found.words.push(word);
            found.variables.insert(name.to_owned(), variable);
        }
    }
    found
}

/// The variable of a flag.
fn variable(flag: &Arg, name: &str) -> String {
    let prefix = if flag.get_help_heading() == Some(OWN) { "FELT_" } else { "FLANNELD_" };
    format!("{prefix}{}", name.to_ascii_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        Command::new("run")
            .arg(Arg::new("iface").long("iface").action(clap::ArgAction::Append))
            .arg(Arg::new("log_dir").long("log_dir"))
            .arg(Arg::new("version").long("version").num_args(0..=1))
            .arg(Arg::new("workers").long("workers").help_heading(OWN))
            .arg(Arg::new("json").long("json").action(clap::ArgAction::SetTrue))
    }

    fn words(typed: &Typed, variables: &[(&str, &str)]) -> Vec<OsString> {
        let lookup = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into());
        read(&command(), typed, lookup).words
    }

    #[test]
    fn variables_fill_what_was_not_typed() {
        let variables = [
            ("FLANNELD_IFACE", "eth0,eth1"),
            ("FLANNELD_LOG_DIR", "/tmp"),
            ("FELT_WORKERS", "2"),
            ("FLANNELD_WORKERS", "9"),
            ("FELT_IFACE", "eth9"),
        ];
        assert_eq!(words(&Typed::default(), &variables), ["--iface=eth0,eth1", "--log_dir=/tmp", "--workers=2"]);
        let typed = Typed { given: ["iface".to_owned()].into(), ..Typed::default() };
        assert_eq!(words(&typed, &variables), ["--log_dir=/tmp", "--workers=2"]);
    }

    #[test]
    fn empty_variables_and_typed_only_flags_do_not_count() {
        let variables = [("FLANNELD_IFACE", ""), ("FLANNELD_VERSION", "true"), ("FLANNELD_JSON", "true")];
        assert!(words(&Typed::default(), &variables).is_empty());
    }
}
