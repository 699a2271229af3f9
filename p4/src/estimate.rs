//! Estimate of a profile's resources on a Tofino, from the published numbers of the chip, without a compiler.
//!
//! The layout is the one that [`crate::tna`] prints: pairs of lanes in registers, four registers per stage, three stages
//! before them (the job table, the slot's registers, their differences), and the exponents after them. Packets with more words
//! than one pass holds use further pipes, each with its share of the words (SwitchML calls this a folded pipe); this is
//! estimated, not printed. The chip's numbers are those of p4c's Tofino back end (`bf-p4c`: `device.h`, `mau_spec.h`,
//! `mau/memories.cpp`, `phv/phv_spec.cpp`).

mod chip;
mod table;

use serde::{Deserialize, Serialize};

use netfold_wire::{LaneOp, LaneOps};

use crate::allreduce;
use crate::ir::{Program, RegisterKind};
use crate::profile::{Encapsulation, Numerics, Profile};
use crate::refusal::Refusal;
use crate::tna::{Chip, REGISTER_ACTIONS_MAX};

pub use chip::Limits;

/// Lanes that a register holds: a pair of 32-bit cells.
const PAIR: u32 = 2;
/// Stages before the lanes: job table and checks; the slot's registers; their differences.
const STAGES_FRONT: u32 = 3;
/// TCAM blocks of the checks, which are in the job table's stage.
const TCAM_CHECKS: u32 = 2;
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
    /// Entries of every register: slots and both sets.
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
    /// SRAM blocks of registers in a pipe.
    pub sram_blocks: u32,
    /// Maximum SRAM blocks and map RAMs of registers in a stage.
    pub rams_per_stage: u32,
    /// Map RAMs of a stage.
    pub map_rams_of: u32,
    /// TCAM blocks of the job table and of the checks in its stage.
    pub tcam_blocks: u32,
    /// TCAM blocks of a stage.
    pub tcam_blocks_of: u32,
    /// Containers of 8, 16 and 32 bits that headers and variables use; a larger size that runs out is split over smaller ones.
    pub containers: [u32; 3],
    /// Containers of 8, 16 and 32 bits that the chip can compute on.
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
    let words_pass = limits.words_per_pass();
    let pipes = words.div_ceil(words_pass);
    if pipes > limits.pipes {
        return Err(refusal(
            format!("{words} words a packet"),
            format!(
                "{words_pass} words fit one pass and a packet takes at most {} pipes: {} words",
                limits.pipes,
                words_pass * limits.pipes
            ),
        ));
    }
    let entries = profile.slots * 2;
    let layout = PipeLayout { program: &program, limits: &limits, words: words.div_ceil(pipes) };
    let slots_max = (0..=15).rev().map(|bits| 1u32 << bits).find(|slots| layout.fits(slots * 2)).unwrap_or(0);
    if !layout.fits(entries) {
        return Err(layout.too_many(entries, slots_max, chip));
    }
    let Fit { registers, stages, tcam_blocks, containers } =
        fit(&layout, profile, entries).map_err(|(construct, limit)| refusal(construct, limit))?;
    let phv_bits = containers[0] * 8 + containers[1] * 16 + containers[2] * 32;
    let lane_actions = registers.iter().filter(|cost| cost.entry_bits == 64 && cost.count > 1);
    let rams_per_stage = lane_actions.map(|cost| cost.rams * limits.units).max().unwrap_or(0);
    let (passes, passes_last) = passes(pipes, chip);
    let on_wire = BYTES_OUTER + netfold_wire::header::LEN as u32 + profile.payload_bytes() + BYTES_AROUND;
    let goodput = f64::from(profile.payload_bytes()) / f64::from(on_wire);
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
        stages,
        stages_of: limits.stages,
        sram_blocks: registers.iter().map(|cost| cost.rams * cost.count).sum(),
        registers,
        units_per_stage: limits.units,
        register_actions: actions,
        rams_per_stage,
        map_rams_of: limits.map_rams,
        tcam_blocks,
        tcam_blocks_of: limits.tcam_blocks,
        containers,
        containers_of: limits.containers,
        phv_bits,
        phv_bits_of: limits.phv_bits(),
        egress_parse_bytes: BYTES_OUTER.max(limits.egress_parse[0]),
        egress_parse_of: limits.egress_parse,
        goodput,
        goodput_bfp16: goodput * 2.0,
    })
}

/// Use of each resource by a layout.
struct Fit {
    registers: Vec<RegisterCost>,
    stages: u32,
    tcam_blocks: u32,
    containers: [u32; 3],
}

/// Checks every resource; returns the construct and the limit of the first that is exceeded.
fn fit(layout: &PipeLayout<'_>, profile: &Profile, entries: u32) -> Result<Fit, (String, String)> {
    let limits = layout.limits;
    let (registers, stages) = layout.registers(entries);
    if stages > limits.stages {
        return Err((format!("{stages} stages"), format!("a pipe has {}", limits.stages)));
    }
    let tcam_blocks = layout.tcam_blocks(profile.job_table_size()) + TCAM_CHECKS;
    if tcam_blocks > limits.tcam_blocks {
        let (workers, most) = (profile.workers, layout.jobs_max(profile));
        let remedy = match most {
            0 => format!("no job of {workers} workers fits; use fewer workers"),
            _ => {
                format!("at most {most} jobs of {workers} workers; use fewer jobs (--jobs {most}) or workers")
            }
        };
        return Err((
            format!("{} entries of table 'job' ({tcam_blocks} TCAM blocks)", profile.job_table_size()),
            format!("a stage has {}: {remedy}", limits.tcam_blocks),
        ));
    }
    let containers = layout.containers();
    if containers[0] > limits.containers[0] {
        return Err((
            format!("headers, variables and {} words of lanes", layout.words),
            format!("{} bits of containers that a stage computes on", limits.phv_bits()),
        ));
    }
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
    if profile.numerics != Numerics::Word {
        return refusal(
            "numerics other than 32-bit words",
            "a stateful unit adds words of a pair; bfp16 packs two elements in each",
        );
    }
    if profile.hierarchy {
        return refusal(
            "hierarchy (a switch below a parent)",
            "comparing the settled chunk with the packet's needs two more stages; set the profile's hierarchy off",
        );
    }
    Ok(())
}

/// Lane operations that a stateful unit does.
const STATEFUL_UNIT: LaneOps = {
    use LaneOp::{And, Max, Min, Or, Sum, Xor};
    LaneOps::of(&[Sum, Min, Max, And, Or, Xor])
};

/// Register actions of a lane register: store, one for each operation, and a read, or two if one half is output at a time.
fn register_actions(profile: &Profile, chip: Chip) -> Result<u32, Refusal> {
    let reads = if chip.both_halves() { 1 } else { 2 };
    if let Some(op) = profile.ops.iter().find(|op| !STATEFUL_UNIT.has(**op)) {
        return Err(Refusal {
            target: chip.name(),
            construct: format!("lane operation {op}, on elements packed in a word"),
            limit: format!("a stateful unit folds whole words: {STATEFUL_UNIT}"),
        });
    }
    let needed = 1 + profile.ops.len() as u32 + reads;
    if needed as usize > REGISTER_ACTIONS_MAX {
        let names: Vec<_> = profile.ops.iter().map(|op| op.name()).collect();
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
    limits: &'a Limits,
    /// Words in this pipe.
    words: u32,
}

impl PipeLayout<'_> {
    /// The registers in their stages, and the stages used.
    fn registers(&self, entries: u32) -> (Vec<RegisterCost>, u32) {
        let units = self.limits.units;
        let pairs = self.words.div_ceil(PAIR);
        let lane_stages = pairs.div_ceil(units);
        // The exponent uses a unit that the lanes leave free; otherwise it needs its own stage.
        let free = lane_stages * units - pairs;
        let mut behind = 0;
        let mut costs = Vec::new();
        for register in &self.program.registers {
            let (count, entry_bits, stage, stages) = match &register.kind {
                RegisterKind::Lanes(bits) => (pairs, PAIR * bits, STAGES_FRONT, lane_stages),
                RegisterKind::Cells(cells) => {
                    let bits = cells.iter().map(|cell| cell.bits).sum();
                    if matches!(register.name.as_str(), "claim" | "version") {
                        (1, bits, 1, 1)
                    } else {
                        behind += 1;
                        let stage = STAGES_FRONT + lane_stages - u32::from(behind <= free);
                        (1, bits, stage, 1)
                    }
                }
            };
            let rams = self.limits.rams(entries, entry_bits);
            costs.push(RegisterCost {
                name: register.name.clone(),
                count,
                entries,
                entry_bits,
                rams,
                stage,
                stages,
            });
        }
        let stages = costs.iter().map(|cost| cost.stage + cost.stages).max().unwrap_or(0);
        (costs, stages)
    }

    /// Whether the RAMs of four lane registers with this many entries fit in a stage.
    fn fits(&self, entries: u32) -> bool {
        self.limits.rams(entries, PAIR * 32) * self.limits.units <= self.limits.map_rams
    }

    fn too_many(&self, entries: u32, slots_max: u32, chip: Chip) -> Refusal {
        let rams = self.limits.rams(entries, PAIR * 32);
        Refusal {
            target: chip.name(),
            construct: format!("{} slots, which take {rams} RAMs for each pair of lanes", entries / 2),
            limit: format!(
                "{} registers of a stage share {} map RAMs: at most {slots_max} slots",
                self.limits.units, self.limits.map_rams
            ),
        }
    }

    /// Most jobs of the profile's workers whose entries fit the job table's stage; 0 if none does.
    fn jobs_max(&self, profile: &Profile) -> u32 {
        let fits = |jobs: &u32| {
            let size = Profile { jobs: *jobs, ..profile.clone() }.job_table_size();
            self.tcam_blocks(size) + TCAM_CHECKS <= self.limits.tcam_blocks
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

    /// Containers by size: each 32-bit word needs one of 32 bits, or two of 16 where these run out, and so on to 8;
    /// 48-bit addresses are a 32 and a 16.
    fn containers(&self) -> [u32; 3] {
        let fields = crate::fields::Containers::new(self.program);
        let headers = (0..self.program.headers.len() as u16).flat_map(|i| fields.of(crate::ir::HeaderId(i)));
        let widths =
            headers.map(|container| container.bits).chain(self.program.metadata.iter().map(|m| m.bits));
        let (mut bytes, mut halves, mut words) = (0, 0, self.words);
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
mod tests {
    use super::*;

    #[test]
    fn rams_are_those_of_published_programs() {
        let limits = Limits::of(Chip::Tofino1);
        // SwitchML: 16384 pairs take 8 blocks and a spare, 36 of 48 map RAMs in a stage.
        assert_eq!(limits.rams(16384, 64), 9);
        assert!(limits.rams(16384, 64) * limits.units <= limits.map_rams);
        // ATP: 40000 words; the most that four registers of a stage can have is 45056.
        assert_eq!(limits.rams(40000, 32), 11);
        assert_eq!(limits.rams(45056, 32) * limits.units, limits.map_rams);
        assert!(limits.rams(45057, 32) * limits.units > limits.map_rams);
    }

    #[test]
    fn sixty_four_words_fit_twelve_stages() {
        let profile = Profile { slots: 4096, ..Profile::tofino() };
        let found = estimate(&profile, Chip::Tofino1).expect("the layout that the profile is made for");
        assert_eq!((found.words, found.entries, found.stages, found.stages_of), (64, 8192, 12, 12));
        assert_eq!((found.pipes, found.passes, found.passes_last), (1, 1, 2));
        assert_eq!(found.slots_max, 8192);
        assert_eq!(found.rams_per_stage, 20);
        assert_eq!(found.register_actions, 4);
        // 1,932 entries: 161 for a job of 32 workers, 11 for one of 2, 21 for one of 4; the next 512 take blocks that the stage does not have.
        assert_eq!((found.jobs, found.jobs_max, found.jobs_of_2, found.jobs_of_4), (12, 15, 175, 92));
        let most = Profile { jobs: found.jobs_max, ..profile.clone() };
        assert!(estimate(&most, Chip::Tofino1).is_ok());
        let more = Profile { jobs: found.jobs_max + 1, ..profile.clone() };
        assert!(estimate(&more, Chip::Tofino1).is_err());
        let small = estimate(&Profile { lane_words: 32, workers: 16, ..profile.clone() }, Chip::Tofino1)
            .expect("half the words");
        assert_eq!(small.stages, 8);
        let second = estimate(&profile, Chip::Tofino2).expect("more stages, fewer containers");
        assert_eq!((second.stages, second.passes_last), (12, 1));
        assert!((0..3).all(|i| second.containers[i] <= second.containers_of[i]), "{:?}", second.containers);
        let folded = estimate(&Profile { lane_words: 256, ..profile }, Chip::Tofino1).expect("four pipes");
        assert_eq!((folded.pipes, folded.passes, folded.passes_last), (4, 4, 11));
    }

    #[test]
    fn what_cannot_fit_is_refused_with_its_limit() {
        let refused = |change: fn(&mut Profile), chip| {
            let mut profile = Profile::tofino();
            change(&mut profile);
            estimate(&profile, chip).expect_err("must not fit")
        };
        let words = refused(|p| p.lane_words = 352, Chip::Tofino1);
        assert!(words.construct.contains("352 words") && words.limit.contains("256 words"), "{words}");
        let slots = refused(|p| p.slots = 16384, Chip::Tofino1);
        assert!(slots.construct.contains("16384 slots") && slots.limit.contains("8192"), "{slots}");
        let all = |p: &mut Profile| p.ops = LaneOps::WORDS.iter().collect();
        let ops = refused(all, Chip::Tofino1);
        assert!(ops.construct.contains("6 register actions") && ops.limit.contains('4'), "{ops}");
        let ops = refused(all, Chip::Tofino2);
        assert!(ops.construct.contains("5 register actions"), "{ops}");
        let jobs = refused(|p| p.jobs = 64, Chip::Tofino1);
        assert!(jobs.construct.contains("job") && jobs.limit.contains("24"), "{jobs}");
        assert!(jobs.limit.contains("--jobs "), "{jobs}");
        let tree = refused(|p| p.hierarchy = true, Chip::Tofino1);
        assert!(tree.construct.contains("hierarchy"), "{tree}");
    }
}
