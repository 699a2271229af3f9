//! The database: applied changes are durable whenever the process ends, and nothing else is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netfold_control::Mode;
use netfold_controller::driver::Limits;
use netfold_controller::record::{
    Change, JobName, JobRecord, JobSpec, JobState, LinkName, PlaceRecord, Quota, Store, StoredRecords,
    SwitchRecord, TenantRecord, TokenHash,
};
use netfold_controller::ticket::TicketKey;
use netfold_controller::tree::{Shape, Site};
use netfold_server::Database;
use netfold_server::store::{OpenError, SCHEMA};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Number of times the writer is killed.
const KILLS: u64 = 50;

/// Makes this test executable the writer; holds the database's path.
const WRITER: &str = "NETFOLD_TEST_WRITER";

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("netfold-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("state.redb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn spec() -> JobSpec {
    JobSpec {
        world: 2,
        mode: Mode::Bfp16,
        slots: 64,
        classes: 1,
        trees: 1,
        authenticated: false,
        udp_ports: 1,
        iteration: None,
    }
}

fn name(number: u32) -> JobName {
    JobName { tenant: format!("tenant-{}", number % 7), job: format!("job-{number}") }
}

fn job(number: u32, state: JobState) -> JobRecord {
    JobRecord {
        name: name(number),
        spec: spec(),
        declared: number.is_multiple_of(2),
        state,
        epoch: number,
        changed_s: 1_700_000_000 + u64::from(number),
        last: (state == JobState::Ended).then(|| "all workers have left".to_owned()),
    }
}

pub(crate) fn tenant(number: u32) -> TenantRecord {
    TenantRecord {
        name: format!("tenant-{number}"),
        quota: Quota { slots: number, jobs: 3, workers: u32::MAX },
        weight: 1,
        priority: 3,
        token: Some(TokenHash::of(&format!("nf_{number}"))),
    }
}

fn place(number: u32) -> Box<PlaceRecord> {
    let limits = Limits {
        slots: 1024,
        lane_words: 352,
        ports_max: 64,
        groups_max: 64,
        entries: u32::MAX,
        udp_port: 20038,
        sees_source: false,
        bounded_loss: true,
        owners: true,
        lane_ops: netfold_wire::LaneOps::ALL,
        multipath: false,
        authenticates: false,
    };
    let address: SocketAddr = "127.0.0.1:20038".parse().unwrap();
    Box::new(PlaceRecord {
        name: name(number),
        group: String::new(),
        tree: 0,
        spec: spec(),
        number: (number % 1000) as u16,
        epoch: number,
        key: 0xdead_beef,
        ticket_key: TicketKey::generate(&mut StdRng::seed_from_u64(number.into())),
        slots: 64,
        first_chunk: Some(number),
        movable: true,
        over: false,
        switches: vec!["leaf1".into()],
        shape: Shape { above: vec![None], workers: vec![0, 0] },
        sites: vec![Site {
            limits,
            address: Some(address),
            first_slot: 0,
            first_port: 1,
            first_group: 1,
            shared: None,
        }],
        members: vec![address; 2],
        left: vec![1],
    })
}

/// The changes of the writer's step: several records that must be stored together or not at all.
pub(crate) fn step(number: u32) -> Vec<Change> {
    let mut changes = vec![
        Change::EpochNext(number + 1),
        Change::Tenant(tenant(number)),
        Change::Job(job(number, JobState::Running)),
        Change::Place(place(number)),
        Change::Switch(SwitchRecord { name: "leaf1".into(), drained: number.is_multiple_of(2), boot: None }),
    ];
    let link = |number: u32| LinkName::new("leaf1", &format!("spine{number}"));
    changes.push(Change::LinkDrained(link(number)));
    if let Some(before) = number.checked_sub(1) {
        changes.push(Change::LinkUndrained(link(before)));
        changes.push(Change::Job(job(before, JobState::Ended)));
        changes.push(Change::PlaceGone((before % 1000) as u16));
        changes.push(Change::TenantGone(format!("tenant-{before}")));
    }
    if let Some(old) = number.checked_sub(40) {
        changes.push(Change::JobGone(name(old)));
    }
    changes
}

pub(crate) fn after(steps: u32) -> StoredRecords {
    let mut kept = StoredRecords::default();
    (0..steps).flat_map(step).for_each(|change| kept.apply(change));
    kept
}

#[test]
fn applied_changes_are_read_after_reopening() {
    let folder = Folder::new("reopened");
    {
        let mut database = Database::open(folder.file()).unwrap();
        assert_eq!(database.load().unwrap(), StoredRecords::default());
        (0..100).for_each(|number| database.apply(&step(number)).unwrap());
        assert_eq!(database.load().unwrap(), after(100));
    }
    let mut database = Database::open(folder.file()).unwrap();
    assert_eq!(database.load().unwrap(), after(100));
    database.apply(&[Change::EpochNext(3)]).unwrap();
    assert_eq!(database.load().unwrap().epoch_next, 100, "an epoch never decreases");
}

#[test]
fn a_database_of_a_build_that_could_not_drain_links_is_read() {
    let folder = Folder::new("links");
    let mut database = Database::open(folder.file()).unwrap();
    database.apply(&step(0)).unwrap();
    drop(database);
    let older = redb::Database::open(folder.file()).unwrap();
    let write = older.begin_write().unwrap();
    assert!(write.delete_table(redb::TableDefinition::<(&str, &str), &[u8]>::new("links")).unwrap());
    write.commit().unwrap();
    drop(older);
    let mut database = Database::open(folder.file()).unwrap();
    assert_eq!(database.load().unwrap(), StoredRecords { links_drained: BTreeSet::new(), ..after(1) });
    database.apply(&step(0)).unwrap();
    assert_eq!(database.load().unwrap(), after(1));
}

#[test]
fn only_the_owner_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("owner");
    let database = Database::open(folder.file()).unwrap();
    let mode = std::fs::metadata(database.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn foreign_files_and_other_processes_are_errors() {
    let folder = Folder::new("foreign");
    let open = Database::open(folder.file()).unwrap();
    assert!(matches!(Database::open(folder.file()), Err(OpenError::InUse { .. })));
    drop(open);

    let text = folder.0.join("text");
    std::fs::write(&text, "not a database").unwrap();
    assert!(matches!(Database::open(&text), Err(OpenError::Foreign { .. })));
    assert_eq!(std::fs::read(&text).unwrap(), b"not a database");

    let foreign = folder.0.join("foreign.redb");
    drop(redb::Database::create(&foreign).unwrap());
    assert!(matches!(Database::open(&foreign), Err(OpenError::Foreign { .. })));

    let newer = folder.0.join("newer.redb");
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    let database = redb::Database::create(&newer).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(meta).unwrap().insert("schema", SCHEMA + 1).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = Database::open(&newer).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found, .. } if found == SCHEMA + 1), "{error}");
    assert!(matches!(Database::open("/nowhere/at/all.redb"), Err(OpenError::Open { .. })));
}

/// Not a test: the process that is killed below. It applies one step after another and prints each that is done.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(WRITER) else { return };
    let mut database = Database::open(PathBuf::from(path)).unwrap();
    let mut number = database.load().unwrap().epoch_next;
    let mut stdout = std::io::stdout();
    loop {
        database.apply(&step(number)).unwrap();
        writeln!(stdout, "applied {number}").unwrap();
        stdout.flush().unwrap();
        number += 1;
    }
}

/// Runs the writer until it has printed `steps` steps and for `time` after that, kills it, and returns how many steps are done as far as it
/// printed.
fn killed_after(path: &Path, steps: usize, time: Duration) -> Option<u32> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::writer", "--nocapture", "--test-threads=1"])
        .env(WRITER, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // A line that was cut off by the kill is not an acknowledgement.
    let mut applied = lines.filter_map(|line| line.split_once("applied ")?.1.parse::<u32>().ok());
    let mut last = None;
    for _ in 0..steps {
        last = applied.next();
    }
    std::thread::sleep(time);
    child.kill().unwrap();
    child.wait().unwrap();
    applied.last().or(last).map(|last| last + 1)
}

#[test]
fn a_killed_writer_loses_nothing_and_leaves_no_partial_step() {
    let seed = std::env::var("STORE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(5);
    println!("STORE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let folder = Folder::new("killed");
    let (mut acknowledged, mut died_in_creation, mut all) = (0, 0, 0);
    for kill in 0..KILLS {
        // Every tenth time without a file, so that the kill also hits its creation.
        if kill % 10 == 4 {
            let _ = std::fs::remove_file(folder.file());
            acknowledged = 0;
        }
        let before = acknowledged;
        // Half of the kills at any time after the start, the others after some steps.
        let (steps, time) =
            if kill % 2 == 0 { (0, 1_000..120_000) } else { (rng.random_range(1..20), 0..5_000) };
        let time = Duration::from_micros(rng.random_range(time));
        acknowledged = killed_after(&folder.file(), steps, time).unwrap_or(acknowledged).max(acknowledged);
        if !folder.file().exists() {
            died_in_creation += 1;
        }
        let kept = Database::open(folder.file()).unwrap().load().unwrap();
        let steps = kept.epoch_next;
        assert!(steps >= acknowledged, "kill {kill}: {acknowledged} steps were done, {steps} are stored");
        assert!(steps <= acknowledged + 1, "kill {kill}: {steps} steps are stored, {acknowledged} were done");
        assert!(kept == after(steps), "kill {kill}: not the result of {steps} steps");
        all += steps - before;
        acknowledged = steps;
    }
    println!("{KILLS} kills in {all} steps, {died_in_creation} of them before the file existed");
    assert!(all > 0, "the writer never wrote");
}

#[test]
fn a_thousand_tenants_and_ten_thousand_jobs_are_stored_and_loaded() {
    let folder = Folder::new("many");
    let mut database = Database::open(folder.file()).unwrap();
    let mut changes: Vec<Change> = (0..1_000).map(|number| Change::Tenant(tenant(number))).collect();
    changes.extend((0..10_000).map(|number| Change::Job(job(number, JobState::Ended))));
    let begun = Instant::now();
    database.apply(&changes).unwrap();
    let applied = begun.elapsed();
    drop(database);
    let begun = Instant::now();
    let kept = Database::open(folder.file()).unwrap().load().unwrap();
    println!("11,000 records: applied in {applied:?}, opened and loaded in {:?}", begun.elapsed());
    let counts = BTreeMap::from([("tenants", kept.tenants.len()), ("jobs", kept.jobs.len())]);
    assert_eq!(counts, BTreeMap::from([("tenants", 1_000), ("jobs", 10_000)]));
}
