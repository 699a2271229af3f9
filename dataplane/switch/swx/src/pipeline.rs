//! DPDK's software pipeline as a pipeline of the software switch.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use netfold_dpdk::swx::{Pipeline as Swx, PipelineConfig, SwxError};
use netfold_dpdk::{Eal, Huge, Options};
use netfold_p4::ir::{Program, Register, RegisterKind};
use netfold_p4::p4info::counter_id;
use netfold_p4::swx::{self, INTRINSIC_LEN};
use netfold_switch::runtime::{CE, EntryError, Received, TableEntry, room_end};
use netfold_switch::{Pipeline, PipelineInfo, SimdLevel, Verdict};

use crate::SwxPipelineError;

/// Packets in the pipeline at a time.
const PACKETS: u32 = 32;
/// Bytes of the longest packet, without the intrinsic header.
const PACKET_BYTES_MAX: u32 = 9216;
/// DPDK's memory in megabytes: registers take 8 bytes for each cell.
const MEMORY_MB: u64 = 512;

/// A program as [`swx::print`] prints it, executed by DPDK. What a switch has around the pipeline is here: the intrinsic header in front of every packet, and
/// copies, which pass through the pipeline again.
pub struct SwxPipeline {
    program: Arc<Program>,
    pipeline: Swx,
    info: PipelineInfo,
    /// Tables and keys of the entries.
    entries: HashSet<(u32, String)>,
    /// Whether changes of tables are staged.
    staged: bool,
    /// Counters, read when they are asked for.
    counters: Vec<OnceCell<Vec<u64>>>,
}

impl SwxPipeline {
    /// Starts DPDK with ordinary pages, without files and privileges, if it does not run yet, and builds the pipeline.
    ///
    /// # Errors
    ///
    /// See [`SwxPipelineError`].
    pub fn new(program: Arc<Program>) -> Result<Self, SwxPipelineError> {
        let spec = swx::print(&program)?;
        let options = Options { huge: Huge::Never, memory_mb: MEMORY_MB, more: Vec::new() };
        let eal = Eal::start(&options, false)?;
        let config = PipelineConfig {
            inputs: 1,
            outputs: 1,
            packets: PACKETS,
            packet_bytes_max: PACKET_BYTES_MAX + INTRINSIC_LEN as u32,
        };
        let pipeline = Swx::build(&eal, &spec, &config)?;
        let info = PipelineInfo::of(&program);
        let counters = program.counters.iter().map(|_| OnceCell::new()).collect();
        Ok(Self { program, pipeline, info, entries: HashSet::new(), staged: false, counters })
    }

    /// Applies staged changes of tables.
    ///
    /// # Errors
    ///
    /// [`SwxError::Commit`].
    pub fn commit(&mut self) -> Result<(), SwxError> {
        if std::mem::take(&mut self.staged) { self.pipeline.commit() } else { Ok(()) }
    }

    fn cells(&self, register: &Register) -> Vec<(String, u32)> {
        match &register.kind {
            RegisterKind::Cells(cells) => {
                cells.iter().map(|cell| (format!("{}_{}", register.name, cell.name), cell.bits)).collect()
            }
            RegisterKind::Lanes(bits) => {
                let lanes = 0..self.program.lane_count();
                lanes.map(|lane| (format!("{}_{lane:02}", register.name), *bits)).collect()
            }
        }
    }

    fn changed(&mut self) {
        self.counters.iter_mut().for_each(|counter| drop(counter.take()));
    }
}

impl Pipeline for SwxPipeline {
    fn info(&self) -> &PipelineInfo {
        &self.info
    }

    fn burst(&mut self, packets: &[Received], memory: &mut [u8], verdicts: &mut Vec<Verdict>) {
        self.changed();
        let first = verdicts.len();
        verdicts.resize(first + packets.len(), Verdict::DROP);
        if self.commit().is_err() {
            return;
        }
        for (chunk, start) in packets.chunks(PACKETS as usize).zip((0..).step_by(PACKETS as usize)) {
            for (index, packet) in (start..).zip(chunk) {
                let from = packet.offset as usize;
                let Some(bytes) = memory.get(from..from + packet.len as usize) else { continue };
                let head = swx::arrival(packet.port.0, packet.ecn == CE, packet.len);
                self.pipeline.offer(0, index as u32, &[&head, bytes]);
            }
            let done = self.pipeline.run(|sent| {
                let index = sent.token as usize;
                let (Some(_), Some((send, _))) = (sent.port, swx::verdict(sent.bytes)) else { return };
                let (bytes, from) = (&sent.bytes[INTRINSIC_LEN..], packets[index].offset as usize);
                let room = memory.get_mut(from..room_end(packets, index, memory.len()));
                if let Some(target) = room.and_then(|room| room.get_mut(..bytes.len())) {
                    target.copy_from_slice(bytes);
                    verdicts[first + index] = Verdict { send, len: bytes.len() as u32 };
                }
            });
            if done.is_err() {
                return;
            }
        }
    }

    fn egress(&mut self, instance: u16, queue_depth: u32, frame: &mut [u8]) -> usize {
        let head = swx::copy(instance, queue_depth, frame.len() as u32);
        self.pipeline.offer(0, 0, &[&head, frame]);
        let mut len = 0;
        let done = self.pipeline.run(|sent| {
            let bytes = sent.bytes.get(INTRINSIC_LEN..).unwrap_or_default();
            if let Some(target) = frame.get_mut(..bytes.len()) {
                target.copy_from_slice(bytes);
                len = bytes.len();
            }
        });
        if done.is_ok() { len } else { 0 }
    }

    fn insert(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        let (table, text) = swx::entry(&self.program, entry)?;
        let size = self.program.tables.iter().find(|declared| declared.name == table);
        let size = size.map_or(0, |table| table.size as usize);
        let key = (entry.table, key_of(&text).to_owned());
        if self.entries.contains(&key) {
            return Err(EntryError::Exists);
        }
        if self.entries.iter().filter(|(other, _)| *other == entry.table).count() >= size {
            return Err(EntryError::Full(size));
        }
        let table = table.to_owned();
        self.pipeline.insert(&table, &text).map_err(|_| EntryError::Full(size))?;
        self.entries.insert(key);
        self.staged = true;
        Ok(())
    }

    fn delete(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        let (table, text) = swx::entry(&self.program, entry)?;
        let (table, key) = (table.to_owned(), (entry.table, key_of(&text).to_owned()));
        if !self.entries.remove(&key) {
            return Err(EntryError::NotFound);
        }
        self.pipeline.delete(&table, &text).map_err(|_| EntryError::NotFound)?;
        self.staged = true;
        Ok(())
    }

    fn counters(&self, id: u32) -> &[u64] {
        let at = self.program.counters.iter().position(|counter| counter_id(counter.id) == id);
        let Some((at, counter)) = at.map(|at| (at, &self.program.counters[at])) else { return &[] };
        self.counters[at].get_or_init(|| {
            let read = |index| self.pipeline.read_register(&counter.name, index).unwrap_or(u64::MAX);
            (0..counter.size).map(read).collect()
        })
    }

    /// Not supported: counters are DPDK's.
    fn counters_mut(&mut self, _id: u32) -> &mut [u64] {
        &mut []
    }

    fn read_register(&self, name: &str, index: usize, out: &mut Vec<u32>) -> bool {
        let Some(register) = self.program.registers.iter().find(|register| register.name == name) else {
            return false;
        };
        for (array, bits) in self.cells(register) {
            let Ok(value) = self.pipeline.read_register(&array, index as u32) else { return false };
            // A sum is added to 64 bits, of which packets see the low ones.
            out.push((value & ((1 << bits) - 1)) as u32);
        }
        true
    }

    fn write_register(&mut self, name: &str, index: usize, values: &[u32]) -> bool {
        let program = Arc::clone(&self.program);
        let Some(register) = program.registers.iter().find(|register| register.name == name) else {
            return false;
        };
        let cells = self.cells(register);
        cells.len() == values.len()
            && cells.iter().zip(values).all(|((array, bits), value)| {
                let value = u64::from(*value) & ((1 << bits) - 1);
                self.pipeline.write_register(array, index as u32, value).is_ok()
            })
    }

    /// No effect: DPDK has one build.
    fn set_simd(&mut self, _level: SimdLevel) {}
}

/// The part of an entry that identifies it.
fn key_of(text: &str) -> &str {
    text.split_once(" action ").map_or(text, |(key, _)| key)
}

impl fmt::Debug for SwxPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SwxPipeline").field("info", &self.info).finish_non_exhaustive()
    }
}
