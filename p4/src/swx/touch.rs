//! Register actions: reads, steps over shared variables, and writes.

use super::code::Label;
use super::expr::{Names, Value};
use super::{Printer, refusal};
use crate::ir::*;
use crate::refusal::Refusal;

impl Printer<'_> {
    /// Names of a register's arrays: one for each cell, or for each lane.
    pub(super) fn arrays(&self, register: &Register) -> Vec<String> {
        match &register.kind {
            RegisterKind::Cells(cells) => {
                cells.iter().map(|cell| format!("{}_{}", register.name, cell.name)).collect()
            }
            RegisterKind::Lanes(_) => {
                (0..self.p.lane_count()).map(|lane| format!("{}_{lane:02}", register.name)).collect()
            }
        }
    }

    /// Runs a register action on one entry. An index out of range, or lanes that are needed and absent, drop the packet.
    pub(super) fn exec(
        &mut self,
        register: RegisterId,
        action: u16,
        index: &Expr,
        output: Output,
        drop: Label,
    ) -> Result<(), Refusal> {
        let register = self.p.register(register);
        let action = &register.actions[usize::from(action)];
        let arrays = self.arrays(register);
        let index = self.value(index, &Names::default())?;
        self.within(&index, register.size, drop);
        let index = self.variable(index);
        match &register.kind {
            RegisterKind::Cells(cells) => {
                let width = |cell: usize| cells.get(cell).map_or(0, |cell| cell.bits);
                let names = Names { cells: [width(0), width(1)], ..Names::default() };
                self.touch(&arrays, action, &index, output, names)
            }
            RegisterKind::Lanes(bits) => {
                if *bits != LANE_BITS {
                    return Err(refusal(
                        format!("register '{}' of lanes of {bits} bits", register.name),
                        "lanes are words of 32 bits",
                    ));
                }
                if action.uses_lanes(output) {
                    let first = self.part_names(Part::Lanes).into_iter().next().unwrap_or_default();
                    self.code.jump("jmpnv", drop, &format!("h.{first}"));
                }
                for (lane, array) in arrays.into_iter().enumerate() {
                    let lane = format!("h.{}", self.lane(lane as u32));
                    if self.short(&array, action, &index, output, &lane) {
                        continue;
                    }
                    let names = Names { cells: [*bits, 0], lane: Some(lane), ..Names::default() };
                    self.touch(&[array], action, &index, output, names)?;
                }
                Ok(())
            }
        }
    }

    /// Jumps if an index is beyond an array.
    pub(super) fn within(&mut self, index: &Value, size: u32, outside: Label) {
        match index.constant {
            Some(index) if index < size.into() => {}
            Some(_) => self.code.jump("jmp", outside, ""),
            None => self.code.jump("jmpgt", outside, &format!("{} {:#x}", index.text, size - 1)),
        }
    }

    /// The index as a variable: DPDK 22.11 accesses the first array if both operands of `regadd` or `regwr` are numbers.
    pub(super) fn variable(&mut self, index: Value) -> Value {
        if index.constant.is_some() { self.copy(&index, index.bits) } else { index }
    }

    /// The accesses of a lane that are one instruction or two: sums, reads. A sum is added to 64 bits, of which 32 are read.
    fn short(&mut self, array: &str, action: &RegAction, index: &Value, output: Output, lane: &str) -> bool {
        let out = match (output, action.output.as_slice()) {
            (Output::None, _) => false,
            (Output::Lanes, [Case { when: None, value: Expr::NewCell(0) }]) => true,
            _ => return false,
        };
        match action.updates.as_slice() {
            [] => {}
            [(0, cases)] => {
                let [Case { when: None, value: Expr::Binary(BinOp::Add, left, right) }] = cases.as_slice()
                else {
                    return false;
                };
                if **left != Expr::Cell(0) || **right != Expr::Lane {
                    return false;
                }
                self.code.run(format!("regadd {array} {} {lane}", index.text));
            }
            _ => return false,
        }
        if out {
            self.code.run(format!("regrd {lane} {array} {}", index.text));
        }
        true
    }

    fn touch(
        &mut self,
        arrays: &[String],
        action: &RegAction,
        index: &Value,
        output: Output,
        mut names: Names<'_>,
    ) -> Result<(), Refusal> {
        for (cell, array) in arrays.iter().enumerate().filter(|(cell, _)| action.reads(*cell as u8)) {
            self.code.run(format!("regrd m.x_old{cell} {array} {}", index.text));
        }
        for (number, cond) in action.conditions.iter().enumerate() {
            let end = self.code.label();
            self.code.run(format!("mov m.x_cond{number} 0x0"));
            self.jump_if(cond, false, end, &names)?;
            self.code.run(format!("mov m.x_cond{number} 0x1"));
            self.code.put(end);
        }
        let mut new = [None, None];
        for (cell, cases) in &action.updates {
            let at = usize::from(*cell);
            new[at] = Some(match cases.as_slice() {
                [Case { when: None, value }] => self.value(value, &names)?,
                _ => {
                    let target = Value::place(format!("m.x_new{cell}"), names.cells[at]);
                    let old = Value::place(format!("m.x_old{cell}"), names.cells[at]);
                    self.cases(cases, &target, &old, &names)?;
                    target
                }
            });
        }
        for (array, value) in arrays.iter().zip(&new) {
            if let Some(value) = value {
                self.code.run(format!("regwr {array} {} {}", index.text, value.text));
            }
        }
        names.new = new;
        self.put_output(action, output, &names)
    }

    fn put_output(&mut self, action: &RegAction, output: Output, names: &Names<'_>) -> Result<(), Refusal> {
        let value = match (output, action.output.as_slice()) {
            (Output::None, _) => return Ok(()),
            (_, [Case { when: None, value }]) => self.value(value, names)?,
            (_, cases) => {
                let bits = match output {
                    Output::Place(LValue::Field(header, field)) => self.p.field(header, field).bits,
                    Output::Place(LValue::Meta(meta)) => self.p.metadata[usize::from(meta.0)].bits,
                    _ => LANE_BITS,
                };
                let target = self.temporary(bits);
                self.cases(cases, &target, &Value::constant(0, bits), names)?;
                target
            }
        };
        match output {
            Output::Place(place) => self.assign_value(place, &value),
            Output::Lanes => {
                let lane = names.lane.clone().unwrap_or_default();
                if lane != value.text {
                    self.code.run(format!("mov {lane} {}", value.text));
                }
            }
            Output::LaneVar(_) => return Err(refusal("lane variables", "registers output only lanes")),
            Output::None => {}
        }
        Ok(())
    }

    /// Sets `target` to the value of the first case that holds, or to `otherwise`.
    fn cases(
        &mut self,
        cases: &[Case],
        target: &Value,
        otherwise: &Value,
        names: &Names<'_>,
    ) -> Result<(), Refusal> {
        let end = self.code.label();
        self.code.run(format!("mov {} {}", target.text, otherwise.text));
        for case in cases {
            let next = self.code.label();
            if let Some(when) = &case.when {
                self.jump_if(when, false, next, names)?;
            }
            let value = self.value(&case.value, names)?;
            self.code.run(format!("mov {} {}", target.text, value.text));
            self.code.jump("jmp", end, "");
            self.code.put(next);
        }
        self.code.put(end);
        Ok(())
    }
}
