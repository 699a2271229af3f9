//! The per-packet functions: parser, control flow, write-back.

use std::collections::BTreeSet;

use super::expr::Env;
use super::layout::{TableLayout, checksum_field};
use super::runs::{Block, expressions, implies_lanes, parts};
use super::{Generator, camel, native};
use crate::ir::*;
use crate::writer::joined;

impl Generator<'_> {
    pub(super) fn packet(&mut self) {
        self.w.line("#[inline(always)]");
        self.w.line("#[allow(unused, clippy::all, reason = \"generated\")]");
        let mark = if self.layout.congestion_marks { ", congestion_mark: bool" } else { "" };
        let length = if self.layout.grows { ", length: usize" } else { "" };
        self.w.open(format!(
            "fn packet(state: &mut Program, port: u16{mark}, data: &mut [u8]{length}) -> rt::Verdict {{"
        ));
        if !self.layout.grows {
            self.w.line("let length = data.len();");
        }
        if self.layout.grows {
            self.w.line("let mut added = false;");
        }
        self.prologue();
        self.w.line("let mut send = rt::Send::Drop;");
        let block = self.p.ingress.clone();
        self.block(&block, false, "return rt::Verdict::DROP");
        self.w.line("if send == rt::Send::Drop { return rt::Verdict::DROP; }");
        self.finish_checksum();
        self.sent(self.layout.grows);
        self.w.line("rt::Verdict { send, len: sent as u32 }");
        self.w.close("}");
        self.w.line("");
    }

    pub(super) fn egress(&mut self) {
        if self.p.egress.is_empty() {
            return;
        }
        self.w.line("#[allow(unused, clippy::all, reason = \"generated\")]");
        self.w.open(
            "fn egress(state: &mut Program, instance: u16, queue_depth: u32, data: &mut [u8]) -> usize {",
        );
        self.w.line("let length = data.len();");
        self.prologue();
        let block = self.p.egress.clone();
        self.block(&block, false, "return 0");
        self.finish_checksum();
        self.sent(false);
        self.w.line("sent");
        self.w.close("}");
        self.w.line("");
    }

    /// Length of the packet to send: all bytes, or those before a removed part.
    fn sent(&mut self, grows: bool) {
        self.w.line("let mut sent = length;");
        if grows {
            let lanes = self.part_name(Part::Lanes).to_uppercase();
            self.w.line(format!("if added {{ sent = {lanes}_END; }}"));
        }
        for part in self.layout.removed.clone() {
            let name = self.part_name(part);
            self.w.line(format!("if cut_{name} {{ sent = {}_AT; }}", name.to_uppercase()));
        }
    }

    /// Declares the packet's variables and parses.
    fn prologue(&mut self) {
        for meta in &self.p.metadata {
            self.w.line(format!("let mut m_{}: {} = 0;", meta.name, native(meta.bits)));
        }
        for var in self.runs.kept() {
            let var = self.p.lane_var(LaneVarId(var));
            self.w.line(format!("let mut v_{}: [{}; LANES] = [0; LANES];", var.name, native(var.bits)));
        }
        for (part, _) in self.layout.offsets() {
            self.w.line(format!("let mut has_{} = false;", self.part_name(part)));
        }
        for part in self.layout.removed.clone() {
            self.w.line(format!("let mut cut_{} = false;", self.part_name(part)));
        }
        self.w.open("'parser: {");
        self.parser_state(0);
        self.w.close("}");
        self.w.line("let mut checksum_error = false;");
        if let Some(header) = self.p.ipv4_checksum {
            let name = self.part_name(Part::Header(header));
            let at = self.p.header(header).offset_bits(checksum_field(self.p, header)) / 8;
            self.w.line(format!(
                "if has_{name} {{ checksum_error = rt::ipv4_checksum_is_wrong(&data[{u}_AT..{u}_END], {at}); }}",
                u = name.to_uppercase()
            ));
        }
    }

    fn parser_state(&mut self, state: usize) {
        let state = self.p.parser.states[state].clone();
        for part in &state.extract {
            let name = self.part_name(*part);
            let upper = name.to_uppercase();
            self.w.line(format!("if length < {upper}_END {{ break 'parser; }}"));
            self.w.line(format!("has_{name} = true;"));
        }
        let Next::Select { on, cases, otherwise } = &state.next else { return };
        let mut first = true;
        for (values, target) in cases {
            let tests = on.iter().zip(values).map(|((header, field), (value, mask))| {
                let bits = self.p.field(*header, *field).bits;
                let all = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
                let (value, mask, field) = (value & all, mask & all, self.load(*header, *field));
                if mask == all {
                    format!("({field}) == {value:#x}")
                } else {
                    format!("({field}) & {mask:#x} == {:#x}", value & mask)
                }
            });
            let test = joined(tests, " && ");
            if first {
                self.w.open(format!("if {test} {{"));
            } else {
                self.w.turn(format!("}} else if {test} {{"));
            }
            first = false;
            self.parser_state(usize::from(target.0));
        }
        match (otherwise, first) {
            (Some(target), true) => self.parser_state(usize::from(target.0)),
            (Some(target), false) => {
                self.w.turn("} else {");
                self.parser_state(usize::from(target.0));
                self.w.close("}");
            }
            (None, true) => {}
            (None, false) => self.w.close("}"),
        }
    }

    /// Writes the checksum; fields are written where they are assigned.
    fn finish_checksum(&mut self) {
        let Some(header) = self.p.ipv4_checksum else { return };
        let name = self.part_name(Part::Header(header));
        let upper = name.to_uppercase();
        let field = checksum_field(self.p, header);
        let clear = self.assign(LValue::Field(header, field), "0u16");
        self.w.open(format!("if has_{name} {{"));
        self.w.line(clear);
        self.w.line(format!("let sum = rt::ipv4_checksum(&data[{upper}_AT..{upper}_END]);"));
        let set = self.assign(LValue::Field(header, field), "sum");
        self.w.line(set);
        self.w.close("}");
    }

    /// A block; `has_lanes` where only packets with lanes get to it.
    fn block(&mut self, block: &[Stmt], has_lanes: bool, give_up: &str) {
        for part in parts(self.p, block, has_lanes) {
            match part {
                Block::Run { stmts, has_lanes } => self.run(stmts, has_lanes, give_up),
                Block::Other { stmt, has_lanes } => self.statement(stmt, has_lanes, give_up),
            }
        }
    }

    fn statement(&mut self, stmt: &Stmt, has_lanes: bool, give_up: &str) {
        let none = Env::default();
        match stmt {
            Stmt::Assign(place, value) => {
                let text = self.assign(*place, &self.expr(value, none));
                self.w.line(text);
            }
            Stmt::AssignLane(..) => {}
            Stmt::If(cond, then, otherwise) => {
                self.w.open(format!("if {} {{", self.expr(cond, none)));
                self.block(then, has_lanes || implies_lanes(cond), give_up);
                if !otherwise.is_empty() {
                    self.w.turn("} else {");
                    self.block(otherwise, has_lanes, give_up);
                }
                self.w.close("}");
            }
            Stmt::Apply(table) => self.apply(*table),
            Stmt::Exec { register, action, index, output } => {
                self.exec(*register, *action, index, *output, give_up);
            }
            Stmt::Count(counter, index) => {
                let name = &self.p.counters[usize::from(counter.0)].name;
                let index = self.expr(index, none);
                self.w.line(format!(
                    "if let Some(count) = state.{name}.get_mut({index} as usize) {{ *count += 1; }}"
                ));
            }
            Stmt::Remove(part) => {
                let name = self.part_name(*part);
                self.w.line(format!("cut_{name} |= has_{name}; has_{name} = false;"));
            }
            Stmt::AddLanes => self.add_lanes(give_up),
            Stmt::Unicast(port) => {
                self.w.line(format!("send = rt::Send::Unicast({});", self.expr(port, none)))
            }
            Stmt::Multicast(group) => {
                self.w.line(format!("send = rt::Send::Multicast({});", self.expr(group, none)));
            }
            Stmt::Drop => self.w.line("send = rt::Send::Drop;"),
            Stmt::Priority(_) => {}
        }
    }

    /// Adds zero lanes to a packet that ends where lanes begin, if there is room for them.
    fn add_lanes(&mut self, give_up: &str) {
        let name = self.part_name(Part::Lanes);
        let upper = name.to_uppercase();
        self.w.open(format!("if !has_{name} {{"));
        self.w.line(format!("if length != {upper}_AT {{ {give_up}; }}"));
        self.w.line(format!("let Some(room) = data.get_mut({upper}_AT..{upper}_END) else {{ {give_up}; }};"));
        self.w.line("room.fill(0);");
        self.w.line(format!("(has_{name}, added) = (true, true);"));
        self.w.close("}");
    }

    fn apply(&mut self, table: TableId) {
        let table = self.p.table(table).clone();
        let layout = TableLayout::new(self.p, &table);
        let mut words: Vec<Vec<String>> = vec![vec![]; layout.words];
        for (key, spot) in table.keys.iter().zip(&layout.keys) {
            words[spot.word].push(format!(
                "(u64::from({}) << {})",
                self.expr(&key.value, Env::default()),
                spot.shift
            ));
        }
        let words = joined(words.iter().map(|word| joined(word, " | ")), ", ");
        self.w.open(format!("match *state.{}.lookup(&[{words}]) {{", table.name));
        for action in &table.actions {
            let action = self.p.action(*action).clone();
            let params = joined(action.params.iter().map(|param| &param.name), ", ");
            self.w.open(format!(
                "{}Action::{} {{ {params} }} => {{",
                camel(&table.name),
                camel(&action.name)
            ));
            for stmt in &action.body {
                if let Stmt::Assign(place, value) = stmt {
                    let env = Env { params: &action.params, ..Env::default() };
                    let text = self.assign(*place, &self.expr(value, env));
                    self.w.line(text);
                }
            }
            self.w.close("}");
        }
        self.w.close("}");
    }

    fn exec(&mut self, register: RegisterId, action: u16, index: &Expr, output: Output, give_up: &str) {
        let register = self.p.register(register).clone();
        let action = register.actions[usize::from(action)].clone();
        let index = self.expr(index, Env::default());
        if let RegisterKind::Cells(cells) = &register.kind {
            self.w.open("{");
            self.exec_cells(&register, cells, &action, &index, output, give_up);
            self.w.close("}");
        }
    }

    pub(super) fn cases(&self, cases: &[Case], otherwise: &str, env: Env<'_>) -> String {
        let mut text = String::new();
        for case in cases {
            let value = self.expr(&case.value, env);
            match &case.when {
                Some(when) => text += &format!("if {} {{ {value} }} else ", self.expr(when, env)),
                None => return if text.is_empty() { value } else { format!("{text}{{ {value} }}") },
            }
        }
        if text.is_empty() { otherwise.into() } else { format!("{text}{{ {otherwise} }}") }
    }

    pub(super) fn fields_as_variables(&mut self, fields: BTreeSet<(HeaderId, u16)>) {
        for (header, field) in fields {
            self.w.line(format!("let {} = {};", self.field_var(header, field), self.load(header, field)));
        }
    }

    fn exec_cells(
        &mut self,
        register: &Register,
        cells: &[Field],
        action: &RegAction,
        index: &str,
        output: Output,
        give_up: &str,
    ) {
        let env = Env { cells, fields_in_variables: true, ..Env::default() };
        let mut fields = BTreeSet::new();
        expressions(action).for_each(|expr| expr.fields(&mut fields));
        self.fields_as_variables(fields);
        let size = register.size;
        self.w.line(format!(
            "let Some(cell) = state.cells{size}.get_mut({index} as usize) else {{ {give_up}; }};"
        ));
        for (i, cell) in cells.iter().enumerate() {
            self.w.line(format!("let old{i} = cell.{}_{};", register.name, cell.name));
        }
        for (i, condition) in action.conditions.iter().enumerate() {
            self.w.line(format!("let cond{i} = {};", self.expr(condition, env)));
        }
        for (i, cell) in cells.iter().enumerate() {
            let update = action.updates.iter().find(|(cell, _)| usize::from(*cell) == i);
            let value = update
                .map_or_else(|| format!("old{i}"), |(_, cases)| self.cases(cases, &format!("old{i}"), env));
            self.w.line(format!("let new{i} = {value};"));
            if update.is_some() {
                self.w.line(format!("cell.{}_{} = new{i};", register.name, cell.name));
            }
        }
        if let Output::Place(place) = output {
            let bits = native(cells[0].bits);
            self.w.line(format!("let output: {bits} = {};", self.cases(&action.output, "0", env)));
            let text = self.assign(place, "output");
            self.w.line(text);
        }
    }
}
