//! What cargo says about the workspace.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process;

/// The workspace and its own packages.
pub(crate) fn metadata() -> Result<serde_json::Value> {
    let output = process::cargo(&["metadata", "--format-version", "1", "--no-deps"]).output()?;
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}

/// Where cargo builds.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let folder = metadata()?["target_directory"].as_str().map(PathBuf::from);
    folder.context("cargo metadata names no target folder")
}
