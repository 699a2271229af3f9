//! Every collective against a plain fold of all ranks' tensors.

use std::time::{Duration, Instant};

use half::{bf16, f16};
use netfold_collectives::mesh::{Mesh, MeshConfig, MeshExchange};
use netfold_collectives::reduce::{finish, reduce, supports};
use netfold_collectives::{Buffers, Collective, DType, ReduceOp};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::mesh::group::{HANG, meshes};

const WORLDS: [u16; 6] = [1, 2, 3, 4, 5, 8];

/// One float with a value that every order of folds treats alike: 0.5, 1 or 2.
fn element(dtype: DType, random: &mut SmallRng) -> Vec<u8> {
    let value = [0.5f32, 1.0, 2.0][random.random_range(0..3)];
    match dtype {
        DType::F64 => f64::from(value).to_ne_bytes().to_vec(),
        DType::F16 => f16::from_f32(value).to_ne_bytes().to_vec(),
        DType::Bf16 => bf16::from_f32(value).to_ne_bytes().to_vec(),
        _ => value.to_ne_bytes().to_vec(),
    }
}

/// The tensor of a rank, a function of its arguments alone.
fn tensor(dtype: DType, rank: u16, count: usize) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(u64::from(rank) << 32 | count as u64);
    let mut bytes = vec![0; count * dtype.size()];
    if matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::Bf16) {
        for one in bytes.chunks_mut(dtype.size()) {
            one.copy_from_slice(&element(dtype, &mut random));
        }
    } else {
        random.fill(&mut bytes);
    }
    bytes
}

fn folded(op: ReduceOp, dtype: DType, world: u16, count: usize) -> Vec<u8> {
    let mut sum = tensor(dtype, 0, count);
    for rank in 1..world {
        reduce(op, dtype, &mut sum, &tensor(dtype, rank, count)).unwrap();
    }
    finish(op, dtype, &mut sum, u32::from(world)).unwrap();
    sum
}

struct Case {
    dtype: DType,
    op: ReduceOp,
    count: usize,
}

impl Case {
    fn expected(&self, collective: Collective, world: u16, rank: u16) -> Vec<u8> {
        let (dtype, count, n) = (self.dtype, self.count, usize::from(world));
        let bytes = count * dtype.size();
        let mine = usize::from(rank) * bytes;
        match collective {
            Collective::AllReduce | Collective::Reduce { .. } => folded(self.op, dtype, world, count),
            Collective::Broadcast { root } => tensor(dtype, root, count),
            Collective::AllGather => (0..world).flat_map(|rank| tensor(dtype, rank, count)).collect(),
            Collective::ReduceScatter => {
                folded(self.op, dtype, world, n * count)[mine..mine + bytes].to_vec()
            }
            Collective::AllToAll => (0..world)
                .flat_map(|from| tensor(dtype, from, n * count)[mine..mine + bytes].to_vec())
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Elements of the input.
    fn inputs(&self, collective: Collective, world: u16) -> usize {
        let parts = match collective {
            Collective::ReduceScatter | Collective::AllToAll => usize::from(world),
            _ => 1,
        };
        parts * self.count
    }

    fn check(&self, mesh: &mut Mesh, collective: Collective) {
        let (rank, world) = (mesh.rank(), mesh.world());
        let input = tensor(self.dtype, rank, self.inputs(collective, world));
        let expected = self.expected(collective, world, rank);
        let what = format!("{collective:?} {} {} x {}, {rank} of {world}", self.op, self.count, self.dtype);
        let gets = !matches!(collective, Collective::Reduce { root } if root != rank);

        let mut output = vec![0xee; if gets { expected.len() } else { 0 }];
        mesh.run(collective, self.dtype, self.op, Buffers::Split { input: &input, output: &mut output })
            .unwrap();
        assert!(!gets || output == expected, "{what}");

        let at = |parts: usize| usize::from(rank) * parts;
        let mut buffer = input.clone();
        let mut own = 0..expected.len();
        match collective {
            Collective::AllGather => {
                buffer = vec![0xee; expected.len()];
                buffer[at(input.len())..][..input.len()].copy_from_slice(&input);
            }
            Collective::ReduceScatter => own = at(expected.len())..at(expected.len()) + expected.len(),
            _ => {}
        }
        mesh.run(collective, self.dtype, self.op, Buffers::InPlace(&mut buffer)).unwrap();
        let expected = if gets { expected } else { input };
        assert!(buffer[own] == expected, "{what}, in place");
    }
}

fn all_collectives(world: u16) -> Vec<Collective> {
    let root = world - 1;
    vec![
        Collective::AllReduce,
        Collective::Reduce { root },
        Collective::Broadcast { root },
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllToAll,
    ]
}

#[test]
fn every_type_and_operation() {
    for world in WORLDS {
        meshes(world, MeshConfig::default(), move |mut mesh| {
            for dtype in DType::ALL.iter().copied() {
                for op in ReduceOp::ALL.iter().copied().filter(|op| supports(*op, dtype)) {
                    for count in [1, 37] {
                        for collective in all_collectives(world) {
                            Case { dtype, op, count }.check(&mut mesh, collective);
                        }
                    }
                    Case { dtype, op, count: 40_003 / dtype.size() }.check(&mut mesh, Collective::AllReduce);
                }
            }
        });
    }
}

#[test]
fn every_size() {
    for world in WORLDS {
        meshes(world, MeshConfig::default(), move |mut mesh| {
            let n = usize::from(world);
            // Around the number of ranks, around the step from small to large, and more than sockets hold.
            for count in [0, n - 1, n, n + 1, 8191, 8192, 8193, 70_001, 2_500_003] {
                for collective in all_collectives(world) {
                    let parted = matches!(collective, Collective::ReduceScatter | Collective::AllToAll);
                    let count = if parted || count > 100_000 { count / n } else { count };
                    Case { dtype: DType::I32, op: ReduceOp::Sum, count }.check(&mut mesh, collective);
                }
                mesh.barrier().unwrap();
            }
        });
    }
}

#[test]
fn every_root() {
    meshes(5, MeshConfig::default(), |mut mesh| {
        for root in 0..5 {
            for count in [3, 300_001] {
                let case = Case { dtype: DType::U16, op: ReduceOp::Max, count };
                case.check(&mut mesh, Collective::Broadcast { root });
                case.check(&mut mesh, Collective::Reduce { root });
            }
        }
    });
}

#[test]
fn all_ranks_have_the_same_bits_whatever_the_values() {
    for world in [2, 3, 4, 5, 8] {
        let results = meshes(world, MeshConfig::default(), |mut mesh| {
            let mut random = SmallRng::seed_from_u64(u64::from(mesh.rank()) + 77);
            let mut results = Vec::new();
            for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
                for op in [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Product, ReduceOp::Min] {
                    for len in [4096, 160_000] {
                        // Any bits: NaN with payloads, infinities, subnormals.
                        let mut tensor: Vec<u8> = (0..len).map(|_| random.random()).collect();
                        mesh.all_reduce(dtype, op, &mut tensor).unwrap();
                        results.push(tensor);
                    }
                }
            }
            results
        });
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{world} ranks");
    }
}

#[test]
fn a_ring_transfers_few_bytes_more_than_the_bound() {
    let (world, len) = (4u16, 1 << 20);
    for sent in meshes(world, MeshConfig::default(), move |mut mesh| {
        let mut tensor = vec![0; len];
        mesh.all_reduce(DType::F32, ReduceOp::Sum, &mut tensor).unwrap();
        mesh.bytes_sent()
    }) {
        let least = 2 * (len as u64) * u64::from(world - 1) / u64::from(world);
        assert!(sent >= least && sent < least + least / 1000, "{sent} for {least}");
    }
}

#[test]
fn strings_of_different_lengths() {
    for world in WORLDS {
        for all in meshes(world, MeshConfig::default(), |mut mesh| {
            let deadline = Instant::now() + HANG;
            let none = mesh.all_gather_bytes(&[], deadline).unwrap();
            assert!(none.iter().all(Vec::is_empty));
            let mine = vec![mesh.rank() as u8; 5000 * usize::from(mesh.rank())];
            mesh.all_gather_bytes(&mine, deadline).unwrap()
        }) {
            let expected: Vec<_> =
                (0..world).map(|rank| vec![rank as u8; 5000 * usize::from(rank)]).collect();
            assert_eq!(all, expected);
        }
    }
}

#[test]
fn subgroups_have_meshes_of_their_own() {
    meshes(5, MeshConfig::default(), |mut mesh| {
        // Twice, with calls on the whole mesh between, so that counts of operations on links drift apart.
        for _ in 0..2 {
            let members: &[u16] = if mesh.rank() % 2 == 0 { &[4, 0, 2] } else { &[1, 3] };
            let rank = mesh.rank();
            let mut exchange = MeshExchange::new(&mut mesh, members, HANG).unwrap();
            let mut group = Mesh::connect(&mut exchange, MeshConfig::default()).unwrap();
            assert_eq!(members[usize::from(group.rank())], rank);
            let mut sum = u32::from(rank).to_ne_bytes();
            group.all_reduce(DType::U32, ReduceOp::Sum, &mut sum).unwrap();
            assert_eq!(u32::from_ne_bytes(sum), members.iter().map(|member| u32::from(*member)).sum::<u32>());
            let mut sum = 1u32.to_ne_bytes();
            mesh.all_reduce(DType::U32, ReduceOp::Sum, &mut sum).unwrap();
            assert_eq!(u32::from_ne_bytes(sum), 5);
        }
    });
}

#[test]
fn local_ranks_are_those_of_the_host() {
    let all = meshes(3, MeshConfig::default(), |mesh| mesh.local_ranks());
    assert_eq!(all, vec![vec![0, 1, 2]; 3]);
}

#[test]
fn stragglers_are_awaited() {
    meshes(3, MeshConfig::default(), |mut mesh| {
        if mesh.rank() == 1 {
            // The others have begun, as far as they get, before this rank does.
            std::thread::sleep(Duration::from_millis(200));
        }
        let mut tensor = vec![1u8; 3_000_000];
        mesh.all_reduce(DType::U8, ReduceOp::Sum, &mut tensor).unwrap();
        assert!(tensor.iter().all(|x| *x == 3));
    });
}
