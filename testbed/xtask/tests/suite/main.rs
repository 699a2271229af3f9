//! The committed Rust code of gRPC interfaces is generated from the definitions in the packages' `proto` directories, without an
//! installed protoc. The generators are those of prost and tonic; a build of Netfold needs neither.
//!
//! `cargo xtask snapshots` rewrites the code.

use std::path::{Path, PathBuf};

use netfold_testkit::committed;
use netfold_testkit::directory::TemporaryDirectory;
use prost::Message as _;

/// A directory of the workspace.
fn package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn assert_committed(package: &Path, generated: &TemporaryDirectory) {
    committed::assert_equal(&package.join("src/generated"), generated.path(), "cargo xtask snapshots");
}

/// The messages of P4Runtime and BF Runtime.
#[test]
fn switch_protocols_equal_the_committed_code() {
    let package = package("p4/runtime");
    let files = [
        "bfrt_proto/bfruntime.proto",
        "google/rpc/code.proto",
        "netfold/switch/v1/ports.proto",
        "p4/config/v1/p4info.proto",
        "p4/v1/p4runtime.proto",
    ];
    let generated = TemporaryDirectory::new("protocols");
    prost_build::Config::new()
        .out_dir(generated.path())
        .include_file("protocols.rs")
        .enable_type_names()
        .type_name_domain(["."], "type.googleapis.com")
        .btree_map(["."])
        .compile_well_known_types()
        .disable_comments([".google.protobuf"])
        .compile_fds(protox::compile(files, [package.join("proto")]).expect("valid definitions"))
        .expect("the code can be written");
    assert_committed(&package, &generated);
}

/// The controller's interface with its descriptor for server reflection, and the part of etcd's that is used.
#[test]
fn controller_interfaces_equal_the_committed_code() {
    let package = package("controller/server");
    let compile = |file| protox::compile([file], [package.join("proto")]).expect("valid definitions");
    let generated = TemporaryDirectory::new("interfaces");
    let configuration = || tonic_prost_build::configure().out_dir(generated.path());
    let mut controller = compile("netfold/controller/v1/controller.proto");
    configuration().compile_fds(controller.clone()).expect("the code can be written");
    configuration().build_server(false).compile_fds(compile("etcd.proto")).expect("the code can be written");
    // Comments are for readers of the file; reflection does without.
    controller.file.iter_mut().for_each(|file| file.source_code_info = None);
    generated.write("controller.bin", controller.encode_to_vec());
    assert_committed(&package, &generated);
}
