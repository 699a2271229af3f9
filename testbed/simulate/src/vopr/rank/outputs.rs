//! What a rank contributes, and what it must be given.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use netfold_proto::{Collective, Tolerance};

use super::RankProcess;
use crate::vopr::device::PAYLOAD;

/// Elements of a chunk.
const CHUNK: usize = PAYLOAD as usize / 4;

/// A rank's element of an operation's tensor: small enough for sums of floats to be exact.
pub(super) fn element(job: usize, op: usize, rank: u16, at: usize) -> i32 {
    let mixed =
        (at as u64 + 1) * 0x9e37_79b9 + (op as u64) * 7_919 + u64::from(rank) * 104_729 + (job as u64) * 31;
    ((mixed ^ (mixed >> 13)) % 2_001) as i32 - 1_000
}

/// Sums that may lack contributions, by job and operation.
type Sums = BTreeMap<(usize, usize), Vec<u32>>;

impl RankProcess {
    /// An element of what an operation delivers to this rank, where the contributions of some ranks, as bits, are missing; none where it
    /// delivers nothing.
    fn expected(&self, op: usize, at: usize, missing: u32) -> Option<i32> {
        let plan = self.plan.ops[op];
        let there = || (0..self.world()).filter(|rank| missing >> rank & 1 == 0);
        let sum = |at| there().map(|rank| element(self.job, op, rank, at)).sum();
        Some(match plan.collective {
            Collective::Reduce { root } if root != self.rank => return None,
            Collective::Broadcast { root } => element(self.job, op, root, at),
            Collective::AllGather => element(self.job, op, (at / plan.elements) as u16, at % plan.elements),
            Collective::ReduceScatter => sum(usize::from(self.rank) * plan.elements + at),
            _ => sum(at),
        })
    }

    /// The first element from `at` on that is not as expected without some contributions, and what it should be.
    fn first_wrong(&self, op: usize, (at, found): (usize, &[u32]), missing: u32) -> Option<(usize, u32)> {
        let floats = self.plan.ops[op].floats;
        (at..).zip(found).find_map(|(at, found)| {
            let wanted = self.expected(op, at, missing)?;
            let wanted = if floats { (wanted as f32).to_bits() } else { wanted.cast_unsigned() };
            (*found != wanted).then_some((at, wanted))
        })
    }

    /// **Every delivered element is correct**, and so the same on all ranks: floats are small integers here, whose sums are exact.
    pub(super) fn check_output(&self, op: usize, output: &[u32], sums: &mut Sums, partial: &mut u64) {
        let plan = self.plan.ops[op];
        assert_eq!(output.len(), plan.collective.info().output.elements(plan.elements, self.world()));
        let may_lack = matches!(plan.collective, Collective::AllReduce | Collective::ReduceScatter);
        if self.plan.tolerance.parts > 0 && plan.floats && may_lack {
            return self.check_bounded(op, output, sums, partial);
        }
        if let Some((at, wanted)) = self.first_wrong(op, (0, output), 0) {
            panic!(
                "job {} rank {}: element {at} of operation {op} is {:#x} instead of {wanted:#x}",
                self.job, self.rank, output[at]
            );
        }
    }

    /// Each chunk is the sum of some ranks' contributions, of which no rank lacks more than tolerated, and all ranks are given the same.
    fn check_bounded(&self, op: usize, output: &[u32], sums: &mut Sums, partial: &mut u64) {
        let (job, rank, world) = (self.job, self.rank, self.world());
        let mut lacking = vec![0_usize; usize::from(world)];
        // Chunks are those of the whole tensor.
        let scattered = self.plan.ops[op].collective == Collective::ReduceScatter;
        let offset = if scattered { usize::from(rank) * self.plan.ops[op].elements % CHUNK } else { 0 };
        let (first, others) = output.split_at((CHUNK - offset).min(output.len()));
        let mut at = 0;
        for chunk in std::iter::once(first).chain(others.chunks(CHUNK)) {
            let mut sets: Vec<u32> = (0..1 << world).collect();
            sets.sort_by_key(|missing| missing.count_ones());
            let explained = |missing: &u32| self.first_wrong(op, (at, chunk), *missing).is_none();
            let missing = sets.into_iter().find(explained);
            let missing = missing.unwrap_or_else(|| {
                panic!("job {job} rank {rank}: what is at {at} of operation {op} is the sum of no ranks")
            });
            at += chunk.len();
            *partial += u64::from(missing != 0);
            lacking
                .iter_mut()
                .enumerate()
                .for_each(|(rank, lacking)| *lacking += missing as usize >> rank & 1);
        }
        if self.plan.ops[op].collective != Collective::AllReduce {
            return;
        }
        let most = output.len().div_ceil(CHUNK) * usize::from(self.plan.tolerance.parts);
        let most = most / usize::from(Tolerance::PARTS);
        for (of, lacking) in lacking.iter().enumerate() {
            assert!(
                *lacking <= most,
                "job {job}: {lacking} chunks of rank {of} are left out of operation {op}, and {most} may be"
            );
        }
        match sums.entry((job, op)) {
            Entry::Vacant(vacant) => drop(vacant.insert(output.to_vec())),
            Entry::Occupied(first) => {
                assert!(
                    first.get() == output,
                    "job {job}: rank {rank} is given another sum of operation {op}"
                );
            }
        }
    }
}
