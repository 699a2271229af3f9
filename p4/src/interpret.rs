//! Executes any valid program, packet by packet: the reference for the other back ends, and the software switch's engine for
//! programs without a generated pipeline. It walks the IR and favours clarity over speed.
//!
//! # Semantics of the constructs
//!
//! **Values** are unsigned and have a width; sums, differences, complements and left shifts wrap to it. Signed
//! operators read two's complement of the same width. A shift by the width or more yields 0, or for the signed one 0
//! or -1. Booleans are a separate type. (`eval`)
//!
//! **Parsing** extracts parts in the order of the states. At the first part that the packet is too short for, parsing
//! ends with that part absent; so does a selection in which no case matches and that names no default state. Bytes that were
//! not extracted are payload and follow the parts that are sent. Metadata and lane variables start at zero.
//! (`packet`)
//!
//! **An absent header** (not extracted, or removed) reads as zeros, and assignments to it do nothing. bmv2 does so for
//! table keys; elsewhere it returns values of an earlier packet, so programs must not depend on it.
//!
//! **Absent lanes**: an assignment to lanes, or to lane variables from lanes, does nothing; [`Expr::AnyLane`] is
//! false; a register action that reads or writes the packet's lanes drops the packet. (`control`, `registers`)
//!
//! **A table** runs the action of the matching entry with the highest priority, or its default. Of two that match
//! with the same priority, it uses the older; other back ends may choose differently. (`tables`)
//!
//! **A register action** sees old cells in conditions and new values; all cells change together; the output comes last
//! and may see the new ones. An index out of range drops the packet at once: no later statement runs, not even a
//! counter. (`registers`)
//!
//! **A counter** whose index is out of range counts nothing.
//!
//! **The destination** of a packet is the last of unicast, multicast and drop that ran; a packet without any is dropped.
//! Control flow continues after each of them.
//!
//! **The IPv4 checksum** is wrong when it differs from the one computed over the other fields: 0xffff where 0 is right
//! is wrong. If the header is present when the packet leaves, the checksum is recomputed.
//!
//! **Egress** begins with each copy as ingress sent it: parsed again, metadata zero. (bmv2 keeps metadata and what was
//! parsed; a program that sets metadata in egress before it reads any, and reads no header there whose presence ingress
//! changed, behaves the same.) Queue depths saturate at 2^19 - 1.

mod control;
mod eval;
mod packet;
mod registers;
mod tables;

use std::fmt;
use std::sync::Arc;

use crate::check::{CheckError, check};
use crate::entry::{EntryError, TableEntry};
use crate::ir::*;
use crate::object_id;
use control::ControlRun;
use packet::{Arrival, Packet};
use registers::Storage;
use tables::Entries;

/// Default maximum of bytes in registers, counters and full tables of a program.
pub const STATE_BYTES_MAX: u64 = 1 << 30;

/// Destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Send {
    /// None: the packet is dropped.
    Drop,
    /// To one port.
    Unicast(u16),
    /// To every replica of a multicast group.
    Multicast(u16),
}

/// Output of ingress for a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressOutcome {
    /// The destination.
    pub send: Send,
    /// The packet to send; empty when it is dropped. Never longer than it came in.
    pub bytes: Vec<u8>,
    /// Egress queue, 0 to 7; higher numbers are served first.
    pub class: u8,
}

/// Error of a program that cannot be executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InterpretError {
    /// The program is not valid.
    #[error("the program is not valid")]
    Check(#[from] CheckError),
    /// Its state is too large.
    #[error(
        "the program's registers, counters and tables can take {needed} bytes; at most {most} are allowed"
    )]
    State {
        /// Maximum bytes of its state.
        needed: u64,
        /// Bytes allowed.
        most: u64,
    },
}

/// A program with its state: registers, counters, table entries.
pub struct Interpreter {
    program: Arc<Program>,
    registers: Vec<Storage>,
    counters: Vec<Vec<u64>>,
    tables: Vec<Entries>,
    packet: Packet,
}

impl Interpreter {
    /// The program with zeroed registers and counters and empty tables, within [`STATE_BYTES_MAX`].
    ///
    /// # Errors
    ///
    /// See [`InterpretError`].
    pub fn new(program: Arc<Program>) -> Result<Self, InterpretError> {
        Self::with_limit(program, STATE_BYTES_MAX)
    }

    /// Like [`Self::new`], with another limit on the state.
    ///
    /// # Errors
    ///
    /// See [`InterpretError`].
    pub fn with_limit(program: Arc<Program>, state_bytes_max: u64) -> Result<Self, InterpretError> {
        check(&program)?;
        let needed = state_bytes(&program);
        if needed > state_bytes_max {
            return Err(InterpretError::State { needed, most: state_bytes_max });
        }
        Ok(Self {
            registers: program.registers.iter().map(|register| Storage::new(&program, register)).collect(),
            counters: program.counters.iter().map(|counter| vec![0; counter.size as usize]).collect(),
            tables: program.tables.iter().map(|_| Entries::default()).collect(),
            packet: Packet::new(&program),
            program,
        })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Runs ingress over a packet that arrived on `port` without a congestion mark.
    pub fn process(&mut self, port: u16, bytes: &[u8]) -> IngressOutcome {
        self.receive(port, false, bytes)
    }

    /// Runs ingress over a packet that arrived on `port`; `congestion_mark` is [`Intrinsic::CongestionMark`].
    pub fn receive(&mut self, port: u16, congestion_mark: bool, bytes: &[u8]) -> IngressOutcome {
        self.packet.arrive(&self.program, Arrival::Ingress { port, congestion_mark }, bytes);
        let program = Arc::clone(&self.program);
        let finished = self.run(&program, &program.ingress);
        let send = if finished { self.packet.send } else { Send::Drop };
        let sent = send != Send::Drop;
        IngressOutcome {
            send,
            bytes: if sent { self.packet.depart(&program, bytes) } else { Vec::new() },
            class: if sent { self.packet.class } else { 0 },
        }
    }

    /// Runs egress over one copy of ingress's output and returns the copy to send. `instance` is the
    /// replica's, 0 for unicast; `queue_depth` is in packets.
    pub fn egress(&mut self, instance: u16, queue_depth: u32, bytes: &[u8]) -> Vec<u8> {
        if self.program.egress.is_empty() {
            return bytes.to_vec();
        }
        self.packet.arrive(&self.program, Arrival::Egress { instance, queue_depth }, bytes);
        let program = Arc::clone(&self.program);
        self.run(&program, &program.egress);
        self.packet.depart(&program, bytes)
    }

    /// Whether the block ran to its end; otherwise the packet is dropped.
    fn run(&mut self, program: &Program, block: &[Stmt]) -> bool {
        let Self { registers, counters, tables, packet, .. } = self;
        ControlRun { program, registers, counters, tables, packet }.block(block).is_ok()
    }

    fn table(&mut self, id: u32) -> Result<(&Program, &Table, &mut Entries), EntryError> {
        let at = self.program.tables.iter().position(|table| object_id::table_id(table.id) == id);
        let at = at.ok_or(EntryError::Table(id))?;
        Ok((&self.program, &self.program.tables[at], &mut self.tables[at]))
    }

    /// Adds a table entry.
    ///
    /// # Errors
    ///
    /// When the entry does not fit its table or its key exists; the table is unchanged.
    pub fn insert(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        let (program, table, entries) = self.table(entry.table)?;
        entries.insert(program, table, entry)
    }

    /// Removes the entry with the key and priority of `entry`.
    ///
    /// # Errors
    ///
    /// When there is none, or the key does not fit the table.
    pub fn delete(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        let (program, table, entries) = self.table(entry.table)?;
        entries.delete(program, table, entry)
    }

    /// The values of the counter with P4Info id `id`; empty when there is none.
    pub fn counters(&self, id: u32) -> &[u64] {
        let at = self.program.counters.iter().position(|counter| object_id::counter_id(counter.id) == id);
        at.map_or(&[], |at| &self.counters[at])
    }

    /// The same, to be overwritten.
    pub fn counters_mut(&mut self, id: u32) -> &mut [u64] {
        let at = self.program.counters.iter().position(|counter| object_id::counter_id(counter.id) == id);
        at.map_or(&mut [], |at| &mut self.counters[at])
    }

    /// The cells (or lanes) of one entry of a register; `None` when there is no such register or entry.
    pub fn read_register(&self, name: &str, index: usize) -> Option<&[u32]> {
        let at = self.program.registers.iter().position(|register| register.name == name)?;
        self.registers[at].entry(index)
    }

    /// Overwrites the cells (or lanes) of one entry of a register, each truncated to its width. False, without a
    /// change, when there is no such register or entry, or the number of values differs.
    pub fn write_register(&mut self, name: &str, index: usize, values: &[u32]) -> bool {
        let Some(at) = self.program.registers.iter().position(|register| register.name == name) else {
            return false;
        };
        self.registers[at].write(index, values)
    }
}

impl fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpreter").field("program", &self.program.name).finish_non_exhaustive()
    }
}

/// Maximum size of a program's state, with full tables.
pub fn state_bytes(program: &Program) -> u64 {
    let registers = program.registers.iter().map(|register| {
        let cells = Storage::cells_per_entry(program, register) as u64;
        u64::from(register.size) * cells * size_of::<u32>() as u64
    });
    let counters = program.counters.iter().map(|counter| u64::from(counter.size) * size_of::<u64>() as u64);
    let tables =
        program.tables.iter().map(|table| u64::from(table.size) * Entries::entry_bytes(program, table));
    registers.chain(counters).chain(tables).fold(0, u64::saturating_add)
}
