//! Runs of statements over lanes, each of which becomes one loop.
//!
//! A lane of the packet, of a lane variable or of a register depends on nothing of another lane, so that consecutive statements
//! over lanes can be executed lane by lane. Within a run a lane variable is a number, which stays in a register of the processor; it is kept
//! in memory for all lanes only where a later run reads it.

use std::collections::BTreeSet;

use crate::ir::*;

/// What a statement over lanes does in a packet without lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Without {
    /// The same: it uses none of the packet's lanes.
    Runs,
    /// Nothing.
    Skips,
    /// The packet is dropped.
    Drops,
}

/// Lane variables, by their index.
type Vars = BTreeSet<u16>;

/// The runs of a program, in the order of its text.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// The variables that each run reads before it assigns them.
    reads: Vec<Vars>,
    /// Variables that conditions over all lanes read.
    conditions: Vars,
}

impl Runs {
    pub(super) fn new(program: &Program) -> Self {
        let mut runs = Self::default();
        for block in [&program.ingress, &program.egress] {
            runs.block(program, block, false);
        }
        runs
    }

    /// Variables that must be kept for all lanes: a run, or a condition over all lanes, reads what was assigned before it.
    pub(super) fn kept(&self) -> Vars {
        self.reads.iter().chain([&self.conditions]).flatten().copied().collect()
    }

    /// Whether `var` is read after run `index`, before it is assigned again.
    pub(super) fn is_read_after(&self, index: usize, var: LaneVarId) -> bool {
        self.conditions.contains(&var.0)
            || self.reads.iter().skip(index + 1).any(|reads| reads.contains(&var.0))
    }

    fn block(&mut self, program: &Program, block: &[Stmt], has_lanes: bool) {
        for part in parts(program, block, has_lanes) {
            match part {
                Block::Run { stmts, .. } => self.reads.push(reads(program, stmts)),
                Block::Other { stmt, has_lanes } => {
                    values(stmt).for_each(|value| any_lane_vars(value, &mut self.conditions));
                    if let Stmt::If(cond, then, otherwise) = stmt {
                        self.block(program, then, has_lanes || implies_lanes(cond));
                        self.block(program, otherwise, has_lanes);
                    }
                }
            }
        }
    }
}

/// A part of a block.
pub(super) enum Block<'a> {
    /// Statements that make one loop.
    Run {
        /// At least one.
        stmts: &'a [Stmt],
        /// Whether the packet is known to have lanes.
        has_lanes: bool,
    },
    /// Any other statement.
    Other {
        /// The statement.
        stmt: &'a Stmt,
        /// Whether the packet is known to have lanes.
        has_lanes: bool,
    },
}

/// Cuts a block into runs and other statements.
pub(super) fn parts<'a>(program: &Program, block: &'a [Stmt], mut has_lanes: bool) -> Vec<Block<'a>> {
    let mut parts = Vec::new();
    let mut rest = block;
    while let [stmt, after @ ..] = rest {
        let len = run_len(program, rest, has_lanes);
        if len == 0 {
            parts.push(Block::Other { stmt, has_lanes });
            has_lanes &= !removes_lanes(stmt);
            rest = after;
        } else {
            let (stmts, after) = rest.split_at(len);
            parts.push(Block::Run { stmts, has_lanes });
            rest = after;
        }
    }
    parts
}

/// Whether a condition holds only for packets with lanes.
pub(super) fn implies_lanes(cond: &Expr) -> bool {
    match cond {
        Expr::Valid(Part::Lanes) => true,
        Expr::Binary(BinOp::Both, left, right) => implies_lanes(left) || implies_lanes(right),
        _ => false,
    }
}

fn removes_lanes(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Remove(part) => *part == Part::Lanes,
        Stmt::If(_, then, otherwise) => then.iter().chain(otherwise).any(removes_lanes),
        _ => false,
    }
}

/// The register and the action of a statement over the lanes of a slot.
pub(super) fn lane_action<'a>(program: &'a Program, stmt: &Stmt) -> Option<(&'a Register, &'a RegAction)> {
    let Stmt::Exec { register, action, .. } = stmt else { return None };
    let register = program.register(*register);
    let is_lanes = matches!(register.kind, RegisterKind::Lanes(_));
    is_lanes.then(|| (register, &register.actions[usize::from(*action)]))
}

/// Whether a register action reads the packet's lanes.
pub(super) fn reads_packet(action: &RegAction, output: Output) -> bool {
    let mentions = |cases: &[Case]| {
        let mut all = cases.iter().flat_map(|case| case.when.iter().chain([&case.value]));
        all.any(|expr| expr.mentions(&Expr::Lane))
    };
    action.updates.first().is_some_and(|(_, cases)| mentions(cases))
        || action.conditions.iter().any(|condition| condition.mentions(&Expr::Lane))
        || (output != Output::None && mentions(&action.output))
}

/// What a statement does without lanes; `None` if it is not one over lanes.
pub(super) fn without(program: &Program, stmt: &Stmt) -> Option<Without> {
    match stmt {
        Stmt::AssignLane(place, value) => {
            let uses = *place == LaneLValue::Lane || value.mentions(&Expr::Lane);
            Some(if uses { Without::Skips } else { Without::Runs })
        }
        Stmt::Exec { output, .. } => {
            let (_, action) = lane_action(program, stmt)?;
            let uses = *output == Output::Lanes || reads_packet(action, *output);
            Some(if uses { Without::Drops } else { Without::Runs })
        }
        _ => None,
    }
}

/// Whether a statement overwrites the packet's lanes: the last of its run, so that no other reads them after it.
fn writes_packet(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::AssignLane(LaneLValue::Lane, _) | Stmt::Exec { output: Output::Lanes, .. })
}

/// How many statements from the first make one loop: 0 if that is none over lanes. All do the same in packets without lanes, unless the
/// packet has some; and registers are of one size, at one index and each executed once, so that all entries exist or none.
fn run_len(program: &Program, block: &[Stmt], has_lanes: bool) -> usize {
    let Some(first) = block.first().and_then(|stmt| without(program, stmt)) else { return 0 };
    let mut entry = None;
    let mut registers = BTreeSet::new();
    for (len, stmt) in block.iter().enumerate() {
        match without(program, stmt) {
            Some(other) if has_lanes || other == first => {}
            _ => return len,
        }
        if let (Some((reg, _)), Stmt::Exec { register, index, .. }) = (lane_action(program, stmt), stmt) {
            let is_same = *entry.get_or_insert((reg.size, index)) == (reg.size, index);
            if !is_same || !registers.insert(register.0) {
                return len;
            }
        }
        if writes_packet(stmt) {
            return len + 1;
        }
    }
    block.len()
}

/// The variables that statements of a run read before they assign them.
fn reads(program: &Program, stmts: &[Stmt]) -> Vars {
    let (mut reads, mut assigned) = (Vars::new(), Vars::new());
    for stmt in stmts {
        let mut read = Vars::new();
        match stmt {
            Stmt::AssignLane(_, value) => vars(value, &mut read),
            _ => {
                for expr in lane_action(program, stmt).iter().flat_map(|(_, action)| expressions(action)) {
                    vars(expr, &mut read);
                }
            }
        }
        reads.extend(read.difference(&assigned));
        if let Stmt::AssignLane(LaneLValue::Var(var), _) | Stmt::Exec { output: Output::LaneVar(var), .. } =
            stmt
        {
            assigned.insert(var.0);
        }
    }
    reads
}

/// Every expression of a register action.
pub(super) fn expressions(action: &RegAction) -> impl Iterator<Item = &Expr> {
    let cases = action.updates.iter().flat_map(|(_, cases)| cases).chain(&action.output);
    action.conditions.iter().chain(cases.flat_map(|case| case.when.iter().chain([&case.value])))
}

fn vars(expr: &Expr, found: &mut Vars) {
    if let Expr::LaneVar(var) = expr {
        found.insert(var.0);
    }
    expr.operands().into_iter().for_each(|operand| vars(operand, found));
}

/// The values that a statement which is not over lanes computes itself.
fn values(stmt: &Stmt) -> impl Iterator<Item = &Expr> {
    let value = match stmt {
        Stmt::Assign(_, value)
        | Stmt::If(value, ..)
        | Stmt::Exec { index: value, .. }
        | Stmt::Count(_, value)
        | Stmt::Unicast(value)
        | Stmt::Multicast(value)
        | Stmt::Priority(value) => Some(value),
        Stmt::AssignLane(..) | Stmt::Apply(_) | Stmt::Remove(_) | Stmt::AddLanes | Stmt::Drop => None,
    };
    value.into_iter()
}

/// The variables in conditions over all lanes.
fn any_lane_vars(expr: &Expr, found: &mut Vars) {
    match expr {
        Expr::AnyLane(inner) => vars(inner, found),
        _ => expr.operands().into_iter().for_each(|operand| any_lane_vars(operand, found)),
    }
}
