//! Functions that both tables have, whatever the version.
#![expect(unsafe_code, reason = "reads and writes through the pointers that NCCL passes")]

use core::ffi::{c_int, c_void};

use crate::abi::{Handle, Logger, Out, PTR_HOST, Returned};
use crate::guard::{guard, put, put_if, take_ownership};
use crate::properties::{self, Properties};
use crate::registry::Registry;
use crate::result::{Code, Failure, Result};
use crate::{interfaces, logging};

/// NCCL's communicators, from version 11 on.
static CONTEXTS: Registry<u64> = Registry::new("context");

fn start(logger: Logger) -> Result<()> {
    take_ownership();
    logging::use_logger(logger);
    let devices = interfaces::devices()?;
    let names: Vec<_> = devices.iter().map(|device| device.name.to_string_lossy()).collect();
    log::info!("version {} on {}", env!("CARGO_PKG_VERSION"), names.join(", "));
    Ok(())
}

/// `init`, versions 6 to 10.
pub(crate) unsafe extern "C" fn init(logger: Logger) -> Returned {
    guard("init", || start(logger))
}

/// `init` from version 11 on, without what differs between the two tables.
///
/// # Safety
///
/// `context` is null or valid for a write.
pub(crate) unsafe fn init_context(context: Out, comm: u64, logger: Logger) -> Returned {
    guard("init", || {
        start(logger)?;
        let id = CONTEXTS.insert(comm);
        // SAFETY: by this function's contract.
        unsafe { put(context, id.pointer(), "the context") }
    })
}

/// `finalize`.
pub(crate) unsafe extern "C" fn finalize(context: Handle) -> Returned {
    guard("finalize", || CONTEXTS.remove(context).map(drop))
}

/// `devices`. The same for both tables: NCCL matches them by name.
pub(crate) unsafe extern "C" fn devices(count: *mut c_int) -> Returned {
    guard("devices", || {
        let devices = interfaces::devices()?;
        // SAFETY: NCCL passes null or an int to write.
        unsafe { put(count, devices.len() as c_int, "ndev") }
    })
}

/// `getProperties`.
pub(crate) unsafe extern "C" fn get_properties<P: Properties>(device: c_int, out: *mut P) -> Returned {
    // SAFETY: NCCL passes null or this version's structure to write.
    guard("getProperties", || unsafe { put(out, properties::of(device)?, "props") })
}

fn register(data: *mut c_void, kind: c_int, out: Out) -> Result<()> {
    if kind != PTR_HOST {
        return Err(Failure::new(
            Code::Internal,
            format!("memory of type {kind} cannot be registered, only the host's (1)"),
        ));
    }
    // Nothing is pinned or translated, so any pointer that is not null serves as the registration.
    let registration = if data.is_null() { core::ptr::without_provenance_mut(1) } else { data };
    // SAFETY: NCCL passes null or a pointer to write.
    unsafe { put(out, registration, "mhandle") }
}

/// `regMr` of version 6.
pub(crate) unsafe extern "C" fn reg_mr_v6(
    _: Handle,
    data: *mut c_void,
    _: c_int,
    kind: c_int,
    out: Out,
) -> Returned {
    guard("regMr", || register(data, kind, out))
}

/// `regMr` from version 8 on.
pub(crate) unsafe extern "C" fn reg_mr(
    _: Handle,
    data: *mut c_void,
    _: usize,
    kind: c_int,
    out: Out,
) -> Returned {
    guard("regMr", || register(data, kind, out))
}

/// `regMrDmaBuf`. NCCL calls it for devices whose `ptrSupport` has DMABUF, which these do not have.
pub(crate) unsafe extern "C" fn reg_mr_dma_buf(
    _: Handle,
    _: *mut c_void,
    _: usize,
    _: c_int,
    _: u64,
    _: c_int,
    _: Out,
) -> Returned {
    guard("regMrDmaBuf", || {
        Err(Failure::new(
            Code::Internal,
            "dma-buf memory cannot be registered: packets are sent from memory of the host (ptrSupport is HOST)",
        ))
    })
}

/// `getDeviceMr`. NCCL calls it for devices whose `netDeviceType` is not HOST.
pub(crate) unsafe extern "C" fn get_device_mr(_: Handle, _: Handle, _: Out) -> Returned {
    guard("getDeviceMr", || {
        Err(Failure::new(
            Code::Internal,
            "GPUs cannot use this network themselves: there is no device offload (netDeviceType is HOST)",
        ))
    })
}

/// `deregMr`.
pub(crate) unsafe extern "C" fn dereg_mr(_: Handle, _: Handle) -> Returned {
    guard("deregMr", || Ok(()))
}

/// Writes the outcome of `test`: not done, or the number of bytes.
///
/// # Safety
///
/// Both pointers are null or valid for a write.
pub(crate) unsafe fn tested(outcome: Option<usize>, done: *mut c_int, size: *mut c_int) -> Result<()> {
    // SAFETY: by this function's contract.
    unsafe {
        if let Some(bytes) = outcome {
            put_if(size, c_int::try_from(bytes).unwrap_or(c_int::MAX));
        }
        put(done, c_int::from(outcome.is_some()), "done")
    }
}

/// A request, or null for "try again".
///
/// # Safety
///
/// `out` is null or valid for a write.
pub(crate) unsafe fn posted(request: Option<Handle>, out: Out) -> Result<()> {
    // SAFETY: by this function's contract.
    unsafe { put(out, request.unwrap_or(core::ptr::null_mut()), "request") }
}
