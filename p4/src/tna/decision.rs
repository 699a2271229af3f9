//! Nested branches as ordered ternary entries of one match stage.
//!
//! A condition becomes a list of patterns over key values, any of which makes it hold. A branch lists the entries of its
//! true side under those patterns, and then those of its false side under none: the first match wins.

use crate::ir::*;
use crate::refusal::{Refusal, sketch};

/// Bits of one key that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    /// The key.
    pub(super) key: Expr,
    pub(super) value: u64,
    pub(super) mask: u64,
}

/// Tests that must all hold.
pub(super) type Pattern = Vec<Test>;

/// A decision with leaves of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree<L> {
    Leaf(L),
    /// The first tree if any pattern holds, else the second.
    If(Vec<Pattern>, Box<Tree<L>>, Box<Tree<L>>),
}

/// An ordered table: entries, and the leaf when none matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision<L> {
    pub(super) keys: Vec<Expr>,
    pub(super) entries: Vec<(Pattern, L)>,
    pub(super) default: L,
}

/// Maximum patterns of one condition.
const PATTERNS_MAX: usize = 40;

impl<L: Clone + PartialEq> Tree<L> {
    /// The branch on a condition; a constant one is resolved.
    pub(super) fn branch(cond: &Expr, then: Self, otherwise: Self) -> Result<Self, Refusal> {
        let (yes, no) = (patterns(cond, true)?, patterns(cond, false)?);
        let costs = |patterns: &[Pattern]| patterns.len();
        if no.is_empty() || then == otherwise {
            return Ok(then);
        }
        if yes.is_empty() {
            return Ok(otherwise);
        }
        let swap = costs(&no) < costs(&yes);
        let (patterns, first, second) = if swap { (no, otherwise, then) } else { (yes, then, otherwise) };
        if patterns.len() > PATTERNS_MAX {
            return Err(super::refusal(
                format!("condition {}", sketch(cond)),
                format!("{} ternary patterns; {PATTERNS_MAX} are allowed", patterns.len()),
            ));
        }
        Ok(Self::If(patterns, Box::new(first), Box::new(second)))
    }

    /// The same decisions with other leaves; two equal sides need no branch.
    pub(super) fn map<M: Clone + PartialEq>(
        &self,
        leaf: &impl Fn(&L) -> M,
        join: &impl Fn(&M, &M) -> Option<M>,
    ) -> Tree<M> {
        match self {
            Self::Leaf(value) => Tree::Leaf(leaf(value)),
            Self::If(patterns, then, otherwise) => {
                let (then, otherwise) = (then.map(leaf, join), otherwise.map(leaf, join));
                if then == otherwise {
                    return then;
                }
                if let (Tree::Leaf(a), Tree::Leaf(b)) = (&then, &otherwise)
                    && let Some(one) = join(a, b)
                {
                    return Tree::Leaf(one);
                }
                Tree::If(patterns.clone(), Box::new(then), Box::new(otherwise))
            }
        }
    }

    /// The same decisions, with further ones in place of the leaves.
    pub(super) fn grown<M: Clone + PartialEq>(
        &self,
        leaf: &impl Fn(&L) -> Result<Tree<M>, Refusal>,
    ) -> Result<Tree<M>, Refusal> {
        match self {
            Self::Leaf(value) => leaf(value),
            Self::If(patterns, then, otherwise) => {
                let (then, otherwise) = (then.grown(leaf)?, otherwise.grown(leaf)?);
                if then == otherwise {
                    return Ok(then);
                }
                Ok(Tree::If(patterns.clone(), Box::new(then), Box::new(otherwise)))
            }
        }
    }

    /// The same decisions on other keys.
    pub(super) fn rekeyed(&self, key: &impl Fn(&Test) -> Test) -> Self {
        match self {
            Self::Leaf(leaf) => Self::Leaf(leaf.clone()),
            Self::If(patterns, then, otherwise) => {
                let patterns = patterns.iter().map(|pattern| pattern.iter().map(key).collect()).collect();
                Self::If(patterns, Box::new(then.rekeyed(key)), Box::new(otherwise.rekeyed(key)))
            }
        }
    }

    /// Every leaf.
    pub(super) fn leaves(&self) -> Vec<&L> {
        match self {
            Self::Leaf(leaf) => vec![leaf],
            Self::If(_, then, otherwise) => then.leaves().into_iter().chain(otherwise.leaves()).collect(),
        }
    }

    /// The ordered table.
    pub(super) fn decision(&self) -> Decision<L> {
        let mut entries = Vec::new();
        self.list(&[], &mut entries);
        let (_, default) = entries.pop().unwrap_or_else(|| (vec![], self.leaves()[0].clone()));
        while entries.last().is_some_and(|(_, leaf)| *leaf == default) {
            entries.pop();
        }
        let mut keys: Vec<Expr> = Vec::new();
        for test in entries.iter().flat_map(|(pattern, _)| pattern) {
            if !keys.contains(&test.key) {
                keys.push(test.key.clone());
            }
        }
        Decision { keys, entries, default }
    }

    fn list(&self, under: &[Test], entries: &mut Vec<(Pattern, L)>) {
        match self {
            Self::Leaf(leaf) => entries.push((under.to_vec(), leaf.clone())),
            Self::If(patterns, then, otherwise) => {
                for pattern in patterns {
                    if let Some(both) = joined(under, pattern) {
                        then.list(&both, entries);
                    }
                }
                // The known value of a single bit on the other side is written, so that entries can be read alone.
                let other = match &patterns[..] {
                    [pattern] => match &pattern[..] {
                        [test] if test.mask.is_power_of_two() => {
                            joined(under, &[Test { value: test.value ^ test.mask, ..test.clone() }])
                        }
                        _ => Some(under.to_vec()),
                    },
                    _ => Some(under.to_vec()),
                };
                if let Some(other) = other {
                    otherwise.list(&other, entries);
                }
            }
        }
    }
}

/// Both patterns at once, unless they contradict.
fn joined(a: &[Test], b: &[Test]) -> Option<Pattern> {
    let mut all = a.to_vec();
    for test in b {
        match all.iter_mut().find(|known| known.key == test.key) {
            Some(known) => {
                if (known.value ^ test.value) & known.mask & test.mask != 0 {
                    return None;
                }
                known.value |= test.value;
                known.mask |= test.mask;
            }
            None => all.push(test.clone()),
        }
    }
    Some(all)
}

/// Patterns any of which gives the condition the value `want`; one without tests always does, an empty list never.
fn patterns(cond: &Expr, want: bool) -> Result<Vec<Pattern>, Refusal> {
    let constant = |holds: bool| if holds == want { vec![vec![]] } else { vec![] };
    let unknown = || {
        Err(super::refusal(
            format!("condition {}", sketch(cond)),
            "a match stage compares one packet value with constants",
        ))
    };
    Ok(match cond {
        Expr::Const(value, 0) => constant(*value != 0),
        Expr::Not(inner) => patterns(inner, !want)?,
        Expr::Valid(_) | Expr::Intrinsic(Intrinsic::ChecksumError) => {
            vec![vec![Test { key: cond.clone(), value: u64::from(want), mask: 1 }]]
        }
        Expr::Binary(BinOp::Both, left, right) | Expr::Binary(BinOp::Either, left, right) => {
            let (l, r) = (patterns(left, want)?, patterns(right, want)?);
            if matches!(cond, Expr::Binary(BinOp::Both, ..)) == want {
                l.iter().flat_map(|a| r.iter().filter_map(|b| joined(a, b))).collect()
            } else {
                l.into_iter().chain(r).collect()
            }
        }
        Expr::Binary(op, left, right) => match (op, &**left, &**right) {
            (BinOp::Eq | BinOp::Ne, key, Expr::Const(value, bits)) => {
                let (key, mask) = masked(key, *bits);
                if !is_key(key) {
                    return unknown();
                }
                compared(key, *value, mask, (*op == BinOp::Eq) == want)
            }
            // Negative, and zero or more.
            (BinOp::SignedGt, Expr::Const(0, bits), key) if is_key(key) => {
                let sign = 1u64 << (bits - 1);
                vec![vec![Test { key: key.clone(), value: if want { sign } else { 0 }, mask: sign }]]
            }
            // Above zero, and zero or negative.
            (BinOp::SignedGt, key, Expr::Const(0, bits)) if is_key(key) => {
                let sign = 1u64 << (bits - 1);
                let test = |value, mask| Test { key: key.clone(), value, mask };
                if want {
                    let bit = |i: u32| vec![test(1 << i, sign | 1 << i)];
                    (0..bits - 1).map(bit).collect()
                } else {
                    vec![vec![test(sign, sign)], vec![test(0, ones(*bits))]]
                }
            }
            (BinOp::Gt, key, Expr::Const(least, bits)) if is_key(key) => greater(key, *least, *bits, want),
            _ => return unknown(),
        },
        _ => return unknown(),
    })
}

/// Unsigned order as prefixes: above, a bit that the limit lacks is set and all higher ones equal the limit's.
fn greater(key: &Expr, limit: u64, bits: u32, want: bool) -> Vec<Pattern> {
    let differing = (0..bits).filter(|i| (limit >> i & 1 == 0) == want);
    let prefix = |i: u32| {
        let mask = ones(bits) & !((1 << i) - 1);
        vec![Test { key: key.clone(), value: (limit & mask) ^ (1 << i), mask }]
    };
    let mut found: Vec<Pattern> = differing.map(prefix).collect();
    if !want {
        found.push(vec![Test { key: key.clone(), value: limit, mask: ones(bits) }]);
    }
    found
}

fn compared(key: &Expr, value: u64, mask: u64, equal: bool) -> Vec<Pattern> {
    let test = |value, mask| vec![Test { key: key.clone(), value, mask }];
    if equal {
        return vec![test(value, mask)];
    }
    (0..64).filter(|i| mask >> i & 1 == 1).map(|i| test(!value & (1 << i), 1 << i)).collect()
}

/// The value under a constant mask.
fn masked(expr: &Expr, bits: u32) -> (&Expr, u64) {
    match expr {
        Expr::Binary(BinOp::And, inner, mask) => match **mask {
            Expr::Const(mask, _) => (inner, mask),
            _ => (expr, ones(bits)),
        },
        _ => (expr, ones(bits)),
    }
}

fn is_key(expr: &Expr) -> bool {
    matches!(expr, Expr::Field(..) | Expr::Meta(_) | Expr::Intrinsic(_))
}

/// A number with this many ones.
pub(super) fn ones(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(patterns: &[Pattern], value: u64) -> bool {
        patterns.iter().any(|pattern| pattern.iter().all(|test| value & test.mask == test.value))
    }

    #[test]
    fn patterns_mean_the_condition() {
        let x = || Expr::Meta(MetaId(0));
        let c = |value| Expr::Const(value, 6);
        for limit in 0..64u64 {
            for value in 0..64u64 {
                let signed = |v: u64| (v as i64) << 58;
                let cases = [
                    (x().eq(c(limit)), value == limit),
                    (x().ne(c(limit)), value != limit),
                    (x().gt(c(limit)), value > limit),
                    ((x() & c(limit)).eq(c(limit)), value & limit == limit),
                    (x().signed_gt(c(0)), signed(value) > 0),
                    (c(0).signed_gt(x()), signed(value) < 0),
                    (x().eq(c(limit)).either(x().eq(c(3))), value == limit || value == 3),
                    ((!x().gt(c(limit))).both(x().ne(c(0))), value <= limit && value != 0),
                ];
                for (cond, expected) in cases {
                    let yes = patterns(&cond, true).expect("one key against constants");
                    let no = patterns(&cond, false).expect("one key against constants");
                    assert_eq!(holds(&yes, value), expected, "{cond:?} of {value}");
                    assert_eq!(holds(&no, value), !expected, "not {cond:?} of {value}");
                }
            }
        }
    }

    #[test]
    fn comparing_two_values_is_refused() {
        let cond = Expr::Meta(MetaId(0)).eq(Expr::Meta(MetaId(1)));
        assert!(patterns(&cond, true).is_err());
    }
}
