//! Prints a program for DPDK's software pipeline (`rte_swx_pipeline`), as a specification (`.spec`).
//!
//! The pipeline has neither a packet length nor multicast with changes to each copy, and `extract` does not look for the packet's end. So every packet
//! passes through it behind an *intrinsic header* ([`arrival`], [`copy`]), as it does in a chip between its port and its pipeline: the
//! port, the length, and on the way out the destination ([`verdict`]). What surrounds the pipeline replicates packets and passes every copy through the same
//! pipeline once more, which then runs egress.
//!
//! Lanes are headers of 32 words, and one register array each: a sum is one instruction a lane (`regadd`). Fields below a byte are merged, and
//! two's complement order is unsigned order with the sign bit flipped, as in the program for NICs ([`crate::pna`]). Every jump goes forward.

mod code;
mod control;
mod expr;
mod externs;
mod facts;
mod liveness;
mod touch;

use std::collections::{BTreeMap, BTreeSet};

use crate::check::{check, width};
use crate::entry::{self, EntryError, KeyField, TableEntry};
use crate::fields::Containers;
use crate::interpret::Send;
use crate::ir::*;
use crate::object_id;
use crate::pna::{REGISTER_ARRAYS_MAX, register_arrays};
use crate::refusal::{PrintError, Refusal};
use crate::v1model::applied;
use crate::writer::{Writer, joined};
use code::Code;
pub(crate) use control::order;
use expr::Names;
pub use externs::{Does, Object, Touch};
use facts::{Effect, Surroundings};

/// Name of the target in refusals.
const TARGET: &str = "swx";
/// Name of the intrinsic header's instance.
const INTRINSIC: &str = "x_intrinsic";
/// Its fields, in wire order, and their widths.
const INTRINSIC_FIELDS: [(&str, u32); 11] = [
    ("port", 16),
    ("instance", 16),
    ("length", 32),
    ("depth", 32),
    ("egress", 8),
    ("mark", 8),
    ("send", 8),
    ("class", 8),
    ("to", 16),
    ("sum", 16),
    ("packet", 32),
];
/// Bytes of the intrinsic header.
pub const INTRINSIC_LEN: usize = 24;
/// Where the intrinsic header has the number by which [external objects](Object) find the packet, of 32 bits. What surrounds the pipeline sets it.
pub const PACKET_AT: usize = 20;
/// Greatest queue depth in packets that a program sees.
const DEPTH_MAX: u32 = (1 << 19) - 1;

/// Bytes of metadata that an instruction reaches (`struct instr_operand`: an offset of 8 bits).
const METADATA_BYTES_MAX: u32 = 256;
/// Bytes of one header (`struct instr_io`: a length of 8 bits), and headers of a pipeline (`valid_headers`: 64 bits).
const HEADER_BYTES_MAX: u32 = 255;
const HEADERS_MAX: usize = 64;
/// Lanes of one header, of which an instruction reaches each; and where none does.
const LANES_PER_HEADER: u32 = 32;
const LANES_PER_HEADER_MAX: u32 = HEADER_BYTES_MAX / (LANE_BITS / 8);
/// Greatest priority of an entry: the wildcard table counts down from `RTE_ACL_MAX_PRIORITY`.
const PRIORITY_MAX: u32 = (1 << 29) - 2;

/// Prints a program. Deterministic: the same program prints the same bytes.
///
/// # Errors
///
/// When the program is not valid, or has something that the pipeline cannot express; see [`Refusal`].
pub fn print(program: &Program) -> Result<String, PrintError> {
    check(program)?;
    let mut printer = Printer::new(program, None);
    printer.refuse()?;
    Ok(printer.program()?)
}

/// A program whose register actions are external objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithObjects {
    /// The specification.
    pub text: String,
    /// The objects, in the order of the specification.
    pub objects: Vec<Object>,
    /// Where lanes are in a packet that has them, from the start of the intrinsic header.
    pub lanes_at: usize,
}

/// Prints a program whose registers, and the actions on them, are [external objects](Object): what runs the pipeline must have them.
///
/// # Errors
///
/// As [`print()`].
pub fn print_with_objects(program: &Program) -> Result<WithObjects, PrintError> {
    check(program)?;
    let mut printer = Printer::new(program, Some(Vec::new()));
    printer.refuse()?;
    let text = printer.program()?;
    let objects = printer.objects.unwrap_or_default();
    Ok(WithObjects { text, objects, lanes_at: externs::lanes_at(program) })
}

/// A construct that this back end does not print.
fn refusal(construct: impl Into<String>, limit: impl Into<String>) -> Refusal {
    Refusal { target: TARGET, construct: construct.into(), limit: limit.into() }
}

/// Width in which a value of `bits` bits is stored.
const fn bytes(bits: u32) -> u32 {
    bits.div_ceil(8) * 8
}

/// The variable that holds a table's key field.
fn key_name(table: &Table, key: &Key) -> String {
    format!("x_{}_{}", table.name, key.name)
}

struct Printer<'a> {
    p: &'a Program,
    fields: Containers,
    code: Code,
    /// The external objects so far, if register actions are such; otherwise they are instructions.
    objects: Option<Vec<Object>>,
    /// Metadata that the instructions use.
    used: BTreeSet<MetaId>,
    /// Intermediate results so far.
    temporaries: u32,
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program, objects: Option<Vec<Object>>) -> Self {
        Self {
            p: program,
            fields: Containers::new(program),
            code: Code::default(),
            objects,
            used: BTreeSet::new(),
            temporaries: 0,
        }
    }
}

impl Printer<'_> {
    /// Refuses what exceeds a limit of the pipeline.
    fn refuse(&self) -> Result<(), Refusal> {
        let program = self.p;
        if program.lane_bits() != LANE_BITS {
            return Err(refusal(
                format!("lanes of {} bits", program.lane_bits()),
                "lanes are words of 32 bits",
            ));
        }
        if !program.lane_vars.is_empty() || !program.lookups.is_empty() {
            let names: Vec<&str> = program.lane_vars.iter().map(|var| var.name.as_str()).collect();
            return Err(refusal(
                format!("variables of every lane ({})", names.join(", ")),
                "an instruction works on one number, and lanes are folded in registers alone",
            ));
        }
        let arrays = register_arrays(program);
        if self.objects.is_none() && arrays > REGISTER_ARRAYS_MAX {
            return Err(refusal(
                format!(
                    "{} lanes a packet, which need {arrays} register and counter arrays",
                    program.lane_count()
                ),
                format!("an instruction names {REGISTER_ARRAYS_MAX}"),
            ));
        }
        if let Some(header) = program.headers.iter().find(|header| header.len_bytes() > HEADER_BYTES_MAX) {
            return Err(refusal(
                format!("header '{}' of {} bytes", header.name, header.len_bytes()),
                format!("a header has {HEADER_BYTES_MAX} bytes"),
            ));
        }
        let headers = program.headers.len() + 2 + self.lane_headers().len();
        if headers > HEADERS_MAX {
            return Err(refusal(format!("{headers} headers"), format!("a pipeline has {HEADERS_MAX}")));
        }
        Ok(())
    }

    fn program(&mut self) -> Result<String, Refusal> {
        let tables: Vec<TableId> =
            applied(&self.p.ingress).into_iter().chain(applied(&self.p.egress)).collect();
        let actions: BTreeSet<ActionId> =
            tables.iter().flat_map(|table| self.p.table(*table).actions.clone()).collect();
        let mut around = self.surroundings(&tables);
        let (mut bodies, mut places) = (Vec::new(), [0; 2]);
        for action in &actions {
            let mut code = self.action(*action)?;
            // What is in use in the block that applies the table must not be overwritten.
            places = std::array::from_fn(|class| places[class].max(code.allocate("m.x_a")[class]));
            bodies.push(code);
        }
        for table in &tables {
            let table = self.p.table(*table);
            let of = actions.iter().zip(&bodies).filter(|(action, _)| table.actions.contains(action));
            around.tables.insert(table.name.clone(), self.effect(table, of.map(|(_, code)| code)));
        }
        self.body()?;
        let mut body = std::mem::take(&mut self.code);
        let zeros = self.used.iter().map(|meta| &self.p.metadata[usize::from(meta.0)].name);
        body.prepend(zeros.map(|name| format!("mov m.{name} 0x0")));
        // An instruction for each lane makes too many for the passes that compare values.
        body.improve(&around, self.objects.is_some());
        let temporaries = [("m.x_a", places), ("m.x_t", body.allocate("m.x_t"))];
        let body = body.finish();
        let mut w = Writer::default();
        w.line(format!("; {}: {}.", self.p.name, self.p.about));
        w.line(format!("; Every packet is behind header {INTRINSIC}. Generated; do not edit."));
        w.line("");
        self.structs(&mut w);
        self.mailboxes(&mut w);
        self.metadata(&mut w, &tables, &temporaries)?;
        self.arguments(&mut w, &actions);
        self.state(&mut w);
        for (action, code) in actions.iter().zip(bodies) {
            let action = self.p.action(*action);
            let args = if action.params.is_empty() {
                "none".into()
            } else {
                format!("instanceof {}_args_t", action.name)
            };
            w.open(format!("action {} args {args} {{", action.name));
            code.finish().iter().for_each(|line| w.line(line));
            w.close("}");
            w.line("");
        }
        tables.iter().for_each(|table| self.table(&mut w, *table));
        w.open("apply {");
        w.line("rx m.x_input");
        w.line(format!("extract h.{INTRINSIC}"));
        body.iter().for_each(|line| w.line(line));
        w.close("}");
        Ok(w.finish())
    }

    /// Name of a lane's field, below `h`.
    fn lane(&self, lane: u32) -> String {
        let name = self.p.lanes.as_ref().map_or("", |lanes| lanes.name.as_str());
        format!("{name}_{}.d{lane:02}", lane / LANES_PER_HEADER)
    }

    /// Instances that hold the lanes, in wire order, and the lanes of each.
    fn lane_headers(&self) -> Vec<(String, std::ops::Range<u32>)> {
        let Some(lanes) = &self.p.lanes else { return vec![] };
        let each = if self.objects.is_some() { LANES_PER_HEADER_MAX } else { LANES_PER_HEADER };
        let parts = 0..lanes.count.div_ceil(each);
        let range = |i: u32| i * each..((i + 1) * each).min(lanes.count);
        parts.map(|i| (format!("{}_{i}", lanes.name), range(i))).collect()
    }

    fn part_names(&self, part: Part) -> Vec<String> {
        match part {
            Part::Header(header) => vec![self.p.header(header).name.clone()],
            Part::Lanes => self.lane_headers().into_iter().map(|(name, _)| name).collect(),
        }
    }

    fn structs(&self, w: &mut Writer) {
        let mut headers: Vec<(String, Vec<(String, u32)>)> = Vec::new();
        let intrinsic = INTRINSIC_FIELDS.map(|(name, bits)| (name.to_owned(), bits));
        headers.push((INTRINSIC.into(), intrinsic.to_vec()));
        for (index, header) in self.p.headers.iter().enumerate() {
            let containers = self.fields.of(HeaderId(index as u16)).iter();
            let fields = containers.map(|container| (container.name.clone(), container.bits)).collect();
            headers.push((header.name.clone(), fields));
        }
        for (name, lanes) in self.lane_headers() {
            let fields = match self.objects {
                // No instruction reads them.
                Some(_) => vec![("lanes".to_owned(), lanes.len() as u32 * LANE_BITS)],
                None => lanes.map(|lane| (format!("d{lane:02}"), LANE_BITS)).collect(),
            };
            headers.push((name, fields));
        }
        for (name, fields) in &headers {
            structure(w, &format!("{name}_t"), fields);
        }
        for (name, _) in &headers {
            w.line(format!("header {name} instanceof {name}_t"));
        }
        w.line("");
    }

    /// The external objects, and the structures of their mailboxes.
    fn mailboxes(&self, w: &mut Writer) {
        let Some(objects) = &self.objects else { return };
        for object in objects {
            let fields: Vec<_> = object.fields.iter().map(|field| (field.name.clone(), 32)).collect();
            structure(w, &format!("{}_t", object.name), &fields);
        }
        for Object { name, .. } in objects {
            w.line(format!("extobj {name} instanceof {name}"));
        }
        w.line("");
    }

    /// Variables of their own names, and their widths: those of the program that are used, keys, and those of every program.
    fn variables(&self, tables: &[TableId], used: impl Iterator<Item = MetaId>) -> Vec<(String, u32)> {
        let mut fields: Vec<(String, u32)> = vec![("x_input".into(), 32), ("x_rest".into(), 32)];
        fields.extend(used.map(|meta| {
            let meta = &self.p.metadata[usize::from(meta.0)];
            (meta.name.clone(), bytes(meta.bits))
        }));
        for table in tables {
            let table = self.p.table(*table);
            let bits = |key: &Key| bytes(width(self.p, &key.value, &[], &[]));
            fields.extend(table.keys.iter().map(|key| (key_name(table, key), bits(key))));
        }
        if self.objects.is_none() {
            fields.extend(["x_old0", "x_old1", "x_new0", "x_new1"].map(|name| (name.into(), 32)));
            fields.extend([("x_cond0".into(), 8), ("x_cond1".into(), 8)]);
        }
        fields.push(("x_sum".into(), 16));
        fields
    }

    /// The widths of all fields, for the passes over the instructions.
    fn surroundings(&self, tables: &[TableId]) -> Surroundings {
        let all = (0..self.p.metadata.len()).map(|index| MetaId(index as u16));
        let mut widths: BTreeMap<String, u32> =
            self.variables(tables, all).into_iter().map(|(name, bits)| (format!("m.{name}"), bits)).collect();
        widths.extend(INTRINSIC_FIELDS.map(|(name, bits)| (format!("h.{INTRINSIC}.{name}"), bits)));
        for (index, header) in self.p.headers.iter().enumerate() {
            let containers = self.fields.of(HeaderId(index as u16)).iter();
            widths.extend(containers.map(|field| (format!("h.{}.{}", header.name, field.name), field.bits)));
        }
        widths.extend((0..self.p.lane_count()).map(|lane| (format!("h.{}", self.lane(lane)), LANE_BITS)));
        Surroundings { tables: BTreeMap::new(), widths }
    }

    /// What a lookup does to variables, whatever it finds.
    fn effect<'c>(&self, table: &Table, actions: impl Iterator<Item = &'c Code>) -> Effect {
        let mut effect = Effect::default();
        let mut all: Option<BTreeSet<String>> = None;
        for code in actions {
            let writes = code.written_places();
            effect.reads.extend(code.read_places());
            all = Some(match all {
                Some(all) => all.intersection(&writes).cloned().collect(),
                None => writes.clone(),
            });
            effect.may_write.extend(writes);
        }
        // An action that reads what it has written before counts as one that reads, so that it need not be known which comes first.
        effect.writes = all.unwrap_or_default().difference(&effect.reads).cloned().collect();
        effect.reads.extend(table.keys.iter().map(|key| format!("m.{}", key_name(table, key))));
        effect
    }

    fn metadata(
        &self,
        w: &mut Writer,
        tables: &[TableId],
        temporaries: &[(&str, [u32; 2])],
    ) -> Result<(), Refusal> {
        let mut fields = self.variables(tables, self.used.iter().copied());
        for (prefix, counts) in temporaries {
            let prefix = prefix.trim_start_matches("m.");
            for (count, bits) in counts.iter().zip(liveness::WIDTHS) {
                fields.extend((0..*count).map(|number| (format!("{prefix}{bits}_{number}"), bits)));
            }
        }
        let sum = fields.iter().map(|(_, bits)| bits).sum::<u32>() / 8;
        if sum > METADATA_BYTES_MAX {
            return Err(refusal(
                format!("{} variables of {sum} bytes", fields.len()),
                format!("an instruction reaches {METADATA_BYTES_MAX} bytes of metadata"),
            ));
        }
        structure(w, "metadata_t", &fields);
        w.line("metadata instanceof metadata_t");
        w.line("");
        Ok(())
    }

    fn arguments(&self, w: &mut Writer, actions: &BTreeSet<ActionId>) {
        for action in actions {
            let action = self.p.action(*action);
            let fields: Vec<_> =
                action.params.iter().map(|param| (param.name.clone(), bytes(param.bits))).collect();
            if !fields.is_empty() {
                structure(w, &format!("{}_args_t", action.name), &fields);
            }
        }
    }

    fn state(&self, w: &mut Writer) {
        for register in self.p.registers.iter().filter(|_| self.objects.is_none()) {
            for name in self.arrays(register) {
                w.line(format!("regarray {name} size {:#x} initval 0x0", register.size));
            }
        }
        for counter in &self.p.counters {
            w.line(format!("regarray {} size {:#x} initval 0x0", counter.name, counter.size));
        }
        w.line("");
    }

    fn action(&mut self, action: ActionId) -> Result<Code, Refusal> {
        let action = self.p.action(action);
        let names = Names { params: &action.params, ..Names::default() };
        for stmt in &action.body {
            // The validator permits only assignments in actions.
            if let Stmt::Assign(place, value) = stmt {
                self.assign(*place, value, &names)?;
            }
        }
        self.code.run("return");
        Ok(std::mem::take(&mut self.code))
    }

    fn table(&self, w: &mut Writer, table: TableId) {
        let table = self.p.table(table);
        let wildcard = table.keys.iter().any(|key| key.kind == MatchKind::Ternary);
        w.open(format!("table {} {{", table.name));
        w.open("key {");
        for key in &table.keys {
            // A table is of one kind, and wildcards match exactly under a full mask.
            let kind = if wildcard { "wildcard" } else { "exact" };
            w.line(format!("m.{} {kind}", key_name(table, key)));
        }
        w.close("}");
        w.open("actions {");
        for action in &table.actions {
            w.line(&self.p.action(*action).name);
        }
        w.close("}");
        let (default, args) = &table.default;
        let default = self.p.action(*default);
        let args = default.params.iter().zip(args).map(|(param, arg)| format!("{} {arg:#x}", param.name));
        let args = if default.params.is_empty() { "none".into() } else { joined(args, " ") };
        w.line(format!("default_action {} args {args} const", default.name));
        w.line(format!("size {:#x}", table.size));
        w.close("}");
        w.line("");
    }
}

fn structure(w: &mut Writer, name: &str, fields: &[(String, u32)]) {
    w.open(format!("struct {name} {{"));
    for (name, bits) in fields {
        w.line(format!("bit<{bits}> {name}"));
    }
    w.close("}");
    w.line("");
}

/// The intrinsic header of a packet of `length` bytes that arrived on `port`, with a congestion mark in outer headers that the transport removed or
/// not.
pub fn arrival(port: u16, congestion_mark: bool, length: u32) -> [u8; INTRINSIC_LEN] {
    let mut header = [0; INTRINSIC_LEN];
    header[..2].copy_from_slice(&port.to_be_bytes());
    header[4..8].copy_from_slice(&length.to_be_bytes());
    header[13] = congestion_mark.into();
    header
}

/// The intrinsic header of a copy of `length` bytes that goes through egress: of replica `instance` (0 for unicast), from a queue of `depth` packets.
pub fn copy(instance: u16, depth: u32, length: u32) -> [u8; INTRINSIC_LEN] {
    let mut header = [0; INTRINSIC_LEN];
    header[2..4].copy_from_slice(&instance.to_be_bytes());
    header[4..8].copy_from_slice(&length.to_be_bytes());
    header[8..12].copy_from_slice(&depth.min(DEPTH_MAX).to_be_bytes());
    header[12] = 1;
    header
}

/// What ingress decided about a packet that the pipeline sent, by its intrinsic header: the destination, and the egress queue. `None` if there is no such
/// header.
pub fn verdict(sent: &[u8]) -> Option<(Send, u8)> {
    let header = sent.get(..INTRINSIC_LEN)?;
    let to = u16::from_be_bytes([header[16], header[17]]);
    let send = match header[14] {
        control::UNICAST => Send::Unicast(to),
        control::MULTICAST => Send::Multicast(to),
        _ => Send::Drop,
    };
    Some((send, header[15]))
}

/// The name of an entry's table, and the entry as the pipeline's control functions read it (`rte_swx_ctl_pipeline_table_entry_read`).
///
/// # Errors
///
/// When the entry does not fit its table. Whether the key exists or the table is full is not known here.
pub fn entry<'p>(program: &'p Program, entry: &TableEntry) -> Result<(&'p str, String), EntryError> {
    let table = program.tables.iter().find(|table| object_id::table_id(table.id) == entry.table);
    let table = table.ok_or(EntryError::Table(entry.table))?;
    let mut actions = table.actions.iter().map(|action| program.action(*action));
    let action = actions.find(|action| object_id::action_id(action.id) == entry.action);
    let action = action.ok_or(EntryError::Action { action: entry.action, table: entry.table })?;
    let fields = table.keys.iter().map(|key| KeyField {
        id: key.id,
        bits: width(program, &key.value, &[], &[]),
        exact: key.kind == MatchKind::Exact,
    });
    let mut keys = vec![(0, 0); table.keys.len()];
    entry::check_key(fields, entry, |at, field| keys[at] = (field.value, field.mask))?;
    entry::check_params(action.params.iter().map(|param| param.bits), &entry.params)?;
    let wildcard = table.keys.iter().any(|key| key.kind == MatchKind::Ternary);
    let keys = keys.iter().map(|(value, mask)| match wildcard {
        true => format!("{value:#x}/{mask:#x}"),
        false => format!("{value:#x}"),
    });
    let mut text = format!("match {}", joined(keys, " "));
    if wildcard {
        let priority = PRIORITY_MAX.checked_sub(entry.priority.unsigned_abs());
        let priority = priority.ok_or(EntryError::Priority(entry.priority))?;
        text += &format!(" priority {priority}");
    }
    text += &format!(" action {}", action.name);
    for (param, value) in action.params.iter().zip(&entry.params) {
        text += &format!(" {} {value:#x}", param.name);
    }
    Ok((&table.name, text))
}
