//! The engine against its slow twin: random clusters, from scratch and change by change, judged as a whole and by one node.

mod policy_proof;

use std::net::IpAddr;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use felt::policy::{Policies, Scope, UnknownPods};
use policy_proof::engine::{self, Engine};
use policy_proof::naive::{self, Here};
use policy_proof::random::{PROBES, World, world};

/// Pods' subnets of a node: some of the addresses that pods have, and some that none has.
const OWN: [&str; 4] = ["10.0.0.0/30", "10.0.0.96/29", "fd00::/126", "fd00::90/120"];

/// Every flow between addresses of one family, for each probe.
fn flows(world: &World) -> impl Iterator<Item = (IpAddr, IpAddr, &'static str, u16)> {
    let addresses = world.addresses();
    let pairs = addresses.clone().into_iter().flat_map(move |from| addresses.clone().into_iter().map(move |to| (from, to)));
    let pairs = pairs.filter(|(from, to)| from.is_ipv4() == to.is_ipv4());
    pairs.flat_map(|(from, to)| PROBES.into_iter().map(move |(protocol, port)| (from, to, protocol, port)))
}

/// Asks both about each flow.
fn agree(world: &World, policies: &Policies) -> Result<(), TestCaseError> {
    for (from, to, protocol, port) in flows(world) {
        let right = naive::letter(&world.0, from, to, protocol, port);
        let found = engine::letter(policies, from, to, protocol, port);
        let right_here = if right == '-' { '.' } else { right };
        prop_assert_eq!(found, right_here, "{} to {} {}/{}: the twin says {}", from, to, protocol, port, right);
    }
    Ok(())
}

/// The same of what one node judges.
fn agree_here(world: &World, here: &Here, policies: &Policies) -> Result<(), TestCaseError> {
    for (from, to, protocol, port) in flows(world) {
        let right = naive::letter_here(&world.0, here, from, to, protocol, port);
        let found = engine::letter(policies, from, to, protocol, port);
        prop_assert_eq!(found, right, "{} to {} {}/{} on {}", from, to, protocol, port, here.node);
    }
    Ok(())
}

fn scope(here: &Here) -> Scope {
    let unknown_pods = if here.refuse_unknown { UnknownPods::Refuse } else { UnknownPods::Allow };
    let (own4, own6): (Vec<&str>, Vec<&str>) = here.own.iter().copied().partition(|cidr| !cidr.contains(':'));
    let own4 = own4.iter().map(|cidr| cidr.parse().unwrap()).collect();
    let own6 = own6.iter().map(|cidr| cidr.parse().unwrap()).collect();
    Scope { node: Some(here.node.to_owned()), own4, own6, unknown_pods, ..Scope::default() }
}

/// Leads the engine to a cluster, in any order, with a look now and then.
fn lead(engine: &mut Engine, world: &World, random: &mut SmallRng) {
    let mut changes = engine.changes(&world.0);
    changes.shuffle(random);
    for change in changes {
        engine.apply(change);
        if random.random_bool(0.2) {
            engine.compile();
        }
    }
}

/// Puts what nobody understands into a policy's spec: as a value, or as one more field of an object. `at` says where.
fn garble(value: &mut Value, at: &mut usize, as_field: bool) {
    let junk = json!({"?": 1});
    if *at == 0 {
        match value.as_object_mut().filter(|_| as_field) {
            Some(fields) => _ = fields.insert("?".to_owned(), junk),
            None => *value = junk,
        }
    }
    // Past the place; what is beneath it stays.
    let Some(left) = at.checked_sub(1) else { return *at = usize::MAX };
    *at = left;
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|inner| garble(inner, at, as_field)),
        Value::Array(items) => items.iter_mut().for_each(|inner| garble(inner, at, as_field)),
        _ => {}
    }
}

/// How many places a value has that can be garbled.
fn places(value: &Value) -> usize {
    1 + match value {
        Value::Object(fields) => fields.values().map(places).sum(),
        Value::Array(items) => items.iter().map(places).sum(),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2 * ProptestConfig::default().cases, ..ProptestConfig::default() })]

    #[test]
    fn from_scratch_it_says_what_its_twin_says(world in world(), seed in any::<u64>()) {
        let mut engine = Engine::new();
        let mut changes = engine.changes(&world.0);
        changes.shuffle(&mut SmallRng::seed_from_u64(seed));
        for change in changes {
            engine.apply(change);
        }
        agree(&world, &engine.compile())?;
        // And when asked why, it comes to the same.
        for (from, to, protocol, port) in flows(&world) {
            let (verdict, explained) = engine::reasons(&mut engine, from, to, protocol, port);
            prop_assert_eq!(verdict, explained, "{} to {} {}/{}", from, to, protocol, port);
        }
    }

    #[test]
    fn change_by_change_it_says_what_its_twin_says(worlds in proptest::collection::vec(world(), 2..5), seed in any::<u64>()) {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut engine = Engine::new();
        for world in &worlds {
            lead(&mut engine, world, &mut random);
            agree(world, &engine.compile())?;
        }
    }

    #[test]
    fn a_node_judges_its_own_pods(
        worlds in proptest::collection::vec((world(), proptest::sample::select(vec!["n1", "n2", "n3"]), any::<bool>()), 1..4),
        seed in any::<u64>(),
    ) {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut engine = Engine::new();
        for (world, node, refuse_unknown) in &worlds {
            let here = Here { node, own: &OWN, refuse_unknown: *refuse_unknown };
            engine.set_scope(scope(&here));
            lead(&mut engine, world, &mut random);
            agree_here(world, &here, &engine.compile())?;
        }
    }

    #[test]
    fn what_is_not_understood_opens_nothing(world in world(), which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), as_field: bool) {
        let policies: Vec<_> = (0..world.0.len()).filter(|&at| world.0[at]["kind"].as_str().unwrap().ends_with("Policy")).collect();
        prop_assume!(!policies.is_empty());
        let mut garbled = world.clone();
        let spec = &mut garbled.0[policies[which.index(policies.len())]]["spec"];
        garble(spec, &mut at.index(places(spec)), as_field);

        let mut engine = Engine::new();
        lead(&mut engine, &world, &mut SmallRng::seed_from_u64(0));
        let before = engine.compile();
        lead(&mut engine, &garbled, &mut SmallRng::seed_from_u64(0));
        let after = engine.compile();
        for (from, to, protocol, port) in flows(&world) {
            let letters = [&before, &after].map(|policies| engine::letter(policies, from, to, protocol, port));
            let stays = matches!(letters, ['.', _] | ['e', 'e' | 'b'] | ['i', 'i' | 'b'] | ['b', 'b']);
            prop_assert!(stays, "{} to {} {}/{}: {:?} once it is {:?}", from, to, protocol, port, letters, garbled);
        }
    }
}
