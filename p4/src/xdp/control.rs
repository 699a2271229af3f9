//! Parser and statements.

use netfold_bpf::{Alu, Helper, Instruction, Jump, MapPart, Register as R, Size, Width};

use super::code::{Finished, Label};
use super::expr::Names;
use super::{
    CONTEXT, DATA, DATA_END, DATA_META, EGRESS_INTERFACE, FRAME, Handover, INGRESS_INTERFACE, KEY, LOCKED,
    Lowering, MapId, NUMBER, PACKET, SCRATCH, SMALL_KEY, layout, pieces, refusal, verdict,
};
use crate::ir::*;
use crate::refusal::{Refusal, sketch};

impl Lowering<'_> {
    pub(super) fn ingress(mut self) -> Result<Finished, Refusal> {
        self.start();
        let known = self.code.label();
        self.code.from("arrival: the port of the interface");
        self.code.load(Size::Word, R(1), CONTEXT, INGRESS_INTERFACE);
        self.code.store(Size::Word, FRAME, SMALL_KEY, R(1));
        self.lookup(MapId::Interfaces, SMALL_KEY);
        self.code.jump_k(Width::All, Jump::Ne, R(0), 0, known);
        self.end(verdict::PASS);
        self.code.put(known);
        self.code.load(Size::Word, R(1), R(0), 0);
        self.store_variable(self.layout.port, R(1));
        self.parser()?;
        self.block(&self.p.ingress)?;
        self.leave()?;
        self.code.finish()
    }

    pub(super) fn egress(mut self) -> Result<Finished, Refusal> {
        self.start();
        self.replica();
        self.parser()?;
        self.block(&self.p.egress)?;
        self.leave()?;
        self.code.finish()
    }

    /// Ends with a verdict.
    pub(super) fn end(&mut self, verdict: i32) {
        self.code.alu_k(Width::All, Alu::Mov, R(0), verdict);
        self.code.run(Instruction::exit());
    }

    /// Finds this CPU's memory and clears it.
    fn start(&mut self) {
        self.code.from("arrival: this CPU's variables");
        self.code.alu(Width::All, Alu::Mov, CONTEXT, R(1));
        self.code.run(Instruction::store_constant(Size::Double, FRAME, LOCKED, 0));
        self.code.run(Instruction::store_constant(Size::Word, FRAME, SMALL_KEY, 0));
        self.lookup(MapId::Scratch, SMALL_KEY);
        let found = self.code.label();
        self.code.jump_k(Width::All, Jump::Ne, R(0), 0, found);
        self.end(verdict::ABORTED);
        self.code.put(found);
        self.code.alu(Width::All, Alu::Mov, SCRATCH, R(0));
        for at in (0..self.layout.cleared as i16).step_by(8) {
            self.code.run(Instruction::store_constant(Size::Double, SCRATCH, at, 0));
        }
    }

    /// Reads what ingress handed over, and finds the replica by group and interface.
    fn replica(&mut self) {
        self.code.from("arrival of a copy: its replica");
        let (kept, have, unicast, member) =
            (self.code.label(), self.code.label(), self.code.label(), self.code.label());
        self.code.load(Size::Word, R(1), CONTEXT, DATA_META);
        self.code.load(Size::Word, R(2), CONTEXT, DATA);
        self.code.alu(Width::All, Alu::Mov, R(3), R(1));
        self.code.alu_k(Width::All, Alu::Add, R(3), Handover::LEN as i32);
        self.code.jump(Width::All, Jump::Gt, R(3), R(2), kept);
        self.code.load(Size::Word, R(4), R(1), 4);
        self.store_variable(self.layout.depth, R(4));
        self.code.load(Size::Word, R(3), R(1), 8);
        self.code.load(Size::Word, R(1), R(1), 0);
        self.code.go(have);
        self.code.put(kept);
        // Packet buffers lose what is before the packet, and are redirected one by one, before the next packet arrives.
        self.load_variable(R(3), self.layout.number);
        self.load_variable(R(1), self.layout.handover);
        self.code.put(have);
        self.code.alu(Width::Low, Alu::Mov, R(2), R(1));
        self.code.alu_k(Width::Low, Alu::Shr, R(2), 16);
        self.code.jump_k(Width::Low, Jump::Ne, R(2), Handover::MULTICAST as i32, unicast);
        self.code.alu_k(Width::Low, Alu::And, R(1), 0xffff);
        self.code.store(Size::Word, FRAME, KEY, R(1));
        self.code.store(Size::Word, FRAME, NUMBER, R(3));
        self.count_copy();
        self.lookup(MapId::Members, KEY);
        self.code.jump_k(Width::All, Jump::Ne, R(0), 0, member);
        self.end(verdict::DROP);
        self.code.put(member);
        self.code.load(Size::Word, R(1), R(0), 0);
        self.store_variable(self.layout.instance, R(1));
        self.code.put(unicast);
    }

    /// Completes the key of a replica by the interface, and by how many copies of the packet have left there. The copies of a packet leave on the CPU
    /// that received it, on each interface one after the other, though not in the order of the group's members.
    fn count_copy(&mut self) {
        let (port, counted, fresh) = (self.code.label(), self.code.label(), self.code.label());
        self.code.reads_egress_interface();
        self.code.load(Size::Word, R(1), CONTEXT, EGRESS_INTERFACE);
        self.code.store(Size::Word, FRAME, KEY + 4, R(1));
        self.code.store(Size::Word, FRAME, SMALL_KEY, R(1));
        self.lookup(MapId::Interfaces, SMALL_KEY);
        self.code.jump_k(Width::All, Jump::Ne, R(0), 0, port);
        self.end(verdict::DROP);
        self.code.put(port);
        self.code.load(Size::Word, R(1), R(0), 0);
        self.code.store(Size::Word, FRAME, SMALL_KEY, R(1));
        self.lookup(MapId::Copies, SMALL_KEY);
        self.code.jump_k(Width::All, Jump::Ne, R(0), 0, counted);
        self.end(verdict::DROP);
        self.code.put(counted);
        self.code.load(Size::Word, R(1), R(0), 0);
        self.code.load(Size::Word, R(2), FRAME, NUMBER);
        self.code.alu_k(Width::All, Alu::Mov, R(3), 0);
        self.code.jump(Width::Low, Jump::Ne, R(1), R(2), fresh);
        self.code.load(Size::Word, R(3), R(0), 4);
        self.code.put(fresh);
        self.code.store(Size::Word, FRAME, KEY + 8, R(3));
        self.code.store(Size::Word, R(0), 0, R(2));
        self.code.alu_k(Width::Low, Alu::Add, R(3), 1);
        self.code.store(Size::Word, R(0), 4, R(3));
    }

    fn parser(&mut self) -> Result<(), Refusal> {
        let states = &self.p.parser.states;
        let parsed = self.code.label();
        let labels: Vec<Label> = states.iter().map(|_| self.code.label()).collect();
        self.code.from("arrival: the packet's length");
        self.code.load(Size::Word, PACKET, CONTEXT, DATA);
        self.code.load(Size::Word, R(0), CONTEXT, DATA_END);
        self.code.alu(Width::All, Alu::Sub, R(0), PACKET);
        self.store_variable(self.layout.length, R(0));
        for index in layout::order(&self.p.parser) {
            let state = &states[index];
            self.code.from(format!("parser state {}", state.name));
            self.code.put(labels[index]);
            for part in &state.extract {
                self.extract(*part, parsed);
            }
            match &state.next {
                Next::Accept => self.code.go(parsed),
                Next::Select { on, cases, otherwise } => {
                    for (values, target) in cases {
                        let next = self.code.label();
                        self.case(on, values, next);
                        self.code.go(labels[usize::from(target.0)]);
                        self.code.put(next);
                    }
                    self.code.go(otherwise.map_or(parsed, |state| labels[usize::from(state.0)]));
                }
            }
        }
        self.code.put(parsed);
        Ok(())
    }

    /// Goes on if every field has the value of a case.
    fn case(&mut self, on: &[(HeaderId, u16)], values: &[(u64, u64)], next: Label) {
        for ((header, field), (value, care)) in on.iter().zip(values) {
            let bits = self.p.field(*header, *field).bits;
            let all = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
            let care = care & all;
            self.load_variable(R(0), self.layout.field(*header, *field));
            if care != all {
                self.code.constant(R(1), care);
                self.code.alu(Width::All, Alu::And, R(0), R(1));
            }
            self.code.constant(R(1), value & care);
            self.code.jump(Width::All, Jump::Ne, R(0), R(1), next);
        }
    }

    /// Marks a part as present and copies the fields that are used; jumps if the packet ends before.
    fn extract(&mut self, part: Part, parsed: Label) {
        let (start, bytes) = match part {
            Part::Header(header) => (self.layout.header(header), self.p.header(header).len_bytes()),
            Part::Lanes => (self.layout.lanes, self.p.lane_bytes()),
        };
        let start = start.unwrap_or(0);
        self.reach(start + bytes, parsed);
        self.set_variable(self.layout.valid(part), 1);
        self.set_variable(self.layout.rest, (start + bytes) as i32);
        let Part::Header(header) = part else { return self.set_variable(self.layout.room, 1) };
        let fields: Vec<_> = self.layout.fields_of(header).collect();
        let mut loaded = None;
        for (field, variable) in fields {
            let position = self.layout.containers.position(header, field);
            let (at, bytes) = self.layout.container(header, position.container);
            if loaded != Some(position.container) {
                self.load_container(at, bytes);
                loaded = Some(position.container);
            }
            let mut from = R(0);
            if position.bits < bytes * 8 {
                from = R(1);
                self.code.alu(Width::All, Alu::Mov, R(1), R(0));
                // The field's bits to the top, and down again.
                let above = 64 - position.shift - position.bits;
                self.code.alu_k(Width::All, Alu::Shl, R(1), above as i32);
                self.code.alu_k(Width::All, Alu::Shr, R(1), (64 - position.bits) as i32);
            }
            self.store_variable(variable, from);
        }
        if self.p.ipv4_checksum == Some(header) {
            self.verify(header, start);
        }
    }

    /// Loads big-endian bytes of the packet into register 0.
    fn load_container(&mut self, at: u32, bytes: u32) {
        for (number, (offset, size)) in pieces(bytes).into_iter().enumerate() {
            let to = if number == 0 { R(0) } else { R(1) };
            self.code.load(size, to, PACKET, (at + offset) as i16);
            let bits = 8 * size.bytes() as i32;
            if size != Size::Byte {
                self.code.run(Instruction::big_endian(to, bits));
            }
            if number > 0 {
                self.code.alu_k(Width::All, Alu::Shl, R(0), bits);
                self.code.alu(Width::All, Alu::Or, R(0), R(1));
            }
        }
    }

    /// Compares the checksum of a header with the right one.
    fn verify(&mut self, header: HeaderId, start: u32) {
        let (own, right) = (self.checksum(header, start), self.code.label());
        self.code.load(Size::Half, R(1), PACKET, own);
        self.code.jump(Width::Low, Jump::Eq, R(0), R(1), right);
        self.set_variable(self.layout.checksum_error, 1);
        self.code.put(right);
    }

    /// Computes the checksum of a header in the packet into register 0, as it is in memory; returns its offset.
    pub(super) fn checksum(&mut self, header: HeaderId, start: u32) -> i16 {
        let declared = self.p.header(header);
        let field = declared.fields.iter().position(|field| field.name == "checksum").unwrap_or(0);
        let own = start + declared.offset_bits(field as u16) / 8;
        // The sum is the same in either order of bytes, but for that order (RFC 1071).
        self.code.constant(R(0), 0);
        for at in (start..start + declared.len_bytes()).step_by(2).filter(|at| *at != own) {
            self.code.load(Size::Half, R(1), PACKET, at as i16);
            self.code.alu(Width::All, Alu::Add, R(0), R(1));
        }
        for _ in 0..2 {
            self.code.alu(Width::All, Alu::Mov, R(1), R(0));
            self.code.alu_k(Width::All, Alu::Shr, R(1), 16);
            self.code.alu_k(Width::All, Alu::And, R(0), 0xffff);
            self.code.alu(Width::All, Alu::Add, R(0), R(1));
        }
        self.code.alu_k(Width::All, Alu::Xor, R(0), 0xffff);
        own as i16
    }

    fn block(&mut self, block: &[Stmt]) -> Result<(), Refusal> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Refusal> {
        let names = Names::default();
        match stmt {
            Stmt::Assign(place, value) => {
                self.name(|| format!("{} = {}", sketch(&place.value()), sketch(value)));
                if self.maybe_locked
                    && self.index.as_ref().is_some_and(|index| index.mentions(&place.value()))
                {
                    return Err(refusal(
                        "an assignment to the slot's index behind an access to it",
                        "a packet has one slot, which is found and locked once",
                    ));
                }
                self.value(value, 0, &names)?;
                self.assign(*place);
            }
            Stmt::If(cond, then, otherwise) => {
                self.name(|| format!("if {}", sketch(cond)));
                self.branch(cond, then, otherwise)?;
            }
            Stmt::Apply(table) => {
                self.unlocked(|| format!("table '{}'", self.p.table(*table).name))?;
                self.apply(*table)?;
            }
            Stmt::Exec { register, action, index, output } => {
                if !self.ingress {
                    let name = &self.p.register(*register).name;
                    return Err(refusal(format!("register '{name}' in egress"), "copies access no slots"));
                }
                self.exec(*register, *action, index, *output)?;
            }
            Stmt::Count(counter, index) => self.count(*counter, index)?,
            Stmt::Remove(Part::Lanes) => {
                self.name(|| "lanes are removed".into());
                self.set_variable(self.layout.has_lanes, 0);
            }
            Stmt::Remove(Part::Header(header)) => {
                let name = &self.p.header(*header).name;
                return Err(refusal(format!("removal of header '{name}'"), "lanes alone leave a packet"));
            }
            Stmt::AddLanes => {
                self.unlocked(|| "lanes that are added".into())?;
                self.name(|| "lanes are added".into());
                self.add_lanes()?;
            }
            Stmt::AssignLane(..) => {
                return Err(refusal("assignment to every lane", "registers alone access lanes"));
            }
            Stmt::Unicast(port) => self.send(Handover::UNICAST, port)?,
            Stmt::Multicast(group) => self.send(Handover::MULTICAST, group)?,
            Stmt::Drop => self.set_variable(self.layout.send, 0),
            // There are no queues before the devices' own.
            Stmt::Priority(_) => {}
        }
        Ok(())
    }

    /// Names the statement that the next instructions come from.
    fn name(&mut self, statement: impl Fn() -> String) {
        let block = if self.ingress { "ingress" } else { "egress" };
        let element = refusal(statement(), "").named(self.p).construct;
        self.code.from(format!("{block}: {element}"));
    }

    /// Refuses what takes a call where a slot may be locked.
    fn unlocked(&self, what: impl Fn() -> String) -> Result<(), Refusal> {
        match self.maybe_locked {
            true => Err(refusal(
                format!("{} behind an access to a register", what()),
                "a program calls nothing while it holds a slot's lock",
            )),
            false => Ok(()),
        }
    }

    fn branch(&mut self, cond: &Expr, then: &[Stmt], otherwise: &[Stmt]) -> Result<(), Refusal> {
        let (no, end) = (self.code.label(), self.code.label());
        self.jump_if(cond, false, no, 0, &Names::default())?;
        let before = (self.maybe_locked, self.surely_locked);
        self.block(then)?;
        let after = (self.maybe_locked, self.surely_locked);
        (self.maybe_locked, self.surely_locked) = before;
        if !otherwise.is_empty() {
            self.code.go(end);
        }
        self.code.put(no);
        self.block(otherwise)?;
        self.code.put(end);
        self.maybe_locked |= after.0;
        self.surely_locked &= after.1;
        Ok(())
    }

    /// Assigns register 0; a field of a header that is absent stays as it is.
    pub(super) fn assign(&mut self, place: LValue) {
        match place {
            LValue::Meta(meta) => self.store_variable(self.layout.meta(meta), R(0)),
            LValue::Field(header, field) => {
                let absent = self.code.label();
                self.load_variable(R(1), self.layout.valid(Part::Header(header)));
                self.code.jump_k(Width::Low, Jump::Eq, R(1), 0, absent);
                self.store_variable(self.layout.field(header, field), R(0));
                self.code.put(absent);
            }
        }
    }

    fn send(&mut self, how: u32, to: &Expr) -> Result<(), Refusal> {
        let name = if how == Handover::UNICAST { "unicast to" } else { "multicast to" };
        self.name(|| format!("{name} {}", sketch(to)));
        let to = self.value(to, 0, &Names::default())?;
        self.store_variable(self.layout.to, to);
        self.set_variable(self.layout.send, how as i32);
        Ok(())
    }

    fn count(&mut self, id: CounterId, index: &Expr) -> Result<(), Refusal> {
        let counter = &self.p.counters[usize::from(id.0)];
        self.code.from(format!("counter {}", counter.name));
        let (start, outside) = (self.layout.counter(id), self.code.label());
        self.value(index, 0, &Names::default())?;
        self.code.jump_k(Width::Low, Jump::Ge, R(0), counter.size as i32, outside);
        self.code.alu_k(Width::All, Alu::Shl, R(0), 3);
        self.code.map(R(1), MapId::Counters, MapPart::Value(start));
        self.code.alu(Width::All, Alu::Add, R(1), R(0));
        self.code.constant(R(2), 1);
        self.code.run(Instruction::atomic_add(R(1), 0, R(2)));
        self.code.put(outside);
        Ok(())
    }

    /// Adds zero lanes to a packet without lanes and payload, whose memory grows for it.
    fn add_lanes(&mut self) -> Result<(), Refusal> {
        let [end, room] = std::array::from_fn(|_| self.code.label());
        self.load_variable(R(0), self.layout.has_lanes);
        self.code.jump_k(Width::Low, Jump::Ne, R(0), 0, end);
        self.load_variable(R(0), self.layout.rest);
        self.load_variable(R(1), self.layout.length);
        self.code.jump(Width::Low, Jump::Ne, R(0), R(1), self.drop);
        self.load_variable(R(0), self.layout.room);
        self.code.jump_k(Width::Low, Jump::Ne, R(0), 0, room);
        self.code.alu(Width::All, Alu::Mov, R(1), CONTEXT);
        self.code.constant(R(2), self.p.lane_bytes().into());
        self.code.call(Helper::AdjustTail);
        self.code.jump_k(Width::All, Jump::Ne, R(0), 0, self.drop);
        self.set_variable(self.layout.room, 1);
        self.code.put(room);
        let start = self.lanes_in_reach(self.drop)?;
        self.code.constant(R(0), 0);
        for lane in 0..self.p.lane_count() as i16 {
            self.code.store(Size::Word, PACKET, start + 4 * lane, R(0));
        }
        self.set_variable(self.layout.has_lanes, 1);
        self.code.put(end);
        Ok(())
    }
}
