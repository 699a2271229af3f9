//! Any valid program as a pipeline: the generated one if it exists, otherwise the interpreter.

use std::borrow::Cow;
use std::sync::Arc;

use netfold_p4::allreduce::{has_owners, is_for_bounded_loss, lane_ops_of, numerics_of};
use netfold_p4::growth::Growth;
use netfold_p4::interpret::{InterpretError, Interpreter};
use netfold_p4::ir::{Program, RegisterKind};
use netfold_p4::rewriting::Rewriting;

use crate::pipeline::generated;
use crate::runtime::{
    CE, EntryError, Pipeline, PipelineInfo, Received, Send, SimdLevel, TableEntry, Verdict, room_end,
};

/// The engine that runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Rust that was generated from this program when the switch was built.
    Generated,
    /// The interpreter of `netfold-p4`.
    Interpreter,
}

/// The pipeline for a program, empty and zeroed, and its engine. A generated pipeline is selected by the program's
/// fingerprint, so a program with any difference is interpreted.
///
/// # Errors
///
/// When the program is not valid or needs too much state.
pub fn pipeline_for(program: &Program) -> Result<(Box<dyn Pipeline>, Engine), InterpretError> {
    match generated(program.fingerprint()) {
        Some(pipeline) => Ok((pipeline, Engine::Generated)),
        None => Ok((Box::new(InterpretedPipeline::new(Arc::new(program.clone()))?), Engine::Interpreter)),
    }
}

/// A program that the interpreter runs. It allocates for every packet.
#[derive(Debug)]
pub struct InterpretedPipeline {
    interpreter: Interpreter,
    info: PipelineInfo,
}

impl InterpretedPipeline {
    /// The program, empty and zeroed.
    ///
    /// # Errors
    ///
    /// When the program is not valid or needs too much state.
    pub fn new(program: Arc<Program>) -> Result<Self, InterpretError> {
        let info = PipelineInfo::of(&program);
        Ok(Self { interpreter: Interpreter::new(program)?, info })
    }

    /// The interpreter itself.
    pub fn interpreter(&mut self) -> &mut Interpreter {
        &mut self.interpreter
    }
}

impl PipelineInfo {
    /// The properties of a program.
    pub fn of(program: &Program) -> Self {
        let (mut bookkeeping_bytes, mut lane_bytes) = (0usize, 0usize);
        for register in &program.registers {
            let size = register.size as usize;
            match &register.kind {
                RegisterKind::Cells(cells) => bookkeeping_bytes += size * cells.len() * size_of::<u32>(),
                RegisterKind::Lanes(_) => {
                    lane_bytes += size * program.lane_count() as usize * size_of::<u32>()
                }
            }
        }
        Self {
            name: Cow::Owned(program.name.clone()),
            fingerprint: program.fingerprint(),
            lane_words: program.lane_bytes() / 4,
            numerics: numerics_of(program),
            lane_ops: lane_ops_of(program),
            bounded_loss: is_for_bounded_loss(program),
            owners: has_owners(program),
            growth: Growth::of(program),
            rewriting: Rewriting::of(program),
            entries: program.registers.iter().map(|register| register.size).max().unwrap_or(0),
            bookkeeping_bytes,
            lane_bytes,
        }
    }
}

impl Pipeline for InterpretedPipeline {
    fn info(&self) -> &PipelineInfo {
        &self.info
    }

    fn burst(&mut self, packets: &[Received], memory: &mut [u8], verdicts: &mut Vec<Verdict>) {
        for (index, packet) in packets.iter().enumerate() {
            let (start, len) = (packet.offset as usize, packet.len as usize);
            let end = room_end(packets, index, memory.len());
            let verdict = memory.get_mut(start..end).map_or(Verdict::DROP, |data| {
                let Some(arrived) = data.get(..len) else { return Verdict::DROP };
                let outcome = self.interpreter.receive(packet.port.0, packet.ecn == CE, arrived);
                match data.get_mut(..outcome.bytes.len()) {
                    Some(target) if outcome.send != Send::Drop => {
                        target.copy_from_slice(&outcome.bytes);
                        Verdict { send: outcome.send, len: outcome.bytes.len() as u32 }
                    }
                    _ => Verdict::DROP,
                }
            });
            verdicts.push(verdict);
        }
    }

    fn egress(&mut self, instance: u16, queue_depth: u32, frame: &mut [u8]) -> usize {
        let bytes = self.interpreter.egress(instance, queue_depth, frame);
        match frame.get_mut(..bytes.len()) {
            Some(target) => target.copy_from_slice(&bytes),
            None => return 0,
        }
        bytes.len()
    }

    fn insert(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        self.interpreter.insert(entry)
    }

    fn delete(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        self.interpreter.delete(entry)
    }

    fn counters(&self, id: u32) -> &[u64] {
        self.interpreter.counters(id)
    }

    fn counters_mut(&mut self, id: u32) -> &mut [u64] {
        self.interpreter.counters_mut(id)
    }

    fn write_register(&mut self, name: &str, index: usize, values: &[u32]) -> bool {
        self.interpreter.write_register(name, index, values)
    }

    fn read_register(&self, name: &str, index: usize, out: &mut Vec<u32>) -> bool {
        let entry = self.interpreter.read_register(name, index);
        entry.map(|cells| out.extend_from_slice(cells)).is_some()
    }

    /// No effect: the interpreter has one build.
    fn set_simd(&mut self, _level: SimdLevel) {}
}
