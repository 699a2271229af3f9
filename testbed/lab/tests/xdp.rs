//! The kernel's driver path, running the lowered programs, against the interpreter: packet by packet over random sequences, with counters after every
//! packet and registers at the end. `DIFF_SEED=n` replays one sequence of each profile; `DIFF_SEQUENCES=n` changes how many are played.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_io::{PortId, Received};
use netfold_lab::differential::{Arrival, Sequence, Settings, Tally, XdpPipeline, XdpRigError, compare};
use netfold_p4::allreduce;
use netfold_p4::ir::Program;
use netfold_p4::profile::{NamedProfile, Profile, named};
use netfold_p4::xdp;
use netfold_switch::{InterpretedPipeline, Pipeline, pipeline_for};
use netfold_wire::{LaneOp, Reason};
use netfold_xdp::XdpError;

/// Packets of one sequence.
const PACKETS: usize = 300;

/// Sequences of each profile.
const SEQUENCES: u64 = 3;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// What can be sent over an interface: at least an Ethernet header.
fn settings(packets: usize) -> Settings {
    Settings { bytes_min: 14, ..Settings::software(packets) }
}

/// The program in the kernel; `None`, with a line that says so, where that is not permitted.
fn load(program: &Arc<Program>, sequence: &Sequence) -> Option<XdpPipeline> {
    match XdpPipeline::new(Arc::clone(program), &sequence.groups) {
        Ok(pipeline) => Some(pipeline),
        Err(XdpRigError::Load(XdpError::Map { source, .. }))
            if source.kind() == ErrorKind::PermissionDenied =>
        {
            println!("skipped: bpf(2) is not permitted");
            None
        }
        Err(error) => panic!("{}: {error}: {error:?}", program.about),
    }
}

/// Profiles beside the named ones: more lanes than instructions are repeated for, and packed elements.
fn profiles() -> Vec<NamedProfile> {
    let wide = Profile { lane_words: 352, slots: 64, jobs: 4, ..Profile::hardware() };
    let packed =
        Profile { lane_words: 8, slots: 64, jobs: 4, ops: LaneOp::ALL.to_vec(), ..Profile::hardware() };
    let mut profiles = named();
    profiles.push(NamedProfile { name: "352 words", about: "", profile: wide });
    profiles.push(NamedProfile { name: "packed", about: "", profile: packed });
    profiles
}

#[test]
fn the_kernel_and_the_interpreter_agree() {
    let start = Instant::now();
    let mut total = Tally::default();
    for (number_of, named) in profiles().into_iter().enumerate() {
        let program = Arc::new(allreduce::program(&named.profile).expect("the profile is in range"));
        if let Err(refusal) = xdp::lower(&program) {
            let refused = ["datagram", "small", "wide", "half", "float"];
            assert!(refused.contains(&named.name), "{}: {refusal}", named.name);
            println!("{}: {refusal}", named.name);
            continue;
        }
        let first = 1000 * number_of as u64;
        let seeds = match number("DIFF_SEED") {
            Some(seed) => seed..seed + 1,
            None => first..first + number("DIFF_SEQUENCES").unwrap_or(SEQUENCES),
        };
        let mut tally = Tally::default();
        for seed in seeds {
            let sequence = Sequence::from_seed(seed, &named.profile, &settings(PACKETS));
            let Some(pipeline) = load(&program, &sequence) else { return };
            let interpreted = InterpretedPipeline::new(Arc::clone(&program)).expect("the program is valid");
            let compared = compare(&sequence, Box::new(pipeline), Box::new(interpreted));
            tally += compared.unwrap_or_else(|difference| {
                panic!(
                    "{}: {difference}\nreplay: DIFF_SEED={seed} cargo test -p netfold-lab --test xdp",
                    named.name
                )
            });
        }
        println!("{}: {tally}", named.name);
        total += tally;
    }
    println!("XDP against the interpreter: 0 differences; {total}; {:.1} s", start.elapsed().as_secs_f64());
    assert!(total.copies > 0 && total.reasons.iter().filter(|count| **count > 0).count() > 5, "{total}");
    if number("DIFF_SEED").is_none() {
        assert!(total.reasons[Reason::Path as usize] > 0, "{total}");
    }
}

/// Time of ingress in the kernel, beside the generated pipeline of the software switch, on one thread and the same packets. It asserts no figure: machines
/// differ.
#[test]
#[ignore = "a measurement: run it alone, on a machine without other load"]
fn how_fast_the_kernel_is() {
    const BURST: usize = 32;
    const ROOM: usize = 4096;
    for lane_words in [64, 352] {
        let sums = Profile { lane_words, ops: vec![LaneOp::Sum], ..Profile::hardware() };
        let program = Arc::new(allreduce::program(&sums).expect("the profile is in range"));
        let sequence = Sequence::from_seed(1, &sums, &settings(20_000));
        let datagrams = Profile::software(lane_words);
        let software = Arc::new(allreduce::program(&datagrams).expect("the profile is in range"));
        let of_software = Sequence::from_seed(1, &datagrams, &settings(20_000));
        for _ in 0..3 {
            let Some(mut kernel) = load(&program, &sequence) else { return };
            sequence.entries.iter().for_each(|entry| kernel.insert(entry).expect("it fits"));
            let mut verdicts = Vec::new();
            for arrival in &sequence.packets {
                let mut memory = arrival.bytes.clone();
                memory.resize(ROOM, 0);
                let (port, len) = (PortId(arrival.port), arrival.bytes.len() as u32);
                kernel.burst(&[Received { port, offset: 0, len, ecn: 0 }], &mut memory, &mut verdicts);
            }
            let kernel_ns = kernel.nanoseconds() as f64 / sequence.packets.len() as f64;
            let (mut generated, _) = pipeline_for(&software).expect("the program is valid");
            of_software.entries.iter().for_each(|entry| generated.insert(entry).expect("it fits"));
            let (mut memory, mut spent) = (vec![0; BURST * ROOM], Duration::ZERO);
            for arrivals in of_software.packets.chunks(BURST) {
                let received = |(index, arrival): (usize, &Arrival)| {
                    let offset = index * ROOM;
                    memory[offset..offset + arrival.bytes.len()].copy_from_slice(&arrival.bytes);
                    let (port, len) = (PortId(arrival.port), arrival.bytes.len() as u32);
                    Received { port, offset: offset as u32, len, ecn: 0 }
                };
                let burst: Vec<Received> = arrivals.iter().enumerate().map(received).collect();
                verdicts.clear();
                let start = Instant::now();
                generated.burst(&burst, &mut memory, &mut verdicts);
                spent += start.elapsed();
            }
            let generated_ns = spent.as_nanos() as f64 / of_software.packets.len() as f64;
            println!("{lane_words} words: kernel {kernel_ns:.0} ns a packet, generated {generated_ns:.0}");
        }
    }
}
