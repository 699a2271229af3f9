//! Calls on the memory of a CUDA device, by way of pinned memory of the host.
//!
//! A call is cut into pieces. Each piece is copied to a [staging buffer](buffers::StagingBuffer), of pinned memory, is an operation of its own there, and is
//! copied back, so that copies in both directions and the network are in use at the same time. Everything that the device has to do is
//! appended to streams when the call is made: one copies in and writes a word of pinned memory behind each [slice](slices::Slices) of a piece, another waits for a word
//! that the host writes when the results of a slice are there, and copies out. So the caller's stream waits for an event, and no thread for the device; see ADR 34.
//!
//! | what waits | for | by |
//! |---|---|---|
//! | copying in | what the caller's stream has done before the call | an event of the caller's stream |
//! | copying in | the buffer's earlier piece to be copied out | an event of the stream that copies out |
//! | the operation | each slice of its piece to be copied in | a word of the buffer |
//! | copying out a slice | its results, and for the last slice the operation | the other word of the buffer |
//! | the caller's streams | the last piece to be copied out | an event of the stream that copies out |
//! | the caller's threads | the same | a function that another stream calls, behind an event of the stream that copies out |
//!
//! The thread that makes operations of pieces sleeps until a call's input may be copied, of which a stream notifies it by a function of
//! the host. In the streams that copy, such functions would cost more time than copying a piece.
//!
//! All-reduces that the device quantises have kernels before copying in and behind copying out, see [`quantized`].
//!
//! What a stream waits for was appended before, to it or to another one, or depends only on such. So the device makes progress even where it
//! executes both streams, and those of the caller, in one queue.
#![expect(unsafe_code, reason = "copies memory of a device that callers vouch for")]

pub(crate) mod blocks;
mod buffers;
pub(crate) mod plan;
pub(crate) mod quantized;
pub(crate) mod slices;
mod stager;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use netfold_cuda::{CudaError, Current, Device, Event, RawStream, Stream};
use netfold_wire::DType;

use crate::error::Error;
use crate::join::spawn;
use crate::report::OpReport;
use crate::router::Router;
use crate::shutdown::ShutdownState;
use crate::work::Work;
use buffers::{StagingBuffer, StagingBuffers};
use plan::{Plan, StagedPiece};
use quantized::{Quantization, QuantizedCall, Quantizing, integers};
use stager::{Counted, Stager, Submission};

/// An operation in flight on the memory of a CUDA device, started by [`Communicator::submit_cuda`](crate::Communicator::submit_cuda). Clones refer to the same operation.
#[derive(Debug, Clone)]
pub struct CudaWork {
    work: Work,
    /// The output is in the device's memory. `None` for an operation without elements.
    done: Option<Arc<Event>>,
}

impl CudaWork {
    pub(crate) fn without_elements(work: Work) -> Self {
        Self { work, done: None }
    }

    /// Makes what is appended to `stream` from now on wait for the output. Does not block. When the operation fails, the stream goes on,
    /// and every byte of the output that was not received is 0xFF (in floats, NaN); [`Self::work`] has the error.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`].
    ///
    /// # Safety
    ///
    /// `stream` exists, and belongs to the operation's device.
    pub unsafe fn make_wait(&self, stream: RawStream) -> Result<(), Error> {
        let Some(done) = &self.done else { return Ok(()) };
        let current = done.device().enter()?;
        // SAFETY: by this function's contract.
        Ok(unsafe { done.make_wait(&current, stream) }?)
    }

    /// The operation as seen by threads of the host: it is over when the output is in the device's memory.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Blocks until the output is in the device's memory.
    ///
    /// # Errors
    ///
    /// The error that ended the operation.
    pub fn wait(&self) -> Result<OpReport, Error> {
        self.work.wait()
    }
}

/// What brings a device's memory to the host and back, for one communicator.
pub(crate) struct Staging {
    pub(crate) device: Device,
    /// Held while a call is appended to the streams.
    streams: Mutex<Streams>,
    stager: Arc<Stager>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Streams {
    copies_in: Arc<Stream>,
    copies_out: Arc<Stream>,
    /// Calls functions of the host, for which the streams that copy would wait.
    notices_in: Stream,
    notices_out: Stream,
    /// The piece of each buffer has been copied out.
    free: Vec<Event>,
    /// Pieces so far in short buffers, and in long ones.
    pieces: [u64; 2],
    /// Where the device quantises, from the first such call on.
    quantizing: Option<Quantizing>,
}

/// A piece as it is appended to the streams.
struct Appended<'a> {
    submission: &'a Arc<Submission>,
    plan: &'a Plan,
    piece: StagedPiece,
    memory: (u64, u64),
    counted: Counted,
    /// The piece without which this one cannot arrive.
    after: Option<StagingBuffer>,
    /// It may be copied in slices.
    sliced: bool,
}

impl Staging {
    pub(crate) fn new(
        device: &Device,
        router: &Arc<Router>,
        shutdown: &ShutdownState,
    ) -> Result<Self, Error> {
        let current = device.enter()?;
        let buffers = StagingBuffers::new(&current)?;
        let free = (0..buffers::BUFFERS).map(|_| Event::new(&current)).collect::<Result<_, _>>()?;
        let copies_in = Arc::new(Stream::new(&current)?);
        let copies_out = Arc::new(Stream::new(&current)?);
        let check = {
            let (device, streams) = (device.clone(), [Arc::clone(&copies_in), Arc::clone(&copies_out)]);
            move || {
                let current = device.enter()?;
                streams.iter().try_for_each(|stream| stream.is_idle(&current).map(drop))
            }
        };
        let (notices_in, notices_out) = (Stream::new(&current)?, Stream::new(&current)?);
        let pieces = [0; 2];
        let streams =
            Streams { copies_in, copies_out, notices_in, notices_out, free, pieces, quantizing: None };
        let stager = Arc::new(Stager::new(buffers, Arc::clone(router), shutdown.clone()));
        let own = Arc::clone(&stager);
        let thread = spawn("netfold-staging", move || own.run(check))?;
        drop(current);
        let staging = Self {
            device: device.clone(),
            streams: Mutex::new(streams),
            stager,
            thread: Mutex::new(Some(thread)),
        };
        Ok(staging)
    }

    /// # Safety
    ///
    /// As for `Communicator::submit_cuda`.
    pub(crate) unsafe fn submit(
        &self,
        plan: &Plan,
        memory: (u64, u64),
        stream: RawStream,
    ) -> Result<CudaWork, Error> {
        let current = self.device.enter()?;
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        self.stager.buffers().prepare(&current, plan.buffers)?;
        let (called, done) = (Event::new(&current)?, Arc::new(Event::new(&current)?));
        // SAFETY: the stream exists, by this function's contract; the others are ours.
        unsafe {
            called.record(&current, stream)?;
            called.make_wait(&current, streams.copies_in.raw())?;
            called.make_wait(&current, streams.notices_in.raw())?;
        }
        let submission = self.stager.begin()?;
        // SAFETY: by this function's contract.
        let appended = unsafe { self.append(&current, &mut streams, plan, memory, &submission, &done) };
        if let Err(error) = appended {
            // The other ranks wait for pieces that will not come.
            self.stager.lose_device(error);
        }
        Ok(CudaWork { work: submission.work(), done: Some(done) })
    }

    /// Appends all pieces of a call to the streams.
    ///
    /// # Safety
    ///
    /// As for `Communicator::submit_cuda`.
    unsafe fn append(
        &self,
        current: &Current<'_>,
        streams: &mut Streams,
        plan: &Plan,
        memory: (u64, u64),
        submission: &Arc<Submission>,
        done: &Event,
    ) -> Result<(), CudaError> {
        let data = Arc::as_ptr(&self.stager).cast_mut().cast();
        // SAFETY: the stager lives until the streams are idle, see `drop`.
        unsafe { streams.notices_in.call(current, stager::begun, data) }?;
        for piece in plan.pieces() {
            let counted = Counted::AsItIs;
            let piece = Appended { submission, plan, piece, memory, counted, after: None, sliced: true };
            // SAFETY: by this function's contract.
            unsafe { self.append_piece(current, streams, &piece) }?;
        }
        // SAFETY: the streams are ours; the stager lives until they are idle, see `drop`.
        unsafe {
            done.record(current, streams.copies_out.raw())?;
            done.make_wait(current, streams.notices_out.raw())?;
            streams.notices_out.call(current, stager::copied_out, data)
        }
    }

    /// The same for an all-reduce that the device quantises; `None` where it does not quantise so.
    ///
    /// # Safety
    ///
    /// As for `Communicator::submit_cuda_with_feedback`.
    pub(crate) unsafe fn submit_quantized(
        &self,
        by: &Quantization,
        call: &QuantizedCall,
        stream: RawStream,
    ) -> Result<Option<CudaWork>, Error> {
        let current = self.device.enter()?;
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let streams = &mut *streams;
        if streams.quantizing.is_none() {
            streams.quantizing = Quantizing::new(&current, by)?;
        }
        let Some(mut quantizing) = streams.quantizing.take() else { return Ok(None) };
        // SAFETY: by this function's contract.
        let work = unsafe { self.begin_quantized(&current, (streams, &mut quantizing), call, stream) };
        streams.quantizing = Some(quantizing);
        work.map(Some)
    }

    /// # Safety
    ///
    /// As for `Communicator::submit_cuda_with_feedback`.
    unsafe fn begin_quantized(
        &self,
        current: &Current<'_>,
        (streams, quantizing): (&mut Streams, &mut Quantizing),
        call: &QuantizedCall,
        stream: RawStream,
    ) -> Result<CudaWork, Error> {
        let class = quantizing.prepare(current, call)?;
        self.stager.buffers().prepare(current, class)?;
        let (called, done) = (Event::new(current)?, Arc::new(Event::new(current)?));
        // SAFETY: the stream exists, by this function's contract; the other is ours.
        unsafe {
            called.record(current, stream)?;
            called.make_wait(current, quantizing.out.raw())?;
        }
        let submission = self.stager.begin()?;
        // SAFETY: by this function's contract.
        let appended =
            unsafe { self.append_quantized(current, (streams, quantizing), call, &submission, &done) };
        if let Err(error) = appended {
            // The other ranks wait for pieces that will not come.
            self.stager.lose_device(error);
        }
        Ok(CudaWork { work: submission.work(), done: Some(done) })
    }

    /// Appends the kernels and all pieces of a call to the streams.
    ///
    /// # Safety
    ///
    /// As for `Communicator::submit_cuda_with_feedback`.
    unsafe fn append_quantized(
        &self,
        current: &Current<'_>,
        (streams, quantizing): (&mut Streams, &mut Quantizing),
        call: &QuantizedCall,
        submission: &Arc<Submission>,
        done: &Event,
    ) -> Result<(), CudaError> {
        let data = Arc::as_ptr(&self.stager).cast_mut().cast();
        let key = quantizing.key(call.call.class);
        let sliced = quantizing.is_one_piece(call);
        for part in quantizing.parts(call) {
            // SAFETY: by this function's contract; the stager lives until the streams are idle, see `drop`.
            let (span, blocks) = unsafe {
                let found = quantizing.find(current, call, part)?;
                quantizing.order(current, &[&streams.copies_in, &streams.notices_in])?;
                if part.first == 0 {
                    streams.notices_in.call(current, stager::begun, data)?;
                }
                found
            };
            let exponents = part.count.div_ceil(quantizing.quantizer.block());
            let (plan, piece) = integers(call, DType::U8, exponents);
            let Some(piece) = piece else { continue };
            let (memory, counted) = ((blocks.exponents, blocks.exponents), Counted::Exponents);
            let piece =
                Appended { submission, plan: &plan, piece, memory, counted, after: None, sliced: false };
            // SAFETY: the exponents are ours until they are given back; all else by this function's contract.
            unsafe {
                let buffer = self.append_piece(current, streams, &piece)?;
                streams.free[buffer.number].make_wait(current, quantizing.out.raw())?;
                for piece in quantizing.pieces(part) {
                    let made = quantizing.make(current, (part, &blocks), piece, key)?;
                    quantizing.order(current, &[&streams.copies_in])?;
                    let (plan, words) = integers(call, DType::I32, made.words);
                    let Some(words) = words else { continue };
                    let memory = (made.blocks.lanes, made.blocks.lanes);
                    let (counted, after) = (Counted::Lanes { elements: piece.count }, Some(buffer));
                    let plan = &plan;
                    let words = Appended { submission, plan, piece: words, memory, counted, after, sliced };
                    let sums = self.append_piece(current, streams, &words)?;
                    streams.free[sums.number].make_wait(current, quantizing.back.raw())?;
                    quantizing.result(current, &made, call, piece)?;
                }
                quantizing.give_back(current, span)?;
            }
        }
        // SAFETY: the streams are ours; the stager lives until they are idle, see `drop`.
        unsafe {
            done.record(current, quantizing.back.raw())?;
            done.make_wait(current, streams.notices_out.raw())?;
            streams.notices_out.call(current, stager::copied_out, data)
        }
    }

    /// # Safety
    ///
    /// As for `Communicator::submit_cuda`.
    unsafe fn append_piece(
        &self,
        current: &Current<'_>,
        streams: &mut Streams,
        piece: &Appended<'_>,
    ) -> Result<StagingBuffer, CudaError> {
        let (buffers, (send, recv)) = (self.stager.buffers(), piece.memory);
        let (submission, plan) = (piece.submission, piece.plan);
        let Streams { copies_in, copies_out, free, pieces, .. } = streams;
        let number = &mut pieces[usize::from(plan.buffers == buffers::LONG)];
        let buffer = plan.buffers.buffer(*number);
        *number += 1;
        let (memory, offset) = (buffers.memory(&buffer), buffer.offset());
        let operation = plan.operation(&piece.piece);
        let sliced = piece.sliced && self.stager.may_slice(&operation.call);
        let slices = if sliced { plan.slices(&piece.piece) } else { plan.whole(&piece.piece) };
        // SAFETY: the device's memory is the caller's. The buffer is used by nothing else: copies into it wait until its earlier piece was
        // copied out, the operation for these copies, and copies out of it for the operation. Words are accessed as such only.
        unsafe {
            free[buffer.number].make_wait(current, copies_in.raw())?;
            for slice in 0..slices.input.count() {
                for row in plan.input(&piece.piece) {
                    let (at, staged, bytes) = row.slice(&slices.input, slice);
                    copies_in.copy_to_host(current, memory, (offset + staged, bytes), send + at)?;
                }
                let arrived = buffer.count(slice + 1, slices.input.count());
                copies_in.write_word(current, &buffers.words, buffer.arrival_word(), arrived)?;
            }
            self.stager.enqueue(submission, operation, buffer, (slices, piece.counted, piece.after));
            for slice in 0..slices.output.count() {
                let released = buffer.count(slice + 1, slices.output.count());
                copies_out.wait_for_word(current, &buffers.words, buffer.release_word(), released)?;
                for row in plan.output(&piece.piece) {
                    let (at, staged, bytes) = row.slice(&slices.output, slice);
                    copies_out.copy_to_device(current, recv + at, memory, (offset + staged, bytes))?;
                }
            }
            free[buffer.number].record(current, copies_out.raw())?;
        }
        Ok(buffer)
    }

    /// Blocks until all pieces were submitted as operations.
    pub(crate) fn drain(&self) {
        self.stager.wait_until_submitted();
    }

    /// Blocks until all operations are over.
    pub(crate) fn finish(&self) {
        self.stager.wait_until_over();
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The thread executes what was called: the device waits for its words.
        self.stager.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = thread.map(JoinHandle::join);
        let streams = self.streams.get_mut().unwrap_or_else(PoisonError::into_inner);
        let idle = self.device.enter().and_then(|current| {
            let Streams { copies_in, copies_out, notices_in, notices_out, quantizing, .. } = streams;
            copies_in.synchronize(&current)?;
            copies_out.synchronize(&current)?;
            let kernels = quantizing.iter().flat_map(|quantizing| [&quantizing.out, &quantizing.back]);
            kernels.into_iter().try_for_each(|stream| stream.synchronize(&current))?;
            notices_in.synchronize(&current)?;
            notices_out.synchronize(&current)
        });
        if idle.is_err() {
            // The device may still access the pinned memory, and call functions with the stager's address.
            std::mem::forget(Arc::clone(&self.stager));
        }
    }
}
