//! The committed PTX is what NVIDIA's compiler makes of the source, and has no instruction that fuses, flushes or approximates.
//!
//! It is made again by `UPDATE_SNAPSHOTS=1 NETFOLD_NVRTC_LIBRARY=PATH cargo test -p netfold-cuda --test suite`, with the library of the wheel
//! nvidia-cuda-nvrtc-cu12 12.0.140: the oldest version whose PTX every driver takes that Netfold works with.

use std::fmt::Write;
use std::path::Path;

use netfold_cuda::quantize::{CAPABILITY, PTX, QuantizeKernel, SOURCE};
use sha2::{Digest, Sha256};

use crate::nvrtc::Nvrtc;

/// The version that the committed code is made with.
const VERSION: (i32, i32) = (12, 0);

/// Rounding is in the operations' names; these say the same for conversions and for the compiler's own functions.
const OPTIONS: [&str; 4] = ["--fmad=false", "--ftz=false", "--prec-div=true", "--std=c++17"];

/// The first lines of the committed code.
fn header() -> String {
    let digest = Sha256::digest(SOURCE.as_bytes());
    let digest = digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    format!(
        "// kernels.cu, compiled; see hostlib/cuda/tests/suite/ptx.rs.\n// SHA-256 of the source: {digest}\n"
    )
}

fn compile(nvrtc: &Nvrtc, architecture: &str) -> Result<String, String> {
    let architecture = format!("--gpu-architecture={architecture}");
    let mut options = vec![architecture.as_str()];
    options.extend(OPTIONS);
    nvrtc.compile(SOURCE, &options)
}

/// Instructions whose results could have other bits than the portable code's.
fn inexact(ptx: &str) -> Vec<&str> {
    let arithmetic = |name: &str| {
        ["add", "sub", "mul", "div"].contains(&name.split('.').next().unwrap_or_default())
            && (name.ends_with(".f32") || name.ends_with(".f64"))
    };
    let wrong = |name: &&str| {
        name.contains(".ftz")
            || name.contains(".approx")
            || name.contains(".full")
            || name.starts_with("fma")
            || name.starts_with("mad") && (name.ends_with(".f32") || name.ends_with(".f64"))
            || arithmetic(name) && !name.contains(".rn.")
    };
    let code = ptx.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    // A predicate may come first.
    let names = code.filter_map(|line| line.split_whitespace().find(|word| !word.starts_with('@')));
    names.filter(wrong).collect()
}

fn entries(ptx: &str) -> usize {
    ptx.matches(".visible .entry ").count()
}

#[test]
fn inexact_instructions_are_found() {
    let found = inexact(
        "mul.rn.f32 %f1;\n@%p1 mul.f32 %f1;\n\tadd.rn.ftz.f32 %f;\nfma.rn.f32 %f;\ndiv.full.f32 %f;\nmul.lo.s32 %r;\n// add.f32",
    );
    assert_eq!(found, ["mul.f32", "add.rn.ftz.f32", "fma.rn.f32", "div.full.f32"]);
}

#[test]
fn the_committed_code_is_of_this_source_and_rounds_as_it_says() {
    assert!(
        PTX.starts_with(&header()),
        "kernels.cu has changed: compile it again, as tests/suite/ptx.rs says"
    );
    let target = format!("\n.version 8.0\n.target sm_{}{}\n", CAPABILITY.0, CAPABILITY.1);
    assert!(PTX.contains(&target));
    for kernel in QuantizeKernel::ALL {
        let entry = format!(".visible .entry {}(", kernel.name().to_str().unwrap());
        assert!(PTX.contains(&entry), "{entry}");
    }
    assert_eq!(entries(PTX), QuantizeKernel::ALL.len());
    assert_eq!(inexact(PTX), Vec::<&str>::new());
    assert!(!PTX.contains(".local"), "registers have run out");
}

#[test]
fn the_compiler_makes_it_for_each_architecture() {
    let Some(nvrtc) = Nvrtc::find() else {
        println!(
            "skipped: no NVRTC; pip install nvidia-cuda-nvrtc-cu12==12.0.140, or set NETFOLD_NVRTC_LIBRARY"
        );
        return;
    };
    if nvrtc.version() == VERSION {
        let made = compile(&nvrtc, &format!("compute_{}{}", CAPABILITY.0, CAPABILITY.1)).unwrap();
        let made = header() + &made;
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/quantize/kernels.ptx");
            return std::fs::write(path, made).unwrap();
        }
        assert!(made == PTX, "kernels.ptx differs from what the compiler makes");
    }
    let mut architectures = vec!["sm_80", "sm_90"];
    // Known from this version on.
    if nvrtc.version() >= (12, 8) {
        architectures.push("sm_100");
    }
    for architecture in &architectures {
        let made = compile(&nvrtc, architecture).unwrap();
        assert_eq!(inexact(&made), Vec::<&str>::new(), "{architecture}");
        assert_eq!(entries(&made), QuantizeKernel::ALL.len());
    }
    println!("NVRTC {:?}: {}", nvrtc.version(), architectures.join(", "));
}
