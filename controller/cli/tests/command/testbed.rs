//! `netfold testbed run`: jobs through trees of switches, every element checked.

use netfold_testkit::namespace;
use serde_json::Value;

use crate::process::{Process, netfold, number, run, text};

/// Runs it and checks what must hold for every run: the exit code, the keys, and no wrong element.
fn correct_run(options: &str, workers: f64, elements: f64) -> Value {
    let (code, lines) = run(&format!("testbed run {options}"));
    assert_eq!(code, Some(0), "{options}: {lines:?}");
    assert_eq!(text(&lines[0], "event"), "topology");
    assert_eq!(number(&lines[0], "workers"), workers);
    let summary = lines.last().unwrap().clone();
    assert_eq!(text(&summary, "event"), "testbed_run");
    assert_eq!(number(&summary, "wrong"), 0.0, "{options}: {summary}");
    let rounds = lines.iter().filter(|line| line["event"] == "round").count() as f64;
    assert_eq!(number(&summary, "checked"), rounds * workers * elements, "{options}");
    assert!(number(&summary, "seconds") > 0.0);
    summary
}

fn of(summary: &Value, node: usize, key: &str) -> f64 {
    number(&summary["switches"][node], key)
}

#[test]
fn every_level_and_carrier_of_software_switches() {
    let summary = correct_run("--workers 3 --elements 5000 --iterations 2 --mode bfp32", 3.0, 5000.0);
    // 15 data chunks, as many look-ahead positions, twice.
    assert_eq!((of(&summary, 0, "results"), of(&summary, 0, "up")), (60.0, 0.0));
    for io in ["rings", "udp"] {
        let summary = correct_run(&format!("--io {io} --levels 2 --workers 5 --elements 9001"), 5.0, 9001.0);
        assert_eq!(summary["switches"].as_array().unwrap().len(), 3);
        for leaf in [1, 2] {
            assert_eq!(of(&summary, leaf, "up"), of(&summary, 0, "results"), "every chunk is sent up once");
        }
    }
    let summary = correct_run("--levels 3 --workers 9 --elements 3000 --mode i32 --payload 256", 9.0, 3000.0);
    assert_eq!(summary["switches"].as_array().unwrap().len(), 7);
    assert_eq!(of(&summary, 0, "results"), 3.0 * 48.0);
}

#[test]
fn loss_on_every_link_changes_no_element() {
    for options in ["--levels 1", "--levels 2 --io udp", "--levels 3 --mode i32"] {
        let summary = correct_run(
            &format!("{options} --workers 8 --bytes 256KiB --loss 0.02 --iterations 1"),
            8.0,
            65536.0,
        );
        assert!(number(&summary, "retransmitted") > 0.0, "{summary}");
        let repeated = |node| of(&summary, node, "repeated") + of(&summary, node, "up_again");
        let switches = summary["switches"].as_array().unwrap().len();
        assert!((0..switches).map(repeated).sum::<f64>() > 0.0, "{summary}");
    }
    let faults = "loss=0.01,duplicate=0.05,reorder=0.05,corrupt=0.005";
    correct_run(
        &format!("--levels 2 --workers 6 --bytes 128KiB --faults {faults} --iterations 2"),
        6.0,
        32768.0,
    );
}

/// Each collective moves its own bytes through one level and two, and no element is wrong.
#[test]
fn collectives_go_through_trees_with_the_bytes_that_they_need() {
    const TENSOR: f64 = 1_048_576.0;
    // What a switch receives and sends for 1 MiB of each of four workers, in tensors, at the root and at a leaf of two levels.
    let collectives = [
        ("all_reduce", [4.0, 4.0], [2.0, 2.0], [3.0, 3.0]),
        ("reduce", [4.0, 1.0], [2.0, 1.0], [3.0, 2.0]),
        ("reduce_scatter", [4.0, 1.0], [2.0, 1.0], [2.5, 1.5]),
        ("all_gather", [1.0, 4.0], [1.0, 2.0], [1.5, 2.5]),
        ("broadcast", [1.0, 4.0], [1.0, 2.0], [2.0, 3.0]),
    ];
    for (collective, one, root, leaf) in collectives {
        for (levels, loss) in [(1, 0.0), (1, 0.01), (2, 0.0), (2, 0.01)] {
            let options = format!(
                "--collective {collective} --levels {levels} --workers 4 --bytes 1MiB --loss {loss} --mode i32 --iterations 1"
            );
            let (code, lines) = run(&format!("testbed run {options}"));
            let summary = lines.last().unwrap();
            assert_eq!((code, number(summary, "wrong")), (Some(0), 0.0), "{options}: {summary}");
            let most = if levels == 1 { vec![one] } else { vec![root, leaf, leaf] };
            let again = 2.0 * 1440.0 * number(summary, "retransmitted");
            for (switch, most) in most.into_iter().enumerate() {
                let counted = ["received_bytes", "sent_bytes"].map(|name| of(summary, switch, name));
                println!("{options}: switch {switch} {counted:?}");
                for (counted, tensors) in counted.into_iter().zip(most) {
                    // Headers, also those alone; descriptors; chunks of two parts. A retransmission, however many there are, is at most two
                    // packets in each direction of a switch: a contribution and its result.
                    let allowed = TENSOR * (tensors * 1.05 + 0.16) + again;
                    assert!(
                        counted <= allowed,
                        "{options}: switch {switch} counts {counted}, {tensors} tensors"
                    );
                }
            }
        }
    }
}

/// Masks cancel at every level, and are the same in retransmissions.
#[test]
fn confidential_jobs_have_the_same_results_in_trees() {
    for options in [
        "--levels 1 --workers 4 --mode bfp32 --loss 0.01",
        "--levels 2 --workers 8 --io udp --mode bfp16 --faults loss=0.01,duplicate=0.02,reorder=0.02",
        "--levels 3 --workers 8 --mode i32 --loss 0.01",
        "--switch interpreter --workers 2 --mode bfp16 --payload 256",
    ] {
        let workers: f64 = if options.contains("workers 8") {
            8.0
        } else if options.contains("workers 4") {
            4.0
        } else {
            2.0
        };
        let bytes = if options.contains("interpreter") { 8 } else { 256 };
        correct_run(
            &format!("{options} --confidential --bytes {bytes}KiB --iterations 2"),
            workers,
            f64::from(bytes) * 256.0,
        );
    }
    let (code, lines) = run("testbed run --confidential --mode wide");
    assert_eq!(code, Some(2), "{lines:?}");
    assert!(lines.last().unwrap().to_string().contains("modulo 2^32"), "{lines:?}");
}

/// Corruption that the UDP checksum does not show is loss in authenticated jobs. Without tags, seeds 3 to 8 end with wrong elements or with a job
/// that is lost.
#[test]
fn authenticated_jobs_survive_corruption_that_checksums_do_not_show() {
    for seed in 3..9 {
        let faults = format!("--faults undetected=0.005 --iterations 2 --seed {seed}");
        correct_run(&format!("{faults} --levels 2 --workers 6 --bytes 128KiB --authenticated"), 6.0, 32768.0);
    }
    for options in [
        "--levels 3 --workers 8 --mode i32 --io udp --faults loss=0.01,duplicate=0.02,reorder=0.02",
        "--levels 2 --workers 4 --mode bfp32 --io shm --confidential",
        "--switch interpreter --workers 4 --mode half",
    ] {
        let workers = if options.contains("workers 8") { 8.0 } else { 4.0 };
        correct_run(&format!("{options} --authenticated --bytes 128KiB --iterations 2"), workers, 32768.0);
    }
    let (code, lines) = run("testbed run --switch bmv2 --authenticated");
    assert_ne!(code, Some(0), "{lines:?}");
    assert!(
        lines.last().unwrap().to_string().contains("bmv2 switches do not authenticate packets"),
        "{lines:?}"
    );
}

#[test]
fn raw_packets_in_network_namespaces() {
    if !namespace::available() {
        return;
    }
    for io in ["af-packet", "packet-ring", "af-xdp"] {
        let options = format!("--io {io} --workers 3 --elements 30000 --iterations 2 --loss 0.01");
        let summary = correct_run(&options, 3.0, 30000.0);
        assert!(number(&summary, "retransmitted") > 0.0, "{summary}");
    }
    correct_run(
        "--io packet-ring --levels 2 --workers 4 --elements 9000 --payload 8192 --iterations 1",
        4.0,
        9000.0,
    );
}

#[test]
fn an_interpreted_program_has_the_same_results() {
    correct_run(
        "--switch interpreter --levels 2 --workers 4 --elements 4000 --payload 256 --loss 0.01",
        4.0,
        4000.0,
    );
}

#[test]
fn worlds_beyond_one_switch() {
    correct_run(
        "--levels 2 --fan-out 4 --workers 80 --elements 2000 --payload 256 --slots 16 --iterations 1",
        80.0,
        2000.0,
    );
}

#[test]
fn the_tree_is_printed() {
    let output =
        netfold("testbed run --levels 2 --workers 4 --elements 100 --iterations 1").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let tree = "switch 0 (root)\n+- switch 1: ranks 0-1\n`- switch 2: ranks 2-3\n";
    assert!(said.contains(tree), "{said}");
    assert!(said.contains("0 wrong of 400 elements checked"), "{said}");
}

#[test]
fn whole_systems_follow_from_their_seeds() {
    let play = || {
        let played = netfold("--json testbed vopr --seed 7 --seeds 4").output().unwrap();
        let (out, errors) =
            (String::from_utf8_lossy(&played.stdout), String::from_utf8_lossy(&played.stderr));
        assert!(played.status.success() && errors.is_empty(), "{out}{errors}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let summary = play();
    assert_eq!((text(&summary, "event"), number(&summary, "seeds")), ("vopr", 4.0));
    assert_eq!(number(&summary, "violations"), 0.0);
    assert!(number(&summary, "faults") > 0.0 && number(&summary, "jobs_finished") > 0.0, "{summary}");
    let again = play();
    let same = ["digest", "events", "datagrams"];
    assert!(same.iter().all(|key| again[*key] == summary[*key]), "{again} {summary}");
    let refused = netfold("testbed vopr --seeds 1 --minutes 1").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "two bounds");
}

#[test]
fn invalid_options_are_refused() {
    for (options, word) in [
        ("--workers 33", "33 children"),
        ("--levels 2 --workers 1", "0 children"),
        ("--io grpc", "rings, udp"),
        ("--payload 100", "256, 1408 or 8192"),
        ("--slots 3", "slots"),
        ("--faults tx.loss=0.1", "both ends"),
        ("--switch bmv2 --faults undetected=0.1", "leave `undetected` out"),
    ] {
        let (code, lines) = run(&format!("testbed run {options}"));
        assert_eq!(code, Some(2), "{options}: {lines:?}");
        let message = text(lines.last().unwrap(), "message");
        assert!(message.contains(word), "{options}: {message}");
    }
}

#[test]
fn bmv2_switches_have_the_same_results() {
    if let Some(tool) = netfold_lab::bmv2::missing_tool() {
        println!("skipped: {tool} is not on PATH (see p4.org)");
        return;
    }
    let one = "--switch bmv2 --mode bfp16 --elements 3000 --iterations 1 --loss 0.01";
    let summary = correct_run(&format!("{one} --workers 4 --io grpc"), 4.0, 3000.0);
    assert!(number(&summary, "retransmitted") > 0.0, "{summary}");
    let summary = correct_run(&format!("{one} --workers 4 --levels 2 --io grpc"), 4.0, 3000.0);
    assert!(of(&summary, 1, "up") > 0.0 && of(&summary, 0, "results") > 0.0, "{summary}");
    for mode in ["bfp16", "bfp32", "i32"] {
        let confidential =
            format!("--switch bmv2 --mode {mode} --elements 3000 --iterations 1 --loss 0.01 --confidential");
        correct_run(&format!("{confidential} --workers 4 --io grpc"), 4.0, 3000.0);
    }
    correct_run(&format!("{one} --workers 4 --levels 2 --io grpc --confidential"), 4.0, 3000.0);
    // Interfaces if this machine permits them, else what needs no privilege.
    correct_run("--switch bmv2 --mode bfp32 --elements 2000 --iterations 1 --workers 2", 2.0, 2000.0);
    correct_run(
        "--switch bmv2 --mode i32 --elements 2000 --iterations 1 --workers 4 --levels 2",
        4.0,
        2000.0,
    );
}

#[test]
fn every_numerics_of_a_switch_has_a_mode() {
    for mode in ["saturating", "wide", "half", "float"] {
        for tree in ["--levels 1", "--levels 2 --io udp --loss 0.02"] {
            let summary =
                correct_run(&format!("--mode {mode} {tree} --workers 6 --bytes 256KiB"), 6.0, 65536.0);
            assert_eq!(number(&summary, "saturated") > 0.0, mode == "saturating", "{mode} {tree}: {summary}");
        }
    }
    correct_run(
        "--mode wide --switch interpreter --payload 256 --levels 3 --workers 9 --elements 999",
        9.0,
        999.0,
    );
}

/// The child or grandchild of the process `of` with this name, if there is one.
fn descendant(of: u32, name: &str) -> Option<u32> {
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = |id: u32| std::fs::read_to_string(format!("/proc/{id}/stat")).ok();
        let parent = |id: u32| stat(id)?.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok();
        let named = stat(id)?.contains(&format!("({name})"));
        (named && (parent(id)? == of || parent(parent(id)?)? == of)).then_some(id)
    })
}

#[test]
fn a_bmv2_killed_during_a_run_ends_the_run_and_is_named() {
    if let Some(tool) = netfold_lab::bmv2::missing_tool() {
        println!("skipped: {tool} is not on PATH (see p4.org)");
        return;
    }
    let long = "testbed run --switch bmv2 --io grpc --workers 2 --bytes 64MiB --stall 10";
    let mut process = Process::start(long);
    process.event("topology");
    // The kernel truncates the name `simple_switch_grpc`.
    let switch = descendant(process.id(), "simple_switch_g").expect("the switch runs");
    let killed = std::process::Command::new("kill").args(["-9", &switch.to_string()]).status().unwrap();
    assert!(killed.success());
    let error = process.event("error");
    assert!(text(&error, "message").contains("switch 0"), "{error}");
    assert_eq!(process.wait().code(), Some(1));
}

#[test]
fn jobs_survive_a_controller_a_switch_and_a_worker() {
    let (code, lines) =
        run("testbed survive --controllers 2 --switches 1 --workers 1 --bytes 16KiB --seed 3");
    assert_eq!(code, Some(0), "{lines:?}");
    let killed: Vec<_> = lines.iter().map(|line| (text(line, "what"), number(line, "times"))).collect();
    assert_eq!(killed, [("controller", 2.0), ("switch", 1.0), ("worker", 1.0)], "{lines:?}");
    for line in &lines {
        assert_eq!((number(line, "wrong"), number(line, "lost")), (0.0, 0.0), "{line}");
        assert!(line["failures"].as_array().unwrap().is_empty(), "{line}");
        assert!(number(line, "median_ms") <= number(line, "longest_ms"), "{line}");
    }
}

#[test]
fn slow_uplinks_mark_and_every_element_is_correct() {
    let (code, lines) = run(
        "testbed run --levels 2 --workers 4 --mode i32 --bytes 1MiB --iterations 2 --uplink-rate 100M --congestion dctcp",
    );
    let summary = lines.last().unwrap();
    assert_eq!((code, number(summary, "wrong")), (Some(0), 0.0), "{summary}");
    let switches = summary["switches"].as_array().unwrap();
    let uplinks: Vec<_> = switches.iter().filter_map(|switch| switch.get("uplink")).collect();
    assert_eq!(uplinks.len(), 2, "{summary}");
    assert!(uplinks.iter().all(|uplink| number(uplink, "marked") > 0.0), "{summary}");
    let (code, lines) = run("testbed run --switch p4runtime --uplink-rate 100M");
    assert_eq!((code, text(lines.last().unwrap(), "kind")), (Some(2), "usage"));
}
