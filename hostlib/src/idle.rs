//! Ranks that have no slots of a switch while they are idle: what their engines have in place of an attachment.

use std::task::Waker;
use std::time::Duration;

use netfold_control::Admission;
use netfold_io::{Capabilities, IoCounters, IoError, PacketIo, RxBatch, Transmit};
use netfold_wire::LaneOps;

use crate::error::Error;
use crate::join::{Attachment, Joiner};

/// After so long without an operation a group gives its slots back.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Words of lanes that operations are cut for before an attachment is known; they are cut again for each attachment.
const LANE_WORDS: u32 = 352;

/// Packet I/O of an engine without an attachment: nothing arrives, and nothing is sent.
#[derive(Debug)]
pub(crate) struct IdleIo;

impl PacketIo for IdleIo {
    fn capabilities(&self) -> Capabilities {
        let datagram_len_max = netfold_wire::header::LEN + LANE_WORDS as usize * 4;
        Capabilities {
            name: "none",
            datagram_len_max,
            burst_max: 1,
            batch_bytes: datagram_len_max,
            udp_ports_max: 1,
            lossless: true,
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        Ok(0)
    }

    fn transmit(&mut self, _: &[u8], packets: &[Transmit]) -> Result<usize, IoError> {
        // Not reached: an engine without an attachment has no packets.
        Ok(packets.len())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        // Not reached: such an engine waits for its mailbox and the other ranks.
        std::thread::sleep(timeout);
        Ok(false)
    }

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }

    fn counters(&self) -> IoCounters {
        IoCounters::default()
    }
}

impl Attachment {
    /// In place of an attachment that is requested for the first operation. `lane_ops` are those that the switch then must have.
    pub(crate) fn idle(mut joiner: Joiner, lane_ops: LaneOps) -> Result<Self, Error> {
        let admission = Admission {
            lane_ops,
            ..Admission::new((0, 0, 0), u32::from(joiner.config.classes.max(1)), LANE_WORDS, 1)
        };
        joiner.lane_ops = lane_ops;
        let place = (joiner.join.rank, joiner.join.world);
        let config = joiner.config.clone();
        let attachment = Self::new(Box::new(IdleIo), admission, place, &config)?;
        Ok(Self { joiner: Some(joiner), begins_idle: true, ..attachment })
    }
}
