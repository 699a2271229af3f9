//! The estimate as a table.

use std::fmt::{self, Display, Formatter};

use super::Estimate;

impl Display for Estimate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, used: String, of: String| {
            let of = if of.is_empty() { String::new() } else { format!(" of {of}") };
            writeln!(f, "  {name:<34} {used:>8}{of}")
        };
        row("words a packet", self.words.to_string(), String::new())?;
        row("bfp16 elements a packet", self.elements_bfp16.to_string(), String::new())?;
        let parts = if self.pipes == 1 { self.passes } else { 1 };
        let most = self.slots_max * 2 * parts;
        row("slots x 2 sets x passes", self.entries.to_string(), most.to_string())?;
        row(&format!("jobs of {} workers", self.workers), self.jobs.to_string(), self.jobs_max.to_string())?;
        row("jobs or process groups of 4 ranks", self.jobs_of_4.to_string(), String::new())?;
        row("jobs or process groups of 2 ranks", self.jobs_of_2.to_string(), String::new())?;
        row("pipes a packet takes", self.pipes.to_string(), "4".into())?;
        row("passes of a packet", self.passes.to_string(), String::new())?;
        row("passes of the one that completes", self.passes_last.to_string(), String::new())?;
        row("recirculated for each that arrives", format!("{:.3}", self.recirculated), String::new())?;
        row("their bytes for each that arrives", format!("{:.3}", self.recirculated_bytes), String::new())?;
        row("ports left to hosts", format!("{:.1} %", self.ports_for_hosts * 100.0), String::new())?;
        row("stages", self.stages.to_string(), self.stages_of.to_string())?;
        row("stateful units, fullest stage", self.units_per_stage.to_string(), "4".into())?;
        row("register actions of a lane pair", self.register_actions.to_string(), "4".into())?;
        row("stateful units", self.stateful_units.to_string(), (4 * self.stages_of).to_string())?;
        row("map RAMs", self.map_rams.to_string(), (self.map_rams_of * self.stages_of).to_string())?;
        row("map RAMs, fullest stage", self.rams_per_stage.to_string(), self.map_rams_of.to_string())?;
        row("SRAM blocks", self.sram_blocks.to_string(), (80 * self.stages_of).to_string())?;
        row("TCAM blocks", self.tcam_blocks.to_string(), self.tcam_blocks_of.to_string())?;
        for (i, bits) in [8, 16, 32].into_iter().enumerate() {
            let name = format!("containers of {bits} bits");
            row(&name, self.containers[i].to_string(), self.containers_of[i].to_string())?;
        }
        row("bits in containers", self.phv_bits.to_string(), self.phv_bits_of.to_string())?;
        let depth = match self.egress_parse_of {
            [0, 0] => String::new(),
            [least, most] => format!("{least} to {most}"),
        };
        row("bytes parsed in egress", self.egress_parse_bytes.to_string(), depth)?;
        row("tensor words in the line rate", format!("{:.1} %", self.goodput * 100.0), String::new())?;
        row("the same with bfp16 elements", format!("{:.1} %", self.goodput_bfp16 * 100.0), String::new())?;
        writeln!(f)?;
        writeln!(
            f,
            "  {:<12} {:>5} {:>8} {:>5} {:>5}  stages",
            "register", "count", "entries", "bits", "RAMs"
        )?;
        for cost in &self.registers {
            let stages = match cost.stages {
                1 => cost.stage.to_string(),
                more => format!("{}..{}", cost.stage, cost.stage + more - 1),
            };
            writeln!(
                f,
                "  {:<12} {:>5} {:>8} {:>5} {:>5}  {stages}",
                cost.name, cost.count, cost.entries, cost.entry_bits, cost.rams
            )?;
        }
        Ok(())
    }
}
