//! The chips' numbers.

use crate::tna::Chip;

/// Bits of a RAM row, and rows of a RAM.
const ROW_BITS: u32 = 128;
const ROWS: u32 = 1024;

/// Resources of a pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Match-action stages.
    pub stages: u32,
    /// Pipes.
    pub pipes: u32,
    /// Stateful units of a stage.
    pub units: u32,
    /// Map RAMs of a stage: one for each RAM of a register.
    pub map_rams: u32,
    /// TCAM blocks of a stage, 44 bits by 512.
    pub tcam_blocks: u32,
    /// Containers of 8, 16 and 32 bits, with those that only copy (mocha, Tofino 2) or are not seen by stages (tagalong, Tofino 1).
    pub containers: [u32; 3],
    /// Minimum and maximum bytes of the egress parser; 0 is no limit.
    pub egress_parse: [u32; 2],
}

impl Limits {
    /// The numbers of a chip.
    pub const fn of(chip: Chip) -> Self {
        let common = Self {
            stages: 12,
            pipes: 4,
            units: 4,
            map_rams: 48,
            tcam_blocks: 24,
            containers: [96, 144, 96],
            egress_parse: [65, 160],
        };
        match chip {
            Chip::Tofino1 => common,
            Chip::Tofino2 => Self { stages: 20, containers: [64, 96, 64], egress_parse: [0, 0], ..common },
        }
    }

    /// RAMs of a register: its bits, and one spare.
    pub const fn rams(&self, entries: u32, entry_bits: u32) -> u32 {
        (entries as u64 * entry_bits as u64).div_ceil((ROW_BITS * ROWS) as u64) as u32 + 1
    }

    /// Bits of all containers.
    pub const fn phv_bits(&self) -> u32 {
        self.containers[0] * 8 + self.containers[1] * 16 + self.containers[2] * 32
    }
}
