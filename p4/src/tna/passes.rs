//! Packets with more words than one pass holds, on Tofino 2: they pass the same pipe several times, by recirculation.
//!
//! A packet of *n* parts of *w* words passes *n* times *forward*. In pass *k* the parser extracts the next *w* words, and the program is executed on
//! entry `k * entries + index` of every register: each part has a slot machine of its own, whose packets are those of this pass. The words are
//! consumed: the deparser emits the rest. The last pass decides what becomes of the packet, as the program says. A child that has contributed to the
//! last part has contributed to all before, so a chunk is complete when its last part is.
//!
//! A packet that is sent with lanes has the words of the last part then, and passes *n* - 1 times *backward*: each reads the words of one part more, and
//! emits them in front of those that are there.
//!
//! A reply without lanes that is decided before the last pass has the rest of the words behind it: the next passes remove them, and do nothing else.
//!
//! Between passes the header `pass` is in front of the packet: what the job table has given, the number of the pass, and where the packet is to
//! go. The checks and the table are applied in the first pass alone.

use super::decision::Tree;
use super::lower::{self, Hop, Lowered, PathState, To};
use super::{Chip, Printer, refusal};
use crate::ir::*;
use crate::refusal::Refusal;
use crate::writer::joined;

/// Passes forward at most: their numbers end before [`BACK`].
pub(crate) const FORWARD_MAX: u32 = 8;
/// The number of the last pass forward. The passes before it have smaller numbers.
const LAST: u64 = 7;
/// The bit that the numbers of passes backward have.
const BACK: u64 = 8;
/// What is added to the numbers of passes forward that only remove words.
const SHED: u64 = 16;
/// A reason that no check sets: with one, a packet accesses no register.
const NO_ACCESS: u64 = 0xff;
/// Words of one pass where there are several: those that leave containers for the header `pass` and what the parser copies from it.
const WORDS_MAX: u32 = 64;
/// Fields of the header `pass` beside what the table gives; the port has bits before it that are not used.
const INDEX_BITS: u32 = 16;
const TARGET_BITS: u32 = 16;
const NUMBER_BITS: u32 = 8;
const PORT_BITS: u32 = 16;
/// Entries that an index of 16 bits names.
const ENTRIES_MAX: u32 = 1 << 16;

impl Chip {
    /// Passes forward of a packet of so many words: one where these fit it, else several with equally many; `None` if they do not fit.
    pub(crate) fn passes(self, words: u32, trees: bool) -> Option<u32> {
        if words <= self.lanes_max(trees) {
            return Some(1);
        }
        if self.both_halves() { (2..=FORWARD_MAX).find(|passes| divides(words, *passes)) } else { None }
    }
}

/// Whether several passes can have so many words.
const fn divides(words: u32, passes: u32) -> bool {
    1 < passes && passes <= FORWARD_MAX && words.is_multiple_of(2 * passes) && words / passes <= WORDS_MAX
}

/// What [`Chip::passes`] permits.
pub(crate) fn permitted() -> String {
    format!(
        "2 to {FORWARD_MAX} passes with the same even number of words, up to {WORDS_MAX}: {} words",
        FORWARD_MAX * WORDS_MAX
    )
}

/// The entries of every register for so many passes, of which each has so many; or the construct and the limit.
pub(crate) fn entries(entries: u32, passes: u32) -> Result<u32, (String, String)> {
    if passes == 1 || entries <= ENTRIES_MAX / passes {
        return Ok(entries * passes);
    }
    Err((
        format!("{} slots in each of {passes} passes", entries / 2),
        format!(
            "an index of 16 bits names {ENTRIES_MAX} entries, two for each slot: {} slots (--slots)",
            ENTRIES_MAX / 2 / passes
        ),
    ))
}

/// Widths of the fields of the header in front of a packet between passes; none for one pass, or where the program is not printed.
pub(crate) fn header_fields(program: &Program, chip: Chip, passes: u32) -> Vec<u32> {
    let lowered = of_a_pass(program, chip, passes).and_then(|part| lower::lower(&part, passes));
    let Ok(Lowered { passes: Some(passes), program, .. }) = lowered else { return Vec::new() };
    let carried = passes.carried.iter().map(|meta| program.metadata[usize::from(meta.0)].bits);
    carried.chain([INDEX_BITS, TARGET_BITS, NUMBER_BITS, PORT_BITS]).collect()
}

/// How a packet of several passes is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passes {
    /// Passes forward.
    count: u32,
    /// Entries of every register for one part.
    entries: u32,
    /// The number of the pass.
    number: MetaId,
    /// The port on which the packet arrived.
    port: MetaId,
    /// The group that a packet on its way back is sent to; 0 for the port.
    target: MetaId,
    /// What the job table has given, beside the index.
    carried: Vec<MetaId>,
    /// What becomes of a packet in any pass.
    pub(super) outcomes: Tree<PathState>,
}

/// The program for one part of the words, of which there are so many: registers have entries for all.
pub(super) fn of_a_pass(program: &Program, chip: Chip, passes: u32) -> Result<Program, Refusal> {
    let mut part = program.clone();
    if passes == 1 {
        return Ok(part);
    }
    let words = program.lane_count();
    if !chip.both_halves() || !divides(words, passes) {
        return Err(refusal(
            format!("{words} lanes a packet in {passes} passes on {}", chip.name()),
            format!("on Tofino 2 {}", permitted()),
        ));
    }
    if let Some(lanes) = &mut part.lanes {
        lanes.count = words / passes;
    }
    for register in &mut part.registers {
        register.size =
            entries(register.size, passes).map_err(|(construct, limit)| refusal(construct, limit))?;
    }
    Ok(part)
}

fn is(meta: MetaId, value: u64) -> Expr {
    Expr::Meta(meta).eq(Expr::Const(value, 8))
}

fn has_bit(number: MetaId, bit: u64) -> Expr {
    (Expr::Meta(number) & Expr::Const(bit, 8)).eq(Expr::Const(bit, 8))
}

fn is_back(number: MetaId) -> Expr {
    has_bit(number, BACK)
}

/// The difference between a field and what a register has: both, and the variable.
fn compared(compare: &[(LValue, Expr)]) -> Option<(LValue, MetaId, MetaId)> {
    compare.iter().find_map(|(place, value)| match (place, value) {
        (LValue::Meta(difference), Expr::Binary(BinOp::Sub, field, stored)) => match (&**field, &**stored) {
            (Expr::Field(header, field), Expr::Meta(stored)) => {
                Some((LValue::Field(*header, *field), *stored, *difference))
            }
            _ => None,
        },
        _ => None,
    })
}

impl Lowered {
    /// Makes a lowered program one of several passes. `admitted` and `refused` are the paths of packets that the job table admits, and of others.
    pub(super) fn in_passes(
        &mut self,
        count: u32,
        admitted: &Tree<PathState>,
        refused: Tree<PathState>,
        passed: &Expr,
    ) -> Result<(), Refusal> {
        let unknown = || refusal("several passes", "a difference between a field and what a register holds");
        if self.ends.is_some() || self.transit.is_some() || !self.signs.is_empty() {
            return Err(refusal(
                "packets of several passes with owners, forwarding or saturating sums",
                "one pass; use fewer words (--lanes)",
            ));
        }
        let (field, _, difference) = compared(&self.compare).ok_or_else(unknown)?;
        let mut add = |name: &str, bits| {
            self.program.metadata.push(Meta { name: name.into(), bits });
            MetaId(self.program.metadata.len() as u16 - 1)
        };
        let (number, port, target) = (add("x_pass", 8), add("x_port", 9), add("x_target", 16));
        let has_words = Expr::Meta(self.bare).eq(Expr::Const(0, 1));
        let admitted_onward = admitted.grown(&|path| onward(path, field, &has_words))?;
        let refused = refused.grown(&|path| sent_or_shed(path, &has_words))?;
        let forward = Tree::branch(passed, admitted_onward, refused)?;
        let is_lanes = |register: &Register| matches!(register.kind, RegisterKind::Lanes(_));
        let registers = self.program.registers.iter().enumerate();
        let lanes = registers.filter(|(_, r)| is_lanes(r)).map(|(at, _)| RegisterId(at as u16));
        let lanes: Vec<_> = lanes.collect();
        let last = admitted.grown(&|path| turned(path, &lanes, &has_words))?;
        let forward = Tree::branch(&is(number, LAST), last, forward)?;
        let same = Expr::Meta(difference).eq(Expr::Const(0, 32));
        let back = Tree::branch(&same, arriving(number, target, count)?, Tree::Leaf(going(To::Drop)))?;
        let outcomes = Tree::branch(&is_back(number), back, forward)?;
        let outcomes = Tree::branch(&has_bit(number, SHED), shedding(number)?, outcomes)?;
        let entries = self.program.registers.first().map_or(0, |register| register.size / count);
        let carried = self.given.iter().filter_map(|place| match place {
            LValue::Meta(meta) if *meta != self.index && !self.refusing.contains(place) => Some(*meta),
            _ => None,
        });
        let carried = carried.collect();
        self.passes = Some(Passes { count, entries, number, port, target, carried, outcomes });
        Ok(())
    }
}

fn going(to: To) -> PathState {
    PathState { to, ..PathState::new() }
}

/// What is left of a path in a pass that is not the last: the packet goes on without the words, with the field that registers are compared with, which
/// a path may have set to what one holds. A path that removes the lanes is that of a reply which the slot decides.
fn onward(path: &PathState, field: LValue, has_words: &Expr) -> Result<Tree<PathState>, Refusal> {
    if path.removed.contains(&Part::Lanes) {
        return sent_or_shed(path, has_words);
    }
    let held = |(place, value): &&(LValue, Expr)| *place == field && matches!(value, Expr::Meta(_));
    let values = path.values.iter().filter(held).cloned().collect();
    let to = To::Next(Hop::Forward);
    Ok(Tree::Leaf(PathState { values, removed: vec![Part::Lanes], ..going(to) }))
}

/// A path of a reply without lanes, before the last pass: the words of the parts that follow are behind it, if the packet has any.
fn sent_or_shed(path: &PathState, has_words: &Expr) -> Result<Tree<PathState>, Refusal> {
    if !path.removed.contains(&Part::Lanes) || !matches!(path.to, To::Port(_)) {
        return Ok(Tree::Leaf(path.clone()));
    }
    let shed = PathState { to: To::Next(Hop::Shed), ..path.clone() };
    Tree::branch(has_words, Tree::Leaf(shed), Tree::Leaf(path.clone()))
}

/// A reply with words behind it: the pass of the last part removes the last.
fn shedding(number: MetaId) -> Result<Tree<PathState>, Refusal> {
    let removing = |to| Tree::Leaf(PathState { removed: vec![Part::Lanes], ..going(to) });
    let sender = To::Port(Expr::Intrinsic(Intrinsic::IngressPort));
    Tree::branch(&is(number, SHED + LAST), removing(sender), removing(To::Next(Hop::ShedAgain)))
}

/// A path in the last pass: a packet with words that is sent with lanes of the slot goes back.
fn turned(path: &PathState, lanes: &[RegisterId], has_words: &Expr) -> Result<Tree<PathState>, Refusal> {
    let with_lanes = path.touches.iter().any(|(register, ..)| lanes.contains(register));
    let is_sent = matches!(path.to, To::Port(_) | To::Group(_));
    if !is_sent || !with_lanes || path.removed.contains(&Part::Lanes) {
        return Ok(Tree::Leaf(path.clone()));
    }
    let to = To::Next(Hop::Turn(Box::new(path.to.clone())));
    Tree::branch(has_words, Tree::Leaf(PathState { to, ..path.clone() }), Tree::Leaf(path.clone()))
}

/// A packet on its way back: the pass of the first part is the last.
fn arriving(number: MetaId, target: MetaId, count: u32) -> Result<Tree<PathState>, Refusal> {
    let to_port = Expr::Meta(target).eq(Expr::Const(0, 16));
    let port = Tree::Leaf(going(To::Port(Expr::Intrinsic(Intrinsic::IngressPort))));
    let arrived = Tree::branch(&to_port, port, Tree::Leaf(going(To::Group(Expr::Meta(target)))))?;
    let first_part = LAST + u64::from(count) - 1;
    Tree::branch(&is(number, first_part), arrived, Tree::Leaf(going(To::Next(Hop::Back))))
}

impl Printer {
    fn meta_name(&self, meta: MetaId) -> String {
        self.p().metadata[usize::from(meta.0)].name.clone()
    }

    /// The condition that a packet is on its way back, where there are several passes.
    pub(super) fn on_its_way_back(&self) -> Option<Expr> {
        self.l.passes.as_ref().map(|passes| is_back(passes.number))
    }

    /// A key on the number of the pass, and an entry for packets on their way back, with so many cells before.
    pub(super) fn back_cells(&self, before: usize) -> Option<(String, String)> {
        let passes = self.l.passes.as_ref()?;
        let cells = std::iter::repeat_n("_".to_string(), before).chain([format!("{BACK:#x} &&& {BACK:#x}")]);
        Some((format!("meta.{}", self.meta_name(passes.number)), joined(cells, ", ")))
    }

    /// The condition of the pass that decides.
    pub(super) fn in_the_last_pass(&self) -> Option<Expr> {
        self.l.passes.as_ref().map(|passes| is(passes.number, LAST))
    }

    /// The variable that a register's output goes to, of which the difference from a field is computed.
    pub(super) fn compared_output(&self) -> Option<MetaId> {
        compared(&self.l.compare).map(|(_, stored, _)| stored)
    }

    /// The port on which a packet has arrived.
    pub(super) fn arrival_port(&self) -> String {
        match &self.l.passes {
            Some(passes) => format!("meta.{}", self.meta_name(passes.port)),
            None => "ig_intr_md.ingress_port".into(),
        }
    }

    /// The header in front of a packet between passes.
    pub(super) fn pass_header(&mut self) {
        let Some(passes) = self.l.passes.clone() else { return };
        self.w.line("// In front of a packet between its passes.");
        self.w.open("header pass_t {");
        self.w.line(format!("bit<{INDEX_BITS}> index;"));
        for meta in passes.carried {
            let Meta { name, bits } = self.p().metadata[usize::from(meta.0)].clone();
            self.w.line(format!("bit<{bits}> {name};"));
        }
        self.w.line(format!("bit<{TARGET_BITS}> target;"));
        self.w.line(format!("bit<{NUMBER_BITS}> number;"));
        self.w.line(format!("bit<{}> unused;", PORT_BITS - 9));
        self.w.line("bit<9> port;");
        self.w.close("}");
        self.w.line("");
    }

    /// The parser's states before the first header: of a packet that arrives, and of one that returns.
    pub(super) fn pass_states(&mut self, port: u32) {
        let Some(passes) = self.l.passes.clone() else { return };
        let [number, arrived, target] =
            [passes.number, passes.port, passes.target].map(|meta| self.meta_name(meta));
        self.w.open("transition select(ig_intr_md.ingress_port) {");
        self.w.line(format!("{port}: pass;"));
        self.w.line("default: arrival;");
        self.w.close("}");
        self.w.close("}");
        self.w.open("state arrival {");
        self.w.line(format!("meta.{number} = {};", LAST + 1 - u64::from(passes.count)));
        self.w.line(format!("meta.{arrived} = ig_intr_md.ingress_port;"));
        self.w.line("transition packet;");
        self.w.close("}");
        self.w.open("state pass {");
        self.w.line("pkt.extract(hdr.pass);");
        let index = self.meta_name(self.l.index);
        self.w.line(format!("meta.{index} = hdr.pass.index;"));
        for meta in &passes.carried {
            let name = self.meta_name(*meta);
            self.w.line(format!("meta.{name} = hdr.pass.{name};"));
        }
        self.w.line(format!("meta.{target} = hdr.pass.target;"));
        self.w.line(format!("meta.{number} = hdr.pass.number;"));
        self.w.line(format!("meta.{arrived} = hdr.pass.port;"));
        self.w.open("transition select(hdr.pass.number) {");
        self.w.line(format!("{SHED:#x} &&& {SHED:#x}: shed;"));
        self.w.line(format!("{BACK:#x} &&& {BACK:#x}: back;"));
        self.w.line("default: packet;");
        self.w.close("}");
        self.w.close("}");
        let check = self.meta_name(self.l.check);
        for (state, with_lanes) in [("shed", true), ("back", false)] {
            self.w.open(format!("state {state} {{"));
            if with_lanes {
                self.w.line(format!("meta.{check} = {NO_ACCESS};"));
            }
            for part in self.p().deparser.clone() {
                if with_lanes || part != Part::Lanes {
                    self.extract(part);
                }
            }
            self.w.line("transition accept;");
            self.w.close("}");
        }
    }

    /// The statements that send a packet to its next pass.
    pub(super) fn next_pass(&mut self, hop: &Hop, port: u32) -> Result<(), Refusal> {
        let Some(passes) = self.l.passes.clone() else { return Ok(()) };
        let (index, number) = (self.meta_name(self.l.index), self.meta_name(passes.number));
        if !matches!(hop, Hop::Back | Hop::ShedAgain) {
            self.w.line("hdr.pass.setValid();");
            self.w.line("hdr.pass.unused = 0;");
            self.w.line(format!("hdr.pass.port = {};", self.arrival_port()));
        }
        match hop {
            Hop::Forward => {
                for meta in &passes.carried {
                    let name = self.meta_name(*meta);
                    self.w.line(format!("hdr.pass.{name} = meta.{name};"));
                }
            }
            Hop::Turn(to) => {
                let target = match &**to {
                    To::Port(Expr::Intrinsic(Intrinsic::IngressPort)) => "0".to_string(),
                    To::Group(group) => self.value(group, &[])?,
                    _ => return Err(refusal("a destination other than the sender or a group", "those two")),
                };
                self.w.line(format!("hdr.pass.target = {target};"));
            }
            Hop::Back | Hop::Shed | Hop::ShedAgain => {}
        }
        let of_part = match hop {
            Hop::Forward => Some('+'),
            Hop::Turn(_) | Hop::Back => Some('-'),
            Hop::Shed | Hop::ShedAgain => None,
        };
        if let Some(sign) = of_part {
            self.w.line(format!("hdr.pass.index = meta.{index} {sign} {};", passes.entries));
        }
        let next = if *hop == Hop::Shed { SHED + 1 } else { 1 };
        self.w.line(format!("hdr.pass.number = meta.{number} + {next};"));
        self.w.line(format!("ig_tm_md.ucast_egress_port = {port};"));
        self.w.line("ig_tm_md.bypass_egress = 1;");
        Ok(())
    }
}
