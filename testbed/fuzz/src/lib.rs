//! Fuzz targets: each is a function of any bytes that must return.
//!
//! An engine feeds them (see `targets/`). Bytes are read as packets and as instructions to the harness alike, so that
//! mutation reaches deep states: see [`input::Input`].

pub mod control;
pub mod documents;
pub mod ethernet;
pub mod input;
pub mod links;
pub mod pipeline;
pub mod switch_control;
pub mod wire;
pub mod worker;

/// A target: panics when something is wrong.
pub type Target = fn(&[u8]);

/// Every target by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("wire", wire::run),
    ("worker", worker::run),
    ("pipeline", pipeline::run),
    ("control", control::run),
    ("ethernet", ethernet::run),
    ("documents", documents::run),
    ("links", links::run),
    ("switch_control", switch_control::run),
];
