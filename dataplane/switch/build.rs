//! Generates the fast paths: one module for each payload size, from the same program.

use std::path::PathBuf;
use std::{env, fs};

use netfold_p4::profile::{Encapsulation, Numerics, Profile};
use netfold_p4::{allreduce, rust};

/// Lanes a packet of the generated pipelines: payloads of 256, 1408 and 8192 bytes.
const LANE_WORDS: [u32; 3] = [64, 352, 2048];

/// Lanes a packet of the pipelines with other numerics than words: a payload of 1408 bytes.
const LANE_WORDS_CONVERTED: u32 = 352;

/// Queue depth in packets at which frames are marked.
const ECN_DEPTH: u32 = 16;

/// Queue depth in packets at which frames of droppable data are cut to their headers.
const TRIM_DEPTH: u32 = 24;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for lane_words in LANE_WORDS {
        let datagram = Profile::software(lane_words);
        let ethernet = Profile {
            encapsulation: Encapsulation::Ethernet,
            ecn_depth: ECN_DEPTH,
            trim_depth: TRIM_DEPTH,
            ..datagram.clone()
        };
        for (name, profile) in [("datagram", datagram), ("ethernet", ethernet)] {
            let text = rust::generate(&allreduce::program(&profile)?)?;
            fs::write(out.join(format!("{name}_{lane_words}.rs")), text)?;
        }
    }
    for numerics in [Numerics::Saturating, Numerics::Wide, Numerics::Half, Numerics::Float] {
        let profile = Profile::software_with(LANE_WORDS_CONVERTED, numerics);
        let text = rust::generate(&allreduce::program(&profile)?)?;
        fs::write(out.join(format!("{}_{LANE_WORDS_CONVERTED}.rs", numerics.name())), text)?;
    }
    Ok(())
}
