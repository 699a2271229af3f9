//! The Python tests of this folder, and the wheel, under real interpreters.
//!
//! `cargo test -p netfold-python` needs no preparation. It lays the package out from the library that cargo has just built and
//! runs pytest over it with the interpreter in `NETFOLD_TEST_PYTHON`, or `/usr/bin/python3`, or `python3`. Debian's packages
//! python3-numpy and python3-torch are used where they are installed, with Triton from PyPI, whose interpreter executes the kernels of
//! `netfold.triton`. `NETFOLD_TEST_TORCH` names one more interpreter, with
//! torch 2 (and torchft, jax, accelerate, deepspeed, lightning and `ray[train]`) from PyPI: FSDP2, DTensor, functional collectives, torchft and
//! the frameworks are tested there, as far as it has them.
//!
//! By hand, with any interpreter: `pip install ./hostlib/python pytest && python -m pytest hostlib/python/tests`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use netfold_connect_errors::{Answer, Client, Ports, Row, Target};
use netfold_embedded::{EmbeddedSwitch, Tampering};
use netfold_io::vacant_address;
use netfold_testkit::captured::CapturedProcess;
use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::namespace::{self, NamespaceSet};
use netfold_testkit::process::built_library;
use netfold_testkit::transcript::{isolated_shell, play, steps};
use netfold_testkit::wait::{poll, poll_within};
use serde_json::{Value, json};

/// All tests of one interpreter take about six minutes on two busy cores.
const LIMIT: Duration = Duration::from_secs(1500);

/// Of attempts to connect that must fail within seconds each.
const CONNECT_LIMIT: Duration = Duration::from_secs(120);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

fn manifest_dir() -> PathBuf {
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

/// torchrun, which in torch 1.13 fails under Python 3.11: there `Std.from_str` does not find the default, 0.
const TORCHRUN: &str = "\
#!/usr/bin/env PYTHON
from torch.distributed.elastic.multiprocessing import Std
from torch.distributed.run import main

if Std.from_str('0') is None:
    Std.from_str = classmethod(lambda cls, text: cls(int(text)))
main()
";

/// The commands of the tutorial, with the package as it is laid out here in place of an installed one.
#[test]
fn the_tutorial_of_pytorch_runs() {
    let Some(python) = interpreter() else { return };
    if !imports(&python, "torch") {
        println!("skipped: the PyTorch tutorial, {python} has no torch");
        return;
    }
    if !namespace::available() {
        return;
    }
    let folder = TemporaryDirectory::new("tutorial-pytorch");
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let torchrun = TORCHRUN.replace("PYTHON", &python);
    let pip = "#!/bin/sh\ntest \"$*\" = 'install ./hostlib/python torch'\n".to_owned();
    for (name, script) in [("torchrun", torchrun), ("pip", pip)] {
        fs::write(programs.join(name), script).unwrap();
        fs::set_permissions(programs.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    symlink(manifest_dir().join(".."), folder.path().join("hostlib")).unwrap();
    let page = fs::read_to_string(manifest_dir().join("../../docs/tutorials/pytorch.md")).unwrap();
    let mut steps = steps(&page);
    let own_switch = steps.iter().position(|step| step.command.starts_with("netfold switch")).unwrap();
    // Built along with this test when the whole workspace is.
    let commands = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
    if !commands.join("netfold").is_file() {
        println!(
            "skipped: the PyTorch tutorial from line {}: no `cargo build -p netfold-cli`",
            steps[own_switch].line
        );
        steps.truncate(own_switch);
    }
    let mut namespaces = NamespaceSet::new();
    let mut shell = isolated_shell(&mut namespaces, &[&programs, &commands]).unwrap();
    shell.env("PYTHONPATH", lay_out());
    play(shell, folder.path(), &steps);
}

/// A folder from which `import netfold` works.
fn lay_out() -> PathBuf {
    static SITE: OnceLock<PathBuf> = OnceLock::new();
    let made = SITE.get_or_init(|| {
        let site = scratch("site");
        let package = site.join("netfold");
        // It does not exist the first time.
        let _ = fs::remove_dir_all(&package);
        copy(&manifest_dir().join("python/netfold"), &package);
        fs::copy(built_library("lib_netfold.so"), package.join("_netfold.abi3.so")).unwrap();
        site
    });
    made.clone()
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
        thread::sleep(POLL_INTERVAL);
    }
}

/// Triton, in whose interpreter the kernels of `netfold.triton` are tested: 190 MB to download, 1 GB unpacked, once in a target folder.
const TRITON: &str = "triton==3.9.0";

/// Where modules lie that let `python` import Triton beside its torch; `None` when it has Triton, or cannot.
fn triton(python: &str) -> Option<PathBuf> {
    if !imports(python, "torch") || imports(python, "triton") {
        return None;
    }
    let modules = scratch(TRITON);
    // Complete, since the last step moves it there.
    if !modules.is_dir() {
        let partial = scratch("triton-partial");
        // It does not exist the first time.
        let _ = fs::remove_dir_all(&partial);
        let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--target"];
        if !succeeds(Command::new(python).args(install).arg(&partial).arg(TRITON)) {
            println!("skipped: the kernels of netfold.triton, since {python} cannot install {TRITON}");
            return None;
        }
        fs::rename(&partial, &modules).unwrap();
    }
    Some(modules)
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
    if let Some(modules) = triton(python) {
        path.push(":");
        path.push(modules);
    }
    for module in ["numpy", "torch"] {
        if !imports(python, module) {
            println!("skipped: tests that need {module}, which {python} lacks");
        }
    }
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests"]);
    command.current_dir(manifest_dir()).env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    // A switch that receives trimmed packets: two of five that may be trimmed.
    let trimming = |io| Ok(Box::new(Tampering::trimming(io, 0.4, 7)) as _);
    let switch = EmbeddedSwitch::builder().middleware(trimming).start().unwrap();
    command.env("NETFOLD_TEST_TRIMMING", switch.control().to_string());
    command.env("TRITON_INTERPRET", "1");
    command.env("NETFOLD_FAKE_CUDA", built_library("libnetfold_fake_cuda.so"));
    let status = run(&mut command);
    // 5: without numpy, every file of tests is skipped.
    let nothing = status.code() == Some(5) && !imports(python, "numpy");
    assert!(status.success() || nothing, "pytest under {python}: {status}");
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

/// The process groups of a mesh of 2 x 2 ranks are groups of one job, which a controller lists.
#[test]
fn a_controller_lists_the_groups_of_a_mesh_under_their_job() {
    let example = "the example of hybrid sharding at a controller";
    let Ok(python) = std::env::var("NETFOLD_TEST_TORCH") else {
        println!("skipped: {example}, since NETFOLD_TEST_TORCH names no interpreter that has torch 2");
        return;
    };
    let netfold = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("netfold");
    if !netfold.is_file() || !imports(&python, "torch.distributed.fsdp") {
        println!("skipped: {example}: no `cargo build -p netfold-cli`, or no torch 2.6");
        return;
    }
    let limit = 3 * CONNECT_LIMIT;
    let [workers, grpc, page, meeting] = std::array::from_fn(|_| vacant_address().unwrap().to_string());
    let mut dev = Command::new(&netfold);
    dev.args(["controller", "--dev", "--workers", &workers, "--listen", &grpc, "--http", &page]);
    let _controller = CapturedProcess::start(&mut dev, limit);
    // The objects that a command about jobs prints.
    let objects = |arguments: &[&str]| -> Vec<Value> {
        let mut command = Command::new(&netfold);
        let output =
            command.arg("job").args(arguments).args(["--json", "--controller", &grpc]).output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = if output.status.success() { lines } else { String::new() };
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    poll("a controller", || {
        succeeds(Command::new(&netfold).args(["job", "list", "--controller", &grpc])).then_some(())
    });
    let mut torchrun = Command::new(&python);
    torchrun.args(["-m", "torch.distributed.run", "--nproc-per-node", "4"]);
    torchrun.args(["--rdzv-backend", "c10d", "--rdzv-endpoint", &meeting]);
    torchrun.args(["examples/hsdp.py", "--steps", "60", "--timeout", "200"]).current_dir(manifest_dir());
    torchrun.env("PYTHONPATH", lay_out()).env("PYTHONDONTWRITEBYTECODE", "1").env("OMP_NUM_THREADS", "1");
    torchrun.env("NETFOLD_CONTROLLER", &workers).env("NETFOLD_TENANT", "red").env("NETFOLD_JOB", "mesh");
    let training = CapturedProcess::start(&mut torchrun, limit);
    // The mesh has two groups along each dimension.
    poll_within(limit, "four groups of two workers under one job", || {
        let jobs = objects(&["list"]);
        let [job] = &jobs[..] else { return None };
        let described = objects(&["describe", &format!("red/{}", job["job"].as_str()?)]);
        let groups = described.first()?["groups"].as_array()?;
        let pairs =
            groups.iter().filter(|group| group["spec"]["workers"] == 2 && group["state"] == "running");
        (pairs.count() == 4).then_some(())
    });
    let output = training.finish().success();
    assert!(output.contains("x reduce_scatter"), "{output}");
}

/// Connects by each target: one process for each of the ranks' environments. Returns what each rank reports, for each target.
fn connect_errors(
    python: &str,
    how: &str,
    targets: &[Target],
    ranks: &[Vec<(&str, String)>],
) -> Vec<Vec<Answer>> {
    let targets: Vec<Value> = targets
        .iter()
        .map(|target| {
            let Target { address, ca, tenant, token, rendezvous } = target;
            json!({ "controller": address, "controller_ca": ca, "tenant": tenant, "token": token, "rendezvous": rendezvous })
        })
        .collect();
    let start = |environment: &Vec<(&str, String)>| {
        let mut command = Command::new(python);
        command.args(["tests/connect_errors.py", how]).current_dir(manifest_dir());
        command.env("PYTHONPATH", lay_out()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("NETFOLD_TEST_TARGETS", Value::from(targets.clone()).to_string());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        CapturedProcess::start(&mut command, CONNECT_LIMIT)
    };
    let running: Vec<CapturedProcess> = ranks.iter().map(start).collect();
    let answers = |process: CapturedProcess| {
        let output = process.finish().success();
        let result = output.lines().find_map(|line| line.strip_prefix("RESULT "));
        let results: Vec<Value> = serde_json::from_str(result.unwrap_or_else(|| panic!("{output}"))).unwrap();
        let answer = |result: &Value| Answer {
            message: result["message"].as_str().unwrap().to_owned(),
            took: Duration::from_secs_f64(result["seconds"].as_f64().unwrap()),
        };
        results.iter().map(answer).collect()
    };
    running.into_iter().map(answers).collect()
}

/// Checks a client's row of docs/connection-errors.md; all ranks must have the same messages.
fn check_connect_errors(client: Client, python: &str, how: &str, ranks: &[Vec<(&str, String)>]) {
    let ports = Ports::start();
    let targets: Vec<Target> = client.mistakes().map(|mistake| ports.worker(mistake)).collect();
    let answers = connect_errors(python, how, &targets, ranks);
    let mut index = 0;
    let row = Row::of(client, |_| {
        let of_ranks = answers.iter().map(|answers| &answers[index]);
        let slowest = of_ranks.clone().max_by_key(|answer| answer.took).unwrap();
        assert!(
            of_ranks.clone().all(|answer| answer.message == slowest.message),
            "{:?}",
            of_ranks.collect::<Vec<_>>()
        );
        index += 1;
        (targets[index - 1].clone(), slowest.clone())
    });
    row.check();
}

#[test]
fn connection_errors_of_the_package() {
    let Some(python) = interpreter() else { return };
    check_connect_errors(Client::Python, &python, "python", &[Vec::new()]);
}

#[test]
fn connection_errors_of_torch_on_every_rank() {
    let Some(python) = interpreter() else { return };
    if !imports(&python, "torch") {
        println!("skipped: connection errors of torch, which {python} lacks");
        return;
    }
    // Free when it was chosen, and not one that the system gives to others.
    let port = vacant_address().unwrap().port().to_string();
    let rank = |rank: usize| {
        let local = "127.0.0.1".to_owned();
        vec![
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "2".to_owned()),
            ("MASTER_ADDR", local),
            ("MASTER_PORT", port.clone()),
            ("OMP_NUM_THREADS", "1".to_owned()),
        ]
    };
    check_connect_errors(Client::Torch, &python, "torch", &[rank(0), rank(1)]);
}

/// The newest version of glibc's symbols that a library needs, by binutils' objdump.
fn glibc_of(library: &Path) -> Option<(u32, u32)> {
    let symbols = Command::new("objdump").arg("-T").arg(library).output().ok()?;
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let versions = symbols.split("GLIBC_2.").skip(1).map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        (2, rest[..digits].parse().unwrap())
    });
    versions.max()
}

/// The oldest glibc that a wheel is for, by its name.
fn glibc_of_name(wheel: &Path) -> Option<(u32, u32)> {
    let name = wheel.file_name()?.to_str()?;
    let (_, platform) = name.strip_prefix("netfold-")?.split_once("-cp311-abi3-manylinux_")?;
    let mut numbers = platform.split('_').map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Makes the wheel by the command that users run, from the library that cargo built along with this test, so that nothing is
/// compiled a second time.
fn build_wheel(python: &Path) -> PathBuf {
    let folder = scratch("wheel");
    // It does not exist the first time.
    let _ = fs::remove_dir_all(&folder);
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(manifest_dir()).args(["xtask", "package", "wheel", "--python"]).arg(python);
    build.arg("--library").arg(built_library("lib_netfold.so")).arg("--out").arg(&folder);
    assert!(run(&mut build).success(), "the wheel cannot be built");
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let wheels: Vec<_> = files.filter(|path| path.extension() == Some(OsStr::new("whl"))).collect();
    assert_eq!(wheels.len(), 1, "{wheels:?}");
    wheels[0].clone()
}

#[test]
fn the_wheel_installs_without_a_toolchain_and_runs_its_demo() {
    let Some(python) = interpreter() else { return };
    let venv = scratch("venv");
    let pip = venv.join("bin/pip");
    if !succeeds(Command::new(&python).args(["-m", "venv"]).arg(&venv))
        || !succeeds(Command::new(&pip).args(["install", "--quiet", "maturin>=1.8,<2"]))
    {
        println!("skipped: the wheel, {python} cannot create a virtual environment with maturin");
        return;
    }
    let wheel = build_wheel(&venv.join("bin/python"));
    match glibc_of(&built_library("lib_netfold.so")) {
        Some(needed) => {
            let named = glibc_of_name(&wheel);
            assert!(named >= Some(needed), "{} needs glibc {needed:?}", wheel.display());
        }
        None => println!("skipped: the glibc that the wheel needs, without objdump (Debian's binutils)"),
    }
    let empty = scratch("empty");
    let made = succeeds(Command::new(&python).args(["-m", "venv", "--clear", "--without-pip"]).arg(&empty));
    assert!(made, "{python} cannot make {}", empty.display());
    let user = |program: &Path| {
        let mut command = Command::new(program);
        // No cargo, no compiler, and nothing of this repository.
        command
            .env("PATH", empty.join("bin"))
            .env_remove("CARGO")
            .env_remove("PYTHONPATH")
            .current_dir(&empty);
        command
    };
    let mut install = user(&pip);
    install
        .arg("--python")
        .arg(empty.join("bin/python"))
        .args(["install", "--quiet", "--no-index"])
        .arg(&wheel);
    assert!(run(&mut install).success(), "pip cannot install {}", wheel.display());
    let mut demo = user(&empty.join("bin/python"));
    demo.args(["-m", "netfold.demo", "--workers", "2", "--size", "1", "--iterations", "2"]);
    let demo = demo.output().unwrap();
    let printed = String::from_utf8(demo.stdout).unwrap();
    assert!(demo.status.success(), "{printed}{}", String::from_utf8_lossy(&demo.stderr));
    assert!(printed.ends_with("The results are correct.\n"), "{printed}");
    let mut checks = user(&empty.join("bin/netfold-gpu-check"));
    let checks = checks.arg("--list").output().unwrap();
    assert!(checks.status.success() && checks.stdout.starts_with(b"nccl-load"), "{checks:?}");
}
