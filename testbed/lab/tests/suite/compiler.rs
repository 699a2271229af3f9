//! The real compiler and the printed programs.

use netfold_lab::bmv2::{compile, missing_tool};
use netfold_p4::{allreduce, p4info, profile};

/// The real compiler accepts every program without a warning, and derives the P4Info that is published.
#[test]
fn the_p4_compiler_agrees() {
    if let Some(tool) = missing_tool() {
        println!("skipped: {tool} is not on PATH (see p4.org)");
        return;
    }
    for profile::NamedProfile { name, profile, .. } in profile::named() {
        let program = allreduce::program(&profile.for_bmv2()).expect("the profiles are in range");
        let compiled = compile(&program).unwrap();
        assert_eq!(compiled.warnings, "", "{name}");
        let published = p4info::text(&program);
        assert_eq!(without_layout(&compiled.p4info), without_layout(&published), "{name}: P4Info");
    }
}

/// Text format without comments and indentation.
fn without_layout(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}
