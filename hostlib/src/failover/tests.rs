//! What ranks pass on to each other, with threads for ranks.

use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use netfold_proto::{Codec, CodedChunk, Contributors, Descriptor, Importance, OpId, OpSpec, Parts, Sharing};
use netfold_wire::{Collective, DType, LaneOp, Mode, ReduceOp};

use super::*;
use crate::buffer::OpBuffer;
use crate::coding::Coding;
use crate::lower::Lowered;
use crate::operation::Operation;

const WORLD: u16 = 3;
const LANE_BYTES: usize = 64;
/// Elements of a part, which is one chunk.
const PART: usize = LANE_BYTES / 2;
const SLOTS: usize = 4;
const EXP: u8 = 128;
/// Stream positions of the descriptor and of the first data chunk.
const STARTS: (u64, u64) = (0, 3);

/// Ranks that are threads.
struct Threads {
    rank: usize,
    shared: Arc<(Barrier, Mutex<Vec<Vec<u8>>>)>,
}

impl Peers for Threads {
    fn all_gather(&mut self, mine: &[u8], _: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let (barrier, all) = &*self.shared;
        all.lock().unwrap()[self.rank] = mine.to_vec();
        barrier.wait();
        let gathered = all.lock().unwrap().clone();
        barrier.wait();
        Ok(gathered)
    }
    fn all_reduce(&mut self, op: ReduceOp, dtype: DType, bytes: &mut [u8]) -> Result<(), Error> {
        let all = self.all_gather(bytes, Duration::ZERO)?;
        assert!(all.iter().all(|other| other.len() == bytes.len()), "all have as much");
        bytes.copy_from_slice(&all[0]);
        for other in &all[1..] {
            netfold_collectives::reduce::reduce(op, dtype, bytes, other).unwrap();
        }
        Ok(())
    }
    fn broadcast(&mut self, bytes: &mut [u8], root: u16) -> Result<(), Error> {
        let all = self.all_gather(bytes, Duration::ZERO)?;
        bytes.copy_from_slice(&all[usize::from(root)]);
        Ok(())
    }
    fn barrier(&mut self) -> Result<(), Error> {
        self.all_gather(&[], Duration::ZERO).map(drop)
    }
    fn stall_timeout(&self) -> Duration {
        Duration::ZERO
    }
    fn is_called(&self) -> bool {
        false
    }
}

fn input(rank: u16) -> Vec<f32> {
    (0..PART * 3).map(|at| ((at * 37 + usize::from(rank) * 11) % 101) as f32 * 0.0171 - 0.6).collect()
}

/// A rank's reduce-scatter, its tensor and its residual.
#[expect(unsafe_code, reason = "lends the vectors of a test to a codec that is dropped before them")]
fn start(tensor: &mut Vec<f32>, residual: &mut Vec<f32>) -> Tensors {
    let descriptor = Descriptor {
        collective: Collective::ReduceScatter,
        dtype: DType::F32,
        mode: Mode::Bfp16,
        elements: tensor.len() as u64,
        ..Descriptor::BARRIER
    };
    let parts = Parts { first: 0, part: PART as u64, chunk: PART as u64 };
    let spec = OpSpec {
        descriptor,
        data_chunks: 3,
        exponents: true,
        class: 0,
        importance: Importance::NONE,
        lane_op: LaneOp::Sum,
        sharing: Sharing::ToEach(parts),
    };
    let memory = (tensor.as_mut_ptr().cast::<u8>(), tensor.len());
    // SAFETY: the vectors keep their memory while the codec lives, and are not used elsewhere until then.
    let buffer = unsafe {
        let mut buffer = OpBuffer::promised(DType::F32, memory, None);
        buffer.keep_residual(residual.as_mut_ptr(), residual.len());
        buffer
    };
    let mut tensors = Tensors::new(WORLD, LANE_BYTES);
    tensors.retain_results(SLOTS);
    tensors.push(OpId(0), STARTS, Operation::new(Lowered { spec, coding: Coding::of(Mode::Bfp16) }, buffer));
    tensors
}

fn coded(chunk: u32) -> CodedChunk {
    CodedChunk { op: OpId(0), chunk, exp: EXP, full_headroom: false }
}

/// The switch is lost when rank 0 and rank 1 lack the results that they are to receive, which all others have acknowledged, and rank 2
/// has given its tensor back.
fn lose_the_switch(rank: u16, peers: &mut Threads, sums: &[Vec<u8>]) -> (Vec<f32>, Vec<f32>) {
    let (mut tensor, mut residual) = (input(rank), vec![0.0; PART * 3]);
    let mut tensors = start(&mut tensor, &mut residual);
    let all = Contributors { count: WORLD, own: true };
    let mut lanes = vec![0; LANE_BYTES];
    for chunk in 0..3 {
        tensors.pack(coded(chunk), &mut lanes);
        match (chunk == u32::from(rank), rank) {
            (true, 2) => tensors.unpack(coded(chunk), all, &sums[2]),
            (true, _) => {}
            (false, _) => tensors.pass(coded(chunk), all),
        }
    }
    let positions: [u64; SLOTS] = [[8, 9, 6, 3], [4, 9, 6, 7], [8, 9, 6, 7]][usize::from(rank)];
    let mut given_back = None;
    if rank == 2 {
        tensors.finish(OpId(0));
        given_back = Some((tensor.clone(), residual.clone()));
        tensor.fill(f32::NAN);
        residual.fill(f32::NAN);
    }
    let reconciled = reconcile_slots(rank, positions.into_iter(), &mut tensors, peers).unwrap();
    assert!((3..6).all(|position| !reconciled.is_undone(position)), "nothing remains to be done");
    drop(tensors);
    given_back.unwrap_or((tensor, residual))
}

#[test]
fn what_only_its_owner_was_to_receive_is_reduced_again() {
    let quantizer = crate::quantize::Quantizer::new(crate::quantize::Lanes::Bfp16, WORLD);
    let mut sums = vec![vec![0u8; LANE_BYTES]; 3];
    for (chunk, sum) in sums.iter_mut().enumerate() {
        for rank in 0..WORLD {
            let mut lanes = vec![0; LANE_BYTES];
            let block = chunk * PART..(chunk + 1) * PART;
            quantizer.pack_block(chunk as u32, &input(rank)[block], EXP, &mut lanes);
            for (sum, lane) in sum.as_chunks_mut::<4>().0.iter_mut().zip(lanes.as_chunks::<4>().0) {
                *sum = u32::from_be_bytes(*sum).wrapping_add(u32::from_be_bytes(*lane)).to_be_bytes();
            }
        }
    }
    let shared = Arc::new((Barrier::new(WORLD.into()), Mutex::new(vec![vec![]; WORLD.into()])));
    let ranks: Vec<(Vec<f32>, Vec<f32>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WORLD)
            .map(|rank| {
                let mut peers = Threads { rank: rank.into(), shared: Arc::clone(&shared) };
                let sums = &sums;
                scope.spawn(move || lose_the_switch(rank, &mut peers, sums))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for owner in 0..usize::from(WORLD) {
        for at in owner * PART..(owner + 1) * PART {
            // What the owner has, with what every rank has left out, is the sum of all inputs.
            let left_out: f32 = ranks.iter().map(|(_, residual)| residual[at]).sum();
            let exact: f32 = (0..WORLD).map(|rank| input(rank)[at]).sum();
            let found = ranks[owner].0[at] + left_out;
            assert!((found - exact).abs() < 1e-5, "element {at}: {found} instead of {exact}");
        }
    }
    let left_out = |rank: usize, chunk: usize| &ranks[rank].1[chunk * PART..(chunk + 1) * PART];
    for owner in [0, 1] {
        assert!(left_out(owner, owner).iter().all(|left| *left == 0.0), "all of the owner's input is in it");
    }
    assert!(left_out(2, 0).iter().any(|left| *left != 0.0), "the others' were quantized");
}
