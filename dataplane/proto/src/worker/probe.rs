//! Packets that every reachable switch answers, for the [liveness monitor](crate::LivenessMonitor).

use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};

use super::Worker;
use crate::slot::SlotState;

/// How far a probe is behind the chunk that its slot has outstanding.
///
/// The switch's slot holds that chunk, one of the two windows before it, or, at the beginning of a job, what the controller's ADVANCE
/// left there: up to 2^30 + 1 chunks before the job's first. The probe is older than each of these, and none is 2^31 ahead of it. It is a
/// multiple of any number of slots and sets, so the probe belongs to the same slot and set.
const STALE_DISTANCE: u32 = 3 << 29;

impl Worker {
    /// Writes a packet without lanes, of a chunk so old that the switch answers it at once with STALE, whatever the slot holds, and changes
    /// nothing; its length. The answer has the same `tag`. `None` while no chunk is outstanding.
    ///
    /// # Panics
    ///
    /// When `buffer` is shorter than a header.
    pub fn write_path_probe(&self, class: u8, tag: u32, buffer: &mut [u8]) -> Option<usize> {
        let repr = Repr { flags: Flags::BARE, bitmap: tag, ..self.stale_packet(class)? };
        repr.emit(&mut Packet::new_unchecked(&mut buffer[..header::LEN]));
        Some(header::LEN)
    }

    /// Writes a contribution of zeros to a chunk so old that the switch answers it with STALE, whatever the slot holds, and changes
    /// nothing; its length. [`Worker::handle_packet`] ignores the answer. `None` while no chunk is outstanding.
    ///
    /// The packet is as long as the job's longest, since a path may drop just those.
    ///
    /// # Panics
    ///
    /// When `buffer` is shorter than [`WorkerConfig::datagram_len_max`](crate::WorkerConfig::datagram_len_max).
    pub fn write_liveness_probe(&self, class: u8, buffer: &mut [u8]) -> Option<usize> {
        let repr = self.stale_packet(class)?;
        let packet = &mut buffer[..self.config.datagram_len_max()];
        packet[header::LEN..].fill(0);
        repr.emit(&mut Packet::new_unchecked(&mut *packet));
        Some(packet.len())
    }

    /// The header of a packet that is stale for a slot with a chunk outstanding.
    fn stale_packet(&self, class: u8) -> Option<Repr> {
        let index = self.slots.front(SlotState::InFlight).or_else(|| self.slots.front(SlotState::Lost))?;
        let admission = &self.config.admission;
        let chunk = self.slots.chunk(index).wrapping_sub(STALE_DISTANCE);
        Some(Repr {
            kind: Kind::Data,
            flags: Flags::default(),
            op: LaneOp::Sum,
            class,
            reason: Reason::None,
            job: admission.job,
            slot: self.config.share.first as u16 + index,
            set: self.slots.set(chunk),
            epoch: admission.epoch,
            key: admission.key,
            chunk,
            bitmap: 0,
            count: 0,
            exp: 0,
            exp_next: 0,
            owner: LaneOwner::All,
        })
    }
}
