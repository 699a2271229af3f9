use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use netfold_proto::OpSpec;

use super::*;
use crate::coding::Coding;
use crate::report::OpReport;

/// A rank, and its time.
struct Rank {
    shares: TreeShares,
    now: Instant,
}

impl Rank {
    fn new(trees: usize, rank: u16, world: u16) -> Self {
        let mut shares = TreeShares::new(trees);
        let request = Lowered { spec: OpSpec::BARRIER, coding: Coding::Nothing };
        shares.set_exchange(RateExchange { request, rank, world });
        Self { shares, now: Instant::now() }
    }

    /// Divides an operation among the trees in use, each of which takes so many microseconds for an even part; the weights that it was divided by.
    fn divide(&mut self, micros: &[u64]) -> Vec<u32> {
        let weights = self.shares.next_weights();
        let whole = Completion::default();
        self.shares.measure(self.now, &whole, std::iter::empty());
        let submitted = self.now;
        for (tree, weight) in self.shares.trees().to_vec().into_iter().zip(&weights) {
            let busy = Duration::from_micros(micros[tree] * u64::from(*weight) / u64::from(EVEN));
            self.shares.meters[tree].record(submitted, submitted + busy, u64::from(*weight));
            self.shares.sent[tree] += u64::from(*weight);
            self.now = self.now.max(submitted + busy);
        }
        whole.settle(Ok(OpReport::default()), None);
        weights
    }

    fn take_exchange(&mut self) -> Option<SwitchOperation> {
        self.shares.take_exchange()
    }
}

/// Plays the all-gather among ranks: each submits its part, and all get all of them.
fn gather(exchanges: Vec<SwitchOperation>) {
    let mut all = vec![0; exchanges[0].buffer.block_bytes(0, usize::MAX).len()];
    for exchange in &exchanges {
        all.iter_mut().zip(exchange.buffer.block_bytes(0, usize::MAX)).for_each(|(all, byte)| *all |= byte);
    }
    for mut exchange in exchanges {
        exchange.buffer.bytes_mut().copy_from_slice(&all);
        exchange.finish(OpReport::default());
    }
}

#[test]
fn all_ranks_divide_alike_by_the_slowest_rank() {
    let mut ranks: Vec<Rank> = (0..3).map(|rank| Rank::new(2, rank, 3)).collect();
    let mut exchanges = 0;
    for operation in 0..4000 {
        // Tree 1 is slow from the first on, seen by rank 2 alone.
        let costs = |rank: usize| if rank == 2 { [1000, 3000] } else { [1000, 1000] };
        let weights: Vec<Vec<u32>> =
            ranks.iter_mut().enumerate().map(|(number, rank)| rank.divide(&costs(number))).collect();
        assert!(weights.iter().all(|others| *others == weights[0]), "operation {operation}: {weights:?}");
        let due: Vec<SwitchOperation> = ranks.iter_mut().filter_map(Rank::take_exchange).collect();
        assert!(due.is_empty() || due.len() == 3, "all at the same operation");
        if !due.is_empty() {
            exchanges += 1;
            gather(due);
        }
        let turns: Vec<usize> = ranks.iter_mut().map(|rank| rank.shares.take_turn()).collect();
        assert!(turns.iter().all(|turn| *turn == turns[0]), "{turns:?}");
    }
    assert!(exchanges > 3, "{exchanges}");
    let fractions = ranks[0].shares.fractions();
    assert!((fractions[0] - 0.75).abs() < 0.05, "{fractions:?}");
    assert!((fractions.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn an_operation_waits_for_the_exchange_whose_weights_it_needs() {
    let mut rank = Rank::new(2, 0, 1);
    let exchange = loop {
        rank.divide(&[1000, 9000]);
        if let Some(exchange) = rank.take_exchange() {
            break exchange;
        }
    };
    for _ in 0..Pace::FIRST.lag {
        assert_eq!(rank.divide(&[1000, 9000]), [EVEN; 2], "not applied yet");
    }
    let exchange = Mutex::new(Some(exchange));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| rank.divide(&[1000, 9000]));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished(), "it needs weights that are not known");
        gather(exchange.lock().unwrap().take().into_iter().collect());
        let weights = waiting.join().unwrap();
        assert!(weights[0] > weights[1], "{weights:?}");
    });
}

#[test]
fn a_failed_exchange_leaves_the_weights() {
    let mut rank = Rank::new(2, 0, 1);
    for _ in 0..50 {
        assert_eq!(rank.divide(&[1000, 9000]), [EVEN; 2]);
        if let Some(exchange) = rank.take_exchange() {
            exchange.fail(Error::Closed);
        }
    }
}

#[test]
fn a_tree_that_is_used_again_begins_with_an_even_share() {
    let mut rank = Rank::new(3, 0, 1);
    for _ in 0..40 {
        rank.divide(&[1000, 1000, 9000]);
        let due: Vec<SwitchOperation> = rank.take_exchange().into_iter().collect();
        if !due.is_empty() {
            gather(due);
        }
    }
    assert!(rank.shares.fractions()[2] < 0.2, "{:?}", rank.shares.fractions());
    rank.shares.use_trees(&[0, 1]);
    assert_eq!(rank.shares.fractions()[2], 0.0);
    assert_eq!(rank.divide(&[1000, 1000, 0]).len(), 2);
    rank.shares.use_trees(&[0, 1, 2]);
    assert_eq!(rank.shares.weights[2], EVEN);
}

#[test]
fn without_an_exchange_shares_stay_even() {
    let mut shares = TreeShares::new(2);
    for _ in 0..50 {
        assert_eq!(shares.next_weights(), [EVEN; 2]);
        shares.measure(Instant::now(), &Completion::default(), std::iter::empty());
        assert!(shares.take_exchange().is_none());
    }
    let turns: Vec<usize> = (0..4).map(|_| shares.take_turn()).collect();
    assert_eq!(turns, [0, 1, 0, 1]);
}
