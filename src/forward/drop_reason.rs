//! Every way a packet can be dropped. The closed list is at once the counters, the metrics and a table of the documentation.

use crate::wire::ipv4::Malformed;

macro_rules! drop_reasons {
    ($($variant:ident, $name:literal, $text:literal;)*) => {
        /// Why a packet was dropped. The values are indices, in the order of [`ALL`](Self::ALL).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum DropReason {
            $(#[doc = $text] $variant,)*
        }

        impl DropReason {
            /// Every reason there is.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in metrics and logs.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// One sentence for people.
            #[must_use]
            pub const fn describe(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

drop_reasons! {
    // Either direction.
    Shut, "shut", "This node holds no lease at the moment, so nothing is forwarded.";
    TooShort, "too_short", "Fewer bytes than the shortest IPv4 header has.";
    NotIpv4, "not_ipv4", "The version in the first byte is not 4: IPv6 or no IP at all.";
    BadHeaderLength, "bad_header_length", "The header claims to be shorter than 20 bytes or longer than the packet.";
    BadTotalLength, "bad_total_length", "The packet claims to be shorter than its header or longer than what was received.";
    TtlExpired, "ttl_expired", "No hop is left; on the way out the sender is told, on the way in it is not.";
    NoSlot, "no_slot", "It did not fit an empty slot for outgoing packets: the worker's slots are too small.";
    BadOffload, "bad_offload", "The kernel said that it is to be cut or summed up in a way that does not fit what it is.";
    // Policy, either direction.
    PolicyEgress, "policy_egress", "The source pod's egress does not allow the flow.";
    PolicyIngress, "policy_ingress", "The destination pod's ingress does not allow the flow.";
    PolicyUnsynced, "policy_unsynced", "Policy is not known yet, and until it is, pods are closed.";
    UnknownPod, "unknown_pod", "The address is one of this node's subnet, but no pod is known to have it; or of a former one that another node leases now.";
    Multicast, "multicast", "Multicast is switched off.";
    BadTransport, "bad_transport", "Its headers above IP cannot be read, so policy cannot judge it.";
    TinyFragment, "tiny_fragment", "A first fragment too short to show its ports, or one that would overwrite them (RFC 1858).";
    OrphanFragment, "orphan_fragment", "A later fragment whose first one was not seen or not allowed.";
    // TUN to underlay.
    NoRoute, "no_route", "No node leases the destination; the sender is told.";
    Loop, "loop", "It would come back: to our own subnet, our own endpoint or one inside the overlay; the sender is told.";
    TooBig, "too_big", "Larger than the tunnel or the path lets through; the sender is told if it forbade fragmentation.";
    SendNoBuffer, "send_no_buffer", "The socket's send buffer was full.";
    SendRefused, "send_refused", "The kernel refused the datagram: no underlay route, interface down, or a firewall.";
    // Underlay to TUN.
    Truncated, "truncated", "The datagram was longer than a packet slot.";
    SourceUnleased, "source_unleased", "No other node leases the inner source.";
    SourceNotOfPeer, "source_not_of_peer", "The datagram came from another address than that of the node that leases the inner source.";
    SourceWrongPort, "source_wrong_port", "The datagram came from the right node, but from a port its daemon does not send from.";
    DestinationNotOurs, "destination_not_ours", "The inner destination lies outside the subnet this node leases.";
    CeOnNotEct, "ce_on_not_ect", "Congestion was marked on a packet whose sender would not understand it (RFC 6040 section 4.2).";
    TunRefused, "tun_refused", "The TUN device did not take the packet.";
}

impl From<Malformed> for DropReason {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::TooShort(_) => Self::TooShort,
            Malformed::Version(_) => Self::NotIpv4,
            Malformed::HeaderLength(_) => Self::BadHeaderLength,
            Malformed::TotalLength(_) => Self::BadTotalLength,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn values_are_indices_and_names_are_unique_snake_case() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            assert!(
                reason.as_str().bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{reason:?}"
            );
            assert!(reason.describe().ends_with('.') && !reason.describe().trim_end_matches('.').contains(". "), "{reason:?}");
        }
        let names: HashSet<_> = DropReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
    }
}
