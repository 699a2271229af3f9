//! Saturating sums: the flag of a packet some lane of which is at an end of its range.
//!
//! A sum whose ends stay compares the cell and the packet's lane with both ends: four comparisons, as many as a stateful unit of Tofino 2 has. So each
//! register has one lane. Behind the registers, tables of [`LANES`] lanes each match the ends; the last step sets the flag, in packets
//! that are sent with lanes of the slot.

use super::lower::Lowered;
use super::{Printer, refusal};
use crate::ir::*;
use crate::refusal::Refusal;
use crate::v1model::visit;
use crate::writer::joined;

/// Lanes of one table: their bytes and those of the registers' keys are what the crossbar of a stage holds.
const LANES: u32 = 8;

/// What is done to a packet of which a lane has one of these values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ends {
    /// The field of flags.
    place: LValue,
    flag: u64,
    values: Vec<u64>,
}

/// Variables that only the packet's path sets, to constants: zero before.
pub(super) fn path_flags(program: &Program) -> Vec<MetaId> {
    let (mut constant, mut others) = (Vec::new(), Vec::new());
    let mut note = |stmt: &Stmt| match stmt {
        Stmt::Assign(LValue::Meta(meta), Expr::Const(..)) => constant.push(*meta),
        Stmt::Assign(LValue::Meta(meta), _)
        | Stmt::Exec { output: Output::Place(LValue::Meta(meta)), .. } => others.push(*meta),
        _ => {}
    };
    visit(&program.ingress, &mut note);
    let assigned = program.actions.iter().flat_map(|action| &action.body);
    let by_tables = assigned.filter_map(|stmt| match stmt {
        Stmt::Assign(LValue::Meta(meta), _) => Some(*meta),
        _ => None,
    });
    others.extend(by_tables);
    constant.retain(|meta| !others.contains(meta));
    constant.dedup();
    constant
}

/// The condition over all lanes of a program, if it has one: whether any is one of some constants, and the flag that is set then.
pub(super) fn find(program: &Program) -> Result<Option<Ends>, Refusal> {
    let mut found = Vec::new();
    visit(&program.ingress, &mut |stmt| {
        if let Stmt::If(Expr::AnyLane(cond), then, otherwise) = stmt {
            found.push((cond.clone(), then.clone(), otherwise.clone()));
        }
    });
    let Some((cond, then, otherwise)) = found.pop() else { return Ok(None) };
    let mut values = Vec::new();
    let known = compared(&cond, &mut values) && found.is_empty() && otherwise.is_empty();
    match &then[..] {
        [Stmt::Assign(place, Expr::Binary(BinOp::Or, old, flag))] if known && **old == place.value() => {
            match **flag {
                Expr::Const(flag, _) => Ok(Some(Ends { place: *place, flag, values })),
                _ => Err(unknown()),
            }
        }
        _ => Err(unknown()),
    }
}

fn unknown() -> Refusal {
    refusal("a condition over all lanes", "one that sets a flag where any lane is one of some constants")
}

/// Whether the condition compares the lane with constants, which are added.
fn compared(cond: &Expr, values: &mut Vec<u64>) -> bool {
    match cond {
        Expr::Binary(BinOp::Either, left, right) => compared(left, values) && compared(right, values),
        Expr::Binary(BinOp::Eq, lane, value) => match (&**lane, &**value) {
            (Expr::Lane, Expr::Const(value, _)) => {
                values.push(*value);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether a register action is a sum whose ends stay: the cell if it is at an end, else the lane if that is, else the saturating sum.
pub(super) fn stays_at_ends(action: &RegAction) -> bool {
    let is_end = |cond: &Expr, of: &Expr| {
        let mut values = Vec::new();
        let lane = replaced(cond, of);
        compared(&lane, &mut values) && values.len() == 2
    };
    let [cell, lane] = &action.conditions[..] else { return false };
    let [(0, cases)] = &action.updates[..] else { return false };
    let sum = Expr::Cell(0).saturating_add(Expr::Lane);
    is_end(cell, &Expr::Cell(0))
        && is_end(lane, &Expr::Lane)
        && *cases == [Case::when(0, Expr::Cell(0)), Case::when(1, Expr::Lane), Case::always(sum)]
}

/// The condition with the lane in place of `of`.
fn replaced(cond: &Expr, of: &Expr) -> Expr {
    match cond {
        expr if expr == of => Expr::Lane,
        Expr::Lane => Expr::Cell(0),
        Expr::Binary(op, left, right) => {
            Expr::Binary(*op, Box::new(replaced(left, of)), Box::new(replaced(right, of)))
        }
        other => other.clone(),
    }
}

impl Lowered {
    /// The ends, with the variables of a path that is marked and of a lane that is at one.
    fn marks(&self) -> Option<(Ends, String, String)> {
        let name = |meta: MetaId| self.program.metadata[usize::from(meta.0)].name.clone();
        let (ends, (marks, at_end)) = (self.ends.clone()?, self.marks?);
        Some((ends, name(marks), name(at_end)))
    }
}

impl Printer {
    /// The tables of ends, and the application of all.
    pub(super) fn end_tables(&mut self) -> Result<Vec<String>, Refusal> {
        let Some((ends, marks, at_end)) = self.l.marks() else { return Ok(Vec::new()) };
        self.w.line("@hidden");
        self.w.open("action x_note_end() {");
        self.w.line(format!("meta.{at_end} = 1;"));
        self.w.close("}");
        let lanes = self.p().lane_count();
        let mut lines = Vec::new();
        for (number, first) in (0..lanes).step_by(LANES as usize).enumerate() {
            let lanes: Vec<u32> = (first..lanes.min(first + LANES)).collect();
            self.end_table(&format!("x_ends_{number}"), &lanes, &ends.values);
            lines.push(format!("x_ends_{number}.apply();"));
        }
        self.w.line("@hidden");
        self.w.open("action x_mark_end() {");
        let flag = Expr::Binary(BinOp::Or, Box::new(ends.place.value()), Box::new(Expr::Const(ends.flag, 8)));
        self.assign_all(&[(ends.place, flag)])?;
        self.w.close("}");
        self.w.line("");
        lines.push(format!("if (meta.{marks} == 1 && meta.{at_end} == 1) {{"));
        lines.extend(["x_mark_end();".to_string(), "}".into()]);
        Ok(lines)
    }

    fn end_table(&mut self, name: &str, lanes: &[u32], values: &[u64]) {
        self.w.line("@hidden");
        self.w.open(format!("table {name} {{"));
        self.w.open("key = {");
        for lane in lanes {
            let lane = self.lane(*lane);
            self.w.line(format!("{lane}: ternary;"));
        }
        self.w.close("}");
        self.w.open("actions = {");
        self.w.line("x_note_end;");
        self.w.line("NoAction;");
        self.w.close("}");
        self.w.line("const default_action = NoAction();");
        self.w.line(format!("size = {};", lanes.len() * values.len()));
        self.w.open("const entries = {");
        for at in 0..lanes.len() {
            for value in values {
                let cell = |i| if i == at { format!("{value:#x}") } else { "_".into() };
                self.w.line(format!("({}): x_note_end();", joined((0..lanes.len()).map(cell), ", ")));
            }
        }
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
    }
}
