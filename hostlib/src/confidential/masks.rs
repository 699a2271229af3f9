//! What a rank adds to its lanes, and subtracts from the sums.
//!
//! Every chunk has a keystream *m_j* for each rank *j* of *n*. Rank *i* < *n* - 1 adds *m_i* - *m_(i+1)*, and the last rank *m_(n-1)*, to its
//! 32-bit words, modulo 2^32. In the sum of all ranks everything cancels but *m_0*, which each rank subtracts (HEAR, SC '23). So a rank
//! computes two keystreams for each packet that it sends and one for each result, whatever *n* is; and what all ranks send,
//! together with the result, is as uniform as *n* independent keystreams.
//!
//! # Keystreams
//!
//! AES-256 in counter mode under the attachment's key. A block of 16 bytes is the encryption of its position, big-endian:
//!
//! | bits | field |
//! |---|---|
//! | 127 | the chunk is packed with full headroom |
//! | 126-120 | class of the operation |
//! | 119-112 | exponent |
//! | 111-96 | *j* |
//! | 95-48 | number of the operation in its class, from the attachment on |
//! | 47-16 | chunk of the operation |
//! | 15-0 | block of the chunk |
//!
//! Ranks count all of that themselves; nothing comes from a switch but the exponent, and a chunk with another exponent has another
//! keystream. So a keystream masks one plaintext, which retransmissions repeat byte by byte. The bytes of a block are four
//! words, little-endian.

use aes::Aes256Enc;
use aes::cipher::{Array, BlockCipherEncrypt as _, KeyInit as _, consts::U16};
use netfold_proto::CodedChunk;

use crate::quantize::Kernel;

#[cfg(test)]
mod tests;

/// Bytes of a block of the cipher.
const BLOCK_LEN: usize = 16;

/// Operations that one attachment can number: more than 8 years at a million a second.
const OPS_MAX: u64 = 1 << 48;

/// Longest payload in bytes whose blocks can be numbered.
const LANE_BYTES_MAX: usize = (1 << 16) * BLOCK_LEN;

/// Blocks that are encrypted at a time: few enough to stay in the first-level cache, and many enough for every instruction set.
const BATCH: usize = 32;

type Block = Array<u8, U16>;

/// The masks of one rank in one class of a job's operations at one attachment. Allocates nothing after it was made.
pub struct Masks {
    cipher: Aes256Enc,
    kernel: Kernel,
    class: u8,
    rank: u16,
    world: u16,
    /// Words of the packet under work, by block. Those behind the packet's end are not used.
    words: Vec<[u32; 4]>,
    /// The result's lanes, without mask.
    plain: Vec<u8>,
    blocks: [Block; BATCH],
}

impl std::fmt::Debug for Masks {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masks").field("class", &self.class).field("rank", &self.rank).finish_non_exhaustive()
    }
}

/// Whether a keystream is added to words, or subtracted.
#[derive(Debug, Clone, Copy)]
enum Sign {
    Plus,
    Minus,
}

impl Masks {
    /// The masks of rank `rank` of `world` under an attachment's `key`, for packets of `lane_bytes` bytes of lanes.
    ///
    /// # Panics
    ///
    /// When `lane_bytes` is not a multiple of 4 or exceeds 1 MiB, `class` exceeds 127, or `rank` is not below `world`.
    pub fn new(key: &[u8; 32], class: u8, (rank, world): (u16, u16), lane_bytes: usize) -> Self {
        assert!(
            lane_bytes.is_multiple_of(4) && lane_bytes <= LANE_BYTES_MAX,
            "blocks have numbers of 16 bits"
        );
        assert!(class < 0x80 && rank < world, "positions have a field for each");
        Self {
            cipher: Aes256Enc::new(key.into()),
            kernel: Kernel::detect(),
            class,
            rank,
            world,
            words: vec![[0; 4]; lane_bytes.div_ceil(BLOCK_LEN)],
            plain: vec![0; lane_bytes],
            blocks: [Block::default(); BATCH],
        }
    }

    /// The same by this kernel, instead of the fastest that the processor has.
    #[must_use]
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }

    /// Masks this rank's big-endian `lanes` of a chunk.
    ///
    /// # Panics
    ///
    /// When `lanes` have another length than packets.
    pub fn add(&mut self, chunk: CodedChunk, lanes: &mut [u8]) {
        assert_eq!(lanes.len(), self.plain.len(), "a packet's lanes");
        self.kernel.unpack_words(lanes, &mut self.words.as_flattened_mut()[..lanes.len() / 4]);
        self.combine(chunk, self.rank, Sign::Plus);
        if self.rank + 1 < self.world {
            self.combine(chunk, self.rank + 1, Sign::Minus);
        }
        self.kernel.pack_words(&self.words.as_flattened()[..lanes.len() / 4], lanes);
    }

    /// The sum of all ranks' lanes, from the masked big-endian `lanes` of a result.
    ///
    /// # Panics
    ///
    /// When `lanes` have another length than packets.
    pub fn remove(&mut self, chunk: CodedChunk, lanes: &[u8]) -> &[u8] {
        assert_eq!(lanes.len(), self.plain.len(), "a packet's lanes");
        self.kernel.unpack_words(lanes, &mut self.words.as_flattened_mut()[..lanes.len() / 4]);
        self.combine(chunk, 0, Sign::Minus);
        self.kernel.pack_words(&self.words.as_flattened()[..lanes.len() / 4], &mut self.plain);
        &self.plain
    }

    /// The position of keystream `j`'s first block.
    fn position(&self, CodedChunk { op, chunk, exp, full_headroom }: CodedChunk, j: u16) -> u128 {
        // A keystream must not be used twice.
        assert!(op.0 < OPS_MAX, "more operations than one attachment can number");
        u128::from(full_headroom) << 127
            | u128::from(self.class) << 120
            | u128::from(exp) << 112
            | u128::from(j) << 96
            | u128::from(op.0) << 48
            | u128::from(chunk) << 16
    }

    /// Adds keystream `j` of a chunk to the words, or subtracts it.
    #[inline]
    fn combine(&mut self, chunk: CodedChunk, j: u16, sign: Sign) {
        let first = self.position(chunk, j);
        let mut number = 0;
        for words in self.words.chunks_mut(BATCH) {
            let blocks = &mut self.blocks[..words.len()];
            for block in blocks.iter_mut() {
                block.0 = (first | number).to_be_bytes();
                number += 1;
            }
            self.cipher.encrypt_blocks(blocks);
            // Block by block, which compilers turn into vectors.
            for (words, block) in words.iter_mut().zip(blocks.iter()) {
                let bytes = block.0.as_chunks::<4>().0;
                let keystream: [u32; 4] = std::array::from_fn(|at| u32::from_le_bytes(bytes[at]));
                for (word, m) in words.iter_mut().zip(keystream) {
                    *word = match sign {
                        Sign::Plus => word.wrapping_add(m),
                        Sign::Minus => word.wrapping_sub(m),
                    };
                }
            }
        }
    }
}
