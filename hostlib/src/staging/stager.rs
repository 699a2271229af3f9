//! The thread that makes operations of pieces, in order, as the device has copied them in.
#![expect(unsafe_code, reason = "makes operations on staging buffers")]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netfold_cuda::CudaError;

use crate::call::Call;
use crate::error::Error;
use crate::quantize::EXPONENT_NON_FINITE;
use crate::report::OpReport;
use crate::router::Router;
use crate::shutdown::ShutdownState;
use crate::staging::buffers::{StagingBuffer, StagingBuffers};
use crate::staging::plan::StagedCall;
use crate::staging::slices::{PieceSlices, PieceTransfer};
use crate::transfer::INPUT_POLL_INTERVAL;
use crate::work::{Completion, Work, spin_until};

/// How often the thread asks whether the device still works, while it waits for it.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A call on the device's memory.
pub(crate) struct Submission {
    /// Calls before it.
    number: u64,
    completion: Arc<Completion>,
    /// Of the pieces that are over.
    outcome: Mutex<Result<OpReport, Error>>,
}

impl Submission {
    pub(crate) fn work(&self) -> Work {
        Work::new(Arc::clone(&self.completion))
    }

    /// Adds the outcome of a piece.
    fn add(&self, piece: &Result<OpReport, Error>) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *outcome, piece) {
            (Ok(all), Ok(piece)) => all.add(piece),
            (Err(_), _) => {}
            (all, Err(error)) => *all = Err(error.clone()),
        }
    }

    fn settle(&self) {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.completion.settle(outcome, None);
    }
}

/// What a piece contributes to the report of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// All that its own report has.
    AsItIs,
    /// It has the exponents of blocks: packets, and blocks that are not finite.
    Exponents,
    /// It has the lanes of so many elements.
    Lanes { elements: usize },
}

impl Counted {
    /// `result` is what the operation has left in the buffer.
    fn count(self, report: &OpReport, result: &[u8]) -> OpReport {
        let report = *report;
        match self {
            Self::AsItIs => report,
            Self::Exponents => {
                let non_finite = result.iter().filter(|exponent| **exponent == EXPONENT_NON_FINITE).count();
                OpReport { elements: 0, non_finite: non_finite as u32, ..report }
            }
            Self::Lanes { elements } => OpReport { elements: elements as u64, ..report },
        }
    }
}

struct QueuedPiece {
    submission: Arc<Submission>,
    operation: StagedCall,
    buffer: StagingBuffer,
    slices: PieceSlices,
    counted: Counted,
    /// The piece without which this one cannot arrive.
    after: Option<StagingBuffer>,
}

/// A piece whose operation has failed, and which may still arrive: only then its bytes are overwritten, and copied out.
struct FailedPiece {
    buffer: StagingBuffer,
    bytes: Range<usize>,
}

/// What the thread looks for in a buffer: the first of so many slices of its piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Awaited {
    buffer: StagingBuffer,
    slices: usize,
}

impl QueuedPiece {
    /// What has to be there before it becomes an operation.
    fn awaited(&self) -> Awaited {
        Awaited { buffer: self.buffer, slices: self.slices.input.count() }
    }
}

#[derive(Default)]
struct Queue {
    /// Not yet operations, in order.
    pieces: VecDeque<QueuedPiece>,
    failed: Vec<FailedPiece>,
    /// A piece is being submitted.
    submitting: bool,
    /// Calls that are not over, in order.
    calls: VecDeque<Arc<Submission>>,
    /// Calls so far.
    called: u64,
    /// The device has failed.
    lost: Option<Error>,
    stopping: bool,
}

/// What the thread, the callers and the device's functions share.
pub(crate) struct Stager {
    buffers: StagingBuffers,
    router: Arc<Router>,
    shutdown: ShutdownState,
    queue: Mutex<Queue>,
    /// Something in the queue or in the counts has changed.
    changed: Condvar,
    /// Calls whose input is being copied in, or was.
    begun: AtomicU64,
    /// Calls of which the device has copied everything out.
    copied_out: AtomicU64,
}

/// Called by a stream as soon as the input of a call is copied in: wakes the thread, which then looks at the pieces' words.
///
/// # Safety
///
/// `stager` is the address of a [`Stager`].
pub(crate) unsafe extern "C" fn begun(stager: *mut c_void) {
    // SAFETY: by this function's contract.
    let stager = unsafe { &*stager.cast_const().cast::<Stager>() };
    stager.begun.fetch_add(1, Ordering::Release);
    stager.notify();
}

/// Called by a stream when everything of a call was copied out.
///
/// # Safety
///
/// As for [`begun`].
pub(crate) unsafe extern "C" fn copied_out(stager: *mut c_void) {
    // SAFETY: by this function's contract.
    let stager = unsafe { &*stager.cast_const().cast::<Stager>() };
    stager.copied_out.fetch_add(1, Ordering::Release);
    stager.notify();
}

/// What the thread does next.
enum Step {
    Submit(Box<QueuedPiece>),
    Release(FailedPiece),
    Settle(Arc<Submission>),
    End,
}

impl Stager {
    pub(crate) fn new(buffers: StagingBuffers, router: Arc<Router>, shutdown: ShutdownState) -> Self {
        Self {
            buffers,
            router,
            shutdown,
            queue: Mutex::default(),
            changed: Condvar::new(),
            begun: AtomicU64::new(0),
            copied_out: AtomicU64::new(0),
        }
    }

    /// Whether a piece of a call may be copied in slices while it is an operation.
    pub(super) fn may_slice(&self, call: &Call) -> bool {
        self.router.works_in_blocks(call)
    }

    pub(crate) fn buffers(&self) -> &StagingBuffers {
        &self.buffers
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        // Taken and given back, so that no thread is between its look at the counts and its sleep.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// A new call, whose pieces are enqueued next. Fails after the loss of the device.
    pub(crate) fn begin(&self) -> Result<Arc<Submission>, Error> {
        let outcome = Mutex::new(Ok(OpReport::default()));
        let mut queue = self.lock();
        if let Some(error) = &queue.lost {
            return Err(error.clone());
        }
        let submission = Arc::new(Submission { number: queue.called, completion: Arc::default(), outcome });
        queue.called += 1;
        queue.calls.push_back(Arc::clone(&submission));
        Ok(submission)
    }

    /// A piece of a call. The device copies pieces in, in the order in which they are enqueued.
    pub(super) fn enqueue(
        &self,
        submission: &Arc<Submission>,
        operation: StagedCall,
        buffer: StagingBuffer,
        (slices, counted, after): (PieceSlices, Counted, Option<StagingBuffer>),
    ) {
        let submission = Arc::clone(submission);
        let piece = QueuedPiece { submission, operation, buffer, slices, counted, after };
        self.lock().pieces.push_back(piece);
        // The device may have begun already.
        self.changed.notify_all();
    }

    /// Ends the job: the device has failed.
    pub(crate) fn lose_device(&self, error: CudaError) {
        let error = self.shutdown.fail(Error::DeviceLost(error));
        self.lock().lost.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Blocks until every piece is an operation.
    pub(crate) fn wait_until_submitted(&self) {
        let mut queue = self.lock();
        while queue.submitting || !queue.pieces.is_empty() {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks until every call is over.
    pub(crate) fn wait_until_over(&self) {
        let mut queue = self.lock();
        while !queue.calls.is_empty() {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes the thread end when every call is over.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Works until it is stopped. `check` asks the device whether it works.
    pub(crate) fn run(self: &Arc<Self>, check: impl Fn() -> Result<(), CudaError>) {
        let mut settled = 0;
        loop {
            match self.next(settled, &check) {
                Step::Submit(piece) => {
                    self.submit(*piece);
                    self.lock().submitting = false;
                    self.changed.notify_all();
                }
                Step::Release(failed) => self.release_failed(&failed),
                Step::Settle(call) => {
                    call.settle();
                    settled += 1;
                    self.lock().calls.pop_front();
                    self.changed.notify_all();
                }
                Step::End => return,
            }
        }
    }

    /// Waits for something to do. `settled` is the number of calls that are over.
    fn next(&self, settled: u64, check: &impl Fn() -> Result<(), CudaError>) -> Step {
        let mut checked = Instant::now();
        // What it has looked for all the time for a while.
        let mut polled = None;
        loop {
            let mut queue = self.lock();
            if let Some(step) = self.step(&mut queue, settled) {
                return step;
            }
            let arriving = self.awaited(&queue);
            let waits = !queue.calls.is_empty();
            match arriving {
                // Its copy is under way; the device wakes no thread when it is done.
                Some(awaited) => {
                    drop(queue);
                    let spins = polled != Some(awaited);
                    if !(spins && spin_until(|| self.is_there(awaited))) {
                        std::thread::sleep(INPUT_POLL_INTERVAL);
                    }
                    polled = Some(awaited);
                }
                None => drop(self.sleep(queue)),
            }
            if waits && checked.elapsed() >= CHECK_INTERVAL {
                checked = Instant::now();
                if let Err(error) = check() {
                    self.lose_device(error);
                }
            }
        }
    }

    /// What the device may be copying in.
    fn awaited(&self, queue: &Queue) -> Option<Awaited> {
        if let Some(failed) = queue.failed.first() {
            return Some(Awaited { buffer: failed.buffer, slices: 1 });
        }
        let piece = queue.pieces.front().filter(|piece| self.may_arrive(piece))?;
        Some(piece.awaited())
    }

    fn is_there(&self, awaited: Awaited) -> bool {
        self.buffers.arrived_slices(&awaited.buffer, awaited.slices) > 0
    }

    /// The operation of a piece has failed.
    fn fail_piece(&self, failed: FailedPiece) {
        let mut queue = self.lock();
        if queue.lost.is_none() && !self.buffers.has_arrived(&failed.buffer) {
            return queue.failed.push(failed);
        }
        // The thread may have ended after the loss of the device.
        drop(queue);
        self.release_failed(&failed);
    }

    /// Overwrites a piece whose operation has failed, and lets the device copy it out.
    fn release_failed(&self, failed: &FailedPiece) {
        // SAFETY: the operation is over. The device has copied the piece in, or is lost, and waits for the buffer's word.
        unsafe { self.buffers.poison(&failed.buffer, failed.bytes.clone()) };
        self.buffers.release(&failed.buffer);
    }

    /// Why no piece arrives any more.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.lock().lost.clone()
    }

    /// Whether the device may be copying a piece in.
    fn may_arrive(&self, piece: &QueuedPiece) -> bool {
        self.begun.load(Ordering::Acquire) > piece.submission.number
            && self.buffers.may_arrive(&piece.buffer)
            && piece.after.is_none_or(|earlier| self.buffers.is_released(&earlier))
    }

    /// What can be done now.
    fn step(&self, queue: &mut Queue, settled: u64) -> Option<Step> {
        if let Some(error) = queue.lost.clone() {
            return self.give_up(queue, &error);
        }
        if let Some(at) = queue.failed.iter().position(|failed| self.buffers.has_arrived(&failed.buffer)) {
            return Some(Step::Release(queue.failed.swap_remove(at)));
        }
        if queue.pieces.front().is_some_and(|piece| self.is_there(piece.awaited())) {
            queue.submitting = true;
            return queue.pieces.pop_front().map(|piece| Step::Submit(Box::new(piece)));
        }
        if self.copied_out.load(Ordering::Acquire) > settled {
            return queue.calls.front().map(|call| Step::Settle(Arc::clone(call)));
        }
        (queue.stopping && queue.calls.is_empty()).then_some(Step::End)
    }

    /// Sleeps until something has changed, at most for the interval of checks.
    fn sleep<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.wait_timeout(queue, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0
    }

    /// After the loss of the device. Words are written all the same: the device may still execute what was appended.
    fn give_up(&self, queue: &mut Queue, error: &Error) -> Option<Step> {
        for failed in queue.failed.drain(..) {
            self.release_failed(&failed);
        }
        for piece in queue.pieces.drain(..) {
            self.buffers.release(&piece.buffer);
        }
        match queue.calls.front() {
            Some(call) => {
                call.add(&Err(error.clone()));
                Some(Step::Settle(Arc::clone(call)))
            }
            None => queue.stopping.then_some(Step::End),
        }
    }

    /// Makes an operation of a piece. The device copies it out when it is over, whether or not it has failed.
    fn submit(self: &Arc<Self>, piece: QueuedPiece) {
        let QueuedPiece { submission, operation, buffer, slices, counted, .. } = piece;
        let StagedCall { call, send, recv, used } = operation;
        let (send, recv) =
            (self.buffers.span(&buffer, send, used - send), self.buffers.span(&buffer, recv, used - recv));
        let transfer = slices.are_several().then(|| Arc::new(PieceTransfer::new(self, buffer, slices)));
        let (stager, own) = (Arc::clone(self), transfer.clone());
        let over = move |outcome: &Result<OpReport, Error>| {
            match outcome {
                Ok(report) => {
                    let bytes = stager.buffers.span(&buffer, 0, used).cast_const();
                    // SAFETY: the operation is over, and the device waits for the buffer's word.
                    let result = unsafe { std::slice::from_raw_parts(bytes, used) };
                    submission.add(&Ok(counted.count(report, result)));
                    stager.buffers.release(&buffer);
                }
                Err(error) => {
                    submission.add(&Err(error.clone()));
                    let kept_from = own.as_ref().map_or(0, |own| own.kept_from());
                    stager.fail_piece(FailedPiece { buffer, bytes: kept_from..used });
                }
            }
            // A piece that waits for the buffer will arrive.
            stager.notify();
        };
        let route = match self.router.route(&call) {
            Ok(route) => route,
            Err(error) => return over(&Err(error)),
        };
        // SAFETY: the buffer is this piece's until its word is written, which happens when the operation is over; the memory lives as long.
        let mut memory = unsafe { self.router.make_buffer(&call, &route, send.cast_const(), recv) };
        if let Some(transfer) = transfer {
            memory.transfer(transfer);
        }
        Work::new(memory.completion()).on_done(over);
        self.router.start(route, memory);
    }
}
