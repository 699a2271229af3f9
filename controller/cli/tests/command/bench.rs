//! `netfold bench`: the keys that scripts rely on.

use std::process::Stdio;

use netfold_testkit::process::present;
use serde_json::Value;

use crate::process::{Process, netfold, number, run, text};

/// Runs a benchmark to its end; returns its exit code and its rows, which come after its settings.
fn measure(arguments: &str) -> (Option<i32>, Vec<Value>) {
    let (code, mut lines) = run(arguments);
    assert!(!lines.is_empty(), "{arguments} prints nothing");
    let settings = lines.remove(0);
    assert_eq!(text(&settings, "event"), "settings", "{arguments}: {settings}");
    assert!(arguments.starts_with(text(&settings, "command")), "{arguments}: {settings}");
    let again = lines.iter().filter(|line| line["event"] == "settings").count();
    assert_eq!(again, 0, "{arguments}: {lines:?}");
    (code, lines)
}

#[test]
fn settings_are_the_first_line_and_hold_the_parameters() {
    let bench = "bench perf --ranks 2 -b 4K -e 4K -n 1";
    let (code, lines) = run(bench);
    assert_eq!(code, Some(0), "{lines:?}");
    let events: Vec<_> = lines.iter().map(|line| text(line, "event")).collect();
    assert_eq!(events, ["settings", "perf", "perf_summary"]);
    let settings = &lines[0];
    assert_eq!(
        (text(settings, "command"), text(settings, "version")),
        ("bench perf", env!("CARGO_PKG_VERSION"))
    );
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(text(settings, "kernel").ends_with(release.trim()), "{settings}");
    assert!(number(settings, "cores") >= 1.0 && !text(settings, "cpu").is_empty(), "{settings}");
    let parameters = &settings["parameters"];
    let given = ["ranks", "minbytes", "iters", "datatype"].map(|name| text(parameters, name));
    assert_eq!(given, ["2", "4K", "1", "float"], "{parameters}");
    assert_eq!(parameters.get("exit-with-stdin"), None, "{parameters}");
}

#[test]
fn the_masks_of_both_directions_are_measured() {
    let (code, rows) = measure("bench masks --packets 64 --payload 256 --repetitions 2");
    assert_eq!(code, Some(0), "{rows:?}");
    assert_eq!(rows.iter().map(|row| text(row, "direction")).collect::<Vec<_>>(), ["mask", "unmask"]);
    for row in rows {
        assert!(number(&row, "ns_per_packet") > 0.0 && number(&row, "ratio_to_memcpy") > 0.0, "{row}");
    }
}

#[test]
fn the_tags_of_all_steps_are_measured() {
    let (code, rows) = measure("bench tags --payload 256 --bursts 4 --repetitions 2");
    assert_eq!(code, Some(0), "{rows:?}");
    let steps: Vec<_> = rows.iter().map(|row| text(row, "step")).collect();
    assert_eq!(steps, ["send", "multicast", "receive"]);
    assert!(rows.iter().all(|row| number(row, "plain_ns_per_packet") > 0.0), "{rows:?}");
}

/// `script` runs a command on a terminal.
#[test]
fn colours_are_for_terminals_without_no_color() {
    if !present("script", "colours on a terminal") {
        return;
    }
    let on_terminal = |arguments: &str, no_color: &str| {
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &format!("{} {arguments}", env!("CARGO_BIN_EXE_netfold")), "/dev/null"]);
        script.env("TERM", "xterm").env("NO_COLOR", no_color).stdin(Stdio::null());
        String::from_utf8(script.output().unwrap().stdout).unwrap()
    };
    let piped = |arguments: &str| {
        let output = netfold(arguments).env("TERM", "xterm").env_remove("NO_COLOR").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for arguments in ["--help", "bench host --ranks 1 --bytes 4K --rounds 1 --iterations 1 --no-peers"] {
        assert!(on_terminal(arguments, "").contains("\x1b[1m"), "{arguments}");
        assert!(!on_terminal(arguments, "1").contains("\x1b[1m"), "{arguments}");
        assert!(!piped(arguments).contains('\x1b'), "{arguments}");
    }
}

#[test]
fn all_reduce_lines_have_their_keys_and_nothing_wrong() {
    for (more, redop) in [("--mode bfp16 --transport udp", "sum"), ("--mode i32 --op max", "max")] {
        let (code, lines) =
            measure(&format!("bench all-reduce --workers 2 --bytes 4KiB..16KiB --iterations 2 {more}"));
        assert_eq!((code, lines.len()), (Some(0), 3), "{lines:?}");
        for (line, bytes) in lines.iter().zip([4096.0, 8192.0, 16384.0]) {
            assert_eq!(text(line, "op"), "all_reduce");
            assert_eq!(text(line, "redop"), redop);
            assert_eq!((number(line, "bytes"), number(line, "count")), (bytes, bytes / 4.0));
            assert_eq!(number(line, "wrong"), 0.0, "{line}");
            for key in
                ["workers", "loss", "time_us", "algbw_MBps", "busbw_MBps", "bound_ratio", "retransmits"]
            {
                number(line, key);
            }
            for key in ["type", "mode", "transport"] {
                text(line, key);
            }
        }
    }
}

/// Two concurrent jobs of separate processes, and a third for which there are no slots, at a switch's own control port.
#[test]
fn benchmarks_that_join_a_controller_share_its_switch() {
    let (mut switch, control) = Process::switch("--slots 512");
    let bench = |job: &str, more: &str| {
        Process::start(&format!(
            "bench all-reduce --controller {control} --tenant {job} --token x --job {job} --workers 2 {more}"
        ))
    };
    let long = "--bytes 64KiB --iterations 1000000";
    let mut held = [bench("first", long), bench("second", long)];
    let short = "--bytes 4KiB --iterations 1";
    for _ in &held {
        assert_eq!(number(&switch.event("job_started"), "slots"), 256.0);
    }
    let mut third = bench("third", short);
    let refused = third.event("error");
    assert_eq!((text(&refused, "kind"), third.wait().success()), ("slots", false), "{refused}");
    held.iter_mut().for_each(|held| held.signal("KILL"));
    drop(held);
    for mut more in
        [bench("fourth", short), bench("fifth", &format!("{short} --rendezvous --bind 127.0.0.1"))]
    {
        let line = more.event("all_reduce");
        assert_eq!((number(&line, "wrong"), text(&line, "transport")), (0.0, "udp"), "{line}");
        let place = more.event("place");
        assert_eq!((number(&place, "slots"), number(&place, "payload_bytes")), (256.0, 1408.0), "{place}");
        assert!(text(&place, "switch").starts_with("127.0.0.1:"), "{place}");
        assert!(more.wait().success());
    }
}

#[test]
fn fold_lines_have_their_keys() {
    let (code, lines) = measure("bench fold --rounds 3 --round-us 20");
    assert_eq!(code, Some(0), "{lines:?}");
    for payload in [256.0, 1408.0, 8192.0] {
        assert!(lines.iter().any(|line| number(line, "payload_bytes") == payload), "{payload}");
    }
    for line in &lines {
        text(line, "mode");
        assert!(number(line, "fixed_ns") > 0.0 && number(line, "mpps") > 0.0, "{line}");
        number(line, "lane_ratio");
    }
}

#[test]
fn quantize_lines_have_their_keys() {
    let (code, lines) = measure("bench quantize --bytes 1MiB --repetitions 1");
    assert_eq!((code, lines.len()), (Some(0), 8));
    for line in &lines {
        assert!(["quantize", "dequantize", "stochastic", "residual"].contains(&text(line, "direction")));
        assert!(["bfp32", "bfp16"].contains(&text(line, "mode")));
        assert!(number(line, "ratio_to_memcpy") > 0.0, "{line}");
    }
}

#[test]
fn congestion_lines_have_their_keys() {
    let sizes = "--algorithms dctcp,aimd --transport loopback --bytes 64K,4K --rounds 2 --iterations 2";
    let (code, lines) = measure(&format!("bench congestion --workers 2 {sizes}"));
    assert_eq!((code, lines.len()), (Some(0), 6), "{lines:?}");
    for (line, algorithm) in lines.iter().zip(["fixed", "dctcp", "aimd"].iter().cycle()) {
        assert_eq!((text(line, "algorithm"), text(line, "transport")), (*algorithm, "loopback"));
        assert!(number(line, "ratio_min") <= number(line, "ratio_to_fixed"), "{line}");
        assert!(number(line, "bound_ratio") > 0.0 && number(line, "wrong") == 0.0, "{line}");
    }
    let (code, _) = run("bench congestion --algorithms fast");
    assert_eq!(code, Some(2));
}

#[test]
fn admission_is_timed_through_a_tree_and_at_one_switch() {
    for (arguments, switches) in [("--workers 5 --switches 3", 3.0), ("--workers 2 --switches 1", 1.0)] {
        let (code, lines) = measure(&format!("bench admission --rounds 3 --slots 64 {arguments}"));
        assert_eq!((code, lines.len()), (Some(0), 1), "{lines:?}");
        let row = &lines[0];
        assert_eq!((text(row, "event"), number(row, "switches")), ("admission", switches));
        assert_eq!((number(row, "slots"), number(row, "rounds")), (64.0, 3.0), "{row}");
        assert!(number(row, "median_ms") <= number(row, "p90_ms"), "{row}");
        assert!(number(row, "p90_ms") <= number(row, "longest_ms"), "{row}");
        assert!(number(row, "own_median_ms") > 0.0 && number(row, "ratio_to_own") > 0.0, "{row}");
    }
    let (code, lines) = run("bench admission --switches 2");
    assert_eq!((code, text(&lines[0], "kind")), (Some(2), "usage"));
}

#[test]
fn tables_are_text_and_a_closed_pipe_is_no_error() {
    let output = netfold("bench all-reduce --workers 2 --bytes 4KiB --iterations 1").output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(lines[0].starts_with("# netfold ") && lines[0].contains("bench all-reduce"), "{table}");
    assert!(lines[1].contains(" bytes=4KiB ") && lines[1].contains(" mode=bfp16 "), "{table}");
    for column in ["size", "count", "type", "redop", "time", "algbw", "busbw", "#wrong"] {
        assert!(lines[2].contains(column), "{table}");
    }

    let mut command = netfold("p4 info --format p4info");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.code().is_some(), "no signal, no panic");
}

/// Netfold's own rows, which need only this program.
#[test]
fn ranks_of_one_host_sum_correctly_in_shared_memory_and_at_a_switch() {
    let (code, lines) = measure("bench host --ranks 2 --bytes 4K,64K --rounds 1 --iterations 2 --no-peers");
    assert_eq!(code, Some(0), "{lines:?}");
    let rows: Vec<_> = lines.iter().filter(|line| text(line, "event") == "host").collect();
    for how in ["netfold, shared memory", "netfold, switch"] {
        for bytes in [4096.0, 65536.0] {
            let of = |line: &&&serde_json::Value| text(line, "name") == how && number(line, "bytes") == bytes;
            let row = rows.iter().find(of).expect("a row for each system and size");
            assert_eq!((number(row, "wrong"), number(row, "ranks")), (0.0, 2.0), "{row}");
            assert!(number(row, "min_s") <= number(row, "median_s"), "{row}");
        }
    }
    for none in ["bench host --bytes 4K,3", "bench star --bytes 0", "bench star --busy-poll 1000001"] {
        assert_eq!(run(none).0, Some(2), "{none}");
    }
    let (code, lines) = run("bench host --ranks 2 --bytes 4K --svg /nowhere/at/all.svg");
    assert_eq!((code, lines.len()), (Some(1), 1), "{lines:?}");
    assert!(text(&lines[0], "message").contains("/nowhere/at/all.svg"), "{lines:?}");
}
