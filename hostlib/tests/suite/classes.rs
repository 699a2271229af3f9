//! Classes of operations: streams of their own, of which the highest goes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use netfold::{AsyncHandle, Builder, Call, Collective, Communicator, DType, Element, Mode, ReduceOp};
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::{IoError, Middleware, PacketIo, Paused, Transmit};
use netfold_wire::Packet;

use crate::support::{builder, switch};

/// Runs `body` on every rank of a job of so many classes over paths that lose, repeat, delay and reorder.
fn job(world: u16, slots: u32, classes: u8, faults: Option<&str>, body: impl Fn(&Communicator) + Sync) {
    let (spokes, switch) = switch(world);
    thread::scope(|scope| {
        for (rank, io) in (0..world).zip(spokes) {
            let body = &body;
            scope.spawn(move || {
                let mut builder: Builder = builder(io, rank, world, Mode::Bfp32, slots).classes(classes);
                if let Some(faults) = faults {
                    let config: FaultConfig = format!("seed={rank},{faults}").parse().unwrap();
                    builder = builder.middleware(move |io| Box::new(Faulty::new(io, config)) as _);
                }
                let comm = builder.connect().unwrap();
                body(&comm);
                comm.leave().unwrap();
            });
        }
    });
    switch.join().unwrap();
}

fn tensor(rank: u16, step: usize) -> Vec<i32> {
    (0..1 + step * 97 % 4000).map(|index| i32::from(rank) * 1_000_003 + (step * 31 + index) as i32).collect()
}

#[test]
fn operations_of_all_classes_are_right_whatever_happens_to_packets() {
    for (classes, slots) in [(2u8, 16), (4, 64), (16, 16)] {
        let world = 3;
        let faults = Some("loss=0.03,duplicate=0.03,reorder=0.05,delay=0us..300us");
        job(world, slots, classes, faults, |comm| {
            let start = |step: usize| {
                let class = (step * 7 % usize::from(classes)) as u8;
                comm.all_reduce_in_class(tensor(comm.rank(), step), ReduceOp::Sum, class).unwrap()
            };
            let handles: Vec<AsyncHandle<i32>> = (0..60).map(start).collect();
            for (step, handle) in handles.into_iter().enumerate() {
                let mut expected = tensor(0, step);
                for rank in 1..world {
                    expected.iter_mut().zip(tensor(rank, step)).for_each(|(sum, one)| *sum += one);
                }
                assert_eq!(handle.wait().unwrap().0, expected, "operation {step} of {classes} classes");
            }
            assert!(comm.stats().worker.retransmitted > 0, "packets were lost");
            assert_eq!(comm.stats().worker.ops_done, 60, "of all classes together");
        });
    }
}

/// What a backward pass does: large tensors first, and at last the small one that the next forward pass wants first.
#[test]
fn a_higher_class_overtakes_in_the_middle() {
    job(2, 32, 2, None, |comm| {
        let low: Vec<_> = (0..4)
            .map(|_| comm.all_reduce_in_class(vec![1i32; 2_000_000], ReduceOp::Sum, 0).unwrap())
            .collect();
        let urgent = comm.all_reduce_in_class(vec![3i32; 100], ReduceOp::Sum, 1).unwrap();
        assert_eq!(urgent.wait().unwrap().0, [6; 100]);
        assert!(!low[3].is_done(), "tens of thousands of packets of a lower class were before it");
        for low in low {
            assert_eq!(low.wait().unwrap().0, vec![2; 2_000_000]);
        }
    });
}

/// The highest class has much to do for longer than anything may stall.
#[test]
fn a_class_that_waits_behind_others_has_not_stalled() {
    let world = 2;
    let (spokes, switch) = switch(world);
    thread::scope(|scope| {
        for (rank, io) in (0..world).zip(spokes) {
            scope.spawn(move || {
                let builder = builder(io, rank, world, Mode::Bfp32, 16).classes(2);
                let comm = builder.stall_timeout(Duration::from_millis(1500)).connect().unwrap();
                // Rank 0 waits in the low class; rank 1 submits to it after two seconds in the high one.
                let low = || comm.all_reduce_in_class(vec![1i32; 1000], ReduceOp::Sum, 0).unwrap();
                let waiting = (rank == 0).then(low);
                for _ in 0..100 {
                    let high = comm.all_reduce_in_class(vec![1i32; 100], ReduceOp::Sum, 1).unwrap();
                    assert_eq!(high.wait().unwrap().0[0], 2);
                    thread::sleep(Duration::from_millis(20));
                }
                let low = waiting.unwrap_or_else(low);
                assert_eq!(low.wait().unwrap().0, [2; 1000]);
                comm.leave().unwrap();
            });
        }
    });
    switch.join().unwrap();
}

#[test]
fn classes_are_checked() {
    fn kind_of<T: Element>(comm: &Communicator, tensor: Vec<T>, class: u8) -> (String, &'static str) {
        let error = comm.all_reduce_in_class(tensor, ReduceOp::Sum, class).map(drop).unwrap_err();
        assert!(!error.ends_the_job());
        (error.to_string(), error.kind())
    }
    job(1, 4, 4, None, |comm| {
        let (message, kind) = kind_of(comm, vec![1i32], 4);
        assert_eq!(
            (kind, message.contains("class 4 in a communicator with 4")),
            ("argument", true),
            "{message}"
        );
        let barrier = Call::BARRIER.in_class(9);
        assert_eq!(barrier.class, 9);
        assert_eq!(Call::new(Collective::AllReduce, DType::I32, ReduceOp::Sum, 1).class, 0);
    });
    for classes in [0, 3, 32] {
        let (mut spokes, switch) = switch(1);
        let builder = builder(spokes.remove(0), 0, 1, Mode::Bfp32, 4).classes(classes);
        let error = builder.connect().map(drop).unwrap_err();
        assert!(error.to_string().contains("expected a power of two, at most 16"), "{error}");
        switch.join().unwrap();
    }
    // As many slots as were granted, not as many as were asked for.
    let (mut spokes, switch) = switch(1);
    let error = builder(spokes.remove(0), 0, 1, Mode::Bfp32, 4).classes(8).connect().map(drop).unwrap_err();
    assert_eq!(error.kind(), "control", "{error}");
    switch.join().unwrap();
}

/// A neighbour that asks for pauses, and counts what of the paused classes is sent all the same.
struct Pausing<B> {
    inner: B,
    priorities: Arc<AtomicU8>,
    disobeyed: Arc<AtomicU64>,
}

impl<B: PacketIo> Middleware for Pausing<B> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut B {
        &mut self.inner
    }

    fn paused(&mut self) -> Paused {
        Paused { priorities: self.priorities.load(Ordering::SeqCst), left: Duration::from_millis(1) }
    }

    fn transmit(&mut self, memory: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        let paused = Middleware::paused(self);
        let class =
            |packet: &Transmit| packet.bytes(memory).map(|bytes| Packet::new_unchecked(bytes).class());
        let held = packets.iter().filter_map(class).filter(|class| paused.holds(*class)).count();
        self.disobeyed.fetch_add(held as u64, Ordering::SeqCst);
        self.inner_mut().transmit(memory, packets)
    }
}

#[test]
fn operations_of_paused_classes_wait_and_others_go_on() {
    let (mut spokes, switch) = switch(1);
    let io = spokes.remove(0);
    let (priorities, disobeyed) = (Arc::new(AtomicU8::new(0b1111)), Arc::new(AtomicU64::new(0)));
    let shared = (Arc::clone(&priorities), Arc::clone(&disobeyed));
    let wrap = move |inner| Box::new(Pausing { inner, priorities: shared.0, disobeyed: shared.1 }) as _;
    let comm =
        builder(io, 0, 1, Mode::Bfp32, 16).classes(2).importance(4).middleware(wrap).connect().unwrap();
    let low = comm.all_reduce_in_class(vec![1.5f32; 10_000], ReduceOp::Sum, 0).unwrap();
    for _ in 0..3 {
        let high = comm.all_reduce_in_class(vec![2.5f32; 10_000], ReduceOp::Sum, 1).unwrap();
        assert_eq!(high.wait().unwrap().0, vec![2.5; 10_000]);
    }
    assert!(!low.is_done());
    assert_eq!(disobeyed.load(Ordering::SeqCst), 0, "nothing of a paused class is sent");
    priorities.store(0, Ordering::SeqCst);
    assert_eq!(low.wait().unwrap().0, vec![1.5; 10_000]);
    comm.leave().unwrap();
    switch.join().unwrap();
}
