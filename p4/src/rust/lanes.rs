//! Loops over lanes: register actions, assignments, conditions over all lanes, constant tables.

use std::collections::BTreeSet;

use super::expr::Env;
use super::{Generator, native};
use crate::ir::*;

/// Inputs of a loop over lanes from the packet.
#[derive(Clone, Copy)]
struct Need {
    reads: bool,
    writes: bool,
}

impl Generator<'_> {
    /// One function for each constant table.
    pub(super) fn lookups(&mut self) {
        for lookup in &self.p.lookups {
            let (key, value) = (native(lookup.key_bits), native(lookup.value_bits));
            self.w.line("#[inline(always)]");
            self.w.open(format!("fn lookup_{}(key: {key}) -> {value} {{", lookup.name));
            for (entry, mask, result) in &lookup.entries {
                self.w.line(format!("if key & {mask:#x} == {entry:#x} {{ return {result:#x}; }}"));
            }
            self.w.line(format!("{:#x}", lookup.default));
            self.w.close("}");
            self.w.line("");
        }
    }

    /// Brings the packet's lanes into scope as an array `lanes` and opens the loop; `i` is the lane.
    fn open_loop(&mut self, need: Need, give_up: &str) {
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
            self.w.line(format!("let lane = {}::from_be_bytes(lanes[i]);", native(self.p.lane_bits())));
        }
    }

    /// A loop over the slot's lanes and, where the action needs them, the packet's.
    pub(super) fn exec_lanes(
        &mut self,
        register: &Register,
        action: &RegAction,
        index: &str,
        output: Output,
        give_up: &str,
    ) {
        let cells = register.cells();
        let env = Env { cells: &cells, fields_in_variables: true, ..Env::default() };
        let ty = native(cells[0].bits);
        self.field_variables(action);
        let updates = action.updates.first().map(|(_, cases)| cases.as_slice());
        let mentions = |cases: &[Case]| {
            let mut all = cases.iter().flat_map(|case| case.when.iter().chain([&case.value]));
            all.any(|expr| expr.mentions(&Expr::Lane))
        };
        let reads = updates.is_some_and(mentions)
            || action.conditions.iter().any(|condition| condition.mentions(&Expr::Lane))
            || (output != Output::None && mentions(&action.output));
        let need = Need { reads, writes: output == Output::Lanes };
        self.w.line(format!(
            "let Some(slot) = state.{}.get_mut({index} as usize) else {{ {give_up}; }};",
            register.name
        ));
        if need.reads || need.writes {
            self.w.line(format!("if !has_{} {{ {give_up}; }}", self.part_name(Part::Lanes)));
        }
        self.open_loop(need, give_up);
        self.w.line("let old0 = slot[i];");
        for (i, condition) in action.conditions.iter().enumerate() {
            self.w.line(format!("let cond{i} = {};", self.expr(condition, env)));
        }
        let value = updates.map_or_else(|| "old0".into(), |cases| self.cases(cases, "old0", env));
        self.w.line(format!("let new0: {ty} = {value};"));
        if updates.is_some() {
            self.w.line("slot[i] = new0;");
        }
        if output != Output::None {
            let value = self.cases(&action.output, "0", env);
            self.w.line(format!("let out: {ty} = {value};"));
        }
        match output {
            Output::Lanes => self.w.line("lanes[i] = out.to_be_bytes();"),
            Output::LaneVar(var) => self.w.line(format!("v_{}[i] = out;", self.p.lane_var(var).name)),
            Output::None | Output::Place(_) => {}
        }
        self.w.close("}");
    }

    pub(super) fn assign_lane(&mut self, place: LaneLValue, value: &Expr, give_up: &str) {
        let env = Env { fields_in_variables: true, ..Env::default() };
        let mut fields = BTreeSet::new();
        value.fields(&mut fields);
        let need = Need { reads: value.mentions(&Expr::Lane), writes: place == LaneLValue::Lane };
        if need.reads || need.writes {
            self.w.open(format!("if has_{} {{", self.part_name(Part::Lanes)));
        } else {
            self.w.open("{");
        }
        self.fields_as_variables(fields);
        self.open_loop(need, give_up);
        let text = self.expr(value, env);
        match place {
            LaneLValue::Lane => self.w.line(format!("lanes[i] = ({text}).to_be_bytes();")),
            LaneLValue::Var(var) => self.w.line(format!("v_{}[i] = {text};", self.p.lane_var(var).name)),
        }
        self.w.close("}");
        self.w.close("}");
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
