//! Go's spelling of flags, turned into clap's.
//!
//! flannel's users write `-iface eth0`, `--iface=eth0` or `-ip-masq=false`; clap knows only the GNU forms. This rewrites the
//! former into the latter and judges nothing: unknown flags and missing values are left for clap to complain of. Which flags
//! there are, and which of them are boolean, is read from clap's own [`Command`], so there is one list of flags.
//!
//! Source: Go's `flag` package. One dash or two; `=` or a space before a value, but only `=` for booleans; the next word is
//! a value whatever it looks like; parsing stops at the first word that is no flag, or at `--`.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, Command};

/// A command line in clap's spelling.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// The words, in clap's spelling.
    pub words: Vec<OsString>,
    /// Names of the known flags among them, also of those left out because their value is empty.
    pub given: BTreeSet<String>,
}

/// Rewrites `words` (without program and subcommand names) for `command`.
///
/// An empty value for a flag without default is the same as no flag, as in flannel, where the empty text is the default;
/// an environment variable does not come in its place.
#[must_use]
pub fn normalise(command: &Command, words: &[OsString]) -> Typed {
    let mut typed = Typed::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some((name, value)) = split(word) else {
            if word != "--" {
                typed.words.extend(["--".into(), word.clone()]);
            } else if words.len() > 0 {
                typed.words.push("--".into());
            }
            typed.words.extend(words.cloned());
            break;
        };
        if name == "h" || name == "help" {
            typed.words.push(if name == "h" { "-h" } else { "--help" }.into());
            continue;
        }
        let Some(flag) = find(command, name) else {
            typed.words.push(assemble(name, value));
            continue;
        };
        typed.given.insert(name.to_owned());
        let value = if takes_next_word(flag) { value.or_else(|| words.next().map(OsString::as_os_str)) } else { value };
        let unset = value.is_some_and(OsStr::is_empty) && may_be_empty(flag);
        if !unset {
            typed.words.push(assemble(name, value));
        }
    }
    typed
}

/// Whether `flag` has a value of its own, as opposed to being a boolean that may stand alone.
#[must_use]
pub fn takes_next_word(flag: &Arg) -> bool {
    flag.get_action().takes_values() && flag.get_num_args().is_none_or(|count| count.min_values() > 0)
}

fn may_be_empty(flag: &Arg) -> bool {
    takes_next_word(flag) && flag.get_default_values().is_empty()
}

fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|flag| flag.get_long() == Some(name))
}

/// Name and value of a word that is a flag; `None` for any other word.
fn split(word: &OsStr) -> Option<(&str, Option<&OsStr>)> {
    let body = word.as_bytes().strip_prefix(b"-")?;
    let body = body.strip_prefix(b"-").unwrap_or(body);
    let mut parts = body.splitn(2, |byte| *byte == b'=');
    let name = std::str::from_utf8(parts.next()?).ok()?;
    if name.is_empty() && body.is_empty() {
        return None;
    }
    Some((name, parts.next().map(OsStr::from_bytes)))
}

fn assemble(name: &str, value: Option<&OsStr>) -> OsString {
    let mut word = OsString::from("--");
    word.push(name);
    if let Some(value) = value {
        word.push("=");
        word.push(value);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        Command::new("run")
            .arg(Arg::new("iface").long("iface").action(clap::ArgAction::Append))
            .arg(Arg::new("prefix").long("etcd-prefix").default_value("/coreos.com/network"))
            .arg(Arg::new("masq").long("ip-masq").num_args(0..=1).require_equals(true).default_missing_value("true"))
            .arg(Arg::new("v").long("v"))
    }

    fn normal(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').filter(|word| !word.is_empty()).map(Into::into).collect();
        normalise(&command(), &words).words.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn one_dash_or_two_equals_or_space() {
        for line in ["-iface=eth0", "--iface=eth0", "-iface eth0", "--iface eth0"] {
            assert_eq!(normal(line), "--iface=eth0", "{line}");
        }
        assert_eq!(normal("-v 2 -iface a --iface b"), "--v=2 --iface=a --iface=b");
    }

    #[test]
    fn booleans_stand_alone_or_take_an_equals_sign() {
        assert_eq!(normal("-ip-masq --iface x"), "--ip-masq --iface=x");
        assert_eq!(normal("--ip-masq=false"), "--ip-masq=false");
        // The word after a boolean is no value of it: it ends the flags.
        assert_eq!(normal("-ip-masq false --iface x"), "--ip-masq -- false --iface x");
    }

    #[test]
    fn a_value_may_look_like_a_flag() {
        assert_eq!(normal("-v -1"), "--v=-1");
        assert_eq!(normal("-iface --v"), "--iface=--v");
        assert_eq!(normal("-iface=a=b"), "--iface=a=b");
    }

    #[test]
    fn flags_end_at_the_first_other_word_or_two_dashes() {
        assert_eq!(normal("-v 1 word -v 2"), "--v=1 -- word -v 2");
        assert_eq!(normal("-v 1 -- -v 2"), "--v=1 -- -v 2");
        assert_eq!(normal("-v 1 --"), "--v=1");
        assert_eq!(normal("- -v 2"), "-- - -v 2");
    }

    #[test]
    fn help_has_three_spellings_and_unknown_flags_are_passed_on() {
        assert_eq!(normal("-h"), "-h");
        assert_eq!(normal("-help --help --h"), "--help --help -h");
        assert_eq!(normal("-what=x"), "--what=x");
        assert_eq!(normal("-what"), "--what");
        assert_eq!(normal("-iface"), "--iface");
        assert_eq!(normal("---iface"), "---iface");
    }

    #[test]
    fn an_empty_value_is_no_flag_but_was_given() {
        let typed = normalise(&command(), &["-iface=".into(), "-etcd-prefix=".into(), "-v".into(), OsString::new()]);
        assert_eq!(typed.words, ["--etcd-prefix="]);
        assert!(["iface", "etcd-prefix", "v"].iter().all(|name| typed.given.contains(*name)), "{:?}", typed.given);
    }

    #[test]
    fn values_need_not_be_utf8() {
        let word = OsStr::from_bytes(b"-iface=\xff");
        assert_eq!(normalise(&command(), &[word.to_owned()]).words, [OsStr::from_bytes(b"--iface=\xff")]);
    }
}
