//! The controller's records in a file, by redb.
//!
//! # What is stored, and what is not
//!
//! A controller that starts reads what it cannot learn elsewhere: [tenants with hashes of their tokens](netfold_controller::record::TenantRecord),
//! [jobs](netfold_controller::record::JobRecord), [the places of jobs that run](netfold_controller::record::PlaceRecord), the
//! [generations of resizable jobs](netfold_controller::record::MembershipRecord), the next epoch, and which switches and links are drained.
//! Sessions are not stored: workers resume them. The state of switches is not stored: it is read from them and compared with the places. Counters, events and load start from zero.
//!
//! # How
//!
//! One table for each kind of record, by name or number; a value is one byte of version and JSON, so that a dump can be read
//! and a field can be added. The table `meta` holds the schema's version and the next epoch. One transaction for each
//! [`apply`](Store::apply), durable when it returns: a crash at any instant leaves all of it or nothing. The file is created
//! under another name and renamed, so that an existing file is complete; only its owner may read it; one process has it open.
//!
//! docs/controller.md describes this for administrators.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::row;
use netfold_controller::record::{Change, RecordReader, Store, StoreError, StoredRecords};
use redb::{
    DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
    WriteTransaction,
};

/// The schema that this build writes, and the newest that it reads.
pub const SCHEMA: u64 = 1;

const TENANTS: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("tenants");
/// By tenant and name.
const JOBS: TableDefinition<'static, (&str, &str), &[u8]> = TableDefinition::new("jobs");
const PLACES: TableDefinition<'static, u16, &[u8]> = TableDefinition::new("places");
const SWITCHES: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("switches");
/// Links that are drained, by the names of the switches at their ends. Databases of builds that could not drain links have no such table.
const LINKS: TableDefinition<'static, (&str, &str), &[u8]> = TableDefinition::new("links");
/// By tenant and name.
const MEMBERSHIPS: TableDefinition<'static, (&str, &str), &[u8]> = TableDefinition::new("memberships");
const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// Keys of the table `meta`.
const META_SCHEMA: &str = "schema";
const META_EPOCH_NEXT: &str = "epoch_next";

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A newer build wrote it.
    #[error(
        "the database {} has schema {found}, newer than this build's {SCHEMA}: use the build that wrote it, or another file",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
    },
    /// Another process has it open.
    #[error("the database {} is in use: another controller has it open", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It is not a controller's database, or is damaged.
    #[error(
        "the file {} is not a database of a Netfold controller, or is damaged: name another file, or restore a backup by `netfold \
         controller restore`",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be created, opened or read.
    #[error("cannot open the database {}: check that its folder exists and that this user may write to it", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of redb or the system.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A controller's database, open.
#[derive(Debug)]
pub struct Database {
    inner: redb::Database,
    path: PathBuf,
}

impl Database {
    /// Opens the database at `path`; creates an empty one if there is none.
    ///
    /// # Errors
    /// [`OpenError`]; an existing file is left unchanged.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let path = path.into();
        let failed = |source| OpenError::Open { path: path.clone(), source };
        if !path.try_exists().map_err(|error| failed(error.into()))? {
            create(&path, &[]).map_err(failed)?;
        }
        let inner = redb::Database::open(&path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path: path.clone() },
            DatabaseError::Storage(StorageError::Corrupted(_)) => OpenError::Foreign { path: path.clone() },
            DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                OpenError::Foreign { path: path.clone() }
            }
            error => failed(error.into()),
        })?;
        match schema(&inner).map_err(failed)? {
            Some(SCHEMA) => Ok(Self { inner, path }),
            Some(found) => Err(OpenError::Newer { path, found }),
            None => Err(OpenError::Foreign { path }),
        }
    }

    /// Opens the database on other storage than a file, which a simulation has; creates an empty one if the storage is empty. `path` names it in
    /// errors.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[doc(hidden)]
    pub fn over(storage: impl redb::StorageBackend, path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let path = path.into();
        let failed = |source| OpenError::Open { path: path.clone(), source };
        let is_empty = storage.len().map_err(|error| failed(error.into()))? == 0;
        let inner =
            redb::Builder::new().create_with_backend(storage).map_err(|error| failed(error.into()))?;
        if is_empty {
            initialise(&inner, &[]).map_err(failed)?;
        }
        match schema(&inner).map_err(failed)? {
            Some(SCHEMA) => Ok(Self { inner, path }),
            Some(found) => Err(OpenError::Newer { path, found }),
            None => Err(OpenError::Foreign { path }),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error<'a, E: Into<redb::Error>>(&'a self, doing: &'static str) -> impl FnOnce(E) -> StoreError + 'a {
        move |source| StoreError {
            what: format!("{doing} {}", self.path.display()),
            source: Box::new(source.into()),
        }
    }
}

/// Creates a database with the results of changes under another name, and renames it once it is complete and durable. A file of this name
/// is replaced.
pub(crate) fn create(
    path: &Path,
    changes: &[Change],
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let unfinished = Unfinished::create(path)?;
    let file = unfinished.file.try_clone()?;
    let database = redb::Builder::new().create_with_backend(redb::backends::FileBackend::new(file)?)?;
    initialise(&database, changes)?;
    drop(database);
    Ok(unfinished.finish()?)
}

/// Makes the tables of an empty database, with the results of changes.
fn initialise(
    database: &redb::Database,
    changes: &[Change],
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let write = database.begin_write()?;
    write.open_table(META)?.insert(META_SCHEMA, SCHEMA)?;
    write.open_table(TENANTS)?;
    write.open_table(JOBS)?;
    write.open_table(PLACES)?;
    write.open_table(SWITCHES)?;
    write.open_table(LINKS)?;
    write.open_table(MEMBERSHIPS)?;
    make(&write, changes)?;
    Ok(write.commit()?)
}

/// A new file under another name, `NAME.new`, that only its owner may read; removed unless it is finished.
pub(crate) struct Unfinished<'a> {
    /// The file, for reading and writing.
    pub(crate) file: File,
    path: PathBuf,
    finished: &'a Path,
}

impl<'a> Unfinished<'a> {
    /// Creates it; one that an interrupted process has left is replaced.
    pub(crate) fn create(finished: &'a Path) -> io::Result<Self> {
        let mut name = finished.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let path = finished.with_file_name(name);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, finished })
    }

    /// Makes it durable, and renames it.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, self.finished)?;
        let folder = self.finished.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // Fails after it was renamed.
        let _ = fs::remove_file(&self.path);
    }
}

/// The schema recorded in a database, if there is one.
fn schema(database: &redb::Database) -> Result<Option<u64>, Box<dyn std::error::Error + Send + Sync>> {
    match database.begin_read()?.open_table(META) {
        Ok(meta) => Ok(meta.get(META_SCHEMA)?.map(|value| value.value())),
        Err(redb::TableError::TableDoesNotExist(_) | redb::TableError::TableTypeMismatch { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The records in a transaction.
fn records(read: &ReadTransaction) -> Result<StoredRecords, Box<dyn std::error::Error + Send + Sync>> {
    let mut kept = StoredRecords::default();
    macro_rules! rows {
        ($table:ident, |$key:ident, $record:ident| $keep:expr) => {{
            for entry in read.open_table($table)?.iter()? {
                let (key, value) = entry?;
                let $key = key.value();
                let $record = row::decode(value.value())?;
                $keep;
            }
        }};
    }
    rows!(TENANTS, |name, record| kept.tenants.insert(name.to_owned(), record));
    rows!(PLACES, |number, record| kept.places.insert(number, record));
    rows!(SWITCHES, |name, record| kept.switches.insert(name.to_owned(), record));
    rows!(JOBS, |_name, record| {
        let record: netfold_controller::record::JobRecord = record;
        kept.jobs.insert(record.name.clone(), record)
    });
    match read.open_table(LINKS) {
        Ok(table) => {
            for entry in table.iter()? {
                kept.links_drained.insert(row::decode(entry?.1.value())?);
            }
        }
        Err(redb::TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    // Databases of earlier builds have no such table.
    match read.open_table(MEMBERSHIPS) {
        Ok(_) => rows!(MEMBERSHIPS, |_name, record| {
            let record: netfold_controller::record::MembershipRecord = record;
            kept.memberships.insert(record.name.clone(), record)
        }),
        Err(redb::TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let epoch = read.open_table(META)?.get(META_EPOCH_NEXT)?;
    // Written from a u32; a larger value can only mean that the epochs are exhausted.
    kept.epoch_next = epoch.map_or(0, |value| u32::try_from(value.value()).unwrap_or(u32::MAX));
    Ok(kept)
}

impl Store for Database {
    fn reader(&mut self) -> Result<RecordReader, StoreError> {
        // Readers see the transactions that were committed before, and do not delay those that follow.
        let read = self.inner.begin_read().map_err(self.error("reading"))?;
        let what = format!("reading {}", self.path.display());
        Ok(Box::new(move || records(&read).map_err(|source| StoreError { what, source })))
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let write = self.inner.begin_write().map_err(self.error("writing"))?;
        make(&write, changes).map_err(self.error("writing"))?;
        write.commit().map_err(self.error("writing"))
    }
}

fn make(write: &WriteTransaction, changes: &[Change]) -> Result<(), redb::Error> {
    let mut tenants = write.open_table(TENANTS)?;
    let mut jobs = write.open_table(JOBS)?;
    let mut places = write.open_table(PLACES)?;
    let mut switches = write.open_table(SWITCHES)?;
    let mut links = write.open_table(LINKS)?;
    let mut memberships = write.open_table(MEMBERSHIPS)?;
    let mut meta = write.open_table(META)?;
    for change in changes {
        match change {
            Change::Tenant(record) => {
                tenants.insert(record.name.as_str(), row::encode(record).as_slice())?;
            }
            Change::TenantGone(name) => {
                tenants.remove(name.as_str())?;
            }
            Change::Job(record) => {
                let key = (record.name.tenant.as_str(), record.name.job.as_str());
                jobs.insert(key, row::encode(record).as_slice())?;
            }
            Change::JobGone(name) => {
                jobs.remove((name.tenant.as_str(), name.job.as_str()))?;
            }
            Change::Place(record) => {
                places.insert(record.number, row::encode(record).as_slice())?;
            }
            Change::PlaceGone(number) => {
                places.remove(number)?;
            }
            Change::Membership(record) => {
                let key = (record.name.tenant.as_str(), record.name.job.as_str());
                memberships.insert(key, row::encode(record).as_slice())?;
            }
            Change::MembershipGone(name) => {
                memberships.remove((name.tenant.as_str(), name.job.as_str()))?;
            }
            Change::EpochNext(epoch) => {
                let before = meta.get(META_EPOCH_NEXT)?.map_or(0, |value| value.value());
                meta.insert(META_EPOCH_NEXT, before.max(u64::from(*epoch)))?;
            }
            Change::Switch(record) => {
                switches.insert(record.name.as_str(), row::encode(record).as_slice())?;
            }
            Change::LinkDrained(link) => {
                links.insert((link.a.as_str(), link.b.as_str()), row::encode(link).as_slice())?;
            }
            Change::LinkUndrained(link) => {
                links.remove((link.a.as_str(), link.b.as_str()))?;
            }
        }
    }
    Ok(())
}
