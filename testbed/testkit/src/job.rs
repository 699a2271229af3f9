//! A collective operation on a thread per rank, with every element verified.

use std::thread;

/// Calls `rank` with every rank number, each on a thread of its own, and returns the results in rank order.
///
/// # Panics
///
/// When one of the calls does, with its panic.
pub fn on_all_ranks<T: Send>(world: u16, rank: impl Fn(u16) -> T + Sync) -> Vec<T> {
    let rank = &rank;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..world).map(|number| scope.spawn(move || rank(number))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// An all-reduce of integers whose contributions and sum follow from rank and index, so that every element can be verified: a contribution
/// of a wrong rank, place, operation or count changes the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedSum {
    /// Number of ranks.
    pub world: u16,
    /// Elements of the tensor.
    pub elements: usize,
    /// Distinguishes the operations of a job.
    pub operation: i32,
}

impl CheckedSum {
    /// What a rank contributes.
    pub fn contribution(&self, rank: u16) -> Vec<i32> {
        let weight = i32::from(rank) + 1;
        (0..self.elements).map(|index| self.base(index).wrapping_mul(weight)).collect()
    }

    /// Verifies the result that a rank received.
    ///
    /// # Panics
    ///
    /// When its length or an element is wrong; names the rank and the first wrong element.
    #[track_caller]
    pub fn verify(&self, rank: u16, result: &[i32]) {
        assert_eq!(result.len(), self.elements, "elements at rank {rank}");
        if let Some((index, value)) = self.first_wrong(result) {
            panic!("rank {rank}, element {index}: {value} instead of {}", self.expected(index));
        }
    }

    /// Whether a result is the sum.
    pub fn is_right(&self, result: &[i32]) -> bool {
        result.len() == self.elements && self.first_wrong(result).is_none()
    }

    fn first_wrong(&self, result: &[i32]) -> Option<(usize, i32)> {
        result.iter().copied().enumerate().find(|(index, value)| *value != self.expected(*index))
    }

    fn expected(&self, index: usize) -> i32 {
        let world = i32::from(self.world);
        self.base(index).wrapping_mul(world.wrapping_mul(world + 1) / 2)
    }

    /// Runs the operation on every rank at the same time and verifies every element at each. `all_reduce` gets the rank and its
    /// contribution, which it replaces by the result.
    pub fn run(&self, all_reduce: impl Fn(u16, &mut [i32]) + Sync) {
        on_all_ranks(self.world, |rank| {
            let mut tensor = self.contribution(rank);
            all_reduce(rank, &mut tensor);
            self.verify(rank, &tensor);
        });
    }

    fn base(&self, index: usize) -> i32 {
        (index as i32).wrapping_mul(7).wrapping_add(self.operation.wrapping_mul(1009)).wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: CheckedSum = CheckedSum { world: 3, elements: 1000, operation: 2 };

    fn add(sum: &mut [i32], contribution: &[i32]) {
        sum.iter_mut().zip(contribution).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
    }

    #[test]
    fn a_correct_sum_passes() {
        SUM.run(|rank, tensor| {
            (0..3).filter(|other| *other != rank).for_each(|other| add(tensor, &SUM.contribution(other)));
        });
    }

    #[test]
    #[should_panic(expected = "rank 0, element 0")]
    fn a_missing_contribution_is_found() {
        let mut tensor = SUM.contribution(0);
        add(&mut tensor, &SUM.contribution(1));
        SUM.verify(0, &tensor);
    }

    #[test]
    fn results_are_in_rank_order() {
        assert_eq!(on_all_ranks(4, |rank| rank * 2), [0, 2, 4, 6]);
    }
}
