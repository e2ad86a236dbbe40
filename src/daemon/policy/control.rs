//! The node's handle on policy.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::board::Board;
use super::desk::Desk;
use super::enforcement::Enforcement;
use super::host;
use super::options::PolicyOptions;
use super::refusals;
use super::task::Task;
use crate::control::registry::{Registry, RegistryError};
use crate::control::source::files::FileSource;
use crate::control::source::{PolicySource, RegistrySource};
use crate::daemon::clock;
use crate::flow::{FlowTable, NoTable, Seed};
use crate::lease::SubnetKey;
use crate::net::Prefix4;
use crate::obs::{Health, Metrics};
use crate::policy::RefusalQueue;
use crate::sys::memory;

/// Refused flows that may wait to be spoken of. Read four times a second.
const REFUSALS_WAITING: usize = 4096;

/// Policy could not be put in force.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The registry is to be a source and keeps no policy objects.
    #[error("--policy-from-registry: {0}")]
    Registry(#[from] RegistryError),
    /// There is no memory for so many flows.
    #[error("--policy-flows: {0}")]
    Flows(#[from] NoTable),
}

/// Policy, running. Dropping it ends its tasks; the last view stays in force.
pub struct PolicyControl {
    board: Arc<Board>,
    refusals: Arc<RefusalQueue>,
    flows: Arc<FlowTable>,
    options: PolicyOptions,
    _end: DropGuard,
}

impl PolicyControl {
    /// Begins to follow the sources that `options` name. Must be called within a runtime.
    ///
    /// # Errors
    /// [`PolicyError`] says what stands in the way.
    pub fn start(
        options: &PolicyOptions,
        registry: &dyn Registry,
        health: &Health,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, PolicyError> {
        let mut sources: Vec<Box<dyn PolicySource>> = Vec::new();
        if !options.manifests.is_empty() {
            sources.push(Box::new(FileSource::new(options.manifests.clone())));
        }
        if options.from_registry {
            sources.push(Box::new(RegistrySource::new(registry.policy_store()?)));
        }
        Self::follow(options, sources, health, metrics)
    }

    /// Begins to follow `sources`. Must be called within a runtime.
    ///
    /// # Errors
    /// [`PolicyError::Flows`].
    pub fn follow(
        options: &PolicyOptions,
        sources: Vec<Box<dyn PolicySource>>,
        health: &Health,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, PolicyError> {
        let flows = Arc::new(FlowTable::new(options.flows, Seed::new(rand::random()))?);
        if let Err(error) = memory::prefer_huge_pages(flows.memory()) {
            tracing::debug!("the flow table does without huge pages: {error}");
        }
        metrics.policy.set_flows(Arc::clone(&flows));
        metrics.policy.configured.store(true, Relaxed);
        let names: Vec<_> = sources.iter().map(|source| source.describe()).collect();
        tracing::info!(node = options.node_name, "policy comes from {}", names.join(" and "));
        // Those that cannot be read now are heard of later.
        let board = Arc::new(Board::new(options, host::addresses().unwrap_or_default()));
        let desk = Desk::new(options, names, Arc::clone(&board), Arc::clone(metrics));
        let end = CancellationToken::new();
        let pulse = health.watch("policy task", clock::now());
        let task = Task { desk, board: Arc::clone(&board), pulse, end: end.clone() };
        tokio::spawn(task.run(sources));
        let queue = Arc::new(RefusalQueue::new(REFUSALS_WAITING));
        tokio::spawn(refusals::tell(Arc::clone(&queue), board.subscribe(), Arc::clone(metrics), end.clone()));
        Ok(Self { board, refusals: queue, flows, options: options.clone(), _end: end.drop_guard() })
    }

    /// This subnet is ours from now on; to be called before anything is forwarded for it.
    pub fn set_own(&self, subnet: &SubnetKey) {
        self.board.set_own(subnet);
    }

    /// These subnets were ours, and pods may still have addresses of them; `unleased` are those that no other node leases now. To
    /// be called before [`set_own`](Self::set_own), so that a subnet is never neither.
    pub fn set_former(&self, former: Vec<Prefix4>, unleased: Vec<Prefix4>) {
        self.board.set_former(former, unleased);
    }

    /// What one thread of a worker is given.
    #[must_use]
    pub fn enforcement(&self) -> Enforcement {
        Enforcement::new(self.board.subscribe(), Arc::clone(&self.flows), Arc::clone(&self.refusals), &self.options)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::super::board::PolicyView;
    use super::super::board::tests::options;
    use super::super::options::UntilSynced;
    use super::*;
    use crate::net::{FlowKey, Protocol};
    use crate::policy::Verdict;
    use crate::sync::Subscription;

    const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: n1}
status: {phase: Running, podIP: 10.255.255.2}
";

    const DENY: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {}}
";

    fn is_allowed(view: &PolicyView) -> bool {
        let key = FlowKey::new(Protocol::TCP, ("192.0.2.1".parse().unwrap(), 1), ("10.255.255.2".parse().unwrap(), 80));
        view.policies.verdict(&key) == Verdict::Allowed
    }

    /// How long it takes until workers see a view like that.
    async fn until(views: &mut Subscription<PolicyView>, is_so: impl Fn(&PolicyView) -> bool) -> Duration {
        let begin = Instant::now();
        while !is_so(views.refresh()) {
            assert!(begin.elapsed() < Duration::from_secs(10), "it does not come");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        begin.elapsed()
    }

    #[tokio::test]
    async fn a_folder_is_in_force_and_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("pod.yaml", POD);
        write("broken.yaml", "a: [");
        let options = PolicyOptions { manifests: vec![folder.path().to_owned()], ..options(UntilSynced::Deny) };
        let (health, metrics) = (Health::default(), Arc::<Metrics>::default());
        let source: Box<dyn PolicySource> = Box::new(FileSource::new(options.manifests.clone()));
        let control = PolicyControl::follow(&options, vec![source], &health, &metrics).unwrap();
        control.set_own(&SubnetKey::from("10.255.255.0/24".parse::<Prefix4>().unwrap()));
        let mut views = control.board.subscribe();
        assert!(!is_allowed(views.refresh()), "closed from the start");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!views.refresh().synced && metrics.policy.errors.load(Relaxed) == 1);

        write("broken.yaml", "");
        until(&mut views, |view| view.synced && is_allowed(view)).await;
        write("deny.yaml", DENY);
        let took = until(&mut views, |view| !is_allowed(view)).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert!(views.refresh().synced);
        fs::remove_file(folder.path().join("deny.yaml")).unwrap();
        until(&mut views, is_allowed).await;
        drop(control);
        assert!(is_allowed(views.refresh()), "the last view stays");
    }
}
