//! The same rules as iptables-restore reads them, and what iptables-save tells of ours. Pure.

use super::ground::{Names, RuleSet};
use super::nft_text::{MARK, MULTICAST, ZONE};

/// A chain of ours in a table of iptables, and the chain of the kernel that jumps to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnChain {
    pub table: &'static str,
    pub hook: &'static str,
    pub name: String,
    /// Its rules, without `-A` and name.
    pub rules: Vec<String>,
}

/// The chains that masquerade. For the reasons see [`nft_text`](super::nft_text).
pub(super) fn masquerade(names: &Names, rules: &RuleSet, random: bool) -> Vec<OwnChain> {
    let RuleSet { network, subnet, through } = rules;
    let masquerade = if random { "MASQUERADE --random-fully" } else { "MASQUERADE" };
    let into_the_tun = through.iter().map(|tun| format!("-s {subnet} ! -d {network} -o {tun} -j RETURN"));
    let flannel_s = [
        format!("-m mark --mark {MARK}/{MARK} -j RETURN"),
        format!("-s {subnet} -d {network} -j RETURN"),
        format!("-s {network} -d {subnet} -j RETURN"),
        format!("! -s {network} -d {subnet} -j RETURN"),
        format!("-s {network} ! -d {MULTICAST} -j {masquerade}"),
        format!("! -s {network} -d {network} -j {masquerade}"),
    ];
    let nat = OwnChain {
        table: "nat",
        hook: "POSTROUTING",
        name: names.masquerade.clone(),
        rules: into_the_tun.chain(flannel_s).collect(),
    };
    let zone = through.iter().map(|tun| OwnChain {
        table: "raw",
        hook: "PREROUTING",
        name: names.zone.clone(),
        rules: vec![
            format!("-i {tun} -j RETURN"),
            format!("-d {network} -j RETURN"),
            format!("-d {MULTICAST} -j RETURN"),
            format!("-s {subnet} -j CT --zone-orig {ZONE}"),
        ],
    });
    zone.chain([nat]).collect()
}

/// The chain that accepts.
pub(super) fn forward(names: &Names, rules: &RuleSet) -> OwnChain {
    let network = rules.network;
    let rules = vec![format!("-s {network} -j ACCEPT"), format!("-d {network} -j ACCEPT")];
    OwnChain { table: "filter", hook: "FORWARD", name: names.forward.clone(), rules }
}

/// Input of `iptables-restore --noflush` that fills a chain with exactly its rules, whatever was in it, and has it jumped to
/// if it is not by `saved`, the table as iptables-save told it.
pub(super) fn fill(chain: &OwnChain, saved: &str) -> String {
    let OwnChain { table, hook, name, rules } = chain;
    let rules: String = rules.iter().map(|rule| format!("-A {name} {rule}\n")).collect();
    let jumps = jumps(saved, name).any(|jump| jump.starts_with(&format!("-A {hook} ")));
    let jump = if jumps { String::new() } else { format!("-A {hook} -j {name}\n") };
    format!("*{table}\n:{name} - [0:0]\n{rules}{jump}COMMIT\n")
}

/// Input of `iptables-restore --noflush` that removes every chain of `saved` for whose name `is_ours` holds; empty if there is
/// none.
pub(super) fn empty(table: &str, saved: &str, is_ours: impl Fn(&str) -> bool) -> String {
    let chains = chains(saved).filter(|name| is_ours(name));
    let lines: String = chains
        .map(|name| {
            let jumps: String = jumps(saved, name).map(|jump| format!("-D{}\n", jump.trim_start_matches("-A"))).collect();
            format!("{jumps}-F {name}\n-X {name}\n")
        })
        .collect();
    if lines.is_empty() { lines } else { format!("*{table}\n{lines}COMMIT\n") }
}

/// What a table as iptables-save told it says of one chain: its rules, and the jumps to it.
pub(super) fn concerning(saved: &str, name: &str) -> String {
    let of_ours = |line: &&str| line.starts_with("-A ") && line.split_whitespace().any(|word| word == name);
    saved.lines().filter(of_ours).map(|line| format!("{line}\n")).collect()
}

/// Whether what is told has a line for each rule of these chains and each jump to them.
pub(super) fn is_whole(chains: &[OwnChain], told: &str) -> bool {
    told.lines().count() == chains.iter().map(|chain| chain.rules.len() + 1).sum::<usize>()
}

/// The chains of a table that users made.
pub(super) fn chains(saved: &str) -> impl Iterator<Item = &str> {
    saved.lines().filter_map(|line| line.strip_prefix(':')?.split_once(" - ")).map(|(name, _)| name)
}

fn jumps<'a>(saved: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let is_jump = move |line: &&str| line.starts_with("-A ") && line.ends_with(&format!(" -j {name}"));
    saved.lines().filter(is_jump)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const SAVED: &str = "\
# a comment
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [2:168]
:DOCKER-USER - [0:0]
:FELT-FWD - [0:0]
:FELT-FWD-0badcafe - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j FELT-FWD
-A FORWARD -m comment --comment twice -j FELT-FWD
-A FORWARD -j FELT-FWD-0badcafe
-A FELT-FWD -s 10.5.0.0/16 -j ACCEPT
COMMIT
";

    fn rules(through: Option<&str>) -> RuleSet {
        let (network, subnet) = ("10.5.0.0/16".parse().unwrap(), "10.5.1.0/24".parse().unwrap());
        RuleSet { network, subnet, through: through.map(str::to_owned) }
    }

    fn names() -> Names {
        Names::of(Path::new("/run/flannel/subnet.env"))
    }

    #[test]
    fn the_rules_are_flannel_s() {
        let chains = masquerade(&names(), &rules(None), true);
        let [nat] = chains.as_slice() else { panic!("{chains:?}") };
        let expected = "\
*nat
:FELT-POSTRTG - [0:0]
-A FELT-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN
-A FELT-POSTRTG -s 10.5.1.0/24 -d 10.5.0.0/16 -j RETURN
-A FELT-POSTRTG -s 10.5.0.0/16 -d 10.5.1.0/24 -j RETURN
-A FELT-POSTRTG ! -s 10.5.0.0/16 -d 10.5.1.0/24 -j RETURN
-A FELT-POSTRTG -s 10.5.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully
-A FELT-POSTRTG ! -s 10.5.0.0/16 -d 10.5.0.0/16 -j MASQUERADE --random-fully
-A POSTROUTING -j FELT-POSTRTG
COMMIT
";
        assert_eq!(fill(nat, ""), expected);
        let plain = masquerade(&names(), &rules(None), false);
        assert_eq!(fill(&plain[0], ""), expected.replace(" --random-fully", ""));
    }

    #[test]
    fn what_passes_the_tun_twice_is_parted() {
        let chains = masquerade(&names(), &rules(Some("flannel0")), true);
        assert_eq!(chains[1].rules[0], "-s 10.5.1.0/24 ! -d 10.5.0.0/16 -o flannel0 -j RETURN");
        let expected = "\
*raw
:FELT-PRERTG - [0:0]
-A FELT-PRERTG -i flannel0 -j RETURN
-A FELT-PRERTG -d 10.5.0.0/16 -j RETURN
-A FELT-PRERTG -d 224.0.0.0/4 -j RETURN
-A FELT-PRERTG -s 10.5.1.0/24 -j CT --zone-orig 8285
-A PREROUTING -j FELT-PRERTG
COMMIT
";
        assert_eq!(fill(&chains[0], ""), expected);
    }

    #[test]
    fn a_chain_is_jumped_to_once() {
        let accept = forward(&names(), &rules(None));
        let filled =
            "*filter\n:FELT-FWD - [0:0]\n-A FELT-FWD -s 10.5.0.0/16 -j ACCEPT\n-A FELT-FWD -d 10.5.0.0/16 -j ACCEPT\nCOMMIT\n";
        assert_eq!(fill(&accept, SAVED), filled);
        let jump = "-A FORWARD -j FELT-FWD\nCOMMIT";
        assert_eq!(fill(&accept, "*filter\n:FELT-FWD - [0:0]\nCOMMIT\n"), filled.replace("COMMIT", jump));
    }

    #[test]
    fn removed_is_what_is_ours_with_every_jump_to_it() {
        let expected = "\
*filter
-D FORWARD -j FELT-FWD
-D FORWARD -m comment --comment twice -j FELT-FWD
-F FELT-FWD
-X FELT-FWD
-D FORWARD -j FELT-FWD-0badcafe
-F FELT-FWD-0badcafe
-X FELT-FWD-0badcafe
COMMIT
";
        assert_eq!(empty("filter", SAVED, Names::is_chain), expected);
        assert_eq!(empty("filter", SAVED, |_| false), "");
        let seen =
            "-A FORWARD -j FELT-FWD\n-A FORWARD -m comment --comment twice -j FELT-FWD\n-A FELT-FWD -s 10.5.0.0/16 -j ACCEPT\n";
        assert_eq!(concerning(SAVED, "FELT-FWD"), seen);
        let chain = [forward(&names(), &rules(None))];
        assert!(is_whole(&chain, seen) && !is_whole(&chain, "") && !is_whole(&chain, "-A FORWARD -j FELT-FWD\n"));
    }
}
