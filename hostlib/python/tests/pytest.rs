//! The Python tests of this folder, and the wheel, under real interpreters.
//!
//! `cargo test -p netfold-python` needs no preparation. It lays the package out from the library that cargo has just built and
//! runs pytest over it with the interpreter in `NETFOLD_TEST_PYTHON`, or `/usr/bin/python3`, or `python3`. Debian's packages
//! python3-numpy and python3-torch are used where they are installed. `NETFOLD_TEST_TORCH` names one more interpreter, with
//! torch 2 (and torchft) from PyPI: FSDP2, DTensor, functional collectives and torchft are tested there.
//!
//! By hand, with any interpreter: `pip install ./hostlib/python pytest && python -m pytest hostlib/python/tests`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use netfold_embedded::{EmbeddedSwitch, Tampering};

/// All tests of one interpreter take about four minutes on two busy cores.
const LIMIT: Duration = Duration::from_secs(1500);

const GLANCE: Duration = Duration::from_millis(100);

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The interpreter to test with; `None` when there is none of version 3.11 or later.
fn interpreter() -> Option<String> {
    let named = std::env::var("NETFOLD_TEST_PYTHON").ok();
    let candidates = named.into_iter().chain(["/usr/bin/python3", "python3"].map(String::from));
    let found = candidates.into_iter().find(|python| {
        succeeds(Command::new(python).args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]))
    });
    if found.is_none() {
        println!("skipped: the Python package, no Python of version 3.11 or later");
    }
    found
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn imports(python: &str, module: &str) -> bool {
    succeeds(Command::new(python).args(["-c", &format!("import {module}")]))
}

/// The library that cargo built along with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let places = [folder.join("lib_netfold.so"), folder.parent().unwrap().join("lib_netfold.so")];
    places.into_iter().find(|place| place.exists()).expect("cargo builds the cdylib before its tests")
}

/// A folder from which `import netfold` works.
fn lay_out() -> PathBuf {
    let site = scratch("site");
    let package = site.join("netfold");
    // Not there the first time.
    let _ = fs::remove_dir_all(&package);
    copy(&here().join("python/netfold"), &package);
    fs::copy(library(), package.join("_netfold.abi3.so")).unwrap();
    site
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else if source.extension() != Some(OsStr::new("so")) {
            fs::copy(&source, &target).unwrap();
        }
    }
}

/// Runs a command to its end, or kills it after the limit.
fn run(command: &mut Command) -> ExitStatus {
    let mut child: Child = command.spawn().unwrap();
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{command:?} hangs");
        }
        thread::sleep(GLANCE);
    }
}

fn pytest(python: &str, site: &Path) {
    let tools = scratch("pytest");
    let mut path = site.as_os_str().to_owned();
    if !imports(python, "pytest") {
        let install = ["-m", "pip", "install", "--quiet", "--upgrade", "--target"];
        if !succeeds(Command::new(python).args(install).arg(&tools).arg("pytest")) {
            println!("skipped: the Python package under {python}, which has no pytest and cannot install it");
            return;
        }
        path.push(":");
        path.push(&tools);
    }
    for module in ["numpy", "torch"] {
        if !imports(python, module) {
            println!("skipped: tests that need {module}, which {python} lacks");
        }
    }
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests"]);
    command.current_dir(here()).env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    // A switch to which packets come trimmed, two of five that may be.
    let trimming = |io| Ok(Box::new(Tampering::trimming(io, 0.4, 7)) as _);
    let switch = EmbeddedSwitch::builder().middleware(trimming).start().unwrap();
    command.env("NETFOLD_TEST_TRIMMING", switch.control().to_string());
    let status = run(&mut command);
    assert!(status.success(), "pytest under {python}: {status}");
}

#[test]
fn the_package_under_pytest() {
    let Some(python) = interpreter() else { return };
    let site = lay_out();
    pytest(&python, &site);
    match std::env::var("NETFOLD_TEST_TORCH") {
        Ok(python) => pytest(&python, &site),
        Err(_) => println!("skipped: torch 2, since NETFOLD_TEST_TORCH names no interpreter that has it"),
    }
}

#[test]
fn the_wheel_installs_with_pip() {
    let Some(python) = interpreter() else { return };
    let venv = scratch("venv");
    let pip = venv.join("bin/pip");
    if !succeeds(Command::new(&python).args(["-m", "venv"]).arg(&venv))
        || !succeeds(Command::new(&pip).args(["install", "--quiet", "maturin>=1.8,<2"]))
    {
        println!("skipped: the wheel, {python} can make no virtual environment with maturin in it");
        return;
    }
    // As tests are built, and in their folder: what there is already is used again.
    let mut install = Command::new(&pip);
    install
        .args(["install", "--quiet", "--no-build-isolation", "--no-deps", "--force-reinstall"])
        .arg(here());
    install.env("MATURIN_PEP517_ARGS", "--profile dev").env("CARGO_PROFILE_DEV_OPT_LEVEL", "2");
    install.env("CARGO_TARGET_DIR", scratch(".."));
    let path = std::env::join_paths(
        std::iter::once(venv.join("bin")).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    assert!(run(install.env("PATH", path.unwrap())).success(), "pip cannot install {}", here().display());
    let program = "import netfold; s = netfold.Switch(); c = netfold.Communicator(0, 1, switch=s.address); \
                   b = bytearray(8); b[0] = 3; c.all_reduce(b, dtype='i32'); assert b[0] == 3; c.close(); s.close()";
    let python = venv.join("bin/python");
    assert!(run(Command::new(python).args(["-c", program]).current_dir(scratch(""))).success());
}
