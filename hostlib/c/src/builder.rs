//! How a communicator comes about.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use netfold::{Builder, Communicator, Mode};

use crate::communicator::netfold_comm;
use crate::guard::{exclusive, guard, put, text};
use crate::result::{Failure, netfold_result};

/// How floating-point tensors travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum netfold_mode {
    /// Integers alone.
    I32 = 0,
    /// Block floating point, 32 bits an element.
    Bfp32 = 1,
    /// Block floating point, 16 bits an element.
    Bfp16 = 2,
}

/// What a communicator is made from. Used by one thread at a time.
pub struct netfold_builder(Option<Builder>);

/// Gathers `len` bytes of every rank, in order of rank, into `all`, which has room for `len` times the world size: an MPI_Allgather
/// of bytes. Returns 0, or anything else when it failed. Called on the thread that connects.
pub type netfold_all_gather_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, mine: *const u8, all: *mut u8, len: usize) -> i32>;

/// Makes a builder with nothing set.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_new(out: *mut *mut netfold_builder) -> netfold_result {
    guard(|| {
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let builder = Box::into_raw(Box::new(netfold_builder(Some(Communicator::builder()))));
        // SAFETY: by this function's contract.
        unsafe { put(out, builder, "out") }
    })
}

/// Frees a builder that was not connected, or does nothing for NULL.
///
/// # Safety
///
/// `builder` is null, or a builder that was neither connected nor freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_free(builder: *mut netfold_builder) {
    if !builder.is_null() {
        // SAFETY: made by Box::into_raw, and freed once by this function's contract.
        drop(unsafe { Box::from_raw(builder) });
    }
}

/// # Safety
///
/// `builder` is null or a builder that was not freed, and is used by nothing else meanwhile.
unsafe fn edit(
    builder: *mut netfold_builder,
    edit: impl FnOnce(Builder) -> Result<Builder, Failure>,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let builder = unsafe { exclusive(builder, "builder") }?;
        let old = builder.0.take().ok_or_else(|| Failure::argument("the builder failed before; free it"))?;
        builder.0 = Some(edit(old)?);
        Ok(())
    })
}

/// Name of the job, 1 to 64 bytes of UTF-8, the same on all ranks.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_job(
    builder: *mut netfold_builder,
    name: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |builder| Ok(builder.job(text(name, "name")?))) }
}

/// This worker's rank, from 0, each once.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_rank(builder: *mut netfold_builder, rank: u16) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |builder| Ok(builder.rank(rank))) }
}

/// Number of workers, the same on all ranks.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_world_size(
    builder: *mut netfold_builder,
    workers: u16,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |builder| Ok(builder.world_size(workers))) }
}

/// How floating-point tensors travel (a netfold_mode), the same on all ranks. The default is NETFOLD_MODE_BFP32.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_mode(builder: *mut netfold_builder, mode: i32) -> netfold_result {
    let mode = match mode {
        0 => Ok(Mode::I32),
        1 => Ok(Mode::Bfp32),
        2 => Ok(Mode::Bfp16),
        _ => Err(Failure::argument(format!("{mode} is no mode; give a netfold_mode"))),
    };
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |builder| Ok(builder.mode(mode?))) }
}

/// Slots of the switch to ask for, a power of two: the chunks in flight. The default is 256.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_slots(builder: *mut netfold_builder, slots: u32) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |builder| Ok(builder.slots(slots))) }
}

/// Address of the switch's control port, "HOST:PORT". Names are resolved now.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_switch(
    builder: *mut netfold_builder,
    address: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |builder| Ok(builder.switch(text(address, "address")?.to_owned())?)) }
}

/// How long to wait for the other ranks to join, in milliseconds. The default is 60,000.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_join_timeout(
    builder: *mut netfold_builder,
    timeout_ms: u64,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |builder| Ok(builder.join_timeout(Duration::from_millis(timeout_ms)))) }
}

/// How long an operation may make no progress before the job is given up, in milliseconds. The default is 60,000.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_stall_timeout(
    builder: *mut netfold_builder,
    timeout_ms: u64,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |builder| Ok(builder.stall_timeout(Duration::from_millis(timeout_ms)))) }
}

/// Joins the job, waits for all ranks, and writes the communicator to `*out`. Frees the builder in any case.
///
/// # Safety
///
/// `builder` is null, or a builder that was neither connected nor freed; `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_connect(
    builder: *mut netfold_builder,
    out: *mut *mut netfold_comm,
) -> netfold_result {
    guard(|| {
        if builder.is_null() {
            return Err(Failure::null("builder"));
        }
        // SAFETY: made by Box::into_raw, and consumed once by this function's contract.
        let builder = unsafe { Box::from_raw(builder) };
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let builder = builder.0.ok_or_else(|| Failure::argument("the builder failed before"))?;
        let comm = Box::into_raw(Box::new(netfold_comm(builder.connect()?)));
        // SAFETY: by this function's contract.
        unsafe { put(out, comm, "out") }
    })
}
