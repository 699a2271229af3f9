//! STF, the line format in which the P4 compiler's own tests state packets and expectations.
//!
//! A [`Script`] is read from text by [`Script::parse`] and written by its `Display`. The compiler's runner for bmv2 takes the same text.
//! Supported statements:
//!
//! ```text
//! # a comment
//! add TABLE [PRIORITY] KEY:VALUE ... ACTION(PARAM:VALUE, ...)   VALUE in decimal, 0x.., 0b..; `*` is a nibble of any value
//! mc_mgrp_create GROUP
//! mc_node_create INSTANCE PORT ...
//! mc_node_associate GROUP NODE                                  nodes are numbered from 0 in order of creation
//! packet PORT HEX
//! expect PORT [HEX [$]]                                         `*` is a nibble of any value, `$` the end; no HEX: anything
//! check_counter "NAME"(INDEX) packets == NUMBER                 also != < <= > >=; quotes only where there is a dot
//! register_read NAME INDEX, register_write NAME INDEX VALUE
//! wait
//! ```
//!
//! Packets that leave a port are compared with the port's expectations in order; a packet that leaves where nothing is
//! expected, and an expectation that is not met, are failures. Names may be written with or without the control that
//! holds the object. In a table with ternary keys a greater priority wins.
//!
//! Source: the grammar in p4c's `tools/stf` and its runner for bmv2.

mod read;
mod write;

pub use read::StfError;

/// A script: statements with the line they stand in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// Line, from 1, and statement.
    pub statements: Vec<(usize, Statement)>,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Adds a table entry.
    Add {
        /// Table.
        table: String,
        /// Priority; greater wins.
        priority: Option<u32>,
        /// Key fields by name.
        keys: Vec<(String, Masked)>,
        /// Action.
        action: String,
        /// Parameters by name.
        params: Vec<(String, u64)>,
    },
    /// Creates a multicast group.
    GroupCreate(u16),
    /// Creates a node: an instance that leaves by these ports.
    NodeCreate {
        /// Replica instance.
        instance: u16,
        /// Ports.
        ports: Vec<u16>,
    },
    /// Puts a node into a group.
    NodeAssociate {
        /// Group.
        group: u16,
        /// Node, by order of creation from 0.
        node: usize,
    },
    /// Sends a packet in.
    Packet {
        /// Port.
        port: u16,
        /// The whole packet.
        bytes: Vec<u8>,
    },
    /// Expects a packet.
    Expect {
        /// Port.
        port: u16,
        /// What it looks like; `None` for any packet.
        pattern: Option<Pattern>,
    },
    /// Compares a cell of a counter.
    CheckCounter {
        /// Counter.
        name: String,
        /// Cell.
        index: usize,
        /// Comparison and number; absent only looks whether the cell exists.
        condition: Option<(Comparison, u64)>,
    },
    /// Shows a register's cell.
    RegisterRead {
        /// Register, as it is printed in P4.
        name: String,
        /// Cell.
        index: usize,
    },
    /// Waits until everything has settled; our pipelines always have.
    Wait,
}

/// A value of which some bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Masked {
    /// Value; 0 outside the mask.
    pub value: u64,
    /// Bits that count.
    pub mask: u64,
    /// Whether a nibble was left open.
    pub wild: bool,
}

/// What a packet looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Nibbles from the first; `None` is any.
    pub nibbles: Vec<Option<u8>>,
    /// Whether the packet ends there.
    pub exact: bool,
}

/// How a counter is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

impl Comparison {
    /// Every comparison, longer signs first.
    pub const ALL: &'static [(Self, &'static str)] = &[
        (Self::Eq, "=="),
        (Self::Ne, "!="),
        (Self::Le, "<="),
        (Self::Ge, ">="),
        (Self::Lt, "<"),
        (Self::Gt, ">"),
    ];

    /// Whether it holds.
    pub const fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Eq => left == right,
            Self::Ne => left != right,
            Self::Lt => left < right,
            Self::Le => left <= right,
            Self::Gt => left > right,
            Self::Ge => left >= right,
        }
    }
}

impl Pattern {
    /// Exactly these bytes.
    pub fn exactly(bytes: &[u8]) -> Self {
        Self {
            nibbles: bytes.iter().flat_map(|byte| [Some(byte >> 4), Some(byte & 15)]).collect(),
            exact: true,
        }
    }

    /// Whether a packet looks like that.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        let nibble = |at: usize| {
            bytes.get(at / 2).map(|byte| if at.is_multiple_of(2) { byte >> 4 } else { byte & 15 })
        };
        let fits = |(at, wanted): (usize, &Option<u8>)| match (nibble(at), wanted) {
            (None, _) => false,
            (Some(found), Some(wanted)) => found == *wanted,
            (Some(_), None) => true,
        };
        (!self.exact || self.nibbles.len() == 2 * bytes.len()) && self.nibbles.iter().enumerate().all(fits)
    }
}

#[cfg(test)]
mod tests;
