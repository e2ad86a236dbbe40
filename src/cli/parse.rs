//! From the words typed and the environment to [`Cli`]: Go's spelling, variables, clap, and flannel's flags that Felt refuses.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

use super::args::Cli;
use super::environment::{self, FromEnvironment};
use super::go_flags::{self, Typed};
use super::{Failure, flannel_flags};

/// Subcommands that take flags as Go programs do.
const GO_STYLE: [&str; 2] = ["run", "serve"];

/// Subcommands whose flags have variables: those that are about a real network. A variable made for a node must not rename a lab.
const WITH_VARIABLES: [&str; 5] = ["run", "serve", "config", "lease", "policy"];

/// Understands a whole command line, the program's name first. `lookup` reads an environment variable.
///
/// # Errors
/// [`Failure::Typed`] and [`Failure::Usage`]; the former also for help that was asked for.
pub fn parse(words: impl IntoIterator<Item = OsString>, lookup: impl Fn(&str) -> Option<OsString>) -> Result<Cli, Failure> {
    let definition = definition();
    let words: Vec<OsString> = words.into_iter().collect();
    let (leaf, depth) = leaf(&definition, &words);
    let (names, flags) = words.split_at(depth);

    let typed = if GO_STYLE.contains(&leaf.get_name()) { go_flags::normalise(leaf, flags) } else { as_typed(leaf, flags) };
    // `--version` and `--help` are looked at before the environment, as in flannel.
    let has_variables = names.get(1).is_some_and(|name| WITH_VARIABLES.iter().any(|known| name == known));
    // What is asked of manifests alone is no matter of a node's variables either.
    let has_variables = has_variables && leaf.get_arguments().any(|flag| flag.get_id() == "etcd-endpoints");
    let is_read = has_variables && !asks_about_felt(&typed);
    let environment = if is_read { environment::read(leaf, &typed, lookup) } else { FromEnvironment::default() };

    let line = names.iter().chain(&environment.words).chain(&typed.words);
    let matches = definition.clone().try_get_matches_from(line).map_err(|error| blame(error, &environment))?;
    if let Some(("run", matches)) = matches.subcommand() {
        refuse(matches, &environment)?;
    }
    Ok(Cli::from_arg_matches(&matches)?)
}

/// The whole command line, flannel's foreign flags included.
fn definition() -> Command {
    Cli::command().mut_subcommand("run", |run| run.args(flannel_flags::arguments()))
}

/// The subcommand that `words` name, and how many words that takes, the program's name included.
fn leaf<'a>(definition: &'a Command, words: &[OsString]) -> (&'a Command, usize) {
    let mut at = definition;
    let mut depth = 1.min(words.len());
    for word in words.iter().skip(1) {
        let Some(next) = word.to_str().and_then(|name| at.find_subcommand(name)) else { break };
        at = next;
        depth += 1;
    }
    (at, depth)
}

/// Words that clap reads as they stand.
fn as_typed(leaf: &Command, words: &[OsString]) -> Typed {
    let flags = words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str()?.strip_prefix("--"));
    let names = flags.map(|flag| flag.split_once('=').map_or(flag, |(name, _)| name));
    let known = names.filter(|name| leaf.get_arguments().any(|flag| flag.get_long() == Some(name)));
    Typed { given: known.map(str::to_owned).collect(), words: words.to_vec() }
}

fn asks_about_felt(typed: &Typed) -> bool {
    typed.given.contains("version") || typed.words.iter().any(|word| word == "--help" || word == "-h")
}

/// Names the variable a bad value came from, since nobody typed the flag that clap names.
fn blame(error: clap::Error, environment: &FromEnvironment) -> Failure {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let bad_value = matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue);
    // clap's name of a flag: `--healthz-port <PORT>`.
    let flag = text(ContextKind::InvalidArg).and_then(|flag| flag.strip_prefix("--")?.split([' ', '=', '[']).next());
    match flag.and_then(|flag| environment.variables.get(flag)) {
        Some(variable) if bad_value => {
            let value = text(ContextKind::InvalidValue).unwrap_or_default();
            let reason = match (error.source(), error.get(ContextKind::ValidValue)) {
                (Some(reason), _) => reason.to_string(),
                (None, Some(ContextValue::Strings(values))) => format!("expected one of {}", values.join(", ")),
                (None, _) => "this value is not possible".to_owned(),
            };
            Failure::Usage(format!("invalid value '{value}' for the environment variable {variable}: {reason}"))
        }
        _ => Failure::Typed(error),
    }
}

/// Refuses what flannel would do and Felt does not.
fn refuse(run: &ArgMatches, environment: &FromEnvironment) -> Result<(), Failure> {
    let asks_for_version = run.get_one::<bool>("version").copied().unwrap_or_default();
    match flannel_flags::refused(run) {
        Some((name, value, refusal)) if !asks_for_version => {
            let flag = environment.variables.get(name).cloned().unwrap_or_else(|| format!("--{name}"));
            Err(Failure::Usage(format!("{flag}={value} cannot be done: {refusal}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::{Command, ConfigCommand, RunArgs};
    use super::*;

    fn parse_line(line: &str, variables: &[(&str, &str)]) -> Result<Cli, Failure> {
        let words = line.split(' ').map(OsString::from);
        parse(words, |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into()))
    }

    fn run(line: &str, variables: &[(&str, &str)]) -> Box<RunArgs> {
        match parse_line(line, variables).unwrap().command {
            Command::Run(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_wins_over_the_environment() {
        let variables = [("FLANNELD_IFACE", "eth1,eth2"), ("FLANNELD_HEALTHZ_PORT", "0x50"), ("FLANNELD_PUBLIC_IP", "10.0.0.9")];
        let args = run("felt run -iface a --iface=b -public-ip=", &variables);
        assert_eq!((args.iface.as_slice(), args.healthz_port, args.public_ip), (&["a".into(), "b".into()][..], 80, None));
        let args = run("felt run", &variables);
        assert_eq!((args.iface.as_slice(), args.public_ip), (&["eth1,eth2".into()][..], Some([10, 0, 0, 9].into())));
    }

    #[test]
    fn offloads_are_switched_off_by_variables_too() {
        let args =
            run("felt run", &[("FELT_NO_TUN_OFFLOAD", "true"), ("FELT_NO_UDP_GRO", "1"), ("FELT_BATCH", "8")]).own.offloads;
        assert_eq!((args.no_tun_offload, args.no_udp_gso, args.no_udp_gro, args.batch), (true, false, true, 8));
        assert!(!run("felt run -no-udp-gso=false", &[("FELT_NO_UDP_GSO", "true")]).own.offloads.no_udp_gso);
    }

    #[test]
    fn the_last_of_a_repeated_flag_counts() {
        assert_eq!(run("felt run -v 1 -v=2 -keep-device -keep-device=F", &[]).log.v, 2);
        assert!(!run("felt run -keep-device -keep-device=F", &[]).own.keep_device);
        assert!(run("felt run -keep-device=F -keep-device", &[]).own.keep_device);
    }

    #[test]
    fn a_bad_variable_is_named() {
        for (variable, value, part) in [
            ("FLANNELD_HEALTHZ_PORT", "http", "expected a whole number"),
            ("FLANNELD_PUBLIC_IP", "fd00::1", "IPv4"),
            ("FLANNELD_IP_MASQ", "yes", "expected true or false"),
            ("FELT_SOURCE_CHECK", "none", "expected one of strict, address, off"),
            ("FELT_WORKERS", "17", "from 1 to 16"),
            ("FELT_BATCH", "0", "from 1 to 256"),
            ("FELT_NO_UDP_GSO", "perhaps", "expected true or false"),
        ] {
            let error = parse_line("felt run", &[(variable, value)]).unwrap_err();
            let text = error.to_string();
            assert_eq!(error.code(), 2);
            assert!(text.contains(variable) && text.contains(value) && text.contains(part), "{text}");
        }
        // Typed over, the variable does not matter.
        assert_eq!(run("felt run -healthz-port 1", &[("FLANNELD_HEALTHZ_PORT", "http")]).healthz_port, 1);
    }

    #[test]
    fn version_and_help_come_before_the_environment_and_refusals() {
        assert!(run("felt run -version -watch-networks", &[("FLANNELD_HEALTHZ_PORT", "http")]).version);
        assert!(!run("felt run", &[("FLANNELD_VERSION", "true")]).version);
        assert_eq!(parse_line("felt run -help", &[("FLANNELD_HEALTHZ_PORT", "http")]).unwrap_err().code(), 0);
    }

    #[test]
    fn a_lab_reads_no_variables() {
        let line = "felt lab up --nodes 2";
        let cli = parse_line(line, &[("FLANNELD_NAME", "Not A Name"), ("FLANNELD_PODS", "251")]).unwrap();
        assert!(matches!(cli.command, Command::Lab { .. }));
    }

    #[test]
    fn other_commands_read_the_environment_too() {
        let line = "felt config set net.json --etcd-prefix=/typed";
        let cli = parse_line(line, &[("FLANNELD_ETCD_PREFIX", "/env"), ("FLANNELD_ETCD_ENDPOINTS", "http://e:1")]).unwrap();
        let Command::Config { command: ConfigCommand::Set { registry, .. } } = cli.command else { panic!() };
        assert_eq!((registry.etcd.prefix.as_str(), registry.etcd.endpoints.as_deref()), ("/typed", Some("http://e:1")));
    }
}
