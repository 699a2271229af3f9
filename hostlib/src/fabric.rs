//! What hosts reduce on: links between ranks, shared memory within a host, and both together.

use half::{bf16, f16};
use netfold_collectives::Buffers;
use netfold_collectives::shared::{SharedError, SharedGroup};
use netfold_wire::{Collective, DType, ReduceOp};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::call::Call;
use crate::communicator::Communicator;
use crate::error::Error;
use crate::host::Fabric;
use crate::leader::{NetworkStage, decode};
use crate::links::Links;
use crate::lower::{self, OpContext};
use crate::peers::Peers;
use crate::tensors::{HalfFloat, in_binary32};

/// Ranks of a part of the job, by their index in that part.
pub(crate) type Ranks = Vec<u16>;

fn shared_error(error: SharedError, ranks: &[u16]) -> Error {
    let named = |place: u16| ranks.get(usize::from(place)).copied().unwrap_or(place);
    match error {
        SharedError::Mismatch { local_rank, mine, theirs } => Error::Mismatch {
            rank: Some(named(local_rank)),
            mine: mine.to_string(),
            theirs: Some(theirs.to_string()),
        },
        SharedError::PeerLost { local_rank } => Error::PeerLost {
            rank: named(local_rank),
            message: "its process on this host ended; build a new communicator without it".into(),
        },
        SharedError::Stalled { local_rank } => Error::PeerLost {
            rank: named(local_rank),
            message: "it runs but did not call in time; build a new communicator, or allow more time".into(),
        },
        SharedError::Aborted => Error::Interrupted,
        SharedError::Network { message } => decode(&message),
        other => Error::Shared(Arc::new(other)),
    }
}

/// The memory of a call. A broadcast's root that keeps its tensor elsewhere, and wants no copy of it, sends from `copy`.
fn buffers<'a>(
    call: &Call,
    input: Option<&'a [u8]>,
    output: &'a mut [u8],
    copy: &'a mut Vec<u8>,
) -> Buffers<'a> {
    match input {
        Some(input) if matches!(call.collective, Collective::Broadcast { .. }) && output.is_empty() => {
            copy.extend_from_slice(input);
            Buffers::InPlace(copy)
        }
        Some(input) => Buffers::Split { input, output },
        None => Buffers::InPlace(output),
    }
}

impl Fabric for Links {
    fn run(&mut self, call: &Call, input: Option<&[u8]>, output: &mut [u8]) -> Result<(), Error> {
        let mut copy = Vec::new();
        let buffers = buffers(call, input, output, &mut copy);
        Links::run(self, call.collective, call.dtype, call.op, buffers)
    }
}

/// The other workers of a switch, for failover.
pub(crate) struct MeshPeers {
    links: Links,
    stall_timeout: Duration,
}

impl MeshPeers {
    pub(crate) fn new(links: Links, stall_timeout: Duration) -> Self {
        Self { links, stall_timeout }
    }
}

impl Peers for MeshPeers {
    fn all_gather(&mut self, mine: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        self.links.all_gather_bytes(mine, Instant::now() + timeout)
    }

    fn all_reduce(&mut self, op: ReduceOp, dtype: DType, bytes: &mut [u8]) -> Result<(), Error> {
        self.links.run(Collective::AllReduce, dtype, op, Buffers::InPlace(bytes))
    }

    fn broadcast(&mut self, bytes: &mut [u8], root: u16) -> Result<(), Error> {
        self.links.run(Collective::Broadcast { root }, DType::U8, ReduceOp::Sum, Buffers::InPlace(bytes))
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.links.run(Collective::Barrier, DType::None, ReduceOp::Sum, Buffers::InPlace(&mut []))
    }

    fn stall_timeout(&self) -> Duration {
        self.stall_timeout
    }

    fn is_called(&self) -> bool {
        self.links.is_called()
    }

    fn has_lost_rank(&self) -> bool {
        self.links.has_lost_rank()
    }
}

/// Ranks of one host.
pub(crate) struct SharedFabric {
    shared: SharedGroup,
    ranks: Ranks,
}

impl SharedFabric {
    /// `ranks` are those of the job, in order of the group's.
    pub(crate) fn new(shared: SharedGroup, ranks: Ranks) -> Self {
        Self { shared, ranks }
    }
}

impl Fabric for SharedFabric {
    fn run(&mut self, call: &Call, input: Option<&[u8]>, output: &mut [u8]) -> Result<(), Error> {
        let mut copy = Vec::new();
        let buffers = buffers(call, input, output, &mut copy);
        let done = self.shared.run(call.collective, call.dtype, call.op, buffers);
        done.map_err(|error| shared_error(error, &self.ranks))
    }
}

/// Several hosts, at least one of them with several ranks: sums are folded in shared memory, then among the hosts' leaders,
/// by a switch or a ring; everything else uses links between all ranks.
pub(crate) struct Hierarchy {
    shared: SharedGroup,
    /// The job's ranks of this host.
    local: Ranks,
    /// On the leader: the communicator among leaders.
    leaders: Option<Communicator>,
    all_ranks: Links,
    context: OpContext,
}

impl Hierarchy {
    pub(crate) fn new(
        (shared, local): (SharedGroup, Ranks),
        leaders: Option<Communicator>,
        all_ranks: Links,
        context: OpContext,
    ) -> Self {
        Self { shared, local, leaders, all_ranks, context }
    }
}

impl Fabric for Hierarchy {
    fn run(&mut self, call: &Call, input: Option<&[u8]>, output: &mut [u8]) -> Result<(), Error> {
        self.fold(call, input, output, None)
    }

    fn run_with_feedback(
        &mut self,
        call: &Call,
        input: Option<&[u8]>,
        output: &mut [u8],
        residual: &mut [f32],
    ) -> Result<(), Error> {
        self.fold(call, input, output, Some(residual))
    }
}

impl Hierarchy {
    /// The leader's `residual` gets what is left out of its host's sum.
    fn fold(
        &mut self,
        call: &Call,
        input: Option<&[u8]>,
        output: &mut [u8],
        residual: Option<&mut [f32]>,
    ) -> Result<(), Error> {
        let summed = call.collective == Collective::AllReduce
            && lower::supported_by_switch(call, self.context.lane_ops, &self.context.config).is_ok();
        if !summed {
            return Fabric::run(&mut self.all_ranks, call, input, output);
        }
        let op = if call.op == ReduceOp::Avg { ReduceOp::Sum } else { call.op };
        let mut copy = Vec::new();
        let buffers = buffers(call, input, output, &mut copy);
        let mut stage = NetworkStage::new(self.leaders.as_ref(), (call.dtype, op), residual);
        let done = self.shared.hierarchical_all_reduce(call.dtype, op, buffers, &mut stage);
        done.map_err(|error| shared_error(error, &self.local))?;
        // The types that are summed can be divided.
        netfold_collectives::reduce::finish(call.op, call.dtype, output, u32::from(self.context.world))
            .map_err(|_| crate::host::unsupported(call))
    }
}

/// Folds 16-bit floats in binary32 and rounds once, so that hosts keep within the error bound of a switch.
pub(crate) struct InBinary32<F>(pub(crate) F);

impl<F: Fabric> Fabric for InBinary32<F> {
    fn run(&mut self, call: &Call, input: Option<&[u8]>, output: &mut [u8]) -> Result<(), Error> {
        match call.dtype {
            DType::F16 if call.collective.reduces() => widened::<f16>(&mut self.0, call, input, output),
            DType::Bf16 if call.collective.reduces() => widened::<bf16>(&mut self.0, call, input, output),
            _ => self.0.run(call, input, output),
        }
    }

    fn run_with_feedback(
        &mut self,
        call: &Call,
        input: Option<&[u8]>,
        output: &mut [u8],
        residual: &mut [f32],
    ) -> Result<(), Error> {
        // Of tensors in binary32.
        self.0.run_with_feedback(call, input, output, residual)
    }
}

fn widened<T: HalfFloat>(
    fabric: &mut impl Fabric,
    call: &Call,
    input: Option<&[u8]>,
    output: &mut [u8],
) -> Result<(), Error> {
    let wide = Call { dtype: DType::F32, ..*call };
    let Some(input) = input else {
        return in_binary32::<T>(output, |tensor| fabric.run(&wide, None, tensor));
    };
    let mut given = input.to_vec();
    let mut result = Ok(());
    in_binary32::<T>(output, |to| {
        in_binary32::<T>(&mut given, |from| {
            result = fabric.run(&wide, Some(from), to);
            Ok(())
        })
    })?;
    result
}
