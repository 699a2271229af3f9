//! Checks of concurrency and memory that need a build of their own: loom's models of the exchanges between threads, and LLVM's sanitizers.
//!
//! The stable toolchain ships the sanitizers' runtimes, but enables them for itself alone, hence `RUSTC_BOOTSTRAP`. The standard library is not
//! instrumented, so ThreadSanitizer does not see what it orders: reports whose accesses are in channels of the standard library, in the
//! release of an `Arc`, or in memory that was freed are suppressed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::process::{self, heading};
use crate::{metadata, packages, tree};

/// Packages whose memory is shared with other processes or passed over a C interface.
const PACKAGES: &[&str] = &["netfold-io", "netfold-collectives", "netfold-nccl"];

/// The library for C: its programs are run under AddressSanitizer, with the library that is built for it. Programs for MPI, and those that are written in
/// another language, load a runtime of their own.
const C_INTERFACE: (&str, &str) = ("netfold-c", "c::");

/// The same, where it can be built.
const DPDK: &str = "netfold-dpdk";

/// Packages with models of the exchanges between their threads, in modules `loom_tests`.
const MODELLED: &[&str] = &["netfold-io", "netfold-collectives", "netfold"];

/// A sanitizer of LLVM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sanitizer {
    /// Use of memory that was freed or never allocated, and leaks.
    Address,
    /// Accesses of threads that nothing orders.
    Thread,
}

/// Run tests of packages with shared memory or a C interface under a sanitizer
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The sanitizer
    #[arg(value_enum, default_value_t = Sanitizer::Address)]
    sanitizer: Sanitizer,
    /// One package; by default all that are meant for it
    #[arg(long)]
    package: Option<String>,
}

/// Runs the tests under a sanitizer.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let sanitizer = arguments.sanitizer;
    heading(&format!("{} sanitizer", sanitizer.name()));
    let has_dpdk = packages::has_dpdk();
    let packages: Vec<&str> = match arguments.package.as_deref() {
        Some(package) if package == C_INTERFACE.0 => Vec::new(),
        Some(package) => vec![package],
        // Tests of the others start processes that are not instrumented, or only allocate in channels.
        None if sanitizer == Sanitizer::Thread => vec!["netfold-io"],
        None => PACKAGES.iter().copied().chain(has_dpdk.then_some(DPDK)).collect(),
    };
    if !packages.is_empty() {
        let mut command = sanitizer.test()?;
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        if has_dpdk && packages.contains(&DPDK) {
            command.args(["--features", "netfold-dpdk/dpdk"]);
        }
        process::run(&mut command)?;
    }
    let c_interface = arguments.package.as_deref().is_none_or(|package| package == C_INTERFACE.0);
    if c_interface && sanitizer == Sanitizer::Address { run_c_interface() } else { Ok(()) }
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// A command for tests of instrumented packages, which are to be named.
    fn test(self) -> Result<Command> {
        let name = self.name();
        let mut command = process::cargo(&["test", "--lib", "--tests", "--target", &crate::fuzz::host()?]);
        let target = metadata::target_folder()?.join("sanitize").join(name);
        command.arg("--target-dir").arg(target).env_remove("CARGO_ENCODED_RUSTFLAGS");
        command.env("RUSTC_BOOTSTRAP", "1");
        // The runtime is part of the executable, where libraries that it loads find it.
        let exported = "-Clink-args=-Wl,--export-dynamic";
        let flags = format!("-Zsanitizer={name} -Cunsafe-allow-abi-mismatch=sanitizer {exported}");
        command.env("RUSTFLAGS", flags);
        let suppressions = tree::root().join("testbed/xtask/src/sanitize.suppressions");
        command.env("TSAN_OPTIONS", format!("report_thread_leaks=0 suppressions={}", suppressions.display()));
        Ok(command)
    }
}

/// Runs C programs with the instrumented library.
fn run_c_interface() -> Result<()> {
    let (package, tests) = C_INTERFACE;
    let runtimes = format!("lib/rustlib/{}/lib", crate::fuzz::host()?);
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().context("rustc")?;
    let folder = Path::new(String::from_utf8_lossy(&sysroot.stdout).trim()).join(runtimes);
    let files = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let is_runtime = |path: &PathBuf| path.to_string_lossy().ends_with("_rt.asan.a");
    let runtime = files.filter_map(|file| file.ok().map(|file| file.path())).find(is_runtime);
    let runtime =
        runtime.with_context(|| format!("no runtime of AddressSanitizer in {}", folder.display()))?;
    let mut command = Sanitizer::Address.test()?;
    command.args(["--package", package]).env("NETFOLD_TEST_SANITIZER_RUNTIME", runtime);
    process::run(command.args(["--", tests]))
}

/// Explores every order of accesses in loom's models.
pub(crate) fn loom() -> Result<()> {
    heading("loom");
    let target = metadata::target_folder()?.join("loom");
    let mut command = process::cargo(&["test", "--lib"]);
    command.args(MODELLED.iter().flat_map(|package| ["--package", package]));
    command.arg("--target-dir").arg(target).env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.env("RUSTFLAGS", "--cfg netfold_loom").args(["--", "loom_tests"]);
    process::run(&mut command)
}
