//! Whole systems, each from one seed. `SIM_SEEDS=n` changes how many are played, `SIM_FIRST=n` the first.

use netfold_simulate::vopr;

const SEEDS: u64 = 160;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn every_invariant_holds_for_every_system() {
    let (first, seeds) = (number("SIM_FIRST").unwrap_or(0), number("SIM_SEEDS").unwrap_or(SEEDS));
    match vopr::explore(first, |begun| begun >= seeds, |_| {}) {
        Ok(totals) => {
            println!("{totals:#?}");
            assert_eq!(totals.seeds, seeds);
            // Faults come to pass, and most jobs survive them.
            assert!(totals.sums.faults > seeds && totals.sums.ended > 0);
            assert!(totals.sums.finished > totals.sums.ended);
            assert!(totals.sums.attacked > seeds / 4 && totals.sums.partial > seeds);
            assert!(totals.sums.spilled > seeds);
        }
        Err(violation) => {
            panic!("{violation}\nreplay: netfold testbed vopr --seed {} --seeds 1", violation.seed)
        }
    }
}
