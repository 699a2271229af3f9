//! Printed programs equal the committed ones, and are printed the same on every run.
//!
//! `cargo xtask snapshots` rewrites what is committed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use netfold_p4::ir::Program;
use netfold_p4::{allreduce, check, p4info, profile, rust, swx, v1model, xdp};
use sha2::{Digest, Sha256};

use crate::targets::{print_pna, print_tna};

/// Profiles whose printed files are committed in full; a digest of each file is committed for the others.
const FULL: [&str; 3] = ["hardware", "small", "tofino"];

/// Profiles whose generated Rust is compared, too.
const RUST: [&str; 1] = ["small"];

const DIGESTS: &str = "digests.txt";

const DIGESTS_HEAD: &str = "# profile target file sha256 bytes; written by `cargo xtask snapshots`\n";

/// A file that is printed for a profile.
struct Printed {
    profile: &'static str,
    /// Back end: a target of `netfold p4 emit`, or `p4info` or `rust`.
    target: &'static str,
    file: String,
    text: String,
}

impl Printed {
    /// Specifications for DPDK and instructions for the kernel are long: one specification is enough to read.
    fn is_full(&self) -> bool {
        let long = matches!(self.target, "swx" | "swx-objects" | "xdp");
        FULL.contains(&self.profile) && (!long || self.profile == "small")
    }

    fn digest(&self) -> String {
        let hash: String = Sha256::digest(&self.text).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} {} {} {hash} {}\n", self.profile, self.target, self.file, self.text.len())
    }

    /// The command that prints the file.
    fn command(&self) -> String {
        match self.target {
            "p4info" => format!("netfold p4 info --profile {} --format p4info", self.profile),
            "rust" => "cargo xtask snapshots".into(),
            target => format!("netfold p4 emit --profile {} --target {target}", self.profile),
        }
    }
}

fn programs() -> Vec<(&'static str, Program)> {
    let build = |profile| allreduce::program(profile).expect("the profiles are in range");
    profile::named().iter().map(|named| (named.name, build(&named.profile))).collect()
}

/// Every file, for every target that does not refuse the profile.
fn printed() -> Vec<Printed> {
    let mut files = Vec::new();
    for (profile, program) in programs() {
        let mut add = |target, suffix: &str, text| {
            files.push(Printed { profile, target, file: format!("{profile}.{suffix}"), text });
        };
        add("v1model", "p4", v1model::print(&program).unwrap());
        add("p4info", "p4info.txtpb", p4info::text(&program));
        if let Some(text) = print_pna(&program) {
            add("pna", "pna.p4", text);
        }
        if let Ok(text) = swx::print(&program) {
            add("swx", "spec", text);
        }
        if let Ok(printed) = swx::print_with_objects(&program) {
            add("swx-objects", "objects.spec", printed.text);
        }
        if let Ok(text) = xdp::print(&program) {
            add("xdp", "bpf", text);
        }
        for (target, text) in print_tna(&program) {
            add(target, &format!("{target}.p4"), text);
        }
        if RUST.contains(&profile) {
            add("rust", "rs", rust::generate(&program).unwrap());
        }
    }
    files
}

fn snapshot_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots")
}

fn digests(files: &[Printed]) -> String {
    let lines = files.iter().filter(|file| !file.is_full()).map(Printed::digest);
    std::iter::once(DIGESTS_HEAD.to_string()).chain(lines).collect()
}

/// Replaces everything in the directory of snapshots.
fn rewrite(files: &[Printed]) {
    let dir = snapshot_dir();
    for entry in fs::read_dir(&dir).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for file in files.iter().filter(|file| file.is_full()) {
        fs::write(dir.join(&file.file), &file.text).unwrap();
    }
    fs::write(dir.join(DIGESTS), digests(files)).unwrap();
}

/// Writes the text of a changed file to the target directory and says how to compare it.
fn explain(file: &Printed) -> String {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("snapshots");
    fs::create_dir_all(&dir).unwrap();
    let new = dir.join(&file.file);
    fs::write(&new, &file.text).unwrap();
    let (name, new, command) = (&file.file, new.display(), file.command());
    if file.is_full() {
        format!("{name} has changed: diff {} {new}", snapshot_dir().join(name).display())
    } else {
        format!(
            "{name} has changed, and only its digest is committed: the new text is in {new}; \
             to get the old one, run `{command}` at the commit to compare with"
        )
    }
}

#[test]
fn printed_programs_equal_the_committed_ones() {
    let files = printed();
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
        rewrite(&files);
    }
    let digests = fs::read_to_string(snapshot_dir().join(DIGESTS)).unwrap_or_default();
    let committed: BTreeSet<&str> = digests.split_inclusive('\n').collect();
    let is_committed = |file: &Printed| {
        if file.is_full() {
            fs::read_to_string(snapshot_dir().join(&file.file)).is_ok_and(|text| text == file.text)
        } else {
            committed.contains(file.digest().as_str())
        }
    };
    let changed: Vec<_> = files.iter().filter(|file| !is_committed(file)).map(explain).collect();
    assert!(changed.is_empty(), "{}\n`cargo xtask snapshots` rewrites what is committed", changed.join("\n"));
}

#[test]
fn every_snapshot_belongs_to_a_program() {
    let files = printed();
    let committed = fs::read_to_string(snapshot_dir().join(DIGESTS)).unwrap();
    let lines = files.iter().filter(|file| !file.is_full()).count() + 1;
    assert_eq!(committed.lines().count(), lines, "{DIGESTS} has lines of files that are not printed");
    for entry in fs::read_dir(snapshot_dir()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = files.iter().any(|file| file.is_full() && file.file == name);
        assert!(known || name == DIGESTS, "{name} is not printed");
    }
    assert!(FULL.iter().all(|name| files.iter().any(|file| file.profile == *name)));
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
