//! Bounded loss: shares that are left out of a sum, and that the result says so.
//!
//! A child is *heard* when any packet of its chunk has come, and its *share* is in the sum when that packet had one: its `count`,
//! the number of workers in it, is 0 when the lanes were cut off on the way, or were never sent. `claim` has whom the slot
//! has heard; the two registers here have whose share it holds, and of how many workers. A result carries both, as they are,
//! so that every worker rescales alike and knows whether its own share is in it.
//!
//! CLOSE is admitted as a packet of all children: the slot has heard all from then on, and what comes later is a duplicate. So a
//! slot is completed once, by one packet, and its result never changes: it cannot be closed in two ways.

use netfold_wire::{Flags, Kind, Reason, header};

use super::steps::{EXPONENT, choose, when};
use super::{Build, new, reg_action, set, word};
use crate::ir::*;

pub(super) const SHARES: &str = "shares";
const COUNTED: &str = "counted";

impl Build<'_> {
    /// Whose shares a slot holds, and how many workers'.
    pub(super) fn bounded_registers(&self, share: MetaId) -> [Register; 2] {
        let actions = |value: fn(&Self, MetaId) -> Expr, join: fn(Expr, Expr) -> Expr| {
            let value = || value(self, share);
            vec![
                reg_action("store", set(value()), new()),
                reg_action("add", set(join(Expr::Cell(0), value())), new()),
                reg_action("read", vec![], new()),
            ]
        };
        let shares = actions(|build, share| build.var(share), |old, value| old | value);
        let counted = actions(|build, _| build.get("count"), |old, value| old + value);
        let workers = Field { name: "workers".into(), bits: 16 };
        [
            self.register(SHARES, 6, RegisterKind::Cells(vec![word("children")]), shares),
            self.register(COUNTED, 7, RegisterKind::Cells(vec![workers]), counted),
        ]
    }

    fn share_register(&self, name: &str) -> RegisterId {
        let at = self.program.registers.iter().position(|register| register.name == name);
        RegisterId(at.expect("a program for bounded loss has both registers") as u16)
    }

    fn both_shares(&self, action: &str, bitmap: Output, count: Output) -> Vec<Stmt> {
        [(SHARES, bitmap), (COUNTED, count)]
            .map(|(name, output)| self.exec(self.share_register(name), action, output))
            .to_vec()
    }

    /// The slot holds this packet's share, if it has one, and no other.
    pub(super) fn store_share(&self, bitmap: Output, count: Output) -> Vec<Stmt> {
        self.both_shares("store", bitmap, count)
    }

    /// The slot holds this packet's share, if it has one, too.
    pub(super) fn add_share(&self, bitmap: Output, count: Output) -> Vec<Stmt> {
        self.both_shares("add", bitmap, count)
    }

    /// Writes what the slot holds into the packet.
    pub(super) fn read_share(&self) -> Vec<Stmt> {
        self.both_shares("read", Output::Place(self.nf("bitmap")), Output::Place(self.nf("count")))
    }

    /// What the packet has: a share, or lanes that were cut off, for which zeros are put.
    pub(super) fn share_in(&self, share: MetaId) -> Vec<Stmt> {
        let cut = Expr::Const(u64::from(Flags::TRIMMED.with(Flags::BARE).0), 8);
        let full = header::LEN as u64 + u64::from(self.profile.payload_bytes());
        let mut restore = vec![Stmt::AddLanes, self.without(Flags::BARE)];
        restore.extend(self.outer_lengths(full));
        let counts = self.get("count").ne(Expr::Const(0, 16));
        vec![
            when(counts, vec![self.set(share, self.var(self.vars.bit))]),
            when((self.get("flags") & cut.clone()).eq(cut), restore),
        ]
    }

    /// A parent's RESULT as the children get it: with the workers of the whole job, and with the children whose shares this
    /// switch sent up, unless its own was left out above.
    pub(super) fn share_down(&self, share: MetaId) -> Vec<Stmt> {
        let bitmap = || Output::Place(self.nf("bitmap"));
        let (shares, counted) = (self.share_register(SHARES), self.share_register(COUNTED));
        let inside = (self.get("bitmap") & self.var(self.vars.bit)).ne(Expr::Const(0, 32));
        vec![
            self.set(share, Expr::Const(0, 32)),
            choose(
                inside,
                vec![self.exec(shares, "read", bitmap())],
                vec![self.exec(shares, "store", bitmap())],
            ),
            self.exec(counted, "store", Output::None),
        ]
    }

    /// A worker's CLOSE: a slot that has its chunk is full now.
    pub(super) fn close(&self) -> Vec<Stmt> {
        let v = self.vars;
        let zero = || Expr::Const(0, 32);
        let out = |name| Output::Place(self.nf(name));
        let mut shut = vec![self.exec(EXPONENT, "read", out("exp_next"))];
        shut.extend(self.read_share());
        shut.extend(self.read_lanes());
        shut.extend(self.completed());
        vec![choose(
            zero().signed_gt(self.var(v.diff)),
            self.stale(),
            vec![choose(
                self.var(v.diff).eq(zero()),
                vec![choose(self.var(v.missing).eq(zero()), self.again(), shut)],
                vec![self.reason(Reason::Unexpected)],
            )],
        )]
    }

    /// A child's DATA once more while others are missing: it is told whom the slot has heard, if the chunk may lack shares.
    pub(super) fn waiting(&self) -> Vec<Stmt> {
        let droppable = Expr::Const(u64::from(Flags::DROPPABLE.0), 8);
        let mut tell = vec![
            self.put("kind", Expr::Const(Kind::Heard as u64, 4)),
            self.put("bitmap", self.var(self.vars.seen)),
        ];
        tell.extend(self.header_only());
        tell.extend(self.answer());
        vec![
            self.reason(Reason::Duplicate),
            when((self.get("flags") & droppable.clone()).eq(droppable), tell),
        ]
    }

    /// Clears a flag.
    pub(super) fn without(&self, flags: Flags) -> Stmt {
        self.put("flags", self.get("flags") & Expr::Const(u64::from(!flags.0), 8))
    }
}
