//! The control flow of the all-reduce program: checks, admission, slot machine, replies.

use netfold_wire::{Flags, Kind, Reason, header};

use super::{Below, Build, VERSION_VALUE, id};
use crate::ir::*;
use crate::profile::{Encapsulation, Numerics};

const CLAIM: RegisterId = RegisterId(0);
const VERSION: RegisterId = RegisterId(1);
pub(super) const EXPONENT: RegisterId = RegisterId(2);
pub(super) const SUM: RegisterId = RegisterId(3);
const PACKETS: CounterId = CounterId(0);
const ANSWERS: CounterId = CounterId(1);
const SETTLED: RegisterId = RegisterId(4);

/// Indices of counter `answers`.
mod answers {
    pub(super) const RESULTS: u64 = 0;
    pub(super) const REPEATED: u64 = 1;
    pub(super) const UP: u64 = 2;
    pub(super) const UP_AGAIN: u64 = 3;
}

/// Values of the `role` variable: the switch is the root (0), the sender is a child of a switch with a parent, or the
/// sender is the parent.
pub(super) const BELOW: u64 = 1;
pub(super) const PARENT: u64 = 2;

/// The same of best-effort jobs: the sender is a child at a switch whose slots jobs share, or it is the aggregator.
pub(super) const SHARED: u64 = 3;
pub(super) const AGGREGATOR: u64 = 4;

/// Values of the `answer` variable: no reply; a REJECT; the packet has a destination; a REJECT that carries a path token.
const SILENT: u64 = 0;
pub(super) const REFUSED: u64 = 1;
const DECIDED: u64 = 2;
pub(super) const CHALLENGED: u64 = 3;

/// Bytes of IPv4 and UDP headers, and of UDP and IPv4 alone.
const IPV4_LEN: u64 = 20;
const UDP_LEN: u64 = 8;
const ETHERNET_LEN: u64 = 14;

pub(super) fn when(cond: Expr, then: Vec<Stmt>) -> Stmt {
    Stmt::If(cond, then, vec![])
}

pub(super) fn choose(cond: Expr, then: Vec<Stmt>, otherwise: Vec<Stmt>) -> Stmt {
    Stmt::If(cond, then, otherwise)
}

impl Build<'_> {
    pub(super) fn var(&self, var: MetaId) -> Expr {
        Expr::Meta(var)
    }

    pub(super) fn set(&self, var: MetaId, value: Expr) -> Stmt {
        Stmt::Assign(LValue::Meta(var), value)
    }

    pub(super) fn put(&self, name: &str, value: Expr) -> Stmt {
        Stmt::Assign(self.nf(name), value)
    }

    pub(super) fn reason(&self, reason: Reason) -> Stmt {
        self.set(self.vars.reason, Expr::Const(reason as u64, 8))
    }

    pub(super) fn exec(&self, register: RegisterId, action: &str, output: Output) -> Stmt {
        let actions = &self.program.register(register).actions;
        let action = actions.iter().position(|a| a.name == action).expect("action names below are literals");
        Stmt::Exec { register, action: action as u16, index: self.var(self.vars.index), output }
    }

    /// Checks, then admission, then the slot machine; every packet is counted once under its reason.
    pub(super) fn ingress(&self) -> Vec<Stmt> {
        let v = self.vars;
        let admitted = self.var(v.reason).eq(Expr::Const(Reason::None as u64, 8));
        let mut steps = vec![self.set(v.port, Expr::Intrinsic(Intrinsic::IngressPort))];
        if self.outer.is_none() {
            steps.push(self.echo_mark());
        }
        steps.extend(self.checks());
        steps
            .push(when(admitted.clone(), vec![Stmt::Apply(TableId(0)), when(admitted, self.slot_machine())]));
        let answer = |value| self.var(v.answer).eq(Expr::Const(value, 8));
        let silent = when(answer(SILENT), vec![Stmt::Drop]);
        let challenged = choose(answer(CHALLENGED), self.challenge(), vec![silent]);
        steps.push(choose(answer(REFUSED), self.reject(), vec![challenged]));
        steps.push(Stmt::Count(PACKETS, self.var(v.reason).cast(32)));
        steps
    }

    /// Copies a congestion mark of the transport to the header of DATA. The RESULT has the mark of the packet that completes it:
    /// it arrived last, so most likely it went through the longest queue.
    fn echo_mark(&self) -> Stmt {
        let marked = Expr::Intrinsic(Intrinsic::CongestionMark);
        when(marked.both(self.kind_is(Kind::Data)), vec![self.with(Flags::CONGESTION)])
    }

    /// Sets a reason for packets that no job can accept: not Netfold, wrong length, wrong version, unknown operation.
    fn checks(&self) -> Vec<Stmt> {
        let netfold = || Expr::Valid(Part::Header(self.netfold));
        let lanes = || Expr::Valid(Part::Lanes);
        let bare = u64::from(header::LEN as u16);
        let full = bare + u64::from(self.profile.payload_bytes());
        let length_is = |len: u64| match self.outer {
            None => Expr::Intrinsic(Intrinsic::PacketLength).eq(Expr::Const(len, 32)),
            Some(outer) => {
                let udp = self.place(outer.udp, "length").value().eq(Expr::Const(UDP_LEN + len, 16));
                let ip =
                    self.place(outer.ipv4, "total_len").value().eq(Expr::Const(IPV4_LEN + UDP_LEN + len, 16));
                let frame = Expr::Intrinsic(Intrinsic::PacketLength)
                    .eq(Expr::Const(ETHERNET_LEN + IPV4_LEN + UDP_LEN + len, 32));
                frame.both(ip).both(udp)
            }
        };
        let is_bare = self.flag(Flags::BARE);
        let length_ok = lanes().both(length_is(full)).either((!lanes()).both(is_bare).both(length_is(bare)));
        let version = self.get("version").eq(Expr::Const(VERSION_VALUE, 4));
        let known_op = self
            .profile
            .ops
            .iter()
            .map(|op| self.op_is(*op))
            .reduce(Expr::either)
            .expect("the profile has at least one operation");
        let body = choose(
            version,
            vec![choose(
                length_ok,
                vec![when(!known_op, vec![self.reason(Reason::Kind)])],
                vec![self.reason(Reason::Length)],
            )],
            vec![self.reason(Reason::Version)],
        );
        let absent = if self.outer.is_some() { Reason::NotNetfold } else { Reason::Length };
        let mut checked = vec![body];
        if self.outer.is_some() {
            let broken = Expr::Intrinsic(Intrinsic::ChecksumError);
            checked = vec![choose(broken, vec![self.reason(Reason::NotNetfold)], checked)];
        }
        vec![choose(netfold(), checked, vec![self.reason(absent)])]
    }

    /// Whether the packet has all of these flags.
    pub(super) fn flag(&self, flags: Flags) -> Expr {
        let bits = || Expr::Const(u64::from(flags.0), 8);
        (self.get("flags") & bits()).eq(bits())
    }

    fn slot_machine(&self) -> Vec<Stmt> {
        let v = self.vars;
        let slot_set = self.get("slot").concat(self.get("set")).cast(32);
        let seen = Output::Place(LValue::Meta(v.seen));
        let stored = Output::Place(LValue::Meta(v.stored));
        let probe = self.kind_is(Kind::Probe);
        let looks = match v.below {
            Some(_) => probe.either(self.role_is(PARENT)),
            None => probe,
        };
        let up = match v.contributions {
            Some(contributions) => {
                vec![choose(self.kind_is(Kind::Close), self.close(contributions), self.data())]
            }
            None => self.data(),
        };
        let data = match v.below {
            Some(below) => vec![choose(self.role_is(PARENT), self.down(below), up)],
            None => up,
        };
        let mut touch = vec![self.exec(CLAIM, "touch", seen), self.exec(VERSION, "touch", stored)];
        if v.contributions.is_some() {
            let shut = vec![self.exec(CLAIM, "shut", seen), self.exec(VERSION, "peek", stored)];
            touch = vec![choose(self.kind_is(Kind::Close), shut, touch)];
        }
        if let Some(begins) = self.begins() {
            let begin = vec![
                self.exec(CLAIM, "begin", Output::None),
                self.exec(VERSION, "begin", Output::None),
                self.set(v.stored, self.get("chunk") - Expr::Const(1, 32)),
            ];
            touch = vec![choose(begins, begin, touch)];
        }
        let mut steps: Vec<_> =
            v.contributions.iter().flat_map(|contributions| self.contribution_in(*contributions)).collect();
        steps.extend([
            choose(looks, vec![self.exec(CLAIM, "peek", seen), self.exec(VERSION, "peek", stored)], touch),
            self.set(v.diff, self.get("chunk") - self.var(v.stored)),
            self.set(v.duplicate, self.var(v.seen) & self.var(v.bit)),
            self.set(v.missing, self.var(v.others) & Expr::Complement(Box::new(self.var(v.seen)))),
        ]);
        steps.extend(self.unless_complete());
        if !self.lanes_in().is_empty() {
            steps.push(when(Expr::Valid(Part::Lanes), self.lanes_in()));
        }
        steps.push(choose(self.var(v.controller).eq(Expr::Const(1, 8)), self.controller(), data));
        steps.extend(self.lanes_out());
        steps.extend(self.strip_reply());
        let mut machine = vec![self.set(v.index, self.var(v.index) + slot_set)];
        machine.extend(self.with_best_effort(steps));
        machine
    }

    /// Whether the sender is a [`BELOW`] or [`PARENT`]; never in a program without hierarchy.
    pub(super) fn role_is(&self, role: u64) -> Expr {
        match self.vars.below {
            Some(below) => self.var(below.role).eq(Expr::Const(role, 8)),
            None => Expr::Const(0, 8).eq(Expr::Const(1, 8)),
        }
    }

    /// ADVANCE and PROBE, answered with the chunk that the slot now holds.
    fn controller(&self) -> Vec<Stmt> {
        let v = self.vars;
        let advanced = self.kind_is(Kind::Advance).both(self.var(v.diff).signed_gt(Expr::Const(0, 32)));
        let mut clear = vec![self.exec(EXPONENT, "clear", Output::None)];
        clear.extend(self.clear_lanes());
        clear.extend(
            v.contributions.iter().flat_map(|contributions| self.store_contribution(*contributions, false)),
        );
        if v.below.is_some() {
            // Keeps it near the chunk, in serial order, in slots that no job uses.
            clear.insert(0, self.exec(SETTLED, "mark", Output::None));
        }
        let keep = vec![self.put("chunk", self.var(v.stored)), self.put("bitmap", self.var(v.seen))];
        let mut steps = vec![choose(advanced, clear, keep)];
        steps.extend(self.answer());
        steps
    }

    fn data(&self) -> Vec<Stmt> {
        let v = self.vars;
        let zero = || Expr::Const(0, 32);
        let duplicate = || self.var(v.duplicate).ne(zero());
        let complete = || self.var(v.missing).eq(zero());
        let exponent = Output::Place(self.nf("exp_next"));
        let mut last = self.aggregate(exponent, true);
        last.extend(self.completed());
        let waiting = match v.contributions {
            Some(_) => self.waiting(),
            None => vec![self.reason(Reason::Duplicate)],
        };
        let waiting = match v.best_effort {
            // The others may have the result: then they never send to this slot again.
            Some(_) => vec![choose(self.role_is(SHARED), self.spill(), waiting)],
            None => waiting,
        };
        let older = match v.best_effort {
            // The slot has moved on, and so may the aggregator's have, which decides.
            Some(_) => vec![choose(self.role_is(SHARED), self.spill(), self.stale())],
            None => self.stale(),
        };
        vec![choose(
            zero().signed_gt(self.var(v.diff)),
            older,
            vec![choose(
                duplicate(),
                vec![choose(complete(), self.again(), waiting)],
                vec![choose(complete(), last, self.aggregate(Output::None, false))],
            )],
        )]
    }

    /// Sends the packet, which holds the complete sum.
    pub(super) fn completed(&self) -> Vec<Stmt> {
        match self.vars.below {
            Some(below) => {
                let up = self.upward(below, answers::UP);
                vec![choose(self.is_below(), up, self.finish_fold())]
            }
            None => self.finish_fold(),
        }
    }

    /// Whether the sender is a child of a switch that sends its sums up.
    fn is_below(&self) -> Expr {
        let below = self.role_is(BELOW);
        if self.vars.best_effort.is_some() { below.either(self.role_is(SHARED)) } else { below }
    }

    /// Sends STALE: the sender's chunk is older than the slot's.
    pub(super) fn stale(&self) -> Vec<Stmt> {
        let mut steps = vec![self.put("kind", Expr::Const(Kind::Stale as u64, 4))];
        steps.extend(self.header_only());
        steps.push(self.reason(Reason::Stale));
        steps.extend(self.answer());
        steps
    }

    /// Retransmits the stored lanes: a RESULT to the child that sent a duplicate, or up again a sum that has no RESULT yet.
    pub(super) fn again(&self) -> Vec<Stmt> {
        let v = self.vars;
        let exponent = Output::Place(self.nf("exp_next"));
        let mut read = vec![self.exec(EXPONENT, "read", exponent)];
        read.extend(v.contributions.iter().flat_map(|contributions| self.read_contribution(*contributions)));
        read.push(when(Expr::Valid(Part::Lanes), self.read_lanes()));
        read.extend(self.emit());
        read.extend(self.own_flags());
        let mut repeat = self.result();
        repeat.extend(self.mark_reply());
        repeat.extend(self.answer());
        repeat.push(self.count(answers::REPEATED));
        let Some(below) = v.below else {
            read.extend(repeat);
            return read;
        };
        let mut unsettled = self.role_is(BELOW).both(self.var(below.settled).ne(self.get("chunk")));
        if v.best_effort.is_some() {
            unsettled = unsettled.either(self.role_is(SHARED));
        }
        let mut steps = vec![self.exec(SETTLED, "read", Output::Place(LValue::Meta(below.settled)))];
        steps.extend(read);
        if !self.unshifted().is_empty() {
            let settled = self.role_is(BELOW).both(self.var(below.settled).eq(self.get("chunk")));
            steps.push(when(settled, self.unshifted()));
        }
        steps.push(choose(unsettled, self.upward(below, answers::UP_AGAIN), repeat));
        steps
    }

    /// Turns the packet, which holds the sum, into the RESULT for all children.
    fn finish_fold(&self) -> Vec<Stmt> {
        let mut steps = self.emit();
        steps.extend(self.own_flags());
        steps.extend(self.finish());
        steps
    }

    /// Turns the packet into the RESULT for all children.
    pub(super) fn finish(&self) -> Vec<Stmt> {
        let mut steps = self.result();
        steps.extend(self.outer.iter().flat_map(|outer| self.fresh_outer(*outer)));
        steps.push(self.set(self.vars.answer, Expr::Const(DECIDED, 8)));
        steps.push(Stmt::Multicast(self.var(self.vars.group)));
        steps.push(self.count(answers::RESULTS));
        steps
    }

    /// Turns the packet, which holds the sum, into this switch's contribution and sends it to the parent.
    fn upward(&self, below: Below, counted: u64) -> Vec<Stmt> {
        let v = self.vars;
        let mut steps = self.emit();
        steps.extend(self.own_flags());
        steps.extend(match v.contributions {
            // The registers of contributions have set the bitmap and the count.
            Some(_) => vec![self.put("kind", Expr::Const(Kind::Data as u64, 4))],
            None => vec![
                self.put("bitmap", self.var(v.others) | self.var(v.bit)),
                self.put("count", self.var(below.workers)),
            ],
        });
        steps.extend(self.outer.iter().flat_map(|outer| self.fresh_outer(*outer)));
        steps.extend(self.strip_empty());
        steps.extend(self.send_up(below));
        steps.push(self.count(counted));
        steps
    }

    /// Sends the packet to the parent.
    pub(super) fn send_up(&self, below: Below) -> [Stmt; 2] {
        let decided = self.set(self.vars.answer, Expr::Const(DECIDED, 8));
        [decided, Stmt::Multicast(self.var(below.up))]
    }

    /// The parent's RESULT for the sum that this switch sent up: stored, and passed to the children.
    fn down(&self, below: Below) -> Vec<Stmt> {
        let v = self.vars;
        let zero = || Expr::Const(0, 32);
        let mut keep = vec![
            self.exec(EXPONENT, "store", Output::None),
            when(Expr::Valid(Part::Lanes), self.store_lanes(false)),
        ];
        keep.extend(v.contributions.iter().flat_map(|contributions| self.contribution_down(*contributions)));
        keep.extend(self.finish());
        let fresh = self.var(below.settled).ne(self.get("chunk"));
        let wanted = self.var(v.diff).eq(zero()).both(self.var(v.missing).eq(zero()));
        let late = zero().signed_gt(self.var(v.diff));
        vec![choose(
            wanted,
            vec![
                self.exec(SETTLED, "mark", Output::Place(LValue::Meta(below.settled))),
                choose(fresh, keep, vec![self.reason(Reason::Duplicate)]),
            ],
            vec![choose(late, vec![self.reason(Reason::Stale)], vec![self.reason(Reason::Unexpected)])],
        )]
    }

    /// The register of exponents, in a program that has one: the last.
    pub(super) fn power_register(&self) -> Option<RegisterId> {
        (self.profile.numerics == Numerics::Float)
            .then(|| RegisterId(self.program.registers.len() as u16 - 1))
    }

    fn count(&self, index: u64) -> Stmt {
        Stmt::Count(ANSWERS, Expr::Const(index, 32))
    }

    /// New chunk: overwrite. Same chunk: aggregate by the packet's operation. Absent lanes count as zero.
    fn aggregate(&self, exponent: Output, lanes: bool) -> Vec<Stmt> {
        let newer = self.var(self.vars.diff).ne(Expr::Const(0, 32));
        let first = self.is_whole().into_iter().fold(newer, Expr::either);
        let (last, rest) = self.profile.ops.split_last().expect("the profile has at least one operation");
        let by_op = rest.iter().rev().fold(self.aggregate_lanes(*last, lanes), |otherwise, op| {
            vec![choose(self.op_is(*op), self.aggregate_lanes(*op, lanes), otherwise)]
        });
        let (mut store, mut raise) =
            (vec![self.exec(EXPONENT, "store", exponent)], vec![self.exec(EXPONENT, "raise", exponent)]);
        let Some(contributions) = self.vars.contributions else {
            store.push(choose(Expr::Valid(Part::Lanes), self.store_lanes(lanes), self.clear_lanes()));
            raise.push(when(Expr::Valid(Part::Lanes), by_op));
            return vec![choose(first, store, raise)];
        };
        let shared = self.var(contributions.bit).ne(Expr::Const(0, 32));
        store.extend(self.store_contribution(contributions, lanes));
        let whole = Expr::Valid(Part::Lanes).both(shared.clone());
        store.push(choose(whole, self.store_lanes(lanes), self.clear_lanes()));
        raise.extend(self.add_contribution(contributions, lanes));
        let unshared = if lanes { self.read_lanes() } else { vec![] };
        raise.push(when(Expr::Valid(Part::Lanes), vec![choose(shared, by_op, unshared)]));
        vec![choose(first, store, raise)]
    }

    /// The flags of a packet of this switch's own.
    fn own_flags(&self) -> Vec<Stmt> {
        let mut cleared = Flags::RESEND;
        if self.profile.numerics == Numerics::Saturating {
            cleared = cleared.with(Flags::SATURATED);
        }
        let mut tally_flags = vec![];
        if let Some(contributions) = self.vars.contributions {
            // A switch does not trim its own packets: a sum has contributions of ranks that are not droppable.
            cleared = cleared.with(Flags::TRIMMED).with(Flags::DROPPABLE).with(Flags::PARTIAL);
            tally_flags = self.tally_flags(contributions);
        }
        let mut steps = vec![self.put("flags", self.get("flags") & Expr::Const(u64::from(!cleared.0), 8))];
        steps.extend(tally_flags);
        steps
    }

    /// Turns the packet into the RESULT of its slot.
    fn result(&self) -> Vec<Stmt> {
        let v = self.vars;
        let kind = self.put("kind", Expr::Const(Kind::Result as u64, 4));
        if v.contributions.is_some() {
            // The registers of contributions have set the bitmap and the count.
            return vec![kind];
        }
        vec![
            kind,
            self.put("bitmap", self.var(v.others) | self.var(v.bit)),
            self.put("count", self.var(v.world)),
        ]
    }

    fn reject(&self) -> Vec<Stmt> {
        let mut steps = vec![
            self.put("kind", Expr::Const(Kind::Reject as u64, 4)),
            self.put("reason", self.var(self.vars.reason)),
        ];
        steps.extend(self.header_only());
        steps.extend(self.answer());
        steps
    }

    /// A REJECT that carries the sender's path token in place of chunk and bitmap.
    fn challenge(&self) -> Vec<Stmt> {
        let v = self.vars;
        let mut steps = vec![self.put("chunk", self.var(v.others)), self.put("bitmap", self.var(v.bit))];
        steps.extend(self.reject());
        steps
    }

    /// Removes the lanes.
    pub(super) fn header_only(&self) -> Vec<Stmt> {
        let mut steps = vec![
            Stmt::Remove(Part::Lanes),
            self.put("flags", self.get("flags") | Expr::Const(u64::from(Flags::BARE.0), 8)),
        ];
        steps.extend(self.outer_lengths(header::LEN as u64));
        steps
    }

    /// The outer headers' lengths for a datagram of `len` bytes.
    pub(super) fn outer_lengths(&self, len: u64) -> Vec<Stmt> {
        let Some(outer) = self.outer else { return vec![] };
        let len = UDP_LEN + len;
        vec![
            Stmt::Assign(self.place(outer.udp, "length"), Expr::Const(len, 16)),
            Stmt::Assign(self.place(outer.ipv4, "total_len"), Expr::Const(IPV4_LEN + len, 16)),
        ]
    }

    /// Sends the packet back to its sender.
    pub(super) fn answer(&self) -> Vec<Stmt> {
        let v = self.vars;
        let mut steps = vec![self.set(v.answer, Expr::Const(DECIDED, 8)), Stmt::Unicast(self.var(v.port))];
        if let Some(outer) = self.outer {
            let swaps = [
                (outer.ethernet, "dst", "src", 48),
                (outer.ipv4, "dst", "src", 32),
                (outer.udp, "dst_port", "src_port", 16),
            ];
            for (header, a, b, bits) in swaps {
                let (a, b) = (self.place(header, a), self.place(header, b));
                steps.push(self.set(v.swap, a.value().cast(48)));
                steps.push(Stmt::Assign(a, b.value()));
                steps.push(Stmt::Assign(b, self.var(v.swap).cast(bits)));
            }
            steps.extend(self.fresh_outer(outer));
        }
        steps
    }

    /// A packet that the switch sends gets a full TTL and no UDP checksum (the lanes have changed).
    pub(super) fn fresh_outer(&self, outer: super::Outer) -> Vec<Stmt> {
        vec![
            Stmt::Assign(self.place(outer.ipv4, "ttl"), Expr::Const(64, 8)),
            Stmt::Assign(self.place(outer.udp, "checksum"), Expr::Const(0, 16)),
        ]
    }

    /// Addresses each copy of a multicast RESULT; trims and marks ECN in a deep queue.
    pub(super) fn egress(&mut self) {
        debug_assert_eq!(self.profile.encapsulation, Encapsulation::Ethernet);
        let Some(outer) = self.outer else { return };
        let param = |name: &str, bits| Field { name: name.into(), bits };
        let params = vec![
            param("dst_mac", 48),
            param("dst_ip", 32),
            param("dst_port", 16),
            param("src_mac", 48),
            param("src_ip", 32),
            param("src_port", 16),
        ];
        let targets = [
            self.place(outer.ethernet, "dst"),
            self.place(outer.ipv4, "dst"),
            self.place(outer.udp, "dst_port"),
            self.place(outer.ethernet, "src"),
            self.place(outer.ipv4, "src"),
            self.place(outer.udp, "src_port"),
        ];
        let body = targets
            .iter()
            .enumerate()
            .map(|(i, place)| Stmt::Assign(*place, Expr::Param(i as u16)))
            .collect();
        let rewrite = ActionId(self.program.actions.len() as u16);
        self.program.actions.push(Action { name: "rewrite".into(), id: id::REWRITE, params, body });
        self.program.actions.push(Action { name: "keep".into(), id: id::KEEP, params: vec![], body: vec![] });
        let keep = ActionId(rewrite.0 + 1);
        self.program.tables.push(Table {
            name: "child".into(),
            id: id::CHILD,
            keys: vec![Key {
                name: "instance".into(),
                id: 1,
                value: Expr::Meta(self.vars.port),
                kind: MatchKind::Exact,
            }],
            actions: vec![rewrite, keep],
            default: (keep, vec![]),
            size: self.profile.child_table_size(),
        });
        let mut steps = vec![
            self.set(self.vars.port, Expr::Intrinsic(Intrinsic::Instance)),
            when(
                self.var(self.vars.port).ne(Expr::Const(0, 16)),
                vec![Stmt::Apply(TableId(self.program.tables.len() as u16 - 1))],
            ),
        ];
        steps.extend(self.trim());
        if self.profile.ecn_depth > 0 {
            let deep = Expr::Intrinsic(Intrinsic::QueueDepth)
                .gt(Expr::Const(u64::from(self.profile.ecn_depth - 1), 19));
            let ecn = self.place(outer.ipv4, "ecn");
            let capable = ecn.value().ne(Expr::Const(0, 2));
            steps.push(when(deep.both(capable), vec![Stmt::Assign(ecn, Expr::Const(3, 2))]));
        }
        self.program.egress = steps;
    }
}
