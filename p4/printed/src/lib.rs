//! Executes the programs that `netfold_p4::tna` prints for Tofino, from their text: parser, tables, register actions, checksums, deparser, recirculation
//! and replication. It knows the text alone, not the program that it was printed from, so that a comparison with the interpreter of that program covers
//! the printer.
//!
//! The text is executed as P4_16 defines it, statement by statement, with what the architecture adds:
//!
//! - a packet that is too short for what the parser extracts is dropped, and nothing is counted;
//! - metadata that the program declares, fields of headers that are not valid or were made so, and outputs of register actions have arbitrary values until
//!   they are assigned;
//! - a register is accessed at most once in a pass, and its index exists; a packet has one destination. Otherwise the program has a [`Fault`];
//! - queue depths are in cells;
//! - a packet that is sent to the recirculation port enters ingress once more there.
//!
//! It does not know stages, containers or the units of a chip: the compiler and the assembler check what fits.
//!
//! ```
//! use netfold_p4::tna::{Chip, print};
//! use netfold_p4::{allreduce, profile::Profile};
//! use netfold_p4_printed::{Sent, Tofino};
//!
//! let program = allreduce::program(&Profile { slots: 16, ..Profile::tofino() })?;
//! let mut tofino = Tofino::new(&print(&program, Chip::Tofino2)?)?;
//! let outcome = tofino.receive(1, &[0; 64])?;
//! assert_eq!(outcome.sent, Sent::Nothing);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod lex;
mod machine;
mod packet;
mod program;
mod read;
mod tables;

use std::collections::BTreeSet;

use netfold_p4::entry::{EntryError, TableEntry};

use machine::Pass;
use packet::Packet;
use program::Program;
use tables::Entries;

/// The port from which recirculated packets of pipe 0 return.
pub const RECIRCULATION_PORT: u16 = 68;

/// Passes of one packet at most: 8 forward, and 7 back.
const PASSES_MAX: usize = 15;

/// What is not understood in a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// What it is.
    pub what: String,
}

/// What a program must not do to a packet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A register is accessed twice in a pass.
    #[error("register '{0}' is accessed twice in a pass")]
    Twice(String),
    /// An entry that a register does not have.
    #[error("register '{0}' has no entry {1}")]
    Index(String, u64),
    /// A port and a group at once.
    #[error("the packet is sent to port {0} and to group {1}")]
    Destinations(u64, u64),
    /// Egress would run over a packet that is recirculated.
    #[error("a recirculated packet passes egress")]
    Recirculated,
    /// The packet does not leave.
    #[error("a packet is recirculated without end")]
    Endless,
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Nowhere.
    Nothing,
    /// To a port.
    Port(u16),
    /// To a multicast group.
    Group(u16),
}

/// What ingress does with a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Where it goes.
    pub sent: Sent,
    /// The packet that egress begins with; empty if it is dropped.
    pub bytes: Vec<u8>,
    /// Passes of ingress.
    pub passes: usize,
    /// The egress queue.
    pub queue: u8,
}

impl Outcome {
    /// Whether the packet is sent to the recirculation port.
    pub fn is_recirculated(&self) -> bool {
        self.sent == Sent::Port(RECIRCULATION_PORT)
    }
}

/// A program with its state.
#[derive(Debug)]
pub struct Tofino {
    program: Program,
    registers: Vec<Vec<u64>>,
    counters: Vec<Vec<u64>>,
    tables: [Vec<Entries>; 2],
    lookups: BTreeSet<(String, Vec<u64>)>,
    /// Makes the values of fields that are not valid.
    noise: u64,
}

impl Tofino {
    /// Reads a printed program. Registers and counters are zero, and tables have their constant entries.
    ///
    /// # Errors
    ///
    /// The first construct that is not understood.
    pub fn new(text: &str) -> Result<Self, TextError> {
        let program = read::program(text)?;
        let tables =
            [&program.ingress, &program.egress].map(|gress| gress.tables.iter().map(Entries::new).collect());
        Ok(Self {
            registers: program.registers.iter().map(|r| vec![0; r.size * r.cells.len()]).collect(),
            counters: program.counters.iter().map(|counter| vec![0; counter.size]).collect(),
            tables,
            lookups: BTreeSet::new(),
            noise: 0x9e37_79b9_7f4a_7c15,
            program,
        })
    }

    /// Runs ingress over a packet, and over it again when it is recirculated.
    ///
    /// # Errors
    ///
    /// What the program must not do.
    pub fn receive(&mut self, port: u16, bytes: &[u8]) -> Result<Outcome, Fault> {
        let mut outcome = self.ingress(port, bytes)?;
        for passes in 2..=PASSES_MAX {
            if !outcome.is_recirculated() {
                break;
            }
            outcome = Outcome { passes, ..self.ingress(RECIRCULATION_PORT, &outcome.bytes)? };
        }
        if outcome.is_recirculated() { Err(Fault::Endless) } else { Ok(outcome) }
    }

    /// Runs ingress over a packet once. What is recirculated enters at [`RECIRCULATION_PORT`]: at once, as in [`Self::receive`], or behind others, or
    /// not at all.
    ///
    /// # Errors
    ///
    /// What the program must not do.
    pub fn ingress(&mut self, port: u16, bytes: &[u8]) -> Result<Outcome, Fault> {
        let mut pass = self.pass(0, bytes);
        pass.set("ig_intr_md.ingress_port", port.into());
        if !pass.run()? {
            return Ok(Outcome { sent: Sent::Nothing, bytes: Vec::new(), passes: 1, queue: 0 });
        }
        let sent = pass.sent()?;
        let queue = pass.get("ig_tm_md.qid") as u8;
        let bypasses = pass.get("ig_tm_md.bypass_egress") == 1;
        let bytes = if sent == Sent::Nothing { Vec::new() } else { pass.depart() };
        let outcome = Outcome { sent, bytes, passes: 1, queue };
        if outcome.is_recirculated() && !bypasses { Err(Fault::Recirculated) } else { Ok(outcome) }
    }

    /// Runs egress over one copy, with the replica's id, 0 for a packet to a port, and the cells of its queue; `None` if it is dropped.
    ///
    /// # Errors
    ///
    /// What the program must not do.
    pub fn egress(&mut self, instance: u16, cells: u32, bytes: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let mut pass = self.pass(1, bytes);
        pass.set("eg_intr_md.egress_rid", instance.into());
        pass.set("eg_intr_md.enq_qdepth", cells.min((1 << 19) - 1).into());
        Ok(if pass.run()? { Some(pass.depart()) } else { None })
    }

    fn pass(&mut self, gress: usize, bytes: &[u8]) -> Pass<'_> {
        let gress_of = if gress == 0 { &self.program.ingress } else { &self.program.egress };
        let mut pass = Pass {
            program: &self.program,
            gress: gress_of,
            registers: &mut self.registers,
            counters: &mut self.counters,
            tables: &self.tables[gress],
            packet: Packet::new(gress_of, bytes),
            noise: &mut self.noise,
            touched: Vec::new(),
            lookups: &mut self.lookups,
        };
        pass.scramble();
        pass
    }

    /// Adds an entry, as control planes do.
    ///
    /// # Errors
    ///
    /// When it does not fit its table, or its key exists.
    pub fn insert(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        let (table, gress, entries) = self.table(entry.table)?;
        entries.insert(table, gress, entry)
    }

    /// Removes the entry with this key and priority.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn delete(&mut self, entry: &TableEntry) -> Result<(), EntryError> {
        let (table, _, entries) = self.table(entry.table)?;
        entries.delete(table, entry)
    }

    fn table(&mut self, id: u32) -> Result<(&program::Table, &program::Gress, &mut Entries), EntryError> {
        let both = [&self.program.ingress, &self.program.egress].into_iter().zip(&mut self.tables);
        for (gress, entries) in both {
            if let Some(at) = gress.tables.iter().position(|table| table.id == id && id != 0) {
                return Ok((&gress.tables[at], gress, &mut entries[at]));
            }
        }
        Err(EntryError::Table(id))
    }

    /// The different keys, by table, with which tables of constant entries were looked up.
    pub const fn lookups(&self) -> &BTreeSet<(String, Vec<u64>)> {
        &self.lookups
    }

    /// The action that a table has for a key; `None` without such a table.
    pub fn action_for(&self, table: &str, key: &[u64]) -> Option<&str> {
        let both = [&self.program.ingress, &self.program.egress].into_iter().zip(&self.tables);
        for (gress, entries) in both {
            if let Some(at) = gress.tables.iter().position(|known| known.name == table) {
                let action = entries[at].lookup(key).map_or(gress.tables[at].default.0, |entry| entry.action);
                return Some(&gress.actions[action].name);
            }
        }
        None
    }

    /// The values of the counter with this P4Info id; empty when there is none.
    pub fn counters(&self, id: u32) -> &[u64] {
        let at = self.program.counters.iter().position(|counter| counter.id == id);
        at.map_or(&[], |at| &self.counters[at])
    }

    /// Appends the cells of one entry of a register. Lanes are in registers of pairs, `NAME_00` and following: the first cells of all, then the second.
    /// False when there is no such register or entry.
    pub fn read_register(&self, name: &str, index: usize, out: &mut Vec<u32>) -> bool {
        let entry = |name: &str| {
            let at = self.program.registers.iter().position(|register| register.name == name)?;
            let cells = self.program.registers[at].cells.len();
            self.registers[at].get(index * cells..(index + 1) * cells)
        };
        if let Some(cells) = entry(name) {
            out.extend(cells.iter().map(|cell| *cell as u32));
            return true;
        }
        let pairs: Vec<&[u64]> = (0..).map_while(|pair: u32| entry(&format!("{name}_{pair:02}"))).collect();
        for half in 0..2 {
            out.extend(pairs.iter().filter_map(|pair| pair.get(half)).map(|cell| *cell as u32));
        }
        !pairs.is_empty()
    }
}
