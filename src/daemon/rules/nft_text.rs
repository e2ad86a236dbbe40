//! The masquerade rules as nft reads them. Pure: values in, text out.
//!
//! Source: flannel 0.2x's rules for iptables, in their order. flannel's own for nftables differ from those in one rule, by
//! which a host's own traffic to remote pods keeps its source.

use super::ground::{Names, RuleSet};

/// The mark of what others masquerade themselves. Source: flannel, and Kubernetes before.
pub(super) const MARK: &str = "0x4000";
/// Multicast keeps its source.
pub(super) const MULTICAST: &str = "224.0.0.0/4";
/// The zone in which connections are tracked on their first pass, before the TUN: the number of our routing table.
pub(super) const ZONE: u32 = crate::daemon::scope::TABLE;

/// A script that puts the table there, instead of what there is of that name, in one transaction.
pub(super) fn replace(names: &Names, rules: &RuleSet, random: bool) -> String {
    format!("{}{}", remove(&names.table), table(names, rules, random))
}

/// A script that removes a table, whether it is there or not.
pub(super) fn remove(table: &str) -> String {
    // To delete what is not there is an error; to add what is there is none.
    format!("add table ip {table}\ndelete table ip {table}\n")
}

/// Whether a listing has as many lines as the table of a script.
pub(super) fn is_whole(script: &str, listed: &str) -> bool {
    let lines = |text: &str| text.lines().skip_while(|line| !line.starts_with("table ")).filter(|line| !line.is_empty()).count();
    lines(script) == lines(listed)
}

/// The table.
///
/// Where all traffic of local pods passes the TUN, one connection meets netfilter twice: on its way into the TUN, which must
/// see the pod's own address, and on its way out. What is to become of a connection's addresses is settled once, so the
/// first pass would settle that nothing does. That pass is tracked in a zone of its own; for its direction only, so that
/// replies are found from both sides.
fn table(names: &Names, rules: &RuleSet, random: bool) -> String {
    let RuleSet { network, subnet, through } = rules;
    let masquerade = if random { "masquerade fully-random" } else { "masquerade" };
    let mut text = format!("table ip {} {{\n", names.table);
    if let Some(tun) = through {
        text += &chain(
            "prerouting",
            "type filter hook prerouting priority -300; policy accept;",
            &[format!(
                "iifname != \"{tun}\" ip saddr {subnet} ip daddr != {network} ip daddr != {MULTICAST} ct original zone set {ZONE}"
            )],
        );
    }
    let into_the_tun = through.iter().map(|tun| format!("oifname \"{tun}\" ip saddr {subnet} ip daddr != {network} return"));
    let flannel_s = [
        format!("meta mark and {MARK} == {MARK} return"),
        format!("ip saddr {subnet} ip daddr {network} return"),
        format!("ip saddr {network} ip daddr {subnet} return"),
        format!("ip saddr != {network} ip daddr {subnet} return"),
        format!("ip saddr {network} ip daddr != {MULTICAST} {masquerade}"),
        format!("ip saddr != {network} ip daddr {network} {masquerade}"),
    ];
    // Just behind iptables' own, as the rules of flannel are appended to those.
    let hook = "type nat hook postrouting priority 101; policy accept;";
    text += &chain("postrouting", hook, &into_the_tun.chain(flannel_s).collect::<Vec<_>>());
    text + "}\n"
}

fn chain(name: &str, hook: &str, rules: &[String]) -> String {
    let rules: String = rules.iter().map(|rule| format!("\t\t{rule}\n")).collect();
    format!("\tchain {name} {{\n\t\t{hook}\n{rules}\t}}\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn rules(through: Option<&str>) -> RuleSet {
        let (network, subnet) = ("10.5.0.0/16".parse().unwrap(), "10.5.1.0/24".parse().unwrap());
        RuleSet { network, subnet, through: through.map(str::to_owned) }
    }

    #[test]
    fn the_rules_are_flannel_s() {
        let names = Names::of(Path::new("/run/flannel/subnet.env"));
        let expected = "\
add table ip felt
delete table ip felt
table ip felt {
\tchain postrouting {
\t\ttype nat hook postrouting priority 101; policy accept;
\t\tmeta mark and 0x4000 == 0x4000 return
\t\tip saddr 10.5.1.0/24 ip daddr 10.5.0.0/16 return
\t\tip saddr 10.5.0.0/16 ip daddr 10.5.1.0/24 return
\t\tip saddr != 10.5.0.0/16 ip daddr 10.5.1.0/24 return
\t\tip saddr 10.5.0.0/16 ip daddr != 224.0.0.0/4 masquerade fully-random
\t\tip saddr != 10.5.0.0/16 ip daddr 10.5.0.0/16 masquerade fully-random
\t}
}
";
        assert_eq!(replace(&names, &rules(None), true), expected);
        let listed = &expected[expected.find("table ip felt {").unwrap()..];
        assert!(
            is_whole(expected, listed) && !is_whole(expected, &listed.replace("\t\tmeta mark and 0x4000 == 0x4000 return\n", ""))
        );
        assert_eq!(replace(&names, &rules(None), false), expected.replace(" fully-random", ""));
    }

    #[test]
    fn what_passes_the_tun_twice_is_parted() {
        let names = Names::of(Path::new("/run/flannel/subnet.env"));
        let plain = replace(&names, &rules(None), true);
        let text = replace(&names, &rules(Some("flannel0")), true);
        let zone = "\
\tchain prerouting {
\t\ttype filter hook prerouting priority -300; policy accept;
\t\tiifname != \"flannel0\" ip saddr 10.5.1.0/24 ip daddr != 10.5.0.0/16 ip daddr != 224.0.0.0/4 ct original zone set 8285
\t}
";
        let out = "\t\toifname \"flannel0\" ip saddr 10.5.1.0/24 ip daddr != 10.5.0.0/16 return\n";
        assert_eq!(text.replace(zone, "").replace(out, ""), plain);
        assert!(text.contains(zone) && text.contains(&format!("policy accept;\n{out}\t\tmeta mark")), "{text}");
    }
}
