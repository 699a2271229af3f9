//! Programs as JSON, the form in which a switch receives programs that are not built in.

use serde::{Deserialize, Serialize};

use crate::check::{CheckError, check};
use crate::ir::Program;

/// Version of the format; it changes with the IR.
pub const FORMAT: u32 = 1;

/// Maximum length of a program, in bytes.
pub const BYTES_MAX: usize = 16 << 20;

/// Error of a text that is no program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// Longer than [`BYTES_MAX`].
    #[error("{len} bytes; a program has at most {most}")]
    Length {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        most: usize,
    },
    /// Not JSON, or not the JSON of a program.
    #[error("not the JSON of a program")]
    Syntax(#[from] serde_json::Error),
    /// Written for another version of the IR.
    #[error("format {0} is not {FORMAT}; print the program again with this version")]
    Format(u32),
    /// The program is not valid.
    #[error("the program is not valid")]
    Check(#[from] CheckError),
}

#[derive(Serialize)]
struct Written<'p> {
    netfold_ir: u32,
    program: &'p Program,
}

#[derive(Deserialize)]
struct Format {
    netfold_ir: u32,
}

#[derive(Deserialize)]
struct Read {
    program: Program,
}

impl Program {
    /// The program as JSON, one line, which [`Self::from_json`] reads back. Deterministic.
    pub fn to_json(&self) -> String {
        let written = Written { netfold_ir: FORMAT, program: self };
        serde_json::to_string(&written).expect("programs have no maps and no floats")
    }

    /// Reads and validates a program. Expressions and statements may nest some 40 deep.
    ///
    /// # Errors
    ///
    /// See [`JsonError`]. No text causes a panic, or memory use out of proportion to its length.
    pub fn from_json(text: &[u8]) -> Result<Self, JsonError> {
        if text.len() > BYTES_MAX {
            return Err(JsonError::Length { len: text.len(), most: BYTES_MAX });
        }
        let Format { netfold_ir } = serde_json::from_slice(text)?;
        if netfold_ir != FORMAT {
            return Err(JsonError::Format(netfold_ir));
        }
        let Read { program } = serde_json::from_slice(text)?;
        check(&program)?;
        Ok(program)
    }
}
