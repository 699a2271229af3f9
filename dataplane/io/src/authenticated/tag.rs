//! The tag of a datagram: AES-128 of its POLYVAL (RFC 8452, section 3), truncated to 64 bits.
//!
//! A universal hash under one key, encrypted under another, is a pseudorandom function of the datagram. It takes no nonce, so a
//! retransmission has the same bytes and no state is needed to send it; with GMAC, two datagrams under one nonce would give the key away. At
//! `q` datagrams of `n` blocks under one key, a forger gains at most `q² n / 2^129` over guessing 64 bits: `2^-42` after 2^40 datagrams
//! of 1,444 bytes.

use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt as _, KeyInit as _};
use netfold_wire::{PacketKey, TAG_LEN};
use polyval::Polyval;
use polyval::universal_hash::UniversalHash as _;

/// What one sender's tags are computed with. The first half of a [`PacketKey`] is the key of POLYVAL, the second that of AES-128.
pub(super) struct TagKey {
    hash: Polyval,
    cipher: Aes128Enc,
    key: PacketKey,
}

impl TagKey {
    pub(super) fn new(key: &PacketKey) -> Self {
        let [hash, cipher] = halves(&key.0);
        Self { hash: Polyval::new(&hash.into()), cipher: Aes128Enc::new(&Array(cipher)), key: key.clone() }
    }

    /// The key, to compare it with another.
    pub(super) const fn key(&self) -> &PacketKey {
        &self.key
    }

    /// The tag of a datagram whose chunk has these upper 32 bits: of its bytes, padded with zeros to blocks of 16, and of a last block of
    /// `upper` (32 bits), 32 zero bits and its length in bytes (64 bits), big-endian.
    pub(super) fn tag(&self, datagram: &[u8], upper: u32) -> [u8; TAG_LEN] {
        let mut hash = self.hash.clone();
        hash.update_padded(datagram);
        let mut last = [0; 16];
        last[..4].copy_from_slice(&upper.to_be_bytes());
        last[8..].copy_from_slice(&(datagram.len() as u64).to_be_bytes());
        hash.update(&[last.into()]);
        let mut block = Array::from(<[u8; 16]>::from(hash.finalize()));
        self.cipher.encrypt_block(&mut block);
        let [tag, _] = halves(&block.0);
        tag
    }
}

fn halves<const N: usize, const HALF: usize>(whole: &[u8; N]) -> [[u8; HALF]; 2] {
    let half = |from: usize| core::array::from_fn(|at| whole[from + at]);
    [half(0), half(HALF)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_an_independent_implementation() {
        let key = TagKey::new(&PacketKey(core::array::from_fn(|at| at as u8)));
        let datagram: Vec<u8> = (0..1436_u32).map(|at| (at * 7 + 3) as u8).collect();
        for (len, upper, expected) in KNOWN {
            assert_eq!(key.tag(&datagram[..len], upper), expected.to_be_bytes(), "{len} bytes, {upper}");
        }
    }

    /// Of a bit-by-bit multiplication in GF(2^128) in Python, which also has the result of RFC 8452, appendix A, and `openssl enc -aes-128-ecb`.
    const KNOWN: [(usize, u32, u64); 4] = [
        (28, 0, 0xc7a8_5c97_61b7_34b5),
        (28, 1, 0x5b66_7b33_8b04_7b92),
        (36, u32::MAX, 0xe800_13db_b9c1_7c40),
        (1436, 0, 0x1337_da9b_676b_f89e),
    ];

    #[test]
    fn every_bit_of_the_datagram_and_of_the_upper_half_counts() {
        let key = TagKey::new(&PacketKey([9; 32]));
        let datagram = [0x5a; 44];
        let tag = key.tag(&datagram, 5);
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(key.tag(&changed, 5), tag, "bit {bit}");
        }
        for bit in 0..32 {
            assert_ne!(key.tag(&datagram, 5 ^ 1 << bit), tag, "bit {bit}");
        }
        assert_ne!(key.tag(&datagram[..43], 5), tag);
        let longer: Vec<u8> = datagram.iter().copied().chain([0]).collect();
        assert_ne!(key.tag(&longer, 5), tag, "padding is not part of the datagram");
    }
}
