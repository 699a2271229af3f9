//! Control-plane state in plain types: table entries and multicast groups, by the ids that P4Info publishes.
//!
//! The shapes follow P4Runtime (specification 1.4.1, sections 9.1 and 9.5), so a gRPC server or client converts them
//! without loss.

/// One field of a table key, as value and mask.
///
/// An exact field has all mask bits set; a wildcard field is left out of the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldMatch {
    /// Match field id, 1-based, as in P4Info.
    pub field: u32,
    /// Value; bits outside `mask` are zero.
    pub value: u64,
    /// Bits that are compared.
    pub mask: u64,
}

/// A table entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableEntry {
    /// Table id.
    pub table: u32,
    /// Key fields, in any order, without wildcards.
    pub matches: Vec<FieldMatch>,
    /// The highest takes precedence; 0 in tables whose fields are all exact, above 0 in the others.
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

/// Error of a control-plane write, which leaves the state unchanged.
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

/// A key field of a table for the validation of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyField {
    /// Match field id.
    pub id: u32,
    /// Width.
    pub bits: u32,
    /// Whether the match is exact.
    pub exact: bool,
}

/// Validates the key and the priority of an entry against its table's key fields, of which there are at most 32; calls
/// `place` with each field of the entry and its position in the table.
///
/// # Errors
///
/// [`EntryError::Field`] or [`EntryError::Priority`]; `place` may have been called for some fields.
pub fn check_key(
    keys: impl Iterator<Item = KeyField> + Clone,
    entry: &TableEntry,
    mut place: impl FnMut(usize, &FieldMatch),
) -> Result<(), EntryError> {
    let mut given = 0u32;
    for field in &entry.matches {
        let found = keys.clone().enumerate().find(|(_, key)| key.id == field.field);
        let (at, key) = found.ok_or(EntryError::Field(field.field))?;
        let all = if key.bits >= 64 { u64::MAX } else { (1 << key.bits) - 1 };
        let wide = (field.value | field.mask) & !all != 0;
        let stray = field.value & !field.mask != 0 || field.mask == 0;
        if wide || stray || given & 1 << at != 0 || (key.exact && field.mask != all) {
            return Err(EntryError::Field(field.field));
        }
        given |= 1 << at;
        place(at, field);
    }
    let absent = |(at, key): &(usize, KeyField)| key.exact && given & 1 << at == 0;
    if let Some((_, key)) = keys.clone().enumerate().find(absent) {
        return Err(EntryError::Field(key.id));
    }
    let ternary = keys.into_iter().any(|key| !key.exact);
    if ternary != (entry.priority > 0) || entry.priority < 0 {
        return Err(EntryError::Priority(entry.priority));
    }
    Ok(())
}

/// Validates action parameters against the widths that the action declares.
///
/// # Errors
///
/// [`EntryError::Param`] with the position of the first one that is missing, superfluous or too wide.
pub fn check_params(widths: impl ExactSizeIterator<Item = u32>, params: &[u64]) -> Result<(), EntryError> {
    if widths.len() != params.len() {
        return Err(EntryError::Param(widths.len().min(params.len())));
    }
    let wide = |(bits, value): (u32, &u64)| bits < 64 && value >> bits != 0;
    widths.zip(params).position(wide).map_or(Ok(()), |at| Err(EntryError::Param(at)))
}
