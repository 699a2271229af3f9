//! Register actions as reads, plain steps and writes over shared scratch variables.

use super::expr::{Names, biased};
use super::{Printer, refusal};
use crate::ir::*;
use crate::refusal::{Refusal, symbol};
use crate::v1model::visit;

/// A register access of the program.
pub(super) type Site = (RegisterId, u16, Output, Expr);

/// The array of one cell, and the packet's lane where it belongs to one.
struct Array {
    name: String,
    bits: u32,
    lane: Option<String>,
}

impl Printer<'_> {
    /// Names and widths of a register's arrays.
    pub(super) fn arrays(&self, register: &Register) -> Vec<(String, u32)> {
        match &register.kind {
            RegisterKind::Cells(cells) => {
                cells.iter().map(|cell| (format!("{}_{}", register.name, cell.name), cell.bits)).collect()
            }
            RegisterKind::Lanes(_) => {
                (0..self.p.lane_count()).map(|lane| (format!("{}_{lane:02}", register.name), 32)).collect()
            }
        }
    }

    /// Declares an action for every access that is straight-line code.
    pub(super) fn touches(&mut self) -> Result<(), Refusal> {
        for site in self.sites() {
            let lines = self.lines(&site)?;
            if straight(&lines) {
                let name = self.site_name(&site);
                self.w.line("@hidden");
                self.w.open(format!("action {name}() {{"));
                lines.into_iter().for_each(|line| self.w.line(line));
                self.w.close("}");
                self.w.line("");
            }
        }
        Ok(())
    }

    /// Calls the action of an access, or writes its steps inline.
    pub(super) fn call(&mut self, site: &Site) -> Result<(), Refusal> {
        let lines = self.lines(site)?;
        if straight(&lines) {
            let line = format!("{}();", self.site_name(site));
            self.w.line(line);
        } else {
            for line in lines {
                match (line.starts_with('}'), line.ends_with('{')) {
                    (true, true) => self.w.turn(line),
                    (true, false) => self.w.close(line),
                    (false, true) => self.w.open(line),
                    (false, false) => self.w.line(line),
                }
            }
        }
        Ok(())
    }

    fn sites(&self) -> Vec<Site> {
        let mut found: Vec<Site> = Vec::new();
        visit(&self.p.ingress, &mut |stmt| {
            if let Stmt::Exec { register, action, index, output } = stmt {
                let site = (*register, *action, *output, index.clone());
                if !found.contains(&site) {
                    found.push(site);
                }
            }
        });
        found
    }

    fn site_name(&self, (register, action, output, _): &Site) -> String {
        let register = self.p.register(*register);
        let suffix = if *output == Output::None { "" } else { "_out" };
        format!("{}_{}{suffix}", register.name, register.actions[usize::from(*action)].name)
    }

    fn lines(&self, (register, action, output, index): &Site) -> Result<Vec<String>, Refusal> {
        let register = self.p.register(*register);
        let action = &register.actions[usize::from(*action)];
        let index = self.value(index, &Names::default())?.bare().to_string();
        let arrays = self.arrays(register).into_iter();
        match &register.kind {
            RegisterKind::Cells(_) => {
                let arrays: Vec<_> = arrays.map(|(name, bits)| Array { name, bits, lane: None }).collect();
                self.touch(&arrays, action, &index, *output)
            }
            RegisterKind::Lanes(_) => {
                let mut lines = Vec::new();
                for (lane, (name, bits)) in arrays.enumerate() {
                    let lane = Some(format!("hdr.{}", self.lane(lane as u32)));
                    let array = Array { name, bits, lane };
                    lines.extend(match self.lane_touch(&array, action, &index, *output) {
                        Some(steps) => steps,
                        None if is_compound(action) => {
                            return Err(refusal(
                                format!(
                                    "register action '{}.{}' of elements packed in a word",
                                    register.name, action.name
                                ),
                                "a lane is folded by one operation on words: sum, min, max, and, or, xor",
                            ));
                        }
                        None => self.touch(&[array], action, &index, *output)?,
                    });
                }
                Ok(lines)
            }
        }
    }

    /// The access of one lane in steps that change a variable or the lane in place: other forms would cost the back end a
    /// temporary per lane, and all metadata has 256 bytes.
    fn lane_touch(
        &self,
        array: &Array,
        action: &RegAction,
        index: &str,
        output: Output,
    ) -> Option<Vec<String>> {
        let (cell, lane) = (Expr::Cell(0), array.lane.clone()?);
        let old = "meta.x_old0";
        let read = format!("{old} = {}.read({index});", array.name);
        let write = |value: &str| format!("{}.write({index}, {value});", array.name);
        let out = match (output, action.output.as_slice()) {
            (Output::None, _) => false,
            (Output::Lanes, [Case { when: None, value: Expr::NewCell(0) }]) => true,
            _ => return None,
        };
        let put = out.then(|| format!("{lane} = {old};"));
        let value = match action.updates.as_slice() {
            [] => return Some(vec![read].into_iter().chain(put).collect()),
            [(0, cases)] => match cases.as_slice() {
                [Case { when: None, value }] => value,
                _ => return None,
            },
            _ => return None,
        };
        let Expr::Binary(op, left, right) = value else { return None };
        if **left != cell || **right != Expr::Lane {
            return None;
        }
        let sign = match op {
            BinOp::Add | BinOp::And | BinOp::Or | BinOp::Xor => {
                let fold = format!("{old} = {old} {} {lane};", symbol(*op));
                return Some([read, fold, write(old)].into_iter().chain(put).collect());
            }
            BinOp::SignedMin => '>',
            BinOp::SignedMax => '<',
            _ => return None,
        };
        // Two's complement order is unsigned order with the sign bits flipped.
        let flip = |name: &str| format!("{name} = {name} ^ 32w0x80000000;");
        let mut steps = vec![read, flip(old), flip(&lane), format!("if ({old} {sign} {lane}) {{")];
        steps.extend([format!("{old} = {lane};"), "}".into(), flip(old), write(old)]);
        steps.push(put.unwrap_or_else(|| flip(&lane)));
        Some(steps)
    }

    fn touch(
        &self,
        arrays: &[Array],
        action: &RegAction,
        index: &str,
        output: Output,
    ) -> Result<Vec<String>, Refusal> {
        let byte = arrays[0].bits == 8;
        let mut names = Names { lane: arrays[0].lane.clone(), byte, ..Names::default() };
        let mut lines = Vec::new();
        for (cell, array) in arrays.iter().enumerate().filter(|(cell, _)| action.reads(*cell as u8)) {
            lines.push(format!("{} = {}.read({index});", names.scratch(&format!("old{cell}")), array.name));
        }
        for (i, cond) in action.conditions.iter().enumerate() {
            let cond = self.value(cond, &names)?;
            lines.push(format!("meta.x_cond{i} = 0;"));
            lines.push(format!("if ({}) {{", cond.bare()));
            lines.push(format!("meta.x_cond{i} = 1;"));
            lines.push("}".into());
        }
        let mut writes = Vec::new();
        for (cell, cases) in &action.updates {
            let new = match cases.as_slice() {
                [Case { when: None, value: value @ (Expr::Lane | Expr::Const(..) | Expr::Field(..)) }] => {
                    self.value(value, &names)?.text
                }
                _ => {
                    let target = names.scratch(&format!("new{cell}"));
                    let old = names.scratch(&format!("old{cell}"));
                    lines.extend(self.cases(cases, &target, &old, &names)?);
                    target
                }
            };
            writes.push(format!("{}.write({index}, {new});", arrays[usize::from(*cell)].name));
            names.new[usize::from(*cell)] = Some(new);
        }
        lines.extend(writes);
        let target = match output {
            Output::None => return Ok(lines),
            Output::Place(LValue::Field(header, field)) if !self.fields.whole(header, field) => {
                return Err(refusal("a register's output into part of a byte", "whole bytes"));
            }
            Output::Place(place) => self.read(place),
            Output::Lanes => arrays[0].lane.clone().unwrap_or_default(),
            Output::LaneVar(_) => return Err(refusal("lane variables", "registers output only lanes")),
        };
        let put = self.cases(&action.output, &target, "0", &names)?;
        lines.extend(put.into_iter().filter(|line| *line != format!("{target} = {target};")));
        Ok(lines)
    }

    /// Steps that set `target` to the value of the first case that holds, or to `otherwise`.
    fn cases(
        &self,
        cases: &[Case],
        target: &str,
        otherwise: &str,
        names: &Names<'_>,
    ) -> Result<Vec<String>, Refusal> {
        if let [Case { when: None, value }] = cases {
            return self.step(target, value, names);
        }
        let mut lines = vec![format!("{target} = {otherwise};")];
        for (i, case) in cases.iter().enumerate() {
            let head = match &case.when {
                Some(when) => format!("if ({}) {{", self.value(when, names)?.bare()),
                None => "if (true) {".into(),
            };
            lines.push(if i == 0 { head } else { format!("}} else {head}") });
            lines.extend(self.step(target, &case.value, names)?);
        }
        lines.push("}".into());
        Ok(lines)
    }

    /// One value. Maximum and minimum are separate steps: the back end has no such operators.
    fn step(&self, target: &str, value: &Expr, names: &Names<'_>) -> Result<Vec<String>, Refusal> {
        let Expr::Binary(op @ (BinOp::Max | BinOp::SignedMin | BinOp::SignedMax), left, right) = value else {
            return Ok(vec![format!("{target} = {};", self.value(value, names)?.bare())]);
        };
        let (l, r) = (self.value(left, names)?, self.value(right, names)?);
        let (left, right) = match op {
            BinOp::Max => (l.text.clone(), r.text.clone()),
            _ => (biased(&l), biased(&r)),
        };
        let sign = if *op == BinOp::SignedMin { '<' } else { '>' };
        Ok(vec![
            format!("{target} = {};", l.text),
            format!("if ({right} {sign} {left}) {{"),
            format!("{target} = {};", r.text),
            "}".into(),
        ])
    }
}

/// Whether an action folds a lane by more than one operation: as many temporaries would be needed for every lane.
fn is_compound(action: &RegAction) -> bool {
    let values = action.updates.iter().flat_map(|(_, cases)| cases).map(|case| &case.value);
    let nested = |value: &Expr| value.operands().iter().any(|operand| !operand.operands().is_empty());
    values.into_iter().any(nested)
}

fn straight(lines: &[String]) -> bool {
    lines.iter().all(|line| line.ends_with(';'))
}
