//! `netfold controller backup` and `restore`: a job that runs is in the backup, and a controller continues from it.

use netfold_testkit::directory::TemporaryDirectory;

use crate::controller::{dev, one, wait_for};
use crate::process::{Process, number, run, text};

/// The kind and the message of the error of a command.
fn refused(arguments: &str) -> (String, String) {
    let (code, lines) = run(arguments);
    let error = lines.last().unwrap_or_else(|| panic!("{arguments}: nothing was printed"));
    assert_ne!(code, Some(0), "{arguments}: {error}");
    (text(error, "kind").to_owned(), text(error, "message").to_owned())
}

#[test]
fn a_controller_continues_from_a_backup() {
    let folder = TemporaryDirectory::new("backup");
    let [state, file, other] = ["state.redb", "state.backup", "other.redb"].map(|name| folder.file(name));
    let (controller, workers, grpc) = dev(&format!("--state {state}"));
    one(&format!("tenant add green --slots 64 --without-token --controller {grpc}"));
    one(&format!("job declare blue/later --world 4 --controller {grpc}"));
    let _job = Process::start(&format!(
        "bench all-reduce --controller {workers} --tenant red --job train --workers 2 --bytes 64KiB --slots 64 --warmup 0 \
         --iterations 1000000"
    ));
    let job = wait_for(&grpc, "red/train", "running");

    let backed_up = one(&format!("controller backup {file} --controller {grpc}"));
    let counts = ["tenants", "jobs", "running"].map(|key| number(&backed_up, key));
    assert_eq!(counts, [3.0, 2.0, 1.0], "{backed_up}");
    let (kind, message) = refused(&format!("controller backup {file} --controller {grpc}"));
    assert!(kind == "usage" && message.contains("--replace"), "{kind}: {message}");
    one(&format!("controller backup {file} --replace --controller {grpc}"));

    // The database in use, and the one with records, are not replaced.
    let (kind, message) = refused(&format!("controller restore {file} --state {state} --replace"));
    assert!(kind == "restore" && message.contains("stop the controller"), "{kind}: {message}");
    drop(controller);
    let (kind, message) = refused(&format!("controller restore {file} --state {state}"));
    assert!(kind == "restore" && message.contains("--replace"), "{kind}: {message}");

    let restored = one(&format!("controller restore {file} --state {other}"));
    assert_eq!(number(&restored, "running"), 1.0, "{restored}");
    let (_controller, _, grpc) = dev(&format!("--state {other}"));
    assert_eq!(
        number(&one(&format!("tenant list --tenant green --controller {grpc}"))["quota"], "slots"),
        64.0
    );
    assert_eq!(one(&format!("job describe blue/later --controller {grpc}"))["declared"], true);
    // Its switch was a part of the other process, so that the job has ended; a controller without the record would not know it.
    let ended = wait_for(&grpc, "red/train", "ended");
    assert_eq!((&ended["epoch"], &ended["slots_held"]), (&job["epoch"], &0.into()), "{ended}");
}

#[test]
fn a_damaged_backup_is_refused_before_anything_is_replaced() {
    let folder = TemporaryDirectory::new("damaged");
    let [state, file] = ["state.redb", "state.backup"].map(|name| folder.file(name));
    let (controller, _, grpc) = dev(&format!("--state {state}"));
    one(&format!("controller backup {file} --controller {grpc}"));
    drop(controller);
    let before = std::fs::read(&state).unwrap();
    let good = std::fs::read_to_string(&file).unwrap();
    for bad in [good.replacen("red", "rad", 1), good[..good.len() / 2].to_owned(), String::new()] {
        std::fs::write(&file, bad).unwrap();
        let (kind, message) = refused(&format!("controller restore {file} --state {state} --replace"));
        assert!(kind == "backup" && message.contains("state.backup"), "{kind}: {message}");
        assert!(std::fs::read(&state).unwrap() == before, "the database was changed");
    }
    std::fs::write(&file, good).unwrap();
    one(&format!("controller restore {file} --state {state} --replace"));
    assert_eq!(refused(&format!("controller restore {file}.absent --state {state}")).0, "file");
    assert_eq!(
        refused(&format!("controller backup {file} --replace --controller 127.0.0.1:1")).0,
        "no_controller"
    );
}
