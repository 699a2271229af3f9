//! Callers that block turn the engine: with operations of other callers beside them, errors, panics and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use netfold::{Communicator, Error, Mode, ReduceOp};
use netfold_io::{IoError, Middleware, PacketIo, RxBatch};

use crate::support::{builder, job, switch};

/// Packet I/O that counts calls of the thread that made it, and can break.
struct Watched {
    io: Box<dyn PacketIo>,
    caller: thread::ThreadId,
    calls: Arc<AtomicU64>,
    broken: Arc<AtomicU64>,
}

impl Middleware for Watched {
    type Inner = dyn PacketIo;

    fn inner(&self) -> &Self::Inner {
        &*self.io
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.io
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if thread::current().id() == self.caller {
            self.calls.fetch_add(1, Ordering::Relaxed);
            match self.broken.load(Ordering::Relaxed) {
                0 => {}
                1 => return Err(IoError::PeerClosed),
                _ => panic!("a test's panic"),
            }
        }
        self.inner_mut().receive(batch)
    }
}

/// One rank, whose calls by this thread are counted; and what breaks its next ones.
fn watched() -> (Communicator, Arc<AtomicU64>, Arc<AtomicU64>, thread::JoinHandle<()>) {
    let (mut spokes, switch) = switch(1);
    let (calls, broken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let watched = (Arc::clone(&calls), Arc::clone(&broken));
    let caller = thread::current().id();
    let wrap = move |io| {
        let (calls, broken) = watched;
        Box::new(Watched { io, caller, calls, broken }) as Box<dyn PacketIo>
    };
    let comm = builder(spokes.remove(0), 0, 1, Mode::Bfp32, 16).middleware(wrap).connect().unwrap();
    (comm, calls, broken, switch)
}

/// Blocks until this thread has turned the engine.
fn drive(comm: &Communicator, calls: &AtomicU64) {
    let before = calls.load(Ordering::Relaxed);
    while calls.load(Ordering::Relaxed) == before {
        comm.all_reduce(&mut [1.0_f32; 100], ReduceOp::Sum).unwrap();
    }
}

#[test]
fn a_caller_that_blocks_turns_the_engine() {
    let (comm, calls, _, switch) = watched();
    drive(&comm, &calls);
    comm.leave().unwrap();
    switch.join().unwrap();
}

#[test]
fn operations_of_other_callers_go_on_beside_a_caller_that_turns_the_engine() {
    job(3, Mode::Bfp32, 16, |comm| {
        for round in 0..200_usize {
            let mut first = Some(comm.all_reduce_async(vec![1.0_f32; 1 + round * 7], ReduceOp::Sum).unwrap());
            if round % 3 == 0 {
                assert_eq!(first.take().unwrap().wait().unwrap().0, vec![3.0; 1 + round * 7]);
            }
            let mut tensor = [2_i32; 200];
            comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
            assert_eq!(tensor, [6; 200]);
            let last = comm.all_reduce_async(vec![round as f32; 300], ReduceOp::Sum).unwrap();
            assert_eq!(last.wait().unwrap().0, vec![3.0 * round as f32; 300]);
            if let Some(first) = first {
                assert_eq!(first.wait().unwrap().0, vec![3.0; 1 + round * 7]);
            }
        }
        comm.leave().unwrap();
    });
}

#[test]
fn polling_gives_the_same_results() {
    let (spokes, switch) = switch(2);
    thread::scope(|scope| {
        for (rank, io) in (0..2).zip(spokes) {
            scope.spawn(move || {
                let builder = builder(io, rank, 2, Mode::Bfp32, 16).busy_poll(Duration::from_micros(50));
                let comm = builder.connect().unwrap();
                for round in 0..100 {
                    let mut tensor = vec![round as f32; 100];
                    comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
                    assert_eq!(tensor, vec![2.0 * round as f32; 100]);
                }
                comm.leave().unwrap();
            });
        }
    });
    switch.join().unwrap();
}

#[test]
fn what_fails_under_a_caller_ends_the_job() {
    let (comm, calls, broken, switch) = watched();
    drive(&comm, &calls);
    broken.store(1, Ordering::Relaxed);
    // The thread itself is not affected: it may execute calls until this thread turns the engine again.
    let error = (0..).find_map(|_| comm.all_reduce(&mut [1.0_f32; 100], ReduceOp::Sum).err());
    assert!(matches!(error, Some(Error::SwitchLost { .. })), "{error:?}");
    assert!(comm.all_reduce(&mut [1.0_f32; 100], ReduceOp::Sum).is_err());
    drop(comm);
    switch.join().unwrap();
}

#[test]
fn a_panic_under_a_caller_ends_the_job() {
    let (comm, calls, broken, switch) = watched();
    drive(&comm, &calls);
    broken.store(2, Ordering::Relaxed);
    let mut tensor = [1.0_f32; 100];
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        while comm.all_reduce(&mut tensor, ReduceOp::Sum).is_ok() {}
    }));
    assert!(outcome.is_err(), "the panic reaches the caller");
    let after = comm.all_reduce(&mut tensor, ReduceOp::Sum);
    assert_eq!(after, Err(Error::EngineFailed));
    drop(comm);
    switch.join().unwrap();
}

#[test]
fn an_abort_ends_a_call_that_turns_the_engine() {
    let (spokes, switch) = switch(2);
    let mut spokes = spokes.into_iter();
    let lonely = builder(spokes.next().unwrap(), 0, 2, Mode::Bfp32, 16).connect().unwrap();
    let other = builder(spokes.next().unwrap(), 1, 2, Mode::Bfp32, 16).connect().unwrap();
    thread::scope(|scope| {
        let calls = scope.spawn(|| (0..50).for_each(|_| assert!(lonely.barrier().is_ok())));
        (0..50).for_each(|_| assert!(other.barrier().is_ok()));
        calls.join().unwrap();
        // The other rank does not call, so this waits until the abort.
        let waiting = scope.spawn(|| lonely.barrier());
        thread::sleep(Duration::from_millis(20));
        lonely.abort();
        assert_eq!(waiting.join().unwrap(), Err(Error::Interrupted));
    });
    drop((lonely, other));
    switch.join().unwrap();
}
