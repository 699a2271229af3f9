//! Packets that P4Testgen derives from the printed programs, played to the interpreter, generated code and bmv2. `tests/swx.rs` plays them to DPDK's
//! software pipeline.

use std::sync::Arc;

use netfold_lab::bmv2::missing_tool;
use netfold_lab::differential::{Bmv2Rig, compare};
use netfold_lab::stf::testgen::{self, generate};
use netfold_lab::stf::{Script, Statement, run, to_sequence};
use netfold_p4::allreduce;
use netfold_p4::ir::Program;
use netfold_p4::profile::{self, Profile, SLOTS_MAX};
use netfold_switch::{InterpretedPipeline, pipeline_for};
use netfold_wire::LaneOp;

/// Tests that are asked for, of each program.
const TESTS: u32 = 120;

/// Tests that bmv2 plays: the first that expect an output. It is started anew for each, because it can end when it is programmed many times.
const TESTS_BMV2: usize = 10;

fn interpreter(program: &Program) -> Box<InterpretedPipeline> {
    Box::new(InterpretedPipeline::new(Arc::new(program.clone())).unwrap())
}

/// Plays a script to the interpreter and to generated code, where there is any, and compares counters and registers; returns packets, and outputs as
/// expected.
fn play(name: &str, text: &str, script: &Script, profile: &Profile) -> (u64, u64) {
    let program = allreduce::program(profile).unwrap();
    let fast = || pipeline_for(&program).unwrap().0;
    let outcomes = [interpreter(&program), fast()].map(|pipeline| {
        let outcome = run(script, &program, pipeline).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(outcome.failures.is_empty(), "{name}: {:?}\n{text}", outcome.failures);
        (outcome.packets, outcome.met)
    });
    assert_eq!(outcomes[0], outcomes[1], "{name}");
    let sequence = to_sequence(script, profile).unwrap_or_else(|error| panic!("{name}: {error}"));
    compare(&sequence, fast(), interpreter(&program))
        .unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    outcomes[0]
}

/// The profiles: without outer headers, all paths; with them, and owners, classes, marks, trimming, forwarding and a parent, as many as are asked for.
fn profiles() -> [(&'static str, Profile); 2] {
    // To P4Testgen a register has every entry that a packet names.
    let slots = SLOTS_MAX;
    let small = Profile { slots, ..profile::by_name("small").unwrap() };
    let queues = profile::by_name("queues").unwrap();
    // In the queues of four classes packets overtake each other, and bmv2's are compared in order.
    let queues = Profile { slots, priorities: 1, ops: vec![LaneOp::Sum], ..queues };
    [("small", small), ("queues", queues)]
}

#[test]
fn scripts_in_the_form_of_p4testgen_are_played() {
    let profile = profile::by_name("small").unwrap();
    let refused = "\
# p4testgen seed: 1
# Table IngressImpl.job
add \"IngressImpl.job\" 1 \"port\":0b**************** \"job\":0b0000000000101010 \"IngressImpl.refuse\"(\"reason\":0x06)

packet 3 21800000002A0000000000000000000000000000000000000001000000000000
expect 3 25800006002A0000000000000000000000000000000000000001000000000000$
";
    let (text, script) = testgen::read("a refused packet", refused).unwrap();
    let (packets, met) = play("a refused packet", &text, &script, &profile);
    assert_eq!((packets, met), (1, 1));
}

#[test]
fn packets_of_p4testgen_pass_every_software_target() {
    if !testgen::is_present() {
        println!("skipped: p4testgen is not on PATH (see p4.org)");
        return;
    }
    for (program, profile) in profiles() {
        let generated = generate(&allreduce::program(&profile).unwrap(), TESTS).unwrap();
        let (mut packets, mut met) = (0, 0);
        for (name, text, script) in &generated.scripts {
            let (played, found) = play(name, text, script, &profile);
            packets += played;
            met += found;
        }
        let [reached, all] = generated.statements;
        println!(
            "{program}: {} tests of P4Testgen, {reached} of {all} statements, {packets} packets, {met} outputs as expected",
            generated.scripts.len()
        );
        assert!(generated.scripts.len() > 50 && met > 10, "{program}: {met} replies");
        assert!(reached * 10 > all * 7, "{program}: {reached} of {all} statements");
        if let Some(tool) = missing_tool() {
            println!("skipped: {tool} is not on PATH (see p4.org)");
            continue;
        }
        let is_answered = |script: &Script| {
            script.statements.iter().any(|(_, one)| matches!(one, Statement::Expect { .. }))
        };
        let answered = generated.scripts.iter().filter(|(.., script)| is_answered(script));
        let chosen = answered.take(TESTS_BMV2);
        for (name, text, script) in chosen.clone() {
            let sequence = to_sequence(script, &profile).unwrap();
            let oracle = interpreter(&allreduce::program(&profile).unwrap());
            let mut rig = Bmv2Rig::start(&profile).unwrap();
            rig.play(&sequence, oracle)
                .unwrap_or_else(|error| panic!("{name} on bmv2: {error}: {error:?}\n{text}"));
        }
        println!("{program}: {} of them on bmv2", chosen.count());
    }
}
