//! The Netfold header: view, flags, kinds and high-level representation.

use core::fmt;

use crate::field::{self, HEADER_LEN, Span};
use crate::{Error, VERSION};

/// Length of the header in bytes.
pub const LEN: usize = HEADER_LEN;

mod at {
    use super::{Span, field::span};
    pub(super) const VERSION: Span = span("version");
    pub(super) const KIND: Span = span("kind");
    pub(super) const FLAGS: Span = span("flags");
    pub(super) const OP: Span = span("op");
    pub(super) const CLASS: Span = span("class");
    pub(super) const REASON: Span = span("reason");
    pub(super) const JOB: Span = span("job");
    pub(super) const SLOT: Span = span("slot");
    pub(super) const SET: Span = span("set");
    pub(super) const EPOCH: Span = span("epoch");
    pub(super) const KEY: Span = span("key");
    pub(super) const CHUNK: Span = span("chunk");
    pub(super) const BITMAP: Span = span("bitmap");
    pub(super) const COUNT: Span = span("count");
    pub(super) const EXP: Span = span("exp");
    pub(super) const EXP_NEXT: Span = span("exp_next");
    pub(super) const OWNER: Span = span("owner");
    pub(super) const RESERVED: Span = span("reserved");
}

macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident, $error:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vmeta])* $variant = $value),+ }

        impl $name {
            /// Every value, in wire order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name used in documentation, counters and generated programs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl TryFrom<u8> for $name {
            type Error = Error;
            fn try_from(value: u8) -> Result<Self, Error> {
                match value { $($value => Ok(Self::$variant),)+ other => Err(Error::$error(other)) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

wire_enum! {
    /// What a packet is for.
    Kind, Kind {
        /// A worker's contribution to a chunk, on its way up.
        Data = 1 "data",
        /// The folded chunk, on its way down.
        Result = 2 "result",
        /// A worker asks to finish a slot without the missing (bounded-loss mode).
        Close = 3 "close",
        /// The slot has moved on to a newer chunk than the sender's.
        Stale = 4 "stale",
        /// The packet was not admitted; `reason` says why.
        Reject = 5 "reject",
        /// The controller reads a slot.
        Probe = 6 "probe",
        /// The controller moves a slot on to a newer chunk without contributing.
        Advance = 7 "advance",
        /// The slot is not complete; `bitmap` has its contributors so far (bounded-loss mode).
        Heard = 8 "heard",
    }
}

wire_enum! {
    /// How the switch folds a lane: a word of 32 bits, or each of the two or four elements packed in one. Which of these a switch has is a
    /// property of its program, see [`LaneOps`](crate::LaneOps).
    LaneOp, Op {
        /// Wrapping 32-bit addition.
        Sum = 0 "sum",
        /// Signed 32-bit minimum.
        Min = 1 "min",
        /// Signed 32-bit maximum.
        Max = 2 "max",
        /// Bitwise and.
        And = 3 "and",
        /// Bitwise or.
        Or = 4 "or",
        /// Bitwise exclusive or.
        Xor = 5 "xor",
        /// Wrapping addition of 16-bit elements, without carry between them.
        Sum16 = 6 "sum16",
        /// Signed minimum of 16-bit elements.
        Min16 = 7 "min16",
        /// Signed maximum of 16-bit elements.
        Max16 = 8 "max16",
        /// Wrapping addition of 8-bit elements, without carry between them.
        Sum8 = 9 "sum8",
        /// Signed minimum of 8-bit elements.
        Min8 = 10 "min8",
        /// Signed maximum of 8-bit elements.
        Max8 = 11 "max8",
    }
}

wire_enum! {
    /// Why a switch did not fold a packet: the `reason` of a REJECT and the index of the switch's packet counters.
    Reason, Reason {
        /// Not a reason: the packet was handled.
        None = 0 "none",
        /// Not an Ethernet / IPv4 / UDP packet for Netfold's port, or a bad IPv4 checksum.
        NotNetfold = 1 "not_netfold",
        /// Shorter or longer than its kind and flags require.
        Length = 2 "length",
        /// Unknown protocol version.
        Version = 3 "version",
        /// A kind that this switch does not take from this sender, or an unknown lane operation.
        Kind = 4 "kind",
        /// No job of that number is known on that port and source address.
        UnknownJob = 5 "unknown_job",
        /// The job exists, but not at that port and source address.
        Spoofed = 6 "spoofed",
        /// Wrong job key.
        Key = 7 "key",
        /// Not the job's current epoch.
        Epoch = 8 "epoch",
        /// The slot lies outside the job's range.
        Slot = 9 "slot",
        /// The chunk is older than the slot's: the reply is STALE.
        Stale = 10 "stale",
        /// A duplicate of a contribution that the slot already holds.
        Duplicate = 11 "duplicate",
        /// The job has ended or its membership is changing.
        JobEnded = 12 "job_ended",
        /// A parent's RESULT for a chunk that this switch has not sent up.
        Unexpected = 13 "unexpected",
        /// The member's address is not validated yet: `chunk` and `bitmap` of the REJECT carry its path token.
        Path = 14 "path",
    }
}

/// The flag bits of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// A retransmission.
    pub const RESEND: Self = Self(0x01);
    /// Congestion was met on the way (ECN echo).
    pub const CONGESTION: Self = Self(0x02);
    /// A congested switch may trim this chunk.
    pub const DROPPABLE: Self = Self(0x04);
    /// The payload was trimmed in the network; counts as received and adds nothing.
    pub const TRIMMED: Self = Self(0x08);
    /// The result lacks some workers' contributions.
    pub const PARTIAL: Self = Self(0x10);
    /// A lane reached the end of its range.
    pub const SATURATED: Self = Self(0x20);
    /// The block held a NaN or an infinity; its lanes carry no value.
    pub const NON_FINITE: Self = Self(0x40);
    /// The chunk has no lanes by design, nor has its result: an exponent alone.
    pub const BARE: Self = Self(0x80);

    /// Every flag with its name, lowest bit first.
    pub const ALL: &'static [(Self, &'static str)] = &[
        (Self::RESEND, "resend"),
        (Self::CONGESTION, "congestion"),
        (Self::DROPPABLE, "droppable"),
        (Self::TRIMMED, "trimmed"),
        (Self::PARTIAL, "partial"),
        (Self::SATURATED, "saturated"),
        (Self::NON_FINITE, "non_finite"),
        (Self::BARE, "bare"),
    ];

    /// Whether every bit of `other` is set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of flags.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags without those of `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (flag, name) in Self::ALL {
            if self.contains(*flag) {
                f.write_str(if first { "" } else { "+" })?;
                f.write_str(name)?;
                first = false;
            }
        }
        if first { f.write_str("-") } else { Ok(()) }
    }
}

/// The members of a job that receive the lanes of a result. The others receive its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LaneOwner {
    /// All.
    #[default]
    All,
    /// The one of this rank, below [`WORLD_MAX`](crate::WORLD_MAX).
    Rank(u16),
}

impl LaneOwner {
    /// The field of the header: 0, or the rank and 1.
    #[inline]
    pub const fn to_wire(self) -> u16 {
        match self {
            Self::All => 0,
            Self::Rank(rank) => rank.saturating_add(1),
        }
    }

    /// Reads the field of the header.
    #[inline]
    pub const fn from_wire(value: u16) -> Self {
        match value.checked_sub(1) {
            None => Self::All,
            Some(rank) => Self::Rank(rank),
        }
    }

    /// Whether the member of this rank receives the lanes.
    #[inline]
    pub const fn includes(self, rank: u16) -> bool {
        match self {
            Self::All => true,
            Self::Rank(owner) => owner == rank,
        }
    }
}

impl fmt::Display for LaneOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Rank(rank) => write!(f, "{rank}"),
        }
    }
}

/// A read or read-write view of a datagram: the Netfold header and the lanes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

macro_rules! getters {
    ($($(#[$meta:meta])* $name:ident: $span:ident as $ty:ty),+ $(,)?) => {
        $($(#[$meta])* #[inline] pub fn $name(&self) -> $ty { at::$span.read(self.header()) as $ty })+
    };
}

macro_rules! setters {
    ($($(#[$meta:meta])* $name:ident: $span:ident from $ty:ty),+ $(,)?) => {
        $($(#[$meta])* #[inline] pub fn $name(&mut self, value: $ty) { at::$span.write(self.header_mut(), u32::from(value)) })+
    };
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Wraps a buffer without looking at it. Accessors panic when it is shorter than a header.
    pub const fn new_unchecked(buffer: T) -> Self {
        Self { buffer }
    }

    /// Wraps a buffer that holds at least a whole header.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] when the buffer is shorter than [`LEN`].
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let len = buffer.as_ref().len();
        if len < LEN { Err(Error::Truncated { len, need: LEN }) } else { Ok(Self { buffer }) }
    }

    /// Gives the buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }

    #[inline]
    fn header(&self) -> &[u8; LEN] {
        self.buffer.as_ref().first_chunk().expect("new_checked proved the length")
    }

    getters! {
        /// Protocol version.
        version: VERSION as u8,
        /// Packet kind, as a raw number; see [`Kind`].
        kind: KIND as u8,
        /// Lane operation, as a raw number; see [`LaneOp`].
        op: OP as u8,
        /// Importance class.
        class: CLASS as u8,
        /// Reason, as a raw number; see [`Reason`].
        reason: REASON as u8,
        /// Job number.
        job: JOB as u16,
        /// Slot, relative to the job's range.
        slot: SLOT as u16,
        /// Set, 0 or 1.
        set: SET as u8,
        /// Epoch of the job's membership.
        epoch: EPOCH as u32,
        /// Job key.
        key: KEY as u32,
        /// Chunk serial number.
        chunk: CHUNK as u32,
        /// Contributor bitmap.
        bitmap: BITMAP as u32,
        /// Contributor count.
        count: COUNT as u16,
        /// Block exponent of these lanes.
        exp: EXP as u8,
        /// Block exponent proposed or agreed for the look-ahead chunk.
        exp_next: EXP_NEXT as u8,
    }

    /// Who receives the lanes of the result.
    #[inline]
    pub fn owner(&self) -> LaneOwner {
        LaneOwner::from_wire(at::OWNER.read(self.header()) as u16)
    }

    /// Flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(at::FLAGS.read(self.header()) as u8)
    }

    /// The lanes: everything behind the header, big-endian.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    #[inline]
    fn header_mut(&mut self) -> &mut [u8; LEN] {
        self.buffer.as_mut().first_chunk_mut().expect("new_checked proved the length")
    }

    setters! {
        /// Sets the protocol version. Voids the guarantee that [`Repr::parse`] succeeds.
        set_version: VERSION from u8,
        /// Sets the kind from a raw number. Voids the guarantee that [`Repr::parse`] succeeds.
        set_kind_raw: KIND from u8,
        /// Sets the lane operation from a raw number. Voids the guarantee that [`Repr::parse`] succeeds.
        set_op_raw: OP from u8,
        /// Sets the reason from a raw number. Voids the guarantee that [`Repr::parse`] succeeds.
        set_reason_raw: REASON from u8,
        /// Sets the importance class (4 bits).
        set_class: CLASS from u8,
        /// Sets the job.
        set_job: JOB from u16,
        /// Sets the slot (15 bits).
        set_slot: SLOT from u16,
        /// Sets the set (1 bit).
        set_set: SET from u8,
        /// Sets the epoch.
        set_epoch: EPOCH from u32,
        /// Sets the job key.
        set_key: KEY from u32,
        /// Sets the chunk.
        set_chunk: CHUNK from u32,
        /// Sets the contributor bitmap.
        set_bitmap: BITMAP from u32,
        /// Sets the contributor count.
        set_count: COUNT from u16,
        /// Sets the exponent of these lanes.
        set_exp: EXP from u8,
        /// Sets the look-ahead exponent.
        set_exp_next: EXP_NEXT from u8,
    }

    /// Sets who receives the lanes of the result.
    #[inline]
    pub fn set_owner(&mut self, owner: LaneOwner) {
        at::OWNER.write(self.header_mut(), u32::from(owner.to_wire()));
    }

    /// Sets the reserved bits to 0.
    #[inline]
    fn clear_reserved(&mut self) {
        at::RESERVED.write(self.header_mut(), 0);
    }

    /// Sets the flags.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        at::FLAGS.write(self.header_mut(), u32::from(flags.0));
    }

    /// The lanes, writable.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[LEN..]
    }
}

/// A meaningful header: what [`Packet`] shows, with every enumeration resolved and the version known to be ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Packet kind.
    pub kind: Kind,
    /// Flags.
    pub flags: Flags,
    /// Lane operation.
    pub op: LaneOp,
    /// Importance class, 0 to 15.
    pub class: u8,
    /// Reason of a REJECT.
    pub reason: Reason,
    /// Job number.
    pub job: u16,
    /// Slot, relative to the job's range, below 2^15.
    pub slot: u16,
    /// Set, 0 or 1.
    pub set: u8,
    /// Epoch of the job's membership.
    pub epoch: u32,
    /// Job key.
    pub key: u32,
    /// Chunk serial number.
    pub chunk: u32,
    /// Contributor bitmap.
    pub bitmap: u32,
    /// Contributor count.
    pub count: u16,
    /// Block exponent of these lanes.
    pub exp: u8,
    /// Look-ahead block exponent.
    pub exp_next: u8,
    /// Who receives the lanes of the result.
    pub owner: LaneOwner,
}

impl Repr {
    /// A packet of a controller, ADVANCE or PROBE, about a set of an absolute slot: without lanes, job, epoch and key.
    pub const fn from_controller(kind: Kind, (slot, set): (u16, u8), chunk: u32) -> Self {
        Self {
            kind,
            flags: Flags::BARE,
            op: LaneOp::Sum,
            class: 0,
            reason: Reason::None,
            job: 0,
            slot,
            set,
            epoch: 0,
            key: 0,
            chunk,
            bitmap: 0,
            count: 0,
            exp: 0,
            exp_next: 0,
            owner: LaneOwner::All,
        }
    }

    /// Reads a header.
    ///
    /// # Errors
    ///
    /// [`Error::Version`], [`Error::Kind`], [`Error::Op`] or [`Error::Reason`] when that field has no meaning in this
    /// version.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, Error> {
        if packet.version() != VERSION {
            return Err(Error::Version(packet.version()));
        }
        Ok(Self {
            kind: Kind::try_from(packet.kind())?,
            flags: packet.flags(),
            op: LaneOp::try_from(packet.op())?,
            class: packet.class(),
            reason: Reason::try_from(packet.reason())?,
            job: packet.job(),
            slot: packet.slot(),
            set: packet.set(),
            epoch: packet.epoch(),
            key: packet.key(),
            chunk: packet.chunk(),
            bitmap: packet.bitmap(),
            count: packet.count(),
            exp: packet.exp(),
            exp_next: packet.exp_next(),
            owner: packet.owner(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn header_len(&self) -> usize {
        LEN
    }

    /// Writes every byte of the header.
    #[inline]
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_version(VERSION);
        packet.set_kind_raw(self.kind as u8);
        packet.set_flags(self.flags);
        packet.set_op_raw(self.op as u8);
        packet.set_class(self.class);
        packet.set_reason_raw(self.reason as u8);
        packet.set_job(self.job);
        packet.set_slot(self.slot);
        packet.set_set(self.set);
        packet.set_epoch(self.epoch);
        packet.set_key(self.key);
        packet.set_chunk(self.chunk);
        packet.set_bitmap(self.bitmap);
        packet.set_count(self.count);
        packet.set_exp(self.exp);
        packet.set_exp_next(self.exp_next);
        packet.set_owner(self.owner);
        packet.clear_reserved();
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "netfold {} job={}@{} slot={}.{} chunk={} op={} flags={} seen={:#x} count={} exp={}/{} owner={}",
            self.kind,
            self.job,
            self.epoch,
            self.slot,
            self.set,
            self.chunk,
            self.op,
            self.flags,
            self.bitmap,
            self.count,
            self.exp,
            self.exp_next,
            self.owner
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: [u8; LEN + 4] = [
        0x21, 0x81, 0x23, 0x00, 0x01, 0x02, 0x00, 0x0b, 0xaa, 0xbb, 0xcc, 0xdd, 0x10, 0x20, 0x30, 0x40, 0xff,
        0xff, 0xff, 0xfe, 0x00, 0x00, 0x00, 0x05, 0x00, 0x02, 0x7f, 0x80, 0x00, 0x07, 0x00, 0x00, 1, 2, 3, 4,
    ];

    fn repr() -> Repr {
        Repr {
            kind: Kind::Data,
            flags: Flags::RESEND.with(Flags::BARE),
            op: LaneOp::Max,
            class: 3,
            reason: Reason::None,
            job: 0x0102,
            slot: 5,
            set: 1,
            epoch: 0xaabb_ccdd,
            key: 0x1020_3040,
            chunk: u32::MAX - 1,
            bitmap: 5,
            count: 2,
            exp: 0x7f,
            exp_next: 0x80,
            owner: LaneOwner::Rank(6),
        }
    }

    #[test]
    fn parse_literal_bytes() {
        let packet = Packet::new_checked(&BYTES[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        assert_eq!(packet.payload(), [1, 2, 3, 4]);
    }

    #[test]
    fn emit_writes_every_header_byte_and_no_other() {
        let mut bytes = [0xa5; LEN + 4];
        repr().emit(&mut Packet::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes[..LEN], BYTES[..LEN]);
        assert_eq!(bytes[LEN..], [0xa5; 4]);
    }

    #[test]
    fn refuses_what_has_no_meaning() {
        let parse = |at: usize, value: u8| {
            let mut bytes = BYTES;
            bytes[at] = value;
            Repr::parse(&Packet::new_checked(&bytes[..]).unwrap())
        };
        assert_eq!(parse(0, 0x11), Err(Error::Version(1)));
        assert_eq!(parse(0, 0x20), Err(Error::Kind(0)));
        assert_eq!(parse(2, 0xc3), Err(Error::Op(12)));
        assert_eq!(parse(3, 200), Err(Error::Reason(200)));
        for len in 0..LEN {
            assert_eq!(Packet::new_checked(&BYTES[..len]), Err(Error::Truncated { len, need: LEN }));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(repr) = Packet::new_checked(&bytes[..]).and_then(|packet| Repr::parse(&packet)) {
                let mut again = bytes.clone();
                let mut bytes = bytes;
                bytes[LEN - 2..LEN].fill(0);
                repr.emit(&mut Packet::new_unchecked(&mut again[..]));
                prop_assert_eq!(&again, &bytes, "a parsed header is emitted as it came");
                prop_assert!(!repr.to_string().is_empty());
            }
        }
    }
}
