//! Rounding of binary64 to binary16 by plain arithmetic, as expected values need it: the crate `half` rounds twice where the processor converts by way of
//! binary32, and drops half of the bits where it has no instruction for it.

/// The bits of the binary16 number next to `value`, ties to even; of NaN, the quiet one without payload.
pub fn nearest_binary16(value: f64) -> u16 {
    if value.is_nan() {
        return 0x7e00;
    }
    let sign = u16::from(value.is_sign_negative()) << 15;
    let magnitude = value.abs();
    // Numbers below 2^-14 have its unit in the last place.
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(-14);
    if exponent > 15 {
        return sign | 0x7c00;
    }
    // Exact, so this is the only rounding.
    let units = (magnitude / 2f64.powi(exponent - 10)).round_ties_even() as u16;
    // A number that is rounded up to the next power of two carries into the exponent, and from the last one to infinity.
    sign | ((((exponent + 14) as u16) << 10) + units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_every_boundary() {
        let tie = 1.0 + 2f64.powi(-11);
        for (value, bits) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.0, 0x7bff),
            (65520.0, 0x7c00),
            (f64::NEG_INFINITY, 0xfc00),
            (f64::NAN, 0x7e00),
            (2f64.powi(-14), 0x0400),
            (2f64.powi(-24), 0x0001),
            (2f64.powi(-25), 0x0000),
            (2f64.powi(-25) * 1.5, 0x0001),
            (2f64.powi(-14) - 2f64.powi(-26), 0x0400),
            (tie, 0x3c00),
            // Beyond the 20 upper bits of the fraction, and beyond binary32.
            (tie + 2f64.powi(-22), 0x3c01),
            (tie + 2f64.powi(-40), 0x3c01),
            (2.0 - 2f64.powi(-12), 0x4000),
        ] {
            assert_eq!(nearest_binary16(value), bits, "{value}");
        }
    }
}
