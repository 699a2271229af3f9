//! Collectives on device memory, on a driver that executes everything late and in any order that it may.
#![expect(unsafe_code, reason = "vouches for the memory of a device")]

use std::sync::Barrier;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use netfold::{Call, Collective, Communicator, CudaError, CudaStream, DType, Error, Mode, ReduceOp};
use netfold_fake_cuda::{Failing, FakeDevice, Options, Wait, driver};

use crate::support::{self, HANG_GUARD};

/// Runs `body` on every rank of a job in parallel; all of them use the fake driver.
fn job<R: Send>(world: u16, body: impl Fn(Communicator) -> R + Send + Sync) -> Vec<R> {
    let (spokes, switch) = support::switch(world);
    let results = std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..world)
            .zip(spokes)
            .map(|(rank, io)| {
                let body = &body;
                let builder = support::builder(io, rank, world, Mode::Bfp32, 64).cuda_driver(driver());
                scope.spawn(move || body(builder.connect().unwrap()))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    switch.join().unwrap();
    results
}

/// The bytes of a rank's input to operation `number`.
fn input(dtype: DType, rank: u16, number: usize, elements: usize) -> Vec<u8> {
    let value = |at: usize| {
        let mix = (at + 31 * number).wrapping_mul(2_654_435_761).wrapping_add(usize::from(rank) * 77);
        (mix >> 7 & 0xFFFF) as i32 - 0x8000
    };
    let mut bytes = Vec::with_capacity(elements * 4);
    for at in 0..elements {
        match dtype {
            DType::F32 => bytes.extend((value(at) as f32 / 64.0).to_ne_bytes()),
            _ => bytes.extend(value(at).to_ne_bytes()),
        }
    }
    bytes
}

/// A call in flight, and how its output is read.
struct InFlight {
    number: usize,
    call: Call,
    output: Receiver<Vec<u8>>,
}

/// A rank's device, with one stream of its own.
struct Rank {
    comm: Communicator,
    device: FakeDevice,
    stream: CudaStream,
}

impl Rank {
    fn new(comm: Communicator, options: Options) -> Self {
        let device = FakeDevice::take(Options { seed: options.seed + u64::from(comm.rank()), ..options });
        let stream = device.stream();
        Self { comm, device, stream }
    }

    fn lengths(&self, call: &Call) -> (usize, usize) {
        (call.input_len(self.comm.world_size()), call.output_len(self.comm.world_size()))
    }

    /// Starts a call in a stream of its own, whose input a kernel is about to write, and has another kernel read the output.
    fn start(&self, number: usize, call: Call, kernel: Duration) -> InFlight {
        let (sent, received) = self.lengths(&call);
        let send = self.device.allocate(sent * 4);
        let apart = sent != received;
        let recv = if apart { self.device.allocate(received * 4) } else { send };
        let bytes = input(call.dtype, self.comm.rank(), number, sent);
        // Calls do not wait for each other.
        let stream = self.device.stream();
        self.device.write(stream, send, bytes, kernel);
        // SAFETY: the memory is never freed.
        let work = unsafe { self.comm.submit_cuda(&call, send, recv, stream) }.unwrap();
        // SAFETY: the stream is never destroyed.
        unsafe { work.make_wait(stream) }.unwrap();
        InFlight { number, call, output: self.device.read(stream, recv, received * 4) }
    }

    /// What the same call returns on memory of the host.
    fn on_host(&self, number: usize, call: &Call) -> Vec<u8> {
        let (sent, received) = self.lengths(call);
        let mut send = input(call.dtype, self.comm.rank(), number, sent);
        let mut recv = vec![0u8; received * 4];
        let recv = if sent == received { send.as_mut_ptr() } else { recv.as_mut_ptr() };
        // SAFETY: both have the lengths of the call, and `run` waits for its end.
        unsafe {
            self.comm.run(call, send.as_ptr(), recv).unwrap();
            std::slice::from_raw_parts(recv, received * 4).to_vec()
        }
    }

    /// Whether the output of a call is that on memory of the host.
    fn is_right(&self, started: &InFlight) -> bool {
        let output = started.output.recv_timeout(HANG_GUARD).unwrap();
        output == self.on_host(started.number, &started.call)
    }
}

const COLLECTIVES: [Collective; 5] = [
    Collective::AllReduce,
    Collective::Reduce { root: 1 },
    Collective::Broadcast { root: 0 },
    Collective::AllGather,
    Collective::ReduceScatter,
];

#[test]
fn each_collective_gives_the_bits_that_it_gives_on_host_memory() {
    for seed in 1..=3 {
        eprintln!("seed {seed}");
        job(2, |comm| {
            let rank = Rank::new(comm, Options { seed, ..Options::default() });
            let mut started = Vec::new();
            for collective in COLLECTIVES {
                for (dtype, count) in [(DType::F32, 1), (DType::I32, 4097), (DType::F32, 100_003)] {
                    let call = Call::new(collective, dtype, ReduceOp::Sum, count);
                    started.push(rank.start(started.len(), call, Duration::from_micros(100)));
                }
            }
            // Those on host memory come behind all on device memory, on every rank.
            for started in &started {
                assert!(rank.is_right(started), "{:?}", started.call);
            }
            rank.comm.leave().unwrap();
        });
    }
}

#[test]
fn long_calls_go_round_the_staging_buffers_and_averages_are_divided_once() {
    job(2, |comm| {
        let rank = Rank::new(comm, Options::default());
        let call = |op, count| Call::new(Collective::AllReduce, DType::F32, op, count);
        // Three pieces each.
        let started: Vec<_> =
            (0..3).map(|number| rank.start(number, call(ReduceOp::Avg, 9_000_001), Duration::ZERO)).collect();
        for started in &started {
            assert!(rank.is_right(started));
        }
        rank.comm.leave().unwrap();
    });
}

/// Everything that the waits are for, on a device without one of them; whether all results are right.
fn without(wait: Option<Wait>, seed: u64) -> bool {
    let lateness = Duration::from_micros(300);
    let options = Options { seed, ignored: wait, lateness, ..Options::default() };
    let right = job(2, |comm| {
        let rank = Rank::new(comm, options);
        let call = Call::new(Collective::AllReduce, DType::I32, ReduceOp::Sum, 300_000);
        // More than there are long buffers.
        let mut started: Vec<_> =
            (0..6).map(|number| rank.start(number, call, Duration::from_millis(50))).collect();
        // The kernel before a broadcast is the last one to use the memory, for longer than the broadcast takes.
        let call = Call::new(Collective::Broadcast { root: 0 }, DType::I32, ReduceOp::Sum, 1000);
        started.push(rank.start(6, call, Duration::from_millis(if rank.comm.rank() == 0 { 0 } else { 100 })));
        let outputs: Vec<_> =
            started.iter().map(|started| started.output.recv_timeout(HANG_GUARD).unwrap()).collect();
        // A thread of the host that waits for the last piece sees all of them.
        let call = Call::new(Collective::AllReduce, DType::I32, ReduceOp::Sum, 200_000);
        let memory = rank.device.allocate(call.count * 4);
        rank.device.write(
            rank.stream,
            memory,
            input(call.dtype, rank.comm.rank(), 7, call.count),
            Duration::ZERO,
        );
        // SAFETY: the memory is never freed.
        let work = unsafe { rank.comm.submit_cuda(&call, memory, memory, rank.stream) }.unwrap();
        work.wait().unwrap();
        let waited = rank.device.peek(memory, call.count * 4);
        let mut right = waited == rank.on_host(7, &call);
        for (started, output) in started.iter().zip(outputs) {
            right &= output == rank.on_host(started.number, &started.call);
        }
        rank.comm.leave().unwrap();
        right
    });
    right.iter().all(|right| *right)
}

#[test]
fn no_wait_can_be_left_out() {
    for seed in 1..=3 {
        assert!(without(None, seed), "seed {seed}");
    }
    for wait in Wait::STAGING {
        let found = (1..=5).find(|seed| !without(Some(wait), *seed));
        println!("without {wait:?}: wrong with seed {found:?}");
        assert!(found.is_some(), "{wait:?} can be left out");
    }
}

#[test]
fn memory_that_cannot_be_used_is_refused_and_the_job_goes_on() {
    let refusals = job(2, |comm| {
        let rank = Rank::new(comm, Options::default());
        let other = FakeDevice::take(Options::default());
        let call = Call::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 256);
        let (memory, elsewhere) = (rank.device.allocate(1024), other.allocate(1024));
        let freed = rank.device.allocate(1024);
        rank.device.free(freed);
        let host = [0f32; 256];
        // SAFETY: all of these are refused before any memory is used.
        let refused = |send: u64, recv: u64, stream| unsafe {
            match rank.comm.submit_cuda(&call, send, recv, stream) {
                Err(error) if error.ends_the_job() => panic!("{error}"),
                Err(Error::Cuda(error)) => error,
                other => panic!("{other:?}"),
            }
        };
        let mut refusals = vec![
            refused(freed, freed, rank.stream),
            refused(host.as_ptr() as u64, memory, rank.stream),
            refused(memory, elsewhere, rank.stream),
            refused(memory + 512, memory + 512, rank.stream),
        ];
        let capturing = rank.device.stream();
        rank.device.capture(capturing, true);
        refusals.push(refused(memory, memory, capturing));
        // Through the first device from here on.
        let started = rank.start(0, call, Duration::ZERO);
        assert!(rank.is_right(&started));
        refusals.push(refused(elsewhere, elsewhere, other.stream()));
        refusals.push(refused(memory, memory, other.stream()));
        rank.comm.leave().unwrap();
        refusals
    });
    for refusals in refusals {
        let kinds: Vec<_> = refusals
            .iter()
            .map(|refusal| match refusal {
                CudaError::NotDeviceMemory { .. } => "not device memory",
                CudaError::TwoDevices { .. } => "two devices",
                CudaError::Capturing => "capturing",
                CudaError::OtherDevice { .. } => "other device",
                CudaError::Call { code: 400, .. } => "handle",
                other => panic!("{other}"),
            })
            .collect();
        let expected = [
            "not device memory",
            "not device memory",
            "two devices",
            "not device memory",
            "capturing",
            "other device",
            "handle",
        ];
        assert_eq!(kinds, expected);
    }
}

#[test]
fn staging_that_cannot_be_allocated_is_refused_and_can_be_tried_again() {
    job(2, |comm| {
        let failing = Some(Failing { function: "cuMemHostAlloc", after: 0, code: 2 });
        let rank = Rank::new(comm, Options { failing, ..Options::default() });
        let call = Call::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 256);
        let memory = rank.device.allocate(1024);
        // SAFETY: refused before any memory is used.
        let refused = unsafe { rank.comm.submit_cuda(&call, memory, memory, rank.stream) };
        assert!(matches!(refused, Err(Error::Cuda(CudaError::Pinned { .. }))), "{refused:?}");
        rank.device.configure(|options| options.failing = None);
        let started = rank.start(0, call, Duration::ZERO);
        assert!(rank.is_right(&started));
        rank.comm.leave().unwrap();
    });
}

#[test]
fn a_driver_that_fails_in_the_middle_of_a_call_ends_the_job() {
    for function in ["cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuStreamWaitValue32", "cuLaunchHostFunc"] {
        let failed = Barrier::new(2);
        let errors = job(2, |comm| {
            let failing = (comm.rank() == 0).then_some(Failing { function, after: 1, code: 801 });
            let rank = Rank::new(comm, Options { failing, ..Options::default() });
            let call = Call::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 9_000_000);
            let memory = rank.device.allocate(36_000_000);
            // SAFETY: the memory is never freed.
            let work = unsafe { rank.comm.submit_cuda(&call, memory, memory, rank.stream) }.unwrap();
            if rank.comm.rank() == 1 {
                // A job with a control session has the rank reported as lost.
                failed.wait();
                rank.comm.abort();
            }
            let error = work.work().wait_timeout(HANG_GUARD).expect("no hang").unwrap_err();
            if rank.comm.rank() == 0 {
                failed.wait();
                // SAFETY: refused before any memory is used.
                let later = unsafe { rank.comm.submit_cuda(&call, memory, memory, rank.stream) };
                assert!(matches!(later, Err(Error::DeviceLost(_))), "{later:?}");
            }
            error
        });
        assert!(matches!(errors[0], Error::DeviceLost(CudaError::Call { code: 801, .. })), "{:?}", errors[0]);
    }
}

#[test]
fn a_device_that_fails_ends_the_job_and_nothing_waits_for_it() {
    let errors = job(2, |comm| {
        let rank = Rank::new(comm, Options::default());
        let call = Call::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 1 << 20);
        let memory = rank.device.allocate(4 << 20);
        // The kernel lasts longer than the device.
        rank.device.write(rank.stream, memory, vec![0; 4 << 20], Duration::from_secs(60));
        // SAFETY: the memory is never freed.
        let work = unsafe { rank.comm.submit_cuda(&call, memory, memory, rank.stream) }.unwrap();
        rank.device.fail();
        work.work().wait_timeout(HANG_GUARD).expect("no hang").unwrap_err()
    });
    for error in errors {
        assert!(matches!(error, Error::DeviceLost(CudaError::Call { code: 700, .. })), "{error:?}");
    }
}

#[test]
fn outputs_of_an_aborted_job_are_not_numbers() {
    job(2, |comm| {
        let rank = Rank::new(comm, Options::default());
        let call = Call::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 1000);
        if rank.comm.rank() == 1 {
            // The other rank's call has nothing to meet.
            std::thread::sleep(Duration::from_millis(200));
            return rank.comm.abort();
        }
        let memory = rank.device.allocate(4000);
        // SAFETY: the memory is never freed.
        let work = unsafe { rank.comm.submit_cuda(&call, memory, memory, rank.stream) }.unwrap();
        // SAFETY: the stream is never destroyed.
        unsafe { work.make_wait(rank.stream) }.unwrap();
        let output = rank.device.read(rank.stream, memory, 4000);
        rank.comm.abort();
        assert!(work.wait().is_err());
        let output = output.recv_timeout(HANG_GUARD).unwrap();
        let numbers =
            output.chunks_exact(4).filter(|bytes| !f32::from_ne_bytes((*bytes).try_into().unwrap()).is_nan());
        assert_eq!(numbers.count(), 0);
    });
}

#[test]
fn calls_without_elements_need_no_device() {
    job(2, |comm| {
        let call = Call::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 0);
        // SAFETY: no memory is used.
        let work = unsafe { comm.submit_cuda(&call, 0, 0, CudaStream::LEGACY) }.unwrap();
        assert_eq!(work.wait().unwrap().elements, 0);
        comm.leave().unwrap();
    });
}
