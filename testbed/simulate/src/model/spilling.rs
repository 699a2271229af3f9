//! The same search for best-effort jobs: two jobs share the slots of a switch below an aggregator, which has slots for both.
//!
//! A (slot, set) of the switch is one job's at a time. Contributions that find it taken are spilled: passed to the aggregator one by one. What the
//! switch holds may vanish at any time; only the aggregator's slots are the protocol's, and results come from there alone. Chunks are plain positions, as in
//! the [model](super::TreeModel) of trees. A packet that is under way between switch and aggregator can arrive at any time, any number
//! of times or never; so can a worker's first packet of a chunk. Which contributions take a free slot does not matter then, so any may.
//!
//! It does where nothing is lost: a [reliable](SpillingModel::reliable) network shows that no chunk waits for a retransmission.

use super::search::search;
use super::{Broken, Explored};

const JOBS: usize = 2;

/// Most workers of a job.
const WORKERS: usize = 2;

/// Chunk `k` uses set `k mod SETS`.
const SETS: u8 = 2;

/// The rules of best-effort slots. The [default](SpillingRules::default) are the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillingRules {
    /// A contribution joins a slot only if its own job occupies it, or none.
    pub separate: bool,
    /// The first contribution to a free slot replaces what is there.
    pub begins: bool,
    /// A duplicate in an incomplete slot of the switch is spilled.
    pub duplicates_spilled: bool,
    /// A duplicate in a complete slot of the switch has the sum sent to the aggregator again.
    pub sent_again: bool,
    /// At the aggregator a sum of all contributions replaces some that were spilled, rather than being added to them.
    pub replaces: bool,
    /// At the aggregator a sum of all contributions counts although some of them are there already.
    pub completes: bool,
    /// At the aggregator a contribution that was received before is not added again.
    pub deduplicated: bool,
    /// The aggregator replies to a duplicate of a finished chunk with the stored result.
    pub repeated: bool,
    /// Only the first contribution to a chunk takes a slot that is free. Where it finds another job there, all are spilled.
    pub first_decides: bool,
}

impl Default for SpillingRules {
    fn default() -> Self {
        Self {
            separate: true,
            begins: true,
            duplicates_spilled: true,
            sent_again: true,
            replaces: true,
            completes: true,
            deduplicated: true,
            repeated: true,
            first_decides: true,
        }
    }
}

/// What to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillingModel {
    /// Workers of each job, 1 or 2.
    pub workers: [u8; JOBS],
    /// Chunks of each job's stream, at most 6.
    pub chunks: [u8; JOBS],
    /// The network delivers each packet once, in any order, and nothing else releases a slot than results: then no worker retransmits, and all
    /// finish ([`Broken::Waits`]).
    pub reliable: bool,
    /// Retransmissions take a slot that is free, rather than none: those of a switch below are not marked.
    pub resent_takes: bool,
    /// The rules.
    pub rules: SpillingRules,
}

/// How often each worker's contribution to the slot's chunk is in the lanes, at most 3, and whether another chunk's or job's is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Lanes {
    times: [u8; WORKERS],
    foreign: bool,
}

/// A (slot, set) of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Shared {
    /// The job that occupies it, from 1; 0: none.
    occupant: u8,
    /// Whose chunk it is.
    job: u8,
    chunk: u8,
    seen: u8,
    lanes: Lanes,
    /// In a reliable network: for each job, by bit, whether its latest chunk here was an odd one among those of this set.
    turns: u8,
}

/// A (slot, set) of a job at the aggregator. Chunk 0 means none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Own {
    chunk: u8,
    seen: u8,
    lanes: Lanes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct JobState {
    own: [Own; SETS as usize],
    /// Chunk that each worker waits for.
    next: [u8; WORKERS],
    /// Workers to which the result that they wait for is under way, through the switch.
    coming: u8,
    /// Chunks, by bit: contributions of each worker that are under way to the aggregator, and sums of all.
    spilled: [u8; WORKERS],
    sums: u8,
    /// In a reliable network: the latest chunk of each worker that has reached the switch, and results that are under way to it.
    arrived: [u8; WORKERS],
    results: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct State {
    shared: [Shared; SETS as usize],
    jobs: [JobState; JOBS],
}

/// A transition; what it causes to be sent is lost but to those of `kept`, by bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A worker's contribution reaches the switch, and takes a slot that is free or does not, as retransmissions never do.
    Data { worker: usize, chunk: u8, takes: bool, kept: u8 },
    /// A contribution, or a sum of all, reaches the aggregator.
    Up { worker: Option<usize>, chunk: u8, kept: u8 },
    /// In a reliable network: a result passes the switch.
    Down { chunk: u8 },
    /// A result reaches a worker.
    Result { worker: usize },
    /// The switch lets go of a slot: a result passes it, or the controller clears it.
    Release { set: usize },
    /// Everything that is under way to the aggregator is lost.
    Loss,
}

impl SpillingModel {
    /// Searches every reachable state.
    ///
    /// # Errors
    ///
    /// The first invariant found broken.
    pub fn check(&self) -> Result<Explored, Broken> {
        let events = |state: &State| {
            let possible = self.events(state);
            if possible.is_empty() && !self.all_finished(state) { Err(Broken::Waits) } else { Ok(possible) }
        };
        let play = |state: &State, (job, event)| self.play(state, job, event);
        // First packets do not count: each is sent once, and may be lost. No more does the release of slots: results need not pass while a slot
        // is taken.
        let happens = |state: &State, (job, event): (usize, Event)| match event {
            Event::Data { worker, chunk, takes, .. } => {
                takes == self.resent_takes && state.jobs[job].next[worker] == chunk
            }
            Event::Release { .. } | Event::Loss => false,
            Event::Up { .. } | Event::Down { .. } | Event::Result { .. } => true,
        };
        let reached = search(&self.starts(), events, play, happens)?;
        if !self.reliable {
            reached.find_deadlock(|state| self.all_finished(state))?;
        }
        Ok(reached.explored())
    }

    /// States before the first packet. Turns that a switch has from earlier jobs can be any.
    fn starts(&self) -> Vec<State> {
        let mut start = State::default();
        start.jobs.iter_mut().for_each(|job| job.next = [1; WORKERS]);
        let turns: u8 = if self.reliable { 1 << JOBS } else { 1 };
        let sets = (0..turns).flat_map(|first| (0..turns).map(move |second| [first, second]));
        let with = |turns: [u8; SETS as usize]| {
            let mut start = start;
            start.shared.iter_mut().zip(turns).for_each(|(shared, turns)| shared.turns = turns);
            start
        };
        sets.map(with).collect()
    }

    fn all_finished(&self, state: &State) -> bool {
        let finished = |job| self.members(job).all(|worker| state.jobs[job].next[worker] > self.chunks[job]);
        (0..JOBS).all(finished)
    }

    fn members(&self, job: usize) -> std::ops::Range<usize> {
        0..usize::from(self.workers[job])
    }

    fn full(&self, job: usize) -> u8 {
        (1 << self.workers[job]) - 1
    }

    fn events(&self, state: &State) -> Vec<(usize, Event)> {
        let mut events = Vec::new();
        for (job, own) in state.jobs.iter().enumerate() {
            for worker in self.members(job) {
                events.extend(self.data_of(state, job, worker).map(|event| (job, event)));
                if own.coming >> worker & 1 == 1 {
                    events.push((job, Event::Result { worker }));
                }
            }
            for chunk in 1..=self.chunks[job] {
                let under_way = |chunks: u8| chunks >> chunk & 1 == 1;
                let spilled = self.members(job).filter(|worker| under_way(own.spilled[*worker])).map(Some);
                let full = self.full(job);
                let least = if self.reliable { full } else { 0 };
                for worker in spilled.chain(under_way(own.sums).then_some(None)) {
                    events.extend((least..=full).map(|kept| (job, Event::Up { worker, chunk, kept })));
                }
                events.extend(under_way(own.results).then_some((job, Event::Down { chunk })));
            }
        }
        if !self.reliable {
            let taken = (0..state.shared.len()).filter(|set| state.shared[*set].occupant != 0);
            events.extend(taken.map(|set| (0, Event::Release { set })));
            events.push((0, Event::Loss));
        }
        events
    }

    /// A worker's contributions that can reach the switch.
    fn data_of(&self, state: &State, job: usize, worker: usize) -> impl Iterator<Item = Event> {
        let own = &state.jobs[job];
        let last = own.next[worker].min(self.chunks[job]);
        let (reliable, arrived) = (self.reliable, own.arrived[worker]);
        // That of the first chunk that has not reached the switch takes a slot by the rules, and is not lost.
        let turns = state.shared[usize::from(last % SETS)].turns;
        let begins = turns >> job & 1 != turn(last) || !self.rules.first_decides;
        let chunks = if reliable { arrived + 1 } else { 1 }..=last;
        chunks.flat_map(move |chunk| {
            let all = [(false, 0), (false, 1), (true, 0), (true, 1)];
            let possible = all.into_iter().filter(move |choice| !reliable || *choice == (begins, 1));
            possible.map(move |(takes, kept)| Event::Data { worker, chunk, takes, kept })
        })
    }

    fn play(&self, state: &State, job: usize, event: Event) -> Result<State, Broken> {
        let mut state = *state;
        match event {
            Event::Data { worker, chunk, takes, kept } => {
                if self.reliable {
                    let turns = &mut state.shared[usize::from(chunk % SETS)].turns;
                    *turns = *turns & !(1 << job) | turn(chunk) << job;
                    state.jobs[job].arrived[worker] = chunk;
                }
                self.data(&mut state, (job, worker, chunk), takes, kept)?;
            }
            Event::Up { worker, chunk, kept } => {
                let own = &mut state.jobs[job];
                let coming = own.coming;
                self.up(own, job, worker, chunk, kept)?;
                if self.reliable {
                    let under_way = worker.map_or(&mut own.sums, |worker| &mut own.spilled[worker]);
                    *under_way &= !(1 << chunk);
                    own.results |= u8::from(own.coming != coming) << chunk;
                    own.coming = coming;
                }
            }
            Event::Down { chunk } => {
                let shared = &mut state.shared[usize::from(chunk % SETS)];
                if shared.occupant == job as u8 + 1 {
                    shared.occupant = 0;
                }
                state.jobs[job].results &= !(1 << chunk);
                state.jobs[job].coming = self.full(job);
            }
            Event::Release { set } => state.shared[set].occupant = 0,
            Event::Loss => state.jobs.iter_mut().for_each(|job| (job.spilled, job.sums) = ([0; WORKERS], 0)),
            Event::Result { worker } => {
                state.jobs[job].next[worker] += 1;
                state.jobs[job].coming &= !(1 << worker);
            }
        }
        Ok(state)
    }

    /// The switch takes a worker's contribution.
    fn data(
        &self,
        state: &mut State,
        (job, worker, chunk): (usize, usize, u8),
        takes: bool,
        kept: u8,
    ) -> Result<(), Broken> {
        let spill = |state: &mut State| state.jobs[job].spilled[worker] |= kept << chunk;
        let name = job as u8 + 1;
        let shared = &mut state.shared[usize::from(chunk % SETS)];
        let is_mine = shared.occupant == name || !self.rules.separate;
        let takes = shared.occupant == 0 && takes;
        if !is_mine && !takes {
            spill(state);
            return Ok(());
        }
        let mut contribution = Lanes::default();
        contribution.times[worker] = 1;
        let bit = 1 << worker;
        let begins = (takes && self.rules.begins) || (shared.job == name && chunk > shared.chunk);
        shared.occupant = name;
        if begins {
            *shared = Shared { occupant: name, job: name, chunk, seen: bit, lanes: contribution, ..*shared };
        } else if shared.job == name && chunk < shared.chunk {
            spill(state);
            return Ok(());
        } else if shared.seen & bit != 0 {
            if shared.seen != self.full(job) {
                if self.rules.duplicates_spilled {
                    spill(state);
                }
                return Ok(());
            }
            if !self.rules.sent_again {
                return Ok(());
            }
        } else {
            shared.seen |= bit;
            shared.lanes.foreign |= (shared.job, shared.chunk) != (name, chunk);
            shared.lanes.times[worker] = (shared.lanes.times[worker] + 1).min(3);
        }
        let shared = state.shared[usize::from(chunk % SETS)];
        if shared.seen == self.full(job) {
            self.is_exact(job, shared.lanes)?;
            state.jobs[job].sums |= kept << chunk;
        }
        Ok(())
    }

    fn is_exact(&self, job: usize, lanes: Lanes) -> Result<(), Broken> {
        let right = |worker| lanes.times[worker] == u8::from(worker < usize::from(self.workers[job]));
        if lanes.foreign || !(0..WORKERS).all(right) { Err(Broken::ExactlyOnce) } else { Ok(()) }
    }

    /// The aggregator takes a contribution, or a sum of all, which was seen to be exact when it was sent.
    fn up(
        &self,
        state: &mut JobState,
        job: usize,
        worker: Option<usize>,
        chunk: u8,
        kept: u8,
    ) -> Result<(), Broken> {
        let full = self.full(job);
        let bits = worker.map_or(full, |worker| 1 << worker);
        let mut contribution = Lanes::default();
        self.members(job)
            .filter(|worker| bits >> worker & 1 == 1)
            .for_each(|worker| contribution.times[worker] = 1);
        let waits = |worker: usize, chunk: u8| state.next[worker] == chunk;
        let own = &mut state.own[usize::from(chunk % SETS)];
        if chunk < own.chunk {
            let current = worker.is_some_and(|worker| waits(worker, chunk));
            return if current { Err(Broken::Stale) } else { Ok(()) };
        }
        if chunk > own.chunk {
            if own.chunk > 0 && self.members(job).any(|worker| state.next[worker] <= own.chunk) {
                return Err(Broken::SafeReuse);
            }
            *own = Own { chunk, seen: bits, lanes: contribution };
        } else if own.seen == full {
            if !self.rules.repeated {
                return Ok(());
            }
        } else if worker.is_none() && own.seen != 0 {
            if !self.rules.completes {
                return Ok(());
            }
            own.lanes = if self.rules.replaces { contribution } else { sum(own.lanes, contribution) };
            own.seen = full;
        } else if own.seen & bits == 0 || !self.rules.deduplicated {
            own.lanes = sum(own.lanes, contribution);
            own.seen |= bits;
        }
        if own.seen == full {
            self.is_exact(job, own.lanes)?;
            let to =
                self.members(job).filter(|worker| kept >> worker & 1 == 1 && state.next[*worker] == chunk);
            state.coming |= to.fold(0, |coming, worker| coming | 1 << worker);
        }
        Ok(())
    }
}

/// Chunks that follow each other in a set have 0 and 1 in turn.
fn turn(chunk: u8) -> u8 {
    chunk / SETS % 2
}

fn sum(a: Lanes, b: Lanes) -> Lanes {
    let times = std::array::from_fn(|worker| (a.times[worker] + b.times[worker]).min(3));
    Lanes { times, foreign: a.foreign || b.foreign }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lossy(workers: [u8; JOBS], chunks: [u8; JOBS]) -> SpillingModel {
        let rules = SpillingRules::default();
        SpillingModel { workers, chunks, reliable: false, resent_takes: false, rules }
    }

    #[test]
    fn jobs_that_share_slots_by_the_rules_get_exact_results() {
        for (workers, chunks) in [([1, 1], [3, 1]), ([2, 1], [1, 1]), ([2, 2], [1, 1])] {
            for resent_takes in [false, true] {
                let explored = SpillingModel { resent_takes, ..lossy(workers, chunks) }.check();
                println!("{workers:?} workers, {chunks:?} chunks: {explored:?}");
                assert!(explored.is_ok_and(|explored| explored.states > 100));
            }
        }
    }

    #[test]
    fn each_rule_of_best_effort_slots_is_needed() {
        let broken = |edit: fn(&mut SpillingRules)| {
            let mut model = lossy([2, 1], [1, 1]);
            edit(&mut model.rules);
            model.check().err()
        };
        assert_eq!(broken(|_| {}), None);
        assert_eq!(broken(|rules| rules.separate = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.begins = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.duplicates_spilled = false), Some(Broken::Deadlock));
        assert_eq!(broken(|rules| rules.sent_again = false), Some(Broken::Deadlock));
        assert_eq!(broken(|rules| rules.replaces = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.completes = false), Some(Broken::Deadlock));
        assert_eq!(broken(|rules| rules.deduplicated = false), Some(Broken::ExactlyOnce));
        assert_eq!(broken(|rules| rules.repeated = false), Some(Broken::Deadlock));
    }

    #[test]
    fn no_chunk_waits_for_a_retransmission_where_nothing_is_lost() {
        for (workers, chunks) in [([2, 1], [6, 6]), ([2, 2], [5, 5])] {
            let mut model = SpillingModel { reliable: true, ..lossy(workers, chunks) };
            let explored = model.check();
            println!("{workers:?} workers, {chunks:?} chunks: {explored:?}");
            assert!(explored.is_ok_and(|explored| explored.states > 100));
            model.rules.first_decides = false;
            assert_eq!(model.check(), Err(Broken::Waits));
        }
    }
}
