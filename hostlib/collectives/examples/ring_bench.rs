//! All-reduces by threads over loopback: `cargo run --release -p netfold-collectives --example ring_bench [ranks] [bytes ...]`; or one
//! rank of several hosts: `ring_bench join ADDRESS:PORT RANK RANKS [bytes ...]`, where rank 0 has the address.
//!
//! Prints for each size the median, smallest and largest time of rank 0, the tensor bytes a second (algbw) and what crosses each
//! link at that rate (busbw = algbw x 2 (n - 1) / n).

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use netfold_collectives::mesh::{Mesh, MeshConfig, MeshError, TcpRendezvous};
use netfold_collectives::{DType, ReduceOp};

const WAIT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [join, addr, rank, world, sizes @ ..] = args.as_slice()
        && join == "join"
    {
        let mut exchange = TcpRendezvous::new(addr.parse()?, "bench", rank.parse()?, world.parse()?, WAIT)?;
        return Ok(bench(&mut Mesh::connect(&mut exchange, MeshConfig::default())?, &bytes(sizes)?)?);
    }
    let world: u16 = args.first().map_or(Ok(4), |ranks| ranks.parse())?;
    let sizes = bytes(args.get(1..).unwrap_or_default())?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let addr = listener.local_addr()?;
    thread::scope(|scope| {
        let mut others = Vec::new();
        for rank in 1..world {
            let sizes = &sizes;
            others.push(scope.spawn(move || -> Result<(), MeshError> {
                let mut exchange = TcpRendezvous::new(addr, "bench", rank, world, WAIT)?;
                bench(&mut Mesh::connect(&mut exchange, MeshConfig::default())?, sizes)
            }));
        }
        let mut exchange = TcpRendezvous::host(listener, "bench", world, WAIT)?;
        bench(&mut Mesh::connect(&mut exchange, MeshConfig::default())?, &sizes)?;
        for other in others {
            other.join().map_err(|_| "a rank panicked")??;
        }
        Ok(())
    })
}

fn bytes(args: &[String]) -> Result<Vec<usize>, std::num::ParseIntError> {
    if args.is_empty() {
        return Ok(vec![4 << 10, 32 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20]);
    }
    args.iter().map(|arg| arg.parse()).collect()
}

fn bench(mesh: &mut Mesh, sizes: &[usize]) -> Result<(), MeshError> {
    if mesh.rank() == 0 {
        println!("{} ranks, f32 sum", mesh.world());
        println!("     bytes  median us        min        max GB/s alg  GB/s bus");
    }
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
