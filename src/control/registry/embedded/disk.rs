//! The store on disk: opening the file, reading it whole, and writing changes. Blocking; called from blocking threads only.
//!
//! Each write is one redb transaction, synced before it returns: it survives `kill -9` and power loss.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use redb::backends::{FileBackend, InMemoryBackend};
use redb::{Builder, Database, DatabaseError, ReadableTable, StorageError, TableDefinition};
use tracing::warn;

use super::error::OpenError;
use super::record::Record;
use crate::control::registry::{PolicyEntry, policy_id};
use crate::lease::SubnetKey;

const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
const LEASES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("leases");

const POLICIES: TableDefinition<'_, &str, &str> = TableDefinition::new("policies");

/// Value of `format` in the meta table.
const FORMAT: &str = "1";

/// A thousand leases take a few hundred KiB; the library's default of 1 GiB is for other uses.
const CACHE_BYTES: usize = 4 << 20;

/// An open database.
#[derive(Debug)]
pub struct Disk {
    database: Database,
}

/// Everything a database holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// The network config's text.
    pub config: Option<String>,
    /// The last revision given out.
    pub revision: u64,
    /// Every readable lease.
    pub records: Vec<(SubnetKey, Record)>,
    /// Every policy object whose key names one.
    pub policies: Vec<PolicyEntry>,
}

impl Disk {
    /// Opens or creates the file, with its directory. The file is for its owner only.
    pub fn open(path: &Path) -> Result<(Self, Contents), OpenError> {
        let file = open_file(path)?;
        let corrupt = |reason: String| OpenError::Corrupt { path: path.to_owned(), reason };
        // The library may panic on a file damaged from outside; that is a finding about the file, not the end of the process.
        let opened = std::panic::catch_unwind(|| {
            let backend = FileBackend::new(file)?;
            Builder::new().set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true).create_with_backend(backend)
        });
        let database = match opened {
            Ok(Ok(database)) => database,
            Ok(Err(error)) => return Err(classify(error, path)),
            Err(_) => return Err(corrupt("its structure is damaged".into())),
        };
        let disk = Self { database };
        let format = disk.prepare().map_err(|error| corrupt(error.to_string()))?;
        if format != FORMAT {
            return Err(OpenError::Format { path: path.to_owned(), found: format, known: FORMAT });
        }
        let contents = disk.load().map_err(|error| corrupt(error.to_string()))?;
        Ok((disk, contents))
    }

    /// An empty database that lives as long as this value.
    pub fn in_memory() -> Result<Self, redb::Error> {
        let database = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(InMemoryBackend::new())?;
        let disk = Self { database };
        disk.prepare()?;
        Ok(disk)
    }

    /// Writes or (for `None`) deletes records, and notes the revision; all or nothing.
    pub fn commit(&self, changes: &[(SubnetKey, Option<Record>)], revision: u64) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            let mut leases = transaction.open_table(LEASES)?;
            for (subnet, record) in changes {
                let key = subnet.to_string();
                match record {
                    Some(record) => {
                        let value = serde_json::to_vec(record).map_err(|error| redb::Error::Io(error.into()))?;
                        leases.insert(key.as_str(), value.as_slice())?;
                    }
                    None => drop(leases.remove(key.as_str())?),
                }
            }
            transaction.open_table(META)?.insert("revision", revision.to_string().as_str())?;
        }
        Ok(transaction.commit()?)
    }

    /// Writes or (for `None`) deletes policy objects by their keys; all or nothing.
    pub fn put_policies(&self, changes: &[(String, Option<&str>)]) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            let mut policies = transaction.open_table(POLICIES)?;
            for (key, body) in changes {
                match body {
                    Some(body) => drop(policies.insert(key.as_str(), *body)?),
                    None => drop(policies.remove(key.as_str())?),
                }
            }
        }
        Ok(transaction.commit()?)
    }

    /// Puts the network config.
    pub fn put_config(&self, text: &str) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(META)?.insert("config", text)?;
        Ok(transaction.commit()?)
    }

    /// Makes the tables where there are none; the format they have.
    fn prepare(&self) -> Result<String, redb::Error> {
        let transaction = self.database.begin_write()?;
        let format = {
            transaction.open_table(LEASES)?;
            transaction.open_table(POLICIES)?;
            let mut meta = transaction.open_table(META)?;
            let found = meta.get("format")?.map(|format| format.value().to_owned());
            if found.is_none() {
                meta.insert("format", FORMAT)?;
            }
            found.unwrap_or_else(|| FORMAT.to_owned())
        };
        transaction.commit()?;
        Ok(format)
    }

    fn load(&self) -> Result<Contents, redb::Error> {
        // Through a write transaction, so that nothing else is needed of the library; it is dropped unwritten.
        let transaction = self.database.begin_write()?;
        let meta = transaction.open_table(META)?;
        let text = |key| -> Result<Option<String>, redb::Error> { Ok(meta.get(key)?.map(|value| value.value().to_owned())) };
        let mut contents = Contents { config: text("config")?, ..Contents::default() };
        contents.revision = text("revision")?.and_then(|revision| revision.parse().ok()).unwrap_or(0);
        for entry in transaction.open_table(LEASES)?.iter()? {
            let (key, value) = entry?;
            let record = serde_json::from_slice::<Record>(value.value()).map_err(|error| error.to_string());
            match key.value().parse::<SubnetKey>().map_err(|error| error.to_string()).and_then(|key| Ok((key, record?))) {
                Ok(lease) => contents.records.push(lease),
                Err(error) => warn!(key = key.value(), %error, "registry store: unreadable lease skipped"),
            }
        }
        for entry in transaction.open_table(POLICIES)?.iter()? {
            let (key, body) = entry?;
            if let Some(id) = policy_id(key.value()) {
                contents.policies.push(PolicyEntry { id, body: body.value().to_owned() });
            } else {
                warn!(key = key.value(), "registry store: a key that names no policy object is skipped");
            }
        }
        Ok(contents)
    }
}

fn open_file(path: &Path) -> Result<File, OpenError> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(parent);
        made.map_err(|source| OpenError::Directory { path: path.to_owned(), source })?;
    }
    let fail = |source| OpenError::File { path: path.to_owned(), source };
    let existed = path.exists();
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(fail)?;
    if !file.metadata().map_err(fail)?.is_file() {
        return Err(fail(io::Error::other("not a regular file")));
    }
    if !existed {
        // The name itself has to survive a power loss, too.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(PathBuf::from("."), Path::to_owned);
        File::open(parent).and_then(|directory| directory.sync_all()).map_err(fail)?;
    }
    Ok(file)
}

fn classify(error: DatabaseError, path: &Path) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => OpenError::Locked { path },
        // The library reports a foreign file as invalid data.
        DatabaseError::Storage(StorageError::Io(source)) if source.kind() != io::ErrorKind::InvalidData => {
            OpenError::File { path, source }
        }
        other => OpenError::Corrupt { path, reason: other.to_string() },
    }
}
