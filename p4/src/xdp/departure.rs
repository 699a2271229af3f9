//! The end of a packet: what has changed is written back, and the packet goes where it was sent.

use netfold_bpf::{Alu, Helper, Instruction, Jump, MapPart, Register as R, Size, Width};

use super::layout::MOVED_BYTES;
use super::{
    CONTEXT, DATA, DATA_END, DATA_META, FRAME, Handover, Lowering, MapId, PACKET, SCRATCH, SMALL_KEY, pieces,
    verdict,
};
use crate::ir::*;
use crate::refusal::Refusal;
use crate::v1model::visit;

/// The flag of `bpf_redirect_map` that sends a packet to all interfaces of the map (`BPF_F_BROADCAST`).
const BROADCAST: i32 = 1 << 3;

impl Lowering<'_> {
    /// What follows the last statement.
    pub(super) fn leave(&mut self) -> Result<(), Refusal> {
        let dropped = self.code.label();
        self.code.from("departure: the slot is released");
        let maybe_locked = self.maybe_locked;
        self.unlock();
        if self.ingress {
            self.load_variable(R(0), self.layout.send);
            self.code.jump_k(Width::Low, Jump::Eq, R(0), 0, dropped);
        }
        self.code.from("departure: removed lanes");
        self.shorten(dropped);
        self.write_back(dropped);
        if self.ingress {
            self.redirect();
        } else {
            self.end(verdict::PASS);
        }
        self.code.from("drop");
        self.code.put(self.drop);
        self.maybe_locked = maybe_locked;
        self.unlock();
        self.code.put(dropped);
        if self.ingress {
            // What is not for the program is the network stack's.
            let ours = self.code.label();
            self.load_variable(R(0), self.layout.valid(Part::Header(self.layout.last_header)));
            self.code.jump_k(Width::Low, Jump::Ne, R(0), 0, ours);
            self.end(verdict::PASS);
            self.code.put(ours);
        }
        self.end(verdict::DROP);
        Ok(())
    }

    /// Takes removed lanes out of the packet, and moves what is behind them to the front.
    fn shorten(&mut self, dropped: super::Label) {
        let mut removes = false;
        let block = if self.ingress { &self.p.ingress } else { &self.p.egress };
        visit(block, &mut |stmt| removes |= matches!(stmt, Stmt::Remove(Part::Lanes)));
        let (true, Some(start)) = (removes, self.layout.lanes) else { return };
        let (end, bare) = (self.code.label(), self.code.label());
        let lanes = self.p.lane_bytes() as i32;
        self.load_variable(R(0), self.layout.has_lanes);
        self.code.jump_k(Width::Low, Jump::Ne, R(0), 0, end);
        self.load_variable(R(0), self.layout.room);
        self.code.jump_k(Width::Low, Jump::Eq, R(0), 0, end);
        self.code.load(Size::Word, PACKET, CONTEXT, DATA_END);
        self.code.load(Size::Word, R(1), CONTEXT, DATA);
        self.code.alu(Width::All, Alu::Sub, PACKET, R(1));
        self.code.alu_k(Width::All, Alu::Add, PACKET, -(start as i32 + lanes));
        self.code.jump_k(Width::All, Jump::SignedLe, PACKET, 0, bare);
        self.code.jump_k(Width::All, Jump::Gt, PACKET, MOVED_BYTES as i32, dropped);
        for (helper, from) in [(Helper::LoadBytes, start as i32 + lanes), (Helper::StoreBytes, start as i32)]
        {
            self.code.alu(Width::All, Alu::Mov, R(1), CONTEXT);
            self.code.alu_k(Width::All, Alu::Mov, R(2), from);
            self.code.alu(Width::All, Alu::Mov, R(3), SCRATCH);
            self.code.alu_k(Width::All, Alu::Add, R(3), self.layout.moved.into());
            self.code.alu(Width::All, Alu::Mov, R(4), PACKET);
            self.code.call(helper);
            self.code.jump_k(Width::All, Jump::Ne, R(0), 0, dropped);
        }
        self.code.put(bare);
        self.code.alu(Width::All, Alu::Mov, R(1), CONTEXT);
        self.code.alu_k(Width::All, Alu::Mov, R(2), -lanes);
        self.code.call(Helper::AdjustTail);
        self.code.jump_k(Width::All, Jump::Ne, R(0), 0, dropped);
        self.code.put(end);
    }

    /// Writes fields that statements assign, and the checksum.
    fn write_back(&mut self, dropped: super::Label) {
        self.code.load(Size::Word, PACKET, CONTEXT, DATA);
        let p = self.p;
        for (declared, number) in p.headers.iter().zip(0..) {
            let header = HeaderId(number);
            let changed = self.layout.changed(header);
            let summed = p.ipv4_checksum == Some(header);
            let Some(start) = self.layout.header(header).filter(|_| summed || !changed.is_empty()) else {
                continue;
            };
            self.code.from(format!("departure: header {}", declared.name));
            let absent = self.code.label();
            self.load_variable(R(0), self.layout.valid(Part::Header(header)));
            self.code.jump_k(Width::Low, Jump::Eq, R(0), 0, absent);
            self.reach(start + declared.len_bytes(), dropped);
            for container in changed {
                self.store_container(header, container);
            }
            if summed {
                let own = self.checksum(header, start);
                self.code.store(Size::Half, PACKET, own, R(0));
            }
            self.code.put(absent);
        }
    }

    fn store_container(&mut self, header: HeaderId, container: usize) {
        let (at, bytes) = self.layout.container(header, container);
        let fields: Vec<_> = self.layout.fields_of(header).collect();
        let of = |field: u16| self.layout.containers.position(header, field);
        let mut first = true;
        for (field, variable) in fields.into_iter().filter(|(field, _)| of(*field).container == container) {
            let shift = of(field).shift as i32;
            let to = if first { R(0) } else { R(1) };
            self.load_variable(to, variable);
            if shift > 0 {
                self.code.alu_k(Width::All, Alu::Shl, to, shift);
            }
            if !first {
                self.code.alu(Width::All, Alu::Or, R(0), R(1));
            }
            first = false;
        }
        for (offset, size) in pieces(bytes) {
            let below = 8 * (bytes - offset - size.bytes()) as i32;
            self.code.alu(Width::All, Alu::Mov, R(1), R(0));
            if below > 0 {
                self.code.alu_k(Width::All, Alu::Shr, R(1), below);
            }
            if size != Size::Byte {
                self.code.run(Instruction::big_endian(R(1), 8 * size.bytes() as i32));
            }
            self.code.store(size, PACKET, (at + offset) as i16, R(1));
        }
    }

    /// Hands over to egress, and sends the packet to a port or a group.
    fn redirect(&mut self) {
        self.code.from("departure: redirection");
        let (multicast, gone) = (self.code.label(), self.code.label());
        if !self.p.egress.is_empty() {
            self.hand_over(gone);
        }
        self.load_variable(R(0), self.layout.send);
        self.code.jump_k(Width::Low, Jump::Eq, R(0), Handover::MULTICAST as i32, multicast);
        self.code.map(R(1), MapId::Ports, MapPart::Itself);
        self.load_variable(R(2), self.layout.to);
        self.code.alu_k(Width::All, Alu::Mov, R(3), verdict::DROP);
        self.code.call(Helper::RedirectMap);
        self.code.run(Instruction::exit());
        self.code.put(multicast);
        self.load_variable(R(1), self.layout.to);
        self.code.store(Size::Word, FRAME, SMALL_KEY, R(1));
        self.lookup(MapId::Groups, SMALL_KEY);
        let group = self.code.label();
        self.code.jump_k(Width::All, Jump::Ne, R(0), 0, group);
        self.end(verdict::DROP);
        self.code.put(group);
        self.code.alu(Width::All, Alu::Mov, R(1), R(0));
        self.code.alu_k(Width::All, Alu::Mov, R(2), 0);
        self.code.alu_k(Width::All, Alu::Mov, R(3), BROADCAST);
        self.code.call(Helper::RedirectMap);
        self.code.run(Instruction::exit());
        self.code.put(gone);
        self.end(verdict::ABORTED);
    }

    fn hand_over(&mut self, gone: super::Label) {
        self.code.alu(Width::All, Alu::Mov, R(1), CONTEXT);
        self.code.alu_k(Width::All, Alu::Mov, R(2), -(Handover::LEN as i32));
        self.code.call(Helper::AdjustMeta);
        self.code.jump_k(Width::All, Jump::Ne, R(0), 0, gone);
        self.load_variable(R(4), self.layout.send);
        self.code.alu_k(Width::All, Alu::Shl, R(4), 16);
        self.load_variable(R(1), self.layout.to);
        self.code.alu(Width::All, Alu::Or, R(4), R(1));
        self.store_variable(self.layout.handover, R(4));
        self.load_variable(R(5), self.layout.number);
        self.code.alu_k(Width::Low, Alu::Add, R(5), 1);
        self.store_variable(self.layout.number, R(5));
        self.code.load(Size::Word, R(1), CONTEXT, DATA_META);
        self.code.load(Size::Word, R(2), CONTEXT, DATA);
        self.code.alu(Width::All, Alu::Mov, R(3), R(1));
        self.code.alu_k(Width::All, Alu::Add, R(3), Handover::LEN as i32);
        self.code.jump(Width::All, Jump::Gt, R(3), R(2), gone);
        self.code.store(Size::Word, R(1), 0, R(4));
        self.code.run(Instruction::store_constant(Size::Word, R(1), 4, 0));
        self.code.store(Size::Word, R(1), 8, R(5));
    }
}
