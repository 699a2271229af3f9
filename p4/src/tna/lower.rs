//! Mapping of the program's control flow to match stages.
//!
//! The ingress block must have this shape; otherwise it is refused with the offending construct:
//!
//! 1. a variable takes the ingress port;
//! 2. checks assign a constant to one variable, the reason, or leave it;
//! 3. if there is no reason, a table is applied; if there still is none, the admitted block runs;
//! 4. the rest, which uses the results.
//!
//! The admitted block adds to the variable that the table set (the index), accesses registers depending on the packet
//! (stage 1), computes differences of their outputs (stage 2), and branches on these: to register actions, one for each
//! register and path, and to straight-line code. From stage 3 on, every register and the code has a separate ternary
//! table keyed directly on the differences, so none depends on another.
//!
//! The checks and the table run in parallel; if a check fails, the table's result is ignored.

use std::collections::BTreeSet;

use super::decision::Tree;
use super::ends::{self, Ends};
use super::passes::Passes;
use super::refusal;
use super::signs::{self, Differences};
use crate::fields::{Container, Containers};
use crate::ir::*;
use crate::refusal::Refusal;
use crate::v1model::visit;

/// Destination of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum To {
    /// Not set.
    Nowhere,
    Drop,
    Port(Expr),
    Group(Expr),
    /// Another pass through the pipe.
    Next(Hop),
}

/// The next pass of a packet of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hop {
    /// That of the next part of the words.
    Forward,
    /// The first one back, towards a destination.
    Turn(Box<To>),
    /// The next one back.
    Back,
    /// The first that only removes words, behind a reply without lanes.
    Shed,
    /// The next one of these.
    ShedAgain,
}

/// A path through the program: its register accesses, and its straight-line code as values in terms of the initial state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathState {
    pub(super) touches: Vec<(RegisterId, u16, Output)>,
    pub(super) values: Vec<(LValue, Expr)>,
    pub(super) counts: Vec<(CounterId, Expr)>,
    pub(super) removed: Vec<Part>,
    pub(super) to: To,
    /// Whether the packet gets the flag of [`Ends`], if a lane is at one.
    pub(super) marked: bool,
    /// The egress queue, if one is selected.
    pub(super) queue: Option<u64>,
}

impl PathState {
    pub(super) fn new() -> Self {
        Self {
            touches: vec![],
            values: vec![],
            counts: vec![],
            removed: vec![],
            to: To::Nowhere,
            marked: false,
            queue: None,
        }
    }

    pub(super) fn set(&mut self, place: LValue, value: Expr) {
        match self.values.iter_mut().find(|(known, _)| *known == place) {
            Some((_, old)) => *old = value,
            None => self.values.push((place, value)),
        }
    }

    /// The expression in terms of the initial state, with constants folded.
    pub(super) fn now(&self, expr: &Expr) -> Expr {
        let again = |inner: &Expr| Box::new(self.now(inner));
        match expr {
            Expr::Field(header, field) => self.at(LValue::Field(*header, *field)),
            Expr::Meta(meta) => self.at(LValue::Meta(*meta)),
            Expr::Not(inner) => match self.now(inner) {
                Expr::Const(value, 0) => Expr::Const(u64::from(value == 0), 0),
                other => !other,
            },
            Expr::Complement(inner) => Expr::Complement(again(inner)),
            Expr::Cast(bits, inner) => match self.now(inner) {
                Expr::Const(value, _) => Expr::Const(value & super::decision::ones(*bits), *bits),
                // Widened and truncated again.
                Expr::Cast(_, inner) => Expr::Cast(*bits, inner),
                other => Expr::Cast(*bits, Box::new(other)),
            },
            Expr::Binary(op, left, right) => {
                let (l, r) = (self.now(left), self.now(right));
                // The parser has checked that a frame is as long as its headers say.
                if l == Expr::Intrinsic(Intrinsic::PacketLength) && *op == BinOp::Eq {
                    return Expr::Const(1, 0);
                }
                match (op, &l, &r) {
                    (BinOp::Eq, Expr::Const(a, _), Expr::Const(b, _)) => Expr::Const(u64::from(a == b), 0),
                    (BinOp::Ne, Expr::Const(a, _), Expr::Const(b, _)) => Expr::Const(u64::from(a != b), 0),
                    // The same operation with two constants.
                    (
                        BinOp::And | BinOp::Or,
                        Expr::Binary(inner, value, first),
                        Expr::Const(second, bits),
                    ) if inner == op && matches!(**first, Expr::Const(..)) => {
                        let Expr::Const(first, _) = **first else { unreachable!("matched above") };
                        let both = if *op == BinOp::And { first & second } else { first | second };
                        Expr::Binary(*op, value.clone(), Box::new(Expr::Const(both, *bits)))
                    }
                    _ => Expr::Binary(*op, Box::new(l), Box::new(r)),
                }
            }
            Expr::Concat(high, low) => Expr::Concat(again(high), again(low)),
            other => other.clone(),
        }
    }

    /// Whether the packet is sent with the lanes of a register.
    pub(super) fn puts_lanes_out(&self) -> bool {
        let kept = !self.removed.contains(&Part::Lanes);
        kept && self.to != To::Drop && self.touches.iter().any(|(_, _, output)| *output == Output::Lanes)
    }

    fn at(&self, place: LValue) -> Expr {
        self.values
            .iter()
            .find(|(known, _)| *known == place)
            .map_or_else(|| place.value(), |(_, v)| v.clone())
    }
}

/// The program in match stages.
pub(super) struct Lowered {
    /// The program with the variables that lowering adds.
    pub(super) program: Program,
    /// 1 when the packet has no lanes.
    pub(super) bare: MetaId,
    /// The reason that a check set.
    pub(super) check: MetaId,
    /// 1 when a packet is recirculated for the other halves.
    pub(super) harvest: MetaId,
    /// The variable that indexes a register's entry.
    pub(super) index: MetaId,
    /// The offset added to the index in the table's actions.
    pub(super) offset: Expr,
    /// The table that admits.
    pub(super) table: TableId,
    /// Variables that the table's actions set.
    pub(super) given: Vec<LValue>,
    /// The reason, and variables that actions set only with one.
    pub(super) refusing: Vec<LValue>,
    /// Reason by check.
    pub(super) checks: Tree<Expr>,
    /// Register accesses of stage 1.
    pub(super) front: Tree<PathState>,
    /// Differences of stage 2.
    pub(super) compare: Vec<(LValue, Expr)>,
    /// Registers whose outputs others depend on, after those of stage 1, and the differences of these outputs.
    pub(super) comparisons: Vec<OutputComparison>,
    /// Containers that registers are chosen by and outcomes assign, with the variable that the parser copies each to. So the outcome can be
    /// in a stage before the last register.
    pub(super) copies: Vec<Copied>,
    /// Ends of the lanes' range that the packet is marked for, and the variables for that: whether its path is marked, and whether a lane is at an end.
    pub(super) ends: Option<Ends>,
    pub(super) marks: Option<(MetaId, MetaId)>,
    /// The rest.
    pub(super) paths: Tree<PathState>,
    /// Differences of which conditions need the signs.
    pub(super) signs: Differences,
    /// Forwarding of other packets.
    pub(super) transit: Option<Transit>,
    /// The egress queue by the headers of the packet that is sent.
    pub(super) queues: Option<Tree<PathState>>,
    /// Where a packet takes several passes.
    pub(super) passes: Option<Passes>,
}

/// The table of other packets' destinations, before all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transit {
    pub(super) table: TableId,
    /// Which packets are looked up.
    pub(super) cond: Expr,
    /// Whether a packet is forwarded.
    onward: Expr,
    /// What is done to it.
    steps: Vec<Stmt>,
    /// The variable that the table sets.
    pub(super) way: MetaId,
}

impl Transit {
    /// The statements of both kinds of stages for packets that are not forwarded.
    fn around(&self, front: Vec<Stmt>, all: Vec<Stmt>) -> (Vec<Stmt>, Vec<Stmt>) {
        let front = vec![Stmt::If(self.onward.clone(), vec![], front)];
        (front, vec![Stmt::If(self.onward.clone(), self.steps.clone(), all)])
    }
}

/// The program's statements without the two with which forwarding begins, and these.
fn without_transit(ingress: &[Stmt]) -> (Vec<Stmt>, Option<Transit>) {
    let [Stmt::If(cond, lookup, none), Stmt::If(onward, steps, rest), tail @ ..] = ingress else {
        return (ingress.to_vec(), None);
    };
    let ([Stmt::Apply(table)], Expr::Binary(BinOp::Ne, way, _), true) =
        (&lookup[..], onward, none.is_empty())
    else {
        return (ingress.to_vec(), None);
    };
    let Expr::Meta(way) = **way else { return (ingress.to_vec(), None) };
    let transit =
        Transit { table: *table, cond: cond.clone(), onward: onward.clone(), steps: steps.clone(), way };
    (rest.iter().chain(tail).cloned().collect(), Some(transit))
}

/// The program's statements without the last, if that selects queues, and it.
fn without_queues(ingress: &mut Vec<Stmt>) -> Option<Stmt> {
    let selects = |stmt: &Stmt| {
        let mut all = true;
        visit(std::slice::from_ref(stmt), &mut |stmt| {
            all &= matches!(stmt, Stmt::If(..) | Stmt::Priority(_));
        });
        all
    };
    ingress.pop_if(|last| selects(last))
}

/// A condition on a register's output: its difference from a field, computed in a stage of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputComparison {
    pub(super) register: RegisterId,
    output: MetaId,
    field: Expr,
    /// The difference.
    pub(super) difference: MetaId,
}

impl OutputComparison {
    /// The output less the field.
    pub(super) fn assignment(&self) -> (LValue, Expr) {
        (LValue::Meta(self.difference), Expr::Meta(self.output) - self.field.clone())
    }
}

/// A copied container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) header: HeaderId,
    /// Its number in the header.
    pub(super) container: usize,
    pub(super) copy: MetaId,
}

struct Lowering {
    program: Program,
    bare: MetaId,
    ends: Option<Ends>,
    marks: Option<(MetaId, MetaId)>,
    comparisons: Vec<OutputComparison>,
    signs: Differences,
}

/// Lowers a valid program, whose packets take so many passes.
pub(super) fn lower(program: &Program, passes: u32) -> Result<Lowered, Refusal> {
    let mut program = program.clone();
    let mut add = |name: &str, bits| {
        program.metadata.push(Meta { name: name.into(), bits });
        MetaId(program.metadata.len() as u16 - 1)
    };
    let (bare, check, harvest) = (add("x_bare", 1), add("x_check", 8), add("x_harvest", 1));
    let ends = ends::find(&program)?;
    let mut add = |name: &str| {
        program.metadata.push(Meta { name: name.into(), bits: 1 });
        MetaId(program.metadata.len() as u16 - 1)
    };
    let marks = ends.is_some().then(|| (add("x_marks"), add("x_at_end")));
    let this = Lowering { program, bare, ends, marks, comparisons: vec![], signs: vec![] };
    this.lower(check, harvest, passes)
}

/// The containers that a tree's conditions compare and its paths assign.
fn assigned_keys(
    fields: &Containers,
    front: &Tree<PathState>,
    paths: &Tree<PathState>,
) -> Vec<(HeaderId, usize)> {
    let assigned: BTreeSet<_> = paths
        .leaves()
        .into_iter()
        .flat_map(|path| &path.values)
        .filter_map(|(place, _)| match place {
            LValue::Field(header, field) => Some((header.0, fields.position(*header, *field).container)),
            LValue::Meta(_) => None,
        })
        .collect();
    let mut found = Vec::new();
    for key in [front.decision().keys, paths.decision().keys].iter().flatten() {
        let Expr::Field(header, field) = key else { continue };
        let at = (*header, fields.position(*header, *field).container);
        if assigned.contains(&(at.0.0, at.1)) && !found.contains(&at) {
            found.push(at);
        }
    }
    found
}

/// The reason of each path through the checks; 0 if none.
fn reasons(checks: &Tree<PathState>, reason: MetaId) -> Tree<Expr> {
    checks.map(
        &|path: &PathState| match path.at(LValue::Meta(reason)) {
            Expr::Meta(_) => Expr::Const(0, 8),
            value => value,
        },
        &|_, _| None,
    )
}

/// The parts of an ingress block: see above.
struct Shape<'a> {
    port: LValue,
    checking: &'a [Stmt],
    /// The condition that there is no reason.
    clear: &'a Expr,
    table: TableId,
    reason: MetaId,
    admitted: &'a [Stmt],
    tail: &'a [Stmt],
}

fn other_shape(what: &str) -> Refusal {
    refusal(what, "the ingress block has the shape of the all-reduce program")
}

fn shape_of(ingress: &[Stmt]) -> Result<Shape<'_>, Refusal> {
    let [Stmt::Assign(port, Expr::Intrinsic(Intrinsic::IngressPort)), rest @ ..] = ingress else {
        return Err(other_shape("ingress that does not begin by taking the ingress port"));
    };
    let gate = rest.iter().position(applies).ok_or_else(|| other_shape("ingress without a table"))?;
    let (checking, rest) = rest.split_at(gate);
    let [Stmt::If(clear, first, none), tail @ ..] = rest else {
        return Err(other_shape("a table without a condition"));
    };
    let [Stmt::Apply(table), Stmt::If(again, admitted, otherwise)] = &first[..] else {
        return Err(other_shape("statements around the first table"));
    };
    let reason = tested_for_zero(clear).ok_or_else(|| other_shape("a table without a reason"))?;
    if again != clear || !none.is_empty() || !otherwise.is_empty() {
        return Err(other_shape("statements beside the admitted block"));
    }
    Ok(Shape { port: *port, checking, clear, table: *table, reason, admitted, tail })
}

impl Lowering {
    fn lower(mut self, check: MetaId, harvest: MetaId, passes: u32) -> Result<Lowered, Refusal> {
        let (mut ingress, transit) = without_transit(&self.program.ingress);
        let queues = without_queues(&mut ingress);
        let queues = queues.map(|stmt| self.walk(&[&stmt], PathState::new())).transpose()?;
        let Shape { port, checking, clear, table, reason, admitted, tail } = shape_of(&ingress)?;
        let mut start = PathState::new();
        start.set(port, Expr::Intrinsic(Intrinsic::IngressPort));
        let checks = self.walk(&refs(checking), start.clone())?;
        if checks.leaves().iter().any(|path| !path.touches.is_empty() || path.values.len() > 2) {
            return Err(other_shape("checks that do more than set a reason"));
        }
        let checks = reasons(&checks, reason);
        let (index, offset, front, mut compare, behind) = self.admitted(admitted)?;
        self.check_actions(table)?;
        let behind = signs::in_block(&behind, &mut self.program, &mut self.signs);
        compare.extend(self.signs.iter().cloned());
        self.find_output_comparisons(&behind)?;
        let given = self.given(table);
        let failed = self.as_not_applied(&given, reason, check);
        let passed = Expr::Meta(check).eq(Expr::Const(0, 8));
        let within = |block| self.within(clear, table, reason, block);
        self.set_path_flags(&mut start);
        let mut fronts = vec![Stmt::If(passed.clone(), within(front), vec![])];
        let among = |admitted: Vec<Stmt>| -> Vec<Stmt> {
            let first = Stmt::If(passed.clone(), admitted, failed.clone());
            std::iter::once(first).chain(tail.iter().cloned()).collect()
        };
        let mut all = among(within(behind.clone()));
        if let Some(transit) = &transit {
            (fronts, all) = transit.around(fronts, all);
        }
        let front = self.walk(&refs(&fronts), start.clone())?;
        let paths = self.walk(&refs(&all), start.clone())?;
        let copies = self.copies(&front, &paths);
        let several = (passes > 1).then(|| -> Result<_, Refusal> {
            let behind = self.spared(table, reason).chain(behind).chain(tail.iter().cloned());
            let admitted = self.walk(&refs(&behind.collect::<Vec<_>>()), start.clone())?;
            Ok((admitted, self.walk(&refs(&among(vec![])), start)?))
        });
        let several = several.transpose()?;
        let refusing = others_of(&self.program, table, reason);
        let refusing = refusing.into_iter().chain([LValue::Meta(reason)]).collect();
        let mut lowered = Lowered {
            comparisons: self.comparisons,
            copies,
            ends: self.ends,
            marks: self.marks,
            bare: self.bare,
            check,
            harvest,
            index,
            offset,
            table,
            given,
            refusing,
            checks,
            front,
            compare,
            paths,
            signs: self.signs,
            transit,
            queues,
            passes: None,
            program: self.program,
        };
        if let Some((admitted, refused)) = several {
            lowered.in_passes(passes, &admitted, refused, &passed.both(clear.clone()))?;
        }
        Ok(lowered)
    }

    /// If a check has failed, the table counts as not applied.
    fn as_not_applied(&self, given: &[LValue], reason: MetaId, check: MetaId) -> Vec<Stmt> {
        let reason = LValue::Meta(reason);
        let others = given.iter().filter(|place| **place != reason).map(|place| self.zero(*place));
        others.chain([Stmt::Assign(reason, Expr::Meta(check))]).collect()
    }

    /// A block for admitted packets, for which variables are not set that only actions set which also set a reason.
    fn within(&self, clear: &Expr, table: TableId, reason: MetaId, block: Vec<Stmt>) -> Vec<Stmt> {
        vec![Stmt::If(clear.clone(), self.spared(table, reason).chain(block).collect(), vec![])]
    }

    fn spared(&self, table: TableId, reason: MetaId) -> impl Iterator<Item = Stmt> + '_ {
        others_of(&self.program, table, reason).into_iter().map(|place| self.zero(place))
    }

    fn zero(&self, place: LValue) -> Stmt {
        Stmt::Assign(place, Expr::Const(0, self.bits(place)))
    }

    /// In a program that marks packets with a lane at an end, or removes lanes from replies, which variables decide: their values at the start of a
    /// path.
    fn set_path_flags(&self, start: &mut PathState) {
        if self.ends.is_none() && self.signs.is_empty() {
            return;
        }
        for meta in ends::path_flags(&self.program) {
            let place = LValue::Meta(meta);
            start.set(place, Expr::Const(0, self.bits(place)));
        }
    }

    /// Declares a copy of each container that registers are chosen by and outcomes assign.
    fn copies(&mut self, front: &Tree<PathState>, paths: &Tree<PathState>) -> Vec<Copied> {
        let fields = Containers::new(&self.program);
        let copied = assigned_keys(&fields, front, paths).into_iter().map(|(header, container)| {
            let Container { name, bits, .. } = &fields.of(header)[container];
            self.program.metadata.push(Meta { name: format!("x_{name}"), bits: *bits });
            Copied { header, container, copy: MetaId(self.program.metadata.len() as u16 - 1) }
        });
        copied.collect()
    }

    /// Declares a difference for each comparison of a field with what a register of the admitted block outputs.
    fn find_output_comparisons(&mut self, block: &[Stmt]) -> Result<(), Refusal> {
        let mut outputs: Vec<(MetaId, RegisterId)> = Vec::new();
        let mut compared: Vec<(Expr, Expr)> = Vec::new();
        visit(block, &mut |stmt| match stmt {
            Stmt::Exec { register, output: Output::Place(LValue::Meta(meta)), .. } => {
                outputs.push((*meta, *register));
            }
            Stmt::If(cond, ..) => compared_fields(cond, &mut compared),
            _ => {}
        });
        for (value, field) in compared {
            let Some((output, register)) = outputs.iter().find(|(meta, _)| value == Expr::Meta(*meta)) else {
                continue;
            };
            if self
                .comparisons
                .iter()
                .any(|comparison| comparison.output == *output && comparison.field == field)
            {
                continue;
            }
            if self.comparisons.iter().any(|comparison| comparison.register != *register) {
                return Err(refusal(
                    "conditions on the outputs of two registers behind the differences",
                    "one register, whose output is compared in a stage of its own",
                ));
            }
            let name = format!("x_{}_differs", self.program.register(*register).name);
            self.program.metadata.push(Meta { name, bits: 32 });
            let difference = MetaId(self.program.metadata.len() as u16 - 1);
            self.comparisons.push(OutputComparison {
                register: *register,
                output: *output,
                field,
                difference,
            });
        }
        Ok(())
    }

    /// The condition with comparisons of registers' outputs as differences.
    fn by_differences(&self, cond: &Expr) -> Expr {
        match cond {
            Expr::Not(inner) => !self.by_differences(inner),
            Expr::Binary(op, left, right) => {
                let is = |comparison: &&OutputComparison| {
                    **left == Expr::Meta(comparison.output) && **right == comparison.field
                };
                match (op, self.comparisons.iter().find(is)) {
                    (BinOp::Eq | BinOp::Ne, Some(comparison)) => {
                        let zero = Box::new(Expr::Const(0, 32));
                        Expr::Binary(*op, Box::new(Expr::Meta(comparison.difference)), zero)
                    }
                    _ => Expr::Binary(
                        *op,
                        Box::new(self.by_differences(left)),
                        Box::new(self.by_differences(right)),
                    ),
                }
            }
            other => other.clone(),
        }
    }

    /// The parts of the admitted block: index, its offset, accesses of stage 1, differences, and the rest.
    #[expect(clippy::type_complexity, reason = "destructured where it is called")]
    fn admitted(
        &self,
        block: &[Stmt],
    ) -> Result<(MetaId, Expr, Vec<Stmt>, Vec<(LValue, Expr)>, Vec<Stmt>), Refusal> {
        let shape = |what: &str| refusal(what, "stages: index, registers, differences, decisions");
        let [Stmt::Assign(LValue::Meta(index), Expr::Binary(BinOp::Add, base, offset)), rest @ ..] = block
        else {
            return Err(shape("an admitted block that does not begin with the index"));
        };
        if **base != Expr::Meta(*index) {
            return Err(shape("an index that is not a sum with the table's value"));
        }
        let front = rest.iter().take_while(|stmt| !matches!(stmt, Stmt::Assign(..))).count();
        let (front, rest) = rest.split_at(front);
        let count = rest.iter().take_while(|stmt| matches!(stmt, Stmt::Assign(LValue::Meta(_), _))).count();
        let (differences, rest) = rest.split_at(count);
        let mut compare: Vec<(LValue, Expr)> = Vec::new();
        for stmt in differences {
            let Stmt::Assign(place, value) = stmt else { continue };
            if compare.iter().any(|(known, _)| value.mentions(&known.value())) {
                return Err(shape("a difference of differences"));
            }
            compare.push((*place, value.clone()));
        }
        Ok((*index, (**offset).clone(), front.to_vec(), compare, rest.to_vec()))
    }

    /// Variables that the table's actions set.
    fn given(&self, table: TableId) -> Vec<LValue> {
        let mut found = Vec::new();
        for action in &self.program.table(table).actions {
            for stmt in &self.program.action(*action).body {
                if let Stmt::Assign(place, _) = stmt
                    && !found.contains(place)
                {
                    found.push(*place);
                }
            }
        }
        found
    }

    /// Refuses a table with an action that assigns a header field. The checks run in parallel with the table, so that the assignment could
    /// not be undone for a packet that fails one.
    fn check_actions(&self, table: TableId) -> Result<(), Refusal> {
        let mut actions = self.program.table(table).actions.iter().map(|action| self.program.action(*action));
        let assigns = |stmt: &Stmt| matches!(stmt, Stmt::Assign(LValue::Field(..), _));
        match actions.find(|action| action.body.iter().any(assigns)) {
            None => Ok(()),
            Some(action) => Err(refusal(
                format!("header fields assigned by action '{}' of the first table", action.name),
                "the table's actions set variables, and the control flow assigns header fields",
            )),
        }
    }

    fn bits(&self, place: LValue) -> u32 {
        match place {
            LValue::Field(header, field) => self.program.field(header, field).bits,
            LValue::Meta(meta) => self.program.metadata[usize::from(meta.0)].bits,
        }
    }

    /// Every path through the statements, as a tree of conditions in terms of the initial state.
    fn walk(&self, stmts: &[&Stmt], mut path: PathState) -> Result<Tree<PathState>, Refusal> {
        for (at, stmt) in stmts.iter().enumerate() {
            match stmt {
                Stmt::Assign(place, value) => {
                    let value = path.now(value);
                    path.set(*place, value);
                }
                Stmt::If(Expr::AnyLane(_), ..) => path.marked = true,
                Stmt::If(cond, then, otherwise) => {
                    let cond = self.without_lanes(&path.now(&self.by_differences(cond)));
                    let side = |block: &Vec<Stmt>| {
                        let all: Vec<&Stmt> = block.iter().chain(stmts[at + 1..].iter().copied()).collect();
                        self.walk(&all, path.clone())
                    };
                    if let Expr::Const(value, 0) = cond {
                        return side(if value != 0 { then } else { otherwise });
                    }
                    return Tree::branch(&cond, side(then)?, side(otherwise)?);
                }
                Stmt::Exec { register, action, output, .. } => {
                    if path.touches.iter().any(|(known, ..)| known == register) {
                        return Err(refusal(
                            format!("register '{}' touched twice", self.program.register(*register).name),
                            "a packet accesses a register once",
                        ));
                    }
                    if let Output::Place(place) = output {
                        path.values.retain(|(known, _)| known != place);
                    }
                    path.touches.push((*register, *action, *output));
                }
                Stmt::Count(counter, index) => {
                    let index = path.now(index);
                    path.counts.push((*counter, index));
                }
                Stmt::Remove(part) => path.removed.push(*part),
                Stmt::AddLanes => {
                    return Err(refusal("adding lanes to a packet", "lanes come from the parser"));
                }
                Stmt::Unicast(port) => path.to = To::Port(path.now(port)),
                Stmt::Multicast(group) => path.to = To::Group(path.now(group)),
                Stmt::Drop => path.to = To::Drop,
                Stmt::Apply(_) => return Err(refusal("a second table in ingress", "one table admits")),
                Stmt::AssignLane(..) => {
                    return Err(refusal("assignment to every lane", "stateful units take lanes as they are"));
                }
                Stmt::Priority(Expr::Const(queue, _)) => path.queue = Some(*queue),
                Stmt::Priority(_) => return Err(refusal("a computed egress queue", "constants")),
            }
        }
        Ok(Tree::Leaf(path))
    }

    /// The parser knows whether lanes are present, since absent ones become zero before they are added.
    fn without_lanes(&self, cond: &Expr) -> Expr {
        match cond {
            Expr::Valid(Part::Lanes) => Expr::Meta(self.bare).eq(Expr::Const(0, 1)),
            Expr::Not(inner) => !self.without_lanes(inner),
            Expr::Binary(op, left, right) => {
                Expr::Binary(*op, Box::new(self.without_lanes(left)), Box::new(self.without_lanes(right)))
            }
            other => other.clone(),
        }
    }
}

/// The variable that a condition compares with 0.
fn tested_for_zero(cond: &Expr) -> Option<MetaId> {
    match cond {
        Expr::Binary(BinOp::Eq, value, zero) => match (&**value, &**zero) {
            (Expr::Meta(meta), Expr::Const(0, _)) => Some(*meta),
            _ => None,
        },
        _ => None,
    }
}

/// Variables that a table's actions set only together with the reason.
fn others_of(program: &Program, table: TableId, reason: MetaId) -> Vec<LValue> {
    let reason = LValue::Meta(reason);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for action in &program.table(table).actions {
        let body = &program.action(*action).body;
        let places =
            body.iter().filter_map(|s| if let Stmt::Assign(place, _) = s { Some(*place) } else { None });
        let places: Vec<_> = places.collect();
        if places.contains(&reason) { with.extend(places) } else { without.extend(places) }
    }
    with.retain(|place| *place != reason && !without.contains(place));
    with
}

/// Whether a table is applied in the statement.
fn applies(stmt: &Stmt) -> bool {
    let mut found = false;
    visit(std::slice::from_ref(stmt), &mut |stmt| found |= matches!(stmt, Stmt::Apply(_)));
    found
}

/// The comparisons of a variable with a field in a condition.
fn compared_fields(cond: &Expr, found: &mut Vec<(Expr, Expr)>) {
    match cond {
        Expr::Not(inner) => compared_fields(inner, found),
        Expr::Binary(BinOp::Eq | BinOp::Ne, left, right)
            if matches!((&**left, &**right), (Expr::Meta(_), Expr::Field(..))) =>
        {
            found.push(((**left).clone(), (**right).clone()));
        }
        Expr::Binary(_, left, right) => {
            compared_fields(left, found);
            compared_fields(right, found);
        }
        _ => {}
    }
}

fn refs(block: &[Stmt]) -> Vec<&Stmt> {
    block.iter().collect()
}
