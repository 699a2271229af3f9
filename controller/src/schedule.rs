//! When jobs use the network, by which paths, and in which order: plans over all jobs at once, as functions of their arguments.
//!
//! Trainings compute and send by turns. Those that share a link lose time only while they send at the same moment, so a
//! scheduler may decide the order then ([`crux`], by priorities) or see to it that it does not happen ([`cassini`], by shifts in
//! time). The two are alternatives: a shift that keeps jobs apart leaves nothing for priorities to decide, and a
//! priority that delays a job undoes its shift.
//!
//! | module | question | answer |
//! |---|---|---|
//! | [`link`] | what do periodic jobs get of one link under strict priorities? | a simulation, exact in microseconds |
//! | [`crux`] | which path, and which of few priorities, does each job get? | by GPU intensity |
//! | [`levels`] | how do many priorities become few? | a cut of the graph of precedences |
//! | [`cassini`] | by how much is each job to be shifted, and how well does a placement interleave? | circles and their overlap |
//! | [`affinity`] | which shifts satisfy all links at once? | a walk over the graph of jobs and links |
//! | [`interleave`] | which iterations of jobs that run are delayed? | a state machine over measured patterns |
//! | [`paths`] | which equal paths do jobs that run use? | a state machine over measured patterns |
//!
//! Nothing here talks to jobs. The levels of [`crux`] become classes of packets by [`crate::bands`], shifts in time become delays by [`interleave`],
//! and its choice of paths orders by [`paths`].
//!
//! # Sources
//!
//! Cao et al., "Crux: GPU-Efficient Communication Scheduling for Deep Learning Training", SIGCOMM 2024; Rajasekaran et al., "CASSINI:
//! Network-Aware Job Scheduling in Machine Learning Clusters", NSDI 2024.

pub mod affinity;
pub mod cassini;
pub mod crux;
pub mod interleave;
pub mod levels;
pub mod link;
pub mod paths;

use std::fmt;

/// What the control plane does about jobs whose communication patterns it knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Nothing.
    #[default]
    Off,
    /// Jobs have classes of packets by GPU intensity ([`crux`]), which is measured, and use the equal paths that [`paths`] chooses.
    Crux,
    /// Iterations are delayed so that jobs communicate in turns ([`interleave`]).
    Cassini,
}

impl Schedule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Off, Self::Crux, Self::Cassini];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Crux => "crux",
            Self::Cassini => "cassini",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|schedule| schedule.name() == name)
    }
}

/// What a schedule does about a job, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Decision {
    /// Of the delays of its iterations.
    Shift(interleave::Decision),
    /// Of its paths.
    Paths(paths::Decision),
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shift(decision) => decision.fmt(f),
            Self::Paths(decision) => decision.fmt(f),
        }
    }
}
