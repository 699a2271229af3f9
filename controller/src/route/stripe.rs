//! Which chunk goes over which tree, and how flows are split evenly over paths.

/// Whole flows, and flows that are split, such that every path bears the same.
///
/// Source: Ethereal (arXiv 2407.00550): of `n` equal flows over `s` paths, `n - n mod s` go whole, and each of the rest in
/// `s / gcd(n mod s, s)` equal parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvenSplit {
    /// Flows that are sent whole.
    pub whole: u32,
    /// Flows that are split.
    pub split: u32,
    /// Parts of each flow that is split, 1 when there is none.
    pub parts: u32,
}

impl EvenSplit {
    /// The split of so many equal flows over so many paths; `None` when there is no path.
    pub fn new(flows: u32, paths: u32) -> Option<Self> {
        let rest = flows.checked_rem(paths)?;
        let parts = if rest == 0 { 1 } else { paths / gcd(rest, paths) };
        Some(Self { whole: flows - rest, split: rest, parts })
    }

    /// The path of each piece, in order: the whole flows, then the parts of the first flow that is split, and so on. Begins
    /// with path `first` and goes round.
    pub fn paths(self, first: u32, paths: u32) -> impl Iterator<Item = u32> {
        let pieces = u64::from(self.whole) + u64::from(self.split) * u64::from(self.parts);
        (0..pieces).map(move |piece| ((u64::from(first) + piece) % u64::from(paths.max(1))) as u32)
    }
}

const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Deals chunks to trees in proportion to their weights, as evenly in time as it goes: after any number of chunks, each tree is
/// within one chunk of its share for equal weights, and within the number of trees for others.
///
/// Equal weights deal chunk `c` to tree `c mod k`, which is PANAMA's rule. Weights in proportion to what the trees' links have
/// left fill all of them at the same time. Every rank of a job deals alike, since the state is the weights' alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripe {
    weights: Vec<u64>,
    total: u64,
    credit: Vec<i128>,
}

impl Stripe {
    /// Deals to trees of these weights; `None` when all are 0. Weights count up to 2^32 - 1.
    pub fn new(weights: &[u32]) -> Option<Self> {
        let weights: Vec<u64> = weights.iter().map(|weight| u64::from(*weight)).collect();
        let total = weights.iter().sum();
        (total > 0).then(|| Self { total, credit: vec![0; weights.len()], weights })
    }
}

impl Iterator for Stripe {
    type Item = usize;

    /// The tree of the next chunk. There is always one.
    fn next(&mut self) -> Option<usize> {
        // Smooth weighted round robin: all gain their weight, the richest pays for the turn.
        for (credit, weight) in self.credit.iter_mut().zip(&self.weights) {
            *credit += i128::from(*weight);
        }
        let richest = (0..self.credit.len()).rev().max_by_key(|tree| self.credit[*tree])?;
        self.credit[richest] -= i128::from(self.total);
        Some(richest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_path_bears_the_same(flows in 0_u32..200, paths in 1_u32..40, first in 0_u32..40) {
            let split = EvenSplit::new(flows, paths).unwrap();
            prop_assert_eq!(split.whole + split.split, flows);
            // Loads in parts of a flow.
            let mut loads = vec![0; paths as usize];
            for (piece, path) in split.paths(first, paths).enumerate() {
                loads[path as usize] += if piece < split.whole as usize { split.parts } else { 1 };
            }
            let each = flows * split.parts / paths;
            prop_assert_eq!(flows * split.parts % paths, 0);
            prop_assert!(loads.iter().all(|load| *load == each), "{:?}", loads);
        }

        #[test]
        fn chunks_are_dealt_by_weight(weights in prop::collection::vec(0_u32..1000, 1..8), chunks in 1_usize..3000) {
            let Some(mut stripe) = Stripe::new(&weights) else { return Ok(()) };
            let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            let mut dealt = vec![0_usize; weights.len()];
            for chunk in 1..=chunks {
                dealt[stripe.next().unwrap()] += 1;
                for (dealt, weight) in dealt.iter().zip(&weights) {
                    let due = chunk as f64 * f64::from(*weight) / total;
                    prop_assert!((*dealt as f64 - due).abs() <= weights.len() as f64, "{dealt} of {due}");
                }
            }
        }
    }

    #[test]
    fn equal_trees_take_turns() {
        let dealt: Vec<_> = Stripe::new(&[7, 7, 7]).unwrap().take(7).collect();
        assert_eq!(dealt, [0, 1, 2, 0, 1, 2, 0]);
        let dealt: Vec<_> = Stripe::new(&[2, 0, 1]).unwrap().take(6).collect();
        assert_eq!(dealt, [0, 2, 0, 0, 2, 0]);
        assert_eq!(Stripe::new(&[0, 0]), None);
        assert_eq!(EvenSplit::new(3, 0), None);
    }
}
