//! A program that was read: names are resolved to numbers of fields, headers, tables and registers.

/// The width and the kind of a value; a number without a width takes that of the other operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Type {
    /// Bits; 0 for a number without a width.
    pub(crate) bits: u32,
    /// Two's complement.
    pub(crate) signed: bool,
}

impl Type {
    pub(crate) const fn unsigned(bits: u32) -> Self {
        Self { bits, signed: false }
    }
}

/// A variable: a header field, metadata, a parameter or a variable of an action.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// The header that it is in.
    pub(crate) header: Option<usize>,
}

/// A header: its fields are consecutive.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// The fields, headers and code of ingress or egress.
#[derive(Debug, Default)]
pub(crate) struct Gress {
    pub(crate) fields: Vec<Field>,
    pub(crate) headers: Vec<Header>,
    /// The first is the start.
    pub(crate) states: Vec<State>,
    pub(crate) tables: Vec<Table>,
    pub(crate) actions: Vec<Action>,
    pub(crate) register_actions: Vec<RegisterAction>,
    pub(crate) apply: Vec<Stmt>,
    pub(crate) deparser: Vec<Stmt>,
}

/// A parser state.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) name: String,
    pub(crate) body: Vec<Stmt>,
    pub(crate) on: Vec<Expr>,
    /// Value and mask of each key, and the target; the default has no keys.
    pub(crate) cases: Vec<(Vec<(u64, u64)>, String)>,
}

/// A key of a table.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) value: Expr,
    pub(crate) bits: u32,
    /// The number that control planes use.
    pub(crate) id: u32,
    pub(crate) exact: bool,
}

/// An entry: value and mask of each key, action and arguments.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Vec<(u64, u64)>,
    pub(crate) action: usize,
    pub(crate) arguments: Vec<u64>,
}

/// A table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// P4Info id; 0 for one that control planes do not see.
    pub(crate) id: u32,
    pub(crate) keys: Vec<Key>,
    pub(crate) actions: Vec<usize>,
    pub(crate) default: (usize, Vec<u64>),
    pub(crate) size: usize,
    /// Constant entries, in the order of precedence.
    pub(crate) entries: Vec<Entry>,
}

/// An action.
#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) name: String,
    /// P4Info id; 0 for one that control planes do not see.
    pub(crate) id: u32,
    pub(crate) parameters: Vec<usize>,
    pub(crate) body: Vec<Stmt>,
}

/// A register: its cells by name and width.
#[derive(Debug, Clone)]
pub(crate) struct Register {
    pub(crate) name: String,
    pub(crate) cells: Vec<Type>,
    pub(crate) size: usize,
}

/// A register action, in terms of fields that stand for its parameters.
#[derive(Debug, Clone)]
pub(crate) struct RegisterAction {
    pub(crate) register: usize,
    pub(crate) name: String,
    pub(crate) cells: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) body: Vec<Stmt>,
}

/// A counter.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    pub(crate) id: u32,
    pub(crate) size: usize,
}

/// What is assigned: bits `low` to `high` of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) field: usize,
    pub(crate) high: u32,
    pub(crate) low: u32,
}

/// A statement.
#[derive(Debug, Clone)]
pub(crate) enum Stmt {
    Assign(Place, Expr),
    SetValid(usize, bool),
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    Apply(usize),
    Run(usize),
    Count(usize, Expr),
    /// A register action: its number, the index, and the targets of its outputs.
    Execute(usize, Expr, Vec<Place>),
    Extract(usize),
    Emit(usize),
    /// Adds a header to a checksum.
    Sum(usize),
}

/// Operators of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Sub,
    SaturatingAdd,
    And,
    Or,
    Xor,
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
    Both,
    Either,
    Min,
    Max,
}

/// An expression with its type.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) ty: Type,
    pub(crate) kind: Kind,
}

/// An expression.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Const(u64),
    Field(usize),
    Slice(Box<Expr>, u32),
    Valid(usize),
    Not(Box<Expr>),
    Complement(Box<Expr>),
    Cast(Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>),
    /// Whether the headers that were added have a wrong checksum.
    Verify,
    /// The checksum of fields.
    Update(Vec<usize>),
}

/// The whole program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) ingress: Gress,
    pub(crate) egress: Gress,
    pub(crate) registers: Vec<Register>,
    pub(crate) counters: Vec<Counter>,
}

/// A number with this many ones.
pub(crate) const fn ones(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
