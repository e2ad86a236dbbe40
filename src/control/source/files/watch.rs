//! The files as a source: looked at again and again.

use std::path::PathBuf;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::super::{AHEAD, PolicySource, SourceReport};
use super::folder::Folder;
use super::look::{look, read};
use crate::control::settling::PAUSE;

/// Looks take at most one part in so many of the time: where there are very many files, or the file system is slow, the pauses
/// grow.
const SHARE: u32 = 10;

/// Folders and files of manifests.
pub struct FileSource {
    paths: Vec<PathBuf>,
}

impl FileSource {
    /// The manifests in `paths`, each a folder or a file. They may come later.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths }
    }
}

impl PolicySource for FileSource {
    fn describe(&self) -> String {
        let paths: Vec<_> = self.paths.iter().map(|path| path.display().to_string()).collect();
        format!("manifests in {}", paths.join(", "))
    }

    fn follow(self: Box<Self>) -> mpsc::Receiver<SourceReport> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        tokio::spawn(async move {
            let paths = self.paths;
            let mut folder = Folder::new(paths.clone());
            loop {
                let (paths, begin) = (paths.clone(), Instant::now());
                // Disks may be slow, and large files take their time.
                let looked = spawn_blocking(move || {
                    let report = folder.take(look(&paths), read);
                    (folder, report)
                });
                // Told by our silence, where a look has panicked.
                let Ok((back, report)) = looked.await else { return };
                folder = back;
                if let Some(report) = report
                    && sender.send(report).await.is_err()
                {
                    return;
                }
                tokio::select! {
                    () = sleep(PAUSE.max(begin.elapsed() * SHARE)) => {}
                    () = sender.closed() => return,
                }
            }
        });
        receiver
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::super::super::SourceNews;
    use super::*;
    use crate::policy::Change;
    use crate::policy::model::ObjectId;

    const SOON: Duration = Duration::from_secs(10);

    fn namespace(name: &str) -> String {
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
    }

    async fn news(reports: &mut mpsc::Receiver<SourceReport>) -> SourceNews {
        timeout(SOON, reports.recv()).await.expect("in time").expect("the source lives").news
    }

    #[tokio::test]
    async fn a_change_is_told_within_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, namespace("a")).unwrap();
        let mut reports = Box::new(FileSource::new(vec![folder.path().to_owned()])).follow();
        let SourceNews::Snapshot(objects) = news(&mut reports).await else { panic!("expected a snapshot") };
        assert_eq!(objects.len(), 1);
        let written = Instant::now();
        fs::write(&file, namespace("b")).unwrap();
        let SourceNews::Changes(changes) = news(&mut reports).await else { panic!("expected changes") };
        assert!(written.elapsed() < Duration::from_secs(1), "{:?}", written.elapsed());
        assert_eq!(changes.len(), 2);
        assert_eq!(changes[1], Change::Delete(ObjectId::Namespace("a".into())));
        fs::remove_file(&file).unwrap();
        assert_eq!(news(&mut reports).await, SourceNews::Changes(vec![Change::Delete(ObjectId::Namespace("b".into()))]));
    }
}
