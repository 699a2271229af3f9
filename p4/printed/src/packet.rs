//! A packet in the pipeline.

use crate::program::*;

/// Fields, headers and the bytes behind them.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) values: Vec<u64>,
    pub(crate) valid: Vec<bool>,
    /// Whether a field was assigned.
    pub(crate) assigned: Vec<bool>,
    bytes: Vec<u8>,
    /// Bits that were extracted.
    at: usize,
    /// Bytes that the deparser emits.
    emitted: Vec<u8>,
    /// Bytes whose checksum is verified.
    summed: Vec<u8>,
}

impl Packet {
    pub(crate) fn new(gress: &Gress, bytes: &[u8]) -> Self {
        Self {
            values: vec![0; gress.fields.len()],
            valid: vec![false; gress.headers.len()],
            assigned: vec![false; gress.fields.len()],
            bytes: bytes.to_vec(),
            at: 0,
            emitted: Vec::new(),
            summed: Vec::new(),
        }
    }

    /// Extracts a header; false when the packet is too short.
    pub(crate) fn extract(&mut self, gress: &Gress, number: usize) -> bool {
        let header = &gress.headers[number];
        let fields = header.first..header.first + header.count;
        let bits: u32 = gress.fields[fields.clone()].iter().map(|field| field.ty.bits).sum();
        if self.at + bits as usize > self.bytes.len() * 8 {
            return false;
        }
        for field in fields {
            let mut value = 0;
            for _ in 0..gress.fields[field].ty.bits {
                let bit = self.bytes[self.at / 8] >> (7 - self.at % 8) & 1;
                value = value << 1 | u64::from(bit);
                self.at += 1;
            }
            self.values[field] = value;
        }
        self.valid[number] = true;
        true
    }

    /// Emits a header if it is valid.
    pub(crate) fn emit(&mut self, gress: &Gress, number: usize) {
        if self.valid[number] {
            let bytes = self.header_bytes(gress, number);
            self.emitted.extend(bytes);
        }
    }

    pub(crate) fn sum(&mut self, gress: &Gress, number: usize) {
        let bytes = self.header_bytes(gress, number);
        self.summed.extend(bytes);
    }

    fn header_bytes(&self, gress: &Gress, number: usize) -> Vec<u8> {
        let header = &gress.headers[number];
        self.bytes_of(gress, header.first..header.first + header.count)
    }

    /// Fields one behind the other.
    pub(crate) fn bytes_of(&self, gress: &Gress, fields: impl Iterator<Item = usize>) -> Vec<u8> {
        let mut bits = Vec::new();
        for field in fields {
            let count = gress.fields[field].ty.bits;
            bits.extend((0..count).rev().map(|bit| self.values[field] >> bit & 1));
        }
        bits.chunks(8).map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | *bit as u8)).collect()
    }

    /// Whether the checksum of what was added is wrong: the sum of a header with its checksum is all ones.
    pub(crate) fn is_wrong(&self) -> bool {
        ones_complement_sum(&self.summed) != 0xffff
    }

    /// What was emitted, and the bytes that were not extracted.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.emitted);
        bytes.extend_from_slice(&self.bytes[self.at / 8..]);
        bytes
    }
}

/// The one's complement sum of 16-bit words (RFC 1071).
pub(crate) fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
