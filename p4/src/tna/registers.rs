//! Registers, their actions, and the tables that select these.

use super::decision::{Test, Tree};
use super::ends;
use super::lower::{Copied, PathState, To};
use super::{Printer, REGISTER_ACTIONS_MAX, refusal};
use crate::ir::*;
use crate::refusal::{Refusal, sketch, symbol};

/// The access of a path to one register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Touch {
    /// None, and the packet is dropped: an additional read is harmless.
    Free,
    Nothing,
    Do(u16, Output),
    /// The second pass of a packet that is sent with lanes.
    Harvest,
}

/// Effect of a register action on a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Store,
    Aggregate(BinOp),
    /// A saturating sum whose ends stay.
    AggregateToEnds,
    Read,
    Clear,
}

impl Printer {
    /// The accesses to one register on every path.
    pub(super) fn touches(
        &self,
        tree: &Tree<PathState>,
        register: RegisterId,
    ) -> Result<Tree<Touch>, Refusal> {
        let lanes = matches!(self.p().register(register).kind, RegisterKind::Lanes(_));
        let action = |index: u16| &self.p().register(register).actions[usize::from(index)];
        let reads = |index: u16| action(index).updates.is_empty();
        let of = |path: &PathState| path.touches.iter().find(|(known, ..)| *known == register).copied();
        // The output of each action where it is used.
        let outputs: Vec<(u16, Output)> = tree
            .leaves()
            .into_iter()
            .filter_map(of)
            .filter(|(_, _, output)| *output != Output::None)
            .map(|(_, action, output)| (action, output))
            .collect();
        let output_of =
            |index: u16| outputs.iter().find(|(known, _)| *known == index).map(|(_, output)| *output);
        let store =
            if lanes { self.effects(register)?.iter().position(|e| *e == Effect::Store) } else { None };
        let clear =
            if lanes { self.effects(register)?.iter().position(|e| *e == Effect::Clear) } else { None };
        let leaf = |path: &PathState| match of(path) {
            // Lanes that are cleared are zeros, so storing them clears.
            Some((_, index, _)) if clear == Some(usize::from(index)) => match store {
                Some(store) => Touch::Do(store as u16, output_of(store as u16).unwrap_or(Output::None)),
                None => Touch::Do(index, Output::None),
            },
            // What is stored is what the packet has.
            Some((_, index, Output::None)) if path.to == To::Drop || store == Some(usize::from(index)) => {
                Touch::Do(index, output_of(index).unwrap_or(Output::None))
            }
            Some((_, index, output)) => Touch::Do(index, output),
            None if path.to == To::Drop => Touch::Free,
            None => Touch::Nothing,
        };
        let join = |a: &Touch, b: &Touch| match (a, b) {
            (Touch::Free, Touch::Do(index, _)) if reads(*index) => Some(b.clone()),
            (Touch::Do(index, _), Touch::Free) if reads(*index) => Some(a.clone()),
            (Touch::Free, Touch::Nothing) | (Touch::Nothing, Touch::Free) => Some(Touch::Nothing),
            _ => None,
        };
        let tree = tree.map(&leaf, &join);
        let tree = tree
            .map(&|touch| if *touch == Touch::Free { Touch::Nothing } else { touch.clone() }, &|_, _| None);
        let tree = tree.rekeyed(&|test| self.by_copy(test));
        if self.chip.both_halves() {
            let read = lanes.then(|| self.effects(register)).transpose()?;
            let read = read.and_then(|effects| effects.iter().position(|effect| *effect == Effect::Read));
            let read = read.map(|action| action as u16);
            return self.in_passes(register, tree, read.map(|read| Touch::Do(read, Output::Lanes)));
        }
        let again = Expr::Meta(self.l.harvest).eq(Expr::Const(1, 1));
        let harvest = Tree::Leaf(if lanes { Touch::Harvest } else { Touch::Nothing });
        Tree::branch(&again, harvest, tree)
    }

    /// The accesses in several passes: on its way back a packet reads lanes, and what it is compared with; a register that outputs a header field is
    /// accessed in the last pass forward alone.
    fn in_passes(
        &self,
        register: RegisterId,
        tree: Tree<Touch>,
        read: Option<Touch>,
    ) -> Result<Tree<Touch>, Refusal> {
        let (Some(back), Some(last)) = (self.on_its_way_back(), self.in_the_last_pass()) else {
            return Ok(tree);
        };
        let leaves = tree.leaves();
        if leaves.iter().any(|touch| matches!(touch, Touch::Do(_, Output::Place(LValue::Field(..))))) {
            return Tree::branch(&last, tree, Tree::Leaf(Touch::Nothing));
        }
        let compared = self.compared_output().map(|stored| Output::Place(LValue::Meta(stored)));
        let peeks = |touch: &&&Touch| match touch {
            Touch::Do(action, output) => {
                let updates = &self.p().register(register).actions[usize::from(*action)].updates;
                Some(*output) == compared && updates.is_empty()
            }
            _ => false,
        };
        let peek = leaves.iter().find(peeks).map(|touch| (*touch).clone());
        let touch = read.or(peek).unwrap_or(Touch::Nothing);
        Tree::branch(&back, Tree::Leaf(touch), tree)
    }

    /// The test on the copy of its container, if there is one.
    fn by_copy(&self, test: &Test) -> Test {
        let Expr::Field(header, field) = test.key else { return test.clone() };
        let at = self.fields.position(header, field);
        let is = |copied: &&Copied| copied.header == header && copied.container == at.container;
        match self.l.copies.iter().find(is) {
            Some(copied) => {
                let (value, mask) = (test.value << at.shift, test.mask << at.shift);
                Test { key: Expr::Meta(copied.copy), value, mask }
            }
            None => test.clone(),
        }
    }

    fn effects(&self, register: RegisterId) -> Result<Vec<Effect>, Refusal> {
        let register = self.p().register(register);
        let of = |action: &RegAction| match &action.updates[..] {
            _ if ends::stays_at_ends(action) => Some(Effect::AggregateToEnds),
            [] => Some(Effect::Read),
            [(0, cases)] => match &cases[..] {
                [Case { when: None, value: Expr::Lane }] => Some(Effect::Store),
                [Case { when: None, value: Expr::Const(0, _) }] => Some(Effect::Clear),
                [Case { when: None, value: Expr::Binary(op, cell, lane) }]
                    if **cell == Expr::Cell(0) && **lane == Expr::Lane && folds(*op) =>
                {
                    Some(Effect::Aggregate(*op))
                }
                _ => None,
            },
            _ => None,
        };
        let unknown = |action: &RegAction| {
            refusal(
                format!("register action '{}.{}'", register.name, action.name),
                "a stateful unit stores, reads, clears, or folds whole words: sum, min, max, and, or, xor",
            )
        };
        register.actions.iter().map(|action| of(action).ok_or_else(|| unknown(action))).collect()
    }

    /// Lane registers: in pairs, or of one lane each; behind what prepares their lanes.
    pub(super) fn lanes(&mut self, id: RegisterId, tree: &Tree<Touch>) -> Result<Vec<String>, Refusal> {
        let (tree, before) = self.read_by_sum(id, tree)?;
        let tables = match self.l.ends {
            Some(_) => self.singles(id, &tree)?,
            None => self.pairs(id, &tree)?,
        };
        Ok(before.into_iter().chain(tables).map(|table| format!("{table}.apply();")).collect())
    }

    /// If a register has one action too few: reads become sums, to which a packet that reads adds zeros. Returns the table that makes its lanes zeros.
    fn read_by_sum(
        &mut self,
        id: RegisterId,
        tree: &Tree<Touch>,
    ) -> Result<(Tree<Touch>, Option<String>), Refusal> {
        let effects = self.effects(id)?;
        let mut actions: Vec<u16> = Vec::new();
        for leaf in tree.leaves() {
            match leaf {
                Touch::Do(action, _) if !actions.contains(action) => actions.push(*action),
                _ => {}
            }
        }
        let effect = |action: u16| effects[usize::from(action)];
        let read = actions.iter().copied().find(|action| effect(*action) == Effect::Read);
        let sum = actions.iter().copied().find(|action| keeps_with_zero(effect(*action)));
        let (Some(read), Some(sum)) = (read, sum) else { return Ok((tree.clone(), None)) };
        if actions.len() + usize::from(!self.chip.both_halves()) <= REGISTER_ACTIONS_MAX {
            return Ok((tree.clone(), None));
        }
        let reads = tree.map(&|touch| matches!(touch, Touch::Do(action, _) if *action == read), &|_, _| None);
        self.w.line("@hidden");
        self.w.open("action x_repeat_zeros() {");
        for lane in 0..self.p().lane_count() {
            let lane = self.lane(lane);
            self.w.line(format!("{lane} = 0;"));
        }
        self.w.close("}");
        self.decide("x_repeat", &reads.decision(), |reads| reads.then(|| "x_repeat_zeros".to_string()));
        let by_sum = |touch: &Touch| match touch {
            Touch::Do(action, output) if *action == read => Touch::Do(sum, *output),
            other => other.clone(),
        };
        Ok((tree.map(&by_sum, &|_, _| None), Some("x_repeat".into())))
    }

    /// Lane registers in pairs: declarations, actions and a table for each.
    fn pairs(&mut self, id: RegisterId, tree: &Tree<Touch>) -> Result<Vec<String>, Refusal> {
        let register = self.p().register(id).clone();
        let effects = self.effects(id)?;
        let decision = tree.decision();
        let mut used: Vec<(u16, Output)> = Vec::new();
        for leaf in tree.leaves() {
            if let Touch::Do(action, output) = leaf
                && !used.contains(&(*action, *output))
            {
                used.push((*action, *output));
            }
        }
        let mut actions: Vec<u16> = used.iter().map(|(action, _)| *action).collect();
        actions.sort_unstable();
        actions.dedup();
        let harvest = !self.chip.both_halves();
        let needed = actions.len() + usize::from(harvest);
        if needed > REGISTER_ACTIONS_MAX {
            let names: Vec<_> =
                actions.iter().map(|action| register.actions[usize::from(*action)].name.as_str()).collect();
            let more = if harvest { ", and one more to read the other half" } else { "" };
            return Err(refusal(
                format!("{needed} register actions of '{}' ({}{more})", register.name, names.join(", ")),
                format!("a register has {REGISTER_ACTIONS_MAX}; use a profile with fewer lane operations"),
            ));
        }
        let signed = effects.iter().any(|effect| {
            matches!(effect, Effect::Aggregate(BinOp::SignedMin | BinOp::SignedMax | BinOp::SaturatingAdd))
        });
        let cell = if signed { "int<32>" } else { "bit<32>" };
        self.w.open(format!("struct {}_pair_t {{", register.name));
        self.w.line(format!("{cell} first;"));
        self.w.line(format!("{cell} second;"));
        self.w.close("}");
        Ok((0..self.p().lane_count() / 2)
            .map(|pair| {
                let name = format!("{}_{pair:02}", register.name);
                self.pair(&register, &effects, &name, pair, &used, signed);
                self.decide(&format!("x_{name}"), &decision, |touch| match touch {
                    Touch::Do(action, output) => Some(action_name(&name, &register, *action, *output)),
                    Touch::Harvest => Some(format!("{name}_harvest")),
                    _ => None,
                });
                format!("x_{name}")
            })
            .collect())
    }

    /// Lane registers of one lane each: declarations, actions and a table for each.
    fn singles(&mut self, id: RegisterId, tree: &Tree<Touch>) -> Result<Vec<String>, Refusal> {
        let register = self.p().register(id).clone();
        let effects = self.effects(id)?;
        let decision = tree.decision();
        let mut used: Vec<u16> = Vec::new();
        for leaf in tree.leaves() {
            if let Touch::Do(action, _) = leaf
                && !used.contains(action)
            {
                used.push(*action);
            }
        }
        if used.len() > REGISTER_ACTIONS_MAX {
            return Err(refusal(
                format!("{} register actions of '{}'", used.len(), register.name),
                format!("a register has {REGISTER_ACTIONS_MAX}; use a profile with fewer lane operations"),
            ));
        }
        let index = format!("meta.{}", self.p().metadata[usize::from(self.l.index.0)].name);
        let mut tables = Vec::new();
        for lane in 0..self.p().lane_count() {
            let name = format!("{}_{lane:02}", register.name);
            let field = self.lane(lane);
            let id = self.id("register", register.id + lane);
            self.w.line(format!("{id} Register<int<32>, bit<16>>({}) {name};", register.size));
            for action in &used {
                let verb = format!("{name}_{}", register.actions[usize::from(*action)].name);
                self.single_action(&verb, &name, effects[usize::from(*action)], &field)?;
                self.w.line("@hidden");
                self.w.open(format!("action {verb}_out() {{"));
                self.w.line(format!("{field} = {verb}.execute({index});"));
                self.w.close("}");
            }
            self.decide(&format!("x_{name}"), &decision, |touch| match touch {
                Touch::Do(action, _) => {
                    Some(format!("{name}_{}_out", register.actions[usize::from(*action)].name))
                }
                _ => None,
            });
            tables.push(format!("x_{name}"));
        }
        Ok(tables)
    }

    fn single_action(
        &mut self,
        name: &str,
        register: &str,
        effect: Effect,
        lane: &str,
    ) -> Result<(), Refusal> {
        let lane = format!("(int<32>){lane}");
        self.w.open(format!("RegisterAction<int<32>, bit<16>, bit<32>>({register}) {name} = {{"));
        self.w.open("void apply(inout int<32> cell, out bit<32> word) {");
        match effect {
            Effect::Read => {}
            Effect::Store => self.w.line(format!("cell = {lane};")),
            Effect::Clear => self.w.line("cell = 0;"),
            Effect::Aggregate(BinOp::SignedMin) => self.w.line(format!("cell = min(cell, {lane});")),
            Effect::Aggregate(BinOp::SignedMax) => self.w.line(format!("cell = max(cell, {lane});")),
            Effect::Aggregate(op) => {
                return Err(refusal(format!("lanes aggregated by {}", symbol(op)), "sum, min and max"));
            }
            Effect::AggregateToEnds => {
                let (greatest, least) = ("0x7fffffff", "-0x80000000");
                self.w.open(format!("if (cell != {greatest} && cell != {least}) {{"));
                self.w.open(format!("if ({lane} == {greatest} || {lane} == {least}) {{"));
                self.w.line(format!("cell = {lane};"));
                self.w.turn("} else {");
                self.w.line(format!("cell = cell |+| {lane};"));
                self.w.close("}");
                self.w.close("}");
            }
        }
        self.w.line("word = (bit<32>)cell;");
        self.w.close("}");
        self.w.close("};");
        Ok(())
    }

    fn pair(
        &mut self,
        register: &Register,
        effects: &[Effect],
        name: &str,
        pair: u32,
        used: &[(u16, Output)],
        signed: bool,
    ) {
        let half = self.p().lane_count() / 2;
        let (low, high) = (self.lane(pair), self.lane(pair + half));
        let both = self.chip.both_halves();
        let index = format!("meta.{}", self.p().metadata[usize::from(self.l.index.0)].name);
        let kind = format!("{}_pair_t", register.name);
        let back = |value: &str| if signed { format!("(bit<32>){value}") } else { value.to_string() };
        let id = self.id("register", register.id + pair);
        self.w.line(format!("{id} Register<{kind}, bit<16>>({}) {name};", register.size));
        let mut harvested = !both;
        let mut declared: Vec<u16> = Vec::new();
        for (action, output) in used {
            let effect = effects[usize::from(*action)];
            let verb = &register.actions[usize::from(*action)].name;
            if !declared.contains(action) {
                declared.push(*action);
                self.pair_action(&kind, &format!("{name}_{verb}"), name, effect, signed, [&low, &high]);
            }
            self.w.line("@hidden");
            self.w.open(format!("action {}() {{", action_name(name, register, *action, *output)));
            let call = if both {
                format!("{name}_{verb}.execute({index}, {high})")
            } else {
                format!("{name}_{verb}.execute({index})")
            };
            let target = if both { &low } else { &high };
            self.w.line(format!("{target} = {call};"));
            self.w.close("}");
        }
        if std::mem::take(&mut harvested) {
            self.w.open(format!("RegisterAction<{kind}, bit<16>, bit<32>>({name}) {name}_read_low = {{"));
            self.w.open(format!("void apply(inout {kind} cells, out bit<32> low) {{"));
            self.w.line(format!("low = {};", back("cells.first")));
            self.w.close("}");
            self.w.close("};");
            self.w.line("@hidden");
            self.w.open(format!("action {name}_harvest() {{"));
            self.w.line(format!("{low} = {name}_read_low.execute({index});"));
            self.w.close("}");
        }
    }

    /// An action on a pair: both halves, and their outputs.
    fn pair_action(
        &mut self,
        kind: &str,
        name: &str,
        register: &str,
        effect: Effect,
        signed: bool,
        lanes: [&str; 2],
    ) {
        let both = self.chip.both_halves();
        let cast = |value: &str| if signed { format!("(int<32>){value}") } else { value.to_string() };
        let back = |value: &str| if signed { format!("(bit<32>){value}") } else { value.to_string() };
        let words = if both {
            "RegisterAction2<{}, bit<16>, bit<32>, bit<32>>"
        } else {
            "RegisterAction<{}, bit<16>, bit<32>>"
        };
        self.w.open(format!("{}({register}) {name} = {{", words.replace("{}", kind)));
        self.w.open(if both {
            format!("void apply(inout {kind} cells, out bit<32> low, out bit<32> high) {{")
        } else {
            format!("void apply(inout {kind} cells, out bit<32> high) {{")
        });
        for (cell, lane) in [("cells.first", lanes[0]), ("cells.second", lanes[1])] {
            let lane = cast(lane);
            match effect {
                Effect::Store => self.w.line(format!("{cell} = {lane};")),
                Effect::Clear => self.w.line(format!("{cell} = 0;")),
                Effect::Read => {}
                Effect::Aggregate(BinOp::SignedMin) => self.w.line(format!("{cell} = min({cell}, {lane});")),
                Effect::Aggregate(BinOp::SignedMax) => self.w.line(format!("{cell} = max({cell}, {lane});")),
                Effect::Aggregate(BinOp::SaturatingAdd) => {
                    self.w.line(format!("{cell} = {cell} |+| {lane};"))
                }
                Effect::Aggregate(op) => {
                    self.w.line(format!("{cell} = {cell} {} {lane};", symbol(op)));
                }
                Effect::AggregateToEnds => unreachable!("such sums have registers of one lane"),
            }
        }
        if both {
            self.w.line(format!("low = {};", back("cells.first")));
        }
        self.w.line(format!("high = {};", back("cells.second")));
        self.w.close("}");
        self.w.close("};");
    }

    /// A register of one or two cells: declaration, actions and table.
    pub(super) fn cells(&mut self, id: RegisterId, tree: &Tree<Touch>) -> Result<String, Refusal> {
        let register = self.p().register(id).clone();
        let cells = register.cells();
        let name = register.name.clone();
        if register.actions.len() > REGISTER_ACTIONS_MAX {
            return Err(refusal(
                format!("{} register actions of '{name}'", register.actions.len()),
                format!("a register has {REGISTER_ACTIONS_MAX}"),
            ));
        }
        let kind = if cells.len() == 1 {
            format!("bit<{}>", cells[0].bits)
        } else {
            self.w.open(format!("struct {name}_cells_t {{"));
            for cell in &cells {
                self.w.line(format!("bit<{}> {};", cell.bits, cell.name));
            }
            self.w.close("}");
            format!("{name}_cells_t")
        };
        let declared = self.id("register", register.id);
        self.w.line(format!("{declared} Register<{kind}, bit<16>>({}) {name};", register.size));
        let index = format!("meta.{}", self.p().metadata[usize::from(self.l.index.0)].name);
        let mut done: Vec<(u16, Output)> = Vec::new();
        let mut printed: Vec<u16> = Vec::new();
        for leaf in tree.leaves() {
            let Touch::Do(action, output) = leaf else { continue };
            if done.contains(&(*action, *output)) {
                continue;
            }
            done.push((*action, *output));
            if !printed.contains(action) {
                printed.push(*action);
                self.register_action(&register, &kind, &register.actions[usize::from(*action)])?;
            }
            let verb = &register.actions[usize::from(*action)].name;
            self.w.line("@hidden");
            self.w.open(format!("action {}() {{", action_name(&name, &register, *action, *output)));
            let call = format!("{name}_{verb}.execute({index})");
            let line = match output {
                Output::Place(place) => format!("{} = {call};", self.place(*place)),
                _ => format!("{call};"),
            };
            self.w.line(line);
            self.w.close("}");
        }
        let table = format!("x_{name}");
        self.decide(&table, &tree.decision(), |touch| match touch {
            Touch::Do(action, output) => Some(action_name(&name, &register, *action, *output)),
            _ => None,
        });
        Ok(table)
    }

    fn register_action(
        &mut self,
        register: &Register,
        kind: &str,
        action: &RegAction,
    ) -> Result<(), Refusal> {
        let cells = register.cells();
        let bits = cells[0].bits;
        let cell = |index: u8| {
            if cells.len() == 1 {
                "cell".to_string()
            } else {
                format!("cell.{}", cells[usize::from(index)].name)
            }
        };
        self.w.open(format!(
            "RegisterAction<{kind}, bit<16>, bit<{bits}>>({0}) {0}_{1} = {{",
            register.name, action.name
        ));
        self.w.open(format!("void apply(inout {kind} cell, out bit<{bits}> out_word) {{"));
        let old = action.output.iter().any(|case| (0..2).any(|i| case.value.mentions(&Expr::Cell(i))));
        let put = |this: &mut Self| -> Result<(), Refusal> {
            if action.output.iter().all(|case| case.when.is_some()) {
                this.w.line("out_word = 0;");
            }
            this.cases("out_word", &action.output, action, &cell)
        };
        if old {
            put(self)?;
        }
        // Both cells change by the same conditions, which use the old values.
        let mut conditions: Vec<Option<Expr>> = Vec::new();
        for (_, cases) in &action.updates {
            for case in cases {
                if !conditions.contains(&case.when) {
                    conditions.push(case.when.clone());
                }
            }
        }
        for (i, when) in conditions.iter().enumerate() {
            if let Some(when) = when {
                let cond = self.condition(when, action, &cell)?;
                let head = format!("if ({cond}) {{");
                if i == 0 { self.w.open(head) } else { self.w.turn(format!("}} else {head}")) }
            } else if i > 0 {
                self.w.turn("} else {");
            }
            for (index, cases) in &action.updates {
                for case in cases.iter().filter(|case| case.when == *when) {
                    let line = format!("{} = {};", cell(*index), self.cell_value(&case.value, &cell)?);
                    self.w.line(line);
                }
            }
        }
        if conditions.iter().any(Option::is_some) {
            self.w.close("}");
        }
        if !old {
            put(self)?;
        }
        self.w.close("}");
        self.w.close("};");
        Ok(())
    }

    fn cases(
        &mut self,
        target: &str,
        cases: &[Case],
        action: &RegAction,
        cell: &impl Fn(u8) -> String,
    ) -> Result<(), Refusal> {
        for case in cases {
            let line = format!("{target} = {};", self.cell_value(&case.value, cell)?);
            match &case.when {
                None => self.w.line(line),
                Some(when) => {
                    let cond = self.condition(when, action, cell)?;
                    self.w.open(format!("if ({cond}) {{"));
                    self.w.line(line);
                    self.w.close("}");
                }
            }
        }
        Ok(())
    }

    fn condition(
        &self,
        when: &Expr,
        action: &RegAction,
        cell: &impl Fn(u8) -> String,
    ) -> Result<String, Refusal> {
        let Expr::Cond(index) = when else {
            return Err(refusal(
                "a combination of conditions in a register action",
                "one condition per case",
            ));
        };
        match &action.conditions[usize::from(*index)] {
            Expr::Binary(BinOp::Eq, left, right) => {
                Ok(format!("{} == {}", self.cell_value(left, cell)?, self.cell_value(right, cell)?))
            }
            // The unit treats the difference of two unsigned words as signed when it is compared with 0.
            Expr::Binary(BinOp::SignedGt, left, zero) if matches!(**zero, Expr::Const(0, _)) => match &**left
            {
                Expr::Binary(BinOp::Sub, left, right) => Ok(format!(
                    "(int<32>){} - (int<32>){} > 0",
                    self.cell_value(left, cell)?,
                    self.cell_value(right, cell)?
                )),
                other => {
                    Err(refusal(format!("condition {} in a register action", sketch(other)), "differences"))
                }
            },
            other => Err(refusal(
                format!("condition {} in a register action", sketch(other)),
                "equal, or a difference above 0",
            )),
        }
    }

    fn cell_value(&self, expr: &Expr, cell: &impl Fn(u8) -> String) -> Result<String, Refusal> {
        Ok(match expr {
            Expr::Cell(index) | Expr::NewCell(index) => cell(*index),
            Expr::Binary(BinOp::Max, left, right) => {
                format!("max({}, {})", self.cell_value(left, cell)?, self.cell_value(right, cell)?)
            }
            Expr::Binary(op @ (BinOp::Or | BinOp::And | BinOp::Add | BinOp::Sub), left, right) => {
                let symbol = match op {
                    BinOp::Or => "|",
                    BinOp::And => "&",
                    BinOp::Add => "+",
                    _ => "-",
                };
                format!("{} {symbol} {}", self.cell_value(left, cell)?, self.cell_value(right, cell)?)
            }
            other => self.value(other, &[])?,
        })
    }
}

/// Whether a stateful unit folds a lane into its cell by this operator.
fn folds(op: BinOp) -> bool {
    use BinOp::{Add, And, Or, SaturatingAdd, SignedMax, SignedMin, Xor};
    matches!(op, Add | SaturatingAdd | SignedMin | SignedMax | And | Or | Xor)
}

/// Whether a fold with zero leaves the cell as it is.
fn keeps_with_zero(effect: Effect) -> bool {
    use BinOp::{Add, Or, SaturatingAdd, Xor};
    matches!(effect, Effect::AggregateToEnds | Effect::Aggregate(Add | Or | Xor | SaturatingAdd))
}

fn action_name(name: &str, register: &Register, action: u16, output: Output) -> String {
    let suffix = if output == Output::None { "_quiet" } else { "_out" };
    format!("{name}_{}{suffix}", register.actions[usize::from(action)].name)
}
