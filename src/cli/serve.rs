//! `felt serve`.

use std::io::ErrorKind;
use std::sync::Arc;

use anyhow::Context as _;
use tracing::{info, warn};

use super::args::ServeArgs;
use super::options::{self, ServeOptions, StoreChoice};
use super::{Failure, store};
use crate::control::registry::etcd::EtcdStore;
use crate::control::registry::{RegistryAdmin, RegistryError, StoreRegistry};
use crate::control::server::{ListenError, Server};
use crate::control::tls::server_config;
use crate::daemon::stop_on_signals;

/// Serves the registry until told to end.
pub fn serve(args: ServeArgs) -> Result<(), Failure> {
    let options = options::serve(args)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime").map_err(Failure::Internal)?;
    runtime.block_on(served(options))
}

async fn served(options: ServeOptions) -> Result<(), Failure> {
    let stop = stop_on_signals().context("cannot listen for signals").map_err(Failure::Internal)?;
    let tls = server_config(&options.tls).map_err(|error| Failure::Usage(error.to_string()))?;
    let encrypted = tls.is_some();
    let registry: Arc<dyn RegistryAdmin> = match &options.store {
        StoreChoice::File(file) => Arc::new(StoreRegistry::new(store::open(file).await?, options.lease_ttl)),
        StoreChoice::Etcd(config) => {
            let store = EtcdStore::new(config).map_err(|error| Failure::Usage(error.to_string()))?;
            Arc::new(StoreRegistry::new(store, options.lease_ttl))
        }
    };
    let name = registry.describe();
    // Nodes ask again until there is one, so its absence is no reason not to serve.
    if let Err(error @ RegistryError::NoConfig { .. }) = registry.config().await {
        warn!("{error}");
    }
    let server = Server::bind(&options.listen, tls, registry).await.map_err(failure)?;
    let address = server.local_addr().context("cannot read the listening address").map_err(Failure::Internal)?;
    info!(%address, tls = encrypted, "serving {name}");
    // Says so to a service manager; without one there is nobody to tell.
    drop(sd_notify::notify(&[sd_notify::NotifyState::Ready]));
    server.run(stop.cancelled_owned()).await;
    info!("ended");
    Ok(())
}

fn failure(error: ListenError) -> Failure {
    match &error {
        ListenError::Syntax { .. } | ListenError::Activation { .. } => Failure::Usage(error.to_string()),
        ListenError::Bind { source, .. } if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::AddrInUse) => {
            Failure::NotPermitted(error.into())
        }
        ListenError::Bind { .. } => Failure::Internal(error.into()),
    }
}
