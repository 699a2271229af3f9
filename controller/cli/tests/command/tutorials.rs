//! The tutorials: their commands are run as they are on the page, and their output is compared with it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::namespace::{self, NamespaceSet, command};
use netfold_testkit::transcript::{isolated_shell, play, steps};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a page in namespaces of its own, with the program under test.
fn run(page: &str) {
    run_with(page, &[]);
}

/// The same with folders of programs that precede all others.
fn run_with(page: &str, programs: &[&Path]) {
    if !namespace::available() {
        return;
    }
    let mut namespaces = NamespaceSet::new();
    let folder = TemporaryDirectory::new("tutorial");
    let program = Path::new(env!("CARGO_BIN_EXE_netfold")).parent().unwrap();
    let shell = isolated_shell(&mut namespaces, &[programs, &[program]].concat()).unwrap();
    let steps = steps(&read(page));
    assert!(steps.len() >= 3, "{page} has commands");
    play(shell, folder.path(), &steps);
}

#[test]
fn the_operators_tutorial_runs() {
    for tool in ["openssl version", "curl --version"] {
        if command(tool).is_err() {
            println!("skipped: the operator's tutorial: `{tool}` fails");
            return;
        }
    }
    run("docs/tutorials/operator.md");
}

#[test]
fn the_p4_tutorial_runs() {
    run("docs/tutorials/p4.md");
}

/// Stands for `cargo run --release`: executes what cargo has built along with this test.
const CARGO: &str = r#"#!/bin/sh
[ "$1 $2" = "run --release" ] || { echo "unexpected: cargo $*"; exit 2; }
shift 2
program=netfold
if [ "$1 $2 $3" = "-p netfold --example" ]; then program=$EXAMPLES/$4; shift 4; fi
[ "$1" = -- ] || { echo "unexpected arguments of the program: $*"; exit 2; }
shift
exec "$program" "$@"
"#;

#[test]
fn the_tutorial_of_the_rust_library_runs() {
    let examples = Path::new(env!("CARGO_BIN_EXE_netfold")).with_file_name("examples");
    if !examples.join("all_reduce").is_file() {
        println!("skipped: the Rust tutorial: `cargo build -p netfold --example all_reduce` was not run");
        return;
    }
    let folder = TemporaryDirectory::new("tutorial-cargo");
    let cargo = folder.write("cargo", CARGO.replace("$EXAMPLES", &examples.display().to_string()));
    std::fs::set_permissions(cargo, PermissionsExt::from_mode(0o755)).unwrap();
    run_with("docs/tutorials/rust.md", &[folder.path()]);
}

/// The code blocks of a language on a page, without indentation.
fn blocks(page: &str, language: &str) -> Vec<Vec<String>> {
    let mut blocks = Vec::new();
    let mut inside = false;
    for line in read(page).lines() {
        if line.starts_with("```") {
            inside = !inside && line == format!("```{language}");
            blocks.extend(inside.then(Vec::new));
        } else if let Some(block) = blocks.last_mut().filter(|_| inside) {
            block.push(line.trim().to_owned());
        }
    }
    blocks
}

/// Whether lines follow each other in a file, in this order.
fn follow(lines: &[String], file: &str) -> bool {
    let text = read(file);
    let mut rest = text.lines().map(str::trim);
    lines.iter().all(|line| rest.any(|other| other == line))
}

#[test]
fn code_on_the_pages_is_that_of_the_programs() {
    let rust = blocks("docs/tutorials/rust.md", "rust");
    assert!(rust.len() >= 2);
    for block in &rust[..2] {
        assert!(follow(block, "hostlib/examples/all_reduce.rs"), "{block:#?}");
    }
    let python = blocks("docs/tutorials/p4.md", "python");
    assert!(follow(&python[0], "p4/examples/session.py"), "{python:#?}");
}
