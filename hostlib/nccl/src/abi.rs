//! NCCL's plugin interface as memory layout: constants, properties and tables of functions, by version.
//!
//! Member order and types are those of NCCL 2.13 (version 6), 2.20 (8), 2.28 (11) and 2.30 (12). Function pointers that this
//! plugin leaves out are `None`, which is a null pointer.
#![expect(unsafe_code, reason = "names in static tables are pointers")]

use core::ffi::{CStr, c_char, c_int, c_ulong, c_void};

/// Bytes of a handle that ranks pass to each other.
pub(crate) const HANDLE_LEN: usize = 128;
/// Memory of the host, the only kind supported.
pub(crate) const PTR_HOST: c_int = 1;
/// A property that is not known.
pub(crate) const UNDEFINED: i16 = -1;
/// `phandle`s, profiler callbacks and device offload are not used.
pub(crate) type Ignored = *mut c_void;
pub(crate) type Handle = *mut c_void;
pub(crate) type Out = *mut *mut c_void;

/// Log levels and subsystems of [`Logger`].
pub(crate) const LOG_WARN: c_int = 2;
pub(crate) const LOG_INFO: c_int = 3;
pub(crate) const LOG_TRACE: c_int = 5;
pub(crate) const SUBSYSTEM_INIT: c_ulong = 1;
pub(crate) const SUBSYSTEM_NET: c_ulong = 0x10;

/// NCCL's logger: level, subsystems, file, line, printf format, arguments.
pub(crate) type Logger =
    Option<unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...)>;

/// `ncclNetProperties_v6_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PropertiesV6 {
    pub(crate) name: *const c_char,
    pub(crate) pci_path: *const c_char,
    pub(crate) guid: u64,
    pub(crate) ptr_support: c_int,
    pub(crate) speed: c_int,
    pub(crate) port: c_int,
    pub(crate) latency: f32,
    pub(crate) max_comms: c_int,
    pub(crate) max_recvs: c_int,
}

/// `ncclNetProperties_v8_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PropertiesV8 {
    pub(crate) name: *const c_char,
    pub(crate) pci_path: *const c_char,
    pub(crate) guid: u64,
    pub(crate) ptr_support: c_int,
    pub(crate) reg_is_global: c_int,
    pub(crate) speed: c_int,
    pub(crate) port: c_int,
    pub(crate) latency: f32,
    pub(crate) max_comms: c_int,
    pub(crate) max_recvs: c_int,
    pub(crate) device_type: c_int,
    pub(crate) device_version: c_int,
}

/// The members that versions 11 and 12 have in common, up to the list of virtual devices.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PropertiesHead {
    pub(crate) name: *const c_char,
    pub(crate) pci_path: *const c_char,
    pub(crate) guid: u64,
    pub(crate) ptr_support: c_int,
    pub(crate) reg_is_global: c_int,
    pub(crate) force_flush: c_int,
    pub(crate) speed: c_int,
    pub(crate) port: c_int,
    pub(crate) latency: f32,
    pub(crate) max_comms: c_int,
    pub(crate) max_recvs: c_int,
    pub(crate) device_type: c_int,
    pub(crate) device_version: c_int,
}

/// `ncclNetProperties_v11_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PropertiesV11 {
    pub(crate) head: PropertiesHead,
    pub(crate) devices: c_int,
    pub(crate) device: [c_int; 4],
    pub(crate) max_p2p_bytes: usize,
    pub(crate) max_coll_bytes: usize,
    pub(crate) max_multi_request: c_int,
}

/// `ncclNetProperties_v12_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PropertiesV12 {
    pub(crate) head: PropertiesHead,
    pub(crate) devices: c_int,
    pub(crate) device: [c_int; 8],
    pub(crate) max_p2p_bytes: usize,
    pub(crate) max_coll_bytes: usize,
    pub(crate) max_multi_request: c_int,
    pub(crate) rail: i16,
    pub(crate) plane: i16,
}

/// `ncclNetSGE_v8_t`: memory of a window of an all-gather or a reduce-scatter.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PartV8 {
    pub(crate) registration: Handle,
    pub(crate) address: *mut c_void,
    pub(crate) size: u32,
}

/// `ncclNetSGE_v11_t` and `ncclNetSGE_v12_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct PartV11 {
    pub(crate) registration: Handle,
    pub(crate) address: *mut c_void,
    pub(crate) size: usize,
}

/// The result of every function: 0, or one of [`Code`](crate::result::Code).
pub(crate) type Returned = c_int;

/// Where a table's functions are, and its name: never written.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident $(<$p:ident>)? { $($member:ident: fn($($argument:ty),*),)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[repr(C)]
        pub(crate) struct $name $(<$p>)? {
            pub(crate) name: Name,
            $(pub(crate) $member: Option<unsafe extern "C" fn($($argument),*) -> Returned>,)*
        }
    };
}

/// A static C string in a static table.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Name(*const c_char);

// SAFETY: points to text that is never written.
unsafe impl Sync for Name {}

impl Name {
    pub(crate) const fn new(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }
}

table! {
    /// `ncclNet_v6_t`.
    NetV6 {
        init: fn(Logger),
        devices: fn(*mut c_int),
        get_properties: fn(c_int, *mut PropertiesV6),
        listen: fn(c_int, Handle, Out),
        connect: fn(c_int, Handle, Out),
        accept: fn(Handle, Out),
        reg_mr: fn(Handle, *mut c_void, c_int, c_int, Out),
        reg_mr_dma_buf: fn(Handle, *mut c_void, usize, c_int, u64, c_int, Out),
        dereg_mr: fn(Handle, Handle),
        isend: fn(Handle, *mut c_void, c_int, c_int, Handle, Out),
        irecv: fn(Handle, c_int, *mut *mut c_void, *mut c_int, *mut c_int, *mut Handle, Out),
        iflush: fn(Handle, c_int, *mut *mut c_void, *mut c_int, *mut Handle, Out),
        test: fn(Handle, *mut c_int, *mut c_int),
        close_send: fn(Handle),
        close_recv: fn(Handle),
        close_listen: fn(Handle),
    }
}

table! {
    /// `ncclNet_v8_t`.
    NetV8 {
        init: fn(Logger),
        devices: fn(*mut c_int),
        get_properties: fn(c_int, *mut PropertiesV8),
        listen: fn(c_int, Handle, Out),
        connect: fn(c_int, Handle, Out, *mut Ignored),
        accept: fn(Handle, Out, *mut Ignored),
        reg_mr: fn(Handle, *mut c_void, usize, c_int, Out),
        reg_mr_dma_buf: fn(Handle, *mut c_void, usize, c_int, u64, c_int, Out),
        dereg_mr: fn(Handle, Handle),
        isend: fn(Handle, *mut c_void, c_int, c_int, Handle, Out),
        irecv: fn(Handle, c_int, *mut *mut c_void, *mut c_int, *mut c_int, *mut Handle, Out),
        iflush: fn(Handle, c_int, *mut *mut c_void, *mut c_int, *mut Handle, Out),
        test: fn(Handle, *mut c_int, *mut c_int),
        close_send: fn(Handle),
        close_recv: fn(Handle),
        close_listen: fn(Handle),
        get_device_mr: fn(Handle, Handle, Out),
        irecv_consumed: fn(Handle, c_int, Handle),
    }
}

table! {
    /// `ncclNet_v11_t` and, with other properties, `ncclNet_v12_t`.
    NetV11<P> {
        init: fn(Out, u64, Ignored, Logger, Ignored),
        devices: fn(*mut c_int),
        get_properties: fn(c_int, *mut P),
        listen: fn(Handle, c_int, Handle, Out),
        connect: fn(Handle, c_int, Handle, Out, *mut Ignored),
        accept: fn(Handle, Out, *mut Ignored),
        reg_mr: fn(Handle, *mut c_void, usize, c_int, Out),
        reg_mr_dma_buf: fn(Handle, *mut c_void, usize, c_int, u64, c_int, Out),
        dereg_mr: fn(Handle, Handle),
        isend: fn(Handle, *mut c_void, usize, c_int, Handle, Ignored, Out),
        irecv: fn(Handle, c_int, *mut *mut c_void, *mut usize, *mut c_int, *mut Handle, *mut Ignored, Out),
        iflush: fn(Handle, c_int, *mut *mut c_void, *mut c_int, *mut Handle, Out),
        test: fn(Handle, *mut c_int, *mut c_int),
        close_send: fn(Handle),
        close_recv: fn(Handle),
        close_listen: fn(Handle),
        get_device_mr: fn(Handle, Handle, Out),
        irecv_consumed: fn(Handle, c_int, Handle),
        make_v_device: fn(*mut c_int, Ignored),
        finalize: fn(Handle),
        set_net_attr: fn(Handle, Ignored),
    }
}

table! {
    /// `ncclCollNet_v6_t`.
    CollNetV6 {
        init: fn(Logger),
        devices: fn(*mut c_int),
        get_properties: fn(c_int, *mut PropertiesV6),
        listen: fn(c_int, Handle, Out),
        connect: fn(*mut Handle, c_int, c_int, Handle, Out),
        reduce_support: fn(c_int, c_int, *mut c_int),
        reg_mr: fn(Handle, *mut c_void, c_int, c_int, Out),
        reg_mr_dma_buf: fn(Handle, *mut c_void, usize, c_int, u64, c_int, Out),
        dereg_mr: fn(Handle, Handle),
        iallreduce: fn(Handle, *mut c_void, *mut c_void, c_int, c_int, c_int, Handle, Handle, Out),
        iflush: fn(Handle, *mut c_void, c_int, Handle, Out),
        test: fn(Handle, *mut c_int, *mut c_int),
        close_coll: fn(Handle),
        close_listen: fn(Handle),
    }
}

table! {
    /// `ncclCollNet_v8_t`.
    CollNetV8 {
        init: fn(Logger),
        devices: fn(*mut c_int),
        get_properties: fn(c_int, *mut PropertiesV8),
        listen: fn(c_int, Handle, Out),
        connect: fn(*mut Handle, c_int, c_int, Handle, Out),
        reduce_support: fn(c_int, c_int, *mut c_int),
        reg_mr: fn(Handle, *mut c_void, usize, c_int, Out),
        reg_mr_dma_buf: fn(Handle, *mut c_void, usize, c_int, u64, c_int, Out),
        dereg_mr: fn(Handle, Handle),
        iallreduce: fn(Handle, *mut c_void, *mut c_void, c_int, c_int, c_int, Handle, Handle, Out),
        iallgather: fn(Handle, *mut c_void, c_int, *const PartV8, usize, usize, usize, Handle, Out),
        ireducescatter:
            fn(Handle, c_int, *const PartV8, *mut c_void, usize, usize, usize, c_int, c_int, Handle, Out),
        iflush: fn(Handle, *mut c_void, c_int, Handle, Out),
        test: fn(Handle, *mut c_int, *mut c_int),
        close_coll: fn(Handle),
        close_listen: fn(Handle),
    }
}

table! {
    /// `ncclCollNet_v11_t` and, with other properties, `ncclCollNet_v12_t`.
    CollNetV11<P> {
        init: fn(Out, u64, Logger),
        devices: fn(*mut c_int),
        get_properties: fn(c_int, *mut P),
        listen: fn(Handle, c_int, Handle, Out),
        connect: fn(*mut Handle, c_int, c_int, Handle, Out),
        reduce_support: fn(c_int, c_int, *mut c_int),
        reg_mr: fn(Handle, *mut c_void, usize, c_int, Out),
        reg_mr_dma_buf: fn(Handle, *mut c_void, usize, c_int, u64, c_int, Out),
        dereg_mr: fn(Handle, Handle),
        iallreduce: fn(Handle, *mut c_void, *mut c_void, usize, c_int, c_int, Handle, Handle, Out),
        iallgather: fn(Handle, *mut c_void, c_int, *const PartV11, usize, usize, usize, Handle, Out),
        ireducescatter:
            fn(Handle, c_int, *const PartV11, *mut c_void, usize, usize, usize, c_int, c_int, Handle, Out),
        iflush: fn(Handle, *mut c_void, c_int, Handle, Out),
        test: fn(Handle, *mut c_int, *mut c_int),
        close_coll: fn(Handle),
        close_listen: fn(Handle),
        make_v_device: fn(*mut c_int, Ignored),
        finalize: fn(Handle),
    }
}

/// A layout that differs from NCCL's is a plugin that crashes trainers.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<PropertiesV6>() == 48);
    assert!(size_of::<PropertiesV8>() == 64);
    assert!(size_of::<PropertiesV11>() == 112);
    assert!(size_of::<PropertiesV12>() == 128);
    assert!(core::mem::offset_of!(PropertiesV12, head.speed) == 36);
    assert!(core::mem::offset_of!(PropertiesV12, head.latency) == 44);
    assert!(core::mem::offset_of!(PropertiesV12, head.device_type) == 56);
    assert!(core::mem::offset_of!(PropertiesV12, devices) == 64);
    assert!(core::mem::offset_of!(PropertiesV12, max_p2p_bytes) == 104);
    assert!(core::mem::offset_of!(PropertiesV12, max_multi_request) == 120);
    assert!(core::mem::offset_of!(PropertiesV12, rail) == 124);
    assert!(size_of::<PartV8>() == 24 && core::mem::offset_of!(PartV8, size) == 16);
    assert!(size_of::<PartV11>() == 24 && core::mem::offset_of!(PartV11, size) == 16);
    assert!(size_of::<NetV6>() == 17 * 8 && size_of::<CollNetV6>() == 15 * 8);
    assert!(size_of::<NetV8>() == 19 * 8 && size_of::<CollNetV8>() == 17 * 8);
    assert!(size_of::<NetV11<PropertiesV11>>() == 22 * 8 && size_of::<CollNetV11<PropertiesV11>>() == 19 * 8);
};
