//! Variables that are not read any more: writing them is left out, and intermediate results share the metadata of others.
//!
//! Every jump goes forward, so one pass from the end meets each instruction behind all that it leads to, and a variable is in use at most from its
//! first mention to its last.

use std::collections::{BTreeMap, BTreeSet};

use super::code::{Code, Label, Line};
use super::facts::Surroundings;

/// Prefix of intermediate results, before they have a place in metadata; a width and a number follow.
pub(super) const VIRTUAL: &str = "m.x_v";

/// Widths of intermediate results.
pub(super) const WIDTHS: [u32; 2] = [32, 64];

fn is_variable(word: &str) -> bool {
    word.starts_with("m.")
}

/// Adds what an instruction reads of metadata to `live`, after it has removed what it overwrites.
fn before(mnemonic: &str, operands: &[String], around: &Surroundings, live: &mut BTreeSet<String>) {
    let writes = match mnemonic {
        "mov" | "regrd" | "rx" => operands.first(),
        _ => None,
    };
    if let Some(place) = writes {
        live.remove(place);
    }
    if let ("table", [table]) = (mnemonic, operands) {
        if let Some(effect) = around.tables.get(table) {
            live.retain(|place| !effect.writes.contains(place));
            live.extend(effect.reads.iter().cloned());
        }
        return;
    }
    let reads = operands.iter().skip(usize::from(writes.is_some()));
    live.extend(reads.filter(|word| is_variable(word)).cloned());
}

impl Code {
    /// Removes instructions that write variables which nothing reads afterwards; whether there were any.
    pub(super) fn remove_dead(&mut self, around: &Surroundings) -> bool {
        let count = self.lines.len();
        let mut at: BTreeMap<Label, BTreeSet<String>> = BTreeMap::new();
        let mut live = BTreeSet::new();
        let mut kept = Vec::with_capacity(count);
        for line in std::mem::take(&mut self.lines).into_iter().rev() {
            match &line {
                Line::Nothing => {}
                Line::Label(label) => {
                    at.insert(*label, live.clone());
                }
                Line::Do { mnemonic, target, operands } => {
                    let is_plain = matches!(
                        &**mnemonic,
                        "mov" | "add" | "sub" | "and" | "or" | "xor" | "shl" | "shr" | "regrd"
                    );
                    let place = operands.first().filter(|place| is_plain && is_variable(place));
                    if place.is_some_and(|place| !live.contains(place)) {
                        continue;
                    }
                    if line.ends() {
                        live.clear();
                    }
                    if let Some(target) = target {
                        live.extend(at.get(target).into_iter().flatten().cloned());
                    }
                    before(mnemonic, operands, around, &mut live);
                }
            }
            kept.push(line);
        }
        kept.reverse();
        self.lines = kept;
        self.lines.len() < count
    }

    /// Gives intermediate results places in metadata whose names begin so, the same to several that are not in use together. Returns how many places of each
    /// width there are.
    pub(super) fn allocate(&mut self, prefix: &str) -> [u32; 2] {
        let mut spans: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for (at, line) in self.lines.iter().enumerate() {
            let Line::Do { operands, .. } = line else { continue };
            for word in operands.iter().filter(|word| word.starts_with(VIRTUAL)) {
                spans.entry(word.clone()).or_insert((at, at)).1 = at;
            }
        }
        let mut order: Vec<(&String, (usize, usize))> =
            spans.iter().map(|(name, span)| (name, *span)).collect();
        order.sort_by_key(|(_, (from, _))| *from);
        let mut places: BTreeMap<String, String> = BTreeMap::new();
        // When each place is in use last.
        let mut until: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
        for (name, (from, to)) in order {
            let class = usize::from(!name.starts_with(&format!("{VIRTUAL}{}_", WIDTHS[0])));
            let free = until[class].iter().position(|last| *last <= from);
            let place = free.unwrap_or_else(|| {
                until[class].push(0);
                until[class].len() - 1
            });
            until[class][place] = to;
            places.insert(name.clone(), format!("{prefix}{}_{place}", WIDTHS[class]));
        }
        for line in &mut self.lines {
            let Line::Do { operands, .. } = line else { continue };
            for word in operands {
                if let Some(place) = places.get(word) {
                    word.clone_from(place);
                }
            }
        }
        until.map(|places| places.len() as u32)
    }
}
