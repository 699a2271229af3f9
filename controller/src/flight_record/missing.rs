//! Who has not contributed to which chunk, from the slots that were read.

use super::{CHUNKS_MAX, IncompleteChunk, MISSING_MAX, SwitchReading, older};
use crate::driver::SlotState;
use crate::fleet::Placement;
use crate::tree::ChildRef;

/// What a switch has of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkState {
    /// All contributions; or it holds a newer chunk, so that all ranks have had the result.
    Complete,
    /// Contributions of these children.
    Incomplete(u32),
    /// Its slot was not read.
    Unread,
}

/// Slots of a tree's switches that were read.
pub(super) struct Slots<'a> {
    placement: &'a Placement,
    readings: &'a [SwitchReading],
    /// The class, and how many slots each has.
    class: (u8, u32),
}

impl<'a> Slots<'a> {
    pub(super) fn new(placement: &'a Placement, readings: &'a [SwitchReading], class: (u8, u32)) -> Self {
        Self { placement, readings, class }
    }

    fn root(&self) -> usize {
        self.placement.plan.order()[0]
    }

    /// The root's slots, if they were read.
    pub(super) fn of_root(&self) -> Option<&'a [SlotState]> {
        self.of(self.root())
    }

    fn of(&self, at: usize) -> Option<&'a [SlotState]> {
        self.readings.iter().find(|reading| reading.at == at)?.slots.as_deref().ok()
    }

    /// Whose bits a switch has: those of its children, at an aggregator those of the switch below, which may have released its slots.
    fn below(&self) -> Vec<Vec<ChildRef>> {
        let mut below = self.placement.shape().below();
        for (shared, _) in self.placement.plan.shared() {
            if let Some(aggregator) = self.placement.shape().above[shared] {
                below[aggregator] = below[shared].clone();
            }
        }
        below
    }

    fn full(&self, at: usize) -> u32 {
        self.placement.plan.switch_plans()[at].node.full()
    }

    /// Slot, counted from the job's first, and set of a chunk.
    fn place(&self, chunk: u32) -> (u32, u8) {
        let (class, slots) = self.class;
        (u32::from(class) * slots + (chunk & (slots - 1)), ((chunk / slots) & 1) as u8)
    }

    /// What the root has of a chunk.
    pub(super) fn state(&self, chunk: u32) -> ChunkState {
        self.state_at(self.root(), chunk)
    }

    fn state_at(&self, at: usize, chunk: u32) -> ChunkState {
        let (slot, set) = self.place(chunk);
        let stored =
            self.of(at).and_then(|slots| slots.iter().find(|state| (state.slot, state.set) == (slot, set)));
        let full = self.full(at);
        match stored {
            None => ChunkState::Unread,
            Some(stored) if older(chunk, stored.chunk) => ChunkState::Complete,
            Some(stored) if older(stored.chunk, chunk) => ChunkState::Incomplete(0),
            Some(stored) if stored.seen & full == full => ChunkState::Complete,
            Some(stored) => ChunkState::Incomplete(stored.seen),
        }
    }

    /// Chunks that lack contributions at the root, the oldest first: those that a child has contributed to, and the oldest that a rank reports.
    fn incomplete_chunks(&self, reported: Option<u32>) -> Vec<u32> {
        let root = self.root();
        let (full, (class, slots)) = (self.full(root), self.class);
        let of_class = u32::from(class) * slots..(u32::from(class) + 1) * slots;
        let stored = self.of(root).unwrap_or_default().iter();
        let begun = stored
            .filter(|state| of_class.contains(&state.slot) && state.seen != 0 && state.seen & full != full);
        let mut chunks: Vec<u32> = begun.map(|state| state.chunk).collect();
        chunks.extend(reported.filter(|chunk| matches!(self.state(*chunk), ChunkState::Incomplete(_))));
        // They are less than two windows apart, so that differences from any of them are in order.
        let origin = chunks.first().copied().unwrap_or_default();
        chunks.sort_by_key(|chunk| chunk.wrapping_sub(origin) as i32);
        chunks.dedup();
        chunks.truncate(CHUNKS_MAX);
        chunks
    }

    /// The same, with who is missing.
    pub(super) fn incomplete(&self, reported: Option<u32>, switches: &[String]) -> Vec<IncompleteChunk> {
        let below = self.below();
        let chunk = |chunk: u32| {
            let (slot, set) = self.place(chunk);
            let mut incomplete = IncompleteChunk {
                chunk,
                slot,
                set,
                missing: Vec::new(),
                missing_more: 0,
                sums_missing: Vec::new(),
                unread: Vec::new(),
            };
            self.collect_missing(self.root(), &below, switches, &mut incomplete);
            incomplete.missing.sort_unstable();
            incomplete.missing_more = incomplete.missing.len().saturating_sub(MISSING_MAX) as u32;
            incomplete.missing.truncate(MISSING_MAX);
            incomplete
        };
        self.incomplete_chunks(reported).into_iter().map(chunk).collect()
    }

    /// Adds what is missing at a switch and below it. Trees have six levels at most.
    fn collect_missing(
        &self,
        at: usize,
        below: &[Vec<ChildRef>],
        switches: &[String],
        incomplete: &mut IncompleteChunk,
    ) {
        let ChunkState::Incomplete(seen) = self.state_at(at, incomplete.chunk) else { return };
        for (bit, child) in below[at].iter().enumerate().filter(|(bit, _)| seen & (1 << bit) == 0) {
            debug_assert!(bit < 32, "a switch has 32 children at most");
            match *child {
                ChildRef::Worker(rank) => incomplete.missing.push(rank as u16),
                ChildRef::Switch(switch) => match self.state_at(switch, incomplete.chunk) {
                    ChunkState::Complete => incomplete.sums_missing.push(switches[switch].clone()),
                    ChunkState::Incomplete(_) => self.collect_missing(switch, below, switches, incomplete),
                    ChunkState::Unread => incomplete.unread.push(switches[switch].clone()),
                },
            }
        }
    }

    /// Switches below a switch that was read whose sums are missing there, those of the oldest chunk first.
    fn next(&self, at: usize, reported: Option<u32>) -> Vec<usize> {
        let below = self.below();
        let mut next = Vec::new();
        for chunk in self.incomplete_chunks(reported) {
            let ChunkState::Incomplete(seen) = self.state_at(at, chunk) else { continue };
            for (_, child) in below[at].iter().enumerate().filter(|(bit, _)| seen & (1 << bit) == 0) {
                if let ChildRef::Switch(switch) = *child
                    && !next.contains(&switch)
                {
                    next.push(switch);
                }
            }
        }
        next
    }
}

/// Switches to read after the switch `at`, whose slots are among the readings: those below it whose sums are missing.
pub(crate) fn next_switches(
    placement: &Placement,
    readings: &[SwitchReading],
    class: (u8, u32),
    at: usize,
    reported: Option<u32>,
) -> Vec<usize> {
    Slots::new(placement, readings, class).next(at, reported)
}
