//! Results whose lanes one member receives.

use netfold_wire::{Kind, WORLD_MAX};

use super::steps::when;
use super::{Build, Members, id};
use crate::ir::*;

impl Build<'_> {
    /// Whether the packet names an owner that is not among the members behind a child.
    ///
    /// Fields name members from 1 to [`WORLD_MAX`], so the differences fit 16 bits with a sign.
    fn is_not_behind(&self, members: Members) -> Expr {
        let owner = || self.get("owner");
        let outside = (owner() - self.var(members.first)) | (self.var(members.last) - owner());
        let named = owner().ne(Expr::Const(0, 16));
        named.both(Expr::Const(0, 16).signed_gt(outside))
    }

    /// Marks the packet as a stored RESULT that goes to its sender alone.
    pub(super) fn mark_reply(&self) -> Option<Stmt> {
        self.vars.members.map(|members| self.set(members.reply, Expr::Const(1, 8)))
    }

    /// Removes the lanes of a reply to a child that does not receive them: after the flags that depend on the lanes have been set.
    pub(super) fn strip_reply(&self) -> Option<Stmt> {
        let members = self.vars.members?;
        let reply = self.var(members.reply).eq(Expr::Const(1, 8));
        Some(when(reply.both(self.is_not_behind(members)), self.header_only()))
    }

    /// The last step of egress: removes the lanes from copies of a result for children that do not receive them.
    pub(super) fn strip_copies(&mut self) {
        let Some(members) = self.vars.members else { return };
        let param = |name: &str| Field { name: name.into(), bits: 16 };
        let set = |first, last| {
            let place = |meta| LValue::Meta(meta);
            vec![Stmt::Assign(place(members.first), first), Stmt::Assign(place(members.last), last)]
        };
        let named = ActionId(self.program.actions.len() as u16);
        self.program.actions.push(Action {
            name: "members".into(),
            id: id::MEMBERS,
            params: vec![param("first"), param("last")],
            body: set(Expr::Param(0), Expr::Param(1)),
        });
        let every = ActionId(named.0 + 1);
        self.program.actions.push(Action {
            name: "every_member".into(),
            id: id::EVERY_MEMBER,
            params: vec![],
            body: set(Expr::Const(1, 16), Expr::Const(WORLD_MAX.into(), 16)),
        });
        self.program.tables.push(Table {
            name: "receiver".into(),
            id: id::RECEIVER,
            keys: vec![Key {
                name: "instance".into(),
                id: 1,
                value: Expr::Meta(self.vars.port),
                kind: MatchKind::Exact,
            }],
            actions: vec![named, every],
            default: (every, vec![]),
            size: self.profile.receiver_table_size(),
        });
        let table = TableId(self.program.tables.len() as u16 - 1);
        let strip = when(self.is_not_behind(members), self.header_only());
        let copy = self.var(self.vars.port).ne(Expr::Const(0, 16)).both(self.kind_is(Kind::Result));
        let steps = vec![
            self.set(self.vars.port, Expr::Intrinsic(Intrinsic::Instance)),
            when(copy, vec![Stmt::Apply(table), strip]),
        ];
        let owned = when(self.get("owner").ne(Expr::Const(0, 16)), steps);
        self.program.egress.push(owned);
    }
}
