//! The messages of other packages that P4Runtime refers to, and canonical status codes.

/// A message of any type (`google.protobuf.Any`).
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Any {
    /// Address of the type; what follows the last `/` is its full name.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The serialised message.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

impl Any {
    /// Packs a message of the type `name`, as in `p4.v1.Error`.
    pub fn pack(name: &str, message: &impl prost::Message) -> Self {
        Self { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() }
    }

    /// Unpacks a message of the type `name`; `None` when this holds another type.
    ///
    /// # Errors
    ///
    /// When the bytes are not a message of that type.
    pub fn unpack<M: prost::Message + Default>(&self, name: &str) -> Option<Result<M, prost::DecodeError>> {
        let (_, held) = self.type_url.rsplit_once('/')?;
        (held == name).then(|| M::decode(self.value.as_slice()))
    }
}

/// Outcome of a call (`google.rpc.Status`).
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Status {
    /// A [`Code`] as its number.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// For people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// More about it, for programs.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// Canonical status codes (`google.rpc.Code`), the same in gRPC's status and in each update's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Code {
    /// No error.
    Ok = 0,
    /// The caller gave up.
    Cancelled = 1,
    /// No better code; of a Write: see the errors of its updates.
    Unknown = 2,
    /// The request makes no sense, whatever the state of the switch.
    InvalidArgument = 3,
    /// Too late.
    DeadlineExceeded = 4,
    /// What the request names does not exist.
    NotFound = 5,
    /// What the request would create exists.
    AlreadyExists = 6,
    /// The caller may not do that, for instance because it is not the primary controller.
    PermissionDenied = 7,
    /// A table or another store is full.
    ResourceExhausted = 8,
    /// Not in this state, for instance before a pipeline was pushed.
    FailedPrecondition = 9,
    /// Another request was in the way.
    Aborted = 10,
    /// A number does not fit its field.
    OutOfRange = 11,
    /// The switch does not offer that.
    Unimplemented = 12,
    /// A defect of the switch.
    Internal = 13,
    /// Not now.
    Unavailable = 14,
    /// State is lost.
    DataLoss = 15,
    /// The caller has not said who it is.
    Unauthenticated = 16,
}

impl Code {
    /// The name in the specification, as in `NOT_FOUND`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}
