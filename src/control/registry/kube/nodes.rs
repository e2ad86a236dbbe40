//! The calls there are: one node, all nodes, what happens to them, a patch of one, and which node a pod runs on.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::node::Node;
use crate::control::kube::{KubeApi, KubeFailure, Lines};
use crate::control::registry::{CALL_TIMEOUT, RegistryError};

/// Where nodes are.
const NODES: &str = "/api/v1/nodes";

/// How many nodes are listed at once. Source: client-go.
const PAGE: u32 = 500;

/// How long the server is to keep a watch open. One that has long been silent, dead or not, is then begun anew.
const WATCH_TIME: Duration = Duration::from_mins(2);

/// How much longer than that a watch is believed in.
const GRACE: Duration = Duration::from_secs(10);

/// The nodes of a cluster.
#[derive(Clone)]
pub(super) struct Nodes {
    api: KubeApi,
}

/// All nodes, and the version from which a watch goes on.
pub(super) struct Listed {
    pub(super) nodes: Vec<Node>,
    pub(super) version: String,
}

/// What a watch says.
pub(super) enum News {
    /// A node as it is now.
    Node(Node),
    /// One that is gone, and the version from which a watch goes on.
    Gone { name: String, version: String },
    /// Nothing but a version.
    Version(String),
}

#[derive(Deserialize)]
struct Page {
    metadata: PageHead,
    #[serde(default)]
    items: Vec<Node>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageHead {
    resource_version: String,
    #[serde(default, rename = "continue")]
    rest: String,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Nodes {
    pub(super) fn new(api: KubeApi) -> Self {
        Self { api }
    }

    /// Which API this is, for messages.
    pub(super) fn describe(&self) -> String {
        format!("Kubernetes API at {}", self.api.place())
    }

    /// One node.
    pub(super) async fn node(&self, name: &str) -> Result<Node, KubeFailure> {
        read(&in_time(self.api.text(&format!("{NODES}/{name}"))).await?)
    }

    /// Every node, as the cluster's store has them now.
    pub(super) async fn list(&self) -> Result<Listed, KubeFailure> {
        let mut nodes = Vec::new();
        let mut rest = String::new();
        loop {
            // Tokens are URL-safe base64.
            let path = format!("{NODES}?limit={PAGE}{}{rest}", if rest.is_empty() { "" } else { "&continue=" });
            let page: Page = read(&self.api.text(&path).await?)?;
            nodes.extend(page.items);
            if page.metadata.rest.is_empty() {
                return Ok(Listed { nodes, version: page.metadata.resource_version });
            }
            rest = page.metadata.rest;
        }
    }

    /// What happens to nodes after `version`.
    pub(super) async fn watch(&self, version: &str) -> Result<NodeLines, KubeFailure> {
        let seconds = WATCH_TIME.as_secs();
        let path = format!("{NODES}?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}");
        Ok(NodeLines(self.api.lines(&path).await?))
    }

    /// Merges `patch` into a node's status, which is where its annotations may be written, too; the node then.
    pub(super) async fn patch(&self, name: &str, patch: String) -> Result<Node, KubeFailure> {
        read(&in_time(self.api.merge(&format!("{NODES}/{name}/status"), patch)).await?)
    }

    /// The node that a pod runs on, as soon as it runs on one.
    pub(super) async fn node_of_pod(&self, namespace: &str, name: &str) -> Result<Option<String>, KubeFailure> {
        #[derive(Deserialize)]
        struct Pod {
            spec: Spec,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            node_name: Option<String>,
        }
        let pod: Pod = read(&in_time(self.api.text(&format!("/api/v1/namespaces/{namespace}/pods/{name}"))).await?)?;
        Ok(pod.spec.node_name.filter(|name| !name.is_empty()))
    }

    /// What a failure is to whoever asked the registry; `what` is what was asked for.
    pub(super) fn error(&self, what: &str, failure: KubeFailure) -> RegistryError {
        let registry = self.describe();
        match failure {
            KubeFailure::Lost(reason) => RegistryError::Unreachable { registry, reason },
            KubeFailure::Forbidden(reason) => RegistryError::Denied { registry, reason },
            failure @ (KubeFailure::Missing | KubeFailure::Expired) => {
                RegistryError::Refused { registry, reason: format!("{what}: {failure}") }
            }
        }
    }
}

/// A watch.
pub(super) struct NodeLines(Lines);

impl NodeLines {
    /// What comes next; `None` when the server has ended the watch.
    pub(super) async fn next(&mut self) -> Result<Option<News>, KubeFailure> {
        let silent = |_| KubeFailure::Lost("the watch fell silent".to_owned());
        match timeout(WATCH_TIME + GRACE, self.0.next()).await.map_err(silent)?? {
            None => Ok(None),
            Some(line) => news(&line).map(Some),
        }
    }
}

fn news(line: &[u8]) -> Result<News, KubeFailure> {
    #[derive(Deserialize)]
    struct Status {
        #[serde(default)]
        code: u16,
    }
    let Line { kind, object } = read(line)?;
    let object = object.get().as_bytes();
    match kind.as_str() {
        "ADDED" | "MODIFIED" => read(object).map(News::Node),
        "DELETED" => {
            read(object).map(|Node { metadata, .. }| News::Gone { name: metadata.name, version: metadata.resource_version })
        }
        "BOOKMARK" => read(object).map(|node: Node| News::Version(node.metadata.resource_version)),
        "ERROR" => Err(KubeFailure::of(read::<Status>(object)?.code, object)),
        other => Err(KubeFailure::Lost(format!("expected an event, found one of type `{other}`"))),
    }
}

/// Single objects are small, and a call about one should not take longer than any other call to a registry.
async fn in_time<T>(call: impl Future<Output = Result<T, KubeFailure>>) -> Result<T, KubeFailure> {
    let late = |_| KubeFailure::Lost(format!("no answer within {} s", CALL_TIMEOUT.as_secs()));
    timeout(CALL_TIMEOUT, call).await.map_err(late)?
}

fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, KubeFailure> {
    serde_json::from_slice(text).map_err(|error| KubeFailure::Lost(format!("an answer that makes no sense: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_they_say() {
        let node = |line: &str| match news(line.as_bytes()) {
            Ok(News::Node(node)) => format!("node {}", node.metadata.name),
            Ok(News::Gone { name, version }) => format!("gone {name} {version}"),
            Ok(News::Version(version)) => format!("version {version}"),
            Err(failure) => format!("{failure:?}"),
        };
        let object =
            r#"{"kind":"Node","metadata":{"name":"a","resourceVersion":"9"},"spec":{},"status":{"images":[{"names":["x"]}]}}"#;
        for (line, expected) in [
            (format!(r#"{{"type":"ADDED","object":{object}}}"#), "node a"),
            (format!(r#"{{"type":"MODIFIED","object":{object}}}"#), "node a"),
            (format!(r#"{{"type":"DELETED","object":{object}}}"#), "gone a 9"),
            (r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}"#.into(), "version 12"),
            (
                r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version: 1 (9)"}}"#.into(),
                "Expired",
            ),
        ] {
            assert_eq!(node(&line), expected, "{line}");
        }
        assert!(node("{}").contains("makes no sense"));
        assert!(node(r#"{"type":"NEW","object":{}}"#).contains("`NEW`"));
    }
}
