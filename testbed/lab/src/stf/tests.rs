//! Reading, writing and executing scripts.

use std::sync::Arc;

use netfold_p4::allreduce;
use netfold_p4::profile::{Profile, by_name, named};
use netfold_switch::InterpretedPipeline;

use super::*;
use crate::differential::{Sequence, Settings};

fn pipeline(profile: &Profile) -> (netfold_p4::ir::Program, Box<InterpretedPipeline>) {
    let program = allreduce::program(profile).unwrap();
    let pipeline = InterpretedPipeline::new(Arc::new(program.clone())).unwrap();
    (program, Box::new(pipeline))
}

#[test]
fn what_is_written_is_read() {
    let text = "\
add IngressImpl.job 60 port:0x0001 slot:0x00* IngressImpl.admit(base:0x0, world:0x2)
add EgressImpl.child instance:0x0003 EgressImpl.keep()
mc_mgrp_create 1
mc_node_create 3 1 2
mc_node_associate 1 0
expect 1 00ff*a
expect 2 01$
expect 3
packet 1 00ff1a
check_counter \"IngressImpl.packets\"(3) packets >= 7
check_counter \"packets\"(0)
register_read claim_seen 4
wait
";
    let script = Script::parse(text).unwrap();
    assert_eq!(script.to_string(), text);
    let commented = Script::parse("\n  wait # and nothing else\n").unwrap();
    assert_eq!(commented.statements, [(2, Statement::Wait)]);
}

#[test]
fn nonsense_is_refused_with_its_line() {
    for (text, expected) in [
        ("fly away", "unknown"),
        ("packet", "not a number"),
        ("packet 1 0", "even"),
        ("packet 1 zz", "hexadecimal"),
        ("packet 70000 00", "too large"),
        ("expect 1 xyz", "neither"),
        ("add job admit", "expected"),
        ("add job port:0xg admit()", "no digit"),
        ("add job port:0x00112233445566778 admit()", "64 bits"),
        ("add job port:99999999999999999999 admit()", "not a number"),
        ("check_counter packets(1) packets ~ 3", "expected"),
        ("mc_node_create 1", "port"),
        ("mc_node_associate 1", "expected"),
    ] {
        let error = Script::parse(&format!("wait\n{text}")).unwrap_err();
        assert!(error.line == 2 && error.problem.contains(expected), "{text}: {error}");
    }
}

#[test]
fn names_and_values_are_checked_against_the_program() {
    let (program, _) = pipeline(&by_name("small").unwrap());
    for (text, expected) in [
        ("add fool port:1 admit()", "'fool'"),
        ("add job port:1 fly()", "'fly'"),
        ("add job port:1 deny()", "needs reason"),
        ("add job port:1 deny(reason:1, more:2)", "more"),
        ("add job port:0x12345 deny(reason:1)", "fit"),
        ("add job harbour:1 deny(reason:1)", "harbour"),
        ("mc_node_associate 1 0", "not created"),
        ("check_counter none(1)", "'none'"),
        ("check_counter packets(999)", "cells"),
        ("register_read claim_seen 999", "no register"),
    ] {
        let script = Script::parse(text).unwrap();
        let (_, pipeline) = pipeline(&by_name("small").unwrap());
        let error = run(&script, &program, pipeline).unwrap_err();
        assert!(error.problem.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_random_sequence_passes_as_a_script_and_fails_when_it_is_changed() {
    for named in
        named().iter().filter(|named| ["hardware", "datagram", "small", "wide"].contains(&named.name))
    {
        let sequence = Sequence::from_seed(7, &named.profile, &Settings::any_target(200));
        let (program, oracle) = pipeline(&named.profile);
        let text = Script::from_sequence(&program, &sequence, oracle).unwrap().to_string();
        let script = Script::parse(&text).unwrap();
        let (_, fresh) = pipeline(&named.profile);
        let outcome = run(&script, &program, fresh).unwrap();
        assert_eq!((outcome.packets, outcome.failures.as_slice()), (sequence.packets.len() as u64, &[][..]));
        assert!(outcome.met > 50, "{}: {}", named.name, outcome.met);
        // One packet less, and what it brought about is missed.
        let mut broken = script.clone();
        let at = broken.statements.iter().rposition(|(_, s)| matches!(s, Statement::Expect { .. })).unwrap();
        broken.statements.remove(at);
        let (_, fresh) = pipeline(&named.profile);
        assert!(!run(&broken, &program, fresh).unwrap().failures.is_empty());
    }
}
