//! Every test there is, and one total.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::process::{cargo, heading, run_reading};
use crate::{clients, fuzz, packages, tidy};

/// Install what the tests need, then run every test, a bounded fuzz run and `tidy`; end with a total
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Seconds for each fuzz target
    #[arg(long, default_value_t = fuzz::SECONDS)]
    fuzz_seconds: u64,
    /// Leave the fuzz run out
    #[arg(long)]
    no_fuzz: bool,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { fuzz_seconds: fuzz::SECONDS, no_fuzz: false }
    }
}

/// The packages that are empty without DPDK, with it.
pub(crate) const DPDK_PACKAGES: &[&str] =
    &["-p", "netfold-dpdk-sys", "-p", "netfold-dpdk", "--features", "netfold-dpdk/dpdk"];

/// The command with DPDK: what it does with a device, among the tests of the workspace, so that nothing else is built again.
const DPDK_COMMAND: &[&str] =
    &["test", "--workspace", "--features", "netfold-cli/dpdk", "--test", "command", "--", "dpdk"];

/// What the summaries of all test programs add up to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Total {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Runs everything, also after a failure, and fails at the end if anything did.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    let mut total = Total::default();
    let mut problems = Vec::new();

    heading("unit, integration and documentation tests");
    packages::frameworks()?;
    packages::say_optional();
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
    tests.envs(clients::interpreters()?);
    let fuzzers = (!arguments.no_fuzz).then(fuzz::Fuzzers::start);
    let tests = run_reading(&mut tests, |line| total.add(line));
    problems.extend(tests.err());

    heading("DPDK");
    if packages::dpdk()? {
        let mut tests = cargo(&["test", "--no-fail-fast"]);
        tests.args(DPDK_PACKAGES);
        problems.extend(run_reading(&mut tests, |line| total.add(line)).err());
        problems.extend(run_reading(&mut cargo(DPDK_COMMAND), |line| total.add(line)).err());
    } else {
        println!("skipped: the tests of `netfold-dpdk`, which need DPDK and libclang");
    }

    if let Some(fuzzers) = fuzzers {
        match fuzzers.and_then(fuzz::Building::wait) {
            Ok(fuzzers) => fuzz::TARGETS
                .iter()
                .for_each(|target| total.count(fuzzers.run(target, arguments.fuzz_seconds), &mut problems)),
            Err(problem) => total.count(Err(problem), &mut problems),
        }
    }
    for (name, check) in tidy::CHECKS {
        total.count(tidy::run_check(name, *check), &mut problems);
    }

    heading("result");
    for problem in &problems {
        println!("{problem:#}");
    }
    println!("took {:.0} s", started.elapsed().as_secs_f64());
    println!("{} passed, {} failed, {} ignored", total.passed, total.failed, total.ignored);
    if !problems.is_empty() || total.failed > 0 {
        bail!("tests failed");
    }
    if total.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

impl Total {
    /// Adds a line of test output if it is a test program's summary.
    fn add(&mut self, line: &str) {
        let Some(summary) = line.strip_prefix("test result: ") else { return };
        let Some((_, counts)) = summary.split_once(". ") else { return };
        for part in counts.split(';') {
            let mut words = part.split_whitespace();
            let Some(count) = words.next().and_then(|word| word.parse::<u64>().ok()) else { continue };
            match words.next() {
                Some("passed") => self.passed += count,
                Some("failed") => self.failed += count,
                Some("ignored") => self.ignored += count,
                _ => {}
            }
        }
    }

    /// Counts one check of this program as a test.
    fn count(&mut self, result: Result<()>, problems: &mut Vec<anyhow::Error>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(problem) => {
                self.failed += 1;
                problems.push(problem);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_add_up() {
        let mut total = Total::default();
        total.add(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.10s",
        );
        total.add("test tests::result: 9 passed ... ok");
        total.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s");
        assert_eq!(total, Total { passed: 15, failed: 2, ignored: 1 });
    }
}
