//! Prints a program as P4_16 for the v1model architecture: bmv2's `simple_switch` and `simple_switch_grpc`.
//!
//! All register accesses happen in ingress, which bmv2 runs in one thread; each register action becomes one P4 action,
//! whose body bmv2 executes with its registers locked. Lanes are unrolled: field `d00` and register `sum_00` for the
//! first, and so on. Every table, action, register and counter carries the `@id` that [`crate::p4info`] publishes.

mod expr;
mod lanes;

use std::collections::BTreeSet;

use crate::check::{CheckError, check};
use crate::ir::*;
use crate::object_id;
use crate::writer::{Writer, joined};
use expr::Names;

/// Prints a program. Deterministic: the same program prints the same bytes.
///
/// # Errors
///
/// When the program is not valid.
pub fn print(program: &Program) -> Result<String, CheckError> {
    check(program)?;
    let program = &without_congestion_marks(program);
    let mut printer = Printer { p: program, w: Writer::default() };
    printer.program();
    Ok(printer.w.finish())
}

/// The program without ingress statements that need a congestion mark from the transport, which bmv2 does not have.
fn without_congestion_marks(program: &Program) -> Program {
    let mut program = program.clone();
    let is_marked = |stmt: &Stmt| {
        matches!(stmt, Stmt::If(cond, _, otherwise)
            if otherwise.is_empty() && cond.mentions(&Expr::Intrinsic(Intrinsic::CongestionMark)))
    };
    program.ingress.retain(|stmt| !is_marked(stmt));
    program
}

/// Digits of a lane number.
pub(crate) fn lane_digits(program: &Program) -> usize {
    (program.lane_count().saturating_sub(1)).to_string().len().max(2)
}

struct Printer<'a> {
    p: &'a Program,
    w: Writer,
}

impl Printer<'_> {
    fn program(&mut self) {
        self.w.line(format!("// {}: {}.", self.p.name, self.p.about));
        self.w.line("// Generated; do not edit.");
        self.w.line("#define V1MODEL_VERSION 20200408");
        self.w.line("#include <core.p4>");
        self.w.line("#include <v1model.p4>");
        self.w.line("");
        self.types();
        self.parser();
        self.ingress();
        self.egress();
        self.checksums();
        self.deparser();
        self.w.line("V1Switch(");
        self.w.line("    ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()");
        self.w.line(") main;");
    }

    fn lane_names(&self) -> Vec<String> {
        let digits = lane_digits(self.p);
        (0..self.p.lane_count()).map(|lane| format!("{lane:0digits$}")).collect()
    }

    fn types(&mut self) {
        for header in &self.p.headers {
            self.w.open(format!("header {}_t {{", header.name));
            for field in &header.fields {
                self.w.line(format!("bit<{}> {};", field.bits, field.name));
            }
            self.w.close("}");
            self.w.line("");
        }
        if let Some(lanes) = &self.p.lanes {
            self.w.open(format!("header {}_t {{", lanes.name));
            for lane in self.lane_names() {
                self.w.line(format!("bit<{}> d{lane};", lanes.bits));
            }
            self.w.close("}");
            self.w.line("");
        }
        self.w.open("struct headers_t {");
        for header in &self.p.headers {
            self.w.line(format!("{0}_t {0};", header.name));
        }
        if let Some(lanes) = &self.p.lanes {
            self.w.line(format!("{0}_t {0};", lanes.name));
        }
        self.w.close("}");
        self.w.line("");
        self.w.open("struct metadata_t {");
        for meta in &self.p.metadata {
            self.w.line(format!("bit<{}> {};", meta.bits, meta.name));
        }
        for var in &self.p.lane_vars {
            for lane in self.lane_names() {
                self.w.line(format!("bit<{}> {}_{lane};", var.bits, var.name));
            }
        }
        self.w.close("}");
        self.w.line("");
    }

    fn part(&self, part: Part) -> String {
        match part {
            Part::Header(header) => format!("hdr.{}", self.p.header(header).name),
            Part::Lanes => format!("hdr.{}", self.p.lanes.as_ref().map_or("", |lanes| lanes.name.as_str())),
        }
    }

    fn parser(&mut self) {
        self.w.line("parser ParserImpl(");
        self.w.line("    packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata");
        self.w.open(") {");
        for state in &self.p.parser.states {
            self.w.open(format!("state {} {{", state.name));
            for part in &state.extract {
                self.w.line(format!("pkt.extract({});", self.part(*part)));
            }
            match &state.next {
                Next::Accept => self.w.line("transition accept;"),
                Next::Select { on, cases, otherwise } => self.select(on, cases, *otherwise),
            }
            self.w.close("}");
        }
        self.w.close("}");
        self.w.line("");
    }

    fn select(
        &mut self,
        on: &[(HeaderId, u16)],
        cases: &[(Vec<(u64, u64)>, StateId)],
        otherwise: Option<StateId>,
    ) {
        let name = |state: StateId| self.p.parser.states[usize::from(state.0)].name.clone();
        let fields = on.iter().map(|(header, field)| {
            format!("hdr.{}.{}", self.p.header(*header).name, self.p.field(*header, *field).name)
        });
        let head = format!("transition select({}) {{", joined(fields, ", "));
        let rows: Vec<String> = cases
            .iter()
            .map(|(values, target)| {
                let values = on.iter().zip(values).map(|((header, field), (value, mask))| {
                    let bits = self.p.field(*header, *field).bits;
                    let all = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
                    let (value, mask) = (value & all, mask & all);
                    if mask == all { format!("{value:#x}") } else { format!("{value:#x} &&& {mask:#x}") }
                });
                let values: Vec<_> = values.collect();
                let set =
                    if values.len() == 1 { values[0].clone() } else { format!("({})", values.join(", ")) };
                format!("{set}: {};", name(*target))
            })
            .collect();
        let last = format!("default: {};", otherwise.map_or_else(|| "accept".to_string(), name));
        self.w.open(head);
        rows.into_iter().for_each(|row| self.w.line(row));
        self.w.line(last);
        self.w.close("}");
    }

    fn ingress(&mut self) {
        self.w.line("control IngressImpl(");
        self.w.line(
            "    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata",
        );
        self.w.open(") {");
        self.registers();
        for counter in &self.p.counters {
            let id = object_id::counter_id(counter.id);
            self.w.line(format!(
                "@id({id:#010x}) counter<bit<32>>({}, CounterType.packets) {};",
                counter.size, counter.name
            ));
        }
        self.w.line("");
        let sites = sites(&self.p.ingress);
        for (register, action, output, index) in &sites {
            self.register_action(*register, *action, *output, index);
        }
        self.lane_steps();
        let tables = applied(&self.p.ingress);
        self.tables(&tables);
        self.w.open("apply {");
        // A packet without a destination is dropped; without this it would leave through port 0.
        self.w.line("mark_to_drop(standard_metadata);");
        self.block(&self.p.ingress);
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
    }

    fn egress(&mut self) {
        self.w.line("control EgressImpl(");
        self.w.line(
            "    inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata",
        );
        self.w.open(") {");
        let tables = applied(&self.p.egress);
        self.tables(&tables);
        self.w.open("apply {");
        self.block(&self.p.egress);
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
    }

    fn registers(&mut self) {
        for register in &self.p.registers {
            match &register.kind {
                RegisterKind::Cells(cells) => {
                    for (i, cell) in cells.iter().enumerate() {
                        let id = object_id::register_id(register.id + i as u32);
                        let name = format!("{}_{}", register.name, cell.name);
                        self.w.line(format!(
                            "@id({id:#010x}) register<bit<{}>, bit<32>>({}) {name};",
                            cell.bits, register.size
                        ));
                    }
                }
                RegisterKind::Lanes(bits) => {
                    for (i, lane) in self.lane_names().iter().enumerate() {
                        let id = object_id::register_id(register.id + i as u32);
                        self.w.line(format!(
                            "@id({id:#010x}) register<bit<{bits}>, bit<32>>({}) {}_{lane};",
                            register.size, register.name
                        ));
                    }
                }
            }
        }
    }

    fn action_name(&self, register: RegisterId, action: u16, output: Output) -> String {
        let register = self.p.register(register);
        let suffix = match output {
            Output::None => String::new(),
            Output::LaneVar(var) => format!("_to_{}", self.p.lane_var(var).name),
            _ => "_out".into(),
        };
        format!("{}_{}{suffix}", register.name, register.actions[usize::from(action)].name)
    }

    /// One P4 action for a register action: read, compute, write, output.
    fn register_action(&mut self, id: RegisterId, action: u16, output: Output, index: &Expr) {
        let register = self.p.register(id).clone();
        let name = self.action_name(id, action, output);
        let action = &register.actions[usize::from(action)];
        self.w.line("@hidden");
        self.w.open(format!("action {name}() {{"));
        match &register.kind {
            RegisterKind::Cells(cells) => {
                for (i, cell) in cells.iter().enumerate().filter(|(i, _)| action.reads(*i as u8)) {
                    self.w.line(format!("bit<{}> old{i};", cell.bits));
                    let index = self.expr(index, Names::control());
                    self.w.line(format!("{}_{}.read(old{i}, {index});", register.name, cell.name));
                }
                let cells: Vec<_> = cells
                    .iter()
                    .map(|cell| (format!("{}_{}", register.name, cell.name), cell.bits))
                    .collect();
                self.touch(action, &cells, output, index, None);
            }
            RegisterKind::Lanes(bits) => {
                let bits = *bits;
                if action.reads(0) {
                    self.w.line(format!("bit<{bits}> old0;"));
                }
                for lane in self.lane_names() {
                    let cell = format!("{}_{lane}", register.name);
                    let field = format!("{}.d{lane}", self.part(Part::Lanes));
                    if action.reads(0) {
                        let index = self.expr(index, Names::control());
                        self.w.line(format!("{cell}.read(old0, {index});"));
                    }
                    self.touch(action, &[(cell, bits)], output, index, Some((&field, &lane)));
                }
            }
        }
        self.w.close("}");
        self.w.line("");
    }

    /// Computes new cells and the output, then writes both.
    fn touch(
        &mut self,
        action: &RegAction,
        cells: &[(String, u32)],
        output: Output,
        index: &Expr,
        lane: Option<(&str, &str)>,
    ) {
        let fields: Vec<_> = cells.iter().map(|(_, bits)| *bits).collect();
        let names = Names::register(action, &fields, lane);
        let index = self.expr(index, Names::control());
        let mut new = names.clone();
        for (cell, cases) in &action.updates {
            let (cell_name, _) = &cells[usize::from(*cell)];
            let old = format!("old{cell}");
            let value = self.cases(cases, &old, &names);
            self.w.line(format!("{cell_name}.write({index}, {});", bare(&value)));
            new.set_new(*cell, value);
        }
        let target = match output {
            Output::None => return,
            Output::Place(place) => self.place(place),
            Output::Lanes => lane.unwrap_or_default().0.to_string(),
            Output::LaneVar(var) => self.lane_var(var, lane.unwrap_or_default().1),
        };
        let zero = format!("{}w0", cells[0].1);
        let value = self.cases(&action.output, &zero, &new);
        if value != target {
            self.w.line(format!("{target} = {};", bare(&value)));
        }
    }

    fn cases(&self, cases: &[Case], otherwise: &str, names: &Names<'_>) -> String {
        let mut text = otherwise.to_string();
        for case in cases.iter().rev() {
            let value = self.expr(&case.value, names.clone());
            text = match &case.when {
                None => value,
                Some(when) => format!("({} ? {value} : {text})", self.expr(when, names.clone())),
            };
        }
        text
    }

    fn tables(&mut self, tables: &[TableId]) {
        let actions: BTreeSet<ActionId> =
            tables.iter().flat_map(|table| self.p.table(*table).actions.clone()).collect();
        for action in actions {
            let action = self.p.action(action).clone();
            let params = action.params.iter().enumerate();
            let params =
                joined(params.map(|(i, f)| format!("@id({}) bit<{}> {}", i + 1, f.bits, f.name)), ", ");
            self.w.line(format!("@id({:#010x})", object_id::action_id(action.id)));
            self.w.open(format!("action {}({params}) {{", action.name));
            for stmt in &action.body {
                if let Stmt::Assign(place, value) = stmt {
                    let value = self.expr(value, Names::action(&action.params));
                    let line = format!("{} = {value};", self.place(*place));
                    self.w.line(line);
                }
            }
            self.w.close("}");
            self.w.line("");
        }
        for table in tables {
            self.table(*table);
        }
    }

    fn table(&mut self, table: TableId) {
        let table = self.p.table(table).clone();
        self.w.line(format!("@id({:#010x})", object_id::table_id(table.id)));
        self.w.open(format!("table {} {{", table.name));
        self.w.open("key = {");
        for key in &table.keys {
            let kind = match key.kind {
                MatchKind::Exact => "exact",
                MatchKind::Ternary => "ternary",
            };
            let value = self.expr(&key.value, Names::control());
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
    }

    fn block(&mut self, block: &[Stmt]) {
        for stmt in block {
            match stmt {
                Stmt::Assign(place, value) => {
                    let value = self.expr(value, Names::control());
                    let line = format!("{} = {};", self.place(*place), bare(&value));
                    self.w.line(line);
                }
                Stmt::AssignLane(..) => self.lane_step(stmt),
                Stmt::If(cond, then, otherwise) => {
                    self.w.open(format!("if {} {{", self.condition(cond)));
                    self.branches(then, otherwise);
                }
                Stmt::Apply(table) => self.w.line(format!("{}.apply();", self.p.table(*table).name)),
                Stmt::Exec { register, action, output, .. } => {
                    self.w.line(format!("{}();", self.action_name(*register, *action, *output)));
                }
                Stmt::Count(counter, index) => {
                    let name = &self.p.counters[usize::from(counter.0)].name;
                    let line = format!("{name}.count({});", self.expr(index, Names::control()));
                    self.w.line(line);
                }
                Stmt::Remove(part) => self.w.line(format!("{}.setInvalid();", self.part(*part))),
                Stmt::AddLanes => self.add_lanes(),
                Stmt::Unicast(port) => {
                    let port = self.expr(&port.clone().cast(9), Names::control());
                    self.w.line(format!("standard_metadata.egress_spec = {port};"));
                }
                Stmt::Multicast(group) => {
                    let group = self.expr(group, Names::control());
                    self.w.line(format!("standard_metadata.mcast_grp = {group};"));
                }
                Stmt::Drop => self.w.line("mark_to_drop(standard_metadata);"),
                Stmt::Priority(class) => {
                    let class = self.expr(class, Names::control());
                    self.w.line(format!("standard_metadata.priority = {class};"));
                }
            }
        }
    }

    fn condition(&self, cond: &Expr) -> String {
        let text = self.expr(cond, Names::control());
        if outer_parentheses(&text) { text } else { format!("({text})") }
    }

    /// The rest of an `if` whose head is written; an `else` with another `if` stays at the same level.
    fn branches(&mut self, then: &[Stmt], otherwise: &[Stmt]) {
        self.block(then);
        match otherwise {
            [] => self.w.close("}"),
            [Stmt::If(cond, then, otherwise)] => {
                self.w.turn(format!("}} else if {} {{", self.condition(cond)));
                self.branches(then, otherwise);
            }
            block => {
                self.w.turn("} else {");
                self.block(block);
                self.w.close("}");
            }
        }
    }

    fn checksums(&mut self) {
        for (name, call) in
            [("VerifyChecksumImpl", "verify_checksum"), ("ComputeChecksumImpl", "update_checksum")]
        {
            self.w.open(format!("control {name}(inout headers_t hdr, inout metadata_t meta) {{"));
            self.w.open("apply {");
            if let Some(header) = self.p.ipv4_checksum {
                let h = self.p.header(header);
                let fields = h.fields.iter().filter(|field| field.name != "checksum");
                let fields = joined(fields.map(|field| format!("hdr.{}.{}", h.name, field.name)), ", ");
                self.w.line(format!("{call}("));
                self.w.line(format!("    hdr.{}.isValid(),", h.name));
                self.w.line(format!("    {{ {fields} }},"));
                self.w.line(format!("    hdr.{}.checksum, HashAlgorithm.csum16);", h.name));
            }
            self.w.close("}");
            self.w.close("}");
            self.w.line("");
        }
    }

    fn deparser(&mut self) {
        self.w.open("control DeparserImpl(packet_out pkt, in headers_t hdr) {");
        self.w.open("apply {");
        for part in &self.p.deparser {
            self.w.line(format!("pkt.emit({});", self.part(*part)));
        }
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
    }
}

/// Whether one pair of parentheses encloses the whole text.
fn outer_parentheses(text: &str) -> bool {
    let mut depth = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    });
    text.starts_with('(') && end == Some(text.len() - 1)
}

/// The text without a pair of parentheses that encloses it whole.
pub(crate) fn bare(text: &str) -> &str {
    if outer_parentheses(text) { &text[1..text.len() - 1] } else { text }
}

/// Every distinct register access of a block, in order of appearance.
fn sites(block: &[Stmt]) -> Vec<(RegisterId, u16, Output, Expr)> {
    let mut found: Vec<(RegisterId, u16, Output, Expr)> = Vec::new();
    visit(block, &mut |stmt| {
        if let Stmt::Exec { register, action, index, output } = stmt {
            let site = (*register, *action, *output, index.clone());
            if !found.contains(&site) {
                found.push(site);
            }
        }
    });
    found
}

/// Tables that a block applies, in order of appearance.
pub(crate) fn applied(block: &[Stmt]) -> Vec<TableId> {
    let mut found = Vec::new();
    visit(block, &mut |stmt| {
        if let Stmt::Apply(table) = stmt {
            found.push(*table);
        }
    });
    found
}

pub(crate) fn visit(block: &[Stmt], each: &mut impl FnMut(&Stmt)) {
    for stmt in block {
        each(stmt);
        if let Stmt::If(_, then, otherwise) = stmt {
            visit(then, each);
            visit(otherwise, each);
        }
    }
}
