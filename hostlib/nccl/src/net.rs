//! `ncclNet`: messages from one rank to another. The functions in every version's table.
#![expect(unsafe_code, reason = "called by NCCL with raw pointers, and seen by it under fixed names")]

use core::ffi::{c_int, c_void};

use crate::abi::{
    Handle, Ignored, Logger, Name, NetV6, NetV8, NetV11, Out, PropertiesV11, PropertiesV12, Returned,
};
use crate::entry::{
    dereg_mr, devices, finalize, get_device_mr, get_properties, init, init_context, posted, reg_mr,
    reg_mr_dma_buf, reg_mr_v6, tested,
};
use crate::guard::{element, guard, length, put, read_handle, write_handle};
use crate::handle::{Endpoint, Purpose, set_state, state};
use crate::handshake::{Connecting, Listener};
use crate::interfaces;
use crate::link::{Direction, Link};
use crate::memory::Region;
use crate::registry::{Id, Registry, parts};
use crate::result::{Failure, Result};

static LISTENERS: Registry<Listener> = Registry::new("listenComm");
static CONNECTING: Registry<Connecting> = Registry::new("connection under way");
static LINKS: Registry<Link> = Registry::new("sendComm or recvComm");

unsafe extern "C" fn listen(device: c_int, handle: Handle, out: Out) -> Returned {
    guard("listen", || {
        let (listener, endpoint) = Listener::new(interfaces::device(device)?)?;
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

unsafe extern "C" fn connect(_: c_int, handle: Handle, out: Out) -> Returned {
    guard("connect", || {
        // SAFETY: NCCL passes null or a pointer to write.
        unsafe { put(out, core::ptr::null_mut(), "sendComm") }?;
        // SAFETY: NCCL passes null or 128 bytes to read, its own copy, which it passes again until there is a connection.
        let mut bytes = unsafe { read_handle(handle) }?;
        let connecting = match state(&bytes) {
            0 => {
                let endpoint = Endpoint::from_bytes(Purpose::Link, &bytes)?;
                let id = CONNECTING.insert(Connecting::begin(&endpoint)?);
                set_state(&mut bytes, id.to_bits());
                // SAFETY: as above, and to write.
                unsafe { write_handle(handle, bytes) }?;
                id
            }
            bits => Id::from_bits(bits),
        };
        let advanced = CONNECTING.get(connecting)?.advance();
        if let Ok(None) = advanced {
            return Ok(());
        }
        CONNECTING.remove_id(connecting)?;
        set_state(&mut bytes, 0);
        // SAFETY: as above, and to write.
        unsafe { write_handle(handle, bytes) }?;
        let Some(stream) = advanced? else { return Ok(()) };
        let id = LINKS.insert_with(|id| Link::new(id, Direction::Out, stream));
        // SAFETY: as above.
        unsafe { put(out, id.pointer(), "sendComm") }
    })
}

unsafe extern "C" fn connect_v8(device: c_int, handle: Handle, out: Out, _: *mut Ignored) -> Returned {
    // SAFETY: passed on.
    unsafe { connect(device, handle, out) }
}

unsafe extern "C" fn connect_v11(
    _: Handle,
    device: c_int,
    handle: Handle,
    out: Out,
    _: *mut Ignored,
) -> Returned {
    // SAFETY: passed on.
    unsafe { connect(device, handle, out) }
}

unsafe extern "C" fn accept(listener: Handle, out: Out) -> Returned {
    guard("accept", || {
        // SAFETY: NCCL passes null or a pointer to write.
        unsafe { put(out, core::ptr::null_mut(), "recvComm") }?;
        let Some(stream) = LISTENERS.find(listener)?.accept()? else { return Ok(()) };
        let id = LINKS.insert_with(|id| Link::new(id, Direction::In, stream));
        // SAFETY: as above.
        unsafe { put(out, id.pointer(), "recvComm") }
    })
}

unsafe extern "C" fn accept_v8(listener: Handle, out: Out, _: *mut Ignored) -> Returned {
    // SAFETY: passed on.
    unsafe { accept(listener, out) }
}

/// # Safety
///
/// The data are valid until the request is done, and `out` is null or valid for a write.
unsafe fn send(comm: Handle, data: *mut c_void, size: usize, tag: c_int, out: Out) -> Result<()> {
    // SAFETY: by this function's contract.
    let region = unsafe { Region::new(data, size) }?;
    let request = LINKS.find(comm)?.post(Direction::Out, region, tag)?;
    // SAFETY: by this function's contract.
    unsafe { posted(request, out) }
}

unsafe extern "C" fn isend(
    comm: Handle,
    data: *mut c_void,
    size: c_int,
    tag: c_int,
    _: Handle,
    out: Out,
) -> Returned {
    // SAFETY: NCCL's promises are those that `send` needs.
    guard("isend", || unsafe { send(comm, data, length(size, "size")?, tag, out) })
}

unsafe extern "C" fn isend_v11(
    comm: Handle,
    data: *mut c_void,
    size: usize,
    tag: c_int,
    _: Handle,
    _: Ignored,
    out: Out,
) -> Returned {
    // SAFETY: NCCL's promises are those that `send` needs.
    guard("isend", || unsafe { send(comm, data, size, tag, out) })
}

/// # Safety
///
/// The data are valid until the request is done, and `out` is null or valid for a write.
unsafe fn receive(comm: Handle, data: *mut c_void, size: usize, tag: c_int, out: Out) -> Result<()> {
    // SAFETY: by this function's contract.
    let region = unsafe { Region::new(data, size) }?;
    let request = LINKS.find(comm)?.post(Direction::In, region, tag)?;
    // SAFETY: by this function's contract.
    unsafe { posted(request, out) }
}

fn one(count: c_int) -> Result<()> {
    if count == 1 {
        return Ok(());
    }
    Err(Failure::argument(format!("{count} receives at a time; maxRecvs is 1")))
}

unsafe extern "C" fn irecv(
    comm: Handle,
    count: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    tags: *mut c_int,
    _: *mut Handle,
    out: Out,
) -> Returned {
    guard("irecv", || {
        one(count)?;
        // SAFETY: NCCL passes null or as many elements as it says.
        let (data, size, tag) =
            unsafe { (element(data, 0, "data")?, element(sizes, 0, "sizes")?, element(tags, 0, "tags")?) };
        // SAFETY: NCCL's promises are those that `receive` needs.
        unsafe { receive(comm, data, length(size, "size")?, tag, out) }
    })
}

unsafe extern "C" fn irecv_v11(
    comm: Handle,
    count: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    _: *mut Handle,
    _: *mut Ignored,
    out: Out,
) -> Returned {
    guard("irecv", || {
        one(count)?;
        // SAFETY: NCCL passes null or as many elements as it says.
        let (data, size, tag) =
            unsafe { (element(data, 0, "data")?, element(sizes, 0, "sizes")?, element(tags, 0, "tags")?) };
        // SAFETY: NCCL's promises are those that `receive` needs.
        unsafe { receive(comm, data, size, tag, out) }
    })
}

/// Memory of the host needs no flush; no request means that it is done.
unsafe extern "C" fn iflush(
    _: Handle,
    _: c_int,
    _: *mut *mut c_void,
    _: *mut c_int,
    _: *mut Handle,
    out: Out,
) -> Returned {
    // SAFETY: NCCL passes null or a pointer to write.
    guard("iflush", || unsafe { posted(None, out) })
}

unsafe extern "C" fn test(request: Handle, done: *mut c_int, size: *mut c_int) -> Returned {
    guard("test", || {
        let (id, slot, turn) = parts(request)?;
        let outcome = LINKS.get(id)?.test(slot, turn)?;
        // SAFETY: NCCL passes null or ints to write.
        unsafe { tested(outcome, done, size) }
    })
}

unsafe extern "C" fn close_link(comm: Handle) -> Returned {
    guard("close", || {
        LINKS.remove(comm)?.close();
        Ok(())
    })
}

unsafe extern "C" fn close_listen(listener: Handle) -> Returned {
    guard("closeListen", || LISTENERS.remove(listener).map(drop))
}

unsafe extern "C" fn init_v11(context: Out, comm: u64, _: Ignored, logger: Logger, _: Ignored) -> Returned {
    // SAFETY: NCCL passes null or a pointer to write.
    unsafe { init_context(context, comm, logger) }
}

/// NCCL 2.13 to 2.19.
#[unsafe(no_mangle)]
static ncclNetPlugin_v6: NetV6 = NetV6 {
    name: Name::new(crate::NAME),
    init: Some(init),
    devices: Some(devices),
    get_properties: Some(get_properties),
    listen: Some(listen),
    connect: Some(connect),
    accept: Some(accept),
    reg_mr: Some(reg_mr_v6),
    reg_mr_dma_buf: Some(reg_mr_dma_buf),
    dereg_mr: Some(dereg_mr),
    isend: Some(isend),
    irecv: Some(irecv),
    iflush: Some(iflush),
    test: Some(test),
    close_send: Some(close_link),
    close_recv: Some(close_link),
    close_listen: Some(close_listen),
};

/// NCCL 2.20 and later.
#[unsafe(no_mangle)]
static ncclNetPlugin_v8: NetV8 = NetV8 {
    name: Name::new(crate::NAME),
    init: Some(init),
    devices: Some(devices),
    get_properties: Some(get_properties),
    listen: Some(listen),
    connect: Some(connect_v8),
    accept: Some(accept_v8),
    reg_mr: Some(reg_mr),
    reg_mr_dma_buf: Some(reg_mr_dma_buf),
    dereg_mr: Some(dereg_mr),
    isend: Some(isend),
    irecv: Some(irecv),
    iflush: Some(iflush),
    test: Some(test),
    close_send: Some(close_link),
    close_recv: Some(close_link),
    close_listen: Some(close_listen),
    get_device_mr: Some(get_device_mr),
    irecv_consumed: None,
};

const fn table_v11<P: crate::properties::Properties>() -> NetV11<P> {
    NetV11 {
        name: Name::new(crate::NAME),
        init: Some(init_v11),
        devices: Some(devices),
        get_properties: Some(get_properties::<P>),
        listen: Some(listen_v11),
        connect: Some(connect_v11),
        accept: Some(accept_v8),
        reg_mr: Some(reg_mr),
        reg_mr_dma_buf: Some(reg_mr_dma_buf),
        dereg_mr: Some(dereg_mr),
        isend: Some(isend_v11),
        irecv: Some(irecv_v11),
        iflush: Some(iflush),
        test: Some(test),
        close_send: Some(close_link),
        close_recv: Some(close_link),
        close_listen: Some(close_listen),
        get_device_mr: Some(get_device_mr),
        irecv_consumed: None,
        make_v_device: None,
        finalize: Some(finalize),
        set_net_attr: None,
    }
}

/// NCCL 2.28 and 2.29.
#[unsafe(no_mangle)]
static ncclNetPlugin_v11: NetV11<PropertiesV11> = table_v11();

/// NCCL 2.30.
#[unsafe(no_mangle)]
static ncclNetPlugin_v12: NetV11<PropertiesV12> = table_v11();
