//! Tolerances from C's arguments.

use netfold::Tolerance;

use crate::result::Failure;

/// A tolerance from C's arguments.
pub(crate) fn parse_tolerance(
    tolerance: f64,
    rescale: bool,
    without_stragglers: bool,
) -> Result<Tolerance, Failure> {
    let fraction = Tolerance::fraction(tolerance).ok_or_else(|| {
        Failure::argument(format!("{tolerance} is not a tolerance; give a fraction from 0 to 1"))
    })?;
    Ok(Tolerance { rescale, stragglers: without_stragglers, ..fraction })
}
