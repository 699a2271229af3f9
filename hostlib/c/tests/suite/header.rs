//! The committed header is the one generated from the code, and compilers accept it. `UPDATE_SNAPSHOTS=1` rewrites it.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_header_is_generated_from_the_code() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut header = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(here.join("src/lib.rs"))
        .generate()
        .expect("the crate's sources")
        .write(&mut header);
    // The header states its memory rules at its top, instead of Rust's safety sections.
    let header = without_safety_sections(&String::from_utf8(header).expect("text"));
    let path = here.join("include/netfold/netfold.h");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &header).expect("the header can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == header,
        "netfold.h differs from the code; run UPDATE_SNAPSHOTS=1 cargo test -p netfold-c --test suite header"
    );
}

fn without_safety_sections(header: &str) -> String {
    header.replace("* # Safety\n *\n * ", "* Memory: ")
}

/// Alone in a translation unit, included twice, with every warning an error.
#[test]
fn compilers_accept_the_header_without_a_warning() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for (compiler, standard, ending) in
        [("gcc", "c11", "c"), ("clang", "c11", "c"), ("g++", "c++17", "cpp"), ("clang++", "c++17", "cpp")]
    {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("skipped: the header under {compiler}, which is absent");
            continue;
        }
        let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("header_{compiler}.{ending}"));
        let text = "#include <netfold/netfold.h>\n#include <netfold/netfold.h>\n\
            int main(void) { return netfold_abi_version() != NETFOLD_ABI_VERSION; }\n";
        fs::write(&source, text).unwrap();
        let compiled = Command::new(compiler)
            .args([
                &format!("-std={standard}"),
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
                "-fsyntax-only",
                "-I",
            ])
            .arg(&include)
            .arg(&source)
            .output()
            .unwrap();
        assert!(
            compiled.status.success(),
            "{compiler} -std={standard}: {}",
            String::from_utf8_lossy(&compiled.stderr)
        );
    }
}
