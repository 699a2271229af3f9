//! Error feedback: what the quantiser leaves out of a tensor is kept, and added to the next one.
#![expect(unsafe_code, reason = "works on memory that callers lend while they wait, or vouch for")]

use crate::buffer;
use crate::call::Call;
use crate::communicator::Communicator;
use crate::error::Error;
use crate::report::OpReport;
use crate::work::Work;
use netfold_wire::{Collective, DType, ReduceOp};

impl Communicator {
    /// As [`all_reduce`](Self::all_reduce) of `tensor + residual`, and leaves in `residual` what the quantiser left out of this
    /// rank's contribution: error feedback, as in 1-bit SGD (Seide et al., Interspeech 2014) and EF-SGD (Karimireddy et al., ICML
    /// 2019). Keep one residual for each tensor, all zeros at first, and give it with that tensor in every step: then what is
    /// too small for one step arrives in a later one, and the sums delivered over any number of steps differ from the exact
    /// ones by no more than the residuals that are left.
    ///
    /// Sums and averages; the residual is in units of the tensor, before the division. Where nothing is quantised (in a ring,
    /// in shared memory, in mode `float`, in what is left of an operation whose switch was lost) the residual is added and becomes
    /// zero. Of ranks that share a host, the one that sends for all keeps what was left out of the host's sum; the others'
    /// residuals become zero. Blocks that are not finite leave zero. What a switch of mode `wide` or `half` itself rounds is not
    /// fed back.
    ///
    /// All ranks may call this or `all_reduce`, each as it likes: what travels is the same. On an error of the job both slices
    /// hold unspecified numbers.
    ///
    /// # Errors
    ///
    /// [`Error::ResidualLength`] when the lengths differ, [`Error::Feedback`] for other operations; both slices are untouched
    /// then. Otherwise as for [`all_reduce`](Self::all_reduce).
    pub fn all_reduce_with_feedback(
        &self,
        tensor: &mut [f32],
        residual: &mut [f32],
        op: ReduceOp,
    ) -> Result<OpReport, Error> {
        if tensor.len() != residual.len() {
            return Err(Error::ResidualLength { tensor: tensor.len(), residual: residual.len() });
        }
        let call = Call::new(Collective::AllReduce, DType::F32, op, tensor.len());
        check(&call)?;
        let route = self.route(&call)?;
        let memory = tensor.as_mut_ptr().cast::<u8>();
        // SAFETY: both are slices of this length, borrowed by this call, which waits until the buffer is settled.
        let buffer = unsafe {
            absorb(memory, memory, residual.as_mut_ptr(), call.count);
            let mut buffer = self.router.make_buffer(&call, &route, memory, memory);
            buffer.keep_residual(residual.as_mut_ptr(), call.count);
            buffer
        };
        buffer::lend(buffer, |buffer| self.router.start(route, buffer))
    }

    /// Starts an [`all_reduce_with_feedback`](Self::all_reduce_with_feedback), as [`submit`](Self::submit) does for calls
    /// without. When it returns, `recv` holds the sum of input and residual, and the residual is zero; both have their final
    /// numbers when the work is done.
    ///
    /// # Errors
    ///
    /// [`Error::Feedback`] for all but sums and averages of `f32` tensors over all ranks; as for [`submit`](Self::submit).
    ///
    /// # Safety
    ///
    /// As for [`submit`](Self::submit); and `residual` is valid, aligned, for reads and writes of as many `f32` as the tensor
    /// has, until the work is done (or an error is returned); until then no other code reads or writes it. It overlaps neither
    /// `send` nor `recv`.
    pub unsafe fn submit_with_feedback(
        &self,
        call: &Call,
        send: *const u8,
        recv: *mut u8,
        residual: *mut f32,
    ) -> Result<Work, Error> {
        check(call)?;
        let route = self.route(call)?;
        self.router.check_pointers(call, send, recv)?;
        if residual.is_null() && call.count > 0 {
            return Err(Error::Null("residual"));
        }
        // SAFETY: passed on to the caller, whose pointers are not null where they are used.
        let buffer = unsafe {
            absorb(send, recv, residual, call.count);
            let mut buffer = self.router.make_buffer(call, &route, recv, recv);
            buffer.keep_residual(residual, call.count);
            buffer
        };
        let completion = buffer.completion();
        self.router.start(route, buffer);
        Ok(Work::new(completion))
    }

    /// The same in place, with nothing to add: `residual` is only written.
    ///
    /// # Safety
    ///
    /// As for [`submit_with_feedback`](Self::submit_with_feedback).
    pub(crate) unsafe fn submit_for_residual(
        &self,
        call: &Call,
        memory: *mut u8,
        residual: *mut f32,
    ) -> Result<Work, Error> {
        let route = self.route(call)?;
        // SAFETY: passed on to the caller.
        let buffer = unsafe {
            let mut buffer = self.router.make_buffer(call, &route, memory, memory);
            buffer.keep_residual(residual, call.count);
            buffer
        };
        let completion = buffer.completion();
        self.router.start(route, buffer);
        Ok(Work::new(completion))
    }
}

/// What can be fed back: the errors of this rank's own numbers in a sum.
pub(crate) fn check(call: &Call) -> Result<(), Error> {
    match (call.collective, call.dtype, call.op) {
        (Collective::AllReduce, DType::F32, ReduceOp::Sum | ReduceOp::Avg) => Ok(()),
        (collective, dtype, op) => Err(Error::Feedback { collective: collective.name(), op, dtype }),
    }
}

/// `recv = send + residual`, and `residual = 0`.
///
/// # Safety
///
/// `send` is valid for reads and `recv` for writes of `count` numbers, of any alignment, and `residual` for both, aligned.
/// `send` and `recv` are the same or do not overlap; `residual` overlaps neither.
unsafe fn absorb(send: *const u8, recv: *mut u8, residual: *mut f32, count: usize) {
    if count == 0 {
        return;
    }
    // SAFETY: by this function's contract; element by element, each is read before it is written.
    unsafe {
        let residual = std::slice::from_raw_parts_mut(residual, count);
        let (from, to) = (send.cast::<f32>(), recv.cast::<f32>());
        for (at, left) in residual.iter_mut().enumerate() {
            to.add(at).write_unaligned(from.add(at).read_unaligned() + *left);
            *left = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_residual_is_added_wherever_the_tensor_lies() {
        let mut residual = [0.25f32, -1.0, 8.0];
        let send: Vec<u8> =
            std::iter::once(7).chain([1.0f32, 2.0, 3.0].into_iter().flat_map(f32::to_ne_bytes)).collect();
        let mut recv = [9u8; 15];
        // SAFETY: 12 bytes from odd addresses, and three numbers.
        unsafe { absorb(send[1..].as_ptr(), recv[2..].as_mut_ptr(), residual.as_mut_ptr(), 3) };
        let sums: Vec<f32> =
            recv[2..14].as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
        assert_eq!((sums, residual), (vec![1.25, 1.0, 11.0], [0.0; 3]));
        assert_eq!((recv[1], recv[14]), (9, 9));
    }

    #[test]
    fn only_sums_of_f32_over_all_ranks_are_fed_back() {
        let call = |collective, dtype, op| check(&Call::new(collective, dtype, op, 1));
        for op in [ReduceOp::Sum, ReduceOp::Avg] {
            assert_eq!(call(Collective::AllReduce, DType::F32, op), Ok(()));
            for dtype in [DType::F16, DType::Bf16, DType::F64, DType::I32] {
                let error = call(Collective::AllReduce, dtype, op).unwrap_err();
                assert_eq!((error.kind(), error.ends_the_job()), ("unsupported", false));
            }
        }
        assert!(call(Collective::AllReduce, DType::F32, ReduceOp::Max).is_err());
        assert!(call(Collective::ReduceScatter, DType::F32, ReduceOp::Sum).is_err());
    }
}
