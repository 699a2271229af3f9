//! Running the checks, and the table of what came of them.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Backend, Rig, checks, device};

/// What came of one check on one backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not; the panic was printed.
    Failed,
    /// The machine lacks what the backend needs; a line says what.
    Skipped,
    /// The backend has nothing that the check is about.
    None,
}

/// Backends by checks.
#[derive(Debug, Default)]
pub struct Table {
    checks: Vec<&'static str>,
    rows: Vec<(String, Vec<Outcome>)>,
}

impl Table {
    /// How many checks failed, on all backends.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.count(Outcome::Failed)
    }

    /// How many were skipped.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.count(Outcome::Skipped)
    }

    fn count(&self, wanted: Outcome) -> usize {
        self.rows.iter().flat_map(|(_, outcomes)| outcomes).filter(|outcome| **outcome == wanted).count()
    }
}

/// Runs every check on a fresh rig of every backend, so many backends side by side: most of the time is spent while the kernel takes
/// interfaces down. `filter`: only backends or checks whose name contains it.
#[must_use]
pub fn run(backends: &[Backend], filter: Option<&str>, threads: usize) -> Table {
    let names = checks::ALL.iter().chain(device::ALL).map(|(name, _)| *name);
    let next = AtomicUsize::new(0);
    let rows: Vec<OnceLock<Vec<Outcome>>> = backends.iter().map(|_| OnceLock::new()).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < rows.len())
                {
                    rows[at].get_or_init(|| row(&backends[at], filter));
                }
            });
        }
    });
    let outcomes = rows.into_iter().map(|row| row.into_inner().unwrap_or_default());
    let rows = backends.iter().map(|backend| backend.name.clone()).zip(outcomes).collect();
    Table { checks: names.collect(), rows }
}

/// Every check on one backend.
fn row(backend: &Backend, filter: Option<&str>) -> Vec<Outcome> {
    let mut absent = None;
    let all = checks::ALL.iter().chain(device::ALL).enumerate();
    let outcomes = all.map(|(index, (name, check))| {
        let wanted = filter.is_none_or(|part| backend.name.contains(part) || name.contains(part));
        if !wanted {
            return Outcome::None;
        }
        one(backend, name, *check, index >= checks::ALL.len(), &mut absent)
    });
    let outcomes = outcomes.collect();
    if let Some(reason) = absent {
        println!("skipped: {}: {reason}", backend.name);
    }
    outcomes
}

fn one(
    backend: &Backend,
    name: &str,
    check: fn(Rig),
    needs_interface: bool,
    absent: &mut Option<String>,
) -> Outcome {
    if absent.is_some() {
        return Outcome::Skipped;
    }
    let made = catch_unwind(AssertUnwindSafe(|| (backend.make)()));
    let rig = match made {
        Ok(Ok(rig)) => rig,
        Ok(Err(reason)) => {
            *absent = Some(reason);
            return Outcome::Skipped;
        }
        Err(_) => {
            println!("failed: {}, before {name}: no rig", backend.name);
            return Outcome::Failed;
        }
    };
    if needs_interface && rig.interface.is_none() {
        return Outcome::None;
    }
    match catch_unwind(AssertUnwindSafe(|| check(rig))) {
        Ok(()) => Outcome::Passed,
        Err(_) => {
            println!("failed: {}, {name}", backend.name);
            Outcome::Failed
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.checks.iter().enumerate() {
            writeln!(f, "{:>3} {name}", index + 1)?;
        }
        let width = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        write!(f, "\n{:width$}", "back end")?;
        for index in 0..self.checks.len() {
            write!(f, " {:>4}", index + 1)?;
        }
        for (name, outcomes) in &self.rows {
            write!(f, "\n{name:width$}")?;
            for outcome in outcomes {
                let word = match outcome {
                    Outcome::Passed => "ok",
                    Outcome::Failed => "FAIL",
                    Outcome::Skipped => "skip",
                    Outcome::None => "-",
                };
                write!(f, " {word:>4}")?;
            }
        }
        writeln!(f)
    }
}
