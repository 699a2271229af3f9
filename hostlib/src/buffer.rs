//! Tensors on their way through the library's threads.
//!
//! Callers hand over memory in one of three ways: a blocking call lends its caller's `&mut [T]`, an asynchronous call gives
//! a `Vec` away, and [`submit`](crate::Communicator::submit) is promised by its caller (who writes `unsafe`) that the memory
//! stays. All travel in a [`OpBuffer`] as raw spans. The argument that this is sound, in full:
//!
//! - A span stays inside its buffer: its elements are accessed through views that borrow the buffer.
//! - Lent memory: the buffer goes through [`lend`], which does not return, and does not unwind, before the buffer's [`Completion`] is settled.
//! - Memory given away: the buffer holds its owners (`owner`, `returned`); the one that is returned moves to the completion when the completion is
//!   settled.
//! - Promised memory: by the contract of `submit` it is valid and left alone until the completion is settled. A [`Transfer`] fills it from
//!   the first byte to the last meanwhile, and takes results out: views are of elements that have arrived, and what was finished is not written.
//! - A completion is settled only by [`OpBuffer::finish`] or by dropping the buffer, and both destroy the spans first. The
//!   settling locks the completion's mutex and so happens after every access of the library's threads and before whatever the
//!   caller does next.
//! - A buffer that is leaked settles nothing: a lending caller then blocks for ever, which is no memory error. (Nothing here
//!   leaks one; a panicking thread drops what it holds.)
#![expect(unsafe_code, reason = "hands memory of a caller to another thread until a ticket is settled")]

use netfold_wire::DType;
use std::ptr::NonNull;

use half::{bf16, f16};
use std::sync::{Arc, Mutex, PoisonError};

use crate::element::Element;
use crate::error::Error;
use crate::report::OpReport;
use crate::transfer::{MemoryTransfer, Transfer};
use crate::work::{Completion, MemoryOwner};

/// Elements somewhere in memory, aligned for their type; see the module's argument.
#[derive(Debug, Clone, Copy)]
struct Span {
    dtype: DType,
    start: NonNull<u8>,
    /// In elements.
    len: usize,
}

// SAFETY: a span stands for an exclusive borrow of plain numbers; see the module's argument for why the borrow lasts.
unsafe impl Send for Span {}

impl Span {
    const EMPTY: Self = Self { dtype: DType::None, start: NonNull::dangling(), len: 0 };

    fn bytes(&self) -> usize {
        self.len * self.dtype.size()
    }

    /// The same as the switch's lanes know it: types that are not folded there are bytes.
    fn folded(&self) -> Self {
        match self.dtype {
            DType::None | DType::F32 | DType::F16 | DType::Bf16 | DType::I32 => *self,
            _ => Self { dtype: DType::U8, len: self.bytes(), ..*self },
        }
    }

    /// Block `number`, of `len` elements: cut short at the end of the span, and empty behind it.
    fn block(&self, number: usize, len: usize) -> Self {
        let first = (number * len).min(self.len);
        self.part(first, (first + len).min(self.len))
    }

    /// Elements `first` to `end`, which are within this span.
    fn part(&self, first: usize, end: usize) -> Self {
        debug_assert!(first <= end && end <= self.len, "a part of {} elements", self.len);
        // SAFETY: within the same memory, since `first` is at most the number of elements.
        let start = unsafe { self.start.add(first.min(self.len) * self.dtype.size()) };
        Self { dtype: self.dtype, start, len: end.min(self.len).saturating_sub(first) }
    }

    /// # Safety
    ///
    /// The span was made of memory that is allocated, is initialised and is not written while the slice lives; `T` is the type it
    /// was made with, or `u8` with `len` in bytes.
    unsafe fn slice<'a, T>(self, len: usize) -> &'a [T] {
        // SAFETY: as the caller promises; alignment was checked or given when the span was made.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), len) }
    }

    /// # Safety
    ///
    /// As for [`Self::slice`], and the memory is not read elsewhere either.
    unsafe fn slice_mut<'a, T>(self, len: usize) -> &'a mut [T] {
        // SAFETY: as the caller promises; alignment was checked or given when the span was made.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), len) }
    }
}

/// The elements of a [`OpBuffer`], as the switch's lanes know them: types that are not folded there are bytes.
#[derive(Debug)]
pub(crate) enum View<'a> {
    None,
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
    I32(&'a [i32]),
    Bytes(&'a [u8]),
}

/// The elements of a [`OpBuffer`], writable.
#[derive(Debug)]
pub(crate) enum ViewMut<'a> {
    None,
    F32(&'a mut [f32]),
    F16(&'a mut [f16]),
    Bf16(&'a mut [bf16]),
    I32(&'a mut [i32]),
    Bytes(&'a mut [u8]),
}

/// Part of a buffer's memory that is copied to the caller's memory on success.
#[derive(Debug)]
struct CopyBack {
    /// First byte within the buffer's memory.
    offset: usize,
    to: Span,
}

/// The memory of an operation while the library has it. Settles its completion when it is finished or dropped.
#[derive(Debug)]
pub(crate) struct OpBuffer {
    memory: Span,
    /// Input of calls that are not in place; `None` when `memory` holds it.
    input: Option<Span>,
    owner: Option<MemoryOwner>,
    /// The caller's vectors: the one that is returned, and an input beside it.
    returned: Option<(MemoryOwner, Option<MemoryOwner>)>,
    copy_back: Option<CopyBack>,
    /// On success, every element is divided by this.
    divisor: Option<u32>,
    /// Where the caller wants what is left out of each element: numbers in binary32, as many as there are in `memory`.
    residual: Option<Span>,
    /// Of memory that is filled and emptied meanwhile.
    transfer: Option<MemoryTransfer>,
    completion: Arc<Completion>,
    /// The buffer of which this is a part.
    whole: Option<Arc<SplitBuffer>>,
    settled: bool,
}

/// A buffer that was divided into parts, and is settled with the last of them.
#[derive(Debug)]
struct SplitBuffer(Mutex<Unsettled>);

#[derive(Debug)]
struct Unsettled {
    buffer: Option<OpBuffer>,
    /// Parts that are not settled.
    left: usize,
    outcome: Result<OpReport, Error>,
}

impl SplitBuffer {
    fn settle_part(&self, outcome: Result<OpReport, Error>) {
        let mut whole = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        whole.left -= 1;
        match (&mut whole.outcome, outcome) {
            (Ok(all), Ok(part)) => all.add(&part),
            (Err(_), _) => {}
            (all, Err(error)) => *all = Err(error),
        }
        if whole.left == 0
            && let Some(buffer) = whole.buffer.take()
        {
            let outcome = whole.outcome.clone();
            drop(whole);
            buffer.finish(outcome);
        }
    }
}

impl OpBuffer {
    fn new(memory: Span) -> Self {
        let completion = Arc::<Completion>::default();
        Self {
            memory,
            input: None,
            owner: None,
            returned: None,
            copy_back: None,
            divisor: None,
            residual: None,
            transfer: None,
            completion,
            whole: None,
            settled: false,
        }
    }

    /// No tensor.
    pub(crate) fn empty() -> Self {
        Self::new(Span::EMPTY)
    }

    /// A tensor that is given away, and returned as the completion's owner.
    pub(crate) fn owned<T: Element>(mut elements: Vec<T>) -> Self {
        let (start, len) = (NonNull::from(&mut elements[..]).cast(), elements.len());
        let mut buffer = Self::new(Span { dtype: T::DTYPE, start, len });
        buffer.owner = Some(Box::new(elements));
        buffer
    }

    /// Holds the vectors that the buffer was made of until it is settled, and returns the output as the completion's owner.
    pub(crate) fn hold<T: Element>(&mut self, input: Option<Vec<T>>, output: Vec<T>) {
        let input = input.map(|input| Box::new(input) as MemoryOwner);
        self.returned = Some((Box::new(output), input));
    }

    /// Memory of `bytes / 8` words, rounded up, seen as elements of `dtype`: aligned for any type, and zero.
    pub(crate) fn scratch(dtype: DType, len: usize) -> Self {
        let mut words = vec![0u64; (len * dtype.size()).div_ceil(8)];
        let mut buffer = Self::new(Span { dtype, start: NonNull::from(&mut words[..]).cast(), len });
        buffer.owner = Some(Box::new(words));
        buffer
    }

    /// The caller's memory, in place, or out of place with `input`.
    ///
    /// # Safety
    ///
    /// `memory` is valid for reads and writes, and `input` for reads, of the bytes given by `dtype` and their lengths, until
    /// the buffer's completion is settled; no other code writes either or reads `memory` before. The two do not overlap.
    pub(crate) unsafe fn promised(
        dtype: DType,
        memory: (*mut u8, usize),
        input: Option<(*const u8, usize)>,
    ) -> Self {
        let span = |start: *mut u8, len| match NonNull::new(start) {
            Some(start) if len > 0 => Span { dtype, start, len },
            _ => Span { dtype, start: NonNull::<u64>::dangling().cast(), len: 0 },
        };
        let mut buffer = Self::new(span(memory.0, memory.1));
        buffer.input = input.map(|(start, len)| span(start.cast_mut(), len));
        buffer
    }

    /// The caller's output, and a copy of the input, which overlaps it.
    ///
    /// # Safety
    ///
    /// As for [`Self::promised`] but that `input` may overlap, and need not last.
    pub(crate) unsafe fn promised_with_copy(output: (*mut u8, usize), input: (*const u8, usize)) -> Self {
        // SAFETY: passed on to the caller.
        let mut buffer = unsafe { Self::promised(DType::U8, output, None) };
        if input.1 > 0 {
            // SAFETY: the caller vouches for the input.
            let copy = unsafe { std::slice::from_raw_parts(input.0, input.1) }.to_vec();
            let start = NonNull::from(&copy[..]).cast();
            buffer.input = Some(Span { dtype: DType::U8, start, len: copy.len() });
            buffer.owner = Some(Box::new(copy));
        } else {
            buffer.input = Some(Span { dtype: DType::U8, ..Span::EMPTY });
        }
        buffer
    }

    /// Where to wait for this buffer.
    pub(crate) fn completion(&self) -> Arc<Completion> {
        Arc::clone(&self.completion)
    }

    /// On success, copies `bytes` from `offset` on to `to` as the buffer is finished.
    ///
    /// # Safety
    ///
    /// `to` is valid for writes of `bytes` bytes until the completion is settled, outside the buffer's memory.
    pub(crate) unsafe fn copy_back(&mut self, offset: usize, to: *mut u8, bytes: usize) {
        let to = NonNull::new(to).unwrap_or(NonNull::dangling());
        self.copy_back = Some(CopyBack { offset, to: Span { dtype: DType::U8, start: to, len: bytes } });
    }

    /// On success, divides every element by `by`, at least 1, as the buffer is finished: the end of an average.
    pub(crate) fn divide_by(&mut self, by: u32) {
        self.divisor = Some(by);
    }

    /// What is left out of each of the `len` elements goes to `residual`.
    ///
    /// # Safety
    ///
    /// As for the memory in [`Self::promised`], of so many aligned `f32`; no other memory of the buffer overlaps it.
    pub(crate) unsafe fn keep_residual(&mut self, residual: *mut f32, len: usize) {
        let start = NonNull::new(residual).unwrap_or(NonNull::dangling()).cast();
        self.residual = Some(Span { dtype: DType::F32, start, len });
    }

    /// The memory, which was promised, is filled and emptied meanwhile. Only where an operation works on it in place, block by block.
    pub(crate) fn transfer(&mut self, transfer: Arc<dyn Transfer>) {
        self.transfer = Some(MemoryTransfer::new(transfer));
    }

    /// Bytes that hold the input, from the first on; `None` where all do.
    pub(crate) fn arrived(&self) -> Option<usize> {
        let arrived = self.transfer.as_ref()?.arrived();
        (arrived < self.memory.bytes()).then_some(arrived)
    }

    /// Blocks until all of the input is there.
    ///
    /// # Errors
    ///
    /// Why it never will be.
    pub(crate) fn wait_for_input(&self) -> Result<(), Error> {
        self.transfer.as_ref().map_or(Ok(()), |transfer| transfer.wait(self.memory.bytes()))
    }

    /// The result of a block of bytes is there, and stays as it is.
    pub(crate) fn finish_block(&self, number: usize, bytes: usize) {
        if let Some(transfer) = &self.transfer {
            let all = self.memory.bytes();
            transfer.finish(&((number * bytes).min(all)..((number + 1) * bytes).min(all)));
        }
    }

    /// Every rank has submitted the same operation on this memory.
    pub(crate) fn verify(&self) {
        self.transfer.iter().for_each(MemoryTransfer::verify);
    }

    /// Cuts the memory into parts of so many elements, one behind the other, each a buffer of its own; this one is finished when all of
    /// them are. Lengths that go beyond the end are cut short.
    ///
    /// The parts' spans do not overlap, are destroyed when the parts are settled, and so before this buffer's completion is.
    pub(crate) fn divide(self, lens: &[usize]) -> Vec<Self> {
        let (memory, residual, transfer) = (self.memory, self.residual, self.transfer.clone());
        transfer.iter().for_each(|transfer| transfer.divide(lens.len().saturating_sub(1)));
        let outcome = Ok(OpReport::default());
        let unsettled = Unsettled { buffer: Some(self), left: lens.len(), outcome };
        let whole = Arc::new(SplitBuffer(Mutex::new(unsettled)));
        let mut at = 0;
        let part = |len: &usize| {
            let first = at.min(memory.len);
            at = (at + len).min(memory.len);
            let mut buffer = Self::new(memory.part(first, at));
            buffer.residual = residual.map(|residual| residual.part(first, at));
            buffer.transfer =
                transfer.as_ref().map(|transfer| transfer.starting_at(first * memory.dtype.size()));
            buffer.whole = Some(Arc::clone(&whole));
            buffer
        };
        lens.iter().map(part).collect()
    }

    /// Whether the caller wants the residual.
    pub(crate) fn keeps_residual(&self) -> bool {
        self.residual.is_some()
    }

    /// The elements and what is left out of them, where that is wanted of elements in binary32.
    pub(crate) fn elements_and_residual(&mut self) -> Option<(&[f32], &mut [f32])> {
        let residual = self.residual?;
        if self.memory.dtype != DType::F32 {
            return None;
        }
        // SAFETY: the types are those that the spans were made with, the two do not overlap, and `&mut self` makes this the
        // only access.
        unsafe { Some((self.memory.slice(self.memory.len), residual.slice_mut(residual.len))) }
    }

    /// The tensor's bytes, native order; of calls that are not in place, the output's.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `&mut self` makes this the only access through the buffer; see the module's argument for all else.
        unsafe { self.memory.slice_mut(self.memory.bytes()) }
    }

    /// The input and the output of a call that is not in place; `None` for the input of one that is. Where it is wanted,
    /// the memory for what is left out of the elements.
    pub(crate) fn input_and_output(&mut self) -> (Option<&[u8]>, &mut [u8], Option<&mut [f32]>) {
        // SAFETY: the spans do not overlap, and `&mut self` as above.
        unsafe {
            let input = self.input.map(|span| span.slice(span.bytes()));
            let residual = self.residual.map(|span| span.slice_mut(span.len));
            (input, self.memory.slice_mut(self.memory.bytes()), residual)
        }
    }

    /// Where the elements are.
    pub(crate) fn address(&self) -> usize {
        self.memory.start.addr().get()
    }

    /// Bytes of an element as [`Self::block`] has it: 1 of those that are bytes there, and where there are none, 4.
    pub(crate) fn folded_size(&self) -> usize {
        match self.memory.folded().dtype {
            DType::None => 4,
            dtype => dtype.size(),
        }
    }

    /// Block `number` of the elements, of `len` but for the last one. It has arrived.
    pub(crate) fn block(&self, number: usize, len: usize) -> View<'_> {
        let block = self.memory.folded().block(number, len);
        let len = block.len;
        // SAFETY: the type is the one the span was made with, or bytes; `&self` keeps writers away.
        unsafe {
            match block.dtype {
                DType::None => View::None,
                DType::F32 => View::F32(block.slice(len)),
                DType::F16 => View::F16(block.slice(len)),
                DType::Bf16 => View::Bf16(block.slice(len)),
                DType::I32 => View::I32(block.slice(len)),
                _ => View::Bytes(block.slice(len)),
            }
        }
    }

    /// The same, writable.
    pub(crate) fn block_mut(&mut self, number: usize, len: usize) -> ViewMut<'_> {
        let block = self.memory.folded().block(number, len);
        let len = block.len;
        // SAFETY: the type is the one the span was made with, or bytes; `&mut self` makes this the only access.
        unsafe {
            match block.dtype {
                DType::None => ViewMut::None,
                DType::F32 => ViewMut::F32(block.slice_mut(len)),
                DType::F16 => ViewMut::F16(block.slice_mut(len)),
                DType::Bf16 => ViewMut::Bf16(block.slice_mut(len)),
                DType::I32 => ViewMut::I32(block.slice_mut(len)),
                _ => ViewMut::Bytes(block.slice_mut(len)),
            }
        }
    }

    /// Block `number` of the bytes, of `len` but for the last one. It has arrived.
    pub(crate) fn block_bytes(&self, number: usize, len: usize) -> &[u8] {
        let block = Span { dtype: DType::U8, len: self.memory.bytes(), ..self.memory }.block(number, len);
        // SAFETY: `&self` keeps writers away; see the module's argument for all else.
        unsafe { block.slice(block.len) }
    }

    /// The same, writable.
    pub(crate) fn block_bytes_mut(&mut self, number: usize, len: usize) -> &mut [u8] {
        let block = Span { dtype: DType::U8, len: self.memory.bytes(), ..self.memory }.block(number, len);
        // SAFETY: as for `bytes_mut`.
        unsafe { block.slice_mut(block.len) }
    }

    /// Returns the tensor with the outcome of the operation.
    pub(crate) fn finish(mut self, result: Result<OpReport, Error>) {
        self.settle(result);
    }

    fn settle(&mut self, result: Result<OpReport, Error>) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        if let (Ok(_), Some(by)) = (&result, self.divisor.take()) {
            let dtype = self.memory.dtype;
            // Not refused: the type is a number's, the bytes are whole elements, and a world has at least one rank.
            let _ = netfold_collectives::reduce::divide(dtype, self.bytes_mut(), by);
        }
        if let (Ok(_), Some(CopyBack { offset, to })) = (&result, self.copy_back.take()) {
            let from = self.bytes_mut().get(offset..offset + to.len).unwrap_or_default();
            // SAFETY: by the contract of `copy_back`; the source's length is what was asked for, or zero.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.start.as_ptr(), from.len()) };
        }
        // The spans must be destroyed before the completion is settled.
        (self.memory, self.input, self.residual) = (Span::EMPTY, None, None);
        if let Some(whole) = self.whole.take() {
            whole.settle_part(result.clone());
        }
        let owner = self.owner.take();
        let owner = match self.returned.take() {
            Some((output, _)) => Some(output),
            None => owner,
        };
        self.completion.settle(result, owner);
    }
}

impl Drop for OpBuffer {
    fn drop(&mut self) {
        self.settle(Err(Error::EngineFailed));
    }
}

/// Hands the buffer of a borrowed slice to `submit`, and blocks until it is settled.
pub(crate) fn lend(buffer: OpBuffer, submit: impl FnOnce(OpBuffer)) -> Result<OpReport, Error> {
    /// Blocks in any case, also when `submit` panics after it has passed the buffer on.
    struct BlockOnDrop<'a>(&'a Completion);
    impl Drop for BlockOnDrop<'_> {
        fn drop(&mut self) {
            self.0.block();
        }
    }
    let completion = buffer.completion();
    let block = BlockOnDrop(&completion);
    submit(buffer);
    drop(block);
    completion.wait()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn promised<T: Element>(tensor: &mut [T]) -> OpBuffer {
        // SAFETY: every user lends the buffer, and so waits for it while the tensor is borrowed.
        unsafe { OpBuffer::promised(T::DTYPE, (tensor.as_mut_ptr().cast(), tensor.len()), None) }
    }

    #[test]
    fn a_lent_slice_is_written_by_another_thread_and_comes_back() {
        let mut tensor = vec![1i32, 2, 3];
        let report = lend(promised(&mut tensor), |mut buffer| {
            std::thread::spawn(move || {
                let ViewMut::I32(elements) = buffer.block_mut(0, 9) else { panic!("the type was i32") };
                elements.iter_mut().for_each(|v| *v *= 10);
                buffer.finish(Ok(OpReport::default()));
            });
        });
        assert_eq!((report, tensor), (Ok(OpReport::default()), vec![10, 20, 30]));
    }

    #[test]
    fn a_dropped_parcel_and_a_panicking_submitter_still_settle() {
        let mut tensor = [0.0f32; 4];
        assert_eq!(lend(promised(&mut tensor), drop), Err(Error::EngineFailed));
        let caught = std::panic::catch_unwind(move || {
            lend(promised(&mut tensor), |buffer| {
                std::thread::spawn(move || drop(buffer));
                panic!("after the parcel has left");
            })
        });
        assert!(caught.is_err());
    }

    #[test]
    fn a_vector_comes_back_once_as_the_keeper() {
        let buffer = OpBuffer::owned(vec![f16::ONE]);
        let completion = buffer.completion();
        assert!(!completion.is_settled());
        buffer.finish(Ok(OpReport::default()));
        assert!(completion.is_settled());
        let back = completion.take_owner().expect("the vector").downcast::<Vec<f16>>().expect("of this type");
        assert_eq!(*back, [f16::ONE]);
        assert!(completion.take_owner().is_none());
    }

    #[test]
    fn parts_are_settled_one_by_one_and_the_whole_with_the_last() {
        for failing in [false, true] {
            let mut tensor = [1i32, 2, 3, 4, 5];
            let mut buffer = promised(&mut tensor);
            buffer.divide_by(2);
            let completion = buffer.completion();
            let mut parts = buffer.divide(&[2, 0, 9]);
            assert_eq!(parts.len(), 3);
            for (part, by) in parts.iter_mut().zip([10, 100, 1000]) {
                let ViewMut::I32(elements) = part.block_mut(0, 9) else { panic!("the type was i32") };
                elements.iter_mut().for_each(|v| *v *= by);
            }
            let report = OpReport { chunks: 2, ..OpReport::default() };
            parts.pop().unwrap().finish(Ok(report));
            if failing {
                drop(parts.pop());
            }
            assert!(!completion.is_settled());
            parts.into_iter().for_each(|part| part.finish(Ok(report)));
            match completion.outcome().unwrap() {
                Ok(all) => assert_eq!((all.chunks, tensor), (6, [5, 10, 1500, 2000, 2500])),
                Err(error) => assert_eq!((error, failing), (Error::EngineFailed, true)),
            }
        }
    }

    #[test]
    fn a_part_is_copied_back_only_on_success() {
        for (result, expected) in [(Ok(OpReport::default()), [7u8, 8]), (Err(Error::Closed), [0, 0])] {
            let mut to = [0u8; 2];
            let mut buffer = OpBuffer::scratch(DType::U8, 5);
            buffer.bytes_mut().copy_from_slice(&[5, 6, 7, 8, 9]);
            // SAFETY: `to` outlives the buffer, which is finished in the next statement.
            unsafe { buffer.copy_back(2, to.as_mut_ptr(), 2) };
            buffer.finish(result);
            assert_eq!(to, expected);
        }
    }

    /// A transfer that records what it is said.
    #[derive(Debug, Default)]
    struct Recorded {
        arrived: AtomicUsize,
        said: Mutex<Vec<String>>,
    }

    impl Recorded {
        fn say(&self, what: String) {
            self.said.lock().unwrap().push(what);
        }
    }

    impl Transfer for Recorded {
        fn arrived(&self) -> usize {
            self.arrived.load(Ordering::Relaxed)
        }

        fn failure(&self) -> Option<Error> {
            Some(Error::Closed)
        }

        fn finish(&self, bytes: std::ops::Range<usize>) {
            self.say(format!("{bytes:?}"));
        }

        fn divide(&self, more: usize) {
            self.say(format!("{more} more"));
        }

        fn verify(&self) {
            self.say("verified".into());
        }
    }

    #[test]
    fn parts_of_a_buffer_are_parts_of_its_transfer() {
        let mut tensor = [0i32; 10];
        let mut buffer = promised(&mut tensor);
        let transfer = Arc::new(Recorded::default());
        buffer.transfer(Arc::clone(&transfer) as Arc<dyn Transfer>);
        assert_eq!(buffer.arrived(), Some(0));
        let parts = buffer.divide(&[4, 6]);
        for (bytes, arrived) in
            [(12, [Some(12), Some(0)]), (16, [None, Some(0)]), (24, [None, Some(8)]), (40, [None; 2])]
        {
            transfer.arrived.store(bytes, Ordering::Relaxed);
            assert_eq!([parts[0].arrived(), parts[1].arrived()], arrived, "{bytes} bytes");
            assert_eq!(parts[1].wait_for_input().is_ok(), arrived[1].is_none());
        }
        parts[1].finish_block(2, 10);
        parts[0].finish_block(0, 10);
        parts[1].verify();
        assert_eq!(*transfer.said.lock().unwrap(), ["1 more", "36..40", "0..10", "verified"]);
    }
}
