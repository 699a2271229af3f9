//! Fewest bytes: rings and chains that forward while they receive.

use super::{Gate, MeshPlan, Shape, input, output, scratch};

/// Parts of the scratch memory used in turn by a rank that only forwards.
const SLOTS: usize = 2;
/// Bytes of a message in a chain of reductions; a multiple of every element's size.
const SEGMENT: usize = 256 * 1024;

/// A ring in two turns (Patarasuk and Yuan 2009): 2 (n - 1) / n of the tensor leave every rank, which is the least there is.
///
/// First turn: part r goes from rank r to r + 1, which folds its own into it and passes it on; it is complete at rank r - 1.
/// Second turn: complete parts go round. What the second turn overwrites has been sent, because the complete part holds it.
pub(super) fn all_reduce(plan: &mut MeshPlan, shape: &Shape) {
    let (n, next, previous) = (shape.world, shape.after(1), shape.before(1));
    let mut latest = Gate::Open;
    for step in 0..n - 1 {
        let (at, len) = shape.part(shape.before(step));
        let from = if step == 0 { input(at) } else { output(at) };
        plan.send(next, from, len, latest);
        let (at, len) = shape.part(shape.before(step + 1));
        latest = Gate::Arrived(plan.fold(previous, (input(at), output(at)), len, step == n - 2, Gate::Open));
    }
    for step in 0..n - 1 {
        let (at, len) = shape.part((shape.before(step) + 1) % n);
        plan.send(next, output(at), len, latest);
        let (at, len) = shape.part(shape.before(step));
        latest = Gate::Arrived(plan.store(previous, output(at), len, Gate::Open));
    }
}

/// One turn of a ring that ends with part r at rank r. Parts that only pass lie in scratch memory.
pub(super) fn reduce_scatter(plan: &mut MeshPlan, shape: &Shape) {
    let (n, next, previous, len) = (shape.world, shape.after(1), shape.before(1), shape.bytes());
    plan.scratch = len * SLOTS.min(n - 2);
    let mut mine = (input(shape.before(1) * len), Gate::Open);
    for step in 0..n - 1 {
        plan.send(next, mine.0, len, mine.1);
        let with = input(shape.before(step + 2) * len);
        let is_last = step == n - 2;
        let into = if is_last { output(0) } else { scratch(step % SLOTS * len) };
        // The slot is free once what it held was sent, one step after it came.
        let free = if is_last || step < SLOTS { Gate::Open } else { Gate::Sent(step + 1 - SLOTS) };
        mine = (into, Gate::Arrived(plan.fold(previous, (with, into), len, is_last, free)));
    }
}

/// Every rank's part goes round once.
pub(super) fn all_gather(plan: &mut MeshPlan, shape: &Shape) {
    let (next, previous, len) = (shape.after(1), shape.before(1), shape.bytes());
    plan.copies.push((input(0), output(shape.rank * len), len));
    let mut mine = (input(0), Gate::Open);
    for step in 0..shape.world - 1 {
        plan.send(next, mine.0, len, mine.1);
        let into = output(shape.before(step + 1) * len);
        mine = (into, Gate::Arrived(plan.store(previous, into, len, Gate::Open)));
    }
}

/// A chain from the rank after the root round to the root, a segment at a time.
pub(super) fn reduce(plan: &mut MeshPlan, shape: &Shape, root: usize) {
    let (next, previous, len) = (shape.after(1), shape.before(1), shape.bytes());
    let is_first = previous == root;
    let is_root = shape.rank == root;
    plan.scratch = if is_first || is_root { 0 } else { 2 * SLOTS * SEGMENT };
    let first_send = plan.sends.len();
    for (index, at) in (0..len).step_by(SEGMENT).enumerate() {
        let piece = SEGMENT.min(len - at);
        if is_root {
            plan.fold(previous, (input(at), output(at)), piece, true, Gate::Open);
        } else if is_first {
            plan.send(next, input(at), piece, Gate::Open);
        } else {
            let slot = scratch(index % (2 * SLOTS) * SEGMENT);
            let free =
                if index < 2 * SLOTS { Gate::Open } else { Gate::Sent(first_send + index - 2 * SLOTS) };
            let arrival = plan.fold(previous, (input(at), slot), piece, false, free);
            plan.send(next, slot, piece, Gate::Arrived(arrival));
        }
    }
}

/// A chain from the root round to the rank before it.
pub(super) fn broadcast(plan: &mut MeshPlan, shape: &Shape, root: usize) {
    let (next, previous, len) = (shape.after(1), shape.before(1), shape.bytes());
    if shape.rank == root {
        plan.copies.push((input(0), output(0), len));
        plan.send(next, input(0), len, Gate::Open);
    } else {
        let arrival = plan.store(previous, output(0), len, Gate::Open);
        if next != root {
            plan.send(next, output(0), len, Gate::Arrived(arrival));
        }
    }
}

/// Directly to every rank, each beginning with its successor.
pub(super) fn all_to_all(plan: &mut MeshPlan, shape: &Shape) {
    let (n, len) = (shape.world, shape.bytes());
    // In place, arrivals overwrite what has still to be sent.
    let source = if shape.in_place {
        plan.scratch = n * len;
        plan.copies.push((input(0), scratch(0), n * len));
        scratch
    } else {
        plan.copies.push((input(shape.rank * len), output(shape.rank * len), len));
        input
    };
    for distance in 1..n {
        let (to, from) = (shape.after(distance), shape.before(distance));
        plan.send(to, source(to * len), len, Gate::Open);
        plan.store(from, output(from * len), len, Gate::Open);
    }
}
