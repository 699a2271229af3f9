//! The ingress control from lowered stages.

use std::collections::BTreeSet;

use super::decision::Tree;
use super::lower::{OutputComparison, PathState, To};
use super::{INSTRUCTION_ROWS, Printer, RECIRCULATION_PORT, refusal};
use crate::ir::*;
use crate::refusal::{Refusal, sketch};
use crate::writer::joined;

/// Registers by the stage that they are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registers {
    /// Those of stage 1.
    Front,
    /// Those whose outputs others depend on.
    Compared,
    /// The rest.
    Others,
}

/// Prints the code of a path.
type PrintBody = fn(&mut Printer, &PathState) -> Result<(), Refusal>;

/// The code of paths: every different piece once, and the number of each path's.
struct ActionBodies {
    distinct: Vec<String>,
    by_path: Vec<(PathState, usize)>,
}

/// Match of packets that clear lanes: key, value and mask.
type Kind = (Expr, u64, u64);

impl Printer {
    pub(super) fn ingress(&mut self) -> Result<(), Refusal> {
        // Struct types of registers are declared outside the control.
        let head = std::mem::take(&mut self.w);
        let applies = self.ingress_body()?;
        let body = std::mem::replace(&mut self.w, head).finish();
        let (types, rest) = split_structs(&body);
        types.into_iter().for_each(|line| self.w.raw(&line));
        self.w.line("");
        self.w.line("control IngressImpl(");
        self.w.line(
            "    inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md,",
        );
        self.w.line("    in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,");
        self.w.line("    inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,");
        self.w.open("    inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {");
        for line in rest {
            self.w.line(line);
        }
        self.w.open("apply {");
        for line in applies {
            match (line.starts_with('}'), line.ends_with('{')) {
                (true, true) => self.w.turn(line),
                (true, false) => self.w.close(line),
                (false, true) => self.w.open(line),
                (false, false) => self.w.line(line),
            }
        }
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
        Ok(())
    }

    /// Declarations, and the order of application.
    fn ingress_body(&mut self) -> Result<Vec<String>, Refusal> {
        for counter in self.p().counters.clone() {
            let id = self.id("counter", counter.id);
            self.w.line(format!(
                "{id} Counter<bit<32>, bit<8>>({}, CounterType_t.PACKETS) {};",
                counter.size, counter.name
            ));
        }
        self.w.line("");
        self.check_table();
        self.job_table()?;
        self.zero_table()?;
        let mut lines = self.admission()?;
        lines.extend(self.register_tables(Registers::Front)?);
        self.w.line("@hidden");
        self.w.open("action x_compare() {");
        let compare = self.l.compare.clone();
        self.assign_all(&compare)?;
        self.w.close("}");
        self.w.line("");
        lines.push("x_compare();".into());
        let comparisons = self.l.comparisons.clone();
        if !comparisons.is_empty() {
            lines.extend(self.register_tables(Registers::Compared)?);
            self.w.line("@hidden");
            self.w.open("action x_compare_outputs() {");
            let differences: Vec<_> = comparisons.iter().map(OutputComparison::assignment).collect();
            self.assign_all(&differences)?;
            self.w.close("}");
            self.w.line("");
            lines.push("x_compare_outputs();".into());
        }
        lines.extend(self.register_tables(Registers::Others)?);
        lines.extend(self.outcome_table()?);
        lines.extend(self.end_tables()?);
        lines.extend(self.queue_table());
        self.w.line("@hidden");
        self.w.open("action x_no_lanes() {");
        for half in self.halves() {
            self.w.line(format!("hdr.{half}.setInvalid();"));
        }
        self.w.close("}");
        let bare = &self.p().metadata[usize::from(self.l.bare.0)].name;
        let stripped = if self.strips_marked() { " || meta.x_stripped == 1" } else { "" };
        lines.extend([format!("if (meta.{bare} == 1{stripped}) {{"), "x_no_lanes();".into(), "}".into()]);
        Ok(lines)
    }

    /// The application of what comes before the registers. A packet that returns has been admitted.
    fn admission(&mut self) -> Result<Vec<String>, Refusal> {
        let admit = format!("{}.apply();", self.p().table(self.l.table).name);
        let mut first = self.transit_table()?;
        first.extend(["x_checks.apply();".to_string(), admit, "x_zero.apply();".into()]);
        let mut lines = Vec::new();
        if !self.chip.both_halves() {
            self.resume();
            let harvest = &self.p().metadata[usize::from(self.l.harvest.0)].name;
            lines.push(format!("if (meta.{harvest} == 1) {{"));
            lines.extend(
                ["if (hdr.harvest.group == 0) {", "x_resume_port();", "} else {", "x_resume_group();", "}"]
                    .map(String::from),
            );
            lines.push("} else {".into());
            lines.append(&mut first);
            lines.push("}".into());
        } else if self.l.passes.is_some() {
            let zero = first.pop();
            lines.push("if (!hdr.pass.isValid()) {".into());
            lines.append(&mut first);
            lines.push("}".into());
            lines.extend(zero);
        } else {
            lines.append(&mut first);
        }
        Ok(lines)
    }

    /// Whether lanes are removed behind the tables that compare them with their ends.
    pub(super) fn strips_marked(&self) -> bool {
        self.l.paths.leaves().into_iter().any(strips_marked)
    }

    /// The table of other packets' destinations, and its application.
    fn transit_table(&mut self) -> Result<Vec<String>, Refusal> {
        let Some(transit) = self.l.transit.clone() else { return Ok(vec![]) };
        let Expr::Binary(BinOp::Both, valid, sound) = &transit.cond else {
            return Err(refusal("the condition of forwarding", "a header that is there, with its checksum"));
        };
        let table = self.p().table(transit.table).clone();
        let assigns =
            |stmt: &Stmt| matches!(stmt, Stmt::Assign(LValue::Meta(meta), _) if *meta == transit.way);
        let known = table.actions.iter().all(|action| self.p().action(*action).body.iter().all(assigns));
        let sound = **sound == !Expr::Intrinsic(Intrinsic::ChecksumError);
        if !known || !sound || !matches!(**valid, Expr::Valid(_)) {
            return Err(refusal("the table of forwarding", "a destination by a header that is there"));
        }
        self.actions(&table)?;
        let keys = table.keys.clone();
        self.match_table(&table, |this, i| this.key(&keys[i].value));
        let cond = format!("if ({} && meta.x_bad_checksum == 0) {{", self.key(valid));
        Ok(vec![cond, format!("{}.apply();", table.name), "}".into()])
    }

    /// The table that selects the egress queue, by the headers of the packet as it is sent.
    fn queue_table(&mut self) -> Vec<String> {
        let Some(tree) = self.l.queues.clone() else { return vec![] };
        let mut queues: Vec<u64> = tree.leaves().iter().filter_map(|path| path.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        for queue in queues {
            self.w.line("@hidden");
            self.w.open(format!("action x_queue_{queue}() {{"));
            self.w.line(format!("ig_tm_md.qid = {queue};"));
            self.w.close("}");
        }
        self.decide("x_queue", &tree.decision(), |path| path.queue.map(|queue| format!("x_queue_{queue}")));
        vec!["x_queue.apply();".into()]
    }

    fn check_table(&mut self) {
        let check = self.p().metadata[usize::from(self.l.check.0)].name.clone();
        let decision = self.l.checks.decision();
        let reasons: BTreeSet<u64> = self
            .l
            .checks
            .leaves()
            .into_iter()
            .filter_map(|leaf| if let Expr::Const(value, _) = leaf { Some(*value) } else { None })
            .collect();
        for reason in reasons.iter().filter(|reason| **reason != 0) {
            self.w.line("@hidden");
            self.w.open(format!("action x_check_{reason}() {{"));
            self.w.line(format!("meta.{check} = {reason};"));
            self.w.close("}");
        }
        self.decide("x_checks", &decision, |leaf| match leaf {
            Expr::Const(value, _) if *value != 0 => Some(format!("x_check_{value}")),
            _ => None,
        });
    }

    /// Zeros for absent lanes, and for lanes that are cleared although the packet has some.
    fn zero_table(&mut self) -> Result<(), Refusal> {
        let Some(kinds) = self.clearing()? else { return Ok(()) };
        self.print_zero_table(&kinds);
        Ok(())
    }

    /// The values, known before the slot is accessed, of packets that clear their lanes; `None` without lanes.
    fn clearing(&self) -> Result<Option<Vec<Kind>>, Refusal> {
        let lanes = self.p().registers.iter().position(|r| matches!(r.kind, RegisterKind::Lanes(_)));
        let Some(register) = lanes.map(|i| RegisterId(i as u16)) else { return Ok(None) };
        let clears = |path: &PathState| {
            path.touches.iter().any(|(known, action, _)| {
                let updates = &self.p().register(register).actions[usize::from(*action)].updates;
                *known == register
                    && matches!(&updates[..], [(0, cases)] if matches!(cases[..], [Case { value: Expr::Const(0, _), .. }]))
            })
        };
        // Entries that clear: each matches packets without lanes, or a kind of packet.
        let bare = Expr::Meta(self.l.bare);
        let mut kinds: Vec<Kind> = Vec::new();
        for (pattern, path) in self.l.paths.decision().entries {
            if !clears(&path) || pattern.iter().any(|test| test.key == bare && test.value == 1) {
                continue;
            }
            // A value known before the slot is accessed.
            let early = |key: &Expr| match key {
                Expr::Field(..) => true,
                Expr::Meta(meta) => self.l.given.contains(&LValue::Meta(*meta)),
                _ => false,
            };
            let Some(test) = pattern.iter().find(|test| test.value != 0 && early(&test.key)) else {
                return Err(refusal(
                    "lanes cleared depending on the output of a register",
                    "the header and the first table",
                ));
            };
            let kind = (test.key.clone(), test.value, test.mask);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        Ok(Some(kinds))
    }

    fn print_zero_table(&mut self, kinds: &[Kind]) {
        let bare = Expr::Meta(self.l.bare);
        let keys: Vec<Expr> = kinds.iter().map(|(key, ..)| key.clone()).collect();
        // Forwarded packets keep their lanes, whatever the other table says about them.
        let way = self.l.transit.as_ref().map(|transit| Expr::Meta(transit.way));
        for (name, valid) in [("x_zero_absent", true), ("x_zero_present", false)] {
            self.w.line("@hidden");
            self.w.open(format!("action {name}() {{"));
            if valid {
                for half in self.halves() {
                    self.w.line(format!("hdr.{half}.setValid();"));
                }
            }
            for lane in 0..self.p().lane_count() {
                let lane = self.lane(lane);
                self.w.line(format!("{lane} = 0;"));
            }
            self.w.close("}");
        }
        self.w.line("@hidden");
        self.w.open("table x_zero {");
        self.w.open("key = {");
        let bare_key = self.key(&bare);
        self.w.line(format!("{bare_key}: ternary;"));
        for key in &keys {
            let key = self.key(key);
            self.w.line(format!("{key}: ternary;"));
        }
        if let Some(way) = &way {
            let way = self.key(way);
            self.w.line(format!("{way}: ternary;"));
        }
        // The same columns for a packet on its way back, whose lanes are read.
        let back = self.back_cells(1 + keys.len() + way.iter().count());
        if let Some((key, _)) = &back {
            self.w.line(format!("{key}: ternary;"));
        }
        let any = back.iter().map(|_| "_");
        self.w.close("}");
        self.w.open("actions = {");
        for action in ["x_zero_absent;", "x_zero_present;", "NoAction;"] {
            self.w.line(action);
        }
        self.w.close("}");
        self.w.line("const default_action = NoAction();");
        self.w.line(format!("size = {};", 1 + kinds.len() + back.iter().count()));
        self.w.open("const entries = {");
        if let Some((_, cells)) = &back {
            self.w.line(format!("({cells}): x_zero_absent();"));
        }
        let others = keys.iter().map(|_| "_").chain(way.iter().map(|_| "_")).chain(any.clone());
        self.w.line(format!("({}): x_zero_absent();", joined(std::iter::once("1").chain(others), ", ")));
        for (i, (_, value, _)) in kinds.iter().enumerate() {
            let cells = (0..kinds.len()).map(|j| if i == j { format!("{value:#x}") } else { "_".into() });
            self.w.line(format!(
                "({}): x_zero_present();",
                joined(
                    std::iter::once("0".to_string())
                        .chain(cells)
                        .chain(way.iter().map(|_| "0x0".into()))
                        .chain(any.clone().map(String::from)),
                    ", "
                )
            ));
        }
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
    }

    fn job_table(&mut self) -> Result<(), Refusal> {
        let table = self.p().table(self.l.table).clone();
        self.actions(&table)?;
        let keys = table.keys.clone();
        self.match_table(&table, |this, i| {
            let key = match &keys[i].value {
                Expr::Meta(_) => Expr::Intrinsic(Intrinsic::IngressPort),
                other => other.clone(),
            };
            this.key(&key)
        });
        Ok(())
    }

    /// Actions of a table. The offset of the index is added in them.
    pub(super) fn actions(&mut self, table: &Table) -> Result<(), Refusal> {
        for action in &table.actions {
            let action = self.p().action(*action).clone();
            let index = LValue::Meta(self.l.index);
            let is_index = |i: usize| {
                action.body.iter().any(|stmt| matches!(stmt, Stmt::Assign(place, Expr::Param(param)) if *place == index && usize::from(*param) == i))
            };
            let params = action.params.iter().enumerate().map(|(i, field)| {
                let bits = if is_index(i) { 16 } else { field.bits };
                format!("@id({}) bit<{bits}> {}", i + 1, field.name)
            });
            let params = joined(params, ", ");
            let id = self.id("action", action.id);
            self.w.line(id);
            self.w.open(format!("action {}({params}) {{", action.name));
            for stmt in &action.body {
                let Stmt::Assign(place, value) = stmt else { continue };
                let text = self.value(value, &action.params)?;
                let line = if *place == index {
                    let offset = match self.l.offset.clone() {
                        Expr::Cast(_, inner) => self.value(&inner, &[])?,
                        other => self.value(&other, &[])?,
                    };
                    format!("{} = {text} + {offset};", self.place(*place))
                } else {
                    format!("{} = {text};", self.place(*place))
                };
                self.w.line(line);
            }
            self.w.close("}");
            self.w.line("");
        }
        Ok(())
    }

    pub(super) fn match_table(&mut self, table: &Table, key: impl Fn(&Self, usize) -> String) {
        let id = self.id("table", table.id);
        self.w.line(id);
        self.w.open(format!("table {} {{", table.name));
        self.w.open("key = {");
        for (i, k) in table.keys.iter().enumerate() {
            let kind = match k.kind {
                MatchKind::Exact => "exact",
                MatchKind::Ternary => "ternary",
            };
            let value = key(self, i);
            self.w.line(format!("{value}: {kind} @id({}) @name(\"{}\");", k.id, k.name));
        }
        self.w.close("}");
        self.w.open("actions = {");
        for action in &table.actions {
            let name = self.p().action(*action).name.clone();
            self.w.line(format!("{name};"));
        }
        self.w.close("}");
        let (default, args) = &table.default;
        let args = joined(args.iter().map(|arg| format!("{arg:#x}")), ", ");
        let default = self.p().action(*default).name.clone();
        self.w.line(format!("const default_action = {default}({args});"));
        self.w.line(format!("size = {};", table.size));
        self.w.close("}");
        self.w.line("");
    }

    fn resume(&mut self) {
        let index = self.p().metadata[usize::from(self.l.index.0)].name.clone();
        for (name, send) in [
            ("x_resume_port", "ig_tm_md.ucast_egress_port = hdr.harvest.port;"),
            ("x_resume_group", "ig_tm_md.mcast_grp_a = hdr.harvest.group;"),
        ] {
            self.w.line("@hidden");
            self.w.open(format!("action {name}() {{"));
            self.w.line(format!("meta.{index} = hdr.harvest.index;"));
            self.w.line(send);
            self.w.line("hdr.harvest.setInvalid();");
            self.w.close("}");
        }
        self.w.line("");
    }

    /// Tables of registers.
    fn register_tables(&mut self, which: Registers) -> Result<Vec<String>, Refusal> {
        let tree = if which == Registers::Front { self.l.front.clone() } else { self.l.paths.clone() };
        let mut lines = Vec::new();
        for i in 0..self.p().registers.len() as u16 {
            let id = RegisterId(i);
            let touched =
                tree.leaves().iter().any(|path| path.touches.iter().any(|(known, ..)| *known == id));
            let comparison = self.l.comparisons.iter().any(|comparison| comparison.register == id);
            if !touched || (which != Registers::Front && comparison != (which == Registers::Compared)) {
                continue;
            }
            let touches = self.touches(&tree, id)?;
            match self.p().register(id).kind {
                RegisterKind::Lanes(_) => lines.extend(self.lanes(id, &touches)?),
                RegisterKind::Cells(_) => {
                    let table = self.cells(id, &touches)?;
                    lines.push(format!("{table}.apply();"));
                }
            }
        }
        Ok(lines)
    }

    /// What becomes of a packet: one table, or two where one has too many actions, of which the first decides where the packet goes. That one assigns
    /// nothing that the other is keyed on.
    fn outcome_table(&mut self) -> Result<Vec<String>, Refusal> {
        let paths = self.l.passes.as_ref().map_or_else(|| self.l.paths.clone(), |p| p.outcomes.clone());
        let whole: PrintBody = |this, path| {
            this.outcome(path)?;
            this.destination(path)
        };
        let mut lines = Vec::new();
        if self.bodies(&paths, whole)?.distinct.len() <= INSTRUCTION_ROWS {
            lines.push(self.outcome_actions("x_outcome", &paths, whole)?);
        } else {
            lines.push(self.outcome_actions("x_destination", &paths, Self::destination)?);
            lines.push(self.outcome_actions("x_outcome", &paths, Self::outcome)?);
        }
        for counter in self.p().counters.clone() {
            lines.push(format!("if (meta.x_counts_{} == 1) {{", counter.name));
            lines.push(format!("{0}.count(meta.x_{0}_index);", counter.name));
            lines.push("}".into());
        }
        if self.chip.both_halves() {
            return Ok(lines);
        }
        let harvest = &self.p().metadata[usize::from(self.l.harvest.0)].name;
        let mut guarded = vec![format!("if (meta.{harvest} == 0) {{")];
        guarded.append(&mut lines);
        guarded.push("}".into());
        Ok(guarded)
    }

    /// The code of every path.
    fn bodies(&mut self, paths: &Tree<PathState>, body: PrintBody) -> Result<ActionBodies, Refusal> {
        let head = std::mem::take(&mut self.w);
        let mut found = ActionBodies { distinct: Vec::new(), by_path: Vec::new() };
        for path in paths.leaves() {
            body(self, path)?;
            let text = std::mem::take(&mut self.w).finish();
            let number = found.distinct.iter().position(|other| *other == text).unwrap_or_else(|| {
                found.distinct.push(text);
                found.distinct.len() - 1
            });
            found.by_path.push((path.clone(), number));
        }
        self.w = head;
        Ok(found)
    }

    /// One action for each different piece of code, and the table that chooses. Returns its application.
    fn outcome_actions(
        &mut self,
        table: &str,
        paths: &Tree<PathState>,
        body: PrintBody,
    ) -> Result<String, Refusal> {
        let ActionBodies { distinct, by_path } = self.bodies(paths, body)?;
        for (i, body) in distinct.iter().enumerate() {
            self.w.line("@hidden");
            self.w.open(format!("action {table}_{i}() {{"));
            body.lines().for_each(|line| self.w.line(line));
            self.w.close("}");
        }
        let number = |path: &PathState| {
            by_path.iter().find(|(other, _)| other == path).map_or(0, |(_, number)| *number)
        };
        let tree: Tree<usize> = paths.map(&number, &|_, _| None);
        self.decide(table, &tree.decision(), |number| Some(format!("{table}_{number}")));
        Ok(format!("{table}.apply();"))
    }

    /// What an outcome does to the packet, without its destination.
    fn outcome(&mut self, path: &PathState) -> Result<(), Refusal> {
        let fields: Vec<_> =
            path.values.iter().filter(|(place, _)| matches!(place, LValue::Field(..))).cloned().collect();
        self.assign_all(&fields)?;
        if strips_marked(path) {
            self.w.line("meta.x_stripped = 1;");
        }
        for part in path.removed.iter().filter(|_| !strips_marked(path)) {
            for name in self.part_names(*part) {
                self.w.line(format!("hdr.{name}.setInvalid();"));
            }
        }
        for (counter, index) in &path.counts {
            let name = self.p().counters[usize::from(counter.0)].name.clone();
            let index = match index {
                Expr::Cast(_, inner) => self.value(inner, &[])?,
                Expr::Const(value, _) => format!("8w{value:#x}"),
                other => {
                    return Err(refusal(format!("counter index {}", sketch(other)), "a constant or a byte"));
                }
            };
            self.w.line(format!("meta.x_counts_{name} = 1;"));
            self.w.line(format!("meta.x_{name}_index = {index};"));
        }
        if let (true, Some((marks, _))) = (path.marked, self.l.marks) {
            let line = format!("meta.{} = 1;", self.p().metadata[usize::from(marks.0)].name);
            self.w.line(line);
        }
        Ok(())
    }

    /// Where a packet goes.
    fn destination(&mut self, path: &PathState) -> Result<(), Refusal> {
        let harvest = !self.chip.both_halves() && path.puts_lanes_out();
        let port = |this: &Self, expr: &Expr| match expr {
            Expr::Intrinsic(Intrinsic::IngressPort) => Ok(this.arrival_port()),
            other => this.value(&other.clone().cast(9), &[]),
        };
        if self.l.passes.is_some() && matches!(path.to, To::Port(_) | To::Group(_)) {
            self.w.line("hdr.pass.setInvalid();");
        }
        match &path.to {
            To::Next(hop) => self.next_pass(hop, RECIRCULATION_PORT)?,
            To::Nowhere => {}
            To::Drop => self.w.line("ig_dprsr_md.drop_ctl = 1;"),
            To::Port(expr) => {
                let text = port(self, expr)?;
                if harvest {
                    self.recirculate("0", &text)
                } else {
                    self.w.line(format!("ig_tm_md.ucast_egress_port = {text};"))
                }
            }
            To::Group(expr) => {
                let text = self.value(expr, &[])?;
                if harvest {
                    self.recirculate(&text, "0")
                } else {
                    self.w.line(format!("ig_tm_md.mcast_grp_a = {text};"))
                }
            }
        }
        Ok(())
    }

    fn recirculate(&mut self, group: &str, port: &str) {
        let index = self.p().metadata[usize::from(self.l.index.0)].name.clone();
        self.w.line("hdr.harvest.setValid();");
        self.w.line(format!("hdr.harvest.index = meta.{index};"));
        self.w.line(format!("hdr.harvest.group = {group};"));
        self.w.line("hdr.harvest.unused = 0;");
        self.w.line(format!("hdr.harvest.port = {port};"));
        self.w.line(format!("ig_tm_md.ucast_egress_port = {RECIRCULATION_PORT};"));
        self.w.line("ig_tm_md.bypass_egress = 1;");
    }

    pub(super) fn ingress_deparser(&mut self) {
        self.w.line("control IngressDeparserImpl(");
        self.w.line("    packet_out pkt, inout headers_t hdr, in metadata_t meta,");
        self.w.open("    in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {");
        self.w.open("apply {");
        if !self.chip.both_halves() {
            self.w.line("pkt.emit(hdr.harvest);");
        } else if self.l.passes.is_some() {
            self.w.line("pkt.emit(hdr.pass);");
        }
        for part in self.p().deparser.clone() {
            for name in self.part_names(part) {
                self.w.line(format!("pkt.emit(hdr.{name});"));
            }
        }
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
    }
}

/// Whether a path removes lanes that have been compared with their ends.
fn strips_marked(path: &PathState) -> bool {
    path.marked && path.removed.contains(&Part::Lanes)
}

/// Struct declarations, which P4 requires at the top level, and the rest.
fn split_structs(body: &str) -> (Vec<String>, Vec<String>) {
    let (mut types, mut rest) = (Vec::new(), Vec::new());
    let mut inside = false;
    for line in body.lines() {
        inside |= line.starts_with("struct ");
        if inside {
            types.push(line.to_string());
            inside = line != "}";
        } else {
            rest.push(line.to_string());
        }
    }
    (types, rest)
}
