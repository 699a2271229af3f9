//! The installed library, and programs compiled against it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::process::{run, scratch};

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("hostlib/c lies in the repository")
}

/// A file of the repository.
pub(crate) fn source(path: &str) -> PathBuf {
    root().join(path)
}

/// The static library that cargo has built along with this test: the newest, where there are several builds.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let folder = test.parent().expect("a file lies in a folder");
    let files = std::fs::read_dir(folder).expect("the folder of a running program can be read");
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libnetfold_c-") && path.extension().is_some_and(|extension| extension == "a")
    };
    let built = |path: &PathBuf| path.metadata().and_then(|metadata| metadata.modified()).ok();
    files
        .filter_map(|file| file.ok().map(|file| file.path()))
        .filter(is_library)
        .max_by_key(built)
        .expect("cargo builds the static library before its tests")
}

/// Where the library is installed: once, by the command that users run, from the library that is built already. With the shim, if
/// there is an MPI.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch("prefix");
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(root()).args(["xtask", "install", "--prefix"]).arg(&prefix);
        command.arg("--library").arg(library());
        // A sanitizer is for this test and the library.
        command.env_remove("RUSTFLAGS");
        if Command::new("mpicc").arg("--version").output().is_ok() {
            command.arg("--mpi");
        }
        let output = run(&mut command);
        assert!(!output.contains("warning: "), "the compiler warns:\n{output}");
        prefix
    })
}

/// The flags that pkg-config gives for the installed library.
pub(crate) fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")).args(arguments).arg("netfold");
    run(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// The runtime of the sanitizer that this test and the library are built with (`cargo xtask sanitize address`): C programs need it, since the compiler that
/// links them is another one.
pub(crate) fn sanitizer_runtime() -> Option<PathBuf> {
    std::env::var_os("NETFOLD_TEST_SANITIZER_RUNTIME").map(PathBuf::from)
}

/// Compiles a C program of the repository, every warning an error, and returns where it lies.
pub(crate) fn compile(compiler: &str, file: &str, name: &str, flags: &[String]) -> PathBuf {
    let program = scratch(name);
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]).arg(source(file));
    if let Some(runtime) = sanitizer_runtime() {
        // Whole, and exported for the shared library.
        command.arg("-Wl,--export-dynamic,--whole-archive").arg(runtime).arg("-Wl,--no-whole-archive");
        command.args(["-lm", "-ldl", "-lrt"]);
    }
    run(command.arg("-o").arg(&program).args(flags));
    program
}
