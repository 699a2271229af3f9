//! Execution of statements.

use super::Send;
use super::eval::{Eval, Frame, Value};
use super::packet::Packet;
use super::registers::Storage;
use super::tables::Entries;
use crate::ir::*;

/// The packet is dropped at once; following statements do not run.
pub(super) struct Dropped;

/// The execution of a control block for a packet.
pub(super) struct ControlRun<'a> {
    pub(super) program: &'a Program,
    pub(super) registers: &'a mut [Storage],
    pub(super) counters: &'a mut [Vec<u64>],
    pub(super) tables: &'a mut [Entries],
    pub(super) packet: &'a mut Packet,
}

impl ControlRun<'_> {
    pub(super) fn block(&mut self, block: &[Stmt]) -> Result<(), Dropped> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Dropped> {
        match stmt {
            Stmt::Assign(place, value) => self.packet.assign(*place, self.value(value).raw),
            Stmt::AssignLane(place, value) => self.assign_lane(*place, value),
            Stmt::If(cond, then, otherwise) => {
                return self.block(if self.value(cond).holds() { then } else { otherwise });
            }
            Stmt::Apply(table) => self.apply(*table),
            Stmt::Exec { register, action, index, output } => {
                return self.exec(*register, *action, index, *output);
            }
            Stmt::Count(counter, index) => {
                let index = self.value(index).raw as usize;
                if let Some(count) = self.counters[usize::from(counter.0)].get_mut(index) {
                    *count += 1;
                }
            }
            Stmt::Remove(part) => self.packet.remove(*part),
            Stmt::AddLanes if self.packet.has_lanes => {}
            Stmt::AddLanes => return if self.packet.add_lanes() { Ok(()) } else { Err(Dropped) },
            Stmt::Unicast(port) => self.packet.send = Send::Unicast(self.value(port).raw as u16),
            Stmt::Multicast(group) => self.packet.send = Send::Multicast(self.value(group).raw as u16),
            Stmt::Drop => self.packet.send = Send::Drop,
            Stmt::Priority(class) => self.packet.class = self.value(class).raw as u8,
        }
        Ok(())
    }

    pub(super) fn value(&self, expr: &Expr) -> Value {
        self.eval().value(expr, &Frame::default())
    }

    fn eval(&self) -> Eval<'_> {
        Eval { program: self.program, packet: self.packet }
    }

    /// One value per lane, from the lane's own operands. Without lanes, statements that need or change them have no effect.
    fn assign_lane(&mut self, place: LaneLValue, value: &Expr) {
        if !self.packet.has_lanes && (place == LaneLValue::Lane || value.mentions(&Expr::Lane)) {
            return;
        }
        for lane in 0..self.packet.lanes.len() {
            let new = self.eval().value(value, &Frame { lane, ..Frame::default() }).raw;
            match place {
                LaneLValue::Lane => self.packet.lanes[lane] = new as u32,
                LaneLValue::Var(var) => self.packet.lane_vars[usize::from(var.0)][lane] = new,
            }
        }
    }

    /// Looks the key up and runs the action found, statement by statement.
    fn apply(&mut self, table: TableId) {
        let declared = self.program.table(table);
        let key: Vec<u64> = declared.keys.iter().map(|key| self.value(&key.value).raw).collect();
        let (action, params) = match self.tables[usize::from(table.0)].lookup(&key) {
            Some(found) => found,
            None => (declared.default.0, declared.default.1.as_slice()),
        };
        let action = self.program.action(action);
        let params: Vec<Value> =
            action.params.iter().zip(params).map(|(param, value)| Value::new(param.bits, *value)).collect();
        let frame = Frame { params: &params, ..Frame::default() };
        for stmt in &action.body {
            // The validator permits only assignments in actions.
            if let Stmt::Assign(place, value) = stmt {
                let value = self.eval().value(value, &frame).raw;
                self.packet.assign(*place, value);
            }
        }
    }

    /// Runs a register action on one entry, in a lane register once for each lane.
    fn exec(
        &mut self,
        register: RegisterId,
        action: u16,
        index: &Expr,
        output: Output,
    ) -> Result<(), Dropped> {
        let index = self.value(index).raw as usize;
        let declared = self.program.register(register);
        let action = &declared.actions[usize::from(action)];
        let entry = self.registers[usize::from(register.0)].entry_mut(index).ok_or(Dropped)?;
        match &declared.kind {
            RegisterKind::Cells(cells) => {
                let eval = Eval { program: self.program, packet: self.packet };
                let mut old = [Value::new(0, 0); 2];
                for ((old, cell), raw) in old.iter_mut().zip(cells).zip(entry.iter()) {
                    *old = Value::new(cell.bits, (*raw).into());
                }
                let touched = eval.touch(action, &old[..cells.len()], 0);
                for (cell, new) in entry.iter_mut().zip(touched.new) {
                    *cell = new.raw as u32;
                }
                if let Output::Place(place) = output {
                    self.packet.assign(place, touched.output.raw);
                }
            }
            RegisterKind::Lanes(bits) => {
                if !self.packet.has_lanes && action.uses_lanes(output) {
                    return Err(Dropped);
                }
                for (lane, cell) in entry.iter_mut().enumerate() {
                    let eval = Eval { program: self.program, packet: self.packet };
                    let touched = eval.touch(action, &[Value::new(*bits, (*cell).into())], lane);
                    *cell = touched.new[0].raw as u32;
                    match output {
                        Output::Lanes => self.packet.lanes[lane] = touched.output.raw as u32,
                        Output::LaneVar(var) => {
                            self.packet.lane_vars[usize::from(var.0)][lane] = touched.output.raw;
                        }
                        Output::None | Output::Place(_) => {}
                    }
                }
            }
        }
        Ok(())
    }
}
