//! Declarations of the system's DPDK, without logic.
//!
//! [`bindgen`](https://rust-lang.github.io/rust-bindgen/) reads DPDK's headers when the crate is built, and a list in `build.rs` selects
//! the functions. DPDK's inline functions, which have no symbol to link with, are in a shim of C (`shim/`), under names that begin with
//! `netfold_`. The functions' meaning is in [DPDK's own reference](https://doc.dpdk.org/api-22.11/).
#![expect(unsafe_code, reason = "declarations of foreign functions")]
#![allow(
    clippy::all,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    rust_2018_idioms,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    reason = "generated from C headers, whose names and comments these are"
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
