//! Calls to an API server: a text as a whole, or a stream of lines.

use std::error::Error;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

/// How long a server may take to begin with an answer, and with each next part of a text.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// Longest text that is read, in bytes; a page of 500 objects has some megabytes.
const LARGEST: usize = 256 << 20;

/// An API server.
#[derive(Clone)]
pub struct KubeApi {
    client: Client,
    place: String,
}

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeFailure {
    /// The version asked for is no longer to be had (410): list anew.
    #[error("that version is no longer to be had")]
    Expired,
    /// There is no such thing (404).
    #[error("there is no such thing")]
    Missing,
    /// We are not allowed to (403); the server's own words.
    #[error("{0}")]
    Forbidden(String),
    /// Anything else, which may pass: no connection, a server that is busy or broken, a token that is not taken.
    #[error("{0}")]
    Lost(String),
}

/// The lines of an answer, as they come.
pub struct Lines {
    body: Body,
    /// What has come of lines that are not whole yet.
    rest: Vec<u8>,
    /// How much of `rest` is known to hold no end of a line.
    searched: usize,
}

impl KubeApi {
    /// The server that `client` goes to, called `place` in messages.
    #[must_use]
    pub const fn new(client: Client, place: String) -> Self {
        Self { client, place }
    }

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The library's client.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The whole answer to a `GET` of `path`, query included.
    ///
    /// # Errors
    /// [`KubeFailure`].
    pub async fn text(&self, path: &str) -> Result<Vec<u8>, KubeFailure> {
        let answer = self.get(path).await?;
        let status = answer.status();
        let text = read(answer.into_body()).await?;
        if status.is_success() { Ok(text) } else { Err(KubeFailure::of(status.as_u16(), &text)) }
    }

    /// The lines of the answer to a `GET` of `path`, query included.
    ///
    /// # Errors
    /// [`KubeFailure`].
    pub async fn lines(&self, path: &str) -> Result<Lines, KubeFailure> {
        let answer = self.get(path).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(Lines { body: answer.into_body(), rest: Vec::new(), searched: 0 });
        }
        Err(KubeFailure::of(status.as_u16(), &read(answer.into_body()).await?))
    }

    async fn get(&self, path: &str) -> Result<Response<Body>, KubeFailure> {
        let request = Request::get(path).header("Accept", "application/json").body(Body::empty());
        let request = request.map_err(|error| KubeFailure::Lost(error.to_string()))?;
        match timeout(PATIENCE, self.client.send(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(KubeFailure::Lost(describe(&error))),
            Err(_) => Err(KubeFailure::Lost(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }
}

impl KubeFailure {
    /// What a server's refusal means, by its code and the body that came with it.
    #[must_use]
    pub fn of(code: u16, body: &[u8]) -> Self {
        let status: Option<Value> = serde_json::from_slice(body).ok();
        let message = status.as_ref().and_then(|status| status.get("message")?.as_str()).unwrap_or_default();
        match StatusCode::from_u16(code) {
            Ok(StatusCode::GONE) => Self::Expired,
            Ok(StatusCode::NOT_FOUND) => Self::Missing,
            Ok(StatusCode::FORBIDDEN) => Self::Forbidden(message.to_owned()),
            _ if message.is_empty() => Self::Lost(format!("the API server answered {code}")),
            _ => Self::Lost(format!("the API server answered {code}: {message}")),
        }
    }
}

impl Lines {
    /// The next line, without its end; `None` when the server has ended the answer. May be dropped while it waits.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, KubeFailure> {
        loop {
            if let Some(at) = self.rest[self.searched..].iter().position(|byte| *byte == b'\n') {
                let end = self.searched + at;
                let mut line: Vec<u8> = self.rest.drain(..=end).collect();
                line.truncate(end);
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.rest.len();
            match self.body.frame().await {
                // What is left has no end, so it is no line: the server has gone in the midst of it.
                None => return Ok(None),
                Some(Ok(frame)) => self.rest.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Some(Err(error)) => return Err(KubeFailure::Lost(describe(&error))),
            }
            if self.rest.len() > LARGEST {
                return Err(KubeFailure::Lost(too_large()));
            }
        }
    }
}

async fn read(mut body: Body) -> Result<Vec<u8>, KubeFailure> {
    let mut text = Vec::new();
    loop {
        match timeout(PATIENCE, body.frame()).await {
            Ok(None) => return Ok(text),
            Ok(Some(Ok(frame))) => text.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            Ok(Some(Err(error))) => return Err(KubeFailure::Lost(describe(&error))),
            Err(_) => return Err(KubeFailure::Lost(format!("the answer stopped for {} s", PATIENCE.as_secs()))),
        }
        if text.len() > LARGEST {
            return Err(KubeFailure::Lost(too_large()));
        }
    }
}

fn too_large() -> String {
    format!("expected an answer of at most {} MiB, found more", LARGEST >> 20)
}

/// An error in one line, down to its cause: libraries hide "connection refused" levels below "client error".
pub(super) fn describe(error: &(dyn Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        // Each level tends to repeat the one below it.
        parts.retain(|part| !part.contains(&text));
        parts.push(text);
        next = cause.source();
    }
    if parts.len() > 1 {
        parts.retain(|part| {
            !matches!(part.as_str(), "client error (Connect)" | "client error (SendRequest)" | "tcp connect error")
        });
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_known_by_its_code() {
        let body = br#"{"kind":"Status","message":"pods is forbidden: User \"u\" cannot list","code":403}"#;
        let KubeFailure::Forbidden(message) = KubeFailure::of(403, body) else { panic!() };
        assert!(message.starts_with("pods is forbidden"), "{message}");
        assert_eq!(KubeFailure::of(404, b"404 page not found"), KubeFailure::Missing);
        assert_eq!(KubeFailure::of(410, b""), KubeFailure::Expired);
        assert_eq!(KubeFailure::of(500, b"?"), KubeFailure::Lost("the API server answered 500".into()));
        assert_eq!(KubeFailure::of(401, br#"{"message":"Unauthorized"}"#), {
            KubeFailure::Lost("the API server answered 401: Unauthorized".into())
        });
    }

    #[tokio::test]
    async fn lines_come_however_they_are_cut() {
        let lines = |text: &'static str| Lines { body: Body::from(text.as_bytes().to_vec()), rest: Vec::new(), searched: 0 };
        for (text, expected) in [("a\n\nbc\n", &["a", "", "bc"][..]), ("a\nhalf", &["a"]), ("", &[])] {
            let (mut lines, mut found) = (lines(text), Vec::new());
            while let Some(line) = lines.next().await.unwrap() {
                found.push(String::from_utf8(line).unwrap());
            }
            assert_eq!(found, expected, "{text:?}");
        }
        // What was there before, in three parts.
        let mut lines = Lines { body: Body::from(b"c\nd\n".to_vec()), rest: b"ab".to_vec(), searched: 2 };
        assert_eq!((lines.next().await, lines.next().await), (Ok(Some(b"abc".to_vec())), Ok(Some(b"d".to_vec()))));
        assert_eq!(lines.next().await, Ok(None));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_told_in_one_line() {
        // Nobody listens at port 1.
        let access = super::super::KubeAccess { api_url: Some("http://127.0.0.1:1".into()), kubeconfig: None };
        let failure = access.api().unwrap().text("/version").await.unwrap_err();
        let KubeFailure::Lost(reason) = failure else { panic!("{failure:?}") };
        assert!(reason.contains("refused") && !reason.contains("client error"), "{reason}");
    }
}
