//! Compiles the controller's interface and the part of etcd's that is used, without an installed protoc, and keeps the
//! descriptor of the controller's for server reflection.

use std::error::Error;
use std::path::PathBuf;

use prost::Message as _;

const CONTROLLER: &str = "netfold/controller/v1/controller.proto";
const ETCD: &str = "etcd.proto";

fn main() -> Result<(), Box<dyn Error>> {
    for file in [CONTROLLER, ETCD] {
        println!("cargo::rerun-if-changed=proto/{file}");
    }
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut controller = protox::compile([CONTROLLER], ["proto"])?;
    tonic_prost_build::configure().compile_fds(controller.clone())?;
    // Comments are for readers of the file; reflection does without.
    controller.file.iter_mut().for_each(|file| file.source_code_info = None);
    std::fs::write(out.join("controller.bin"), controller.encode_to_vec())?;
    let etcd = protox::compile([ETCD], ["proto"])?;
    tonic_prost_build::configure().build_server(false).compile_fds(etcd)?;
    Ok(())
}
