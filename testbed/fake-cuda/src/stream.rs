//! Streams and what is appended to them.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::time::Instant;

use crate::kernels::Launch;
use crate::memory::Memory;

/// A function of the host, and what it is called with.
#[derive(Clone, Copy)]
pub(crate) struct HostCall {
    pub(crate) function: netfold_cuda::HostFunction,
    pub(crate) data: *mut c_void,
}

#[expect(unsafe_code, reason = "hands a caller's pointer to the thread that calls its function")]
// SAFETY: the caller of the driver allows any thread to call the function.
unsafe impl Send for HostCall {}

/// What a kernel does.
pub(crate) type Kernel = Box<dyn FnOnce(&mut Memory) -> Result<(), String> + Send>;

pub(crate) enum Operation {
    Copy {
        to_host: bool,
        host: usize,
        device: u64,
        bytes: usize,
    },
    /// The event is reached for this time.
    Record {
        event: usize,
        time: u64,
    },
    WaitForEvent {
        event: usize,
        time: u64,
    },
    WaitForWord {
        address: usize,
        value: u32,
    },
    WriteWord {
        address: usize,
        value: u32,
    },
    Call(HostCall),
    /// Of a test.
    Kernel(Kernel),
    /// Of the program under test.
    Launch(Launch),
}

/// What a stream is for, as far as the driver can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Caller,
    CopyIn,
    CopyOut,
    /// Calls functions of the host.
    Notice,
    /// Launches kernels on what goes out.
    Quantize,
    /// Launches kernels on what comes back.
    Results,
}

pub(crate) struct StreamState {
    pub(crate) role: Role,
    pub(crate) operations: VecDeque<Operation>,
    /// When the first operation may start; `None` before it was looked at.
    pub(crate) start: Option<Instant>,
    /// The function of the first operation is being called.
    pub(crate) calling: bool,
    pub(crate) capturing: bool,
}

impl StreamState {
    pub(crate) fn new(role: Role) -> Self {
        let operations = VecDeque::new();
        Self { role, operations, start: None, calling: false, capturing: false }
    }
}

pub(crate) struct EventState {
    /// How often it was recorded, and how often it was reached.
    pub(crate) recorded: u64,
    pub(crate) reached: u64,
    /// Of the stream in which it was recorded last.
    pub(crate) role: Role,
}
