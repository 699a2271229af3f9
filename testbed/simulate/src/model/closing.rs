//! The same search where slots are closed without stragglers: one switch with two slots, each with its two sets, so that
//! workers have a window of two chunks and one slot can prove what another one needs.
//!
//! Chunks are plain positions here. A result that was sent and is not lost arrives at once: one that arrives later is no different from
//! one that was lost and requested again, as results do not change and the switch must still have what a worker lacks.

use super::search::search;
use super::{Broken, Explored, WORKERS_MAX};

/// Slots, and with it chunks that a worker may have under way.
const WINDOW: u8 = 2;

/// Most chunks of a stream.
const CHUNKS_MAX: usize = 8;

/// The rules of closing. The [default](ClosingRules::default) are the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosingRules {
    /// A worker sends a chunk only when it has all results up to a window before it.
    pub ordered: bool,
    /// A worker sends a chunk only when it has a result of a window before it, or of a later chunk, to which all contributed.
    pub proven: bool,
    /// A worker does not close the last chunk that it may send before it has another such result.
    pub spared: bool,
}

impl Default for ClosingRules {
    fn default() -> Self {
        Self { ordered: true, proven: true, spared: true }
    }
}

/// What to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosingModel {
    /// Workers, 2 to [`WORKERS_MAX`].
    pub workers: usize,
    /// Chunks of the stream, at most 8.
    pub chunks: u8,
    /// The rules.
    pub rules: ClosingRules,
}

/// What a (slot, set) holds. Chunk 0 means none yet; the stream's chunks count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct SlotSet {
    chunk: u8,
    seen: u8,
    contributors: u8,
    partial: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct ClosingState {
    slot_sets: [[SlotSet; 2]; WINDOW as usize],
    /// Chunks, by bit, whose results each worker has.
    taken: [u16; WORKERS_MAX],
    /// What each chunk's result was: contributions and whether it was closed.
    results: [Option<(u8, bool)>; CHUNKS_MAX + 1],
}

/// A packet of a worker reaches the switch; what it causes to be sent is lost but to those of `kept`, by bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    worker: usize,
    chunk: u8,
    closes: bool,
    kept: u8,
}

impl ClosingState {
    fn has(&self, worker: usize, chunk: u8) -> bool {
        self.taken[worker] >> chunk & 1 == 1
    }

    /// The last chunk up to which a worker has all results.
    fn all_up_to(&self, worker: usize) -> u8 {
        (1..).find(|chunk| !self.has(worker, *chunk)).map_or(0, |missing| missing - 1)
    }

    /// The last chunk of which a worker knows that all contributed.
    fn whole(&self, worker: usize) -> u8 {
        let whole = |chunk: &u8| {
            self.has(worker, *chunk) && self.results[usize::from(*chunk)].is_some_and(|(_, partial)| !partial)
        };
        (1..=CHUNKS_MAX as u8).rev().find(whole).unwrap_or(0)
    }
}

impl ClosingModel {
    /// Searches every reachable state.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<Explored, Broken> {
        let play = |state: &ClosingState, event| self.play(state, event);
        let starts = [ClosingState::default()];
        let reached = search(&starts, |state| Ok(self.events(state)), play, |_, _| true)?;
        reached.find_deadlock(|state| {
            let finished = |worker| state.has(worker, self.chunks) && state.all_up_to(worker) == self.chunks;
            (0..self.workers).all(finished)
        })?;
        Ok(reached.explored())
    }

    /// Whether a worker may have sent a chunk.
    fn may_send(&self, state: &ClosingState, worker: usize, chunk: u8) -> bool {
        let Some(before) = chunk.checked_sub(WINDOW).filter(|before| *before > 0) else { return true };
        state.has(worker, before)
            && (!self.rules.ordered || state.all_up_to(worker) >= before)
            && (!self.rules.proven || state.whole(worker) >= before)
    }

    fn may_close(&self, state: &ClosingState, worker: usize, chunk: u8) -> bool {
        self.may_send(state, worker, chunk)
            && (!self.rules.spared || chunk < state.whole(worker) + WINDOW)
            && !state.has(worker, chunk)
    }

    fn events(&self, state: &ClosingState) -> Vec<Event> {
        let mut events = Vec::new();
        for worker in 0..self.workers {
            for chunk in 1..=self.chunks {
                let ways = [
                    (self.may_send(state, worker, chunk), false),
                    (self.may_close(state, worker, chunk), true),
                ];
                for (_, closes) in ways.into_iter().filter(|(may, _)| *may) {
                    events.extend((0..1 << self.workers).map(|kept| Event { worker, chunk, closes, kept }));
                }
            }
        }
        events
    }

    fn play(&self, state: &ClosingState, event: Event) -> Result<ClosingState, Broken> {
        let Event { worker, chunk, closes, kept } = event;
        let mut state = *state;
        let (slot, set) = (usize::from(chunk % WINDOW), usize::from(chunk / WINDOW % 2));
        let (full, bit) = ((1 << self.workers) - 1, 1 << worker);
        let slot_set = &mut state.slot_sets[slot][set];
        if chunk < slot_set.chunk {
            let needed = !state.has(worker, chunk);
            return if needed { Err(Broken::Stale) } else { Ok(state) };
        }
        if closes && (slot_set.chunk != chunk || slot_set.seen & bit == 0) {
            return Ok(state);
        }
        if chunk > slot_set.chunk {
            let old = std::mem::replace(slot_set, SlotSet { chunk, ..SlotSet::default() }).chunk;
            if old > 0 && (0..self.workers).any(|worker| !state.has(worker, old)) {
                return Err(Broken::SafeReuse);
            }
        }
        let slot_set = &mut state.slot_sets[slot][set];
        let was_full = slot_set.seen == full;
        if closes && !was_full {
            (slot_set.seen, slot_set.partial) = (full, true);
        } else if slot_set.seen & bit == 0 {
            (slot_set.seen, slot_set.contributors) = (slot_set.seen | bit, slot_set.contributors | bit);
        } else if !was_full {
            return Ok(state);
        }
        let SlotSet { seen, contributors, partial, .. } = *slot_set;
        if seen == full {
            let published = *state.results[usize::from(chunk)].get_or_insert((contributors, partial));
            if published != (contributors, partial) {
                return Err(Broken::SameBytes);
            }
            let to = if was_full { kept & bit } else { kept };
            for worker in (0..self.workers).filter(|worker| to >> worker & 1 == 1) {
                // Who has not sent the chunk asks for its result when it does.
                if self.may_send(&state, worker, chunk) {
                    state.taken[worker] |= 1 << chunk;
                }
            }
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_may_be_closed_by_the_rules() {
        for (workers, chunks) in [(2, 4), (2, 8), (3, 6)] {
            let explored = ClosingModel { workers, chunks, rules: ClosingRules::default() }.check();
            println!("{workers} workers, {chunks} chunks: {explored:?}");
            assert!(explored.is_ok_and(|explored| explored.states > 500));
        }
    }

    #[test]
    fn each_rule_of_closing_is_needed() {
        let broken = |edit: fn(&mut ClosingRules)| {
            let mut rules = ClosingRules::default();
            edit(&mut rules);
            ClosingModel { workers: 2, chunks: 7, rules }.check().err()
        };
        assert_eq!(broken(|_| {}), None);
        assert_eq!(broken(|rules| rules.ordered = false), Some(Broken::SafeReuse));
        assert_eq!(broken(|rules| rules.proven = false), Some(Broken::SafeReuse));
        assert_eq!(broken(|rules| rules.spared = false), Some(Broken::Deadlock));
    }
}
