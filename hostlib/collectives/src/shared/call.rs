//! A call as each rank publishes it, so that all can compare.

use std::fmt;

use crate::{DType, ReduceOp};

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum SharedCollective {
    /// Every rank ends with the reduction of all tensors.
    AllReduce = 1,
    /// The root ends with the reduction of all tensors.
    Reduce = 2,
    /// Every rank ends with the root's tensor.
    Broadcast = 3,
    /// Every rank ends with all tensors, in order of rank.
    AllGather = 4,
    /// Rank `r` ends with part `r` of the reduction of all tensors.
    ReduceScatter = 5,
    /// Rank `r` ends with part `r` of every rank's tensor.
    AllToAll = 6,
    /// No rank returns before all have called.
    Barrier = 7,
    /// An all-reduce whose local sum the leader reduces over the network.
    Hierarchical = 8,
}

impl SharedCollective {
    const ALL: [Self; 8] = [
        Self::AllReduce,
        Self::Reduce,
        Self::Broadcast,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::Barrier,
        Self::Hierarchical,
    ];

    /// The name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Reduce => "reduce",
            Self::Broadcast => "broadcast",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Barrier => "barrier",
            Self::Hierarchical => "hierarchical_all_reduce",
        }
    }
}

/// A collective as one rank called it; must be equal on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SharedCall {
    /// Which collective.
    pub collective: SharedCollective,
    /// Element type; [`DType::None`] for barriers.
    pub dtype: DType,
    /// How elements are combined; [`ReduceOp::Sum`] for collectives that do not.
    pub op: ReduceOp,
    /// The root; 0 for collectives without one.
    pub root: u16,
    /// Elements, in NCCL's sense: of the tensor, that each rank sends (all-gather), receives (reduce-scatter), or has for each
    /// peer (all-to-all).
    pub count: u64,
}

impl SharedCall {
    pub(crate) fn to_words(self) -> [u64; 2] {
        let word = u64::from(self.collective as u8)
            | u64::from(self.dtype as u8) << 8
            | u64::from(self.op as u8) << 16
            | u64::from(self.root) << 24;
        [word, self.count]
    }

    /// `None` when the words are no valid call.
    pub(crate) fn from_words([word, count]: [u64; 2]) -> Option<Self> {
        let byte = |at: u32| (word >> at & 0xff) as u8;
        Some(Self {
            collective: SharedCollective::ALL.into_iter().find(|known| *known as u8 == byte(0))?,
            dtype: DType::ALL.iter().copied().find(|known| *known as u8 == byte(8))?,
            op: ReduceOp::from_code(byte(16))?,
            root: (word >> 24 & 0xffff) as u16,
            count,
        })
    }
}

impl fmt::Display for SharedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.collective.name(), self.count, self.dtype.name())?;
        if self.op != ReduceOp::Sum {
            write!(f, ", {}", self.op)?;
        }
        if matches!(self.collective, SharedCollective::Reduce | SharedCollective::Broadcast) {
            write!(f, ", root {}", self.root)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_back() {
        for collective in SharedCollective::ALL {
            for op in ReduceOp::ALL {
                let call =
                    SharedCall { collective, dtype: DType::Bf16, op: *op, root: 0xfedc, count: u64::MAX - 3 };
                assert_eq!(SharedCall::from_words(call.to_words()), Some(call));
            }
        }
        assert_eq!(SharedCall::from_words([0, 0]), None);
        assert_eq!(SharedCall::from_words([u64::MAX, 1]), None);
    }
}
