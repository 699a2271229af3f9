//! Feeds a target with random inputs: what is left of fuzzing where there is no C++ compiler to build libFuzzer with.
//!
//! `random TARGET SECONDS`

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some((_, target)) = netfold_fuzz::TARGETS.iter().find(|(known, _)| *known == name) else {
        panic!("no fuzz target is called '{name}'");
    };
    let seconds = arguments.next().and_then(|word| word.parse().ok()).unwrap_or(20);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = 0;
    while Instant::now() < end {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut data = vec![0; rng.random_range(0..1024)];
        rng.fill_bytes(&mut data);
        if std::panic::catch_unwind(|| target(&data)).is_err() {
            panic!("{name} fails for seed {seed}: {data:02x?}");
        }
        seed += 1;
    }
    println!("{name}: {seed} inputs");
}
