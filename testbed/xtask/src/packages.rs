//! System packages that tests need. `cargo xtask setup` installs them; everything else only names what is missing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{process, tree};

/// 64-bit Arm, as rustc names it.
pub(crate) const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// The cross compiler. It links, and compiles the C code of dependencies, whose build scripts find it by this name.
pub(crate) const AARCH64_COMPILER: &str = "aarch64-linux-gnu-gcc";

/// The emulator of user mode.
pub(crate) const AARCH64_EMULATOR: &str = "qemu-aarch64";

/// A program or module that tests use, and the Debian packages that provide it.
struct Requirement {
    program: &'static str,
    /// Arguments with which the program succeeds where all is there.
    check: &'static [&'static str],
    packages: &'static [&'static str],
}

const fn requirement(
    program: &'static str,
    check: &'static [&'static str],
    packages: &'static [&'static str],
) -> Requirement {
    Requirement { program, check, packages }
}

/// What bindings and the controllers' election are tested with. Tests of what is missing say so and skip.
const FRAMEWORKS: &[Requirement] = &[
    requirement("c++", &["--version"], &["g++"]),
    requirement("/usr/bin/python3", &["-c", "import torch"], &["python3-torch", "python3-numpy"]),
    requirement("/usr/bin/python3", &["-c", "import venv, ensurepip"], &["python3-venv"]),
    requirement("/usr/bin/python3", &["-c", "import mpi4py"], &["python3-mpi4py"]),
    requirement("mpicc", &["--version"], &["libopenmpi-dev", "openmpi-bin"]),
    requirement("pkg-config", &["--version"], &["pkg-config"]),
    requirement("valgrind", &["--version"], &["valgrind"]),
    requirement("etcd", &["--version"], &["etcd-server"]),
    requirement("etcdctl", &["version"], &["etcd-client"]),
    requirement("ip", &["-V"], &["iproute2"]),
    requirement("pkill", &["--version"], &["procps"]),
    requirement("openssl", &["version"], &["openssl"]),
    requirement("curl", &["--version"], &["curl"]),
];

/// What the feature `dpdk` is built with, and what its speed is compared with.
const DPDK: &[&str] = &["libdpdk-dev", "libclang-dev", "dpdk-dev", "pkg-config"];

/// What the tests for aarch64 are linked with and run by.
const CROSS: &[Requirement] = &[
    requirement(AARCH64_COMPILER, &["--version"], &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"]),
    requirement(AARCH64_EMULATOR, &["--version"], &["qemu-user"]),
];

/// Programs that no package of Debian's has, or that one seldom wants.
const OPTIONAL: &[(&str, &str)] = &[
    ("p4c-bm2-ss", "the P4 compiler on the printed programs (see p4.org)"),
    ("simple_switch_grpc", "the printed programs on bmv2 (see p4.org)"),
    ("tshark", "Netfold's dissector on written captures (package tshark)"),
];

/// Installs everything that is missing.
///
/// # Errors
///
/// Where that takes a password, or a package cannot be installed.
pub(crate) fn setup() -> Result<()> {
    let packages = missing();
    if packages.is_empty() {
        println!("all packages that tests use are installed");
    } else {
        install(&packages)?;
    }
    setup_aarch64();
    Ok(())
}

/// Installs what the tests for aarch64 need. Where that fails they are skipped: not every distribution has cross compilers, and not every toolchain is
/// rustup's.
fn setup_aarch64() {
    let packages = packages_of(CROSS);
    if !packages.is_empty()
        && let Err(problem) = install(&packages)
    {
        println!("tests for aarch64 will be skipped: {problem:#}");
        return;
    }
    if has_target(AARCH64).is_ok_and(|has| has) {
        return;
    }
    if !process::works("rustup", &["target", "add", AARCH64]) {
        println!("tests for aarch64 will be skipped: `rustup target add {AARCH64}` failed");
    }
}

/// What the tests for aarch64 lack, if anything.
pub(crate) fn missing_for_aarch64() -> Option<String> {
    let missing = packages_of(CROSS);
    if !missing.is_empty() {
        return Some(format!("missing packages: {}", missing.join(" ")));
    }
    let has_target = has_target(AARCH64).is_ok_and(|has| has);
    (!has_target)
        .then(|| format!("there is no standard library for {AARCH64} (`rustup target add {AARCH64}`)"))
}

/// Whether there is a standard library for a target.
pub(crate) fn has_target(target: &str) -> Result<bool> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]).current_dir(tree::root());
    let output = rustc.stderr(Stdio::null()).output().context("cannot start rustc")?;
    Ok(output.status.success() && Path::new(String::from_utf8(output.stdout)?.trim()).is_dir())
}

/// Says which checks the tests leave out because something is missing, and how to install it.
pub(crate) fn name_missing() {
    let packages = missing();
    if !packages.is_empty() {
        println!("missing packages: {}", packages.join(" "));
        println!("tests that need them are skipped; `cargo xtask setup` installs them by apt-get");
    }
    for (program, what) in OPTIONAL {
        if !process::works(program, &["--version"]) {
            println!("skipped, because {program} is not on PATH: {what}");
        }
    }
}

/// The packages of what is missing.
fn packages_of(requirements: &[Requirement]) -> Vec<&'static str> {
    let lacks = |requirement: &&Requirement| !process::works(requirement.program, requirement.check);
    requirements.iter().filter(lacks).flat_map(|requirement| requirement.packages.iter().copied()).collect()
}

fn missing() -> Vec<&'static str> {
    let mut packages = packages_of(FRAMEWORKS);
    if !has_dpdk() {
        packages.extend(DPDK);
    }
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Whether there is a C++ compiler, which libFuzzer is built with.
pub(crate) fn has_cpp_compiler() -> bool {
    std::env::var_os("CXX").is_some() || process::works("c++", &["--version"])
}

/// Cargo's arguments for the whole workspace with the features that can be built here: one set for tests, clippy and
/// documentation, so that nothing is built twice.
pub(crate) fn workspace() -> Vec<&'static str> {
    let mut arguments = vec!["--workspace", "--features", "netfold-cli/testbed"];
    if has_dpdk() {
        arguments.extend(["--features", "netfold-cli/dpdk,netfold-dpdk/dpdk"]);
    } else {
        println!("skipped: the feature `dpdk`, which needs DPDK and libclang");
    }
    arguments
}

/// Whether the feature `dpdk` can be built: DPDK's headers, and the libclang that reads them.
pub(crate) fn has_dpdk() -> bool {
    let libclang = std::env::var_os("LIBCLANG_PATH").is_some()
        || process::works(
            "sh",
            &["-c", "ls /usr/lib/llvm-*/lib/libclang*.so* || ls /usr/lib/*/libclang*.so*"],
        );
    libclang && process::works("pkg-config", &["--atleast-version=22.11", "libdpdk"])
}

/// Installs Debian packages where that takes no password.
fn install(packages: &[&str]) -> Result<()> {
    let command = format!("apt-get install {}", packages.join(" "));
    if !process::works("apt-get", &["--version"]) {
        bail!("there is no apt-get; install what Debian calls {}", packages.join(" "));
    }
    let prefix: &[&str] = if is_root() {
        &[]
    } else if process::works("sudo", &["-n", "true"]) {
        &["sudo", "-n"]
    } else {
        bail!("run `{command}` as root");
    };
    // Another apt-get, as of a machine's first updates, has its lock for minutes.
    let apt_get = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=600"];
    let apt = |arguments: &[&str]| {
        let words: Vec<&str> =
            prefix.iter().copied().chain(apt_get).chain(arguments.iter().copied()).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        process::run(&mut command)
    };
    let install = [&["install", "--no-install-recommends"], packages].concat();
    apt(&["update"]).and_then(|()| apt(&install))
}

pub(crate) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
