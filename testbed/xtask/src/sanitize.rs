//! Checks of concurrency and memory that need a build of their own: loom's models of the exchanges between threads, and LLVM's sanitizers.
//!
//! The stable toolchain ships the sanitizers' runtimes, but enables them for itself alone, hence `RUSTC_BOOTSTRAP`. The standard library is not
//! instrumented, so ThreadSanitizer does not see what it orders: reports whose accesses are in channels of the standard library, in the
//! release of an `Arc`, or in memory that was freed are suppressed.

use anyhow::Result;
use clap::ValueEnum;

use crate::process::{self, heading};
use crate::{metadata, packages, tree};

/// Packages whose memory is shared with other processes or passed over a C interface.
const PACKAGES: &[&str] = &["netfold-io", "netfold-collectives", "netfold-nccl"];

/// The same, where it can be built.
const DPDK: &str = "netfold-dpdk";

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
    let name = match arguments.sanitizer {
        Sanitizer::Address => "address",
        Sanitizer::Thread => "thread",
    };
    heading(&format!("{name} sanitizer"));
    let target = metadata::target_folder()?.join("sanitize").join(name);
    let host = crate::fuzz::host()?;
    let has_dpdk = packages::has_dpdk();
    let packages: Vec<&str> = match &arguments.package {
        Some(package) => vec![package],
        // Tests of the others start processes that are not instrumented, or only allocate in channels.
        None if arguments.sanitizer == Sanitizer::Thread => vec!["netfold-io"],
        None => PACKAGES.iter().copied().chain(has_dpdk.then_some(DPDK)).collect(),
    };
    let mut command = process::cargo(&["test", "--lib", "--tests", "--target", &host]);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    if has_dpdk && packages.contains(&DPDK) {
        command.args(["--features", "netfold-dpdk/dpdk"]);
    }
    command.arg("--target-dir").arg(target).env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.env("RUSTC_BOOTSTRAP", "1");
    // The runtime is part of the executable, where libraries that it loads find it.
    let exported = "-Clink-args=-Wl,--export-dynamic";
    let flags = format!("-Zsanitizer={name} -Cunsafe-allow-abi-mismatch=sanitizer {exported}");
    command.env("RUSTFLAGS", flags);
    let suppressions = tree::root().join("testbed/xtask/src/sanitize.suppressions");
    command.env("TSAN_OPTIONS", format!("report_thread_leaks=0 suppressions={}", suppressions.display()));
    process::run(&mut command)
}

/// Explores every order of accesses in loom's models.
pub(crate) fn loom() -> Result<()> {
    heading("loom");
    let target = metadata::target_folder()?.join("loom");
    let mut command = process::cargo(&["test", "--lib", "--package", "netfold-io"]);
    command.arg("--target-dir").arg(target).env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.env("RUSTFLAGS", "--cfg loom").args(["--", "loom_tests"]);
    process::run(&mut command)
}
