//! Workers that join through the test's own controller, with switches of this process behind it: it fails and restarts,
//! connections break, switches are lost and rejoined, and every element is correct.

mod authenticated;
mod confidential;
mod dropping;
mod losses;
mod sessions;
mod shares;
mod test_controller;
mod tls;
mod trees;

use std::net::SocketAddr;

use netfold::{Builder, Communicator};
use netfold_io::vacant_address;
use netfold_testkit::job::on_all_ranks;

use crate::TIMEOUT;

/// Runs `rank` on every rank of a job of threads, each built by `build`.
fn job<R: Send>(
    world: u16,
    controller: SocketAddr,
    build: impl Fn(Builder) -> Builder + Sync,
    rank: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    on_all_ranks(world, |number| rank(build(builder(controller, number, world)).connect().unwrap()))
}

/// The same for ranks that are connected to each other, and can continue without a switch.
fn linked_job<R: Send>(
    world: u16,
    controller: SocketAddr,
    build: impl Fn(Builder) -> Builder + Sync,
    rank: impl Fn(Communicator) -> R + Sync,
) -> Vec<R> {
    let at = vacant_address().unwrap();
    job(world, controller, |builder| build(builder.rendezvous(at).unwrap()), rank)
}

fn builder(controller: SocketAddr, rank: u16, world: u16) -> Builder {
    Communicator::builder()
        .job("controlled")
        .rank(rank)
        .world_size(world)
        .slots(64)
        .join_timeout(TIMEOUT)
        .stall_timeout(TIMEOUT)
        .shared_memory(false)
        .controller(controller)
        .unwrap()
}

/// Rank `rank`'s element `index` of operation `step`: whole numbers, so that sums are exact on every path.
fn value(rank: u16, step: usize, index: usize) -> f32 {
    (usize::from(rank) * 3 + step % 1000 + index % 101) as f32
}

fn tensor(rank: u16, step: usize, len: usize) -> Vec<f32> {
    (0..len).map(|index| value(rank, step, index)).collect()
}

/// Elements that are not the sum over all ranks.
fn wrong(tensor: &[f32], world: u16, step: usize) -> usize {
    let expected = |index| (0..world).map(|rank| value(rank, step, index)).sum::<f32>();
    tensor.iter().enumerate().filter(|(index, sum)| **sum != expected(*index)).count()
}
