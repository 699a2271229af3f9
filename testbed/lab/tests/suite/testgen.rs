//! Packets that P4Testgen derives from the printed program: one for each path through it that it finds, with entries and the output that P4 prescribes.
//!
//! A test of P4Testgen is one packet to a switch without state. Registers are 0, and a packet to a multicast group is dropped, since there are no groups.
//! So these tests cover the parser, checks, tables and the first contribution to a slot; what depends on earlier packets is for random sequences.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use netfold_lab::stf::{Script, run};
use netfold_p4::ir::Program;
use netfold_p4::{allreduce, profile, v1model};
use netfold_switch::{InterpretedPipeline, Pipeline, pipeline_for};
use netfold_testkit::directory::TemporaryDirectory;

const TOOL: &str = "p4testgen";

/// Tests that are asked for.
const TESTS: usize = 200;

/// What P4Testgen writes for a program; `None` where it is absent.
fn scripts(text: &str) -> Option<Vec<(String, String)>> {
    if Command::new(TOOL).arg("--version").output().is_err() {
        println!("skipped: {TOOL} is not on PATH (see p4.org)");
        return None;
    }
    let dir = TemporaryDirectory::new("testgen");
    let source = dir.path().join("program.p4");
    fs::write(&source, text).unwrap();
    let mut command = Command::new(TOOL);
    command.args(["--target", "bmv2", "--arch", "v1model", "--std", "p4-16", "--test-backend", "STF"]);
    command.args(["--seed", "1", "--max-tests", &TESTS.to_string(), "--out-dir"]).arg(dir.path());
    let output = command.arg(&source).output().unwrap();
    assert!(output.status.success(), "{TOOL}: {}", String::from_utf8_lossy(&output.stderr));
    let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut scripts: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "stf"))
        .map(|path| (path.display().to_string(), unquoted(&fs::read_to_string(&path).unwrap())))
        .collect();
    scripts.sort();
    Some(scripts)
}

/// The script without quotes around names, which scripts of ours need only around the names of counters.
fn unquoted(text: &str) -> String {
    text.replace('"', "")
}

/// Plays a script to the interpreter and to generated code, where there is any; returns packets, and outputs as expected.
fn play(name: &str, text: &str, program: &Program) -> (u64, u64) {
    let script = Script::parse(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    let interpreter = InterpretedPipeline::new(Arc::new(program.clone())).unwrap();
    let (fast, _) = pipeline_for(program).unwrap();
    let outcomes = [Box::new(interpreter) as Box<dyn Pipeline>, fast].map(|pipeline| {
        let outcome = run(&script, program, pipeline).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(outcome.failures.is_empty(), "{name}: {:?}\n{text}", outcome.failures);
        (outcome.packets, outcome.met)
    });
    assert_eq!(outcomes[0], outcomes[1], "{name}");
    outcomes[0]
}

#[test]
fn scripts_in_the_form_of_p4testgen_are_played() {
    let program = allreduce::program(&profile::by_name("small").unwrap()).unwrap();
    let refused = "\
# p4testgen seed: 1
# Table IngressImpl.job
add \"IngressImpl.job\" 1 \"port\":0b**************** \"job\":0b0000000000101010 \"IngressImpl.refuse\"(\"reason\":0x06)

packet 3 21800000002A0000000000000000000000000000000000000001000000000000
expect 3 25800006002A0000000000000000000000000000000000000001000000000000$
";
    let (packets, met) = play("a refused packet", &unquoted(refused), &program);
    assert_eq!((packets, met), (1, 1));
}

#[test]
fn packets_of_p4testgen_pass_interpreter_and_generated_code() {
    let program = allreduce::program(&profile::by_name("small").unwrap()).unwrap();
    let Some(scripts) = scripts(&v1model::print(&program).unwrap()) else { return };
    assert!(scripts.len() > 10, "{} tests", scripts.len());
    let (mut packets, mut met) = (0, 0);
    for (name, text) in &scripts {
        let (played, found) = play(name, text, &program);
        packets += played;
        met += found;
    }
    println!("{} tests of P4Testgen, {packets} packets, {met} outputs as expected", scripts.len());
    assert!(met > 0, "a packet is replied to");
}
