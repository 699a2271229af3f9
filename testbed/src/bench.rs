//! Benchmarks. Each compares two things in one run and reports ratios, medians and spread.

pub mod admission;
pub mod all_reduce;
pub mod congestion;
pub mod fold;
pub mod host;
#[cfg(target_os = "linux")]
pub mod io;
pub mod peers;
pub mod perf;
pub mod quantize;
pub mod star;
