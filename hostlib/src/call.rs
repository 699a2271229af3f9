//! A collective operation as data, for bindings that know element types at run time only.

use netfold_proto::Tolerance;
use netfold_wire::{Collective, DType, ReduceOp};

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

    /// Whether a rank's input is read.
    pub(crate) fn reads(&self, rank: u16) -> bool {
        !matches!(self.collective, Collective::Broadcast { root } if root != rank)
    }

    /// Whether a rank's output is written.
    pub(crate) fn writes(&self, rank: u16) -> bool {
        match self.collective {
            Collective::Reduce { root } => root == rank,
            Collective::Broadcast { root } => root != rank,
            _ => true,
        }
    }

    /// Whether the output takes the place of the input.
    pub(crate) const fn is_in_place(&self) -> bool {
        matches!(
            self.collective,
            Collective::AllReduce | Collective::Reduce { .. } | Collective::Broadcast { .. }
        )
    }

    /// Elements of this rank's input in a group of `world` ranks.
    pub const fn input_len(&self, world: u16) -> usize {
        self.collective.info().input.elements(self.count, world)
    }

    /// Elements of this rank's output in a group of `world` ranks.
    pub const fn output_len(&self, world: u16) -> usize {
        self.collective.info().output.elements(self.count, world)
    }
}
