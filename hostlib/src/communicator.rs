//! The communicator: one rank's place in a job.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use netfold_proto::{DATA_CHUNKS_MAX, DType, Descriptor, ELEMENTS_MAX, OpKind, OpSpec, SpecError};
use netfold_wire::LaneOp;
use netfold_wire::control::Mode;

use crate::buffer::{self, Parcel, Storage, Ticket};
use crate::builder::Builder;
use crate::element::Element;
use crate::error::Error;
use crate::mailbox::{Mailbox, Stop};
use crate::report::{OpReport, Stats};
use crate::session::Line;
use crate::tensors::{Coding, Submission};

/// How the elements of all ranks become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReduceOp {
    /// The sum. Integers wrap around; see the module [`quantize`](crate::quantize) for floating point.
    Sum,
    /// The smallest (`i32` only).
    Min,
    /// The largest (`i32` only).
    Max,
}

impl ReduceOp {
    /// Every operation.
    pub const ALL: &'static [Self] = &[Self::Sum, Self::Min, Self::Max];

    /// The name in reports and messages.
    pub const fn name(self) -> &'static str {
        self.lane_op().name()
    }

    const fn lane_op(self) -> LaneOp {
        match self {
            Self::Sum => LaneOp::Sum,
            Self::Min => LaneOp::Min,
            Self::Max => LaneOp::Max,
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One rank's place in a job, with an engine thread behind it.
///
/// All ranks must call the same operations with the same lengths and types in the same order; a difference is found
/// before any data travel and ends the job with [`Error::Mismatch`] on every rank. Results have the same bits on every
/// rank.
///
/// After an error that [ends the job](Error::ends_the_job), every pending and later call returns that error; drop the
/// communicator and build another.
///
/// Dropping leaves the job. Operations that are still pending are given up then, and the other ranks are told; wait for
/// their handles, or call [`Self::leave`], to finish them first.
pub struct Communicator {
    mailbox: Arc<Mailbox>,
    threads: Vec<JoinHandle<()>>,
    control: Option<Line>,
    rank: u16,
    world: u16,
    mode: Mode,
    lane_bytes: usize,
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.rank)
            .field("world_size", &self.world)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// What a communicator is made of.
pub(crate) struct Parts {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) control: Option<Line>,
    pub(crate) rank: u16,
    pub(crate) world: u16,
    pub(crate) mode: Mode,
    pub(crate) lane_bytes: usize,
}

impl Communicator {
    /// Starts to describe a communicator.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { mailbox, threads, control, rank, world, mode, lane_bytes } = parts;
        Self { mailbox, threads, control, rank, world, mode, lane_bytes }
    }

    /// A thread to join when the communicator is closed.
    pub(crate) fn add_thread(&mut self, thread: JoinHandle<()>) {
        self.threads.push(thread);
    }

    /// This worker's rank, from 0.
    pub fn rank(&self) -> u16 {
        self.rank
    }

    /// Number of workers.
    pub fn world_size(&self) -> u16 {
        self.world
    }

    /// How floating-point tensors travel in this job.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Replaces `tensor` on every rank by the reduction over all ranks' tensors. Blocks until it is there.
    ///
    /// Any length is allowed, zero too. The values are right within the error bound of the job's mode (see
    /// [`quantize`](crate::quantize)); a block that holds NaN or an infinity on some rank becomes NaN on all, and the
    /// report says so. On an error `tensor` holds an unspecified mix of inputs and results.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] and [`Error::Length`] before anything is sent; any error that
    /// [ends the job](Error::ends_the_job).
    pub fn all_reduce<T: Element>(&mut self, tensor: &mut [T], op: ReduceOp) -> Result<OpReport, Error> {
        let (spec, coding) = self.reduction::<T>(tensor.len(), op)?;
        self.blocking(tensor, spec, coding)
    }

    /// Starts an [`all_reduce`](Self::all_reduce) of a tensor that is given away until the handle is waited for. Many may
    /// be in flight; they are worked on in the order of submission. Blocks only while too many wait already.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] and [`Error::Length`], before anything is sent. All others come from the handle.
    pub fn all_reduce_async<T: Element>(
        &mut self,
        tensor: Vec<T>,
        op: ReduceOp,
    ) -> Result<AsyncHandle<T>, Error> {
        let (spec, coding) = self.reduction::<T>(tensor.len(), op)?;
        let (parcel, ticket) = Parcel::owned(tensor);
        self.mailbox.submit(Submission { spec, coding, parcel, submitted: Instant::now() });
        Ok(AsyncHandle { ticket, tensor: PhantomData })
    }

    /// Replaces `tensor` on every rank by `root`'s, bit for bit. Blocks until it is there.
    ///
    /// Works for every element type in every mode: the bits travel as integers, to which the other ranks add zero.
    /// On an error `tensor` holds an unspecified mix of old and new elements.
    ///
    /// # Errors
    ///
    /// [`Error::Root`] and [`Error::Length`] before anything is sent; any error that
    /// [ends the job](Error::ends_the_job).
    pub fn broadcast<T: Element>(&mut self, tensor: &mut [T], root: u16) -> Result<OpReport, Error> {
        if root >= self.world {
            return Err(Error::Root { root, world: self.world });
        }
        let coding = if root == self.rank { Coding::WordsOfRoot } else { Coding::WordsFromRoot };
        let descriptor = Descriptor {
            kind: OpKind::Broadcast,
            dtype: T::DTYPE,
            mode: Mode::I32,
            lane_op: LaneOp::Sum,
            root,
            elements: tensor.len() as u64,
        };
        let spec = self.spec::<T>(descriptor, coding)?;
        self.blocking(tensor, spec, coding)
    }

    /// Returns when every rank has called it.
    ///
    /// # Errors
    ///
    /// Any error that [ends the job](Error::ends_the_job).
    pub fn barrier(&mut self) -> Result<OpReport, Error> {
        let (parcel, ticket) = Parcel::empty();
        let submitted = Instant::now();
        self.mailbox.submit(Submission { spec: OpSpec::BARRIER, coding: Coding::Words, parcel, submitted });
        ticket.wait().map(|(_, report)| report)
    }

    /// Counters, as of the last finished operation.
    pub fn stats(&self) -> Stats {
        self.mailbox.stats()
    }

    /// The error that ended the job, if it has ended.
    pub fn failure(&self) -> Option<Error> {
        self.mailbox.ended()
    }

    /// Finishes all pending operations and leaves the job.
    ///
    /// # Errors
    ///
    /// The error that [ended the job](Error::ends_the_job) before or meanwhile.
    pub fn leave(mut self) -> Result<(), Error> {
        self.close(Stop::WhenIdle);
        match self.mailbox.ended() {
            None | Some(Error::Closed) => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn close(&mut self, stop: Stop) {
        self.mailbox.stop(stop);
        let mut threads = self.threads.drain(..);
        // A panic of the engine has been reported as EngineFailed.
        let _ = threads.next().map(JoinHandle::join);
        if let Some(line) = &self.control {
            line.leave();
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn blocking<T: Element>(
        &mut self,
        tensor: &mut [T],
        spec: OpSpec,
        coding: Coding,
    ) -> Result<OpReport, Error> {
        let submitted = Instant::now();
        buffer::lend(tensor, |parcel| {
            self.mailbox.submit(Submission { spec, coding, parcel, submitted });
        })
    }

    fn reduction<T: Element>(&self, elements: usize, op: ReduceOp) -> Result<(OpSpec, Coding), Error> {
        let unsupported = |advice| Err(Error::Unsupported { op, dtype: T::DTYPE, mode: self.mode, advice });
        let (coding, mode) = match (T::DTYPE, self.mode, op) {
            (DType::I32, _, _) => (Coding::Words, Mode::I32),
            (_, Mode::I32, _) => return unsupported("build the communicator with mode bfp32 or bfp16"),
            (_, _, ReduceOp::Min | ReduceOp::Max) => return unsupported("only i32 tensors have min and max"),
            (_, mode, ReduceOp::Sum) => (Coding::of(mode), mode),
        };
        let descriptor = Descriptor {
            kind: OpKind::AllReduce,
            dtype: T::DTYPE,
            mode,
            lane_op: op.lane_op(),
            root: 0,
            elements: elements as u64,
        };
        Ok((self.spec::<T>(descriptor, coding)?, coding))
    }

    fn spec<T: Element>(&self, descriptor: Descriptor, coding: Coding) -> Result<OpSpec, Error> {
        if descriptor.elements > ELEMENTS_MAX {
            return Err(SpecError::Elements(descriptor.elements).into());
        }
        let chunk_elements = coding.chunk_elements(size_of::<T>(), self.lane_bytes) as u64;
        let data_chunks = descriptor.elements.div_ceil(chunk_elements);
        if data_chunks > u64::from(DATA_CHUNKS_MAX) {
            return Err(SpecError::Chunks(data_chunks.min(u64::from(u32::MAX)) as u32).into());
        }
        Ok(OpSpec {
            descriptor,
            data_chunks: data_chunks as u32,
            exponents: matches!(coding, Coding::Blocks(_)),
            class: 0,
            lane_op: descriptor.lane_op,
        })
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.close(Stop::Now);
        }
    }
}

/// An operation in flight, and its tensor. Dropping the handle drops the tensor; the operation takes place all the same.
#[derive(Debug)]
#[must_use = "the tensor comes back through the handle"]
pub struct AsyncHandle<T: Element> {
    ticket: Arc<Ticket>,
    tensor: PhantomData<fn() -> T>,
}

impl<T: Element> AsyncHandle<T> {
    /// Blocks until the operation is over and returns the tensor with the result.
    ///
    /// # Errors
    ///
    /// Any error that [ends the job](Error::ends_the_job); [`Error::Taken`] after a successful
    /// [`try_wait`](Self::try_wait).
    pub fn wait(self) -> Result<(Vec<T>, OpReport), Error> {
        let (tensor, report) = self.ticket.wait()?;
        match T::storage(tensor) {
            Some(Storage::Owned(elements)) => Ok((elements, report)),
            // Not reached: the parcel was made of a vector of this type.
            _ => Err(Error::Taken),
        }
    }

    /// The same without blocking: `None` while the operation is under way.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    pub fn try_wait(&mut self) -> Option<Result<(Vec<T>, OpReport), Error>> {
        let ticket = Arc::clone(&self.ticket);
        self.is_done().then(|| Self { ticket, tensor: PhantomData }.wait())
    }

    /// Whether [`wait`](Self::wait) would return at once.
    pub fn is_done(&self) -> bool {
        self.ticket.is_settled()
    }
}
