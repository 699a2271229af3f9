//! Collective operations.

use core::fmt;

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collective {
    /// Every rank ends with the reduction of all ranks' tensors.
    AllReduce,
    /// The root ends with the reduction of all ranks' tensors.
    Reduce {
        /// The rank that gets the result; the others' output is left alone.
        root: u16,
    },
    /// Every rank ends with the root's tensor, bit for bit.
    Broadcast {
        /// The rank that has the tensor.
        root: u16,
    },
    /// Every rank ends with all ranks' tensors, in order of rank.
    AllGather,
    /// Rank `r` ends with part `r` of the reduction of all ranks' tensors.
    ReduceScatter,
    /// Rank `r` ends with part `r` of every rank's tensor, in order of rank.
    AllToAll,
    /// No rank returns before all have called.
    Barrier,
}

/// How long a buffer is, in terms of a call's count of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// There is no buffer.
    Empty,
    /// The count.
    Count,
    /// The count for each rank.
    CountPerRank,
}

impl Extent {
    /// Elements in a group of `world` ranks.
    pub const fn elements(self, count: usize, world: u16) -> usize {
        match self {
            Self::Empty => 0,
            Self::Count => count,
            Self::CountPerRank => count.saturating_mul(world as usize),
        }
    }
}

/// What all calls of a collective have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectiveInfo {
    /// The name on command lines, in messages and in reports.
    pub name: &'static str,
    /// The code in messages between hosts, and in the C interface.
    pub code: u8,
    /// The code in the descriptors that a switch sums, 3 bits; `None` where switches do not do this.
    pub descriptor_code: Option<u8>,
    /// Whether elements of different ranks are combined.
    pub reduces: bool,
    /// A rank's input.
    pub input: Extent,
    /// A rank's output.
    pub output: Extent,
}

impl Collective {
    /// Every collective, with rank 0 for the root of those that have one.
    pub const ALL: [Self; 7] = [
        Self::AllReduce,
        Self::Reduce { root: 0 },
        Self::Broadcast { root: 0 },
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::Barrier,
    ];

    /// What all calls of this collective have in common: its row of the table.
    pub const fn info(self) -> CollectiveInfo {
        use Extent::{Count, CountPerRank, Empty};
        const fn row(
            (name, code, descriptor_code): (&'static str, u8, Option<u8>),
            reduces: bool,
            (input, output): (Extent, Extent),
        ) -> CollectiveInfo {
            CollectiveInfo { name, code, descriptor_code, reduces, input, output }
        }
        match self {
            Self::AllReduce => row(("all_reduce", 1, Some(1)), true, (Count, Count)),
            Self::Reduce { .. } => row(("reduce", 2, Some(4)), true, (Count, Count)),
            Self::Broadcast { .. } => row(("broadcast", 3, Some(2)), false, (Count, Count)),
            Self::AllGather => row(("all_gather", 4, Some(5)), false, (Count, CountPerRank)),
            Self::ReduceScatter => row(("reduce_scatter", 5, Some(6)), true, (CountPerRank, Count)),
            Self::AllToAll => row(("all_to_all", 6, None), false, (CountPerRank, CountPerRank)),
            Self::Barrier => row(("barrier", 7, Some(3)), false, (Empty, Empty)),
        }
    }

    /// The name on command lines, in messages and in reports.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The code in messages between hosts, and in the C interface.
    pub const fn code(self) -> u8 {
        self.info().code
    }

    /// Whether elements of different ranks are combined.
    pub const fn reduces(self) -> bool {
        self.info().reduces
    }

    /// The root, of those that have one.
    pub const fn root(self) -> Option<u16> {
        match self {
            Self::Reduce { root } | Self::Broadcast { root } => Some(root),
            _ => None,
        }
    }

    /// The same with this root; unchanged without a root.
    #[must_use]
    pub const fn with_root(self, root: u16) -> Self {
        match self {
            Self::Reduce { .. } => Self::Reduce { root },
            Self::Broadcast { .. } => Self::Broadcast { root },
            other => other,
        }
    }

    /// The collective with this code, and this root if it has one; `None` when there is none.
    pub fn from_code(code: u8, root: u16) -> Option<Self> {
        Self::find(root, |info| info.code == code)
    }

    /// The collective with this code in descriptors, and this root if it has one; `None` when there is none.
    pub fn from_descriptor_code(code: u8, root: u16) -> Option<Self> {
        Self::find(root, |info| info.descriptor_code == Some(code))
    }

    /// The collective of this name, with this root if it has one; `None` when there is none.
    pub fn from_name(name: &str, root: u16) -> Option<Self> {
        Self::find(root, |info| info.name == name)
    }

    fn find(root: u16, is_wanted: impl Fn(&CollectiveInfo) -> bool) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|collective| is_wanted(&collective.info()))
            .map(|found| found.with_root(root))
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collective_is_found_by_its_names_and_codes() {
        for collective in Collective::ALL {
            let (info, rooted) = (collective.info(), collective.with_root(9));
            assert_eq!(Collective::from_name(info.name, 9), Some(rooted));
            assert_eq!(Collective::from_code(info.code, 9), Some(rooted));
            if let Some(code) = info.descriptor_code {
                assert!((1..8).contains(&code), "three bits, and 0 describes nothing");
                assert_eq!(Collective::from_descriptor_code(code, 9), Some(rooted));
            }
        }
        assert_eq!(Collective::from_code(0, 0), None);
        assert_eq!(Collective::from_descriptor_code(0, 0), None);
        assert_eq!(Collective::from_name("", 0), None);
    }
}
