//! Records in a real etcd, and the election of the leader.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netfold_controller::record::{Change, Store, StoredRecords};
use netfold_io::vacant_address;
use netfold_server::backup::Backup;
use netfold_server::etcd::{
    CHANGES_MAX, Candidate, CandidateStatus, EtcdConfig, EtcdError, EtcdRestoreError, Leadership, restore,
};
use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::process::Process;
use netfold_testkit::wait::eventually;

use crate::TIMEOUT;
use crate::store::{after, step, tenant};

/// A leader keeps the leadership for three quarters of it without renewal: enough for a loaded machine.
const LEASE: Duration = Duration::from_secs(5);

/// An etcd of this test alone; killed when dropped.
struct Etcd {
    process: Process,
    _folder: TemporaryDirectory,
    url: String,
}

impl Etcd {
    /// `None`, with a printed line, if etcd is not installed.
    fn start(test: &str) -> Option<Self> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: etcd is not on PATH (Debian's etcd-server)");
            return None;
        }
        let folder = TemporaryDirectory::new(&format!("etcd-{test}"));
        let (clients, peers) = (vacant_address().unwrap(), vacant_address().unwrap());
        let url = format!("http://{clients}");
        let mut etcd = Command::new("etcd");
        etcd.args(["--name", "test", "--log-level", "error", "--data-dir"])
            .arg(folder.path())
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &format!("http://{peers}")])
            .args(["--initial-advertise-peer-urls", &format!("http://{peers}")])
            .args(["--initial-cluster", &format!("test=http://{peers}")])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        Some(Self { process: Process::spawn(etcd), _folder: folder, url })
    }

    fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    fn config(&self, name: &str) -> EtcdConfig {
        EtcdConfig {
            endpoints: vec![self.url.clone()],
            prefix: "/cluster/one".into(),
            name: name.into(),
            lease: LEASE,
            tls: None,
        }
    }

    /// Waits until a controller is the leader.
    fn lead(&self, name: &str) -> Leadership {
        let deadline = Instant::now() + TIMEOUT;
        let candidate = Candidate::new(self.config(name)).unwrap();
        let leadership = candidate.wait(|waiting, _| {
            assert!(Instant::now() < deadline, "{name} waits for {waiting:?}");
            true
        });
        leadership.unwrap().expect("the callback never stops it")
    }
}

#[test]
fn applied_changes_are_read_by_the_next_leader() {
    let Some(etcd) = Etcd::start("records") else { return };
    let first = etcd.lead("first");
    let mut store = first.store();
    assert_eq!(store.load().unwrap(), StoredRecords::default());
    (0..60).for_each(|number| store.apply(&step(number)).unwrap());
    assert_eq!(store.load().unwrap(), after(60));
    store.apply(&[]).unwrap();
    let term = first.term();
    drop(first);
    assert!(store.apply(&[Change::EpochNext(1000)]).is_err(), "its leader has given up the leadership");

    let second = etcd.lead("second");
    assert!(second.term() > term, "{} after {term}", second.term());
    let mut store = second.store();
    assert_eq!(store.load().unwrap(), after(60));
    store.apply(&[Change::EpochNext(3)]).unwrap();
    assert_eq!(store.load().unwrap().epoch_next, 60, "an epoch never decreases");
    // More than fits into a transaction or a page.
    let many: Vec<Change> = (1000..1000 + 3 * CHANGES_MAX as u32).map(tenant).map(Change::Tenant).collect();
    store.apply(&many).unwrap();
    let mut expected = after(60);
    many.into_iter().for_each(|change| expected.apply(change));
    assert_eq!(store.load().unwrap(), expected);
}

/// A backup of what the first changes of a test leave.
fn backup(changes: u32) -> Backup {
    Backup::now(after(changes))
}

#[test]
fn a_backup_is_restored_in_place_of_what_is_there() {
    let Some(etcd) = Etcd::start("restore") else { return };
    restore(&backup(40), etcd.config("restore"), false).unwrap();
    let first = etcd.lead("first");
    let restored = first.store().load().unwrap();
    assert!(restored.epoch_next > after(40).epoch_next, "no epoch is used twice");
    assert_eq!(StoredRecords { epoch_next: after(40).epoch_next, ..restored }, after(40));

    let in_use = restore(&backup(20), etcd.config("restore"), true).unwrap_err();
    assert!(matches!(&in_use, EtcdRestoreError::InUse { leader } if leader == "first"), "{in_use}");
    // More than a transaction.
    let many: Vec<Change> = (1000..1000 + 3 * CHANGES_MAX as u32).map(tenant).map(Change::Tenant).collect();
    first.store().apply(&many).unwrap();
    first.store().apply(&[Change::EpochNext(u32::MAX - 1)]).unwrap();
    drop(first);
    let exists = restore(&backup(20), etcd.config("restore"), false).unwrap_err();
    assert!(matches!(exists, EtcdRestoreError::Exists { .. }), "{exists}");
    restore(&backup(20), etcd.config("restore"), true).unwrap();
    let restored = etcd.lead("second").store().load().unwrap();
    assert_eq!(restored, StoredRecords { epoch_next: u32::MAX - 1, ..after(20) });
}

#[test]
fn a_restoration_that_was_interrupted_is_noticed_and_repeated() {
    let Some(etcd) = Etcd::start("interrupted") else { return };
    // The key that a restoration writes first and deletes last.
    let mut marked = Command::new("etcdctl");
    marked.env("ETCDCTL_API", "3").args(["--endpoints", &etcd.url]);
    let put = marked.args(["put", "/cluster/one/restoring", "x"]).stdout(Stdio::null()).status();
    if !put.is_ok_and(|status| status.success()) {
        println!("skipped: etcdctl is not on PATH (Debian's etcd-client)");
        return;
    }
    let error = etcd.lead("first").store().load().unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("restore --replace"), "{source}");
    assert!(matches!(
        restore(&backup(20), etcd.config("restore"), false),
        Err(EtcdRestoreError::Exists { .. })
    ));
    restore(&backup(20), etcd.config("restore"), true).unwrap();
    assert_eq!(etcd.lead("second").store().load().unwrap().tenants, after(20).tenants);
}

#[test]
fn there_is_one_leader_and_another_after_it() {
    let Some(etcd) = Etcd::start("election") else { return };
    let first = etcd.lead("first");
    let candidate = Candidate::new(etcd.config("second")).unwrap();
    let mut statuses = Vec::new();
    let none = candidate.wait(|waiting, changed| {
        if changed {
            statuses.push(waiting.clone());
        }
        false
    });
    assert!(none.unwrap().is_none());
    assert_eq!(statuses, [CandidateStatus::Leader("first".into())]);
    std::thread::sleep(LEASE + LEASE / 5);
    assert_eq!(first.lost(), None, "it renews its lease");

    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| etcd.lead("second"));
        drop(first);
        second.join().unwrap()
    });
    assert_eq!(second.lost(), None);
}

#[test]
fn a_leader_that_was_cut_off_gives_up_and_cannot_change_records() {
    let Some(etcd) = Etcd::start("fence") else { return };
    let first = etcd.lead("first");
    let mut old = first.store();
    old.apply(&[Change::Tenant(tenant(1))]).unwrap();
    etcd.signal("STOP");
    let cut_off = Instant::now();
    eventually("giving up", || first.lost().is_some());
    println!("gave up {:?} after the cut: {}", cut_off.elapsed(), first.lost().unwrap());
    let refused = old.apply(&[Change::Tenant(tenant(2))]).unwrap_err();
    assert!(matches!(refused.source.downcast_ref(), Some(EtcdError::LeadershipLost(_))), "{refused:?}");
    etcd.signal("CONT");
    let second = etcd.lead("second");
    assert!(second.term() > first.term());
    let mut new = second.store();
    assert_eq!(new.load().unwrap().tenants.keys().collect::<Vec<_>>(), ["tenant-1"]);
    new.apply(&[Change::Tenant(tenant(3))]).unwrap();
}

#[test]
fn a_former_leader_that_has_not_noticed_is_refused_by_etcd() {
    let Some(etcd) = Etcd::start("former-leader") else { return };
    let first = etcd.lead("first");
    // As if its lease had expired while it was suspended.
    let deleted = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &etcd.url, "del", "/cluster/one/leader"])
        .stdout(Stdio::null())
        .status();
    if !deleted.is_ok_and(|status| status.success()) {
        println!("skipped: etcdctl is not on PATH (Debian's etcd-client)");
        return;
    }
    let second = etcd.lead("second");
    assert_eq!(first.lost(), None, "it has not noticed yet");
    let refused = first.store().apply(&[Change::Tenant(tenant(9))]).unwrap_err();
    assert!(matches!(refused.source.downcast_ref(), Some(EtcdError::LeadershipLost(_))), "{refused:?}");
    assert!(first.lost().is_some(), "now it has");
    assert_eq!(second.store().load().unwrap(), StoredRecords::default());
}

#[test]
fn errors_name_the_problem() {
    let config = |endpoint: &str, lease| EtcdConfig {
        endpoints: vec![endpoint.into()],
        prefix: "/x".into(),
        name: "x".into(),
        lease,
        tls: None,
    };
    let wrong = Candidate::new(config("127.0.0.1:2379", LEASE)).unwrap_err();
    assert!(matches!(wrong, EtcdError::Endpoint(_)), "{wrong}");
    let wrong = Candidate::new(config("http://127.0.0.1:2379", Duration::ZERO)).unwrap_err();
    assert!(matches!(wrong, EtcdError::Lease(_)), "{wrong}");
    let free = vacant_address().unwrap();
    let candidate = Candidate::new(config(&format!("http://{free}"), LEASE)).unwrap();
    let mut status = None;
    let none = candidate.wait(|waiting, _| {
        status = Some(waiting.clone());
        false
    });
    assert!(none.unwrap().is_none());
    let Some(CandidateStatus::Etcd(message)) = status else { panic!("{status:?}") };
    assert!(message.contains(&free.to_string()), "{message}");
}
