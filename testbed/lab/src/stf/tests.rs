//! Executing scripts.

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
        let text = from_sequence(&program, &sequence, oracle).unwrap().to_string();
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
