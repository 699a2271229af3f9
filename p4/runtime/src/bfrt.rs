//! The messages of `bfrt_proto`, as far as the driver uses them.

pub use crate::proto::bfrt_proto::*;

pub use data_field::{BoolArray, IntArray, Value as DataValue};
pub use entity::Entity as EntityKind;
pub use forwarding_pipeline_config::Profile as PipelineProfile;
pub use key_field::{Exact, MatchType as KeyMatch, Ternary};
pub use set_forwarding_pipeline_config_request::Action as PipelineAction;
pub use subscribe::Notifications;
pub use update::Type as UpdateType;
