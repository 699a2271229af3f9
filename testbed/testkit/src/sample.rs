//! Order statistics of repeated measurements.

/// Values in ascending order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// The percentile by rank, not interpolated; the maximum for 100, 0 of none.
    pub fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(rank).copied().unwrap_or(0.0)
    }

    /// The median, of two the greater; 0 of none.
    pub fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The minimum; 0 of none.
    pub fn min(&self) -> f64 {
        self.percentile(0)
    }

    /// The maximum; 0 of none.
    pub fn max(&self) -> f64 {
        self.percentile(100)
    }

    /// The values in ascending order.
    pub fn into_values(self) -> Vec<f64> {
        self.0
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_few_and_many_values() {
        let of = |count: u32| (1..=count).rev().map(f64::from).collect::<Sample>();
        let figures = |sample: &Sample| (sample.min(), sample.median(), sample.max());
        assert_eq!(figures(&of(0)), (0.0, 0.0, 0.0));
        assert_eq!(figures(&of(1)), (1.0, 1.0, 1.0));
        assert_eq!(figures(&of(4)), (1.0, 3.0, 4.0));
        assert_eq!(figures(&of(101)), (1.0, 51.0, 101.0));
        assert_eq!((of(200).percentile(90), of(200).percentile(99)), (181.0, 199.0));
        assert_eq!(of(3).into_values(), [1.0, 2.0, 3.0]);
    }
}
