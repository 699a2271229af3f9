//! The communicator: one rank's place in a job.
#![expect(
    unsafe_code,
    reason = "passes memory of callers on: borrowed while they wait, or promised by `submit`"
)]

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use netfold_collectives::ReduceOp;
use netfold_control::Mode;
use netfold_proto::{DType, SpecError};

use crate::buffer::{self, Parcel};
use crate::builder::Builder;
use crate::call::{Call, Collective};
use crate::element::Element;
use crate::error::Error;
use crate::fate::Fate;
use crate::grove::Grove;
use crate::host::{self, HostCall, HostEngine};
use crate::lower::{self, Lowered, Place};
use crate::mailbox::{Mailbox, Stop};
use crate::path::{Path, PathBoard, SwitchPlace};
use crate::report::{OpReport, Stats};
use crate::split::Heritage;
use crate::work::{Ticket, Work};

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
/// their handles, or call [`Self::leave`], to finish them first. Where the job's controller is away at that moment, [`Self::leave`] waits
/// until it is back, at most for the grace time that the job has; dropping waits for 2 s, and a thread in the background leaves
/// later, if the process lives.
pub struct Communicator {
    place: Place,
    network: Option<Grove>,
    host: Option<HostSide>,
    board: PathBoard,
    fate: Fate,
    heritage: Heritage,
    /// The process that built it.
    owner: u32,
    closed: bool,
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.place.rank)
            .field("world_size", &self.place.world)
            .field("mode", &self.place.mode)
            .field("path", &self.board.get())
            .finish_non_exhaustive()
    }
}

/// What a communicator is made of.
pub(crate) struct Parts {
    pub(crate) place: Place,
    /// The stream through the switch, when calls go there directly.
    pub(crate) network: Option<Grove>,
    /// What hosts do themselves.
    pub(crate) host: Option<HostSide>,
    pub(crate) board: PathBoard,
    pub(crate) fate: Fate,
    pub(crate) heritage: Heritage,
}

/// The thread that runs calls on this host's fabric.
pub(crate) struct HostSide {
    pub(crate) mailbox: Arc<Mailbox<HostCall>>,
    pub(crate) engine: Arc<HostEngine>,
    pub(crate) thread: Option<JoinHandle<()>>,
}

impl Communicator {
    /// Starts to describe a communicator.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { place, network, host, board, fate, heritage } = parts;
        Self { place, network, host, board, fate, heritage, owner: std::process::id(), closed: false }
    }

    pub(crate) fn heritage(&self) -> &Heritage {
        &self.heritage
    }

    /// This worker's rank, from 0.
    pub fn rank(&self) -> u16 {
        self.place.rank
    }

    /// Number of workers.
    pub fn world_size(&self) -> u16 {
        self.place.world
    }

    /// How floating-point tensors travel in this job.
    pub fn mode(&self) -> Mode {
        self.place.mode
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
        let plan = self.plan(&call)?;
        let mut parcel = Parcel::owned(tensor);
        if op == ReduceOp::Avg && matches!(plan, Plan::Switch(_)) {
            parcel.divide_by(u32::from(self.place.world));
        }
        let ticket = parcel.ticket();
        self.start(plan, parcel);
        Ok(AsyncHandle { ticket, tensor: PhantomData })
    }

    /// Replaces `tensor` on `root` by the reduction over all ranks' tensors; the others' stay as they are.
    ///
    /// # Errors
    ///
    /// [`Error::Root`], and as for [`all_reduce`](Self::all_reduce).
    pub fn reduce<T: Element>(&self, tensor: &mut [T], op: ReduceOp, root: u16) -> Result<OpReport, Error> {
        self.in_place(Collective::Reduce { root }, tensor, op)
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
        let count = input.len() / usize::from(self.place.world);
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
    /// alignment, until the work is done (or an error is returned). Until then nobody writes either, or reads `recv`. They do
    /// not overlap, or are in place in the sense above.
    pub unsafe fn submit(&self, call: &Call, send: *const u8, recv: *mut u8) -> Result<Work, Error> {
        let plan = self.plan(call)?;
        self.check_pointers(call, send, recv)?;
        // SAFETY: passed on to the caller, whose pointers are not null where they are used.
        let parcel = unsafe { self.parcel(call, &plan, send, recv) };
        let ticket = parcel.ticket();
        self.start(plan, parcel);
        Ok(Work::new(ticket))
    }

    /// The same as [`submit`](Self::submit), and waits for the end: quicker, since it takes no other thread where hosts do the call.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Self::submit), and those that end operations.
    ///
    /// # Safety
    ///
    /// As for [`submit`](Self::submit).
    pub unsafe fn run(&self, call: &Call, send: *const u8, recv: *mut u8) -> Result<OpReport, Error> {
        let plan = self.plan(call)?;
        self.check_pointers(call, send, recv)?;
        // SAFETY: passed on to the caller, whose pointers are not null where they are used.
        let parcel = unsafe { self.parcel(call, &plan, send, recv) };
        buffer::lend(parcel, |parcel| self.do_or_start(plan, parcel))
    }

    /// Ends the job on this rank, from any thread: pending and later calls return [`Error::Interrupted`] promptly, and the
    /// other ranks learn that this one is gone. Memory of pending calls is not touched any more once they have returned.
    pub fn abort(&self) {
        self.fate.end(Error::Interrupted);
    }

    /// Which way data go, and why. Changes when a switch is lost and the ranks go on without it, and when they are
    /// [back](crate::Builder::rejoin) at one.
    pub fn path(&self) -> Path {
        self.board.get()
    }

    /// The places at switches that the job has now: one for each tree, none in a ring or within one host.
    pub fn places(&self) -> Vec<SwitchPlace> {
        self.board.places()
    }

    /// Counters, as of the last finished operation.
    pub fn stats(&self) -> Stats {
        self.network.as_ref().map(Grove::stats).unwrap_or_default()
    }

    /// The error that ended the job, if it has ended.
    pub fn failure(&self) -> Option<Error> {
        let network = || self.network.as_ref().and_then(Grove::ended);
        let host = || self.host.as_ref().and_then(|host| host.mailbox.ended());
        self.fate.error().or_else(network).or_else(host)
    }

    /// Finishes all pending operations and leaves the job.
    ///
    /// # Errors
    ///
    /// The error that [ended the job](Error::ends_the_job) before or meanwhile.
    pub fn leave(mut self) -> Result<(), Error> {
        self.close(Stop::WhenIdle);
        match self.failure() {
            None | Some(Error::Closed) => Ok(()),
            Some(error) => Err(error),
        }
    }

    fn close(&mut self, stop: Stop) {
        if std::process::id() != self.owner || std::mem::replace(&mut self.closed, true) {
            return; // a child of a fork has none of the threads, and no say
        }
        self.network.iter().for_each(|network| network.stop(stop));
        self.host.iter().for_each(|host| host.mailbox.stop(stop));
        let busy = self.network.as_ref().is_some_and(Grove::is_busy)
            || self.host.as_ref().is_some_and(|host| host.mailbox.is_busy());
        if stop == Stop::Now && busy {
            // Threads that wait for other ranks hear of nothing else.
            self.fate.end(Error::Closed);
        }
        if let Some(host) = &mut self.host {
            let _ = host.thread.take().map(JoinHandle::join);
        }
        if let Some(network) = &mut self.network {
            network.close(stop);
        }
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
        let (need, have) = (call.input_len(self.place.world), call.output_len(self.place.world));
        if (input.len(), output.len()) != (need, have) {
            return Err(Error::OutputLength {
                collective: call.collective.name(),
                input: input.len(),
                output: output.len(),
                world: self.place.world,
            });
        }
        self.blocking(&call, input.as_ptr().cast(), output.as_mut_ptr().cast())
    }

    /// Does a call on memory that this thread has borrowed, for whose end it waits.
    fn blocking(&self, call: &Call, send: *const u8, recv: *mut u8) -> Result<OpReport, Error> {
        let plan = self.plan(call)?;
        // SAFETY: callers pass slices of the lengths that the call says; `lend` waits until the parcel is settled while they
        // are borrowed, and the parcel goes nowhere else.
        let parcel = unsafe { self.parcel(call, &plan, send, recv) };
        buffer::lend(parcel, |parcel| self.do_or_start(plan, parcel))
    }

    pub(crate) fn check_pointers(&self, call: &Call, send: *const u8, recv: *mut u8) -> Result<(), Error> {
        let (world, rank) = (self.place.world, self.place.rank);
        let root = call.collective.root().unwrap_or(rank);
        let reads = !matches!(call.collective, Collective::Broadcast { .. }) || root == rank;
        let writes = match call.collective {
            Collective::Reduce { .. } => root == rank,
            Collective::Broadcast { .. } => root != rank,
            _ => true,
        };
        if send.is_null() && reads && call.input_len(world) > 0 {
            return Err(Error::Null("send"));
        }
        if recv.is_null() && writes && call.output_len(world) > 0 {
            return Err(Error::Null("recv"));
        }
        Ok(())
    }

    /// Whether hosts are quicker than the switch.
    fn is_small(&self, call: &Call) -> bool {
        call.collective == Collective::AllReduce && call.count * call.dtype.size() <= self.place.small
    }

    /// Which way a call goes. The same on every rank.
    pub(crate) fn plan(&self, call: &Call) -> Result<Plan, Error> {
        if std::process::id() != self.owner {
            return Err(Error::Forked { owner: self.owner });
        }
        if call.class >= self.place.classes {
            return Err(Error::Class { class: call.class, classes: self.place.classes });
        }
        if let Some(root) = call.collective.root()
            && root >= self.place.world
        {
            return Err(Error::Root { root, world: self.place.world });
        }
        let longest = call.input_len(self.place.world).max(call.output_len(self.place.world));
        if longest.checked_mul(call.dtype.size()).is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(SpecError::Elements(longest as u64).into());
        }
        if call.dtype == DType::None && call.collective != Collective::Barrier {
            return Err(Error::ElementType);
        }
        let no_switch = match (&self.network, &self.host) {
            (Some(_), Some(_)) if call.collective == Collective::AllGather => None, // a ring moves fewer bytes
            (Some(_), Some(_)) if self.is_small(call) => None,
            (Some(_), _) => match lower::switch_can(call, self.place.mode) {
                Ok(()) => return Ok(Plan::Switch(lower::lower(call, &self.place)?)),
                Err(error) => Some(error),
            },
            (None, _) => None,
        };
        match (&self.host, no_switch) {
            (None, error) => Err(error.unwrap_or(Error::Closed)),
            (Some(_), _) => host::hosts_can(call).map(|()| Plan::Host(*call)),
        }
    }

    /// # Safety
    ///
    /// As for [`Self::submit`].
    pub(crate) unsafe fn parcel(&self, call: &Call, plan: &Plan, send: *const u8, recv: *mut u8) -> Parcel {
        match plan {
            // SAFETY: passed on to the caller.
            Plan::Switch(_) => unsafe { lower::parcel(call, &self.place, send, recv) },
            // SAFETY: passed on to the caller.
            Plan::Host(_) => unsafe { host::parcel(call, &self.place, send, recv) },
        }
    }

    /// Starts a call for whose end this thread waits: does it here where it can.
    fn do_or_start(&self, plan: Plan, parcel: Parcel) {
        match (plan, &self.host) {
            (Plan::Host(call), Some(host)) => {
                let call = HostCall { call, parcel, submitted: Instant::now() };
                if let Some(call) = host.engine.do_here(call) {
                    host.mailbox.submit(call);
                }
            }
            (plan, _) => self.start(plan, parcel),
        }
    }

    pub(crate) fn start(&self, plan: Plan, parcel: Parcel) {
        let submitted = Instant::now();
        match (plan, &self.network, &self.host) {
            (Plan::Switch(lowered), Some(network), _) => network.submit(lowered, parcel, submitted),
            (Plan::Host(call), _, Some(host)) => host.mailbox.submit(HostCall { call, parcel, submitted }),
            // Not reached: plans are made for what there is.
            _ => parcel.finish(Err(Error::Closed)),
        }
    }
}

/// Which way a call goes.
#[derive(Debug)]
pub(crate) enum Plan {
    /// By the switch.
    Switch(Lowered),
    /// By the hosts.
    Host(Call),
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.close(Stop::Now);
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
        let report = self.ticket.wait()?;
        // Anything but a vector of this type is not reached: the parcel was made of one.
        let tensor = self.ticket.take_keeper().and_then(|keeper| keeper.downcast::<Vec<T>>().ok());
        tensor.map(|tensor| (*tensor, report)).ok_or(Error::Taken)
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
