//! Ids of objects as control planes know them: the kind in the upper 8 bits (P4Runtime specification 1.4.1, section 6.4).

/// P4Info id of a table.
pub const fn table_id(id: u32) -> u32 {
    0x0200_0000 | id
}

/// P4Info id of an action.
pub const fn action_id(id: u32) -> u32 {
    0x0100_0000 | id
}

/// P4Info id of a counter array.
pub const fn counter_id(id: u32) -> u32 {
    0x1200_0000 | id
}

/// P4Info id of a register.
pub const fn register_id(id: u32) -> u32 {
    0x1600_0000 | id
}
