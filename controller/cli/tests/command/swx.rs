//! DPDK's software pipeline as the engine of switches, and as network cards below switches.

use netfold_p4::allreduce;
use netfold_p4::profile::{Numerics, Profile};
use netfold_p4_runtime::p4info;
use netfold_southbound::p4runtime::{Client, ClientConfig};

use crate::process::{Process, number, run, text};

/// Whether the command was built with DPDK; prints that the test is skipped if not.
fn has_dpdk() -> bool {
    let built = cfg!(feature = "dpdk");
    if !built {
        println!("skipped: this command is built without DPDK");
    }
    built
}

#[test]
fn a_switch_is_executed_by_the_software_pipeline() {
    if !has_dpdk() {
        return;
    }
    for more in ["--loss 0.01", "--threads 2"] {
        let (mut switch, control) = Process::switch(&format!("--engine swx {more}"));
        let worker = |rank| {
            let job = format!("--job swx --rank {rank} --world 3 --bytes 100003 --iterations 3");
            Process::start(&format!("worker --switch {control} {job}"))
        };
        for mut worker in (0..3).map(worker).collect::<Vec<_>>() {
            let done = worker.event("done");
            assert_eq!(number(&done, "wrong"), 0.0, "{more}: {done}");
            assert!(worker.wait().success());
        }
        switch.signal("TERM");
        let counters = switch.event("counters");
        assert!(number(&counters, "results") > 500.0, "{more}: {counters}");
        assert!(switch.wait().success());
    }
}

#[test]
fn the_engine_runs_what_a_p4runtime_controller_sets() {
    if !has_dpdk() {
        return;
    }
    let arguments = "switch --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0 --engine swx";
    let mut switch = Process::start(arguments);
    let client = Client::connect(text(&switch.event("listening"), "p4runtime"), ClientConfig::default());
    let client = client.unwrap();
    let set = |profile: Profile| {
        let program = allreduce::program(&profile).unwrap();
        client.set_pipeline(p4info(&program).unwrap(), program.to_json().into_bytes())
    };
    set(Profile::software(64)).unwrap();
    set(Profile::software(352)).unwrap();
    let refused = set(Profile::software_with(64, Numerics::Saturating)).unwrap_err().to_string();
    assert!(refused.contains("swx cannot run this program: a condition on several lanes"), "{refused}");
    assert!(client.pipeline().unwrap().is_some(), "the one before stays");
    switch.signal("INT");
    assert!(switch.wait().success());
    let mut initial = Process::start(&format!("{arguments} --payload 256"));
    assert_eq!(text(&initial.event("listening"), "engine"), "swx");
}

#[test]
fn network_cards_send_one_stream_to_the_switch_above() {
    if !has_dpdk() {
        return;
    }
    for options in [
        "--workers 8 --levels 2 --loss 0.01 --bytes 128KiB",
        "--workers 4 --levels 3 --io udp --mode i32 --bytes 32KiB",
        "--workers 8 --levels 2 --groups 2 --all-classes --tolerance 0.5 --payload 256 --bytes 12KiB",
    ] {
        let (code, lines) = run(&format!("testbed run --nic swx {options}"));
        let last = lines.last().unwrap();
        assert_eq!(code, Some(0), "{options}: {last}");
        assert!(number(last, "wrong") == 0.0 && number(last, "checked") > 0.0, "{options}: {last}");
        let lowest = last["switches"].as_array().unwrap().last().unwrap();
        assert!(number(lowest, "up") > 100.0, "{options}: {last}");
    }
}

#[test]
fn what_the_engine_cannot_do_is_refused() {
    for (arguments, expected) in [
        ("switch --engine swx --numerics half", "lanes of 16 bits"),
        ("switch --engine swx --payload 256,1408", "give one payload"),
        ("switch --engine swx --io xdp-kernel:lo", "takes no --engine"),
        ("testbed run --nic swx --workers 8", "--levels 2 or 3"),
        ("testbed run --nic swx --levels 2 --switch interpreter --mode half", "lanes of 16 bits"),
    ] {
        let (code, lines) = run(arguments);
        let said = lines.last().map(ToString::to_string).unwrap_or_default();
        assert!(matches!(code, Some(1 | 2)) && said.contains(expected), "{arguments}: {code:?} {said}");
    }
    if cfg!(not(feature = "dpdk")) {
        let (code, lines) = run("switch --listen 127.0.0.1:0 --engine swx");
        assert!(
            code == Some(2) && lines.last().unwrap().to_string().contains("--features dpdk"),
            "{lines:?}"
        );
    }
}
