//! XLA's interface for foreign functions in C, versions 0.1 to 0.3 (`xla/ffi/api/c_api.h` in jaxlib's folder of headers): the structures that a
//! handler of this package reads, which are the same in these versions.

use std::ffi::{c_char, c_int, c_void};
use std::ops::RangeInclusive;

pub(super) const MAJOR: c_int = 0;
pub(super) const MINORS: RangeInclusive<c_int> = 1..=3;

/// An error of XLA's.
#[repr(C)]
pub(super) struct Error {
    _opaque: [u8; 0],
}

/// The end of a call that goes on after the handler has returned.
#[repr(C)]
pub(super) struct Future {
    _opaque: [u8; 0],
}

/// Where a call is executed.
#[repr(C)]
pub(super) struct Context {
    _opaque: [u8; 0],
}

/// Begin of a list of extensions of a structure.
#[repr(C)]
pub(super) struct Extension {
    pub(super) struct_size: usize,
    pub(super) kind: c_int,
    pub(super) next: *mut Extension,
}

/// The kind of extension by which XLA asks a handler for its version.
pub(super) const METADATA: c_int = 1;

#[repr(C)]
pub(super) struct MetadataExtension {
    base: Extension,
    pub(super) metadata: *mut Metadata,
}

#[repr(C)]
pub(super) struct Metadata {
    struct_size: usize,
    pub(super) version: Version,
    pub(super) traits: u32,
}

#[repr(C)]
pub(super) struct Version {
    struct_size: usize,
    extension: *mut Extension,
    pub(super) major: c_int,
    pub(super) minor: c_int,
}

/// Element types of buffers, scalars and arrays.
pub(super) mod dtype {
    use std::ffi::c_int;

    pub(in crate::xla) const PRED: c_int = 1;
    pub(in crate::xla) const S8: c_int = 2;
    pub(in crate::xla) const S16: c_int = 3;
    pub(in crate::xla) const S32: c_int = 4;
    pub(in crate::xla) const S64: c_int = 5;
    pub(in crate::xla) const U8: c_int = 6;
    pub(in crate::xla) const U16: c_int = 7;
    pub(in crate::xla) const U32: c_int = 8;
    pub(in crate::xla) const U64: c_int = 9;
    pub(in crate::xla) const F16: c_int = 10;
    pub(in crate::xla) const F32: c_int = 11;
    pub(in crate::xla) const F64: c_int = 12;
    pub(in crate::xla) const C64: c_int = 15;
    pub(in crate::xla) const BF16: c_int = 16;
    pub(in crate::xla) const TOKEN: c_int = 17;
}

#[repr(C)]
pub(super) struct Buffer {
    struct_size: usize,
    extension: *mut Extension,
    pub(super) dtype: c_int,
    pub(super) data: *mut c_void,
    pub(super) rank: i64,
    pub(super) dims: *const i64,
}

/// Arguments or results.
#[repr(C)]
pub(super) struct Operands {
    struct_size: usize,
    extension: *mut Extension,
    pub(super) size: i64,
    /// All [`BUFFER`].
    pub(super) kinds: *const c_int,
    pub(super) operands: *const *mut c_void,
}

pub(super) const BUFFER: c_int = 1;

#[repr(C)]
pub(super) struct Attributes {
    struct_size: usize,
    extension: *mut Extension,
    pub(super) size: i64,
    pub(super) kinds: *const c_int,
    pub(super) names: *const *const Bytes,
    pub(super) values: *const *const c_void,
}

pub(super) const ARRAY: c_int = 1;
pub(super) const SCALAR: c_int = 3;
pub(super) const STRING: c_int = 4;

#[repr(C)]
pub(super) struct Bytes {
    pub(super) start: *const u8,
    pub(super) len: usize,
}

#[repr(C)]
pub(super) struct Scalar {
    pub(super) dtype: c_int,
    pub(super) value: *const c_void,
}

#[repr(C)]
pub(super) struct Array {
    pub(super) dtype: c_int,
    pub(super) len: usize,
    pub(super) data: *const c_void,
}

/// A call of a handler.
#[repr(C)]
pub(super) struct CallFrame {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) api: *const Api,
    pub(super) context: *mut Context,
    pub(super) stage: c_int,
    pub(super) arguments: Operands,
    pub(super) results: Operands,
    pub(super) attributes: Attributes,
    /// Set by a handler whose call goes on.
    pub(super) future: *mut Future,
}

/// The stage in which a handler does its work; in others there is nothing to do.
pub(super) const EXECUTE: c_int = 3;

#[repr(C)]
pub(super) struct CreateError {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) message: *const c_char,
    pub(super) code: c_int,
}

pub(super) const INVALID_ARGUMENT: c_int = 3;
pub(super) const ABORTED: c_int = 10;

/// Of the calls that have a future as argument or result.
#[repr(C)]
pub(super) struct FutureCall {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) future: *mut Future,
}

#[repr(C)]
pub(super) struct FailFuture {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) future: *mut Future,
    pub(super) error: *mut Error,
}

#[repr(C)]
pub(super) struct GetOrdinal {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) context: *mut Context,
    pub(super) ordinal: i32,
}

/// A function of the interface that this package does not call.
type Unused = Option<unsafe extern "C" fn()>;

/// XLA's functions.
#[repr(C)]
pub(super) struct Api {
    pub(super) struct_size: usize,
    extension: *mut Extension,
    pub(super) version: Version,
    internal: *const c_void,
    pub(super) create_error: Option<unsafe extern "C" fn(*mut CreateError) -> *mut Error>,
    pub(super) error_message: Unused,
    destroy_error: Unused,
    register_handler: Unused,
    stream: Unused,
    register_type: Unused,
    context: Unused,
    set_state: Unused,
    state: Unused,
    allocate: Unused,
    free: Unused,
    schedule: Unused,
    threads: Unused,
    pub(super) create_future: Option<unsafe extern "C" fn(*mut FutureCall) -> *mut Error>,
    pub(super) complete_future: Option<unsafe extern "C" fn(*mut FutureCall) -> *mut Error>,
    pub(super) fail_future: Option<unsafe extern "C" fn(*mut FailFuture) -> *mut Error>,
    run_id: Unused,
    pub(super) ordinal: Option<unsafe extern "C" fn(*mut GetOrdinal) -> *mut Error>,
}
