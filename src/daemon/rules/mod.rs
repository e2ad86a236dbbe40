//! What a node does on its host beside the tunnel, if asked to: masquerading, accepting overlay traffic where the host would drop
//! it, a blackhole for its own subnet. Source: flannel's flags, with flannel's meaning.
//!
//! | file | what |
//! |---|---|
//! | `ground` | which rules there shall be, and what ours are called |
//! | `nft_text`, `iptables_text` | the same as text, pure |
//! | `masquerade`, `nft`, `iptables` | putting masquerade rules there: one nft transaction, or else iptables |
//! | `forward` | accepting in the `FORWARD` chains of iptables |
//! | `blackhole` | the route |
//! | `prepared` | whether all of that is possible here, found out before anything is touched |
//! | `keeper`, `work`, `steady` | a thread that applies, looks again and repairs |
//! | `leftovers` | what is there of ours, to be removed |
//!
//! * Nothing is run and nothing touched for what was not asked for. Accepting is asked for by default, as with flannel; it is
//!   done where iptables has a `FORWARD` chain, which is the only thing that can drop and that we can mend.
//! * An accept in a chain of our own would not do: every base chain is asked, and one that drops has the last word. So these
//!   rules go into the chain that drops, by iptables, of which there may be two: in nf_tables and in the older ip_tables.
//! * Whether rules are still as they should be is seen by listing them: just after they were put there, and again later. So
//!   nothing depends on how a version of nft or iptables words a rule.
//! * Rules outlive the process, as flannel's do: a restart leaves no gap in which pods show their own addresses.
//!   [`cleanup`](super::cleanup) removes them.

mod blackhole;
mod forward;
mod ground;
mod iptables;
mod iptables_text;
mod keeper;
mod leftovers;
mod masquerade;
mod nft;
mod nft_text;
mod options;
mod prepared;
mod steady;
mod work;

pub use forward::ForwardError;
pub use ground::{Names, RuleSet};
pub use keeper::HostRules;
pub use leftovers::{Leftover, LeftoverError};
pub use masquerade::MasqueradeError;
pub use options::{ForwardRules, HostRulesOptions};
pub use prepared::{Prepared, RulesError};
