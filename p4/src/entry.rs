//! Control-plane state in plain types: table entries and multicast groups, by the ids that P4Info publishes.
//!
//! The shapes follow P4Runtime (specification 1.4.1, sections 9.1 and 9.5), so a gRPC server or client converts them
//! at its door without loss.

/// One field of a table key, as value and mask.
///
/// An exact field has all mask bits set; a field that does not matter is left out of the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldMatch {
    /// Match field id, 1-based, as in P4Info.
    pub field: u32,
    /// Value; bits outside `mask` are zero.
    pub value: u64,
    /// Which bits are compared.
    pub mask: u64,
}

/// A table entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableEntry {
    /// Table id.
    pub table: u32,
    /// Key fields, in any order; those that do not matter are absent.
    pub matches: Vec<FieldMatch>,
    /// Greater wins; 0 in tables whose fields are all exact, above 0 in the others.
    pub priority: i32,
    /// Action id.
    pub action: u32,
    /// Action parameters in order of their ids.
    pub params: Vec<u64>,
}

/// One copy that a multicast group makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replica {
    /// Egress port.
    pub port: u16,
    /// Replica id that egress sees.
    pub instance: u16,
}

/// Why a control-plane write was refused; the state is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// No table of that id.
    #[error("no table with id {0:#x}")]
    Table(u32),
    /// The table has no such action.
    #[error("action {action:#x} does not belong to table {table:#x}")]
    Action {
        /// Table id.
        table: u32,
        /// Action id.
        action: u32,
    },
    /// A key field is unknown, repeated, too wide, or missing where it must be exact.
    #[error("match field {0}: unknown, repeated, out of range or missing")]
    Field(u32),
    /// Wrong number of parameters, or one is too wide.
    #[error("action parameter {0}: missing, superfluous or out of range")]
    Param(usize),
    /// The priority does not fit the table's match kinds.
    #[error("priority {0} does not fit the table's match kinds")]
    Priority(i32),
    /// An entry with that key exists.
    #[error("an entry with that key exists already")]
    Exists,
    /// No entry with that key.
    #[error("no entry with that key")]
    NotFound,
    /// The table is full.
    #[error("the table is full ({0} entries)")]
    Full(usize),
    /// A replica names a port outside the switch, or too many replicas.
    #[error("multicast group {0}: too many replicas or unknown port")]
    Group(u16),
}
