//! When two trainings count as having the same outcome.

use super::trainer::Evaluation;

/// Largest relative difference of the training losses at any epoch.
///
/// Measured with the default settings: rounding every gradient to 10 to 13 bits of its block's largest value made at most
/// 0.002, another seed at least 0.15. The bound lies about a factor of ten from both; a test holds it against both.
pub const LOSS_TOLERANCE: f64 = 0.02;

/// Largest difference of the final test accuracies: one percentage point.
pub const ACCURACY_TOLERANCE: f64 = 0.01;

/// How a training compares with its reference.
///
/// They agree if at every epoch the training losses differ by at most [`LOSS_TOLERANCE`] of the reference's, if the final
/// accuracies on the held-out images differ by at most [`ACCURACY_TOLERANCE`], and if the training learnt something: its
/// final loss is below its first. A loss that is not a number agrees with nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Largest difference of the training losses at any epoch, over the reference's.
    pub loss_difference: f64,
    /// Difference of the final test accuracies, 0.0 to 1.0.
    pub accuracy_difference: f64,
    /// Whether the final training loss is below the first.
    pub learnt: bool,
}

impl Agreement {
    /// Compares two curves of one point per epoch, the first before any step.
    ///
    /// Returns nothing if the curves have different lengths or no points.
    pub fn of(curve: &[Evaluation], reference: &[Evaluation]) -> Option<Self> {
        let (first, last) = (curve.first()?, curve.last()?);
        let reference_last = reference.last()?;
        let differences = curve
            .iter()
            .zip(reference)
            .map(|(ours, theirs)| (ours.train_loss - theirs.train_loss).abs() / theirs.train_loss);
        (curve.len() == reference.len()).then(|| Self {
            // Not `f64::max`, which would pass over a loss that is not a number.
            loss_difference: differences
                .fold(0.0, |largest, next| if next <= largest { largest } else { next }),
            accuracy_difference: (last.test_accuracy - reference_last.test_accuracy).abs(),
            learnt: last.train_loss < first.train_loss,
        })
    }

    /// The verdict.
    pub fn agrees(&self) -> bool {
        self.learnt
            && self.loss_difference <= LOSS_TOLERANCE
            && self.accuracy_difference <= ACCURACY_TOLERANCE + f64::EPSILON
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(train_loss: f64, test_accuracy: f64) -> Evaluation {
        Evaluation { train_loss, test_loss: train_loss, test_accuracy }
    }

    #[test]
    fn near_curves_agree_and_far_ones_do_not() {
        let reference = [at(2.3, 0.1), at(0.100, 0.970)];
        let agrees = |last| Agreement::of(&[at(2.3, 0.1), last], &reference).unwrap().agrees();
        assert!(agrees(at(0.101, 0.961)));
        assert!(!agrees(at(0.103, 0.970)), "loss too high");
        assert!(!agrees(at(0.097, 0.970)), "loss too low");
        assert!(!agrees(at(0.100, 0.958)), "accuracy");
        assert!(!agrees(at(f64::NAN, 0.970)), "no number");
        let detour = Agreement::of(&[at(2.4, 0.1), at(0.1, 0.97)], &reference).unwrap();
        assert!(!detour.agrees(), "apart on the way");
        let stuck = [at(0.1, 0.97), at(0.1, 0.97)];
        assert!(!Agreement::of(&stuck, &stuck).unwrap().agrees(), "learnt nothing");
    }

    #[test]
    fn curves_of_different_lengths_are_not_compared() {
        assert_eq!(Agreement::of(&[at(1.0, 0.5)], &[]), None);
        assert_eq!(Agreement::of(&[], &[]), None);
        assert_eq!(Agreement::of(&[at(2.0, 0.5), at(1.0, 0.5)], &[at(2.0, 0.5)]), None);
    }
}
