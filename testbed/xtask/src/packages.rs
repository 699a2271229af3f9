//! System packages that the tests need, installed only where they are missing and only where that can be done without
//! asking anybody.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::process;

/// Makes sure that there is a C++ compiler, which libFuzzer is built with. False when there is none and none could be
/// installed; why, and what to do, was printed.
pub(crate) fn cpp_compiler() -> Result<bool> {
    if std::env::var_os("CXX").is_some() || process::works("c++", &["--version"]) {
        return Ok(true);
    }
    println!("no C++ compiler (c++); libFuzzer is built with one");
    if install(&["g++"])? && process::works("c++", &["--version"]) {
        return Ok(true);
    }
    println!("could not install it: run `apt-get install g++` as root, or set CXX");
    Ok(false)
}

/// What bindings and the controllers' election are tested with, and the packages that bring it.
const FRAMEWORKS: &[(&str, &[&str], &[&str])] = &[
    ("/usr/bin/python3", &["-c", "import torch"], &["python3-torch", "python3-numpy"]),
    ("/usr/bin/python3", &["-c", "import venv, ensurepip"], &["python3-venv"]),
    ("/usr/bin/python3", &["-c", "import mpi4py"], &["python3-mpi4py"]),
    ("mpicc", &["--version"], &["libopenmpi-dev", "openmpi-bin"]),
    ("pkg-config", &["--version"], &["pkg-config"]),
    ("valgrind", &["--version"], &["valgrind"]),
    ("etcd", &["--version"], &["etcd-server"]),
    ("etcdctl", &["version"], &["etcd-client"]),
];

/// Installs what bindings are tested with, where that needs no questions. Tests of what is not there say so and skip.
pub(crate) fn frameworks() -> Result<()> {
    let missing = FRAMEWORKS.iter().filter(|(program, arguments, _)| !process::works(program, arguments));
    let packages: Vec<&str> = missing.flat_map(|(_, _, packages)| packages.iter().copied()).collect();
    if !packages.is_empty() && !install(&packages)? {
        println!("not installed: run `apt-get install {}` as root to test more", packages.join(" "));
    }
    Ok(())
}

/// What the feature `dpdk` is built with, and what its speed is compared with.
const DPDK: &[&str] = &["libdpdk-dev", "libclang-dev", "dpdk-dev", "pkg-config"];

/// Installs DPDK where it is missing and that needs no questions. False when it is still missing; what to do was printed.
pub(crate) fn dpdk() -> Result<bool> {
    if has_dpdk() || (install(DPDK)? && has_dpdk()) {
        return Ok(true);
    }
    println!(
        "no DPDK here: run `apt-get install {}` as root to build and test the feature `dpdk`",
        DPDK.join(" ")
    );
    Ok(false)
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

/// Says which checks the tests leave out because an optional program is missing.
pub(crate) fn say_optional() {
    let optional = [
        ("p4c-bm2-ss", "the real P4 compiler on the printed programs (see p4.org)"),
        ("tshark", "a real dissector on written captures (package tshark)"),
    ];
    for (program, what) in optional {
        if !process::works(program, &["--version"]) {
            println!("left out, because {program} is not on PATH: {what}");
        }
    }
}

/// Installs Debian packages when that needs no questions; false when it cannot be done.
fn install(packages: &[&str]) -> Result<bool> {
    if !process::works("apt-get", &["--version"]) {
        return Ok(false);
    }
    let prefix: &[&str] = if is_root() {
        &[]
    } else if process::works("sudo", &["-n", "true"]) {
        &["sudo", "-n"]
    } else {
        return Ok(false);
    };
    let apt = |arguments: &[&str]| {
        let words: Vec<&str> =
            prefix.iter().copied().chain(["apt-get", "-q", "-y"]).chain(arguments.iter().copied()).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        process::run(&mut command)
    };
    let install = [&["install", "--no-install-recommends"], packages].concat();
    let installed = apt(&["update"]).and_then(|()| apt(&install));
    if let Err(error) = &installed {
        println!("{error:#}");
    }
    Ok(installed.is_ok())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
