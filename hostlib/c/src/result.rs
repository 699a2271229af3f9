//! Result codes and messages.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use netfold::{Advice, Error};

/// How a call ended. Codes never change their meaning; new ones may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum netfold_result {
    /// Success.
    Ok = 0,
    /// A pointer that is needed is null.
    NullPointer = 1,
    /// An argument is out of range, or text is not UTF-8.
    Argument = 2,
    /// The library panicked: a bug. The object must not be used any more, only freed.
    Panic = 3,
    /// The switch's address cannot be resolved.
    Address = 4,
    /// The switch or a rank cannot be reached.
    Connect = 5,
    /// The switch refused this worker.
    Refused = 6,
    /// Not all ranks joined in time.
    JoinTimeout = 7,
    /// A peer uses another version of the protocol, or another protocol.
    Protocol = 8,
    /// A socket or the machine failed.
    Io = 9,
    /// The collective is not possible on this element type or path.
    Unsupported = 10,
    /// A length is out of range or does not fit.
    Length = 11,
    /// A rank made a different call at the same position.
    Mismatch = 12,
    /// A rank was lost.
    PeerLost = 13,
    /// The switch was lost, and ranks could not continue without it.
    SwitchLost = 14,
    /// No progress until the timeout, or the job was aborted from outside.
    Aborted = 15,
    /// The communicator was closed or aborted on this rank.
    Closed = 16,
    /// A forked child uses its parent's communicator.
    Forked = 17,
    /// Not done yet: try again later.
    Again = 18,
    /// The outcome was taken before.
    Taken = 19,
    /// Anything else.
    Failed = 20,
    /// Memory of a CUDA device cannot be used, or the device failed.
    Cuda = 21,
    /// Not all ranks asked for another generation in time, or not all processes that were to join came.
    NotResized = 22,
    /// This rank was taken as lost, and its job continues without it.
    Excluded = 23,
}

/// What a trainer should do about a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum netfold_advice {
    /// Nothing is wrong.
    None = 0,
    /// Build a new communicator with the same ranks.
    Retry = 1,
    /// Build a new communicator without the lost rank.
    Shrink = 2,
    /// Stop: the program, its arguments or its environment must change first.
    Stop = 3,
}

#[derive(Default)]
struct LastError {
    message: CString,
    advice: Option<netfold_advice>,
    peer: Option<u16>,
}

thread_local! {
    static LAST: RefCell<LastError> = RefCell::default();
}

/// A failure on its way to the caller.
pub(crate) struct Failure {
    pub(crate) result: netfold_result,
    message: String,
    advice: netfold_advice,
    peer: Option<u16>,
}

impl Failure {
    pub(crate) fn new(result: netfold_result, message: impl Into<String>) -> Self {
        Self { result, message: message.into(), advice: netfold_advice::Stop, peer: None }
    }

    pub(crate) fn null(what: &str) -> Self {
        Self::new(netfold_result::NullPointer, format!("{what} is NULL"))
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(netfold_result::Argument, message)
    }

    /// Keeps the message for [`netfold_last_error`].
    pub(crate) fn keep(self) -> netfold_result {
        let Self { result, message, advice, peer } = self;
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // The storage of a thread that is ending is gone.
        let _ = LAST.try_with(|last| {
            if let Ok(mut last) = last.try_borrow_mut() {
                *last = LastError { message, advice: Some(advice), peer };
            }
        });
        result
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let result = match error.kind() {
            "argument" | "root" => netfold_result::Argument,
            "address" => netfold_result::Address,
            "connect" | "mesh" => netfold_result::Connect,
            "refused" | "no_switch" => netfold_result::Refused,
            "join_timeout" => netfold_result::JoinTimeout,
            "control" => netfold_result::Protocol,
            "io" | "thread" | "shared_memory" => netfold_result::Io,
            "unsupported" => netfold_result::Unsupported,
            "length" => netfold_result::Length,
            "mismatch" | "differs" | "group_key" => netfold_result::Mismatch,
            "peer_lost" => netfold_result::PeerLost,
            "switch_lost" => netfold_result::SwitchLost,
            "stalled" | "stale" | "rejected" | "aborted" => netfold_result::Aborted,
            "closed" | "interrupted" => netfold_result::Closed,
            "forked" => netfold_result::Forked,
            "taken" => netfold_result::Taken,
            "cuda" | "device_lost" => netfold_result::Cuda,
            "not_resized" => netfold_result::NotResized,
            "excluded" => netfold_result::Excluded,
            _ => netfold_result::Failed,
        };
        let advice = match error.advice() {
            Advice::Retry => netfold_advice::Retry,
            Advice::Shrink => netfold_advice::Shrink,
            _ => netfold_advice::Stop,
        };
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(source) = cause {
            message.push_str(": ");
            message.push_str(&source.to_string());
            cause = source.source();
        }
        Self { result, message, advice, peer: error.peer() }
    }
}

/// The message of this thread's last failed call: what went wrong and what to do. Empty when none has failed. Valid until
/// this thread's next failed call; never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn netfold_last_error() -> *const c_char {
    // The pointer outlives the borrow: the message lives in the thread's storage until it is replaced.
    LAST.try_with(|last| last.try_borrow().map_or(c"".as_ptr(), |last| last.message.as_ptr()))
        .unwrap_or(c"".as_ptr())
}

/// The rank that caused this thread's last failed call, or -1 when none is known.
#[unsafe(no_mangle)]
pub extern "C" fn netfold_last_error_peer() -> i32 {
    LAST.try_with(|last| last.try_borrow().ok().and_then(|last| last.peer))
        .ok()
        .flatten()
        .map_or(-1, i32::from)
}

/// What to do about this thread's last failed call.
#[unsafe(no_mangle)]
pub extern "C" fn netfold_last_error_advice() -> netfold_advice {
    let advice = LAST.try_with(|last| last.try_borrow().ok().and_then(|last| last.advice));
    advice.ok().flatten().unwrap_or(netfold_advice::None)
}

macro_rules! names {
    ($($code:ident $name:literal),+ $(,)?) => {
        const NAMES: &[(netfold_result, &std::ffi::CStr)] = &[$((netfold_result::$code, $name)),+];
    };
}

names! {
    Ok c"ok", NullPointer c"null_pointer", Argument c"argument", Panic c"panic", Address c"address", Connect c"connect",
    Refused c"refused", JoinTimeout c"join_timeout", Protocol c"protocol", Io c"io", Unsupported c"unsupported",
    Length c"length", Mismatch c"mismatch", PeerLost c"peer_lost", SwitchLost c"switch_lost", Aborted c"aborted",
    Closed c"closed", Forked c"forked", Again c"again", Taken c"taken", Failed c"failed",
    Cuda c"cuda", NotResized c"not_resized", Excluded c"excluded",
}

/// A short, stable name of a result code, for example "peer_lost"; "unknown" for other numbers. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn netfold_result_name(result: i32) -> *const c_char {
    NAMES.iter().find(|(code, _)| *code as i32 == result).map_or(c"unknown", |(_, name)| name).as_ptr()
}
