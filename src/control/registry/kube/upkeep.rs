//! Our own node object, kept as it should be: its annotations while we hold its subnet, its condition once the network is up.
//!
//! Others may write to it, by hand or because the object was made anew; what they change is put back. Nothing waits for that,
//! and leases do not come and go by it.

use std::sync::OnceLock;
use std::time::Duration;

use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::time::sleep;

use super::AnnotationPrefix;
use super::node::Node;
use super::nodes::Nodes;
use super::published::{annotate, say_up};
use crate::control::kube::KubeFailure;
use crate::lease::LeaseAttrs;

/// How long what the object says may differ before it is put back: the watch may be behind what we wrote.
const PATIENCE: Duration = Duration::from_millis(500);

/// Pauses between attempts that fail: the first, doubling up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// What our node object says and what it should say.
#[derive(Debug)]
pub(super) struct OwnNode {
    prefix: AnnotationPrefix,
    set_condition: bool,
    name: OnceLock<String>,
    state: watch::Sender<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The object as last seen.
    seen: Option<Node>,
    /// What we publish; `None` while we hold nothing.
    attrs: Option<LeaseAttrs>,
    /// Whether the network is up.
    up: bool,
}

impl OwnNode {
    pub(super) fn new(prefix: AnnotationPrefix, set_condition: bool) -> Self {
        Self { prefix, set_condition, name: OnceLock::new(), state: watch::Sender::default() }
    }

    /// Its name, once it is known.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.get().map(String::as_str)
    }

    /// Makes its name known.
    pub(super) fn set_name(&self, name: String) -> &str {
        self.name.get_or_init(|| name)
    }

    /// What we publish, while we hold a subnet.
    pub(super) fn attrs(&self) -> Option<LeaseAttrs> {
        self.state.borrow().attrs.clone()
    }

    /// We hold its subnet and publish this; `node` is the object after that was written.
    pub(super) fn hold(&self, node: Node, attrs: LeaseAttrs) {
        self.state.send_modify(|state| {
            state.seen = Some(node);
            state.attrs = Some(attrs);
        });
    }

    /// We hold nothing.
    pub(super) fn let_go(&self) {
        self.state.send_modify(|state| state.attrs = None);
    }

    /// The network is up.
    pub(super) fn up(&self) {
        self.state.send_modify(|state| state.up = true);
    }

    /// A node object was seen, ours or another.
    pub(super) fn seen(&self, node: &Node) {
        if self.name() == Some(node.metadata.name.as_str()) {
            self.state.send_modify(|state| state.seen = Some(node.clone()));
        }
    }

    /// These are all the objects there are.
    pub(super) fn seen_all(&self, nodes: &[Node]) {
        let Some(name) = self.name() else { return };
        match nodes.iter().find(|node| node.metadata.name == name) {
            Some(node) => self.seen(node),
            None => self.gone(name),
        }
    }

    /// A node object is gone, ours or another.
    pub(super) fn gone(&self, name: &str) {
        if self.name() == Some(name) {
            self.state.send_modify(|state| {
                state.seen = None;
                state.attrs = None;
            });
        }
    }

    /// Puts right what is not. Never ends.
    pub(super) async fn keep_up(&self, nodes: &Nodes) {
        let mut changes = self.state.subscribe();
        let mut pause = FIRST_PAUSE;
        let mut complained = false;
        loop {
            if self.lacking(&changes.borrow_and_update()).is_none() {
                // The sender is ours, so it is there.
                let _ = changes.changed().await;
                continue;
            }
            sleep(PATIENCE).await;
            let (Some(name), Some((what, patch))) = (self.name(), self.lacking(&changes.borrow_and_update())) else { continue };
            match nodes.patch(name, patch).await {
                Ok(node) => {
                    tracing::info!("node {name}: {what} set");
                    self.seen(&node);
                    (pause, complained) = (FIRST_PAUSE, false);
                }
                // The watch tells of that.
                Err(KubeFailure::Missing) => {
                    let _ = changes.changed().await;
                }
                Err(failure) => {
                    // Loss of contact is told by the watch.
                    if !complained && !matches!(failure, KubeFailure::Lost(_)) {
                        tracing::warn!("node {name}: {what} cannot be set: {failure}; trying again");
                        complained = true;
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                }
            }
        }
    }

    /// What the object lacks, in a word and as a patch.
    fn lacking(&self, state: &State) -> Option<(&'static str, String)> {
        let (node, attrs) = (state.seen.as_ref()?, state.attrs.as_ref()?);
        if let Some(patch) = annotate(node, &self.prefix, attrs) {
            return Some(("annotations", patch));
        }
        let up = state.up && self.set_condition;
        let patch = up.then(|| say_up(node, OffsetDateTime::now_utc())).flatten()?;
        Some(("condition NetworkUnavailable=False", patch))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::node::tests::node;
    use super::*;

    #[test]
    fn only_a_holder_of_its_subnet_writes_to_its_node() {
        let own = OwnNode::new(AnnotationPrefix::default(), true);
        let lacks = || own.lacking(&own.state.borrow()).map(|(what, _)| what);
        let attrs = || LeaseAttrs::udp("192.0.2.1".parse().unwrap());
        let right = [("kube-subnet-manager", "true"), ("backend-type", ""), ("backend-data", "null"), ("public-ip", "192.0.2.1")];
        let right = node("a", json!({}), &right);
        own.set_name("a".into());
        own.seen(&node("a", json!({}), &[]));
        own.up();
        assert_eq!(lacks(), None, "it holds nothing");
        own.hold(right.clone(), attrs());
        assert_eq!(lacks(), Some("condition NetworkUnavailable=False"));
        own.seen(&node("b", json!({}), &[]));
        assert_eq!(lacks(), Some("condition NetworkUnavailable=False"), "another node");
        own.seen(&node("a", json!({}), &[]));
        assert_eq!(lacks(), Some("annotations"));
        own.seen_all(std::slice::from_ref(&right));
        assert_eq!(lacks(), Some("condition NetworkUnavailable=False"));
        own.seen_all(&[]);
        own.seen(&node("a", json!({}), &[]));
        assert_eq!(lacks(), None, "its object was another's before");
        own.hold(right, attrs());
        own.let_go();
        assert_eq!(lacks(), None);
    }
}
