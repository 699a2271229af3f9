//! P4Info

/// Full id
pub const fn table_id(id: u32) -> u32 { 0x0200_0000 | id }
/// Full id
pub const fn action_id(id: u32) -> u32 { 0x0100_0000 | id }
/// Full id
pub const fn counter_id(id: u32) -> u32 { 0x1200_0000 | id }
