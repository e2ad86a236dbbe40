//! What the typed words mean: from [`args`] to the options other rooms take, or the first thing that makes no sense.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::args::{self, LeaseArgs, RunArgs, ServeArgs, SourceCheckArg};
use super::host_args::HostRulesArgs;
use super::kube_args::{self, KubeArgs};
use super::registry_args::{self, EtcdArgs, RegistryArgs, RemoteArgs, RemoteTlsArgs};
use super::{Failure, policy_options};
use crate::control::registry::etcd::EtcdConfig;
use crate::control::server::ListenAddress;
use crate::control::tls::TlsFiles;
use crate::daemon::rules::{ForwardRules, HostRulesOptions};
use crate::daemon::{Offloads, RegistryChoice, RemoteChoice, RunOptions, SourceCheck};

/// How a registry server runs.
#[derive(Debug)]
pub struct ServeOptions {
    /// Where it listens.
    pub listen: ListenAddress,
    /// Where it keeps leases.
    pub store: StoreChoice,
    /// How long a lease lasts unless renewed.
    pub lease_ttl: Duration,
    /// The server's certificate and key; with a CA, clients must show a certificate too.
    pub tls: TlsFiles,
}

/// Where a registry server keeps leases.
#[derive(Clone, Debug)]
pub enum StoreChoice {
    /// A file of our own.
    File(PathBuf),
    /// An etcd cluster.
    Etcd(EtcdConfig),
}

/// Which registry a command by hand is about.
#[derive(Clone, Debug)]
pub enum Target {
    /// The file of a registry server that is not running.
    File(PathBuf),
    /// A registry that others use too.
    Registry(RegistryChoice),
}

/// The daemon's options.
pub fn run(args: RunArgs) -> Result<RunOptions, Failure> {
    for regex in &args.iface_regex {
        if let Err(error) = regex::Regex::new(regex) {
            return usage(format!("--iface-regex `{regex}`: {error}"));
        }
    }
    let lease_ttl = lease_ttl(&args.own.lease);
    let named = args.own.peers.plan(&args.etcd, &args.remote, &args.remote_tls, &args.kube)?;
    let registry = match named {
        Some(plan) => RegistryChoice::Static(plan),
        None => registry(args.etcd, args.remote, args.remote_tls, args.kube)?,
    };
    if let RegistryChoice::Kube(cluster) = &registry {
        kube_args::check_node(cluster)?;
    }
    Ok(RunOptions {
        registry,
        iface: args.iface,
        iface_regex: args.iface_regex,
        iface_can_reach: args.iface_can_reach,
        public_ip: args.public_ip,
        subnet_file: args.subnet_file,
        renew_margin: renew_margin(args.subnet_lease_renew_margin, lease_ttl)?,
        lease_ttl,
        metrics: args.own.policy.metrics_addr,
        policy: policy_options::policy(args.own.policy)?,
        healthz: (args.healthz_port != 0).then(|| SocketAddr::new(args.healthz_ip, args.healthz_port)),
        host_rules: host_rules(&args.host_rules),
        tun_name: args.own.tun_name,
        workers: usize::try_from(args.own.workers).unwrap_or(1),
        keep_device: args.own.keep_device,
        node_id: args.own.node_id,
        source_check: match args.own.source_check {
            SourceCheckArg::Strict => SourceCheck::Strict,
            SourceCheckArg::Address => SourceCheck::Address,
            SourceCheckArg::Off => SourceCheck::Off,
        },
        udp_buffer: usize::try_from(args.own.udp_buffer).unwrap_or(usize::MAX),
        offloads: Offloads {
            tun: !args.own.offloads.no_tun_offload,
            udp_gso: !args.own.offloads.no_udp_gso,
            udp_gro: !args.own.offloads.no_udp_gro,
        },
        batch: usize::try_from(args.own.offloads.batch).unwrap_or(1),
        spin: Duration::from_micros(args.own.offloads.spin.unsigned_abs()),
    })
}

/// The registry server's options.
pub fn serve(args: ServeArgs) -> Result<ServeOptions, Failure> {
    let tls = tls("remote", args.tls.key, args.tls.cert, args.tls.ca)?;
    if tls.ca.is_some() && tls.cert.is_none() {
        return usage(
            "--remote-cafile demands certificates of clients, which takes TLS; give --remote-certfile and --remote-keyfile too",
        );
    }
    let store = match (args.store, args.etcd.endpoints.is_some()) {
        (Some(_), true) => return usage("--store and --etcd-endpoints name two places for one registry; give one of them"),
        (Some(file), false) => StoreChoice::File(file),
        (None, true) => StoreChoice::Etcd(etcd(args.etcd)?),
        (None, false) => StoreChoice::File(args::STORE.into()),
    };
    let listen = args.listen.parse().map_err(|error| Failure::Usage(format!("--listen: {error}")))?;
    Ok(ServeOptions { listen, store, lease_ttl: lease_ttl(&args.lease), tls })
}

/// The registry a command by hand is about: `--store`, else `--remote`, else a Kubernetes cluster, else etcd.
pub fn target(args: RegistryArgs) -> Result<Target, Failure> {
    match (args.store, registry(args.etcd, args.remote, args.remote_tls, args.kube)?) {
        (Some(_), RegistryChoice::Remote(_)) => usage("--store and --remote name two registries; give one of them"),
        (Some(_), RegistryChoice::Kube(_)) => usage("--store and --kube-subnet-mgr name two registries; give one of them"),
        (Some(file), _) => Ok(Target::File(file)),
        (None, registry) => Ok(Target::Registry(registry)),
    }
}

/// `--remote` beats Kubernetes, and that beats etcd, as in flannel.
fn registry(
    etcd_args: EtcdArgs,
    remote_args: RemoteArgs,
    tls_args: RemoteTlsArgs,
    kube_args: KubeArgs,
) -> Result<RegistryChoice, Failure> {
    let files = tls("remote", tls_args.key, tls_args.cert, tls_args.ca)?;
    let Some(address) = remote_args.address else {
        let cluster = kube_args::choice(kube_args, |name| std::env::var(name).ok());
        return cluster.map_or_else(|| etcd(etcd_args).map(RegistryChoice::Etcd), |cluster| Ok(RegistryChoice::Kube(cluster)));
    };
    let names_a_port = address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if !names_a_port || address.contains('/') {
        return usage(format!("--remote: expected HOST:PORT, such as 10.0.0.1:8889, found `{address}`"));
    }
    Ok(RegistryChoice::Remote(RemoteChoice { address, tls: files }))
}

fn etcd(args: EtcdArgs) -> Result<EtcdConfig, Failure> {
    let endpoints = args.endpoints.as_deref().unwrap_or(registry_args::ETCD_ENDPOINTS);
    let endpoints: Vec<String> = endpoints.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect();
    if endpoints.is_empty() {
        return usage("--etcd-endpoints: expected comma-separated URLs such as http://10.0.0.1:2379, found none");
    }
    if args.password.is_some() && args.username.is_none() {
        return usage("--etcd-password is of use only with --etcd-username; give both or neither");
    }
    let TlsFiles { ca, cert, key } = tls("etcd", args.key, args.cert, args.ca)?;
    Ok(EtcdConfig {
        endpoints,
        prefix: args.prefix,
        keyfile: key,
        certfile: cert,
        cafile: ca,
        username: args.username,
        password: args.password,
    })
}

fn tls(side: &str, key: Option<PathBuf>, cert: Option<PathBuf>, ca: Option<PathBuf>) -> Result<TlsFiles, Failure> {
    // A certificate without its key would mean going on without TLS, or without saying who we are, unnoticed.
    match (&key, &cert) {
        (Some(_), None) => usage(format!("--{side}-keyfile is of use only with --{side}-certfile; give both or neither")),
        (None, Some(_)) => usage(format!("--{side}-certfile is of use only with --{side}-keyfile; give both or neither")),
        _ => Ok(TlsFiles { ca, cert, key }),
    }
}

fn host_rules(args: &HostRulesArgs) -> HostRulesOptions {
    HostRulesOptions {
        ip_masq: args.ip_masq,
        fully_random: !args.ip_masq_fully_random_disable,
        forward: match args.iptables_forward_rules {
            None => ForwardRules::IfPossible,
            Some(true) => ForwardRules::Demanded,
            Some(false) => ForwardRules::Off,
        },
        blackhole: args.ip_blackhole_route,
        resync: Duration::from_secs(args.iptables_resync.unsigned_abs()),
    }
}

fn lease_ttl(args: &LeaseArgs) -> Duration {
    Duration::from_secs(args.lease_ttl.unsigned_abs())
}

fn renew_margin(minutes: Option<i64>, lease_ttl: Duration) -> Result<Duration, Failure> {
    let Some(minutes) = minutes else { return Ok(Duration::from_hours(1).min(lease_ttl / 2)) };
    let margin = Duration::from_secs(minutes.unsigned_abs() * 60);
    if margin < lease_ttl {
        Ok(margin)
    } else {
        usage(format!(
            "--subnet-lease-renew-margin of {minutes} min is not shorter than the lease, which --lease-ttl makes {} s; leave the \
             margin out or lengthen the lease",
            lease_ttl.as_secs()
        ))
    }
}

fn usage<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Usage(message.into()))
}

#[cfg(test)]
mod tests {
    use super::super::args::{Command, ConfigCommand};
    use super::super::parse::parse;
    use super::*;
    use crate::daemon::tuning;

    fn command(line: &str) -> Command {
        parse(line.split(' ').map(Into::into), |_| None).unwrap().command
    }

    fn run_options(line: &str) -> Result<RunOptions, Failure> {
        match command(&format!("felt run{line}")) {
            Command::Run(args) => run(*args),
            other => panic!("{other:?}"),
        }
    }

    fn target_of(line: &str) -> Result<Target, Failure> {
        match command(&format!("felt config get{line}")) {
            Command::Config { command: ConfigCommand::Get { registry } } => target(*registry),
            other => panic!("{other:?}"),
        }
    }

    fn serve_options(line: &str) -> Result<ServeOptions, Failure> {
        match command(&format!("felt serve --listen :1{line}")) {
            Command::Serve(args) => serve(*args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn defaults_are_flannel_s() {
        let options = run_options("").unwrap();
        let RegistryChoice::Etcd(etcd) = options.registry else { panic!() };
        assert_eq!(etcd.endpoints, ["http://127.0.0.1:4001", "http://127.0.0.1:2379"]);
        assert_eq!((etcd.prefix.as_str(), etcd.cafile, etcd.username), ("/coreos.com/network", None, None));
        assert_eq!(options.subnet_file.to_str(), Some("/run/flannel/subnet.env"));
        assert_eq!((options.renew_margin, options.lease_ttl), (Duration::from_hours(1), Duration::from_hours(24)));
        assert_eq!((options.healthz, options.tun_name.as_str(), options.workers), (None, "flannel%d", 1));
        assert_eq!((options.keep_device, options.source_check), (false, SourceCheck::Strict));
        assert_eq!((options.offloads, options.batch), (Offloads::ALL, tuning::BATCH));
    }

    #[test]
    fn each_offload_has_a_switch_of_its_own() {
        let offloads = |line: &str| run_options(line).unwrap().offloads;
        assert_eq!(offloads(" -no-tun-offload"), Offloads { tun: false, ..Offloads::ALL });
        assert_eq!(offloads(" -no-udp-gso=true -no-udp-gro=false"), Offloads { udp_gso: false, ..Offloads::ALL });
        assert_eq!(offloads(" --no-udp-gro"), Offloads { udp_gro: false, ..Offloads::ALL });
        assert_eq!(run_options(" -batch 1").unwrap().batch, 1);
        assert_eq!(run_options(" --batch=256").unwrap().batch, 256);
        assert_eq!(run_options(" --spin 0").unwrap().spin, Duration::ZERO);
        assert_eq!(run_options("").unwrap().spin, tuning::SPIN);
    }

    #[test]
    fn forward_rules_are_demanded_only_where_that_is_typed() {
        let rules = |line: &str| run_options(line).unwrap().host_rules;
        let default = HostRulesOptions { forward: ForwardRules::IfPossible, ..HostRulesOptions::NONE };
        assert_eq!(rules(""), default);
        assert_eq!(rules(" -iptables-forward-rules").forward, ForwardRules::Demanded);
        assert_eq!(rules(" -iptables-forward-rules=F").forward, ForwardRules::Off);
        let all = rules(" -ip-masq -ip-masq-fully-random-disable=1 -iptables-resync 0x3c -ip-blackhole-route");
        let resync = Duration::from_mins(1);
        assert_eq!(all, HostRulesOptions { ip_masq: true, fully_random: false, blackhole: true, resync, ..default });
    }

    #[test]
    fn health_is_served_where_a_port_is_given() {
        assert_eq!(run_options(" -healthz-port 8080").unwrap().healthz, Some(([0, 0, 0, 0], 8080).into()));
        assert_eq!(run_options(" -healthz-ip ::1 -healthz-port 1").unwrap().healthz, Some("[::1]:1".parse().unwrap()));
    }

    #[test]
    fn the_margin_stays_below_the_lease() {
        assert_eq!(run_options(" -lease-ttl 60").unwrap().renew_margin, Duration::from_secs(30));
        assert_eq!(run_options(" -subnet-lease-renew-margin 1439").unwrap().renew_margin, Duration::from_mins(1439));
        let error = run_options(" -lease-ttl 3600 -subnet-lease-renew-margin 60").unwrap_err();
        assert!(error.code() == 2 && error.to_string().contains("not shorter"), "{error}");
    }

    #[test]
    fn remote_beats_etcd() {
        let options = run_options(" -remote 10.0.0.1:8889 -remote-cafile ca.pem -etcd-endpoints http://e:1").unwrap();
        let RegistryChoice::Remote(remote) = options.registry else { panic!() };
        assert_eq!((remote.address.as_str(), remote.tls.ca), ("10.0.0.1:8889", Some("ca.pem".into())));
    }

    #[test]
    fn named_peers_take_the_place_of_a_registry() {
        let line = " -subnet 10.5.1.0/24 --peer 10.5.2.0/24=192.0.2.7 -peer=10.5.3.0/24=192.0.2.8:9000 -port 0x2328";
        let RegistryChoice::Static(plan) = run_options(line).unwrap().registry else { panic!() };
        assert_eq!((plan.subnet.to_string().as_str(), plan.network, plan.port, plan.peers.len()), ("10.5.1.0/24", None, 9000, 2));
        assert_eq!(plan.peers[1].to_string(), "10.5.3.0/24=192.0.2.8:9000");
        let line = " -subnet 10.5.1.0/24 -peers-file f -network 10.5.0.0/16";
        let RegistryChoice::Static(plan) = run_options(line).unwrap().registry else { panic!() };
        assert_eq!((plan.network.unwrap().to_string().as_str(), plan.port, plan.file), ("10.5.0.0/16", 8285, Some("f".into())));
        for (line, part) in [
            (" -peer 10.5.2.0/24=192.0.2.7", "--peer names peers of a node without a registry; give this node's own --subnet"),
            (" -peers-file f", "--peers-file names peers"),
            (" -subnet 10.5.1.0/24", "name its peers with --peer or --peers-file"),
            (" -network 10.5.0.0/16", "--network is of use only with --subnet"),
            (" -port 9000", "--port is of use only with --subnet"),
            (" -subnet 10.5.1.0/24 -peer 10.5.2.0/24=192.0.2.7 -remote h:1", "--peer and --remote say two places"),
            (" -subnet 10.5.1.0/24 -peers-file f -etcd-cafile c", "--peers-file and --etcd-cafile say two places"),
        ] {
            let error = run_options(line).unwrap_err();
            assert!(error.code() == 2 && error.to_string().contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (line, part) in [
            (" -etcd-endpoints=,,", "expected comma-separated URLs"),
            (" -etcd-password x", "--etcd-username"),
            (" -etcd-keyfile k", "--etcd-certfile"),
            (" -remote h:1 -remote-certfile c", "--remote-keyfile"),
            (" -remote http://h:1", "expected HOST:PORT"),
            (" -remote host", "expected HOST:PORT"),
            (" -iface-regex=(", "--iface-regex `(`"),
        ] {
            let error = run_options(line).unwrap_err();
            assert!(error.code() == 2 && error.to_string().contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn a_server_keeps_leases_in_one_place() {
        assert!(matches!(serve_options("").unwrap().store, StoreChoice::File(file) if file.to_str() == Some(args::STORE)));
        assert!(matches!(serve_options(" -store f").unwrap().store, StoreChoice::File(file) if file.to_str() == Some("f")));
        assert!(matches!(serve_options(" -etcd-endpoints http://e:1").unwrap().store, StoreChoice::Etcd(_)));
        assert_eq!(serve_options(" -store f -etcd-endpoints http://e:1").unwrap_err().code(), 2);
        assert!(serve_options(" -remote-cafile ca").unwrap_err().to_string().contains("--remote-certfile"));
    }

    #[test]
    fn a_command_by_hand_is_about_one_registry() {
        assert!(matches!(target_of("").unwrap(), Target::Registry(RegistryChoice::Etcd(_))));
        assert!(matches!(target_of(" --store f --etcd-endpoints http://e:1").unwrap(), Target::File(_)));
        assert!(matches!(target_of(" --remote h:1").unwrap(), Target::Registry(RegistryChoice::Remote(_))));
        let line = " --kube-subnet-mgr --etcd-endpoints http://h:1";
        assert!(matches!(target_of(line).unwrap(), Target::Registry(RegistryChoice::Kube(_))));
        assert!(matches!(target_of(&format!("{line} --remote h:1")).unwrap(), Target::Registry(RegistryChoice::Remote(_))));
        assert!(target_of(&format!("{line} --store f")).unwrap_err().to_string().contains("--kube-subnet-mgr"));
        assert_eq!(target_of(" --store f --remote h:1").unwrap_err().code(), 2);
    }
}
