//! When a file that people write is to be read: looked at again and again, it counts once it has stood still from one look to
//! the next. So nobody reads what an editor is half through with.
//!
//! Looked at rather than waited for, because inotify hears nothing of network file systems, and of links that are swapped.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

/// From one look to the next. A change is read at the second look after it.
pub const PAUSE: Duration = Duration::from_millis(250);

/// What tells a file from itself after a change. Links are followed, so it is also told when one leads elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What is known of a file's coming to rest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settling {
    /// As it was when it was read.
    read: Option<Stamp>,
    /// As it was in the look before, if that was different.
    seen: Option<Stamp>,
}

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is as it was when it was read.
    Read,
    /// It has changed, and stands still: it is to be read now.
    Due,
    /// It has just changed.
    Moving,
}

impl Stamp {
    /// The stamp of a file.
    #[must_use]
    pub fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

impl Settling {
    /// A file that was read when it had this stamp.
    #[must_use]
    pub fn read_at(stamp: Stamp) -> Self {
        Self { read: Some(stamp), seen: None }
    }

    /// Takes in a look. Who hears [`Standing::Due`] reads the file.
    pub fn look(&mut self, stamp: Stamp) -> Standing {
        if self.read == Some(stamp) {
            self.seen = None;
            Standing::Read
        } else if self.seen.replace(stamp) == Some(stamp) {
            *self = Self::read_at(stamp);
            Standing::Due
        } else {
            Standing::Moving
        }
    }
}
