//! The messages of other packages that P4Runtime refers to, and canonical status codes.

pub use crate::proto::google::protobuf::Any;
pub use crate::proto::google::rpc::{Code, Status};

impl Any {
    /// Packs a message with its type.
    pub fn pack<M: prost::Name>(message: &M) -> Self {
        Self { type_url: M::type_url(), value: message.encode_to_vec() }
    }

    /// Unpacks a message; `None` when this holds another type.
    ///
    /// # Errors
    ///
    /// When the bytes are not a message of that type.
    pub fn unpack<M: prost::Name + Default>(&self) -> Option<Result<M, prost::DecodeError>> {
        let (_, name) = self.type_url.rsplit_once('/')?;
        (name == M::full_name()).then(|| M::decode(self.value.as_slice()))
    }
}
