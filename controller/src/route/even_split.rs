//! How flows are split evenly over paths.

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
    }

    #[test]
    fn without_paths_nothing_is_split() {
        assert_eq!(EvenSplit::new(3, 0), None);
    }
}
