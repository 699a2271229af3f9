//! How well copies and network overlap in an all-reduce of device memory: times beside those of each part alone.
//!
//! ```text
//! cargo run --release -p netfold --example device_overlap -- \
//!     [--mode MODE] [--bus GIGABYTES_PER_SECOND] [--network GIGABITS_PER_SECOND] [--repetitions N]
//! ```
//!
//! Two ranks reduce through a software switch on the loop-back. Their devices are those of the driver for tests, with buses of the given rate in each
//! direction; `--bus 0`, the default being 16, is a bus as fast as memory. `--network` is the rate at which the switch sends to each rank, by default what
//! processors allow. So `--bus 0.16 --network 1` has the ratio of a bus of 16 GB/s to a network of 100 Gbit/s, at rates that leave processors idle. `host` is
//! the same all-reduce in host memory: quantising and the network. Times are medians of the slower rank. Every sum is compared.
#![expect(unsafe_code, reason = "vouches for the memory of a device")]

use std::error::Error;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};

use netfold::{Call, Collective, Communicator, DType, Mode, ReduceOp};
use netfold_embedded::EmbeddedSwitch;
use netfold_fake_cuda::{FakeDevice, Options, driver};
use netfold_switch::queue::{PortConfig, QueueConfig, Rate};

const RANKS: u16 = 2;

struct Arguments {
    mode: Mode,
    /// Bytes per second; `None` for as fast as memory.
    bus: Option<f64>,
    /// Bits per second; `None` for no limit.
    network: Option<u64>,
    repetitions: usize,
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}: {value} is not a number"))
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut parsed = Arguments { mode: Mode::Bfp32, bus: Some(16e9), network: None, repetitions: 7 };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--mode" => parsed.mode = value.parse().map_err(|_| format!("{value} is not a mode"))?,
            "--bus" => parsed.bus = Some(number::<f64>(&name, &value)? * 1e9).filter(|rate| *rate > 0.0),
            "--network" => {
                let bits = number::<f64>(&name, &value)? * 1e9;
                parsed.network = Some(bits as u64).filter(|bits| *bits > 0);
            }
            "--repetitions" => parsed.repetitions = number::<usize>(&name, &value)?.max(1),
            _ => {
                return Err(
                    format!("{name} is not an option: --mode, --bus, --network, --repetitions").into()
                );
            }
        }
    }
    Ok(parsed)
}

/// Medians of one rank, in seconds, and wrong elements.
struct Row {
    bytes: usize,
    device: f64,
    /// The shortest and the longest.
    range: (f64, f64),
    host: f64,
    wrong: usize,
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn rank(
    switch: SocketAddr,
    rank: u16,
    arguments: &Arguments,
) -> Result<Vec<Row>, Box<dyn Error + Send + Sync>> {
    let builder = Communicator::builder().job("overlap").rank(rank).world_size(RANKS).mode(arguments.mode);
    let comm = builder.switch(switch)?.cuda_driver(driver()).connect()?;
    let options = Options { lateness: Duration::ZERO, bytes_per_second: arguments.bus, ..Options::default() };
    let device = FakeDevice::take(options);
    let stream = device.stream();
    let mut rows = Vec::new();
    for bytes in (16..=28).step_by(2).map(|power| 1usize << power) {
        let ones: Vec<u8> = 1f32.to_ne_bytes().repeat(bytes / 4);
        let memory = device.allocate(bytes);
        let call = Call::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, bytes / 4);
        let (mut on_device, mut on_host, mut wrong) = (Vec::new(), Vec::new(), 0);
        let mut tensor = vec![1f32; bytes / 4];
        for _ in 0..=arguments.repetitions {
            device.write(stream, memory, ones.clone(), Duration::ZERO);
            device.synchronize(stream);
            comm.barrier()?;
            let begun = Instant::now();
            // SAFETY: the memory is not freed, and nothing else uses it before the operation is over.
            unsafe { comm.submit_cuda(&call, memory, memory, stream) }?.wait()?;
            on_device.push(begun.elapsed().as_secs_f64());
            let sum = f32::from(RANKS).to_ne_bytes();
            wrong += device.peek(memory, bytes).chunks_exact(4).filter(|found| **found != sum).count();
            tensor.fill(1.0);
            comm.barrier()?;
            let begun = Instant::now();
            comm.all_reduce(&mut tensor, ReduceOp::Sum)?;
            on_host.push(begun.elapsed().as_secs_f64());
        }
        // The first of each is for warming up.
        let (on_device, on_host) = (on_device.split_off(1), on_host.split_off(1));
        let range = on_device
            .iter()
            .fold((f64::MAX, 0.0f64), |(least, most), time| (least.min(*time), most.max(*time)));
        rows.push(Row { bytes, device: median(on_device), range, host: median(on_host), wrong });
        device.free(memory);
    }
    comm.leave()?;
    Ok(rows)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let builder = EmbeddedSwitch::builder();
    let switch = match arguments.network.map(Rate::of) {
        Some(rate) => {
            let port = PortConfig { rate: Some(rate), ..PortConfig::default() };
            builder.queues(QueueConfig { port, ..QueueConfig::default() })
        }
        None => builder,
    };
    let switch = switch.start()?;
    let at = switch.control();
    let results: Vec<_> = std::thread::scope(|scope| {
        let arguments = &arguments;
        let ranks: Vec<_> =
            (0..RANKS).map(|number| scope.spawn(move || rank(at, number, arguments))).collect();
        ranks.into_iter().map(|rank| rank.join()).collect()
    });
    let mut tables = Vec::new();
    for result in results {
        tables.push(result.map_err(|_| "a rank panicked")?.map_err(|error| error.to_string())?);
    }
    println!(
        "| bytes | device ms | min–max | host ms | one copy ms | device / slowest | device / sum | wrong |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (first, second) in tables[0].iter().zip(&tables[1]) {
        let (device, host) = (first.device.max(second.device), first.host.max(second.host));
        let copy = arguments.bus.map_or(0.0, |rate| first.bytes as f64 / rate);
        println!(
            "| {} | {:.3} | {:.3} to {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {} |",
            first.bytes,
            device * 1e3,
            first.range.0.max(second.range.0) * 1e3,
            first.range.1.max(second.range.1) * 1e3,
            host * 1e3,
            copy * 1e3,
            device / host.max(copy),
            device / (host + 2.0 * copy),
            first.wrong + second.wrong
        );
    }
    Ok(())
}
