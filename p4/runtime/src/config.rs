//! The messages of `p4.config.v1`: P4Info, the description of a pipeline for control planes.

pub use crate::proto::p4::config::v1::*;

pub use match_field::{Match, MatchType};
