//! What a target cannot do.

use crate::check::CheckError;

/// A construct or an amount that a target cannot realise, and the limit that it meets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[error("{target} cannot run this program: {construct}: {limit}")]
pub struct Refusal {
    /// The target.
    pub target: &'static str,
    /// What the program asks for.
    pub construct: String,
    /// What the target has.
    pub limit: String,
}

/// Why a back end prints nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrintError {
    /// The program is not valid on any target.
    #[error(transparent)]
    Invalid(#[from] CheckError),
    /// The program is valid but not for this target.
    #[error(transparent)]
    Refused(#[from] Refusal),
}
