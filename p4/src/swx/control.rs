//! Parser, statements and deparser as instructions.

use std::collections::BTreeSet;

use super::code::Label;
use super::expr::Names;
use super::externs::exec_of;
use super::{INTRINSIC, Printer, key_name, refusal};
use crate::ir::*;
use crate::refusal::Refusal;

/// Values of the intrinsic header's field `send`.
pub(super) const UNICAST: u8 = 1;
pub(super) const MULTICAST: u8 = 2;

impl Printer<'_> {
    /// The whole `apply` block but for its first two instructions.
    pub(super) fn body(&mut self) -> Result<(), Refusal> {
        let [parsed, egress, depart, drop] = std::array::from_fn(|_| self.code.label());
        self.parser(parsed)?;
        self.code.put(parsed);
        self.check_ipv4();
        self.code.jump("jmpeq", egress, &format!("h.{INTRINSIC}.egress 0x1"));
        self.block(&self.p.ingress, drop)?;
        self.code.jump("jmpeq", drop, &format!("h.{INTRINSIC}.send 0x0"));
        self.code.jump("jmp", depart, "");
        self.code.put(egress);
        self.block(&self.p.egress, drop)?;
        self.code.put(depart);
        self.write_ipv4();
        self.code.run(format!("emit h.{INTRINSIC}"));
        for part in &self.p.deparser {
            for name in self.part_names(*part) {
                self.code.run(format!("emit h.{name}"));
            }
        }
        self.code.run("tx 0x0");
        self.code.put(drop);
        self.code.run("drop");
        Ok(())
    }

    fn parser(&mut self, parsed: Label) -> Result<(), Refusal> {
        let states = &self.p.parser.states;
        let labels: Vec<Label> = states.iter().map(|_| self.code.label()).collect();
        self.code.run(format!("mov m.x_rest h.{INTRINSIC}.length"));
        for index in order(&self.p.parser) {
            let state = &states[index];
            self.code.put(labels[index]);
            for part in &state.extract {
                let bytes = match part {
                    Part::Header(header) => self.p.header(*header).len_bytes(),
                    Part::Lanes => self.p.lane_bytes(),
                };
                // An extraction does not look at the packet's length.
                self.code.jump("jmplt", parsed, &format!("m.x_rest {bytes:#x}"));
                for name in self.part_names(*part) {
                    self.code.run(format!("extract h.{name}"));
                }
                self.code.run(format!("sub m.x_rest {bytes:#x}"));
            }
            match &state.next {
                Next::Accept => self.code.jump("jmp", parsed, ""),
                Next::Select { on, cases, otherwise } => {
                    let targets: Vec<Label> =
                        cases.iter().map(|(_, target)| labels[usize::from(target.0)]).collect();
                    self.select_state(on, cases, &targets);
                    let last = otherwise.map_or(parsed, |state| labels[usize::from(state.0)]);
                    self.code.jump("jmp", last, "");
                }
            }
        }
        Ok(())
    }

    fn select_state(
        &mut self,
        on: &[(HeaderId, u16)],
        cases: &[(Vec<(u64, u64)>, StateId)],
        targets: &[Label],
    ) {
        let columns = self.fields.columns(on, cases);
        for (case, target) in targets.iter().enumerate() {
            let next = self.code.label();
            for column in &columns {
                let container = &self.fields.of(column.header)[column.container];
                let (bits, name) = (container.bits, container.name.clone());
                let place = format!("h.{}.{name}", self.p.header(column.header).name);
                let (value, care) = column.cases[case];
                if care == super::expr::mask(bits) {
                    self.code.jump("jmpneq", next, &format!("{place} {value:#x}"));
                } else if care != 0 {
                    let part = self.temporary(bits);
                    self.code.run(format!("mov {} {place}", part.text));
                    self.code.run(format!("and {} {care:#x}", part.text));
                    self.code.jump("jmpneq", next, &format!("{} {value:#x}", part.text));
                }
            }
            self.code.jump("jmp", *target, "");
            self.code.put(next);
        }
    }

    /// Name of the header with a checksum, if the program has one.
    fn ipv4(&self) -> Option<String> {
        self.p.ipv4_checksum.map(|header| self.p.header(header).name.clone())
    }

    /// Computes the checksum of a header that arrived, and keeps the one that it came with in `x_sum`.
    fn check_ipv4(&mut self) {
        let Some(ipv4) = self.ipv4() else { return };
        let end = self.code.label();
        self.code.run("mov m.x_sum 0x0");
        self.code.run(format!("mov h.{INTRINSIC}.sum 0x0"));
        self.code.jump("jmpnv", end, &format!("h.{ipv4}"));
        self.code.run(format!("mov m.x_sum h.{ipv4}.checksum"));
        self.sum(&ipv4);
        self.code.run(format!("mov h.{ipv4}.checksum m.x_sum"));
        self.code.put(end);
    }

    fn write_ipv4(&mut self) {
        let Some(ipv4) = self.ipv4() else { return };
        let end = self.code.label();
        self.code.jump("jmpnv", end, &format!("h.{ipv4}"));
        self.sum(&ipv4);
        self.code.run(format!("mov h.{ipv4}.checksum h.{INTRINSIC}.sum"));
        self.code.put(end);
    }

    /// Computes the checksum of a header with a zero in its place. The instruction yields 0xffff where 0 is right.
    fn sum(&mut self, header: &str) {
        let end = self.code.label();
        self.code.run(format!("mov h.{header}.checksum 0x0"));
        self.code.run(format!("mov h.{INTRINSIC}.sum 0x0"));
        self.code.run(format!("ckadd h.{INTRINSIC}.sum h.{header}"));
        self.code.jump("jmpneq", end, &format!("h.{INTRINSIC}.sum 0xffff"));
        self.code.run(format!("mov h.{INTRINSIC}.sum 0x0"));
        self.code.put(end);
    }

    fn block(&mut self, block: &[Stmt], drop: Label) -> Result<(), Refusal> {
        let names = Names::default();
        let mut at = 0;
        // Where the tests of a run of flags end.
        let mut unset = None;
        while let Some(stmt) = block.get(at) {
            if let Some((_, end)) = unset.take_if(|(behind, _)| *behind == at) {
                self.code.put(end);
            }
            if unset.is_none()
                && let Some((count, flags)) = flag_tests(&block[at..])
            {
                let end = self.code.label();
                self.jump_if(&flags, false, end, &names)?;
                unset = Some((at + count, end));
            }
            if self.objects.is_some() && exec_of(stmt).is_some() {
                at += self.exec_objects(&block[at..], drop)?;
                continue;
            }
            at += 1;
            match stmt {
                Stmt::Assign(place, value) => self.assign(*place, value, &names)?,
                Stmt::AssignLane(..) => {
                    return Err(refusal("assignment to every lane", "only registers access lanes"));
                }
                Stmt::If(cond, then, otherwise) => {
                    let (no, end) = (self.code.label(), self.code.label());
                    self.jump_if(cond, false, no, &names)?;
                    self.block(then, drop)?;
                    if !otherwise.is_empty() {
                        self.code.jump("jmp", end, "");
                    }
                    self.code.put(no);
                    self.block(otherwise, drop)?;
                    self.code.put(end);
                }
                Stmt::Apply(table) => self.apply(*table)?,
                Stmt::Exec { register, action, index, output } => {
                    self.exec(*register, *action, index, *output, drop)?;
                }
                Stmt::Count(counter, index) => self.count(*counter, index)?,
                Stmt::Remove(part) => {
                    for name in self.part_names(*part) {
                        self.code.run(format!("invalidate h.{name}"));
                    }
                }
                Stmt::AddLanes if self.objects.is_some() => self.add_lanes_by_object(drop)?,
                Stmt::AddLanes => self.add_lanes(drop),
                Stmt::Unicast(port) => self.send(UNICAST, port)?,
                Stmt::Multicast(group) => self.send(MULTICAST, group)?,
                Stmt::Drop => self.code.run(format!("mov h.{INTRINSIC}.send 0x0")),
                Stmt::Priority(class) => {
                    let class = self.value(class, &names)?;
                    self.code.run(format!("mov h.{INTRINSIC}.class {}", class.text));
                }
            }
        }
        if let Some((_, end)) = unset {
            self.code.put(end);
        }
        Ok(())
    }

    /// Adds one to a counter, if it has the entry.
    fn count(&mut self, counter: CounterId, index: &Expr) -> Result<(), Refusal> {
        let end = self.code.label();
        let counter = &self.p.counters[usize::from(counter.0)];
        let index = self.value(index, &Names::default())?;
        self.within(&index, counter.size, end);
        let index = self.variable(index);
        self.code.run(format!("regadd {} {} 0x1", counter.name, index.text));
        self.code.put(end);
        Ok(())
    }

    fn send(&mut self, how: u8, to: &Expr) -> Result<(), Refusal> {
        let to = self.value(to, &Names::default())?;
        self.code.run(format!("mov h.{INTRINSIC}.to {}", to.text));
        self.code.run(format!("mov h.{INTRINSIC}.send {how:#x}"));
        Ok(())
    }

    /// Copies a table's keys to variables that lie one behind the other, and looks them up.
    fn apply(&mut self, table: TableId) -> Result<(), Refusal> {
        let table = self.p.table(table);
        for key in &table.keys {
            let value = self.value(&key.value, &Names::default())?;
            self.code.run(format!("mov m.{} {}", key_name(table, key), value.text));
        }
        self.code.run(format!("table {}", table.name));
        Ok(())
    }

    fn add_lanes(&mut self, drop: Label) {
        let end = self.code.label();
        let names = self.part_names(Part::Lanes);
        let Some(first) = names.first() else { return };
        self.code.jump("jmpv", end, &format!("h.{first}"));
        self.code.jump("jmpneq", drop, "m.x_rest 0x0");
        for name in &names {
            self.code.run(format!("validate h.{name}"));
        }
        for lane in 0..self.p.lane_count() {
            self.code.run(format!("mov h.{} 0x0", self.lane(lane)));
        }
        self.code.put(end);
    }
}

/// Statements at the start of the block that each test flags of one field and have no effect unless some are set, if there are several; and whether any of
/// these flags is set.
fn flag_tests(block: &[Stmt]) -> Option<(usize, Expr)> {
    let test = |stmt: &Stmt| {
        let Stmt::If(Expr::Binary(op @ (BinOp::Eq | BinOp::Ne), left, right), _, otherwise) = stmt else {
            return None;
        };
        let (Expr::Binary(BinOp::And, of, flags), Expr::Const(value, _)) = (&**left, &**right) else {
            return None;
        };
        let Expr::Const(flags, bits) = **flags else { return None };
        let is_set = matches!((op, value), (BinOp::Eq, value) if *value == flags && flags != 0)
            || matches!((op, value), (BinOp::Ne, 0));
        (is_set && otherwise.is_empty() && matches!(**of, Expr::Field(..)))
            .then(|| ((**of).clone(), flags, bits))
    };
    let (of, _, bits) = block.first().and_then(test)?;
    let tests: Vec<u64> = block
        .iter()
        .map_while(test)
        .take_while(|(other, ..)| *other == of)
        .map(|(_, flags, _)| flags)
        .collect();
    let all = tests.iter().fold(0, |all, flags| all | flags);
    let any = (of & Expr::Const(all, bits)).ne(Expr::Const(0, bits));
    (tests.len() > 1).then_some((tests.len(), any))
}

/// Where the parser finds the lanes, in bytes; `None` if there are none, or at several places.
pub(super) fn start_of_lanes(program: &Program) -> Option<u32> {
    let states = &program.parser.states;
    // Bytes in front of each state, of every way to it.
    let mut before: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); states.len()];
    before.first_mut()?.insert(0);
    let mut found = BTreeSet::new();
    for index in order(&program.parser) {
        let mut offsets = std::mem::take(&mut before[index]);
        for part in &states[index].extract {
            let bytes = match part {
                Part::Header(header) => program.header(*header).len_bytes(),
                Part::Lanes => {
                    found.extend(&offsets);
                    program.lane_bytes()
                }
            };
            offsets = offsets.into_iter().map(|offset| offset + bytes).collect();
        }
        if let Next::Select { cases, otherwise, .. } = &states[index].next {
            for target in cases.iter().map(|(_, target)| target).chain(otherwise) {
                before[usize::from(target.0)].extend(&offsets);
            }
        }
    }
    let mut found = found.into_iter();
    found.next().filter(|_| found.next().is_none())
}

/// The states in an order in which every transition goes forward.
pub(crate) fn order(parser: &Parser) -> Vec<usize> {
    fn visit(parser: &Parser, state: usize, seen: &mut [bool], order: &mut Vec<usize>) {
        if std::mem::replace(&mut seen[state], true) {
            return;
        }
        if let Next::Select { cases, otherwise, .. } = &parser.states[state].next {
            let targets = cases.iter().map(|(_, target)| target).chain(otherwise);
            targets.for_each(|target| visit(parser, usize::from(target.0), seen, order));
        }
        order.push(state);
    }
    let mut order = Vec::with_capacity(parser.states.len());
    visit(parser, 0, &mut vec![false; parser.states.len()], &mut order);
    order.reverse();
    order
}
