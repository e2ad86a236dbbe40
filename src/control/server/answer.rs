//! Answers as flannel's server gives them: JSON with a newline, or bare error text without one.

use std::fmt::Display;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::control::registry::RegistryError;
use crate::control::v1::{ERROR_HEADER, ErrorDetail};

/// An answer, whole.
pub(super) type Answer = Response<Full<Bytes>>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// Why a request is not done, in flannel's words where it has some.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    text: String,
    detail: Option<Box<ErrorDetail>>,
}

impl Refusal {
    /// `status` with bare text.
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), detail: None }
    }

    /// 400: the request makes no sense.
    pub(super) fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 500: flannel's answer to everything that did not work out.
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// 500: the lease to renew is gone.
    pub(super) fn lost(subnet: impl Display) -> Self {
        let text = format!(
            "lease {subnet} cannot be renewed: it expired, was revoked or belongs to another node; acquire a lease again"
        );
        Self { detail: Some(Box::new(ErrorDetail::Lost)), ..Self::failed(text) }
    }

    /// The same with `prefix` before the text.
    pub(super) fn prefixed(self, prefix: &str) -> Self {
        Self { text: format!("{prefix}{}", self.text), ..self }
    }

    /// The answer, with the kind of error for clients that look.
    pub(super) fn into_answer(self) -> Answer {
        let mut answer = typed(self.status, TEXT, self.text);
        let value = self.detail.and_then(|detail| serde_json::to_string(&detail).ok());
        // A detail that is no header value (a name beyond ASCII) is left out: the text says the same.
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            answer.headers_mut().insert(HeaderName::from_static(ERROR_HEADER), value);
        }
        answer
    }
}

impl From<RegistryError> for Refusal {
    fn from(error: RegistryError) -> Self {
        Self { detail: ErrorDetail::of(&error).map(Box::new), ..Self::failed(error.to_string()) }
    }
}

/// 200 with `value`.
pub(super) fn json<T: Serialize>(value: &T) -> Answer {
    match serde_json::to_string(value) {
        Ok(text) => json_text(text),
        Err(error) => Refusal::failed(error.to_string()).into_answer(),
    }
}

/// 200 with JSON that is text already.
pub(super) fn json_text(mut json: String) -> Answer {
    json.push('\n');
    typed(StatusCode::OK, JSON, json)
}

/// 200 with a whole body of JSON that others are sent as well.
pub(super) fn json_bytes(body: Bytes) -> Answer {
    typed(StatusCode::OK, JSON, body)
}

/// 200 without a body.
pub(super) fn empty() -> Answer {
    Answer::default()
}

/// Go's answer to a path that leads nowhere.
pub(super) fn not_found() -> Answer {
    let mut answer = typed(StatusCode::NOT_FOUND, TEXT, "404 page not found\n".to_owned());
    let sniffing = HeaderName::from_static("x-content-type-options");
    answer.headers_mut().insert(sniffing, HeaderValue::from_static("nosniff"));
    answer
}

/// 301 to the path spelled properly.
pub(super) fn moved(path: &str, query: Option<&str>) -> Answer {
    // Encoded again: what was decoded may hold anything.
    let encode = |byte: u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'~' | b'&' | b':' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    let mut location: String = path.bytes().map(encode).collect();
    if let Some(query) = query {
        location.push('?');
        location.push_str(query);
    }
    let mut answer = Answer::default();
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(&location) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

fn typed(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Answer {
    let mut answer = Answer::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
