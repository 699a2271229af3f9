//! The validator. Its contract: every back end prints an accepted program or refuses it with an error; none panics.

mod expr;
mod names;

use std::collections::BTreeSet;

use crate::ir::*;
pub(crate) use expr::width;
use names::names;

/// Error in a program and its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct CheckError {
    /// The object or statement, from the outside in.
    pub at: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// Kinds of errors in a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Not a lower-case identifier, or a word reserved by a target language.
    #[error("name '{0}' is not a lower-case identifier or is reserved by a target language")]
    Name(String),
    /// Two objects of a kind share a name.
    #[error("name '{0}' is used twice")]
    NameTwice(String),
    /// Two objects of a kind share an id, or it does not fit 24 bits.
    #[error("id {0:#x} is used twice, is 0, or does not fit 24 bits")]
    Id(u32),
    /// A handle points outside its list.
    #[error("{0} does not exist")]
    Missing(&'static str),
    /// A width outside 1 to the limit.
    #[error("width {0} is out of range")]
    Width(u32),
    /// Header fields do not fill whole bytes.
    #[error("fields take {0} bits, not whole bytes")]
    Bytes(u32),
    /// Types do not agree. 0 bits stands for a boolean.
    #[error("expected {expected} bits, found {found} (0 is a boolean)")]
    Type {
        /// Expected width.
        expected: u32,
        /// Width found.
        found: u32,
    },
    /// The construct is not allowed there.
    #[error("{0} is not allowed here")]
    Context(&'static str),
    /// A constant does not fit its width.
    #[error("constant {0} does not fit {1} bits")]
    Constant(u64, u32),
    /// A register is touched twice on one path.
    #[error("register '{0}' is touched twice on one path")]
    Twice(String),
    /// A limit of the hardware's stateful unit or of the IR.
    #[error("{what}: {found}, at most {most} allowed")]
    Limit {
        /// The limited object.
        what: &'static str,
        /// Number found.
        found: usize,
        /// Number permitted.
        most: usize,
    },
    /// The parser can visit a state twice.
    #[error("the parser has a loop")]
    Loop,
}

/// Names that a target reserves in other positions only; allowed for parser states, which are printed as written.
const START: &str = "start";

/// Checks a program.
///
/// # Errors
///
/// The first problem found, with its location.
pub fn check(program: &Program) -> Result<(), CheckError> {
    let checker = Checker { program };
    checker.declarations()?;
    checker.parser()?;
    checker.registers()?;
    checker.tables()?;
    let mut touched = BTreeSet::new();
    let mut applied = BTreeSet::new();
    checker.block("ingress", &program.ingress, Scope::Ingress, &mut touched, &mut applied)?;
    let mut applied = BTreeSet::new();
    checker.block("egress", &program.egress, Scope::Egress, &mut BTreeSet::new(), &mut applied)
}

#[derive(Clone, Copy)]
enum Scope<'a> {
    Ingress,
    Egress,
    Action(&'a Action),
    Register { register: &'a Register, action: &'a RegAction, part: RegPart },
    Lane,
}

#[derive(Clone, Copy, PartialEq)]
enum RegPart {
    Condition,
    Update,
    Output,
}

/// State of the search for loops, per parser state.
#[derive(Clone, Copy)]
enum Visit {
    New,
    Open,
    Done,
}

struct Checker<'a> {
    program: &'a Program,
}

type Checked<T = ()> = Result<T, CheckError>;

fn fail<T>(at: &str, problem: Problem) -> Checked<T> {
    Err(CheckError { at: at.into(), problem })
}

fn ids(at: &str, ranges: impl IntoIterator<Item = (u32, u32)>) -> Checked {
    let mut known = BTreeSet::new();
    for (first, count) in ranges {
        for id in first..first.saturating_add(count) {
            if id == 0 || id >= 1 << 24 || !known.insert(id) {
                return fail(at, Problem::Id(id));
            }
        }
    }
    Ok(())
}

fn limit(at: &str, what: &'static str, found: usize, most: usize) -> Checked {
    if found > most { fail(at, Problem::Limit { what, found, most }) } else { Ok(()) }
}

/// Maximum entries of a register, a counter or a table: a program may come from outside.
const ENTRIES_MAX: usize = 1 << 20;

fn fields(at: &str, fields: &[Field], most: u32) -> Checked {
    names(at, fields.iter().map(|field| field.name.as_str()))?;
    match fields.iter().find(|field| field.bits == 0 || field.bits > most) {
        Some(field) => fail(&format!("{at}.{}", field.name), Problem::Width(field.bits)),
        None => Ok(()),
    }
}

impl<'a> Checker<'a> {
    fn declarations(&self) -> Checked {
        let p = self.program;
        names("program", [p.name.as_str()])?;
        let lanes = p.lanes.iter().map(|lanes| lanes.name.as_str());
        names("headers", p.headers.iter().map(|header| header.name.as_str()).chain(lanes))?;
        limit("headers", "headers", p.headers.len(), 64)?;
        for header in &p.headers {
            fields(&header.name, &header.fields, 64)?;
            let bits: u32 = header.fields.iter().map(|field| field.bits).sum();
            if bits == 0 || !bits.is_multiple_of(8) {
                return fail(&header.name, Problem::Bytes(bits));
            }
        }
        if let Some(lanes) = &p.lanes {
            limit("lanes", "lanes", lanes.count as usize, 4096)?;
            if lanes.count == 0 {
                return fail("lanes", Problem::Width(0));
            }
            if !matches!(lanes.bits, 16 | 32) || !(lanes.count * lanes.bits).is_multiple_of(32) {
                return fail("lanes", Problem::Width(lanes.bits));
            }
        }
        self.lane_declarations()?;
        names("metadata", p.metadata.iter().map(|meta| meta.name.as_str()))?;
        if let Some(meta) = p.metadata.iter().find(|meta| meta.bits == 0 || meta.bits > 64) {
            return fail(&meta.name, Problem::Width(meta.bits));
        }
        names("state objects", {
            let registers = p.registers.iter().map(|register| register.name.as_str());
            let counters = p.counters.iter().map(|counter| counter.name.as_str());
            let tables = p.tables.iter().map(|table| table.name.as_str());
            registers.chain(counters).chain(tables).chain(p.actions.iter().map(|action| action.name.as_str()))
        })?;
        ids("counters", p.counters.iter().map(|counter| (counter.id, 1)))?;
        ids("actions", p.actions.iter().map(|action| (action.id, 1)))?;
        ids("tables", p.tables.iter().map(|table| (table.id, 1)))?;
        for counter in &p.counters {
            limit(&counter.name, "counter entries", counter.size as usize, ENTRIES_MAX)?;
        }
        for (i, part) in p.deparser.iter().enumerate() {
            self.part("deparser", *part)?;
            if p.deparser[..i].contains(part) {
                return fail("deparser", Problem::Context("a part that was put back before"));
            }
        }
        if let Some(header) = p.ipv4_checksum {
            self.part("ipv4_checksum", Part::Header(header))?;
            let length = p.header(header).len_bytes();
            let fields = &p.header(header).fields;
            let place = fields.iter().position(|f| f.name == "checksum" && f.bits == 16);
            let aligned = place.is_some_and(|at| p.header(header).offset_bits(at as u16).is_multiple_of(16));
            if length != 20 || !aligned {
                return fail(
                    "ipv4_checksum",
                    Problem::Missing("a 20-byte header with an aligned 16-bit checksum field"),
                );
            }
        }
        Ok(())
    }

    fn lane_declarations(&self) -> Checked {
        let p = self.program;
        names("lane variables", p.lane_vars.iter().map(|var| var.name.as_str()))?;
        limit("lane variables", "lane variables", p.lane_vars.len(), 32)?;
        if let Some(var) = p.lane_vars.iter().find(|var| var.bits == 0 || var.bits > 64) {
            return fail(&var.name, Problem::Width(var.bits));
        }
        names("lookups", p.lookups.iter().map(|lookup| lookup.name.as_str()))?;
        for lookup in &p.lookups {
            let at = lookup.name.as_str();
            limit(at, "entries", lookup.entries.len(), 1024)?;
            for bits in [lookup.key_bits, lookup.value_bits] {
                if bits == 0 || bits > 64 {
                    return fail(at, Problem::Width(bits));
                }
            }
            constant(at, lookup.default, lookup.value_bits)?;
            for (value, mask, result) in &lookup.entries {
                constant(at, *mask, lookup.key_bits)?;
                constant(at, *value, lookup.key_bits)?;
                constant(at, *result, lookup.value_bits)?;
                if value & !mask != 0 {
                    return fail(at, Problem::Context("a value outside its mask"));
                }
            }
        }
        Ok(())
    }

    fn lane_place(&self, at: &str, place: LaneLValue) -> Checked<u32> {
        match place {
            LaneLValue::Lane if self.program.lanes.is_some() => Ok(self.program.lane_bits()),
            LaneLValue::Lane => fail(at, Problem::Missing("the lane vector")),
            LaneLValue::Var(var) => match self.program.lane_vars.get(usize::from(var.0)) {
                Some(var) => Ok(var.bits),
                None => fail(at, Problem::Missing("the lane variable")),
            },
        }
    }

    fn part(&self, at: &str, part: Part) -> Checked {
        let exists = match part {
            Part::Header(header) => usize::from(header.0) < self.program.headers.len(),
            Part::Lanes => self.program.lanes.is_some(),
        };
        if exists { Ok(()) } else { fail(at, Problem::Missing("the header or lane vector")) }
    }

    fn place(&self, at: &str, place: LValue) -> Checked<u32> {
        match place {
            LValue::Field(header, field) => {
                self.part(at, Part::Header(header))?;
                match self.program.header(header).fields.get(usize::from(field)) {
                    Some(field) => Ok(field.bits),
                    None => fail(at, Problem::Missing("the header field")),
                }
            }
            LValue::Meta(meta) => match self.program.metadata.get(usize::from(meta.0)) {
                Some(meta) => Ok(meta.bits),
                None => fail(at, Problem::Missing("the metadata variable")),
            },
        }
    }

    fn parser(&self) -> Checked {
        let states = &self.program.parser.states;
        limit("parser", "states", states.len(), 256)?;
        match states.first() {
            Some(first) if first.name == START => {}
            _ => return fail("parser", Problem::Missing("a first state named 'start'")),
        }
        names("parser", states.iter().map(|state| state.name.as_str()))?;
        for state in states {
            for part in &state.extract {
                self.part(&state.name, *part)?;
            }
            let Next::Select { on, cases, otherwise } = &state.next else { continue };
            for (header, field) in on {
                self.place(&state.name, LValue::Field(*header, *field))?;
            }
            for (values, target) in cases {
                if values.len() != on.len() {
                    return fail(&state.name, Problem::Missing("a value for each selected field"));
                }
                self.target(&state.name, *target)?;
            }
            if let Some(target) = otherwise {
                self.target(&state.name, *target)?;
            }
        }
        self.acyclic(0, &mut vec![Visit::New; states.len()])
    }

    fn target(&self, at: &str, state: StateId) -> Checked {
        if usize::from(state.0) < self.program.parser.states.len() {
            Ok(())
        } else {
            fail(at, Problem::Missing("the parser state"))
        }
    }

    fn acyclic(&self, state: usize, visits: &mut [Visit]) -> Checked {
        match visits[state] {
            Visit::Done => return Ok(()),
            Visit::Open => return fail("parser", Problem::Loop),
            Visit::New => visits[state] = Visit::Open,
        }
        if let Next::Select { cases, otherwise, .. } = &self.program.parser.states[state].next {
            for target in cases.iter().map(|(_, target)| target).chain(otherwise) {
                self.acyclic(usize::from(target.0), visits)?;
            }
        }
        visits[state] = Visit::Done;
        Ok(())
    }

    fn registers(&self) -> Checked {
        let lane_count = self.program.lane_count();
        let taken = |register: &Register| match &register.kind {
            RegisterKind::Cells(cells) => cells.len() as u32,
            RegisterKind::Lanes(_) => lane_count,
        };
        ids("registers", self.program.registers.iter().map(|register| (register.id, taken(register))))?;
        for register in &self.program.registers {
            let at = register.name.as_str();
            if register.size == 0 {
                return fail(at, Problem::Width(0));
            }
            limit(at, "register entries", register.size as usize, ENTRIES_MAX)?;
            match &register.kind {
                RegisterKind::Cells(cells) => {
                    limit(at, "cells", cells.len(), 2)?;
                    fields(at, cells, 32)?;
                    if cells.is_empty() {
                        return fail(at, Problem::Missing("a cell"));
                    }
                }
                RegisterKind::Lanes(_) if lane_count == 0 => {
                    return fail(at, Problem::Missing("the lane vector"));
                }
                RegisterKind::Lanes(bits) if !matches!(bits, 8 | 16 | 32) => {
                    return fail(at, Problem::Width(*bits));
                }
                RegisterKind::Lanes(_) => {}
            }
            limit(at, "register actions", register.actions.len(), 16)?;
            names(at, register.actions.iter().map(|action| action.name.as_str()))?;
            for action in &register.actions {
                self.register_action(register, action)?;
            }
        }
        Ok(())
    }

    fn register_action(&self, register: &'a Register, action: &'a RegAction) -> Checked {
        let at = format!("{}.{}", register.name, action.name);
        let scope = |part| Scope::Register { register, action, part };
        limit(&at, "conditions", action.conditions.len(), 2)?;
        for condition in &action.conditions {
            self.typed(&at, condition, 0, scope(RegPart::Condition))?;
        }
        let mut written = BTreeSet::new();
        for (cell, cases) in &action.updates {
            let Some(bits) = cell_bits(register, *cell) else {
                return fail(&at, Problem::Missing("the cell"));
            };
            if !written.insert(*cell) {
                return fail(&at, Problem::Twice(format!("{}[{cell}]", register.name)));
            }
            for case in cases {
                self.case(&at, case, bits, scope(RegPart::Update))?;
            }
        }
        for case in &action.output {
            let bits = cell_bits(register, 0).unwrap_or(LANE_BITS);
            self.case(&at, case, bits, scope(RegPart::Output))?;
        }
        Ok(())
    }

    fn case(&self, at: &str, case: &Case, bits: u32, scope: Scope<'_>) -> Checked {
        if let Some(when) = &case.when {
            self.typed(at, when, 0, scope)?;
        }
        self.typed(at, &case.value, bits, scope)
    }

    fn tables(&self) -> Checked {
        for action in &self.program.actions {
            fields(&action.name, &action.params, 64)?;
            for stmt in &action.body {
                let Stmt::Assign(place, value) = stmt else {
                    return fail(&action.name, Problem::Context("a statement other than an assignment"));
                };
                let bits = self.place(&action.name, *place)?;
                self.typed(&action.name, value, bits, Scope::Action(action))?;
            }
        }
        for table in &self.program.tables {
            let at = table.name.as_str();
            names(at, table.keys.iter().map(|key| key.name.as_str()))?;
            ids(at, table.keys.iter().map(|key| (key.id, 1)))?;
            limit(at, "key fields", table.keys.len(), 16)?;
            limit(at, "table entries", table.size as usize, ENTRIES_MAX)?;
            for key in &table.keys {
                if !matches!(key.value, Expr::Field(..) | Expr::Meta(_)) {
                    return fail(at, Problem::Context("a key that is neither a header field nor metadata"));
                }
                self.infer(at, &key.value, Scope::Ingress)?;
            }
            let all = table.actions.iter().chain([&table.default.0]);
            if all.clone().any(|action| usize::from(action.0) >= self.program.actions.len()) {
                return fail(at, Problem::Missing("the action"));
            }
            if !table.actions.contains(&table.default.0) {
                return fail(at, Problem::Missing("the default action in the table's list"));
            }
            let params = &self.program.action(table.default.0).params;
            if params.len() != table.default.1.len() {
                return fail(at, Problem::Missing("an argument of the default action"));
            }
            for (param, value) in params.iter().zip(&table.default.1) {
                constant(at, *value, param.bits)?;
            }
        }
        Ok(())
    }

    fn block(
        &self,
        at: &str,
        block: &[Stmt],
        scope: Scope<'_>,
        touched: &mut BTreeSet<RegisterId>,
        applied: &mut BTreeSet<TableId>,
    ) -> Checked {
        for (i, stmt) in block.iter().enumerate() {
            let at = format!("{at}[{i}]");
            match stmt {
                Stmt::If(cond, then, otherwise) => {
                    self.typed(&at, cond, 0, scope)?;
                    let mut other = touched.clone();
                    self.block(&format!("{at}.then"), then, scope, touched, applied)?;
                    self.block(&format!("{at}.else"), otherwise, scope, &mut other, applied)?;
                    touched.extend(other);
                }
                Stmt::Apply(table) => {
                    let Some(known) = self.program.tables.get(usize::from(table.0)) else {
                        return fail(&at, Problem::Missing("the table"));
                    };
                    if !applied.insert(*table) {
                        return fail(&at, Problem::Twice(known.name.clone()));
                    }
                }
                Stmt::Exec { register, action, index, output } => {
                    self.exec(&at, *register, *action, *output)?;
                    self.typed(&at, index, 32, scope)?;
                    if !matches!(scope, Scope::Ingress) {
                        return fail(&at, Problem::Context("a register outside ingress"));
                    }
                    if !touched.insert(*register) {
                        return fail(&at, Problem::Twice(self.program.register(*register).name.clone()));
                    }
                }
                other => self.simple(&at, other, scope)?,
            }
        }
        Ok(())
    }

    fn exec(&self, at: &str, register: RegisterId, action: u16, output: Output) -> Checked {
        let Some(register) = self.program.registers.get(usize::from(register.0)) else {
            return fail(at, Problem::Missing("the register"));
        };
        if usize::from(action) >= register.actions.len() {
            return fail(at, Problem::Missing("the register action"));
        }
        match (output, &register.kind) {
            (Output::None, _) => Ok(()),
            (Output::Lanes, RegisterKind::Lanes(found)) => {
                let expected = self.program.lane_bits();
                if *found == expected { Ok(()) } else { fail(at, Problem::Type { expected, found: *found }) }
            }
            (Output::LaneVar(var), RegisterKind::Lanes(found)) => {
                let expected = self.lane_place(at, LaneLValue::Var(var))?;
                if *found == expected { Ok(()) } else { fail(at, Problem::Type { expected, found: *found }) }
            }
            (Output::Place(place), RegisterKind::Cells(cells)) => {
                let expected = self.place(at, place)?;
                if expected == cells[0].bits {
                    Ok(())
                } else {
                    fail(at, Problem::Type { expected, found: cells[0].bits })
                }
            }
            _ => fail(at, Problem::Context("this output")),
        }
    }

    fn simple(&self, at: &str, stmt: &Stmt, scope: Scope<'_>) -> Checked {
        let ingress = matches!(scope, Scope::Ingress);
        match stmt {
            Stmt::Assign(place, value) => {
                let bits = self.place(at, *place)?;
                self.typed(at, value, bits, scope)
            }
            Stmt::AssignLane(place, value) if ingress => {
                let expected = self.lane_place(at, *place)?;
                let found = self.lane_value(at, *place, value)?;
                if found == expected { Ok(()) } else { fail(at, Problem::Type { expected, found }) }
            }
            Stmt::Count(counter, index) if ingress => {
                if usize::from(counter.0) >= self.program.counters.len() {
                    return fail(at, Problem::Missing("the counter"));
                }
                self.typed(at, index, 32, scope)
            }
            Stmt::Remove(part) => self.part(at, *part),
            Stmt::AddLanes if ingress => self.part(at, Part::Lanes),
            Stmt::Unicast(port) if ingress => self.typed(at, port, 16, scope),
            Stmt::Multicast(group) if ingress => self.typed(at, group, 16, scope),
            Stmt::Priority(class) if ingress => self.typed(at, class, 3, scope),
            Stmt::Drop if ingress => Ok(()),
            _ => fail(at, Problem::Context("this statement")),
        }
    }
}

fn cell_bits(register: &Register, cell: u8) -> Option<u32> {
    match &register.kind {
        RegisterKind::Cells(cells) => cells.get(usize::from(cell)).map(|cell| cell.bits),
        RegisterKind::Lanes(bits) => (cell == 0).then_some(*bits),
    }
}

fn constant(at: &str, value: u64, bits: u32) -> Checked {
    if bits < 64 && value >> bits != 0 { fail(at, Problem::Constant(value, bits)) } else { Ok(()) }
}
