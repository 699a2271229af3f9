//! An exhaustive model of the slot machine: every order of events for a few workers, one slot with its sets and a few
//! chunks, searched breadth first.
//!
//! The network may lose, repeat and reorder anything. A worker's DATA can reach the switch at any time after it was
//! sent, any number of times or never; a result is lost or not when it is sent, for each receiver, and if not can be
//! delivered at any time, any number of times. Lanes are abstracted to what they must show: how often each worker's
//! contribution to which chunk is in them. Where [`Model::trims`] says so, any DATA may come without its lanes.
//!
//! Checked in every reachable state: exactly once, same bytes, safe reuse, that no worker receives STALE for its current
//! chunk is stale, and that all workers can still finish (no deadlock). [`Rules`] can be broken one at a time, to see
//! that the search finds it. [`TreeModel`] does the same for two leaves below a root, and
//! [`PredictionModel`] for operations whose exponents are predicted.

mod closing;
mod passes;
mod predicting;
mod search;
mod spilling;
mod spilling_tree;
mod tree;

pub use closing::{ClosingModel, ClosingRules};
pub use passes::{PassesModel, PassesRules};
pub use predicting::{Guess, NO_PREDICTION, OPERATIONS_MAX, PredictionModel, PredictionRules};
pub use spilling::{SpillingModel, SpillingRules};
pub use spilling_tree::{SpillingTreeModel, SpillingTreeRules};
pub use tree::{TreeModel, TreeRules};

use std::collections::HashMap;
use std::fmt;

/// Most workers.
pub const WORKERS_MAX: usize = 3;

/// Chunk numbers are 4 bits here, so that a few chunks wrap.
const NUMBERS: u8 = 16;

/// The rules of the slot machine. The [default](Rules::default) are the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Sets of the slot: chunk `k` uses set `k mod sets`.
    pub sets: u8,
    /// Chunks are compared as serial numbers rather than as plain ones.
    pub serial: bool,
    /// A contribution that was received before is not added again.
    pub deduplicated: bool,
    /// An older chunk changes nothing, rather than replacing a newer one.
    pub stale_refused: bool,
    /// The reply to a duplicate of a finished chunk is the stored result.
    pub repeated: bool,
    /// A worker sends a chunk only when it has the result of the one before.
    pub waits: bool,
    /// The slot was moved on to the chunk before the job's first.
    pub advanced: bool,
    /// A position that is sent once more, because its sum saturated, has the slot's next number rather than its own again.
    pub moves_on: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            sets: 2,
            serial: true,
            deduplicated: true,
            stale_refused: true,
            repeated: true,
            waits: true,
            advanced: true,
            moves_on: true,
        }
    }
}

/// What to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// Workers, 1 to [`WORKERS_MAX`].
    pub workers: usize,
    /// Chunks of the stream, at most 7: fewer than half the numbers. Those that are sent twice count twice.
    pub chunks: u8,
    /// Bit `c`: chunk `c` is chunk `c - 1` sent once more, with other content.
    pub again: u8,
    /// Number of the first chunk, below 16; numbers wrap at 16.
    pub first: u8,
    /// The network may cut the lanes off a worker's DATA, which still counts as received. "Exactly once" is "at most once" then.
    pub trims: bool,
    /// A worker may close a slot that has received its DATA, without the missing contributions, at any time. Not safe: a worker that is left out may
    /// lack the result before. [`ClosingModel`] has the rules.
    pub closes: bool,
    /// The rules.
    pub rules: Rules,
}

/// What a search covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explored {
    /// Distinct states.
    pub states: usize,
    /// Events played from them.
    pub events: usize,
}

/// An invariant that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// A result holds a contribution not exactly once, or one of another chunk.
    ExactlyOnce,
    /// Two results of one chunk differ.
    SameBytes,
    /// A result was replaced that some worker has not taken.
    SafeReuse,
    /// A worker received STALE for its current chunk.
    Stale,
    /// Some worker can never finish.
    Deadlock,
    /// A result was delivered that has a contribution by another exponent than the agreed one.
    WrongExponent,
    /// A chunk waits for a retransmission although nothing was lost.
    Waits,
}

/// A broken invariant and the shortest way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant.
    pub broken: Broken,
    /// Events from the start, in order.
    pub trace: Vec<Event>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after {} events:", self.broken, self.trace.len())?;
        self.trace.iter().try_for_each(|event| write!(f, " {event:?}"))
    }
}

/// A transition of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A worker's DATA reaches the switch; results that it causes are lost but to the workers of the mask.
    Data {
        /// The worker.
        worker: usize,
        /// Position in the stream.
        chunk: u8,
        /// Bit `r`: a result for worker `r` is not lost.
        kept: u8,
        /// Its lanes were cut off on the way.
        cut: bool,
    },
    /// A worker's CLOSE of the chunk that it waits for reaches the switch; results are lost as above.
    Close {
        /// The worker.
        worker: usize,
        /// Bit `r`: a result for worker `r` is not lost.
        kept: u8,
    },
    /// A result reaches a worker, which takes it.
    Result {
        /// The worker.
        worker: usize,
    },
}

/// Contributions in the lanes: how often each worker's contribution to the occupying chunk is in them (at most 3), and whether one
/// of any other chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Lanes {
    times: [u8; WORKERS_MAX],
    foreign: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Occupant {
    /// Chunk number, as on the wire.
    number: u8,
    /// Whose content it is: differs from the number where a number stands for two chunks.
    chunk: u8,
    seen: u8,
    lanes: Lanes,
}

/// One state. Results under way to a worker matter only for the chunk it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ModelState {
    sets: [Occupant; 2],
    /// Position that each worker waits for.
    next: [u8; WORKERS_MAX],
    /// Workers to which the result that they wait for is under way, and what it holds.
    coming: [Option<Lanes>; WORKERS_MAX],
}

impl Model {
    /// Searches every reachable state.
    ///
    /// # Errors
    ///
    /// The first [`Violation`] found, with one of the shortest traces to it.
    pub fn check(&self) -> Result<Explored, Violation> {
        let mut search = Search { model: *self, states: vec![self.start()], ..Search::default() };
        search.known.insert(self.start(), 0);
        search.came.push(None);
        search.explore()?;
        search.find_deadlock()?;
        Ok(Explored { states: search.states.len(), events: search.edges.len() })
    }

    fn start(&self) -> ModelState {
        let before =
            if self.rules.advanced { self.first + NUMBERS - 1 } else { self.first + self.chunks } % NUMBERS;
        let idle = Occupant { number: before, chunk: 0, seen: 0, lanes: Lanes::default() };
        ModelState { sets: [idle; 2], next: [0; WORKERS_MAX], coming: [None; WORKERS_MAX] }
    }

    fn number(&self, position: u8) -> u8 {
        let earlier = if self.rules.moves_on { 0 } else { self.again & ((2 << position) - 1) as u8 };
        (self.first + position - earlier.count_ones() as u8) % NUMBERS
    }

    fn newer(&self, a: u8, b: u8) -> bool {
        if self.rules.serial { a != b && (a + NUMBERS - b) % NUMBERS < NUMBERS / 2 } else { a > b }
    }

    /// How far a worker that waits for `next` may have sent.
    fn sent(&self, next: u8) -> u8 {
        let ahead = if self.rules.waits { 0 } else { 1 };
        (next + ahead).min(self.chunks - 1)
    }

    fn events(&self, state: &ModelState) -> Vec<Event> {
        let mut events = Vec::new();
        for worker in 0..self.workers {
            for chunk in 0..=self.sent(state.next[worker]) {
                for cut in [false, true].into_iter().take(1 + usize::from(self.trims)) {
                    let data = |kept| Event::Data { worker, chunk, kept, cut };
                    events.extend((0..1 << self.workers).map(data));
                }
            }
            if self.closes && state.next[worker] < self.chunks {
                events.extend((0..1 << self.workers).map(|kept| Event::Close { worker, kept }));
            }
            if state.coming[worker].is_some() {
                events.push(Event::Result { worker });
            }
        }
        events
    }

    fn play(&self, state: &ModelState, event: Event) -> Result<ModelState, Broken> {
        let mut state = *state;
        match event {
            Event::Data { worker, chunk, kept, cut } => self.data(&mut state, (worker, cut), chunk, kept)?,
            Event::Close { worker, kept } => self.close(&mut state, worker, kept)?,
            Event::Result { worker } => {
                let lanes = state.coming[worker].take().unwrap_or_default();
                let right = |rank: usize| match rank < self.workers {
                    true if self.trims || self.closes => lanes.times[rank] <= 1,
                    member => lanes.times[rank] == u8::from(member),
                };
                if lanes.foreign || !(0..WORKERS_MAX).all(right) {
                    return Err(Broken::ExactlyOnce);
                }
                state.next[worker] += 1;
            }
        }
        Ok(state)
    }

    /// The switch takes a DATA packet of a worker, whole or cut.
    fn data(
        &self,
        state: &mut ModelState,
        (worker, cut): (usize, bool),
        chunk: u8,
        kept: u8,
    ) -> Result<(), Broken> {
        let number = self.number(chunk);
        let full = (1 << self.workers) - 1;
        let bit = 1 << worker;
        let set = usize::from(number % self.rules.sets);
        let slot_set = &mut state.sets[set];
        let mut contribution = Lanes::default();
        contribution.times[worker] = u8::from(!cut);
        if self.newer(number, slot_set.number) || (number != slot_set.number && !self.rules.stale_refused) {
            let replaced = (slot_set.number + NUMBERS - self.first) % NUMBERS;
            let needed = |next: &u8| slot_set.seen != 0 && *next <= replaced && replaced < self.chunks;
            if state.next[..self.workers].iter().any(needed) {
                return Err(Broken::SafeReuse);
            }
            *slot_set = Occupant { number, chunk, seen: bit, lanes: contribution };
        } else if number != slot_set.number {
            return if chunk == state.next[worker] { Err(Broken::Stale) } else { Ok(()) };
        } else if slot_set.seen & bit != 0 && self.rules.deduplicated {
            slot_set.lanes.foreign |= slot_set.chunk != chunk;
            if slot_set.seen == full && self.rules.repeated {
                self.send(state, set, chunk, kept & bit)?;
            }
            return Ok(());
        } else {
            slot_set.seen |= bit;
            slot_set.lanes.foreign |= slot_set.chunk != chunk;
            slot_set.lanes.times[worker] = (slot_set.lanes.times[worker] + u8::from(!cut)).min(3);
        }
        if state.sets[set].seen == full { self.send(state, set, chunk, kept) } else { Ok(()) }
    }

    /// The switch takes a CLOSE: a slot that holds the chunk, and has received its sender's DATA, counts as complete from then on.
    fn close(&self, state: &mut ModelState, worker: usize, kept: u8) -> Result<(), Broken> {
        let (chunk, full) = (state.next[worker], (1 << self.workers) - 1);
        let number = self.number(chunk);
        let set = usize::from(number % self.rules.sets);
        let slot_set = &mut state.sets[set];
        if slot_set.number != number || slot_set.seen >> worker & 1 == 0 {
            return Ok(());
        }
        let to = if slot_set.seen == full { kept & 1 << worker } else { kept };
        slot_set.seen = full;
        self.send(state, set, chunk, to)
    }

    /// The result of a set leaves for the workers of the mask.
    fn send(&self, state: &mut ModelState, set: usize, chunk: u8, to: u8) -> Result<(), Broken> {
        let lanes = state.sets[set].lanes;
        for worker in (0..self.workers).filter(|worker| to >> worker & 1 == 1) {
            if state.next[worker] == chunk && *state.coming[worker].get_or_insert(lanes) != lanes {
                return Err(Broken::SameBytes);
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Search {
    model: Model,
    states: Vec<ModelState>,
    known: HashMap<ModelState, usize>,
    /// How each state was first reached.
    came: Vec<Option<(usize, Event)>>,
    /// Every event, from state to state.
    edges: Vec<(usize, usize)>,
}

impl Default for Model {
    /// Two workers, four chunks whose numbers wrap, the protocol's rules.
    fn default() -> Self {
        Self {
            workers: 2,
            chunks: 4,
            first: NUMBERS - 2,
            again: 0,
            trims: false,
            closes: false,
            rules: Rules::default(),
        }
    }
}

impl Search {
    fn explore(&mut self) -> Result<(), Violation> {
        let mut at = 0;
        while at < self.states.len() {
            let state = self.states[at];
            for event in self.model.events(&state) {
                let next = match self.model.play(&state, event) {
                    Ok(next) => next,
                    Err(broken) => return Err(Violation { broken, trace: self.trace(at, Some(event)) }),
                };
                let to = *self.known.entry(next).or_insert_with(|| {
                    self.states.push(next);
                    self.came.push(Some((at, event)));
                    self.states.len() - 1
                });
                if to != at {
                    self.edges.push((at, to));
                }
            }
            at += 1;
        }
        Ok(())
    }

    /// Walks back from the states in which all have finished; what is not reached can never finish.
    fn find_deadlock(&self) -> Result<(), Violation> {
        let mut backward = vec![Vec::new(); self.states.len()];
        for (from, to) in &self.edges {
            backward[*to].push(*from);
        }
        let finished = |state: &ModelState| {
            state.next[..self.model.workers].iter().all(|next| *next == self.model.chunks)
        };
        let mut live: Vec<bool> = self.states.iter().map(finished).collect();
        let mut open: Vec<usize> = (0..live.len()).filter(|at| live[*at]).collect();
        while let Some(at) = open.pop() {
            for from in &backward[at] {
                if !std::mem::replace(&mut live[*from], true) {
                    open.push(*from);
                }
            }
        }
        match live.iter().position(|live| !live) {
            None => Ok(()),
            Some(at) => Err(Violation { broken: Broken::Deadlock, trace: self.trace(at, None) }),
        }
    }

    fn trace(&self, mut at: usize, last: Option<Event>) -> Vec<Event> {
        let mut trace: Vec<_> = last.into_iter().collect();
        while let Some((from, event)) = self.came[at] {
            trace.push(event);
            at = from;
        }
        trace.reverse();
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_hold() {
        for workers in 1..=WORKERS_MAX {
            for (first, chunks) in [(0, 4), (6, 4), (NUMBERS - 2, 4), (NUMBERS - 3, 7)] {
                let model = Model { workers, first, chunks, ..Model::default() };
                let explored =
                    model.check().unwrap_or_else(|violation| panic!("{workers} workers: {violation}"));
                println!("{workers} workers from {first}: {explored:?}");
                assert!(explored.states > 10);
            }
        }
    }

    #[test]
    fn the_rules_hold_where_lanes_are_cut_off() {
        for (workers, chunks) in [(1, 4), (2, 4), (3, 3)] {
            let model = Model { workers, chunks, trims: true, ..Model::default() };
            let explored = model.check().unwrap_or_else(|violation| panic!("{workers} workers: {violation}"));
            println!("{workers} workers: {explored:?}");
            let rules = Rules { deduplicated: false, ..Rules::default() };
            let violation = Model { rules, ..model }
                .check()
                .expect_err("a contribution that arrives whole after it arrived trimmed");
            assert_eq!(violation.broken, Broken::SameBytes, "{workers} workers: {violation}");
        }
    }

    /// Closing at will is safe while no slot is used again, and not beyond that.
    #[test]
    fn closing_needs_rules() {
        for workers in 2..=WORKERS_MAX {
            let model = Model { workers, chunks: 2, trims: true, closes: true, ..Model::default() };
            let explored = model.check().unwrap_or_else(|violation| panic!("{workers} workers: {violation}"));
            println!("{workers} workers: {explored:?}");
            let violation =
                Model { chunks: 3, ..model }.check().expect_err("a result that a worker lacks is replaced");
            assert_eq!(violation.broken, Broken::SafeReuse, "{workers} workers: {violation}");
        }
    }

    fn broken(edit: fn(&mut Rules)) -> Vec<Broken> {
        let mut rules = Rules::default();
        edit(&mut rules);
        let model = |workers| Model { workers, rules, ..Model::default() };
        let mut found: Vec<_> =
            (1..=WORKERS_MAX).filter_map(|workers| model(workers).check().err()).collect();
        found.drain(..).map(|violation| violation.broken).collect()
    }

    #[test]
    fn each_rule_is_needed() {
        assert_eq!(broken(|_| {}), []);
        assert_eq!(broken(|rules| rules.sets = 1), [Broken::SafeReuse; 2]);
        assert_eq!(broken(|rules| rules.serial = false), [Broken::Stale; 3]);
        assert_eq!(broken(|rules| rules.deduplicated = false), [Broken::SameBytes; 3]);
        assert_eq!(broken(|rules| rules.stale_refused = false), [Broken::SafeReuse; 3]);
        assert_eq!(broken(|rules| rules.repeated = false), [Broken::Deadlock; 3]);
        assert_eq!(broken(|rules| rules.waits = false), [Broken::SafeReuse; 2]);
        assert_eq!(broken(|rules| rules.advanced = false), [Broken::Stale; 3]);
    }

    /// The second and the last of five chunks are the ones before them, sent once more.
    #[test]
    fn saturated_chunks_are_retransmitted_under_another_number() {
        for workers in 1..=WORKERS_MAX {
            let model = Model { workers, chunks: 5, again: 0b1_0010, ..Model::default() };
            assert!(model.check().is_ok(), "{workers} workers");
            let rules = Rules { moves_on: false, ..Rules::default() };
            let violation = Model { rules, ..model }.check().expect_err("a number for two chunks");
            assert_eq!(violation.broken, Broken::ExactlyOnce, "{workers} workers: {violation}");
        }
    }

    #[test]
    fn a_trace_leads_to_the_violation() {
        let rules = Rules { sets: 1, ..Rules::default() };
        let model = Model { rules, ..Model::default() };
        let violation = model.check().unwrap_err();
        let mut state = model.start();
        let (last, way) = violation.trace.split_last().unwrap();
        for event in way {
            state = model.play(&state, *event).unwrap();
        }
        assert_eq!(model.play(&state, *last), Err(violation.broken));
    }
}
