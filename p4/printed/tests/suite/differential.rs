//! Random sequences: every packet, every counter behind it, and the registers at the end. `DIFF_SEED=n` replays one sequence of each profile;
//! `DIFF_SEQUENCES=n` changes how many are played.

use netfold_p4::allreduce;
use netfold_p4::profile::{Numerics, Profile};
use netfold_p4::tna::{Chip, print, print_in_passes};
use netfold_wire::{LaneOp, Reason};

use crate::rig::Trace;

/// Packets of one sequence.
const PACKETS: usize = 300;

/// Sequences of each program.
const SEQUENCES: u64 = 2;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// Programs of several passes: the words of a packet, and in how many passes.
fn programs_in_passes() -> Vec<(String, Profile, u32)> {
    use LaneOp::{Max, Min, Sum};
    let few = |lane_words, ops: &[LaneOp]| Profile {
        ops: ops.to_vec(),
        lane_words,
        slots: 64,
        ..Profile::tofino()
    };
    let words = |lane_words| Profile { lane_words, slots: 1024, ..Profile::tofino() };
    let list = [
        ("256 words", words(256), 4),
        ("352 words", words(352), 8),
        ("16 words", few(16, &[Sum]), 2),
        ("24 words, max", few(24, &[Max]), 3),
        ("16 words, sum, min and max", few(16, &[Sum, Min, Max]), 2),
        ("16 words, four queues", Profile { priorities: 4, ..few(16, &[Sum]) }, 2),
        ("32 words, trees", Profile { hierarchy: true, ..few(32, &[Sum]) }, 4),
        ("256 words, trees", Profile { hierarchy: true, ..words(256) }, 4),
    ];
    let named = |(name, profile, passes)| (format!("{name} in {passes} passes"), profile, passes);
    list.into_iter().map(named).collect()
}

/// The programs: what is printed differs by chip, words, operations and level.
fn programs() -> Vec<(String, Chip, Profile)> {
    use LaneOp::{Max, Min, Sum, Xor};
    let base = Profile::tofino();
    let words = |lane_words| Profile { lane_words, ..base.clone() };
    let few = |ops: &[LaneOp]| Profile { ops: ops.to_vec(), lane_words: 8, slots: 64, ..base.clone() };
    let (one, two) = (Chip::Tofino1, Chip::Tofino2);
    let queued = |profile| Profile { priorities: 4, trim_depth: 24, transit: 8, ..profile };
    let tree = |lane_words| Profile { hierarchy: true, ..words(lane_words) };
    let list = [
        ("64 words", one, base.clone()),
        ("64 words", two, base.clone()),
        ("70 words", one, words(70)),
        ("84 words", two, words(84)),
        ("64 words, trees", two, tree(64)),
        ("min", one, few(&[Min])),
        ("max", one, few(&[Max])),
        ("max", two, few(&[Max])),
        ("xor", one, few(&[Xor])),
        ("sum and max", two, few(&[Sum, Max])),
        ("56 words, saturating", two, Profile { numerics: Numerics::Saturating, ..words(56) }),
        ("8 words, saturating", two, Profile { numerics: Numerics::Saturating, ..few(&[Sum]) }),
        (
            "8 words, saturating, trees",
            two,
            Profile { numerics: Numerics::Saturating, hierarchy: true, ..few(&[Sum]) },
        ),
        ("sum, min and max", two, few(&[Sum, Min, Max])),
        ("sum, min and max, trees", two, Profile { hierarchy: true, ..few(&[Sum, Min, Max]) }),
        ("sum and max", one, few(&[Sum, Max])),
        (
            "8 words, saturating sum, min and max",
            two,
            Profile { numerics: Numerics::Saturating, ..few(&[Sum, Min, Max]) },
        ),
        ("8 words, trees", two, Profile { hierarchy: true, ..few(&[Sum]) }),
        ("52 words, trees", one, tree(52)),
        ("8 words, trees", one, Profile { hierarchy: true, ..few(&[Sum]) }),
        ("sum and max, trees", one, Profile { hierarchy: true, ..few(&[Sum, Max]) }),
        ("14 words, owners and queues, trees", one, Profile { owners: true, ..queued(tree(14)) }),
        ("64 words, owners", two, Profile { owners: true, ..base.clone() }),
        ("14 words, owners", one, Profile { owners: true, ..words(14) }),
        ("64 words, owners, trees", two, Profile { owners: true, ..tree(64) }),
        (
            "8 words, saturating, owners, trees",
            two,
            Profile { numerics: Numerics::Saturating, owners: true, hierarchy: true, ..few(&[Sum]) },
        ),
        ("four queues", one, Profile { priorities: 4, ..base.clone() }),
        ("eight queues, trees", two, Profile { priorities: 8, ..tree(64) }),
        ("trimming, trees", two, Profile { trim_depth: 24, ..tree(64) }),
        ("8 words, forwarding, trimming and queues", one, queued(few(&[Sum]))),
        (
            "64 words, forwarding, trimming, queues and owners",
            two,
            Profile { owners: true, ..queued(base.clone()) },
        ),
        ("14 words, all of these", one, Profile { owners: true, ..queued(words(14)) }),
        ("70 words, all of these, trees", two, Profile { owners: true, ..queued(tree(70)) }),
    ];
    list.into_iter()
        .map(|(name, chip, profile)| (format!("{name}, {}", chip.name()), chip, profile))
        .collect()
}

/// Plays sequences of each program, and prints how many packets of each reason they have.
fn play(name: &str, profile: &Profile, passes: usize, text: &str, first: u64) -> [usize; 3] {
    let seeds = match number("DIFF_SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + number("DIFF_SEQUENCES").unwrap_or(SEQUENCES),
    };
    let mut reasons = vec![0; Reason::ALL.len()];
    let mut played = [0; 3];
    for seed in seeds {
        let trace = Trace::in_passes(profile, passes, seed, PACKETS);
        trace.compare(text).unwrap_or_else(|difference| {
            panic!("{name}: {difference:?}\nreplay: DIFF_SEED={seed} cargo test -p netfold-p4-printed")
        });
        let copies = trace.steps.iter().map(|step| step.copies.len()).sum::<usize>();
        played.iter_mut().zip([1, trace.steps.len(), copies]).for_each(|(sum, count)| *sum += count);
        let last = &trace.steps.last().unwrap().counters[0];
        reasons.iter_mut().zip(last).for_each(|(sum, count)| *sum += count);
    }
    println!("{name}: packets by reason {reasons:?}");
    assert!(reasons.iter().filter(|count| **count > 0).count() > 5, "{name}: {reasons:?}");
    played
}

fn summary(played: &[[usize; 3]]) -> String {
    let sum = |at: usize| played.iter().map(|counts| counts[at]).sum::<usize>();
    format!("0 differences; {} sequences, {} packets in, {} out", sum(0), sum(1), sum(2))
}

#[test]
fn printed_programs_and_the_interpreter_agree() {
    let mut played = Vec::new();
    for (at, (name, chip, profile)) in programs().into_iter().enumerate() {
        let text = print(&allreduce::program(&profile).unwrap(), chip).unwrap();
        played.push(play(&name, &profile, 1, &text, 1000 * at as u64));
    }
    println!("printed Tofino programs: {}", summary(&played));
}

#[test]
fn programs_of_several_passes_and_the_interpreter_agree() {
    let mut played = Vec::new();
    for (at, (name, profile, passes)) in programs_in_passes().into_iter().enumerate() {
        let program = allreduce::program(&profile).unwrap();
        let text = print_in_passes(&program, Chip::Tofino2, passes).unwrap();
        played.push(play(&name, &profile, passes as usize, &text, 100_000 + 1000 * at as u64));
    }
    println!("printed programs of several passes: {}", summary(&played));
}
