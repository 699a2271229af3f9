//! The shares that a job's trees have in its operations, by the rate of each.
//!
//! Every rank measures how long its parts of divided operations take in each tree. From time to time all ranks exchange what they have measured, by an
//! all-gather among the job's operations, and compute the same weights from it. New weights hold from a later operation on, which every rank knows
//! by counting, so all ranks divide and distribute operations alike.

mod decision;
mod meter;
mod stripe;

use std::sync::Arc;
use std::time::Instant;

use crate::buffer::OpBuffer;
use crate::error::Error;
use crate::lower::{Lowered, SwitchOperation};
use crate::operation::Operation;
use crate::work::Completion;
use decision::{EVEN, Pace, RateReport, weigh};
use meter::{Pending, TreeMeter};
use stripe::Stripe;

/// The operation by which ranks exchange rates: an all-gather of [`report_len`] bytes of each rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateExchange {
    pub(crate) request: Lowered,
    pub(crate) rank: u16,
    pub(crate) world: u16,
}

/// Bytes that each rank of a job with so many trees contributes to an exchange.
pub(crate) const fn report_len(trees: usize) -> usize {
    RateReport::len(trees)
}

/// An exchange whose result has not been applied.
#[derive(Debug)]
struct PendingExchange {
    completion: Arc<Completion>,
    /// Bytes that were sent over each tree since the exchange before it.
    sent: Vec<u64>,
    /// Divided operations before the first one with the new weights.
    left: u32,
}

/// The weights of trees, and what is measured for the next ones.
#[derive(Debug)]
pub(crate) struct TreeShares {
    /// By tree.
    meters: Vec<Arc<TreeMeter>>,
    weights: Vec<u32>,
    /// The trees of the last operation, and the turns among them.
    trees: Vec<usize>,
    stripe: Stripe,
    exchange: Option<RateExchange>,
    pending_exchange: Option<PendingExchange>,
    pace: Pace,
    /// Divided operations since the last exchange, and their bytes by tree.
    divided: u32,
    sent: Vec<u64>,
    exchanged_at: Instant,
    pending: Pending,
}

impl TreeShares {
    /// Even shares of so many trees.
    pub(crate) fn new(trees: usize) -> Self {
        Self {
            meters: (0..trees).map(|_| Arc::default()).collect(),
            weights: vec![EVEN; trees],
            trees: (0..trees).collect(),
            stripe: Stripe::new(&vec![EVEN; trees]),
            exchange: None,
            pending_exchange: None,
            pace: Pace::FIRST,
            divided: 0,
            sent: vec![0; trees],
            exchanged_at: Instant::now(),
            pending: Pending::default(),
        }
    }

    /// From now on shares follow from rates, which this operation exchanges.
    pub(crate) fn set_exchange(&mut self, exchange: RateExchange) {
        self.exchange = Some(exchange);
    }

    /// The part of each tree in operations, of 1.
    pub(crate) fn fractions(&self) -> Vec<f64> {
        let total: u32 = self.trees.iter().filter_map(|tree| self.weights.get(*tree)).sum();
        let fraction = |(tree, weight): (usize, &u32)| match self.trees.contains(&tree) {
            true => f64::from(*weight) / f64::from(total.max(1)),
            false => 0.0,
        };
        self.weights.iter().enumerate().map(fraction).collect()
    }

    /// The trees in use.
    pub(crate) fn trees(&self) -> &[usize] {
        &self.trees
    }

    /// The trees that operations use from now on. One that was not used before begins with an even share.
    pub(crate) fn use_trees(&mut self, trees: &[usize]) {
        if trees == self.trees {
            return;
        }
        for tree in trees.iter().filter(|tree| !self.trees.contains(tree)) {
            self.weights[*tree] = EVEN;
        }
        self.trees = trees.to_vec();
        self.restart_turns();
    }

    fn restart_turns(&mut self) {
        self.stripe = Stripe::new(&self.trees.iter().map(|tree| self.weights[*tree]).collect::<Vec<_>>());
    }

    /// The tree of the next operation that goes over one tree.
    pub(crate) fn take_turn(&mut self) -> usize {
        self.trees[self.stripe.next_tree()]
    }

    /// The weights of the trees in use, for the next divided operation. Where this is the first one after an exchange whose weights count, waits for that
    /// exchange.
    pub(crate) fn next_weights(&mut self) -> Vec<u32> {
        match &mut self.pending_exchange {
            Some(PendingExchange { left: left @ 1.., .. }) => *left -= 1,
            Some(_) => {
                let exchange = self.pending_exchange.take();
                exchange.iter().for_each(|exchange| self.adopt(exchange));
            }
            None => {}
        }
        self.trees.iter().map(|tree| self.weights[*tree]).collect()
    }

    /// Waits for an exchange and computes the weights from it. An exchange that fails ends the job.
    fn adopt(&mut self, PendingExchange { completion, sent, .. }: &PendingExchange) {
        let gathered = match completion.wait() {
            Ok(_) => completion.take_owner().and_then(|owner| owner.downcast::<Vec<u8>>().ok()),
            Err(_) => None,
        };
        let Some(gathered) = gathered else { return };
        let reports = RateReport::read_all(&gathered, self.weights.len());
        self.pace = self.pace.next(&reports);
        let weights = weigh(&self.weights, sent, &reports);
        if weights != self.weights {
            self.weights = weights;
            self.restart_turns();
            if self.exchange.is_some_and(|exchange| exchange.rank == 0) {
                let percent = |fraction: &f64| format!("{:.0} %", fraction * 100.0);
                let shares: Vec<String> = self.fractions().iter().map(percent).collect();
                log::debug!("shares of the trees by their rates: {}", shares.join(", "));
            }
        }
    }

    /// Counts a divided operation, which is `whole`, and measures its parts: their trees, buffers and bytes.
    pub(crate) fn measure<'a>(
        &mut self,
        submitted: Instant,
        whole: &Completion,
        parts: impl Iterator<Item = (usize, &'a OpBuffer, u64)>,
    ) {
        self.divided += 1;
        self.pending.add();
        let pending = self.pending.clone();
        whole.on_settled(Box::new(move |_| pending.remove()));
        for (tree, buffer, bytes) in parts {
            self.sent[tree] += bytes;
            let meter = Arc::clone(&self.meters[tree]);
            buffer.completion().on_settled(Box::new(move |outcome: &Result<_, Error>| {
                if outcome.is_ok() {
                    meter.record(submitted, Instant::now(), bytes);
                }
            }));
        }
    }

    /// The exchange that comes next among the operations, if one is due.
    pub(crate) fn take_exchange(&mut self) -> Option<SwitchOperation> {
        let RateExchange { request, rank, world } = self.exchange?;
        if self.divided < self.pace.interval || self.pending_exchange.is_some() {
            return None;
        }
        self.divided = 0;
        let report = RateReport {
            elapsed_ms: u32::try_from(self.exchanged_at.elapsed().as_millis()).unwrap_or(u32::MAX),
            pending: self.pending.take_most(),
            costs: self.meters.iter().map(|meter| meter.take_cost()).collect(),
        };
        self.exchanged_at = Instant::now();
        let len = report_len(self.weights.len());
        let mut all = vec![0_u8; len * usize::from(world)];
        report.write(&mut all[usize::from(rank) * len..][..len]);
        let buffer = OpBuffer::owned(all);
        let completion = buffer.completion();
        let sent = std::mem::replace(&mut self.sent, vec![0; self.weights.len()]);
        self.pending_exchange = Some(PendingExchange { completion, sent, left: self.pace.lag });
        Some(Operation::new(request, buffer))
    }
}

#[cfg(test)]
mod tests;
