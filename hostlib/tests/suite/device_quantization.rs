//! All-reduces that the device quantises, on a driver that executes everything late and in any order that it may, through a software switch.
#![expect(unsafe_code, reason = "vouches for the memory of a device")]

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use netfold::quantize::Rounding;
use netfold::{
    Builder, Call, Collective, Communicator, CudaDriver, CudaError, CudaWork, DType, Error, Mode, OpReport,
    ReduceOp, Tolerance,
};
use netfold_embedded::EmbeddedSwitch;
use netfold_fake_cuda::{Failing, FakeDevice, Options, Wait, driver, old_driver};
use netfold_io::vacant_address;
use netfold_testkit::job::on_all_ranks;

use crate::support::HANG_GUARD;

fn builder(rank: u16, world: u16, mode: Mode) -> Builder {
    Communicator::builder()
        .job("quantized")
        .rank(rank)
        .world_size(world)
        .mode(mode)
        .stall_timeout(Duration::from_secs(50))
        .cuda_driver(driver())
        .device_quantization(true)
}

/// Runs `body` on every rank of a job at a switch in parallel.
fn job<R: Send>(
    world: u16,
    mode: Mode,
    build: impl Fn(Builder) -> Builder + Sync,
    body: impl Fn(Rank) -> R + Sync,
) -> Vec<R> {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let at: SocketAddr = switch.control();
    on_all_ranks(world, |rank| {
        let comm = build(builder(rank, world, mode)).switch(at).unwrap().connect().unwrap();
        body(Rank::new(comm, Options::default()))
    })
}

/// A rank and its device.
struct Rank {
    comm: Communicator,
    device: FakeDevice,
}

/// A call in flight.
struct InFlight {
    work: CudaWork,
    input: Vec<u8>,
    call: Call,
    output: Receiver<Vec<u8>>,
}

/// The bits of numbers of very different magnitudes.
fn numbers(dtype: DType, elements: usize, rank: u16, seed: usize) -> Vec<u8> {
    let number = |at: usize| {
        let mixed = (at + 131 * seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (usize::from(rank) * 0x1357_9BDF);
        let mixed = mixed ^ (mixed >> 29);
        // As many bits as a mantissa has.
        (mixed as i16 as f32 * 1.1) * 2f32.powi((at / 300 % 12) as i32 - 18)
    };
    (0..elements)
        .flat_map(|at| match dtype {
            DType::F16 => netfold::f16::from_f32(number(at)).to_ne_bytes().to_vec(),
            DType::Bf16 => netfold::bf16::from_f32(number(at)).to_ne_bytes().to_vec(),
            _ => number(at).to_ne_bytes().to_vec(),
        })
        .collect()
}

fn all_reduce(dtype: DType, op: ReduceOp, count: usize) -> Call {
    Call::new(Collective::AllReduce, dtype, op, count)
}

impl Rank {
    fn new(comm: Communicator, options: Options) -> Self {
        let device = FakeDevice::take(Options { seed: options.seed + u64::from(comm.rank()), ..options });
        Self { comm, device }
    }

    fn numbers(&self, call: &Call, seed: usize) -> Vec<u8> {
        numbers(call.dtype, call.count, self.comm.rank(), seed)
    }

    /// Starts a call in a stream of its own, whose input a kernel is about to write, and has another kernel read the output.
    fn start(&self, call: Call, input: Vec<u8>, kernel: Duration) -> InFlight {
        let (stream, memory) = (self.device.stream(), self.device.allocate(input.len()));
        self.device.write(stream, memory, input.clone(), kernel);
        // SAFETY: the memory is never freed.
        let work = unsafe { self.comm.submit_cuda(&call, memory, memory, stream) }.unwrap();
        // SAFETY: the stream is never destroyed.
        unsafe { work.make_wait(stream) }.unwrap();
        let output = self.device.read(stream, memory, input.len());
        InFlight { work, input, call, output }
    }

    /// What the same call returns on memory of the host.
    fn on_host(&self, call: &Call, input: &[u8]) -> Vec<u8> {
        let mut tensor = input.to_vec();
        let memory = tensor.as_mut_ptr();
        // SAFETY: the memory has the length of the call, and `run` waits for its end.
        unsafe { self.comm.run(call, memory.cast_const(), memory) }.unwrap();
        tensor
    }

    /// Whether a call has the output that it has on memory of the host.
    fn is_right(&self, started: &InFlight) -> bool {
        let output = started.output.recv_timeout(HANG_GUARD).unwrap();
        output == self.on_host(&started.call, &started.input)
    }
}

fn types(mode: Mode) -> &'static [DType] {
    if mode == Mode::Bfp16 { &[DType::F32, DType::F16, DType::Bf16] } else { &[DType::F32] }
}

#[test]
fn results_have_the_bits_of_the_hosts_quantiser() {
    for (world, mode) in [(1, Mode::Bfp16), (2, Mode::Bfp16), (3, Mode::Bfp32), (3, Mode::Bfp16)] {
        job(
            world,
            mode,
            |builder| builder,
            |rank| {
                let mut started = Vec::new();
                for dtype in types(mode) {
                    for (op, count) in [
                        (ReduceOp::Sum, 1),
                        (ReduceOp::Avg, 703),
                        (ReduceOp::Sum, 704),
                        (ReduceOp::Avg, 5_001),
                        (ReduceOp::Sum, 131_073),
                    ] {
                        let call = all_reduce(*dtype, op, count);
                        let input = rank.numbers(&call, started.len());
                        started.push(rank.start(call, input, Duration::from_micros(100)));
                    }
                }
                for started in &started {
                    assert!(rank.is_right(started), "{:?}", started.call);
                }
                rank.comm.leave().unwrap();
            },
        );
    }
}

/// Lanes cross the bus, and the network has operations on integers alone: half the bytes in mode bfp16, as the report and the switch's packets show.
#[test]
fn reports_count_elements_and_blocks_that_are_not_finite() {
    job(
        2,
        Mode::Bfp16,
        |builder| builder,
        |rank| {
            let call = all_reduce(DType::F32, ReduceOp::Sum, 7_040);
            let mut input = rank.numbers(&call, 0);
            if rank.comm.rank() == 1 {
                input[4 * 1000..4 * 1001].copy_from_slice(&f32::NAN.to_ne_bytes());
                input[4 * 7000..4 * 7001].copy_from_slice(&f32::INFINITY.to_ne_bytes());
            }
            let started = rank.start(call, input, Duration::ZERO);
            let report = started.work.wait().unwrap();
            // Ten blocks of 704 elements: as many packets, and one of exponents.
            let expected = OpReport { elements: 7_040, chunks: 11, non_finite: 2, ..OpReport::default() };
            assert_eq!(OpReport { elapsed: Duration::ZERO, ..report }, expected);
            assert!(rank.is_right(&started));
            rank.comm.leave().unwrap();
        },
    );
}

#[test]
fn an_output_of_its_own_leaves_the_input_as_it_was() {
    job(
        2,
        Mode::Bfp16,
        |builder| builder,
        |rank| {
            let call = all_reduce(DType::F32, ReduceOp::Avg, 10_001);
            let (input, stream) = (rank.numbers(&call, 0), rank.device.stream());
            let (send, recv) = (rank.device.allocate(input.len()), rank.device.allocate(input.len()));
            rank.device.write(stream, send, input.clone(), Duration::ZERO);
            // SAFETY: the memory is never freed.
            unsafe { rank.comm.submit_cuda(&call, send, recv, stream) }.unwrap().wait().unwrap();
            assert!(rank.device.peek(recv, input.len()) == rank.on_host(&call, &input));
            assert!(rank.device.peek(send, input.len()) == input);
            rank.comm.leave().unwrap();
        },
    );
}

#[test]
fn stochastic_rounding_draws_the_numbers_of_the_hosts_quantiser() {
    let rounded = |builder: Builder| builder.rounding(Rounding::Stochastic { seed: 77 });
    let calls = [1, 5_001, 70_001].map(|count| all_reduce(DType::F32, ReduceOp::Sum, count));
    for mode in [Mode::Bfp16, Mode::Bfp32] {
        let device = job(2, mode, rounded, |rank| {
            let run = |(number, call): (usize, &Call)| {
                let started = rank.start(*call, rank.numbers(call, number), Duration::ZERO);
                started.output.recv_timeout(HANG_GUARD).unwrap()
            };
            let outputs: Vec<_> = calls.iter().enumerate().map(run).collect();
            rank.comm.leave().unwrap();
            outputs
        });
        // Operations are numbered apart, so the host does nothing else.
        let host = job(
            2,
            mode,
            |builder| rounded(builder).device_quantization(false),
            |rank| {
                let run = |(number, call): (usize, &Call)| rank.on_host(call, &rank.numbers(call, number));
                let outputs: Vec<_> = calls.iter().enumerate().map(run).collect();
                rank.comm.leave().unwrap();
                outputs
            },
        );
        assert!(device == host, "{mode}");
    }
}

#[test]
fn residuals_have_the_bits_of_error_feedback_on_the_host() {
    for mode in [Mode::Bfp16, Mode::Bfp32] {
        job(
            3,
            mode,
            |builder| builder,
            |rank| {
                let call = all_reduce(DType::F32, ReduceOp::Avg, 30_007);
                let bytes = call.count * 4;
                let (memory, left, stream) =
                    (rank.device.allocate(bytes), rank.device.allocate(bytes), rank.device.stream());
                let mut residual = vec![0f32; call.count];
                for step in 0..4 {
                    let input = rank.numbers(&call, step);
                    rank.device.write(stream, memory, input.clone(), Duration::from_micros(300));
                    // SAFETY: the memory is never freed, and the stream never destroyed.
                    unsafe {
                        let work = rank.comm.submit_cuda_with_feedback(&call, memory, left, stream).unwrap();
                        work.make_wait(stream).unwrap();
                    }
                    let output = rank.device.read(stream, memory, bytes).recv_timeout(HANG_GUARD).unwrap();
                    let words = input.as_chunks::<4>().0.iter();
                    let mut tensor: Vec<f32> = words.map(|word| f32::from_ne_bytes(*word)).collect();
                    rank.comm.all_reduce_with_feedback(&mut tensor, &mut residual, call.op).unwrap();
                    let native = |numbers: &[f32]| -> Vec<u8> {
                        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
                    };
                    assert!(output == native(&tensor), "{mode}, step {step}");
                    assert!(rank.device.peek(left, bytes) == native(&residual), "{mode}, step {step}");
                }
                assert!(residual.iter().any(|left| *left != 0.0));
                rank.comm.leave().unwrap();
            },
        );
    }
}

/// On a device without one of the waits; whether all results are right.
fn without(wait: Option<Wait>, seed: u64, long: bool) -> bool {
    let lateness = Duration::from_millis(1);
    let right = job(
        2,
        if long { Mode::Bfp32 } else { Mode::Bfp16 },
        |builder| builder,
        |rank| {
            rank.device.configure(|options| {
                (options.ignored, options.lateness) = (wait, lateness);
            });
            let call = |count| all_reduce(DType::F32, ReduceOp::Sum, count);
            let mut right = true;
            for number in 0..(if long { 0 } else { 3 }) {
                // One after the other, each behind a kernel that lasts longer than everything else does; the first one loads the kernels.
                let call = call(5_000);
                let started = rank.start(call, rank.numbers(&call, 20 + number), Duration::from_millis(100));
                right &= rank.is_right(&started);
            }
            let mut started = Vec::new();
            for number in 0..(if long { 0 } else { 6 }) {
                // Long pieces and short ones, all in flight.
                let call = call([200_000, 3_000][number % 2]);
                let input = rank.numbers(&call, number + 10 * seed as usize);
                started.push(rank.start(call, input, Duration::from_millis(30)));
            }
            if long {
                // More pieces than there is memory for lanes.
                let call = call(6 << 22);
                started.push(rank.start(call, rank.numbers(&call, 1), Duration::ZERO));
            }
            right &= started.iter().fold(true, |right, started| right & rank.is_right(started));
            if !long {
                // A thread of the host that waits sees the results.
                let call = call(150_000);
                let (input, stream) = (rank.numbers(&call, 9), rank.device.stream());
                let memory = rank.device.allocate(input.len());
                rank.device.write(stream, memory, input.clone(), Duration::ZERO);
                // SAFETY: the memory is never freed.
                let work = unsafe { rank.comm.submit_cuda(&call, memory, memory, stream) }.unwrap();
                work.wait().unwrap();
                let waited = rank.device.peek(memory, input.len());
                right &= waited == rank.on_host(&call, &input);
            }
            rank.comm.leave().unwrap();
            right
        },
    );
    right.iter().all(|right| *right)
}

#[test]
fn no_wait_can_be_left_out() {
    for seed in 1..=2 {
        assert!(without(None, seed, false), "seed {seed}");
    }
    for wait in Wait::QUANTIZING {
        let long = wait == Wait::ResultsBeforeQuantize;
        assert!(!long || without(None, 1, long));
        let found = (1..=5).find(|seed| !without(Some(wait), *seed, long));
        println!("without {wait:?}: wrong with seed {found:?}");
        assert!(found.is_some(), "{wait:?} can be left out");
    }
}

#[test]
fn paths_without_a_switch_give_the_same_bits() {
    let result = |build: fn(u16, Builder) -> Builder| {
        let at = vacant_address().unwrap();
        let results = on_all_ranks(4, |rank| {
            let builder = build(rank, builder(rank, 4, Mode::Bfp16)).rendezvous(at).unwrap();
            let rank = Rank::new(builder.connect().unwrap(), Options::default());
            let call = all_reduce(DType::F32, ReduceOp::Sum, 50_001);
            let started = rank.start(call, rank.numbers(&call, 3), Duration::ZERO);
            let output = started.output.recv_timeout(HANG_GUARD).unwrap();
            rank.comm.leave().unwrap();
            output
        });
        assert!(results.iter().all(|result| *result == results[0]));
        results.into_iter().next()
    };
    let ring = result(|_, builder| builder.shared_memory(false));
    assert!(ring == result(|_, builder| builder));
    assert!(ring == result(|rank, builder| builder.host(format!("host {}", rank / 2))));
    // Blocks of ranks without a switch have the length of those at one.
    let at_switch = job(
        4,
        Mode::Bfp16,
        |builder| builder,
        |rank| {
            let call = all_reduce(DType::F32, ReduceOp::Sum, 50_001);
            let started = rank.start(call, rank.numbers(&call, 3), Duration::ZERO);
            let output = started.output.recv_timeout(HANG_GUARD).unwrap();
            rank.comm.leave().unwrap();
            output
        },
    );
    assert!(ring.as_ref() == at_switch.first());
}

#[test]
fn what_devices_cannot_quantise_is_refused_before_ranks_are_joined() {
    let refused = |builder: Builder| match builder.switch("127.0.0.1:1").unwrap().connect() {
        Err(Error::DeviceQuantization { reason }) => reason,
        other => panic!("{other:?}"),
    };
    let half = Tolerance::fraction(0.5).unwrap();
    assert!(refused(builder(0, 2, Mode::I32)).contains("bfp16"));
    assert!(refused(builder(0, 2, Mode::Bfp16).tolerance(half)).contains("tolerance"));
    let reason = refused(builder(0, 2, Mode::Bfp16).cuda_driver(old_driver()));
    assert!(reason.contains("compute capability 6.1"), "{reason}");
}

#[test]
fn linked_ranks_agree_on_what_one_of_them_cannot() {
    let at = vacant_address().unwrap();
    let errors = on_all_ranks(3, |rank| {
        let builder = builder(rank, 3, Mode::Bfp16).rendezvous(at).unwrap();
        let builder = if rank == 1 { builder.cuda_driver(old_driver()) } else { builder };
        builder.connect().unwrap_err()
    });
    for error in errors {
        let text = error.to_string();
        assert!(matches!(error, Error::DeviceQuantization { .. }), "{text}");
        assert!(text.contains("rank 1: CUDA device 0 has compute capability 6.1"), "{text}");
    }
    let at = vacant_address().unwrap();
    let errors = on_all_ranks(2, |rank| {
        let builder = builder(rank, 2, Mode::Bfp16).device_quantization(rank == 1);
        builder.rendezvous(at).unwrap().connect().unwrap_err()
    });
    assert!(errors.iter().all(|error| matches!(error, Error::Differs { .. })), "{errors:?}");
}

#[test]
fn calls_that_cannot_be_quantised_so_are_refused_and_the_job_goes_on() {
    job(
        2,
        Mode::Bfp16,
        |builder| builder,
        |rank| {
            let call = all_reduce(DType::F32, ReduceOp::Sum, 100);
            let (memory, stream) = (rank.device.allocate(4_096), rank.device.stream());
            let freed = rank.device.allocate(4_096);
            rank.device.free(freed);
            // SAFETY: all of these are refused before any memory is used.
            let (submit, feed) = unsafe {
                (
                    |call: &Call, memory| rank.comm.submit_cuda(call, memory, memory, stream).unwrap_err(),
                    |call: &Call, left| {
                        rank.comm.submit_cuda_with_feedback(call, memory, left, stream).unwrap_err()
                    },
                )
            };
            let tolerating = call.tolerating(Tolerance::fraction(0.5).unwrap());
            assert!(matches!(submit(&tolerating, memory), Error::DeviceQuantization { .. }));
            let misaligned = submit(&call, memory + 2);
            assert!(
                matches!(misaligned, Error::Cuda(CudaError::Misaligned { bytes: 4, .. })),
                "{misaligned}"
            );
            assert!(matches!(feed(&call, 0), Error::Null("residual")));
            assert!(matches!(feed(&call, freed), Error::Cuda(CudaError::NotDeviceMemory { .. })));
            let max = all_reduce(DType::F32, ReduceOp::Max, 100);
            assert!(matches!(feed(&max, memory + 1_000), Error::Feedback { .. }));
            // A driver that cannot load the kernels.
            rank.device.configure(|options| {
                options.failing = Some(Failing { function: "cuModuleLoadData", after: 0, code: 218 });
            });
            let unloadable = submit(&call, memory);
            assert!(matches!(unloadable, Error::Cuda(CudaError::Kernels { code: 218, .. })), "{unloadable}");
            rank.device.configure(|options| options.failing = None);
            let started = rank.start(call, rank.numbers(&call, 0), Duration::ZERO);
            assert!(rank.is_right(&started));
            // What is not quantised on devices is as before.
            let call = all_reduce(DType::I32, ReduceOp::Max, 1_000);
            let started = rank.start(call, rank.numbers(&call, 1), Duration::ZERO);
            assert!(rank.is_right(&started));
            rank.comm.leave().unwrap();
        },
    );
    let host = |builder: Builder| builder.device_quantization(false);
    job(2, Mode::Bfp16, host, |rank| {
        let call = all_reduce(DType::F32, ReduceOp::Sum, 100);
        let (memory, stream) = (rank.device.allocate(4_096), rank.device.stream());
        // SAFETY: refused before any memory is used.
        let refused = unsafe { rank.comm.submit_cuda_with_feedback(&call, memory, memory + 1_000, stream) };
        assert!(matches!(refused, Err(Error::DeviceQuantization { .. })), "{refused:?}");
        rank.comm.leave().unwrap();
    });
}

#[test]
fn a_launch_that_fails_in_the_middle_of_a_call_ends_the_job() {
    job(
        2,
        Mode::Bfp16,
        |builder| builder,
        |rank| {
            if rank.comm.rank() == 0 {
                rank.device.configure(|options| {
                    options.failing = Some(Failing { function: "cuLaunchKernel", after: 1, code: 719 });
                });
            }
            let call = all_reduce(DType::F32, ReduceOp::Sum, 100_000);
            let memory = rank.device.allocate(400_000);
            let stream = rank.device.stream();
            // SAFETY: the memory is never freed.
            let work = unsafe { rank.comm.submit_cuda(&call, memory, memory, stream) }.unwrap();
            let error = work.work().wait_timeout(HANG_GUARD).expect("no hang").unwrap_err();
            if rank.comm.rank() == 0 {
                assert!(matches!(error, Error::DeviceLost(CudaError::Call { code: 719, .. })), "{error:?}");
            }
        },
    );
}

#[test]
fn outputs_of_an_aborted_job_are_not_numbers() {
    for mode in [Mode::Bfp16, Mode::Bfp32] {
        job(
            2,
            mode,
            |builder| builder,
            |rank| {
                if rank.comm.rank() == 1 {
                    // The other rank's call has nothing to meet.
                    std::thread::sleep(Duration::from_millis(200));
                    return rank.comm.abort();
                }
                let call = all_reduce(DType::F32, ReduceOp::Sum, 1_000);
                let started = rank.start(call, rank.numbers(&call, 0), Duration::ZERO);
                rank.comm.abort();
                assert!(started.work.wait().is_err());
                let output = started.output.recv_timeout(HANG_GUARD).unwrap();
                let words = output.as_chunks::<4>().0.iter();
                assert!(words.copied().all(|word| f32::from_ne_bytes(word).is_nan()));
            },
        );
    }
}

#[test]
fn the_systems_driver_is_needed_where_none_is_given() {
    // As on machines without one.
    let built = Communicator::builder().rank(0).world_size(2).mode(Mode::Bfp16).device_quantization(true);
    match CudaDriver::system() {
        Ok(_) => println!("skipped: there is a driver"),
        Err(CudaError::NoDriver { .. }) => {
            let refused = built.job("none").switch("127.0.0.1:1").unwrap().connect();
            assert!(matches!(refused, Err(Error::DeviceQuantization { .. })), "{refused:?}");
        }
        Err(other) => println!("skipped: {other}"),
    }
}
