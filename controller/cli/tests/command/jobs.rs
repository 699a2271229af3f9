//! Workers started by hand at one switch: their results, and how they are notified of lost peers.

use netfold_control::LEASE_MS;
use netfold_io::vacant_address;
use std::time::{Duration, Instant};

use crate::process::{Process, number, run, text};

fn workers(control: &str, job: &str, ranks: &[(u16, &str)], world: u16) -> Vec<Process> {
    ranks
        .iter()
        .map(|(rank, more)| {
            Process::start(&format!(
                "worker --switch {control} --job {job} --rank {rank} --world {world} {more}"
            ))
        })
        .collect()
}

#[test]
fn every_mode_is_summed_correctly_over_udp() {
    let (mut switch, control) = Process::switch("--loss 0.01 --seed 3");
    for mode in ["bfp16", "bfp32", "i32"] {
        let more = format!("--mode {mode} --bytes 100003 --iterations 3");
        let mut running = workers(&control, mode, &[(0, &more), (1, &more), (2, &more)], 3);
        assert_eq!(text(&switch.event("job_started"), "job"), mode);
        for worker in &mut running {
            for iteration in 1..=3 {
                let line = worker.event("all_reduce");
                assert_eq!(number(&line, "iteration"), f64::from(iteration));
                assert_eq!(number(&line, "count"), 25_000.0);
                assert_eq!(number(&line, "wrong"), 0.0, "{line}");
            }
            assert_eq!(number(&worker.event("done"), "elements"), 75_000.0);
            assert!(worker.wait().success());
        }
        assert!(text(&switch.event("job_ended"), "reason").contains("left"));
    }
}

/// Without a reachable switch, ranks with a rendezvous reduce among themselves, and their results are checked as well.
#[test]
fn results_without_a_switch_are_checked() {
    let switch = vacant_address().unwrap();
    for world in [1, 2] {
        let rendezvous = vacant_address().unwrap();
        let more = format!("--rendezvous {rendezvous} --bytes 100KiB --iterations 2");
        let ranks: Vec<(u16, &str)> = (0..world).map(|rank| (rank, &*more)).collect();
        for worker in &mut workers(&switch.to_string(), "without", &ranks, world) {
            for _ in 0..2 {
                let line = worker.event("all_reduce");
                assert_eq!(number(&line, "wrong"), 0.0, "{line}");
            }
            worker.event("done");
            assert!(worker.wait().success());
        }
    }
}

/// A machine that is paused for longer than a lease: neither side mistakes its own pause for the other's.
#[test]
fn a_pause_of_all_processes_ends_no_job() {
    let (mut switch, control) = Process::switch("");
    let endless = "--bytes 16KiB --iterations 10000000";
    let mut running = workers(&control, "paused", &[(0, endless), (1, endless)], 2);
    for worker in &mut running {
        worker.event("all_reduce");
    }
    for signal in ["STOP", "CONT"] {
        running.iter_mut().chain([&mut switch]).for_each(|process| process.signal(signal));
        if signal == "STOP" {
            std::thread::sleep(Duration::from_millis(LEASE_MS + 500));
        }
    }
    let resumed = Instant::now();
    for worker in &mut running {
        // Those of before are in the pipe.
        while resumed.elapsed() < Duration::from_millis(LEASE_MS) {
            let line = worker.event("all_reduce");
            assert_eq!(number(&line, "wrong"), 0.0, "{line}");
        }
        worker.event("all_reduce");
    }
}

#[test]
fn all_workers_detect_a_killed_worker_and_the_switch_continues() {
    let (mut switch, control) = Process::switch("");
    let long = "--bytes 1MiB --iterations 100000";
    let mut running = workers(&control, "killed-worker", &[(0, long), (1, long), (2, long), (3, long)], 4);
    running.iter_mut().for_each(|worker| {
        worker.event("all_reduce");
    });
    running[2].kill();
    for rank in [0, 1, 3] {
        let error = running[rank].event("error");
        assert_eq!(text(&error, "kind"), "peer_lost", "{error}");
        assert!(text(&error, "message").contains("rank 2"), "{error}");
        assert_eq!(running[rank].wait().code(), Some(1));
    }
    assert!(text(&switch.event("job_ended"), "reason").contains('2'));

    let short = "--bytes 1MiB --iterations 2";
    for worker in &mut workers(&control, "killed-worker", &[(0, short), (1, short)], 2) {
        worker.event("done");
        assert!(worker.wait().success());
    }
}

#[test]
fn all_workers_detect_a_killed_switch() {
    let (mut switch, control) = Process::switch("");
    let long = "--bytes 64KiB --iterations 1000000";
    let mut running = workers(&control, "killed-switch", &[(0, long), (1, long)], 2);
    running.iter_mut().for_each(|worker| {
        worker.event("all_reduce");
    });
    switch.kill();
    for worker in &mut running {
        let error = worker.event("error");
        assert_eq!(text(&error, "kind"), "switch_lost", "{error}");
    }
}

#[test]
fn missing_workers_are_named() {
    let (mut switch, control) = Process::switch("--join-timeout 1");
    for mut worker in workers(&control, "incomplete", &[(0, ""), (2, "")], 4) {
        let error = worker.event("error");
        assert_eq!(text(&error, "kind"), "peers_missing", "{error}");
        let message = text(&error, "message");
        assert!(message.contains('1') && message.contains('3'), "{message}");
    }
    assert_eq!(text(&switch.event("refused"), "reason"), "peers_missing");
}

#[test]
fn ranks_with_different_settings_get_an_error() {
    let (mut switch, control) = Process::switch("");
    let ranks = [(0, "--bytes 4KiB"), (1, "--bytes 8KiB")];
    for mut worker in workers(&control, "lengths", &ranks, 2) {
        let error = worker.event("error");
        assert_eq!(text(&error, "kind"), "mismatch", "{error}");
        assert!(
            text(&error, "message").contains("1024") && text(&error, "message").contains("2048"),
            "{error}"
        );
    }

    // The second of the two is refused.
    let _workers = workers(&control, "modes", &[(0, "--mode bfp16"), (1, "--mode bfp32")], 2);
    assert_eq!(text(&switch.event("refused"), "reason"), "mode_mismatch");
}

/// Workers of a confidential job, with one group key or with two.
#[test]
fn confidential_workers_need_one_group_key() {
    let (_switch, control) = Process::switch("--loss 0.01 --seed 4");
    let folder = std::env::temp_dir().join(format!("netfold-group-key-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    for name in ["a.key", "b.key"] {
        let (code, lines) = run(&format!("group-key {}", file(name)));
        assert_eq!((code, text(&lines[0], "file")), (Some(0), &*file(name)), "{lines:?}");
    }
    let (code, lines) = run(&format!("group-key {}", file("a.key")));
    assert_eq!((code, text(lines.last().unwrap(), "kind")), (Some(1), "file"), "{lines:?}");

    let with = |name: &str, rendezvous| {
        format!(
            "--confidential {} --rendezvous {rendezvous} --mode bfp32 --bytes 100KiB --iterations 2",
            file(name)
        )
    };
    let at = vacant_address().unwrap();
    let (a, b) = (with("a.key", at), with("b.key", at));
    for worker in &mut workers(&control, "alike", &[(0, &a), (1, &a), (2, &a)], 3) {
        for _ in 0..2 {
            let line = worker.event("all_reduce");
            assert_eq!(number(&line, "wrong"), 0.0, "{line}");
        }
        assert!(number(&worker.event("done"), "packets_received") > 0.0, "through the switch");
        assert!(worker.wait().success());
    }
    let mut differing = workers(&control, "differing", &[(0, &a), (1, &b), (2, &a)], 3);
    for (worker, others) in differing.iter_mut().zip(["rank 1", "ranks 0 and 2", "rank 1"]) {
        let error = worker.event("error");
        assert_eq!(text(&error, "kind"), "group_key", "{error}");
        assert!(text(&error, "message").contains(others), "{error}");
    }
    let (code, lines) = run(&format!(
        "worker --switch {control} --job x --rank 0 --world 1 --confidential {}",
        file("a.key")
    ));
    assert_eq!(
        (code, text(lines.last().unwrap(), "kind")),
        (Some(2), "usage"),
        "a rendezvous is needed: {lines:?}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Workers of an authenticated job at a lossy switch.
#[test]
fn authenticated_workers_have_right_sums() {
    let (_switch, control) = Process::switch("--loss 0.01 --seed 4");
    let options = "--authenticated --mode i32 --bytes 400KiB --iterations 3";
    for worker in &mut workers(&control, "tagged", &[(0, options), (1, options), (2, options)], 3) {
        for _ in 0..3 {
            let line = worker.event("all_reduce");
            assert_eq!(number(&line, "wrong"), 0.0, "{line}");
        }
        assert!(number(&worker.event("done"), "packets_received") > 0.0, "through the switch");
        assert!(worker.wait().success());
    }
}

#[test]
fn no_switch_is_a_clear_error() {
    let (code, lines) = run("worker --switch 127.0.0.1:1 --job x --rank 0 --world 1");
    let error = lines.last().unwrap();
    assert_eq!((code, text(error, "kind")), (Some(1), "connect"), "{error}");
    assert!(text(error, "message").contains("127.0.0.1:1"), "{error}");
    let (_, lines) = run("worker --switch no-such-host.invalid:1 --job x --rank 0 --world 1");
    assert_eq!(text(lines.last().unwrap(), "kind"), "address");
}

#[test]
fn a_worker_started_by_hand_can_train() {
    let (_switch, control) = Process::switch("");
    let train = "--train --epochs 1 --mode bfp32";
    let mut running = workers(&control, "train", &[(0, train), (1, train)], 2);
    let before = number(&running[0].event("epoch"), "train_loss");
    let after = number(&running[0].event("epoch"), "train_loss");
    assert!(after < before);
    let digests: Vec<String> =
        running.iter_mut().map(|worker| text(&worker.event("done"), "digest").to_owned()).collect();
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn a_number_of_slots_that_is_no_power_of_two_is_an_argument() {
    let (code, lines) = run("worker --switch 127.0.0.1:1 --job slots --rank 0 --world 1 --slots 100");
    let error = lines.last().unwrap();
    assert_eq!((code, text(error, "kind")), (Some(2), "argument"), "{error}");
}
