//! The pipeline as data: headers, parser, metadata, tables, actions, registers, control flow, deparser.
//!
//! The IR is shaped by the tightest target. State lives in [`Register`]s that a packet accesses once, through a
//! [`RegAction`] of at most two conditions and one output. Payload is one [`Lanes`] vector that text printers unroll
//! (`d00`, `d01`, ..., one register a lane) and the Rust back end keeps as an array. Every published object carries
//! the low 24 bits of its P4Runtime id.
//!
//! A [`Program`] is built by hand or by a function such as [`crate::allreduce::program`], checked by
//! [`crate::check::check`], and then printed by any back end. Names are unique within their kind, lower case, and are
//! printed unchanged.

use std::ops;

use serde::{Deserialize, Serialize};

/// A handle of an object in one of the program's lists.
macro_rules! handles {
    ($($(#[$meta:meta])* $name:ident),+ $(,)?) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
            pub struct $name(pub u16);
        )+
    };
}

handles! {
    /// Index into [`Program::headers`].
    HeaderId,
    /// Index into [`Program::metadata`].
    MetaId,
    /// Index into [`Program::registers`].
    RegisterId,
    /// Index into [`Program::counters`].
    CounterId,
    /// Index into [`Program::actions`].
    ActionId,
    /// Index into [`Program::tables`].
    TableId,
    /// Index into [`Parser::states`].
    StateId,
    /// Index into [`Program::lane_vars`].
    LaneVarId,
    /// Index into [`Program::lookups`].
    LookupId,
}

/// A complete pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Program {
    /// Name, printed as the package name.
    pub name: String,
    /// One line of description, printed at the top of generated text.
    pub about: String,
    /// Header types; each has one instance of the same name.
    pub headers: Vec<Header>,
    /// The lane vector behind the headers, if the program has one.
    pub lanes: Option<Lanes>,
    /// Per-packet variables, zero when the packet enters.
    pub metadata: Vec<Meta>,
    /// Per-lane variables, zero when the packet enters.
    pub lane_vars: Vec<Meta>,
    /// Constant tables that lane expressions consult.
    pub lookups: Vec<Lookup>,
    /// Parser.
    pub parser: Parser,
    /// State that outlives a packet.
    pub registers: Vec<Register>,
    /// Packet counters.
    pub counters: Vec<Counter>,
    /// Actions of the tables.
    pub actions: Vec<Action>,
    /// Match-action tables.
    pub tables: Vec<Table>,
    /// Runs once for every packet that arrives.
    pub ingress: Vec<Stmt>,
    /// Runs for every copy that leaves.
    pub egress: Vec<Stmt>,
    /// The IPv4 header whose checksum is verified on arrival and written on departure.
    pub ipv4_checksum: Option<HeaderId>,
    /// Order in which valid parts are put back in front of the unparsed rest.
    pub deparser: Vec<Part>,
}

/// A header type and its one instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name of the instance; the type is `<name>_t`.
    pub name: String,
    /// Fields in wire order; widths sum to whole bytes.
    pub fields: Vec<Field>,
}

/// A header field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Width in bits, 1 to 64.
    pub bits: u32,
}

/// The vector of equal lanes behind the headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    /// Name of the instance.
    pub name: String,
    /// Number of lanes.
    pub count: u32,
    /// Width of a lane in bits: 16 or 32.
    pub bits: u32,
}

/// Width of a word of lanes in bits, the default width of a lane.
pub const LANE_BITS: u32 = 32;

/// A constant table: the result of the first entry that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// Name.
    pub name: String,
    /// Width of the key in bits.
    pub key_bits: u32,
    /// Width of the result in bits.
    pub value_bits: u32,
    /// Value, mask and result; the first whose value equals the key under its mask is used.
    pub entries: Vec<(u64, u64, u64)>,
    /// Result when no entry matches.
    pub default: u64,
}

/// What can be assigned lane by lane: an l-value over lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LaneLValue {
    /// The packet's lane. Nothing happens when the packet has none.
    Lane,
    /// A lane variable.
    Var(LaneVarId),
}

/// A per-packet variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Name.
    pub name: String,
    /// Width in bits, 1 to 64.
    pub bits: u32,
}

/// A part of a packet that can be present or absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Part {
    /// A header.
    Header(HeaderId),
    /// The lane vector.
    Lanes,
}

/// The parser: a directed acyclic graph of states, entered at the first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Parser {
    /// States; the first is the start.
    pub states: Vec<State>,
}

/// A parser state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Name.
    pub name: String,
    /// Parts extracted in this order. A packet that is too short raises the parser error and leaves the part invalid.
    pub extract: Vec<Part>,
    /// The transition.
    pub next: Next,
}

/// A parser transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Next {
    /// Accepts; the rest is payload.
    Accept,
    /// By the value of header fields.
    Select {
        /// Fields compared.
        on: Vec<(HeaderId, u16)>,
        /// Tried in order: values and masks, one for each field of `on`, and the target.
        cases: Vec<(Vec<(u64, u64)>, StateId)>,
        /// Target when no case matches; `None` accepts.
        otherwise: Option<StateId>,
    },
}

/// A register array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// Name.
    pub name: String,
    /// Low 24 bits of the P4Runtime id; lane registers take `id..id + count`, cells of a pair take `id` and `id + 1`.
    pub id: u32,
    /// Number of entries.
    pub size: u32,
    /// Contents of an entry.
    pub kind: RegisterKind,
    /// The actions that a packet may run on an entry.
    pub actions: Vec<RegAction>,
}

/// Contents of an entry of a register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegisterKind {
    /// One or two named cells of at most 32 bits, read and written together.
    Cells(Vec<Field>),
    /// One cell of 8, 16 or 32 bits for each lane of the packet's lane vector.
    Lanes(u32),
}

/// An action on a register entry: what a stateful unit does in one pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegAction {
    /// Name, unique within the register.
    pub name: String,
    /// At most two conditions over the old cells and packet values, named by [`Expr::Cond`].
    pub conditions: Vec<Expr>,
    /// New value of each cell that changes: cases are tried in order; none matching leaves the cell as it is.
    pub updates: Vec<(u8, Vec<Case>)>,
    /// The one output: cases are tried in order; none matching yields 0.
    pub output: Vec<Case>,
}

impl RegAction {
    /// Whether it uses or changes the packet's lanes where its output goes there; what its output is made of counts only if that has a target.
    pub(crate) fn uses_lanes(&self, output: Output) -> bool {
        let updates = self.updates.iter().flat_map(|(_, cases)| cases);
        let outputs = self.output.iter().filter(|_| output != Output::None);
        let values = updates.chain(outputs).flat_map(|case| case.when.iter().chain([&case.value]));
        output == Output::Lanes || self.conditions.iter().chain(values).any(|expr| expr.mentions(&Expr::Lane))
    }

    /// Whether the old value of a cell matters: to a condition, an update or the output.
    pub(crate) fn reads(&self, cell: u8) -> bool {
        let updated = self.updates.iter().find(|(other, _)| *other == cell);
        // An update whose cases may all fail keeps the old value.
        let kept = updated.is_some_and(|(_, cases)| cases.iter().all(|case| case.when.is_some()));
        let output_keeps =
            updated.is_none() && self.output.iter().any(|case| case.value.mentions(&Expr::NewCell(cell)));
        let values =
            self.updates.iter().flat_map(|(_, cases)| cases).chain(&self.output).map(|case| &case.value);
        kept || output_keeps
            || self.conditions.iter().chain(values).any(|expr| expr.mentions(&Expr::Cell(cell)))
    }
}

/// A guarded value inside a register action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// A boolean over [`Expr::Cond`]; `None` always holds.
    pub when: Option<Expr>,
    /// The value.
    pub value: Expr,
}

impl Case {
    /// A value that always holds.
    pub fn always(value: Expr) -> Self {
        Self { when: None, value }
    }

    /// A value that holds when condition `cond` does.
    pub fn when(cond: u8, value: Expr) -> Self {
        Self { when: Some(Expr::Cond(cond)), value }
    }
}

/// An array of packet counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Name.
    pub name: String,
    /// Low 24 bits of the P4Runtime id.
    pub id: u32,
    /// Number of entries.
    pub size: u32,
}

/// An action that table entries name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Name.
    pub name: String,
    /// Low 24 bits of the P4Runtime id.
    pub id: u32,
    /// Parameters; ids are 1-based positions.
    pub params: Vec<Field>,
    /// Body: straight-line statements.
    pub body: Vec<Stmt>,
}

/// How a key field is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MatchKind {
    /// All bits.
    Exact,
    /// Value and mask.
    Ternary,
}

/// A key field of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Name the control plane sees.
    pub name: String,
    /// 1-based id.
    pub id: u32,
    /// What is matched: a header field or metadata.
    pub value: Expr,
    /// Kind of match.
    pub kind: MatchKind,
}

/// A match-action table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Name.
    pub name: String,
    /// Low 24 bits of the P4Runtime id.
    pub id: u32,
    /// Key fields.
    pub keys: Vec<Key>,
    /// Actions an entry may name.
    pub actions: Vec<ActionId>,
    /// Action and arguments when nothing matches; constant.
    pub default: (ActionId, Vec<u64>),
    /// Entries it must hold.
    pub size: u32,
}

/// What can be assigned: an l-value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LValue {
    /// A header field.
    Field(HeaderId, u16),
    /// Metadata.
    Meta(MetaId),
}

/// Target of a register action's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Output {
    /// Nowhere.
    None,
    /// Into a field or metadata (cell registers).
    Place(LValue),
    /// Into the packet's lanes (lane registers of the lanes' width).
    Lanes,
    /// Into a lane variable of the cell's width (lane registers).
    LaneVar(LaneVarId),
}

/// A statement of a control block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stmt {
    /// Assignment.
    Assign(LValue, Expr),
    /// Assignment in every lane; the value may use [`Expr::Lane`] and [`Expr::LaneVar`], or be an [`Expr::Lookup`].
    AssignLane(LaneLValue, Expr),
    /// Branch.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Table lookup; runs the action found.
    Apply(TableId),
    /// Runs a register action on one entry.
    Exec {
        /// The register.
        register: RegisterId,
        /// Index into its actions.
        action: u16,
        /// Index of the entry, 32 bits. An index out of range drops the packet in software; the control plane keeps it in
        /// range on hardware.
        index: Expr,
        /// Target of the output.
        output: Output,
    },
    /// Adds one to a counter; ingress only.
    Count(CounterId, Expr),
    /// Makes a part absent, so that it is not sent.
    Remove(Part),
    /// Adds zero lanes to a packet without lanes; ingress only. A packet with a payload, or without room in the target's buffer, is
    /// dropped at once.
    AddLanes,
    /// Sends the packet to a port.
    Unicast(Expr),
    /// Sends a copy to every member of a multicast group.
    Multicast(Expr),
    /// Sends nothing.
    Drop,
    /// Selects the egress queue, 3 bits; higher numbers are served first. Ignored where the profile has one queue.
    Priority(Expr),
}

/// A value that the target provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Intrinsic {
    /// Ingress port, 16 bits.
    IngressPort,
    /// Length of the packet in bytes on arrival, 32 bits.
    PacketLength,
    /// Whether the IPv4 checksum was wrong, boolean.
    ChecksumError,
    /// Whether the packet arrived with a congestion mark (ECN's CE) in outer headers that the transport has removed, boolean;
    /// ingress only. False on targets that parse the outer headers.
    CongestionMark,
    /// Replica id of this copy, 16 bits; egress only.
    Instance,
    /// Packets in the queue when this copy was enqueued, 19 bits; egress only.
    QueueDepth,
}

/// A two-operand operator. Operands have the same width, but for shifts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BinOp {
    /// Wrapping sum.
    Add,
    /// Wrapping difference.
    Sub,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Shift left by the right operand, of at most 8 bits; zeros come in. A shift by the width or more yields 0.
    Shl,
    /// Logical shift right, as [`BinOp::Shl`].
    Shr,
    /// Shift right that keeps the two's complement sign, as [`BinOp::Shl`]; by the width or more it yields 0 or -1.
    SignedShr,
    /// Saturating two's complement sum.
    SaturatingAdd,
    /// Equal; boolean.
    Eq,
    /// Not equal; boolean.
    Ne,
    /// Unsigned greater; boolean.
    Gt,
    /// Two's complement greater; boolean.
    SignedGt,
    /// Unsigned maximum; register actions only.
    Max,
    /// Two's complement minimum; register actions only.
    SignedMin,
    /// Two's complement maximum; register actions only.
    SignedMax,
    /// Both; boolean.
    Both,
    /// Either; boolean.
    Either,
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expr {
    /// A constant of a width.
    Const(u64, u32),
    /// A header field. Undefined when the header is absent.
    Field(HeaderId, u16),
    /// Metadata.
    Meta(MetaId),
    /// Parameter of the enclosing action.
    Param(u16),
    /// A value from the target.
    Intrinsic(Intrinsic),
    /// Whether a part is present; boolean.
    Valid(Part),
    /// Bitwise complement.
    Complement(Box<Expr>),
    /// Boolean negation.
    Not(Box<Expr>),
    /// Two operands.
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// Zero extension or truncation to a width.
    Cast(u32, Box<Expr>),
    /// The first operand above the second.
    Concat(Box<Expr>, Box<Expr>),
    /// Old value of a cell; register actions only.
    Cell(u8),
    /// New value of a cell; outputs only.
    NewCell(u8),
    /// The packet's lane; in lane register actions and in expressions over lanes.
    Lane,
    /// A lane variable; permitted where [`Expr::Lane`] is.
    LaneVar(LaneVarId),
    /// The result of a constant table; only as the whole value assigned to a lane variable.
    Lookup(LookupId, Box<Expr>),
    /// The second operand if the first, a boolean, is true, otherwise the third. Not in register actions.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Whether a boolean over [`Expr::Lane`] and [`Expr::LaneVar`] holds in any lane; boolean.
    AnyLane(Box<Expr>),
    /// A condition of the register action.
    Cond(u8),
}

macro_rules! binary {
    ($($(#[$meta:meta])* $name:ident => $op:ident),+ $(,)?) => {
        $($(#[$meta])* #[must_use] pub fn $name(self, other: impl Into<Self>) -> Self {
            Self::Binary(BinOp::$op, Box::new(self), Box::new(other.into()))
        })+
    };
}

impl Expr {
    binary! {
        /// Equal.
        eq => Eq,
        /// Not equal.
        ne => Ne,
        /// Unsigned greater.
        gt => Gt,
        /// Two's complement greater.
        signed_gt => SignedGt,
        /// Unsigned maximum.
        max => Max,
        /// Two's complement minimum.
        signed_min => SignedMin,
        /// Two's complement maximum.
        signed_max => SignedMax,
        /// Both hold.
        both => Both,
        /// Either holds.
        either => Either,
        /// Shift left.
        shifted_left => Shl,
        /// Logical shift right.
        shifted_right => Shr,
        /// Shift right that keeps the sign.
        signed_shifted_right => SignedShr,
        /// Two's complement saturating sum.
        saturating_add => SaturatingAdd,
    }

    /// `then` where this boolean holds, else `otherwise`.
    #[must_use]
    pub fn select(self, then: Self, otherwise: Self) -> Self {
        Self::Select(Box::new(self), Box::new(then), Box::new(otherwise))
    }

    /// The operands, if any.
    pub fn operands(&self) -> Vec<&Self> {
        match self {
            Self::Complement(inner)
            | Self::Not(inner)
            | Self::Cast(_, inner)
            | Self::Lookup(_, inner)
            | Self::AnyLane(inner) => vec![inner],
            Self::Binary(_, left, right) | Self::Concat(left, right) => vec![left, right],
            Self::Select(cond, then, otherwise) => vec![cond, then, otherwise],
            _ => vec![],
        }
    }

    /// Whether `leaf` occurs in this expression.
    pub(crate) fn mentions(&self, leaf: &Self) -> bool {
        self == leaf || self.operands().into_iter().any(|operand| operand.mentions(leaf))
    }

    /// Adds the header fields that occur in this expression.
    pub(crate) fn fields(&self, found: &mut std::collections::BTreeSet<(HeaderId, u16)>) {
        if let Self::Field(header, field) = self {
            found.insert((*header, *field));
        }
        self.operands().into_iter().for_each(|operand| operand.fields(found));
    }

    /// Zero extension or truncation.
    #[must_use]
    pub fn cast(self, bits: u32) -> Self {
        Self::Cast(bits, Box::new(self))
    }

    /// This value above `low`.
    #[must_use]
    pub fn concat(self, low: Self) -> Self {
        Self::Concat(Box::new(self), Box::new(low))
    }
}

impl ops::Not for Expr {
    type Output = Self;
    /// Boolean negation.
    fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $op:ident) => {
        impl ops::$trait for Expr {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                Self::Binary(BinOp::$op, Box::new(self), Box::new(other))
            }
        }
    };
}
operator!(Add, add, Add);
operator!(Sub, sub, Sub);
operator!(BitAnd, bitand, And);
operator!(BitOr, bitor, Or);
operator!(BitXor, bitxor, Xor);

impl LValue {
    /// The l-value as an expression.
    pub const fn value(self) -> Expr {
        match self {
            Self::Field(header, field) => Expr::Field(header, field),
            Self::Meta(meta) => Expr::Meta(meta),
        }
    }
}

impl Program {
    /// The header's fields.
    pub fn header(&self, id: HeaderId) -> &Header {
        &self.headers[usize::from(id.0)]
    }

    /// The field of a header.
    pub fn field(&self, header: HeaderId, field: u16) -> &Field {
        &self.header(header).fields[usize::from(field)]
    }

    /// The register.
    pub fn register(&self, id: RegisterId) -> &Register {
        &self.registers[usize::from(id.0)]
    }

    /// The action.
    pub fn action(&self, id: ActionId) -> &Action {
        &self.actions[usize::from(id.0)]
    }

    /// The table.
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[usize::from(id.0)]
    }

    /// Number of lanes; 0 without a lane vector.
    pub fn lane_count(&self) -> u32 {
        self.lanes.as_ref().map_or(0, |lanes| lanes.count)
    }

    /// Width of a lane in bits; [`LANE_BITS`] without a lane vector.
    pub fn lane_bits(&self) -> u32 {
        self.lanes.as_ref().map_or(LANE_BITS, |lanes| lanes.bits)
    }

    /// Length of the lane vector in bytes; 0 without one.
    pub fn lane_bytes(&self) -> u32 {
        self.lane_count() * self.lane_bits() / 8
    }

    /// The lane variable.
    pub fn lane_var(&self, id: LaneVarId) -> &Meta {
        &self.lane_vars[usize::from(id.0)]
    }

    /// The constant table.
    pub fn lookup(&self, id: LookupId) -> &Lookup {
        &self.lookups[usize::from(id.0)]
    }

    /// Fingerprint of the program: FNV-1a over the whole structure.
    pub fn fingerprint(&self) -> u64 {
        format!("{self:?}")
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

impl Register {
    /// The cells of an entry; of a lane register, the one of a lane.
    pub fn cells(&self) -> Vec<Field> {
        match &self.kind {
            RegisterKind::Cells(cells) => cells.clone(),
            RegisterKind::Lanes(bits) => vec![Field { name: "lane".into(), bits: *bits }],
        }
    }
}

impl Header {
    /// Length in bytes.
    pub fn len_bytes(&self) -> u32 {
        self.fields.iter().map(|field| field.bits).sum::<u32>() / 8
    }

    /// Offset of a field in bits from the start of the header.
    pub fn offset_bits(&self, field: u16) -> u32 {
        self.fields[..usize::from(field)].iter().map(|field| field.bits).sum()
    }
}
