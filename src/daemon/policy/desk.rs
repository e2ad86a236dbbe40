//! What the policy task knows, and what it makes of that: objects from all sources, compiled when something has changed.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::board::{Board, Brief};
use super::options::{PolicyOptions, UntilSynced};
use crate::control::source::{Complaint, Merge, SourceReport, Weight};
use crate::obs::Metrics;
use crate::policy::model::Object;
use crate::policy::{Change, Cluster, Policies, UnknownPods};

/// Remarks that are remembered as said; after so many they are said anew.
const REMEMBERED: usize = 4096;

/// Everything about policy that is not shared.
pub(super) struct Desk {
    board: Arc<Board>,
    metrics: Arc<Metrics>,
    until_synced: UntilSynced,
    unknown_pods: UnknownPods,
    node_name: String,
    /// What each source is called.
    names: Vec<String>,
    merge: Merge,
    /// What the cluster has not been told yet.
    changes: Vec<Change>,
    /// `None`: a compilation broke down, so it has to be built again.
    cluster: Option<Cluster>,
    /// The version compiled last.
    version: u64,
    /// The edition of the scope that the view in force goes by.
    edition: Option<u64>,
    announced: bool,
    said: HashSet<String>,
}

/// A compilation: done on a thread of its own, away from the task.
pub(super) struct Work {
    cluster: Cluster,
    changes: Vec<Change>,
    edition: u64,
    synced: bool,
    compiles: bool,
}

/// What came of it.
pub(super) struct Done {
    cluster: Cluster,
    policies: Option<Arc<Policies>>,
    edition: u64,
    synced: bool,
    took: std::time::Duration,
}

impl Desk {
    /// Nothing known yet of the sources that are called so.
    pub(super) fn new(options: &PolicyOptions, names: Vec<String>, board: Arc<Board>, metrics: Arc<Metrics>) -> Self {
        Self {
            cluster: Some(Cluster::new(board.brief().scope)),
            board,
            metrics,
            until_synced: options.until_synced,
            unknown_pods: options.unknown_pods,
            node_name: options.node_name.clone(),
            merge: Merge::new(names.len()),
            names,
            changes: Vec::new(),
            version: 0,
            edition: None,
            announced: false,
            said: HashSet::new(),
        }
    }

    /// Takes in what a source has to say.
    pub(super) fn take(&mut self, source: usize, report: SourceReport) {
        for complaint in report.complaints {
            self.say(&complaint);
        }
        let taken = self.merge.take(source, report.news);
        for id in taken.shadowed {
            let name = self.names.get(source).map_or("", String::as_str);
            self.say(&Complaint::remark(name, format!("{id} is in an earlier policy source, too; the one here does not count")));
        }
        self.changes.extend(taken.changes);
        self.metrics.policy.set_objects(self.merge.counts());
    }

    /// A source has ended, which none does unless it has failed in a way nobody foresaw.
    pub(super) fn lost(&mut self, source: usize) {
        let name = self.names.get(source).map_or("", String::as_str).to_owned();
        self.say(&Complaint::error(
            name,
            "is no longer followed: what it held stays in force; please report what was logged before",
        ));
    }

    /// What there is to compile; `None` if nothing has changed.
    pub(super) fn work(&mut self) -> Option<Work> {
        let Brief { mut scope, edition, version } = self.board.brief();
        let synced = self.merge.is_synced();
        let is_news = !self.changes.is_empty() || self.edition != Some(edition) || synced != self.announced;
        if !is_news {
            return None;
        }
        self.look_for_strangers(edition);
        let changes = std::mem::take(&mut self.changes);
        let (mut cluster, changes) = match self.cluster.take() {
            Some(cluster) => (cluster, changes),
            None => (Cluster::after(self.version), self.merge.objects().cloned().map(Change::Put).collect()),
        };
        // Until it is known which pods there are, none of them can be told to be unknown.
        scope.unknown_pods = if synced { self.unknown_pods } else { UnknownPods::Allow };
        cluster.set_scope(scope);
        cluster.outdate(version);
        Some(Work { cluster, changes, edition, synced, compiles: synced || self.until_synced == UntilSynced::Allow })
    }

    /// Puts in force what came of `work`; `None`: it broke down.
    pub(super) fn finish(&mut self, done: Option<Done>) {
        let Some(Done { cluster, policies, edition, synced, took }) = done else {
            let text = "policies could not be compiled, which is a fault of Felt: those before stay in force; please report this";
            self.say(&Complaint::error("policy", text));
            return;
        };
        self.cluster = Some(cluster);
        let Some(policies) = policies else {
            self.edition = Some(edition);
            return;
        };
        let gauges = &self.metrics.policy;
        gauges.compiled(took);
        let version = policies.version();
        self.version = version;
        if !self.board.publish(policies, edition, synced) {
            // The scope has changed meanwhile, and that is work to come.
            return;
        }
        self.edition = Some(edition);
        gauges.version.store(version, Relaxed);
        tracing::debug!(version, took_ms = took.as_secs_f64() * 1e3, "policies compiled");
        if synced && !self.announced {
            self.announced = true;
            gauges.synced.store(true, Relaxed);
            let of = |pods: bool| self.merge.counts().filter(move |(kind, _)| pods == (*kind == "Pod"));
            let policies: u64 = of(false).filter(|(kind, _)| kind.ends_with("Policy")).map(|(_, count)| count).sum();
            let pods: u64 = of(true).map(|(_, count)| count).sum();
            tracing::info!(policies, pods, "policy synced");
        }
    }

    /// Speaks of pods with an address of our subnet whose objects name another node. They are judged here all the same; but if it
    /// is our node that is called otherwise, pods that are only here by its name are not.
    fn look_for_strangers(&mut self, edition: u64) {
        let Some(own) = self.board.own4() else { return };
        let is_ours = |address: &IpAddr| matches!(address, IpAddr::V4(address) if own.contains(*address));
        let stranger = |object: &Object| {
            let Object::Pod(pod) = object else { return None };
            let elsewhere = !pod.node.is_empty() && pod.node != self.node_name && !pod.host_network && !pod.finished;
            let address = pod.addresses.iter().find(|address| is_ours(address)).filter(|_| elsewhere)?;
            Some(Complaint::remark(
                object.id().to_string(),
                format!(
                    "{} has the address {address} of this node's subnet, but is said to run on node {}, and this one is {}: \
                     does --node-name match?",
                    object.id(),
                    pod.node,
                    self.node_name
                ),
            ))
        };
        let strangers: Vec<Complaint> = if self.edition == Some(edition) {
            self.changes
                .iter()
                .filter_map(|change| if let Change::Put(object) = change { stranger(object) } else { None })
                .collect()
        } else {
            // Our subnet is another: all of them count.
            self.merge.objects().filter_map(stranger).collect()
        };
        for stranger in strangers {
            self.say(&stranger);
        }
    }

    /// Logs a complaint: an error whenever it comes up, a remark once.
    fn say(&mut self, complaint: &Complaint) {
        match complaint.weight {
            Weight::Error => {
                self.metrics.policy.errors.fetch_add(1, Relaxed);
                tracing::error!("{complaint}");
            }
            Weight::Remark => {
                if self.said.len() >= REMEMBERED {
                    self.said.clear();
                }
                // Not by its place: lines move when others are written above them.
                if self.said.insert(complaint.text.clone()) {
                    self.metrics.policy.remarks.fetch_add(1, Relaxed);
                    tracing::warn!("{complaint}");
                }
            }
        }
    }
}

impl Work {
    /// Does it. May take a second, where very much has changed.
    pub(super) fn run(mut self) -> Done {
        for change in self.changes {
            self.cluster.apply(change);
        }
        let begin = Instant::now();
        let policies = self.compiles.then(|| self.cluster.compile());
        Done { cluster: self.cluster, policies, edition: self.edition, synced: self.synced, took: begin.elapsed() }
    }
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
