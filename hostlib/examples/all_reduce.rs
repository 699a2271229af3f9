//! One rank of a job that sums a tensor over all ranks.
//!
//! Start a switch with `netfold switch --listen 127.0.0.1:20038`, then one of these for each rank:
//!
//! ```text
//! cargo run --release -p netfold --example all_reduce -- 127.0.0.1:20038 0 2
//! cargo run --release -p netfold --example all_reduce -- 127.0.0.1:20038 1 2
//! ```

use std::error::Error;

use netfold::{Communicator, Mode, ReduceOp};

const ELEMENTS: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(switch), Some(rank), Some(world)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: all_reduce SWITCH RANK WORLD_SIZE".into());
    };
    let (rank, world): (u16, u16) = (rank.parse()?, world.parse()?);
    let comm = Communicator::builder()
        .job("example")
        .rank(rank)
        .world_size(world)
        .switch(switch)?
        .mode(Mode::Bfp16)
        .connect()?;

    let mut tensor: Vec<f32> = (0..ELEMENTS).map(|i| (i % 100) as f32 * f32::from(rank + 1)).collect();
    let report = comm.all_reduce(&mut tensor, ReduceOp::Sum)?;
    println!("{} elements in {} packets, {:?}", report.elements, report.chunks, report.elapsed);
    println!("element 99: {} (exact sum {})", tensor[99], 99 * (1..=u32::from(world)).sum::<u32>());
    println!(
        "{} packets sent, {} of them retransmitted",
        comm.stats().worker.sent,
        comm.stats().worker.retransmitted
    );
    comm.leave()?;
    Ok(())
}
