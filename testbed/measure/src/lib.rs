//! Netfold's benchmarks. Each compares two things in one run and reports ratios, medians and spread.
//!
//! - [`admission`]: how long it takes to join a job.
//! - [`all_reduce`]: one job's collective operations, with the bound of its links measured in the same run.
//! - [`congestion`]: congestion-control algorithms beside each other.
//! - [`fold`]: the switch's pipeline alone, on packets in memory.
//! - [`host`]: ranks of one host beside other libraries.
//! - [`io`]: packet I/O back ends beside a plain forwarder.
//! - [`jobs`]: many jobs at once beside few.
//! - [`peers`]: the other libraries, as processes.
//! - [`perf`]: a job's operations at many sizes, as `nccl-tests` prints them.
//! - [`mod@process`]: programs under test, which print JSON.
//! - [`quantize`]: conversion between tensors and lanes.
//! - [`star`]: hosts in network namespaces around one switch, beside other libraries on the same links.
//! - [`wake`]: the cost of waking a thread.

pub mod admission;
pub mod all_reduce;
pub mod congestion;
pub mod fold;
pub mod host;
#[cfg(target_os = "linux")]
pub mod io;
pub mod jobs;
pub mod masks;
pub mod peers;
pub mod perf;
pub mod process;
pub mod quantize;
pub mod star;
pub mod tags;
pub mod wake;
