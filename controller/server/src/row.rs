//! A record as bytes: a version, then JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of rows that this build writes. Fields added later have defaults, so that older rows can be read.
const VERSION: u8 = 1;

/// Why a row cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RowError {
    #[error("a row has version {0:?}; this build reads version {VERSION}")]
    Version(Option<u8>),
    #[error("a row is no record of this build: a build of another version wrote it, or it is damaged")]
    Json(#[from] serde_json::Error),
}

pub(crate) fn encode(record: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    serde_json::to_writer(&mut bytes, record)
        .expect("records are plain structs, and writing to memory does not fail");
    bytes
}

pub(crate) fn decode<R: DeserializeOwned>(bytes: &[u8]) -> Result<R, RowError> {
    match bytes.split_first() {
        Some((&VERSION, json)) => Ok(serde_json::from_slice(json)?),
        other => Err(RowError::Version(other.map(|(version, _)| *version))),
    }
}
