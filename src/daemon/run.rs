//! A node from start to end: what is waited for, in which order, and what ends it.
//!
//! Start-up: signals, health server, TUN driver, means for rules on the host, external interface, network config (waited for);
//! then the node's own loop acquires a lease and does the rest. Nothing of the host is touched before the lease is there.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::bearer::{self, BearerError};
use super::complaint::Complaint;
use super::device::{self, DeviceError};
use super::interface::{self, External, InterfaceError, Wishes};
use super::machine_id::machine_id;
use super::node::{Node, Parts};
use super::options::RunOptions;
use super::overlay::{Overlay, OverlayError};
use super::policy::{PolicyControl, PolicyError, PolicyScope};
use super::registry::{RegistryChoiceError, open_registry};
use super::rules::{Prepared, RulesError};
use super::subnet_env::PreviousEnv;
use super::{clock, signals};
use crate::control::registry::Registry;
use crate::lease::NetworkConfig;
use crate::net::Prefix4;
use crate::obs::{Health, HealthServer, HealthServerError, Metrics};
use crate::sys::netlink::{Netlink, NetlinkError};
use crate::sys::tun::{TunError, TunQueue};

/// First pause between two looks at a config that is missing or makes no sense; doubles up to the second.
const CONFIG_PAUSE: Duration = Duration::from_secs(1);
const CONFIG_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Why a node could not run, or not go on. What passes with time is waited for instead.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The registry's address or access files make no sense.
    #[error(transparent)]
    Registry(#[from] RegistryChoiceError),
    /// No underlay.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// Not allowed to make a TUN device, or there is no driver.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The device cannot be set up.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Neither device nor sockets.
    #[error(transparent)]
    Bearer(#[from] BearerError),
    /// The kernel could not be asked.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The health port is taken.
    #[error(transparent)]
    Health(#[from] HealthServerError),
    /// No threads or descriptors.
    #[error("cannot start the workers: {0}")]
    Workers(io::Error),
    /// No signal handlers.
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    /// The config makes no sense here.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// What is asked for beside the tunnel cannot be done.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Policy cannot be put in force.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A watch of the registry ended, which none does unless it has failed in a way nobody foresaw.
    #[error("the registry is no longer watched: a watch has broken down; please report what was logged before")]
    WatchEnded,
}

impl RunError {
    /// Whether the system does not let us, so that somebody has to grant something or give something up.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        let of_tun = |error: &TunError| {
            !matches!(error, TunError::InvalidName { .. } | TunError::NoOffloads { .. } | TunError::Other { .. })
        };
        match self {
            Self::Tun(error)
            | Self::Device(DeviceError::Tun(error))
            | Self::Bearer(BearerError::Device(DeviceError::Tun(error))) => of_tun(error),
            Self::Netlink(error)
            | Self::Device(DeviceError::Netlink(error))
            | Self::Bearer(BearerError::Device(DeviceError::Netlink(error))) => {
                matches!(error.errno(), Some(libc::EPERM | libc::EACCES))
            }
            Self::Rules(error) => error.is_permission(),
            _ => false,
        }
    }
}

/// Runs a node until a signal ends it.
///
/// # Errors
/// When it cannot run at all, or not go on. A lease that was acquired is kept, as on a clean end.
pub async fn run(options: RunOptions) -> Result<(), RunError> {
    let stop = signals::stop_on_signals().map_err(RunError::Signals)?;
    let (health, metrics) = (Arc::<Health>::default(), Arc::<Metrics>::default());
    serve_health(&options, &health, &metrics, &stop).await?;
    let Some(node) = until(&stop, prepare(options, health, metrics)).await else { return Ok(()) };
    let mut node = node?;
    let ended = until(&stop, node.run()).await;
    node.shut_down();
    ended.unwrap_or(Ok(()))
}

/// What `future` gives, or `None` if told to stop before.
async fn until<T>(stop: &CancellationToken, future: impl Future<Output = T>) -> Option<T> {
    stop.run_until_cancelled(future).await
}

async fn serve_health(
    options: &RunOptions,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) -> Result<(), RunError> {
    let metrics_too = options.metrics.filter(|address| options.healthz != Some(*address));
    for address in options.healthz.into_iter().chain(metrics_too) {
        let server = HealthServer::bind(address).await?;
        tokio::spawn(server.run(Arc::clone(health), Arc::clone(metrics), clock::now, stop.clone()));
    }
    Ok(())
}

async fn prepare(mut options: RunOptions, health: Arc<Health>, metrics: Arc<Metrics>) -> Result<Node, RunError> {
    // Told before anything is waited for: a host that cannot have a TUN device should not look as if it only waits.
    TunQueue::check_access()?;
    let rules = rules(&options)?;
    let mut external = external(&options)?;
    let registry = open_registry(&options.registry, options.lease_ttl)?;
    if let Some(wanted) = wanted_address(&*registry).await {
        options.public_ip = Some(wanted);
        external = self::external(&options)?;
    }
    tracing::info!(registry = registry.describe(), interface = external.name, bind = %external.bind, public_ip = %external.announce, underlay_mtu = external.mtu, "starting");
    external.remark();
    // Before the config is waited for: by the time there is a lease, policy should be known.
    let policy = policy(&options, &*registry, &health, &metrics)?;
    let (config, overlay) = network_config(&*registry, &external).await;
    let overlay = overlay.given(registry.cuts_subnets());
    let previous = previous_subnet(&options);
    check_overlap(&options, &overlay, previous, &external)?;
    let node_id = options.node_id.clone().or_else(machine_id);
    Node::new(Parts { options, registry, node_id, external, config, overlay, previous, rules, policy, health, metrics })
}

fn rules(options: &RunOptions) -> Result<Option<Prepared>, RulesError> {
    let through = options.policy.as_ref().filter(|policy| policy.scope == PolicyScope::Node).map(|_| options.tun_name.as_str());
    Prepared::find(options.host_rules, &options.subnet_file, through)
}

fn policy(
    options: &RunOptions,
    registry: &dyn Registry,
    health: &Health,
    metrics: &Arc<Metrics>,
) -> Result<Option<PolicyControl>, RunError> {
    let start = |policy| PolicyControl::start(policy, registry, health, metrics);
    Ok(options.policy.as_ref().map(start).transpose()?)
}

pub(super) fn external(options: &RunOptions) -> Result<External, RunError> {
    Ok(interface::find(&Wishes::of(options), &Netlink::open()?)?)
}

/// Waits for the registry to say which address it wants published, if it does; says what is wrong once per fault.
async fn wanted_address(registry: &dyn Registry) -> Option<Ipv4Addr> {
    let mut complaint = Complaint::default();
    let mut pause = CONFIG_PAUSE;
    loop {
        match registry.wanted_address().await {
            Ok(wanted) => return wanted,
            Err(error) if complaint.is_news(&error) => {
                tracing::error!("{error}; waiting for that to change");
                pause = CONFIG_PAUSE;
            }
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(CONFIG_PAUSE_MAX);
    }
}

/// Waits for a config that makes sense; says what is wrong with it once per fault.
async fn network_config(registry: &dyn Registry, external: &External) -> (NetworkConfig, Overlay) {
    let mut complaint = Complaint::default();
    let mut pause = CONFIG_PAUSE;
    loop {
        let problem = match registry.config().await {
            Err(error) => error.to_string(),
            Ok(text) => match read(&text, external) {
                Ok(read) => return read,
                Err(error) => error.to_string(),
            },
        };
        if complaint.is_news(&problem) {
            tracing::error!("{problem}; waiting for that to change");
            pause = CONFIG_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(CONFIG_PAUSE_MAX);
    }
}

fn read(text: &str, external: &External) -> Result<(NetworkConfig, Overlay), OverlayError> {
    let config = NetworkConfig::parse(text)?;
    let overlay = Overlay::new(&config, external.announce)?;
    Ok((config, overlay))
}

/// Looks whether the overlay network is somebody else's on this host, before a lease is taken.
fn check_overlap(
    options: &RunOptions,
    overlay: &Overlay,
    previous: Option<Prefix4>,
    external: &External,
) -> Result<(), RunError> {
    let network = overlay.range.network;
    // Which subnet will be ours is not known yet. What lies in the one held before is ours already.
    let subnet = previous.filter(|subnet| network.covers(subnet)).unwrap_or_else(|| Prefix4::host(network.base()));
    let plan = bearer::Plan::new(options, subnet, network, external, external.mtu, overlay.port)?;
    Ok(device::foresee(&plan.device, &Netlink::open()?)?)
}

/// The subnet we held before, by the file we left.
fn previous_subnet(options: &RunOptions) -> Option<Prefix4> {
    match PreviousEnv::read(&options.subnet_file) {
        Ok(previous) => {
            if !previous.invalid.is_empty() {
                tracing::warn!("subnet file {}: not subnets: {}", options.subnet_file.display(), previous.invalid.join(", "));
            }
            previous.subnet()
        }
        Err(error) => {
            tracing::warn!("{error}; going on without the subnet held before");
            None
        }
    }
}
