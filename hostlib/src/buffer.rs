//! Tensors on their way through the engine.
//!
//! A blocking call lends its caller's `&mut [T]` to the engine thread as a raw span; an asynchronous call gives its
//! `Vec` away. Both travel in a [`Parcel`]. The argument that lending is sound, in full:
//!
//! - A lent span is made by [`lend`] alone, and lives in a [`Parcel`] that never lets it out: its elements are seen through
//!   views that borrow the parcel.
//! - [`lend`] does not return, and does not unwind, before the parcel's [`Ticket`] is settled.
//! - A ticket is settled only by [`Parcel::finish`] or by dropping the parcel, and both destroy the span first. The
//!   settling locks the ticket's mutex and so happens after every access of the engine and before the return of `lend`.
//! - A parcel that is leaked settles nothing: the caller then blocks for ever, which is no memory error. (Nothing here
//!   leaks one; a panicking engine drops what it holds.)
#![expect(unsafe_code, reason = "lends a caller's slice to another thread while the caller is blocked")]

use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use half::{bf16, f16};

use crate::element::Element;
use crate::error::Error;
use crate::report::OpReport;

/// The memory of a tensor.
#[derive(Debug)]
pub enum Storage<T> {
    /// A blocked caller's slice.
    Lent(Span<T>),
    /// Given away for the time of the operation.
    Owned(Vec<T>),
}

/// A slice without its lifetime; see the module's argument.
#[derive(Debug)]
pub struct Span<T> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: a span stands for an exclusive borrow `&mut [T]`, which is `Send` for `T: Send`; see the module's argument for why
// the borrow lasts.
unsafe impl<T: Send> Send for Span<T> {}

impl<T> Storage<T> {
    /// The elements.
    fn elements(&self) -> &[T] {
        match self {
            // SAFETY: the span was a valid slice in `lend`, whose caller is blocked while this exists; `&self` keeps
            // `elements_mut` away.
            Self::Lent(span) => unsafe { std::slice::from_raw_parts(span.start.as_ptr(), span.len) },
            Self::Owned(elements) => elements,
        }
    }

    /// The elements, writable.
    fn elements_mut(&mut self) -> &mut [T] {
        match self {
            // SAFETY: as in `elements`; the span came from a `&mut` slice and `&mut self` makes this access the only one.
            Self::Lent(span) => unsafe { std::slice::from_raw_parts_mut(span.start.as_ptr(), span.len) },
            Self::Owned(elements) => elements,
        }
    }
}

/// A tensor of any element type.
#[derive(Debug)]
pub enum Tensor {
    /// No elements (barrier).
    None,
    /// binary32.
    F32(Storage<f32>),
    /// binary16.
    F16(Storage<f16>),
    /// bfloat16.
    Bf16(Storage<bf16>),
    /// 32-bit integers.
    I32(Storage<i32>),
}

/// The elements of a [`Parcel`].
#[derive(Debug)]
pub(crate) enum View<'a> {
    None,
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
    I32(&'a [i32]),
}

/// The elements of a [`Parcel`], writable.
#[derive(Debug)]
pub(crate) enum ViewMut<'a> {
    None,
    F32(&'a mut [f32]),
    F16(&'a mut [f16]),
    Bf16(&'a mut [bf16]),
    I32(&'a mut [i32]),
}

/// What became of an operation: the tensor, when it was given away, and the report.
pub(crate) type Outcome = Result<(Tensor, OpReport), Error>;

/// Where a caller waits for its operation.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    outcome: Mutex<Settlement>,
    settled: Condvar,
}

#[derive(Debug, Default)]
enum Settlement {
    #[default]
    Pending,
    Ready(Outcome),
    Taken,
}

impl Ticket {
    fn settle(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Settlement::Ready(outcome);
        self.settled.notify_all();
    }

    /// Blocks until the ticket is settled. Does not panic.
    fn block(&self) -> std::sync::MutexGuard<'_, Settlement> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        while matches!(*outcome, Settlement::Pending) {
            outcome = self.settled.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
        outcome
    }

    /// Blocks until the operation is over. The outcome can be taken once; afterwards [`Error::Taken`].
    pub(crate) fn wait(&self) -> Outcome {
        match std::mem::replace(&mut *self.block(), Settlement::Taken) {
            Settlement::Ready(outcome) => outcome,
            Settlement::Pending | Settlement::Taken => Err(Error::Taken),
        }
    }

    /// Whether [`Self::wait`] would return at once.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(*self.outcome.lock().unwrap_or_else(PoisonError::into_inner), Settlement::Pending)
    }
}

/// A tensor in the engine's hands. Settles its ticket when it is finished or dropped.
#[derive(Debug)]
pub(crate) struct Parcel {
    tensor: Tensor,
    ticket: Arc<Ticket>,
    settled: bool,
}

impl Parcel {
    fn new(tensor: Tensor) -> (Self, Arc<Ticket>) {
        let ticket = Arc::<Ticket>::default();
        (Self { tensor, ticket: Arc::clone(&ticket), settled: false }, ticket)
    }

    /// A tensor that is given away, and where to wait for it.
    pub(crate) fn owned<T: Element>(elements: Vec<T>) -> (Self, Arc<Ticket>) {
        Self::new(T::tensor(Storage::Owned(elements)))
    }

    /// No tensor.
    pub(crate) fn empty() -> (Self, Arc<Ticket>) {
        Self::new(Tensor::None)
    }

    /// The elements.
    pub(crate) fn view(&self) -> View<'_> {
        match &self.tensor {
            Tensor::None => View::None,
            Tensor::F32(storage) => View::F32(storage.elements()),
            Tensor::F16(storage) => View::F16(storage.elements()),
            Tensor::Bf16(storage) => View::Bf16(storage.elements()),
            Tensor::I32(storage) => View::I32(storage.elements()),
        }
    }

    /// The elements, writable.
    pub(crate) fn view_mut(&mut self) -> ViewMut<'_> {
        match &mut self.tensor {
            Tensor::None => ViewMut::None,
            Tensor::F32(storage) => ViewMut::F32(storage.elements_mut()),
            Tensor::F16(storage) => ViewMut::F16(storage.elements_mut()),
            Tensor::Bf16(storage) => ViewMut::Bf16(storage.elements_mut()),
            Tensor::I32(storage) => ViewMut::I32(storage.elements_mut()),
        }
    }

    /// Gives the tensor back with how the operation ended.
    pub(crate) fn finish(mut self, result: Result<OpReport, Error>) {
        self.settle(result);
    }

    fn settle(&mut self, result: Result<OpReport, Error>) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        // A lent span must be gone before the ticket is settled.
        let tensor = match std::mem::replace(&mut self.tensor, Tensor::None) {
            Tensor::F32(Storage::Lent(_))
            | Tensor::F16(Storage::Lent(_))
            | Tensor::Bf16(Storage::Lent(_))
            | Tensor::I32(Storage::Lent(_)) => Tensor::None,
            owned => owned,
        };
        self.ticket.settle(result.map(|report| (tensor, report)));
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.settle(Err(Error::EngineFailed));
    }
}

/// Lends `elements` to whoever `submit` hands the parcel, and blocks until they are given back.
pub(crate) fn lend<T: Element>(elements: &mut [T], submit: impl FnOnce(Parcel)) -> Result<OpReport, Error> {
    /// Blocks in any case, also when `submit` panics after it has passed the parcel on.
    struct BlockOnDrop<'a>(&'a Ticket);
    impl Drop for BlockOnDrop<'_> {
        fn drop(&mut self) {
            drop(self.0.block());
        }
    }
    let len = elements.len();
    let start = NonNull::from(elements).cast::<T>();
    let (parcel, ticket) = Parcel::new(T::tensor(Storage::Lent(Span { start, len })));
    let block = BlockOnDrop(&ticket);
    submit(parcel);
    drop(block);
    ticket.wait().map(|(_, report)| report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lent_slice_is_written_by_another_thread_and_comes_back() {
        let mut tensor = vec![1i32, 2, 3];
        let report = lend(&mut tensor, |mut parcel| {
            std::thread::spawn(move || {
                let ViewMut::I32(elements) = parcel.view_mut() else { panic!("the type was i32") };
                elements.iter_mut().for_each(|v| *v *= 10);
                parcel.finish(Ok(OpReport::default()));
            });
        });
        assert_eq!((report, tensor), (Ok(OpReport::default()), vec![10, 20, 30]));
    }

    #[test]
    fn a_dropped_parcel_and_a_panicking_submitter_still_settle() {
        let mut tensor = [0.0f32; 4];
        assert_eq!(lend(&mut tensor, drop), Err(Error::EngineFailed));
        let caught = std::panic::catch_unwind(move || {
            lend(&mut tensor, |parcel| {
                std::thread::spawn(move || drop(parcel));
                panic!("after the parcel has left");
            })
        });
        assert!(caught.is_err());
    }

    #[test]
    fn a_vector_comes_back_once() {
        let (parcel, ticket) = Parcel::owned(vec![f16::ONE]);
        assert!(!ticket.is_settled());
        parcel.finish(Ok(OpReport::default()));
        assert!(ticket.is_settled());
        let Ok((Tensor::F16(Storage::Owned(back)), _)) = ticket.wait() else { panic!("the vector") };
        assert_eq!(back, [f16::ONE]);
        assert!(matches!(ticket.wait(), Err(Error::Taken)));
    }
}
