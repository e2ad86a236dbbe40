//! Which request asks for what: method and path to [`Route`]. Pure; matching is as strict as flannel's router.
//!
//! There is no 405: a known path with another method is as unknown as any other (flannel.md §5.2).

use hyper::Method;

/// What is asked for. Subnets are still text: a bad one has its own answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Config,
    PutConfig,
    Watch,
    Acquire,
    WatchOne {
        subnet: String,
    },
    Renew,
    Revoke {
        subnet: String,
    },
    Reservations,
    Reserve,
    Unreserve {
        subnet: String,
    },
    Networks,
    /// Policy objects: ours, not flannel's.
    Policies,
    WritePolicies,
}

/// Where a request leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// A route of the network named; none for [`Route::Networks`].
    Found {
        network: Option<String>,
        route: Route,
    },
    /// The same path, spelled properly.
    Elsewhere {
        path: String,
    },
    /// The path is not even text.
    Malformed,
    Unknown,
}

impl Destination {
    /// Reads the method and the path, percent-encoded as it came.
    pub(super) fn of(method: &Method, raw_path: &str) -> Self {
        let Some(path) = decode(raw_path) else { return Self::Malformed };
        let clean = clean(&path);
        if clean != path {
            return Self::Elsewhere { path: clean };
        }
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let (network, route) = match (method.as_str(), segments.as_slice()) {
            ("GET", ["v1", ""]) => return Self::Found { network: None, route: Route::Networks },
            ("GET", ["v1", network, "config"]) => (network, Route::Config),
            ("PUT", ["v1", network, "config"]) => (network, Route::PutConfig),
            ("GET", ["v1", network, "leases"]) => (network, Route::Watch),
            ("POST", ["v1", network, "leases"]) => (network, Route::Acquire),
            ("GET", ["v1", network, "leases", subnet]) => (network, Route::WatchOne { subnet: (*subnet).into() }),
            ("PUT", ["v1", network, "leases", subnet]) if !subnet.is_empty() => (network, Route::Renew),
            ("DELETE", ["v1", network, "leases", subnet]) => (network, Route::Revoke { subnet: (*subnet).into() }),
            ("GET", ["v1", network, "policy"]) => (network, Route::Policies),
            ("POST", ["v1", network, "policy"]) => (network, Route::WritePolicies),
            ("GET", ["v1", network, "reservations"]) => (network, Route::Reservations),
            ("POST", ["v1", network, "reservations"]) => (network, Route::Reserve),
            ("DELETE", ["v1", network, "reservations", subnet]) => (network, Route::Unreserve { subnet: (*subnet).into() }),
            _ => return Self::Unknown,
        };
        let empty = matches!(
            &route,
            Route::WatchOne { subnet } | Route::Revoke { subnet } | Route::Unreserve { subnet } if subnet.is_empty()
        );
        if network.is_empty() || empty {
            return Self::Unknown;
        }
        Self::Found { network: Some((*network).into()), route }
    }
}

/// The path without empty, `.` and `..` segments; a trailing slash stays.
fn clean(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let slash = if path.ends_with('/') && !kept.is_empty() { "/" } else { "" };
    format!("/{}{slash}", kept.join("/"))
}

fn decode(raw: &str) -> Option<String> {
    let mut bytes = raw.bytes();
    let mut decoded = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        decoded.push(digit(bytes.next()?)? << 4 | digit(bytes.next()?)?);
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, path: &str) -> Destination {
        Destination::of(&method.parse().unwrap(), path)
    }

    fn found(route: Route) -> Destination {
        Destination::Found { network: Some("_".into()), route }
    }

    #[test]
    fn every_route() {
        let subnet = || "10.1.5.0-24".to_owned();
        assert_eq!(of("GET", "/v1/_/config"), found(Route::Config));
        assert_eq!(of("PUT", "/v1/_/config"), found(Route::PutConfig));
        assert_eq!(of("GET", "/v1/_/leases"), found(Route::Watch));
        assert_eq!(of("POST", "/v1/_/leases"), found(Route::Acquire));
        assert_eq!(of("GET", "/v1/_/leases/10.1.5.0-24"), found(Route::WatchOne { subnet: subnet() }));
        assert_eq!(of("PUT", "/v1/_/leases/anything"), found(Route::Renew));
        assert_eq!(of("DELETE", "/v1/%5F/leases/10.1.5.0-24"), found(Route::Revoke { subnet: subnet() }));
        assert_eq!(of("GET", "/v1/_/reservations"), found(Route::Reservations));
        assert_eq!(of("POST", "/v1/_/reservations"), found(Route::Reserve));
        assert_eq!(of("DELETE", "/v1/_/reservations/10.1.5.0-24"), found(Route::Unreserve { subnet: subnet() }));
        assert_eq!(of("GET", "/v1/_/policy"), found(Route::Policies));
        assert_eq!(of("POST", "/v1/_/policy"), found(Route::WritePolicies));
        assert_eq!(of("GET", "/v1/"), Destination::Found { network: None, route: Route::Networks });
        let blue = Destination::Found { network: Some("blue".into()), route: Route::Config };
        assert_eq!(of("GET", "/v1/blue/config"), blue);
    }

    #[test]
    fn near_misses_are_unknown() {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/v1"),
            ("GET", "/v2/_/config"),
            ("GET", "/v1/_/config/"),
            ("GET", "/v1/_/leases/"),
            ("PUT", "/v1/_/leases/"),
            ("DELETE", "/v1/_/leases/"),
            ("POST", "/v1/_/config"),
            ("HEAD", "/v1/_/config"),
            ("OPTIONS", "/v1/_/leases"),
            ("DELETE", "/v1/_/leases"),
            ("POST", "/v1/"),
            ("GET", "/v1/_/leases/a/b"),
            ("GET", "/v1/_/policy/"),
            ("PUT", "/v1/_/policy"),
            ("DELETE", "/v1/_/policy"),
            ("GET", "/v1/_/policy/pod/a/b"),
        ] {
            assert_eq!(of(method, path), Destination::Unknown, "{method} {path}");
        }
    }

    #[test]
    fn odd_spellings_are_sent_elsewhere() {
        let elsewhere = |path: &str| Destination::Elsewhere { path: path.into() };
        assert_eq!(of("GET", "/v1//_/config"), elsewhere("/v1/_/config"));
        assert_eq!(of("GET", "/v1/_/./leases/../config"), elsewhere("/v1/_/config"));
        assert_eq!(of("GET", "/../../v1//"), elsewhere("/v1/"));
        assert_eq!(of("GET", "//"), elsewhere("/"));
        assert_eq!(of("GET", "/v1/%"), Destination::Malformed);
        assert_eq!(of("GET", "/v1/%zz/config"), Destination::Malformed);
        assert_eq!(of("GET", "/v1/%ff/config"), Destination::Malformed);
    }
}
