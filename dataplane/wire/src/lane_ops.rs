//! Lane operations as arithmetic, and sets of them: what a switch's program, or a job's switches together, can do.

use core::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{LaneOp, ReduceOp};

impl LaneOp {
    /// Bits of an element: of a word, or of one of those packed in it.
    pub const fn element_bits(self) -> u32 {
        match self {
            Self::Sum | Self::Min | Self::Max | Self::And | Self::Or | Self::Xor => 32,
            Self::Sum16 | Self::Min16 | Self::Max16 => 16,
            Self::Sum8 | Self::Min8 | Self::Max8 => 8,
        }
    }

    /// What it does to the elements of tensors.
    pub const fn reduction(self) -> ReduceOp {
        match self {
            Self::Sum | Self::Sum16 | Self::Sum8 => ReduceOp::Sum,
            Self::Min | Self::Min16 | Self::Min8 => ReduceOp::Min,
            Self::Max | Self::Max16 | Self::Max8 => ReduceOp::Max,
            Self::And => ReduceOp::BitAnd,
            Self::Or => ReduceOp::BitOr,
            Self::Xor => ReduceOp::BitXor,
        }
    }

    /// The fold of two words of plain numerics: the definition, element by element, with which programs are compared.
    pub fn fold(self, a: u32, b: u32) -> u32 {
        match self {
            Self::Sum => a.wrapping_add(b),
            Self::Min => a.cast_signed().min(b.cast_signed()).cast_unsigned(),
            Self::Max => a.cast_signed().max(b.cast_signed()).cast_unsigned(),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Sum16 => by_halves(a, b, i16::wrapping_add),
            Self::Min16 => by_halves(a, b, i16::min),
            Self::Max16 => by_halves(a, b, i16::max),
            Self::Sum8 => by_bytes(a, b, i8::wrapping_add),
            Self::Min8 => by_bytes(a, b, i8::min),
            Self::Max8 => by_bytes(a, b, i8::max),
        }
    }
}

fn by_halves(a: u32, b: u32, fold: fn(i16, i16) -> i16) -> u32 {
    let fold = |up: u32| u32::from(fold((a >> up) as i16, (b >> up) as i16).cast_unsigned()) << up;
    fold(16) | fold(0)
}

fn by_bytes(a: u32, b: u32, fold: fn(i8, i8) -> i8) -> u32 {
    let [a, b] = [a.to_be_bytes(), b.to_be_bytes()];
    u32::from_be_bytes([0, 1, 2, 3].map(|at| fold(a[at].cast_signed(), b[at].cast_signed()).cast_unsigned()))
}

/// A set of lane operations. In messages it is a list of their names; names that this release does not know are ignored, so that switches
/// may have operations that a worker has not heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaneOps(u16);

impl LaneOps {
    /// None.
    pub const NONE: Self = Self(0);

    /// Every operation.
    pub const ALL: Self = Self::of(LaneOp::ALL);

    /// Sum, minimum and maximum of words: what a switch has that does not name its operations.
    pub const WORDS: Self = Self::of(&[LaneOp::Sum, LaneOp::Min, LaneOp::Max]);

    /// These operations.
    pub const fn of(ops: &[LaneOp]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < ops.len() {
            bits |= 1 << ops[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// Whether an operation is among them.
    pub const fn has(self, op: LaneOp) -> bool {
        self.0 & 1 << op as u8 != 0
    }

    /// Those that both sets have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all of these are among `other`.
    pub const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The operations, by code.
    pub fn iter(self) -> impl Iterator<Item = LaneOp> {
        LaneOp::ALL.iter().copied().filter(move |op| self.has(*op))
    }

    /// The set of the operations with these names; `None` when one is unknown.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let known = |name| LaneOp::ALL.iter().copied().find(|op| op.name() == name);
        let ops: Option<Vec<LaneOp>> = names.into_iter().map(known).collect();
        ops.map(|ops| Self::of(&ops))
    }
}

impl FromIterator<LaneOp> for LaneOps {
    fn from_iter<I: IntoIterator<Item = LaneOp>>(ops: I) -> Self {
        ops.into_iter().fold(Self::NONE, |all, op| Self(all.0 | Self::of(&[op]).0))
    }
}

impl Default for LaneOps {
    /// Those of a switch that does not name its operations.
    fn default() -> Self {
        Self::WORDS
    }
}

impl fmt::Display for LaneOps {
    /// The names, with commas between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, op) in self.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            f.write_str(op.name())?;
        }
        Ok(())
    }
}

impl Serialize for LaneOps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = serializer.serialize_seq(Some(self.iter().count()))?;
        for op in self.iter() {
            names.serialize_element(op.name())?;
        }
        names.end()
    }
}

impl<'de> Deserialize<'de> for LaneOps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = LaneOps;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of names of lane operations")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<LaneOps, A::Error> {
                let mut all = LaneOps::NONE;
                while let Some(name) = names.next_element::<String>()? {
                    all = LaneOps(all.0 | LaneOps::from_names([&name[..]]).unwrap_or(LaneOps::NONE).0);
                }
                Ok(all)
            }
        }
        deserializer.deserialize_seq(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_lists_of_names() {
        let some = LaneOps::of(&[LaneOp::Xor, LaneOp::Sum]);
        assert_eq!(some.to_string(), "sum, xor");
        let text = serde_json::to_string(&some).unwrap();
        assert_eq!(text, r#"["sum","xor"]"#);
        assert_eq!(serde_json::from_str::<LaneOps>(&text).unwrap(), some);
        assert_eq!(serde_json::from_str::<LaneOps>(r#"["xor","later","sum","sum"]"#).unwrap(), some);
        assert!(serde_json::from_str::<LaneOps>("3").is_err());
        assert_eq!(LaneOps::from_names(["later"]), None);
    }

    #[test]
    fn elements_are_folded_one_by_one() {
        let (a, b) = (0x7fff_80ff, 0x0001_8001);
        let folded: Vec<u32> = LaneOp::ALL.iter().map(|op| op.fold(a, b)).collect();
        assert_eq!(
            folded,
            [
                0x8001_0100,
                0x0001_8001,
                0x7fff_80ff,
                0x0001_8001,
                0x7fff_80ff,
                0x7ffe_00fe, //
                0x8000_0100,
                0x0001_8001,
                0x7fff_80ff, //
                0x7f00_0000,
                0x00ff_80ff,
                0x7f01_8001,
            ]
        );
    }

    #[test]
    fn sets_have_what_they_are_made_of() {
        assert_eq!(LaneOps::ALL.iter().count(), LaneOp::ALL.len());
        assert!(LaneOps::WORDS.within(LaneOps::ALL) && !LaneOps::ALL.within(LaneOps::WORDS));
        assert_eq!(LaneOps::ALL.and(LaneOps::WORDS), LaneOps::WORDS);
        assert_eq!(LaneOps::WORDS.iter().collect::<LaneOps>(), LaneOps::default());
    }
}
