//! Sizes and names of files and functions, files that nothing includes, and unsafe blocks without an argument.

use std::path::Path;

use anyhow::Result;

use super::source::{self, Source};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Names that say nothing about what is in a module.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc"];

/// The sources and folders that may hold unsafe code; tests may, too. docs/architecture.md names them.
const UNSAFE_FILES: &[&str] = &[
    "dataplane/io/src/ethernet/checksum.rs",
    "dataplane/io/src/link/mapping.rs",
    "dataplane/io/src/link/socket.rs",
    "dataplane/io/src/link/xdp",
    "dataplane/io/src/sys.rs",
    "dataplane/io/src/udp/syscall.rs",
    "dataplane/bpf/src/sys.rs",
    "dataplane/dpdk/src/buffers.rs",
    "dataplane/dpdk/src/device.rs",
    "dataplane/dpdk/src/eal.rs",
    "dataplane/dpdk/src/port.rs",
    "dataplane/dpdk/src/swx/build.rs",
    "dataplane/dpdk/src/swx/memory.rs",
    "dataplane/dpdk/src/swx/pipeline.rs",
    "dataplane/switch/src/action.rs",
    // Bindings: all that they do is to work on foreign pointers.
    "hostlib/c/src",
    "hostlib/cuda/src",
    "hostlib/nccl/src",
    "hostlib/python/src",
    "hostlib/collectives/src/reduce/aarch64.rs",
    "hostlib/collectives/src/reduce/x86.rs",
    "hostlib/collectives/src/shared/hierarchy.rs",
    "hostlib/collectives/src/shared/mapping.rs",
    "hostlib/collectives/src/shared/pipeline.rs",
    "hostlib/collectives/src/shared/sys.rs",
    "hostlib/examples/device_overlap.rs",
    "hostlib/src/buffer.rs",
    "hostlib/src/communicator.rs",
    "hostlib/src/device_calls.rs",
    "hostlib/src/feedback.rs",
    "hostlib/src/host.rs",
    "hostlib/src/leader.rs",
    "hostlib/src/lower.rs",
    "hostlib/src/quantize/half_float_avx2.rs",
    "hostlib/src/quantize/half_float_neon.rs",
    "hostlib/src/quantize/rounded_avx2.rs",
    "hostlib/src/quantize/rounded_neon.rs",
    "hostlib/src/quantize/vector_avx2.rs",
    "hostlib/src/quantize/vector_neon.rs",
    "hostlib/src/router.rs",
    "hostlib/src/staging.rs",
    "hostlib/src/staging/blocks.rs",
    "hostlib/src/staging/buffers.rs",
    "hostlib/src/staging/quantized.rs",
    "hostlib/src/staging/stager.rs",
    "testbed/fake-cuda/src",
    "testbed/measure/src/fold/plain.rs",
    "testbed/measure/src/perf.rs",
    "testbed/testkit/src/allocation.rs",
    "testbed/testkit/src/namespace.rs",
];

/// Files and functions that have grown too long.
pub(super) fn lengths() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for source in source::all()? {
        let path = source.path.display();
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            problems.push(format!("{path}: {lines} lines; split it (at most {FILE_LINES_MAX})"));
        }
        for (name, first, last) in source.functions() {
            let lines = last - first + 1;
            if lines > FUNCTION_LINES_MAX {
                problems
                    .push(format!("{path}:{first}: {name} has {lines} lines (at most {FUNCTION_LINES_MAX})"));
            }
        }
    }
    Ok(problems)
}

/// Modules that are not named after what they hold.
pub(super) fn names() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for source in source::all()? {
        if source.path.ends_with("mod.rs") {
            let path = source.path.display();
            problems.push(format!("{path}: name the file after its module, beside the module's folder"));
        }
        let parts = source.path.iter().filter_map(|part| part.to_str());
        for part in parts.map(|part| part.trim_end_matches(".rs")) {
            if EMPTY_NAMES.contains(&part) {
                problems.push(format!("{}: name the module after what it holds", source.path.display()));
            }
        }
    }
    Ok(problems)
}

/// Source files that no `mod` includes.
pub(super) fn orphans() -> Result<Vec<String>> {
    let sources = source::all()?;
    let mut problems = Vec::new();
    for source in &sources {
        let path = &source.path;
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let folder = path.parent().unwrap_or(Path::new(""));
        let is_root = matches!(stem, "lib" | "main" | "build")
            || ["tests", "benches", "examples", "bin", "targets"].iter().any(|name| folder.ends_with(name));
        let declares = |other: &Source| {
            let near = other.path.parent() == Some(folder) || other.path.with_extension("") == folder;
            let by_path = format!("{stem}.rs\"]");
            near && (other.code.contains(&format!("mod {stem};")) || other.text.contains(&by_path))
        };
        if !is_root && !sources.iter().any(declares) {
            problems.push(format!("{}: no module includes it", path.display()));
        }
    }
    Ok(problems)
}

/// Unsafe code outside the few places for it, and unsafe blocks without a comment that argues for them.
pub(super) fn safety() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for source in source::all()? {
        let lines: Vec<&str> = source.text.lines().collect();
        let known = UNSAFE_FILES.iter().any(|place| source.path.starts_with(Path::new(place)))
            || source.path.iter().any(|part| part == "tests" || part == "tests.rs");
        let holds = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"]
            .iter()
            .any(|word| source.code.contains(word));
        if holds && !known {
            problems.push(format!("{}: unsafe code does not belong here", source.path.display()));
        }
        for (number, code) in source.code.lines().enumerate() {
            let opens = code.contains("unsafe {") || code.contains("unsafe impl");
            if opens && !argued(&lines, number) {
                problems.push(format!("{}:{}: no SAFETY comment", source.path.display(), number + 1));
            }
        }
    }
    Ok(problems)
}

/// Whether the statement that holds a line has a `SAFETY:` comment on or above it.
fn argued(lines: &[&str], number: usize) -> bool {
    for line in lines[..=number].iter().rev() {
        let line = line.trim();
        if line.contains("SAFETY:") {
            return true;
        }
        let is_unsafe_line = std::ptr::eq(line, lines[number].trim());
        let ends_another = line.ends_with([';', '}']) || line.is_empty();
        if ends_another && !is_unsafe_line && !line.starts_with("//") {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_must_belong_to_the_statement() {
        let good = ["f();", "// SAFETY: it is.", "let x =", "    unsafe { g() };"];
        assert!(argued(&good, 3));
        let bad = ["// SAFETY: it is.", "f();", "unsafe { g() };"];
        assert!(!argued(&bad, 2));
    }
}
