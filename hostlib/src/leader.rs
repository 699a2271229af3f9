//! The network stage of hosts with several ranks: the leader sends what its host has folded, segment by segment.
#![expect(unsafe_code, reason = "lends segments and parts of the residual to the leaders' communicator")]

use netfold_wire::{Collective, DType, ReduceOp};
use std::marker::PhantomData;

use netfold_collectives::shared::{Network, Segment};

use crate::call::Call;
use crate::communicator::Communicator;
use crate::error::Error;
use crate::work::Work;

/// The leaders' side of one all-reduce.
pub(crate) struct NetworkStage<'a> {
    /// Absent on ranks that are no leaders, whose stage is not called.
    leaders: Option<&'a Communicator>,
    dtype: DType,
    op: ReduceOp,
    /// What is left out of each element, where that is wanted.
    residual: Option<Residual<'a>>,
    /// Segments under way, by index.
    in_flight: Vec<(usize, Work, Segment)>,
}

/// A slice of which parts are lent to works under way.
struct Residual<'a> {
    start: *mut f32,
    len: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

impl Residual<'_> {
    /// `len` numbers from `first` on.
    fn part(&self, first: usize, len: usize) -> Option<*mut f32> {
        let fits = first.checked_add(len).is_some_and(|end| end <= self.len);
        fits.then(|| self.start.wrapping_add(first))
    }
}

impl<'a> NetworkStage<'a> {
    pub(crate) fn new(
        leaders: Option<&'a Communicator>,
        (dtype, op): (DType, ReduceOp),
        residual: Option<&'a mut [f32]>,
    ) -> Self {
        let residual =
            residual.map(|all| Residual { start: all.as_mut_ptr(), len: all.len(), borrowed: PhantomData });
        Self { leaders, dtype, op, residual, in_flight: Vec::new() }
    }
}

impl Network for NetworkStage<'_> {
    fn start(&mut self, index: usize, mut segment: Segment) -> Result<(), Vec<u8>> {
        let Some(leaders) = self.leaders else { return Err(encode(&Error::EngineFailed)) };
        let count = segment.len() / self.dtype.size().max(1);
        let call = Call::new(Collective::AllReduce, self.dtype, self.op, count);
        let memory = segment.bytes_mut().as_mut_ptr();
        let first = segment.offset_bytes() / size_of::<f32>();
        let residual = self.residual.as_ref().and_then(|all| all.part(first, count));
        // SAFETY: the segment has `count` elements, keeps its memory when it is moved, and is kept, untouched, until the work is
        // done. So does a part of the residual of its own, of the same length, which is borrowed for longer than this stage lives
        // and not read meanwhile.
        let work = unsafe {
            match residual {
                None => leaders.submit(&call, memory, memory),
                Some(residual) => leaders.submit_for_residual(&call, memory, residual),
            }
        };
        let work = work.map_err(|error| encode(&error))?;
        self.in_flight.push((index, work, segment));
        Ok(())
    }

    fn finish(&mut self, index: usize) -> Result<Segment, Vec<u8>> {
        let Some(at) = self.in_flight.iter().position(|(in_flight, ..)| *in_flight == index) else {
            return Err(encode(&Error::EngineFailed));
        };
        let (_, work, segment) = self.in_flight.remove(at);
        match work.wait() {
            Ok(_) => Ok(segment),
            Err(error) => Err(encode(&error)),
        }
    }

    fn abandon(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        if let Some(leaders) = self.leaders {
            leaders.abort();
        }
        for (_, work, _segment) in self.in_flight.drain(..) {
            let _ = work.wait();
        }
    }
}

impl Drop for NetworkStage<'_> {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// An error as the leader passes it to the other ranks of its host: the lost rank, if there is one, and the message.
fn encode(error: &Error) -> Vec<u8> {
    let (lost, message) = match error {
        Error::PeerLost { rank, message } => (i32::from(*rank), message.clone()),
        other => (-1, other.to_string()),
    };
    format!("{lost} {message}").into_bytes()
}

/// Decodes the leader's error.
pub(crate) fn decode(message: &[u8]) -> Error {
    let text = String::from_utf8_lossy(message);
    let (lost, message) = text.split_once(' ').unwrap_or(("-1", &text));
    match lost.parse::<u16>() {
        Ok(rank) => Error::PeerLost { rank, message: message.to_owned() },
        Err(_) => Error::Leader { message: message.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_names_the_lost_rank() {
        let lost = Error::PeerLost { rank: 3, message: "its connection closed".into() };
        assert_eq!(decode(&encode(&lost)), lost);
        let Error::Leader { message } = decode(&encode(&Error::Closed)) else { panic!("a leader's error") };
        assert_eq!(message, Error::Closed.to_string());
        assert_eq!(decode(b"\xff").kind(), "leader");
    }
}
