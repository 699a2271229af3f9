//! Which rank sends what to which, and when: pure functions of the call, the number of ranks, the rank and the size.
//!
//! A [`MeshPlan`] lists messages. Those to one peer leave in the order of the list, those from one peer arrive in the order of
//! the list, and everything else runs concurrently. A [`Gate`] lets a message's bytes pass only as far as another one's have,
//! so that a ring forwards a piece while it is still arriving.
//!
//! Every rank of every plan either sends a message to the next rank that is behind no gate, or exchanges with a partner that
//! its count and operation do not influence (recursive doubling). So ranks that made different calls always detect it.

mod large;
mod small;
#[cfg(test)]
mod tests;

use crate::Collective;

/// Largest tensor in bytes that takes the fewest hops instead of the fewest bytes.
pub(crate) const SMALL_MAX: usize = 32 * 1024;

/// A memory that messages come from or go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    Input,
    Output,
    Scratch,
}

/// The start of a range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) area: Area,
    pub(crate) at: usize,
}

pub(crate) const fn input(at: usize) -> Offset {
    Offset { area: Area::Input, at }
}

pub(crate) const fn output(at: usize) -> Offset {
    Offset { area: Area::Output, at }
}

pub(crate) const fn scratch(at: usize) -> Offset {
    Offset { area: Area::Scratch, at }
}

/// What a message waits for, byte by byte; a message of no bytes waits for the other's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// The arrival with this index.
    Arrived(usize),
    /// The send with this index.
    Sent(usize),
}

/// A message to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Send {
    pub(crate) to: u16,
    pub(crate) from: Offset,
    pub(crate) len: usize,
    pub(crate) after: Gate,
}

/// A message from a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) from: u16,
    pub(crate) into: Offset,
    pub(crate) len: usize,
    /// Reduced with what is there before it goes to `into`; stored as it is when `None`.
    pub(crate) with: Option<Offset>,
    /// The fold is complete: an average divides now.
    pub(crate) last: bool,
    pub(crate) after: Gate,
}

/// Everything that one rank does in one collective.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MeshPlan {
    /// Done first: from, into, bytes.
    pub(crate) copies: Vec<(Offset, Offset, usize)>,
    pub(crate) sends: Vec<Send>,
    pub(crate) arrivals: Vec<Arrival>,
    /// Bytes of scratch memory.
    pub(crate) scratch: usize,
}

/// The position of a rank, and how much each rank contributes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) world: usize,
    pub(crate) rank: usize,
    /// Elements in the sense of [`CallSignature::count`](crate::mesh::CallSignature).
    pub(crate) count: usize,
    /// Bytes of an element.
    pub(crate) element: usize,
    /// Input and output are the same memory.
    pub(crate) in_place: bool,
}

impl Shape {
    fn bytes(&self) -> usize {
        self.count * self.element
    }

    /// The rank `distance` further round the ring.
    fn after(&self, distance: usize) -> usize {
        (self.rank + distance) % self.world
    }

    /// The rank `distance` back round the ring; at most `2 * world`.
    fn before(&self, distance: usize) -> usize {
        (self.rank + 2 * self.world - distance) % self.world
    }

    /// Begin and length in bytes of the part of the tensor that belongs to a rank: parts differ by one element at most.
    fn part(&self, rank: usize) -> (usize, usize) {
        let (each, more) = (self.count / self.world, self.count % self.world);
        let begin = rank * each + rank.min(more);
        let len = each + usize::from(rank < more);
        (begin * self.element, len * self.element)
    }
}

impl MeshPlan {
    /// The plan of one rank.
    pub(crate) fn new(collective: Collective, shape: Shape) -> Self {
        let mut plan = Self::default();
        if shape.world <= 1 {
            plan.alone(collective, &shape);
            return plan;
        }
        let is_small = shape.bytes() <= SMALL_MAX;
        match collective {
            Collective::AllReduce if is_small => small::all_reduce(&mut plan, &shape),
            Collective::AllReduce => large::all_reduce(&mut plan, &shape),
            Collective::Reduce { root } => {
                plan.first_token(&shape);
                match is_small {
                    true => small::reduce(&mut plan, &shape, usize::from(root)),
                    false => large::reduce(&mut plan, &shape, usize::from(root)),
                }
                plan.other_tokens(&shape);
            }
            Collective::Broadcast { root } => {
                plan.first_token(&shape);
                match is_small {
                    true => small::broadcast(&mut plan, &shape, usize::from(root)),
                    false => large::broadcast(&mut plan, &shape, usize::from(root)),
                }
                plan.other_tokens(&shape);
            }
            Collective::AllGather if is_small => small::all_gather(&mut plan, &shape),
            Collective::AllGather => large::all_gather(&mut plan, &shape),
            Collective::ReduceScatter => large::reduce_scatter(&mut plan, &shape),
            Collective::AllToAll => large::all_to_all(&mut plan, &shape),
            Collective::Barrier => {
                plan.first_token(&shape);
                plan.other_tokens(&shape);
            }
        }
        plan
    }

    fn alone(&mut self, collective: Collective, shape: &Shape) {
        if collective != Collective::Barrier {
            self.copies.push((input(0), output(0), shape.bytes()));
        }
    }

    fn send(&mut self, to: usize, from: Offset, len: usize, after: Gate) -> usize {
        self.sends.push(Send { to: to as u16, from, len, after });
        self.sends.len() - 1
    }

    fn store(&mut self, from: usize, into: Offset, len: usize, after: Gate) -> usize {
        self.arrivals.push(Arrival { from: from as u16, into, len, with: None, last: false, after });
        self.arrivals.len() - 1
    }

    /// An arrival that is folded with `with` on its way `into`.
    fn fold(
        &mut self,
        from: usize,
        (with, into): (Offset, Offset),
        len: usize,
        last: bool,
        after: Gate,
    ) -> usize {
        self.arrivals.push(Arrival { from: from as u16, into, len, with: Some(with), last, after });
        self.arrivals.len() - 1
    }

    /// The first round of a barrier by dissemination (Hensgen, Finkel and Manber 1988): always arrival 0, and before any other
    /// message to the next rank, so that ranks that made different calls detect it whatever else they wait for.
    fn first_token(&mut self, shape: &Shape) {
        self.send(shape.after(1), scratch(0), 0, Gate::Open);
        self.store(shape.before(1), scratch(0), 0, Gate::Open);
    }

    /// The other rounds, each behind the one before. A rank has all tokens only when every rank has begun.
    fn other_tokens(&mut self, shape: &Shape) {
        let (mut distance, mut previous) = (2, 0);
        while distance < shape.world {
            self.send(shape.after(distance), scratch(0), 0, Gate::Arrived(previous));
            previous = self.store(shape.before(distance), scratch(0), 0, Gate::Arrived(previous));
            distance *= 2;
        }
    }
}
