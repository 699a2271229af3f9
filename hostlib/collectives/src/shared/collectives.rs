//! The collectives' public methods.

use crate::shared::error::SharedError;
use crate::shared::group::SharedGroup;
use crate::shared::hierarchy::Network;
use crate::shared::plan::SharedPlan;
use crate::{Buffers, CallKind, CallSignature, Collective, DType, ReduceOp};

/// Length up to which every rank reduces everything itself, for 2 ranks; less for more ranks.
const FLAT_FOLD_BYTES_MAX: usize = 64 << 10;

/// All return [`SharedError`]: `Length`, `Unsupported`, `Root` on this rank alone, before anything happens; `Mismatch` on every
/// rank; others, on every rank and for good, within about a second of the cause. Buffers hold elements of `dtype` in native
/// byte order, at any alignment. Results have the same bits on every rank: elements are reduced in order of rank, from the left.
impl SharedGroup {
    /// Every rank ends with the reduction of all ranks' tensors. `Avg` divides by the number of local ranks.
    ///
    /// # Errors
    ///
    /// [`SharedError`], see above.
    pub fn all_reduce<'a>(
        &mut self,
        dtype: DType,
        op: ReduceOp,
        buffers: impl Into<Buffers<'a>>,
    ) -> Result<(), SharedError> {
        self.run(Collective::AllReduce, dtype, op, buffers)
    }

    /// Local rank `root` ends with the reduction of all ranks' tensors; other ranks' outputs are left alone, and may be empty.
    ///
    /// # Errors
    ///
    /// [`SharedError`], see above.
    pub fn reduce<'a>(
        &mut self,
        dtype: DType,
        op: ReduceOp,
        root: u16,
        buffers: impl Into<Buffers<'a>>,
    ) -> Result<(), SharedError> {
        self.run(Collective::Reduce { root }, dtype, op, buffers)
    }

    /// Every rank ends with the tensor of local rank `root`. Other ranks' inputs are not read, and may be empty.
    ///
    /// # Errors
    ///
    /// [`SharedError`], see above.
    pub fn broadcast<'a>(
        &mut self,
        dtype: DType,
        root: u16,
        buffers: impl Into<Buffers<'a>>,
    ) -> Result<(), SharedError> {
        self.run(Collective::Broadcast { root }, dtype, ReduceOp::Sum, buffers)
    }

    /// Every rank ends with all ranks' tensors, in order of rank: the output is `world` times the input.
    ///
    /// # Errors
    ///
    /// [`SharedError`], see above.
    pub fn all_gather<'a>(
        &mut self,
        dtype: DType,
        buffers: impl Into<Buffers<'a>>,
    ) -> Result<(), SharedError> {
        self.run(Collective::AllGather, dtype, ReduceOp::Sum, buffers)
    }

    /// Rank `r` ends with part `r` of the reduction of all ranks' tensors: the input is `world` times the output. In place, other
    /// parts are left alone.
    ///
    /// # Errors
    ///
    /// [`SharedError`], see above.
    pub fn reduce_scatter<'a>(
        &mut self,
        dtype: DType,
        op: ReduceOp,
        buffers: impl Into<Buffers<'a>>,
    ) -> Result<(), SharedError> {
        self.run(Collective::ReduceScatter, dtype, op, buffers)
    }

    /// Rank `r` ends with part `r` of every rank's tensor, in order of rank; input and output are equally long.
    ///
    /// # Errors
    ///
    /// [`SharedError`], see above.
    pub fn all_to_all<'a>(
        &mut self,
        dtype: DType,
        buffers: impl Into<Buffers<'a>>,
    ) -> Result<(), SharedError> {
        self.run(Collective::AllToAll, dtype, ReduceOp::Sum, buffers)
    }

    /// No rank returns before all have called.
    ///
    /// # Errors
    ///
    /// [`SharedError`], see above.
    pub fn barrier(&mut self) -> Result<(), SharedError> {
        self.run(Collective::Barrier, DType::None, ReduceOp::Sum, Buffers::InPlace(&mut []))
    }

    /// An all-reduce among the ranks of many hosts: the sum of this host's ranks is passed to `network` on the leader (local
    /// rank 0), segment by segment, and what it returns is the result on every rank. Reduction, network and copying run at
    /// the same time, with up to 5 segments on the network.
    ///
    /// `Avg` is reduced as a sum and not divided: only the network knows how many ranks there are. On ranks other than the
    /// leader `network` is not called; any value will do. Other collectives: [`reduce`](Self::reduce) to rank 0, the
    /// network, [`broadcast`](Self::broadcast) from rank 0.
    ///
    /// # Errors
    ///
    /// [`SharedError::Network`] on every rank with the leader's reason; others, see above.
    pub fn hierarchical_all_reduce<'a>(
        &mut self,
        dtype: DType,
        op: ReduceOp,
        buffers: impl Into<Buffers<'a>>,
        network: &mut dyn Network,
    ) -> Result<(), SharedError> {
        self.call(CallKind::Hierarchical, (dtype, op), buffers.into(), Some(network))
    }

    /// Any collective. The other methods are this with fewer arguments and document the sizes. `op` matters only where something is
    /// reduced.
    ///
    /// # Errors
    ///
    /// [`SharedError`], see above.
    pub fn run<'a>(
        &mut self,
        collective: Collective,
        dtype: DType,
        op: ReduceOp,
        buffers: impl Into<Buffers<'a>>,
    ) -> Result<(), SharedError> {
        self.call(CallKind::Collective(collective), (dtype, op), buffers.into(), None)
    }

    fn call(
        &mut self,
        kind: CallKind,
        (dtype, op): (DType, ReduceOp),
        buffers: Buffers<'_>,
        network: Option<&mut dyn Network>,
    ) -> Result<(), SharedError> {
        let layout = self.layout;
        let flat_bytes_max = match kind {
            CallKind::Collective(Collective::AllReduce) => {
                (FLAT_FOLD_BYTES_MAX * 2 / usize::from(layout.world.max(2))).min(layout.small_bytes)
            }
            CallKind::Hierarchical => 0,
            _ => layout.small_bytes,
        };
        let op = if kind.collective().reduces() { op } else { ReduceOp::Sum };
        let dtype = if kind.collective() == Collective::Barrier { DType::None } else { dtype };
        let call = CallSignature { kind, dtype, op, count: 0 };
        let member = (self.rank, layout.world);
        let mut plan = SharedPlan::new(call, member, buffers, layout.segment_bytes, flat_bytes_max)?;
        self.run_plan(&mut plan, network)
    }
}
