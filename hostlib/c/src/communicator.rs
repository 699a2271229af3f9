//! Communicators and their collectives.

use std::ffi::{c_char, c_void};

use netfold::{Call, Collective, Communicator, CudaStream, DType, Membership, Network, ReduceOp, Work};

use crate::guard::{guard, put, put_list, put_text, reference};
use crate::result::{Failure, netfold_result};
use crate::tolerance::parse_tolerance;
use crate::work::netfold_work;

/// One rank's membership of a job. May be used by many threads, but freed by one.
pub struct netfold_comm(pub(crate) Communicator, pub(crate) Option<Membership>);

/// Element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum netfold_dtype {
    /// binary32.
    F32 = 1,
    /// binary16.
    F16 = 2,
    /// bfloat16.
    Bf16 = 3,
    /// 32-bit two's complement.
    I32 = 4,
    /// binary64.
    F64 = 5,
    /// 8-bit two's complement.
    I8 = 6,
    /// 16-bit two's complement.
    I16 = 7,
    /// 64-bit two's complement.
    I64 = 8,
    /// 8 bits, unsigned.
    U8 = 9,
    /// 16 bits, unsigned.
    U16 = 10,
    /// 32 bits, unsigned.
    U32 = 11,
    /// 64 bits, unsigned.
    U64 = 12,
}

/// How elements are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum netfold_op {
    /// Sum.
    Sum = 0,
    /// Sum divided by the number of ranks.
    Avg = 1,
    /// Product.
    Product = 2,
    /// Smallest.
    Min = 3,
    /// Largest.
    Max = 4,
    /// Bitwise and, of integers.
    BitAnd = 5,
    /// Bitwise or, of integers.
    BitOr = 6,
    /// Bitwise exclusive or, of integers.
    BitXor = 7,
}

/// What connects the ranks of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum netfold_network {
    /// There is no other rank.
    Alone = 0,
    /// All ranks are on one host and share memory.
    SharedMemory = 1,
    /// A switch reduces; ranks of one host reduce in shared memory before.
    Switch = 2,
    /// The hosts reduce, in a ring over TCP.
    Ring = 3,
}

/// Collectives. `count` is, in elements: of the tensor (all-reduce, reduce, broadcast), what each rank sends (all-gather), what
/// each rank receives (reduce-scatter), for each peer (all-to-all).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum netfold_collective {
    /// Every rank ends with the reduction of all ranks' tensors.
    AllReduce = 1,
    /// The root ends with the reduction of all ranks' tensors.
    Reduce = 2,
    /// Every rank ends with the root's tensor.
    Broadcast = 3,
    /// Every rank ends with all ranks' tensors, in order of rank.
    AllGather = 4,
    /// Rank r ends with part r of the reduction of all ranks' tensors.
    ReduceScatter = 5,
    /// Rank r ends with part r of every rank's tensor.
    AllToAll = 6,
    /// No rank returns before all have called.
    Barrier = 7,
}

fn call(collective: i32, count: usize, dtype: i32, op: i32, root: u16) -> Result<Call, Failure> {
    let code = |number: i32| u8::try_from(number).ok();
    let collective =
        code(collective).and_then(|code| Collective::from_code(code, root)).ok_or_else(|| {
            Failure::argument(format!("{collective} is not a collective; give a netfold_collective"))
        })?;
    if collective == Collective::Barrier {
        return Ok(Call::BARRIER);
    }
    let dtype = code(dtype)
        .and_then(DType::from_code)
        .filter(|dtype| *dtype != DType::None)
        .ok_or_else(|| Failure::argument(format!("{dtype} is not an element type; give a netfold_dtype")))?;
    let op = code(op)
        .and_then(ReduceOp::from_code)
        .ok_or_else(|| Failure::argument("unknown operation; give a netfold_op"))?;
    Ok(Call::new(collective, dtype, op, count))
}

/// Starts any collective and writes its handle to `*out`. `op` matters for collectives that reduce, `root` for those that have
/// one. `send` and `recv` may be the same where input and output are equally long; an all-gather is in place when send is
/// recv + rank * count elements, a reduce-scatter when recv is send + rank * count.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed. `send` and `recv` are null, or valid for what the collective reads and
/// writes until the operation is over; until then nothing else writes either or reads recv. `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_start(
    comm: *const netfold_comm,
    collective: i32,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    dtype: i32,
    op: i32,
    root: u16,
    out: *mut *mut netfold_work,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { netfold_comm_start_in_class(comm, 0, collective, send, recv, count, dtype, op, root, out) }
}

/// The same as netfold_comm_start in a class of operations, below the number given to netfold_builder_set_classes: through a
/// switch, data of higher classes are sent first. All ranks start the same operations in the same order, in any class.
///
/// # Safety
///
/// As for netfold_comm_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_start_in_class(
    comm: *const netfold_comm,
    op_class: u8,
    collective: i32,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    dtype: i32,
    op: i32,
    root: u16,
    out: *mut *mut netfold_work,
) -> netfold_result {
    let call = || Ok(call(collective, count, dtype, op, root)?.in_class(op_class));
    // SAFETY: by this function's contract.
    unsafe { begin(comm, send, recv, call, out) }
}

/// The same as netfold_comm_start_in_class, with another tolerance than that of the builder (see netfold_builder_set_tolerance): 0 for a
/// complete sum. The same on all ranks. Matters to all-reduces and reduce-scatters of floating-point sums and averages alone.
///
/// # Safety
///
/// As for netfold_comm_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_start_tolerating(
    comm: *const netfold_comm,
    tolerance: f64,
    rescale: bool,
    without_stragglers: bool,
    op_class: u8,
    collective: i32,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    dtype: i32,
    op: i32,
    root: u16,
    out: *mut *mut netfold_work,
) -> netfold_result {
    let call = || {
        let tolerance = parse_tolerance(tolerance, rescale, without_stragglers)?;
        Ok(call(collective, count, dtype, op, root)?.in_class(op_class).tolerating(tolerance))
    };
    // SAFETY: by this function's contract.
    unsafe { begin(comm, send, recv, call, out) }
}

/// The same as netfold_comm_start on memory of a CUDA device: `send` and `recv` are its addresses, and the operation comes behind what `stream` (a
/// cudaStream_t or CUstream; NULL: the legacy default stream) has been given before. Returns without waiting for the device or the network.
/// Use the output behind netfold_work_wait_on_stream, or after netfold_work_wait. A communicator serves one device. NETFOLD_RESULT_CUDA when
/// there is no driver, the memory is not on one device, or the stream is being captured into a graph.
///
/// # Safety
///
/// As for netfold_comm_start, for the device; `stream` is a stream of the device's primary context, as all of CUDA's runtime are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_start_cuda(
    comm: *const netfold_comm,
    stream: *mut c_void,
    collective: i32,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    dtype: i32,
    op: i32,
    root: u16,
    out: *mut *mut netfold_work,
) -> netfold_result {
    guard(|| {
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let call = call(collective, count, dtype, op, root)?;
        // SAFETY: by this function's contract.
        let comm = unsafe { within_memory(comm, &call) }?;
        let stream = CudaStream::from_raw(stream as usize);
        // SAFETY: by this function's contract.
        let work = unsafe { comm.submit_cuda(&call, send as u64, recv as u64, stream) }?;
        // SAFETY: by this function's contract.
        unsafe { put(out, Box::into_raw(Box::new(netfold_work::on_device(work))), "out") }
    })
}

/// The same for an all-reduce of float32 (NETFOLD_OP_SUM or NETFOLD_OP_AVG) with error feedback, in place, where devices quantise
/// (netfold_builder_set_device_quantization): `residual`, as many numbers of the device's memory, all zeros at first, is added to `tensor`, and then
/// holds what the encoding left out of this rank's contribution.
///
/// # Safety
///
/// As for netfold_comm_start_cuda, with `tensor` as both send and recv; the same for `residual`, which does not overlap it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_start_cuda_with_feedback(
    comm: *const netfold_comm,
    stream: *mut c_void,
    tensor: *mut f32,
    residual: *mut f32,
    count: usize,
    op: i32,
    out: *mut *mut netfold_work,
) -> netfold_result {
    guard(|| {
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let call = call(netfold_collective::AllReduce as i32, count, netfold_dtype::F32 as i32, op, 0)?;
        // SAFETY: by this function's contract.
        let comm = unsafe { within_memory(comm, &call) }?;
        let stream = CudaStream::from_raw(stream as usize);
        // SAFETY: by this function's contract.
        let work = unsafe { comm.submit_cuda_with_feedback(&call, tensor as u64, residual as u64, stream) }?;
        // SAFETY: by this function's contract.
        unsafe { put(out, Box::into_raw(Box::new(netfold_work::on_device(work))), "out") }
    })
}

/// Starts `call`, and writes its handle to `out`.
///
/// # Safety
///
/// As for [`netfold_comm_start`].
unsafe fn begin(
    comm: *const netfold_comm,
    send: *const c_void,
    recv: *mut c_void,
    call: impl FnOnce() -> Result<Call, Failure>,
    out: *mut *mut netfold_work,
) -> netfold_result {
    guard(|| {
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        // SAFETY: by this function's contract.
        let work = unsafe { start(comm, send, recv, &call()?) }?;
        // SAFETY: by this function's contract.
        unsafe { put(out, Box::into_raw(Box::new(netfold_work::new(work))), "out") }
    })
}

/// The same as netfold_comm_start, and waits for the end.
///
/// # Safety
///
/// As for netfold_comm_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_run(
    comm: *const netfold_comm,
    collective: i32,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    dtype: i32,
    op: i32,
    root: u16,
) -> netfold_result {
    guard(|| {
        let call = call(collective, count, dtype, op, root)?;
        // SAFETY: by this function's contract.
        let comm = unsafe { within_memory(comm, &call) }?;
        // SAFETY: by this function's contract.
        unsafe { comm.run(&call, send.cast(), recv.cast()) }.map(drop)?;
        Ok(())
    })
}

/// Replaces `count` elements at `tensor` by the reduction over all ranks, and waits for the end.
///
/// # Safety
///
/// As for netfold_comm_start, with `tensor` as both send and recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_all_reduce(
    comm: *const netfold_comm,
    tensor: *mut c_void,
    count: usize,
    dtype: i32,
    op: i32,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe {
        netfold_comm_run(comm, netfold_collective::AllReduce as i32, tensor, tensor, count, dtype, op, 0)
    }
}

/// Starts the sum or average over all ranks of `send` + `residual` and writes its handle to `*out`: all are of `count` binary32
/// numbers, and `send` and `recv` may be the same. When it is over, `recv` holds the result, and `residual` what was left out of this
/// rank's contribution, by rounding or because it was missing (see netfold_builder_set_tolerance): pass it with the same tensor in the next step, all zeros in the first. After a failure both hold unspecified numbers.
///
/// # Safety
///
/// As for netfold_comm_start; and `residual` is null or valid for reads and writes of `count` numbers until the operation is over;
/// until then nothing else reads or writes it. It overlaps neither send nor recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_start_with_feedback(
    comm: *const netfold_comm,
    send: *const f32,
    recv: *mut f32,
    residual: *mut f32,
    count: usize,
    op: i32,
    out: *mut *mut netfold_work,
) -> netfold_result {
    guard(|| {
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        // SAFETY: by this function's contract.
        let work = unsafe { start_with_feedback(comm, send, recv, residual, (count, op)) }?;
        // SAFETY: by this function's contract.
        unsafe { put(out, Box::into_raw(Box::new(netfold_work::new(work))), "out") }
    })
}

/// The same in place, and waits for the end.
///
/// # Safety
///
/// As for netfold_comm_start_with_feedback, with `tensor` as both send and recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_all_reduce_with_feedback(
    comm: *const netfold_comm,
    tensor: *mut f32,
    residual: *mut f32,
    count: usize,
    op: i32,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let work = unsafe { start_with_feedback(comm, tensor, tensor, residual, (count, op)) }?;
        Ok(work.wait().map(drop)?)
    })
}

/// # Safety
///
/// As for [`netfold_comm_start_with_feedback`].
unsafe fn start_with_feedback(
    comm: *const netfold_comm,
    send: *const f32,
    recv: *mut f32,
    residual: *mut f32,
    (count, op): (usize, i32),
) -> Result<Work, Failure> {
    let call = call(netfold_collective::AllReduce as i32, count, netfold_dtype::F32 as i32, op, 0)?;
    // SAFETY: by this function's contract.
    let comm = unsafe { within_memory(comm, &call) }?;
    // SAFETY: by this function's contract.
    Ok(unsafe { comm.submit_with_feedback(&call, send.cast(), recv.cast(), residual) }?)
}

/// Returns when every rank has called it.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_barrier(comm: *const netfold_comm) -> netfold_result {
    let (send, recv) = (std::ptr::null(), std::ptr::null_mut());
    // SAFETY: by this function's contract; a barrier has no memory.
    unsafe { netfold_comm_run(comm, netfold_collective::Barrier as i32, send, recv, 0, 0, 0, 0) }
}

/// # Safety
///
/// As for [`netfold_comm_start`].
unsafe fn start(
    comm: *const netfold_comm,
    send: *const c_void,
    recv: *mut c_void,
    call: &Call,
) -> Result<Work, Failure> {
    // SAFETY: by this function's contract.
    let comm = unsafe { within_memory(comm, call) }?;
    // SAFETY: by this function's contract.
    Ok(unsafe { comm.submit(call, send.cast(), recv.cast()) }?)
}

/// The communicator, unless the call's length exceeds any memory.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed while the reference lives.
unsafe fn within_memory<'a>(comm: *const netfold_comm, call: &Call) -> Result<&'a Communicator, Failure> {
    // SAFETY: by this function's contract.
    let comm = unsafe { reference(comm, "comm") }?;
    let world = comm.0.world_size();
    let most = isize::MAX as usize / call.dtype.size().max(1);
    if call.input_len(world).max(call.output_len(world)) > most {
        let count = call.count;
        return Err(Failure::new(
            netfold_result::Length,
            format!("{count} elements exceed the address space; check count"),
        ));
    }
    Ok(&comm.0)
}

/// This worker's rank.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_rank(comm: *const netfold_comm, out: *mut u16) -> netfold_result {
    // SAFETY: by this function's contract.
    guard(|| unsafe { put(out, reference(comm, "comm")?.0.rank(), "out") })
}

/// Number of workers.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_world_size(comm: *const netfold_comm, out: *mut u16) -> netfold_result {
    // SAFETY: by this function's contract.
    guard(|| unsafe { put(out, reference(comm, "comm")?.0.world_size(), "out") })
}

/// A description of the data path and the reason for it. Writes as much as fits in `len` bytes, always zero-terminated, and the length
/// of all of it without the zero to `*needed`, unless that is NULL.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed; `text` is null or valid for writes of `len` bytes; `needed` is null
/// or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_path(
    comm: *const netfold_comm,
    text: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let path = unsafe { reference(comm, "comm") }?.0.path().to_string();
        // SAFETY: by this function's contract.
        unsafe { put_text(&path, text, len, needed) }
    })
}

/// The part of each of the job's trees in its next operations, of 1: even at first, then in proportion to the rates that the ranks have measured. 0 for a tree
/// that is lost. Writes the first `capacity` parts to `shares`, which may be NULL if that is 0, and how many trees there are to `*count`: none without a switch.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed; `shares` is null or valid for writes of `capacity` numbers; `count` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_tree_shares(
    comm: *const netfold_comm,
    shares: *mut f64,
    capacity: usize,
    count: *mut usize,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let trees = unsafe { reference(comm, "comm") }?.0.tree_shares();
        // SAFETY: by this function's contract; `shares` is memory of the caller, which `trees` is not.
        unsafe { put_list(&trees, (shares, "shares"), capacity, count) }
    })
}

/// What connects the ranks (a netfold_network): the same on all ranks while nothing fails, and a ring after the switch was lost.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_network(comm: *const netfold_comm, out: *mut i32) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let path = unsafe { reference(comm, "comm") }?.0.path();
        let network = match path.network {
            Network::None if path.shared == 1 => netfold_network::Alone,
            Network::None => netfold_network::SharedMemory,
            Network::Switch { .. } => netfold_network::Switch,
            _ => netfold_network::Ring,
        };
        // SAFETY: by this function's contract.
        unsafe { put(out, network as i32, "out") }
    })
}

/// Splits the ranks into groups, as MPI_Comm_split does: ranks with the same `color`, 0 or more, form a group, numbered by `key` and then by
/// their rank here. All ranks call it; those with a negative color have no group, and NULL is written to `*out`. Writes the group's
/// communicator to `*out`, which has this communicator's settings and is to be left or freed before it. It is a group of this
/// communicator's job (see netfold_builder_set_group). A quota of the tenant that is too small for the groups is NETFOLD_RESULT_REFUSED on all
/// ranks, with the slots that are needed in netfold_last_error().
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_split(
    comm: *const netfold_comm,
    color: i32,
    key: i32,
    out: *mut *mut netfold_comm,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let comm = unsafe { reference(comm, "comm") }?;
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let group = match comm.0.split(u32::try_from(color).ok(), key)? {
            Some(builder) => Box::into_raw(Box::new(netfold_comm(builder.connect()?, None))),
            None => std::ptr::null_mut(),
        };
        // SAFETY: by this function's contract.
        unsafe { put(out, group, "out") }
    })
}

/// Aborts the job on this rank, from any thread: pending and later calls fail promptly here, and the other ranks report this one
/// lost.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_abort(comm: *const netfold_comm) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        unsafe { reference(comm, "comm") }?.0.abort();
        Ok(())
    })
}

/// NETFOLD_RESULT_OK while the job runs, else the error that ended it.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_failure(comm: *const netfold_comm) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        unsafe { reference(comm, "comm") }?.0.failure().map_or(Ok(()), |error| Err(error.into()))
    })
}

/// Finishes all pending operations, leaves the job and frees the communicator, whatever is returned.
///
/// # Safety
///
/// `comm` is null, or a communicator that was not freed and that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_leave(comm: *mut netfold_comm) -> netfold_result {
    guard(|| {
        if comm.is_null() {
            return Err(Failure::null("comm"));
        }
        // SAFETY: made by Box::into_raw, and freed once by this function's contract.
        let comm = unsafe { Box::from_raw(comm) };
        Ok(comm.0.leave()?)
    })
}

/// Leaves the job at once and frees the communicator, or does nothing for NULL. Pending operations are aborted, and the other
/// ranks are notified; none of this rank's memory is accessed afterwards.
///
/// # Safety
///
/// `comm` is null, or a communicator that was not freed and that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_free(comm: *mut netfold_comm) {
    if !comm.is_null() {
        // SAFETY: made by Box::into_raw, and freed once by this function's contract.
        let comm = unsafe { Box::from_raw(comm) };
        let _ = guard(move || {
            drop(comm);
            Ok(())
        });
    }
}
