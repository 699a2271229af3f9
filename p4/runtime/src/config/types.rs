//! Types of a pipeline.

use std::collections::BTreeMap;

/// Types by name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4TypeInfo {
    /// Structs.
    #[prost(btree_map = "string, message", tag = "1")]
    pub structs: BTreeMap<String, P4StructTypeSpec>,
    /// Headers.
    #[prost(btree_map = "string, message", tag = "2")]
    pub headers: BTreeMap<String, P4HeaderTypeSpec>,
    /// Header unions.
    #[prost(btree_map = "string, message", tag = "3")]
    pub header_unions: BTreeMap<String, P4HeaderUnionTypeSpec>,
    /// Enumerations without values.
    #[prost(btree_map = "string, message", tag = "4")]
    pub enums: BTreeMap<String, P4EnumTypeSpec>,
    /// Errors.
    #[prost(message, optional, tag = "5")]
    pub error: Option<P4ErrorTypeSpec>,
    /// Enumerations with values.
    #[prost(btree_map = "string, message", tag = "6")]
    pub serializable_enums: BTreeMap<String, P4SerializableEnumTypeSpec>,
    /// Types made by `type`.
    #[prost(btree_map = "string, message", tag = "7")]
    pub new_types: BTreeMap<String, P4NewTypeSpec>,
}

/// A type of values that are sent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4DataTypeSpec {
    /// The type.
    #[prost(oneof = "DataType", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub type_spec: Option<DataType>,
}

/// Kinds of types.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum DataType {
    /// `bit`, `int` or `varbit`.
    #[prost(message, tag = "1")]
    Bitstring(P4BitstringLikeTypeSpec),
    /// `bool`.
    #[prost(message, tag = "2")]
    Bool(P4BoolType),
    /// A tuple.
    #[prost(message, tag = "3")]
    Tuple(P4TupleTypeSpec),
    /// A struct, by name.
    #[prost(message, tag = "4")]
    Struct(P4NamedType),
    /// A header, by name.
    #[prost(message, tag = "5")]
    Header(P4NamedType),
    /// A header union, by name.
    #[prost(message, tag = "6")]
    HeaderUnion(P4NamedType),
    /// A header stack.
    #[prost(message, tag = "7")]
    HeaderStack(P4HeaderStackTypeSpec),
    /// A stack of header unions.
    #[prost(message, tag = "8")]
    HeaderUnionStack(P4HeaderUnionStackTypeSpec),
    /// An enumeration without values, by name.
    #[prost(message, tag = "9")]
    Enum(P4NamedType),
    /// `error`.
    #[prost(message, tag = "10")]
    Error(P4ErrorType),
    /// An enumeration with values, by name.
    #[prost(message, tag = "11")]
    SerializableEnum(P4NamedType),
    /// A type made by `type`, by name.
    #[prost(message, tag = "12")]
    NewType(P4NamedType),
}

/// A type by its name.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4NamedType {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// `bool`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct P4BoolType {}

/// `error`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct P4ErrorType {}

/// `bit`, `int` or `varbit`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4BitstringLikeTypeSpec {
    /// Which of the three.
    #[prost(oneof = "BitstringType", tags = "1, 2, 3")]
    pub type_spec: Option<BitstringType>,
    /// Annotations.
    #[prost(string, repeated, tag = "4")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "5")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "6")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// Types of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Oneof)]
pub enum BitstringType {
    /// `bit<W>`.
    #[prost(message, tag = "1")]
    Bit(P4BitTypeSpec),
    /// `int<W>`.
    #[prost(message, tag = "2")]
    Int(P4IntTypeSpec),
    /// `varbit<W>`.
    #[prost(message, tag = "3")]
    Varbit(P4VarbitTypeSpec),
}

/// `bit<W>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct P4BitTypeSpec {
    /// Width in bits.
    #[prost(int32, tag = "1")]
    pub bitwidth: i32,
}

/// `int<W>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct P4IntTypeSpec {
    /// Width in bits.
    #[prost(int32, tag = "1")]
    pub bitwidth: i32,
}

/// `varbit<W>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct P4VarbitTypeSpec {
    /// Greatest width in bits.
    #[prost(int32, tag = "1")]
    pub max_bitwidth: i32,
}

/// A tuple.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4TupleTypeSpec {
    /// Types of its members.
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<P4DataTypeSpec>,
}

/// A struct.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4StructTypeSpec {
    /// Its members.
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<StructMember>,
    /// Annotations.
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "3")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A member of a struct.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StructMember {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type.
    #[prost(message, optional, tag = "2")]
    pub type_spec: Option<P4DataTypeSpec>,
}

/// A header.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderTypeSpec {
    /// Its fields.
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<HeaderMember>,
    /// Annotations.
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "3")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A field of a header.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderMember {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type.
    #[prost(message, optional, tag = "2")]
    pub type_spec: Option<P4BitstringLikeTypeSpec>,
}

/// A header union.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderUnionTypeSpec {
    /// Its headers.
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<UnionMember>,
    /// Annotations.
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "3")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A header of a union.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct UnionMember {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type.
    #[prost(message, optional, tag = "2")]
    pub header: Option<P4NamedType>,
}

/// A header stack.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4HeaderStackTypeSpec {
    /// Type of its headers.
    #[prost(message, optional, tag = "1")]
    pub header: Option<P4NamedType>,
    /// How many there are.
    #[prost(int32, tag = "2")]
    pub size: i32,
}

/// A stack of header unions.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4HeaderUnionStackTypeSpec {
    /// Type of its unions.
    #[prost(message, optional, tag = "1")]
    pub header_union: Option<P4NamedType>,
    /// How many there are.
    #[prost(int32, tag = "2")]
    pub size: i32,
}

/// A name and a value.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct KeyValuePair {
    /// Name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<Expression>,
}

/// Names and values.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct KeyValuePairList {
    /// The pairs.
    #[prost(message, repeated, tag = "1")]
    pub kv_pairs: Vec<KeyValuePair>,
}

/// A constant in an annotation.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Expression {
    /// Its value.
    #[prost(oneof = "ExpressionValue", tags = "1, 2, 3")]
    pub value: Option<ExpressionValue>,
}

/// Kinds of constants in annotations.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub enum ExpressionValue {
    /// Text.
    #[prost(string, tag = "1")]
    String(String),
    /// A number.
    #[prost(int64, tag = "2")]
    Int64(i64),
    /// True or false.
    #[prost(bool, tag = "3")]
    Bool(bool),
}

/// Constants in an annotation.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ExpressionList {
    /// The constants.
    #[prost(message, repeated, tag = "1")]
    pub expressions: Vec<Expression>,
}

/// An annotation with structure.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct StructuredAnnotation {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What stands in its brackets.
    #[prost(oneof = "AnnotationBody", tags = "2, 3")]
    pub body: Option<AnnotationBody>,
    /// Where it stands.
    #[prost(message, optional, tag = "4")]
    pub source_location: Option<SourceLocation>,
}

/// What stands in the brackets of an annotation.
#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
pub enum AnnotationBody {
    /// Constants.
    #[prost(message, tag = "2")]
    ExpressionList(ExpressionList),
    /// Names and values.
    #[prost(message, tag = "3")]
    KvPairList(KeyValuePairList),
}

/// A place in the program's text.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct SourceLocation {
    /// File.
    #[prost(string, tag = "1")]
    pub file: String,
    /// Line, from 1.
    #[prost(int32, tag = "2")]
    pub line: i32,
    /// Column, from 1.
    #[prost(int32, tag = "3")]
    pub column: i32,
}

/// An enumeration without values.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4EnumTypeSpec {
    /// Its members.
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<EnumMember>,
    /// Annotations.
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "4")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "3")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A member of an enumeration without values.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct EnumMember {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Annotations.
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "4")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "3")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// An enumeration with values.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4SerializableEnumTypeSpec {
    /// Type of the values.
    #[prost(message, optional, tag = "1")]
    pub underlying_type: Option<P4BitTypeSpec>,
    /// Its members.
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<SerializableEnumMember>,
    /// Annotations.
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "5")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A member of an enumeration with values.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct SerializableEnumMember {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Value, a bytestring.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// Annotations.
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "5")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// Errors.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4ErrorTypeSpec {
    /// Their names.
    #[prost(string, repeated, tag = "1")]
    pub members: Vec<String>,
}

/// How the values of a type look to the controller.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct P4NewTypeTranslation {
    /// Which translation.
    #[prost(string, tag = "1")]
    pub uri: String,
    /// The controller's type.
    #[prost(oneof = "SdnType", tags = "2, 3")]
    pub sdn_type: Option<SdnType>,
}

/// The controller's type of a translated value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Oneof)]
pub enum SdnType {
    /// A number of so many bits.
    #[prost(int32, tag = "2")]
    Bitwidth(i32),
    /// Text.
    #[prost(message, tag = "3")]
    String(SdnString),
}

/// Text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct SdnString {}

/// A type made by `type`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4NewTypeSpec {
    /// What it stands for.
    #[prost(oneof = "Representation", tags = "1, 2")]
    pub representation: Option<Representation>,
    /// Annotations.
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    /// Where the annotations stand.
    #[prost(message, repeated, tag = "5")]
    pub annotation_locations: Vec<SourceLocation>,
    /// Annotations with structure.
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// What a type made by `type` stands for.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Representation {
    /// Another type.
    #[prost(message, tag = "1")]
    Original(P4DataTypeSpec),
    /// A type of the controller's.
    #[prost(message, tag = "2")]
    Translated(P4NewTypeTranslation),
}
