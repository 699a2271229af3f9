//! Bounded loss: sums without some contributions, and results that report them.
//!
//! A child is *received* when any packet of its chunk has arrived. Its *contribution* is in the sum if that packet had one: its
//! `count`, the number of workers in it, is 0 when the packet was trimmed, or had no lanes. Register `claim` holds the children
//! received; the two registers here hold the contributors and the number of their workers. A result carries both, so that every
//! worker rescales alike and knows whether its own contribution is included.
//!
//! CLOSE is admitted as a packet of all children: the slot is complete from then on, and later contributions are duplicates. So a
//! slot is completed once, by one packet, and its result never changes. CLOSE names the children that must have been received;
//! while one of them is missing, it changes nothing and is answered with the bitmap of children received.
//!
//! A tally has three counters in one word: workers in its low half; above them children that were missing when the slot was closed
//! or whose own sum was partial; above those children whose packets had a congestion mark. A result with any of the second kind
//! has the flag `partial`: it proves of no child that it was received.

use netfold_wire::{Flags, Kind, Reason, header};

use super::steps::{EXPONENT, choose, when};
use super::{Build, Contributions, new, reg_action, set, word};
use crate::ir::*;

pub(super) const CONTRIBUTORS: &str = "contributors";
const TALLY: &str = "tally";

/// In the tally, one child that is missing or whose sum is partial, and one that met congestion. Each part has eight bits: a switch
/// has at most 32 children, and one CLOSE completes a slot.
const MISSING: u64 = 1 << 16;
const MARKED: u64 = 1 << 24;
const MISSING_MASK: u64 = 0xff << 16;
const MARKED_MASK: u64 = 0xff << 24;

impl Build<'_> {
    /// The contributors of a slot, and the tally.
    pub(super) fn bounded_registers(&self, contributions: Contributions) -> [Register; 2] {
        let actions = |value: MetaId, join: fn(Expr, Expr) -> Expr| {
            let value = || self.var(value);
            vec![
                reg_action("store", set(value()), new()),
                reg_action("add", set(join(Expr::Cell(0), value())), new()),
                reg_action("read", vec![], new()),
            ]
        };
        let children = actions(contributions.bit, |old, value| old | value);
        let tally = actions(contributions.tally, |old, value| old + value);
        [
            self.register(CONTRIBUTORS, 6, RegisterKind::Cells(vec![word("children")]), children),
            self.register(TALLY, 7, RegisterKind::Cells(vec![word("tally")]), tally),
        ]
    }

    fn contribution_register(&self, name: &str) -> RegisterId {
        let at = self.program.registers.iter().position(|register| register.name == name);
        RegisterId(at.expect("a program for bounded loss has both registers") as u16)
    }

    /// Accesses both registers. If the packet is sent, it contains their new values, except for its flags.
    fn touch_contributions(&self, contributions: Contributions, action: &str, goes_out: bool) -> Vec<Stmt> {
        let out = |place| if goes_out { Output::Place(place) } else { Output::None };
        let mut steps = vec![
            self.exec(self.contribution_register(CONTRIBUTORS), action, out(self.nf("bitmap"))),
            self.exec(self.contribution_register(TALLY), action, out(LValue::Meta(contributions.tally))),
        ];
        if goes_out {
            steps.push(self.put("count", self.var(contributions.tally).cast(16)));
        }
        steps
    }

    /// Replaces the slot's contributions by this packet's, if it has one.
    pub(super) fn store_contribution(&self, contributions: Contributions, goes_out: bool) -> Vec<Stmt> {
        self.touch_contributions(contributions, "store", goes_out)
    }

    /// Adds this packet's contribution, if it has one, to the slot's.
    pub(super) fn add_contribution(&self, contributions: Contributions, goes_out: bool) -> Vec<Stmt> {
        self.touch_contributions(contributions, "add", goes_out)
    }

    /// Writes the slot's contributors into the packet.
    pub(super) fn read_contribution(&self, contributions: Contributions) -> Vec<Stmt> {
        self.touch_contributions(contributions, "read", true)
    }

    /// Flags of a packet that is sent, from the tally.
    pub(super) fn tally_flags(&self, contributions: Contributions) -> Vec<Stmt> {
        [(MISSING_MASK, Flags::PARTIAL), (MARKED_MASK, Flags::CONGESTION)]
            .map(|(mask, flag)| {
                let counted = (self.var(contributions.tally) & Expr::Const(mask, 32)).ne(Expr::Const(0, 32));
                when(counted, vec![self.with(flag)])
            })
            .to_vec()
    }

    /// The packet's contribution; trimmed lanes become zeros.
    pub(super) fn contribution_in(&self, contributions: Contributions) -> Vec<Stmt> {
        let has = |flags: Flags| {
            let flags = || Expr::Const(u64::from(flags.0), 8);
            (self.get("flags") & flags()).eq(flags())
        };
        let count =
            |one| vec![self.set(contributions.tally, self.var(contributions.tally) + Expr::Const(one, 32))];
        let full = header::LEN as u64 + u64::from(self.profile.payload_bytes());
        let mut restore = vec![Stmt::AddLanes, self.without(Flags::BARE)];
        restore.extend(self.outer_lengths(full));
        let counts = self.get("count").ne(Expr::Const(0, 16));
        vec![
            when(counts, vec![self.set(contributions.bit, self.var(self.vars.bit))]),
            self.set(contributions.tally, self.get("count").cast(32)),
            when(has(Flags::PARTIAL), count(MISSING)),
            when(has(Flags::CONGESTION), count(MARKED)),
            when(has(Flags::TRIMMED.with(Flags::BARE)), restore),
        ]
    }

    /// Removes the lanes of a sum without any contribution: the parent accepts its header.
    pub(super) fn strip_empty(&self) -> Option<Stmt> {
        self.vars.contributions?;
        let empty = self.get("count").eq(Expr::Const(0, 16)).both(Expr::Valid(Part::Lanes));
        let mut steps = self.header_only();
        steps.push(self.with(Flags::TRIMMED));
        Some(when(empty, steps))
    }

    /// A parent's RESULT for the children: with the tally of the whole job, and with the children whose contributions this
    /// switch sent up, unless the parent left them out.
    pub(super) fn contribution_down(&self, contributions: Contributions) -> Vec<Stmt> {
        let bitmap = || Output::Place(self.nf("bitmap"));
        let (children, tally) = (self.contribution_register(CONTRIBUTORS), self.contribution_register(TALLY));
        let inside = (self.get("bitmap") & self.var(self.vars.bit)).ne(Expr::Const(0, 32));
        vec![
            self.set(contributions.bit, Expr::Const(0, 32)),
            choose(
                inside,
                vec![self.exec(children, "read", bitmap())],
                vec![self.exec(children, "store", bitmap())],
            ),
            self.exec(tally, "store", Output::None),
        ]
    }

    /// Whether the slot has received all children that a CLOSE names.
    fn has_quorum(&self) -> Expr {
        (self.var(self.vars.seen) & self.get("bitmap")).eq(self.get("bitmap"))
    }

    /// A worker's CLOSE: completes a slot that has its chunk and has received all children that the packet names.
    pub(super) fn close(&self, contributions: Contributions) -> Vec<Stmt> {
        let v = self.vars;
        let zero = || Expr::Const(0, 32);
        let out = |name| Output::Place(self.nf(name));
        let mut close = vec![
            self.exec(EXPONENT, "read", out("exp_next")),
            self.set(contributions.bit, zero()),
            self.set(contributions.tally, Expr::Const(MISSING, 32)),
        ];
        close.extend(self.add_contribution(contributions, true));
        // A worker's CLOSE has trimmed lanes, which became zeros; one without lanes gets none.
        close.push(when(Expr::Valid(Part::Lanes), self.read_lanes()));
        close.extend(self.completed());
        let held = choose(
            self.var(v.missing).eq(zero()),
            self.again(),
            vec![choose(self.has_quorum(), close, self.send_received())],
        );
        vec![choose(
            zero().signed_gt(self.var(v.diff)),
            self.stale(),
            vec![choose(self.var(v.diff).eq(zero()), vec![held], vec![self.reason(Reason::Unexpected)])],
        )]
    }

    /// A duplicate while others are missing: answered with the bitmap of children received, if the chunk is droppable.
    pub(super) fn waiting(&self) -> Vec<Stmt> {
        let droppable = Expr::Const(u64::from(Flags::DROPPABLE.0), 8);
        vec![
            self.reason(Reason::Duplicate),
            when((self.get("flags") & droppable.clone()).eq(droppable), self.send_received()),
        ]
    }

    /// Sends the bitmap of children received to the sender.
    fn send_received(&self) -> Vec<Stmt> {
        let mut steps = vec![
            self.put("kind", Expr::Const(Kind::Heard as u64, 4)),
            self.put("bitmap", self.var(self.vars.seen)),
        ];
        steps.extend(self.header_only());
        steps.extend(self.answer());
        steps
    }

    /// Clears a flag.
    pub(super) fn without(&self, flags: Flags) -> Stmt {
        self.put("flags", self.get("flags") & Expr::Const(u64::from(!flags.0), 8))
    }

    /// Sets a flag.
    pub(super) fn with(&self, flags: Flags) -> Stmt {
        self.put("flags", self.get("flags") | Expr::Const(u64::from(flags.0), 8))
    }
}
