//! Where everything lies: offsets of packet parts, which fields the program uses, how table keys are packed.

use std::collections::{BTreeMap, BTreeSet};

use super::RustError;
use crate::check::width;
use crate::ir::*;

/// Facts about a program that the generator needs more than once.
pub(super) struct Layout {
    /// Packet parts with their offset, in packet order.
    order: Vec<(Part, u32)>,
    /// Fields that ingress, egress or the tables read or assign.
    pub(super) used: BTreeSet<(HeaderId, u16)>,
    /// Fields that ingress assigns.
    pub(super) written: BTreeSet<(HeaderId, u16)>,
    /// Fields that egress assigns.
    pub(super) written_egress: BTreeSet<(HeaderId, u16)>,
    /// Parts that ingress removes.
    pub(super) removed: Vec<Part>,
}

impl Layout {
    pub(super) fn new(p: &Program) -> Result<Self, RustError> {
        let mut offsets = BTreeMap::new();
        walk(p, 0, 0, &mut offsets)?;
        let mut order: Vec<_> = offsets
            .into_iter()
            .map(|(key, offset)| {
                (if key == u16::MAX { Part::Lanes } else { Part::Header(HeaderId(key)) }, offset)
            })
            .collect();
        order.sort_by_key(|(_, offset)| *offset);
        let parts: Vec<_> = order.iter().map(|(part, _)| *part).collect();
        if parts != p.deparser {
            return Err(RustError::Order);
        }
        let mut uses = Uses { p, used: BTreeSet::new(), written: BTreeSet::new(), removed: vec![] };
        uses.block(&p.egress);
        let written_egress = std::mem::take(&mut uses.written);
        uses.block(&p.ingress);
        if let Some(header) = p.ipv4_checksum {
            // Every field of the header takes part in its checksum; the checksum itself is rewritten with the rest.
            uses.used.insert((header, checksum_field(p, header)));
        }
        let Uses { used, written, removed, .. } = uses;
        for part in &removed {
            if parts.last() != Some(part) {
                let name = match part {
                    Part::Header(header) => p.header(*header).name.clone(),
                    Part::Lanes => "lanes".into(),
                };
                return Err(RustError::Remove(name));
            }
        }
        for table in &p.tables {
            if TableLayout::new(p, table).words > 4 {
                return Err(RustError::Key(table.name.clone()));
            }
        }
        Ok(Self { order, used, written, written_egress, removed })
    }

    /// Parts and offsets in packet order.
    pub(super) fn offsets(&self) -> Vec<(Part, u32)> {
        self.order.clone()
    }

    /// Sizes of the cell registers, ascending.
    #[expect(clippy::unused_self, reason = "a fact of the layout, asked like the others")]
    pub(super) fn cell_sizes(&self, p: &Program) -> Vec<u32> {
        let cells = p.registers.iter().filter(|register| matches!(register.kind, RegisterKind::Cells(_)));
        cells.map(|register| register.size).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Index of the checksum field of the header that the program names for it.
pub(super) fn checksum_field(p: &Program, header: HeaderId) -> u16 {
    p.header(header).fields.iter().position(|field| field.name == "checksum").unwrap_or(0) as u16
}

fn walk(p: &Program, state: usize, mut at: u32, offsets: &mut BTreeMap<u16, u32>) -> Result<(), RustError> {
    let state = &p.parser.states[state];
    for part in &state.extract {
        let (key, name, len) = match part {
            Part::Header(header) => {
                (header.0, p.header(*header).name.as_str(), p.header(*header).len_bytes())
            }
            Part::Lanes => (u16::MAX, "lanes", p.lane_count() * 4),
        };
        if *offsets.entry(key).or_insert(at) != at {
            return Err(RustError::Offset(name.into()));
        }
        at += len;
    }
    if let Next::Select { cases, otherwise, .. } = &state.next {
        for target in cases.iter().map(|(_, target)| target).chain(otherwise) {
            walk(p, usize::from(target.0), at, offsets)?;
        }
    }
    Ok(())
}

struct Uses<'a> {
    p: &'a Program,
    used: BTreeSet<(HeaderId, u16)>,
    written: BTreeSet<(HeaderId, u16)>,
    removed: Vec<Part>,
}

impl Uses<'_> {
    fn place(&mut self, place: Place) {
        if let Place::Field(header, field) = place {
            self.used.insert((header, field));
            self.written.insert((header, field));
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Field(header, field) => {
                self.used.insert((*header, *field));
            }
            Expr::Complement(inner) | Expr::Not(inner) | Expr::Cast(_, inner) => self.expr(inner),
            Expr::Binary(_, left, right) | Expr::Concat(left, right) => {
                self.expr(left);
                self.expr(right);
            }
            _ => {}
        }
    }

    fn block(&mut self, block: &[Stmt]) {
        for stmt in block {
            match stmt {
                Stmt::Assign(place, value) => {
                    self.place(*place);
                    self.expr(value);
                }
                Stmt::If(cond, then, otherwise) => {
                    self.expr(cond);
                    self.block(then);
                    self.block(otherwise);
                }
                Stmt::Apply(table) => {
                    let table = self.p.table(*table);
                    table.keys.iter().for_each(|key| self.expr(&key.value));
                    for action in &table.actions {
                        self.block(&self.p.action(*action).body);
                    }
                }
                Stmt::Exec { register, action, index, output } => {
                    self.expr(index);
                    if let Output::Place(place) = output {
                        self.place(*place);
                    }
                    let action = &self.p.register(*register).actions[usize::from(*action)];
                    action.conditions.iter().for_each(|condition| self.expr(condition));
                    let updates = action.updates.iter().flat_map(|(_, cases)| cases);
                    updates.chain(&action.output).for_each(|case| self.expr(&case.value));
                }
                Stmt::Count(_, value)
                | Stmt::Unicast(value)
                | Stmt::Multicast(value)
                | Stmt::Priority(value) => {
                    self.expr(value);
                }
                Stmt::Remove(part) => {
                    if !self.removed.contains(part) {
                        self.removed.push(*part);
                    }
                }
                Stmt::Drop => {}
            }
        }
    }
}

/// Where a key field lies in the packed key.
pub(super) struct Spot {
    pub(super) bits: u32,
    pub(super) word: usize,
    pub(super) shift: u32,
}

/// How a table's key is packed into 64-bit words, first fit in declared order.
pub(super) struct TableLayout {
    pub(super) words: usize,
    pub(super) keys: Vec<Spot>,
}

impl TableLayout {
    pub(super) fn new(p: &Program, table: &Table) -> Self {
        let mut free: Vec<u32> = vec![64];
        let keys = table
            .keys
            .iter()
            .map(|key| {
                let bits = width(p, &key.value, &[], &[]);
                let word = free.iter().position(|room| *room >= bits).unwrap_or_else(|| {
                    free.push(64);
                    free.len() - 1
                });
                free[word] -= bits;
                Spot { bits, word, shift: free[word] }
            })
            .collect();
        Self { words: free.len(), keys }
    }
}
