//! Programs printed for Tofino and for NICs: committed, accepted by the real compilers, and refused where they cannot fit.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p netfold-p4 --test targets` rewrites the committed files.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use netfold_p4::profile::{self, Encapsulation, Profile};
use netfold_p4::refusal::{PrintError, Refusal};
use netfold_p4::tna::{self, Chip};
use netfold_p4::{allreduce, pna};

/// What PNA prints, by profile: those that it refuses are left out.
fn nics() -> Vec<(&'static str, String)> {
    let print = |profile: &Profile| pna::print(&allreduce::program(profile).unwrap());
    let printed = profile::named().into_iter().map(|named| (named.name, print(&named.profile)));
    printed.filter_map(|(name, text)| Some((name, text.ok()?))).collect()
}

/// What Tofino prints, by profile and chip: those that it refuses are left out.
fn tofinos() -> Vec<(&'static str, Chip, String)> {
    let chips = [Chip::Tofino1, Chip::Tofino2];
    let print = |profile: &Profile, chip| tna::print(&allreduce::program(profile).unwrap(), chip);
    let all = profile::named().into_iter().flat_map(|named| chips.map(|chip| (named.clone(), chip)));
    all.filter_map(|(named, chip)| Some((named.name, chip, print(&named.profile, chip).ok()?))).collect()
}

fn suffix(chip: Chip) -> &'static str {
    match chip {
        Chip::Tofino1 => "tna",
        Chip::Tofino2 => "t2na",
    }
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
    let printed = tofinos();
    assert!(printed.iter().any(|(name, ..)| *name == "tofino"));
    for (name, chip, text) in printed {
        expect_snapshot(&format!("{name}.{}.p4", suffix(chip)), &text);
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
    let program = |ecn_depth| allreduce::program(&Profile { ecn_depth, ..nic.clone() }).unwrap();
    assert_eq!(pna::print(&program(16)).unwrap(), pna::print(&program(0)).unwrap(), "it never marks");
    let trims = allreduce::program(&Profile { trim_depth: 16, ..nic.clone() }).unwrap();
    assert_eq!(pna::print(&trims).unwrap(), pna::print(&program(0)).unwrap(), "it never trims");
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

/// The chips' architecture, where a source tree of p4c holds it.
fn tofino_includes() -> Option<PathBuf> {
    env::var_os("P4C_TOFINO_INCLUDE").map(PathBuf::from).filter(|dir| dir.join("tna.p4").exists())
}

/// p4c's front end knows the chips' architecture: it finds what is misspelt, though not what does not fit.
#[test]
fn the_tofino_front_end_takes_every_tofino_program() {
    let Some(includes) = tofino_includes() else {
        println!("skipped: P4C_TOFINO_INCLUDE does not name a directory with tna.p4 (see p4.org)");
        return;
    };
    if Command::new("p4test").arg("--version").output().is_err() {
        println!("skipped: p4test is not on PATH (see p4.org)");
        return;
    }
    let dir = env::temp_dir().join(format!("netfold-targets-{}-p4test", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    for (name, chip, text) in tofinos() {
        let source = dir.join(format!("{name}.{}.p4", suffix(chip)));
        fs::write(&source, text).unwrap();
        let target = if chip == Chip::Tofino1 { 1 } else { 2 };
        let output = Command::new("p4test")
            .arg(format!("-D__TARGET_TOFINO__={target}"))
            .arg("-I")
            .arg(&includes)
            .arg(&source)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{}: {said}", source.display());
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// The whole compiler, where it was built: stages and RAMs are no more than was estimated.
#[test]
fn the_tofino_compiler_takes_every_tofino_program() {
    for (name, chip, text) in tofinos() {
        let (target, arch) = if chip == Chip::Tofino1 { ("tofino", "tna") } else { ("tofino2", "t2na") };
        let _ = compile("p4c-barefoot", &["--target", target, "--arch", arch], name, &text);
    }
}

#[test]
fn tofinos_refuse_what_they_cannot_hold() {
    let tofino = profile::by_name("tofino").unwrap();
    let refused = |profile: &Profile, chip| match tna::print(&allreduce::program(profile).unwrap(), chip) {
        Err(PrintError::Refused(refusal)) => refusal,
        other => panic!("printed or invalid: {:?}", other.map(|text| text.len())),
    };
    let wide = refused(&Profile { lane_words: 352, ..tofino.clone() }, Chip::Tofino1);
    assert!(wide.construct.contains("352 lanes") && wide.limit.contains("64"), "{wide}");
    let tree = refused(&Profile { hierarchy: true, ..tofino.clone() }, Chip::Tofino1);
    assert!(tree.construct.contains("condition"), "{tree}");
    let sockets = Profile { encapsulation: Encapsulation::Datagram, ecn_depth: 0, ..tofino.clone() };
    assert!(refused(&sockets, Chip::Tofino2).construct.contains("datagrams"));
    let queues = refused(&Profile { priorities: 4, ..tofino.clone() }, Chip::Tofino1);
    assert!(queues.construct.contains("priorities"), "{queues}");
    let trims = refused(&Profile { trim_depth: 16, ..tofino.clone() }, Chip::Tofino2);
    assert!(trims.construct.contains("trimming"), "{trims}");
    let all = refused(&Profile { ops: netfold_wire::LaneOp::ALL.to_vec(), ..tofino }, Chip::Tofino1);
    assert!(all.construct.contains("register actions of 'sum'"), "{all}");
}

#[test]
fn the_tofino_profile_prints() {
    let program = allreduce::program(&profile::by_name("tofino").unwrap()).unwrap();
    for chip in [Chip::Tofino1, Chip::Tofino2] {
        if let Err(error) = tna::print(&program, chip) {
            panic!("{}: {error}", chip.name());
        }
    }
}
