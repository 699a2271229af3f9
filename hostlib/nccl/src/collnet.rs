//! `ncclCollNet`: all-reduces, all-gathers and reduce-scatters in the network. The functions in every version's table.
#![expect(unsafe_code, reason = "called by NCCL with raw pointers, and seen by it under fixed names")]

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::{
    CollNetV6, CollNetV8, CollNetV11, Handle, Logger, Name, Out, PartV8, PartV11, PropertiesV11,
    PropertiesV12, Returned,
};
use crate::entry::{
    dereg_mr, devices, finalize, get_properties, init, init_context, posted, reg_mr, reg_mr_dma_buf,
    reg_mr_v6, tested,
};
use crate::group::{self, CollGroup, GroupListener, Reduction, bytes_of};
use crate::guard::{element, guard, length, put, read_handle, write_handle};
use crate::handle::{Endpoint, Purpose};
use crate::interfaces;
use crate::memory::Region;
use crate::properties::BYTES_MAX;
use crate::registry::{Registry, parts};
use crate::result::{Failure, Result};
use crate::settings::Settings;
use crate::window::Window;

/// Requests in flight on a communicator, as NCCL may have.
const REQUESTS_MAX_V6: u8 = 8;
const REQUESTS_MAX: u8 = 32;

static LISTENERS: Registry<GroupListener> = Registry::new("listenComm");
static GROUPS: Registry<CollGroup> = Registry::new("collComm");

unsafe extern "C" fn listen(device: c_int, handle: Handle, out: Out) -> Returned {
    guard("CollNet listen", || {
        let (listener, endpoint) = GroupListener::new(interfaces::device(device)?)?;
        // SAFETY: NCCL passes null or 128 bytes to write.
        unsafe { write_handle(handle, endpoint.to_bytes()) }?;
        // SAFETY: NCCL passes null or a pointer to write.
        unsafe { put(out, LISTENERS.insert(listener).pointer(), "listenComm") }
    })
}

unsafe extern "C" fn listen_v11(_: Handle, device: c_int, handle: Handle, out: Out) -> Returned {
    // SAFETY: passed on.
    unsafe { listen(device, handle, out) }
}

/// # Safety
///
/// `handles` is null or has `nranks` pointers to handles, and `out` is null or valid for a write.
unsafe fn join(
    handles: *mut Handle,
    nranks: c_int,
    rank: c_int,
    listener: Handle,
    out: Out,
    requests_max: u8,
) -> Result<()> {
    // SAFETY: by this function's contract.
    unsafe { put(out, core::ptr::null_mut(), "collComm") }?;
    let found = LISTENERS.find(listener)?;
    let joined = (|| {
        let mut endpoints = Vec::new();
        for index in 0..length(nranks, "nranks")? {
            // SAFETY: by this function's contract.
            let bytes = unsafe { read_handle(element(handles, index, "handles")?) }?;
            endpoints.push(Endpoint::from_bytes(Purpose::Group, &bytes)?);
        }
        group::connect(&endpoints, length(rank, "rank")?, &found)
    })();
    if joined.is_err() {
        // NCCL forgets the listener of a refused connect without closing it.
        let _ = LISTENERS.remove(listener);
    }
    let joined = joined?;
    let id = GROUPS.insert_with(|id| CollGroup::new(id, joined, requests_max));
    // SAFETY: by this function's contract.
    unsafe { put(out, id.pointer(), "collComm") }
}

unsafe extern "C" fn connect_v6(
    handles: *mut Handle,
    nranks: c_int,
    rank: c_int,
    listener: Handle,
    out: Out,
) -> Returned {
    // SAFETY: NCCL's promises are those that `join` needs.
    guard("CollNet connect", || unsafe { join(handles, nranks, rank, listener, out, REQUESTS_MAX_V6) })
}

unsafe extern "C" fn connect(
    handles: *mut Handle,
    nranks: c_int,
    rank: c_int,
    listener: Handle,
    out: Out,
) -> Returned {
    // SAFETY: NCCL's promises are those that `join` needs.
    guard("CollNet connect", || unsafe { join(handles, nranks, rank, listener, out, REQUESTS_MAX) })
}

unsafe extern "C" fn reduce_support(dtype: c_int, op: c_int, out: *mut c_int) -> Returned {
    guard("reduceSupport", || {
        let settings = Settings::from_environment().map_err(Failure::argument)?;
        // SAFETY: NCCL passes null or an int to write.
        unsafe { put(out, c_int::from(group::supports(settings.mode, dtype, op)), "supported") }
    })
}

/// # Safety
///
/// The data are valid until the request is done, and `out` is null or valid for a write.
unsafe fn all_reduce(
    comm: Handle,
    send: *mut c_void,
    recv: *mut c_void,
    what: Reduction,
    out: Out,
) -> Result<()> {
    let bytes = bytes_of(what.count, what.dtype)?;
    if bytes > BYTES_MAX {
        return Err(Failure::argument(format!("{bytes} bytes in one request; at most {BYTES_MAX}")));
    }
    // SAFETY: by this function's contract.
    let (send, recv) = unsafe { (Region::new(send, bytes)?, Region::new(recv, bytes)?) };
    let request = GROUPS.find(comm)?.all_reduce(what, send, recv)?;
    // SAFETY: by this function's contract.
    unsafe { posted(request, out) }
}

unsafe extern "C" fn iallreduce(
    comm: Handle,
    send: *mut c_void,
    recv: *mut c_void,
    count: c_int,
    dtype: c_int,
    op: c_int,
    _: Handle,
    _: Handle,
    out: Out,
) -> Returned {
    guard("iallreduce", || {
        let what = Reduction { count: length(count, "count")?, dtype, op };
        // SAFETY: NCCL's promises are those that `all_reduce` needs.
        unsafe { all_reduce(comm, send, recv, what, out) }
    })
}

unsafe extern "C" fn iallreduce_v11(
    comm: Handle,
    send: *mut c_void,
    recv: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    _: Handle,
    _: Handle,
    out: Out,
) -> Returned {
    // SAFETY: NCCL's promises are those that `all_reduce` needs.
    guard("iallreduce", || unsafe { all_reduce(comm, send, recv, Reduction { count, dtype, op }, out) })
}

/// A part of a window, in any version.
trait Part: Copy {
    /// Address and bytes.
    fn memory(self) -> (*mut c_void, usize);
}

impl Part for PartV8 {
    fn memory(self) -> (*mut c_void, usize) {
        (self.address, self.size as usize)
    }
}

impl Part for PartV11 {
    fn memory(self) -> (*mut c_void, usize) {
        (self.address, self.size)
    }
}

/// The memory of a window: of the one part that NCCL passes.
///
/// # Safety
///
/// `parts` is null or has `count` entries, whose memory is valid until the request is done.
unsafe fn window_memory<P: Part>(count: c_int, parts: *const P, window: Window) -> Result<Region> {
    if count != 1 {
        return Err(Failure::argument(format!(
            "a window in {count} parts; one is supported, as NCCL passes"
        )));
    }
    // SAFETY: by this function's contract.
    let (address, bytes) = unsafe { element(parts, 0, "parts") }?.memory();
    if bytes != window.bytes {
        return Err(Failure::argument(format!("a part of {bytes} bytes for a window of {}", window.bytes)));
    }
    if bytes > BYTES_MAX {
        return Err(Failure::argument(format!("{bytes} bytes in one request; at most {BYTES_MAX}")));
    }
    // SAFETY: by this function's contract.
    unsafe { Region::new(address, bytes) }
}

/// `send` is the begin of what the window has of this rank's part.
unsafe extern "C" fn iallgather<P: Part>(
    comm: Handle,
    send: *mut c_void,
    count: c_int,
    parts: *const P,
    bytes_per_rank: usize,
    offset: usize,
    bytes: usize,
    _: Handle,
    out: Out,
) -> Returned {
    guard("iallgather", || {
        let window = Window { bytes_per_rank, offset, bytes };
        let group = GROUPS.find(comm)?;
        let sections = group.sections(window, 1)?;
        // SAFETY: NCCL passes null or entries of the parts, whose memory it guarantees until the request is done.
        let recv = unsafe { window_memory(count, parts, window) }?;
        let own = sections.iter().find(|section| section.rank == group.rank());
        // SAFETY: NCCL guarantees this rank's section until the request is done; without one nothing is read.
        let send = own.map(|section| unsafe { Region::new(send, section.place.len()) }).transpose()?;
        // SAFETY: NCCL passes null or a pointer to write.
        unsafe { posted(group.all_gather(&sections, send, recv)?, out) }
    })
}

/// `recv` is the begin of what the window has of this rank's part.
unsafe extern "C" fn ireducescatter<P: Part>(
    comm: Handle,
    count: c_int,
    parts: *const P,
    recv: *mut c_void,
    bytes_per_rank: usize,
    offset: usize,
    bytes: usize,
    dtype: c_int,
    op: c_int,
    _: Handle,
    out: Out,
) -> Returned {
    guard("ireducescatter", || {
        let window = Window { bytes_per_rank, offset, bytes };
        let group = GROUPS.find(comm)?;
        let sections = group.sections(window, bytes_of(1, dtype)?)?;
        // SAFETY: NCCL passes null or entries of the parts, whose memory it guarantees until the request is done.
        let send = unsafe { window_memory(count, parts, window) }?;
        let own = sections.iter().find(|section| section.rank == group.rank());
        // SAFETY: NCCL guarantees this rank's section until the request is done; without one nothing is written.
        let recv = own.map(|section| unsafe { Region::new(recv, section.place.len()) }).transpose()?;
        // SAFETY: NCCL passes null or a pointer to write.
        unsafe { posted(group.reduce_scatter(&sections, (dtype, op), send, recv)?, out) }
    })
}

/// Memory of the host needs no flush; no request means that it is done.
unsafe extern "C" fn iflush(_: Handle, _: *mut c_void, _: c_int, _: Handle, out: Out) -> Returned {
    // SAFETY: NCCL passes null or a pointer to write.
    guard("CollNet iflush", || unsafe { posted(None, out) })
}

unsafe extern "C" fn test(request: Handle, done: *mut c_int, size: *mut c_int) -> Returned {
    guard("CollNet test", || {
        let (id, slot, turn) = parts(request)?;
        let outcome = GROUPS.get(id)?.test(slot, turn)?;
        // SAFETY: NCCL passes null or ints to write.
        unsafe { tested(outcome, done, size) }
    })
}

unsafe extern "C" fn close_coll(comm: Handle) -> Returned {
    guard("closeColl", || {
        let group = GROUPS.remove(comm)?;
        group.close();
        // Waits for the group's threads, unless another call still uses it, which waits then.
        drop(Arc::into_inner(group));
        Ok(())
    })
}

unsafe extern "C" fn close_listen(listener: Handle) -> Returned {
    guard("CollNet closeListen", || LISTENERS.remove(listener).map(drop))
}

unsafe extern "C" fn init_v11(context: Out, comm: u64, logger: Logger) -> Returned {
    // SAFETY: NCCL passes null or a pointer to write.
    unsafe { init_context(context, comm, logger) }
}

/// NCCL 2.13 to 2.19.
#[unsafe(no_mangle)]
static ncclCollNetPlugin_v6: CollNetV6 = CollNetV6 {
    name: Name::new(crate::NAME),
    init: Some(init),
    devices: Some(devices),
    get_properties: Some(get_properties),
    listen: Some(listen),
    connect: Some(connect_v6),
    reduce_support: Some(reduce_support),
    reg_mr: Some(reg_mr_v6),
    reg_mr_dma_buf: Some(reg_mr_dma_buf),
    dereg_mr: Some(dereg_mr),
    iallreduce: Some(iallreduce),
    iflush: Some(iflush),
    test: Some(test),
    close_coll: Some(close_coll),
    close_listen: Some(close_listen),
};

/// NCCL 2.20 and later.
#[unsafe(no_mangle)]
static ncclCollNetPlugin_v8: CollNetV8 = CollNetV8 {
    name: Name::new(crate::NAME),
    init: Some(init),
    devices: Some(devices),
    get_properties: Some(get_properties),
    listen: Some(listen),
    connect: Some(connect),
    reduce_support: Some(reduce_support),
    reg_mr: Some(reg_mr),
    reg_mr_dma_buf: Some(reg_mr_dma_buf),
    dereg_mr: Some(dereg_mr),
    iallreduce: Some(iallreduce),
    iallgather: Some(iallgather::<PartV8>),
    ireducescatter: Some(ireducescatter::<PartV8>),
    iflush: Some(iflush),
    test: Some(test),
    close_coll: Some(close_coll),
    close_listen: Some(close_listen),
};

const fn table_v11<P: crate::properties::Properties>() -> CollNetV11<P> {
    CollNetV11 {
        name: Name::new(crate::NAME),
        init: Some(init_v11),
        devices: Some(devices),
        get_properties: Some(get_properties::<P>),
        listen: Some(listen_v11),
        connect: Some(connect),
        reduce_support: Some(reduce_support),
        reg_mr: Some(reg_mr),
        reg_mr_dma_buf: Some(reg_mr_dma_buf),
        dereg_mr: Some(dereg_mr),
        iallreduce: Some(iallreduce_v11),
        iallgather: Some(iallgather::<PartV11>),
        ireducescatter: Some(ireducescatter::<PartV11>),
        iflush: Some(iflush),
        test: Some(test),
        close_coll: Some(close_coll),
        close_listen: Some(close_listen),
        make_v_device: None,
        finalize: Some(finalize),
    }
}

/// NCCL 2.28 and 2.29.
#[unsafe(no_mangle)]
static ncclCollNetPlugin_v11: CollNetV11<PropertiesV11> = table_v11();

/// NCCL 2.30.
#[unsafe(no_mangle)]
static ncclCollNetPlugin_v12: CollNetV11<PropertiesV12> = table_v11();
