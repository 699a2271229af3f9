//! Another architecture: everything is built for 64-bit Arm by a cross compiler, and tests are run by QEMU's emulation of its user mode.
//!
//! Emulation shows results, not speed, and processors of this machine order accesses to memory more strictly than those of Arm. Tests that
//! start programs of the project run natively only: the kernel of this machine cannot start those of another architecture.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::executables::{self, Executable, Finished};
use crate::metadata;
use crate::packages::{self, AARCH64 as TARGET, AARCH64_COMPILER as COMPILER, AARCH64_EMULATOR as EMULATOR};
use crate::process::{self, cargo, heading};
use crate::test::Total;

/// Where the cross compiler's packages have the C library.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Processors that are emulated. The first has the base instruction set of ARMv8.0, as BlueField-2 and Graviton1; the other has what the emulator knows, as
/// arithmetic with binary16.
const PROCESSORS: [&str; 2] = ["cortex-a72", "max"];

/// How much to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(crate) struct Arguments {
    /// Only build and run the tests of vector kernels: a fifth of the time
    #[arg(long)]
    pub(crate) kernels: bool,
    /// Only those of reductions, as CI does
    #[arg(long)]
    pub(crate) reductions: bool,
}

/// Tests to run.
struct Selection {
    /// Package and target, as in `netfold-io suite`.
    executable: &'static str,
    /// Parts of tests' names; all tests if there are none.
    only: &'static [&'static str],
    skip: &'static [&'static str],
    /// Of vector kernels: run on each processor, since the tested code or a crate below it looks for instructions. Others run on the first.
    kernels: bool,
}

const fn selection(executable: &'static str) -> Selection {
    Selection { executable, only: &[], skip: &[], kernels: false }
}

/// Kernels against plain code and exact arithmetic, formats, the switch against the interpreter, and the worker's state machine.
const SELECTIONS: &[Selection] = &[
    Selection {
        only: &["quantize::", "confidential::masks::"],
        kernels: true,
        ..selection("netfold unit tests")
    },
    Selection { only: &[REDUCTIONS], kernels: true, ..selection("netfold-collectives unit tests") },
    selection("netfold-switch suite"),
    selection("netfold-switch unit tests"),
    Selection { only: &["operations::", "paths::"], ..selection("netfold suite") },
    selection("netfold-wire unit tests"),
    selection("netfold-proto unit tests"),
    selection("netfold-proto spray"),
    selection("netfold-control unit tests"),
    selection("netfold-io conformance"),
];

/// The module of reductions.
const REDUCTIONS: &str = "reduce::";

/// Seeds and cases, since the emulator takes many times as long as the processor.
const SHORTER: [(&str, &str); 2] = [("SIM_SEEDS", "20"), ("PROPTEST_CASES", "16")];

/// Builds everything and runs the tests, or says what is missing.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    heading("aarch64");
    if let Some(missing) = packages::missing_for_aarch64() {
        println!("skipped the tests for aarch64: {missing}; `cargo xtask setup` installs what it can");
        return Ok(());
    }
    let started = Instant::now();
    let few = arguments.kernels || arguments.reductions;
    let wanted = |selection: &&Selection| match arguments.reductions {
        true => selection.only.contains(&REDUCTIONS),
        false => selection.kernels || !few,
    };
    let selected: Vec<&Selection> = SELECTIONS.iter().filter(wanted).collect();
    if !few {
        check()?;
    }
    let built = build(&selected)?;
    let logs = metadata::target_folder()?.join("test-logs").join("aarch64");
    let (mut total, mut problems) = (Total::default(), Vec::new());
    for (number, processor) in PROCESSORS.iter().enumerate() {
        let selections = selected.iter().filter(|selection| selection.kernels || number == 0);
        let executables = selections.map(|selection| selection.of(&built)).collect::<Result<_>>()?;
        run_on(processor, executables, &logs, |finished| {
            println!("{}", finished.output.trim_end());
            finished.output.lines().for_each(|line| total.add(line));
            problems.extend(finished.problem);
        })?;
    }
    heading("result for aarch64");
    problems.iter().for_each(|problem| println!("{problem:#}"));
    println!("took {:.0} s, emulated", started.elapsed().as_secs_f64());
    println!("{total}");
    if problems.is_empty() && total.is_success() { Ok(()) } else { bail!("tests for aarch64 failed") }
}

/// Checks all packages.
fn check() -> Result<()> {
    // DPDK's headers are those of this machine.
    let mut clippy = cargo(&["clippy", "--workspace", "--exclude", "netfold-dpdk"]);
    process::run(clippy.args(target()).args(["--", "-D", "warnings"]))
}

/// Builds test executables.
fn build(selected: &[&Selection]) -> Result<Vec<Executable>> {
    let mut packages: Vec<&str> = selected.iter().map(|selection| selection.package()).collect();
    packages.dedup();
    let kinds = if selected.iter().all(|selection| selection.kernels) {
        &["--lib"][..]
    } else {
        &["--lib", "--tests"]
    };
    let target = target();
    let target = target.iter().map(String::as_str);
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    let arguments: Vec<&str> = target.chain(kinds.iter().copied()).chain(packages).collect();
    Ok(executables::build(&arguments, false)?.executables)
}

/// Cargo's options for the target.
fn target() -> [String; 4] {
    let linker = format!("target.{TARGET}.linker=\"{COMPILER}\"");
    ["--target".into(), TARGET.into(), "--config".into(), linker]
}

/// Runs test executables on a processor.
fn run_on(
    processor: &str,
    executables: Vec<Executable>,
    logs: &Path,
    ended: impl FnMut(Finished) + Send,
) -> Result<()> {
    heading(&format!("tests on {processor}, emulated"));
    let mut variables = vec![("QEMU_CPU", processor), ("QEMU_LD_PREFIX", LIBRARIES)];
    variables.extend(SHORTER);
    let variables: Vec<_> = variables.into_iter().map(|(name, value)| (name, PathBuf::from(value))).collect();
    let jobs = thread::available_parallelism().map_or(2, usize::from);
    executables::run(executables, jobs, &variables, &logs.join(processor), ended)
}

impl Selection {
    fn package(&self) -> &'static str {
        self.executable.split_once(' ').map_or(self.executable, |(package, _)| package)
    }

    /// The executable with these tests.
    fn of(&self, built: &[Executable]) -> Result<Executable> {
        let executable = built.iter().find(|one| one.name() == self.executable);
        let executable = executable.with_context(|| format!("{} was not built", self.executable))?;
        let only = self.only.iter().map(ToString::to_string);
        let skip = self.skip.iter().flat_map(|name| ["--skip".to_owned(), name.to_string()]);
        Ok(executable.emulated(EMULATOR, only.chain(skip).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_executables_and_modules_exist() {
        let metadata = metadata::metadata().unwrap();
        for selection in SELECTIONS {
            let (package, target) = selection.executable.split_once(' ').unwrap();
            let packages = metadata["packages"].as_array().unwrap();
            let package = packages.iter().find(|one| one["name"] == package).expect(selection.executable);
            let unit = target == "unit tests";
            let targets = package["targets"].as_array().unwrap();
            let target = targets.iter().find(|one| one["name"] == target || unit && one["kind"][0] == "lib");
            // A filter that no test's name contains selects nothing, and nothing fails.
            let root = Path::new(target.expect(selection.executable)["src_path"].as_str().unwrap());
            for name in selection.only {
                let module = root.with_file_name(name.trim_end_matches("::").replace("::", "/"));
                let is_there = module.with_extension("rs").is_file();
                assert!(is_there, "{}: there is no module {name}", selection.executable);
            }
        }
    }
}
