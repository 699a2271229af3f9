//! The all-reduce program: the slot machine of a switch at any level.
//!
//! The slot (index) of a packet has this state, each in its own register so that hardware can access them in
//! parallel: `claim` (bitmap of children received, chunk), `version` (a second copy of the chunk, which yields the old chunk),
//! `exponent` (largest exponent proposed), `sum` (the lanes) and, in a program for hierarchies, `settled` (the chunk whose
//! final result arrived from the parent).
//!
//! A packet from child *r*, admitted by the `job` table:
//!
//! | chunk against the slot's | child received | effect |
//! |---|---|---|
//! | newer | - | new chunk: overwrite chunk, bitmap, exponent and lanes |
//! | equal | no | add lanes, maximum of exponents, add the child to the bitmap |
//! | equal | yes | no change; if the slot is complete, send the stored RESULT to the sender, or the sum up again |
//! | older | - | no change; STALE to the sender |
//!
//! The packet that completes the bitmap becomes the RESULT and is multicast to the job's group; below a parent it becomes
//! the switch's own DATA and is sent up, as a group of one copy. A parent's RESULT for the chunk that was sent up overwrites
//! exponent and lanes, marks the slot final and is multicast to the children. The controller's ADVANCE acts as newer data
//! without a contribution; its PROBE changes nothing; both are answered to their port.
//!
//! In a program for [bounded loss](Profile::bounded_loss) two more registers record what the lanes contain: `contributors` (the
//! contributors) and `tally` (the number of workers). DATA whose `count` is 0 counts as received and adds nothing. A child's
//! CLOSE completes the slot without the missing contributions. A duplicate with the flag `droppable` is answered with the bitmap of
//! children received.
//!
//! In a program for [best-effort jobs](Profile::best_effort) jobs can share slots: see `best_effort`.
//!
//! In a program with [owners](Profile::owners) a packet can name the only member that receives the lanes of the result. Egress removes them
//! from the copies for children that do not have that member behind them, and so does ingress from a reply to such a child.

mod best_effort;
mod bounded;
mod entries;
mod numerics;
mod owners;
mod queues;
mod steps;

pub use entries::{
    Address, Behind, Child, Node, Parent, aggregator_entries, challenge_entry, child_entry, controller_entry,
    job_entries, node_entries, shared_job_entries, shared_node_entries,
};

use netfold_wire::{Flags, Kind, LaneOps, Reason, UDP_PORT, VERSION, field};

use crate::ir::*;
use crate::profile::{Encapsulation, Numerics, Profile, ProfileError};
use crate::transit;
use numerics::Figures;
pub use numerics::HALF_FRACTION_BITS;

/// Low 24 bits of the ids that the control plane uses, and key field numbers.
pub mod id {
    /// Table `job`.
    pub const JOB: u32 = 1;
    /// Table `child`.
    pub const CHILD: u32 = 2;
    /// Table `receiver`.
    pub const RECEIVER: u32 = 4;
    /// Action `admit`.
    pub const ADMIT: u32 = 1;
    /// Action `admit_controller`.
    pub const CONTROL: u32 = 2;
    /// Action `deny`.
    pub const DENY: u32 = 3;
    /// Action `refuse`.
    pub const REFUSE: u32 = 4;
    /// Action `rewrite`.
    pub const REWRITE: u32 = 5;
    /// Action `keep`.
    pub const KEEP: u32 = 6;
    /// Action `admit_below`: a child's data at a switch below a parent.
    pub const ADMIT_BELOW: u32 = 7;
    /// Action `admit_result`: a parent's RESULT.
    pub const ADMIT_RESULT: u32 = 8;
    /// Action `challenge`: a REJECT that carries a path token.
    pub const CHALLENGE: u32 = 11;
    /// Action `admit_shared`: a child's data of a best-effort job.
    pub const ADMIT_SHARED: u32 = 14;
    /// Action `admit_down`: an aggregator's RESULT.
    pub const ADMIT_DOWN: u32 = 15;
    /// Action `admit_named`: at the aggregator, data that names its contributors.
    pub const ADMIT_NAMED: u32 = 16;
    /// Action `admit_named_below`: the same at an aggregator below a parent.
    pub const ADMIT_NAMED_BELOW: u32 = 17;
    /// Action `members`.
    pub const MEMBERS: u32 = 12;
    /// Action `every_member`.
    pub const EVERY_MEMBER: u32 = 13;
    /// Counter `packets`, indexed by reason.
    pub const PACKETS: u32 = 1;
    /// Counter `answers`: 0 results multicast, 1 results retransmitted to one child; below a parent 2 sums sent up, 3 sums
    /// sent up again.
    pub const ANSWERS: u32 = 2;
    /// Counter `spilled`, indexed by the multicast group of the job's aggregator.
    pub const SPILLED: u32 = 3;
    /// Key fields of `job`, in order.
    pub mod key {
        /// Ingress port.
        pub const PORT: u32 = 1;
        /// Packet kind.
        pub const KIND: u32 = 2;
        /// Job.
        pub const JOB: u32 = 3;
        /// Job key.
        pub const KEY: u32 = 4;
        /// Epoch.
        pub const EPOCH: u32 = 5;
        /// Slot.
        pub const SLOT: u32 = 6;
        /// IPv4 source address; only where the pipeline sees it.
        pub const SOURCE: u32 = 7;
    }
}

/// The register of a program for trees.
pub(crate) const SETTLED: &str = "settled";

/// Builds the program for a profile. The result is valid: [`crate::check::check`] accepts it.
///
/// # Errors
///
/// When a parameter of the profile is out of range.
pub fn program(profile: &Profile) -> Result<Program, ProfileError> {
    profile.check()?;
    let mut build = Build::new(profile);
    build.parser();
    build.registers();
    build.job_table();
    build.program.ingress = build.ingress();
    if let (1.., Some(outer)) = (profile.transit, build.outer) {
        transit::add(&mut build.program, outer.ipv4, profile.transit);
    }
    build.program.ingress.extend(build.priority());
    if profile.encapsulation == Encapsulation::Ethernet {
        build.egress();
    }
    build.strip_copies();
    Ok(build.program)
}

/// How an all-reduce program aggregates lanes, derived from its parts.
pub fn numerics_of(program: &Program) -> Numerics {
    let register = |name: &str| program.registers.iter().find(|register| register.name == name);
    let saturates = |register: &Register| {
        register.actions.iter().any(|action| action.name == "sum" && !action.conditions.is_empty())
    };
    if register("power").is_some() {
        Numerics::Float
    } else if program.lookups.iter().any(|lookup| lookup.name == "half_shift") {
        Numerics::Half
    } else if program.metadata.iter().any(|meta| meta.name == "round") {
        Numerics::Wide
    } else if register("sum").is_some_and(saturates) {
        Numerics::Saturating
    } else {
        Numerics::Word
    }
}

/// The lane operations of an all-reduce program.
pub fn lane_ops_of(program: &Program) -> LaneOps {
    let lanes = program.registers.iter().find(|register| register.name == "sum");
    let actions = lanes.iter().flat_map(|register| &register.actions);
    actions.filter_map(|action| LaneOps::from_names([&action.name[..]])).flat_map(LaneOps::iter).collect()
}

/// Whether an all-reduce program is one for [bounded loss](Profile::bounded_loss).
pub fn is_for_bounded_loss(program: &Program) -> bool {
    program.registers.iter().any(|register| register.name == bounded::CONTRIBUTORS)
}

/// Whether an all-reduce program is one with [owners](Profile::owners).
pub fn has_owners(program: &Program) -> bool {
    program.tables.iter().any(|table| table.id == id::RECEIVER)
}

/// Whether an all-reduce program is one for [switches below a parent](Profile::hierarchy).
pub fn is_for_trees(program: &Program) -> bool {
    program.registers.iter().any(|register| register.name == SETTLED)
}

/// Whether an all-reduce program is one for [best-effort jobs](Profile::best_effort).
pub fn is_for_best_effort(program: &Program) -> bool {
    program.counters.iter().any(|counter| counter.id == id::SPILLED)
}

/// The outer headers, where the pipeline sees them.
#[derive(Clone, Copy)]
struct Outer {
    ethernet: HeaderId,
    ipv4: HeaderId,
    udp: HeaderId,
}

/// Metadata handles.
#[derive(Clone, Copy)]
struct Vars {
    port: MetaId,
    reason: MetaId,
    answer: MetaId,
    bit: MetaId,
    others: MetaId,
    world: MetaId,
    group: MetaId,
    index: MetaId,
    seen: MetaId,
    stored: MetaId,
    diff: MetaId,
    duplicate: MetaId,
    missing: MetaId,
    controller: MetaId,
    below: Option<Below>,
    /// In a program for bounded loss.
    contributions: Option<Contributions>,
    /// In a program with owners.
    members: Option<Members>,
    /// In a program for best-effort jobs.
    best_effort: Option<BestEffort>,
    /// Temporary for swapping two addresses.
    swap: MetaId,
}

/// Metadata of a program for bounded loss.
#[derive(Clone, Copy)]
struct Contributions {
    /// The child's bit if its contribution is in the packet, else 0.
    bit: MetaId,
    /// What the packet adds to the slot's tally, then the tally.
    tally: MetaId,
}

/// Metadata of a program with owners: of the members behind a child, which is the sender in ingress and the receiver in egress, the lowest
/// and the highest as packets name them. `reply` is 1 in a stored RESULT that goes to the sender alone.
#[derive(Clone, Copy)]
struct Members {
    first: MetaId,
    last: MetaId,
    reply: MetaId,
}

/// Metadata of a program for best-effort jobs.
#[derive(Clone, Copy)]
struct BestEffort {
    /// The epoch of the job that the slot was in use by, or 0.
    occupant: MetaId,
    /// 1 in the packet that takes a slot.
    begins: MetaId,
    /// 1 in a packet that is spilled: another job occupies its slot, or none does and it does not take it.
    apart: MetaId,
    /// The job's bit in register `turns`, the bit of chunk numbers that goes there, and what the register held.
    mark: MetaId,
    turn: MetaId,
    turns: MetaId,
    /// 1 in a packet whose chunk had one here before.
    follows: MetaId,
    /// At the aggregator, in packets that name their contributors: bits of all children; else 0.
    everyone: MetaId,
    /// At the aggregator: 1 in a sum of all.
    whole: MetaId,
}

impl BestEffort {
    fn declare(meta: &mut impl FnMut(&str, u32) -> MetaId) -> Self {
        Self {
            occupant: meta("occupant", 32),
            begins: meta("begins", 8),
            apart: meta("apart", 8),
            mark: meta("mark", 32),
            turn: meta("turn", 32),
            turns: meta("turns", 32),
            follows: meta("follows", 8),
            everyone: meta("everyone", 32),
            whole: meta("whole", 8),
        }
    }
}

/// Metadata of a program for hierarchies.
#[derive(Clone, Copy)]
struct Below {
    /// Role of the sender: see `steps`.
    role: MetaId,
    /// Multicast group of one copy, to the parent.
    up: MetaId,
    /// Workers below this switch.
    workers: MetaId,
    /// The chunk whose final result the slot holds.
    settled: MetaId,
}

struct Build<'p> {
    profile: &'p Profile,
    program: Program,
    outer: Option<Outer>,
    netfold: HeaderId,
    vars: Vars,
    figures: Option<Figures>,
}

impl<'p> Build<'p> {
    fn new(profile: &'p Profile) -> Self {
        let lane_bits = profile.numerics.lane_bits();
        let lane_count = profile.lane_words * LANE_BITS / lane_bits;
        let mut program = Program {
            name: "netfold_all_reduce".into(),
            about: format!(
                "in-network all-reduce: {} {} lanes of {lane_bits} bits, {} slots x 2 sets, up to {} children",
                lane_count,
                profile.numerics.name(),
                profile.slots,
                profile.workers
            ),
            lanes: Some(Lanes { name: "lanes".into(), count: lane_count, bits: lane_bits }),
            ..Program::default()
        };
        let outer = (profile.encapsulation == Encapsulation::Ethernet).then(|| Outer {
            ethernet: header(&mut program, "ethernet", &[("dst", 48), ("src", 48), ("ethertype", 16)]),
            ipv4: header(&mut program, "ipv4", IPV4),
            udp: header(
                &mut program,
                "udp",
                &[("src_port", 16), ("dst_port", 16), ("length", 16), ("checksum", 16)],
            ),
        });
        let fields: Vec<_> = field::TABLE.iter().map(|field| (field.name, field.bits)).collect();
        let netfold = header(&mut program, "netfold", &fields);
        let mut meta = |name: &str, bits| {
            program.metadata.push(Meta { name: name.into(), bits });
            MetaId(program.metadata.len() as u16 - 1)
        };
        let vars = Vars {
            port: meta("port", 16),
            reason: meta("reason", 8),
            answer: meta("answer", 8),
            bit: meta("bit_mask", 32),
            others: meta("others", 32),
            world: meta("world", 16),
            group: meta("group", 16),
            index: meta("index", 32),
            seen: meta("seen", 32),
            stored: meta("stored", 32),
            diff: meta("diff", 32),
            duplicate: meta("duplicate", 32),
            missing: meta("missing", 32),
            controller: meta("controller", 8),
            below: profile.hierarchy.then(|| Below {
                role: meta("role", 8),
                up: meta("up", 16),
                workers: meta("workers", 16),
                settled: meta("settled", 32),
            }),
            contributions: profile
                .bounded_loss
                .then(|| Contributions { bit: meta("share", 32), tally: meta("tally", 32) }),
            members: profile.owners.then(|| Members {
                first: meta("first", 16),
                last: meta("last", 16),
                reply: meta("reply", 8),
            }),
            best_effort: profile.best_effort.then(|| BestEffort::declare(&mut meta)),
            swap: if outer.is_some() { meta("swap", 48) } else { MetaId(0) },
        };
        let figures = Figures::declare(&mut program, profile.numerics);
        Self { profile, program, outer, netfold, vars, figures }
    }

    fn place(&self, header: HeaderId, name: &str) -> LValue {
        let fields = &self.program.header(header).fields;
        let index =
            fields.iter().position(|field| field.name == name).expect("field names below are literals");
        LValue::Field(header, index as u16)
    }

    /// A Netfold header field as an l-value.
    fn nf(&self, name: &str) -> LValue {
        self.place(self.netfold, name)
    }

    /// A Netfold header field as a value.
    fn get(&self, name: &str) -> Expr {
        self.nf(name).value()
    }

    fn kind_is(&self, kind: Kind) -> Expr {
        self.get("kind").eq(Expr::Const(kind as u64, 4))
    }

    fn parser(&mut self) {
        let netfold = self.netfold;
        let flags = self.field_index(netfold, "flags");
        let mut states = Vec::new();
        if let Some(outer) = self.outer {
            let select = |field, value, next| Next::Select {
                on: vec![field],
                cases: vec![(vec![(value, u64::MAX)], StateId(next))],
                otherwise: None,
            };
            let at = |header, name: &str| (header, self.field_index(header, name));
            states.push(state(
                "start",
                outer.ethernet,
                select(at(outer.ethernet, "ethertype"), u64::from(crate::ETHERTYPE_IPV4), 1),
            ));
            // Version 4, five words, no fragment, UDP.
            let on = ["version", "ihl", "more_fragments", "fragment_offset", "protocol"];
            states.push(state(
                "ipv4",
                outer.ipv4,
                Next::Select {
                    on: on.iter().map(|name| at(outer.ipv4, name)).collect(),
                    cases: vec![([4, 5, 0, 0, 17].map(|value| (value, u64::MAX)).to_vec(), StateId(2))],
                    otherwise: None,
                },
            ));
            states.push(state("udp", outer.udp, select(at(outer.udp, "dst_port"), u64::from(UDP_PORT), 3)));
            self.program.ipv4_checksum = Some(outer.ipv4);
            self.program.deparser.extend([outer.ethernet, outer.ipv4, outer.udp].map(Part::Header));
        }
        let bare = (u64::from(Flags::BARE.0), u64::from(Flags::BARE.0));
        let lanes = StateId(states.len() as u16 + 1);
        let bare_end = StateId(states.len() as u16 + 2);
        states.push(state(
            if states.is_empty() { "start" } else { "netfold" },
            netfold,
            Next::Select {
                on: vec![(netfold, flags)],
                cases: vec![(vec![bare], bare_end)],
                otherwise: Some(lanes),
            },
        ));
        states.push(State { name: "lanes".into(), extract: vec![Part::Lanes], next: Next::Accept });
        states.push(State { name: "bare".into(), extract: vec![], next: Next::Accept });
        self.program.parser.states = states;
        self.program.deparser.extend([Part::Header(netfold), Part::Lanes]);
    }

    fn field_index(&self, header: HeaderId, name: &str) -> u16 {
        match self.place(header, name) {
            LValue::Field(_, index) => index,
            LValue::Meta(_) => unreachable!("place() of a header yields a field"),
        }
    }

    fn registers(&mut self) {
        self.program.registers = vec![self.claim(), self.version(), self.exponent(), self.sum()];
        if self.vars.below.is_some() {
            self.program.registers.push(self.settled());
        }
        if let Some(contributions) = self.vars.contributions {
            let registers = self.bounded_registers(contributions);
            self.program.registers.extend(registers);
        }
        if let Some(best_effort) = self.vars.best_effort {
            let registers = [self.occupant(), self.turns(best_effort)];
            self.program.registers.extend(registers);
        }
        if let (Numerics::Float, Some(figures)) = (self.profile.numerics, self.figures) {
            self.program.registers.push(self.power(figures));
        }
        let answers = if self.profile.hierarchy { 4 } else { 2 };
        let counter = |name: &str, id, size| Counter { name: name.into(), id, size };
        self.program.counters = vec![
            counter("packets", id::PACKETS, Profile::reasons()),
            counter("answers", id::ANSWERS, answers),
        ];
        if self.vars.best_effort.is_some() {
            let groups = u32::from(self.profile.groups()) + 1;
            self.program.counters.push(counter("spilled", id::SPILLED, groups));
        }
    }

    fn register(&self, name: &str, id: u32, kind: RegisterKind, actions: Vec<RegAction>) -> Register {
        Register { name: name.into(), id, size: self.profile.slots * 2, kind, actions }
    }

    /// Whether the packet's chunk is newer than the stored one.
    fn newer_than(&self, stored: Expr) -> Expr {
        (self.get("chunk") - stored).signed_gt(Expr::Const(0, 32))
    }

    fn claim(&self) -> Register {
        const SEEN: u8 = 0;
        const CHUNK: u8 = 1;
        let bit = || Expr::Meta(self.vars.bit);
        let (equal, newer) = (0, 1);
        let touch = RegAction {
            name: "touch".into(),
            conditions: vec![self.get("chunk").eq(Expr::Cell(CHUNK)), self.newer_than(Expr::Cell(CHUNK))],
            updates: vec![
                (SEEN, vec![Case::when(newer, bit()), Case::when(equal, Expr::Cell(SEEN) | bit())]),
                (CHUNK, vec![Case::when(newer, self.get("chunk"))]),
            ],
            output: vec![Case::when(equal, Expr::Cell(SEEN))],
        };
        let peek = reg_action("peek", vec![], vec![Case::always(Expr::Cell(SEEN))]);
        let mut actions = vec![touch, peek];
        if self.vars.best_effort.is_some() {
            let updates =
                vec![(SEEN, vec![Case::always(bit())]), (CHUNK, vec![Case::always(self.get("chunk"))])];
            actions.push(reg_action("begin", updates, vec![]));
        }
        if self.vars.contributions.is_some() {
            let named = || self.get("bitmap");
            let both =
                Case { when: Some(Expr::Cond(0).both(Expr::Cond(1))), value: Expr::Cell(SEEN) | bit() };
            actions.push(RegAction {
                name: "shut".into(),
                conditions: vec![
                    self.get("chunk").eq(Expr::Cell(CHUNK)),
                    (Expr::Cell(SEEN) & named()).eq(named()),
                ],
                updates: vec![(SEEN, vec![both])],
                output: vec![Case::when(equal, Expr::Cell(SEEN))],
            });
        }
        self.register("claim", 1, RegisterKind::Cells(vec![word("seen"), word("chunk")]), actions)
    }

    fn version(&self) -> Register {
        let old = || vec![Case::always(Expr::Cell(0))];
        let touch = RegAction {
            name: "touch".into(),
            conditions: vec![self.newer_than(Expr::Cell(0))],
            updates: vec![(0, vec![Case::when(0, self.get("chunk"))])],
            output: old(),
        };
        let kind = RegisterKind::Cells(vec![word("chunk")]);
        let mut actions = vec![touch, reg_action("peek", vec![], old())];
        if self.vars.best_effort.is_some() {
            actions.push(reg_action("begin", set(self.get("chunk")), vec![]));
        }
        self.register("version", 3, kind, actions)
    }

    fn settled(&self) -> Register {
        let old = || vec![Case::always(Expr::Cell(0))];
        let actions =
            vec![reg_action("read", vec![], old()), reg_action("mark", set(self.get("chunk")), old())];
        self.register(SETTLED, 5, RegisterKind::Cells(vec![word("chunk")]), actions)
    }

    fn exponent(&self) -> Register {
        let next = || self.get("exp_next");
        let kind = RegisterKind::Cells(vec![Field { name: "exponent".into(), bits: 8 }]);
        let actions = vec![
            reg_action("store", set(next()), new()),
            reg_action("raise", set(Expr::Cell(0).max(next())), new()),
            reg_action("read", vec![], new()),
            reg_action("clear", set(Expr::Const(0, 8)), vec![]),
        ];
        self.register("exponent", 4, kind, actions)
    }

    /// An action that sets variables from its parameters, in order, and does `more`.
    fn admit(&self, name: &str, id: u32, params: &[(&str, u32, MetaId)], more: Vec<Stmt>) -> Action {
        let sets = params.iter().enumerate().map(|(i, (_, _, var))| self.set(*var, Expr::Param(i as u16)));
        Action {
            name: name.into(),
            id,
            params: params
                .iter()
                .map(|(name, bits, _)| Field { name: (*name).into(), bits: *bits })
                .collect(),
            body: sets.chain(more).collect(),
        }
    }

    /// The actions of the job table; the third is the default.
    fn job_actions(&self) -> Vec<Action> {
        let v = self.vars;
        let set = |var: MetaId, value: Expr| self.set(var, value);
        let admit = |name: &str, id, params: &[(&str, u32, MetaId)], more| self.admit(name, id, params, more);
        let base = ("base", 32, v.index);
        let others = ("others", 32, v.others);
        let (world, group) = (("world", 16, v.world), ("group", 16, v.group));
        let bit = ("bit_mask", 32, v.bit);
        let shift = match (self.profile.numerics, self.figures) {
            (Numerics::Wide, Some(figures)) => Some(("shift", 8, figures.shift)),
            _ => None,
        };
        let members = v.members.map(|Members { first, last, .. }| [("first", 16, first), ("last", 16, last)]);
        let with = |params: &[(&'static str, u32, MetaId)]| -> Vec<_> {
            params.iter().copied().chain(shift).chain(members.into_iter().flatten()).collect()
        };
        let refused = set(v.answer, Expr::Const(steps::REFUSED, 8));
        let mut actions = vec![
            admit("admit", id::ADMIT, &with(&[base, bit, others, world, group]), vec![]),
            admit("admit_controller", id::CONTROL, &[base], vec![set(v.controller, Expr::Const(1, 8))]),
            admit("deny", id::DENY, &[("reason", 8, v.reason)], vec![]),
            admit("refuse", id::REFUSE, &[("reason", 8, v.reason)], vec![refused]),
            admit(
                "challenge",
                id::CHALLENGE,
                &[("token_high", 32, v.others), ("token_low", 32, v.bit)],
                vec![self.reason(Reason::Path), set(v.answer, Expr::Const(steps::CHALLENGED, 8))],
            ),
        ];
        if let Some(below) = v.below {
            let role = |role| vec![set(below.role, Expr::Const(role, 8))];
            let (up, workers) = (("up", 16, below.up), ("workers", 16, below.workers));
            actions.push(admit(
                "admit_below",
                id::ADMIT_BELOW,
                &with(&[base, bit, others, world, group, up, workers]),
                role(steps::BELOW),
            ));
            let mut params = vec![base, others, world, group];
            // This switch's own bit at its parent: whether its contribution is in the RESULT.
            params.extend(v.contributions.map(|_| bit));
            actions.push(admit("admit_result", id::ADMIT_RESULT, &params, role(steps::PARENT)));
        }
        actions.extend(self.best_effort_actions());
        actions
    }

    fn job_table(&mut self) {
        let actions = self.job_actions();
        let count = actions.len() as u16;
        self.program.actions.extend(actions);
        let key = |name: &str, id, value| Key { name: name.into(), id, value, kind: MatchKind::Ternary };
        let mut keys = vec![
            key("port", id::key::PORT, Expr::Meta(self.vars.port)),
            key("kind", id::key::KIND, self.get("kind")),
            key("job", id::key::JOB, self.get("job")),
            key("key", id::key::KEY, self.get("key")),
            key("epoch", id::key::EPOCH, self.get("epoch")),
            key("slot", id::key::SLOT, self.get("slot")),
        ];
        if let Some(outer) = self.outer {
            keys.push(key("source", id::key::SOURCE, self.place(outer.ipv4, "src").value()));
        }
        self.program.tables.push(Table {
            name: "job".into(),
            id: id::JOB,
            keys,
            actions: (0..count).map(ActionId).collect(),
            default: (ActionId(2), vec![Reason::UnknownJob as u64]),
            size: self.profile.job_table_size(),
        });
    }
}

const IPV4: &[(&str, u32)] = &[
    ("version", 4),
    ("ihl", 4),
    ("dscp", 6),
    ("ecn", 2),
    ("total_len", 16),
    ("identification", 16),
    ("reserved", 1),
    ("dont_fragment", 1),
    ("more_fragments", 1),
    ("fragment_offset", 13),
    ("ttl", 8),
    ("protocol", 8),
    ("checksum", 16),
    ("src", 32),
    ("dst", 32),
];

/// A register action without conditions.
fn reg_action(name: &str, updates: Vec<(u8, Vec<Case>)>, output: Vec<Case>) -> RegAction {
    RegAction { name: name.into(), conditions: vec![], updates, output }
}

/// An update of the first cell.
fn set(value: Expr) -> Vec<(u8, Vec<Case>)> {
    vec![(0, vec![Case::always(value)])]
}

/// An output of the first cell as it is after the update.
fn new() -> Vec<Case> {
    vec![Case::always(Expr::NewCell(0))]
}

/// A 32-bit cell.
fn word(name: &str) -> Field {
    Field { name: name.into(), bits: 32 }
}

fn header(program: &mut Program, name: &str, fields: &[(&str, u32)]) -> HeaderId {
    let fields = fields.iter().map(|(name, bits)| Field { name: (*name).into(), bits: *bits }).collect();
    program.headers.push(Header { name: name.into(), fields });
    HeaderId(program.headers.len() as u16 - 1)
}

fn state(name: &str, header: HeaderId, next: Next) -> State {
    State { name: name.into(), extract: vec![Part::Header(header)], next }
}

/// The version every packet must carry, as a field value.
const VERSION_VALUE: u64 = VERSION as u64;
