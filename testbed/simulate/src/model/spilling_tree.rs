//! The same search for a best-effort job at several switches: two workers at a leaf whose slots jobs share, the leaf's aggregator, and a root above the
//! aggregator, which has one child more.
//!
//! The aggregator has the rules of [one that is the root](super::SpillingModel), by which it takes what the leaf sends, and those of
//! [a switch below a parent](super::TreeModel), by which it sends sums up and takes results. The other jobs at the leaf are left out: a slot there can be lost at any time,
//! and any contribution can find none. The root's other child stands for the rest of the tree.

use super::search::search;
use super::{Broken, Explored};

/// Most workers at the leaf.
const BELOW: usize = 2;

/// These, and the root's other child.
const WORKERS: usize = BELOW + 1;

/// Children of the root, by bit.
const ROOT_FULL: u8 = 0b11;

/// The rules of an aggregator below a parent. The [default](SpillingTreeRules::default) are the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillingTreeRules {
    /// Sets of the slot, 1 or 2: chunk `k` uses set `k mod sets`.
    pub sets: u8,
    /// The leaf spills a duplicate in an incomplete slot.
    pub duplicates_spilled: bool,
    /// The leaf sends its sum once more for a duplicate in a complete slot.
    pub sum_repeated: bool,
    /// At the aggregator a sum of all replaces contributions that were spilled, rather than being added to them.
    pub replaces: bool,
    /// At the aggregator a sum of all counts although some contributions are there already.
    pub completes: bool,
    /// At the aggregator a contribution that was received before is not added again.
    pub deduplicated: bool,
    /// A sum of all changes nothing at the aggregator once all contributions are there: its lanes may be the result.
    pub complete_kept: bool,
    /// The aggregator knows which chunk's result has come down, and replies to duplicates of it itself.
    pub settled: bool,
    /// A result takes the place of the sum at the aggregator, rather than being added to it.
    pub overwritten: bool,
    /// A duplicate of a chunk that is complete at the aggregator and not settled has the sum sent up again.
    pub sent_again: bool,
    /// The root replies to a duplicate of a finished chunk with the stored result.
    pub repeated: bool,
}

impl Default for SpillingTreeRules {
    fn default() -> Self {
        Self {
            sets: 2,
            duplicates_spilled: true,
            sum_repeated: true,
            replaces: true,
            completes: true,
            deduplicated: true,
            complete_kept: true,
            settled: true,
            overwritten: true,
            sent_again: true,
            repeated: true,
        }
    }
}

/// What to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillingTreeModel {
    /// Workers at the leaf, 1 or 2.
    pub workers: u8,
    /// Chunks of the stream, at most 6.
    pub chunks: u8,
    /// The rules.
    pub rules: SpillingTreeRules,
}

/// How often each worker's contribution to the slot's chunk is in the lanes, at most 3, two bits each.
type Lanes = u8;

fn added(a: Lanes, b: Lanes) -> Lanes {
    let times = |lanes: Lanes, worker: usize| lanes >> (2 * worker) & 3;
    (0..WORKERS).map(|worker| (times(a, worker) + times(b, worker)).min(3) << (2 * worker)).sum()
}

fn once(workers: u8) -> Lanes {
    (0..WORKERS).filter(|worker| workers >> worker & 1 == 1).map(|worker| 1 << (2 * worker)).sum()
}

/// A (slot, set) of a switch. Chunk 0 means none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct SlotSet {
    /// At the leaf: whether the job occupies it.
    occupied: bool,
    chunk: u8,
    seen: u8,
    lanes: Lanes,
    /// At the aggregator.
    settled: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct State {
    leaf: [SlotSet; 2],
    aggregator: [SlotSet; 2],
    root: [SlotSet; 2],
    /// Chunk that each worker waits for.
    next: [u8; WORKERS],
    /// Workers to which the result that they wait for is under way.
    coming: u8,
    /// Chunks, by bit: contributions of each worker that are under way to the aggregator, and sums of all.
    spilled: [u8; BELOW],
    sums: u8,
    /// The aggregator's sums that are under way to the root, and results to it.
    up: u8,
    down: u8,
}

/// A transition; what it causes to be sent is lost but to those of `kept`, by bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A worker's contribution reaches the leaf, and takes a slot that is free or does not.
    Data { worker: usize, chunk: u8, takes: bool, kept: bool },
    /// That of the root's other child reaches the root. Bits of `kept`: the aggregator, and the child.
    Other { chunk: u8, kept: u8 },
    /// A contribution, or a sum of all, reaches the aggregator. Bits of `kept`: the leaf's workers, and the root.
    Spilled { worker: Option<usize>, chunk: u8, kept: u8 },
    /// The aggregator's sum reaches the root. Bits of `kept`: the aggregator, and the other child.
    Up { chunk: u8, kept: u8 },
    /// A result reaches the aggregator. Bits of `kept`: the leaf's workers.
    Down { chunk: u8, kept: u8 },
    /// A result reaches a worker.
    Result { worker: usize },
    /// The leaf lets go of a slot: a result passes it, or the controller clears it.
    Release { set: usize },
    /// Everything that is under way between switches is lost.
    Loss,
}

impl SpillingTreeModel {
    /// Searches every reachable state.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<Explored, Broken> {
        let mut start = State { next: [self.chunks + 1; WORKERS], ..State::default() };
        self.members().chain([BELOW]).for_each(|worker| start.next[worker] = 1);
        let play = |state: &State, event| self.play(state, event);
        let happens = |state: &State, event| self.happens(state, event);
        let reached = search(&[start], |state| Ok(self.events(state)), play, happens)?;
        reached.find_deadlock(|state| state.next.iter().all(|next| *next > self.chunks))?;
        Ok(reached.explored())
    }

    /// The leaf's workers.
    fn members(&self) -> std::ops::Range<usize> {
        0..usize::from(self.workers)
    }

    /// The same, by bit.
    fn full(&self) -> u8 {
        (1 << self.workers) - 1
    }

    /// What a result has.
    fn total(&self) -> Lanes {
        once(self.full() | 1 << BELOW)
    }

    /// Whether a worker that lacks a result makes the event happen at last. Retransmissions take no slot, and slots may stay taken.
    fn happens(&self, state: &State, event: Event) -> bool {
        match event {
            Event::Data { worker, chunk, takes, .. } => !takes && state.next[worker] == chunk,
            Event::Other { chunk, .. } => state.next[BELOW] == chunk,
            Event::Release { .. } | Event::Loss => false,
            Event::Spilled { .. } | Event::Up { .. } | Event::Down { .. } | Event::Result { .. } => true,
        }
    }

    fn events(&self, state: &State) -> Vec<Event> {
        let mut events = Vec::new();
        let sent = |worker: usize| 1..=state.next[worker].min(self.chunks);
        for worker in self.members() {
            for (chunk, takes) in sent(worker).flat_map(|chunk| [(chunk, false), (chunk, true)]) {
                events.extend([false, true].map(|kept| Event::Data { worker, chunk, takes, kept }));
            }
        }
        events.extend(sent(BELOW).flat_map(|chunk| (0..4).map(move |kept| Event::Other { chunk, kept })));
        for worker in (0..WORKERS).filter(|worker| state.coming >> worker & 1 == 1) {
            events.push(Event::Result { worker });
        }
        for chunk in 1..=self.chunks {
            let under_way = |chunks: u8| chunks >> chunk & 1 == 1;
            let spilled = self.members().filter(|worker| under_way(state.spilled[*worker])).map(Some);
            for worker in spilled.chain(under_way(state.sums).then_some(None)) {
                events.extend((0..8).map(|kept| Event::Spilled { worker, chunk, kept }));
            }
            if under_way(state.up) {
                events.extend((0..4).map(|kept| Event::Up { chunk, kept }));
            }
            if under_way(state.down) {
                events.extend((0..4).map(|kept| Event::Down { chunk, kept }));
            }
        }
        let taken = (0..state.leaf.len()).filter(|set| state.leaf[*set].occupied);
        events.extend(taken.map(|set| Event::Release { set }));
        events.push(Event::Loss);
        events
    }

    fn play(&self, state: &State, event: Event) -> Result<State, Broken> {
        let mut state = *state;
        match event {
            Event::Data { worker, chunk, takes, kept } => {
                self.data(&mut state, worker, chunk, takes, kept)?;
            }
            Event::Other { chunk, kept } => self.at_root(&mut state, false, chunk, kept)?,
            Event::Spilled { worker, chunk, kept } => {
                self.at_aggregator(&mut state, worker, chunk, kept)?;
            }
            Event::Up { chunk, kept } => self.at_root(&mut state, true, chunk, kept)?,
            Event::Down { chunk, kept } => self.down(&mut state, chunk, kept)?,
            Event::Result { worker } => {
                state.next[worker] += 1;
                state.coming &= !(1 << worker);
            }
            Event::Release { set } => state.leaf[set].occupied = false,
            Event::Loss => {
                (state.spilled, state.sums, state.up, state.down) = ([0; BELOW], 0, 0, 0);
            }
        }
        Ok(state)
    }

    /// The leaf takes a worker's contribution.
    fn data(
        &self,
        state: &mut State,
        worker: usize,
        chunk: u8,
        takes: bool,
        kept: bool,
    ) -> Result<(), Broken> {
        let (bit, kept) = (1 << worker, u8::from(kept) << chunk);
        let slot_set = &mut state.leaf[usize::from(chunk % self.rules.sets)];
        let begins = if slot_set.occupied { chunk > slot_set.chunk } else { takes };
        if begins {
            let lanes = once(bit);
            *slot_set = SlotSet { occupied: true, chunk, seen: bit, lanes, settled: 0 };
        } else if !slot_set.occupied || chunk < slot_set.chunk {
            state.spilled[worker] |= kept;
            return Ok(());
        } else if slot_set.seen & bit == 0 {
            slot_set.seen |= bit;
            slot_set.lanes = added(slot_set.lanes, once(bit));
        } else if slot_set.seen != self.full() {
            state.spilled[worker] |= if self.rules.duplicates_spilled { kept } else { 0 };
            return Ok(());
        } else if !self.rules.sum_repeated {
            return Ok(());
        }
        if slot_set.seen == self.full() {
            is_equal(slot_set.lanes, once(self.full()))?;
            state.sums |= kept;
        }
        Ok(())
    }

    /// The aggregator takes a contribution, or a sum of all, which was seen to be exact when it was sent.
    fn at_aggregator(
        &self,
        state: &mut State,
        worker: Option<usize>,
        chunk: u8,
        kept: u8,
    ) -> Result<(), Broken> {
        let next = state.next;
        let bits = worker.map_or(self.full(), |worker| 1 << worker);
        let slot_set = &mut state.aggregator[usize::from(chunk % self.rules.sets)];
        if chunk < slot_set.chunk {
            let waits = worker.is_some_and(|worker| next[worker] == chunk);
            return if waits { Err(Broken::Stale) } else { Ok(()) };
        }
        let mut fresh = true;
        if chunk > slot_set.chunk {
            if slot_set.chunk > 0 && self.members().any(|worker| next[worker] <= slot_set.chunk) {
                return Err(Broken::SafeReuse);
            }
            *slot_set = SlotSet { chunk, seen: bits, lanes: once(bits), ..*slot_set };
        } else if worker.is_none() && (slot_set.seen != self.full() || !self.rules.complete_kept) {
            if slot_set.seen != 0 && !self.rules.completes {
                return Ok(());
            }
            let lanes = once(bits);
            slot_set.lanes = if self.rules.replaces { lanes } else { added(slot_set.lanes, lanes) };
            slot_set.seen = self.full();
        } else if slot_set.seen & bits == 0 || !self.rules.deduplicated {
            slot_set.lanes = added(slot_set.lanes, once(bits));
            slot_set.seen |= bits;
        } else {
            fresh = false;
        }
        let slot_set = *slot_set;
        if slot_set.seen != self.full() {
            return Ok(());
        }
        if self.rules.settled && slot_set.settled == chunk {
            return self.results(state, slot_set, kept & self.full());
        }
        if fresh || self.rules.sent_again {
            is_equal(slot_set.lanes, once(self.full()))?;
            state.up |= (kept >> BELOW & 1) << chunk;
        }
        Ok(())
    }

    /// The root takes the aggregator's sum, or the contribution of its other child.
    fn at_root(&self, state: &mut State, is_sum: bool, chunk: u8, kept: u8) -> Result<(), Broken> {
        let (bit, workers) = if is_sum { (1, self.full()) } else { (2, 1 << BELOW) };
        let next = state.next;
        let slot_set = &mut state.root[usize::from(chunk % self.rules.sets)];
        if chunk < slot_set.chunk {
            let waits = !is_sum && next[BELOW] == chunk;
            return if waits { Err(Broken::Stale) } else { Ok(()) };
        }
        let mut to = ROOT_FULL;
        if chunk > slot_set.chunk {
            if slot_set.chunk > 0 && next.iter().any(|next| *next <= slot_set.chunk) {
                return Err(Broken::SafeReuse);
            }
            *slot_set = SlotSet { chunk, seen: bit, lanes: once(workers), ..*slot_set };
        } else if slot_set.seen & bit == 0 {
            slot_set.seen |= bit;
            slot_set.lanes = added(slot_set.lanes, once(workers));
        } else {
            to = if self.rules.repeated { bit } else { 0 };
        }
        if slot_set.seen == ROOT_FULL {
            is_equal(slot_set.lanes, self.total())?;
            state.down |= (kept & to & 1) << chunk;
            let waits = next[BELOW] == chunk;
            state.coming |= u8::from(waits && kept & to & 2 != 0) << BELOW;
        }
        Ok(())
    }

    /// The aggregator takes the root's result.
    fn down(&self, state: &mut State, chunk: u8, kept: u8) -> Result<(), Broken> {
        let slot_set = &mut state.aggregator[usize::from(chunk % self.rules.sets)];
        let wanted = slot_set.chunk == chunk && slot_set.seen == self.full();
        if !wanted || (self.rules.settled && slot_set.settled == chunk) {
            return Ok(());
        }
        slot_set.lanes =
            if self.rules.overwritten { self.total() } else { added(slot_set.lanes, self.total()) };
        slot_set.settled = chunk;
        let slot_set = *slot_set;
        self.results(state, slot_set, kept)
    }

    /// What the aggregator holds goes to those of the leaf's workers in `to`.
    fn results(&self, state: &mut State, slot_set: SlotSet, to: u8) -> Result<(), Broken> {
        is_equal(slot_set.lanes, self.total())?;
        for worker in self.members().filter(|worker| to >> worker & 1 == 1) {
            state.coming |= u8::from(state.next[worker] == slot_set.chunk) << worker;
        }
        Ok(())
    }
}

fn is_equal(lanes: Lanes, want: Lanes) -> Result<(), Broken> {
    if lanes == want { Ok(()) } else { Err(Broken::ExactlyOnce) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_shares_slots_below_a_root_gets_exact_results() {
        for (workers, chunks) in [(2, 1), (1, 2), (1, 3)] {
            let explored = SpillingTreeModel { workers, chunks, rules: SpillingTreeRules::default() }.check();
            println!("{workers} workers at the leaf, {chunks} chunks: {explored:?}");
            assert!(explored.is_ok_and(|explored| explored.states > 100));
        }
    }

    #[test]
    fn each_rule_of_an_aggregator_below_a_parent_is_needed() {
        let broken = |edit: fn(&mut SpillingTreeRules)| {
            let mut rules = SpillingTreeRules::default();
            edit(&mut rules);
            SpillingTreeModel { workers: 2, chunks: 1, rules }.check().err()
        };
        assert_eq!(broken(|_| {}), None);
        assert_eq!(broken(|rules| rules.duplicates_spilled = false), Some(Broken::Deadlock));
        assert_eq!(broken(|rules| rules.sum_repeated = false), Some(Broken::Deadlock));
        assert_eq!(broken(|rules| rules.replaces = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.completes = false), Some(Broken::Deadlock));
        assert_eq!(broken(|rules| rules.deduplicated = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.complete_kept = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.settled = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.overwritten = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.sent_again = false), Some(Broken::Deadlock));
        assert_eq!(broken(|rules| rules.repeated = false), Some(Broken::Deadlock));
        let rules = SpillingTreeRules { sets: 1, ..SpillingTreeRules::default() };
        let reused = SpillingTreeModel { workers: 1, chunks: 2, rules }.check();
        assert_eq!(reused, Err(Broken::SafeReuse));
    }
}
