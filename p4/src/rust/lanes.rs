//! Loops over lanes: register actions, assignments, conditions over all lanes.

use std::collections::BTreeSet;

use super::expr::Env;
use super::runs::{Without, expressions, lane_action, reads_packet, without};
use super::{Generator, native};
use crate::ir::*;

/// Inputs and outputs of a loop over lanes in the packet.
#[derive(Clone, Copy)]
struct Need {
    reads: bool,
    writes: bool,
}

impl Generator<'_> {
    /// Brings the packet's lanes into scope as an array `lanes` and opens the loop; `i` is the lane.
    fn open_loop(&mut self, need: Need, words: Env<'_>, give_up: &str) {
        if need.reads || need.writes {
            let part = self.part_name(Part::Lanes).to_uppercase();
            let bytes = self.p.lane_bits() / 8;
            self.w.line(format!(
                "let Some(bytes) = data.get_mut({part}_AT..{part}_END) else {{ {give_up}; }};"
            ));
            self.w.line(format!(
                "let Ok(lanes) = <&mut [[u8; {bytes}]; LANES]>::try_from(bytes.as_chunks_mut::<{bytes}>().0) else {{ {give_up}; }};"
            ));
        }
        self.w.open("for i in 0..LANES {");
        if need.reads {
            let bits = self.p.lane_bits();
            let lane = words.widened(format!("{}::from_be_bytes(lanes[i])", native(bits)), bits);
            self.w.line(format!("let lane = {lane};"));
        }
    }

    /// A loop that executes statements of one run; `has_lanes` where only packets with lanes get to it.
    pub(super) fn run(&mut self, stmts: &[Stmt], has_lanes: bool, give_up: &str) {
        let run = self.next_run;
        self.next_run += 1;
        let program = self.p;
        let is = |wanted| stmts.iter().any(|stmt| without(program, stmt) == Some(wanted));
        if is(Without::Skips) && !has_lanes {
            self.w.open(format!("if has_{} {{", self.part_name(Part::Lanes)));
        } else {
            self.w.open("{");
        }
        self.run_fields(stmts);
        for (number, stmt) in stmts.iter().enumerate() {
            if let (Some((register, _)), Stmt::Exec { index, .. }) = (lane_action(program, stmt), stmt) {
                let index = self.expr(index, Env::default());
                self.w.line(format!(
                    "let Some({}) = state.{}.get_mut({index} as usize) else {{ {give_up}; }};",
                    slot(number),
                    register.name
                ));
            }
        }
        if is(Without::Drops) {
            self.w.line(format!("if !has_{} {{ {give_up}; }}", self.part_name(Part::Lanes)));
        }
        self.open_loop(needs(program, stmts), Env { words: true, ..Env::default() }, give_up);
        let mut numbers = vec![false; program.lane_vars.len()];
        for (number, stmt) in stmts.iter().enumerate() {
            let assigned = match stmt {
                Stmt::AssignLane(place, value) => {
                    let env = lane_env(&numbers);
                    let text = format!("({})", self.expr(value, env));
                    self.lane_output(*place, text, env)
                }
                Stmt::Exec { output, .. } => match lane_action(program, stmt) {
                    Some((register, action)) => {
                        self.update(register, action, &slot(number), *output, &numbers)
                    }
                    None => None,
                },
                _ => None,
            };
            if let Some(var) = assigned {
                self.keep(run, var);
                numbers[usize::from(var.0)] = true;
            }
        }
        self.w.close("}");
        self.w.close("}");
    }

    /// Header fields that a run mentions, read before it borrows anything.
    fn run_fields(&mut self, stmts: &[Stmt]) {
        let mut fields = BTreeSet::new();
        for stmt in stmts {
            match stmt {
                Stmt::AssignLane(_, value) => value.fields(&mut fields),
                _ => {
                    let action = lane_action(self.p, stmt);
                    let all = action.iter().flat_map(|(_, action)| expressions(action));
                    all.for_each(|expr| expr.fields(&mut fields));
                }
            }
        }
        self.fields_as_variables(fields);
    }

    /// The action on one lane of a slot. Returns the variable that it assigned.
    fn update(
        &mut self,
        register: &Register,
        action: &RegAction,
        slot: &str,
        output: Output,
        numbers: &[bool],
    ) -> Option<LaneVarId> {
        let cells = register.cells();
        let env = Env { cells: &cells, ..lane_env(numbers) };
        let bits = cells[0].bits;
        let ty = env.native(bits);
        let updates = action.updates.first().map(|(_, cases)| cases.as_slice());
        self.w.line(format!("let old0 = {};", env.widened(format!("{slot}[i]"), bits)));
        for (i, condition) in action.conditions.iter().enumerate() {
            self.w.line(format!("let cond{i} = {};", self.expr(condition, env)));
        }
        let value = updates.map_or_else(|| "old0".into(), |cases| self.cases(cases, "old0", env));
        self.w.line(format!("let new0: {ty} = {value};"));
        if updates.is_some() {
            self.w.line(format!("{slot}[i] = {};", env.narrowed("new0".into(), bits)));
        }
        if output == Output::None {
            return None;
        }
        let value = self.cases(&action.output, "0", env);
        self.w.line(format!("let out: {ty} = {value};"));
        match output {
            Output::Lanes => self.lane_output(LaneLValue::Lane, "out".into(), env),
            Output::LaneVar(var) => self.lane_output(LaneLValue::Var(var), "out".into(), env),
            Output::None | Output::Place(_) => None,
        }
    }

    /// Writes a value to the packet's lane, or makes it the number of a variable, which is returned.
    fn lane_output(&mut self, place: LaneLValue, text: String, env: Env<'_>) -> Option<LaneVarId> {
        match place {
            LaneLValue::Lane => {
                let text = env.narrowed(text, self.p.lane_bits());
                self.w.line(format!("lanes[i] = {text}.to_be_bytes();"));
                None
            }
            LaneLValue::Var(var) => {
                self.w.line(format!("let n_{} = {text};", self.p.lane_var(var).name));
                Some(var)
            }
        }
    }

    /// Keeps a variable for all lanes if a later run reads it.
    fn keep(&mut self, run: usize, var: LaneVarId) {
        if self.runs.is_read_after(run, var) {
            let Meta { name, bits } = self.p.lane_var(var);
            let number = lane_env(&[]).narrowed(format!("n_{name}"), *bits);
            self.w.line(format!("v_{name}[i] = {number};"));
        }
    }

    /// Whether the packet has lanes and the condition holds in one of them. Every lane is examined, so that the loop
    /// vectorises.
    pub(super) fn any_lane(&self, cond: &Expr) -> String {
        let part = self.part_name(Part::Lanes);
        let (upper, ty, bytes) = (part.to_uppercase(), native(self.p.lane_bits()), self.p.lane_bits() / 8);
        let cond = self.expr(cond, Env::default());
        format!(
            "(has_{part} && data.get({upper}_AT..{upper}_END).is_some_and(|bytes| bytes.as_chunks::<{bytes}>().0.iter().enumerate()\
             .fold(false, |any, (i, bytes)| {{ let lane = {ty}::from_be_bytes(*bytes); any | {cond} }})))"
        )
    }
}

/// Names of values in a loop over lanes.
fn lane_env(numbers: &[bool]) -> Env<'_> {
    Env { fields_in_variables: true, words: true, numbers, ..Env::default() }
}

/// The variable that holds the slot's lanes for a statement of a run.
fn slot(number: usize) -> String {
    if number == 0 { "slot".into() } else { format!("slot{number}") }
}

/// What a run needs of the packet's lanes.
fn needs(program: &Program, stmts: &[Stmt]) -> Need {
    let mut need = Need { reads: false, writes: false };
    for stmt in stmts {
        match stmt {
            Stmt::AssignLane(place, value) => {
                need.reads |= value.mentions(&Expr::Lane);
                need.writes |= *place == LaneLValue::Lane;
            }
            Stmt::Exec { output, .. } => {
                let action = lane_action(program, stmt);
                need.reads |= action.is_some_and(|(_, action)| reads_packet(action, *output));
                need.writes |= *output == Output::Lanes;
            }
            _ => {}
        }
    }
    need
}
