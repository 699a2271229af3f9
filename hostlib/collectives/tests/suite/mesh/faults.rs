//! Disagreement, death, silence, abort, intruders: a typed error on every rank, in bounded time.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use netfold_collectives::mesh::{Exchange, ExchangeError, Loss, Mesh, MeshConfig, MeshError, MeshExchange};
use netfold_collectives::{Buffers, Collective, DType, ReduceOp};

use crate::mesh::group::{HANG, Memory, meshes, ranks};

fn call(
    mesh: &mut Mesh,
    collective: Collective,
    dtype: DType,
    op: ReduceOp,
    len: usize,
) -> Result<(), MeshError> {
    mesh.run(collective, dtype, op, Buffers::InPlace(&mut vec![0; len]))
}

/// Two calls, one of the last rank and one of all others.
type Pair = [(Collective, DType, ReduceOp, usize); 2];

fn pairs() -> Vec<Pair> {
    use Collective::{AllGather, AllReduce, AllToAll, Barrier, Broadcast, Reduce, ReduceScatter};
    let sum = ReduceOp::Sum;
    let (small, large) = (240, 240_000);
    vec![
        [(AllReduce, DType::F32, sum, small), (AllReduce, DType::F32, sum, 2 * small)],
        [(AllReduce, DType::F32, sum, small), (AllReduce, DType::I32, sum, small)],
        [(AllReduce, DType::F32, sum, small), (AllReduce, DType::F32, ReduceOp::Max, small)],
        [(AllReduce, DType::F32, sum, small), (AllReduce, DType::F32, sum, large)],
        [(AllReduce, DType::F32, sum, large), (AllReduce, DType::F32, sum, small)],
        [(AllReduce, DType::F32, sum, large), (AllReduce, DType::F32, sum, 2 * large)],
        [(AllReduce, DType::F32, sum, large), (Barrier, DType::None, sum, 0)],
        [(Barrier, DType::None, sum, 0), (AllReduce, DType::F32, sum, small)],
        [(Broadcast { root: 0 }, DType::F32, sum, small), (Broadcast { root: 1 }, DType::F32, sum, small)],
        [(Broadcast { root: 0 }, DType::F32, sum, large), (Broadcast { root: 1 }, DType::F32, sum, large)],
        [(Reduce { root: 0 }, DType::F32, sum, large), (AllReduce, DType::F32, sum, large)],
        [(Reduce { root: 1 }, DType::F32, sum, small), (Broadcast { root: 1 }, DType::F32, sum, large)],
        [(AllGather, DType::U8, sum, large), (ReduceScatter, DType::U8, sum, large)],
        [(AllToAll, DType::U8, sum, large), (AllToAll, DType::U8, sum, small)],
    ]
}

#[test]
fn a_mismatch_is_reported_on_every_rank() {
    for world in [2, 3, 4, 5] {
        for pair in pairs() {
            let results = meshes(world, MeshConfig::default(), move |mut mesh| {
                let (collective, dtype, op, len) = pair[usize::from(mesh.rank() == world - 1)];
                let len = len / usize::from(world) * usize::from(world) * 4;
                let error = call(&mut mesh, collective, dtype, op, len).unwrap_err();
                (error, call(&mut mesh, collective, dtype, op, len).unwrap_err())
            });
            for (rank, (error, later)) in results.into_iter().enumerate() {
                let MeshError::Mismatch { rank: other, mine, theirs } = error else {
                    panic!("rank {rank} of {world}, {pair:?}: {error}");
                };
                let is_odd = |rank: usize| rank == usize::from(world) - 1;
                assert_ne!(is_odd(rank), is_odd(usize::from(other)), "{pair:?}");
                assert_eq!(mine.kind.collective(), pair[usize::from(is_odd(rank))].0);
                assert_eq!(theirs.kind.collective(), pair[usize::from(!is_odd(rank))].0);
                assert_ne!(mine, theirs);
                assert!(matches!(later, MeshError::Unusable(_)), "{later}");
            }
        }
    }
}

#[test]
fn a_rank_that_leaves_is_reported_on_every_other() {
    for world in [2, 3, 4, 8] {
        for len in [64, 16 << 20] {
            let results = meshes(world, MeshConfig::default(), move |mut mesh| {
                call(&mut mesh, Collective::AllReduce, DType::F32, ReduceOp::Sum, len).unwrap();
                if mesh.rank() == 1 {
                    return None;
                }
                let error =
                    call(&mut mesh, Collective::AllReduce, DType::F32, ReduceOp::Sum, len).unwrap_err();
                Some(error)
            });
            for error in results.into_iter().flatten() {
                assert!(matches!(error, MeshError::PeerLost { rank: 1, .. }), "{world} ranks: {error}");
            }
        }
    }
}

#[test]
fn a_rank_that_aborts_during_a_call_is_reported_on_every_other() {
    for collective in [Collective::AllReduce, Collective::Broadcast { root: 0 }, Collective::ReduceScatter] {
        let results = meshes(4, MeshConfig::default(), move |mut mesh| {
            let aborter = mesh.aborter();
            let (begun, begins) = mpsc::channel();
            let aborting_thread = thread::spawn(move || {
                let aborts: bool = begins.recv().unwrap();
                if aborts {
                    thread::sleep(Duration::from_millis(30));
                    aborter.abort();
                }
            });
            begun.send(mesh.rank() == 2).unwrap();
            // Until it fails: the abort interrupts some call, whenever it arrives.
            let before = Instant::now();
            let error = loop {
                if let Err(error) = call(&mut mesh, collective, DType::F32, ReduceOp::Sum, 8 << 20) {
                    break error;
                }
                assert!(before.elapsed() < HANG);
            };
            aborting_thread.join().unwrap();
            error
        });
        for (rank, error) in results.iter().enumerate() {
            match rank {
                2 => assert!(matches!(error, MeshError::Aborted), "{error}"),
                _ => assert!(
                    matches!(
                        error,
                        MeshError::PeerLost { rank: 2, why: Loss::GaveUp | Loss::Reported { .. } }
                    ),
                    "{collective:?}, rank {rank}: {error}"
                ),
            }
        }
    }
}

#[test]
fn an_abort_ends_a_blocked_call() {
    let lock = Arc::new(Mutex::new(()));
    let guard = lock.clone();
    let held = guard.lock().unwrap();
    let (aborted, others) = mpsc::channel::<()>();
    let others = Mutex::new(others);
    let straggler_lock = lock;
    let waiter = thread::spawn(move || {
        meshes(2, MeshConfig::default(), move |mut mesh| {
            if mesh.rank() == 1 {
                drop(straggler_lock.lock().unwrap());
                return mesh.barrier().unwrap_err();
            }
            let aborter = mesh.aborter();
            let remote = thread::spawn(move || aborter.abort());
            let error = mesh.barrier().unwrap_err();
            remote.join().unwrap();
            aborted.send(()).unwrap();
            error
        })
    });
    others.lock().unwrap().recv_timeout(HANG).unwrap();
    drop(held);
    let errors = waiter.join().unwrap();
    assert!(matches!(errors[0], MeshError::Aborted), "{}", errors[0]);
    assert!(matches!(errors[1], MeshError::PeerLost { rank: 0, .. }), "{}", errors[1]);
}

#[test]
fn a_silent_rank_is_lost_after_the_stall_timeout() {
    let mut config = MeshConfig::default();
    config.stall_timeout = Duration::from_millis(300);
    let done = Arc::new(std::sync::Barrier::new(3));
    let errors = meshes(3, config, move |mut mesh| {
        let result = (mesh.rank() != 2).then(|| mesh.barrier().unwrap_err());
        // The silent rank keeps its mesh until the others have given up.
        done.wait();
        result
    });
    for error in errors.into_iter().flatten() {
        let MeshError::PeerLost { .. } = &error else { panic!("{error}") };
    }
}

#[test]
fn a_deadline_is_respected() {
    let done = Arc::new(std::sync::Barrier::new(2));
    meshes(2, MeshConfig::default(), move |mut mesh| {
        if mesh.rank() == 0 {
            let deadline = Instant::now() + Duration::from_millis(100);
            let error = mesh.all_gather_bytes(b"here", deadline).unwrap_err();
            assert!(matches!(error, MeshError::Deadline { rank: 1 }), "{error}");
            assert_eq!(error.peer(), Some(1));
        }
        done.wait();
    });
}

#[test]
fn a_refused_call_leaves_the_mesh_usable() {
    meshes(2, MeshConfig::default(), |mut mesh| {
        let is_odd = mesh.rank() == 1;
        if is_odd {
            // On one rank alone: nothing is sent.
            let mut seven = [0; 7];
            let refusals = [
                mesh.all_reduce(DType::F32, ReduceOp::Sum, &mut seven).unwrap_err(),
                mesh.all_reduce(DType::F32, ReduceOp::BitOr, &mut seven).unwrap_err(),
                mesh.broadcast(DType::U8, 2, &mut seven).unwrap_err(),
                mesh.all_gather(DType::U8, &[1], &mut seven).unwrap_err(),
                mesh.all_to_all(DType::U8, &[1; 7], &mut seven).unwrap_err(),
                mesh.reduce_scatter(DType::U8, ReduceOp::Sum, &[1; 8], &mut seven).unwrap_err(),
                mesh.all_gather_bytes(&vec![0; 70_000], Instant::now()).unwrap_err(),
                MeshExchange::new(&mut mesh, &[1, 1], HANG).unwrap_err(),
                MeshExchange::new(&mut mesh, &[0], HANG).unwrap_err(),
            ];
            for refusal in refusals {
                assert!(refusal.is_refusal() && !refusal.to_string().is_empty(), "{refusal}");
            }
        }
        mesh.barrier().unwrap();
    });
}

/// The address where a rank listens, from its introduction: version, token (16), port (2), 4, address.
fn listener_of(introduction: &[u8]) -> SocketAddr {
    let port = u16::from_le_bytes([introduction[17], introduction[18]]);
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// An exchange that makes unauthenticated connections to the listeners before the ranks connect.
struct IntrudedExchange<E> {
    inner: E,
    intruders: Vec<TcpStream>,
}

impl<E: Exchange> Exchange for IntrudedExchange<E> {
    fn rank(&self) -> u16 {
        self.inner.rank()
    }

    fn world(&self) -> u16 {
        self.inner.world()
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let all = self.inner.all_gather(mine)?;
        for introduction in all.iter().filter(|bytes| !bytes.is_empty()) {
            let addr = listener_of(introduction);
            // Some send nothing: so many that the connect timeout would pass if each were awaited for its hello timeout. One sends
            // garbage, one a well-formed hello without the token.
            self.intruders.extend((0..8).map(|_| TcpStream::connect(addr).unwrap()));
            let mut garbage = TcpStream::connect(addr).unwrap();
            garbage.write_all(&[0xa5; 4096]).unwrap();
            self.intruders.push(garbage);
            let mut forger = TcpStream::connect(addr).unwrap();
            let mut hello = [0u8; 48];
            hello[..8].copy_from_slice(b"nfmesh \x01");
            hello[40] = 2;
            forger.write_all(&hello).unwrap();
            self.intruders.push(forger);
        }
        Ok(all)
    }
}

#[test]
fn unauthenticated_connections_neither_join_nor_disturb() {
    let memory = Memory::default();
    ranks(3, move |rank| {
        let mut exchange = IntrudedExchange { inner: memory.exchange(rank, 3), intruders: Vec::new() };
        let mut mesh = Mesh::connect(&mut exchange, MeshConfig::default()).unwrap();
        assert!(!exchange.intruders.is_empty());
        let mut sum = [1];
        mesh.all_reduce(DType::U8, ReduceOp::Sum, &mut sum).unwrap();
        assert_eq!(sum, [3]);
    });
}

#[test]
fn a_rank_that_does_not_connect_is_reported() {
    let memory = Memory::default();
    let errors = ranks(2, move |rank| {
        let mut exchange = memory.exchange(rank, 2);
        if rank == 1 {
            // Takes part in the exchange and then does not connect.
            exchange.all_gather(&[]).unwrap();
            let mut introduction = vec![1; 17];
            introduction.extend_from_slice(&[1, 0, 4, 127, 0, 0, 1]);
            exchange.all_gather(&introduction).unwrap();
            return None;
        }
        let mut config = MeshConfig::default();
        config.connect_timeout = Duration::from_millis(200);
        Some(Mesh::connect(&mut exchange, config).unwrap_err())
    });
    assert!(matches!(errors[0], Some(MeshError::Link { rank: 1, .. })), "{:?}", errors[0]);
}
