//! The row of docs/connection-errors.md of NCCL: what the plugin writes to NCCL's log when `connect` fails.

use std::path::Path;
use std::time::Duration;

use netfold_connect_errors::{Answer, Client, Ports, Row};

use crate::parent::Ranks;

/// Ranks of a group.
const WORLD: usize = 2;

/// Every rank's `connect` fails in time, with the same message.
pub(crate) fn scenario(plugin: &Path) {
    let ports = Ports::start();
    let row = Row::of(Client::Nccl, |mistake| {
        let target = ports.worker(mistake);
        let mut variables = vec![
            ("NETFOLD_CONTROLLER".to_owned(), target.address.clone()),
            ("NETFOLD_TENANT".to_owned(), target.tenant.clone()),
            ("NETFOLD_TOKEN".to_owned(), target.token.clone()),
        ];
        variables.extend(target.ca.iter().map(|file| ("NETFOLD_CA".to_owned(), file.clone())));
        let outcome = Ranks::start(plugin, "refusal", 12, WORLD, |_| variables.clone()).run(|| ());
        assert_eq!(outcome.codes, [Some(0); WORLD], "{:?}", outcome.lines);
        let answers: Vec<Answer> = outcome.lines.iter().map(|lines| answer(lines)).collect();
        assert!(answers.iter().all(|answer| answer.message == answers[0].message), "{answers:?}");
        let took = answers.iter().map(|answer| answer.took).max().unwrap();
        (target, Answer { message: answers[0].message.clone(), took })
    });
    row.check();
}

/// What a rank of the scenario "refusal" reports: the code, the time and the last line of NCCL's log.
fn answer(lines: &[String]) -> Answer {
    let parsed = lines.iter().find_map(|line| {
        let (seconds, message) =
            line.strip_prefix("connect returned ")?.split_once(" after ")?.1.split_once(" s: ")?;
        Some(Answer { message: message.to_owned(), took: Duration::from_secs_f64(seconds.parse().ok()?) })
    });
    parsed.unwrap_or_else(|| panic!("{lines:?}"))
}
