//! How a collective becomes an operation of the switch: what it takes, in which coding, on which memory.

use std::sync::Arc;

use netfold_proto::{
    DATA_CHUNKS_MAX, Descriptor, ELEMENTS_MAX, Importance, OpSpec, OpSpecError, Parts, Sharing, Tolerance,
};
use netfold_wire::{Collective, DType, LaneOp, LaneOps, Mode, Numerics, ReduceOp};

use crate::buffer::OpBuffer;
use crate::call::Call;
use crate::coding::{Coding, chunks, exact, lanes_type, units};
use crate::config::JobConfig;
use crate::error::Error;
use crate::operation::Operation;

/// What operations depend on: this rank's number, and the job's configuration.
#[derive(Debug, Clone)]
pub(crate) struct OpContext {
    pub(crate) rank: u16,
    pub(crate) world: u16,
    /// Bytes of a packet's lanes; 0 without a switch.
    pub(crate) lane_bytes: usize,
    /// The same on all ranks: that of those that exchange packets with a switch, as first admitted; 0 where none does.
    pub(crate) block_bytes: usize,
    /// Lane operations that the switches of all trees have; those of the first admission, for as long as the job lasts.
    pub(crate) lane_ops: LaneOps,
    /// Bytes up to which an all-reduce is done by hosts, where they can.
    pub(crate) small: usize,
    pub(crate) config: Arc<JobConfig>,
}

/// An operation of the switch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lowered {
    pub(crate) spec: OpSpec,
    pub(crate) coding: Coding,
}

/// Whether a switch with these lane operations can do this call at all. Depends on what all ranks know alone, so that they decide alike.
///
/// # Errors
///
/// [`Error::Unsupported`], with what to do instead.
pub(crate) fn supported_by_switch(call: &Call, lane_ops: LaneOps, config: &JobConfig) -> Result<(), Error> {
    let mode = config.mode;
    let unsupported = |advice| {
        Err(Error::Unsupported {
            collective: call.collective.name(),
            op: call.op,
            dtype: call.dtype,
            mode,
            advice,
        })
    };
    if call.collective.info().descriptor_code.is_none() {
        return unsupported("a switch cannot permute; give the builder a rendezvous, so that hosts do it");
    }
    if !call.collective.reduces() {
        return Ok(());
    }
    if config.group_key.is_some()
        && switch_lane_op(mode, call.dtype, call.op).is_some_and(|op| op != LaneOp::Sum)
    {
        return unsupported(
            "masks cancel in sums of words only; give the builder a rendezvous, so that hosts do it",
        );
    }
    switch_reduces(mode, lane_ops, call.dtype, call.op).or_else(unsupported)
}

/// Whether a switch whose program has these lane operations does this reduction in jobs of this mode.
///
/// # Errors
///
/// What to do instead.
pub fn switch_reduces(mode: Mode, lane_ops: LaneOps, dtype: DType, op: ReduceOp) -> Result<(), &'static str> {
    let numerics = mode.numerics();
    let floats = matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
    Err(match (switch_lane_op(mode, dtype, op), op) {
        (None, ReduceOp::Sum | ReduceOp::Avg) if floats => "build the communicator with mode bfp32 or bfp16",
        (None, ReduceOp::Sum) if dtype == DType::F64 => {
            "a switch adds words of 32 bits; give the builder a rendezvous, so that hosts do it"
        }
        (None, ReduceOp::Min | ReduceOp::Max) => {
            "a switch compares words of 32 bits; give the builder a rendezvous, so that hosts do it"
        }
        (None, _) => "a switch cannot reduce this; give the builder a rendezvous, so that hosts do",
        (Some(needed), _) if !lane_ops.has(needed) => {
            "the program of the switch does not have this lane operation; give the builder a rendezvous, so that hosts do it, or use a switch whose program has it"
        }
        (Some(_), ReduceOp::Sum | ReduceOp::Avg) if floats => return Ok(()),
        (Some(LaneOp::Sum), _) if numerics != Numerics::Word => {
            "only switches of plain words sum integers; use a job of mode i32, bfp32 or bfp16, or give the builder a rendezvous"
        }
        (Some(needed), _) if numerics.converts() || !numerics.lane_ops().contains(&needed) => {
            "this switch does not fold integers so; use a job of mode i32, bfp32 or bfp16, or give the builder a rendezvous"
        }
        (Some(_), _) => return Ok(()),
    })
}

/// The lane operation of a reduction in jobs of a mode; `None` where no switch does it.
pub fn switch_lane_op(mode: Mode, dtype: DType, op: ReduceOp) -> Option<LaneOp> {
    match (dtype, op) {
        (DType::F32 | DType::F16 | DType::Bf16, ReduceOp::Sum | ReduceOp::Avg) => {
            mode.lanes().map(|_| LaneOp::Sum)
        }
        _ => exact(dtype, op, 1).map(|(lane_op, _)| lane_op),
    }
}

/// An operation of the switch on its way.
pub(crate) type SwitchOperation = Operation<Lowered>;

impl Lowered {
    /// Cuts the tensor for packets of `lane_bytes` bytes of lanes. Tensors of too many chunks are refused where they are submitted.
    pub(crate) fn cut_for(&mut self, lane_bytes: usize) {
        let chunks = chunks(&self.spec.descriptor, self.coding, lane_bytes);
        self.spec.data_chunks = u32::try_from(chunks).unwrap_or(u32::MAX);
        if let Sharing::FromEach(parts) | Sharing::ToEach(parts) = &mut self.spec.sharing {
            parts.chunk = self.coding.chunk_units(self.spec.descriptor.dtype, lane_bytes);
        }
    }
}

/// The operation of the switch that does `call`, which it [can](supported_by_switch).
///
/// # Errors
///
/// [`Error::Length`] when it is too long.
pub(crate) fn lower(call: &Call, context: &OpContext) -> Result<Lowered, Error> {
    let OpContext { rank, world, lane_bytes, .. } = *context;
    let JobConfig { mode, rounding, .. } = *context.config;
    let reduces = call.collective.reduces();
    let carried = (mode.numerics().carrier(), Coding::Words);
    let (lane_op, coding) = match call.collective {
        Collective::Broadcast { root } if root == rank => (carried.0, Coding::WordsOfRoot),
        Collective::Broadcast { .. } => (carried.0, Coding::WordsFromRoot),
        _ if !reduces => carried,
        _ => match exact(call.dtype, call.op, world) {
            Some(exact) => exact,
            None => (LaneOp::Sum, Coding::of(mode).rounded(rounding, rank)),
        },
    };
    if call.collective == Collective::Barrier {
        return Ok(Lowered { spec: OpSpec { class: call.class, ..OpSpec::BARRIER }, coding });
    }
    let descriptor = describe(call, context, coding);
    if descriptor.elements > ELEMENTS_MAX {
        return Err(OpSpecError::Elements(descriptor.elements).into());
    }
    let data_chunks = chunks(&descriptor, coding, lane_bytes);
    if data_chunks > u64::from(DATA_CHUNKS_MAX) {
        return Err(OpSpecError::Chunks(data_chunks.min(u64::from(u32::MAX)) as u32).into());
    }
    let spec = OpSpec {
        descriptor,
        data_chunks: data_chunks as u32,
        exponents: matches!(coding, Coding::Blocks(..)),
        class: call.class,
        importance: Importance::NONE,
        lane_op,
        sharing: sharing(call, context, coding),
    };
    Ok(Lowered { spec, coding })
}

/// What all ranks must agree on.
fn describe(call: &Call, context: &OpContext, coding: Coding) -> Descriptor {
    // All ranks' parts are in the sums.
    let elements = call.input_len(context.world).max(call.output_len(context.world));
    Descriptor {
        collective: call.collective,
        dtype: call.dtype,
        mode: if matches!(coding, Coding::Blocks(..)) { context.config.mode } else { Mode::I32 },
        op: if call.collective.reduces() { call.op } else { ReduceOp::Sum },
        tolerance: tolerance(call, context, coding),
        elements: elements as u64,
    }
}

/// The operation by which ranks that have a switch compare, at its place among the switch's operations, a call that hosts execute: a descriptor
/// without data. Otherwise a rank that submits something for the switch instead would wait for the others until its timeout. `None` for
/// what descriptors cannot express.
pub(crate) fn announcement(call: &Call, context: &OpContext) -> Option<Lowered> {
    call.collective.info().descriptor_code?;
    let coding = Coding::Nothing;
    let descriptor = describe(call, context, coding);
    let fits = descriptor.elements <= ELEMENTS_MAX;
    let spec = OpSpec { descriptor, class: call.class, ..OpSpec::BARRIER };
    fits.then_some(Lowered { spec, coding })
}

/// Which ranks contribute to a chunk of a call, and which receive it.
fn sharing(call: &Call, context: &OpContext, coding: Coding) -> Sharing {
    let parts = Parts {
        first: 0,
        part: (call.count as u64 * units(call.dtype)).max(1),
        chunk: coding.chunk_units(call.dtype, context.lane_bytes),
    };
    // Masks cancel in the sum of all ranks' lanes.
    let masked = context.config.group_key.is_some();
    match call.collective {
        Collective::Broadcast { root } if !masked => Sharing::From(root),
        Collective::AllGather if !masked => Sharing::FromEach(parts),
        Collective::Reduce { root } => Sharing::To(root),
        Collective::ReduceScatter => Sharing::ToEach(parts),
        _ => Sharing::All,
    }
}

/// How many contributions a call may leave out: none but in sums of floats over all ranks.
fn tolerance(call: &Call, context: &OpContext, coding: Coding) -> Tolerance {
    let blocks = matches!(coding, Coding::Blocks(..));
    match call.collective {
        Collective::AllReduce | Collective::ReduceScatter if blocks => {
            call.tolerance.unwrap_or(context.config.tolerance)
        }
        _ => Tolerance::NONE,
    }
}

/// The memory on which the switch's operation works, in place, and from which the caller's output is filled.
///
/// # Safety
///
/// `send` and `recv` are valid, for reads and for reads and writes, of the bytes that the call's
/// [input](Call::input_len) and [output](Call::output_len) have, until the buffer's completion is settled; no other code writes
/// them or reads `recv` before. They do not overlap, or are in place in the sense of [`Communicator::submit`].
///
/// [`Communicator::submit`]: crate::Communicator::submit
#[expect(unsafe_code, reason = "works on memory that the caller vouches for")]
pub(crate) unsafe fn make_buffer(
    call: &Call,
    context: &OpContext,
    send: *const u8,
    recv: *mut u8,
) -> OpBuffer {
    let size = call.dtype.size();
    let (count, bytes) = (call.count, call.count * size);
    let dtype = lanes_type(call.dtype);
    let own = usize::from(context.rank) * bytes;
    let world_bytes = usize::from(context.world) * bytes;
    let as_lanes = |elements: usize| elements * size / dtype.size().max(1);
    let aligned = (recv as usize).is_multiple_of(dtype.size().max(1));
    // SAFETY: every pointer is used for the bytes that the caller vouches for in the contract above; `copy` allows overlap.
    let mut buffer = unsafe {
        match call.collective {
            Collective::Barrier | Collective::AllToAll => OpBuffer::empty(),
            Collective::Reduce { root } if root != context.rank => {
                filled(dtype, as_lanes(count), send, 0, bytes)
            }
            Collective::ReduceScatter => {
                let mut scratch =
                    filled(dtype, as_lanes(count * usize::from(context.world)), send, 0, world_bytes);
                scratch.copy_back(own, recv, bytes);
                scratch
            }
            Collective::AllGather if !aligned => {
                let mut scratch =
                    filled(dtype, as_lanes(count * usize::from(context.world)), send, own, bytes);
                scratch.copy_back(0, recv, world_bytes);
                scratch
            }
            Collective::AllGather => {
                copy(send, recv.wrapping_add(own), bytes);
                std::ptr::write_bytes(recv, 0, own);
                std::ptr::write_bytes(recv.wrapping_add(own + bytes), 0, world_bytes - own - bytes);
                OpBuffer::promised(dtype, (recv, as_lanes(count * usize::from(context.world))), None)
            }
            Collective::Broadcast { root } if root != context.rank && aligned => {
                OpBuffer::promised(dtype, (recv, as_lanes(count)), None)
            }
            Collective::Broadcast { root } if root != context.rank => {
                let mut scratch = OpBuffer::scratch(dtype, as_lanes(count));
                scratch.copy_back(0, recv, bytes);
                scratch
            }
            _ if aligned => {
                copy(send, recv, bytes);
                OpBuffer::promised(dtype, (recv, as_lanes(count)), None)
            }
            _ => {
                let mut scratch = filled(dtype, as_lanes(count), send, 0, bytes);
                scratch.copy_back(0, recv, bytes);
                scratch
            }
        }
    };
    if call.collective.reduces() && call.op == ReduceOp::Avg {
        buffer.divide_by(u32::from(context.world));
    }
    buffer
}

/// Memory of our own with `bytes` bytes of the caller's at `offset`, and zeros around them.
///
/// # Safety
///
/// `from` is valid for reads of `bytes` bytes.
#[expect(unsafe_code, reason = "reads memory that the caller vouches for")]
unsafe fn filled(dtype: DType, len: usize, from: *const u8, offset: usize, bytes: usize) -> OpBuffer {
    let mut buffer = OpBuffer::scratch(dtype, len);
    let to = buffer.bytes_mut()[offset..offset + bytes].as_mut_ptr();
    // SAFETY: `to` is a slice of that length, and `from` is valid by this function's contract.
    unsafe { copy(from, to, bytes) };
    buffer
}

/// Copies unless there is nothing to copy or it is there already.
///
/// # Safety
///
/// When `bytes` is not zero, `from` is valid for reads and `to` for writes of that many.
#[expect(unsafe_code, reason = "copies memory that the caller vouches for")]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes > 0 && !std::ptr::eq(from, to) {
        // SAFETY: by this function's contract.
        unsafe { std::ptr::copy(from, to, bytes) };
    }
}
