//! Generates the compiled pipelines from the program, one module for each profile, and the catalogue of them.

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

use netfold_p4::profile::{Encapsulation, Numerics, Profile};
use netfold_p4::{allreduce, rust};

/// Lanes per packet of the generated pipelines: payloads of 256, 1408 and 8192 bytes.
const LANE_WORDS: [u32; 3] = [64, 352, 2048];

/// Lanes per packet of the pipelines with numerics other than words: a payload of 1408 bytes.
const LANE_WORDS_CONVERTED: u32 = 352;

/// Lanes per packet of the pipelines for best-effort jobs.
const LANE_WORDS_BEST_EFFORT: [u32; 2] = [64, 352];

/// Lanes per packet of pipelines that tests alone use: a multiple of no vector's width, also in lanes of 16 bits.
const LANE_WORDS_TESTED: u32 = 19;

/// Queue depth in packets at which frames are marked.
const ECN_DEPTH: u32 = 16;

/// Queue depth in packets at which frames of droppable data are cut to their headers.
const TRIM_DEPTH: u32 = 24;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut modules = String::new();
    let mut entries = String::new();
    for (name, profile) in profiles() {
        let program = allreduce::program(&profile)?;
        fs::write(out.join(format!("{name}.rs")), rust::generate(&program)?)?;
        writeln!(modules, "generated!({name});")?;
        writeln!(
            entries,
            "    Entry {{ encapsulation: Encapsulation::{:?}, numerics: Numerics::{:?}, payload_bytes: {}, best_effort: {}, \
             fingerprint: {:#x}, new: || Box::new({name}::Program::new()) }},",
            profile.encapsulation,
            profile.numerics,
            profile.lane_words * 4,
            profile.best_effort,
            program.fingerprint(),
        )?;
    }
    for numerics in Numerics::ALL {
        let program = allreduce::program(&Profile::software_with(LANE_WORDS_TESTED, *numerics))?;
        fs::write(out.join(format!("tested_{}.rs", numerics.name())), rust::generate(&program)?)?;
    }
    let payloads = LANE_WORDS.map(|words| words * 4);
    let text = format!(
        "{modules}\n\
         /// Payload sizes in bytes for which there is a generated pipeline; the middle one suits an MTU of 1500.\n\
         pub const PAYLOADS: [u32; {}] = {payloads:?};\n\n\
         const CATALOGUE: &[Entry] = &[\n{entries}];\n",
        payloads.len(),
    );
    fs::write(out.join("catalogue.rs"), text)?;
    Ok(())
}

/// The profiles for which a pipeline is generated, with the names of their modules.
fn profiles() -> Vec<(String, Profile)> {
    let mut profiles = Vec::new();
    for lane_words in LANE_WORDS {
        let datagram = Profile::software(lane_words);
        let ethernet = Profile {
            encapsulation: Encapsulation::Ethernet,
            ecn_depth: ECN_DEPTH,
            trim_depth: TRIM_DEPTH,
            ..datagram.clone()
        };
        profiles.push((format!("datagram_{lane_words}"), datagram));
        profiles.push((format!("ethernet_{lane_words}"), ethernet));
    }
    for numerics in Numerics::ALL.iter().filter(|numerics| **numerics != Numerics::Word) {
        let profile = Profile::software_with(LANE_WORDS_CONVERTED, *numerics);
        profiles.push((format!("{}_{LANE_WORDS_CONVERTED}", numerics.name()), profile));
    }
    for lane_words in LANE_WORDS_BEST_EFFORT {
        let profile = Profile::software(lane_words).for_best_effort();
        profiles.push((format!("best_effort_{lane_words}"), profile));
    }
    profiles
}
