//! How long a flow is remembered after its last packet.
//!
//! For TCP an entry is a convenience: a flow that lost it is picked up again by its next segment. For everything else it is what
//! lets replies back in, so it has to outlive the pauses that applications make.

use std::time::Duration;

use crate::net::Protocol;

/// How far a flow has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// TCP: closed by both ends, or reset.
    Closed,
    /// Not TCP: nothing has come back.
    Unanswered,
    /// TCP: no handshake seen to its end, or picked up and not yet seen in both directions.
    Opening,
    /// TCP: one end has closed.
    Closing,
    /// Not TCP: packets went both ways.
    Answered,
    /// TCP: packets went both ways, and the opener has acknowledged the answer.
    Established,
    /// TCP: ended by a change of policy, which its ends need not have noticed.
    Cut,
}

/// A handshake that takes longer than that is dead: a SYN is repeated for about a minute (RFC 6298: 1, 3, 7, 15, 31 s).
const OPENING: Duration = Duration::from_mins(1);
/// Linux's first keep-alive comes after two hours; what is silent for longer is picked up again.
const ESTABLISHED: Duration = Duration::from_hours(2);
/// As long as Linux waits in FIN-WAIT-2 and TIME-WAIT. A half that still talks renews it.
const CLOSING: Duration = Duration::from_mins(1);
/// Repeated last acknowledgements; the ports may be used again at once, by a SYN.
const CLOSED: Duration = Duration::from_secs(10);
/// A question without an answer: resolvers give up after 5 to 30 s. Linux's conntrack has the same.
const UDP_UNANSWERED: Duration = Duration::from_secs(30);
/// At least 120 s are expected (field report R52, RFC 4787 section 4.3); conntrack's value before Linux 4.20.
const UDP_ANSWERED: Duration = Duration::from_mins(3);
/// `ping` waits 10 s for the last answer. Linux's conntrack has the same.
const ECHO: Duration = Duration::from_secs(30);
/// SCTP sends a heartbeat every 30 s; tunnels keep alive within minutes. Linux's conntrack has the same.
const OTHER: Duration = Duration::from_mins(10);

/// How long a flow of that protocol is remembered after its last packet, when it has come that far.
#[must_use]
pub const fn lifetime(protocol: Protocol, phase: Phase) -> Duration {
    match (protocol, phase) {
        (_, Phase::Opening) => OPENING,
        // Forgotten sooner, it could be picked up again from the side that policy leaves open.
        (_, Phase::Established | Phase::Cut) => ESTABLISHED,
        (_, Phase::Closing) => CLOSING,
        (_, Phase::Closed) => CLOSED,
        (Protocol::UDP, Phase::Unanswered) => UDP_UNANSWERED,
        (Protocol::UDP, Phase::Answered) => UDP_ANSWERED,
        (Protocol::ICMP | Protocol::ICMPV6, _) => ECHO,
        _ => OTHER,
    }
}
