//! A call as ranks compare it before any of their data is used.

use core::fmt;

use crate::{DType, ReduceOp};

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MeshCollective {
    /// Every rank ends with the reduction of all ranks' tensors.
    AllReduce,
    /// The root ends with the reduction of all ranks' tensors.
    Reduce {
        /// The rank that ends with it.
        root: u16,
    },
    /// Every rank ends with the root's tensor.
    Broadcast {
        /// The rank whose tensor it is.
        root: u16,
    },
    /// Every rank ends with all ranks' tensors, in order of ranks.
    AllGather,
    /// Every rank ends with its own part of the reduction of all ranks' tensors.
    ReduceScatter,
    /// Every rank ends with its own part of all ranks' tensors, in order of ranks.
    AllToAll,
    /// No rank returns before all have called.
    Barrier,
    /// Small strings, gathered on every rank: [`Mesh::all_gather_bytes`](crate::mesh::Mesh::all_gather_bytes).
    Agreement,
}

impl MeshCollective {
    /// The name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Reduce { .. } => "reduce",
            Self::Broadcast { .. } => "broadcast",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Barrier => "barrier",
            Self::Agreement => "agreement",
        }
    }

    /// Whether elements are folded; otherwise they only travel.
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce { .. } | Self::ReduceScatter)
    }

    /// The root, if the collective has one.
    pub const fn root(self) -> Option<u16> {
        match self {
            Self::Reduce { root } | Self::Broadcast { root } => Some(root),
            _ => None,
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::AllReduce => 1,
            Self::Reduce { .. } => 2,
            Self::Broadcast { .. } => 3,
            Self::AllGather => 4,
            Self::ReduceScatter => 5,
            Self::AllToAll => 6,
            Self::Barrier => 7,
            Self::Agreement => 8,
        }
    }

    fn from_code(code: u8, root: u16) -> Option<Self> {
        Some(match code {
            1 => Self::AllReduce,
            2 => Self::Reduce { root },
            3 => Self::Broadcast { root },
            4 => Self::AllGather,
            5 => Self::ReduceScatter,
            6 => Self::AllToAll,
            7 => Self::Barrier,
            8 => Self::Agreement,
            _ => return None,
        })
    }
}

/// One call of a collective, as far as all ranks must agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MeshCall {
    /// Which collective.
    pub collective: MeshCollective,
    /// Element type; [`DType::None`] for a barrier.
    pub dtype: DType,
    /// The reduction; [`ReduceOp::Sum`] where nothing is reduced.
    pub op: ReduceOp,
    /// Elements: of the tensor (all-reduce, reduce, broadcast), sent by each rank (all-gather), received by each rank
    /// (reduce-scatter), for each peer (all-to-all); 0 for a barrier.
    pub count: u64,
}

impl MeshCall {
    /// Bytes of a call on the wire.
    pub(crate) const LEN: usize = 16;

    /// Little-endian: collective, dtype, op, 0 (one byte each), root (2), 0 (2), count (8).
    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.collective.code();
        bytes[1] = self.dtype as u8;
        bytes[2] = self.op as u8;
        bytes[4..6].copy_from_slice(&self.collective.root().unwrap_or(0).to_le_bytes());
        bytes[8..].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    /// `None` when the bytes describe no call.
    pub(crate) fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let [collective, dtype, op, 0, root_low, root_high, 0, 0, count @ ..] = *bytes else { return None };
        let root = u16::from_le_bytes([root_low, root_high]);
        let call = Self {
            collective: MeshCollective::from_code(collective, root)?,
            dtype: DType::ALL.iter().copied().find(|known| *known as u8 == dtype)?,
            op: ReduceOp::from_code(op)?,
            count: u64::from_le_bytes(count),
        };
        (call.to_bytes() == *bytes).then_some(call)
    }
}

impl fmt::Display for MeshCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.collective.name())?;
        if self.collective == MeshCollective::Barrier {
            return Ok(());
        }
        write!(f, "({} x {}", self.count, self.dtype)?;
        if self.collective.reduces() {
            write!(f, ", {}", self.op)?;
        }
        if let Some(root) = self.collective.root() {
            write!(f, ", root {root}")?;
        }
        f.write_str(")")
    }
}
