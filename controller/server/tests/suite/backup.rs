//! Backups: consistent while records change, verified before they are used, and restored at once or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use netfold_controller::Server;
use netfold_controller::admission::Config;
use netfold_controller::command::Command;
use netfold_controller::record::{Store, StoredRecords};
use netfold_controller::topology::Topology;
use netfold_server::access::Access;
use netfold_server::api::v1;
use netfold_server::api::v1::records_client::RecordsClient;
use netfold_server::backup::{self, Backup, BackupError, RestoreError};
use netfold_server::{Database, Frontend, FrontendConfig};
use netfold_testkit::directory::TemporaryDirectory;
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};

use crate::authorization::with;
use crate::calls::{channel, reason};
use crate::plane::{ADMIN, Plane, READER, RED, Served};
use crate::store::{after, step, tenant};

fn sample() -> Backup {
    Backup { taken_ms: 1_750_000_000_000, records: after(60) }
}

/// The records of a database, which is closed again.
fn stored(path: &Path) -> StoredRecords {
    Database::open(path).unwrap().load().unwrap()
}

/// Records but for the next epoch, which a restoration raises.
fn without_epoch(records: StoredRecords) -> StoredRecords {
    StoredRecords { epoch_next: 0, ..records }
}

#[test]
fn a_backup_has_all_records() {
    for records in [StoredRecords::default(), after(1), after(60)] {
        let backup = Backup { taken_ms: 7, records };
        assert_eq!(Backup::decode(&backup.encode()).unwrap(), backup);
    }
}

#[test]
fn changed_and_incomplete_backups_are_refused() {
    let backup = Backup { taken_ms: 7, records: after(2) };
    let bytes = backup.encode();
    for at in 0..bytes.len() {
        assert!(Backup::decode(&bytes[..at]).is_err(), "the first {at} of {} bytes", bytes.len());
        for bit in [0x01, 0x20, 0x80] {
            let mut changed = bytes.clone();
            changed[at] ^= bit;
            assert!(Backup::decode(&changed).is_err(), "byte {at} with {bit:#x} flipped");
        }
    }
    assert!(Backup::decode(&[&bytes[..], b"{}\n"].concat()).is_err(), "something behind its end");
    let text = String::from_utf8(bytes).unwrap();
    let newer = text.replacen("\"netfold_backup\":1", "\"netfold_backup\":2", 1);
    assert!(matches!(Backup::decode(newer.as_bytes()), Err(BackupError::Newer(2))));
    assert!(matches!(Backup::decode(b"redb"), Err(BackupError::Foreign)));
}

#[test]
fn a_restored_database_has_the_records_and_never_an_earlier_epoch() {
    let folder = TemporaryDirectory::new("restored");
    let path = folder.path().join("state.redb");
    let backup = sample();
    backup.restore(&path, false).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let restored = stored(&path);
    // A controller's epochs are at least the Unix time of its start.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(u64::from(restored.epoch_next) > now && restored.epoch_next > backup.records.epoch_next);
    assert_eq!(without_epoch(restored), without_epoch(backup.records));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn only_an_unused_database_without_records_is_replaced() {
    let folder = TemporaryDirectory::new("kept");
    let path = folder.path().join("state.redb");
    let backup = sample();
    // An empty one.
    drop(Database::open(&path).unwrap());
    backup.restore(&path, false).unwrap();
    // One with records.
    let before = stored(&path);
    let other = Backup { taken_ms: 8, records: after(3) };
    assert!(matches!(other.restore(&path, false), Err(RestoreError::Exists { .. })));
    assert_eq!(stored(&path), before);
    // One in use, whatever is asked for.
    let database = Database::open(&path).unwrap();
    for replace in [false, true] {
        assert!(matches!(other.restore(&path, replace), Err(RestoreError::InUse { .. })));
    }
    drop(database);
    other.restore(&path, true).unwrap();
    assert_eq!(without_epoch(stored(&path)), without_epoch(other.records.clone()));
    // One that is no database.
    fs::write(&path, "not a database").unwrap();
    assert!(matches!(other.restore(&path, false), Err(RestoreError::Unreadable { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"not a database");
    other.restore(&path, true).unwrap();
    assert_eq!(without_epoch(stored(&path)), without_epoch(other.records.clone()));
    // One that cannot be written.
    let nowhere = folder.path().join("absent/state.redb");
    assert!(matches!(other.restore(&nowhere, true), Err(RestoreError::Write { .. })));
}

#[test]
fn readers_see_whole_changes_while_others_are_applied() {
    let folder = TemporaryDirectory::new("readers");
    let mut database = Database::open(folder.path().join("state.redb")).unwrap();
    let mut readers = Vec::new();
    for number in 0..60 {
        database.apply(&step(number)).unwrap();
        if number % 7 == 0 {
            readers.push((number, database.reader().unwrap()));
        }
    }
    for (number, reader) in readers {
        assert_eq!(reader().unwrap(), after(number + 1), "as it was after step {number}");
    }
}

async fn fetch(channel: &Channel) -> Backup {
    let mut parts =
        RecordsClient::new(channel.clone()).backup(v1::BackupRequest {}).await.unwrap().into_inner();
    let mut bytes = Vec::new();
    while let Some(part) = parts.next().await {
        bytes.extend(part.unwrap().data);
    }
    Backup::decode(&bytes).unwrap()
}

#[test]
fn a_backup_under_load_has_what_was_acknowledged_and_no_part_of_a_change() {
    let folder = TemporaryDirectory::new("load");
    let store = Database::open(folder.path().join("state.redb")).unwrap();
    // Port 1 is never listened on.
    let topology = Topology::single("tor", Some("127.0.0.1:1".into())).unwrap();
    let plane = netfold_southbound::managed_plane(topology, Box::new(store)).unwrap();
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::over(any, Config::controller(1, 1), plane).unwrap();
    let config =
        FrontendConfig { grpc: any, http: None, page_hosts: Vec::new(), access: Access::Open, tls: None };
    let control = server.control();
    let front = Frontend::start(config, control.clone()).unwrap();
    let server = server.spawn().unwrap();

    // Tenants are added one after the other, all the time.
    let stop = AtomicBool::new(false);
    let added = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            crate::run(async {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    control.execute(Command::AddTenant(tenant(number))).await.unwrap();
                    number += 1;
                    added.store(number, Ordering::SeqCst);
                }
            });
        });
        crate::run(async {
            let endpoint = Endpoint::from_shared(format!("http://{}", front.grpc())).unwrap();
            let channel = endpoint.connect().await.unwrap();
            let mut sizes = Vec::new();
            while sizes.len() < 20 || sizes.first() == sizes.last() {
                let acknowledged = added.load(Ordering::SeqCst);
                let records = fetch(&channel).await.records;
                let begun = added.load(Ordering::SeqCst) + 1;
                let count = u32::try_from(records.tenants.len()).unwrap();
                assert!((acknowledged..=begun).contains(&count), "{count}, of {acknowledged} to {begun}");
                for number in 0..count {
                    let tenant = tenant(number);
                    assert_eq!(records.tenants[&tenant.name], tenant, "one of {count}");
                }
                sizes.push(count);
            }
            stop.store(true, Ordering::Relaxed);
        });
        writer.join().unwrap();
    });
    drop(front);
    server.shutdown().unwrap();
    let last = added.load(Ordering::SeqCst) as usize;
    assert_eq!(stored(&folder.path().join("state.redb")).tenants.len(), last, "no change was lost");
}

#[test]
fn only_administrators_make_backups() {
    let served = Served::closed(Plane::populated());
    crate::run(async {
        let mut records = RecordsClient::new(channel(&served).await);
        for (token, why) in [("", "TOKEN_MISSING"), (READER, "READ_ONLY"), (RED, "ADMIN_ONLY")] {
            let refused = records.backup(with(token, v1::BackupRequest {})).await.unwrap_err();
            assert_eq!(reason(&refused), why);
        }
        let mut parts = records.backup(with(ADMIN, v1::BackupRequest {})).await.unwrap().into_inner();
        let part = parts.next().await.unwrap().unwrap();
        assert_eq!(Backup::decode(&part.data).unwrap().records.tenants.len(), 2);
    });
}

#[test]
fn a_backup_file_is_complete_and_readable_by_its_owner_only() {
    let folder = TemporaryDirectory::new("file");
    let path = folder.path().join("state.backup");
    let bytes = sample().encode();
    for _ in 0..2 {
        backup::write(&path, &bytes).unwrap();
        assert_eq!(Backup::read(&path).unwrap(), sample());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(matches!(Backup::read(&folder.path().join("absent")), Err(BackupError::Read(_))));
}
