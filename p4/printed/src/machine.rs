//! Execution.

use std::collections::BTreeSet;

use crate::packet::{Packet, ones_complement_sum};
use crate::program::*;
use crate::tables::Entries;
use crate::{Fault, Sent};

/// Parser states that a packet passes at most.
const STATES_MAX: usize = 64;

/// A packet's way through ingress or egress.
pub(crate) struct Pass<'a> {
    pub(crate) program: &'a Program,
    pub(crate) gress: &'a Gress,
    pub(crate) registers: &'a mut [Vec<u64>],
    pub(crate) counters: &'a mut [Vec<u64>],
    pub(crate) tables: &'a [Entries],
    pub(crate) packet: Packet,
    pub(crate) noise: &'a mut u64,
    /// Registers that were accessed.
    pub(crate) touched: Vec<usize>,
    /// Keys of tables with constant entries that were looked up.
    pub(crate) lookups: &'a mut BTreeSet<(String, Vec<u64>)>,
}

impl Pass<'_> {
    fn named(&self, name: &str) -> Option<usize> {
        self.gress.fields.iter().position(|field| field.name == name)
    }

    /// Sets a field of the architecture's metadata.
    pub(crate) fn set(&mut self, name: &str, value: u64) {
        if let Some(field) = self.named(name) {
            self.packet.values[field] = value;
        }
    }

    /// A field of the architecture's metadata; 0 if the program has none.
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.named(name).map_or(0, |field| self.packet.values[field])
    }

    /// Gives metadata that the program declares arbitrary values.
    pub(crate) fn scramble(&mut self) {
        let gress = self.gress;
        for (number, field) in gress.fields.iter().enumerate() {
            if field.name.starts_with("meta.") {
                self.scramble_field(number);
            }
        }
    }

    fn scramble_field(&mut self, number: usize) {
        self.packet.values[number] = self.arbitrary() & ones(self.gress.fields[number].ty.bits);
    }

    /// Parses the packet and runs the control; false if the packet is dropped.
    pub(crate) fn run(&mut self) -> Result<bool, Fault> {
        if !self.parse()? {
            return Ok(false);
        }
        let gress = self.gress;
        self.block(&gress.apply)?;
        Ok(self.get("ig_dprsr_md.drop_ctl") & 1 == 0)
    }

    /// False if the packet is too short.
    fn parse(&mut self) -> Result<bool, Fault> {
        let gress = self.gress;
        let mut next = gress.states.first();
        for _ in 0..STATES_MAX {
            let Some(state) = next else { return Ok(true) };
            for stmt in &state.body {
                match stmt {
                    Stmt::Extract(header) if !self.packet.extract(gress, *header) => return Ok(false),
                    Stmt::Extract(_) => {}
                    other => self.stmt(other)?,
                }
            }
            let on: Vec<u64> = state.on.iter().map(|key| self.value(key)).collect();
            let holds = |values: &[(u64, u64)]| {
                values.iter().zip(&on).all(|((value, mask), key)| key & mask == value & mask)
            };
            let target = state.cases.iter().find(|(values, _)| holds(values)).map(|(_, target)| target);
            next = target.and_then(|target| gress.states.iter().find(|state| state.name == *target));
        }
        Ok(false)
    }

    /// Where ingress sent the packet.
    pub(crate) fn sent(&self) -> Result<Sent, Fault> {
        let port = self.named("ig_tm_md.ucast_egress_port").filter(|field| self.packet.assigned[*field]);
        let port = port.map(|field| self.packet.values[field]);
        match (port, self.get("ig_tm_md.mcast_grp_a")) {
            (None, 0) => Ok(Sent::Nothing),
            (Some(port), 0) => Ok(Sent::Port(port as u16)),
            (None, group) => Ok(Sent::Group(group as u16)),
            (Some(port), group) => Err(Fault::Destinations(port, group)),
        }
    }

    /// The packet that leaves.
    pub(crate) fn depart(&mut self) -> Vec<u8> {
        let gress = self.gress;
        // Nothing in a deparser can fail.
        let _ = self.block(&gress.deparser);
        self.packet.take()
    }

    fn block(&mut self, block: &[Stmt]) -> Result<(), Fault> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Fault> {
        let gress = self.gress;
        match stmt {
            Stmt::Assign(place, value) => {
                let value = self.value(value);
                self.assign(*place, value);
            }
            Stmt::SetValid(header, valid) => {
                self.packet.valid[*header] = *valid;
                let Header { first, count, .. } = gress.headers[*header];
                (first..first + count).for_each(|field| self.scramble_field(field));
            }
            Stmt::If(cond, then, otherwise) => {
                return if self.value(cond) != 0 { self.block(then) } else { self.block(otherwise) };
            }
            Stmt::Apply(number) => return self.apply(*number),
            Stmt::Run(action) => return self.block(&gress.actions[*action].body),
            Stmt::Count(counter, index) => {
                let index = self.value(index) as usize;
                if let Some(count) = self.counters[*counter].get_mut(index) {
                    *count += 1;
                }
            }
            Stmt::Execute(action, index, places) => return self.execute(*action, index, places),
            // The parser extracts.
            Stmt::Extract(_) => {}
            Stmt::Emit(header) => self.packet.emit(gress, *header),
            Stmt::Sum(header) => self.packet.sum(gress, *header),
        }
        Ok(())
    }

    fn apply(&mut self, number: usize) -> Result<(), Fault> {
        let gress = self.gress;
        let table = &gress.tables[number];
        let key: Vec<u64> = table.keys.iter().map(|key| self.value(&key.value)).collect();
        if !table.entries.is_empty() {
            self.lookups.insert((table.name.clone(), key.clone()));
        }
        let tables = self.tables;
        let (action, arguments) = match tables[number].lookup(&key) {
            Some(entry) => (entry.action, &entry.arguments),
            None => (table.default.0, &table.default.1),
        };
        let action = &gress.actions[action];
        for (parameter, argument) in action.parameters.iter().zip(arguments) {
            self.packet.values[*parameter] = *argument;
        }
        self.block(&action.body)
    }

    fn execute(&mut self, number: usize, index: &Expr, places: &[Place]) -> Result<(), Fault> {
        let action = &self.gress.register_actions[number];
        let register = &self.program.registers[action.register];
        let index = self.value(index);
        if self.touched.contains(&action.register) {
            return Err(Fault::Twice(register.name.clone()));
        }
        self.touched.push(action.register);
        if index >= register.size as u64 {
            return Err(Fault::Index(register.name.clone(), index));
        }
        let entry = index as usize * action.cells.len();
        for (at, cell) in action.cells.iter().enumerate() {
            self.packet.values[*cell] = self.registers[action.register][entry + at];
        }
        action.outputs.iter().for_each(|output| self.scramble_field(*output));
        self.block(&action.body)?;
        for (at, cell) in action.cells.iter().enumerate() {
            self.registers[action.register][entry + at] = self.packet.values[*cell];
        }
        for (place, output) in places.iter().zip(&action.outputs) {
            let value = self.packet.values[*output];
            self.assign(*place, value);
        }
        Ok(())
    }

    fn assign(&mut self, place: Place, value: u64) {
        let mask = ones(place.high - place.low + 1) << place.low;
        let old = self.packet.values[place.field];
        self.packet.values[place.field] = old & !mask | (value << place.low) & mask;
        self.packet.assigned[place.field] = true;
    }

    /// The value of an expression, without bits above its width.
    fn value(&mut self, expr: &Expr) -> u64 {
        let raw = match &expr.kind {
            Kind::Const(value) => *value,
            Kind::Field(field) => match self.gress.fields[*field].header {
                Some(header) if !self.packet.valid[header] => self.arbitrary(),
                _ => self.packet.values[*field],
            },
            Kind::Slice(inner, low) => self.value(inner) >> low,
            Kind::Valid(header) => u64::from(self.packet.valid[*header]),
            Kind::Not(inner) => u64::from(self.value(inner) == 0),
            Kind::Complement(inner) => !self.value(inner),
            Kind::Cast(inner) => {
                let value = self.value(inner);
                if inner.ty.signed { signed(value, inner.ty) as u64 } else { value }
            }
            Kind::Binary(op, left, right) => {
                let ty = if left.ty.bits == 0 { right.ty } else { left.ty };
                let (left, right) = (self.value(left), self.value(right));
                binary(*op, left, right, ty)
            }
            Kind::Verify => u64::from(self.packet.is_wrong()),
            Kind::Update(fields) => {
                let bytes = self.packet.bytes_of(self.gress, fields.iter().copied());
                u64::from(!ones_complement_sum(&bytes))
            }
        };
        if expr.ty.bits == 0 { raw } else { raw & ones(expr.ty.bits) }
    }

    /// The next of a series of numbers without pattern (xorshift).
    fn arbitrary(&mut self) -> u64 {
        let mut x = *self.noise;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        *self.noise = x;
        x
    }
}

/// The value of a type with a sign.
const fn signed(value: u64, ty: Type) -> i64 {
    let unused = 64 - ty.bits;
    (value << unused).cast_signed() >> unused
}

/// An operation on two values of a type; the caller removes the bits above its width.
fn binary(op: Op, left: u64, right: u64, ty: Type) -> u64 {
    let (a, b) = match ty.signed {
        true => (i128::from(signed(left, ty)), i128::from(signed(right, ty))),
        false => (i128::from(left), i128::from(right)),
    };
    let (least, greatest) = match ty.signed {
        true => (-(1i128 << (ty.bits - 1)), (1i128 << (ty.bits - 1)) - 1),
        false => (0, i128::from(ones(ty.bits))),
    };
    match op {
        Op::Add => left.wrapping_add(right),
        Op::Sub => left.wrapping_sub(right),
        Op::SaturatingAdd => (a + b).clamp(least, greatest) as u64,
        Op::And => left & right,
        Op::Or => left | right,
        Op::Xor => left ^ right,
        Op::Min => a.min(b) as u64,
        Op::Max => a.max(b) as u64,
        Op::Eq => u64::from(a == b),
        Op::Ne => u64::from(a != b),
        Op::Lt => u64::from(a < b),
        Op::Gt => u64::from(a > b),
        Op::Le => u64::from(a <= b),
        Op::Ge => u64::from(a >= b),
        Op::Both => u64::from(left != 0 && right != 0),
        Op::Either => u64::from(left != 0 || right != 0),
    }
}
