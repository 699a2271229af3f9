//! The runtime of generated pipelines: verdicts, tables, and the trait through which the switch runs them.

mod lanes;
mod table;

use std::borrow::Cow;

pub use lanes::LaneRegister;
pub use netfold_io::Received;
pub use netfold_p4::entry::{EntryError, TableEntry};
pub use netfold_p4::growth::Growth;
pub use netfold_p4::interpret::Send;
pub use netfold_p4::profile::Numerics;
pub use netfold_p4::rewriting::Rewriting;
pub use netfold_wire::{LaneOp, LaneOps};
pub use table::{ActionInfo, KeyInfo, Table, TableInfo};

/// Congestion experienced: the ECN bits that a long queue sets in an IP header (RFC 3168 section 5).
pub const CE: u8 = 0b11;

/// The decision of a pipeline about a packet, whose bytes it has rewritten in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The destination.
    pub send: Send,
    /// Bytes to send, from the start of the packet.
    pub len: u32,
}

impl Verdict {
    /// Nothing is sent.
    pub const DROP: Self = Self { send: Send::Drop, len: 0 };
}

/// Properties of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineInfo {
    /// Name of the program.
    pub name: Cow<'static, str>,
    /// Fingerprint of the program.
    pub fingerprint: u64,
    /// 32-bit lanes per packet.
    pub lane_words: u32,
    /// How lanes are aggregated.
    pub numerics: Numerics,
    /// Which lane operations it has.
    pub lane_ops: LaneOps,
    /// Whether contributions can be left out of sums, and trimmed packets are accepted.
    pub bounded_loss: bool,
    /// Whether the lanes of a result can go to one member alone.
    pub owners: bool,
    /// Packets that may become longer; `None` if none may.
    pub growth: Option<Growth>,
    /// Packets whose copies egress may change; `None` if it changes none.
    pub rewriting: Option<Rewriting>,
    /// Entries of its largest register: slots x sets.
    pub entries: u32,
    /// Bytes of slot bookkeeping.
    pub bookkeeping_bytes: usize,
    /// Bytes of slot lanes.
    pub lane_bytes: usize,
}

/// A pipeline with its state. One thread runs it; nothing in it locks, and `burst` does not allocate once `verdicts`
/// has grown to the size of a burst.
pub trait Pipeline: core::marker::Send {
    /// Properties.
    fn info(&self) -> &PipelineInfo;

    /// Runs ingress over packets that lie in `memory` and appends one verdict for each. A packet that does not lie
    /// within `memory` is dropped. A packet may become longer and overwrite the bytes behind it in `memory`, up to [`room_end`]; one that would
    /// need more is dropped.
    fn burst(&mut self, packets: &[Received], memory: &mut [u8], verdicts: &mut Vec<Verdict>);

    /// Runs egress over one copy of a packet and returns the number of bytes of `frame` to send.
    /// `instance` is the replica's, 0 for unicast; `queue_depth` is in packets.
    fn egress(&mut self, instance: u16, queue_depth: u32, frame: &mut [u8]) -> usize;

    /// Adds a table entry.
    ///
    /// # Errors
    ///
    /// When the entry does not fit its table or its key exists; the table is unchanged.
    fn insert(&mut self, entry: &TableEntry) -> Result<(), EntryError>;

    /// Removes the entry with the key and priority of `entry`.
    ///
    /// # Errors
    ///
    /// When there is none.
    fn delete(&mut self, entry: &TableEntry) -> Result<(), EntryError>;

    /// The values of the counter with P4Info id `id`; empty when there is none.
    fn counters(&self, id: u32) -> &[u64];

    /// The same, to be overwritten.
    fn counters_mut(&mut self, id: u32) -> &mut [u64];

    /// Appends the cells (or lanes) of one entry of a register; false when there is no such register or entry.
    fn read_register(&self, name: &str, index: usize, out: &mut Vec<u32>) -> bool;

    /// Overwrites the cells (or lanes) of one entry of a register, each truncated to its width. False, without a change, when
    /// there is no such register or entry, or the number of values differs.
    fn write_register(&mut self, name: &str, index: usize, values: &[u32]) -> bool;

    /// Selects the build of the pipeline for `level`, or for the best lower level that the processor supports; all compute the
    /// same bits. The default is the best that the processor supports.
    fn set_simd(&mut self, level: SimdLevel);
}

/// Instruction sets that a generated pipeline is compiled for, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdLevel {
    /// The base instruction set of the machine that the program was built for.
    Portable,
    /// x86-64 with AVX2, BMI1 and BMI2.
    Avx2,
    /// The same with AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl SimdLevel {
    /// Every level, in ascending order.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Its name: `portable`, `avx2`, `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The levels that this processor supports, in ascending order.
    pub fn available() -> impl Iterator<Item = Self> {
        let best = Self::detect();
        Self::ALL.into_iter().filter(move |level| *level <= best)
    }

    /// The best level that this processor supports.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if !(has!("avx2") && has!("bmi1") && has!("bmi2")) {
                return Self::Portable;
            }
            if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
                return Self::Avx512;
            }
            Self::Avx2
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self::Portable
    }
}

/// Where the memory ends that packet `index` may fill: at the next packet, if that lies behind it; behind the last packet, where the memory ends.
#[inline(always)]
pub fn room_end(packets: &[Received], index: usize, memory_len: usize) -> usize {
    let Some(packet) = packets.get(index) else { return 0 };
    let end = packet.offset as usize + packet.len as usize;
    packets.get(index + 1).map_or(memory_len, |next| next.offset as usize).max(end)
}

/// The `N` bytes of a packet from `at`; zeros when it is too short.
#[inline(always)]
pub fn get<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    match data.get(at..at + N) {
        Some(bytes) => bytes.try_into().unwrap_or([0; N]),
        None => [0; N],
    }
}

/// Overwrites the `N` bytes of a packet from `at`; nothing when it is too short or `bytes` has another length.
#[inline(always)]
pub fn put<const N: usize>(data: &mut [u8], at: usize, bytes: &[u8]) {
    if let (Some(target), Ok(bytes)) = (data.get_mut(at..at + N), <&[u8; N]>::try_from(bytes)) {
        target.copy_from_slice(bytes);
    }
}

/// The internet checksum (RFC 1071) of a header of whole 32-bit words, whose own checksum field counts.
///
/// Words are added in the machine's byte order, which the one's complement sum allows (RFC 1071, section 2B).
#[inline]
pub fn ipv4_checksum(header: &[u8]) -> u16 {
    u16::from_be(!folded(word_sum(header)))
}

/// Whether the checksum in the two bytes from `at`, an even number, differs from that over the rest of the header. Of the
/// two zeros of one's complement, one is rejected.
#[inline]
pub fn ipv4_checksum_is_wrong(header: &[u8], at: usize) -> bool {
    let stored = u16::from_ne_bytes(get(header, at));
    // The field's part of the sum of the words.
    let low = at.is_multiple_of(4) == cfg!(target_endian = "little");
    let part = u64::from(stored) << if low { 0 } else { 16 };
    !folded(word_sum(header).wrapping_sub(part)) != stored
}

fn word_sum(header: &[u8]) -> u64 {
    let (words, _) = header.as_chunks::<4>();
    words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum()
}

/// The one's complement sum of the 16-bit halves.
fn folded(mut sum: u64) -> u16 {
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_a_header() {
        // The example header of RFC 1071's usual illustration: 172.16.10.99 to 172.16.10.12, checksum 0xb1e6.
        let mut header = [
            0x45, 0x00, 0x00, 0x3c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x06, 0xb1, 0xe6, 0xac, 0x10, 0x0a, 0x63,
            0xac, 0x10, 0x0a, 0x0c,
        ];
        assert_eq!(ipv4_checksum(&header), 0);
        assert!(!ipv4_checksum_is_wrong(&header, 10));
        header[10..12].fill(0);
        assert_eq!(ipv4_checksum(&header), 0xb1e6);
        assert!(ipv4_checksum_is_wrong(&header, 10));
        header[0] = 0x46;
        assert_ne!(ipv4_checksum(&header), 0xb1e6);
        // A header whose checksum is 0: the other zero is rejected.
        header[4..6].fill(0);
        let rest = ipv4_checksum(&header);
        header[4..6].copy_from_slice(&rest.to_be_bytes());
        assert!(!ipv4_checksum_is_wrong(&header, 10));
        header[10..12].fill(0xff);
        assert!(ipv4_checksum_is_wrong(&header, 10));
    }
}
