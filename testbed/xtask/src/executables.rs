//! The workspace's test executables: built by one cargo command, run several at a time.
//!
//! Cargo runs test executables one after the other, and most of ours wait for sockets and processes most of the time. Here a few run side by
//! side, each as cargo would run it, with its output shown as a whole when it ends.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{lint, metadata, process, tree};

/// A program with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executable {
    /// Package and target, as in `netfold-io suite`.
    name: String,
    /// The folder of its package, in which it runs.
    package: PathBuf,
    program: PathBuf,
    /// The program that runs it, where this machine cannot.
    emulator: Option<&'static str>,
    arguments: Vec<String>,
}

/// Those that take minutes, the longest first: where no times are known, the last of them must not begin when all others have ended.
const LONGEST: &[&str] = &[
    "netfold-python pytest",
    "netfold-cli command",
    "netfold-lab suite",
    "netfold-p4 suite",
    "netfold-simulate suite",
    "netfold-io conformance",
    "netfold-c suite",
];

/// What became of an executable.
pub(crate) struct Finished {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    /// All that it printed.
    pub(crate) output: String,
    /// Why it counts as failed.
    pub(crate) problem: Option<anyhow::Error>,
}

/// What a build has made.
#[derive(Default)]
pub(crate) struct Built {
    pub(crate) executables: Vec<Executable>,
    /// Warnings of the compiler, which have been printed.
    pub(crate) warnings: usize,
}

/// Builds all test executables by `cargo test --no-run` with these arguments; linted, by clippy's driver, and benchmarks as well.
pub(crate) fn build(arguments: &[&str], linted: bool) -> Result<Built> {
    let mut built = build_some(arguments, linted)?;
    if linted {
        built.warnings += build_some(&[arguments, &["--benches"]].concat(), linted)?.warnings;
    }
    Ok(built)
}

fn build_some(arguments: &[&str], linted: bool) -> Result<Built> {
    let mut command = process::cargo(&["test", "--no-run", "--message-format", "json"]);
    command.args(arguments);
    if linted {
        command.envs(lint::as_clippy()?);
    }
    let line = process::show(&command);
    let started = Instant::now();
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start `{line}`"))?;
    let output = child.stdout.take().context("standard output was piped")?;
    let mut built = Built::default();
    for message in BufReader::new(output).lines() {
        let message = serde_json::from_str(&message?)?;
        built.executables.extend(executable(&message));
        if let Some((rendered, is_warning)) = diagnostic(&message) {
            eprint!("{rendered}");
            built.warnings += usize::from(is_warning);
        }
    }
    process::finish(&line, child.wait()?, started)?;
    if built.executables.is_empty() {
        bail!("`{line}` has built no test executable");
    }
    Ok(built)
}

/// What the compiler says in a message of cargo's, and whether that is a warning.
fn diagnostic(message: &Value) -> Option<(&str, bool)> {
    if message["reason"] != "compiler-message" {
        return None;
    }
    let message = &message["message"];
    Some((message["rendered"].as_str()?, message["level"] == "warning"))
}

/// The examples of the documentation, run by a copy of this program, since cargo replaces its file when it builds it for tests.
pub(crate) fn documentation(linted: bool) -> Result<Executable> {
    let program = metadata::target_folder()?.join("xtask-copy");
    // It need not be there, and may still run.
    let _ = fs::remove_file(&program);
    let copied = fs::copy("/proc/self/exe", &program);
    copied.with_context(|| format!("cannot copy this program to {}", program.display()))?;
    let arguments = std::iter::once("documentation").chain(linted.then_some("--lint"));
    Ok(Executable {
        name: "documentation tests".into(),
        package: tree::root().to_owned(),
        program,
        emulator: None,
        arguments: arguments.map(String::from).collect(),
    })
}

/// The test executable that a message of cargo's names, if any.
fn executable(message: &Value) -> Option<Executable> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let program = PathBuf::from(message["executable"].as_str()?);
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    // path+file:///folder#name@version, or without the name where that is the folder's.
    let id = message["package_id"].as_str()?;
    let name = id.rsplit('#').next().and_then(|end| end.split_once('@')).map(|(name, _)| name.to_owned());
    let name = name.or_else(|| Some(package.file_name()?.to_string_lossy().into_owned()))?;
    let target = message["target"]["name"].as_str()?;
    let name = if target.replace('_', "-") == name {
        format!("{name} unit tests")
    } else {
        format!("{name} {target}")
    };
    Some(Executable { name, package, program, emulator: None, arguments: Vec::new() })
}

/// Runs executables, `jobs` at a time, those first that took longest the last time. `ended` sees each as soon as it has ended.
pub(crate) fn run(
    executables: Vec<Executable>,
    jobs: usize,
    variables: &[(&str, PathBuf)],
    logs: &Path,
    mut ended: impl FnMut(Finished) + Send,
) -> Result<()> {
    fs::create_dir_all(logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let times_file = logs.join("seconds.json");
    let times: BTreeMap<String, f64> =
        fs::read(&times_file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let queue = Mutex::new(in_order(executables, &times));
    let results = Mutex::new((times, &mut ended));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(executable) = next() {
                    let finished = executable.run(variables, logs);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.0.insert(finished.name.clone(), finished.seconds);
                    (results.1)(finished);
                }
            });
        }
    });
    let (times, _) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    fs::write(&times_file, serde_json::to_vec_pretty(&times)?)?;
    Ok(())
}

/// Those that took longest first, and before them those that are not known.
fn in_order(mut executables: Vec<Executable>, times: &BTreeMap<String, f64>) -> VecDeque<Executable> {
    let seconds = |executable: &Executable| times.get(&executable.name).copied().unwrap_or(f64::INFINITY);
    executables.sort_by(|one, other| {
        // Where nothing is known, those that take minutes, then integration tests before unit tests.
        let long = |executable: &Executable| LONGEST.iter().position(|name| *name == executable.name);
        let rank = |executable: &Executable| long(executable).unwrap_or(LONGEST.len());
        let unit = |executable: &Executable| executable.name.ends_with(" unit tests");
        seconds(other)
            .total_cmp(&seconds(one))
            .then(rank(one).cmp(&rank(other)))
            .then(unit(one).cmp(&unit(other)))
            .then(one.name.cmp(&other.name))
    });
    executables.into()
}

impl Executable {
    /// Package and target, as in `netfold-io suite`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The same, run by an emulator, with arguments.
    pub(crate) fn emulated(&self, emulator: &'static str, arguments: Vec<String>) -> Self {
        Self { emulator: Some(emulator), arguments, ..self.clone() }
    }

    /// The command that runs it.
    fn command(&self) -> Command {
        let mut command = match self.emulator {
            Some(emulator) => process::interruptible(emulator.as_ref()),
            None => process::interruptible(self.program.as_os_str()),
        };
        command.args(self.emulator.map(|_| &self.program)).args(&self.arguments);
        command
    }

    fn run(&self, variables: &[(&str, PathBuf)], logs: &Path) -> Finished {
        let started = Instant::now();
        let log = logs.join(format!("{}.log", self.name.replace(' ', ".")));
        let problem = self.run_into(&log, variables).err();
        let output =
            fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        Finished { name: self.name.clone(), seconds: started.elapsed().as_secs_f64(), output, problem }
    }

    fn run_into(&self, log: &Path, variables: &[(&str, PathBuf)]) -> Result<()> {
        let mut file = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        writeln!(file, "\n     Running {} ({})", self.name, self.program.display())?;
        let mut command = self.command();
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package).stdin(Stdio::null());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdout(file.try_clone()?).stderr(file);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let status = command.status().with_context(|| format!("cannot start {line}"))?;
        if !status.success() {
            bail!("{} failed ({status}); run it again: {line}", self.name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_executables_are_found_in_messages() {
        let message = |test: bool, executable: Value, id: &str, target: &str| {
            serde_json::json!({
                "reason": "compiler-artifact", "package_id": id, "manifest_path": "/a/dataplane/io/Cargo.toml",
                "target": { "name": target }, "profile": { "test": test }, "executable": executable,
            })
        };
        let name = |message| executable(&message).map(|found| found.name);
        let id = "path+file:///a/dataplane/io#netfold-io@0.1.0";
        assert_eq!(
            name(message(true, "/t/suite-1".into(), id, "suite")).as_deref(),
            Some("netfold-io suite")
        );
        let unit = name(message(true, "/t/netfold_io-1".into(), id, "netfold_io"));
        assert_eq!(unit.as_deref(), Some("netfold-io unit tests"));
        let short = name(message(true, "/t/io-1".into(), "path+file:///a/dataplane/io#0.1.0", "io"));
        assert_eq!(short.as_deref(), Some("io unit tests"));
        assert_eq!(name(message(false, "/t/netfold".into(), id, "netfold")), None);
        assert_eq!(name(message(true, Value::Null, id, "suite")), None);
    }

    #[test]
    fn warnings_are_found_in_messages() {
        let message = |reason: &str, level: &str| serde_json::json!({ "reason": reason, "message": { "level": level, "rendered": "text" } });
        assert_eq!(diagnostic(&message("compiler-message", "warning")), Some(("text", true)));
        assert_eq!(diagnostic(&message("compiler-message", "error")), Some(("text", false)));
        assert_eq!(diagnostic(&message("compiler-artifact", "warning")), None);
    }

    #[test]
    fn an_emulator_runs_the_program_with_its_arguments() {
        let executable = Executable {
            name: "a suite".into(),
            package: "/".into(),
            program: "/t/suite-1".into(),
            emulator: None,
            arguments: Vec::new(),
        };
        let emulated = executable.emulated("qemu-aarch64", vec!["reduce".into()]);
        let words = |executable: &Executable| {
            let command = executable.command();
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(words(&executable), ["/t/suite-1"]);
        assert_eq!(words(&emulated), ["qemu-aarch64", "/t/suite-1", "reduce"]);
    }

    #[test]
    fn the_longest_exist() {
        let metadata = crate::metadata::metadata().unwrap();
        for name in LONGEST {
            let (package, target) = name.split_once(' ').unwrap();
            let packages = metadata["packages"].as_array().unwrap();
            let package = packages.iter().find(|one| one["name"] == package).expect(name);
            assert!(package["targets"].as_array().unwrap().iter().any(|one| one["name"] == target), "{name}");
        }
    }

    #[test]
    fn the_longest_run_first_and_the_unknown_before_them() {
        let executable = |name: &str| Executable {
            name: name.into(),
            package: "/".into(),
            program: "/".into(),
            emulator: None,
            arguments: Vec::new(),
        };
        let all = ["a suite", "b suite", "c unit tests", "d suite"].map(executable).to_vec();
        let times = BTreeMap::from([("a suite".into(), 1.0), ("b suite".into(), 2.0)]);
        let order: Vec<_> = in_order(all, &times).into_iter().map(|executable| executable.name).collect();
        assert_eq!(order, ["d suite", "c unit tests", "b suite", "a suite"]);
        let all = ["a unit tests", "b suite", "netfold-lab suite", "netfold-python pytest"].map(executable);
        let order: Vec<_> =
            in_order(all.to_vec(), &BTreeMap::new()).into_iter().map(|executable| executable.name).collect();
        assert_eq!(order, ["netfold-python pytest", "netfold-lab suite", "b suite", "a unit tests"]);
    }
}
