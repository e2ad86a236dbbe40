//! What the first packet of a flow costs, and what changes of a cluster do, with thousands of pods and policies.
//!
//! `verdict` counts one flow per element: both its ends are looked up and judged. The flows are drawn at random, so nothing that
//! belongs to a pod is in a cache because the last flow had it there.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use felt::policy::Change;
use felt::policy::model::Object;

#[path = "bodies/policy.rs"]
mod bodies;

use bodies::{Shape, cluster, flows, judge, objects, pod, policy};

fn verdicts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("verdict");
    let cases = [
        ("1,000 policies in the pod's namespace", 10_000, 1_000, Shape::Heaped, Some(100)),
        ("1,000 policies of the administrator", 10_000, 1_000, Shape::Ordered, None),
        ("10,000 policies and 10,000 pods", 10_000, 10_000, Shape::Spread, None),
    ];
    for (name, pods, policies, shape, into) in cases {
        let policies = cluster(&objects(pods, policies, shape)).compile();
        let flows = flows(pods, into);
        let refused = judge(&policies, &flows);
        assert!(refused > flows.len() / 8, "expected some to be refused, found {refused} of {}", flows.len());
        group.throughput(Throughput::Elements(flows.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| judge(&policies, &flows)));
    }
    group.finish();
}

fn changes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(10);
    for (name, shape) in [("spread", Shape::Spread), ("heaped", Shape::Heaped)] {
        let objects = objects(10_000, 1_000, shape);
        group.bench_function(format!("everything, {name}"), |bencher| {
            bencher.iter_batched_ref(|| cluster(&objects), |cluster| black_box(cluster.compile()), BatchSize::PerIteration);
        });
        let mut cluster = cluster(&objects);
        let mut held = cluster.compile();
        let mut age = 0;
        group.bench_function(format!("one pod, {name}"), |bencher| {
            bencher.iter(|| {
                age += 1;
                cluster.apply(Change::Put(Object::Pod(pod(age * 4 % 100, age))));
                held = cluster.compile();
            });
        });
        group.bench_function(format!("one policy, {name}"), |bencher| {
            bencher.iter(|| {
                age += 1;
                let mut changed = policy(5, 100, shape);
                changed.egress = (age % 2 == 0).then(Vec::new);
                cluster.apply(Change::Put(Object::Policy(changed)));
                held = cluster.compile();
            });
        });
        assert!(held.version() > 0);
    }
    group.finish();
}

criterion_group!(benches, verdicts, changes);
criterion_main!(benches);
