//! Backups: all records of a controller in a file, and their restoration to a database.
//!
//! A backup is lines of JSON: a head with the format's version and the number of records of each kind, one record a line, and the SHA-256 of
//! everything before it. It does not depend on the kind of database, and is as secret as the database: it holds job keys and hashes of tokens.
//!
//! A restored database may be older than what the switches have seen. Epochs must never be used twice, so that restoration raises the
//! next epoch above every one that the controller can have used since.

use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use netfold_controller::record::{
    Change, JobRecord, LinkName, MembershipRecord, PlaceRecord, Store, StoredRecords, SwitchRecord,
    TenantRecord,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::store::{self, Database, OpenError, Unfinished};

/// The format that this build writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Longest backup, in bytes.
pub const LEN_MAX: usize = 256 << 20;

/// Epochs are at least the Unix time of the controller's start, and grow by one with each admission. This many admissions, beyond one each
/// second, may have happened after the backup.
const EPOCH_MARGIN: u32 = 1 << 20;

/// A backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Unix time at which it was taken, in milliseconds.
    pub taken_ms: u64,
    /// What was stored.
    pub records: StoredRecords,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    netfold_backup: u32,
    taken_ms: u64,
    epoch_next: u32,
    tenants: usize,
    jobs: usize,
    places: usize,
    switches: usize,
    /// Drained ones; not in backups of builds that could not drain links.
    #[serde(default)]
    links: usize,
    /// Not in backups of earlier builds.
    #[serde(default)]
    memberships: usize,
}

/// A line in between.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    Tenant(TenantRecord),
    Job(JobRecord),
    Place(Box<PlaceRecord>),
    Switch(SwitchRecord),
    DrainedLink(LinkName),
    Membership(Box<MembershipRecord>),
}

impl From<Record> for Change {
    fn from(record: Record) -> Self {
        match record {
            Record::Tenant(record) => Self::Tenant(record),
            Record::Job(record) => Self::Job(record),
            Record::Place(record) => Self::Place(record),
            Record::Switch(record) => Self::Switch(record),
            Record::DrainedLink(link) => Self::LinkDrained(link),
            Record::Membership(record) => Self::Membership(record),
        }
    }
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct Tail {
    sha256: String,
}

/// Why bytes are not a backup that can be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// It is another kind of file.
    #[error(
        "it is not a backup of a Netfold controller: name a file that `netfold controller backup` has written"
    )]
    Foreign,
    /// A newer build wrote it.
    #[error("it has format {0}, newer than this build's {FORMAT}: use the build that wrote it")]
    Newer(u32),
    /// It is too long.
    #[error("it is longer than {LEN_MAX} bytes")]
    TooLong,
    /// It was cut off or changed.
    #[error("it is incomplete or was changed: {0}; use another backup")]
    Corrupt(String),
    /// It cannot be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
}

fn corrupt(what: impl ToString) -> BackupError {
    BackupError::Corrupt(what.to_string())
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Backup {
    /// A backup of records as they are now.
    pub fn now(records: StoredRecords) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { taken_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX), records }
    }

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let records = &self.records;
        let head = Head {
            netfold_backup: FORMAT,
            taken_ms: self.taken_ms,
            epoch_next: records.epoch_next,
            tenants: records.tenants.len(),
            jobs: records.jobs.len(),
            places: records.places.len(),
            switches: records.switches.len(),
            links: records.links_drained.len(),
            memberships: records.memberships.len(),
        };
        let mut bytes = Vec::new();
        append(&mut bytes, &head);
        records.tenants.values().for_each(|record| append(&mut bytes, &Record::Tenant(record.clone())));
        records.jobs.values().for_each(|record| append(&mut bytes, &Record::Job(record.clone())));
        records.switches.values().for_each(|record| append(&mut bytes, &Record::Switch(record.clone())));
        let links = records.links_drained.iter();
        links.for_each(|link| append(&mut bytes, &Record::DrainedLink(link.clone())));
        let places = records.places.values();
        places.for_each(|record| append(&mut bytes, &Record::Place(Box::new(record.clone()))));
        let memberships = records.memberships.values();
        memberships.for_each(|record| append(&mut bytes, &Record::Membership(Box::new(record.clone()))));
        let tail = Tail { sha256: digest(&bytes) };
        append(&mut bytes, &tail);
        bytes
    }

    /// The backup in a file's bytes, completely verified.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BackupError> {
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let head: Head = serde_json::from_slice(first).map_err(|_| BackupError::Foreign)?;
        if head.netfold_backup > FORMAT {
            return Err(BackupError::Newer(head.netfold_backup));
        }
        let lines = bytes.strip_suffix(b"\n").ok_or_else(|| corrupt("its last line is cut off"))?;
        let end = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let tail: Tail =
            serde_json::from_slice(&lines[end..]).map_err(|_| corrupt("its last line is no checksum"))?;
        if tail.sha256 != digest(&bytes[..end]) {
            return Err(corrupt("its checksum does not match"));
        }
        let mut records = StoredRecords { epoch_next: head.epoch_next, ..StoredRecords::default() };
        let body = bytes[..end].split(|byte| *byte == b'\n').skip(1).filter(|line| !line.is_empty());
        for line in body {
            let record: Record = serde_json::from_slice(line).map_err(corrupt)?;
            records.apply(record.into());
        }
        let kinds = [
            (head.tenants, records.tenants.len()),
            (head.jobs, records.jobs.len()),
            (head.places, records.places.len()),
            (head.switches, records.switches.len()),
            (head.links, records.links_drained.len()),
            (head.memberships, records.memberships.len()),
        ];
        if kinds.iter().any(|(announced, found)| announced != found) {
            return Err(corrupt("it has other records than its first line announces"));
        }
        Ok(Self { taken_ms: head.taken_ms, records })
    }

    /// Reads a backup, completely verified.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn read(path: &Path) -> Result<Self, BackupError> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(BackupError::Read)?;
        file.take(LEN_MAX as u64 + 1).read_to_end(&mut bytes).map_err(BackupError::Read)?;
        if bytes.len() > LEN_MAX {
            return Err(BackupError::TooLong);
        }
        Self::decode(&bytes)
    }

    /// Restores it to a database, which no controller may have open; the file is replaced at once or not at all. A database with records is
    /// replaced only if `replace`.
    ///
    /// # Errors
    /// [`RestoreError`], with the database unchanged.
    pub fn restore(&self, path: &Path, replace: bool) -> Result<(), RestoreError> {
        // Open until the end: no controller can start with the old file meanwhile.
        let _existing = existing(path, replace)?;
        let changes: Vec<Change> = self.changes().collect();
        store::create(path, &changes).map_err(|source| RestoreError::Write { path: path.to_owned(), source })
    }

    /// What makes an empty database one that is restored from it.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Change> {
        let records = &self.records;
        let tenants = records.tenants.values().cloned().map(Change::Tenant);
        let jobs = records.jobs.values().cloned().map(Change::Job);
        let places = records.places.values().cloned().map(|record| Change::Place(Box::new(record)));
        let switches = records.switches.values().cloned().map(Change::Switch);
        let links = records.links_drained.iter().cloned().map(Change::LinkDrained);
        let memberships = records.memberships.values().cloned();
        let memberships = memberships.map(|record| Change::Membership(Box::new(record)));
        let all = tenants.chain(jobs).chain(places).chain(switches).chain(links).chain(memberships);
        all.chain([Change::EpochNext(self.epoch_next())])
    }

    /// The next epoch of a restored database.
    fn epoch_next(&self) -> u32 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = u32::try_from(now).unwrap_or(u32::MAX);
        self.records.epoch_next.max(now).saturating_add(EPOCH_MARGIN)
    }
}

fn append(bytes: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *bytes, line)
        .expect("records are plain structs, and writing to memory does not fail");
    bytes.push(b'\n');
}

/// Writes the bytes of a backup to a file that only its owner may read, which is complete or absent. An existing file is replaced.
///
/// # Errors
/// The system's.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut unfinished = Unfinished::create(path)?;
    unfinished.file.write_all(bytes)?;
    unfinished.finish()
}

/// Why a backup is not restored; the database is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// There are records already.
    #[error(
        "the database {} has records: name another file, or replace them with --replace",
        path.display()
    )]
    Exists {
        /// The database.
        path: PathBuf,
    },
    /// A controller uses it.
    #[error("the database {} is in use: stop the controller first", path.display())]
    InUse {
        /// The database.
        path: PathBuf,
    },
    /// The file cannot be read, so that it is unknown whether it has records.
    #[error("{} exists and cannot be read as a database: name another file, or replace it with --replace", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The new database cannot be written.
    #[error("cannot write the database {}", path.display())]
    Write {
        /// The database.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The database at `path`, if there is one that may be replaced.
fn existing(path: &Path, replace: bool) -> Result<Option<Database>, RestoreError> {
    let unreadable = |source: Box<dyn std::error::Error + Send + Sync>| RestoreError::Unreadable {
        path: path.to_owned(),
        source,
    };
    if !path.try_exists().map_err(|error| unreadable(error.into()))? {
        return Ok(None);
    }
    let opened = match Database::open(path) {
        Err(OpenError::InUse { path }) => return Err(RestoreError::InUse { path }),
        Err(_) if replace => return Ok(None),
        Err(error) => return Err(unreadable(error.into())),
        Ok(database) => database,
    };
    if replace {
        return Ok(Some(opened));
    }
    let mut database = opened;
    match database.load() {
        Ok(records) if records == StoredRecords::default() => Ok(Some(database)),
        Ok(_) => Err(RestoreError::Exists { path: path.to_owned() }),
        Err(error) => Err(unreadable(error.into())),
    }
}
