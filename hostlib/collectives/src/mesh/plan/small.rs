//! Fewest hops, for tensors so small that their bytes cost less than a message.

use super::{Gate, MeshPlan, Shape, input, output, scratch};

/// Recursive doubling: log2(n) exchanges of the whole tensor. Ranks beyond a power of two send theirs to an adjacent rank first and
/// get the result from it. Folds commute to the bit, so both sides of an exchange compute the same.
pub(super) fn all_reduce(plan: &mut MeshPlan, shape: &Shape) {
    let (n, rank, len) = (shape.world, shape.rank, shape.bytes());
    let rounds = n.ilog2() as usize;
    let extra = n - (1 << rounds);
    if rank < 2 * extra && rank % 2 == 1 {
        plan.send(rank - 1, input(0), len, Gate::Open);
        plan.store(rank - 1, output(0), len, Gate::Open);
        return;
    }
    // Each round's value has memory of its own, because the one before is still being sent.
    plan.scratch = rounds * len;
    let mut mine = (scratch(0), Gate::Open);
    let position = if rank < 2 * extra {
        let arrival = plan.fold(rank + 1, (input(0), scratch(0)), len, false, Gate::Open);
        mine.1 = Gate::Arrived(arrival);
        rank / 2
    } else {
        plan.copies.push((input(0), scratch(0), len));
        rank - extra
    };
    for round in 0..rounds {
        let partner = position ^ (1 << round);
        let partner = if partner < extra { 2 * partner } else { partner + extra };
        let is_last = round == rounds - 1;
        let into = if is_last { output(0) } else { scratch((round + 1) * len) };
        plan.send(partner, mine.0, len, mine.1);
        mine = (into, Gate::Arrived(plan.fold(partner, (mine.0, into), len, is_last, mine.1)));
    }
    if rank < 2 * extra {
        plan.send(rank + 1, output(0), len, mine.1);
    }
}

/// Directly to the root, which reduces in order of distance.
pub(super) fn reduce(plan: &mut MeshPlan, shape: &Shape, root: usize) {
    let len = shape.bytes();
    if shape.rank != root {
        plan.send(root, input(0), len, Gate::Open);
        return;
    }
    let mut sum = (input(0), Gate::Open);
    for distance in 1..shape.world {
        let is_last = distance == shape.world - 1;
        let arrival = plan.fold(shape.after(distance), (sum.0, output(0)), len, is_last, sum.1);
        sum = (output(0), Gate::Arrived(arrival));
    }
}

/// A binomial tree: in round k the ranks below distance 2^k from the root reach those 2^k further.
pub(super) fn broadcast(plan: &mut MeshPlan, shape: &Shape, root: usize) {
    let (n, len) = (shape.world, shape.bytes());
    let distance = (shape.rank + n - root) % n;
    let mut reach = 1;
    let mine = if distance == 0 {
        plan.copies.push((input(0), output(0), len));
        (input(0), Gate::Open)
    } else {
        reach = 2 << distance.ilog2();
        let parent = shape.before(1 << distance.ilog2());
        (output(0), Gate::Arrived(plan.store(parent, output(0), len, Gate::Open)))
    };
    while distance + reach < n {
        plan.send(shape.after(reach), mine.0, len, mine.1);
        reach *= 2;
    }
}

/// Directly to every rank.
pub(super) fn all_gather(plan: &mut MeshPlan, shape: &Shape) {
    let len = shape.bytes();
    plan.copies.push((input(0), output(shape.rank * len), len));
    for distance in 1..shape.world {
        plan.send(shape.after(distance), input(0), len, Gate::Open);
        let from = shape.before(distance);
        plan.store(from, output(from * len), len, Gate::Open);
    }
}
