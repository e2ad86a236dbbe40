//! Policy objects in an embedded store.

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::store::EmbeddedStore;
use crate::control::registry::store::Store;
use crate::control::registry::{PolicyEntry, PolicyEvent, PolicyStore, PolicyUpdate, RegistryError, policy_key};

#[async_trait]
impl PolicyStore for EmbeddedStore {
    fn policy_place(&self) -> String {
        format!("policies of {}", self.describe())
    }

    async fn policies(&self) -> Result<Vec<PolicyEntry>, RegistryError> {
        Ok(self.shelf().entries())
    }

    async fn write_policies(&self, events: &[PolicyEvent]) -> Result<(), RegistryError> {
        let key = |event: &PolicyEvent| policy_key(event.id()).map_err(|error| RegistryError::Unsupported(error.to_string()));
        let writes = events.iter().map(|event| Ok((key(event)?, event.clone())));
        self.put_policies(writes.collect::<Result<_, RegistryError>>()?).await
    }

    async fn watch_policies(&self) -> mpsc::Receiver<PolicyUpdate> {
        self.shelf().watch(self.end())
    }
}
