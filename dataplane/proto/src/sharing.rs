//! Which ranks contribute to a chunk, and which receive its result.

use core::ops::RangeInclusive;

use netfold_wire::LaneOwner;

/// Which ranks contribute to the data chunks of an operation, and which receive their lanes.
///
/// A rank that has nothing to contribute sends headers, where switches accept them (those of programs for bounded loss), and zeros elsewhere;
/// so its contribution must be the identity of the lane operation. A rank that does not receive the lanes of a chunk receives the header of its
/// result, or the lanes in vain, where a switch has a program without [owners](LaneOwner).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// All contribute, and all receive.
    #[default]
    All,
    /// One rank contributes, and all receive: a broadcast.
    From(u16),
    /// All contribute, and one rank receives: a reduction to one rank.
    To(u16),
    /// Each rank contributes its part, and all receive: an all-gather.
    FromEach(Parts),
    /// All contribute, and each rank receives its part: a reduce-scatter.
    ToEach(Parts),
}

/// A stretch of a tensor that has one part for each rank, in order of rank: cut into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Elements of the tensor before the stretch.
    pub first: u64,
    /// Elements of a part, at least 1.
    pub part: u64,
    /// Elements of a chunk, at least 1; the last chunk may have fewer.
    pub chunk: u64,
}

impl Parts {
    /// The ranks, of `world`, of whose parts a chunk has elements.
    fn ranks(self, chunk: u32, world: u16) -> RangeInclusive<u16> {
        let first = self.first + u64::from(chunk) * self.chunk;
        let rank = |element: u64| {
            let rank = element / self.part.max(1);
            u16::try_from(rank).unwrap_or(u16::MAX).min(world.saturating_sub(1))
        };
        rank(first)..=rank(first + self.chunk.max(1) - 1)
    }
}

/// Position `ordinal` in a table of `chunks` entries that was filled column by column, of `columns` columns, and is read row by row.
fn alternating(ordinal: u32, chunks: u32, columns: u32) -> u32 {
    let rows = chunks.div_ceil(columns.max(1)).max(1);
    // So many columns are full, and the next one has the rest.
    let (full, rest) = (chunks / rows, chunks % rows);
    let (row, column) = match ordinal.checked_sub(rest * (full + 1)) {
        None => (ordinal / (full + 1), ordinal % (full + 1)),
        Some(beyond) => (rest + beyond / full.max(1), beyond % full.max(1)),
    };
    column * rows + row
}

impl Sharing {
    /// The data chunk, of `chunks`, that comes `ordinal`-th in the stream. Where each of `world` ranks has a part, chunks of all parts alternate:
    /// so no rank's link carries its part alone while the others' are idle, or wait for it in another operation.
    pub fn chunk_at(self, ordinal: u32, chunks: u32, world: u16) -> u32 {
        match self {
            Self::All | Self::From(_) | Self::To(_) => ordinal,
            Self::FromEach(_) | Self::ToEach(_) => alternating(ordinal, chunks, u32::from(world)),
        }
    }

    /// The ranks, of `world`, that contribute to a data chunk.
    pub fn contributors(self, chunk: u32, world: u16) -> RangeInclusive<u16> {
        match self {
            Self::All | Self::To(_) | Self::ToEach(_) => 0..=world.saturating_sub(1),
            Self::From(rank) => rank..=rank,
            Self::FromEach(parts) => parts.ranks(chunk, world),
        }
    }

    /// Who receives the lanes of a data chunk, of `world` ranks: all, if several do.
    pub fn owner(self, chunk: u32, world: u16) -> LaneOwner {
        match self {
            Self::All | Self::From(_) | Self::FromEach(_) => LaneOwner::All,
            Self::To(rank) => LaneOwner::Rank(rank),
            Self::ToEach(parts) => {
                let ranks = parts.ranks(chunk, world);
                if ranks.start() == ranks.end() { LaneOwner::Rank(*ranks.start()) } else { LaneOwner::All }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chunks_belong_to_the_ranks_whose_elements_they_have(
            part in 1u64..50, chunk in 1u64..50, world in 1u16..9, before in 0u64..60
        ) {
            let elements = part * u64::from(world);
            let before = before.min(elements);
            let parts = Parts { first: before, part, chunk };
            for number in 0..(elements - before).div_ceil(chunk) {
                let (first, end) = (before + number * chunk, (before + (number + 1) * chunk).min(elements));
                let ranks: Vec<u16> = (0..world)
                    .filter(|rank| (first..end).any(|element| element / part == u64::from(*rank)))
                    .collect();
                let number = number as u32;
                let contributors: Vec<u16> = Sharing::FromEach(parts).contributors(number, world).collect();
                prop_assert_eq!(&contributors, &ranks);
                let owner = Sharing::ToEach(parts).owner(number, world);
                prop_assert!(ranks.iter().all(|rank| owner.includes(*rank)));
                prop_assert_eq!(owner == LaneOwner::All, ranks.len() > 1);
                prop_assert_eq!(Sharing::ToEach(parts).contributors(number, world), 0..=world - 1);
                prop_assert_eq!(Sharing::FromEach(parts).owner(number, world), LaneOwner::All);
            }
        }
    }

    proptest! {
        #[test]
        fn chunks_of_all_parts_alternate(chunks in 0u32..200, world in 1u16..12) {
            let parts = Sharing::ToEach(Parts { first: 0, part: 1, chunk: 1 });
            let order: Vec<u32> = (0..chunks).map(|ordinal| parts.chunk_at(ordinal, chunks, world)).collect();
            let mut sorted = order.clone();
            sorted.sort();
            prop_assert_eq!(sorted, (0..chunks).collect::<Vec<_>>(), "each chunk once");
            let rows = chunks.div_ceil(world.into()).max(1);
            for neighbours in order.windows(2).filter(|_| rows > 1 && chunks > 2 * rows) {
                prop_assert_ne!(neighbours[0] / rows, neighbours[1] / rows, "of another part: {:?}", order);
            }
        }
    }

    #[test]
    fn one_rank_contributes_or_receives() {
        assert_eq!(Sharing::From(3).contributors(7, 5), 3..=3);
        assert_eq!(
            (Sharing::From(3).owner(7, 5), Sharing::To(3).owner(7, 5)),
            (LaneOwner::All, LaneOwner::Rank(3))
        );
        assert_eq!(Sharing::To(3).contributors(7, 5), 0..=4);
        assert_eq!(Sharing::All.contributors(0, 1), 0..=0);
    }
}
