//! Estimate of a profile's resources on a Tofino, from the published numbers of the chip, without a compiler.
//!
//! The layout is the one that [`crate::tna`] prints: pairs of lanes in registers, four registers per stage, three stages
//! before them (the job table, the slot's registers, their differences), and the exponents after them. Packets with more words
//! than one pass holds take several passes through the pipe on Tofino 2, as printed. On Tofino 1, and with saturating sums, they use further pipes, each
//! with its share of the words (SwitchML calls this a folded pipe); this is estimated, not printed. The chip's numbers are those of p4c's Tofino back end (`bf-p4c`: `device.h`, `mau_spec.h`,
//! `mau/memories.cpp`, `phv/phv_spec.cpp`).

mod chip;
mod features;
mod table;

use serde::{Deserialize, Serialize};

use netfold_wire::{LaneOp, LaneOps};

use crate::allreduce;
use crate::ir::{Program, RegisterKind};
use crate::profile::{Encapsulation, Numerics, Profile};
use crate::refusal::Refusal;
use crate::tna::{Chip, REGISTER_ACTIONS_MAX, passes as several};

pub use chip::Limits;
use features::Features;

/// Lanes that a register holds: a pair of 32-bit cells.
const PAIR: u32 = 2;
/// The stage in which packets that read get zeros, where reads are sums.
const STAGES_REPEAT: u32 = 1;
/// Stages of the ends of saturating sums: the last table of ends, the flag, and the counters.
const STAGES_ENDS: u32 = 3;
/// Lanes of a table of ends, and its TCAM blocks.
const LANES_ENDS: u32 = 8;
const TCAM_ENDS: u32 = 6;
/// Stages before the lanes: job table and checks; the slot's registers; their differences.
const STAGES_FRONT: u32 = 3;
/// Stages of the settled chunk and of its comparison, in a program for trees.
const STAGES_SETTLED: u32 = 2;
/// Stages of the verdict and of the counters, beside the lanes.
const STAGES_VERDICT: u32 = 3;
/// TCAM blocks of the checks, which are in the job table's stage.
const TCAM_CHECKS: u32 = 2;
/// TCAM blocks of the table of one register of lanes, of all other constant tables, and of those that programs for trees have in addition. These
/// numbers, and those of SRAM, are what the compiler was measured to use.
const TCAM_PAIR: u32 = 4;
/// What the former has in addition in programs for trees on Tofino 1, and of several passes; and the table of destinations, which the latter have.
const TCAM_PAIR_TREES: u32 = 1;
const TCAM_DESTINATION: u32 = 7;
const TCAM_OTHERS: u32 = 13;
const TCAM_TREES: u32 = 4;
/// SRAM blocks of tables other than those of lanes, and what second passes need in addition.
const SRAM_OTHERS: u32 = 20;
const SRAM_HARVEST: u32 = 3;
/// Ethernet, IPv4 and UDP: what egress parses.
const BYTES_OUTER: u32 = 14 + 20 + 8;
/// Bytes around a frame on the wire: preamble, gap and checksum.
const BYTES_AROUND: u32 = 8 + 12 + 4;

/// Resources of one register array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterCost {
    /// Name.
    pub name: String,
    /// Instances in one pipe.
    pub count: u32,
    /// Entries.
    pub entries: u32,
    /// Bits of an entry.
    pub entry_bits: u32,
    /// SRAM blocks of each, one of them spare; as many map RAMs.
    pub rams: u32,
    /// First stage, from 0.
    pub stage: u32,
    /// Stages that they fill.
    pub stages: u32,
}

/// Resources of a profile on a chip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The chip.
    pub chip: Chip,
    /// Words per packet.
    pub words: u32,
    /// Elements per packet with 16-bit elements, two in a word (bfp16).
    pub elements_bfp16: u32,
    /// Entries of every register: slots and both sets, in each pass through the pipe.
    pub entries: u32,
    /// Maximum slots that would fit, a power of two.
    pub slots_max: u32,
    /// Workers of a job, at most.
    pub workers: u32,
    /// Jobs of so many workers that the tables hold.
    pub jobs: u32,
    /// Maximum such jobs that would fit.
    pub jobs_max: u32,
    /// Jobs or process groups of 2 ranks that the tables hold.
    pub jobs_of_2: u32,
    /// Jobs or process groups of 4 ranks that the tables hold.
    pub jobs_of_4: u32,
    /// Pipes that a packet passes.
    pub pipes: u32,
    /// Passes of a packet that does not complete its slot.
    pub passes: u32,
    /// Passes of the packet that completes it, including those that read the words that the first ones could not output.
    pub passes_last: u32,
    /// Packets that are recirculated, for each that arrives: passes beyond the first, of which the completing packet of a slot has more.
    pub recirculated: f64,
    /// Their bytes on the wire, for each byte that arrives. Between passes through the same pipe a packet has only the words that it needs there.
    pub recirculated_bytes: f64,
    /// Fraction of the chip's ports at line rate that is left to hosts, if the others recirculate.
    pub ports_for_hosts: f64,
    /// Stages used in a pipe.
    pub stages: u32,
    /// Stages of a pipe.
    pub stages_of: u32,
    /// Registers.
    pub registers: Vec<RegisterCost>,
    /// Maximum stateful units of a stage.
    pub units_per_stage: u32,
    /// Maximum register actions of one register.
    pub register_actions: u32,
    /// SRAM blocks of registers, counters and tables in a pipe.
    pub sram_blocks: u32,
    /// Map RAMs of registers and counters in a pipe.
    pub map_rams: u32,
    /// Stateful units in a pipe.
    pub stateful_units: u32,
    /// Map RAMs of the lanes in a stage that they fill.
    pub rams_per_stage: u32,
    /// Map RAMs of a stage.
    pub map_rams_of: u32,
    /// TCAM blocks of all tables in a pipe.
    pub tcam_blocks: u32,
    /// TCAM blocks of all stages.
    pub tcam_blocks_of: u32,
    /// Containers of 8, 16 and 32 bits that headers and variables use; a larger size that runs out is split over smaller ones.
    pub containers: [u32; 3],
    /// Containers of 8, 16 and 32 bits of the chip: those that it computes on, and those that only copy (mocha) or go from the parser to the
    /// deparser (tagalong).
    pub containers_of: [u32; 3],
    /// Bits in containers.
    pub phv_bits: u32,
    /// Bits of all containers.
    pub phv_bits_of: u32,
    /// Bytes that egress parses.
    pub egress_parse_bytes: u32,
    /// Bytes that egress must and may parse; 0 where there is no limit.
    pub egress_parse_of: [u32; 2],
    /// Share of the line rate, on one port, that is tensor words.
    pub goodput: f64,
    /// Share of the line rate that 16-bit elements reach, counted as 32-bit words of a tensor.
    pub goodput_bfp16: f64,
}

/// Estimates a profile.
///
/// # Errors
///
/// [`Refusal`] with the construct and the limit when the profile cannot fit, or is out of range.
pub fn estimate(profile: &Profile, chip: Chip) -> Result<Estimate, Refusal> {
    let refusal = |construct: String, limit: String| Refusal { target: chip.name(), construct, limit };
    let program =
        allreduce::program(profile).map_err(|error| refusal("this profile".into(), error.to_string()))?;
    let limits = Limits::of(chip);
    shape(profile, chip)?;
    let actions = register_actions(profile, chip)?;
    let words = profile.lane_words;
    let (pipes, parts) = pipes(profile, chip, &limits)?;
    let entries =
        several::entries(profile.slots * 2, parts).map_err(|(construct, limit)| refusal(construct, limit))?;
    let layout = PipeLayout::of(profile, &program, chip, &limits, (pipes, parts));
    let slots_max = layout.slots_max(profile);
    let Fit { registers, stages, tcam_blocks, containers } =
        fit(&layout, profile, entries, slots_max).map_err(|(construct, limit)| refusal(construct, limit))?;
    let phv_bits = containers[0] * 8 + containers[1] * 16 + containers[2] * 32;
    let rams_per_stage =
        limits.rams(entries, layout.lanes_of_register() * 32) * layout.registers_per_stage(entries);
    let map_rams = layout.map_rams(&registers);
    let (passes, passes_last) = passes(pipes * parts, chip);
    let recirculated = f64::from(passes - 1) + f64::from(passes_last - passes) / f64::from(profile.workers);
    let on_wire = BYTES_OUTER + netfold_wire::header::LEN as u32 + profile.payload_bytes() + BYTES_AROUND;
    let goodput = f64::from(profile.payload_bytes()) / f64::from(on_wire);
    let recirculated_bytes =
        if parts > 1 { layout.recirculated_bytes(profile, on_wire) } else { recirculated };
    Ok(Estimate {
        chip,
        words,
        elements_bfp16: words * 2,
        entries,
        slots_max,
        workers: profile.workers,
        jobs: profile.jobs,
        jobs_max: layout.jobs_max(profile),
        jobs_of_2: profile.jobs_of(2),
        jobs_of_4: profile.jobs_of(4),
        pipes,
        passes,
        passes_last,
        recirculated,
        recirculated_bytes,
        ports_for_hosts: 1.0 / (1.0 + recirculated_bytes),
        stages,
        stages_of: limits.stages,
        sram_blocks: map_rams + layout.tables_sram(),
        map_rams,
        stateful_units: registers.iter().map(|cost| cost.count).sum(),
        registers,
        units_per_stage: limits.units,
        register_actions: actions,
        rams_per_stage,
        map_rams_of: limits.map_rams,
        tcam_blocks,
        tcam_blocks_of: limits.tcam_blocks * limits.stages,
        containers,
        containers_of: limits.containers,
        phv_bits,
        phv_bits_of: limits.phv_bits(),
        egress_parse_bytes: layout.egress_parse_bytes(profile),
        egress_parse_of: limits.egress_parse,
        goodput,
        goodput_bfp16: goodput * 2.0,
    })
}

/// Pipes that a packet takes, and the parts of its words that take passes through the same one.
fn pipes(profile: &Profile, chip: Chip, limits: &Limits) -> Result<(u32, u32), Refusal> {
    let words = profile.lane_words;
    let is_saturating = profile.numerics == Numerics::Saturating;
    let words_pass = match is_saturating {
        true => chip.saturating_lanes_max(profile.hierarchy),
        false => chip.lanes_max(profile.hierarchy),
    };
    if chip.both_halves() && !is_saturating {
        return chip.passes(words, profile.hierarchy).map(|parts| (1, parts)).ok_or_else(|| Refusal {
            target: chip.name(),
            construct: format!("{words} words a packet"),
            limit: format!("{words_pass} words fit one pass; more take {}", several::permitted()),
        });
    }
    let pipes = words.div_ceil(words_pass);
    if pipes <= limits.pipes {
        return Ok((pipes, 1));
    }
    Err(Refusal {
        target: chip.name(),
        construct: format!("{words} words a packet"),
        limit: format!(
            "{words_pass} words fit one pass and a packet takes at most {} pipes: {} words",
            limits.pipes,
            words_pass * limits.pipes
        ),
    })
}

/// Use of each resource by a layout.
struct Fit {
    registers: Vec<RegisterCost>,
    stages: u32,
    tcam_blocks: u32,
    containers: [u32; 3],
}

/// Checks every resource; returns the construct and the limit of the first that is exceeded, with its stage.
fn fit(
    layout: &PipeLayout<'_>,
    profile: &Profile,
    entries: u32,
    slots_max: u32,
) -> Result<Fit, (String, String)> {
    let limits = layout.limits;
    let containers = layout.containers();
    let bits = containers[0] * 8 + containers[1] * 16 + containers[2] * 32;
    if bits > limits.phv_bits() {
        return Err((
            format!("headers, variables and {} words of lanes ({bits} bits of containers)", layout.words),
            format!("the chip has {}", limits.phv_bits()),
        ));
    }
    let fitting =
        |(construct, limit)| (construct, format!("{limit}: at most {slots_max} slots fit (--slots)"));
    let stages = layout.stages(profile, entries).map_err(fitting)?;
    if stages > limits.stages {
        let lanes = layout.lanes_of_register();
        let (rams, pairs) = (limits.rams(entries, lanes * 32), layout.registers_per_stage(entries));
        let resource = if pairs < limits.units {
            format!(
                "{pairs} registers of {rams} RAMs take a stage's {} map RAMs: at most {slots_max} slots fit (--slots)",
                limits.map_rams
            )
        } else {
            format!("{pairs} registers take a stage's stateful units: use fewer words (--lanes)")
        };
        let job = layout.job_stages(profile.job_table_size());
        let table = match job {
            1 => String::new(),
            _ => {
                let most = layout.jobs_max(profile);
                format!(
                    "; table 'job' takes {job} stages of {} TCAM blocks: at most {most} jobs fit (--jobs {most})",
                    limits.tcam_blocks
                )
            }
        };
        return Err((
            format!("{stages} stages for {} words of lanes and {}", layout.words, layout.slots(entries)),
            format!(
                "a pipe has {}; lanes begin in stage {}, and {resource}{table}",
                limits.stages,
                layout.front() + layout.later() + job - 1
            ),
        ));
    }
    let (registers, _) = layout.registers(entries, layout.job_stages(profile.job_table_size()) - 1);
    let tcam_blocks = layout.all_tcam_blocks(profile.job_table_size());
    Ok(Fit { registers, stages, tcam_blocks, containers })
}

/// Features that these chips do not support at any size.
fn shape(profile: &Profile, chip: Chip) -> Result<(), Refusal> {
    let refusal = |construct: &str, limit: &str| {
        Err(Refusal { target: chip.name(), construct: construct.into(), limit: limit.into() })
    };
    if profile.encapsulation == Encapsulation::Datagram {
        return refusal("datagrams without outer headers", "a switch sees whole frames");
    }
    match profile.numerics {
        Numerics::Word => {}
        Numerics::Saturating if chip.both_halves() => {}
        Numerics::Saturating => {
            return refusal(
                "saturating sums, whose ends stay",
                "four comparisons in a register action; Tofino 1 has two, use Tofino 2",
            );
        }
        _ => {
            return refusal(
                "numerics other than 32-bit words",
                "a stateful unit adds words; bfp16 packs two elements in each",
            );
        }
    }
    if profile.bounded_loss {
        return refusal(
            "bounded loss",
            "a stateful unit compares a cell with a packet's value, not the bits of a cell that a packet names",
        );
    }
    if profile.best_effort {
        return refusal(
            "best-effort jobs",
            "the occupant of a slot takes two stages more, and this back end prints none",
        );
    }
    let headers = BYTES_OUTER + netfold_wire::header::LEN as u32;
    let (bytes, most) = (headers + profile.payload_bytes(), chip.parsed_max());
    if Features::of(profile).whole && bytes > most {
        return Err(Refusal {
            target: chip.name(),
            construct: format!(
                "packets of {bytes} bytes whose lanes are removed in egress (owners, trimming, transit)"
            ),
            limit: format!(
                "egress of {} takes {most} bytes of a packet; use at most {} words (--lanes)",
                chip.name(),
                ((most - headers) / 4) & !1
            ),
        });
    }
    Ok(())
}

/// Lane operations that a stateful unit does.
const STATEFUL_UNIT: LaneOps = {
    use LaneOp::{And, Max, Min, Or, Sum, Xor};
    LaneOps::of(&[Sum, Min, Max, And, Or, Xor])
};

/// Operations that keep a cell if the lane is zero.
const KEEP_WITH_ZERO: LaneOps = LaneOps::of(&[LaneOp::Sum, LaneOp::Or, LaneOp::Xor]);

/// Register actions of a lane register, if each read has one: store, one for each operation, and a read, or two if one half is output at a time.
fn actions_wanted(profile: &Profile, chip: Chip) -> u32 {
    1 + profile.ops.len() as u32 + if chip.both_halves() { 1 } else { 2 }
}

/// Whether a read is a sum of zeros, for want of a register action.
fn reads_by_sum(profile: &Profile, chip: Chip) -> bool {
    let wanted = actions_wanted(profile, chip) as usize;
    wanted > REGISTER_ACTIONS_MAX && profile.ops.iter().any(|op| KEEP_WITH_ZERO.has(*op))
}

/// Register actions of a lane register.
fn register_actions(profile: &Profile, chip: Chip) -> Result<u32, Refusal> {
    if let Some(op) = profile.ops.iter().find(|op| !STATEFUL_UNIT.has(**op)) {
        return Err(Refusal {
            target: chip.name(),
            construct: format!("lane operation {op}, on elements packed in a word"),
            limit: format!("a stateful unit folds whole words: {STATEFUL_UNIT}"),
        });
    }
    let spared = u32::from(reads_by_sum(profile, chip));
    let needed = actions_wanted(profile, chip) - spared;
    if needed as usize > REGISTER_ACTIONS_MAX {
        let names: Vec<_> = profile.ops.iter().map(|op| op.name()).collect();
        let reads = needed - 1 - names.len() as u32;
        return Err(Refusal {
            target: chip.name(),
            construct: format!(
                "{needed} register actions of a lane register (store, {}, and {reads} to read)",
                names.join(", ")
            ),
            limit: format!("a register has {REGISTER_ACTIONS_MAX}"),
        });
    }
    Ok(needed)
}

/// Passes of a packet, and of the one that completes a slot. Tofino 1 outputs one half of a pair per pass, so every pipe is
/// passed once more; with several pipes the first halves of all but the last are read on the way back.
const fn passes(pipes: u32, chip: Chip) -> (u32, u32) {
    if chip.both_halves() {
        (pipes, if pipes == 1 { 1 } else { 2 * pipes - 1 })
    } else {
        (pipes, 3 * pipes - 1)
    }
}

/// Layout of one pipe.
struct PipeLayout<'a> {
    program: &'a Program,
    chip: Chip,
    limits: &'a Limits,
    /// Words in one pass through this pipe.
    words: u32,
    /// Parts of a packet's words, each of which has a pass.
    parts: u32,
    /// Widths of the fields of the header between passes.
    pass_header: Vec<u32>,
    /// Whether reads are sums of zeros.
    repeats: bool,
    features: Features,
}

impl<'a> PipeLayout<'a> {
    /// The layout of a profile's program whose packets take so many pipes, and passes through each.
    fn of(
        profile: &Profile,
        program: &'a Program,
        chip: Chip,
        limits: &'a Limits,
        (pipes, parts): (u32, u32),
    ) -> Self {
        Self {
            program,
            chip,
            limits,
            words: profile.lane_words.div_ceil(pipes * parts),
            parts,
            pass_header: several::header_fields(program, chip, parts),
            repeats: reads_by_sum(profile, chip),
            features: Features::of(profile),
        }
    }

    fn egress_parse_bytes(&self, profile: &Profile) -> u32 {
        match self.features.whole {
            true => BYTES_OUTER + netfold_wire::header::LEN as u32 + profile.payload_bytes(),
            false => BYTES_OUTER.max(self.limits.egress_parse[0]),
        }
    }

    fn is_for_trees(&self) -> bool {
        allreduce::is_for_trees(self.program)
    }

    /// The stage of the first lanes, if the job table takes one: in a program for trees, behind the settled chunk and its comparison.
    fn front(&self) -> u32 {
        let settled = if self.is_for_trees() { STAGES_SETTLED } else { 0 };
        STAGES_FRONT + settled + if self.repeats { STAGES_REPEAT } else { 0 }
    }

    /// Stages by which everything is later because of forwarding, or because the checks are behind the job table where there are several passes.
    fn later(&self) -> u32 {
        self.features.stages + u32::from(self.parts > 1)
    }

    /// Lanes that a register holds: saturating sums take all comparisons of a stateful unit for one.
    fn lanes_of_register(&self) -> u32 {
        if self.saturates() { 1 } else { PAIR }
    }

    fn saturates(&self) -> bool {
        allreduce::numerics_of(self.program) == Numerics::Saturating
    }

    /// Registers of lanes.
    fn lane_registers(&self) -> u32 {
        self.words.div_ceil(self.lanes_of_register())
    }

    /// Registers of lanes that a stage holds: as many as it has stateful units, or as its map RAMs allow.
    fn registers_per_stage(&self, entries: u32) -> u32 {
        self.limits.units.min(self.limits.map_rams / self.limits.rams(entries, self.lanes_of_register() * 32))
    }

    /// Slots of so many entries, in words.
    fn slots(&self, entries: u32) -> String {
        match self.parts {
            1 => format!("{} slots", entries / 2),
            parts => format!("{} slots in each of {parts} passes", entries / 2 / parts),
        }
    }

    /// Stages used, or the construct and the limit if a register or the two of stage 1 exceed a stage.
    fn stages(&self, profile: &Profile, entries: u32) -> Result<u32, (String, String)> {
        let first = self.limits.rams(entries, 64) + self.limits.rams(entries, 32);
        if first > self.limits.map_rams || self.registers_per_stage(entries) == 0 {
            return Err((
                format!(
                    "{}, which take {first} RAMs for registers 'claim' and 'version'",
                    self.slots(entries)
                ),
                format!("a stage has {} map RAMs", self.limits.map_rams),
            ));
        }
        Ok(self.registers(entries, self.job_stages(profile.job_table_size()) - 1).1)
    }

    /// The registers in their stages, and the stages used; all are later by `later` stages of the job table.
    fn registers(&self, entries: u32, later: u32) -> (Vec<RegisterCost>, u32) {
        let later = later + self.later();
        let lane_registers = self.lane_registers();
        let per_stage = self.registers_per_stage(entries);
        let lane_stages = lane_registers.div_ceil(per_stage);
        let front = self.front() + later;
        // The exponent uses a unit that the lanes leave free; otherwise it needs its own stage.
        let free = lane_stages * self.limits.units - lane_registers;
        let mut costs = Vec::new();
        for register in &self.program.registers {
            let (count, entry_bits, stage, stages) = match &register.kind {
                RegisterKind::Lanes(bits) => {
                    (lane_registers, self.lanes_of_register() * bits, front, lane_stages)
                }
                RegisterKind::Cells(cells) => {
                    let bits = cells.iter().map(|cell| cell.bits).sum();
                    let stage = match register.name.as_str() {
                        "claim" | "version" => later + 1,
                        allreduce::SETTLED => later + STAGES_FRONT,
                        _ => front + lane_stages - u32::from(free > 0),
                    };
                    (1, bits, stage, 1)
                }
            };
            let rams = self.limits.rams(entries, entry_bits);
            let name = register.name.clone();
            costs.push(RegisterCost { name, count, entries, entry_bits, rams, stage, stages });
        }
        let stages = costs.iter().map(|cost| cost.stage + cost.stages).max().unwrap_or(0);
        // The verdict, which needs the last difference, and the counters, which it chooses.
        let ends = if self.saturates() {
            front + lane_stages + STAGES_ENDS + self.features.stages_behind
        } else {
            0
        };
        (costs, stages.max(front + STAGES_VERDICT).max(ends))
    }

    /// Map RAMs of registers and counters.
    fn map_rams(&self, registers: &[RegisterCost]) -> u32 {
        let counters = self.program.counters.iter().map(|counter| self.limits.rams(counter.size, 64));
        registers.iter().map(|cost| cost.rams * cost.count).chain(counters).sum()
    }

    /// SRAM blocks of tables: one for the actions of each register of lanes, and those of the others.
    fn tables_sram(&self) -> u32 {
        let others = if self.chip.both_halves() { SRAM_OTHERS } else { SRAM_OTHERS + SRAM_HARVEST };
        self.lane_registers() + others + self.features.sram
    }

    /// Stages for so many slots; `None` if a register is too large.
    fn stages_for(&self, profile: &Profile, slots: u32) -> Option<u32> {
        self.stages(profile, several::entries(slots * 2, self.parts).ok()?).ok()
    }

    /// Bytes on the wire that are recirculated for each that arrives, of packets of which so many arrive. On its way forward a packet loses the words of a
    /// part in each pass, and the one that completes a slot gets them again on its way back.
    fn recirculated_bytes(&self, profile: &Profile, on_wire: u32) -> f64 {
        let around = on_wire - profile.payload_bytes() + self.pass_header.iter().sum::<u32>() / 8;
        let bytes = (1..self.parts).map(|parts| around + parts * self.words * 4);
        let one_way = f64::from(bytes.sum::<u32>()) / f64::from(on_wire);
        one_way * (1.0 + 1.0 / f64::from(profile.workers))
    }

    /// Most slots that leave enough stages; 0 if none do.
    fn slots_max(&self, profile: &Profile) -> u32 {
        let fits =
            |slots: &u32| self.stages_for(profile, *slots).is_some_and(|stages| stages <= self.limits.stages);
        (0..=15).rev().map(|bits| 1u32 << bits).find(fits).unwrap_or(0)
    }

    /// Most jobs of the profile's workers whose entries leave enough stages; 0 if none does.
    fn jobs_max(&self, profile: &Profile) -> u32 {
        let fits = |jobs: &u32| {
            let profile = Profile { jobs: *jobs, ..profile.clone() };
            self.stages_for(&profile, profile.slots).is_some_and(|stages| stages <= self.limits.stages)
        };
        (1..=crate::profile::JOBS_MAX).rev().find(fits).unwrap_or(0)
    }

    /// TCAM blocks of a job table of so many entries: 44 bits wide, 512 entries deep.
    fn tcam_blocks(&self, entries: u32) -> u32 {
        let Some(table) = self.program.tables.first() else { return 0 };
        // The ingress port has 9 bits here.
        let bits = table.keys.iter().map(|key| match key.name.as_str() {
            "port" => 9,
            _ => crate::check::width(self.program, &key.value, &[], &[]),
        });
        bits.sum::<u32>().div_ceil(44) * entries.div_ceil(512)
    }

    /// Stages of the job table and the checks beside it.
    fn job_stages(&self, entries: u32) -> u32 {
        (self.tcam_blocks(entries) + TCAM_CHECKS).div_ceil(self.limits.tcam_blocks)
    }

    /// TCAM blocks of all tables.
    fn all_tcam_blocks(&self, entries: u32) -> u32 {
        let (pair, trees) = match (self.is_for_trees(), self.parts > 1) {
            (false, _) => (TCAM_PAIR, 0),
            (true, true) => (TCAM_PAIR + TCAM_PAIR_TREES, TCAM_TREES + TCAM_DESTINATION),
            (true, false) if !self.chip.both_halves() => (TCAM_PAIR + TCAM_PAIR_TREES, TCAM_TREES),
            (true, false) => (TCAM_PAIR, TCAM_TREES),
        };
        let ends = if self.saturates() { TCAM_ENDS * self.words.div_ceil(LANES_ENDS) } else { 0 };
        self.tcam_blocks(entries)
            + pair * self.lane_registers()
            + TCAM_OTHERS
            + trees
            + ends
            + self.features.tcam
    }

    /// Containers by size: each 32-bit word needs one of 32 bits, or two of 16 where these run out, and so on to 8;
    /// 48-bit addresses are a 32 and a 16. Egress has containers of its own for the headers that it parses; for lanes only on Tofino 1, since Tofino 2
    /// leaves them in packet memory.
    fn containers(&self) -> [u32; 3] {
        let fields = crate::fields::Containers::new(self.program);
        let count = self.program.headers.len() as u16;
        let outer = 0..if self.features.whole { count } else { count.saturating_sub(1) };
        let headers = (0..count).chain(outer).flat_map(|i| fields.of(crate::ir::HeaderId(i)));
        let widths =
            headers.map(|container| container.bits).chain(self.program.metadata.iter().map(|m| m.bits));
        let widths = widths.chain(self.pass_header.iter().copied());
        let copies = if self.features.whole && !self.chip.both_halves() { 2 } else { 1 };
        let (mut bytes, mut halves, mut words) = (0, 0, copies * self.words);
        for bits in widths {
            words += bits / 32;
            halves += bits % 32 / 16;
            bytes += (bits % 16).div_ceil(8);
        }
        let spilled = words.saturating_sub(self.limits.containers[2]);
        let halves = halves + 2 * spilled;
        let split = halves.saturating_sub(self.limits.containers[1]);
        [bytes + 2 * split, halves - split, words - spilled]
    }
}

#[cfg(test)]
mod tests;
