//! The layout of the segment.
//!
//! ```text
//! page 0    header: magic, version, world, sizes, token; the failure word; the leader's message
//! then      one control block of 512 bytes a rank: step, sleepers, identity, two descriptors
//! then      small inputs: 2 a rank, taken in turns by operations
//! then      slots: SLOTS a rank, for segment t of a large operation slot t mod SLOTS
//! then      results: RESULTS for all, for segment t result t mod RESULTS
//! ```

/// Inputs of large operations that each rank keeps at a time: twice [`LEAD`].
pub(crate) const SLOTS: usize = 8;

/// Segments that a rank may be ahead of the others. With 4 ranks on 2 busy processors 4 were up to twice as fast as 2; on idle
/// processors they were equal.
pub(crate) const LEAD: usize = 4;

/// Segments that may be on the network at a time.
pub(crate) const IN_FLIGHT: usize = 4;

/// Reduced segments kept at a time: three times [`LEAD`] and those on the network.
pub(crate) const RESULTS: usize = 3 * LEAD + IN_FLIGHT;

/// First bytes of every segment.
pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"netfold\x01");

/// Version of this layout and of the rules by which it is used.
pub(crate) const VERSION: u32 = 2;

/// Most ranks of a group.
pub(crate) const WORLD_MAX: u16 = 256;

/// Longest message of a failed network stage.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1024;

/// Alignment of everything that different ranks write: two cache lines, because processors fetch pairs.
pub(crate) const LINE: usize = 128;

const HEADER: usize = 4096;
const CONTROL: usize = 512;

/// Memory that the slots of one group may take together; more ranks get shorter segments.
const SLOTS_BYTES_MAX: usize = 32 << 20;

/// Offsets and lengths, all in bytes, all following from the number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) world: u16,
    /// Length of a slot and of a result.
    pub(crate) segment_bytes: usize,
    /// Length of a small input.
    pub(crate) small_bytes: usize,
}

impl Layout {
    /// The layout for `world` ranks and segments of about `segment_bytes`.
    pub(crate) fn new(world: u16, segment_bytes: usize) -> Self {
        let ranks = usize::from(world.max(1));
        let fair = (SLOTS_BYTES_MAX / (SLOTS * ranks)).max(16 << 10);
        let segment_bytes = segment_bytes.clamp(4 << 10, 4 << 20).min(fair).next_multiple_of(4096);
        // Every rank's part of a segment must hold an element.
        let segment_bytes = segment_bytes.max(ranks * LINE);
        Self { world, segment_bytes, small_bytes: segment_bytes.min(64 << 10) }
    }

    /// Offsets in the header.
    pub(crate) const MAGIC_AT: usize = 0;
    pub(crate) const VERSION_AT: usize = 8;
    pub(crate) const WORLD_AT: usize = 12;
    pub(crate) const SEGMENT_BYTES_AT: usize = 16;
    pub(crate) const TOKEN_AT: usize = 24;
    pub(crate) const FAILURE_AT: usize = LINE;
    pub(crate) const MESSAGE_AT: usize = 2 * LINE;

    fn control(rank: u16) -> usize {
        HEADER + usize::from(rank) * CONTROL
    }

    /// The 32-bit word with a rank's step.
    pub(crate) fn step(rank: u16) -> usize {
        Self::control(rank)
    }

    /// The 64-bit word `word` (0 or 1) of a rank's descriptor of operations of `parity`.
    pub(crate) fn descriptor(rank: u16, parity: usize, word: usize) -> usize {
        Self::control(rank) + 16 + (parity & 1) * 16 + (word & 1) * 8
    }

    /// The 32-bit word that counts the ranks that may sleep on a rank's step.
    pub(crate) fn sleepers(rank: u16) -> usize {
        Self::control(rank) + LINE
    }

    /// The 32-bit word that is 1 once a rank has joined.
    pub(crate) fn joined(rank: u16) -> usize {
        Self::control(rank) + 2 * LINE
    }

    /// The 32-bit process id of a rank.
    pub(crate) fn process(rank: u16) -> usize {
        Self::control(rank) + 2 * LINE + 4
    }

    /// The 64-bit id of the PID namespace of that process id.
    pub(crate) fn namespace(rank: u16) -> usize {
        Self::control(rank) + 2 * LINE + 8
    }

    /// The byte of the file that a rank holds locked as long as its process runs.
    pub(crate) fn lock(rank: u16) -> u64 {
        Self::control(rank) as u64
    }

    fn ranks(self) -> usize {
        usize::from(self.world)
    }

    /// A rank's small input of operations of `parity`.
    pub(crate) fn small(self, rank: u16, parity: usize) -> usize {
        let first = (HEADER + self.ranks() * CONTROL).next_multiple_of(4096);
        first + (usize::from(rank) * 2 + (parity & 1)) * self.small_bytes
    }

    /// A rank's input of segment `index`.
    pub(crate) fn slot(self, rank: u16, index: usize) -> usize {
        self.small(self.world, 0) + (usize::from(rank) * SLOTS + index % SLOTS) * self.segment_bytes
    }

    /// The reduced segment `index`.
    pub(crate) fn result(self, index: usize) -> usize {
        self.slot(self.world, 0) + (index % RESULTS) * self.segment_bytes
    }

    /// Length of the whole segment.
    pub(crate) fn len(self) -> usize {
        self.result(0) + RESULTS * self.segment_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_everything_is_aligned() {
        for world in [1, 2, 3, 4, 8, 64, WORLD_MAX] {
            let layout = Layout::new(world, 256 << 10);
            let mut areas = vec![(0, HEADER)];
            for rank in 0..world {
                assert_eq!(Layout::step(rank) % LINE, 0);
                areas.push((Layout::control(rank), CONTROL));
                areas.extend((0..2).map(|parity| (layout.small(rank, parity), layout.small_bytes)));
                areas.extend((0..SLOTS).map(|index| (layout.slot(rank, index), layout.segment_bytes)));
                assert!(Layout::namespace(rank) + 8 <= Layout::control(rank) + CONTROL);
            }
            areas.extend((0..RESULTS).map(|index| (layout.result(index), layout.segment_bytes)));
            areas.sort_unstable();
            for pair in areas.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{world} ranks: {pair:?}");
            }
            let (last, len) = areas[areas.len() - 1];
            assert_eq!(last + len, layout.len());
            assert!(layout.segment_bytes >= usize::from(world) * LINE);
            assert!(layout.small_bytes <= layout.segment_bytes);
        }
        const { assert!(Layout::MESSAGE_AT + MESSAGE_BYTES_MAX <= HEADER) }
        const { assert!(SLOTS >= 2 * LEAD && RESULTS >= 3 * LEAD + IN_FLIGHT) }
    }
}
