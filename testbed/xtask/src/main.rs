//! Netfold's development tasks. CI runs `cargo xtask setup`, `release --check` and `test --lint`, as people do.

mod aarch64;
mod clients;
mod documentation;
mod executables;
mod fuzz;
mod install;
mod links;
mod lint;
mod metadata;
mod package;
mod packages;
mod process;
mod release;
mod sanitize;
mod site;
mod snapshots;
mod summary;
mod test;
mod tidy;
mod tree;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Netfold's development tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the Debian packages that tests use
    Setup,
    /// Run every test, a bounded fuzz run and `tidy`; end with a total
    Test(test::Arguments),
    /// Run the examples of the documentation, as `test` does
    Documentation(documentation::Arguments),
    /// Formatting, clippy and documentation, warnings denied
    Lint,
    /// Run the fuzz targets for a bounded time each
    Fuzz(fuzz::Arguments),
    /// Explore every order of accesses in the models of exchanges between threads
    Loom,
    /// Run tests under a sanitizer of LLVM
    Sanitize(sanitize::Arguments),
    /// Check what clippy cannot: sizes, names, dependency arrows, documentation against code
    Tidy(tidy::Arguments),
    /// Compare the committed P4 programs and protocol code with what is generated now, or rewrite them
    Snapshots(snapshots::Arguments),
    /// Build the documentation site, which needs no network, in target/site
    Site,
    /// Install the host library for C: libraries, header and pkg-config file
    Install(install::Arguments),
    /// Build packages for people without a Rust toolchain: for Debian, and for Python
    Package(package::Arguments),
    /// Build, install and try every artifact of a release, without publishing it
    Release(release::Arguments),
    /// Make the virtual environments of the P4Runtime clients that tests use, and print the variables that name them
    Clients,
    /// Build for 64-bit Arm, and run the tests of kernels, formats, switch and protocol in an emulator
    Aarch64(aarch64::Arguments),
    /// What CI runs: `setup`, `release --check`, `aarch64 --reductions`, then `test --lint`, with all that `lint` checks
    Ci,
}

/// What CI runs. The fuzz targets are built behind everything from the beginning, where a C++ compiler is installed: packages are installed by
/// one thread, which mostly waits.
fn ci() -> anyhow::Result<()> {
    let fuzzers = packages::has_cpp_compiler().then(fuzz::Fuzzers::start);
    packages::setup()?;
    lint::run_without_build()?;
    release::check()?;
    aarch64::run(aarch64::Arguments { kernels: false, reductions: true })?;
    test::run(&test::Arguments::of_ci(), fuzzers)
}

fn main() -> ExitCode {
    if let Some(code) = documentation::stand_in() {
        return code;
    }
    let done = match Arguments::parse().task {
        Task::Setup => packages::setup(),
        Task::Test(arguments) => test::run(&arguments, None),
        Task::Documentation(arguments) => documentation::run(arguments),
        Task::Lint => lint::run(),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Loom => sanitize::loom(),
        Task::Sanitize(arguments) => sanitize::run(&arguments),
        Task::Tidy(arguments) => tidy::run(&arguments),
        Task::Snapshots(arguments) => snapshots::run(&arguments),
        Task::Install(arguments) => install::run_install(&arguments),
        Task::Site => site::run(),
        Task::Package(arguments) => package::run_package(&arguments),
        Task::Release(arguments) => release::run(&arguments),
        Task::Clients => clients::run(),
        Task::Aarch64(arguments) => aarch64::run(arguments),
        Task::Ci => ci(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
