//! Collectives that hosts execute themselves: a thread that takes calls in order and runs them on a fabric.

use netfold_wire::{Collective, DType};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::buffer::OpBuffer;
use crate::call::Call;
use crate::error::Error;
use crate::lower::OpContext;
use crate::mailbox::{Command, Mailbox};
use crate::operation::Operation;
use crate::report::OpReport;
use crate::shutdown::ShutdownState;
use crate::work::Completion;
use crate::worker_thread;

/// Longest sleep when nothing is expected.
const IDLE_WAIT: Duration = Duration::from_secs(10);

/// Calls taken from the mailbox at a time.
const CALLS_MAX: usize = 16;

/// Something that can do collectives, together with the other ranks. Calls block and come from one thread, in the same
/// order on every rank.
pub(crate) trait Fabric: Send {
    /// Does a call. `input` is `None` when `output` holds it: in place for collectives of equal lengths, at this rank's part for
    /// an all-gather. On a reduce's other ranks, and on a broadcast's root with a separate input, `output` may be empty.
    ///
    /// # Errors
    ///
    /// Any error ends the communicator.
    fn run(&mut self, call: &Call, input: Option<&[u8]>, output: &mut [u8]) -> Result<(), Error>;

    /// Does a call whose caller wants to know what is left out of each element of its tensor, of `f32`: nothing, unless said
    /// otherwise. `residual` is all zeros.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    fn run_with_feedback(
        &mut self,
        call: &Call,
        input: Option<&[u8]>,
        output: &mut [u8],
        residual: &mut [f32],
    ) -> Result<(), Error> {
        debug_assert!(residual.iter().all(|left| *left == 0.0), "nothing is left out");
        self.run(call, input, output)
    }
}

/// A call that hosts execute.
#[derive(Debug)]
pub(crate) struct HostCall {
    pub(crate) call: Call,
    /// The comparison of the call with those of the other ranks through the switch, if there is one. The hosts begin when it has shown that all
    /// ranks call the same: until then others may be waiting for something else.
    pub(crate) compared: Option<Arc<Completion>>,
}

/// A call on its way to the host's thread.
pub(crate) type HostOperation = Operation<HostCall>;

/// The thread that runs calls on this host's fabric.
pub(crate) struct HostThread {
    pub(crate) mailbox: Arc<Mailbox<HostOperation>>,
    pub(crate) engine: Arc<HostEngine>,
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
}

/// A fabric that one thread uses at a time: the host's, or that of a caller that waits anyway.
pub(crate) struct HostEngine {
    fabric: Mutex<Box<dyn Fabric>>,
    mailbox: Arc<Mailbox<HostOperation>>,
    shutdown: ShutdownState,
}

impl HostEngine {
    pub(crate) fn new(
        fabric: Box<dyn Fabric>,
        mailbox: Arc<Mailbox<HostOperation>>,
        shutdown: ShutdownState,
    ) -> Self {
        Self { fabric: Mutex::new(fabric), mailbox, shutdown }
    }

    /// Executes a call on this thread, which would wait for it anyway, unless other calls come first; returns the call if so. Waking two
    /// threads takes longer than a small call.
    pub(crate) fn run_inline(&self, call: HostOperation) -> Option<HostOperation> {
        /// Returns control to the host's thread, also after a panic.
        struct Release<'a>(&'a HostEngine);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.shutdown.fail(Error::EngineFailed);
                }
                self.0.mailbox.release();
            }
        }
        if !self.mailbox.claim() {
            return Some(call);
        }
        let _release = Release(self);
        // An error has failed the communicator.
        let _ = self.perform(call);
        None
    }

    /// Works until the job is over.
    pub(crate) fn run(&self) {
        worker_thread::run(&self.mailbox, &self.shutdown, || {}, || self.serve());
    }

    fn serve(&self) -> Error {
        let mut calls = Vec::with_capacity(CALLS_MAX);
        loop {
            let _ = self.mailbox.take_notification();
            let command = self.mailbox.collect(CALLS_MAX, &mut calls, None);
            match command {
                Command::End(error) => return error,
                Command::StopWhenIdle if calls.is_empty() => return Error::Closed,
                Command::Work if calls.is_empty() => self.mailbox.wait(IDLE_WAIT),
                Command::Work | Command::StopWhenIdle => {}
            }
            let mut failed = None;
            for call in calls.drain(..) {
                match &failed {
                    None => failed = self.perform(call).err(),
                    Some(error) => call.fail(Error::clone(error)),
                }
            }
            if let Some(error) = failed {
                return error;
            }
        }
    }

    fn perform(&self, mut operation: HostOperation) -> Result<(), Error> {
        let mut fabric = self.fabric.lock().unwrap_or_else(PoisonError::into_inner);
        let HostCall { call, compared } = &operation.request;
        let compared = compared.as_ref().map_or(Ok(()), |compared| compared.wait().map(drop));
        let (input, output, residual) = operation.buffer.input_and_output();
        let done = compared.and_then(|()| match residual {
            None => fabric.run(call, input, output),
            Some(residual) => fabric.run_with_feedback(call, input, output, residual),
        });
        match done {
            Ok(()) => {
                let elements = operation.request.call.output_len(1) as u64;
                operation.finish(OpReport { elements, ..OpReport::default() });
                Ok(())
            }
            Err(error) => {
                // The error that ended the job first says more than what it caused here.
                let error = self.shutdown.fail(error);
                operation.fail(error.clone());
                Err(error)
            }
        }
    }
}

/// The memory of a call in a fabric's form.
///
/// # Safety
///
/// As for [`Communicator::submit`](crate::Communicator::submit).
#[expect(unsafe_code, reason = "works on memory that the caller vouches for")]
pub(crate) unsafe fn make_buffer(
    call: &Call,
    context: &OpContext,
    send: *const u8,
    recv: *mut u8,
) -> OpBuffer {
    let size = call.dtype.size();
    let (sent, received) = (call.input_len(context.world) * size, call.output_len(context.world) * size);
    let own = usize::from(context.rank) * call.count * size;
    let output = (recv, received);
    // SAFETY: every pointer is used for the bytes that the caller vouches for; what is in place is made one span or copied.
    unsafe {
        match call.collective {
            Collective::Barrier => OpBuffer::empty(),
            Collective::Reduce { root } if root != context.rank => {
                OpBuffer::promised(DType::U8, (recv, 0), Some((send, sent)))
            }
            Collective::Broadcast { root } if root != context.rank => {
                OpBuffer::promised(DType::U8, output, None)
            }
            Collective::Broadcast { .. } if recv.is_null() => {
                OpBuffer::promised(DType::U8, (recv, 0), Some((send, sent)))
            }
            Collective::AllGather if std::ptr::eq(send, recv.wrapping_add(own)) => {
                OpBuffer::promised(DType::U8, output, None)
            }
            Collective::ReduceScatter if std::ptr::eq(recv, send.wrapping_add(own)) => {
                OpBuffer::promised_with_copy(output, (send, sent))
            }
            Collective::AllToAll if std::ptr::eq(send, recv) => {
                OpBuffer::promised_with_copy(output, (send, sent))
            }
            _ if std::ptr::eq(send, recv) => OpBuffer::promised(DType::U8, output, None),
            _ => OpBuffer::promised(DType::U8, output, Some((send, sent))),
        }
    }
}

/// A group of one rank.
#[derive(Debug)]
pub(crate) struct SingleRank;

impl Fabric for SingleRank {
    fn run(&mut self, call: &Call, input: Option<&[u8]>, output: &mut [u8]) -> Result<(), Error> {
        if !netfold_collectives::reduce::supports(call.op, call.dtype) && call.collective.reduces() {
            return Err(unsupported(call));
        }
        if let Some(input) = input
            && output.len() == input.len()
        {
            output.copy_from_slice(input);
        }
        Ok(())
    }
}

/// The error of a reduction that is not defined on hosts either.
pub(crate) fn unsupported(call: &Call) -> Error {
    Error::Undefined { collective: call.collective.name(), op: call.op, dtype: call.dtype }
}

/// Whether hosts can do this call.
///
/// # Errors
///
/// [`Error::Undefined`].
pub(crate) fn supported_by_hosts(call: &Call) -> Result<(), Error> {
    let folds = call.collective.reduces();
    if folds && !netfold_collectives::reduce::supports(call.op, call.dtype) {
        Err(unsupported(call))
    } else {
        Ok(())
    }
}
