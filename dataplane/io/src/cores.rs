//! Processor cores by number: which thread runs where.
//!
//! A thread that is kept on a core ([`pin`]) finds its slots in that core's caches, and, because Linux gives a page to the node of the
//! core that first writes to it, its memory on the core's own node (NUMA), as long as it allocates that memory itself.

use std::fmt;
use std::io;
use std::str::FromStr;

/// Highest number of a core, as a list may name it.
const CORE_MAX: usize = 1023;

/// Cores by number, from 0, as the system counts them: what stands behind `--cores`, as in `0,4-7`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cores(Vec<usize>);

/// Words that are no [`Cores`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no list of cores: {problem}; expected numbers and ranges, as in 0,4-7")]
pub struct CoresParseError {
    text: String,
    problem: &'static str,
}

/// Why a thread is not kept on a core.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// There is no such core.
    #[error("this machine has no core {core}: this process may use {allowed}")]
    Absent {
        /// The core asked for.
        core: usize,
        /// What there is for this process.
        allowed: Cores,
    },
    /// The core is there, but not for this process.
    #[error(
        "core {core} is not for this process, which may use {allowed}: choose one of them, or widen its cpuset"
    )]
    NotAllowed {
        /// The core asked for.
        core: usize,
        /// What there is for this process.
        allowed: Cores,
    },
    /// The system refuses for another reason.
    #[error("a thread cannot be kept on core {core}")]
    Os {
        /// The core asked for.
        core: usize,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

impl Cores {
    /// Whether none is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many are named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The core of thread `index`, where threads take cores in turn; `None` where none is named.
    #[must_use]
    pub fn of(&self, index: usize) -> Option<usize> {
        self.0.get(index.checked_rem(self.0.len())?).copied()
    }

    /// The cores, in the order in which they were named.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<usize> for Cores {
    fn from_iter<I: IntoIterator<Item = usize>>(cores: I) -> Self {
        Self(cores.into_iter().collect())
    }
}

impl FromStr for Cores {
    type Err = CoresParseError;

    fn from_str(text: &str) -> Result<Self, CoresParseError> {
        let wrong = |problem| CoresParseError { text: text.to_owned(), problem };
        let number =
            |word: &str| word.trim().parse::<usize>().map_err(|_| wrong("there is something else in it"));
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last > CORE_MAX {
                return Err(wrong("the highest number is 1023"));
            }
            if first > last {
                return Err(wrong("a range goes from the lower to the higher number"));
            }
            cores.extend(first..=last);
        }
        let mut sorted = cores.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(wrong("a core is named twice"));
        }
        Ok(Self(cores))
    }
}

/// `0,4-7`, or `no core`.
impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no core");
        }
        for (index, run) in self.0.chunk_by(|a, b| a + 1 == *b).enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match run {
                [] => {}
                [one] => write!(f, "{one}")?,
                [first, .., last] => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Keeps the calling thread, and threads that it starts from now on, on a core.
///
/// # Errors
///
/// [`CoreError`], with the thread where it was.
pub fn pin(core: usize) -> Result<(), CoreError> {
    here::pin(core)
}

/// Whether a thread of this process can be kept on a core; the calling thread stays as it is.
///
/// # Errors
///
/// As [`pin`].
pub fn check(core: usize) -> Result<(), CoreError> {
    let tried = std::thread::Builder::new().name("netfold-cores".into()).spawn(move || pin(core));
    let tried = tried.map_err(|source| CoreError::Os { core, source })?;
    tried
        .join()
        .unwrap_or_else(|_| Err(CoreError::Os { core, source: io::Error::other("the thread panicked") }))
}

/// The cores that the calling thread may run on, in ascending order: one, if it is kept there.
///
/// # Errors
///
/// What the system says.
pub fn allowed() -> io::Result<Cores> {
    here::allowed()
}

#[cfg(target_os = "linux")]
mod here {
    use std::io;
    use std::path::Path;

    use rustix::io::Errno;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::{CoreError, Cores};

    pub(super) fn pin(core: usize) -> Result<(), CoreError> {
        let mut set = CpuSet::new();
        let refused = if core < CpuSet::MAX_CPU {
            set.set(core);
            match sched_setaffinity(None, &set) {
                Ok(()) => return kept(core),
                Err(error) => error,
            }
        } else {
            Errno::INVAL
        };
        // The kernel says the same of cores that are not there and of those outside the process's cpuset.
        if refused != Errno::INVAL {
            return Err(CoreError::Os { core, source: refused.into() });
        }
        let allowed = allowed().unwrap_or_default();
        let there = Path::new("/sys/devices/system/cpu").join(format!("cpu{core}")).exists();
        Err(if there { CoreError::NotAllowed { core, allowed } } else { CoreError::Absent { core, allowed } })
    }

    /// Reads back where the thread may run.
    fn kept(core: usize) -> Result<(), CoreError> {
        let set = allowed().map_err(|source| CoreError::Os { core, source })?;
        if set.iter().eq([core]) {
            return Ok(());
        }
        let source = io::Error::other(format!("the thread may run on {set} all the same"));
        Err(CoreError::Os { core, source })
    }

    pub(super) fn allowed() -> io::Result<Cores> {
        let set = sched_getaffinity(None)?;
        Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
    }
}

#[cfg(not(target_os = "linux"))]
mod here {
    use std::io;

    use super::{CoreError, Cores};

    pub(super) fn pin(core: usize) -> Result<(), CoreError> {
        Err(CoreError::Os { core, source: io::ErrorKind::Unsupported.into() })
    }

    pub(super) fn allowed() -> io::Result<Cores> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_and_printed() {
        for (text, cores) in [("3", vec![3]), ("0,4-7", vec![0, 4, 5, 6, 7]), ("2,1", vec![2, 1])] {
            let parsed: Cores = text.parse().unwrap();
            assert_eq!(parsed.iter().collect::<Vec<_>>(), cores);
            assert_eq!(parsed.to_string(), text);
        }
        for text in ["", "a", "1,", "1-", "7-4", "0,0", "1-3,2", "5000", "-1", "0-99999999999999999999"] {
            assert!(text.parse::<Cores>().is_err(), "{text}");
        }
        assert_eq!(Cores::default().to_string(), "no core");
    }

    #[test]
    fn threads_take_cores_in_turn() {
        let cores: Cores = "5,2".parse().unwrap();
        assert_eq!((0..3).map(|index| cores.of(index)).collect::<Vec<_>>(), [Some(5), Some(2), Some(5)]);
        assert_eq!(Cores::default().of(0), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pinned_thread_stays_on_its_core_and_others_are_unaffected() {
        let before = allowed().unwrap();
        let core = before.iter().last().unwrap();
        let (kept, child) = std::thread::spawn(move || {
            pin(core).unwrap();
            (allowed().unwrap(), std::thread::spawn(|| allowed().unwrap()).join().unwrap())
        })
        .join()
        .unwrap();
        assert!(kept.iter().eq([core]) && child == kept, "{kept}, {child}");
        check(core).unwrap();
        assert_eq!(allowed().unwrap(), before);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_names_a_missing_core() {
        for core in [CORE_MAX, CORE_MAX + 1, usize::MAX] {
            match check(core) {
                Err(CoreError::Absent { core: named, allowed }) => {
                    assert!(named == core && !allowed.is_empty())
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
