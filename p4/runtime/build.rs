//! Compiles the protocol definitions, without an installed protoc.

use std::error::Error;

const FILES: [&str; 5] = [
    "bfrt_proto/bfruntime.proto",
    "google/rpc/code.proto",
    "netfold/switch/v1/ports.proto",
    "p4/config/v1/p4info.proto",
    "p4/v1/p4runtime.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    prost_build::Config::new()
        .include_file("protocols.rs")
        .enable_type_names()
        .type_name_domain(["."], "type.googleapis.com")
        .btree_map(["."])
        .compile_well_known_types()
        .disable_comments([".google.protobuf"])
        .compile_fds(protox::compile(FILES, ["proto"])?)?;
    Ok(())
}
