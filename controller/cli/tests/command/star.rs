//! `netfold bench star`: authenticated jobs, and a star that is killed.

use std::path::Path;

use netfold_testkit::namespace::{self, command};
use netfold_testkit::wait::{eventually, poll};

use crate::process::{Process, run, text};

/// Namespaces of a process's star.
fn namespaces(owner: u32) -> Vec<String> {
    let begin = format!("netfold-{owner}-");
    let entries = std::fs::read_dir("/var/run/netns").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&begin)).collect()
}

/// Temporary directories of a process.
fn directories(owner: u32) -> Vec<String> {
    let begin = format!("netfold-{owner}-");
    let entries = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&begin)).collect()
}

/// Processes in these namespaces.
fn inside(namespaces: &[String]) -> Vec<u32> {
    let pids = namespaces.iter().filter_map(|name| command(&format!("ip netns pids {name}")).ok());
    pids.flat_map(|pids| pids.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

#[test]
fn a_star_that_is_killed_leaves_no_namespace_no_process_and_no_directory() {
    if !namespace::available() {
        return;
    }
    for signal in ["INT", "TERM", "KILL"] {
        let mut star = Process::start(
            "bench star --hosts 2 --unshaped --bytes 4K --iterations 10000000 --rounds 1 --no-peers",
        );
        let owner = star.id();
        // The switch and both ranks.
        let running = poll("a star at work", || {
            let running = inside(&namespaces(owner));
            (namespaces(owner).len() == 3 && running.len() >= 3).then_some(running)
        });
        assert_eq!(directories(owner).len(), 1);
        star.signal(signal);
        star.wait();
        eventually(format_args!("no namespace after {signal}"), || namespaces(owner).is_empty());
        eventually(format_args!("no directory after {signal}"), || directories(owner).is_empty());
        let lives = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
        eventually(format_args!("no process after {signal}"), || !running.iter().any(lives));
    }
}

#[test]
fn jobs_of_authenticated_packets_are_measured_beside_plain_ones() {
    if !namespace::available() {
        return;
    }
    let (code, lines) =
        run("bench star --hosts 2 --unshaped --bytes 64K --rounds 1 --no-peers --authenticated");
    assert_eq!(code, Some(0), "{lines:?}");
    let rows = lines.iter().filter(|line| line["event"] == "star");
    let rows: Vec<_> = rows.map(|row| (text(row, "name"), row["of_plain"].is_number())).collect();
    let wanted = [
        ("netfold bfp32", false),
        ("netfold bfp32 authenticated", true),
        ("netfold bfp16", false),
        ("netfold bfp16 authenticated", true),
        ("netfold ring", false),
    ];
    assert_eq!(rows, wanted, "{lines:?}");
}
