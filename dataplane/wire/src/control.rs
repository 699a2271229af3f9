//! Admission messages between a worker and the switch's control port: one JSON object a line over TCP.
//!
//! The session lives as long as the worker takes part in the job. A worker sends [`Request::Join`], is answered by
//! [`Event::Admitted`] once every rank has joined (or by [`Event::Refused`]), then sends [`Request::Alive`] every
//! [`HEARTBEAT_MS`]; the server does the same with [`Event::Alive`]. A session that closes or is silent for
//! [`LEASE_MS`] counts as dead and every other member is told [`Event::PeerLost`].

use serde::{Deserialize, Serialize};

use crate::LaneOp;

/// Interval between signs of life, in milliseconds, in both directions.
pub const HEARTBEAT_MS: u64 = 500;

/// Silence after which the other side counts as dead, in milliseconds.
pub const LEASE_MS: u64 = 3_000;

/// Longest message line, in bytes, newline included. A longer line ends the session.
pub const LINE_LEN_MAX: usize = 4096;

/// How a switch folds lanes: a property of the program that it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Numerics {
    /// 32-bit words, wrapping: what the modes `i32`, `bfp32` and `bfp16` use.
    Word,
    /// 32-bit words whose sums stop at the ends of the range; a result with such a word is flagged.
    Saturating,
    /// 16-bit lanes with 32-bit sums, shifted right on the way out.
    Wide,
    /// IEEE 754 binary16 lanes, summed in fixed point.
    Half,
    /// IEEE 754 binary32 lanes, summed as mantissas under a common exponent.
    Float,
}

impl Numerics {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::Word, Self::Saturating, Self::Wide, Self::Half, Self::Float];

    /// Width of a lane on the wire, in bits.
    pub const fn lane_bits(self) -> u32 {
        match self {
            Self::Word | Self::Saturating | Self::Float => 32,
            Self::Wide | Self::Half => 16,
        }
    }

    /// The name used on command lines and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::Saturating => "saturating",
            Self::Wide => "wide",
            Self::Half => "half",
            Self::Float => "float",
        }
    }

    /// Whether sums are not those of the lanes' bits. The maximum is over unsigned bits then.
    pub const fn converts(self) -> bool {
        matches!(self, Self::Wide | Self::Half | Self::Float)
    }

    /// The operation that carries bits unchanged when all ranks but one contribute zeros.
    pub const fn carrier(self) -> LaneOp {
        if self.converts() { LaneOp::Max } else { LaneOp::Sum }
    }

    /// The modes of a job at such a switch, as text: "i32, bfp32 or bfp16".
    pub const fn modes(self) -> &'static str {
        match self {
            Self::Word => "i32, bfp32 or bfp16",
            other => other.name(),
        }
    }
}

impl std::fmt::Display for Numerics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Numerics {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.iter().copied().find(|numerics| numerics.name() == text);
        named.ok_or_else(|| {
            format!("unknown numerics '{text}': expected word, saturating, wide, half or float")
        })
    }
}

/// How floating-point tensors travel in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Integers as they are; floating-point tensors are refused.
    I32,
    /// Block floating point, 32-bit mantissas.
    Bfp32,
    /// Block floating point, two biased 16-bit mantissas in a word.
    Bfp16,
    /// Block floating point, 32-bit mantissas with half the headroom; what saturates is sent again with all of it.
    Saturating,
    /// Block floating point, two biased 16-bit mantissas in a word without headroom; sums are shifted on the way down.
    Wide,
    /// `f16` tensors as they are.
    Half,
    /// `f32` tensors as they are, `f16` and `bf16` widened to it.
    Float,
}

impl Mode {
    /// Every mode.
    pub const ALL: &'static [Self] =
        &[Self::I32, Self::Bfp32, Self::Bfp16, Self::Saturating, Self::Wide, Self::Half, Self::Float];

    /// The name used on command lines and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::Bfp32 => "bfp32",
            Self::Bfp16 => "bfp16",
            Self::Saturating => "saturating",
            Self::Wide => "wide",
            Self::Half => "half",
            Self::Float => "float",
        }
    }

    /// What a switch must run for a job of this mode.
    pub const fn numerics(self) -> Numerics {
        match self {
            Self::I32 | Self::Bfp32 | Self::Bfp16 => Numerics::Word,
            Self::Saturating => Numerics::Saturating,
            Self::Wide => Numerics::Wide,
            Self::Half => Numerics::Half,
            Self::Float => Numerics::Float,
        }
    }

    /// Tensor elements that one 32-bit lane word carries.
    pub const fn elements_per_word(self) -> usize {
        match self {
            Self::I32 | Self::Bfp32 | Self::Saturating | Self::Float => 1,
            Self::Bfp16 | Self::Wide | Self::Half => 2,
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|mode| mode.name() == text).ok_or_else(|| {
            format!("unknown mode '{text}': expected i32, bfp32, bfp16, saturating, wide, half or float")
        })
    }
}

/// What a worker says to the control port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Take part in a job. The first to join creates it; all must agree on everything but `rank` and `udp_port`.
    Join {
        /// Protocol version of the sender, [`crate::VERSION`].
        version: u8,
        /// Job name, 1 to 64 bytes.
        job: String,
        /// This worker's rank, below `world`.
        rank: u16,
        /// Number of workers.
        world: u16,
        /// Numeric mode.
        mode: Mode,
        /// Slots wanted, a power of two; the server may grant fewer.
        slots: u32,
        /// Streams that the workers make of the job, each with an equal share of its slots and chunk numbers of its own, one for
        /// each class of operations: a power of two, 1 to 16. The switch sees no difference.
        #[serde(default = "one")]
        classes: u8,
        /// UDP port that this worker sends from, at the address of this TCP session.
        udp_port: u16,
    },
    /// A sign of life.
    Alive {},
    /// The worker has finished and goes in peace; the job goes on until its last member has left.
    Leave {},
}

const fn one() -> u8 {
    1
}

/// What the control port says to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// All ranks have joined; the job may start.
    Admitted(Admission),
    /// The worker may not join.
    Refused {
        /// Machine-readable reason.
        reason: Refusal,
        /// One sentence: what is wrong and what to do.
        message: String,
    },
    /// A member is gone; the job is over.
    PeerLost {
        /// The rank that is gone.
        rank: u16,
        /// One sentence: how it was noticed.
        message: String,
    },
    /// A member has finished and left in peace. What it had a share in can still be had; nothing new can be finished.
    PeerLeft {
        /// The rank that left.
        rank: u16,
    },
    /// A sign of life.
    Alive {},
}

/// What a worker needs to take part in a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Job number on the switch.
    pub job: u16,
    /// Epoch of the membership.
    pub epoch: u32,
    /// Job key.
    pub key: u32,
    /// Slots granted, a power of two: the window.
    pub slots: u32,
    /// First chunk number of the stream, newer than anything the slots have seen.
    pub first_chunk: u32,
    /// 32-bit words of lanes in every packet that is not bare.
    pub lane_words: u32,
    /// UDP port of the switch, at the address of this TCP session.
    pub udp_port: u16,
    /// Contributor bitmap of a complete RESULT: the children of the worker's switch, lowest bits first.
    pub bitmap: u32,
    /// Bits by which sums come down shifted right, at all levels together; 0 but in wide numerics.
    #[serde(default)]
    pub shift: u8,
}

/// Why a worker may not join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// The message was not understood or came out of order.
    Protocol,
    /// Another protocol version.
    Version,
    /// Job name, world size, rank or slots out of range.
    Argument,
    /// Another worker holds this rank.
    RankTaken,
    /// World size differs from the first member's.
    WorldMismatch,
    /// Mode differs from the first member's.
    ModeMismatch,
    /// The switch runs other numerics than the mode needs.
    Numerics,
    /// No free slots.
    Slots,
    /// Too many jobs or sessions.
    Busy,
    /// Not every rank joined in time.
    PeersMissing,
    /// The job of that name is running already.
    JobRunning,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_json_object_each() {
        let join = Request::Join {
            version: 1,
            job: "demo".into(),
            rank: 1,
            world: 4,
            mode: Mode::Bfp16,
            slots: 256,
            classes: 1,
            udp_port: 9,
        };
        let text = serde_json::to_string(&join).unwrap();
        assert!(text.len() < LINE_LEN_MAX && !text.contains('\n'));
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), join);
        let older = text.replace(r#""classes":1,"#, "");
        assert!(older.len() < text.len());
        assert_eq!(
            serde_json::from_str::<Request>(&older).unwrap(),
            join,
            "one stream where nothing is said"
        );
        let event = Event::Refused { reason: Refusal::RankTaken, message: "x".into() };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"type":"refused","reason":"rank_taken","message":"x"}"#);
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
        assert!(serde_json::from_str::<Request>(r#"{"type":"join"}"#).is_err());
        assert!(serde_json::from_str::<Request>(r#"{"type":"alive","x":1}"#).is_err());
    }
}
