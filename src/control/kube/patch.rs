//! The one way in which Felt changes objects of an API server: a strategic merge patch.

use http_body_util::BodyExt as _;
use hyper::Request;
use kube::client::Body;
use tokio::time::timeout;

use super::api::{PATIENCE, describe};
use super::{KubeApi, KubeFailure};

impl KubeApi {
    /// Merges `changes`, JSON, into the object at `path`; the whole object as it is then.
    ///
    /// # Errors
    /// [`KubeFailure`].
    pub async fn merge(&self, path: &str, changes: String) -> Result<Vec<u8>, KubeFailure> {
        let request = Request::patch(path)
            .header("Accept", "application/json")
            .header("Content-Type", "application/strategic-merge-patch+json")
            .body(Body::from(changes.into_bytes()))
            .map_err(|error| KubeFailure::Lost(error.to_string()))?;
        let exchange = async {
            let answer = self.client().send(request).await.map_err(|error| KubeFailure::Lost(describe(&error)))?;
            let status = answer.status();
            let text = answer.into_body().collect().await.map_err(|error| KubeFailure::Lost(describe(&error)))?.to_bytes();
            if status.is_success() { Ok(text.to_vec()) } else { Err(KubeFailure::of(status.as_u16(), &text)) }
        };
        let late = |_| KubeFailure::Lost(format!("no answer within {} s", PATIENCE.as_secs()));
        timeout(PATIENCE, exchange).await.map_err(late)?
    }
}
