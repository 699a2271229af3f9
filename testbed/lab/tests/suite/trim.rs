//! Real ranks at bmv2 switches whose queues trim droppable packets. Needs bmv2 and root; skips with a line without either.

use netfold::Tolerance;
use netfold_lab::run::RunError;
use netfold_lab::run::trim::{Trial, TrimConfig, TrimRig};

/// Bits a second of the links: so few that bmv2 fills them on a machine that is busy with other tests. A bmv2 that forwards less than the link carries has
/// no queue in front of it, and trims only what ranks repeat.
const RATE: u64 = 1_000_000;

fn rig() -> Option<TrimRig> {
    let config = TrimConfig { racks: 2, ranks: 2, elements: 8192, slots: 32, rate: RATE, seed: 1 };
    match TrimRig::start(config) {
        Ok(rig) => Some(rig),
        Err(error @ (RunError::Tool(_) | RunError::Network(_))) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn droppable_chunks_are_trimmed_under_load_and_all_ranks_get_the_same_result() {
    let Some(mut rig) = rig() else { return };
    let tolerance = Tolerance { rescale: false, ..Tolerance::fraction(0.1).expect("between 0 and 1") };
    let (tolerant, exact) = (Trial { load: 0.0, tolerance, class: 0, rounds: 1 }, Tolerance::NONE);

    let idle = rig.trial(&tolerant).expect("ranks finish");
    assert_eq!((idle.chunks, idle.wrong, idle.checked), (128, 0, 4 * 8192), "{idle:?}");
    assert!(idle.seen.spared > 0 && idle.seen.load == 0, "packets said that they may be trimmed: {idle:?}");

    let loaded = rig.trial(&Trial { load: 1.5, ..tolerant }).expect("ranks finish");
    assert_eq!(loaded.wrong, 0, "{loaded:?}");
    assert!(loaded.seen.trimmed > 0 && loaded.seen.load > 100, "{loaded:?}");
    assert!(loaded.partial > 0 && loaded.left_out >= loaded.partial, "{loaded:?}");
    assert!(loaded.left_out_max > 0 && loaded.left_out_max <= 12, "a tenth of 128 chunks: {loaded:?}");

    let whole = rig.trial(&Trial { load: 1.5, tolerance: exact, ..tolerant }).expect("ranks finish");
    assert_eq!((whole.wrong, whole.partial, whole.left_out, whole.seen.trimmed), (0, 0, 0, 0), "{whole:?}");

    let above = rig.trial(&Trial { load: 1.5, tolerance: exact, class: 1, rounds: 1 }).expect("ranks finish");
    assert_eq!((above.wrong, above.partial), (0, 0), "{above:?}");
    // The class of an operation arrives in its packets, spread over all there are.
    assert!(above.seen.above >= above.seen.whole && whole.seen.above == 0, "{above:?}, {whole:?}");
    println!("idle {idle:?}\nloaded {loaded:?}\nwhole {whole:?}\nabove {above:?}");
    println!("exact under load: {:?} in its class, {:?} above it", whole.mean, above.mean);
}
