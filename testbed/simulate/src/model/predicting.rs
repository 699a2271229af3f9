//! The same search where exponents are predicted: one switch with two slots, each with its two sets. Each operation has a descriptor, in the
//! first slot, and one data chunk, in the second, which is sent without the result of the descriptor and may have to be repeated.
//!
//! A worker may retransmit any chunk that it waits for at any time, also when its result was ignored, and the network may lose, repeat and
//! reorder anything. A result that was sent and is not lost arrives at once, as in the [model of closing](super::ClosingModel).

use super::search::search;
use super::{Broken, Explored, WORKERS_MAX};

/// Most operations of a stream.
pub const OPERATIONS_MAX: usize = 4;

/// Instead of an exponent: the worker predicts none, and sends its header alone.
pub const NO_PREDICTION: u8 = 7;

/// The rules of prediction. The [default](PredictionRules::default) are the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PredictionRules {
    /// A result is delivered only when the result of the descriptor is there.
    pub descriptor_first: bool,
    /// A result is delivered only if the sums of all workers' predictions are those of one exponent.
    pub compared: bool,
    /// The sums of the predictions' squares are compared, too.
    pub squares: bool,
    /// A result is delivered only if that exponent is the agreed one.
    pub agreed: bool,
    /// What is repeated has the slot's next number rather than its own again.
    pub moves_on: bool,
}

impl Default for PredictionRules {
    fn default() -> Self {
        Self { descriptor_first: true, compared: true, squares: true, agreed: true, moves_on: true }
    }
}

/// One worker's part of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Guess {
    /// The exponent of its own block, 1 to 6. All ranks agree on the largest.
    pub own: u8,
    /// The exponent that it predicts: [`NO_PREDICTION`], or none below its own.
    pub predicted: u8,
}

/// What to search: a stream of operations, each of one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictionModel {
    /// Each operation's workers, 1 to [`WORKERS_MAX`]; at most [`OPERATIONS_MAX`] operations.
    pub guesses: Vec<Vec<Guess>>,
    /// The rules.
    pub rules: PredictionRules,
}

/// What a (slot, set) holds. Number 0 means nothing yet; a slot's chunks are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct SlotSet {
    number: u8,
    seen: u8,
    /// Of each worker's contribution: the operation, and the exponent by which its lanes are.
    lanes: [(u8, u8); WORKERS_MAX],
}

/// One worker: how far each slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Progress {
    /// Descriptors received.
    descriptors: u8,
    /// Data chunks delivered.
    chunks: u8,
    /// Chunks repeated, and whether the current one is.
    again: u8,
    repeating: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct PredictionState {
    slot_sets: [[SlotSet; 2]; 2],
    workers: [Progress; WORKERS_MAX],
}

/// A worker's chunk reaches the switch: what each slot waits for, or the one before. Results that it causes are lost but to those of `kept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    worker: usize,
    slot: usize,
    kept: u8,
}

impl PredictionModel {
    /// Searches every reachable state.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<Explored, Broken> {
        let play = |state: &PredictionState, event| self.play(state, event);
        let starts = [PredictionState::default()];
        let reached = search(&starts, |state| Ok(self.events(state)), play, |_, _| true)?;
        let finished = |worker: &Progress| worker.descriptors.min(worker.chunks) == self.operations();
        reached.find_deadlock(|state| state.workers[..self.workers()].iter().all(finished))?;
        Ok(reached.explored())
    }

    fn operations(&self) -> u8 {
        self.guesses.len() as u8
    }

    fn workers(&self) -> usize {
        self.guesses.first().map_or(0, Vec::len)
    }

    fn events(&self, state: &PredictionState) -> Vec<Event> {
        let mut events = Vec::new();
        for worker in 0..self.workers() {
            let Progress { descriptors, chunks, .. } = state.workers[worker];
            for (slot, _) in
                [descriptors, chunks].iter().enumerate().filter(|(_, done)| **done < self.operations())
            {
                events.extend((0..1 << self.workers()).map(|kept| Event { worker, slot, kept }));
            }
        }
        events
    }

    /// The largest of all workers' exponents, which look-ahead agrees on.
    fn agreed(&self, operation: u8) -> u8 {
        self.guesses[usize::from(operation)].iter().map(|guess| guess.own).max().unwrap_or(0)
    }

    /// The number of the chunk that a slot of a worker waits for, its operation, and the exponent of its lanes.
    fn chunk(&self, progress: Progress, worker: usize, slot: usize) -> (u8, (u8, u8)) {
        let Progress { descriptors, chunks, again, repeating } = progress;
        if slot == 0 {
            return (descriptors + 1, (descriptors, 0));
        }
        let again = if self.rules.moves_on { again } else { 0 };
        let exponent = match repeating {
            true => self.agreed(chunks),
            false => self.guesses[usize::from(chunks)][worker].predicted,
        };
        (chunks + again + 1, (chunks, exponent))
    }

    fn play(
        &self,
        state: &PredictionState,
        Event { worker, slot, kept }: Event,
    ) -> Result<PredictionState, Broken> {
        let mut state = *state;
        let (full, bit) = ((1 << self.workers()) - 1, 1 << worker);
        let (number, content) = self.chunk(state.workers[worker], worker, slot);
        let slot_set = &mut state.slot_sets[slot][usize::from(number % 2)];
        if number < slot_set.number {
            return Err(Broken::Stale);
        }
        if number > slot_set.number {
            let old = std::mem::replace(slot_set, SlotSet { number, ..SlotSet::default() }).number;
            let waits = |(worker, progress): (usize, &Progress)| {
                let done = [progress.descriptors, progress.chunks][slot] == self.operations();
                !done && self.chunk(*progress, worker, slot).0 <= old
            };
            if old > 0 && state.workers[..self.workers()].iter().enumerate().any(waits) {
                return Err(Broken::SafeReuse);
            }
        }
        let slot_set = &mut state.slot_sets[slot][usize::from(number % 2)];
        let was_full = slot_set.seen == full;
        if slot_set.seen & bit == 0 {
            slot_set.seen |= bit;
            slot_set.lanes[worker] = content;
        } else if !was_full {
            return Ok(state);
        }
        let result = *slot_set;
        if result.seen == full {
            let to = if was_full { kept & bit } else { kept };
            for worker in (0..self.workers()).filter(|worker| to >> worker & 1 == 1) {
                self.take(&mut state, worker, slot, result)?;
            }
        }
        Ok(state)
    }

    /// A result reaches a worker.
    fn take(
        &self,
        state: &mut PredictionState,
        worker: usize,
        slot: usize,
        result: SlotSet,
    ) -> Result<(), Broken> {
        let mut progress = state.workers[worker];
        let done = [progress.descriptors, progress.chunks][slot] == self.operations();
        if done || self.chunk(progress, worker, slot).0 != result.number {
            return Ok(());
        }
        let operation = if slot == 0 { progress.descriptors } else { progress.chunks };
        let lanes = &result.lanes[..self.workers()];
        if slot == 0 {
            progress.descriptors += 1;
        } else if !progress.repeating && self.rules.descriptor_first && progress.descriptors <= operation {
            return Ok(());
        } else if progress.repeating || self.delivers(operation, worker) {
            if lanes.iter().any(|lanes| *lanes != (operation, self.agreed(operation))) {
                return Err(Broken::WrongExponent);
            }
            (progress.chunks, progress.repeating) = (progress.chunks + 1, false);
        } else {
            (progress.again, progress.repeating) = (progress.again + 1, true);
        }
        if lanes.iter().any(|lanes| lanes.0 != operation) {
            return Err(Broken::ExactlyOnce);
        }
        state.workers[worker] = progress;
        Ok(())
    }

    /// Whether a worker delivers the first result of an operation's chunk.
    fn delivers(&self, operation: u8, worker: usize) -> bool {
        let guesses = &self.guesses[usize::from(operation)];
        let own = u32::from(guesses[worker].predicted);
        let ranks = guesses.len() as u32;
        let sum = |power| guesses.iter().map(|guess| u32::from(guess.predicted).pow(power)).sum::<u32>();
        let alike = sum(1) == ranks * own && (!self.rules.squares || sum(2) == ranks * own * own);
        guesses[worker].predicted != NO_PREDICTION
            && (!self.rules.compared || alike)
            && (!self.rules.agreed || guesses[worker].predicted == self.agreed(operation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of an exponent of 1 or 2 and a prediction that fits it: all of them, or for many workers those that differ most.
    fn guesses(workers: usize) -> Vec<Guess> {
        let pairs = match workers {
            WORKERS_MAX => &[(1, 1), (1, 2), (2, 2), (2, 3), (1, NO_PREDICTION)][..],
            _ => &[(1, 1), (1, 2), (1, 3), (1, NO_PREDICTION), (2, 2), (2, 3), (2, NO_PREDICTION)][..],
        };
        pairs.iter().map(|(own, predicted)| Guess { own: *own, predicted: *predicted }).collect()
    }

    /// All operations of so many workers.
    fn all_operations(workers: usize) -> Vec<Vec<Guess>> {
        (0..workers).fold(vec![Vec::new()], |operations, _| {
            let with = |operation: &Vec<Guess>, guess| operation.iter().copied().chain([guess]).collect();
            operations
                .iter()
                .flat_map(|operation| guesses(workers).into_iter().map(move |guess| with(operation, guess)))
                .collect()
        })
    }

    /// The first invariant that is broken in any stream of an operation, one that is predicted right, and the first again.
    fn broken(workers: usize, edit: fn(&mut PredictionRules)) -> Option<Broken> {
        let mut rules = PredictionRules::default();
        edit(&mut rules);
        let right = vec![Guess { own: 2, predicted: 2 }; workers];
        let check = |operation: Vec<Guess>| {
            let again = (workers < WORKERS_MAX).then(|| operation.clone());
            let guesses = [operation, right.clone()].into_iter().chain(again).collect();
            PredictionModel { guesses, rules }.check().err()
        };
        all_operations(workers).into_iter().find_map(check)
    }

    #[test]
    fn predictions_change_no_result() {
        for workers in 1..=WORKERS_MAX {
            assert_eq!(broken(workers, |_| {}), None, "{workers} workers");
        }
        let wrong = vec![Guess { own: 1, predicted: 1 }, Guess { own: 2, predicted: 3 }];
        let explored =
            PredictionModel { guesses: vec![wrong; OPERATIONS_MAX], rules: PredictionRules::default() }
                .check();
        println!("two workers, wrong predictions: {explored:?}");
        assert!(explored.is_ok_and(|explored| explored.states > 100));
    }

    #[test]
    fn each_rule_of_predictions_is_needed() {
        assert_eq!(broken(2, |rules| rules.compared = false), Some(Broken::WrongExponent));
        assert_eq!(broken(2, |rules| rules.agreed = false), Some(Broken::WrongExponent));
        assert_eq!(broken(2, |rules| rules.moves_on = false), Some(Broken::WrongExponent));
        // Without its descriptor a worker knows its own prediction alone.
        let blind = |rules: &mut PredictionRules| (rules.descriptor_first, rules.compared) = (false, false);
        assert_eq!(broken(2, blind), Some(Broken::WrongExponent));
        // 1, 2 and 3 have the sum of three times 2.
        assert_eq!(broken(3, |rules| rules.squares = false), Some(Broken::WrongExponent));
    }
}
