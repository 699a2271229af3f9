use super::*;

#[test]
fn rams_are_those_of_published_programs() {
    let limits = Limits::of(Chip::Tofino1);
    // SwitchML: 16384 pairs take 8 blocks and a spare, 36 of 48 map RAMs in a stage.
    assert_eq!(limits.rams(16384, 64), 9);
    assert!(limits.rams(16384, 64) * limits.units <= limits.map_rams);
    // ATP: 40000 words; the most that four registers of a stage can have is 45056.
    assert_eq!(limits.rams(40000, 32), 11);
    assert_eq!(limits.rams(45056, 32) * limits.units, limits.map_rams);
    assert!(limits.rams(45057, 32) * limits.units > limits.map_rams);
}

#[test]
fn sixty_four_words_fit_twelve_stages() {
    let profile = Profile { slots: 4096, ..Profile::tofino() };
    let found = estimate(&profile, Chip::Tofino1).expect("the layout that the profile is made for");
    assert_eq!((found.words, found.entries, found.stages, found.stages_of), (64, 8192, 12, 12));
    assert_eq!((found.pipes, found.passes, found.passes_last), (1, 1, 2));
    assert_eq!(found.slots_max, 8192);
    assert_eq!(found.rams_per_stage, 20);
    assert_eq!(found.register_actions, 4);
    // 1,932 entries: 161 for a job of 32 workers, 11 for one of 2, 21 for one of 4; the next 512 take blocks that the stage does not have.
    assert_eq!((found.jobs, found.jobs_max, found.jobs_of_2, found.jobs_of_4), (12, 15, 175, 92));
    let most = Profile { jobs: found.jobs_max, ..profile.clone() };
    assert!(estimate(&most, Chip::Tofino1).is_ok());
    let more = Profile { jobs: found.jobs_max + 1, ..profile.clone() };
    assert!(estimate(&more, Chip::Tofino1).is_err());
    let small = estimate(&Profile { lane_words: 32, workers: 16, ..profile.clone() }, Chip::Tofino1)
        .expect("half the words");
    assert_eq!(small.stages, 8);
    let second = estimate(&profile, Chip::Tofino2).expect("more stages, fewer containers");
    assert_eq!((second.stages, second.passes_last), (12, 1));
    assert!((0..3).all(|i| second.containers[i] <= second.containers_of[i]), "{:?}", second.containers);
    let folded = estimate(&Profile { lane_words: 256, ..profile }, Chip::Tofino1).expect("four pipes");
    assert_eq!((folded.pipes, folded.passes, folded.passes_last), (4, 4, 11));
}

/// Stages, SRAM blocks, map RAMs, TCAM blocks, stateful units and bits of containers that p4c-barefoot 9.13.4 used; bfas assembled each.
fn measured() -> Vec<(Profile, Chip, [u32; 6])> {
    let base = Profile::tofino();
    let words = |lane_words| Profile { lane_words, ..base.clone() };
    let tree = |lane_words| Profile { hierarchy: true, ..words(lane_words) };
    let several = |lane_words| Profile { slots: 1024, ..words(lane_words) };
    let saturating = |profile| Profile { numerics: Numerics::Saturating, ..profile };
    let ops = |lane_words, ops: &[LaneOp]| Profile { ops: ops.to_vec(), ..words(lane_words) };
    let three = &[LaneOp::Sum, LaneOp::Min, LaneOp::Max];
    let featured =
        |profile| Profile { owners: true, trim_depth: 16, transit: 1024, priorities: 4, ..profile };
    vec![
        (base.clone(), Chip::Tofino1, [12, 229, 174, 157, 35, 3528]),
        (words(70), Chip::Tofino1, [12, 247, 189, 169, 38, 3720]),
        (tree(32), Chip::Tofino1, [11, 136, 97, 99, 20, 2616]),
        (tree(52), Chip::Tofino1, [12, 197, 147, 165, 30, 3272]),
        (featured(tree(14)), Chip::Tofino1, [9, 99, 54, 79, 11, 2848]),
        (
            Profile { hierarchy: true, ..ops(46, &[LaneOp::Sum, LaneOp::Max]) },
            Chip::Tofino1,
            [12, 180, 132, 154, 27, 3080],
        ),
        (several(88), Chip::Tofino2, [10, 119, 77, 114, 25, 2784]),
        (several(128), Chip::Tofino2, [13, 159, 107, 154, 35, 3424]),
        (several(256), Chip::Tofino2, [13, 226, 174, 154, 35, 3424]),
        (Profile { hierarchy: true, ..several(256) }, Chip::Tofino2, [15, 234, 177, 200, 36, 3552]),
        (Profile { hierarchy: true, ..several(352) }, Chip::Tofino2, [13, 270, 223, 150, 26, 2912]),
        (several(352), Chip::Tofino2, [10, 260, 218, 114, 25, 2784]),
        (words(32), Chip::Tofino1, [9, 132, 94, 93, 19, 2480]),
        (Profile { priorities: 4, ..words(70) }, Chip::Tofino1, [12, 248, 189, 170, 38, 3736]),
        (Profile { owners: true, ..words(14) }, Chip::Tofino1, [6, 84, 49, 60, 10, 2760]),
        (Profile { transit: 1024, ..words(14) }, Chip::Tofino1, [6, 84, 51, 59, 10, 2672]),
        (featured(words(14)), Chip::Tofino1, [6, 93, 51, 65, 10, 2760]),
        (base.clone(), Chip::Tofino2, [12, 226, 174, 154, 35, 3256]),
        (words(84), Chip::Tofino2, [14, 286, 224, 194, 45, 3888]),
        (Profile { jobs: 64, ..base.clone() }, Chip::Tofino2, [15, 238, 174, 222, 35, 3256]),
        (Profile { slots: 16384, ..base.clone() }, Chip::Tofino2, [19, 629, 577, 154, 35, 3256]),
        (tree(64), Chip::Tofino2, [14, 232, 177, 161, 36, 3376]),
        (tree(80), Chip::Tofino2, [16, 280, 217, 191, 44, 3864]),
        (Profile { priorities: 4, ..words(84) }, Chip::Tofino2, [14, 287, 224, 195, 45, 3896]),
        (featured(tree(70)), Chip::Tofino2, [16, 267, 194, 218, 39, 3944]),
        (ops(64, &[LaneOp::Max]), Chip::Tofino1, [12, 229, 174, 157, 35, 3560]),
        (ops(62, &[LaneOp::Sum, LaneOp::Max]), Chip::Tofino1, [12, 224, 169, 157, 34, 3496]),
        (ops(64, three), Chip::Tofino2, [12, 227, 174, 157, 35, 3256]),
        (Profile { hierarchy: true, ..ops(64, three) }, Chip::Tofino2, [14, 233, 177, 195, 36, 3376]),
        (ops(84, three), Chip::Tofino2, [15, 287, 224, 197, 45, 3888]),
        (Profile { hierarchy: true, ..ops(80, three) }, Chip::Tofino2, [16, 281, 217, 235, 44, 3864]),
        (featured(saturating(words(32))), Chip::Tofino2, [16, 180, 112, 184, 35, 2528]),
        (featured(saturating(words(48))), Chip::Tofino2, [20, 247, 160, 260, 51, 3160]),
        (saturating(words(56)), Chip::Tofino2, [20, 265, 182, 292, 59, 2992]),
        (saturating(tree(48)), Chip::Tofino2, [20, 238, 161, 260, 52, 2840]),
    ]
}

#[test]
fn estimates_are_near_what_the_compiler_uses() {
    for (profile, chip, [stages, sram, map_rams, tcam, units, phv]) in measured() {
        let name = format!("{} words, {} slots, {}", profile.lane_words, profile.slots, chip.name());
        let found = estimate(&profile, chip).unwrap_or_else(|error| panic!("{name}: {error}"));
        println!(
            "{name}: stages {}, SRAM {}, map RAMs {}, TCAM {}, units {}, containers {}",
            found.stages,
            found.sram_blocks,
            found.map_rams,
            found.tcam_blocks,
            found.stateful_units,
            found.phv_bits
        );
        assert!(found.stages.abs_diff(stages) <= 1, "{name}: {} stages", found.stages);
        for (what, estimated, used) in [
            ("SRAM", found.sram_blocks, sram),
            ("map RAMs", found.map_rams, map_rams),
            ("TCAM", found.tcam_blocks, tcam),
            ("stateful units", found.stateful_units, units),
            ("containers", found.phv_bits, phv),
        ] {
            assert!(estimated.abs_diff(used) * 5 <= used, "{name}: {estimated} of {what}, used {used}");
        }
    }
}

#[test]
fn a_pass_costs_ports() {
    let with = |lane_words, workers| Profile { lane_words, workers, ..Profile::tofino() };
    let cost = |profile: Profile, chip| {
        let found = estimate(&profile, chip).unwrap_or_else(|error| panic!("{error}"));
        (found.pipes, found.passes, found.passes_last, found.recirculated, found.ports_for_hosts)
    };
    // One packet of each slot comes back for its other half.
    assert_eq!(cost(with(64, 4), Chip::Tofino1), (1, 1, 2, 0.25, 0.8));
    assert_eq!(cost(with(64, 4), Chip::Tofino2), (1, 1, 1, 0.0, 1.0));
    // Two pipes: every packet once, and the last one three more passes on Tofino 1.
    assert_eq!(cost(with(128, 1), Chip::Tofino1), (2, 2, 5, 4.0, 0.2));
    assert_eq!(cost(with(256, 8), Chip::Tofino1), (4, 4, 11, 3.875, 1.0 / 4.875));
    let max = Profile { ops: vec![LaneOp::Max], ..with(256, 8) };
    assert_eq!(cost(max, Chip::Tofino1), (4, 4, 11, 3.875, 1.0 / 4.875));
}

#[test]
fn passes_through_the_same_pipe_carry_fewer_words_each() {
    let found = |lane_words, workers| {
        let profile = Profile { lane_words, workers, slots: 1024, ..Profile::tofino() };
        estimate(&profile, Chip::Tofino2).unwrap_or_else(|error| panic!("{error}"))
    };
    // 98 bytes around the lanes, and 20 of the header between passes: 118 and 64 words, forward and back.
    let two = found(128, 1);
    assert_eq!((two.pipes, two.passes, two.passes_last, two.recirculated), (1, 2, 3, 2.0));
    assert_eq!(two.recirculated_bytes, 374.0 / 610.0 * 2.0);
    assert_eq!(two.ports_for_hosts, 1.0 / (1.0 + two.recirculated_bytes));
    let four = found(256, 8);
    assert_eq!((four.pipes, four.passes, four.passes_last, four.recirculated), (1, 4, 7, 3.375));
    assert_eq!(four.recirculated_bytes, f64::from(118 * 3 + 256 * 6) / 1122.0 * 1.125);
    // The registers are those of as many slots as there are parts, and the lanes those of one pass.
    assert_eq!((four.entries, four.slots_max), (8192, 4096));
    let one = estimate(&Profile::tofino(), Chip::Tofino2).unwrap();
    assert_eq!((four.stages, four.map_rams, four.stateful_units), (13, one.map_rams, one.stateful_units));
    assert_eq!(found(352, 8).passes, 8);
    let refused = |lane_words, slots, trees| {
        let profile = Profile { lane_words, slots, hierarchy: trees, ..Profile::tofino() };
        estimate(&profile, Chip::Tofino2).expect_err("must not fit").to_string()
    };
    for words in [86, 514] {
        let error = refused(words, 1024, false);
        assert!(error.contains(&format!("{words} words")) && error.contains("2 to 8 passes"), "{error}");
    }
    let error = refused(256, 8192, false);
    assert!(error.contains("8192 slots in each of 4 passes") && error.contains("4096 slots"), "{error}");
    let error = refused(256, 16384, false);
    assert!(error.contains("index of 16 bits") && error.contains("8192 slots"), "{error}");
}

#[test]
fn what_cannot_fit_is_refused_with_its_limit() {
    let refused = |change: fn(&mut Profile), chip| {
        let mut profile = Profile::tofino();
        change(&mut profile);
        estimate(&profile, chip).expect_err("must not fit")
    };
    let words = refused(|p| p.lane_words = 352, Chip::Tofino1);
    assert!(words.construct.contains("352 words") && words.limit.contains("280 words"), "{words}");
    let slots = refused(|p| p.slots = 16384, Chip::Tofino1);
    assert!(slots.construct.contains("16384 slots") && slots.limit.contains("map RAMs"), "{slots}");
    let all = |p: &mut Profile| p.ops = LaneOps::WORDS.iter().collect();
    let ops = refused(all, Chip::Tofino1);
    assert!(ops.construct.contains("5 register actions") && ops.limit.contains('4'), "{ops}");
    let with_and = |p: &mut Profile| p.ops = vec![LaneOp::Sum, LaneOp::Min, LaneOp::Max, LaneOp::And];
    let ops = refused(with_and, Chip::Tofino2);
    assert!(ops.construct.contains("5 register actions"), "{ops}");
    let saturating = |p: &mut Profile| p.numerics = Numerics::Saturating;
    let comparisons = refused(saturating, Chip::Tofino1);
    assert!(comparisons.construct.contains("saturating"), "{comparisons}");
    let jobs = refused(|p| p.jobs = 64, Chip::Tofino1);
    assert!(jobs.limit.contains("job") && jobs.limit.contains("24"), "{jobs}");
    assert!(jobs.limit.contains("--jobs "), "{jobs}");
}
