//! DPDK's software pipeline as a pipeline of the software switch.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use netfold_dpdk::swx::{Externs, Pipeline as Swx, PipelineConfig, SwxError};
use netfold_dpdk::{Eal, Huge, Options};
use netfold_p4::ir::{Program, Register, RegisterKind};
use netfold_p4::p4info::counter_id;
use netfold_p4::swx::{self, INTRINSIC_LEN, PACKET_AT};
use netfold_switch::runtime::{CE, EntryError, Received, TableEntry, room_end};
use netfold_switch::{Pipeline, PipelineInfo, SimdLevel, Verdict};

use crate::SwxPipelineError;
use crate::objects::Objects;

/// Packets in the pipeline at a time.
const PACKETS: u32 = 32;
/// Bytes of the longest packet, without the intrinsic header, unless one with lanes is longer.
const PACKET_BYTES_MAX: usize = 9216;
/// DPDK's memory in megabytes: without objects, registers take 8 bytes for each cell.
const MEMORY_MB: u64 = 512;

/// A program as [`swx::print_with_objects`] prints it, executed by DPDK; registers, and the actions on them, are external objects. What a switch has around the pipeline is here: the intrinsic header in front of every packet, and
/// copies, which pass through the pipeline again.
pub struct SwxPipeline {
    program: Arc<Program>,
    pipeline: Swx,
    /// The registers; `None` where they are the pipeline's.
    objects: Option<Objects>,
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
        let printed = swx::print_with_objects(&program)?;
        let objects = Objects::new(&program, &printed).map_err(SwxPipelineError::Object)?;
        Self::build(program, &printed.text, Some(objects))
    }

    /// The same of the program as [`swx::print`] prints it, without external objects: as any other application with a software pipeline would execute
    /// it.
    ///
    /// # Errors
    ///
    /// See [`SwxPipelineError`].
    pub fn without_objects(program: Arc<Program>) -> Result<Self, SwxPipelineError> {
        let spec = swx::print(&program)?;
        Self::build(program, &spec, None)
    }

    fn build(program: Arc<Program>, spec: &str, objects: Option<Objects>) -> Result<Self, SwxPipelineError> {
        let options = Options { huge: Huge::Never, memory_mb: MEMORY_MB, more: Vec::new() };
        let eal = Eal::start(&options, false)?;
        let headers: u32 = program.headers.iter().map(|header| header.len_bytes()).sum();
        let packet_bytes_max = PACKET_BYTES_MAX.max((headers + program.lane_bytes()) as usize);
        let config = PipelineConfig {
            inputs: 1,
            outputs: 1,
            packets: PACKETS,
            packet_bytes_max: (packet_bytes_max + INTRINSIC_LEN) as u32,
            number_at: Some(PACKET_AT as u32),
        };
        let pipeline = Swx::build(&eal, spec, &config)?;
        let info = PipelineInfo::of(&program);
        let counters = program.counters.iter().map(|_| OnceCell::new()).collect();
        Ok(Self { program, pipeline, objects, info, entries: HashSet::new(), staged: false, counters })
    }

    /// Applies staged changes of tables.
    ///
    /// # Errors
    ///
    /// [`SwxError::Commit`].
    pub fn commit(&mut self) -> Result<(), SwxError> {
        if std::mem::take(&mut self.staged) { self.pipeline.commit() } else { Ok(()) }
    }

    /// Instructions that DPDK has executed.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.pipeline.instructions()
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
            let mut none = ();
            let externs: &mut dyn Externs = match &mut self.objects {
                Some(objects) => objects,
                None => &mut none,
            };
            let done = self.pipeline.run_with(externs, |sent| {
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
        let mut none = ();
        let externs: &mut dyn Externs = match &mut self.objects {
            Some(objects) => objects,
            None => &mut none,
        };
        let done = self.pipeline.run_with(externs, |sent| {
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
        if let Some(objects) = &self.objects {
            return objects.read(name, index).map(|entry| out.extend_from_slice(entry)).is_some();
        }
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
        if let Some(objects) = &mut self.objects {
            return objects.write(name, index, values);
        }
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

    /// Affects the loops over lanes alone: DPDK has one build.
    fn set_simd(&mut self, level: SimdLevel) {
        if let Some(objects) = &mut self.objects {
            objects.set_simd(level);
        }
    }
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
