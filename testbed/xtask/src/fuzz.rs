//! Bounded fuzz runs on the stable toolchain.
//!
//! The package `testbed/fuzz` is not a member of the workspace because it alone is built with coverage instrumentation.
//! The flags are those that cargo-fuzz passes when no sanitizer is asked for; they work on stable Rust, and giving
//! `--target` keeps them away from build scripts. Corpus, build and failing inputs lie in `fuzz/` of the target folder.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::process::{self, heading};
use crate::{metadata, packages, tree};

/// The fuzz targets.
pub(crate) const TARGETS: &[&str] =
    &["wire", "worker", "pipeline", "control", "ethernet", "documents", "links", "switch_control"];

/// Seconds for each target by default.
pub(crate) const SECONDS: u64 = 6;

const MANIFEST: &str = "testbed/fuzz/Cargo.toml";

/// Instrumentation: counters and comparisons of every edge, for libFuzzer.
const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg",
    "fuzzing",
];

/// Run the fuzz targets for a bounded time each
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// One target; all of them when it is left out
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
    /// Run one input instead, as a failing run prints it
    #[arg(long, value_name = "FILE", requires = "target")]
    replay: Option<PathBuf>,
}

/// Runs one target or all.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let fuzzers = Fuzzers::build()?;
    match (&arguments.target, &arguments.replay) {
        (Some(target), Some(file)) => fuzzers.replay(target, file),
        (Some(target), None) => fuzzers.run(target, arguments.seconds),
        (None, _) => fuzzers.run_all(arguments.seconds).into_iter().collect(),
    }
}

/// The built fuzz targets.
pub(crate) struct Fuzzers {
    programs: PathBuf,
    state: PathBuf,
    /// Guided by coverage; otherwise inputs are drawn at random, which finds less.
    guided: bool,
}

impl Fuzzers {
    /// Builds all targets.
    pub(crate) fn build() -> Result<Self> {
        Self::start()?.wait()
    }

    /// Begins to build all targets, quietly and behind everything else: tests leave much of the processors.
    pub(crate) fn start() -> Result<Building> {
        heading("fuzz targets");
        let guided = packages::has_cpp_compiler();
        let host = host()?;
        let state = metadata::target_folder()?.join("fuzz");
        let build = state.join("build");
        let mut command =
            process::cargo_behind(&["build", "--quiet", "--release", "--manifest-path", MANIFEST]);
        command.args(["--target", &host]);
        command.arg("--target-dir").arg(&build).env_remove("CARGO_ENCODED_RUSTFLAGS");
        if guided {
            command.args(TARGETS.iter().flat_map(|target| ["--bin", target]));
            command.env("RUSTFLAGS", COVERAGE.join(" "));
        } else {
            println!(
                "no C++ compiler (c++), which libFuzzer is built with: the targets get random inputs instead of inputs guided by coverage"
            );
            command.args(["--no-default-features", "--bin", "random"]).env("RUSTFLAGS", "--cfg fuzzing");
        }
        let running = process::start(&mut command)?;
        let fuzzers = Self { programs: build.join(host).join("release"), state, guided };
        Ok(Building { running, fuzzers })
    }

    /// Runs all targets, as many at a time as there are processors. Returns one result for each.
    pub(crate) fn run_all(&self, seconds: u64) -> Vec<Result<()>> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let queue = Mutex::new(TARGETS.iter());
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let results = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..processors {
                scope.spawn(|| {
                    while let Some(target) = next() {
                        let result = self.run(target, seconds);
                        results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                });
            }
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Feeds one target for a bounded time.
    pub(crate) fn run(&self, target: &str, seconds: u64) -> Result<()> {
        heading(&format!("fuzz {target}"));
        if !self.guided {
            let mut command = Command::new(self.programs.join("random"));
            return process::run(command.args([target, &seconds.to_string()]));
        }
        let corpus = self.state.join("corpus").join(target);
        let failures = self.state.join("failures").join(target);
        for folder in [&corpus, &failures] {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let log = self.state.join(format!("{target}.log"));
        let file = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let mut command = Command::new(self.programs.join(target));
        command.args(["-print_final_stats=1", "-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"]);
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-artifact_prefix={}/", failures.display()));
        command.arg(&corpus).current_dir(tree::root()).stderr(file);
        // Inputs to begin with, which are only read.
        let seeds = tree::root().join("testbed/fuzz/corpus").join(target);
        command.args(seeds.is_dir().then_some(seeds));
        let done = process::run(&mut command);
        let said = std::fs::read(&log)?;
        let said = String::from_utf8_lossy(&said);
        if done.is_ok() {
            said.lines()
                .filter(|line| line.starts_with("stat::"))
                .for_each(|line| println!("{target} {line}"));
            return Ok(());
        }
        let from = said.lines().position(|line| line.contains("panicked at")).unwrap_or_default();
        said.lines().skip(from).for_each(|line| println!("{line}"));
        done.with_context(|| format!("run the input again: cargo xtask fuzz {target} --replay FILE"))
    }

    fn replay(&self, target: &str, file: &Path) -> Result<()> {
        if !self.guided {
            bail!("replaying needs libFuzzer, which needs a C++ compiler");
        }
        process::run(Command::new(self.programs.join(target)).arg(file))
    }
}

/// Fuzz targets that are being built.
pub(crate) struct Building {
    running: process::Running,
    fuzzers: Fuzzers,
}

impl Building {
    /// Waits until they are built.
    pub(crate) fn wait(self) -> Result<Fuzzers> {
        self.running.wait()?;
        Ok(self.fuzzers)
    }
}

/// The triple of this machine, as rustc names it.
/// The target triple of this machine.
pub(crate) fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_of_the_package_is_run() {
        let folder = tree::root().join("testbed/fuzz/targets");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<_> =
            files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        // It runs the targets where there is no libFuzzer.
        names.retain(|name| name != "random");
        names.sort_unstable();
        let mut targets = TARGETS.to_vec();
        targets.sort_unstable();
        assert_eq!(targets, names);
    }
}
