//! The generated pipelines.

use netfold_p4::profile::{Encapsulation, Numerics};

use crate::runtime::Pipeline;

/// A generated pipeline in the catalogue that `build.rs` writes.
struct Entry {
    encapsulation: Encapsulation,
    numerics: Numerics,
    payload_bytes: u32,
    /// Whether it is for best-effort jobs.
    best_effort: bool,
    /// Fingerprint of the program.
    fingerprint: u64,
    /// The pipeline, empty and zeroed.
    new: fn() -> Box<dyn Pipeline>,
}

macro_rules! generated {
    ($module:ident) => {
        #[cfg_attr(
            target_arch = "x86_64",
            expect(unsafe_code, reason = "generated: calls of the SIMD builds, after detection")
        )]
        #[allow(missing_docs, clippy::all, reason = "generated text")]
        mod $module {
            use crate::runtime as rt;
            include!(concat!(env!("OUT_DIR"), "/", stringify!($module), ".rs"));
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));

fn new(is_wanted: impl Fn(&Entry) -> bool) -> Option<Box<dyn Pipeline>> {
    CATALOGUE.iter().find(|entry| is_wanted(entry)).map(|entry| (entry.new)())
}

/// The pipeline that was generated from the program with this fingerprint.
pub(crate) fn generated(fingerprint: u64) -> Option<Box<dyn Pipeline>> {
    new(|entry| entry.fingerprint == fingerprint)
}

/// The generated pipeline for datagrams (transports that handle the outer headers) with this payload, empty and zeroed.
pub fn datagram_pipeline(payload_bytes: u32) -> Option<Box<dyn Pipeline>> {
    numeric_pipeline(payload_bytes, Numerics::Word)
}

/// The generated pipeline for Ethernet frames with this payload, empty and zeroed.
pub fn ethernet_pipeline(payload_bytes: u32) -> Option<Box<dyn Pipeline>> {
    new(|entry| entry.encapsulation == Encapsulation::Ethernet && entry.payload_bytes == payload_bytes)
}

/// The generated pipeline for datagrams with this payload and these numerics, empty and zeroed. Words have one for each of
/// [`PAYLOADS`], the others for 1408 bytes.
pub fn numeric_pipeline(payload_bytes: u32, numerics: Numerics) -> Option<Box<dyn Pipeline>> {
    new(|entry| {
        entry.encapsulation == Encapsulation::Datagram
            && entry.numerics == numerics
            && entry.payload_bytes == payload_bytes
            && !entry.best_effort
    })
}

/// The generated pipeline for best-effort jobs ([`Profile::best_effort`](netfold_p4::profile::Profile::best_effort)), at the switch that they share and at their
/// aggregator, for datagrams with this payload, 256 or 1408 bytes; empty and zeroed.
pub fn best_effort_pipeline(payload_bytes: u32) -> Option<Box<dyn Pipeline>> {
    new(|entry| entry.best_effort && entry.payload_bytes == payload_bytes)
}
