//! Which subnet a node takes: its own lease again, the one it held before, or a random free one.
//!
//! Pure: leases, randomness and wishes come in, a [`Choice`] goes out. It neither reads nor writes a registry, and it knows
//! nothing of lost races: whoever carries a choice out and fails asks again **with a fresh list**. The rules are flannel's.
//!
//! Callers: the registries in `control`.

use std::net::Ipv4Addr;

use rand::{Rng, RngExt};

use super::{Lease, SubnetKey, SubnetRange};
use crate::net::{Address, Prefix, Prefix4};

/// How many free subnets a random choice is made among, counted from SubnetMin. Source: flannel.
pub const FREE_CANDIDATES: usize = 100;

/// What to do next to hold a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Our public IP holds this lease already: write it again with our attributes, keeping a reservation a reservation.
    Adopt(Lease),
    /// Our public IP holds this lease, but the network no longer admits its subnet: choose again without it, and give it back
    /// once there is another.
    Discard(Lease),
    /// Nobody holds this subnet: create its lease unless somebody was faster.
    Create(SubnetKey, Origin),
    /// Every subnet that may be leased overlaps a lease.
    Exhausted,
}

/// Why a subnet is to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This node held it before.
    Previous,
    /// It is one of the first free ones.
    Random,
}

/// What a node knows when it chooses.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Underlay address the node announces: how it knows its own lease again.
    pub public_ip: Ipv4Addr,
    /// The subnet it held before.
    pub previous: Option<Prefix4>,
    /// Subnets that could not be created although no lease shows why, such as those under an unreadable record.
    pub avoid: &'a [Prefix4],
}

/// Chooses a subnet out of `range`, given all `leases` there are.
///
/// Of several leases of ours the previous one is preferred, then the first the network admits. Of leases it does not admit the
/// first is discarded, and only when none can be adopted.
pub fn choose<R: Rng + ?Sized>(range: &SubnetRange<Ipv4Addr>, leases: &[Lease], wish: &Wish<'_>, rng: &mut R) -> Choice {
    let ours = || leases.iter().filter(|lease| lease.attrs.public_ip == wish.public_ip);
    let mut usable = ours().filter(|lease| admits(range, &lease.subnet));
    let adopted = usable.clone().find(|lease| Some(lease.subnet.v4) == wish.previous).or_else(|| usable.next());
    if let Some(lease) = adopted {
        return Choice::Adopt(lease.clone());
    }
    if let Some(lease) = ours().next() {
        return Choice::Discard(lease.clone());
    }
    let taken = || leases.iter().map(|lease| lease.subnet.v4).chain(wish.avoid.iter().copied());
    if let Some(previous) = wish.previous
        && range.admits(&previous)
        && !taken().any(|subnet| subnet.overlaps(&previous))
    {
        return Choice::Create(previous.into(), Origin::Previous);
    }
    let free = free_subnets(range, taken(), FREE_CANDIDATES);
    if free.is_empty() {
        return Choice::Exhausted;
    }
    match free.get(rng.random_range(0..free.len())) {
        Some(&subnet) => Choice::Create(subnet.into(), Origin::Random),
        None => Choice::Exhausted,
    }
}

/// The first `limit` subnets of `range`, counted from its `min`, that overlap none of `taken`.
///
/// Takes time in proportion to the leases and the candidates looked at, whatever their order and sizes.
pub fn free_subnets<A: Address>(
    range: &SubnetRange<A>,
    taken: impl IntoIterator<Item = Prefix<A>>,
    limit: usize,
) -> Vec<Prefix<A>> {
    let mut taken: Vec<(u128, u128)> =
        taken.into_iter().map(|prefix| (prefix.base().to_number(), prefix.last().to_number())).collect();
    taken.sort_unstable();
    let mut taken = taken.into_iter().peekable();

    let mut free = Vec::new();
    let mut next = Some(range.min.to_number());
    // Prefixes nest or are disjoint, so the end of what is taken is the highest end seen, not that of the last begun.
    let mut taken_to = None;
    while let Some(base) = next
        && base <= range.max.to_number()
        && free.len() < limit
    {
        let Ok(candidate) = Prefix::new(A::from_number(base), range.subnet_len) else { break };
        let last = candidate.last().to_number();
        while let Some((_, end)) = taken.next_if(|&(begin, _)| begin <= last) {
            taken_to = taken_to.max(Some(end));
        }
        if taken_to.is_none_or(|end| end < base) {
            free.push(candidate);
        }
        next = last.checked_add(1);
    }
    free
}

fn admits(range: &SubnetRange<Ipv4Addr>, subnet: &SubnetKey) -> bool {
    // An IPv4-only network has no use for a lease with an IPv6 part, as in flannel.
    subnet.v6.is_none() && range.admits(&subnet.v4)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::lease::LeaseAttrs;
    use crate::net::Prefix6;

    fn range(network: &str, len: u8, min: &str, max: &str) -> SubnetRange<Ipv4Addr> {
        SubnetRange { network: network.parse().unwrap(), subnet_len: len, min: min.parse().unwrap(), max: max.parse().unwrap() }
    }

    /// The network of flannel's own lease manager tests.
    fn flannel_range() -> SubnetRange<Ipv4Addr> {
        range("10.3.0.0/16", 24, "10.3.1.0", "10.3.25.0")
    }

    fn flannel_leases() -> Vec<Lease> {
        ["10.3.1.0/24", "10.3.2.0/24", "10.3.4.0/24", "10.3.5.0/24", "10.3.31.0/24"].map(|s| lease(s, "1.1.1.1")).to_vec()
    }

    fn lease(subnet: &str, public_ip: &str) -> Lease {
        Lease {
            subnet: subnet.parse::<Prefix4>().unwrap().into(),
            attrs: LeaseAttrs::udp(public_ip.parse().unwrap()),
            ttl: Some(Duration::from_hours(24)),
            revision: 1,
        }
    }

    fn pick(range: &SubnetRange<Ipv4Addr>, leases: &[Lease], previous: Option<&str>, seed: u64) -> Choice {
        let previous = previous.map(|text| text.parse().unwrap());
        let wish = Wish { public_ip: "1.2.3.4".parse().unwrap(), previous, avoid: &[] };
        choose(range, leases, &wish, &mut StdRng::seed_from_u64(seed))
    }

    #[test]
    fn a_new_node_gets_a_free_subnet_and_then_the_same_again() {
        for seed in 0..50 {
            let mut leases = flannel_leases();
            let Choice::Create(subnet, Origin::Random) = pick(&flannel_range(), &leases, None, seed) else { panic!() };
            assert!(flannel_range().admits(&subnet.v4) && leases.iter().all(|lease| lease.subnet != subnet));
            leases.push(lease(&subnet.v4.to_string(), "1.2.3.4"));
            assert_eq!(pick(&flannel_range(), &leases, None, seed + 1), Choice::Adopt(leases[5].clone()));
        }
    }

    #[test]
    fn the_previous_subnet_is_taken_if_free_and_admitted() {
        let wanted = |previous| pick(&flannel_range(), &flannel_leases(), Some(previous), 7);
        let previous: Prefix4 = "10.3.6.0/24".parse().unwrap();
        assert_eq!(wanted("10.3.6.0/24"), Choice::Create(previous.into(), Origin::Previous));
        for other in ["10.4.1.0/24", "10.3.26.0/24", "10.3.6.0/25", "10.3.2.0/24", "10.3.0.0/24"] {
            assert!(matches!(wanted(other), Choice::Create(_, Origin::Random)), "{other}");
        }
    }

    #[test]
    fn a_lease_the_network_no_longer_admits_is_discarded_first() {
        let mut leases = flannel_leases();
        leases.push(lease("10.3.6.0/24", "1.2.3.4"));
        let moved = range("10.4.0.0/16", 24, "10.4.1.0", "10.4.255.0");
        assert_eq!(pick(&moved, &leases, None, 1), Choice::Discard(leases[5].clone()));
        let gone = leases.pop().unwrap();
        assert!(
            matches!(pick(&moved, &leases, Some("10.3.6.0/24"), 1), Choice::Create(s, Origin::Random) if moved.admits(&s.v4))
        );

        // One that is admitted makes deleting unnecessary.
        leases.extend([gone, lease("10.4.9.0/24", "1.2.3.4")]);
        assert_eq!(pick(&moved, &leases, None, 1), Choice::Adopt(leases[6].clone()));
    }

    #[test]
    fn a_dual_stack_lease_does_not_fit_an_ipv4_network() {
        let mut own = lease("10.3.6.0/24", "1.2.3.4");
        own.subnet.v6 = Some("fd00:6::/64".parse::<Prefix6>().unwrap());
        assert_eq!(pick(&flannel_range(), &[own.clone()], None, 1), Choice::Discard(own));
    }

    #[test]
    fn of_several_own_leases_the_previous_one_is_kept() {
        let leases = [lease("10.3.6.0/24", "1.2.3.4"), lease("10.3.7.0/24", "1.2.3.4")];
        assert_eq!(pick(&flannel_range(), &leases, Some("10.3.7.0/24"), 1), Choice::Adopt(leases[1].clone()));
        assert_eq!(pick(&flannel_range(), &leases, Some("10.3.8.0/24"), 1), Choice::Adopt(leases[0].clone()));
    }

    #[test]
    fn overlaps_count_as_taken_whatever_their_size() {
        let leases = [lease("10.3.0.0/20", "1.1.1.1"), lease("10.3.17.128/25", "1.1.1.2"), lease("10.3.1.0/24", "1.1.1.3")];
        let free = free_subnets(&flannel_range(), leases.iter().map(|lease| lease.subnet.v4), 3);
        assert_eq!(free.iter().map(Prefix4::to_string).collect::<Vec<_>>(), ["10.3.16.0/24", "10.3.18.0/24", "10.3.19.0/24"]);
        assert_eq!(pick(&flannel_range(), &[lease("10.0.0.0/8", "1.1.1.1")], Some("10.3.6.0/24"), 1), Choice::Exhausted);
    }

    #[test]
    fn what_is_to_be_avoided_counts_as_taken() {
        let avoid: Vec<Prefix4> = (1..=24).map(|n| format!("10.3.{n}.0/24").parse().unwrap()).collect();
        let wish = Wish { public_ip: "1.2.3.4".parse().unwrap(), previous: Some(avoid[2]), avoid: &avoid };
        let last: Prefix4 = "10.3.25.0/24".parse().unwrap();
        let choice = choose(&flannel_range(), &[], &wish, &mut StdRng::seed_from_u64(1));
        assert_eq!(choice, Choice::Create(last.into(), Origin::Random));
    }

    #[test]
    fn the_walk_ends_with_the_address_space() {
        let top = range("255.255.0.0/16", 24, "255.255.254.0", "255.255.255.0");
        assert_eq!(free_subnets(&top, [], 100).len(), 2);
        let all = SubnetRange::<std::net::Ipv6Addr> {
            network: "::/0".parse().unwrap(),
            subnet_len: 127,
            min: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc".parse().unwrap(),
            max: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe".parse().unwrap(),
        };
        assert_eq!(free_subnets(&all, [], 100).len(), 2);
    }

    #[test]
    fn the_choice_is_among_the_first_hundred_and_reaches_all_of_them() {
        let wide = range("10.0.0.0/8", 24, "10.0.1.0", "10.255.255.0");
        let mut seen = BTreeMap::new();
        for seed in 0..3000 {
            let Choice::Create(subnet, _) = pick(&wide, &[], None, seed) else { panic!() };
            *seen.entry(subnet.v4.base()).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), FREE_CANDIDATES);
        assert_eq!(seen.last_key_value().unwrap().0, &Ipv4Addr::new(10, 0, 100, 0));
    }

    /// Nodes that list and create in whatever order, as against a store with create-if-absent.
    fn race(nodes: usize, subnets: u8, steps: &[usize], seed: u64) -> BTreeMap<Prefix4, Ipv4Addr> {
        let range = range("10.3.0.0/16", 24, "10.3.1.0", &format!("10.3.{subnets}.0"));
        let mut rng = StdRng::seed_from_u64(seed);
        let mut store: BTreeMap<Prefix4, Ipv4Addr> = BTreeMap::new();
        let mut listed: Vec<Option<Vec<Lease>>> = vec![None; nodes];
        let rest = (0..nodes).flat_map(|node| std::iter::repeat_n(node, 2 * nodes + 2));
        for node in steps.iter().map(|step| step % nodes).chain(rest) {
            let public_ip = Ipv4Addr::from_bits(0x0101_0000 + u32::try_from(node).unwrap());
            let Some(leases) = listed[node].take() else {
                let now = store.iter().map(|(subnet, holder)| lease(&subnet.to_string(), &holder.to_string())).collect();
                listed[node] = Some(now);
                continue;
            };
            match choose(&range, &leases, &Wish { public_ip, previous: None, avoid: &[] }, &mut rng) {
                Choice::Create(subnet, _) => {
                    store.entry(subnet.v4).or_insert(public_ip);
                }
                Choice::Exhausted => assert_eq!(store.len(), usize::from(subnets), "failed while subnets were free"),
                Choice::Adopt(own) => assert_eq!(store.get(&own.subnet.v4), Some(&public_ip)),
                Choice::Discard(own) => panic!("discarded {own:?}"),
            }
        }
        store
    }

    proptest! {
        #[test]
        fn no_interleaving_gives_a_subnet_twice_or_leaves_a_node_without(
            nodes in 1usize..12, subnets in 1u8..14, steps in prop::collection::vec(0usize..12, 0..200), seed: u64,
        ) {
            let store = race(nodes, subnets, &steps, seed);
            let mut holders: Vec<_> = store.values().collect();
            holders.sort_unstable();
            holders.dedup();
            prop_assert_eq!(holders.len(), store.len(), "one node holds two subnets");
            prop_assert_eq!(store.len(), nodes.min(usize::from(subnets)));
        }

        #[test]
        fn free_subnets_are_those_a_plain_scan_finds(
            taken in prop::collection::vec((0u32..0x2000, 17u8..=32), 0..40), len in 20u8..=28, limit in 0usize..60,
        ) {
            let max = Prefix::new(Ipv4Addr::new(10, 3, 31, 255), len).unwrap().base();
            let range = SubnetRange { network: "10.3.0.0/16".parse().unwrap(), subnet_len: len, min: Ipv4Addr::new(10, 3, 0, 0), max };
            let taken: Vec<Prefix4> =
                taken.iter().map(|&(host, len)| Prefix::new(Ipv4Addr::from_bits(0x0a03_0000 + host), len).unwrap()).collect();
            let slow: Vec<Prefix4> = (0..)
                .map(|step: u32| 0x0a03_0000 + (step << (32 - len)))
                .take_while(|&base| base <= max.to_bits())
                .map(|base| Prefix::new(Ipv4Addr::from_bits(base), len).unwrap())
                .filter(|subnet| !taken.iter().any(|other| other.overlaps(subnet)))
                .take(limit)
                .collect();
            prop_assert_eq!(free_subnets(&range, taken, limit), slow);
        }
    }
}
