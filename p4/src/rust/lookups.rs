//! Constant tables as functions from word to word. A table that is one of two forms is computed without branches, so that loops over lanes that
//! call it vectorise.

use super::Generator;
use crate::ir::Lookup;

/// Bits of the keys up to which a table is examined key by key.
const KEY_BITS_EXAMINED: u32 = 8;

/// Changes of slope up to which a table is computed.
const BENDS: usize = 4;

impl Generator<'_> {
    /// One function for each constant table.
    pub(super) fn lookups(&mut self) {
        for lookup in &self.p.lookups {
            self.w.line("#[inline(always)]");
            self.w.open(format!("fn lookup_{}(key: u32) -> u32 {{", lookup.name));
            if is_highest_bit(lookup) {
                self.w.line("// The position of the highest bit: the exponents of both halves as binary32 numbers, which are exact.");
                self.w.line("let upper = ((key >> 16) as i32 as f32).to_bits() >> 23;");
                self.w.line("let lower = ((key & 0xffff) as i32 as f32).to_bits() >> 23;");
                self.w.line("upper.saturating_sub(111).max(lower.saturating_sub(127))");
            } else if let Some((first, bends)) = bends(lookup) {
                self.w.line("// Straight lines, each from a key on.");
                let terms = bends.iter().map(|(from, slope)| {
                    format!(".wrapping_add(key.saturating_sub({from}).wrapping_mul({slope:#x}))")
                });
                self.w.line(format!("{first:#x}_u32{}", terms.collect::<String>()));
            } else {
                for (entry, mask, result) in &lookup.entries {
                    self.w.line(format!("if key & {mask:#x} == {entry:#x} {{ return {result:#x}; }}"));
                }
                self.w.line(format!("{:#x}", lookup.default));
            }
            self.w.close("}");
            self.w.line("");
        }
    }
}

/// Whether a table gives the position of the highest bit that is set in its key, and 0 for 0.
fn is_highest_bit(lookup: &Lookup) -> bool {
    let ones = (1u64 << lookup.key_bits) - 1;
    let mut entries = lookup.entries.clone();
    entries.sort_unstable();
    let wanted = (0..lookup.key_bits).map(|bit| (1 << bit, (u64::MAX << bit) & ones, u64::from(bit)));
    lookup.default == 0 && lookup.key_bits <= 32 && entries.into_iter().eq(wanted)
}

/// A table as a piecewise linear function of its key: the value of key 0, and from which keys on how much is added for each further key. `None` if its keys are
/// wide or it has many pieces.
fn bends(lookup: &Lookup) -> Option<(u32, Vec<(u32, u32)>)> {
    if lookup.key_bits > KEY_BITS_EXAMINED || lookup.value_bits > 32 {
        return None;
    }
    let values: Vec<u32> = (0..1u64 << lookup.key_bits).map(|key| value(lookup, key) as u32).collect();
    let mut slope = 0u32;
    let mut bends = Vec::new();
    for (key, pair) in values.windows(2).enumerate() {
        let found = pair[1].wrapping_sub(pair[0]);
        if found != slope {
            bends.push((key as u32, found.wrapping_sub(slope)));
            slope = found;
        }
    }
    (bends.len() <= BENDS).then(|| (values[0], bends))
}

/// The result for a key.
fn value(lookup: &Lookup, key: u64) -> u64 {
    let found = lookup.entries.iter().find(|(entry, mask, _)| key & mask == *entry);
    found.map_or(lookup.default, |(.., result)| *result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed((first, bends): &(u32, Vec<(u32, u32)>), key: u32) -> u32 {
        bends.iter().fold(*first, |sum, (from, slope)| {
            sum.wrapping_add(key.saturating_sub(*from).wrapping_mul(*slope))
        })
    }

    fn table(key_bits: u32, value: impl Fn(u64) -> u64) -> Lookup {
        let entries = (0..1 << key_bits).map(|key| (key, (1 << key_bits) - 1, value(key)));
        Lookup { name: "t".into(), key_bits, value_bits: 32, entries: entries.collect(), default: 0 }
    }

    #[test]
    fn straight_lines_are_the_table() {
        let falls_and_rises = table(5, |key| if key < 9 { 90 - 10 * key } else { 0xffff_0000 + key });
        let found = bends(&falls_and_rises).unwrap();
        for key in 0..32 {
            assert_eq!(u64::from(computed(&found, key)), value(&falls_and_rises, key.into()), "{key}");
        }
        assert_eq!(bends(&table(5, |key| key * key)), None);
        assert_eq!(bends(&table(9, |_| 0)), None);
        assert_eq!(bends(&table(1, |_| 7)), Some((7, vec![])));
    }

    #[test]
    fn only_positions_of_the_highest_bit_are_recognised() {
        let entries = |bits: u32| {
            (0..bits).rev().map(move |bit| (1u64 << bit, (!0 << bit) & ((1 << bits) - 1), bit.into()))
        };
        let highest = |bits| Lookup {
            name: "t".into(),
            key_bits: bits,
            value_bits: 8,
            entries: entries(bits).collect(),
            default: 0,
        };
        assert!(is_highest_bit(&highest(32)) && is_highest_bit(&highest(5)));
        assert!(!is_highest_bit(&Lookup { default: 1, ..highest(32) }));
        let mut wrong = highest(32);
        wrong.entries[3].2 = 1;
        assert!(!is_highest_bit(&wrong));
        wrong.entries.remove(3);
        assert!(!is_highest_bit(&wrong));
    }
}
