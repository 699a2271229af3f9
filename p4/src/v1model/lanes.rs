//! Statements over all lanes: one hidden action each, or one constant table per lane for a lookup.

use super::expr::Names;
use super::{Printer, bare, visit};
use crate::ir::*;

impl Printer<'_> {
    pub(super) fn lane_var(&self, var: LaneVarId, lane: &str) -> String {
        format!("meta.{}_{lane}", self.p.lane_var(var).name)
    }

    /// Whether the packet has lanes and the condition holds in one of them.
    pub(super) fn any_lane(&self, cond: &Expr) -> String {
        let lanes = self.part(Part::Lanes);
        let all: Vec<_> = self
            .lane_names()
            .iter()
            .map(|lane| self.expr(cond, Names::lane((&format!("{lanes}.d{lane}"), lane))))
            .collect();
        format!("({lanes}.isValid() && ({}))", disjunction(&all))
    }

    /// The distinct statements over lanes, in order of appearance.
    fn lane_assignments(&self) -> Vec<(LaneLValue, Expr)> {
        let mut found = Vec::new();
        visit(&self.p.ingress, &mut |stmt| {
            if let Stmt::AssignLane(place, value) = stmt {
                let step = (*place, value.clone());
                if !found.contains(&step) {
                    found.push(step);
                }
            }
        });
        found
    }

    /// Declares the actions and tables of the statements over lanes.
    pub(super) fn lane_steps(&mut self) {
        for (number, (place, value)) in self.lane_assignments().into_iter().enumerate() {
            match &value {
                Expr::Lookup(lookup, key) => self.lookup_tables(number, place, *lookup, key),
                _ => self.lane_action(number, place, &value),
            }
        }
    }

    fn lane_action(&mut self, number: usize, place: LaneLValue, value: &Expr) {
        self.w.line("@hidden");
        self.w.open(format!("action lanes_{number}() {{"));
        for lane in self.lane_names() {
            let field = format!("{}.d{lane}", self.part(Part::Lanes));
            let text = self.expr(value, Names::lane((&field, &lane)));
            let target = self.lane_place(place, &lane);
            if target != text {
                self.w.line(format!("{target} = {};", bare(&text)));
            }
        }
        self.w.close("}");
        self.w.line("");
    }

    fn lane_place(&self, place: LaneLValue, lane: &str) -> String {
        match place {
            LaneLValue::Lane => format!("{}.d{lane}", self.part(Part::Lanes)),
            LaneLValue::Var(var) => self.lane_var(var, lane),
        }
    }

    fn lookup_tables(&mut self, number: usize, place: LaneLValue, lookup: LookupId, key: &Expr) {
        let lookup = self.p.lookup(lookup).clone();
        for lane in self.lane_names() {
            let field = format!("{}.d{lane}", self.part(Part::Lanes));
            let name = format!("lanes_{number}_{lane}");
            self.w.line("@hidden");
            self.w.open(format!("action {name}_set(bit<{}> value) {{", lookup.value_bits));
            self.w.line(format!("{} = value;", self.lane_place(place, &lane)));
            self.w.close("}");
            self.w.line("@hidden");
            self.w.open(format!("table {name} {{"));
            let key = self.expr(key, Names::lane((&field, &lane)));
            self.w.line(format!("key = {{ {}: ternary @name(\"{}\"); }}", bare(&key), lookup.name));
            self.w.line(format!("actions = {{ {name}_set; }}"));
            self.w.line(format!("const default_action = {name}_set({:#x});", lookup.default));
            self.w.open("const entries = {");
            for (value, mask, result) in &lookup.entries {
                self.w.line(format!("{value:#x} &&& {mask:#x}: {name}_set({result:#x});"));
            }
            self.w.close("}");
            self.w.close("}");
            self.w.line("");
        }
    }

    /// Adds zero lanes to the packet.
    pub(super) fn add_lanes(&mut self) {
        let lanes = self.part(Part::Lanes);
        self.w.line(format!("{lanes}.setValid();"));
        for lane in self.lane_names() {
            self.w.line(format!("{lanes}.d{lane} = 0;"));
        }
    }

    /// Calls the action or tables that [`Self::lane_steps`] declared for this statement.
    pub(super) fn lane_step(&mut self, stmt: &Stmt) {
        let Stmt::AssignLane(place, value) = stmt else { return };
        let step = (*place, value.clone());
        let Some(number) = self.lane_assignments().iter().position(|known| *known == step) else { return };
        if matches!(value, Expr::Lookup(..)) {
            for lane in self.lane_names() {
                self.w.line(format!("lanes_{number}_{lane}.apply();"));
            }
        } else {
            self.w.line(format!("lanes_{number}();"));
        }
    }
}

/// Conditions joined by "or" as a balanced tree: compilers nest their output as deeply as the expression, and consumers of that
/// output have limits.
fn disjunction(conditions: &[String]) -> String {
    const ROW: usize = 8;
    if conditions.len() <= ROW {
        return conditions.join(" || ");
    }
    let (left, right) = conditions.split_at(conditions.len().div_ceil(2));
    format!("({}) || ({})", disjunction(left), disjunction(right))
}
