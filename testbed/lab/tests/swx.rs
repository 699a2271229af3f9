//! DPDK's software pipeline, running the printed specifications, against the interpreter: packet by packet over random sequences, with counters after every
//! packet and registers at the end. `DIFF_SEED=n` replays one sequence of each profile; `DIFF_SEQUENCES=n` changes how many are played.

use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_io::{PortId, Received};
use netfold_lab::differential::{Arrival, Sequence, Settings, Tally, compare};
use netfold_lab::stf::{testgen, to_sequence};
use netfold_measure::io::{self, IoConfig};
use netfold_p4::allreduce;
use netfold_p4::ir::Program;
use netfold_p4::profile::{Profile, SLOTS_MAX, named};
use netfold_p4::refusal::PrintError;
use netfold_switch::{Engine, InterpretedPipeline, Pipeline, datagram_pipeline, pipeline_for};
use netfold_switch_swx::{SwxPipeline, SwxPipelineError};
use netfold_wire::{LaneOp, Reason};
use rustix::time::{ClockId, clock_gettime};

/// Packets of one sequence.
const PACKETS: usize = 300;

/// Sequences of each profile.
const SEQUENCES: u64 = 3;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// How a program becomes a pipeline: with registers as external objects, as switches have them, or without.
type Form = fn(Arc<Program>) -> Result<SwxPipeline, SwxPipelineError>;

/// Plays one sequence.
fn play(name: &str, seed: u64, profile: &Profile, program: &Arc<Program>, form: Form) -> Tally {
    let sequence = Sequence::from_seed(seed, profile, &Settings::software(PACKETS));
    let pipeline = form(Arc::clone(program));
    let pipeline = pipeline.unwrap_or_else(|error| panic!("{name}: {error}: {error:?}"));
    let interpreted = InterpretedPipeline::new(Arc::clone(program)).expect("the program is valid");
    compare(&sequence, Box::new(pipeline), Box::new(interpreted)).unwrap_or_else(|difference| {
        panic!("{name}: {difference}\nreplay: DIFF_SEED={seed} cargo test -p netfold-lab --features dpdk --test swx")
    })
}

#[test]
fn the_software_pipeline_and_the_interpreter_agree() {
    compare_with_the_interpreter(SwxPipeline::new, SEQUENCES);
}

#[test]
fn registers_as_instructions_and_the_interpreter_agree() {
    compare_with_the_interpreter(SwxPipeline::without_objects, 1);
}

fn compare_with_the_interpreter(form: Form, sequences: u64) {
    let start = Instant::now();
    let mut total = Tally::default();
    for (number_of, named) in named().into_iter().enumerate() {
        let program = Arc::new(allreduce::program(&named.profile).expect("the profile is in range"));
        if let Err(SwxPipelineError::Print(PrintError::Refused(refusal))) = form(Arc::clone(&program)) {
            assert!(
                matches!(named.name, "saturating" | "wide" | "half" | "float"),
                "{}: {refusal}",
                named.name
            );
            println!("{}: {refusal}", named.name);
            continue;
        }
        let first = 1000 * number_of as u64;
        let seeds = match number("DIFF_SEED") {
            Some(seed) => seed..seed + 1,
            None => first..first + number("DIFF_SEQUENCES").unwrap_or(sequences),
        };
        let mut tally = Tally::default();
        for seed in seeds {
            tally += play(named.name, seed, &named.profile, &program, form);
        }
        println!("{}: {tally}", named.name);
        total += tally;
    }
    println!("SWX against the interpreter: 0 differences; {total}; {:.1} s", start.elapsed().as_secs_f64());
    assert!(total.copies > 0 && total.reasons.iter().filter(|count| **count > 0).count() > 5, "{total}");
    if number("DIFF_SEED").is_none() {
        assert!(total.reasons[Reason::Path as usize] > 0, "{total}");
    }
}

#[test]
fn packets_of_p4testgen_pass_the_software_pipeline() {
    const TESTS: u32 = 30;
    if !testgen::is_present() {
        println!("skipped: p4testgen is not on PATH (see p4.org)");
        return;
    }
    let queues = named().into_iter().find(|named| named.name == "queues").expect("it has a name");
    // To P4Testgen a register has every entry that a packet names.
    let profile = Profile { slots: SLOTS_MAX, ops: vec![LaneOp::Sum], ..queues.profile };
    let program = Arc::new(allreduce::program(&profile).expect("the profile is in range"));
    let generated = testgen::generate(&program, TESTS).unwrap_or_else(|error| panic!("{error}"));
    let mut total = Tally::default();
    for (name, text, script) in &generated.scripts {
        let sequence = to_sequence(script, &profile).unwrap_or_else(|error| panic!("{name}: {error}"));
        let pipeline = SwxPipeline::new(Arc::clone(&program)).expect("DPDK builds it");
        let interpreted = InterpretedPipeline::new(Arc::clone(&program)).expect("the program is valid");
        total += compare(&sequence, Box::new(pipeline), Box::new(interpreted))
            .unwrap_or_else(|difference| panic!("{name}: {difference}\n{text}"));
    }
    println!("SWX, packets of P4Testgen: 0 differences; {total}");
    assert!(total.packets > 20 && total.copies > 4, "{total}");
}

/// What this thread has run so far.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Nanoseconds of processor time a packet of a pipeline's ingress, in bursts, on this thread.
fn cost(sequence: &Sequence, pipeline: &mut dyn Pipeline) -> f64 {
    const BURST: usize = 32;
    const ROOM: usize = 2048;
    for entry in &sequence.entries {
        pipeline.insert(entry).expect("the entry fits");
    }
    let (mut memory, mut verdicts) = (vec![0; BURST * ROOM], Vec::new());
    let (mut spent, mut packets) = (Duration::ZERO, 0);
    for arrivals in sequence.packets.chunks(BURST) {
        let received = |(index, arrival): (usize, &Arrival)| {
            let offset = index * ROOM;
            memory[offset..offset + arrival.bytes.len()].copy_from_slice(&arrival.bytes);
            let (port, len) = (PortId(arrival.port), arrival.bytes.len() as u32);
            Received { port, offset: offset as u32, len, ecn: 0 }
        };
        let burst: Vec<Received> = arrivals.iter().enumerate().map(received).collect();
        verdicts.clear();
        let start = thread_time();
        pipeline.burst(&burst, &mut memory, &mut verdicts);
        spent += thread_time() - start;
        packets += burst.len();
    }
    spent.as_secs_f64() * 1e9 / f64::from(packets as u32)
}

/// A switch of eight workers on DPDK's rings, executed by the software pipeline and by generated code in turn, in one process. It asserts no figure.
#[test]
#[ignore = "a measurement: run it alone, on a machine without other load"]
fn how_fast_a_switch_with_the_software_pipeline_is() {
    const ROUNDS: usize = 7;
    let config = |pipeline| IoConfig { rounds: 1, pipeline, ..IoConfig::default() };
    let swx = |payload_bytes: u32| -> Option<Box<dyn Pipeline>> {
        let program = allreduce::program(&Profile::software(payload_bytes / 4)).ok()?;
        Some(Box::new(SwxPipeline::new(Arc::new(program)).expect("DPDK builds it")))
    };
    let rings = io::named("dpdk:net_ring").expect("it is built with DPDK");
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let swx = io::run(&config(swx), rings, |_| ()).expect("it is measured");
        let generated = io::run(&config(datagram_pipeline), rings, |_| ()).expect("it is measured");
        ratios.push(swx.mpps / generated.mpps);
        println!(
            "SWX {:.3} Mpps, {:.0} cycles a packet; generated {:.3} Mpps, {:.0} cycles; ratios {:.3}, {:.3}",
            swx.mpps,
            swx.cycles_per_packet,
            generated.mpps,
            generated.cycles_per_packet,
            swx.mpps / generated.mpps,
            generated.cycles_per_packet / swx.cycles_per_packet
        );
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio of packets a second {:.3}", ratios[ROUNDS / 2]);
}

/// Beside the generated pipeline of the software switch, on one thread and the same packets. It asserts no figure: machines differ.
#[test]
#[ignore = "a measurement: run it alone, on a machine without other load"]
fn how_fast_the_software_pipeline_is() {
    let profile = Profile::software(64);
    let program = Arc::new(allreduce::program(&profile).expect("the profile is in range"));
    let sums = Profile { ops: vec![LaneOp::Sum], ..profile };
    for (name, profile) in [("sums", &sums), ("all operations", &profile)] {
        let sequence = Sequence::from_seed(1, profile, &Settings::software(50_000));
        for _ in 0..3 {
            let forms: [Form; 2] = [SwxPipeline::new, SwxPipeline::without_objects];
            let [objects, plain] = forms.map(|form| {
                let mut pipeline = form(Arc::clone(&program)).expect("DPDK builds it");
                let cost = cost(&sequence, &mut pipeline);
                (cost, pipeline.instructions() as f64 / sequence.packets.len() as f64)
            });
            let (mut generated, engine) = pipeline_for(&program).expect("the program is valid");
            assert_eq!(engine, Engine::Generated);
            let generated = cost(&sequence, &mut *generated);
            println!(
                "{name}: SWX {:.0} ns and {:.0} instructions a packet, without objects {:.0} ns and {:.0}, generated {generated:.0} ns",
                objects.0, objects.1, plain.0, plain.1
            );
        }
    }
}
