//! Which blocks are small among a rank's own: what may go missing first.
//!
//! After MLT (NSDI 2024), which lets packets of small gradients go before those of large ones. The measure here is the exponent
//! of a block's largest element, which the quantiser has anyway, and small is what is at most the median of recent blocks.

/// Blocks after which the counts are halved: the extent of "recent".
const MEMORY: u32 = 4096;

/// Counts of recent block exponents.
#[derive(Debug)]
pub(super) struct Magnitudes {
    counts: Box<[u32; 256]>,
    total: u32,
    /// The median, of when it was last looked for.
    median: u8,
    /// Blocks since then.
    since: u32,
}

impl Default for Magnitudes {
    fn default() -> Self {
        Self { counts: Box::new([0; 256]), total: 0, median: u8::MAX, since: 0 }
    }
}

impl Magnitudes {
    /// Counts a block by its exponent; true when it is not above the median.
    pub(super) fn is_small(&mut self, exponent: u8) -> bool {
        self.counts[usize::from(exponent)] += 1;
        self.total += 1;
        self.since += 1;
        // Looked for again whenever an eighth has come on top.
        if self.since * 8 >= self.total {
            self.since = 0;
            self.median = self.find_median();
        }
        if self.total >= MEMORY {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
        exponent <= self.median
    }

    fn find_median(&self) -> u8 {
        let mut below = 0;
        let at = self.counts.iter().position(|count| {
            below += count;
            2 * below >= self.total
        });
        at.unwrap_or(255) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_half_is_small() {
        let mut magnitudes = Magnitudes::default();
        let mut at = 12345u32;
        let mut small = 0;
        for block in 0..20_000 {
            at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // 100 to 131, each as often as any other.
            let exponent = 100 + (at >> 27) as u8;
            let is_small = magnitudes.is_small(exponent);
            if block > 500 {
                assert!(is_small || exponent > 110, "{exponent}");
                assert!(!is_small || exponent < 121, "{exponent}");
            }
            small += u32::from(is_small);
        }
        assert!((9_000..12_000).contains(&small), "{small} of 20000");
    }

    #[test]
    fn equal_blocks_are_all_small_and_gradients_may_shrink() {
        let mut magnitudes = Magnitudes::default();
        assert!((0..10_000).all(|_| magnitudes.is_small(120)));
        (0..2 * MEMORY).for_each(|_| assert!(magnitudes.is_small(100)));
        assert!(!magnitudes.is_small(120), "what was usual is large now");
    }
}
