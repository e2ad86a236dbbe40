//! Flags that some flannel has and Felt does not act on: accepted where their value is what Felt does anyway, refused by
//! name otherwise, never ignored.
//!
//! Source: the flags of flannel 0.5 to 0.28.

use clap::{Arg, ArgMatches};

use super::go_values;

/// A flag of flannel's that Felt does not act on.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// The flag's name, without dashes.
    pub name: &'static str,
    /// How its value reads.
    kind: Kind,
    /// The values that ask for what Felt does anyway, in their plain spelling.
    accepted: &'static [&'static str],
    /// Why any other value is refused, and what to do instead.
    refusal: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Boolean,
    Text,
}

use Kind::{Boolean, Text};

const NO_IPV6: &str = "the IPv6 overlay is not available yet; leave the flag out";
const NO_NETWORKS: &str = "several networks in one daemon are not available; run one `felt run` for each network, with its own \
                           --etcd-prefix, --subnet-file and --tun-name";
const NO_LOG_FILES: &str = "Felt logs to standard error only; leave the flag out and let the service manager keep the log";
const NO_GLOG: &str = "Felt has no per-file log levels; use --v, or the FELT_LOG variable, and leave the flag out";

/// The table.
pub const FOREIGN: &[Foreign] = &[
    foreign("public-ipv6", Text, &[""], NO_IPV6),
    // Read only in multi-network mode, so its default says nothing.
    foreign("subnet-dir", Text, &["", "/run/flannel/networks"], NO_NETWORKS),
    foreign("networks", Text, &[""], NO_NETWORKS),
    foreign("watch-networks", Boolean, &["false"], NO_NETWORKS),
    foreign("listen", Text, &[""], "the registry server is a command of its own; use `felt serve --listen ADDRESS`"),
    foreign("vmodule", Text, &[""], NO_GLOG),
    foreign("log_backtrace_at", Text, &["", ":0"], NO_GLOG),
    foreign("log_dir", Text, &[""], NO_LOG_FILES),
    foreign("logtostderr", Boolean, &["true"], NO_LOG_FILES),
    foreign("alsologtostderr", Boolean, &["true", "false"], NO_LOG_FILES),
    // With everything on standard error, a threshold for copying there changes nothing: the default is accepted too.
    foreign("stderrthreshold", Text, &["0", "INFO", "2", "ERROR"], NO_LOG_FILES),
];

const fn foreign(name: &'static str, kind: Kind, accepted: &'static [&'static str], refusal: &'static str) -> Foreign {
    Foreign { name, kind, accepted, refusal }
}

/// The flags as clap arguments, hidden from help.
pub fn arguments() -> impl Iterator<Item = Arg> {
    FOREIGN.iter().map(|flag| {
        let argument = Arg::new(flag.name).long(flag.name).hide(true).help_heading(None);
        match flag.kind {
            Boolean => argument
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_parser(|text: &str| go_values::boolean(text).map(|value| value.to_string())),
            Text => argument,
        }
    })
}

/// The first flag in `matches` whose value asks for what Felt does not do: the flag's name, the value, and what to do.
pub fn refused(matches: &ArgMatches) -> Option<(&'static str, String, &'static str)> {
    FOREIGN.iter().find_map(|flag| {
        let value = matches.get_one::<String>(flag.name)?;
        (!flag.accepted.contains(&value.as_str())).then(|| (flag.name, value.clone(), flag.refusal))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_values_are_in_plain_spelling() {
        for flag in FOREIGN {
            assert!(!flag.accepted.is_empty(), "{}", flag.name);
            for value in flag.accepted {
                match flag.kind {
                    Boolean => assert!(["true", "false"].contains(value), "{}", flag.name),
                    Text => {}
                }
            }
        }
    }

    #[test]
    fn what_is_advised_is_possible() {
        for flag in FOREIGN.iter().filter(|flag| flag.refusal.contains("say false")) {
            assert!(flag.kind == Boolean && flag.accepted.contains(&"false"), "{}", flag.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = FOREIGN.iter().map(|flag| flag.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FOREIGN.len());
    }
}
