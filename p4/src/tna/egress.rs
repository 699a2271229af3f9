//! Egress: addresses copies, marks congestion, trims, and removes lanes from copies for receivers that do not own them.
//!
//! Egress parses the outer headers alone where these are all that the program uses there. Otherwise it parses whole packets, up to
//! [`Chip::parsed_max`] bytes.

use super::decision::Tree;
use super::lower::PathState;
use super::signs::{self, Differences};
use super::{Chip, Printer, refusal};
use crate::ir::*;
use crate::refusal::Refusal;
use crate::v1model::{applied, visit};
use crate::writer::joined;

/// Bytes of a buffer cell, in which Tofino counts queue depths.
const CELL_BYTES: u32 = 80;

impl Chip {
    /// Bytes of a whole packet that egress can take. The parser of Tofino 1 sees 160, of which 27 are the chip's metadata. Tofino 2 has no such limit, but
    /// needs containers for bytes behind the 384th, of which 28 are its metadata, and those of lanes are all in ingress.
    pub(crate) const fn parsed_max(self) -> u32 {
        match self {
            Self::Tofino1 => 160 - 27,
            Self::Tofino2 => 384 - 28,
        }
    }
}

/// Whether a condition, a value or a statement of a block names the part.
fn uses(block: &[Stmt], part: Part) -> bool {
    let mut found = false;
    let named = |expr: &Expr| {
        let mut fields = std::collections::BTreeSet::new();
        expr.fields(&mut fields);
        expr.mentions(&Expr::Valid(part)) || fields.iter().any(|(header, _)| Part::Header(*header) == part)
    };
    visit(block, &mut |stmt| match stmt {
        Stmt::Assign(place, value) => found |= named(&place.value()) || named(value),
        Stmt::If(cond, ..) => found |= named(cond),
        Stmt::Remove(removed) => found |= *removed == part,
        _ => {}
    });
    found
}

impl Printer {
    /// The headers in front of the last, which is Netfold's.
    fn outer(&self) -> (Vec<HeaderId>, Option<HeaderId>) {
        let mut outer = Vec::new();
        for part in &self.p().deparser {
            match part {
                Part::Header(header) if !outer.contains(header) => outer.push(*header),
                _ => {}
            }
        }
        let last = outer.pop();
        (outer, last)
    }

    /// The parts that egress parses, and whether these are whole packets.
    fn parsed(&self) -> Result<(Vec<Part>, bool), Refusal> {
        let (outer, last) = self.outer();
        let last = last.map(Part::Header);
        let deep = last.iter().chain([&Part::Lanes]).any(|part| uses(&self.p().egress, *part));
        if !deep && self.l.transit.is_none() {
            return Ok((outer.into_iter().map(Part::Header).collect(), false));
        }
        if self.l.passes.is_some() {
            return Err(refusal(
                "packets of several passes whose lanes are removed in egress (owners, trimming, transit)",
                "one pass; use fewer words (--lanes)",
            ));
        }
        let parts = self.p().deparser.clone();
        let bytes = self.headers_bytes() + self.lane_bytes;
        let most = self.chip.parsed_max();
        if bytes > most {
            let lanes = (most - self.headers_bytes()) / (LANE_BITS / 8);
            return Err(refusal(
                format!(
                    "packets of {bytes} bytes whose lanes are removed in egress (owners, trimming, transit)"
                ),
                format!(
                    "egress of {} takes {most} bytes of a packet: {} words",
                    self.chip.name(),
                    lanes & !1
                ),
            ));
        }
        Ok((parts, true))
    }

    fn headers_bytes(&self) -> u32 {
        let headers = self.p().headers.iter().map(Header::len_bytes);
        headers.sum()
    }

    pub(super) fn egress(&mut self) -> Result<(), Refusal> {
        let (parts, whole) = self.parsed()?;
        let names: Vec<String> = parts.iter().flat_map(|part| self.part_names(*part)).collect();
        self.w.open("struct egress_headers_t {");
        names.iter().for_each(|name| self.w.line(format!("{name}_t {name};")));
        self.w.close("}");
        self.w.line("");
        let head = std::mem::take(&mut self.w);
        let (variables, lines) = self.egress_body()?;
        let body = std::mem::replace(&mut self.w, head).finish();
        self.egress_metadata(&variables);
        self.egress_parser(&names, whole);
        self.w.line("control EgressImpl(");
        self.w.line("    inout egress_headers_t hdr, inout egress_metadata_t meta,");
        self.w.line("    in egress_intrinsic_metadata_t eg_intr_md,");
        self.w.line("    in egress_intrinsic_metadata_from_parser_t eg_prsr_md,");
        self.w.line("    inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,");
        self.w.open("    inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {");
        body.lines().for_each(|line| self.w.line(line));
        self.w.open("apply {");
        lines.into_iter().for_each(|line| self.w.line(line));
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
        self.egress_deparser(&names);
        Ok(())
    }

    fn egress_metadata(&mut self, variables: &[MetaId]) {
        if variables.is_empty() {
            self.w.line("struct egress_metadata_t { }");
        } else {
            self.w.open("struct egress_metadata_t {");
            for meta in variables {
                let Meta { name, bits } = self.p().metadata[usize::from(meta.0)].clone();
                self.w.line(format!("bit<{bits}> {name};"));
            }
            self.w.close("}");
        }
        self.w.line("");
    }

    /// The parser: that of ingress for whole packets.
    fn egress_parser(&mut self, names: &[String], whole: bool) {
        self.w.line("parser EgressParserImpl(");
        self.w.line("    packet_in pkt, out egress_headers_t hdr, out egress_metadata_t meta,");
        self.w.open("    out egress_intrinsic_metadata_t eg_intr_md) {");
        self.w.open("state start {");
        self.w.line("pkt.extract(eg_intr_md);");
        if whole {
            self.w.line("transition packet;");
            self.w.close("}");
            self.egress_states();
        } else {
            names.iter().for_each(|name| self.w.line(format!("pkt.extract(hdr.{name});")));
            self.w.line("transition accept;");
            self.w.close("}");
        }
        self.w.close("}");
        self.w.line("");
    }

    fn egress_states(&mut self) {
        for (i, state) in self.p().parser.states.clone().into_iter().enumerate() {
            self.w.open(format!("state {} {{", if i == 0 { "packet" } else { &state.name }));
            for part in &state.extract {
                for name in self.part_names(*part) {
                    self.w.line(format!("pkt.extract(hdr.{name});"));
                }
            }
            match &state.next {
                Next::Accept => self.w.line("transition accept;"),
                Next::Select { on, cases, otherwise } => self.select(on, cases, *otherwise),
            }
            self.w.close("}");
        }
    }

    /// Declarations; the variables that they use, and the order of application.
    fn egress_body(&mut self) -> Result<(Vec<MetaId>, Vec<String>), Refusal> {
        let shape = || refusal("egress statements", "tables by instance, marks, and lanes that are removed");
        let (mut lines, mut variables) = (Vec::new(), Vec::new());
        let mut instance = None;
        for (number, stmt) in self.p().egress.clone().into_iter().enumerate() {
            match &stmt {
                Stmt::Assign(LValue::Meta(meta), Expr::Intrinsic(Intrinsic::Instance)) => {
                    instance = Some(*meta);
                }
                Stmt::If(cond, then, otherwise) if otherwise.is_empty() => match &then[..] {
                    // The table's default changes nothing, so a lookup of instance 0 is harmless.
                    [Stmt::Apply(table)] => {
                        let table = self.p().table(*table).clone();
                        let known =
                            instance.is_some_and(|meta| *cond == Expr::Meta(meta).ne(Expr::Const(0, 16)));
                        if !known || !self.p().action(table.default.0).body.is_empty() {
                            return Err(shape());
                        }
                        lines.push(self.instance_table(&table)?);
                    }
                    _ if applied(std::slice::from_ref(&stmt)).is_empty() => {
                        lines.push(self.mark(number, cond, then)?);
                    }
                    _ => lines.extend(self.by_receiver(number, cond, then, &mut variables)?),
                },
                _ => return Err(shape()),
            }
        }
        Ok((variables, lines))
    }

    /// A table by the copy's replica id, and its application.
    fn instance_table(&mut self, table: &Table) -> Result<String, Refusal> {
        self.actions(table)?;
        self.match_table(table, |this, _| this.key(&Expr::Intrinsic(Intrinsic::Instance)));
        Ok(format!("{}.apply();", table.name))
    }

    /// Statements that depend on what a table knows about the copy's receiver. The table is applied to all copies.
    fn by_receiver(
        &mut self,
        number: usize,
        cond: &Expr,
        then: &[Stmt],
        variables: &mut Vec<MetaId>,
    ) -> Result<Vec<String>, Refusal> {
        let shape =
            || refusal("a table under conditions in egress", "one by instance, of a result's receivers");
        let [
            Stmt::Assign(LValue::Meta(instance), Expr::Intrinsic(Intrinsic::Instance)),
            Stmt::If(copy, steps, none),
        ] = then
        else {
            return Err(shape());
        };
        let [Stmt::Apply(table), Stmt::If(last, body, otherwise)] = &steps[..] else { return Err(shape()) };
        if !none.is_empty() || !otherwise.is_empty() {
            return Err(shape());
        }
        let table = self.p().table(*table).clone();
        let by_instance = [Expr::Meta(*instance)];
        if !table.keys.iter().map(|key| &key.value).eq(&by_instance) {
            return Err(shape());
        }
        for action in &table.actions {
            for stmt in &self.p().action(*action).body {
                let Stmt::Assign(LValue::Meta(meta), _) = stmt else { return Err(shape()) };
                if !variables.contains(meta) {
                    variables.push(*meta);
                }
            }
        }
        let mut path = PathState::new();
        path.set(LValue::Meta(*instance), Expr::Intrinsic(Intrinsic::Instance));
        let all = cond.clone().both(path.now(copy)).both(path.now(last));
        let mut differences = Differences::new();
        let mut known = self.l.signs.clone();
        let all = signs::by_signs(&all, &mut self.l.program, &mut known);
        differences.extend(known.into_iter().filter(|(place, _)| all.mentions(&place.value())));
        for (place, _) in &differences {
            let LValue::Meta(meta) = place else { return Err(shape()) };
            variables.push(*meta);
        }
        let mut lines = vec![self.instance_table(&table)?];
        self.w.line("@hidden");
        self.w.open(format!("action x_compare_{number}() {{"));
        self.assign_all(&differences)?;
        self.w.close("}");
        lines.push(format!("x_compare_{number}();"));
        lines.push(self.mark(number, &all, body)?);
        Ok(lines)
    }

    /// Statements under a condition, and the application of their table. Tofino counts the depth of a queue in cells.
    fn mark(&mut self, number: usize, cond: &Expr, then: &[Stmt]) -> Result<String, Refusal> {
        let packet = (self.headers_bytes() + self.lane_bytes).div_ceil(CELL_BYTES);
        let mut cond = in_cells(cond, packet);
        let mut path = PathState::new();
        for stmt in then {
            match stmt {
                Stmt::Assign(place, value) => {
                    let value = path.now(value);
                    path.set(*place, value);
                }
                Stmt::Remove(part) => path.removed.push(*part),
                _ => {
                    return Err(refusal(
                        "a branch in egress that does more than assign",
                        "marks and trimming",
                    ));
                }
            }
        }
        let within = [Stmt::If(cond.clone(), then.to_vec(), vec![])];
        if let (_, Some(last)) = self.outer()
            && uses(&within, Part::Header(last))
        {
            cond = Expr::Valid(Part::Header(last)).both(cond);
        }
        self.w.line("@hidden");
        self.w.open(format!("action x_marked_{number}() {{"));
        self.assign_all(&path.values)?;
        for part in &path.removed {
            for name in self.part_names(*part) {
                self.w.line(format!("hdr.{name}.setInvalid();"));
            }
        }
        self.w.close("}");
        let tree = Tree::branch(&cond, Tree::Leaf(true), Tree::Leaf(false))?;
        self.decide(&format!("x_mark_{number}"), &tree.decision(), |marked| {
            marked.then(|| format!("x_marked_{number}"))
        });
        Ok(format!("x_mark_{number}.apply();"))
    }

    fn egress_deparser(&mut self, names: &[String]) {
        self.w.line("control EgressDeparserImpl(");
        self.w.line("    packet_out pkt, inout egress_headers_t hdr, in egress_metadata_t meta,");
        self.w.open("    in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {");
        self.w.line("Checksum() ipv4_sum;");
        self.w.open("apply {");
        if let Some(header) = self.p().ipv4_checksum {
            let name = self.p().header(header).name.clone();
            let fields = self.fields.of(header).iter().filter(|container| container.name != "checksum");
            let fields = joined(fields.map(|container| format!("hdr.{name}.{}", container.name)), ", ");
            self.w.line(format!("hdr.{name}.checksum = ipv4_sum.update({{ {fields} }});"));
        }
        names.iter().for_each(|name| self.w.line(format!("pkt.emit(hdr.{name});")));
        self.w.close("}");
        self.w.close("}");
        self.w.line("");
    }
}

/// The condition with queue depths in cells: more than n packets is more than the cells that they fill.
fn in_cells(cond: &Expr, cells: u32) -> Expr {
    match cond {
        Expr::Binary(BinOp::Gt, depth, limit) if **depth == Expr::Intrinsic(Intrinsic::QueueDepth) => {
            match **limit {
                Expr::Const(limit, bits) => {
                    let limit = ((limit + 1) * u64::from(cells) - 1).min(super::ones(bits) - 1);
                    Expr::Intrinsic(Intrinsic::QueueDepth).gt(Expr::Const(limit, bits))
                }
                _ => cond.clone(),
            }
        }
        Expr::Binary(op, left, right) => {
            Expr::Binary(*op, Box::new(in_cells(left, cells)), Box::new(in_cells(right, cells)))
        }
        other => other.clone(),
    }
}
