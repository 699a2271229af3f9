//! Generates Rust source from a program: the pipelines of the software switch.
//!
//! The text is one module body. It refers to the runtime (tables, verdicts, the `Pipeline` trait) as `rt::...`; the
//! crate that includes it brings a module of that name into scope. Consecutive statements over lanes are one loop over arrays, which vectorises;
//! the whole burst is compiled for AVX-512, for AVX2 and for the base instruction set, from the same source, so
//! all produce the same bits. Per packet the code neither allocates nor locks.
//!
//! Two restrictions of this back end: every part of a packet has one offset, on every path of the parser; and only
//! the last part can be removed. Lanes can be added only to a packet with room behind it, as they overwrite that memory.

mod expr;
mod lanes;
mod layout;
mod lookups;
mod parts;
mod runs;

use crate::check::{CheckError, check};
use crate::growth::Growth;
use crate::ir::*;
use crate::rewriting::Rewriting;
use crate::writer::{Writer, joined};
use layout::{Layout, TableLayout};
use runs::Runs;

/// Error of a program that cannot be generated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RustError {
    /// The program is not valid.
    #[error("the program is not valid")]
    Check(#[from] CheckError),
    /// A part lies at several offsets.
    #[error("part '{0}' lies at different offsets on different parser paths; this back end needs one")]
    Offset(String),
    /// A part other than the last is removed.
    #[error("part '{0}' is removed; this back end can remove only the last part")]
    Remove(String),
    /// The deparser does not follow the parser's order.
    #[error("the deparser's order is not the packet's; this back end rewrites packets in place")]
    Order,
    /// A table key needs more than 256 bits.
    #[error("the key of table '{0}' is wider than 256 bits")]
    Key(String),
}

/// Generates the module body. Deterministic.
///
/// # Errors
///
/// When the program is not valid or meets a restriction of this back end.
pub fn generate(program: &Program) -> Result<String, RustError> {
    check(program)?;
    let layout = Layout::new(program)?;
    let runs = Runs::new(program);
    let mut generator = Generator { p: program, layout, runs, next_run: 0, w: Writer::default() };
    generator.module();
    Ok(generator.w.finish())
}

/// Level of the runtime's `SimdLevel` and the features that `SimdLevel::detect` asks for at that level.
const BUILDS: [(&str, &str); 2] =
    [("Avx512", "avx2,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl"), ("Avx2", "avx2,bmi1,bmi2")];

struct Generator<'a> {
    p: &'a Program,
    layout: Layout,
    runs: Runs,
    /// Index of the run that is generated next.
    next_run: usize,
    w: Writer,
}

/// The smallest unsigned type that holds `bits`.
fn native(bits: u32) -> &'static str {
    match bits {
        0 => "bool",
        1..=8 => "u8",
        9..=16 => "u16",
        17..=32 => "u32",
        _ => "u64",
    }
}

/// The lane registers, with the bits of their cells.
fn lane_registers(program: &Program) -> impl Iterator<Item = (&Register, u32)> {
    program.registers.iter().filter_map(|register| match register.kind {
        RegisterKind::Lanes(bits) => Some((register, bits)),
        RegisterKind::Cells(_) => None,
    })
}

/// Upper camel case of a snake-case name.
fn camel(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

impl Generator<'_> {
    fn module(&mut self) {
        self.w.line(format!("// Generated from the program `{}`; do not edit.", self.p.name));
        self.w.line(format!("// {}", self.p.about));
        self.w.line("");
        self.constants();
        self.cells();
        self.lookups();
        self.tables();
        self.state();
        self.packet();
        self.egress();
        self.bursts();
        self.interface();
    }

    fn constants(&mut self) {
        self.w.line(format!("const LANES: usize = {};", self.p.lane_count()));
        for (part, offset) in self.layout.offsets() {
            let name = self.part_name(part).to_uppercase();
            let len = self.part_len(part);
            self.w.line(format!("const {name}_AT: usize = {offset};"));
            self.w.line(format!("const {name}_END: usize = {};", offset + len));
        }
        self.w.line("");
    }

    fn part_name(&self, part: Part) -> String {
        match part {
            Part::Header(header) => self.p.header(header).name.clone(),
            Part::Lanes => self.p.lanes.as_ref().map_or_else(String::new, |lanes| lanes.name.clone()),
        }
    }

    fn part_len(&self, part: Part) -> u32 {
        match part {
            Part::Header(header) => self.p.header(header).len_bytes(),
            Part::Lanes => self.p.lane_bytes(),
        }
    }

    /// One struct for all cell registers of a size, so that a packet touches one cache line.
    fn cells(&mut self) {
        for size in self.layout.cell_sizes(self.p) {
            self.w.line("#[derive(Clone, Copy, Default)]");
            self.w.open(format!("struct Cells{size} {{"));
            for register in self.p.registers.iter().filter(|register| register.size == size) {
                if let RegisterKind::Cells(cells) = &register.kind {
                    for cell in cells {
                        self.w.line(format!("{}_{}: {},", register.name, cell.name, native(cell.bits)));
                    }
                }
            }
            self.w.close("}");
            self.w.line("");
        }
    }

    fn tables(&mut self) {
        for table in &self.p.tables {
            let layout = TableLayout::new(self.p, table);
            self.w.line("#[derive(Clone, Copy)]");
            self.w.open(format!("enum {}Action {{", camel(&table.name)));
            for action in &table.actions {
                let action = self.p.action(*action);
                let params =
                    joined(action.params.iter().map(|f| format!("{}: {}", f.name, native(f.bits))), ", ");
                self.w.line(format!("{} {{ {params} }},", camel(&action.name)));
            }
            self.w.close("}");
            self.w.open(format!(
                "fn {}_action(id: u32, params: &[u64]) -> {}Action {{",
                table.name,
                camel(&table.name)
            ));
            self.w.open("match id {");
            let (default, _) = &table.default;
            let others = table.actions.iter().filter(|action| *action != default);
            for action in others.chain([default]) {
                let pattern = if action == default {
                    "_".to_string()
                } else {
                    format!("{:#010x}", crate::object_id::action_id(self.p.action(*action).id))
                };
                let action = self.p.action(*action);
                let params = action.params.iter().enumerate();
                let params = joined(
                    params.map(|(i, f)| format!("{}: params[{i}] as {}", f.name, native(f.bits))),
                    ", ",
                );
                self.w.line(format!(
                    "{pattern} => {}Action::{} {{ {params} }},",
                    camel(&table.name),
                    camel(&action.name)
                ));
            }
            self.w.close("}");
            self.w.close("}");
            self.table_info(table, &layout);
        }
    }

    fn table_info(&mut self, table: &Table, layout: &TableLayout) {
        self.w.open(format!("static {}: rt::TableInfo = rt::TableInfo {{", table.name.to_uppercase()));
        self.w.line(format!("id: {:#010x},", crate::object_id::table_id(table.id)));
        self.w.line(format!("name: {:?},", table.name));
        self.w.line(format!("size: {},", table.size));
        self.w.open("keys: &[");
        for (key, spot) in table.keys.iter().zip(&layout.keys) {
            self.w.line(format!(
                "rt::KeyInfo {{ id: {}, bits: {}, word: {}, shift: {}, exact: {} }},",
                key.id,
                spot.bits,
                spot.word,
                spot.shift,
                key.kind == MatchKind::Exact
            ));
        }
        self.w.close("],");
        self.w.open("actions: &[");
        for action in &table.actions {
            let action = self.p.action(*action);
            let bits = joined(action.params.iter().map(|param| param.bits), ", ");
            self.w.line(format!(
                "rt::ActionInfo {{ id: {:#010x}, name: {:?}, params: &[{bits}] }},",
                crate::object_id::action_id(action.id),
                action.name
            ));
        }
        self.w.close("],");
        self.w.close("};");
        self.w.line("");
    }

    fn state(&mut self) {
        self.w.line(format!("/// {}.", self.p.about));
        self.w.open("pub(super) struct Program {");
        for size in self.layout.cell_sizes(self.p) {
            self.w.line(format!("cells{size}: Box<[Cells{size}]>,"));
        }
        for (register, bits) in lane_registers(self.p) {
            self.w.line(format!("{}: rt::LaneRegister<{}, LANES>,", register.name, native(bits)));
        }
        for counter in &self.p.counters {
            self.w.line(format!("{}: [u64; {}],", counter.name, counter.size));
        }
        for table in &self.p.tables {
            let words = TableLayout::new(self.p, table).words;
            self.w.line(format!("{}: rt::Table<{words}, {}Action>,", table.name, camel(&table.name)));
        }
        self.w.line("simd: rt::SimdLevel,");
        self.w.close("}");
        self.w.line("");
        self.w.open("impl Program {");
        self.w.line("/// A pipeline whose registers and counters are zero and whose tables are empty.");
        self.w.open("pub(super) fn new() -> Self {");
        self.w.open("Self {");
        for size in self.layout.cell_sizes(self.p) {
            self.w.line(format!("cells{size}: vec![Cells{size}::default(); {size}].into_boxed_slice(),"));
        }
        for (register, _) in lane_registers(self.p) {
            self.w.line(format!("{}: rt::LaneRegister::new({}),", register.name, register.size));
        }
        for counter in &self.p.counters {
            self.w.line(format!("{}: [0; {}],", counter.name, counter.size));
        }
        for table in &self.p.tables {
            let (default, args) = &table.default;
            self.w.line(format!(
                "{name}: rt::Table::new(&{upper}, {name}_action({id:#010x}, &[{args}])),",
                name = table.name,
                upper = table.name.to_uppercase(),
                id = crate::object_id::action_id(self.p.action(*default).id),
                args = joined(args, ", ")
            ));
        }
        self.w.line("simd: rt::SimdLevel::detect(),");
        self.w.close("}");
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
    }

    fn bursts(&mut self) {
        let args = "packets: &[rt::Received], memory: &mut [u8], verdicts: &mut Vec<rt::Verdict>";
        self.w.line("#[inline(always)]");
        self.w.open(format!("fn burst_body(state: &mut Program, {args}) {{"));
        if self.layout.grows {
            self.w.open("for (index, received) in packets.iter().enumerate() {");
        } else {
            self.w.open("for received in packets {");
        }
        self.w.line("let start = received.offset as usize;");
        let mark = if self.layout.congestion_marks { ", received.ecn == rt::CE" } else { "" };
        if self.layout.grows {
            self.w.line("let len = received.len as usize;");
            self.w.line("let end = rt::room_end(packets, index, memory.len());");
            self.w.open("let verdict = match memory.get_mut(start..end) {");
            self.w.line(format!(
                "Some(data) if len <= data.len() => packet(state, received.port.0{mark}, data, len),"
            ));
            self.w.line("_ => rt::Verdict::DROP,");
        } else {
            self.w.open("let verdict = match memory.get_mut(start..start + received.len as usize) {");
            self.w.line(format!("Some(data) => packet(state, received.port.0{mark}, data),"));
            self.w.line("None => rt::Verdict::DROP,");
        }
        self.w.close("};");
        self.w.line("verdicts.push(verdict);");
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
        for (level, features) in BUILDS {
            self.w.line("#[cfg(target_arch = \"x86_64\")]");
            self.w.line(format!("#[target_feature(enable = \"{features}\")]"));
            self.w.open(format!("fn burst_{}(state: &mut Program, {args}) {{", level.to_lowercase()));
            self.w.line("burst_body(state, packets, memory, verdicts);");
            self.w.close("}");
            self.w.line("");
        }
    }

    fn interface(&mut self) {
        self.w.open("impl rt::Pipeline for Program {");
        self.info();
        let args = "&mut self, packets: &[rt::Received], memory: &mut [u8], verdicts: &mut Vec<rt::Verdict>";
        self.w.open(format!("fn burst({args}) {{"));
        self.w.line("#[cfg(target_arch = \"x86_64\")]");
        self.w.open("match self.simd {");
        for (level, _) in BUILDS {
            let build = level.to_lowercase();
            self.w.open(format!("rt::SimdLevel::{level} => {{"));
            self.w.line(format!(
                "// SAFETY: rt::SimdLevel::detect() found every feature that burst_{build} is compiled for on this processor."
            ));
            self.w.line(format!("return unsafe {{ burst_{build}(self, packets, memory, verdicts) }};"));
            self.w.close("}");
        }
        self.w.line("rt::SimdLevel::Portable => {}");
        self.w.close("}");
        self.w.line("burst_body(self, packets, memory, verdicts);");
        self.w.close("}");
        self.w.open("fn set_simd(&mut self, level: rt::SimdLevel) {");
        self.w.line("self.simd = level.min(rt::SimdLevel::detect());");
        self.w.close("}");
        self.w.open("fn egress(&mut self, instance: u16, queue_depth: u32, frame: &mut [u8]) -> usize {");
        if self.p.egress.is_empty() {
            self.w.line("let _ = (instance, queue_depth);");
            self.w.line("frame.len()");
        } else {
            self.w.line("egress(self, instance, queue_depth, frame)");
        }
        self.w.close("}");
        for verb in ["insert", "delete"] {
            self.w.open(format!(
                "fn {verb}(&mut self, entry: &rt::TableEntry) -> Result<(), rt::EntryError> {{"
            ));
            self.w.open("match entry.table {");
            for table in &self.p.tables {
                let id = crate::object_id::table_id(table.id);
                let make = if verb == "insert" { format!(", {}_action", table.name) } else { String::new() };
                self.w.line(format!("{id:#010x} => self.{}.{verb}(entry{make}),", table.name));
            }
            self.w.line("other => Err(rt::EntryError::Table(other)),");
            self.w.close("}");
            self.w.close("}");
        }
        self.w.open("fn counters(&self, id: u32) -> &[u64] {");
        self.w.open("match id {");
        for counter in &self.p.counters {
            self.w.line(format!(
                "{:#010x} => &self.{},",
                crate::object_id::counter_id(counter.id),
                counter.name
            ));
        }
        self.w.line("_ => &[],");
        self.w.close("}");
        self.w.close("}");
        self.w.open("fn counters_mut(&mut self, id: u32) -> &mut [u64] {");
        self.w.open("match id {");
        for counter in &self.p.counters {
            let id = crate::object_id::counter_id(counter.id);
            self.w.line(format!("{id:#010x} => &mut self.{},", counter.name));
        }
        self.w.line("_ => &mut [],");
        self.w.close("}");
        self.w.close("}");
        self.read_register();
        self.write_register();
        self.w.close("}");
    }

    fn info(&mut self) {
        self.w.open("fn info(&self) -> &'static rt::PipelineInfo {");
        self.w.open("static INFO: rt::PipelineInfo = rt::PipelineInfo {");
        self.w.line(format!("name: std::borrow::Cow::Borrowed({:?}),", self.p.name));
        self.w.line(format!("fingerprint: {:#018x},", self.p.fingerprint()));
        self.w.line(format!("lane_words: {},", self.p.lane_bytes() / 4));
        self.w.line(format!("numerics: rt::Numerics::{:?},", crate::allreduce::numerics_of(self.p)));
        let ops = crate::allreduce::lane_ops_of(self.p).iter().map(|op| format!("rt::LaneOp::{op:?}"));
        self.w.line(format!("lane_ops: rt::LaneOps::of(&[{}]),", ops.collect::<Vec<_>>().join(", ")));
        let bounded_loss = crate::allreduce::is_for_bounded_loss(self.p);
        self.w.line(format!("bounded_loss: {bounded_loss},"));
        self.w.line(format!("owners: {},", crate::allreduce::has_owners(self.p)));
        self.w.line(match Growth::of(self.p) {
            Some(Growth { len, at, mask }) => {
                format!("growth: Some(rt::Growth {{ len: {len}, at: {at}, mask: {mask:#04x} }}),")
            }
            None => "growth: None,".into(),
        });
        self.w.line(match Rewriting::of(self.p) {
            Some(Rewriting { at, len }) => {
                format!("rewriting: Some(rt::Rewriting {{ at: {at}, len: {len} }}),")
            }
            None => "rewriting: None,".into(),
        });
        self.w.line(format!("entries: {},", self.p.registers.iter().map(|r| r.size).max().unwrap_or(0)));
        let cells = joined(
            self.layout.cell_sizes(self.p).iter().map(|n| format!("{n} * size_of::<Cells{n}>()")),
            " + ",
        );
        let lanes = lane_registers(self.p);
        let lanes = joined(lanes.map(|(r, bits)| format!("{} * LANES * {}", r.size, bits / 8)), " + ");
        let or_zero = |text: String| if text.is_empty() { "0".to_string() } else { text };
        self.w.line(format!("bookkeeping_bytes: {},", or_zero(cells)));
        self.w.line(format!("lane_bytes: {},", or_zero(lanes)));
        self.w.close("};");
        self.w.line("&INFO");
        self.w.close("}");
    }

    fn read_register(&mut self) {
        self.w.open("fn read_register(&self, name: &str, index: usize, out: &mut Vec<u32>) -> bool {");
        self.w.open("match name {");
        for register in &self.p.registers {
            match &register.kind {
                RegisterKind::Cells(cells) => {
                    let values =
                        cells.iter().map(|cell| format!("u32::from(cell.{}_{})", register.name, cell.name));
                    self.w.line(format!(
                        "{:?} => self.cells{}.get(index).map(|cell| out.extend([{}])).is_some(),",
                        register.name,
                        register.size,
                        joined(values, ", ")
                    ));
                }
                RegisterKind::Lanes(bits) => {
                    let values =
                        if *bits == 32 { "lanes" } else { "lanes.iter().map(|lane| u32::from(*lane))" };
                    self.w.line(format!(
                        "{:?} => self.{}.get(index).map(|lanes| out.extend({values})).is_some(),",
                        register.name, register.name
                    ));
                }
            }
        }
        self.w.line("_ => false,");
        self.w.close("}");
        self.w.close("}");
    }

    fn write_register(&mut self) {
        self.w.open("fn write_register(&mut self, name: &str, index: usize, values: &[u32]) -> bool {");
        self.w.open("match name {");
        for register in &self.p.registers {
            let name = &register.name;
            match &register.kind {
                RegisterKind::Cells(cells) => {
                    let values = joined((0..cells.len()).map(|at| format!("value{at}")), ", ");
                    let place = format!("self.cells{}.get_mut(index)", register.size);
                    self.w.open(format!("{name:?} => match ({place}, values) {{"));
                    self.w.open(format!("(Some(cell), &[{values}]) => {{"));
                    for (at, cell) in cells.iter().enumerate() {
                        let ones = u32::MAX >> (32 - cell.bits);
                        let value = format!("(value{at} & {ones:#x}) as {}", native(cell.bits));
                        self.w.line(format!("cell.{name}_{} = {value};", cell.name));
                    }
                }
                RegisterKind::Lanes(bits) => {
                    self.w.open(format!("{name:?} => match self.{name}.get_mut(index) {{"));
                    self.w.open("Some(lanes) if values.len() == LANES => {");
                    self.w.open("for (lane, value) in lanes.iter_mut().zip(values) {");
                    self.w.line(format!("*lane = *value as {};", native(*bits)));
                    self.w.close("}");
                }
            }
            self.w.line("true");
            self.w.close("}");
            self.w.line("_ => false,");
            self.w.close("},");
        }
        self.w.line("_ => false,");
        self.w.close("}");
        self.w.close("}");
    }
}
