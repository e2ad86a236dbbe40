//! What a failed exchange means: no contact, no access, or an answer that says no.

use std::error::Error;
use std::io;

use hyper::StatusCode;
use rustls::{AlertDescription, CertificateError};

use crate::control::registry::RegistryError;
use crate::control::v1::ErrorDetail;

/// An exchange that brought no answer.
pub(super) fn broken(registry: &str, error: &(dyn Error + 'static)) -> RegistryError {
    let registry = registry.to_owned();
    let Some(tls) = chain(error).find_map(tls_error) else {
        let parse = chain(error).any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse));
        let hint = if parse { "; this is no HTTP: does the server speak TLS? then give a CA file or https://" } else { "" };
        return RegistryError::Unreachable { registry, reason: format!("{}{hint}", innermost(error)) };
    };
    let denied = |reason: String| RegistryError::Denied { registry: registry.clone(), reason };
    match tls {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            denied("the server's certificate comes from an authority that is not trusted here: give the right CA file".into())
        }
        rustls::Error::InvalidCertificate(CertificateError::BadSignature) => {
            denied("the server's certificate was not signed by the CA given: give the right CA file".into())
        }
        rustls::Error::InvalidCertificate(problem) => denied(format!("the server's certificate is not accepted: {problem}")),
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure) => {
            denied("the server requires a client certificate: give certificate and key files".into())
        }
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied),
        ) => denied(format!("the server does not accept our client certificate ({alert:?})")),
        rustls::Error::InvalidMessage(_) => RegistryError::Protocol {
            registry,
            reason: format!("{tls}: does the server speak TLS at all? without CA, certificate and key files plain HTTP is used"),
        },
        other => RegistryError::Unreachable { registry, reason: format!("TLS: {other}") },
    }
}

/// An answer other than 200. The server's own words are kept.
pub(super) fn refused(registry: &str, status: StatusCode, detail: Option<ErrorDetail>, body: &[u8]) -> RegistryError {
    if let Some(error) = detail.and_then(ErrorDetail::into_error) {
        return error;
    }
    let registry = registry.to_owned();
    let words: String = String::from_utf8_lossy(body).trim().chars().take(500).collect();
    let reason = if words.is_empty() { status.to_string() } else { format!("{status}: {words}") };
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RegistryError::Denied { registry, reason },
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            RegistryError::Unreachable { registry, reason }
        }
        _ => RegistryError::Refused { registry, reason },
    }
}

/// `error` and what caused it, also where an `io::Error` hides it.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let cause = |error: &&'a (dyn Error + 'static)| {
        let error: &'a (dyn Error + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    };
    std::iter::successors(Some(error), cause)
}

fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    error.downcast_ref()
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_the_servers_words() {
        let said = |status: u16, body: &str| refused("r", StatusCode::from_u16(status).unwrap(), None, body.as_bytes());
        let taken = said(500, "105: Key already exists (/coreos.com/network) [7]");
        assert_eq!(taken.to_string(), "r answered: 500 Internal Server Error: 105: Key already exists (/coreos.com/network) [7]");
        assert!(matches!(said(403, "no"), RegistryError::Denied { .. }));
        assert!(said(503, "the server is shutting down").is_unreachable());
        let detail = Some(ErrorDetail::OutOfSubnets { range: "10.1.0.0/16".into() });
        let error = refused("r", StatusCode::INTERNAL_SERVER_ERROR, detail, b"out of subnets");
        assert!(matches!(error, RegistryError::OutOfSubnets { .. }));
    }

    #[test]
    fn tls_trouble_is_found_however_deep() {
        let alert = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, alert));
        let error = broken("r", &wrapped);
        assert_eq!(
            error.to_string(),
            "r refused access: the server requires a client certificate: give certificate and key files"
        );
        let refused = broken("r", &io::Error::from_raw_os_error(libc::ECONNREFUSED));
        assert!(refused.is_unreachable() && refused.to_string().contains("Connection refused"), "{refused}");
    }
}
