//! A file of peers: a line each, `#` begins a comment. Read when the node starts, and again whenever it has changed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::network::{Placed, StaticError, StaticNetwork};
use super::peer::Peer;
use super::shelf::Shelf;
use crate::control::settling::{PAUSE, Settling, Stamp, Standing};

/// The largest file that is read: some hundred thousand peers.
const LARGEST: u64 = 8 << 20;

/// The file, as it is followed.
pub(super) struct PeersFile {
    path: PathBuf,
    settling: Settling,
    /// It could not be looked at the last time.
    hidden: bool,
}

impl PeersFile {
    /// Reads the file for the first time. It must be there, and in order.
    pub(super) fn open(path: PathBuf) -> Result<(Self, Vec<Placed>), StaticError> {
        let mut file = Self { path, settling: Settling::default(), hidden: false };
        let peers = file.read()?;
        Ok((file, peers))
    }

    /// Puts what the file comes to hold, beside the peers that were `typed`, among the `leases`; for ever.
    pub(super) async fn follow(mut self, typed: Vec<Placed>, network: StaticNetwork, leases: Arc<Shelf>) {
        loop {
            sleep(PAUSE).await;
            // Disks may be slow.
            let looked = spawn_blocking(move || {
                let news = self.look();
                (self, news)
            });
            // A look has panicked: nothing follows the file any more, which was told.
            let Ok((back, news)) = looked.await else { return };
            self = back;
            let Some(news) = news else { continue };
            let name = self.path.display();
            let all = news.and_then(|peers| {
                let all: Vec<_> = typed.iter().cloned().chain(peers).collect();
                network.check(&all).map(|()| all)
            });
            match all {
                Ok(all) => {
                    let difference = leases.put_peers(&all);
                    let (added, changed, removed) = (difference.added, difference.changed, difference.removed);
                    info!(peers = all.len(), added, changed, removed, "peers file {name} is read");
                }
                Err(error) => error!("{error}; the peers stay as they were"),
            }
        }
    }

    /// Looks at the file; what it holds, or what is wrong with that, if it is to be read now.
    fn look(&mut self) -> Option<Result<Vec<Placed>, StaticError>> {
        let found = match fs::metadata(&self.path) {
            Ok(found) => found,
            Err(error) => {
                if !std::mem::replace(&mut self.hidden, true) {
                    warn!("peers file {} cannot be looked at: {error}; the peers stay as they were", self.path.display());
                }
                return None;
            }
        };
        self.hidden = false;
        (self.settling.look(Stamp::of(&found)) == Standing::Due).then(|| self.read())
    }

    fn read(&mut self) -> Result<Vec<Placed>, StaticError> {
        let name = self.path.display().to_string();
        let read = || -> io::Result<(Stamp, String)> {
            let file = File::open(&self.path)?;
            let found = file.metadata()?;
            if !found.is_file() {
                return Err(io::Error::other("expected a file, found something else"));
            }
            let mut text = String::new();
            file.take(LARGEST + 1).read_to_string(&mut text)?;
            if text.len() as u64 > LARGEST {
                return Err(io::Error::other(format!("expected at most {} MiB, found more", LARGEST >> 20)));
            }
            Ok((Stamp::of(&found), text))
        };
        let (stamp, text) = read().map_err(|source| StaticError::File { file: name.clone(), source })?;
        self.settling = Settling::read_at(stamp);
        parse(&name, &text)
    }
}

/// The peers that a file of this name and content holds.
fn parse(name: &str, text: &str) -> Result<Vec<Placed>, StaticError> {
    let content = |line: &'_ str| line.split('#').next().unwrap_or_default().trim().to_owned();
    let lines = text.lines().map(content).zip(1..).filter(|(line, _)| !line.is_empty());
    lines
        .map(|(line, number)| {
            let place = format!("peers file {name}, line {number}");
            match Peer::of_line(&line) {
                Ok(peer) => Ok(Placed { peer, place }),
                Err(error) => Err(StaticError::Line { place, error }),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_lines_and_comments() {
        let text = "# ours\n\n10.5.2.0/24 192.0.2.2   # the second\n\t10.5.3.0/24\t192.0.2.3:9000\r\n";
        let peers = parse("f", text).unwrap();
        let told: Vec<_> = peers.iter().map(|placed| format!("{}: {}", placed.place, placed.peer)).collect();
        assert_eq!(told, ["peers file f, line 3: 10.5.2.0/24=192.0.2.2", "peers file f, line 4: 10.5.3.0/24=192.0.2.3:9000"]);
        assert!(parse("f", "").unwrap().is_empty());
        let error = parse("f", "10.5.2.0/24 192.0.2.2\n10.5.3.0/24\n").unwrap_err().to_string();
        assert!(
            error.starts_with("peers file f, line 2: expected SUBNET ADDRESS") && error.ends_with("found `10.5.3.0/24`"),
            "{error}"
        );
    }

    #[test]
    fn a_file_is_read_again_once_it_has_changed_and_stands_still() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("peers");
        assert!(matches!(PeersFile::open(path.clone()), Err(StaticError::File { .. })));
        fs::write(&path, "10.5.2.0/24 192.0.2.2\n").unwrap();
        let (mut file, peers) = PeersFile::open(path.clone()).unwrap();
        assert_eq!((peers.len(), file.look().is_none()), (1, true));
        fs::write(&path, "10.5.2.0/24 192.0.2.2\n10.5.3.0/24 192.0.2.3\n").unwrap();
        assert!(file.look().is_none(), "it may still be written");
        assert_eq!(file.look().unwrap().unwrap().len(), 2);
        assert!(file.look().is_none());
        fs::remove_file(&path).unwrap();
        assert!(file.look().is_none() && file.hidden && file.look().is_none());
        fs::write(&path, "x\n").unwrap();
        assert!(file.look().is_none() && !file.hidden);
        assert!(file.look().unwrap().is_err());
        assert!(file.look().is_none(), "told once");
    }
}
