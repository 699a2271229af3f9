//! The interpreter against the generated fast paths, packet by packet, over random sequences.
//! `DIFF_SEED=n` replays one sequence of each profile; `DIFF_PACKETS=n` changes how many packets are compared.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use netfold_lab::differential::{Sequence, Settings, Tally, compare};
use netfold_p4::allreduce;
use netfold_p4::profile::{Encapsulation, Numerics, Profile};
use netfold_switch::{Engine, InterpretedPipeline, SimdLevel, pipeline_for};
use netfold_wire::Reason;

/// Packets of one sequence.
const PACKETS: usize = 2_000;

/// Packets compared altogether.
const PACKETS_ALL: u64 = 2_000_000;

/// Profiles that have a fast path, and how many of every hundred sequences each gets.
fn profiles() -> Vec<(Profile, usize)> {
    let ethernet = Profile {
        encapsulation: Encapsulation::Ethernet,
        ecn_depth: 16,
        trim_depth: 24,
        ..Profile::software(64)
    };
    let numerics = Numerics::ALL.iter().filter(|numerics| **numerics != Numerics::Word);
    let converted = numerics.map(|numerics| (Profile::software_with(352, *numerics), 1));
    let mut profiles = vec![(Profile::software(64), 40), (ethernet, 40), (Profile::software(352), 4)];
    profiles.extend([
        (Profile::software(64).for_best_effort(), 10),
        (Profile::software(352).for_best_effort(), 2),
    ]);
    profiles.extend(converted);
    profiles
}

fn play(seed: u64, profile: &Profile, level: SimdLevel) -> Tally {
    let sequence = Sequence::from_seed(seed, profile, &Settings::software(PACKETS));
    let program = allreduce::program(profile).expect("the profile is in range");
    let (mut generated, engine) = pipeline_for(&program).expect("the program is valid");
    assert_eq!(engine, Engine::Generated);
    generated.set_simd(level);
    let interpreted = InterpretedPipeline::new(Arc::new(program)).expect("the program is valid");
    compare(&sequence, generated, Box::new(interpreted)).unwrap_or_else(|difference| {
        panic!("{difference}\nreplay: DIFF_SEED={seed} cargo test -p netfold-lab --test suite differential::")
    })
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn the_interpreter_and_the_fast_paths_agree() {
    let profiles = profiles();
    let levels: Vec<_> = SimdLevel::available().collect();
    if let Some(seed) = number("DIFF_SEED") {
        for (profile, level) in profiles.iter().flat_map(|(p, _)| levels.iter().map(move |level| (p, *level)))
        {
            println!("{}: {}", level.name(), play(seed, profile, level));
        }
        return;
    }
    let start = Instant::now();
    let sequences = number("DIFF_PACKETS").unwrap_or(PACKETS_ALL).div_ceil(PACKETS as u64);
    let shares: Vec<_> =
        profiles.iter().flat_map(|(profile, share)| (0..*share).map(move |_| profile)).collect();
    let next = AtomicU64::new(0);
    let total = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= sequences {
                        break;
                    }
                    // Every profile meets every build of the fast path.
                    let (round, share) = (seed as usize / shares.len(), seed as usize % shares.len());
                    let tally = play(seed, shares[share], levels[(round + share) % levels.len()]);
                    *total.lock().expect("no thread panics while it holds the sum") += tally;
                }
            });
        }
    });
    let total = total.into_inner().expect("no thread panics while it holds the sum");
    println!("seeds 0 to {}: {total}; {:.1} s", sequences - 1, start.elapsed().as_secs_f64());
    // The sequences do meet what they are there for.
    assert!(total.answers.iter().all(|count| *count > 0), "{total}");
    assert!(total.reasons.iter().filter(|count| **count == 0).count() <= 3, "{total}");
    assert!(total.reasons[Reason::Path as usize] > 0, "{total}");
}
