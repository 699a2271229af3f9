//! The bytes on a link: frames of an 8-byte head and a body, little-endian.
//!
//! | bytes | head |
//! |---|---|
//! | 0 | kind: 1 call, 2 data, 3 failure |
//! | 1 | 0 |
//! | 2..4 | number of the operation on this link, modulo 2^16 |
//! | 4..8 | length of the body |
//!
//! The first frame of an operation in each direction of a link is a *call*; *data* frames hold pieces of messages, which both
//! ends have planned and whose lengths are therefore only compared. A *failure* ends all use of the link.

use crate::CallSignature;

/// Bytes of a head.
pub(crate) const HEAD: usize = 8;
/// Longest body of a data frame. A frame once begun is always finished, so this bounds how long a failure waits.
pub(crate) const FRAME_MAX: usize = 256 * 1024;
/// Bytes of a failure's body.
pub(crate) const FAILURE: usize = 8 + 2 * CallSignature::LEN;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Data,
    Failure,
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) seq: u16,
    /// Checked: fixed for calls and failures, at most [`FRAME_MAX`] for data.
    pub(crate) len: usize,
}

impl Head {
    pub(crate) fn to_bytes(self) -> [u8; HEAD] {
        let kind = match self.kind {
            Kind::Call => 1,
            Kind::Data => 2,
            Kind::Failure => 3,
        };
        let [seq_low, seq_high] = self.seq.to_le_bytes();
        let [a, b, c, d] = (self.len as u32).to_le_bytes();
        [kind, 0, seq_low, seq_high, a, b, c, d]
    }

    /// `None` when the head is invalid.
    pub(crate) fn from_bytes(bytes: &[u8; HEAD]) -> Option<Self> {
        let [kind, 0, seq_low, seq_high, a, b, c, d] = *bytes else { return None };
        let (kind, expected) = match kind {
            1 => (Kind::Call, Some(CallSignature::LEN)),
            2 => (Kind::Data, None),
            3 => (Kind::Failure, Some(FAILURE)),
            _ => return None,
        };
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        let good = expected.map_or(len <= FRAME_MAX, |expected| len == expected);
        good.then_some(Self { kind, seq: u16::from_le_bytes([seq_low, seq_high]), len })
    }
}

/// Why a rank gives up, as sent to all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MeshFailure {
    /// Two ranks made different calls.
    Mismatch { one: (u16, CallSignature), other: (u16, CallSignature) },
    /// A rank was lost.
    Lost { rank: u16 },
    /// The sender gave up by itself.
    GaveUp { rank: u16 },
}

impl MeshFailure {
    /// Reason (1 byte: 1 mismatch, 2 lost, 3 gave up), 0, rank (2), other rank (2), 0 (2), the two calls.
    pub(crate) fn to_bytes(self) -> [u8; FAILURE] {
        let mut bytes = [0; FAILURE];
        let (reason, rank) = match self {
            Self::Mismatch { one: (rank, call), other: (other, other_call) } => {
                bytes[4..6].copy_from_slice(&other.to_le_bytes());
                bytes[8..8 + CallSignature::LEN].copy_from_slice(&call.to_bytes());
                bytes[8 + CallSignature::LEN..].copy_from_slice(&other_call.to_bytes());
                (1, rank)
            }
            Self::Lost { rank } => (2, rank),
            Self::GaveUp { rank } => (3, rank),
        };
        bytes[0] = reason;
        bytes[2..4].copy_from_slice(&rank.to_le_bytes());
        bytes
    }

    /// Whether every rank that it names is one of `world` ranks.
    pub(crate) fn is_among(&self, world: usize) -> bool {
        let (one, other) = match *self {
            Self::Mismatch { one, other } => (one.0, other.0),
            Self::Lost { rank } | Self::GaveUp { rank } => (rank, rank),
        };
        usize::from(one.max(other)) < world
    }

    /// `None` when the bytes describe no failure.
    pub(crate) fn from_bytes(bytes: &[u8; FAILURE]) -> Option<Self> {
        let (head, calls) = bytes.split_first_chunk::<8>()?;
        let [reason, 0, rank_low, rank_high, other_low, other_high, 0, 0] = *head else { return None };
        let rank = u16::from_le_bytes([rank_low, rank_high]);
        let other = u16::from_le_bytes([other_low, other_high]);
        Some(match reason {
            1 => {
                let (one, two) = calls.split_first_chunk::<{ CallSignature::LEN }>()?;
                Self::Mismatch {
                    one: (rank, CallSignature::from_bytes(one)?),
                    other: (other, CallSignature::from_bytes(two.first_chunk()?)?),
                }
            }
            2 => Self::Lost { rank },
            3 => Self::GaveUp { rank },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{CallKind, Collective, DType, ReduceOp};
    use proptest::prelude::*;

    use super::*;

    fn call(count: u64) -> CallSignature {
        CallSignature {
            kind: CallKind::Collective(Collective::Reduce { root: 7 }),
            dtype: DType::Bf16,
            op: ReduceOp::Max,
            count,
        }
    }

    #[test]
    fn frames_encode_and_decode() {
        for kind in [Kind::Call, Kind::Data, Kind::Failure] {
            let len = match kind {
                Kind::Call => CallSignature::LEN,
                Kind::Data => 4096,
                Kind::Failure => FAILURE,
            };
            let head = Head { kind, seq: 513, len };
            assert_eq!(Head::from_bytes(&head.to_bytes()), Some(head));
        }
        assert_eq!(CallSignature::from_bytes(&call(9).to_bytes()), Some(call(9)));
        for failure in [
            MeshFailure::Mismatch { one: (1, call(2)), other: (300, call(3)) },
            MeshFailure::Lost { rank: 5 },
            MeshFailure::GaveUp { rank: 0 },
        ] {
            assert_eq!(MeshFailure::from_bytes(&failure.to_bytes()), Some(failure));
        }
    }

    #[test]
    fn bodies_of_wrong_length_are_refused() {
        let head = Head { kind: Kind::Data, seq: 0, len: FRAME_MAX + 1 };
        assert_eq!(Head::from_bytes(&head.to_bytes()), None);
        let head = Head { kind: Kind::Call, seq: 0, len: CallSignature::LEN - 1 };
        assert_eq!(Head::from_bytes(&head.to_bytes()), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_none(head: [u8; HEAD], call: [u8; CallSignature::LEN], body in proptest::collection::vec(0u8..10, FAILURE)) {
            if let Some(parsed) = Head::from_bytes(&head) {
                prop_assert_eq!(parsed.to_bytes(), head);
                prop_assert!(parsed.len <= FRAME_MAX);
            }
            if let Some(parsed) = CallSignature::from_bytes(&call) {
                prop_assert_eq!(parsed.to_bytes(), call);
                prop_assert!(!parsed.to_string().is_empty());
            }
            let body: [u8; FAILURE] = body.try_into().expect("as long");
            if let Some(parsed) = MeshFailure::from_bytes(&body) {
                prop_assert_eq!(MeshFailure::from_bytes(&parsed.to_bytes()), Some(parsed));
            }
        }
    }
}
