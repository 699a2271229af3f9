//! No program: the pipeline of a switch before its controller sets one.

use std::borrow::Cow;

use netfold_p4::profile::Numerics;
use netfold_wire::LaneOps;

use crate::runtime::{EntryError, Pipeline, PipelineInfo, Received, SimdLevel, TableEntry, Verdict};

/// A pipeline without tables and state, which drops every packet.
#[derive(Debug)]
pub struct EmptyPipeline {
    info: PipelineInfo,
}

impl EmptyPipeline {
    /// An empty pipeline, on a data path whose later pipelines take packets of up to `lane_words` 32-bit words.
    pub const fn new(lane_words: u32) -> Self {
        let info = PipelineInfo {
            name: Cow::Borrowed("none"),
            fingerprint: 0,
            lane_words,
            bounded_loss: false,
            owners: false,
            growth: None,
            rewriting: None,
            numerics: Numerics::Word,
            lane_ops: LaneOps::NONE,
            entries: 0,
            bookkeeping_bytes: 0,
            lane_bytes: 0,
        };
        Self { info }
    }
}

impl Pipeline for EmptyPipeline {
    fn info(&self) -> &PipelineInfo {
        &self.info
    }

    fn burst(&mut self, packets: &[Received], _memory: &mut [u8], verdicts: &mut Vec<Verdict>) {
        verdicts.extend(packets.iter().map(|_| Verdict::DROP));
    }

    fn egress(&mut self, _instance: u16, _queue_depth: u32, _frame: &mut [u8]) -> usize {
        0
    }

    fn insert(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        Err(EntryError::Table(entry.table))
    }

    fn delete(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        Err(EntryError::Table(entry.table))
    }

    fn counters(&self, _id: u32) -> &[u64] {
        &[]
    }

    fn counters_mut(&mut self, _id: u32) -> &mut [u64] {
        &mut []
    }

    fn read_register(&self, _name: &str, _index: usize, _out: &mut Vec<u32>) -> bool {
        false
    }

    fn write_register(&mut self, _name: &str, _index: usize, _values: &[u32]) -> bool {
        false
    }

    fn set_simd(&mut self, _level: SimdLevel) {}
}
