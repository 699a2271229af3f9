//! Calls on device memory that are copied in slices while they are operations, on buses so slow that most of a call is under way in the network before
//! the rest is there.
#![expect(unsafe_code, reason = "vouches for the memory of a device")]

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use netfold::{Builder, Call, Collective, Communicator, CudaStream, DType, Mode, ReduceOp};
use netfold_embedded::EmbeddedSwitch;
use netfold_fake_cuda::{FakeDevice, Options, driver};
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::{PacketIo, vacant_address};
use netfold_testkit::job::on_all_ranks;

use crate::support::HANG_GUARD;

const WORLD: u16 = 2;

/// Bytes a second of a bus that is slower than the network, and of one that is slower than the ranks' agreement to continue without a switch.
const SLOW: f64 = 50e6;
const SLOWEST: f64 = 4e6;

/// Runs `body` on every rank of a job at a switch that loses some packets, which is given to `body`; ranks continue without it.
fn job(
    bus: f64,
    (seed, loss): (u64, f64),
    body: impl Fn(&Communicator, &FakeDevice, &Mutex<Option<EmbeddedSwitch>>) + Sync,
) {
    let lossy =
        move |io| Ok(Box::new(Faulty::new(io, FaultConfig::with_loss(seed, loss))) as Box<dyn PacketIo>);
    let switch = EmbeddedSwitch::builder().middleware(lossy).start().unwrap();
    let (address, rendezvous) = (switch.control(), vacant_address().unwrap());
    let switch = Mutex::new(Some(switch));
    on_all_ranks(WORLD, |rank| {
        let builder: Builder =
            Communicator::builder().job("slices").rank(rank).world_size(WORLD).mode(Mode::Bfp32);
        let builder = builder.switch(address).unwrap().rendezvous(rendezvous).unwrap().shared_memory(false);
        let comm = builder.cuda_driver(driver()).connect().unwrap();
        let device = FakeDevice::take(Options {
            seed: seed + u64::from(rank),
            bytes_per_second: Some(bus),
            ..Options::default()
        });
        body(&comm, &device, &switch);
        // An aborted job has been left.
        let _ = comm.leave();
    });
}

/// A rank's element of operation `step`: whole numbers, whose sums are exact on every path.
fn value(rank: u16, step: usize, index: usize) -> f32 {
    (usize::from(rank) * 3 + step + index % 101) as f32
}

fn bytes(elements: impl Iterator<Item = f32>) -> Vec<u8> {
    elements.flat_map(f32::to_ne_bytes).collect()
}

/// A call in a stream of its own: what it returns, and what it is to return.
struct Started {
    output: std::sync::mpsc::Receiver<Vec<u8>>,
    expected: Vec<u8>,
}

fn start(
    comm: &Communicator,
    device: &FakeDevice,
    step: usize,
    collective: Collective,
    len: usize,
) -> Started {
    let stream: CudaStream = device.stream();
    let memory = device.allocate(len * 4);
    let own = |rank| (0..len).map(move |index| value(rank, step, index));
    device.write(stream, memory, bytes(own(comm.rank())), Duration::ZERO);
    let call = Call::new(collective, DType::F32, ReduceOp::Sum, len);
    // SAFETY: the memory is never freed, and the stream never destroyed.
    unsafe {
        comm.submit_cuda(&call, memory, memory, stream).unwrap().make_wait(stream).unwrap();
    }
    let expected = match collective {
        Collective::Broadcast { root } => bytes(own(root)),
        _ => bytes((0..len).map(|index| (0..WORLD).map(|rank| value(rank, step, index)).sum())),
    };
    Started { output: device.read(stream, memory, len * 4), expected }
}

/// Calls of which most arrive while they are under way; `lost_after` is when the switch stops.
fn play(bus: f64, faults: (u64, f64), lens: &[usize], lost_after: Option<Duration>) {
    job(bus, faults, |comm, device, switch| {
        comm.barrier().unwrap();
        thread::scope(|scope| {
            if let Some(after) = lost_after.filter(|_| comm.rank() == 0) {
                scope.spawn(move || {
                    thread::sleep(after);
                    drop(switch.lock().unwrap().take());
                });
            }
            let collectives = [Collective::AllReduce, Collective::Broadcast { root: 1 }];
            let started: Vec<_> = lens
                .iter()
                .enumerate()
                .map(|(step, len)| start(comm, device, step, collectives[step % 3 / 2], *len))
                .collect();
            for (step, Started { output, expected }) in started.into_iter().enumerate() {
                let output = output.recv_timeout(HANG_GUARD).unwrap();
                let wrong = output.iter().zip(&expected).position(|(found, expected)| found != expected);
                assert_eq!(wrong, None, "operation {step}, {faults:?}, {lost_after:?}");
            }
        });
        comm.barrier().unwrap();
        let name = comm.path().name();
        assert_eq!(name == "ring", lost_after.is_some(), "{name}");
    });
}

#[test]
fn results_are_those_of_all_ranks_whatever_is_lost() {
    play(SLOW, (1, 0.0), &[300_000, 70_000, 250_000, 65_537, 4_500_000], None);
    play(SLOW, (2, 0.02), &[300_000, 70_000, 250_000, 1000, 400_001], None);
}

/// A job that is aborted in the middle of a call: what was copied out by then are sums, and all else is not a number.
#[test]
fn an_aborted_call_leaves_no_inputs() {
    for (seed, after) in (20..).zip([5, 15, 25, 40]) {
        job(SLOW, (seed, 0.0), |comm, device, _| {
            comm.barrier().unwrap();
            let Started { output, expected } = start(comm, device, 1, Collective::AllReduce, 700_000);
            thread::sleep(Duration::from_millis(after));
            comm.abort();
            let output = output.recv_timeout(HANG_GUARD).unwrap();
            let mut sums = 0;
            for (found, expected) in output.chunks_exact(4).zip(expected.chunks_exact(4)) {
                sums += usize::from(found == expected);
                assert!(found == expected || found == [0xFF; 4], "{found:?} instead of {expected:?}");
            }
            println!("after {after} ms: {sums} of 700000 elements are sums");
            assert!(sums < 700_000);
        });
    }
}

/// The switch stops while calls arrive: ranks do without it what no rank has the result of, and what was copied out stays.
#[test]
fn a_lost_switch_leaves_no_call_behind() {
    for (seed, (millis, loss)) in (10..).zip([(0, 0.0), (3, 0.0), (12, 0.0), (20, 0.01), (30, 0.0)]) {
        let lens = [300_000, 200_000, 300_000, 100, 200_000];
        play(SLOW, (seed, loss), &lens, Some(Duration::from_millis(millis)));
    }
    for (seed, millis) in (20..).zip([40, 100, 150]) {
        play(SLOWEST, (seed, 0.0), &[150_000, 100, 80_000], Some(Duration::from_millis(millis)));
    }
}
