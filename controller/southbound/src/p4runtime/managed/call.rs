//! Requests of a handle to the keeper's thread, and the wait for their replies.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use netfold_p4::entry::{Replica, TableEntry};
use netfold_wire::JobKeys;

use super::Repaired;
use netfold_controller::driver::DriverError;

/// One call of [`netfold_controller::SwitchDriver`], or of a handle's own.
#[derive(Debug, Clone)]
pub(super) enum Request {
    Bind {
        port: u16,
        peer: SocketAddr,
        udp_ports: u8,
    },
    Authenticate {
        port: u16,
        keys: JobKeys,
    },
    Unbind(u16),
    Insert(Vec<TableEntry>),
    Delete(Vec<TableEntry>),
    SetGroup(u16, Vec<Replica>),
    DeleteGroup(u16),
    Resync,
    Counters(u32),
    /// One cell of a counter.
    Cell(u32, u16),
}

impl Request {
    /// Whether it only removes something: such a request succeeds while the switch is down.
    pub(super) fn takes_away(&self) -> bool {
        matches!(self, Self::Unbind(_) | Self::Delete(_) | Self::DeleteGroup(_))
    }
}

/// The result of a [`Request`].
#[derive(Debug)]
pub(super) enum Reply {
    Done,
    Repaired(Repaired),
    Counters(Vec<u64>),
}

pub(super) type CallResult = Result<Reply, DriverError>;

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const ABANDONED: u8 = 2;

/// A request on its way.
pub(super) struct Call {
    request: Request,
    state: Arc<AtomicU8>,
    reply: mpsc::SyncSender<CallResult>,
}

/// The caller's end.
pub(super) struct Ticket {
    state: Arc<AtomicU8>,
    answer: mpsc::Receiver<CallResult>,
}

impl Call {
    pub(super) fn new(request: Request) -> (Self, Ticket) {
        let state = Arc::new(AtomicU8::new(WAITING));
        let (reply, answer) = mpsc::sync_channel(1);
        (Self { request, state: Arc::clone(&state), reply }, Ticket { state, answer })
    }

    /// The request and where its answer goes; `None` when the caller has given up.
    pub(super) fn take(self) -> Option<(Request, mpsc::SyncSender<CallResult>)> {
        let taken = self.state.compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok().then_some((self.request, self.reply))
    }
}

impl Ticket {
    /// The answer, if it is there; an error when the keeper is gone.
    #[cfg(test)]
    pub(super) fn poll(&self) -> Result<Option<CallResult>, mpsc::TryRecvError> {
        match self.answer.try_recv() {
            Ok(answer) => Ok(Some(answer)),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(gone) => Err(gone),
        }
    }

    /// Waits for the answer. `None` when nothing was begun within `timeout`, and nothing will be; what was begun is
    /// waited for, since each of its steps has a limit of its own. `None` as well when the keeper is gone.
    pub(super) fn wait(self, timeout: Duration) -> Option<CallResult> {
        match self.answer.recv_timeout(timeout) {
            Ok(answer) => return Some(answer),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        let given_up =
            self.state.compare_exchange(WAITING, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if given_up { None } else { self.answer.recv().ok() }
    }
}
