//! Every test there is, and one total.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};

use crate::executables::Built;
use crate::process::heading;
use crate::{clients, executables, fuzz, metadata, packages, tidy};

/// Run every test, a bounded fuzz run and `tidy`; end with a total
#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// Seconds for each fuzz target; 6, or 60 with --long
    #[arg(long)]
    fuzz_seconds: Option<u64>,
    /// Leave the fuzz run out
    #[arg(long)]
    no_fuzz: bool,
    /// Test executables to run at a time; by default one more than there are processors, since most of them wait most of the time
    #[arg(long)]
    jobs: Option<usize>,
    /// Have clippy and rustdoc check what is built, with warnings denied
    #[arg(long)]
    lint: bool,
    /// Run the full numbers of seeds and cases, and simulate every experiment again
    #[arg(long)]
    long: bool,
    /// First seed of the simulations; 0 unless given, so that every run plays the same. Property tests draw new seeds in every run
    #[arg(long, value_name = "SEED")]
    first_seed: Option<u64>,
}

impl Arguments {
    /// What CI runs.
    pub(crate) fn of_ci() -> Self {
        Self { lint: true, ..Self::default() }
    }
}

/// What the summaries of all test programs add up to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Runs everything, also after a failure, and fails at the end if anything did. `fuzzers` are fuzz targets that are being built already.
pub(crate) fn run(arguments: &Arguments, fuzzers: Option<Result<fuzz::Building>>) -> Result<()> {
    let started = Instant::now();
    let mut total = Total::default();
    let mut problems = Vec::new();

    heading("unit and integration tests");
    packages::name_missing();
    let fuzzers = fuzzers.or_else(|| (!arguments.no_fuzz).then(fuzz::Fuzzers::start));
    // Mostly waits for downloads, so beside the build.
    let interpreters = thread::spawn(clients::interpreters);
    let workspace = packages::workspace();
    let mut times = Vec::new();
    let documentation = executables::documentation(arguments.lint)?;
    match executables::build(&workspace, arguments.lint) {
        Ok(Built { mut executables, warnings }) => {
            executables.push(documentation);
            if arguments.lint && warnings > 0 {
                problems.push(anyhow!("the compiler and clippy have printed {warnings} warnings"));
            }
            let logs = metadata::target_folder()?.join("test-logs");
            let jobs = arguments.jobs.unwrap_or_else(jobs);
            let interpreters =
                interpreters.join().map_err(|_| anyhow!("the Python clients' setup panicked"))??;
            let mut variables = variables(arguments, interpreters);
            // Several executables have the same programs compiled.
            variables.push(("NETFOLD_P4C_CACHE", metadata::target_folder()?.join("p4c")));
            executables::run(executables, jobs, &variables, &logs, |finished| {
                println!("{}", finished.output.trim_end());
                finished.output.lines().for_each(|line| total.add(line));
                problems.extend(finished.problem);
                times.push((finished.seconds, finished.name));
            })?;
        }
        Err(problem) => problems.push(problem),
    }

    if let Some(fuzzers) = fuzzers {
        let seconds = arguments.fuzz_seconds.unwrap_or(if arguments.long { 60 } else { fuzz::SECONDS });
        match fuzzers.and_then(fuzz::Building::wait) {
            Ok(fuzzers) => {
                let results = fuzzers.run_all(seconds);
                results.into_iter().for_each(|result| total.count(result, &mut problems));
            }
            Err(problem) => total.count(Err(problem), &mut problems),
        }
    }
    for (name, check) in tidy::CHECKS {
        total.count(tidy::run_check(name, *check), &mut problems);
    }

    heading("result");
    times.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    times.iter().take(8).for_each(|(seconds, name)| println!("{seconds:6.1} s  {name}"));
    for problem in &problems {
        println!("{problem:#}");
    }
    println!("took {:.0} s", started.elapsed().as_secs_f64());
    println!("{total}");
    if !problems.is_empty() || total.failed > 0 {
        bail!("tests failed");
    }
    if total.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from) + 1
}

/// What tests read from their environment.
fn variables(
    arguments: &Arguments,
    interpreters: Vec<(&'static str, PathBuf)>,
) -> Vec<(&'static str, PathBuf)> {
    let mut variables = interpreters;
    variables.extend(arguments.first_seed.map(|seed| ("SIM_FIRST", PathBuf::from(seed.to_string()))));
    if arguments.long {
        variables.extend(
            [("NETFOLD_LONG", "1"), ("SIM_SEEDS", "8000"), ("PROPTEST_CASES", "20000")]
                .map(|(name, value)| (name, PathBuf::from(value))),
        );
    }
    // Where tests may create network namespaces, those that need one fail rather than skip.
    if std::env::var_os("CI").is_some() && packages::is_root() {
        variables.push(("REQUIRE_NET_ADMIN", PathBuf::from("1")));
    }
    variables
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} ignored", self.passed, self.failed, self.ignored)
    }
}

impl Total {
    /// Whether tests ran and none failed.
    pub(crate) fn is_success(&self) -> bool {
        self.passed > 0 && self.failed == 0
    }

    /// Adds a line of test output if it is a test program's summary.
    pub(crate) fn add(&mut self, line: &str) {
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
