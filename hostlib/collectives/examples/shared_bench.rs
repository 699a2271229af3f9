//! Times the all-reduce of processes on this host: starts itself `-n` times and prints nccl-tests' columns.
//!
//! `cargo run --release -p netfold-collectives --example shared_bench -- -n 4 -b 4K -e 64M -f 4`
//!
//! `time` is the average of calls back to back, as nccl-tests count; the percentiles are of single calls after a barrier, each
//! the slowest rank's.

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use netfold_collectives::shared::{SharedConfig, SharedGroup, SharedHandle};
use netfold_collectives::{DType, ReduceOp};

struct Options {
    ranks: u16,
    begin: usize,
    end: usize,
    factor: usize,
    segment_bytes: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = options(&arguments)?;
    if let Some(at) = arguments.iter().position(|argument| argument == "--join") {
        let rank: u16 = arguments.get(at + 1).ok_or("--join RANK HANDLE")?.parse()?;
        let handle = arguments.get(at + 2).ok_or("--join RANK HANDLE")?;
        return run(&options, SharedGroup::join(&SharedHandle::from_bytes(&from_hex(handle)?)?, rank)?);
    }
    let (shared, handle) =
        SharedGroup::create(SharedConfig::new(options.ranks).segment_bytes(options.segment_bytes))?;
    let hex: String = handle.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let children: Result<Vec<Child>, _> = (1..options.ranks)
        .map(|rank| {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(&arguments).args(["--join", &rank.to_string(), &hex]);
            command.stdout(Stdio::null()).spawn()
        })
        .collect();
    println!(
        "# all_reduce through shared memory, {} processes, {} bytes shared",
        options.ranks,
        shared.len_bytes()
    );
    println!(
        "#{:>11} {:>12} {:>6} {:>6} {:>10} {:>8} {:>8} {:>6} {:>10} {:>10} {:>10}",
        "size", "count", "type", "redop", "time", "algbw", "busbw", "#wrong", "p10", "p50", "p90"
    );
    println!(
        "#{:>11} {:>12} {:>6} {:>6} {:>10} {:>8} {:>8} {:>6} {:>10} {:>10} {:>10}",
        "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)"
    );
    run(&options, shared)?;
    for mut child in children? {
        if !child.wait()?.success() {
            return Err("a rank failed".into());
        }
    }
    Ok(())
}

fn run(options: &Options, mut shared: SharedGroup) -> Result<(), Box<dyn Error>> {
    let ranks = shared.world();
    let mut size = options.begin;
    while size <= options.end {
        let count = size / 4;
        let rounds = (64 << 20 >> size.ilog2()).clamp(7, 500);
        let fresh: Vec<u8> = 1.0f32.to_ne_bytes().repeat(count);
        let mut tensor = fresh.clone();
        let mut times = Vec::new();
        for round in 0..rounds + rounds / 10 + 2 {
            tensor.copy_from_slice(&fresh);
            shared.barrier()?;
            let start = Instant::now();
            shared.all_reduce(DType::F32, ReduceOp::Sum, &mut tensor[..])?;
            let mut slowest = start.elapsed().as_secs_f64().to_ne_bytes();
            shared.all_reduce(DType::F64, ReduceOp::Max, &mut slowest[..])?;
            if round >= rounds / 10 + 2 {
                times.push(f64::from_ne_bytes(slowest) * 1e6);
            }
        }
        let expected = f32::from(ranks).to_ne_bytes();
        let wrong = tensor.chunks(4).filter(|element| *element != expected).count();
        shared.barrier()?;
        let start = Instant::now();
        for _ in 0..rounds {
            shared.all_reduce(DType::F32, ReduceOp::Max, &mut tensor[..])?;
        }
        let time = start.elapsed().as_secs_f64() * 1e6 / rounds as f64;
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times[(times.len() as f64 * part) as usize];
        let algbw = size as f64 / time / 1e3;
        let busbw = algbw * 2.0 * f64::from(ranks - 1) / f64::from(ranks);
        println!(
            "{size:>12} {count:>12} {:>6} {:>6} {time:>10.1} {algbw:>8.2} {busbw:>8.2} {wrong:>6} {:>10.1} {:>10.1} {:>10.1}",
            "float",
            "sum",
            at(0.1),
            at(0.5),
            at(0.9)
        );
        size *= options.factor.max(2);
    }
    Ok(())
}

fn options(arguments: &[String]) -> Result<Options, Box<dyn Error>> {
    let mut options =
        Options { ranks: 4, begin: 4 << 10, end: 64 << 20, factor: 4, segment_bytes: 256 << 10 };
    for pair in arguments.chunks(2) {
        match (pair[0].as_str(), pair.get(1)) {
            ("-n", Some(value)) => options.ranks = value.parse()?,
            ("-b", Some(value)) => options.begin = bytes(value)?.max(4),
            ("-e", Some(value)) => options.end = bytes(value)?,
            ("-f", Some(value)) => options.factor = value.parse()?,
            ("-s", Some(value)) => options.segment_bytes = bytes(value)?,
            ("--join", _) => break,
            _ => {
                return Err(
                    "usage: shared_bench [-n RANKS] [-b BYTES] [-e BYTES] [-f FACTOR] [-s SEGMENT_BYTES]"
                        .into(),
                );
            }
        }
    }
    Ok(options)
}

fn bytes(text: &str) -> Result<usize, Box<dyn Error>> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        _ => (text, 0),
    };
    Ok(digits.parse::<usize>()? << shift)
}

fn from_hex(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair));
    digits.map(|pair| Ok(u8::from_str_radix(pair?, 16)?)).collect()
}
