//! Register actions: on cells of a slot that is locked from the first access to the packet's end.

use netfold_bpf::{Alu, Helper, Jump, MapPart, Register as R, Size, Width};

use super::code::Label;
use super::expr::{Cell, Names};
use super::{
    CONTEXT, DATA, DATA_END, FRAME, KEY, LANES_UNROLLED, LOCKED, Lowering, MapId, PACKET, SLOT, SMALL_KEY,
    refusal,
};
use crate::ir::*;
use crate::refusal::Refusal;

/// Where a register's cells are: of an entry, or of a lane.
struct Place<'a> {
    declared: &'a Register,
    cells: Vec<Field>,
    /// Offset of the first in the slot.
    offset: i16,
    /// Offset of the lane in the packet.
    lane: Option<i16>,
}

impl Lowering<'_> {
    /// Runs a register action on the packet's slot. A slot that does not exist, or lanes that are needed and absent, drop the packet.
    pub(super) fn exec(
        &mut self,
        register: RegisterId,
        action: u16,
        index: &Expr,
        output: Output,
    ) -> Result<(), Refusal> {
        let p = self.p;
        let declared = p.register(register);
        let action = &declared.actions[usize::from(action)];
        let element = self.code.element();
        self.code.from(format!("register {}, action {}", declared.name, action.name));
        self.lock(index)?;
        let offset = self.layout.register(register) as i16;
        match &declared.kind {
            RegisterKind::Cells(cells) => {
                let place = Place { declared, cells: cells.clone(), offset, lane: None };
                self.touch(&place, action, output)?;
            }
            RegisterKind::Lanes(LANE_BITS) => self.touch_lanes(declared, action, offset, output)?,
            RegisterKind::Lanes(bits) => {
                return Err(refusal(
                    format!("register '{}' of lanes of {bits} bits", declared.name),
                    "lanes are words of 32 bits",
                ));
            }
        }
        self.code.from(element);
        Ok(())
    }

    /// Finds the slot and locks it, unless that is done.
    fn lock(&mut self, index: &Expr) -> Result<(), Refusal> {
        match &self.index {
            Some(other) if other != index => {
                return Err(refusal(
                    "registers with several indices",
                    "a packet has one slot, which is found and locked once",
                ));
            }
            Some(_) => {}
            None => self.index = Some(index.clone()),
        }
        if self.surely_locked {
            return Ok(());
        }
        let have = self.code.label();
        if self.maybe_locked {
            self.code.load(Size::Double, SLOT, FRAME, LOCKED);
            self.code.jump_k(Width::All, Jump::Ne, SLOT, 0, have);
        }
        let index = self.value(index, 0, &Names::default())?;
        self.code.store(Size::Word, FRAME, SMALL_KEY, index);
        self.lookup(MapId::Slots, SMALL_KEY);
        self.code.jump_k(Width::All, Jump::Eq, R(0), 0, self.drop);
        self.code.alu(Width::All, Alu::Mov, SLOT, R(0));
        self.code.store(Size::Double, FRAME, LOCKED, SLOT);
        self.code.alu(Width::All, Alu::Mov, R(1), SLOT);
        self.code.call(Helper::SpinLock);
        self.code.put(have);
        (self.maybe_locked, self.surely_locked) = (true, true);
        Ok(())
    }

    /// Looks a key on the stack up; the value's address or 0 is in register 0.
    pub(super) fn lookup(&mut self, map: MapId, key: i16) {
        self.code.map(R(1), map, MapPart::Itself);
        self.code.alu(Width::All, Alu::Mov, R(2), FRAME);
        self.code.alu_k(Width::All, Alu::Add, R(2), key.into());
        self.code.call(Helper::MapLookup);
    }

    /// Releases the slot, if it is locked.
    pub(super) fn unlock(&mut self) {
        if !self.maybe_locked {
            return;
        }
        let free = self.code.label();
        self.code.load(Size::Double, R(1), FRAME, LOCKED);
        self.code.jump_k(Width::All, Jump::Eq, R(1), 0, free);
        self.code.call(Helper::SpinUnlock);
        self.code.put(free);
    }

    /// Has the packet's lanes in reach of [`PACKET`], and returns their offset from it; jumps if the packet ends before, which is a packet without lanes.
    pub(super) fn lanes_in_reach(&mut self, absent: Label) -> Result<i16, Refusal> {
        let start = self.layout.lanes.ok_or_else(|| refusal("lanes", "the parser extracts none"))?;
        self.code.load(Size::Word, PACKET, CONTEXT, DATA);
        self.reach(start + self.p.lane_bytes(), absent);
        Ok(start as i16)
    }

    /// Jumps if the packet at [`PACKET`] ends before `bytes`.
    pub(super) fn reach(&mut self, bytes: u32, absent: Label) {
        self.code.load(Size::Word, R(2), CONTEXT, DATA_END);
        self.code.alu(Width::All, Alu::Mov, R(3), PACKET);
        self.code.alu_k(Width::All, Alu::Add, R(3), bytes as i32);
        self.code.jump(Width::All, Jump::Gt, R(3), R(2), absent);
    }

    fn touch_lanes(
        &mut self,
        declared: &Register,
        action: &RegAction,
        offset: i16,
        output: Output,
    ) -> Result<(), Refusal> {
        let mut lane = None;
        if action.uses_lanes(output) {
            self.load_variable(R(0), self.layout.has_lanes);
            self.code.jump_k(Width::Low, Jump::Eq, R(0), 0, self.drop);
            lane = Some(self.lanes_in_reach(self.drop)?);
        }
        self.each_lane(|lowering, number| {
            let at = 4 * number as i16;
            let lane = lane.map(|lane| lane + at);
            let place = Place { declared, cells: declared.cells(), offset: offset + at, lane };
            lowering.touch(&place, action, output)
        })
    }

    /// Emits `body` for every lane: once for each, or where there are many for a group of them in a loop, which moves the slot's and the
    /// packet's address on.
    fn each_lane(
        &mut self,
        mut body: impl FnMut(&mut Self, u32) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let count = self.p.lane_count();
        if count <= LANES_UNROLLED {
            return (0..count).try_for_each(|lane| body(self, lane));
        }
        let group = (1..=LANES_UNROLLED).rev().find(|group| count.is_multiple_of(*group)).unwrap_or(1);
        let again = self.code.label();
        self.code.run(netfold_bpf::Instruction::store_constant(
            Size::Double,
            FRAME,
            KEY,
            (count / group) as i32,
        ));
        self.code.put(again);
        (0..group).try_for_each(|lane| body(self, lane))?;
        let step = 4 * group as i32;
        self.code.alu_k(Width::All, Alu::Add, SLOT, step);
        self.code.alu_k(Width::All, Alu::Add, PACKET, step);
        self.code.load(Size::Double, R(0), FRAME, KEY);
        self.code.alu_k(Width::All, Alu::Add, R(0), -1);
        self.code.store(Size::Double, FRAME, KEY, R(0));
        self.code.jump_k(Width::All, Jump::Ne, R(0), 0, again);
        self.code.load(Size::Double, SLOT, FRAME, LOCKED);
        Ok(())
    }

    /// An action on an entry: conditions and new values see the old cells, the output both.
    fn touch(&mut self, place: &Place<'_>, action: &RegAction, output: Output) -> Result<(), Refusal> {
        let slot = |cell: usize| Cell::Slot(place.offset + 4 * cell as i16);
        let both = [Some(slot(0)), (place.cells.len() > 1).then(|| slot(1))];
        let mut names =
            Names { cells: &place.cells, old: both, new: both, lane: place.lane, ..Names::default() };
        for (number, cond) in action.conditions.iter().enumerate() {
            let (variable, end) = (self.layout.conditions[number], self.code.label());
            self.set_variable(variable, 0);
            self.jump_if(cond, false, end, 0, &names)?;
            self.set_variable(variable, 1);
            self.code.put(end);
        }
        let outputs: &[Case] = if output == Output::None { &[] } else { &action.output };
        let mut kept = both;
        for (cell, _) in &action.updates {
            let number = usize::from(*cell);
            let mentions = |case: &Case| case.value.mentions(&Expr::Cell(*cell));
            if outputs.iter().any(mentions) {
                let variable = self.layout.old[number];
                let old = self.value(&Expr::Cell(*cell), 0, &names)?;
                self.store_variable(variable, old);
                kept[number] = Some(Cell::Kept(variable));
            }
        }
        self.update(place, action, &names)?;
        names.old = kept;
        if output == Output::None {
            return Ok(());
        }
        // The new value is where it was computed.
        let written = matches!(&action.updates[..], [(0, _)]);
        if !(written && matches!(outputs, [Case { when: None, value: Expr::NewCell(0) }])) {
            self.cases(outputs, None, &names)?;
        }
        self.output(place, output)
    }

    /// Writes the new cells. If there is one, its value stays in register 0.
    fn update(&mut self, place: &Place<'_>, action: &RegAction, names: &Names<'_>) -> Result<(), Refusal> {
        let at = |cell: u8| place.offset + 4 * i16::from(cell);
        match &action.updates[..] {
            [] => {}
            [(cell, cases)] => {
                self.cases(cases, names.old[usize::from(*cell)], names)?;
                self.code.store(Size::Word, SLOT, at(*cell), R(0));
            }
            updates => {
                for (cell, cases) in updates {
                    self.cases(cases, names.old[usize::from(*cell)], names)?;
                    self.store_variable(self.layout.new[usize::from(*cell)], R(0));
                }
                for (cell, _) in updates {
                    self.load_variable(R(0), self.layout.new[usize::from(*cell)]);
                    self.code.store(Size::Word, SLOT, at(*cell), R(0));
                }
            }
        }
        Ok(())
    }

    /// The value of the first case that holds, otherwise of a cell or 0, in register 0.
    fn cases(&mut self, cases: &[Case], otherwise: Option<Cell>, names: &Names<'_>) -> Result<(), Refusal> {
        let end = self.code.label();
        for case in cases {
            let next = self.code.label();
            if let Some(when) = &case.when {
                self.jump_if(when, false, next, 0, names)?;
            }
            self.value(&case.value, 0, names)?;
            if case.when.is_none() {
                self.code.put(next);
                self.code.put(end);
                return Ok(());
            }
            self.code.go(end);
            self.code.put(next);
        }
        match otherwise {
            Some(Cell::Slot(offset)) => self.code.load(Size::Word, R(0), SLOT, offset),
            Some(Cell::Kept(variable)) => self.load_variable(R(0), variable),
            None => self.code.constant(R(0), 0),
        }
        self.code.put(end);
        Ok(())
    }

    /// Puts register 0 where the output goes.
    fn output(&mut self, place: &Place<'_>, output: Output) -> Result<(), Refusal> {
        match (output, place.lane) {
            (Output::Place(target), _) => self.assign(target),
            (Output::Lanes, Some(lane)) => {
                self.code.run(netfold_bpf::Instruction::big_endian(R(0), 32));
                self.code.store(Size::Word, PACKET, lane, R(0));
            }
            (Output::None, _) => {}
            _ => {
                return Err(refusal(
                    format!("register '{}' with an output to lane variables", place.declared.name),
                    "lanes are in the packet and in registers alone",
                ));
            }
        }
        Ok(())
    }
}
