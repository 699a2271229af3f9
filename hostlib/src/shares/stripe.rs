//! The tree of each operation that goes over one tree alone.

/// Distributes operations to trees in proportion to their weights, as evenly over time as possible: after any number of operations, each tree is
/// within one operation of its share for equal weights, and within the number of trees for others.
///
/// Equal weights give operation `c` to tree `c mod k`. All ranks distribute alike, since the state follows from the weights alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stripe {
    weights: Vec<u64>,
    total: u64,
    credit: Vec<i128>,
}

impl Stripe {
    /// Weights count up to 2^32 - 1.
    pub(super) fn new(weights: &[u32]) -> Self {
        let weights: Vec<u64> = weights.iter().map(|weight| u64::from(*weight)).collect();
        Self { total: weights.iter().sum(), credit: vec![0; weights.len()], weights }
    }

    /// The index of the next operation's tree; 0 if there is no weight.
    pub(super) fn next_tree(&mut self) -> usize {
        // Smooth weighted round robin: all gain their weight, and the one with the most credit pays for the operation.
        for (credit, weight) in self.credit.iter_mut().zip(&self.weights) {
            *credit += i128::from(*weight);
        }
        let next = (0..self.credit.len()).rev().max_by_key(|tree| self.credit[*tree]).unwrap_or(0);
        if let Some(credit) = self.credit.get_mut(next) {
            *credit -= i128::from(self.total);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn operations_are_distributed_by_weight(
            weights in prop::collection::vec(0_u32..1000, 1..8),
            operations in 1_usize..3000,
        ) {
            let mut stripe = Stripe::new(&weights);
            let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            prop_assume!(total > 0.0);
            let mut counts = vec![0_usize; weights.len()];
            for operation in 1..=operations {
                counts[stripe.next_tree()] += 1;
                for (count, weight) in counts.iter().zip(&weights) {
                    let due = operation as f64 * f64::from(*weight) / total;
                    prop_assert!((*count as f64 - due).abs() <= weights.len() as f64, "{count} of {due}");
                }
            }
        }
    }

    #[test]
    fn equal_trees_take_turns() {
        let first = |weights: &[u32]| -> Vec<usize> {
            let mut stripe = Stripe::new(weights);
            (0..7).map(|_| stripe.next_tree()).collect()
        };
        assert_eq!(first(&[7, 7, 7]), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(first(&[2, 0, 1]), [0, 2, 0, 0, 2, 0, 0]);
        assert_eq!(first(&[0, 0]), [0; 7]);
        assert_eq!(first(&[]), [0; 7]);
    }
}
