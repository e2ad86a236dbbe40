//! The network config of a cluster: a file that a ConfigMap is mounted as. Read once by flannel, followed here.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::control::registry::RegistryError;

/// From one look to the next. A mounted ConfigMap takes a minute to change anyway.
const PAUSE: Duration = Duration::from_secs(1);

/// The file.
#[derive(Clone, Debug)]
pub(super) struct ConfigFile(PathBuf);

impl ConfigFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// What it says now.
    pub(super) async fn read(&self) -> Result<String, RegistryError> {
        let path = self.0.display();
        tokio::fs::read_to_string(&self.0).await.map_err(|error| {
            RegistryError::BadConfig(format!(
                "expected a file such as {{\"Network\":\"10.244.0.0/16\"}} at {path}, found none: {error}; mount the ConfigMap \
                 there or give its place with --net-config-path"
            ))
        })
    }

    /// What it says, now and whenever that changes. Its absence is no change.
    pub(super) fn follow(self) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut last = None;
            let mut complained = false;
            loop {
                match self.read().await {
                    Ok(text) => {
                        complained = false;
                        if last.as_ref() != Some(&text) {
                            last = Some(text.clone());
                            if sender.send(text).await.is_err() {
                                return;
                            }
                        }
                    }
                    Err(error) => {
                        if !complained {
                            tracing::warn!("{error}; going on by what it said before");
                        }
                        complained = true;
                    }
                }
                tokio::select! {
                    () = sleep(PAUSE) => {}
                    () = sender.closed() => return,
                }
            }
        });
        receiver
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_are_told_and_absence_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net-conf.json");
        let file = ConfigFile::new(path.clone());
        let error = file.read().await.unwrap_err().to_string();
        assert!(error.contains("net-conf.json") && error.contains("--net-config-path"), "{error}");
        std::fs::write(&path, "one").unwrap();
        let mut texts = file.follow();
        assert_eq!(texts.recv().await.as_deref(), Some("one"));
        std::fs::remove_file(&path).unwrap();
        sleep(PAUSE * 2).await;
        assert!(texts.try_recv().is_err());
        std::fs::write(&path, "two").unwrap();
        assert_eq!(texts.recv().await.as_deref(), Some("two"));
    }
}
