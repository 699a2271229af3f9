//! The communicator: one rank's membership in a job.
#![expect(
    unsafe_code,
    reason = "passes memory of callers on: borrowed while they wait, or promised by `submit`"
)]

use netfold_wire::{Collective, Extent, LaneOps, Mode, ReduceOp};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread::JoinHandle;

use crate::arbiter::Resizer;
use crate::buffer::{self, OpBuffer};
use crate::call::Call;
use crate::config::JobConfig;
use crate::element::Element;
use crate::error::Error;
use crate::host::HostThread;
use crate::lower::OpContext;
use crate::path::{Path, PathCell, SwitchAttachment};
use crate::report::{OpReport, Stats};
use crate::router::{CallRoute, Router};
use crate::shutdown::{ShutdownState, StopMode};
use crate::staging::Staging;
use crate::tree_set::TreeSet;
use crate::work::{Completion, Work};

/// One rank's membership in a job, with an engine thread.
///
/// All ranks must call the same operations with the same lengths and types in the same order; a difference is found
/// before any data travel and ends the job with [`Error::Mismatch`] on every rank. Results have the same bits on every
/// rank.
///
/// After an error that [ends the job](Error::ends_the_job), every pending and later call returns that error; drop the
/// communicator and build another, or, in a [resizable](crate::Builder::resizable) job, [shrink](Self::shrink) it.
///
/// Dropping leaves the job. Operations that are still pending are given up then, and the other ranks are notified; wait for
/// their handles, or call [`Self::leave`], to finish them first. Where the job's controller is unreachable at that moment, [`Self::leave`] waits
/// until it is reachable, at most for the job's grace period; dropping waits for 2 s, and a background thread leaves
/// later, if the process still runs.
pub struct Communicator {
    pub(crate) router: Arc<Router>,
    pub(crate) path: PathCell,
    pub(crate) shutdown: ShutdownState,
    /// Where the ranks are, where they are linked.
    place: Option<Place>,
    /// What brings the memory of a CUDA device to the host and back; none before the first call on such memory.
    pub(crate) staging: OnceLock<Staging>,
    /// How many times it was split.
    splits: AtomicU32,
    /// Of a resizable job.
    pub(crate) resizer: Option<Resizer>,
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.router.context.rank)
            .field("world_size", &self.router.context.world)
            .field("mode", &self.router.context.config.mode)
            .field("path", &self.path.get())
            .finish_non_exhaustive()
    }
}

/// The parts of a communicator.
pub(crate) struct Parts {
    pub(crate) context: OpContext,
    /// The stream through the switch, when calls go there directly.
    pub(crate) network: Option<TreeSet>,
    /// The calls that hosts execute themselves.
    pub(crate) host: Option<HostThread>,
    pub(crate) path: PathCell,
    pub(crate) shutdown: ShutdownState,
    /// Where the ranks are, where they are linked.
    pub(crate) place: Option<Place>,
}

/// Where linked ranks are.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The address of this host through which the other ranks are reached.
    pub(crate) ip: IpAddr,
    /// The host of each rank, by the first rank that shares memory on it.
    pub(crate) hosts: Vec<u16>,
}

impl Communicator {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { context, network, host, path, shutdown, place } = parts;
        let router = Arc::new(Router::new(context, network, host));
        let (staging, splits) = (OnceLock::new(), AtomicU32::new(0));
        Self { router, path, shutdown, place, staging, splits, resizer: None }
    }

    /// Counts one more split; how many there were before.
    pub(crate) fn count_split(&self) -> u32 {
        self.splits.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn config(&self) -> &JobConfig {
        &self.router.context.config
    }

    /// The lane operations of the switch; none without a switch.
    pub(crate) fn lane_ops(&self) -> LaneOps {
        self.router.context.lane_ops
    }

    pub(crate) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// This worker's rank, from 0.
    pub fn rank(&self) -> u16 {
        self.router.context.rank
    }

    /// Number of workers.
    pub fn world_size(&self) -> u16 {
        self.router.context.world
    }

    /// How floating-point tensors travel in this job.
    pub fn mode(&self) -> Mode {
        self.router.context.config.mode
    }

    /// Bytes of lanes in a packet of this rank, as first admitted; 0 where it exchanges none with a switch: in rings, and beside a rank of the same
    /// host that sends for it. A block of floats that are summed is as many bytes of lanes.
    pub fn lane_bytes(&self) -> usize {
        self.router.context.lane_bytes
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
    /// [ends the job](Error::ends_the_job). The same for all other collectives.
    pub fn all_reduce<T: Element>(&self, tensor: &mut [T], op: ReduceOp) -> Result<OpReport, Error> {
        self.in_place(Collective::AllReduce, tensor, op)
    }

    /// Starts an [`all_reduce`](Self::all_reduce) of a tensor that is given away until the handle is waited for. Many may
    /// be in flight; they are worked on in the order of submission. Blocks only while too many wait already.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] and [`Error::Length`], before anything is sent. All others come from the handle.
    pub fn all_reduce_async<T: Element>(
        &self,
        tensor: Vec<T>,
        op: ReduceOp,
    ) -> Result<AsyncHandle<T>, Error> {
        self.all_reduce_in_class(tensor, op, 0)
    }

    /// The same in a [class](crate::Builder::classes) of operations: chunks of higher classes are sent first, even in the middle of
    /// operations of lower ones that were submitted before.
    ///
    /// # Errors
    ///
    /// [`Error::Class`], and as for [`all_reduce_async`](Self::all_reduce_async).
    pub fn all_reduce_in_class<T: Element>(
        &self,
        tensor: Vec<T>,
        op: ReduceOp,
        class: u8,
    ) -> Result<AsyncHandle<T>, Error> {
        let call = Call::new(Collective::AllReduce, T::DTYPE, op, tensor.len()).in_class(class);
        let route = self.route(&call)?;
        let mut buffer = OpBuffer::owned(tensor);
        if op == ReduceOp::Avg && matches!(route, CallRoute::Switch(_)) {
            buffer.divide_by(u32::from(self.router.context.world));
        }
        let completion = buffer.completion();
        self.router.start(route, buffer);
        Ok(AsyncHandle { completion, tensor: PhantomData })
    }

    /// Replaces `tensor` on `root` by the reduction over all ranks' tensors; the others' stay as they are.
    ///
    /// # Errors
    ///
    /// [`Error::Root`], and as for [`all_reduce`](Self::all_reduce).
    pub fn reduce<T: Element>(&self, tensor: &mut [T], op: ReduceOp, root: u16) -> Result<OpReport, Error> {
        self.in_place(Collective::Reduce { root }, tensor, op)
    }

    /// Starts any collective on a tensor that is given away, in a [class](crate::Builder::classes) of operations. The handle returns the
    /// output: the tensor where the collective works in place (all-reduce, reduce, broadcast), else another one. Many may be in flight; a
    /// reduce-scatter and an all-gather of two classes use the two directions of a link at the same time.
    ///
    /// # Errors
    ///
    /// [`Error::OutputLength`] when a tensor of parts for all ranks is not a multiple of their number, [`Error::Class`], and as for the blocking
    /// form of the collective.
    pub fn run_async<T: Element>(
        &self,
        collective: Collective,
        mut input: Vec<T>,
        op: ReduceOp,
        class: u8,
    ) -> Result<AsyncHandle<T>, Error> {
        let world = self.router.context.world;
        let parts = if collective.info().input == Extent::CountPerRank { usize::from(world) } else { 1 };
        let call = Call::new(collective, T::DTYPE, op, input.len() / parts).in_class(class);
        let (needed, len) = (call.input_len(world), call.output_len(world));
        if input.len() != needed {
            let collective = collective.name();
            return Err(Error::OutputLength { collective, input: input.len(), output: len, world });
        }
        let route = self.route(&call)?;
        let mut output = if call.is_in_place() { None } else { Some(vec![T::default(); len]) };
        let (send, recv) = match &mut output {
            Some(output) => (input.as_ptr(), output.as_mut_ptr()),
            None => {
                let tensor = input.as_mut_ptr();
                (tensor.cast_const(), tensor)
            }
        };
        // SAFETY: the buffer holds both vectors, whose elements stay where they are, until it is settled; no other code has access to them.
        let mut buffer = unsafe { self.router.make_buffer(&call, &route, send.cast(), recv.cast()) };
        match output {
            Some(output) => buffer.hold(Some(input), output),
            None => buffer.hold(None, input),
        }
        let completion = buffer.completion();
        self.router.start(route, buffer);
        Ok(AsyncHandle { completion, tensor: PhantomData })
    }

    /// Replaces `tensor` on every rank by `root`'s, bit for bit. Blocks until it is there.
    ///
    /// Works for every element type in every mode: the bits travel as integers, to which the other ranks add zero.
    ///
    /// # Errors
    ///
    /// [`Error::Root`], and as for [`all_reduce`](Self::all_reduce).
    pub fn broadcast<T: Element>(&self, tensor: &mut [T], root: u16) -> Result<OpReport, Error> {
        self.in_place(Collective::Broadcast { root }, tensor, ReduceOp::Sum)
    }

    /// Fills `output`, world size times as long as `input`, with all ranks' inputs in order of rank, bit for bit.
    ///
    /// # Errors
    ///
    /// [`Error::OutputLength`], and as for [`all_reduce`](Self::all_reduce).
    pub fn all_gather<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<OpReport, Error> {
        self.out_of_place(
            Call::new(Collective::AllGather, T::DTYPE, ReduceOp::Sum, input.len()),
            input,
            output,
        )
    }

    /// Fills `output` with this rank's part of the reduction over all ranks' inputs, each world size times as long.
    ///
    /// # Errors
    ///
    /// [`Error::OutputLength`], and as for [`all_reduce`](Self::all_reduce).
    pub fn reduce_scatter<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        op: ReduceOp,
    ) -> Result<OpReport, Error> {
        self.out_of_place(Call::new(Collective::ReduceScatter, T::DTYPE, op, output.len()), input, output)
    }

    /// Cuts `input` into as many equal parts as there are ranks, sends part `r` to rank `r`, and fills `output` with the
    /// parts received, in order of rank.
    ///
    /// # Errors
    ///
    /// [`Error::OutputLength`], and as for [`all_reduce`](Self::all_reduce).
    pub fn all_to_all<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<OpReport, Error> {
        let count = input.len() / usize::from(self.router.context.world);
        self.out_of_place(Call::new(Collective::AllToAll, T::DTYPE, ReduceOp::Sum, count), input, output)
    }

    /// Returns when every rank has called it.
    ///
    /// # Errors
    ///
    /// Any error that [ends the job](Error::ends_the_job).
    pub fn barrier(&self) -> Result<OpReport, Error> {
        self.blocking(&Call::BARRIER, std::ptr::null(), std::ptr::null_mut())
    }

    /// Starts any collective on memory that the caller keeps, and returns at once (unless very many wait already). For
    /// bindings to other languages: element types are known at run time only.
    ///
    /// `send` and `recv` may be the same for collectives whose input and output are equally long; an all-gather is in
    /// place when `send == recv + rank * count`, a reduce-scatter when `recv == send + rank * count` (in elements). A
    /// broadcast reads `send` on the root alone, and a reduce writes `recv` on the root alone. What is not used may be null, and so
    /// may everything of length zero.
    ///
    /// # Errors
    ///
    /// As for the typed methods, and [`Error::Null`], before anything is sent. All others come from the [`Work`].
    ///
    /// # Safety
    ///
    /// `send` is valid for reads of [`Call::input_len`] elements and `recv` for writes of [`Call::output_len`], of any
    /// alignment, until the work is done (or an error is returned). Until then the caller writes to neither and does not read `recv`. They do
    /// not overlap, or are in place in the sense above.
    pub unsafe fn submit(&self, call: &Call, send: *const u8, recv: *mut u8) -> Result<Work, Error> {
        let route = self.route(call)?;
        self.router.check_pointers(call, send, recv)?;
        // SAFETY: passed on to the caller, whose pointers are not null where they are used.
        let buffer = unsafe { self.router.make_buffer(call, &route, send, recv) };
        let completion = buffer.completion();
        self.router.start(route, buffer);
        Ok(Work::new(completion))
    }

    /// The same as [`submit`](Self::submit), and waits for the end: faster, since it needs no other thread where hosts execute the call.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Self::submit), and those that end operations.
    ///
    /// # Safety
    ///
    /// As for [`submit`](Self::submit).
    pub unsafe fn run(&self, call: &Call, send: *const u8, recv: *mut u8) -> Result<OpReport, Error> {
        let route = self.route(call)?;
        self.router.check_pointers(call, send, recv)?;
        // SAFETY: passed on to the caller, whose pointers are not null where they are used.
        let buffer = unsafe { self.router.make_buffer(call, &route, send, recv) };
        buffer::lend(buffer, |buffer| self.router.run_or_submit(route, buffer))
    }

    /// Ends the job on this rank, from any thread: pending and later calls return [`Error::Interrupted`] promptly, and the
    /// other ranks are notified that this one is lost. Memory of pending calls is not touched any more once they have returned.
    pub fn abort(&self) {
        self.shutdown.fail(Error::Interrupted);
    }

    /// The path of the data, and why. Changes on failover, when a switch is lost and the ranks continue without it, and when they
    /// [rejoin](crate::Builder::rejoin) one.
    pub fn path(&self) -> Path {
        self.path.get()
    }

    /// The job's current attachments to switches: one for each tree, none in a ring or within one host.
    pub fn attachments(&self) -> Vec<SwitchAttachment> {
        self.path.attachments()
    }

    /// The part of each of the job's trees in its next operations, of 1: even at first, then in proportion to the rates that the ranks have measured. 0 for
    /// a tree that is lost, empty without a switch. The same on all ranks that have submitted the same operations.
    pub fn tree_shares(&self) -> Vec<f64> {
        self.router.network.as_ref().map(TreeSet::fractions).unwrap_or_default()
    }

    /// Counters, as of the last finished operation.
    pub fn stats(&self) -> Stats {
        let mut stats = self.router.network.as_ref().map(TreeSet::stats).unwrap_or_default();
        if let Some(resizer) = &self.resizer {
            stats.add_former(&resizer.former);
        }
        stats
    }

    /// The error that ended the job, if it has ended.
    pub fn failure(&self) -> Option<Error> {
        let network = || self.router.network.as_ref().and_then(TreeSet::ended);
        let host = || self.router.host.as_ref().and_then(|host| host.mailbox.ended());
        self.shutdown.error().or_else(network).or_else(host)
    }

    /// Finishes all pending operations and leaves the job.
    ///
    /// # Errors
    ///
    /// The error that [ended the job](Error::ends_the_job) before or meanwhile.
    pub fn leave(mut self) -> Result<(), Error> {
        self.close(StopMode::WhenIdle);
        self.resizer.iter().for_each(|resizer| resizer.arbiter.leave());
        match self.failure() {
            None | Some(Error::Closed) => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Whether an operation is pending.
    pub(crate) fn is_busy(&self) -> bool {
        self.router.network.as_ref().is_some_and(TreeSet::is_busy)
            || self.router.host.as_ref().is_some_and(|host| host.mailbox.is_busy())
    }

    pub(crate) fn close(&mut self, mode: StopMode) {
        if std::process::id() != self.router.owner {
            // A child of a fork has none of the threads, and CUDA's driver does not work there.
            std::mem::forget(self.staging.take());
            return;
        }
        if mode == StopMode::WhenIdle {
            self.staging.get().iter().for_each(|staging| staging.finish());
        }
        if !self.shutdown.request(mode) {
            return;
        }
        if mode == StopMode::Now && self.is_busy() {
            // Threads that wait for other ranks notice nothing else.
            self.shutdown.fail(Error::Closed);
        }
        if let Some(host) = &self.router.host {
            let thread = host.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            let _ = thread.map(JoinHandle::join);
        }
        if let Some(network) = &self.router.network {
            network.close(mode);
        }
    }

    /// The route of a call. Operations on memory of a CUDA device that were called before have been submitted when it returns.
    pub(crate) fn route(&self, call: &Call) -> Result<CallRoute, Error> {
        let route = self.router.route(call)?;
        self.staging.get().iter().for_each(|staging| staging.drain());
        Ok(route)
    }

    fn in_place<T: Element>(
        &self,
        collective: Collective,
        tensor: &mut [T],
        op: ReduceOp,
    ) -> Result<OpReport, Error> {
        let call = Call::new(collective, T::DTYPE, op, tensor.len());
        let start = tensor.as_mut_ptr().cast::<u8>();
        self.blocking(&call, start, start)
    }

    fn out_of_place<T: Element>(&self, call: Call, input: &[T], output: &mut [T]) -> Result<OpReport, Error> {
        let (need, have) =
            (call.input_len(self.router.context.world), call.output_len(self.router.context.world));
        if (input.len(), output.len()) != (need, have) {
            return Err(Error::OutputLength {
                collective: call.collective.name(),
                input: input.len(),
                output: output.len(),
                world: self.router.context.world,
            });
        }
        self.blocking(&call, input.as_ptr().cast(), output.as_mut_ptr().cast())
    }

    /// Executes a call on borrowed memory and waits for its end.
    fn blocking(&self, call: &Call, send: *const u8, recv: *mut u8) -> Result<OpReport, Error> {
        let route = self.route(call)?;
        // SAFETY: callers pass slices of the lengths that the call says; `lend` waits until the buffer is settled while they
        // are borrowed, and the buffer goes nowhere else.
        let buffer = unsafe { self.router.make_buffer(call, &route, send, recv) };
        buffer::lend(buffer, |buffer| self.router.run_or_submit(route, buffer))
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.close(StopMode::Now);
    }
}

/// An operation in flight, and its tensor. Dropping the handle drops the tensor; the operation is executed all the same.
#[derive(Debug)]
#[must_use = "the tensor comes back through the handle"]
pub struct AsyncHandle<T: Element> {
    completion: Arc<Completion>,
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
        let report = self.completion.wait()?;
        // Anything but a vector of this type is not reached: the buffer was made of one.
        let tensor = self.completion.take_owner().and_then(|owner| owner.downcast::<Vec<T>>().ok());
        tensor.map(|tensor| (*tensor, report)).ok_or(Error::Taken)
    }

    /// The same without blocking: `None` while the operation is under way.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait).
    pub fn try_wait(&mut self) -> Option<Result<(Vec<T>, OpReport), Error>> {
        let completion = Arc::clone(&self.completion);
        self.is_done().then(|| Self { completion, tensor: PhantomData }.wait())
    }

    /// Whether [`wait`](Self::wait) would return at once.
    pub fn is_done(&self) -> bool {
        self.completion.is_settled()
    }
}
