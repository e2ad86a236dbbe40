//! Objects as they are named on the command line, and printed.

use super::super::Failure;
use crate::control::registry::policy_key;
use crate::policy::model::{ObjectId, PolicyKind};

/// Spellings of each kind: as printed first, then in the plural and short, as with kubectl.
const KINDS: [(&[&str], Kind); 7] = [
    (&["networkpolicy", "networkpolicies", "netpol"], Kind::Policy(PolicyKind::NetworkPolicy)),
    (&["clusternetworkpolicy", "clusternetworkpolicies", "cnp"], Kind::Policy(PolicyKind::ClusterNetworkPolicy)),
    (&["adminnetworkpolicy", "adminnetworkpolicies", "anp"], Kind::Policy(PolicyKind::AdminNetworkPolicy)),
    (
        &["baselineadminnetworkpolicy", "baselineadminnetworkpolicies", "banp"],
        Kind::Policy(PolicyKind::BaselineAdminNetworkPolicy),
    ),
    (&["pod", "pods", "po"], Kind::Pod),
    (&["namespace", "namespaces", "ns"], Kind::Namespace),
    (&["node", "nodes", "no"], Kind::Node),
];

#[derive(Clone, Copy)]
enum Kind {
    Namespace,
    Node,
    Pod,
    Policy(PolicyKind),
}

/// The object of that kind and name, in `namespace` if its kind has namespaces.
pub fn id(kind: &str, name: &str, namespace: &str) -> Result<ObjectId, Failure> {
    let wanted = kind.to_ascii_lowercase();
    let Some((_, kind)) = KINDS.iter().find(|(spellings, _)| spellings.contains(&wanted.as_str())) else {
        let known: Vec<_> = KINDS.iter().filter_map(|(spellings, _)| spellings.first().copied()).collect();
        return Err(Failure::Usage(format!("expected a kind of {}, found `{kind}`", known.join(", "))));
    };
    let (name, namespace) = (name.to_owned(), namespace.to_owned());
    Ok(match *kind {
        Kind::Namespace => ObjectId::Namespace(name),
        Kind::Node => ObjectId::Node(name),
        Kind::Pod => ObjectId::Pod { namespace, name },
        Kind::Policy(kind @ PolicyKind::NetworkPolicy) => ObjectId::Policy { kind, namespace, name },
        Kind::Policy(kind) => ObjectId::Policy { kind, namespace: String::new(), name },
    })
}

/// The object as it is printed: kind, namespace if it has one, and name.
///
/// # Errors
/// When it could not be kept under that name.
pub fn printed(id: &ObjectId) -> Result<String, Failure> {
    let key = policy_key(id).map_err(|error| Failure::Usage(format!("{id}: {error}")))?;
    Ok(key.replacen("/_/", "/", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_may_be_spelled_as_with_kubectl() {
        let printed = |kind, name| printed(&id(kind, name, "web").unwrap()).unwrap();
        assert_eq!(printed("netpol", "a"), "networkpolicy/web/a");
        assert_eq!(printed("NetworkPolicies", "a"), "networkpolicy/web/a");
        assert_eq!(printed("anp", "a"), "adminnetworkpolicy/a");
        assert_eq!(printed("pods", "a"), "pod/web/a");
        assert_eq!(printed("ns", "a"), "namespace/a");
        let error = id("secret", "a", "b").unwrap_err();
        assert!(error.code() == 2 && error.to_string().contains("found `secret`"), "{error}");
    }

    #[test]
    fn the_first_spelling_is_that_of_keys() {
        for (spellings, _) in KINDS {
            assert!(printed(&id(spellings[0], "x", "y").unwrap()).unwrap().starts_with(&format!("{}/", spellings[0])));
        }
    }
}
