//! Values of P4 types: registers and digests.

/// A value of any P4 type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4Data {
    /// The value.
    #[prost(oneof = "Data", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub data: Option<Data>,
}

/// A value by the kind of its type.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Data {
    /// `bit<W>` or `int<W>`: a bytestring.
    #[prost(bytes, tag = "1")]
    Bitstring(Vec<u8>),
    /// `varbit<W>`.
    #[prost(message, tag = "2")]
    Varbit(P4Varbit),
    /// `bool`.
    #[prost(bool, tag = "3")]
    Bool(bool),
    /// A tuple.
    #[prost(message, tag = "4")]
    Tuple(P4StructLike),
    /// A struct.
    #[prost(message, tag = "5")]
    Struct(P4StructLike),
    /// A header.
    #[prost(message, tag = "6")]
    Header(P4Header),
    /// A header union.
    #[prost(message, tag = "7")]
    HeaderUnion(P4HeaderUnion),
    /// A header stack.
    #[prost(message, tag = "8")]
    HeaderStack(P4HeaderStack),
    /// A stack of header unions.
    #[prost(message, tag = "9")]
    HeaderUnionStack(P4HeaderUnionStack),
    /// A member of an enumeration without values.
    #[prost(string, tag = "10")]
    Enum(String),
    /// An error.
    #[prost(string, tag = "11")]
    Error(String),
    /// A value of an enumeration with values: a bytestring.
    #[prost(bytes, tag = "12")]
    EnumValue(Vec<u8>),
}

/// A bit string of a length that the packet decides.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4Varbit {
    /// The bits.
    #[prost(bytes = "vec", tag = "1")]
    pub bitstring: Vec<u8>,
    /// How many there are.
    #[prost(int32, tag = "2")]
    pub bitwidth: i32,
}

/// Members of a struct or a tuple, in order.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4StructLike {
    /// The members.
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<P4Data>,
}

/// A header.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4Header {
    /// Whether it is there.
    #[prost(bool, tag = "1")]
    pub is_valid: bool,
    /// Its fields, in order, if it is.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub bitstrings: Vec<Vec<u8>>,
}

/// One of several headers.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4HeaderUnion {
    /// Which is there; empty when none is.
    #[prost(string, tag = "1")]
    pub valid_header_name: String,
    /// That header.
    #[prost(message, optional, tag = "2")]
    pub valid_header: Option<P4Header>,
}

/// An array of headers.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4HeaderStack {
    /// All of them, there or not.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<P4Header>,
}

/// An array of header unions.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4HeaderUnionStack {
    /// All of them.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<P4HeaderUnion>,
}
