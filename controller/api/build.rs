//! Compiles the interface without an installed protoc, and keeps its descriptor for server reflection.

use std::error::Error;
use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let file = "netfold/controller/v1/controller.proto";
    println!("cargo::rerun-if-changed=proto/{file}");
    let mut descriptors = protox::compile([file], ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors.clone())?;
    // Comments are for readers of the file; reflection does without.
    descriptors.file.iter_mut().for_each(|file| file.source_code_info = None);
    std::fs::write(out.join("controller.bin"), descriptors.encode_to_vec())?;
    Ok(())
}
