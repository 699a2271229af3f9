//! Printed programs are committed, printed the same on every run, and accepted by the real compiler.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p netfold-p4 --test snapshots` rewrites the committed files.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use netfold_p4::ir::Program;
use netfold_p4::{allreduce, check, p4info, profile, rust, v1model};

fn programs() -> Vec<(&'static str, Program)> {
    let build = |profile| allreduce::program(profile).expect("the profiles are in range");
    profile::named().iter().map(|named| (named.name, build(&named.profile))).collect()
}

fn snapshot_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots")
}

fn expect_snapshot(name: &str, text: &str) {
    let path = snapshot_dir().join(name);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(snapshot_dir()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{name} differs from what is printed now; see the head of this file for how to update"
    );
}

#[test]
fn printed_programs_equal_the_committed_ones() {
    for (name, program) in programs() {
        expect_snapshot(&format!("{name}.p4"), &v1model::print(&program).unwrap());
        expect_snapshot(&format!("{name}.p4info.txtpb"), &p4info::text(&program));
    }
    for (name, program) in programs().iter().filter(|(name, _)| *name == "small") {
        expect_snapshot(&format!("{name}.rs"), &rust::generate(program).unwrap());
    }
}

#[test]
fn no_snapshot_is_an_orphan() {
    let known: Vec<String> = programs()
        .iter()
        .flat_map(|(name, _)| [format!("{name}.p4"), format!("{name}.p4info.txtpb")])
        .chain(["small.rs".to_string()])
        .collect();
    for entry in fs::read_dir(snapshot_dir()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // Programs for other targets: see `targets.rs`.
        let elsewhere = [".pna.p4", ".tna.p4", ".t2na.p4"].iter().any(|suffix| name.ends_with(suffix));
        assert!(elsewhere || known.contains(&name), "{name} is printed by no program");
    }
}

#[test]
fn printing_twice_gives_the_same_bytes() {
    for ((_, first), (_, second)) in programs().into_iter().zip(programs()) {
        check::check(&first).unwrap();
        assert_eq!(first.fingerprint(), second.fingerprint());
        assert_eq!(v1model::print(&first).unwrap(), v1model::print(&second).unwrap());
        assert_eq!(rust::generate(&first).unwrap(), rust::generate(&second).unwrap());
        assert_eq!(p4info::binary(&first), p4info::binary(&second));
    }
}

/// The real compiler takes every program without a warning, and derives the P4Info that we publish.
#[test]
fn the_p4_compiler_agrees() {
    if Command::new("p4c-bm2-ss").arg("--version").output().is_err() {
        println!("skipped: p4c-bm2-ss is not on PATH (see p4.org)");
        return;
    }
    let dir = env::temp_dir().join(format!("netfold-p4c-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    for (name, program) in programs() {
        let source = dir.join(format!("{name}.p4"));
        let info = dir.join(format!("{name}.p4info.txtpb"));
        fs::write(&source, v1model::print(&program).unwrap()).unwrap();
        let output = Command::new("p4c-bm2-ss")
            .args(["--std", "p4-16"])
            .arg(&source)
            .arg("-o")
            .arg(dir.join(format!("{name}.json")))
            .arg("--p4runtime-files")
            .arg(&info)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{name}: {said}");
        let derived = fs::read_to_string(&info).unwrap();
        assert_eq!(meaning(&derived), meaning(&p4info::text(&program)), "{name}: P4Info");
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// Text format without comments and indentation.
fn meaning(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}
