//! Layout: offsets of packet parts, fields that the program uses, packing of table keys.

use std::collections::{BTreeMap, BTreeSet};

use super::RustError;
use crate::check::width;
use crate::ir::*;

/// Properties of a program that the generator needs more than once.
pub(super) struct Layout {
    /// Packet parts with their offset, in packet order.
    order: Vec<(Part, u32)>,
    /// Parts that ingress removes.
    pub(super) removed: Vec<Part>,
    /// Whether the program adds lanes to packets.
    pub(super) grows: bool,
    /// Whether the program uses congestion marks of the transport.
    pub(super) congestion_marks: bool,
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
        let (mut removed, mut grows) = (Vec::new(), false);
        for block in [&p.ingress, &p.egress] {
            visit_all(p, block, &mut |stmt| match stmt {
                Stmt::Remove(part) if !removed.contains(part) => removed.push(*part),
                Stmt::AddLanes => grows = true,
                _ => {}
            });
        }
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
        let mut congestion_marks = false;
        visit_all(p, &p.ingress, &mut |stmt| {
            if let Stmt::If(value, ..) | Stmt::Assign(_, value) = stmt {
                congestion_marks |= value.mentions(&Expr::Intrinsic(Intrinsic::CongestionMark));
            }
        });
        Ok(Self { order, removed, grows, congestion_marks })
    }

    /// Parts and offsets in packet order.
    pub(super) fn offsets(&self) -> Vec<(Part, u32)> {
        self.order.clone()
    }

    /// Sizes of the cell registers, ascending.
    #[expect(clippy::unused_self, reason = "a property of the layout, called like the others")]
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
            Part::Lanes => (u16::MAX, "lanes", p.lane_bytes()),
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

/// Every statement of a block, including the actions of its tables.
fn visit_all(p: &Program, block: &[Stmt], each: &mut impl FnMut(&Stmt)) {
    for stmt in block {
        each(stmt);
        match stmt {
            Stmt::If(_, then, otherwise) => {
                visit_all(p, then, each);
                visit_all(p, otherwise, each);
            }
            Stmt::Apply(table) => {
                for action in &p.table(*table).actions {
                    visit_all(p, &p.action(*action).body, each);
                }
            }
            _ => {}
        }
    }
}

/// Position of a key field in the packed key.
pub(super) struct Spot {
    pub(super) bits: u32,
    pub(super) word: usize,
    pub(super) shift: u32,
}

/// Packing of a table's key into 64-bit words, first fit in declared order.
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
