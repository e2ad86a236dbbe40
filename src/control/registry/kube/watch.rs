//! The watch of all nodes: a snapshot of their leases, then events, whatever the API server does.
//!
//! A server that has forgotten what we know (410) is asked for everything at once, not after the pauses that one gets that does not
//! answer. While there is none, what is known stays as it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::AnnotationPrefix;
use super::nodes::{News, Nodes};
use super::records::{Own, Records};
use super::upkeep::OwnNode;
use crate::control::contact::Link;
use crate::control::kube::KubeFailure;
use crate::lease::{Change, LeaseAttrs, LeaseEvent, Update};

/// Pauses between attempts: the first, doubling up to the last, which bounds how late a server is noticed that is back.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// A watch that held this long shows that the server is well.
const WELL_AFTER: Duration = Duration::from_secs(5);

/// One watch.
pub(super) struct Watch<'a> {
    nodes: &'a Nodes,
    own: &'a OwnNode,
    sender: &'a mpsc::Sender<Update>,
    link: Link,
    records: Records,
    pause: Duration,
}

/// Why a watch came to its end.
enum End {
    /// Nobody listens any more.
    Deaf,
    /// By the server, in good order.
    InOrder,
    /// By a failure.
    Failed(KubeFailure),
}

/// Starts a watch, and with it the upkeep of our own node.
pub(super) fn leases(nodes: Nodes, own: Arc<OwnNode>, prefix: AnnotationPrefix, link: Link) -> mpsc::Receiver<Update> {
    let (sender, receiver) = mpsc::channel(8);
    tokio::spawn(async move {
        let records = Records::new(prefix);
        let mut watch = Watch { nodes: &nodes, own: &own, sender: &sender, link, records, pause: FIRST_PAUSE };
        tokio::select! {
            () = sender.closed() => {}
            () = watch.run() => {}
            () = own.keep_up(&nodes) => {}
        }
    });
    receiver
}

impl Watch<'_> {
    /// Until nobody listens.
    async fn run(&mut self) {
        let mut known = None;
        loop {
            let begun = Instant::now();
            let end = match &mut known {
                None => match self.list().await {
                    Ok(None) => return,
                    Ok(version) => {
                        known = version;
                        continue;
                    }
                    Err(failure) => End::Failed(failure),
                },
                Some(version) => self.follow(version).await,
            };
            if begun.elapsed() >= WELL_AFTER {
                self.pause = FIRST_PAUSE;
            }
            match end {
                End::Deaf => return,
                End::InOrder => {}
                End::Failed(KubeFailure::Expired) => {
                    tracing::debug!("{} has forgotten what we know: listing anew", self.nodes.describe());
                    known = None;
                }
                End::Failed(failure) => self.link.lost(&failure.to_string()),
            }
            // A random part keeps the nodes of a restarted server apart.
            sleep(self.pause.mul_f64(rand::random_range(0.5..1.0))).await;
            self.pause = (self.pause * 2).min(LAST_PAUSE);
        }
    }

    /// Tells of all leases; the version they are of. `None`: nobody listens.
    async fn list(&mut self) -> Result<Option<String>, KubeFailure> {
        let listed = self.nodes.list().await?;
        self.link.regained();
        self.own.seen_all(&listed.nodes);
        let attrs = self.own.attrs();
        self.records.replace(&listed.nodes, own(self.own, attrs.as_ref()).as_ref());
        Ok(self.send(Change::Snapshot(self.records.leases())).await.then_some(listed.version))
    }

    /// Tells of what happens after `version`, and moves that on.
    async fn follow(&mut self, version: &mut String) -> End {
        let mut lines = match self.nodes.watch(version).await {
            Ok(lines) => lines,
            Err(failure) => return End::Failed(failure),
        };
        self.link.regained();
        loop {
            let news = match lines.next().await {
                Ok(Some(news)) => news,
                Ok(None) => return End::InOrder,
                Err(failure) => return End::Failed(failure),
            };
            let events = self.take(news, version);
            if !events.is_empty() && !self.send(Change::Events(events)).await {
                return End::Deaf;
            }
        }
    }

    fn take(&mut self, news: News, version: &mut String) -> Vec<LeaseEvent> {
        match news {
            News::Node(node) => {
                version.clone_from(&node.metadata.resource_version);
                self.own.seen(&node);
                let attrs = self.own.attrs();
                self.records.put(&node, own(self.own, attrs.as_ref()).as_ref())
            }
            News::Gone { name, version: at } => {
                *version = at;
                self.own.gone(&name);
                self.records.remove(&name)
            }
            News::Version(at) => {
                *version = at;
                Vec::new()
            }
        }
    }

    async fn send(&self, change: Change) -> bool {
        // Leases of this registry have no revisions, see `node::lease`.
        self.sender.send(Update { revision: 0, change }).await.is_ok()
    }
}

/// Our own node, if it holds its lease.
fn own<'a>(node: &'a OwnNode, attrs: Option<&'a LeaseAttrs>) -> Option<Own<'a>> {
    Some(Own { name: node.name()?, attrs: attrs? })
}
