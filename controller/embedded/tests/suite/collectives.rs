//! Collectives at a switch: each moves the bytes that it needs, and no element is wrong.

use netfold::{Communicator, Mode, ReduceOp};
use netfold_embedded::EmbeddedSwitch;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_testkit::job::on_all_ranks;

use crate::TIMEOUT;

const WORLD: u16 = 4;

/// Bytes of a tensor of each rank: 1 MiB.
const TENSOR_BYTES: usize = 1 << 20;

/// A collective on 1 MiB; the number of wrong elements.
type Operation = fn(&Communicator) -> usize;

/// Rank `rank`'s element, of any number of bits.
fn value(rank: u16, index: usize) -> i32 {
    (index as i32).wrapping_mul(0x9e37_79b1_u32.cast_signed()).wrapping_add(i32::from(rank) << 20)
}

fn tensor(rank: u16, len: usize) -> Vec<i32> {
    (0..len).map(|index| value(rank, index)).collect()
}

fn wrong(found: &[i32], expected: impl Fn(usize) -> i32) -> usize {
    found.iter().enumerate().filter(|(index, value)| **value != expected(*index)).count()
}

fn sum(index: usize) -> i32 {
    (0..WORLD).fold(0, |sum, rank| sum.wrapping_add(value(rank, index)))
}

fn all_reduce(comm: &Communicator) -> usize {
    let mut tensor = tensor(comm.rank(), TENSOR_BYTES / 4);
    comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
    wrong(&tensor, sum)
}

fn reduce(comm: &Communicator) -> usize {
    let mut tensor = tensor(comm.rank(), TENSOR_BYTES / 4);
    comm.reduce(&mut tensor, ReduceOp::Sum, 2).unwrap();
    if comm.rank() == 2 { wrong(&tensor, sum) } else { 0 }
}

fn reduce_scatter(comm: &Communicator) -> usize {
    let mut part = vec![0; TENSOR_BYTES / 4 / usize::from(WORLD)];
    comm.reduce_scatter(&tensor(comm.rank(), TENSOR_BYTES / 4), &mut part, ReduceOp::Sum).unwrap();
    let first = usize::from(comm.rank()) * part.len();
    wrong(&part, |index| sum(first + index))
}

fn all_gather(comm: &Communicator) -> usize {
    let mut all = vec![0; TENSOR_BYTES / 4];
    let part = all.len() / usize::from(WORLD);
    comm.all_gather(&tensor(comm.rank(), part), &mut all).unwrap();
    wrong(&all, |index| value((index / part) as u16, index % part))
}

fn broadcast(comm: &Communicator) -> usize {
    let mut tensor = tensor(comm.rank(), TENSOR_BYTES / 4);
    comm.broadcast(&mut tensor, 1).unwrap();
    wrong(&tensor, |index| value(1, index))
}

/// Runs a collective at a switch of its own, behind so much loss; bytes that the switch received and sent, and packets that ranks retransmitted.
fn bytes(loss: f64, run: Operation) -> (u64, u64, u64) {
    let lossy = move |io| Ok(Box::new(Faulty::new(io, FaultConfig::with_loss(7, loss))) as _);
    let switch = EmbeddedSwitch::builder().middleware(lossy).start().unwrap();
    let control = switch.control();
    let outcomes = on_all_ranks(WORLD, |rank| {
        let builder = Communicator::builder().job("collectives").rank(rank).world_size(WORLD).slots(64);
        let builder = builder.mode(Mode::I32).stall_timeout(TIMEOUT).switch(control).unwrap();
        let comm = builder.connect().unwrap();
        let wrong = run(&comm);
        let retransmitted = comm.stats().worker.retransmitted;
        comm.leave().unwrap();
        (wrong, retransmitted)
    });
    assert!(outcomes.iter().all(|(wrong, _)| *wrong == 0), "{outcomes:?}");
    let io = switch.stop().unwrap().io;
    (io.rx_bytes, io.tx_bytes, outcomes.iter().map(|(_, retransmitted)| retransmitted).sum())
}

/// Most bytes that one tensor's lanes take, with headers, descriptors and the headers of those who send or receive no lanes.
const ONE: u64 = 1_200_000;
/// The same of the tensors of all ranks.
const ALL: u64 = 4 * 1_100_000;

/// Bytes of a datagram with lanes.
const PACKET: u64 = 32 + 1408;

#[test]
fn each_collective_moves_the_bytes_that_it_needs() {
    let collectives: [(&str, Operation, u64, u64); 5] = [
        ("all-reduce", all_reduce, ALL, ALL),
        ("reduce", reduce, ALL, ONE),
        ("reduce-scatter", reduce_scatter, ALL, ONE),
        ("all-gather", all_gather, ONE, ALL),
        ("broadcast", broadcast, ONE, ALL),
    ];
    for (name, run, received_max, sent_max) in collectives {
        for loss in [0.0, 0.01] {
            let (received, sent, retransmitted) = bytes(loss, run);
            println!(
                "{name} at {loss} loss: {received} bytes received by the switch, {sent} sent, {retransmitted} retransmissions"
            );
            // A retransmission, whose number depends on how busy the machine is, has at most a packet's lanes, and so does its reply.
            let again = PACKET * retransmitted;
            assert!(
                received <= received_max + again && sent <= sent_max + again,
                "{name} at {loss} loss: {received} and {sent} bytes, {retransmitted} retransmissions"
            );
        }
    }
}
