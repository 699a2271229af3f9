//! GSO packets that are lost, as between virtual interfaces behind which a packet socket or a program receives them whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netfold::{Mode, ReduceOp};
use netfold_io::{IoError, Middleware, PacketIo, Transmit};

use crate::support::{builder, switch};

/// Loses what the transport would send as one GSO packet: all of several datagrams that it is offered at once, while GSO is allowed.
struct BatchesLost {
    io: Box<dyn PacketIo>,
    allowed: bool,
    /// Packets that were lost.
    lost: Arc<AtomicU64>,
}

impl Middleware for BatchesLost {
    type Inner = Box<dyn PacketIo>;

    fn inner(&self) -> &Self::Inner {
        &self.io
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut self.io
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        if self.allowed && packets.len() > 1 {
            self.lost.fetch_add(packets.len() as u64, Ordering::Relaxed);
            return Ok(packets.len());
        }
        PacketIo::transmit(&mut self.io, memory, packets)
    }

    fn set_segmentation(&mut self, allowed: bool) {
        self.allowed = allowed;
    }
}

/// Each operation is as long as the window, so that all ranks send everything at once, and retry GSO in the same operation.
#[test]
fn ranks_whose_batches_are_all_lost_make_progress() {
    const WORLD: u16 = 4;
    const SLOTS: u32 = 64;
    const OPERATIONS: u32 = 1200;
    const WINDOWS_MAX: f64 = 12.0;
    let (spokes, switch) = switch(WORLD);
    std::thread::scope(|scope| {
        for (rank, io) in (0..WORLD).zip(spokes) {
            scope.spawn(move || {
                let lost = Arc::new(AtomicU64::new(0));
                let counter = Arc::clone(&lost);
                let wrap = move |io| Box::new(BatchesLost { io, allowed: true, lost: counter }) as _;
                let comm = builder(io, rank, WORLD, Mode::Bfp32, SLOTS).middleware(wrap).connect().unwrap();
                for _ in 0..OPERATIONS {
                    let mut tensor = vec![f32::from(rank); 64 * SLOTS as usize];
                    comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                    assert!(tensor.iter().all(|sum| *sum == 6.0));
                }
                let windows = lost.load(Ordering::Relaxed) as f64 / f64::from(SLOTS);
                println!("rank {rank}: {windows} windows were lost");
                assert!(windows <= WINDOWS_MAX, "{windows} windows were lost");
                comm.leave().unwrap();
            });
        }
    });
    switch.join().unwrap();
}
