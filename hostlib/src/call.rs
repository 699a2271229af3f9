//! A collective operation as data, for bindings that know element types at run time only.

use netfold_collectives::ReduceOp;
use netfold_proto::{DType, Tolerance};

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Collective {
    /// Every rank ends with the fold of all ranks' tensors.
    AllReduce,
    /// The root ends with the fold of all ranks' tensors.
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
    /// Rank `r` ends with part `r` of the fold of all ranks' tensors.
    ReduceScatter,
    /// Rank `r` ends with part `r` of every rank's tensor, in order of rank.
    AllToAll,
    /// No rank returns before all have called.
    Barrier,
}

impl Collective {
    /// The name in reports and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Reduce { .. } => "reduce",
            Self::Broadcast { .. } => "broadcast",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Barrier => "barrier",
        }
    }

    /// Whether elements of different ranks are combined.
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce { .. } | Self::ReduceScatter)
    }

    /// The root, of those that have one.
    pub const fn root(self) -> Option<u16> {
        match self {
            Self::Reduce { root } | Self::Broadcast { root } => Some(root),
            _ => None,
        }
    }
}

/// One collective operation. Must be the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Call {
    /// What to do.
    pub collective: Collective,
    /// Element type.
    pub dtype: DType,
    /// How elements are combined; ignored by collectives that do not.
    pub op: ReduceOp,
    /// Number of elements, in NCCL's sense: of the tensor (all-reduce, reduce, broadcast), that each rank sends (all-gather), that
    /// each rank receives (reduce-scatter), for each peer (all-to-all).
    pub count: usize,
    /// Class of the operation, below the communicator's number of [classes](crate::Builder::classes); 0 is the lowest, and the default.
    pub class: u8,
    /// How many contributions to a sum of floats may be left out; `None` for what the [builder](crate::Builder::tolerance) says. Other
    /// operations are exact, whatever this is, and so are operations without the switch.
    pub tolerance: Option<Tolerance>,
}

impl Call {
    /// A call.
    pub const fn new(collective: Collective, dtype: DType, op: ReduceOp, count: usize) -> Self {
        Self { collective, dtype, op, count, class: 0, tolerance: None }
    }

    /// The same with another tolerance than the builder's: [`Tolerance::NONE`] for sums that must be whole.
    #[must_use]
    pub const fn tolerating(self, tolerance: Tolerance) -> Self {
        Self { tolerance: Some(tolerance), ..self }
    }

    /// The same in another class: through a switch, chunks of higher classes are sent first, whatever was submitted first. Elsewhere
    /// operations go in order of submission.
    #[must_use]
    pub const fn in_class(self, class: u8) -> Self {
        Self { class, ..self }
    }

    /// A barrier.
    pub const BARRIER: Self = Self::new(Collective::Barrier, DType::None, ReduceOp::Sum, 0);

    /// Elements of this rank's input in a group of `world` ranks.
    pub const fn input_len(&self, world: u16) -> usize {
        match self.collective {
            Collective::ReduceScatter | Collective::AllToAll => self.count.saturating_mul(world as usize),
            Collective::Barrier => 0,
            _ => self.count,
        }
    }

    /// Elements of this rank's output in a group of `world` ranks.
    pub const fn output_len(&self, world: u16) -> usize {
        match self.collective {
            Collective::AllGather | Collective::AllToAll => self.count.saturating_mul(world as usize),
            Collective::Barrier => 0,
            _ => self.count,
        }
    }
}
