//! Datagrams that had to be copied because they could not be passed on at once.

use std::collections::VecDeque;

use crate::{PortId, Received, RxBatch, Transmit};

/// Datagrams that were taken from the caller when the socket was full. At most one window.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    pub(super) memory: Vec<u8>,
    pub(super) packets: Vec<Transmit>,
}

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Keeps copies of `packets`, in their order, instead of what was kept before.
    pub(super) fn keep(&mut self, memory: &[u8], packets: &[Transmit]) {
        self.memory.clear();
        self.packets.clear();
        for packet in packets {
            let Some(bytes) = packet.bytes(memory) else { continue };
            let offset = self.memory.len() as u32; // a window's bytes are bounded
            self.memory.extend_from_slice(bytes);
            self.packets.push(Transmit { offset, ..*packet });
        }
    }
}

/// Datagrams that arrived in one message with others and found no room in the caller's batch. Less than one call's
/// messages.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    memory: Vec<u8>,
    packets: VecDeque<Received>,
}

impl Undelivered {
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) fn keep(&mut self, port: PortId, datagram: &[u8], ecn: u8) {
        self.keep_parts(port, [datagram, &[]], ecn);
    }

    /// A datagram that lies in two places.
    pub(super) fn keep_parts(&mut self, port: PortId, parts: [&[u8]; 2], ecn: u8) {
        let offset = self.memory.len() as u32; // one call's messages are bounded
        parts.iter().for_each(|part| self.memory.extend_from_slice(part));
        let len = self.memory.len() as u32 - offset;
        self.packets.push_back(Received { port, offset, len, ecn });
    }

    /// Moves datagrams into the batch until it is full, and returns how many were too long even for an empty batch
    /// and were dropped.
    pub(super) fn deliver(&mut self, batch: &mut RxBatch) -> u64 {
        let mut dropped = 0;
        while let Some(packet) = self.packets.front() {
            let bytes = &self.memory[packet.offset as usize..][..packet.len as usize];
            if !batch.push(packet.port, bytes, packet.ecn) {
                if !batch.is_empty() {
                    break;
                }
                dropped += 1;
            }
            self.packets.pop_front();
        }
        if self.packets.is_empty() {
            self.memory.clear();
        }
        dropped
    }
}
