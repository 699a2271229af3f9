//! The same search for a tree: two leaves of two workers each below a root, one slot with its sets.
//!
//! Chunks are plain positions here, serial numbers being the matter of the [model](super::Model) of one switch. A fold on
//! its way up or a result on its way down, once sent and not lost, can arrive at any time, any number of times or never.
//! What lanes hold is looked at when they are sent, so that a packet on its way is known by its chunk alone.

use std::collections::HashMap;

use super::{Broken, Explored};

const LEAVES: usize = 2;
const WORKERS: usize = 4;

/// Workers of a leaf, by bit.
const OWN: [u8; LEAVES] = [0b0011, 0b1100];

/// The rules of hierarchy. The [default](TreeRules::default) are the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeRules {
    /// Sets of the slot: chunk `k` uses set `k mod sets`.
    pub sets: u8,
    /// A leaf knows which chunk's result has come down, and replies to duplicates of it itself.
    pub settled: bool,
    /// A result that comes down takes the fold's place, rather than being folded into it.
    pub overwritten: bool,
    /// A duplicate of a full chunk that is not settled is sent up again.
    pub sent_again: bool,
    /// The root replies to a duplicate of a finished chunk with the stored result.
    pub repeated: bool,
    /// Chunks have owners in turn, who alone receive the lanes of results; without it all do.
    pub owners: bool,
    /// The root sends lanes to the leaf above a chunk's owner.
    pub delivered: bool,
    /// A leaf removes lanes for workers that do not own the chunk, also in replies to duplicates.
    pub removed: bool,
}

impl Default for TreeRules {
    fn default() -> Self {
        Self {
            sets: 2,
            settled: true,
            overwritten: true,
            sent_again: true,
            repeated: true,
            owners: false,
            delivered: true,
            removed: true,
        }
    }
}

/// What to search: a stream of `chunks` chunks, at most 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeModel {
    /// Chunks of the stream.
    pub chunks: u8,
    /// The rules.
    pub rules: TreeRules,
}

/// How often each worker's contribution to the occupying chunk is in the lanes, at most 3, two bits each.
type Lanes = u8;

const ALL_ONCE: Lanes = 0b01_01_01_01;

fn added(a: Lanes, b: Lanes) -> Lanes {
    let mut sum = 0;
    for worker in 0..WORKERS {
        let times = |lanes: Lanes| lanes >> (2 * worker) & 3;
        sum |= (times(a) + times(b)).min(3) << (2 * worker);
    }
    sum
}

fn once(workers: u8) -> Lanes {
    (0..WORKERS).filter(|worker| workers >> worker & 1 == 1).map(|worker| 1 << (2 * worker)).sum()
}

/// What a (slot, set) holds. Chunk 0 means none yet; the stream's chunks count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct SlotSet {
    chunk: u8,
    seen: u8,
    lanes: Lanes,
    settled: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct TreeState {
    leaves: [[SlotSet; 2]; LEAVES],
    root: [SlotSet; 2],
    /// Chunk that each worker waits for.
    next: [u8; WORKERS],
    /// Workers to which the result that they wait for is under way.
    coming: u8,
    /// Chunks, by bit, of which a fold is under way to the root, and a result to the leaf.
    up: [u8; LEAVES],
    down: [u8; LEAVES],
}

/// A transition; what it causes to be sent is lost but to those of `kept`, by bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A worker's contribution reaches its leaf.
    Data { worker: usize, chunk: u8, kept: u8 },
    /// A leaf's fold reaches the root.
    Up { leaf: usize, chunk: u8, kept: u8 },
    /// The root's result reaches a leaf.
    Down { leaf: usize, chunk: u8, kept: u8 },
    /// A result reaches a worker.
    Result { worker: usize },
}

impl TreeModel {
    /// Searches every reachable state.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<Explored, Broken> {
        let start = TreeState { next: [1; WORKERS], ..TreeState::default() };
        let mut states = vec![start];
        let mut known = HashMap::from([(start, 0_u32)]);
        let (mut at, mut events) = (0, 0);
        while at < states.len() {
            let state = states[at];
            self.events(&state, &mut |event| {
                let next = self.play(&state, event)?;
                events += 1;
                known.entry(next).or_insert_with(|| {
                    states.push(next);
                    states.len() as u32 - 1
                });
                Ok(())
            })?;
            at += 1;
        }
        self.find_deadlock(&states, &known)?;
        Ok(Explored { states: states.len(), events })
    }

    /// A state is live when all have finished in it or some event leads to a live one.
    fn find_deadlock(&self, states: &[TreeState], known: &HashMap<TreeState, u32>) -> Result<(), Broken> {
        let finished = |state: &TreeState| state.next.iter().all(|next| *next > self.chunks);
        let mut live: Vec<bool> = states.iter().map(finished).collect();
        // Backwards through the order of discovery settles nearly all in the first round.
        loop {
            let mut changed = false;
            for at in (0..states.len()).rev() {
                if live[at] {
                    continue;
                }
                let state = states[at];
                let leads = self.events(&state, &mut |event| match self.play(&state, event) {
                    Ok(next) if known.get(&next).is_some_and(|to| live[*to as usize]) => {
                        Err(Broken::Deadlock)
                    }
                    _ => Ok(()),
                });
                if leads.is_err() {
                    (live[at], changed) = (true, true);
                }
            }
            if live.iter().all(|live| *live) {
                return Ok(());
            }
            if !changed {
                return Err(Broken::Deadlock);
            }
        }
    }

    /// Hands every event that can happen to `play`, until that fails.
    fn events(
        &self,
        state: &TreeState,
        play: &mut impl FnMut(Event) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        for worker in 0..WORKERS {
            for chunk in 1..=state.next[worker].min(self.chunks) {
                (0..8).try_for_each(|kept| play(Event::Data { worker, chunk, kept }))?;
            }
            if state.coming >> worker & 1 == 1 {
                play(Event::Result { worker })?;
            }
        }
        for leaf in 0..LEAVES {
            for chunk in 1..=self.chunks {
                if state.up[leaf] >> chunk & 1 == 1 {
                    (0..4).try_for_each(|kept| play(Event::Up { leaf, chunk, kept }))?;
                }
                if state.down[leaf] >> chunk & 1 == 1 {
                    (0..4).try_for_each(|kept| play(Event::Down { leaf, chunk, kept }))?;
                }
            }
        }
        Ok(())
    }

    fn play(&self, state: &TreeState, event: Event) -> Result<TreeState, Broken> {
        let mut state = *state;
        match event {
            Event::Data { worker, chunk, kept } => self.data(&mut state, worker, chunk, kept)?,
            Event::Up { leaf, chunk, kept } => self.up(&mut state, leaf, chunk, kept)?,
            Event::Down { leaf, chunk, kept } => self.down(&mut state, leaf, chunk, kept)?,
            Event::Result { worker } => {
                state.next[worker] += 1;
                state.coming &= !(1 << worker);
            }
        }
        Ok(state)
    }

    /// Whether a worker owns a chunk: one does, or all.
    fn owns(&self, worker: usize, chunk: u8) -> bool {
        !self.rules.owners || usize::from(chunk) % WORKERS == worker
    }

    /// Puts a contribution into a slot set. `None` when the chunk is older; else whether the contribution was there before.
    fn take(
        &self,
        state: &TreeState,
        slot_set: &mut SlotSet,
        chunk: u8,
        bit: u8,
        contribution: Lanes,
    ) -> Result<Option<bool>, Broken> {
        if chunk < slot_set.chunk {
            return Ok(None);
        }
        if chunk > slot_set.chunk {
            if slot_set.chunk > 0 && state.next.iter().any(|next| *next <= slot_set.chunk) {
                return Err(Broken::SafeReuse);
            }
            *slot_set = SlotSet { chunk, seen: bit, lanes: contribution, settled: slot_set.settled };
            return Ok(Some(false));
        }
        let before = slot_set.seen & bit != 0;
        if !before {
            slot_set.seen |= bit;
            slot_set.lanes = added(slot_set.lanes, contribution);
        }
        Ok(Some(before))
    }

    /// A leaf takes a worker's contribution. Bits of `kept`: the leaf's two workers, the root.
    fn data(&self, state: &mut TreeState, worker: usize, chunk: u8, kept: u8) -> Result<(), Broken> {
        let leaf = worker / 2;
        let set = usize::from(chunk % self.rules.sets);
        let mut slot_set = state.leaves[leaf][set];
        let taken = self.take(state, &mut slot_set, chunk, 1 << (worker % 2), once(1 << worker))?;
        state.leaves[leaf][set] = slot_set;
        let Some(before) = taken else {
            return if chunk == state.next[worker] { Err(Broken::Stale) } else { Ok(()) };
        };
        if slot_set.seen != 0b11 {
            return Ok(());
        }
        if before && self.rules.settled && slot_set.settled == chunk {
            return self.result(state, leaf, slot_set, kept & 1 << (worker % 2));
        }
        if before && !self.rules.sent_again {
            return Ok(());
        }
        if slot_set.lanes != once(OWN[leaf]) {
            return Err(Broken::SameBytes);
        }
        state.up[leaf] |= (kept >> 2 & 1) << chunk;
        Ok(())
    }

    /// The root takes a leaf's fold, which holds what it was seen to hold when it was sent.
    fn up(&self, state: &mut TreeState, leaf: usize, chunk: u8, kept: u8) -> Result<(), Broken> {
        let set = usize::from(chunk % self.rules.sets);
        let mut slot_set = state.root[set];
        let taken = self.take(state, &mut slot_set, chunk, 1 << leaf, once(OWN[leaf]))?;
        state.root[set] = slot_set;
        let Some(before) = taken else { return Ok(()) };
        if slot_set.seen != 0b11 || (before && !self.rules.repeated) {
            return Ok(());
        }
        if slot_set.lanes != ALL_ONCE {
            return Err(Broken::ExactlyOnce);
        }
        let to = if before { 1 << leaf } else { 0b11 };
        for leaf in (0..LEAVES).filter(|leaf| (kept & to) >> leaf & 1 == 1) {
            state.down[leaf] |= 1 << chunk;
        }
        Ok(())
    }

    /// A leaf takes the root's result.
    fn down(&self, state: &mut TreeState, leaf: usize, chunk: u8, kept: u8) -> Result<(), Broken> {
        let set = usize::from(chunk % self.rules.sets);
        let slot_set = &mut state.leaves[leaf][set];
        let wanted = slot_set.chunk == chunk && slot_set.seen == 0b11;
        if !wanted || (self.rules.settled && slot_set.settled == chunk) {
            return Ok(());
        }
        if self.rules.delivered && (0..2).any(|index| self.owns(2 * leaf + index, chunk)) {
            slot_set.lanes = if self.rules.overwritten { ALL_ONCE } else { added(slot_set.lanes, ALL_ONCE) };
        }
        slot_set.settled = chunk;
        let slot_set = *slot_set;
        self.result(state, leaf, slot_set, kept)
    }

    /// What a leaf holds goes to those of its workers in `to`: with lanes to those that own the chunk.
    fn result(&self, state: &mut TreeState, leaf: usize, slot_set: SlotSet, to: u8) -> Result<(), Broken> {
        for worker in (0..2).filter(|index| to >> index & 1 == 1).map(|index| 2 * leaf + index) {
            let lanes = self.owns(worker, slot_set.chunk) || !self.rules.removed;
            if lanes && slot_set.lanes != ALL_ONCE {
                return Err(Broken::ExactlyOnce);
            }
            if state.next[worker] == slot_set.chunk {
                state.coming |= 1 << worker;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_hold_in_a_tree() {
        for (chunks, owners) in [1, 2, 4, 6].into_iter().flat_map(|chunks| [(chunks, false), (chunks, true)])
        {
            let explored = TreeModel { chunks, rules: TreeRules { owners, ..TreeRules::default() } }.check();
            println!("two leaves of two workers, {chunks} chunks, owners {owners}: {explored:?}");
            assert!(explored.is_ok_and(|explored| explored.states > 100 * usize::from(chunks)));
        }
    }

    #[test]
    fn each_rule_of_hierarchy_is_needed() {
        let broken = |edit: fn(&mut TreeRules)| {
            let mut rules = TreeRules::default();
            edit(&mut rules);
            TreeModel { chunks: 2, rules }.check().err()
        };
        assert_eq!(broken(|_| {}), None);
        assert_eq!(broken(|rules| rules.sets = 1), Some(Broken::SafeReuse));
        assert_eq!(broken(|rules| rules.settled = false), Some(Broken::SameBytes));
        assert_eq!(broken(|rules| rules.overwritten = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.sent_again = false), Some(Broken::Deadlock));
        assert_eq!(broken(|rules| rules.repeated = false), Some(Broken::Deadlock));
    }

    #[test]
    fn each_rule_of_owners_is_needed() {
        let broken = |edit: fn(&mut TreeRules)| {
            let mut rules = TreeRules { owners: true, ..TreeRules::default() };
            edit(&mut rules);
            TreeModel { chunks: 2, rules }.check().err()
        };
        assert_eq!(broken(|_| {}), None);
        assert_eq!(broken(|rules| rules.delivered = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.removed = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.overwritten = false), Some(Broken::ExactlyOnce));
    }
}
