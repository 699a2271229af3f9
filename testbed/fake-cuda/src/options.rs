//! How a device behaves.

use std::time::Duration;

/// A kind of wait, by what waits for what. Streams are told apart by how they are made: of those that do not synchronise with the legacy
/// stream, the first copies in, the second copies out, two call functions of the host, and two launch the kernels that quantise, on what goes out and on what
/// comes back; all others are callers'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The stream that copies in, for a caller's stream.
    CallerBeforeCopyIn,
    /// The stream that copies in, for the one that copies out.
    CopyOutBeforeCopyIn,
    /// The host, for the stream that copies in: the word is written at once.
    CopyInBeforeHost,
    /// The stream that copies out, for a word in memory.
    HostBeforeCopyOut,
    /// A caller's stream, for the one that copies out.
    CopyOutBeforeCaller,
    /// The host, for the stream that copies out: the stream that calls its function does not wait.
    CopyOutBeforeHost,
    /// The stream that quantises, for a caller's stream.
    CallerBeforeQuantize,
    /// The stream that copies in, for the one that quantises.
    QuantizeBeforeCopyIn,
    /// The stream that quantises, for the one that copies out: lanes are made by exponents that are not agreed on.
    CopyOutBeforeQuantize,
    /// The stream that makes results, for the one that copies out.
    CopyOutBeforeResults,
    /// The stream that quantises, for the one that makes results: it uses the same memory again.
    ResultsBeforeQuantize,
    /// A caller's stream, for the one that makes results.
    ResultsBeforeCaller,
    /// The host, for the stream that makes results.
    ResultsBeforeHost,
}

impl Wait {
    /// Those of calls that the host quantises.
    pub const STAGING: [Self; 6] = [
        Self::CallerBeforeCopyIn,
        Self::CopyOutBeforeCopyIn,
        Self::CopyInBeforeHost,
        Self::HostBeforeCopyOut,
        Self::CopyOutBeforeCaller,
        Self::CopyOutBeforeHost,
    ];

    /// Those that calls have in addition that the device quantises.
    pub const QUANTIZING: [Self; 7] = [
        Self::CallerBeforeQuantize,
        Self::QuantizeBeforeCopyIn,
        Self::CopyOutBeforeQuantize,
        Self::CopyOutBeforeResults,
        Self::ResultsBeforeQuantize,
        Self::ResultsBeforeCaller,
        Self::ResultsBeforeHost,
    ];
}

/// A function that returns an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failing {
    /// The driver's function, such as `cuMemHostAlloc`.
    pub function: &'static str,
    /// Calls of it that still succeed.
    pub after: u32,
    /// `CUresult`.
    pub code: i32,
}

/// How a device behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Of the random numbers.
    pub seed: u64,
    /// Longest delay before an operation starts.
    pub lateness: Duration,
    /// Rate of copies in each direction; `None` for as fast as memory.
    pub bytes_per_second: Option<f64>,
    /// A wait that is left out.
    pub ignored: Option<Wait>,
    /// A function that fails.
    pub failing: Option<Failing>,
}

impl Default for Options {
    fn default() -> Self {
        let lateness = Duration::from_micros(200);
        Self { seed: 1, lateness, bytes_per_second: None, ignored: None, failing: None }
    }
}

impl Options {
    /// The defaults, but for `NETFOLD_FAKE_CUDA_SEED`, a number, and `NETFOLD_FAKE_CUDA_RATE`, in bytes per second. What is not a number is ignored.
    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let mut options = Self::default();
        if let Some(seed) = variable("NETFOLD_FAKE_CUDA_SEED").and_then(|text| text.parse().ok()) {
            options.seed = seed;
        }
        let rate = variable("NETFOLD_FAKE_CUDA_RATE").and_then(|text| text.parse::<f64>().ok());
        options.bytes_per_second = rate.filter(|rate| *rate > 0.0);
        options
    }
}
