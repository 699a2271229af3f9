//! Distinguishes a switch that is lost from ranks that are stragglers.
//!
//! A worker sees the same in both cases: it sends and receives no result. But a reachable switch answers a contribution to a very old chunk
//! with STALE, whatever its slots hold, and changes nothing. So a worker that has waited for a while sends such probes, and gives the
//! switch up when it has received no packet at all for long. Probes are as long as the job's packets: a path that drops those is of no use.

use std::time::{Duration, Instant};

use netfold_control::Admission;
use netfold_wire::{Flags, Kind, LaneOp, Packet, Reason, Repr, header};

use crate::error::Error;

/// How long the switch is silent before it is probed, and the interval of the probes.
const PROBE_AFTER: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// How long, and after how many probes, a silent switch counts as lost. The number matters after this process was stopped: it has not
/// probed then.
const LOST_AFTER: Duration = Duration::from_secs(5);
const PROBES_MIN: u32 = 8;

/// How far a probe's chunk is behind the job's first chunk: older than any that its slots hold.
const STALE_DISTANCE: u32 = 1 << 29;

/// Whether the switch is silent.
#[derive(Debug)]
pub(super) struct LivenessMonitor {
    probe: Option<LivenessProbe>,
    /// Since when a result is awaited and no packet has come.
    since: Option<Instant>,
    /// Probes sent since then, and when the last was.
    probes_sent: u32,
    probed_at: Option<Instant>,
}

/// A packet that every reachable switch of the job answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct LivenessProbe {
    repr: Repr,
    /// Its length in bytes.
    len: usize,
}

impl LivenessMonitor {
    /// Monitors the attachment of an admission; inactive without one.
    pub(super) fn new(admission: Option<&Admission>) -> Self {
        Self { probe: admission.map(LivenessProbe::new), since: None, probes_sent: 0, probed_at: None }
    }

    /// Records whether packets were received, and whether any are awaited.
    #[inline]
    pub(super) fn observe(&mut self, received: bool, awaited: bool) {
        if received || !awaited {
            self.probes_sent = 0;
            self.since = None;
        }
        if awaited && self.probe.is_some() && self.since.is_none() {
            self.since = Some(Instant::now());
        }
    }

    /// Whether it is waiting for the switch.
    pub(super) fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// The probe to send now, if one is due.
    ///
    /// # Errors
    ///
    /// [`Error::SwitchLost`] when the switch has been silent for long.
    pub(super) fn probe(&mut self) -> Result<Option<LivenessProbe>, Error> {
        let (Some(probe), Some(since)) = (self.probe, self.since) else { return Ok(None) };
        let silent = since.elapsed();
        if silent < PROBE_AFTER || self.probed_at.is_some_and(|at| at.elapsed() < PROBE_INTERVAL) {
            return Ok(None);
        }
        if silent >= LOST_AFTER && self.probes_sent >= PROBES_MIN {
            return Err(Error::switch_lost(format!(
                "it answers no packet as long as the job's, {} bytes over UDP: if it runs, something on the way drops them",
                probe.len
            )));
        }
        self.probes_sent += 1;
        self.probed_at = Some(Instant::now());
        Ok(Some(probe))
    }
}

impl LivenessProbe {
    fn new(admission: &Admission) -> Self {
        let len = header::LEN + admission.lane_words as usize * 4;
        let repr = Repr {
            kind: Kind::Data,
            flags: Flags::default(),
            op: LaneOp::Sum,
            class: 0,
            reason: Reason::None,
            job: admission.job,
            slot: 0,
            set: 0,
            epoch: admission.epoch,
            key: admission.key,
            chunk: admission.first_chunk.wrapping_sub(STALE_DISTANCE),
            bitmap: 0,
            count: 0,
            exp: 0,
            exp_next: 0,
        };
        Self { repr, len }
    }

    /// Writes the packet, whose lanes are zero, as one of a class; its length.
    pub(super) fn write(&self, class: u8, buffer: &mut [u8]) -> usize {
        let packet = &mut buffer[..self.len];
        packet.fill(0);
        Repr { class, ..self.repr }.emit(&mut Packet::new_unchecked(packet));
        self.len
    }
}
