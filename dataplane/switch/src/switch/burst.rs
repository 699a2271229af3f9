//! Memory for the packets of a burst that do not stay where they were received.

use netfold_io::{PortId, Received, Transmit};
use netfold_p4::entry::Replica;

use crate::runtime::{Growth, Pipeline};

/// The packets of a burst, separated into those whose length is constant and those that may grow. Allocates nothing once it has had a burst.
#[derive(Default)]
pub(super) struct BurstBuffers {
    /// Where they were received.
    pub(super) constant: Vec<Received>,
    /// In [`Self::room`], at equal distances.
    pub(super) growing: Vec<Received>,
    /// Memory with as many bytes for each growing packet as it may come to have.
    pub(super) room: Vec<u8>,
}

impl BurstBuffers {
    /// Separates the packets, if any may grow, to at most `len_max` bytes; whether any may.
    pub(super) fn separate(
        &mut self,
        packets: &[Received],
        memory: &[u8],
        growth: Growth,
        len_max: u32,
    ) -> bool {
        let bytes = |packet: &Received| {
            memory.get(packet.offset as usize..).and_then(|rest| rest.get(..packet.len as usize))
        };
        let grows = |packet: &Received| bytes(packet).filter(|bytes| growth.applies(bytes));
        let Some(first) = packets.iter().position(|packet| grows(packet).is_some()) else { return false };
        self.constant.clear();
        self.growing.clear();
        self.constant.extend_from_slice(&packets[..first]);
        for packet in &packets[first..] {
            let Some(bytes) = grows(packet) else {
                self.constant.push(*packet);
                continue;
            };
            let offset = self.growing.len() * len_max as usize;
            if self.room.len() < offset + len_max as usize {
                self.room.resize(offset + len_max as usize, 0);
            }
            self.room[offset..offset + bytes.len()].copy_from_slice(bytes);
            self.growing.push(Received { offset: offset as u32, ..*packet });
        }
        true
    }
}

/// Copies of multicast packets that egress has rewritten. Allocates nothing once it has had a burst.
#[derive(Default)]
pub(super) struct Copies {
    pub(super) packets: Vec<Transmit>,
    pub(super) memory: Vec<u8>,
}

impl Copies {
    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.memory.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Makes a copy of a packet for each replica and runs egress over it, if that may change copies of this packet; whether it may.
    pub(super) fn add(
        &mut self,
        pipeline: &mut dyn Pipeline,
        packet: Option<&[u8]>,
        replicas: &[Replica],
    ) -> bool {
        let Some(packet) = packet else { return false };
        if !pipeline.info().rewriting.is_some_and(|rewriting| rewriting.applies(packet)) {
            return false;
        }
        for replica in replicas {
            let offset = self.memory.len();
            self.memory.extend_from_slice(packet);
            let len = pipeline.egress(replica.instance, 0, &mut self.memory[offset..]);
            self.memory.truncate(offset + len);
            if len > 0 {
                let (offset, len) = (offset as u32, len as u32);
                self.packets.push(Transmit { port: PortId(replica.port), offset, len });
            }
        }
        true
    }
}
