//! Programs printed for Tofino and for NICs: committed, accepted by the real compilers, and refused where they cannot fit.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p netfold-p4 --test targets` rewrites the committed files.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use netfold_p4::profile::{self, Encapsulation, Profile};
use netfold_p4::refusal::{PrintError, Refusal};
use netfold_p4::{allreduce, pna};

/// What PNA prints, by profile: those that it refuses are left out.
fn nics() -> Vec<(&'static str, String)> {
    let print = |profile: &Profile| pna::print(&allreduce::program(profile).unwrap());
    let printed = profile::named().into_iter().map(|named| (named.name, print(&named.profile)));
    printed.filter_map(|(name, text)| Some((name, text.ok()?))).collect()
}

/// Why PNA refuses a profile.
fn pna_refusal(profile: &Profile) -> Refusal {
    match pna::print(&allreduce::program(profile).unwrap()) {
        Err(PrintError::Refused(refusal)) => refusal,
        other => panic!("printed or invalid: {:?}", other.map(|text| text.len())),
    }
}

fn expect_snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(name);
    if env::var_os("UPDATE_SNAPSHOTS").is_some() {
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
    for (name, text) in nics() {
        expect_snapshot(&format!("{name}.pna.p4"), &text);
    }
}

/// Runs a compiler on `text`; `None` when it is absent. It must succeed and say nothing.
fn compile(tool: &str, args: &[&str], name: &str, text: &str) -> Option<PathBuf> {
    if Command::new(tool).arg("--version").output().is_err() {
        println!("skipped: {tool} is not on PATH (see p4.org)");
        return None;
    }
    let dir = env::temp_dir().join(format!("netfold-targets-{}-{tool}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let source = dir.join(format!("{name}.p4"));
    let out = dir.join(format!("{name}.out"));
    fs::write(&source, text).unwrap();
    let output = Command::new(tool).args(args).arg(&source).arg("-o").arg(&out).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{tool} {name}: {said}");
    fs::remove_file(&source).unwrap();
    Some(out)
}

#[test]
fn the_nic_compilers_take_every_nic_program() {
    for (name, text) in nics() {
        let Some(spec) = compile("p4c-dpdk", &["--arch", "pna"], name, &text) else { return };
        expect_within_dpdk_limits(name, &fs::read_to_string(spec).unwrap());
    }
}

/// What DPDK's pipeline would refuse when it loads the specification that the compiler wrote.
fn expect_within_dpdk_limits(name: &str, spec: &str) {
    let arrays = spec.lines().filter(|line| line.starts_with("regarray ")).count();
    assert!(arrays <= pna::REGISTER_ARRAYS_MAX, "{name}: {arrays} register arrays");
    let mut structure = String::new();
    let mut bits = 0;
    for line in spec.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("struct ") {
            structure = rest.to_string();
            bits = 0;
        } else if let Some(width) = line.strip_prefix("bit<").and_then(|rest| rest.split('>').next()) {
            bits += width.parse::<u32>().unwrap();
            assert!(
                bits <= 8 * 256,
                "{name}: {structure} is larger than the 256 bytes that an instruction reaches"
            );
        }
    }
}

#[test]
fn nics_refuse_what_they_do_not_have() {
    let nic = profile::by_name("nic").unwrap();
    let refused = pna_refusal(&Profile { ecn_depth: 16, ..nic.clone() });
    assert!(refused.construct.contains("queue depth"), "{refused}");
    let refused = pna_refusal(&Profile { encapsulation: Encapsulation::Datagram, ..nic.clone() });
    assert!(refused.construct.contains("datagrams"), "{refused}");
    let refused = pna_refusal(&Profile { lane_words: 352, ..nic.clone() });
    assert!(refused.construct.contains("352 lanes") && refused.limit.contains("256"), "{refused}");
    // One register array for each lane, and seven more for the other registers and counters.
    let printed =
        |lane_words| pna::print(&allreduce::program(&Profile { lane_words, ..nic.clone() }).unwrap());
    assert!(printed(249).is_ok());
    assert!(printed(250).is_err());
}
