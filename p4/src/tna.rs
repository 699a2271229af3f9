//! Prints a program as P4_16 for the Tofino native architectures: TNA (Tofino 1) and T2NA (Tofino 2).
//!
//! The layout, after SwitchML (NSDI 2021) and the limits in [`crate::estimate`]:
//!
//! - Two lanes share a register of pairs: lane `k` and lane `k + n/2`. A packet accesses each register once, through one of
//!   at most four register actions, which a separate ternary table selects. The tables match on the packet's relation to the
//!   slot (chunk, duplicate, missing) and on no output of another lane, so four of them fit in each stage.
//! - Tofino 1 outputs one 32-bit word of a pair. A packet that is sent with lanes gets their upper half in its first pass,
//!   and is recirculated once, with a `harvest` header in front, for the lower half. Tofino 2 outputs both.
//! - Absent lanes are zeros before they are added or stored, so no register action has to clear.
//! - Packets with more words take several passes on Tofino 2: see module `passes`.
//! - Saturating sums, on Tofino 2, have one lane in each register: see module `ends`.
//! - Egress parses only the outer headers, and addresses each copy; whole packets where it removes lanes (at most 133 bytes on Tofino 1, 356 on Tofino 2).
//!
//! Module `lower` maps control flow to stages.

mod decision;
mod egress;
mod ends;
mod expr;
mod gress;
mod lower;
pub(crate) mod passes;
mod registers;
mod signs;

use crate::allreduce::is_for_trees;
use crate::check::check;
use crate::fields::Containers;
use crate::ir::*;
use crate::object_id;
use crate::refusal::{PrintError, Refusal};
use crate::writer::{Writer, joined};
use decision::{Decision, ones};
use lower::{Copied, Lowered};

/// A chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chip {
    /// Tofino 1: architecture `tna`.
    Tofino1,
    /// Tofino 2: architecture `t2na`.
    Tofino2,
}

impl Chip {
    /// Name, as in `netfold p4 estimate --target`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tofino1 => "tofino1",
            Self::Tofino2 => "tofino2",
        }
    }

    /// Lanes of a packet that takes one pass. On Tofino 1, 36 stateful units of the 9 stages that lanes can have, two lanes each, less one for the exponent; with trees
    /// 26 units of the 7 stages that are left, as the verdict takes much of the first of these. On Tofino 2 the containers that stateful units can read and write, of which trees take a few.
    pub const fn lanes_max(self, trees: bool) -> u32 {
        match (self, trees) {
            (Self::Tofino1, false) => 70,
            (Self::Tofino1, true) => 52,
            (Self::Tofino2, false) => 84,
            (Self::Tofino2, true) => 80,
        }
    }

    /// The same of saturating sums, a lane in each register: what fits the stages between the differences and the flag, of which trees take two.
    pub const fn saturating_lanes_max(self, trees: bool) -> u32 {
        match (self, trees) {
            (Self::Tofino1, _) => 0,
            (Self::Tofino2, false) => 56,
            (Self::Tofino2, true) => 48,
        }
    }

    /// Words that a stateful unit outputs in one pass: one, or both halves of a pair.
    pub(crate) const fn both_halves(self) -> bool {
        matches!(self, Self::Tofino2)
    }
}

/// Register actions of a register, on either chip.
pub const REGISTER_ACTIONS_MAX: usize = 4;

/// Rows of a stage's instruction memory: each action of a table of outcomes has one, since all assign the same containers.
const INSTRUCTION_ROWS: usize = 32;
/// Recirculation port of pipe 0.
const RECIRCULATION_PORT: u32 = 68;

/// Prints a program. Deterministic: the same program prints the same bytes.
///
/// # Errors
///
/// When the program is not valid, or not of a shape that the chip's stages can hold; see [`Refusal`].
pub fn print(program: &Program, chip: Chip) -> Result<String, PrintError> {
    let passes = chip.passes(program.lane_count(), is_for_trees(program));
    print_in_passes(program, chip, passes.unwrap_or(1))
}

/// Prints a program whose packets take so many passes through the pipe, each with equally many words; [`print()`] takes as few as hold them.
///
/// # Errors
///
/// As [`print()`], and when the words cannot be divided like that.
pub fn print_in_passes(program: &Program, chip: Chip, passes: u32) -> Result<String, PrintError> {
    check(program)?;
    if program.ipv4_checksum.is_none() {
        return Err(refusal("datagrams without outer headers", "a switch sees whole frames").into());
    }
    let lane_bytes = program.lane_bytes();
    let part = passes::of_a_pass(program, chip, passes).map_err(|refusal| refusal.named(program))?;
    let lowered = lower::lower(&part, passes).map_err(|refusal| refusal.named(program))?;
    let fields = Containers::new(&lowered.program);
    let mut printer = Printer { chip, fields, l: lowered, lane_bytes, w: Writer::default() };
    match printer.program() {
        Ok(()) => Ok(printer.w.finish()),
        Err(refusal) => Err(refusal.named(printer.p()).into()),
    }
}

fn refusal(construct: impl Into<String>, limit: impl Into<String>) -> Refusal {
    Refusal { target: "tofino", construct: construct.into(), limit: limit.into() }
}

struct Printer {
    chip: Chip,
    fields: Containers,
    l: Lowered,
    /// Bytes of a packet's lanes, in all passes.
    lane_bytes: u32,
    w: Writer,
}

impl Printer {
    fn p(&self) -> &Program {
        &self.l.program
    }

    fn program(&mut self) -> Result<(), Refusal> {
        let lanes = self.p().lane_count();
        if self.p().lane_bits() != LANE_BITS || !self.p().lane_vars.is_empty() || !self.p().lookups.is_empty()
        {
            return Err(refusal(
                "lane variables, lookups or lanes of 16 bits",
                "lanes are 32-bit words, in pairs",
            ));
        }
        let most = if self.l.ends.is_some() {
            if !self.chip.both_halves() {
                return Err(refusal(
                    "saturating sums, whose ends stay",
                    "four comparisons in a register action; Tofino 1 has two, use Tofino 2",
                ));
            }
            self.chip.saturating_lanes_max(!self.l.comparisons.is_empty())
        } else {
            self.chip.lanes_max(!self.l.comparisons.is_empty())
        };
        if lanes > most || !lanes.is_multiple_of(2) {
            return Err(refusal(
                format!("{lanes} lanes a packet"),
                if self.chip.both_halves() && self.l.ends.is_none() {
                    format!("an even number up to {most} in one pass, or {}", passes::permitted())
                } else {
                    format!("an even number up to {most} in one pass; Tofino 2 has several passes of words")
                },
            ));
        }
        self.w.line(format!("// {}: {}.", self.p().name, self.p().about));
        self.w.line(format!("// For {}. Generated; do not edit.", self.chip.name()));
        self.w.line("#include <core.p4>");
        self.w.line(if self.chip.both_halves() { "#include <t2na.p4>" } else { "#include <tna.p4>" });
        self.w.line("");
        self.types();
        self.ingress_parser();
        self.ingress()?;
        self.ingress_deparser();
        self.egress()?;
        self.w.line("Pipeline(");
        self.w.line("    IngressParserImpl(), IngressImpl(), IngressDeparserImpl(),");
        self.w.line("    EgressParserImpl(), EgressImpl(), EgressDeparserImpl()) pipe;");
        self.w.line("Switch(pipe) main;");
        Ok(())
    }

    /// The header instances of the lower and the upper half of the lanes.
    fn halves(&self) -> [String; 2] {
        let name = self.p().lanes.as_ref().map_or("", |lanes| lanes.name.as_str());
        [format!("{name}_0"), format!("{name}_1")]
    }

    /// The field of a lane.
    fn lane(&self, lane: u32) -> String {
        let half = usize::from(lane >= self.p().lane_count() / 2);
        format!("hdr.{}.d{lane:02}", self.halves()[half])
    }

    fn types(&mut self) {
        let headers: Vec<_> = self.p().headers.iter().map(|header| header.name.clone()).collect();
        for (i, name) in headers.iter().enumerate() {
            self.w.open(format!("header {name}_t {{"));
            for container in self.fields.of(HeaderId(i as u16)).to_vec() {
                self.w.line(format!("bit<{}> {};", container.bits, container.name));
            }
            self.w.close("}");
            self.w.line("");
        }
        let half = self.p().lane_count() / 2;
        for (i, name) in self.halves().iter().enumerate() {
            self.w.open(format!("header {name}_t {{"));
            for lane in i as u32 * half..(i as u32 + 1) * half {
                self.w.line(format!("bit<{LANE_BITS}> d{lane:02};"));
            }
            self.w.close("}");
            self.w.line("");
        }
        if !self.chip.both_halves() {
            self.w.line("// In front of a packet that comes back for the lower half of its lanes.");
            self.w.open("header harvest_t {");
            self.w.line("bit<16> index;");
            self.w.line("bit<16> group;");
            self.w.line("bit<7> unused;");
            self.w.line("bit<9> port;");
            self.w.close("}");
            self.w.line("");
        }
        self.pass_header();
        self.w.open("struct headers_t {");
        if self.l.passes.is_some() {
            self.w.line("pass_t pass;");
        }
        if !self.chip.both_halves() {
            self.w.line("harvest_t harvest;");
        }
        for name in headers.iter().chain(&self.halves()) {
            self.w.line(format!("{name}_t {name};"));
        }
        self.w.close("}");
        self.w.line("");
        self.w.open("struct metadata_t {");
        for meta in self.p().metadata.clone() {
            let bits = if self.is_index(&meta) { 16 } else { meta.bits };
            self.w.line(format!("bit<{bits}> {};", meta.name));
        }
        self.w.line("bit<1> x_bad_checksum;");
        if self.strips_marked() {
            self.w.line("bit<1> x_stripped;");
        }
        for counter in self.p().counters.clone() {
            self.w.line(format!("bit<1> x_counts_{};", counter.name));
            self.w.line(format!("bit<8> x_{}_index;", counter.name));
        }
        self.w.close("}");
        self.w.line("");
    }

    /// An entry's number fits 16 bits.
    fn is_index(&self, meta: &Meta) -> bool {
        *meta == self.p().metadata[usize::from(self.l.index.0)]
    }

    fn ingress_parser(&mut self) {
        let harvests = !self.chip.both_halves();
        self.w.line("parser IngressParserImpl(");
        self.w.line("    packet_in pkt, out headers_t hdr, out metadata_t meta,");
        self.w.open("    out ingress_intrinsic_metadata_t ig_intr_md) {");
        self.w.line("Checksum() ipv4_sum;");
        self.w.open("state start {");
        self.w.line("pkt.extract(ig_intr_md);");
        self.w.line("pkt.advance(PORT_METADATA_SIZE);");
        for meta in self.p().metadata.clone() {
            self.w.line(format!("meta.{} = 0;", meta.name));
        }
        self.w.line("meta.x_bad_checksum = 0;");
        if self.strips_marked() {
            self.w.line("meta.x_stripped = 0;");
        }
        for counter in self.p().counters.clone() {
            self.w.line(format!("meta.x_counts_{} = 0;", counter.name));
            self.w.line(format!("meta.x_{}_index = 0;", counter.name));
        }
        if harvests {
            self.w.open("transition select(ig_intr_md.ingress_port) {");
            self.w.line(format!("{RECIRCULATION_PORT}: harvest;"));
            self.w.line("default: packet;");
            self.w.close("}");
            self.w.close("}");
        } else if self.l.passes.is_some() {
            self.pass_states(RECIRCULATION_PORT);
        } else {
            self.w.line("transition packet;");
            self.w.close("}");
        }
        let bare = self.p().metadata[usize::from(self.l.bare.0)].name.clone();
        for (i, state) in self.p().parser.states.clone().into_iter().enumerate() {
            self.w.open(format!("state {} {{", if i == 0 { "packet" } else { &state.name }));
            for part in &state.extract {
                self.extract(*part);
                if *part == self.p().ipv4_checksum.map_or(Part::Lanes, Part::Header) {
                    let name = self.part_names(*part)[0].clone();
                    self.w.line(format!("ipv4_sum.add(hdr.{name});"));
                    // The engine outputs whether the sum is wrong.
                    self.w.line("meta.x_bad_checksum = (bit<1>)ipv4_sum.verify();");
                }
            }
            match &state.next {
                Next::Accept => {
                    if !state.extract.contains(&Part::Lanes) {
                        self.w.line(format!("meta.{bare} = 1;"));
                    }
                    self.w.line("transition accept;");
                }
                Next::Select { on, cases, otherwise } => self.select(on, cases, *otherwise),
            }
            self.w.close("}");
        }
        if harvests {
            self.w.open("state harvest {");
            self.w.line("pkt.extract(hdr.harvest);");
            self.w.line(format!("meta.{} = 1;", self.p().metadata[usize::from(self.l.harvest.0)].name));
            for part in self.p().deparser.clone() {
                self.extract(part);
            }
            self.w.line("transition accept;");
            self.w.close("}");
        }
        self.w.close("}");
        self.w.line("");
    }

    fn extract(&mut self, part: Part) {
        for name in self.part_names(part) {
            self.w.line(format!("pkt.extract(hdr.{name});"));
        }
        for Copied { header, container, copy } in self.l.copies.clone() {
            if part == Part::Header(header) {
                let from = &self.fields.of(header)[container].name;
                let to = &self.p().metadata[usize::from(copy.0)].name;
                let line = format!("meta.{to} = hdr.{}.{from};", self.p().header(header).name);
                self.w.line(line);
            }
        }
    }

    fn part_names(&self, part: Part) -> Vec<String> {
        match part {
            Part::Header(header) => vec![self.p().header(header).name.clone()],
            Part::Lanes => self.halves().to_vec(),
        }
    }

    fn select(
        &mut self,
        on: &[(HeaderId, u16)],
        cases: &[(Vec<(u64, u64)>, StateId)],
        otherwise: Option<StateId>,
    ) {
        let columns = self.fields.columns(on, cases);
        let containers: Vec<_> = columns.iter().map(|c| &self.fields.of(c.header)[c.container]).collect();
        let keys = columns.iter().zip(&containers).map(|(column, container)| {
            format!("hdr.{}.{}", self.p().header(column.header).name, container.name)
        });
        let head = format!("transition select({}) {{", joined(keys, ", "));
        let name = |state: StateId| self.p().parser.states[usize::from(state.0)].name.clone();
        let row = |i: usize, target: StateId| {
            let values = columns.iter().zip(&containers).map(|(column, container)| {
                let (value, mask) = column.cases[i];
                if mask == ones(container.bits) {
                    format!("{value:#x}")
                } else {
                    format!("{value:#x} &&& {mask:#x}")
                }
            });
            let values: Vec<_> = values.collect();
            let set = if values.len() == 1 { values[0].clone() } else { format!("({})", values.join(", ")) };
            format!("{set}: {};", name(target))
        };
        let rows: Vec<_> = cases.iter().enumerate().map(|(i, (_, target))| row(i, *target)).collect();
        let last = format!("default: {};", otherwise.map_or_else(|| "accept".to_string(), name));
        self.w.open(head);
        rows.into_iter().for_each(|row| self.w.line(row));
        self.w.line(last);
        self.w.close("}");
    }

    /// A constant ternary table: actions are named by leaf; `None` does nothing.
    fn decide<L>(&mut self, name: &str, decision: &Decision<L>, action: impl Fn(&L) -> Option<String>) {
        let mut actions: Vec<String> = Vec::new();
        let mut named = |leaf: &L| {
            let name = action(leaf).unwrap_or_else(|| "NoAction".into());
            if !actions.contains(&name) {
                actions.push(name.clone());
            }
            name
        };
        let default = named(&decision.default);
        let entries: Vec<_> = decision.entries.iter().map(|(pattern, leaf)| (pattern, named(leaf))).collect();
        let rows: Vec<String> = entries
            .into_iter()
            .map(|(pattern, action)| {
                let cells = decision.keys.iter().map(|key| {
                    let Some(test) = pattern.iter().find(|test| test.key == *key) else {
                        return "_".to_string();
                    };
                    if matches!(key, Expr::Valid(_)) {
                        return (test.value == 1).to_string();
                    }
                    let bits = self.key_bits(key);
                    if test.mask == ones(bits) {
                        format!("{:#x}", test.value)
                    } else {
                        format!("{:#x} &&& {:#x}", test.value, test.mask)
                    }
                });
                format!("({}): {action}();", joined(cells, ", "))
            })
            .collect();
        self.w.line("@hidden");
        self.w.open(format!("table {name} {{"));
        self.w.open("key = {");
        for key in &decision.keys {
            let key = self.key(key);
            self.w.line(format!("{key}: ternary;"));
        }
        self.w.close("}");
        self.w.open("actions = {");
        actions.iter().for_each(|action| self.w.line(format!("{action};")));
        self.w.close("}");
        self.w.line(format!("const default_action = {default}();"));
        self.w.line(format!("size = {};", rows.len().max(1)));
        self.w.open("const entries = {");
        rows.into_iter().for_each(|row| self.w.line(row));
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
    }

    fn id(&self, what: &str, id: u32) -> String {
        let id = match what {
            "table" => object_id::table_id(id),
            "action" => object_id::action_id(id),
            "counter" => object_id::counter_id(id),
            _ => object_id::register_id(id),
        };
        format!("@id({id:#010x})")
    }
}
