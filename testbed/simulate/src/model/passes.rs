//! The same search for packets that take several passes through a switch, each with a part of the words.
//!
//! Each part of a slot is a slot machine of its own. Between two passes a packet can be lost, overtaken and delayed: it can reach the next part at any
//! time after it has been at the one before, any number of times or never. A packet that the last part answers goes back over the other parts and
//! reads them, where the same may happen to it. Chunks are plain positions, as in the [model](super::TreeModel) of trees.

use super::search::search;
use super::{Broken, Explored};

/// Most workers.
const WORKERS: usize = 3;

/// Most parts of a packet.
const PARTS: usize = 3;

/// Chunk `k` uses set `k mod SETS`.
const SETS: usize = 2;

/// The rules of several passes. The [default](PassesRules::default) are those of the printed programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassesRules {
    /// Each part decides by what it has received itself, rather than by what the first part has.
    pub own_claims: bool,
    /// A packet reaches a part only after it has been at the one before.
    pub in_order: bool,
    /// The last part decides whether a chunk is complete, rather than the first.
    pub last_decides: bool,
    /// A packet on its way back is dropped where a part has another chunk.
    pub checked_back: bool,
    /// Different sets for consecutive chunks.
    pub sets: bool,
}

impl Default for PassesRules {
    fn default() -> Self {
        Self { own_claims: true, in_order: true, last_decides: true, checked_back: true, sets: true }
    }
}

/// What to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassesModel {
    /// Workers, 1 to 3.
    pub workers: usize,
    /// Chunks of the stream, at most 6.
    pub chunks: u8,
    /// Parts of a packet, 2 or 3.
    pub parts: usize,
    /// The rules.
    pub rules: PassesRules,
}

/// A part of a (slot, set). Chunk 0 means none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Part {
    chunk: u8,
    seen: u8,
    /// How often each worker's contribution to the chunk is in the lanes, at most 3.
    times: [u8; WORKERS],
}

/// Packets under way with these words of a result, by bit: all of them right, and some wrong.
const RIGHT: u8 = 1;
const WRONG: u8 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct State {
    parts: [[Part; SETS]; PARTS],
    /// Chunk that each worker waits for.
    next: [u8; WORKERS],
    /// Chunks, by bit, with which a packet of each worker is under way to each part but the first; in the second row those that the first part had
    /// received before, where other parts decide by that.
    forward: [[[u8; WORKERS]; 2]; PARTS],
    /// Packets under way that have the words of a part and all behind it; those of the first are results.
    back: [[u8; PARTS]; 7],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A worker's packet reaches a part.
    Forward { worker: usize, chunk: u8, part: usize, again: bool },
    /// A packet with the words of later parts reaches a part on its way back.
    Back { chunk: u8, part: usize },
    /// A worker takes a result.
    Result { worker: usize, wrong: bool },
    /// Everything that is under way is lost.
    Loss,
}

impl PassesModel {
    /// Searches every reachable state.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<Explored, Broken> {
        let mut start = State::default();
        start.next[..self.workers].fill(1);
        // A worker that has the result does not ask again.
        let is_over = |state: &State, event| matches!(event, Event::Forward { worker, chunk, part: 0, .. } if chunk != state.next[worker]);
        let happens = |state: &State, event| event != Event::Loss && !is_over(state, event);
        let play = |state: &State, event| self.play(state, event);
        let reached = search(&[start], |state| Ok(self.events(state)), play, happens)?;
        reached.find_deadlock(|state| state.next[..self.workers].iter().all(|next| *next > self.chunks))?;
        Ok(reached.explored())
    }

    fn events(&self, state: &State) -> Vec<Event> {
        let mut events = vec![Event::Loss];
        for worker in 0..self.workers {
            for chunk in 1..=state.next[worker].min(self.chunks) {
                for (part, again) in (0..self.parts).flat_map(|part| [(part, false), (part, true)]) {
                    let is_there = match part {
                        0 => !again,
                        _ => state.forward[part][usize::from(again)][worker] >> chunk & 1 == 1,
                    };
                    if is_there || !self.rules.in_order && !again {
                        events.push(Event::Forward { worker, chunk, part, again });
                    }
                }
            }
            let chunk = state.next[worker];
            if chunk <= self.chunks {
                let results = state.back[usize::from(chunk)][0];
                let found = [(RIGHT, false), (WRONG, true)].into_iter().filter(|(bit, _)| results & bit != 0);
                events.extend(found.map(|(_, wrong)| Event::Result { worker, wrong }));
            }
        }
        for chunk in 1..=self.chunks {
            let turned = (1..self.parts).filter(|part| state.back[usize::from(chunk)][*part] != 0);
            events.extend(turned.map(|part| Event::Back { chunk, part: part - 1 }));
        }
        events
    }

    fn set(&self, chunk: u8) -> usize {
        if self.rules.sets { usize::from(chunk) % SETS } else { 0 }
    }

    fn full(&self) -> u8 {
        (1 << self.workers) - 1
    }

    fn play(&self, state: &State, event: Event) -> Result<State, Broken> {
        let mut state = *state;
        match event {
            Event::Loss => {
                state.forward = Default::default();
                state.back = Default::default();
            }
            Event::Result { wrong: true, .. } => return Err(Broken::ExactlyOnce),
            Event::Result { worker, .. } => state.next[worker] += 1,
            Event::Forward { worker, chunk, part, again } => {
                self.forward(&mut state, worker, chunk, part, again)?;
            }
            Event::Back { chunk, part } => {
                let held = state.parts[part][self.set(chunk)];
                if held.chunk == chunk || !self.rules.checked_back {
                    let words = state.back[usize::from(chunk)][part + 1];
                    let words = if self.is_right(held, chunk) { words } else { WRONG };
                    state.back[usize::from(chunk)][part] |= words;
                }
            }
        }
        Ok(state)
    }

    fn is_right(&self, part: Part, chunk: u8) -> bool {
        part.chunk == chunk && part.times[..self.workers].iter().all(|times| *times == 1)
    }

    /// A part takes its words of a worker's packet.
    fn forward(
        &self,
        state: &mut State,
        worker: usize,
        chunk: u8,
        part: usize,
        again: bool,
    ) -> Result<(), Broken> {
        let (set, bit) = (self.set(chunk), 1 << worker);
        let held = &mut state.parts[part][set];
        if chunk < held.chunk {
            return if state.next[worker] == chunk { Err(Broken::Stale) } else { Ok(()) };
        }
        if chunk > held.chunk {
            *held = Part { chunk, ..Part::default() };
        }
        let had = if self.rules.own_claims || part == 0 { held.seen & bit != 0 } else { again };
        if !had {
            held.times[worker] = (held.times[worker] + 1).min(3);
        }
        held.seen |= bit;
        if part + 1 < self.parts {
            let row = if self.rules.own_claims { false } else { had };
            state.forward[part + 1][usize::from(row)][worker] |= 1 << chunk;
            return Ok(());
        }
        let last = state.parts[part][set];
        let deciding = if self.rules.last_decides { last } else { state.parts[0][set] };
        if deciding.chunk == chunk && deciding.seen == self.full() {
            let words = if self.is_right(last, chunk) { RIGHT } else { WRONG };
            state.back[usize::from(chunk)][part] |= words;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_several_passes_have_exact_results_in_any_order() {
        for (workers, chunks, parts) in [(2, 4, 2), (2, 3, 3), (3, 2, 2), (1, 4, 3)] {
            let rules = PassesRules::default();
            let explored = PassesModel { workers, chunks, parts, rules }.check();
            println!("{workers} workers, {chunks} chunks, {parts} parts: {explored:?}");
            assert!(explored.is_ok_and(|explored| explored.states > 100));
        }
    }

    #[test]
    fn each_rule_of_several_passes_is_needed_but_the_check_on_the_way_back() {
        let broken = |edit: fn(&mut PassesRules)| {
            let mut rules = PassesRules::default();
            edit(&mut rules);
            PassesModel { workers: 2, chunks: 3, parts: 2, rules }.check().err()
        };
        assert_eq!(broken(|_| {}), None);
        assert_eq!(broken(|rules| rules.own_claims = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.in_order = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.last_decides = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.sets = false), Some(Broken::Stale));
        // A part moves on only when all workers have the result: none takes another.
        assert_eq!(broken(|rules| rules.checked_back = false), None);
    }
}
