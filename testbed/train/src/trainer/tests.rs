use std::sync::mpsc;
use std::thread;

use super::*;
use crate::Agreement;

/// Sums over threads: every rank sends its contribution to all, and adds what it received in rank order. `round` is applied to each
/// contribution first, as a numeric mode would.
struct Exchange {
    rank: usize,
    to: Vec<mpsc::Sender<Vec<f32>>>,
    from: Vec<mpsc::Receiver<Vec<f32>>>,
    round: fn(&mut [f32]),
}

impl Exchange {
    fn mesh(world: usize, round: fn(&mut [f32])) -> Vec<Self> {
        let mut rows: Vec<Self> =
            (0..world).map(|rank| Self { rank, to: Vec::new(), from: Vec::new(), round }).collect();
        for sender in 0..world {
            for receiver in 0..world {
                let (to, from) = mpsc::channel();
                rows[sender].to.push(to);
                rows[receiver].from.push(from);
            }
        }
        rows
    }
}

impl Reducer for Exchange {
    type Error = String;

    fn start(&mut self, mut gradient: Vec<f32>) -> Result<(), String> {
        (self.round)(&mut gradient);
        self.to
            .iter()
            .try_for_each(|to| to.send(gradient.clone()))
            .map_err(|_| format!("rank {} lost a peer", self.rank))
    }

    fn finish(&mut self) -> Result<Vec<f32>, String> {
        let mut sum = Vec::new();
        for from in &self.from {
            let contribution = from.recv().map_err(|_| "a peer has closed".to_owned())?;
            if sum.is_empty() {
                sum = contribution;
            } else {
                sum.iter_mut().zip(&contribution).for_each(|(sum, &contribution)| *sum += contribution);
            }
        }
        Ok(sum)
    }
}

fn train(
    digits: &Digits,
    config: &TrainConfig,
    world: usize,
    round: fn(&mut [f32]),
) -> Vec<(u64, Vec<Evaluation>)> {
    thread::scope(|scope| {
        let workers: Vec<_> = Exchange::mesh(world, round)
            .into_iter()
            .map(|mut exchange| {
                scope.spawn(move || {
                    let rank = exchange.rank;
                    let mut trainer = Trainer::new(digits, config, rank..rank + 1, world).unwrap();
                    let mut curve = vec![trainer.evaluate()];
                    for _ in 0..config.epochs {
                        trainer.epoch(&mut exchange).unwrap();
                        curve.push(trainer.evaluate());
                    }
                    (trainer.network().digest(), curve)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    })
}

fn short() -> TrainConfig {
    TrainConfig { epochs: 2, hidden: vec![32], ..TrainConfig::default() }
}

/// Keeps 12 bits of the largest value's scale: coarser than bfp16 with 4 workers.
fn coarse(values: &mut [f32]) {
    for block in values.chunks_mut(704) {
        let largest = block.iter().fold(0.0_f32, |a, b| a.max(b.abs()));
        if largest > 0.0 {
            let scale = 4096.0 / largest;
            block.iter_mut().for_each(|value| *value = (*value * scale).round() / scale);
        }
    }
}

#[test]
fn exact_sums_give_the_reference_bit_for_bit() {
    let digits = Digits::embedded().unwrap();
    for world in [1, 3] {
        let want = reference(&digits, &short(), world).unwrap();
        let got = train(&digits, &short(), world, |_| {});
        for (digest, curve) in &got {
            assert_eq!(curve, &want, "{world} workers");
            assert_eq!(*digest, got[0].0);
        }
    }
}

#[test]
fn rounded_sums_agree_and_another_training_does_not() {
    let digits = Digits::embedded().unwrap();
    let config = TrainConfig { epochs: 12, ..TrainConfig::default() };
    let want = reference(&digits, &config, 2).unwrap();
    let last = want.last().unwrap();
    assert!(last.test_accuracy > 0.94, "{last:?}");
    let rounded = &train(&digits, &config, 2, coarse)[0].1;
    let agreement = Agreement::of(rounded, &want).unwrap();
    assert!(agreement.agrees(), "{agreement:?}");
    assert_ne!(rounded.last(), want.last(), "rounding must have changed something");

    // Half of the gradient missing, as when a worker's contribution is lost, and a different run.
    let halved = &train(&digits, &config, 2, |values| values.iter_mut().for_each(|v| *v *= 0.5))[0].1;
    let agreement = Agreement::of(halved, &want).unwrap();
    assert!(!agreement.agrees(), "{agreement:?}");
    let other = reference(&digits, &TrainConfig { seed: 2, ..config }, 2).unwrap();
    let agreement = Agreement::of(&other, &want).unwrap();
    assert!(!agreement.agrees(), "{agreement:?}");
}

#[test]
fn a_seed_decides_everything() {
    let digits = Digits::embedded().unwrap();
    assert_eq!(reference(&digits, &short(), 2).unwrap(), reference(&digits, &short(), 2).unwrap());
    let other = TrainConfig { seed: 2, ..short() };
    assert_ne!(reference(&digits, &short(), 2).unwrap(), reference(&digits, &other, 2).unwrap());
}

#[test]
fn shards_cover_a_batch_once() {
    for world in 1..9 {
        for len in 0..40 {
            let mut at = 0;
            for rank in 0..world {
                let part = shard(len, rank, world);
                assert_eq!(part.start, at);
                assert!(part.len().abs_diff(len / world) <= 1);
                at = part.end;
            }
            assert_eq!(at, len);
        }
    }
}

#[test]
fn bad_settings_are_refused() {
    let digits = Digits::embedded().unwrap();
    let new = |change: fn(&mut TrainConfig), ranks, world| {
        let mut config = short();
        change(&mut config);
        Trainer::new(&digits, &config, ranks, world).map(|_| ()).unwrap_err()
    };
    let images = digits.train.len();
    assert_eq!(new(|c| c.batch = 0, 0..1, 1), ConfigError::Batch { batch: 0, images });
    assert_eq!(new(|c| c.batch = 9999, 0..1, 1), ConfigError::Batch { batch: 9999, images });
    assert!(matches!(new(|c| c.learning_rate = f32::NAN, 0..1, 1), ConfigError::Rate { .. }));
    assert!(matches!(new(|c| c.momentum = 1.0, 0..1, 1), ConfigError::Rate { .. }));
    assert_eq!(new(|c| c.hidden = vec![3, 0], 0..1, 1), ConfigError::Hidden { layer: 1 });
    assert_eq!(new(|_| {}, 1..3, 2), ConfigError::Ranks { first: 1, end: 3, world: 2 });
    assert!(matches!(new(|_| {}, 1..1, 2), ConfigError::Ranks { .. }));
}

#[test]
fn a_reducer_that_fails_or_lies_ends_the_training() {
    struct Broken;
    impl Reducer for Broken {
        type Error = &'static str;
        fn start(&mut self, _: Vec<f32>) -> Result<(), &'static str> {
            Err("no switch")
        }
        fn finish(&mut self) -> Result<Vec<f32>, &'static str> {
            Err("never asked")
        }
    }
    struct Short;
    impl Reducer for Short {
        type Error = &'static str;
        fn start(&mut self, _: Vec<f32>) -> Result<(), &'static str> {
            Ok(())
        }
        fn finish(&mut self) -> Result<Vec<f32>, &'static str> {
            Ok(vec![0.0; 3])
        }
    }
    let digits = Digits::embedded().unwrap();
    let mut trainer = Trainer::new(&digits, &short(), 0..1, 1).unwrap();
    assert_eq!(trainer.epoch(&mut Broken), Err(StepError::Reducer("no switch")));
    assert_eq!(
        trainer.epoch(&mut Short),
        Err(StepError::Length { layer: 1, expected: 33 * CLASSES, found: 3 })
    );
}
