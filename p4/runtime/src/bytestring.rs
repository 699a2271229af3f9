//! Encoding of numbers: big-endian, with the fewest bytes that hold the value (specification 1.4.1, section 8.4).
//!
//! Receivers accept any length of at least one byte whose value fits the field.

/// Widest number that Netfold's entries hold, in bits.
pub const BITS_MAX: u32 = 64;

/// The canonical form: the shortest, but at least one byte.
pub fn encode(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let zeros = (value.leading_zeros() / 8).min(7) as usize;
    bytes[zeros..].to_vec()
}

/// The value of a field of `bits` bits; any number of leading zeros is allowed.
///
/// # Errors
///
/// [`BytestringError`] when there is no byte, or the value does not fit `bits` or 64 bits.
pub fn decode(bytes: &[u8], bits: u32) -> Result<u64, BytestringError> {
    if bytes.is_empty() {
        return Err(BytestringError::Empty);
    }
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let digits = &bytes[start..];
    if digits.len() > 8 {
        return Err(BytestringError::TooLarge { bits });
    }
    let value = digits.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    if value & !ones(bits) != 0 { Err(BytestringError::TooLarge { bits }) } else { Ok(value) }
}

/// The largest number of `bits` bits; all 64 bits for larger widths.
pub const fn ones(bits: u32) -> u64 {
    if bits >= u64::BITS { u64::MAX } else { (1 << bits) - 1 }
}

/// A number that its field cannot hold; `OUT_OF_RANGE` in P4Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BytestringError {
    /// No byte at all.
    #[error("a bytestring has at least one byte: zero is one zero byte")]
    Empty,
    /// Wider than the field.
    #[error("the value does not fit {bits} bits")]
    TooLarge {
        /// Width of the field.
        bits: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn canonical_form_is_the_shortest() {
        assert_eq!(encode(0), [0]);
        assert_eq!(encode(0xff), [0xff]);
        assert_eq!(encode(0x100), [1, 0]);
        assert_eq!(encode(u64::MAX), [0xff; 8]);
    }

    #[test]
    fn leading_zeros_are_accepted_and_nothing_is_not() {
        assert_eq!(decode(&[0; 40], 1), Ok(0));
        assert_eq!(decode(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 9], 4), Ok(9));
        assert_eq!(decode(&[], 8), Err(BytestringError::Empty));
        assert_eq!(decode(&[1, 0], 8), Err(BytestringError::TooLarge { bits: 8 }));
        assert_eq!(decode(&[1; 9], 128), Err(BytestringError::TooLarge { bits: 128 }));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(value: u64, zeros in 0usize..4) {
            let mut bytes = vec![0; zeros];
            bytes.extend(encode(value));
            prop_assert_eq!(decode(&bytes, 64), Ok(value));
        }

        #[test]
        fn a_value_fits_exactly_its_width(value: u64, bits in 1u32..=64) {
            prop_assert_eq!(decode(&encode(value), bits).is_ok(), value <= ones(bits));
        }
    }
}
