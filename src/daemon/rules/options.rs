//! What is asked of a node beside the tunnel.

use std::time::Duration;

/// What a node does on its host beside the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRulesOptions {
    /// Give what leaves the overlay an address of this host.
    pub ip_masq: bool,
    /// Let masquerading choose ports at random, where the kernel can.
    pub fully_random: bool,
    /// Accept overlay traffic that the host would drop.
    pub forward: ForwardRules,
    /// Keep a blackhole route for our own subnet, for addresses that no pod has.
    pub blackhole: bool,
    /// How often it is looked whether everything is still there.
    pub resync: Duration,
}

/// Whether overlay traffic is accepted where the host would drop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardRules {
    /// No.
    Off,
    /// Where that can be done.
    IfPossible,
    /// Yes, or the node does not start.
    Demanded,
}

impl HostRulesOptions {
    /// Nothing.
    pub const NONE: Self =
        Self { ip_masq: false, fully_random: true, forward: ForwardRules::Off, blackhole: false, resync: Duration::from_secs(5) };

    /// Whether there is anything to do.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.ip_masq || self.blackhole || self.forward != ForwardRules::Off
    }
}
