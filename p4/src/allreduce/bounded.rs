//! Bounded loss: shares that are left out of a sum, and that the result says so.
//!
//! A child is *heard* when any packet of its chunk has come, and its *share* is in the sum when that packet had one: its `count`,
//! the number of workers in it, is 0 when the lanes were cut off on the way, or were never sent. `claim` has whom the slot
//! has heard; the two registers here have whose share it holds, and of how many workers. A result carries both, as they are,
//! so that every worker rescales alike and knows whether its own share is in it.
//!
//! CLOSE is admitted as a packet of all children: the slot has heard all from then on, and what comes later is a duplicate. So a
//! slot is completed once, by one packet, and its result never changes: it cannot be closed in two ways. It names the children that must have
//! been heard; while one of them has not, it changes nothing and is answered by whom the slot has heard.
//!
//! A tally counts three things in one word: workers in its low half, above them children that were closed out or sent a fold that
//! lacks some, above those children whose packets met congestion. A result that has any of the second kind says `partial`: it proves of
//! nobody that he was heard.

use netfold_wire::{Flags, Kind, Reason, header};

use super::steps::{EXPONENT, choose, when};
use super::{Build, Shares, new, reg_action, set, word};
use crate::ir::*;

pub(super) const SHARES: &str = "shares";
const TALLY: &str = "tally";

/// One child in the tally that was not heard, or in whose fold somebody was not, and one that met congestion. Each part has eight bits: a
/// switch has at most 32 children, and one CLOSE finishes a slot.
const UNHEARD: u64 = 1 << 16;
const MARKED: u64 = 1 << 24;
const UNHEARD_MASK: u64 = 0xff << 16;
const MARKED_MASK: u64 = 0xff << 24;

impl Build<'_> {
    /// Whose shares a slot holds, and the tally.
    pub(super) fn bounded_registers(&self, shares: Shares) -> [Register; 2] {
        let actions = |value: MetaId, join: fn(Expr, Expr) -> Expr| {
            let value = || self.var(value);
            vec![
                reg_action("store", set(value()), new()),
                reg_action("add", set(join(Expr::Cell(0), value())), new()),
                reg_action("read", vec![], new()),
            ]
        };
        let children = actions(shares.bit, |old, value| old | value);
        let tally = actions(shares.tally, |old, value| old + value);
        [
            self.register(SHARES, 6, RegisterKind::Cells(vec![word("children")]), children),
            self.register(TALLY, 7, RegisterKind::Cells(vec![word("tally")]), tally),
        ]
    }

    fn share_register(&self, name: &str) -> RegisterId {
        let at = self.program.registers.iter().position(|register| register.name == name);
        RegisterId(at.expect("a program for bounded loss has both registers") as u16)
    }

    /// Touches both registers. What they hold then is in the packet, but for its flags, if it is to go out.
    fn touch_shares(&self, shares: Shares, action: &str, goes_out: bool) -> Vec<Stmt> {
        let out = |place| if goes_out { Output::Place(place) } else { Output::None };
        let mut steps = vec![
            self.exec(self.share_register(SHARES), action, out(self.nf("bitmap"))),
            self.exec(self.share_register(TALLY), action, out(Place::Meta(shares.tally))),
        ];
        if goes_out {
            steps.push(self.put("count", self.var(shares.tally).cast(16)));
        }
        steps
    }

    /// The slot holds this packet's share, if it has one, and no other.
    pub(super) fn store_share(&self, shares: Shares, goes_out: bool) -> Vec<Stmt> {
        self.touch_shares(shares, "store", goes_out)
    }

    /// The slot holds this packet's share, if it has one, too.
    pub(super) fn add_share(&self, shares: Shares, goes_out: bool) -> Vec<Stmt> {
        self.touch_shares(shares, "add", goes_out)
    }

    /// Writes what the slot holds into the packet.
    pub(super) fn read_share(&self, shares: Shares) -> Vec<Stmt> {
        self.touch_shares(shares, "read", true)
    }

    /// The flags of a packet that goes out, by the tally.
    pub(super) fn tally_flags(&self, shares: Shares) -> Vec<Stmt> {
        [(UNHEARD_MASK, Flags::PARTIAL), (MARKED_MASK, Flags::CONGESTION)]
            .map(|(mask, flag)| {
                let counted = (self.var(shares.tally) & Expr::Const(mask, 32)).ne(Expr::Const(0, 32));
                when(counted, vec![self.with(flag)])
            })
            .to_vec()
    }

    /// What the packet has: a share, or lanes that were cut off, for which zeros are put.
    pub(super) fn share_in(&self, shares: Shares) -> Vec<Stmt> {
        let has = |flags: Flags| {
            let flags = || Expr::Const(u64::from(flags.0), 8);
            (self.get("flags") & flags()).eq(flags())
        };
        let count = |one| vec![self.set(shares.tally, self.var(shares.tally) + Expr::Const(one, 32))];
        let full = header::LEN as u64 + u64::from(self.profile.payload_bytes());
        let mut restore = vec![Stmt::AddLanes, self.without(Flags::BARE)];
        restore.extend(self.outer_lengths(full));
        let counts = self.get("count").ne(Expr::Const(0, 16));
        vec![
            when(counts, vec![self.set(shares.bit, self.var(self.vars.bit))]),
            self.set(shares.tally, self.get("count").cast(32)),
            when(has(Flags::PARTIAL), count(UNHEARD)),
            when(has(Flags::CONGESTION), count(MARKED)),
            when(has(Flags::TRIMMED.with(Flags::BARE)), restore),
        ]
    }

    /// A parent's RESULT as the children get it: with the tally of the whole job, and with the children whose shares this
    /// switch sent up, unless its own was left out above.
    pub(super) fn share_down(&self, shares: Shares) -> Vec<Stmt> {
        let bitmap = || Output::Place(self.nf("bitmap"));
        let (children, tally) = (self.share_register(SHARES), self.share_register(TALLY));
        let inside = (self.get("bitmap") & self.var(self.vars.bit)).ne(Expr::Const(0, 32));
        vec![
            self.set(shares.bit, Expr::Const(0, 32)),
            choose(
                inside,
                vec![self.exec(children, "read", bitmap())],
                vec![self.exec(children, "store", bitmap())],
            ),
            self.exec(tally, "store", Output::None),
        ]
    }

    /// Whether the slot has heard all children that a CLOSE names.
    fn has_quorum(&self) -> Expr {
        (self.var(self.vars.seen) & self.get("bitmap")).eq(self.get("bitmap"))
    }

    /// A worker's CLOSE: a slot that has its chunk, and has heard all whom the packet names, is full now.
    pub(super) fn close(&self, shares: Shares) -> Vec<Stmt> {
        let v = self.vars;
        let zero = || Expr::Const(0, 32);
        let out = |name| Output::Place(self.nf(name));
        let mut shut = vec![
            self.exec(EXPONENT, "read", out("exp_next")),
            self.set(shares.bit, zero()),
            self.set(shares.tally, Expr::Const(UNHEARD, 32)),
        ];
        shut.extend(self.add_share(shares, true));
        // A worker's CLOSE claims lanes that were cut off and has zeros there; one that claims none gets none.
        shut.push(when(Expr::Valid(Part::Lanes), self.read_lanes()));
        shut.extend(self.completed());
        let held = choose(
            self.var(v.missing).eq(zero()),
            self.again(),
            vec![choose(self.has_quorum(), shut, self.heard())],
        );
        vec![choose(
            zero().signed_gt(self.var(v.diff)),
            self.stale(),
            vec![choose(self.var(v.diff).eq(zero()), vec![held], vec![self.reason(Reason::Unexpected)])],
        )]
    }

    /// A child's DATA once more while others are missing: it is told whom the slot has heard, if the chunk may lack shares.
    pub(super) fn waiting(&self) -> Vec<Stmt> {
        let droppable = Expr::Const(u64::from(Flags::DROPPABLE.0), 8);
        vec![
            self.reason(Reason::Duplicate),
            when((self.get("flags") & droppable.clone()).eq(droppable), self.heard()),
        ]
    }

    /// The sender is told whom the slot has heard.
    fn heard(&self) -> Vec<Stmt> {
        let mut tell = vec![
            self.put("kind", Expr::Const(Kind::Heard as u64, 4)),
            self.put("bitmap", self.var(self.vars.seen)),
        ];
        tell.extend(self.header_only());
        tell.extend(self.answer());
        tell
    }

    /// Clears a flag.
    pub(super) fn without(&self, flags: Flags) -> Stmt {
        self.put("flags", self.get("flags") & Expr::Const(u64::from(!flags.0), 8))
    }

    /// Sets a flag.
    fn with(&self, flags: Flags) -> Stmt {
        self.put("flags", self.get("flags") | Expr::Const(u64::from(flags.0), 8))
    }
}
