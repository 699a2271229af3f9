//! Prints a program as P4_16 for the Portable NIC Architecture: the leaf reducer of a NIC, through p4c's DPDK back end.
//!
//! PNA differs from a switch, and so does the printed program:
//! - There is no multicast, and a port can only come from a table entry. For [`Stmt::Unicast`] and
//!   [`Stmt::Multicast`], table `route` looks up the port: by the port number for instance 0, and by the group's number, as
//!   instance, for a group. The control plane binds a group to one port (upstream, or a fan-out at the host).
//! - There is no egress block: the program's egress runs after the main control, with the group as instance.
//! - There is neither a packet length nor a queue depth. Lengths are those of the IPv4 and UDP headers; packets are
//!   never marked or trimmed, independent of the profile's `ecn_depth` and `trim_depth`.
//! - The DPDK software pipeline has no fields below a byte, no signed comparison and 256 bytes for all metadata. Fields are
//!   merged, comparisons are biased, and all lanes share the same few scratch variables.

mod expr;
mod touch;

use crate::check::check;
use crate::fields::Containers;
use crate::ir::*;
use crate::object_id;
use crate::refusal::{PrintError, Refusal};
use crate::v1model::{applied, visit};
use crate::writer::{Writer, joined};

/// Name of the target in refusals.
const TARGET: &str = "pna";
/// Register arrays that a DPDK pipeline can name: an instruction holds the number in 8 bits
/// (`struct instr_regarray`, `lib/pipeline/rte_swx_pipeline_internal.h`). Counters are register arrays too.
pub const REGISTER_ARRAYS_MAX: usize = 256;

/// Register arrays that a program takes in a DPDK pipeline: one for each cell of a register, each lane and each counter.
pub(crate) fn register_arrays(program: &Program) -> usize {
    let cells = program.registers.iter().map(|register| match &register.kind {
        RegisterKind::Cells(cells) => cells.len(),
        RegisterKind::Lanes(_) => program.lane_count() as usize,
    });
    cells.sum::<usize>() + program.counters.len()
}
/// Bytes of metadata that an instruction of a DPDK pipeline reaches (`struct instr_operand`: an offset of 8 bits).
const METADATA_BYTES_MAX: usize = 256;
/// Lanes of one header: an instruction reaches the first 256 bytes of a header and extracts at most 255
/// (`struct instr_operand`, `struct instr_io`).
const LANES_PER_HEADER: u32 = 32;

/// Low 24 bits of the ids that only PNA programs have.
pub mod id {
    /// Table `route`: exact on `instance` (the group, or 0) and `port` (the ingress port wanted, or 0 with a group).
    pub const ROUTE: u32 = 0xf1;
    /// Action `routed`, with the port.
    pub const ROUTED: u32 = 0xf1;
    /// Action `unrouted`: the default, which drops.
    pub const UNROUTED: u32 = 0xf2;
}

/// Entries of table `route`.
const ROUTES: u32 = 256;

/// Prints a program. Deterministic: the same program prints the same bytes.
///
/// # Errors
///
/// When the program is not valid, or holds something that a PNA device does not have; see [`Refusal`].
pub fn print(program: &Program) -> Result<String, PrintError> {
    check(program)?;
    refuse(program)?;
    let program = &without_queues(program);
    refuse_metadata(program)?;
    let mut printer = Printer { p: program, fields: Containers::new(program), w: Writer::default() };
    printer.program()?;
    Ok(printer.w.finish())
}

/// The program without egress statements that depend on the queue depth, which a NIC does not provide.
fn without_queues(program: &Program) -> Program {
    let mut program = program.clone();
    let deep = |stmt: &Stmt| {
        matches!(stmt, Stmt::If(cond, _, otherwise)
            if otherwise.is_empty() && cond.mentions(&Expr::Intrinsic(Intrinsic::QueueDepth)))
    };
    program.egress.retain(|stmt| !deep(stmt));
    program
}

/// A construct that this back end does not print.
fn refusal(construct: impl Into<String>, limit: impl Into<String>) -> Refusal {
    Refusal { target: TARGET, construct: construct.into(), limit: limit.into() }
}

fn refuse(program: &Program) -> Result<(), Refusal> {
    if program.ipv4_checksum.is_none() {
        return Err(refusal(
            "datagrams without outer headers",
            "a NIC sees whole frames; use a profile with Ethernet, IPv4 and UDP",
        ));
    }
    if !program.lane_vars.is_empty() || !program.lookups.is_empty() || program.lane_bits() != LANE_BITS {
        return Err(refusal("lane variables, lookups or lanes of 16 bits", "lanes are 32-bit words"));
    }
    let arrays = register_arrays(program);
    if arrays > REGISTER_ARRAYS_MAX {
        return Err(refusal(
            format!(
                "{} lanes a packet, which need {arrays} register and counter arrays",
                program.lane_count()
            ),
            format!("a DPDK pipeline has {REGISTER_ARRAYS_MAX}"),
        ));
    }
    Ok(())
}

/// Refuses a program whose metadata does not fit, with the temporaries that the compiler adds: one of 32 bits for each arithmetic operation
/// of the controls.
fn refuse_metadata(program: &Program) -> Result<(), Refusal> {
    let mut operations = 0;
    for block in [&program.ingress, &program.egress] {
        visit(block, &mut |stmt| {
            operations += match stmt {
                Stmt::Assign(_, value) | Stmt::Unicast(value) | Stmt::Multicast(value) => arithmetic(value),
                Stmt::If(cond, ..) => arithmetic(cond),
                Stmt::Exec { index, .. } => arithmetic(index),
                _ => 0,
            }
        });
    }
    let bits: u32 = program.metadata.iter().map(|meta| meta.bits.next_multiple_of(8)).sum();
    let bytes = bits as usize / 8 + operations * 4;
    if bytes > METADATA_BYTES_MAX {
        return Err(refusal(
            format!(
                "{operations} arithmetic operations in the controls, whose results need {bytes} bytes of metadata"
            ),
            format!("an instruction of a DPDK pipeline reaches {METADATA_BYTES_MAX} bytes"),
        ));
    }
    Ok(())
}

/// Arithmetic operations in an expression, casts included.
fn arithmetic(expr: &Expr) -> usize {
    let own = match expr {
        Expr::Binary(op, ..) => {
            !matches!(op, BinOp::Eq | BinOp::Ne | BinOp::Gt | BinOp::SignedGt | BinOp::Both | BinOp::Either)
        }
        Expr::Complement(_) | Expr::Cast(..) | Expr::Concat(..) => true,
        _ => false,
    };
    usize::from(own) + expr.operands().into_iter().map(arithmetic).sum::<usize>()
}

struct Printer<'a> {
    p: &'a Program,
    fields: Containers,
    w: Writer,
}

impl Printer<'_> {
    fn program(&mut self) -> Result<(), Refusal> {
        self.w.line(format!("// {}: {}.", self.p.name, self.p.about));
        self.w.line("// Leaf reducer for a NIC: reduces and forwards, no multicast. Generated; do not edit.");
        self.w.line("#include <core.p4>");
        self.w.line("#include <pna.p4>");
        self.w.line("");
        // The variables that the controls use are known after these are written.
        let head = std::mem::take(&mut self.w);
        self.parser()?;
        self.main()?;
        self.deparser();
        let body = std::mem::replace(&mut self.w, head).finish();
        let unused = self.unused(&body);
        self.types(&unused);
        for line in body.lines().filter(|line| !unused.iter().any(|name| line.trim() == zeroed(name))) {
            self.w.raw(line);
        }
        self.w
            .line("PNA_NIC(MainParserImpl(), PreControlImpl(), MainControlImpl(), MainDeparserImpl()) main;");
        Ok(())
    }

    /// Name of a lane's field, below `hdr`.
    fn lane(&self, lane: u32) -> String {
        let name = self.p.lanes.as_ref().map_or("", |lanes| lanes.name.as_str());
        format!("{name}_{}.d{lane:02}", lane / LANES_PER_HEADER)
    }

    /// Instances that hold the lanes, in wire order, and how many each.
    fn lane_headers(&self) -> Vec<(String, u32)> {
        let Some(lanes) = &self.p.lanes else { return vec![] };
        let parts = lanes.count.div_ceil(LANES_PER_HEADER);
        (0..parts)
            .map(|i| {
                (format!("{}_{i}", lanes.name), (lanes.count - i * LANES_PER_HEADER).min(LANES_PER_HEADER))
            })
            .collect()
    }

    /// Variables that are only set to zero.
    fn unused(&self, body: &str) -> Vec<String> {
        let uses = |name: &str| body.matches(&format!("meta.{name}")).count();
        let zeroes = |name: &str| body.matches(&zeroed(name)).count();
        let names = self.p.metadata.iter().map(|meta| meta.name.clone());
        names.filter(|name| uses(name) == zeroes(name)).collect()
    }

    fn types(&mut self, unused: &[String]) {
        for (i, header) in self.p.headers.iter().enumerate() {
            self.w.open(format!("header {}_t {{", header.name));
            for container in self.fields.of(HeaderId(i as u16)) {
                self.w.line(format!("bit<{}> {};", container.bits, container.name));
            }
            self.w.close("}");
            self.w.line("");
        }
        let parts = self.lane_headers();
        for (i, (name, count)) in parts.iter().enumerate() {
            self.w.open(format!("header {name}_t {{"));
            for lane in 0..*count {
                self.w.line(format!("bit<{LANE_BITS}> d{:02};", i as u32 * LANES_PER_HEADER + lane));
            }
            self.w.close("}");
            self.w.line("");
        }
        self.w.open("struct headers_t {");
        for name in self.p.headers.iter().map(|h| &h.name).chain(parts.iter().map(|(name, _)| name)) {
            self.w.line(format!("{name}_t {name};"));
        }
        self.w.close("}");
        self.w.line("");
        self.w.open("struct metadata_t {");
        for meta in self.p.metadata.iter().filter(|meta| !unused.contains(&meta.name)) {
            self.w.line(format!("bit<{}> {};", expr::bytes(meta.bits), meta.name));
        }
        let copied: Vec<_> = self
            .copied_keys()
            .iter()
            .map(|(table, key, bits)| format!("bit<{bits}> {};", key_name(table, key)))
            .collect();
        copied.into_iter().for_each(|line| self.w.line(line));
        self.w.line("// Where the packet goes, and scratch.");
        self.w.line("bit<16> x_instance;");
        self.w.line("bit<16> x_port;");
        self.w.line("bit<8> x_send;");
        self.w.line("bit<8> x_old0_8;");
        self.w.line("bit<8> x_new0_8;");
        self.w.line("bit<16> x_swap16;");
        self.w.line("bit<48> x_swap48;");
        self.w.line("bit<16> x_sum;");
        self.w.line("bit<8> x_cond0;");
        self.w.line("bit<8> x_cond1;");
        for name in ["x_old0", "x_old1", "x_new0", "x_new1", "x_swap32"] {
            self.w.line(format!("bit<32> {name};"));
        }
        self.w.close("}");
        self.w.line("");
    }

    /// Key fields that come from headers: copied to metadata, since a DPDK table's key lies in one structure.
    fn copied_keys(&self) -> Vec<(&Table, Key, u32)> {
        let fields = |table: &&Table| table.keys.iter().any(|key| matches!(key.value, Expr::Field(..)));
        let bits = |key: &Key| expr::bytes(crate::check::width(self.p, &key.value, &[], &[]));
        let tables = self.p.tables.iter().filter(fields);
        tables
            .flat_map(|table| table.keys.iter().map(move |key| (table, key.clone(), bits(key))))
            .filter(|(_, key, _)| !matches!(key.value, Expr::Meta(_)))
            .collect()
    }

    /// Copies a header's key fields as soon as it is parsed. (At the table's application, the back end would see through the
    /// copy, find keys of two structures, and copy them again with a warning.)
    fn copy_keys(&mut self, part: Part) -> Result<(), Refusal> {
        let copied: Vec<_> = self
            .copied_keys()
            .into_iter()
            .map(|(table, key, _)| (key_name(table, &key), key.value))
            .collect();
        for (name, value) in copied {
            let Expr::Field(header, _) = value else {
                return Err(refusal("a key that is neither a field nor metadata", "fields and metadata"));
            };
            if self.assigned_before_tables(header) {
                return Err(refusal(
                    "a key field that changes before its table",
                    "keys are copied on arrival",
                ));
            }
            if part == Part::Header(header) {
                let value = self.value(&value, &expr::Names::default())?;
                self.w.line(format!("meta.{name} = {};", value.bare()));
            }
        }
        Ok(())
    }

    /// Whether the ingress block changes a field of the header before its last table.
    fn assigned_before_tables(&self, header: HeaderId) -> bool {
        let (mut changed, mut bad) = (false, false);
        visit(&self.p.ingress, &mut |stmt| match stmt {
            Stmt::Assign(LValue::Field(other, _), _) => changed |= *other == header,
            Stmt::Apply(_) => bad |= changed,
            _ => {}
        });
        bad
    }

    fn parser(&mut self) -> Result<(), Refusal> {
        self.w.line("control PreControlImpl(");
        self.w.line("    in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,");
        self.w.open("    inout pna_pre_output_metadata_t ostd) {");
        self.w.line("apply { }");
        self.w.close("}");
        self.w.line("");
        self.w.line("parser MainParserImpl(");
        self.w.line("    packet_in pkt, out headers_t hdr, inout metadata_t meta,");
        self.w.open("    in pna_main_parser_input_metadata_t istd) {");
        for state in &self.p.parser.states {
            self.w.open(format!("state {} {{", state.name));
            if state.name == "start" {
                // Variables start at zero. The port is taken here so that no expression is carried into the control.
                let names = self.p.metadata.iter().map(|meta| meta.name.as_str());
                for name in names.chain(["x_instance", "x_port", "x_send"]) {
                    self.w.line(zeroed(name));
                }
                if let Some(Stmt::Assign(port, Expr::Intrinsic(Intrinsic::IngressPort))) =
                    self.p.ingress.first()
                {
                    let port = self.read(*port);
                    self.w.line(format!("{port} = (bit<16>)(PortIdUint_t)istd.input_port;"));
                }
            }
            for part in &state.extract {
                for name in self.part_names(*part) {
                    self.w.line(format!("pkt.extract(hdr.{name});"));
                }
                self.copy_keys(*part)?;
            }
            match &state.next {
                Next::Accept => self.w.line("transition accept;"),
                Next::Select { on, cases, otherwise } => self.select(on, cases, *otherwise),
            }
            self.w.close("}");
        }
        self.w.close("}");
        self.w.line("");
        Ok(())
    }

    fn part_names(&self, part: Part) -> Vec<String> {
        match part {
            Part::Header(header) => vec![self.p.header(header).name.clone()],
            Part::Lanes => self.lane_headers().into_iter().map(|(name, _)| name).collect(),
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
            format!("hdr.{}.{}", self.p.header(column.header).name, container.name)
        });
        let head = format!("transition select({}) {{", joined(keys, ", "));
        let name = |state: StateId| self.p.parser.states[usize::from(state.0)].name.clone();
        let row = |i: usize, target: StateId| {
            let values = columns.iter().zip(&containers).map(|(column, container)| {
                let (value, mask) = column.cases[i];
                let all = if container.bits == 64 { u64::MAX } else { (1 << container.bits) - 1 };
                if mask == all { format!("{value:#x}") } else { format!("{value:#x} &&& {mask:#x}") }
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

    fn main(&mut self) -> Result<(), Refusal> {
        self.w.line("control MainControlImpl(");
        self.w.line("    inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,");
        self.w.open("    inout pna_main_output_metadata_t ostd) {");
        self.state();
        self.touches()?;
        self.w.line("InternetChecksum() ipv4_sum;");
        self.w.line("");
        let tables: Vec<_> = applied(&self.p.ingress).into_iter().chain(applied(&self.p.egress)).collect();
        self.tables(&tables)?;
        self.route();
        self.w.open("apply {");
        let ipv4 = self.p.ipv4_checksum.map(|header| self.p.header(header).name.clone());
        if let Some(ipv4) = &ipv4 {
            self.w.open(format!("if (hdr.{ipv4}.isValid()) {{"));
            self.sum(ipv4);
            self.w.close("}");
        }
        let arrival =
            matches!(self.p.ingress.first(), Some(Stmt::Assign(_, Expr::Intrinsic(Intrinsic::IngressPort))));
        self.block(&self.p.ingress[usize::from(arrival)..])?;
        self.w.line("// What a switch does to each copy.");
        self.w.open("if (meta.x_instance != 0) {");
        self.block(&self.p.egress)?;
        self.w.close("}");
        self.w.open("if (meta.x_send == 1) {");
        self.w.line("route.apply();");
        self.w.close("}");
        if let Some(ipv4) = &ipv4 {
            self.w.open(format!("if (hdr.{ipv4}.isValid()) {{"));
            self.w.line(format!("hdr.{ipv4}.checksum = 0;"));
            self.sum(ipv4);
            self.w.line(format!("hdr.{ipv4}.checksum = meta.x_sum;"));
            self.w.close("}");
        }
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
        Ok(())
    }

    /// The Internet checksum of a header: 0 over a correct one, which some targets write as 0xffff.
    fn sum(&mut self, header: &str) {
        self.w.line("ipv4_sum.clear();");
        self.w.line(format!("ipv4_sum.add(hdr.{header});"));
        self.w.line("meta.x_sum = ipv4_sum.get();");
    }

    fn state(&mut self) {
        for register in &self.p.registers {
            for (i, (name, bits)) in self.arrays(register).into_iter().enumerate() {
                let id = object_id::register_id(register.id + i as u32);
                self.w.line(format!(
                    "@id({id:#010x}) Register<bit<{bits}>, bit<32>>({}) {name};",
                    register.size
                ));
            }
        }
        for counter in &self.p.counters {
            let id = object_id::counter_id(counter.id);
            self.w.line(format!(
                "@id({id:#010x}) Counter<bit<32>, bit<32>>({}, PNA_CounterType_t.PACKETS) {};",
                counter.size, counter.name
            ));
        }
        self.w.line("");
    }

    fn tables(&mut self, tables: &[TableId]) -> Result<(), Refusal> {
        let actions: std::collections::BTreeSet<ActionId> =
            tables.iter().flat_map(|table| self.p.table(*table).actions.clone()).collect();
        for action in actions {
            let action = self.p.action(action).clone();
            let params =
                action.params.iter().enumerate().map(|(i, field)| {
                    format!("@id({}) bit<{}> {}", i + 1, expr::bytes(field.bits), field.name)
                });
            self.w.line(format!("@id({:#010x})", object_id::action_id(action.id)));
            self.w.open(format!("action {}({}) {{", action.name, joined(params, ", ")));
            for stmt in &action.body {
                let Stmt::Assign(place, value) = stmt else { continue };
                for line in self.assign(*place, value, &expr::Names::action(&action.params))? {
                    self.w.line(line);
                }
            }
            self.w.close("}");
            self.w.line("");
        }
        tables.iter().try_for_each(|table| self.table(*table))
    }

    fn table(&mut self, table: TableId) -> Result<(), Refusal> {
        let table = self.p.table(table).clone();
        self.w.line(format!("@id({:#010x})", object_id::table_id(table.id)));
        self.w.open(format!("table {} {{", table.name));
        self.w.open("key = {");
        for key in &table.keys {
            let kind = match key.kind {
                MatchKind::Exact => "exact",
                MatchKind::Ternary => "ternary",
            };
            let value = match &key.value {
                Expr::Meta(meta) => self.read(LValue::Meta(*meta)),
                _ => format!("meta.{}", key_name(&table, key)),
            };
            self.w.line(format!("{value}: {kind} @id({}) @name(\"{}\");", key.id, key.name));
        }
        self.w.close("}");
        self.w.open("actions = {");
        for action in &table.actions {
            self.w.line(format!("{};", self.p.action(*action).name));
        }
        self.w.close("}");
        let (default, args) = &table.default;
        let args = joined(args.iter().map(|arg| format!("{arg:#x}")), ", ");
        self.w.line(format!("const default_action = {}({args});", self.p.action(*default).name));
        self.w.line(format!("size = {};", table.size));
        self.w.close("}");
        self.w.line("");
        Ok(())
    }

    fn block(&mut self, block: &[Stmt]) -> Result<(), Refusal> {
        let control = expr::Names::default();
        let mut rest = block;
        while let [stmt, after @ ..] = rest {
            rest = after;
            if let Some((a, b)) = swap(self.p, stmt, rest) {
                self.swap(a, b);
                rest = &rest[2..];
                continue;
            }
            match stmt {
                Stmt::Assign(place, value) => {
                    for line in self.assign(*place, value, &control)? {
                        self.w.line(line);
                    }
                }
                Stmt::AssignLane(..) => {
                    return Err(refusal("assignment to every lane", "only registers access lanes"));
                }
                Stmt::If(cond, then, otherwise) => {
                    let cond = self.condition(cond)?;
                    self.w.open(format!("if {cond} {{"));
                    self.block(then)?;
                    if !otherwise.is_empty() {
                        self.w.turn("} else {");
                        self.block(otherwise)?;
                    }
                    self.w.close("}");
                }
                Stmt::Apply(table) => {
                    let line = format!("{}.apply();", self.p.table(*table).name);
                    self.w.line(line);
                }
                Stmt::Exec { register, action, index, output } => {
                    let site = (*register, *action, *output, index.clone());
                    self.call(&site)?;
                }
                Stmt::Count(counter, index) => {
                    let name = &self.p.counters[usize::from(counter.0)].name;
                    let index = self.value(&index.clone().cast(32), &control)?;
                    self.w.line(format!("{name}.count({});", index.bare()));
                }
                Stmt::Remove(part) => {
                    for name in self.part_names(*part) {
                        self.w.line(format!("hdr.{name}.setInvalid();"));
                    }
                }
                Stmt::AddLanes => {
                    for (name, _) in self.lane_headers() {
                        self.w.line(format!("hdr.{name}.setValid();"));
                    }
                    for lane in 0..self.p.lane_count() {
                        let place = self.lane(lane);
                        self.w.line(format!("hdr.{place} = 0;"));
                    }
                }
                Stmt::Unicast(port) => self.send("x_port", port)?,
                Stmt::Multicast(group) => self.send("x_instance", group)?,
                Stmt::Drop => self.w.line("drop_packet();"),
                Stmt::Priority(class) => {
                    let class = self.value(&class.clone().cast(8), &control)?;
                    self.w.line(format!("ostd.class_of_service = (ClassOfService_t){};", class.text));
                }
            }
        }
        Ok(())
    }

    /// Swaps two fields through a variable of their width: a narrowing cast would cost the back end three variables.
    fn swap(&mut self, a: LValue, b: LValue) {
        let bits = match a {
            LValue::Field(header, field) => self.fields.container(header, field).bits,
            LValue::Meta(meta) => expr::bytes(self.p.metadata[usize::from(meta.0)].bits),
        };
        let scratch = format!("meta.x_swap{bits}");
        let (a, b) = (self.read(a), self.read(b));
        self.w.line(format!("{scratch} = {a};"));
        self.w.line(format!("{a} = {b};"));
        self.w.line(format!("{b} = {scratch};"));
    }

    fn send(&mut self, key: &str, value: &Expr) -> Result<(), Refusal> {
        let value = self.value(&value.clone().cast(16), &expr::Names::default())?;
        self.w.line(format!("meta.{key} = {};", value.bare()));
        self.w.line("meta.x_send = 1;");
        Ok(())
    }

    /// The table that replaces ports computed by the program and multicast groups.
    fn route(&mut self) {
        self.w.line(format!("@id({:#010x})", object_id::action_id(id::ROUTED)));
        self.w.open("action routed(@id(1) PortId_t port) {");
        self.w.line("send_to_port(port);");
        self.w.close("}");
        self.w.line("");
        self.w.line(format!("@id({:#010x})", object_id::action_id(id::UNROUTED)));
        self.w.open("action unrouted() {");
        self.w.line("drop_packet();");
        self.w.close("}");
        self.w.line("");
        self.w.line(format!("@id({:#010x})", object_id::table_id(id::ROUTE)));
        self.w.open("table route {");
        self.w.open("key = {");
        self.w.line("meta.x_instance: exact @id(1) @name(\"instance\");");
        self.w.line("meta.x_port: exact @id(2) @name(\"port\");");
        self.w.close("}");
        self.w.open("actions = {");
        self.w.line("routed;");
        self.w.line("unrouted;");
        self.w.close("}");
        self.w.line("const default_action = unrouted();");
        self.w.line(format!("size = {ROUTES};"));
        self.w.close("}");
        self.w.line("");
    }

    fn deparser(&mut self) {
        self.w.line("control MainDeparserImpl(");
        self.w.line("    packet_out pkt, in headers_t hdr, in metadata_t meta,");
        self.w.open("    in pna_main_output_metadata_t ostd) {");
        self.w.open("apply {");
        for part in &self.p.deparser {
            for name in self.part_names(*part) {
                self.w.line(format!("pkt.emit(hdr.{name});"));
            }
        }
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
    }
}

/// The fields that three statements swap through a variable, if 16, 32 or 48 bits wide.
fn swap(program: &Program, first: &Stmt, rest: &[Stmt]) -> Option<(LValue, LValue)> {
    let plain = |value: &Expr| match value {
        Expr::Cast(_, inner) => (**inner).clone(),
        other => other.clone(),
    };
    let [Stmt::Assign(to, from), Stmt::Assign(last, kept), ..] = rest else { return None };
    let Stmt::Assign(variable @ LValue::Meta(_), value) = first else { return None };
    let (LValue::Field(header, field), LValue::Field(other, second)) = (to, last) else { return None };
    let bits = program.field(*header, *field).bits;
    (plain(value) == to.value()
        && *from == last.value()
        && plain(kept) == variable.value()
        && matches!(bits, 16 | 32 | 48)
        && program.field(*other, *second).bits == bits)
        .then_some((*to, *last))
}

fn zeroed(name: &str) -> String {
    format!("meta.{name} = 0;")
}

/// The metadata that holds a table's copied key field.
fn key_name(table: &Table, key: &Key) -> String {
    format!("x_{}_{}", table.name, key.name)
}
