//! A job that stalls because the packets of one rank, or results to it, are lost: the control port finds which.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use netfold::{Communicator, ReduceOp};
use netfold_controller::JobEvent;
use netfold_embedded::EmbeddedSwitch;
use netfold_io::{IoError, PacketIo, RxBatch, Transmit};
use netfold_testkit::job::on_all_ranks;

use crate::TIMEOUT;

const WORLD: u16 = 3;

/// The rank whose packets are lost.
const CUT: u16 = 1;

/// Which packets of a rank are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Sent,
    Received,
}

/// Packet I/O that loses all packets of one direction once it is told to.
struct Cut {
    io: Box<dyn PacketIo>,
    direction: Direction,
    lose: Arc<AtomicBool>,
}

impl Cut {
    fn loses(&self, direction: Direction) -> bool {
        self.direction == direction && self.lose.load(Ordering::Relaxed)
    }
}

impl netfold_io::Middleware for Cut {
    type Inner = dyn PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.io
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.io
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        self.inner_mut().receive(batch)?;
        if self.loses(Direction::Received) {
            batch.clear();
        }
        Ok(batch.len())
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        if self.loses(Direction::Sent) {
            Ok(packets.len())
        } else {
            self.inner_mut().transmit(memory, packets)
        }
    }
}

/// The first stall of a job one of whose ranks is cut off in one direction: the ranks that have not contributed, and the conclusion.
fn stall(direction: Direction) -> (Vec<u16>, String) {
    let (events, stalls) = mpsc::channel();
    let note = move |event: &JobEvent| {
        if let JobEvent::Stalled { missing, conclusion, .. } = event {
            // The test may have ended.
            let _ = events.send((missing.clone(), conclusion.clone()));
        }
    };
    let switch = EmbeddedSwitch::builder().on_event(note).start().unwrap();
    let address = switch.control();
    let lose = Arc::<AtomicBool>::default();
    let rank = |rank: u16| {
        let builder = Communicator::builder()
            .job("cut")
            .rank(rank)
            .world_size(WORLD)
            .slots(16)
            .switch(address)
            .unwrap()
            .join_timeout(TIMEOUT);
        let builder = if rank == CUT {
            let lose = Arc::clone(&lose);
            builder.middleware(move |io| Box::new(Cut { io, direction, lose }) as _)
        } else {
            builder
        };
        let comm = builder.connect().unwrap();
        let mut tensor = vec![1_i32; 100_000];
        comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
        if rank == CUT {
            // It has this result; later ones are lost. Other ranks may have had it before.
            lose.store(true, Ordering::Relaxed);
        }
        while comm.all_reduce(&mut tensor, ReduceOp::Sum).is_ok() {}
    };
    on_all_ranks(WORLD, rank);
    let (missing, conclusion) = stalls.recv_timeout(TIMEOUT).unwrap();
    switch.stop().unwrap();
    (missing.map(|(_, ranks)| ranks).unwrap_or_default(), conclusion)
}

#[test]
fn a_rank_whose_packets_are_lost_is_named() {
    let (missing, conclusion) = stall(Direction::Sent);
    assert_eq!(missing, [CUT], "{conclusion}");
    assert!(conclusion.starts_with("rank 1 has not contributed to chunk"), "{conclusion}");
    assert!(conclusion.contains("receives nothing from its switch"), "{conclusion}");
}

#[test]
fn a_rank_that_receives_no_results_is_named() {
    let (missing, conclusion) = stall(Direction::Received);
    // Ranks may be as far as each other when results are lost: then no contribution is missing.
    assert!(missing == [CUT] || missing.is_empty(), "{missing:?}: {conclusion}");
    assert!(
        conclusion.contains("rank 1") && conclusion.contains("results are lost on the way"),
        "{conclusion}"
    );
}
