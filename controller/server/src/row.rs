//! A record as bytes: a version, then JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of rows that this build writes. Fields that come later have defaults, so that older rows of it can be read.
const VERSION: u8 = 1;

/// Why a row is not a record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RowError {
    #[error("a row has version {0:?}, and this build knows {VERSION}")]
    Version(Option<u8>),
    #[error("a row is not what it should be")]
    Json(#[from] serde_json::Error),
}

pub(crate) fn encode(record: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    serde_json::to_writer(&mut bytes, record).expect("records are plain structs, and memory takes all bytes");
    bytes
}

pub(crate) fn decode<R: DeserializeOwned>(bytes: &[u8]) -> Result<R, RowError> {
    match bytes.split_first() {
        Some((&VERSION, json)) => Ok(serde_json::from_slice(json)?),
        other => Err(RowError::Version(other.map(|(version, _)| *version))),
    }
}
