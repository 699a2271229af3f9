//! Programs from outside: the engine that runs them, and refusal of those that a switch cannot use.

use netfold_io::Null;
use netfold_p4::allreduce;
use netfold_p4::entry::{EntryError, FieldMatch, TableEntry};
use netfold_p4::ir::{Program, Stmt};
use netfold_p4::p4info;
use netfold_p4::profile::{Encapsulation, Profile};
use netfold_switch::{Engine, InterpretedPipeline, Pipeline, Switch, pipeline_for};
use proptest::prelude::*;

fn engine(program: &Program) -> Engine {
    let (pipeline, engine) = pipeline_for(program).unwrap();
    assert_eq!(pipeline.info().fingerprint, program.fingerprint());
    assert_eq!(pipeline.info().name, program.name);
    engine
}

#[test]
fn the_engine_is_chosen_by_fingerprint() {
    for lanes in [64, 352, 2048] {
        let datagram = Profile::software(lanes);
        let ethernet = Profile {
            encapsulation: Encapsulation::Ethernet,
            ecn_depth: 16,
            trim_depth: 24,
            ..datagram.clone()
        };
        for profile in [datagram, ethernet] {
            let program = allreduce::program(&profile).unwrap();
            assert_eq!(engine(&program), Engine::Generated);
            // Also after a round trip through JSON.
            assert_eq!(engine(&Program::from_json(program.to_json().as_bytes()).unwrap()), Engine::Generated);
        }
    }
    let mut program = allreduce::program(&Profile::software(64)).unwrap();
    program.ingress.push(Stmt::Drop);
    assert_eq!(engine(&program), Engine::Interpreter);
    let smaller = Profile { slots: 512, ..Profile::software(64) };
    assert_eq!(engine(&allreduce::program(&smaller).unwrap()), Engine::Interpreter);
}

#[test]
fn properties_equal_those_of_the_generated_pipeline() {
    let program = allreduce::program(&Profile::software(352)).unwrap();
    let (generated, _) = pipeline_for(&program).unwrap();
    let interpreted = InterpretedPipeline::new(program.into()).unwrap();
    let (one, other) = (generated.info(), interpreted.info());
    assert_eq!((&one.name, one.fingerprint), (&other.name, other.fingerprint));
    assert_eq!(
        (one.lane_words, one.entries, one.lane_bytes),
        (other.lane_words, other.entries, other.lane_bytes)
    );
}

#[test]
fn a_switch_refuses_a_program_without_a_job_table() {
    let mut program = allreduce::program(&Profile::software(64)).unwrap();
    program.tables[0].id = 99;
    let (pipeline, _) = pipeline_for(&program).unwrap();
    let error = Switch::try_new(pipeline, Box::new(Null::new(1024))).err().unwrap();
    assert_eq!(error, EntryError::Table(p4info::table_id(allreduce::id::JOB)));
}

fn any_entry() -> impl Strategy<Value = TableEntry> {
    let field = (0u32..9, 0u64..4, prop_oneof![Just(u64::MAX), Just(0xffff), Just(0xf), Just(3), Just(0)]);
    let field = field.prop_map(|(field, value, mask)| FieldMatch { field, value: value & mask, mask });
    let table = prop_oneof![4 => Just(1u32), 2 => Just(2), 1 => 0u32..5];
    (
        table,
        proptest::collection::vec(field, 0..3),
        -1i32..4,
        0u32..9,
        proptest::collection::vec(0u64..70_000, 0..8),
    )
        .prop_map(|(table, matches, priority, action, params)| TableEntry {
            table: p4info::table_id(table),
            matches,
            priority,
            action: p4info::action_id(action),
            params,
        })
}

proptest! {
    /// Both engines accept, refuse and remove the same entries with the same errors.
    #[test]
    fn both_engines_validate_entries_alike(
        steps in proptest::collection::vec((any::<bool>(), any_entry(), any::<prop::sample::Index>()), 1..60),
    ) {
        let profile = Profile { encapsulation: Encapsulation::Ethernet, ecn_depth: 16, trim_depth: 24, ..Profile::software(64) };
        let program = allreduce::program(&profile).unwrap();
        let (mut generated, _) = pipeline_for(&program).unwrap();
        let mut interpreted = InterpretedPipeline::new(program.into()).unwrap();
        let mut known: Vec<TableEntry> = Vec::new();
        for (delete, mut entry, choice) in steps {
            if delete && !known.is_empty() && choice.index(4) > 0 {
                entry = known[choice.index(known.len())].clone();
            }
            let (one, other) = if delete {
                (generated.delete(&entry), interpreted.delete(&entry))
            } else {
                (generated.insert(&entry), interpreted.insert(&entry))
            };
            if one.is_ok() && !delete {
                known.push(entry.clone());
            }
            prop_assert_eq!(one, other, "{:?}", entry);
        }
    }
}
