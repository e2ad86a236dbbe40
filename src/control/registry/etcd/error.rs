//! What went wrong with an etcd call, and what that asks for.

use etcd_client::Error;

/// What a failed call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The token has run out: authenticate again, same member.
    Authenticate,
    /// No contact, or a member without a leader: try another member.
    OtherMember,
    /// The cluster understood and says no: user, password, permission.
    Denied,
    /// Anything else: the same everywhere.
    GiveUp,
}

// gRPC status codes; the library that names them is not ours to import.
const CANCELLED: i32 = 1;
const UNKNOWN: i32 = 2;
const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const FAILED_PRECONDITION: i32 = 9;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;

/// What `error` asks for.
pub(super) fn remedy(error: &Error) -> Remedy {
    let Error::GRpcStatus(status) = error else {
        return match error {
            Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::InvalidMetadataValue(_) => Remedy::GiveUp,
            _ => Remedy::OtherMember,
        };
    };
    let message = status.message();
    match i32::from(status.code()) {
        UNAUTHENTICATED => Remedy::Authenticate,
        // The token is older than the last change of users or roles.
        INVALID_ARGUMENT if message.contains("auth store is old") => Remedy::Authenticate,
        INVALID_ARGUMENT if message.contains("authentication failed") || message.contains("user name is empty") => Remedy::Denied,
        PERMISSION_DENIED => Remedy::Denied,
        CANCELLED | UNKNOWN | DEADLINE_EXCEEDED | RESOURCE_EXHAUSTED | INTERNAL | UNAVAILABLE => Remedy::OtherMember,
        _ => Remedy::GiveUp,
    }
}

/// Whether the cluster knows no users at all, so that no password is needed.
pub(super) fn is_auth_disabled(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status)
        if i32::from(status.code()) == FAILED_PRECONDITION && status.message().contains("authentication is not enabled"))
}

/// The error in one line, down to its cause: libraries hide "connection refused" three levels below "transport error".
pub(super) fn describe(error: &Error) -> String {
    let (text, source) = match error {
        Error::GRpcStatus(status) => (status.message().to_owned(), std::error::Error::source(status)),
        Error::TransportError(error) => (error.to_string(), std::error::Error::source(error)),
        other => (other.to_string(), None),
    };
    let mut parts = vec![text];
    let mut next = source;
    while let Some(cause) = next {
        let text = cause.to_string();
        // Each level tends to repeat the one below it, or to say nothing.
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        next = cause.source();
    }
    if parts.len() > 1 {
        parts.retain(|part| !matches!(part.as_str(), "" | "transport error" | "client error (Connect)" | "tcp connect error"));
    }
    parts.join(": ")
}
