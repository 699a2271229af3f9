//! The messages of `p4.v1`: calls, the entities they write and read, and the stream.

pub use crate::proto::p4::v1::*;

pub use action::Param;
pub use digest_entry::Config as DigestConfig;
pub use entity::Entity as EntityKind;
pub use field_match::{Exact, FieldMatchType, Lpm, Optional as OptionalMatch, Range, Ternary};
pub use forwarding_pipeline_config::Cookie;
pub use get_forwarding_pipeline_config_request::ResponseType;
pub use p4_data::Data;
pub use packet_replication_engine_entry::Type as Replication;
pub use replica::PortKind;
pub use set_forwarding_pipeline_config_request::Action as PipelineAction;
pub use stream_error::Details as StreamErrorDetails;
pub use stream_message_request::Update as StreamRequest;
pub use stream_message_response::Update as StreamResponse;
pub use table_action::Type as TableActionType;
pub use update::Type as UpdateType;
pub use write_request::Atomicity;

impl From<EntityKind> for Entity {
    fn from(kind: EntityKind) -> Self {
        Self { entity: Some(kind) }
    }
}

impl From<u128> for Uint128 {
    fn from(value: u128) -> Self {
        Self { high: (value >> 64) as u64, low: value as u64 }
    }
}

impl From<Uint128> for u128 {
    fn from(value: Uint128) -> Self {
        Self::from(value.high) << 64 | Self::from(value.low)
    }
}
