//! All-reduces by threads over loopback: `cargo run --release -p netfold-mesh --example ring_bench [ranks] [bytes ...]`.
//!
//! Prints for each size the median, least and greatest time of rank 0, the tensor bytes a second (algbw) and what crosses each
//! link at that rate (busbw = algbw x 2 (n - 1) / n).

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use netfold_mesh::{DType, Mesh, MeshConfig, MeshError, ReduceOp, TcpRendezvous};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse::<usize>());
    let world = u16::try_from(numbers.next().transpose()?.unwrap_or(4))?;
    let mut sizes = numbers.collect::<Result<Vec<_>, _>>()?;
    if sizes.is_empty() {
        sizes = vec![4 << 10, 32 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20];
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    let wait = Duration::from_secs(30);
    println!(
        "{world} ranks, f32 sum\n{:>10} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "bytes", "median us", "least", "greatest", "algbw", "busbw"
    );
    thread::scope(|scope| {
        let mut others = Vec::new();
        for rank in 1..world {
            let sizes = &sizes;
            others.push(scope.spawn(move || -> Result<(), MeshError> {
                let mut exchange = TcpRendezvous::new(addr, "bench", rank, world, wait)?;
                bench(&mut Mesh::connect(&mut exchange, MeshConfig::default())?, sizes)
            }));
        }
        let mut exchange = TcpRendezvous::host(listener, "bench", world, wait)?;
        bench(&mut Mesh::connect(&mut exchange, MeshConfig::default())?, &sizes)?;
        for other in others {
            other.join().map_err(|_| "a rank panicked")??;
        }
        Ok(())
    })
}

fn bench(mesh: &mut Mesh, sizes: &[usize]) -> Result<(), MeshError> {
    for &bytes in sizes {
        let mut tensor = vec![0; bytes / 4 * 4];
        let rounds = ((64 << 20) / bytes.max(1)).clamp(10, 500);
        let mut times = Vec::with_capacity(rounds);
        for round in 0..rounds + 3 {
            mesh.barrier()?;
            let start = Instant::now();
            mesh.all_reduce(DType::F32, ReduceOp::Sum, &mut tensor)?;
            if round >= 3 {
                times.push(start.elapsed());
            }
        }
        times.sort();
        if mesh.rank() == 0 {
            let median = times[rounds / 2];
            let gigabytes = bytes as f64 / median.as_secs_f64() / 1e9;
            let n = f64::from(mesh.world());
            println!(
                "{bytes:>10} {:>10.1} {:>10.1} {:>10.1} {gigabytes:>9.3} {:>9.3}",
                median.as_secs_f64() * 1e6,
                times[0].as_secs_f64() * 1e6,
                times[rounds - 1].as_secs_f64() * 1e6,
                gigabytes * 2.0 * (n - 1.0) / n,
            );
        }
    }
    Ok(())
}
