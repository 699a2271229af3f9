//! The pipeline of the software switch, generated or interpreted, under simulation.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use netfold_io::{PortId, Received};
use netfold_p4::allreduce::{self, Behind, Child, Node, Parent};
use netfold_p4::profile::{Numerics, Profile};
use netfold_switch::switch::CONTROLLER_PORT;
use netfold_switch::{InterpretedPipeline, Pipeline, Send, Verdict, datagram_pipeline, numeric_pipeline};
use netfold_wire::{Kind, Packet, Repr, header, serial};

use super::switch::{JobSetup, SimSwitch, fold_lanes};

/// A pipeline with its job table filled, and multicast by list.
pub struct PipelineSwitch {
    pipeline: Box<dyn Pipeline>,
    /// Ports of multicast group `i + 1`.
    groups: Vec<Vec<u16>>,
    verdicts: Vec<Verdict>,
}

impl PipelineSwitch {
    /// The pipeline for packets of `lane_words` lanes, with these jobs admitted. `None` when none was generated for
    /// that size.
    ///
    /// # Panics
    ///
    /// When the job table does not take the jobs, or the controller's packets go unanswered.
    pub fn new(lane_words: u32, jobs: &[JobSetup]) -> Option<Self> {
        Some(Self::with(datagram_pipeline(4 * lane_words)?, jobs))
    }

    /// The pipeline of these numerics, as [`Self::new`].
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    pub fn numeric(lane_words: u32, numerics: Numerics, jobs: &[JobSetup]) -> Option<Self> {
        Some(Self::with(numeric_pipeline(4 * lane_words, numerics)?, jobs))
    }

    /// The same program under the interpreter.
    ///
    /// # Panics
    ///
    /// As [`Self::new`], and when no program is made for packets of so many lanes.
    pub fn interpreted(lane_words: u32, jobs: &[JobSetup]) -> Self {
        let program = allreduce::program(&Profile::software(lane_words)).expect("a size that scenarios have");
        let pipeline = InterpretedPipeline::new(Arc::new(program)).expect("the program is valid");
        Self::with(Box::new(pipeline), jobs)
    }

    fn with(mut pipeline: Box<dyn Pipeline>, jobs: &[JobSetup]) -> Self {
        let entry = allreduce::controller_entry(CONTROLLER_PORT, Kind::Advance);
        pipeline.insert(&entry).expect("the controller's entry fits an empty table");
        for (index, job) in jobs.iter().enumerate() {
            let (group, up) = (2 * index as u16 + 1, 2 * index as u16 + 2);
            let node = Node {
                job: job.job,
                epoch: job.epoch,
                key: job.key,
                base: job.base,
                slots: job.slots,
                children: job.ports.len() as u8,
                workers: job.workers,
                world: job.world,
                group,
                parent: job.parent.map(|port| Parent { port, source: 0, group: up, rank: job.rank }),
                shift: None,
                bounded_loss: true,
                owners: true,
            };
            for (rank, (port, behind)) in job.ports.iter().zip(&job.behind).enumerate() {
                let behind = behind.map(|(first, last)| Behind { instance: port + 1, first, last });
                let child = Child { port: *port, source: 0, rank: rank as u8, behind };
                for entry in allreduce::job_entries(&node, &child) {
                    pipeline.insert(&entry).expect("the job table holds the members of a scenario");
                }
            }
            for entry in allreduce::node_entries(&node) {
                pipeline.insert(&entry).expect("the job table holds the jobs of a scenario");
            }
        }
        let groups =
            jobs.iter().flat_map(|job| [job.ports.clone(), job.parent.into_iter().collect()]).collect();
        let mut switch = Self { pipeline, groups, verdicts: Vec::new() };
        for job in jobs {
            switch.advance(job.base..job.base + job.slots, job.held);
        }
        switch
    }

    /// Moves slots that hold chunk 0 on to `chunk`, in steps because a newer number is less than 2^31 ahead.
    fn advance(&mut self, slots: Range<u32>, chunk: u32) {
        for slot in slots {
            for set in 0..2 {
                for to in [chunk / 3, chunk / 3 * 2, chunk] {
                    let stored = self.advance_one(slot, set, to);
                    assert!(!serial::newer(to, stored), "an ADVANCE to a newer chunk takes effect");
                }
            }
        }
    }

    fn advance_one(&mut self, slot: u32, set: u8, chunk: u32) -> u32 {
        let repr = Repr::from_controller(Kind::Advance, (slot as u16, set), chunk);
        let mut bytes = [0; header::LEN];
        repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        let verdict = self.burst(CONTROLLER_PORT, header::LEN, &mut bytes);
        assert_eq!(verdict.send, Send::Unicast(CONTROLLER_PORT), "the reply goes to the controller");
        Packet::new_unchecked(&bytes[..]).chunk()
    }

    fn burst(&mut self, port: u16, len: usize, bytes: &mut [u8]) -> Verdict {
        let packet = Received { port: PortId(port), offset: 0, len: len as u32, ecn: 0 };
        self.verdicts.clear();
        self.pipeline.burst(&[packet], bytes, &mut self.verdicts);
        assert_eq!(self.verdicts.len(), 1, "one verdict a packet");
        self.verdicts[0]
    }
}

impl fmt::Debug for PipelineSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineSwitch").field("info", self.pipeline.info()).finish_non_exhaustive()
    }
}

impl SimSwitch for PipelineSwitch {
    fn process(&mut self, port: u16, datagram: &[u8], out: &mut Vec<(u16, Vec<u8>)>) {
        let mut bytes = datagram.to_vec();
        // Room for lanes that were cut off.
        bytes.resize(header::LEN + 4 * self.pipeline.info().lane_words as usize, 0xee);
        let verdict = self.burst(port, datagram.len(), &mut bytes);
        bytes.truncate(verdict.len as usize);
        match verdict.send {
            Send::Drop => {}
            Send::Unicast(port) => out.push((port, bytes)),
            Send::Multicast(group) => {
                for member in &self.groups[usize::from(group) - 1] {
                    let mut copy = bytes.clone();
                    let len = self.pipeline.egress(member + 1, 0, &mut copy);
                    copy.truncate(len);
                    out.push((*member, copy));
                }
            }
        }
    }

    fn digest(&self, slots: Range<u32>) -> u64 {
        let mut words = Vec::new();
        (2 * slots.start as usize..2 * slots.end as usize).fold(0, |digest, index| {
            words.clear();
            for register in ["claim", "version", "exponent", "sum", "settled", "contributors", "tally"] {
                assert!(
                    self.pipeline.read_register(register, index, &mut words),
                    "register {register} exists"
                );
            }
            fold_lanes(digest, words.iter().copied())
        })
    }

    fn slots(&self) -> u32 {
        self.pipeline.info().entries / 2
    }
}
