//! The Internet checksum (RFC 1071), as many bytes a step as the processor has registers for.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "SIMD builds are called after detection"))]

/// Bytes below which it matters little how they are added.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = 64;

/// Sum of `bytes` as 16-bit words in the machine's order, an odd last byte padded with zero; not yet folded. At most 64 KiB,
/// so that nothing overflows when a few such sums are added. The same number on every processor of one byte order.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= SHORT {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has it.
            return unsafe { sum_avx512(bytes) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { sum_avx2(bytes) };
        }
    }
    sum_plain(bytes)
}

/// [`sum_plain`], built for registers of 64 bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512(bytes: &[u8]) -> u64 {
    sum_plain(bytes)
}

/// [`sum_plain`], built for registers of 32 bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(bytes: &[u8]) -> u64 {
    sum_plain(bytes)
}

#[inline(always)]
fn sum_plain(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let total: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_ne_bytes(last))
}

/// Folds a sum into 16 bits, still in the machine's order.
pub(super) fn fold(sum: u64) -> u16 {
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Sum of UDP's pseudo header: `addresses` is source and destination as in the IPv4 header, `len` that of header and payload.
pub(super) fn pseudo(addresses: &[u8], len: u16) -> u64 {
    let rest = [0, 17, len.to_be_bytes()[0], len.to_be_bytes()[1]];
    sum(addresses) + sum(&rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)).to_ne_bytes(), [0xdd, 0xf2]);
    }

    proptest! {
        #[test]
        fn as_word_by_word(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut padded = bytes.clone();
            padded.resize(bytes.len().next_multiple_of(2), 0);
            let mut plain = 0_u32;
            for word in padded.chunks(2) {
                plain += u32::from(u16::from_be_bytes([word[0], word[1]]));
                plain = (plain & 0xffff) + (plain >> 16);
            }
            // Zero and its complement are the same number.
            let fast = u16::from_be_bytes(fold(sum(&bytes)).to_ne_bytes());
            prop_assert_eq!(u32::from(fast) % 0xffff, plain % 0xffff);
        }

        #[test]
        fn the_same_in_every_build(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
            let plain = sum_plain(&bytes);
            prop_assert_eq!(sum(&bytes), plain);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has it.
                prop_assert_eq!(unsafe { sum_avx2(&bytes) }, plain);
            }
        }
    }
}
