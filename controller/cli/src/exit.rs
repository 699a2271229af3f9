//! Exit codes. `docs/operations.md` has the same table.

use std::process::ExitCode;

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked to do.
    Success = 0,
    /// It failed, or found that something is not as it must be.
    Failure = 1,
    /// Its arguments are invalid.
    Usage = 2,
    /// It was ended by SIGINT or SIGTERM.
    Interrupted = 130,
}

impl Exit {
    /// The process's exit status.
    pub(crate) fn status(self) -> i32 {
        self as i32
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;

    use super::*;
    use crate::error::CliError;

    /// One failure of each kind of exit, with the kind that it is documented with.
    fn failures() -> Vec<(CliError, Exit)> {
        let argument = netfold::Error::Missing("rank");
        let pipe = io::Error::from(io::ErrorKind::BrokenPipe);
        vec![
            (CliError::Usage("wrong".into()), Exit::Usage),
            (CliError::Profile("none".into()), Exit::Usage),
            (CliError::Job { rank: 0, source: argument }, Exit::Usage),
            (CliError::Interrupted, Exit::Interrupted),
            (CliError::Output(pipe), Exit::Success),
            (CliError::SwitchPanicked, Exit::Failure),
            (CliError::Wrong { wrong: 1 }, Exit::Failure),
            #[cfg(feature = "testbed")]
            (CliError::Corrupted { wrong: 1 }, Exit::Failure),
            (CliError::Disagrees, Exit::Failure),
        ]
    }

    /// The rows of the page's table: the code, and what else the row says.
    fn documented() -> BTreeMap<i32, &'static str> {
        let page = include_str!("../../../docs/operations.md");
        let section = page.split("\n## Exit codes\n").nth(1).unwrap().split("\n## ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        rows.filter_map(|(code, rest)| Some((code.parse().ok()?, rest))).collect()
    }

    #[test]
    fn the_documented_exit_codes_are_those_of_the_code() {
        let documented = documented();
        let all = [Exit::Success, Exit::Failure, Exit::Usage, Exit::Interrupted];
        assert!(documented.keys().copied().eq(all.map(Exit::status)), "{documented:?}");
        for (error, exit) in failures() {
            assert_eq!(error.exit(), exit, "{error}");
            // Codes 2 and 130 name their kinds; 1 is for all others.
            let named = documented[&exit.status()].contains(&format!("`{}`", error.kind()));
            assert_eq!(named, matches!(exit, Exit::Usage | Exit::Interrupted), "{error}");
        }
    }
}
