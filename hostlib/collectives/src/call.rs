//! A call as ranks compare it before any of their data is used.

use core::fmt;

use crate::{Collective, DType, ReduceOp};

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// A collective.
    Collective(Collective),
    /// Small strings, gathered on every rank: [`Mesh::all_gather_bytes`](crate::mesh::Mesh::all_gather_bytes).
    Strings,
    /// An all-reduce whose local sum the leader reduces over the network:
    /// [`SharedGroup::hierarchical_all_reduce`](crate::shared::SharedGroup::hierarchical_all_reduce).
    Hierarchical,
}

impl CallKind {
    const STRINGS: u8 = 8;
    const HIERARCHICAL: u8 = 9;

    /// The collective that moves bytes between ranks in the same way.
    pub const fn collective(self) -> Collective {
        match self {
            Self::Collective(collective) => collective,
            Self::Strings => Collective::AllGather,
            Self::Hierarchical => Collective::AllReduce,
        }
    }

    /// The name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collective(collective) => collective.name(),
            Self::Strings => "all_gather_bytes",
            Self::Hierarchical => "hierarchical_all_reduce",
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Collective(collective) => collective.code(),
            Self::Strings => Self::STRINGS,
            Self::Hierarchical => Self::HIERARCHICAL,
        }
    }

    fn from_code(code: u8, root: u16) -> Option<Self> {
        match code {
            Self::STRINGS => Some(Self::Strings),
            Self::HIERARCHICAL => Some(Self::Hierarchical),
            _ => Collective::from_code(code, root).map(Self::Collective),
        }
    }
}

/// One call, as far as all ranks must agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallSignature {
    /// What it does.
    pub kind: CallKind,
    /// Element type; [`DType::None`] for a barrier.
    pub dtype: DType,
    /// The reduction; [`ReduceOp::Sum`] where nothing is reduced.
    pub op: ReduceOp,
    /// Elements: of the tensor (all-reduce, reduce, broadcast), sent by each rank (all-gather), received by each rank
    /// (reduce-scatter), for each peer (all-to-all); 0 for a barrier.
    pub count: u64,
}

impl CallSignature {
    /// Bytes of a call on a link.
    pub const LEN: usize = 16;

    /// Little-endian: kind, dtype, op, 0 (one byte each), root (2), 0 (2), count (8).
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.kind.code();
        bytes[1] = self.dtype.code();
        bytes[2] = self.op.code();
        bytes[4..6].copy_from_slice(&self.kind.collective().root().unwrap_or(0).to_le_bytes());
        bytes[8..].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    /// `None` when the bytes describe no call.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let [kind, dtype, op, 0, root_low, root_high, 0, 0, count @ ..] = *bytes else { return None };
        let call = Self {
            kind: CallKind::from_code(kind, u16::from_le_bytes([root_low, root_high]))?,
            dtype: DType::from_code(dtype)?,
            op: ReduceOp::from_code(op)?,
            count: u64::from_le_bytes(count),
        };
        (call.to_bytes() == *bytes).then_some(call)
    }

    /// The same bytes as words, as ranks of one host read each other's.
    pub(crate) fn to_words(self) -> [u64; 2] {
        let bytes = u128::from_le_bytes(self.to_bytes());
        [bytes as u64, (bytes >> 64) as u64]
    }

    /// `None` when the words describe no call.
    pub(crate) fn from_words([low, high]: [u64; 2]) -> Option<Self> {
        Self::from_bytes(&(u128::from(low) | u128::from(high) << 64).to_le_bytes())
    }
}

impl fmt::Display for CallSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let collective = self.kind.collective();
        f.write_str(self.kind.name())?;
        if collective == Collective::Barrier {
            return Ok(());
        }
        write!(f, "({} x {}", self.count, self.dtype)?;
        if collective.reduces() {
            write!(f, ", {}", self.op)?;
        }
        if let Some(root) = collective.root() {
            write!(f, ", root {root}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_read_back_from_bytes_and_words() {
        let collectives =
            Collective::ALL.map(|collective| CallKind::Collective(collective.with_root(0xfedc)));
        for kind in collectives.into_iter().chain([CallKind::Strings, CallKind::Hierarchical]) {
            for op in ReduceOp::ALL {
                let call = CallSignature { kind, dtype: DType::Bf16, op: *op, count: u64::MAX - 3 };
                assert_eq!(CallSignature::from_bytes(&call.to_bytes()), Some(call));
                assert_eq!(CallSignature::from_words(call.to_words()), Some(call));
            }
        }
        assert_eq!(CallSignature::from_words([0, 0]), None);
        assert_eq!(CallSignature::from_words([u64::MAX, 1]), None);
    }
}
