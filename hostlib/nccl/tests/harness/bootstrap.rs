//! How a rank talks to the process that started it, which is its bootstrap network.

use std::io::Write;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::VERSIONS;

fn variable<T: FromStr>(name: &str) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name} is not set"))
}

/// This rank's place.
#[derive(Clone)]
pub(crate) struct RankContext {
    pub(crate) plugin: std::path::PathBuf,
    pub(crate) scenario: String,
    pub(crate) version: u32,
    pub(crate) rank: usize,
    pub(crate) world: usize,
}

impl RankContext {
    /// Whether all operations and windows are tried. The versions of the interface differ in their tables alone, and paths by what is behind the
    /// interface: the newest version tries all through the switch, others every fifth operation.
    pub(crate) fn is_thorough(&self) -> bool {
        self.scenario == "everything" && VERSIONS.last() == Some(&self.version)
    }

    pub(crate) fn from_environment() -> Self {
        Self {
            plugin: variable("HARNESS_PLUGIN"),
            scenario: variable("HARNESS_SCENARIO"),
            version: variable("HARNESS_VERSION"),
            rank: variable("HARNESS_RANK"),
            world: variable("HARNESS_WORLD"),
        }
    }

    /// Every rank's bytes, by rank; nothing of ranks that have ended.
    pub(crate) fn gather(&self, mine: &[u8]) -> Vec<Vec<u8>> {
        let hex: String = mine.iter().map(|byte| format!("{byte:02x}")).collect();
        report(&format!("gather {hex}"));
        let mut line = String::new();
        assert!(
            std::io::stdin().read_line(&mut line).unwrap() > 0,
            "the process that started this rank is gone"
        );
        let parse = |text: &str| {
            let text = text.trim_matches('-');
            (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
        };
        line.trim_end_matches('\n').split(' ').map(parse).collect()
    }

    pub(crate) fn barrier(&self) {
        self.gather(&[0]);
    }
}

pub(crate) fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

/// Polls as NCCL's proxy does, but not for ever, and leaves the processor to others in between.
pub(crate) fn until<T>(what: &str, most: Duration, mut poll: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = (0..100).find_map(|_| poll()) {
            return value;
        }
        assert!(start.elapsed() < most, "{what}: nothing within {most:?}");
        std::thread::sleep(Duration::from_micros(50));
    }
}
