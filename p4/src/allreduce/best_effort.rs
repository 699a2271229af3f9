//! Best-effort jobs: jobs that share the slots of a switch, below an aggregator that has slots for each of them.
//!
//! The switch combines what it can, and the aggregator, its parent, has slots of the job's own, from which all results come. Register `occupant` has the epoch of the
//! job that occupies a slot, or 0. The first packet of a chunk takes a slot that is free, and further ones join it; where another
//! job occupies the slot, the packet is *spilled*: sent on to the aggregator, with the child's bit in `bitmap`. So is a duplicate while others are missing.
//!
//! If the first packet of a chunk is spilled, so are all others, although the slot may be free by then: a contribution that took it would wait for the first one in vain. Register `turns`
//! has a bit for each job (two jobs whose numbers are equal modulo 32 have the same): the bit of the chunk number in which chunks that follow each other in the slot and set differ, of
//! the job's latest packet there. Where that differs from the packet's, the packet is the first. An error of it is only a delay, or a chunk that is spilled although there is a slot. A retransmission takes no slot.
//!
//! The sum of all children goes to the aggregator as from any switch below a parent, with all their bits. The aggregator's RESULT releases the slot and is multicast; the switch stores none.
//! The controller's ADVANCE releases the slot if the packet names the epoch that occupies it.
//!
//! The aggregator receives packets from one port, whose bits are those in the packet: one child's, or all. A sum of all replaces
//! contributions of the same chunk that were spilled, since it has them too.
//!
//! Where the workers are at several switches the aggregator has a parent itself: what it has complete it sends up, as any switch below a parent. Each
//! switch of a tree can have an aggregator of its own above it.
//!
//! So a slot of the switch can be released at any time: workers retransmit what it had, and that is spilled. The method is ATP's (Lao et al., NSDI 2021), whose
//! aggregator is a parameter server.

use netfold_wire::{Flags, Kind, Reason};

use super::steps::{AGGREGATOR, BELOW, SHARED, choose, when};
use super::{BestEffort, Build, id, reg_action, set, word};
use crate::ir::*;

const OCCUPANT: &str = "occupant";
const TURNS: &str = "turns";

impl Build<'_> {
    /// Which job occupies a slot.
    pub(super) fn occupant(&self) -> Register {
        let epoch = || self.get("epoch");
        let old = || vec![Case::always(Expr::Cell(0))];
        let exchange = |name: &str, expected: Expr, value: Expr| RegAction {
            name: name.into(),
            conditions: vec![Expr::Cell(0).eq(expected)],
            updates: vec![(0, vec![Case::when(0, value)])],
            output: old(),
        };
        let free = || Expr::Const(0, 32);
        let actions = vec![
            exchange("take", free(), epoch()),
            exchange("release", epoch(), free()),
            reg_action("read", vec![], old()),
        ];
        self.register(OCCUPANT, 8, RegisterKind::Cells(vec![word("epoch")]), actions)
    }

    /// In which turn each job is at a slot.
    pub(super) fn turns(&self, BestEffort { mark, .. }: BestEffort) -> Register {
        let old = || vec![Case::always(Expr::Cell(0))];
        let others = Expr::Cell(0) & Expr::Complement(Box::new(self.var(mark)));
        let actions = vec![
            reg_action("odd", set(Expr::Cell(0) | self.var(mark)), old()),
            reg_action("even", set(others), old()),
        ];
        self.register(TURNS, 9, RegisterKind::Cells(vec![word("turns")]), actions)
    }

    fn exec_by_name(&self, name: &str, action: &str, output: Output) -> Stmt {
        let at = self.program.registers.iter().position(|register| register.name == name);
        let register = RegisterId(at.expect("a program for best-effort jobs has the register") as u16);
        self.exec(register, action, output)
    }

    fn exec_occupant(&self, action: &str, output: Output) -> Stmt {
        self.exec_by_name(OCCUPANT, action, output)
    }

    /// Notes the turn of the packet's chunk, and whether a packet of the same turn was here before.
    fn note_turn(&self, BestEffort { mark, turn, turns, follows, .. }: BestEffort) -> Stmt {
        let zero = || Expr::Const(0, 32);
        let exchange = |action| self.exec_by_name(TURNS, action, Output::Place(LValue::Meta(turns)));
        let was_odd = || (self.var(turns) & self.var(mark)).ne(zero());
        let follow = || vec![self.set(follows, Expr::Const(1, 8))];
        choose(
            (self.get("chunk") & self.var(turn)).ne(zero()),
            vec![exchange("odd"), when(was_odd(), follow())],
            vec![exchange("even"), when(!was_odd(), follow())],
        )
    }

    /// Whether the packet takes a free slot.
    pub(super) fn begins(&self) -> Option<Expr> {
        let best_effort = self.vars.best_effort?;
        Some(self.var(best_effort.begins).eq(Expr::Const(1, 8)))
    }

    /// The slot machine, and what comes before it: which job occupies the slot, and whose contributions a packet has.
    pub(super) fn with_best_effort(&self, machine: Vec<Stmt>) -> Vec<Stmt> {
        let Some(best_effort) = self.vars.best_effort else { return machine };
        let BestEffort { occupant, begins, apart, follows, everyone, .. } = best_effort;
        let one = || Expr::Const(1, 8);
        let none = || self.var(occupant).eq(Expr::Const(0, 32));
        let read = |action| self.exec_occupant(action, Output::Place(LValue::Meta(occupant)));
        let resent = self.flag(Flags::RESEND);
        let take = vec![read("take"), when(none(), vec![self.set(begins, one())])];
        let others = self.var(occupant).ne(self.get("epoch")).both(self.var(begins).ne(one()));
        let late = resent.either(self.var(follows).eq(one()));
        let shared = vec![
            self.note_turn(best_effort),
            choose(late, vec![read("read")], take),
            when(others, vec![self.set(apart, one())]),
        ];
        let mut pass = vec![self.exec_occupant("release", Output::None)];
        pass.extend(self.finish());
        let is_named = self.var(everyone).ne(Expr::Const(0, 32));
        let mut own = vec![when(is_named, self.name(best_effort))];
        let released = self.exec_occupant("release", Output::None);
        own.insert(0, when(self.kind_is(Kind::Advance), vec![released]));
        own.push(when(self.var(self.vars.reason).eq(Expr::Const(Reason::None as u64, 8)), machine.clone()));
        vec![choose(
            self.role_is(SHARED),
            {
                let mut steps = shared;
                steps.push(choose(self.var(apart).eq(one()), self.spill(), machine));
                steps
            },
            vec![choose(self.role_is(AGGREGATOR), pass, own)],
        )]
    }

    /// At the aggregator: the sender's bits are those that the packet names.
    fn name(&self, BestEffort { everyone, whole, .. }: BestEffort) -> Vec<Stmt> {
        let v = self.vars;
        let (bits, all) = (|| self.var(v.bit), || self.var(everyone));
        let several = (bits() & (bits() - Expr::Const(1, 32))).ne(Expr::Const(0, 32));
        let invalid = bits().eq(Expr::Const(0, 32)).either(several.both(bits().ne(all())));
        vec![
            self.set(v.bit, self.get("bitmap") & all()),
            self.set(v.others, all() & Expr::Complement(Box::new(bits()))),
            when(bits().eq(all()), vec![self.set(whole, Expr::Const(1, 8))]),
            when(invalid, vec![self.reason(Reason::Unexpected)]),
        ]
    }

    /// At the aggregator: a sum of all is no duplicate until all contributions are there.
    pub(super) fn unless_complete(&self) -> Option<Stmt> {
        let BestEffort { everyone, .. } = self.vars.best_effort?;
        let lacking = (self.var(everyone) & Expr::Complement(Box::new(self.var(self.vars.seen))))
            .ne(Expr::Const(0, 32));
        Some(when(self.is_whole()?.both(lacking), vec![self.set(self.vars.duplicate, Expr::Const(0, 32))]))
    }

    /// Whether the packet has the contributions of all, at an aggregator.
    pub(super) fn is_whole(&self) -> Option<Expr> {
        let BestEffort { whole, .. } = self.vars.best_effort?;
        Some(self.var(whole).eq(Expr::Const(1, 8)))
    }

    /// Sends a child's contribution to the aggregator as it is.
    pub(super) fn spill(&self) -> Vec<Stmt> {
        let (v, below) = (self.vars, self.vars.below);
        let Some(below) = below else { return vec![] };
        let mut steps = vec![
            self.put("flags", self.get("flags") & Expr::Const(u64::from(!Flags::RESEND.0), 8)),
            self.put("bitmap", self.var(v.bit)),
        ];
        steps.extend(self.outer.iter().flat_map(|outer| self.fresh_outer(*outer)));
        steps.extend(self.send_up(below));
        let spilled = self.program.counters.iter().position(|counter| counter.id == id::SPILLED);
        let spilled = CounterId(spilled.expect("a program for best-effort jobs has the counter") as u16);
        steps.push(Stmt::Count(spilled, self.var(below.up).cast(32)));
        steps
    }

    /// The actions of the job table that admit best-effort jobs: a child's packets, the aggregator's results, and, at the aggregator, the switch's packets.
    pub(super) fn best_effort_actions(&self) -> Vec<Action> {
        let (v, Some(best_effort), Some(below)) = (self.vars, self.vars.best_effort, self.vars.below) else {
            return vec![];
        };
        let base = ("base", 32, v.index);
        let (bit, others) = (("bit_mask", 32, v.bit), ("others", 32, v.others));
        let (world, group) = (("world", 16, v.world), ("group", 16, v.group));
        let (up, workers) = (("up", 16, below.up), ("workers", 16, below.workers));
        let everyone = ("everyone", 32, best_effort.everyone);
        let named = [base, everyone, world, group];
        let (mark, turn) = (("mark", 32, best_effort.mark), ("turn", 32, best_effort.turn));
        let role = |role| vec![self.set(below.role, Expr::Const(role, 8))];
        vec![
            self.admit(
                "admit_shared",
                id::ADMIT_SHARED,
                &[base, bit, others, world, group, up, workers, mark, turn],
                role(SHARED),
            ),
            self.admit("admit_down", id::ADMIT_DOWN, &[base, others, world, group], role(AGGREGATOR)),
            self.admit("admit_named", id::ADMIT_NAMED, &named, vec![]),
            self.admit(
                "admit_named_below",
                id::ADMIT_NAMED_BELOW,
                &[&named[..], &[up, workers]].concat(),
                role(BELOW),
            ),
        ]
    }
}

#[cfg(test)]
mod tests;
