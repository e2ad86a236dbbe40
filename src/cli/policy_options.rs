//! What the flags about policy mean.

use std::fs;

use super::Failure;
use super::policy_args::{EstablishedArg, PolicyRunArgs, ScopeArg, UnknownPodsArg, UntilSyncedArg};
use crate::daemon::policy::{Established, PolicyOptions, PolicyScope, UntilSynced};
use crate::policy::UnknownPods;

/// Where Linux tells the host's name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// How policy is gone by; `None` where no source is given.
pub fn policy(args: PolicyRunArgs) -> Result<Option<PolicyOptions>, Failure> {
    let node_name = || name(args.node_name.as_deref(), std::env::var("HOSTNAME").ok(), fs::read_to_string(HOST_NAME).ok());
    if args.policy_dir.is_empty() && !args.policy_from_registry {
        if args.policy_scope == ScopeArg::Node {
            let why = "--policy-scope=node is of use only with a policy source; give --policy-dir or --policy-from-registry";
            return Err(Failure::Usage(why.to_owned()));
        }
        return Ok(None);
    }
    let node_name = node_name()?;
    Ok(Some(PolicyOptions {
        manifests: args.policy_dir,
        from_registry: args.policy_from_registry,
        scope: match args.policy_scope {
            ScopeArg::Overlay => PolicyScope::Overlay,
            ScopeArg::Node => PolicyScope::Node,
        },
        until_synced: match args.policy_until_synced {
            UntilSyncedArg::Deny => UntilSynced::Deny,
            UntilSyncedArg::Allow => UntilSynced::Allow,
        },
        unknown_pods: match args.policy_unknown_pods {
            UnknownPodsArg::Deny => UnknownPods::Refuse,
            UnknownPodsArg::Allow => UnknownPods::Allow,
        },
        established: match args.policy_established {
            EstablishedArg::Strict => Established::Strict,
            EstablishedArg::Keep => Established::Keep,
        },
        flows: usize::try_from(args.policy_flows).unwrap_or(usize::MAX),
        allow_mcast: args.allow_mcast,
        node_name,
    }))
}

/// The node's name: as typed, else that of the environment, else the host's.
fn name(typed: Option<&str>, environment: Option<String>, host: Option<String>) -> Result<String, Failure> {
    let found = [typed.map(str::to_owned), environment, host];
    let found = found.into_iter().flatten().map(|name| name.trim().to_owned()).find(|name| !name.is_empty());
    found.ok_or_else(|| {
        Failure::Usage("policy needs this node's name, and neither $HOSTNAME nor the host says it; give --node-name".into())
    })
}

#[cfg(test)]
mod tests {
    use super::super::args::Command;
    use super::super::parse::parse;
    use super::*;

    fn policy_of(line: &str) -> Result<Option<PolicyOptions>, Failure> {
        match parse(format!("felt run{line}").split(' ').map(Into::into), |_| None).unwrap().command {
            Command::Run(args) => policy(args.own.policy),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_a_source_there_is_no_policy() {
        assert_eq!(policy_of(" -policy-established=keep -policy-flows 4096").unwrap(), None);
        let error = policy_of(" -policy-scope node").unwrap_err();
        assert!(error.code() == 2 && error.to_string().contains("--policy-dir"), "{error}");
    }

    #[test]
    fn a_source_brings_the_safe_defaults() {
        let expected = PolicyOptions {
            manifests: vec!["/a".into(), "/b".into()],
            from_registry: false,
            scope: PolicyScope::Overlay,
            until_synced: UntilSynced::Deny,
            unknown_pods: UnknownPods::Refuse,
            established: Established::Strict,
            flows: 262_144,
            allow_mcast: true,
            node_name: "n1".into(),
        };
        assert_eq!(policy_of(" -policy-dir /a -policy-dir=/b -node-name n1").unwrap(), Some(expected));
        let line = " -policy-from-registry -policy-scope=node -policy-until-synced=allow -policy-unknown-pods=allow \
                    -policy-established=keep -policy-flows=1024 -allow-mcast=false -node-name=n1";
        let expected = PolicyOptions {
            manifests: Vec::new(),
            from_registry: true,
            scope: PolicyScope::Node,
            until_synced: UntilSynced::Allow,
            unknown_pods: UnknownPods::Allow,
            established: Established::Keep,
            flows: 1024,
            allow_mcast: false,
            node_name: "n1".into(),
        };
        assert_eq!(policy_of(line).unwrap(), Some(expected));
    }

    #[test]
    fn a_node_is_called_as_typed_or_else_as_it_calls_itself() {
        let name = |typed, environment: &str, host: &str| name(typed, Some(environment.into()), Some(host.into()));
        assert_eq!(name(Some("t"), "e", "h").unwrap(), "t");
        assert_eq!(name(Some(""), "e", "h").unwrap(), "e");
        assert_eq!(name(None, "", "h\n").unwrap(), "h");
        let error = name(None, " ", "\n").unwrap_err();
        assert!(error.code() == 2 && error.to_string().contains("--node-name"), "{error}");
    }
}
