//! Rules of policy routing: which packet goes by which table.

use std::fmt;

use ipnetwork::IpNetwork;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::RouteProtocol;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::route::TABLE_MAIN;
use super::{Netlink, NetlinkError};

/// What `FRA_SUPPRESS_PREFIXLEN` and `FRA_SUPPRESS_IFGROUP` say when nothing is suppressed.
const NOTHING_SUPPRESSED: u32 = u32::MAX;

/// A rule: packets it selects go by its table, if that has a way for them, or end here. Rules are asked in the order of their
/// priorities, the lowest first; 0 is the table of local addresses, 32766 the main table. Of equal ones the older comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For IPv6, or else for IPv4: the two have rules of their own.
    pub ipv6: bool,
    /// Its place among the rules of its family.
    pub priority: u32,
    /// Selects by source address.
    pub from: Option<IpNetwork>,
    /// Selects by destination address.
    pub to: Option<IpNetwork>,
    /// Selects by the name of the device the packet came in by, whether there is one of that name or not; `lo` is for packets
    /// of this host itself, and for reverse-path checks.
    pub input: Option<String>,
    /// What becomes of what it selects.
    pub action: RuleAction,
    /// The table to go by; 0 for a rule that names none.
    pub table: u32,
    /// Routes to prefixes that are no longer than this, in bits, do not count: the next rule is asked then.
    pub suppress: Option<u32>,
    /// Who put it there. Kernels before 4.17 do not keep it: `None`.
    pub protocol: Option<RouteProtocol>,
    /// It selects by more than is said here, or does something else than to name a table or to end packets. Such a rule can be
    /// listed only.
    pub further: bool,
}

impl Rule {
    /// A rule that sends everything of a family by the main table.
    #[must_use]
    pub fn new(ipv6: bool, priority: u32) -> Self {
        Self {
            ipv6,
            priority,
            from: None,
            to: None,
            input: None,
            action: RuleAction::ToTable,
            table: TABLE_MAIN,
            suppress: None,
            protocol: Some(RouteProtocol::Boot),
            further: false,
        }
    }

    /// Only what comes from there.
    #[must_use]
    pub fn from(self, from: IpNetwork) -> Self {
        Self { from: Some(from), ..self }
    }

    /// Only what goes there.
    #[must_use]
    pub fn to(self, to: IpNetwork) -> Self {
        Self { to: Some(to), ..self }
    }

    /// Only what came in by the device of this name.
    #[must_use]
    pub fn input(self, device: &str) -> Self {
        Self { input: Some(device.to_owned()), ..self }
    }

    /// By this table.
    #[must_use]
    pub fn table(self, table: u32) -> Self {
        Self { table, ..self }
    }

    /// By no table: packets end here, with an answer to the sender or in silence.
    #[must_use]
    pub fn action(self, action: RuleAction) -> Self {
        Self { action, table: 0, ..self }
    }

    /// Leaving out routes to prefixes of up to so many bits.
    #[must_use]
    pub fn suppress(self, bits: u32) -> Self {
        Self { suppress: Some(bits), ..self }
    }

    /// Put there by this one.
    #[must_use]
    pub fn protocol(self, protocol: RouteProtocol) -> Self {
        Self { protocol: Some(protocol), ..self }
    }

    /// Whether both do the same, whoever put them there.
    #[must_use]
    pub fn does_as(&self, other: &Self) -> bool {
        *self == Self { protocol: self.protocol, ..other.clone() }
    }
}

impl Netlink {
    /// Every rule, IPv4 first, in the order they are asked in.
    ///
    /// # Errors
    /// One that [is unsupported](NetlinkError::is_unsupported) on a kernel without policy routing.
    pub fn rules(&self) -> Result<Vec<Rule>, NetlinkError> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RuleMessage::default();
            request.header.family = family;
            match self.dump(&RouteNetlinkMessage::GetRule(request), "list routing rules") {
                // Asked for a family that has no rules, the kernel tells those of all that do.
                Ok(found) => {
                    let of_family = |rule: &Rule| rule.ipv6 == (family == AddressFamily::Inet6);
                    all.extend(found.iter().filter_map(as_rule).filter(of_family));
                }
                // A kernel without IPv6.
                Err(error) if family == AddressFamily::Inet6 && is_no_family(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Adds a rule; EEXIST if the same one put it there before. Another may have one that does the same.
    pub fn add_rule(&self, rule: &Rule) -> Result<(), NetlinkError> {
        let request = RouteNetlinkMessage::NewRule(message(rule));
        self.change(request, NLM_F_CREATE | NLM_F_EXCL, || format!("add rule {rule}"))
    }

    /// Removes a rule; ENOENT if there is none, or only somebody else's that does the same.
    pub fn delete_rule(&self, rule: &Rule) -> Result<(), NetlinkError> {
        let request = RouteNetlinkMessage::DelRule(message(rule));
        self.change(request, 0, || format!("delete rule {rule}"))
    }
}

/// As `ip rule` shows it.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.priority)?;
        if let Some(from) = self.from {
            write!(f, " from {from}")?;
        }
        if let Some(to) = self.to {
            write!(f, " to {to}")?;
        }
        if let Some(input) = &self.input {
            write!(f, " iif {input}")?;
        }
        match (self.action, self.table) {
            (RuleAction::ToTable, TABLE_MAIN) => write!(f, " lookup main")?,
            (RuleAction::ToTable, table) => write!(f, " lookup {table}")?,
            (RuleAction::Unreachable, _) => write!(f, " unreachable")?,
            (RuleAction::Blackhole, _) => write!(f, " blackhole")?,
            (other, _) => write!(f, " {other:?}")?,
        }
        match self.suppress {
            Some(bits) => write!(f, " suppress_prefixlength {bits}"),
            None => Ok(()),
        }
    }
}

/// The rule a message tells of.
pub(super) fn as_rule(message: &RouteNetlinkMessage) -> Option<Rule> {
    let (RouteNetlinkMessage::NewRule(message) | RouteNetlinkMessage::DelRule(message)) = message else { return None };
    let header = &message.header;
    let ipv6 = match header.family {
        AddressFamily::Inet => false,
        AddressFamily::Inet6 => true,
        _ => return None,
    };
    let mut rule = Rule { table: u32::from(header.table), protocol: None, ..Rule::new(ipv6, 0) };
    rule.action = header.action;
    let is_known = matches!(rule.action, RuleAction::ToTable | RuleAction::Unreachable | RuleAction::Blackhole);
    rule.further = !is_known || header.tos != 0 || header.flags.contains(RuleFlags::Invert);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::Source(from) => rule.from = Some(IpNetwork::new(*from, header.src_len).ok()?),
            RuleAttribute::Destination(to) => rule.to = Some(IpNetwork::new(*to, header.dst_len).ok()?),
            RuleAttribute::Iifname(input) => rule.input = Some(input.clone()),
            RuleAttribute::Table(table) => rule.table = *table,
            RuleAttribute::Protocol(protocol) => rule.protocol = Some(*protocol),
            RuleAttribute::SuppressPrefixLen(NOTHING_SUPPRESSED) | RuleAttribute::SuppressIfGroup(NOTHING_SUPPRESSED) => {}
            RuleAttribute::SuppressPrefixLen(bits) => rule.suppress = Some(*bits),
            _ => rule.further = true,
        }
    }
    Some(rule)
}

fn message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if rule.ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.action = rule.action;
    let attributes = &mut message.attributes;
    if let Some(from) = rule.from {
        message.header.src_len = from.prefix();
        attributes.push(RuleAttribute::Source(from.network()));
    }
    if let Some(to) = rule.to {
        message.header.dst_len = to.prefix();
        attributes.push(RuleAttribute::Destination(to.network()));
    }
    attributes.extend(rule.input.clone().map(RuleAttribute::Iifname));
    attributes.push(RuleAttribute::Priority(rule.priority));
    if rule.action == RuleAction::ToTable {
        attributes.push(RuleAttribute::Table(rule.table));
    }
    attributes.extend(rule.suppress.map(RuleAttribute::SuppressPrefixLen));
    attributes.extend(rule.protocol.map(RuleAttribute::Protocol));
    message
}

/// What kernels answer that have no IPv6, or none of its rules.
fn is_no_family(error: &NetlinkError) -> bool {
    matches!(error.errno(), Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reads_as_it_is_written() {
        for (rule, text) in [
            (Rule::new(false, 99).input("lo"), "99: iif lo lookup main"),
            (Rule::new(false, 101).from("10.5.1.0/24".parse().unwrap()).table(8285), "101: from 10.5.1.0/24 lookup 8285"),
            (Rule::new(true, 102).to("fd00:1::/64".parse().unwrap()).table(7), "102: to fd00:1::/64 lookup 7"),
            (Rule::new(false, 97).input("a").suppress(16), "97: iif a lookup main suppress_prefixlength 16"),
            (Rule::new(false, 100).input("a").action(RuleAction::Unreachable), "100: iif a unreachable"),
            (Rule::new(true, 103).action(RuleAction::Blackhole), "103: blackhole"),
        ] {
            let read = as_rule(&RouteNetlinkMessage::NewRule(message(&rule))).unwrap();
            assert_eq!((&read, read.to_string().as_str()), (&rule, text));
        }
    }

    #[test]
    fn what_is_not_understood_makes_a_rule_another() {
        let rule = Rule::new(false, 100).input("felt0");
        let mut marked = message(&rule);
        marked.attributes.push(RuleAttribute::FwMark(1));
        let mut inverted = message(&rule);
        inverted.header.flags = RuleFlags::Invert;
        let mut prohibiting = message(&rule);
        prohibiting.header.action = RuleAction::Prohibit;
        for message in [marked, inverted, prohibiting] {
            let read = as_rule(&RouteNetlinkMessage::NewRule(message)).unwrap();
            assert!(read.further && !read.does_as(&rule));
        }
        let other = rule.clone().protocol(RouteProtocol::Kernel);
        assert!(rule.does_as(&other) && rule != other);
    }
}
