//! What a check found, and what to do about it.

use std::fmt;

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A job runs, and is slower than it could be or hard to diagnose.
    Warning,
    /// A job does not start, or fails.
    Error,
}

impl Severity {
    /// The name in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something that is not as a job needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was checked: a stable name, listed in `docs/check.md`.
    pub check: &'static str,
    /// What it is about: this host, an interface, a switch, a rank or the link of two ranks.
    pub subject: String,
    /// What was measured, with its unit.
    pub measured: String,
    /// What it should be.
    pub limit: String,
    /// What to do: where there is one, a command to run.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, check, subject, measured, limit, .. } = self;
        write!(f, "{} {check}: {subject}: {measured} (limit: {limit})", severity.name())
    }
}

/// A number of bits a second, with a unit.
pub(crate) fn bits(rate: f64) -> String {
    match rate {
        _ if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        _ if rate >= 1e6 => format!("{:.1} Mbit/s", rate / 1e6),
        _ => format!("{:.1} kbit/s", rate / 1e3),
    }
}

/// A fraction in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}
