//! Jobs that shrink and grow in place.

use std::ffi::c_char;
use std::time::Duration;

use netfold::{Communicator, Error, Membership};

use crate::builder::{edit, netfold_builder};
use crate::communicator::netfold_comm;
use crate::guard::{exclusive, guard, put, put_list, put_text, reference};
use crate::result::{Failure, netfold_result};

/// Whether the job shrinks and grows in place (netfold_comm_shrink, netfold_comm_grow), the same on all ranks. The control port, a switch's own or a
/// controller, decides which ranks each generation of the job has; without one the ranks, which are then linked by a rendezvous or an exchange, decide by a quorum:
/// more than half of them, or half with rank 0. Not for groups. The default is false.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_resizable(
    builder: *mut netfold_builder,
    on: bool,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.resizable(on))) }
}

/// Makes this a process that joins a resizable job of this name that runs, when its ranks grow by it: without rank and world size. Without a control port
/// the rendezvous is the address of any member (netfold_comm_membership_address; at first, the job's own rendezvous). netfold_builder_connect then
/// waits until it has a rank, for the join timeout at most.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_join_running(builder: *mut netfold_builder) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.join_running())) }
}

/// Continues without ranks that are lost: every rank that remains calls it, after an error that ended the job. The ranks are numbered anew, in the order of their
/// former ranks, and the communicator is that of the next generation (see netfold_comm_rank, netfold_comm_world_size, netfold_comm_lost). Operations that
/// were in flight have failed, and groups of the former generation have ended. A rank that is connected and does not call it in time is not left out: the
/// result is NETFOLD_RESULT_NOT_RESIZED. A rank that was taken as lost and returns gets NETFOLD_RESULT_EXCLUDED: free the communicator. After all
/// other failures it may be called again.
///
/// # Safety
///
/// `comm` is null, or a communicator that was not freed and that no other thread uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_shrink(comm: *mut netfold_comm, timeout_ms: u64) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { resize(comm, |comm| comm.shrink(Duration::from_millis(timeout_ms))) }
}

/// Continues with `joining` more ranks, 1 or more, which join as netfold_builder_join_running says: every rank calls it at the same point, and waits until so
/// many processes have come. They are numbered after the ranks that there are. After NETFOLD_RESULT_NOT_RESIZED the communicator is as it was before.
///
/// # Safety
///
/// As for netfold_comm_shrink.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_grow(
    comm: *mut netfold_comm,
    joining: u16,
    timeout_ms: u64,
) -> netfold_result {
    if joining == 0 {
        return guard(|| Err(Failure::argument("a job grows by 1 rank at least; see netfold_comm_shrink")));
    }
    // SAFETY: by this function's contract.
    unsafe { resize(comm, |comm| comm.grow(joining, Duration::from_millis(timeout_ms))) }
}

/// Changes the generation, and keeps what is said of it.
///
/// # Safety
///
/// As for [`netfold_comm_shrink`].
unsafe fn resize(
    comm: *mut netfold_comm,
    change: impl FnOnce(&mut Communicator) -> Result<Membership, Error>,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let comm = unsafe { exclusive(comm, "comm") }?;
        comm.1 = Some(change(&mut comm.0)?);
        Ok(())
    })
}

/// The generation of a resizable job, from 1; it grows by one whenever the job shrinks or grows. 0 of other jobs.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_generation(comm: *const netfold_comm, out: *mut u32) -> netfold_result {
    // SAFETY: by this function's contract.
    guard(|| unsafe { put(out, reference(comm, "comm")?.0.generation(), "out") })
}

/// How many ranks of this generation were in the former one: they have the lowest numbers. 0 before this communicator has shrunk or grown.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed; `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_survivors(comm: *const netfold_comm, out: *mut u16) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let membership = unsafe { reference(comm, "comm") }?.1.as_ref();
        // SAFETY: by this function's contract.
        unsafe { put(out, membership.map_or(0, |membership| membership.survivors), "out") }
    })
}

/// Ranks of the former generation that are not in this one, as they were numbered there; none before this communicator has shrunk or grown. Writes the first `capacity`
/// of them to `ranks`, which may be NULL if that is 0, and how many there are, of which the first 128 are known, to `*count`.
///
/// # Safety
///
/// `comm` is null or a communicator that was not freed; `ranks` is null or valid for writes of `capacity` numbers; `count` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_lost(
    comm: *const netfold_comm,
    ranks: *mut u16,
    capacity: usize,
    count: *mut usize,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let membership = unsafe { reference(comm, "comm") }?.1.as_ref();
        let lost = membership.map_or(&[][..], |membership| &membership.lost);
        // SAFETY: by this function's contract; `ranks` is memory of the caller, which `lost` is not.
        unsafe { put_list(lost, (ranks, "ranks"), capacity, count) }
    })
}

/// Where processes that join a resizable job without a control port reach this rank, "IP:PORT"; empty of other jobs. Written as by netfold_comm_path.
///
/// # Safety
///
/// As for netfold_comm_path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_comm_membership_address(
    comm: *const netfold_comm,
    text: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let address = unsafe { reference(comm, "comm") }?.0.membership_address();
        let address = address.map_or_else(String::new, |address| address.to_string());
        // SAFETY: by this function's contract.
        unsafe { put_text(&address, text, len, needed) }
    })
}
