//! The kernel's driver path as a pipeline of the software switch, by test runs.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use netfold_p4::entry::Replica;
use netfold_p4::interpret::InterpretError;
use netfold_p4::ir::Program;
use netfold_p4::p4info::counter_id;
use netfold_p4::xdp::Handover;
use netfold_switch::runtime::{EntryError, Received, TableEntry, room_end};
use netfold_switch::{InterpretedPipeline, Pipeline, PipelineInfo, Send, SimdLevel, Verdict};
use netfold_xdp::{Datapath, XdpError};

use super::sequence::Group;

/// The interface of test runs: `lo`.
const LOOPBACK: u32 = 1;
/// Ports of a sequence are below this.
const PORTS: u16 = 256;
/// The group of copies under test: no sequence has it.
const COPIES: u16 = 4000;

/// Why a program does not run in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum XdpRigError {
    /// The program is not valid, or needs too much state.
    #[error(transparent)]
    Program(#[from] InterpretError),
    /// The target cannot express the program, or the kernel refuses it.
    #[error(transparent)]
    Load(#[from] XdpError),
}

/// A program in the kernel, whose packets are test runs (`BPF_PROG_TEST_RUN`). All ports are the loopback interface.
pub struct XdpPipeline {
    datapath: Datapath,
    info: PipelineInfo,
    /// Counters, read when they are asked for.
    counters: Vec<(u32, OnceCell<Vec<u64>>)>,
    packet: Vec<u8>,
    /// Copies so far, each of a packet of its own.
    copies: u32,
    nanoseconds: u64,
}

impl XdpPipeline {
    /// Loads the program, with the multicast groups of a sequence.
    ///
    /// # Errors
    ///
    /// See [`XdpRigError`].
    pub fn new(program: Arc<Program>, groups: &[Group]) -> Result<Self, XdpRigError> {
        let mut datapath = Datapath::new(Arc::clone(&program))?;
        for port in 0..PORTS {
            datapath.set_port(port, LOOPBACK)?;
        }
        for group in groups {
            // All ports are one interface, so there is one member; whose copies are made is up to the caller.
            let first: Vec<Replica> = group.replicas.iter().take(1).copied().collect();
            datapath.set_group(group.id, &first)?;
        }
        let counters = program.counters.iter().map(|counter| (counter_id(counter.id), OnceCell::new()));
        let counters = counters.collect();
        let info = InterpretedPipeline::new(program)?.info().clone();
        Ok(Self { datapath, info, counters, packet: Vec::new(), copies: 0, nanoseconds: 0 })
    }

    /// Time of ingress in the kernel so far, in nanoseconds.
    pub const fn nanoseconds(&self) -> u64 {
        self.nanoseconds
    }

    fn ingress(&mut self, packet: &Received, memory: &[u8]) -> Option<Send> {
        let from = packet.offset as usize;
        let bytes = memory.get(from..from + packet.len as usize)?;
        self.packet.clear();
        self.packet.extend_from_slice(bytes);
        self.datapath.set_port(packet.port.0, LOOPBACK).ok()?;
        let ran = self.datapath.test_ingress(&mut self.packet).ok()?;
        self.nanoseconds += u64::from(ran.nanoseconds);
        Some(ran.send)
    }
}

impl Pipeline for XdpPipeline {
    fn info(&self) -> &PipelineInfo {
        &self.info
    }

    fn burst(&mut self, packets: &[Received], memory: &mut [u8], verdicts: &mut Vec<Verdict>) {
        self.counters.iter_mut().for_each(|(_, counter)| drop(counter.take()));
        for (index, packet) in packets.iter().enumerate() {
            let send = self.ingress(packet, memory).unwrap_or(Send::Drop);
            let room = memory.get_mut(packet.offset as usize..room_end(packets, index, memory.len()));
            let verdict = match room.and_then(|room| room.get_mut(..self.packet.len())) {
                Some(target) if send != Send::Drop => {
                    target.copy_from_slice(&self.packet);
                    Verdict { send, len: self.packet.len() as u32 }
                }
                _ => Verdict::DROP,
            };
            verdicts.push(verdict);
        }
    }

    fn egress(&mut self, instance: u16, queue_depth: u32, frame: &mut [u8]) -> usize {
        let send = match instance {
            0 => Send::Unicast(0),
            _ => Send::Multicast(COPIES),
        };
        let replica = Replica { port: 0, instance };
        if self.datapath.set_port(0, LOOPBACK).is_err()
            || self.datapath.set_group(COPIES, &[replica]).is_err()
        {
            return 0;
        }
        self.packet.clear();
        self.packet.extend_from_slice(frame);
        self.copies = self.copies.wrapping_add(1);
        let handover = Handover { send, depth: queue_depth.min((1 << 19) - 1), number: self.copies };
        if self.datapath.test_egress(handover, &mut self.packet).is_err() {
            return 0;
        }
        match frame.get_mut(..self.packet.len()) {
            Some(target) => {
                target.copy_from_slice(&self.packet);
                target.len()
            }
            None => 0,
        }
    }

    fn insert(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        self.datapath.insert(entry)
    }

    fn delete(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        self.datapath.delete(entry)
    }

    fn counters(&self, id: u32) -> &[u64] {
        let found = self.counters.iter().find(|(own, _)| *own == id);
        found.map_or(&[], |(_, cell)| cell.get_or_init(|| self.datapath.counters(id)))
    }

    /// Not supported: counters are the kernel's.
    fn counters_mut(&mut self, _id: u32) -> &mut [u64] {
        &mut []
    }

    fn read_register(&self, name: &str, index: usize, out: &mut Vec<u32>) -> bool {
        self.datapath.read_register(name, index, out)
    }

    fn write_register(&mut self, name: &str, index: usize, values: &[u32]) -> bool {
        self.datapath.write_register(name, index, values)
    }

    /// No effect: the kernel translates the program once.
    fn set_simd(&mut self, _level: SimdLevel) {}
}

impl fmt::Debug for XdpPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XdpPipeline").field("info", &self.info).finish_non_exhaustive()
    }
}
