//! Rank, world size and job name, as launchers set them in the environment.
//!
//! | launcher | rank | world size | name of the job |
//! |---|---|---|---|
//! | torchrun, and others that set its variables | `RANK` | `WORLD_SIZE` | `TORCHELASTIC_RUN_ID`, with `.N` of `TORCHELASTIC_RESTART_COUNT`; none without `--rdzv-id` |
//! | Open MPI's `mpirun` | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` | `mpi-` and `PMIX_NAMESPACE` |
//! | MPICH, Intel MPI | `PMI_RANK` | `PMI_SIZE` | none |
//! | Slurm's `srun` | `SLURM_PROCID` | `SLURM_NTASKS` | `slurm-JOB.STEP` of `SLURM_JOB_ID` and `SLURM_STEP_ID` |
//!
//! The first launcher of the table whose variables are set counts: it is the one that started the process last, as torchrun in a task of `srun`.
//! Slurm's count in its tasks only, which have `SLURM_STEP_ID` and `SLURM_PROCID`: a batch script has the latter, and is one process whatever
//! `SLURM_NTASKS` says. An empty variable is not set.
//!
//! Sources: torch's `torch/distributed/elastic/agent/server/local_elastic_agent.py`; the manual pages mpirun(1) of Open MPI and srun(1) of Slurm;
//! MPICH's `src/pm/hydra/proxy`.

use std::fmt;

/// Who started this process as one of several ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Launcher {
    /// torchrun, or another that sets `RANK` and `WORLD_SIZE`.
    Torchrun,
    /// Open MPI.
    OpenMpi,
    /// MPICH, Intel MPI, or Slurm's own PMI.
    Pmi,
    /// Slurm's `srun`.
    Slurm,
}

/// What a launcher says of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// Whose variables these are.
    pub launcher: Launcher,
    /// This process's rank, below `world_size`.
    pub rank: u16,
    /// Number of ranks, from 1.
    pub world_size: u16,
    /// A name that all ranks of this run have in common, and other runs of this launcher have not. Any text: names of jobs have
    /// [1 to 64 bytes](crate::Builder::job).
    pub job: Option<String>,
}

/// Variables of a launcher that state no rank and world size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LauncherError {
    /// Not a decimal number in its range.
    #[error("the environment variable {name} is '{value}', which is not a number {}", range(.rank))]
    Number {
        /// The variable.
        name: &'static str,
        /// Its value, at most 32 characters of it.
        value: String,
        /// Whether it is a rank, from 0, or a world size, from 1.
        rank: bool,
    },
    /// One variable of the two is set.
    #[error("the environment variable {set} is set and {missing} is not; set both or neither")]
    Half {
        /// The one that is set.
        set: &'static str,
        /// The other.
        missing: &'static str,
    },
    /// They contradict each other.
    #[error("the environment variable {rank_name} is {rank}, which is not below {size_name}={world_size}")]
    Rank {
        /// The rank's variable.
        rank_name: &'static str,
        /// Its value.
        rank: u16,
        /// The world size's variable.
        size_name: &'static str,
        /// Its value.
        world_size: u16,
    },
}

fn range(rank: &bool) -> &'static str {
    if *rank { "from 0 to 65534" } else { "from 1 to 65535" }
}

/// What torchrun calls a run without `--rdzv-id`.
const TORCHRUN_UNNAMED: &str = "none";

/// The longest value that an error repeats, in characters.
const SHOWN_MAX: usize = 32;

impl Launcher {
    /// All, in the order in which they are looked for.
    pub const ALL: [Self; 4] = [Self::Torchrun, Self::OpenMpi, Self::Pmi, Self::Slurm];

    /// Its name: `torchrun`, `openmpi`, `pmi` or `slurm`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Torchrun => "torchrun",
            Self::OpenMpi => "openmpi",
            Self::Pmi => "pmi",
            Self::Slurm => "slurm",
        }
    }

    /// Names of the variables that have a process's rank and the world size.
    #[must_use]
    pub fn variables(self) -> (&'static str, &'static str) {
        match self {
            Self::Torchrun => ("RANK", "WORLD_SIZE"),
            Self::OpenMpi => ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
            Self::Pmi => ("PMI_RANK", "PMI_SIZE"),
            Self::Slurm => ("SLURM_PROCID", "SLURM_NTASKS"),
        }
    }

    /// What this launcher says of this process, by its variables' values; nothing if it has not started it.
    ///
    /// # Errors
    ///
    /// [`LauncherError`] names the variable that is malformed, missing or contradicts another.
    pub fn read(self, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Launched>, LauncherError> {
        let text = |name: &str| variable(name).filter(|text| !text.is_empty());
        let (rank_name, size_name) = self.variables();
        if self == Self::Slurm && (text("SLURM_STEP_ID").is_none() || text(rank_name).is_none()) {
            return Ok(None);
        }
        let (rank, world_size) = match (text(rank_name), text(size_name)) {
            (None, None) => return Ok(None),
            (Some(rank), Some(size)) => (number(rank_name, rank, true)?, number(size_name, size, false)?),
            (Some(_), None) => return Err(LauncherError::Half { set: rank_name, missing: size_name }),
            (None, Some(_)) => return Err(LauncherError::Half { set: size_name, missing: rank_name }),
        };
        if rank >= world_size {
            return Err(LauncherError::Rank { rank_name, rank, size_name, world_size });
        }
        let job = match self {
            // Slurm sets these, too, with its own PMI.
            Self::Pmi => match Self::Slurm.read(variable) {
                Ok(Some(task)) if (task.rank, task.world_size) == (rank, world_size) => task.job,
                _ => None,
            },
            launcher => launcher.job(&text),
        };
        Ok(Some(Launched { launcher: self, rank, world_size, job }))
    }

    /// What this launcher calls the run, whether or not it has started this process.
    fn job(self, text: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        match self {
            Self::Torchrun => {
                let run = text("TORCHELASTIC_RUN_ID").filter(|run| run != TORCHRUN_UNNAMED)?;
                let restart = text("TORCHELASTIC_RESTART_COUNT");
                Some(restart.map_or(run.clone(), |restart| format!("{run}.{restart}")))
            }
            Self::OpenMpi => text("PMIX_NAMESPACE").map(|namespace| format!("mpi-{namespace}")),
            Self::Pmi => None,
            Self::Slurm => slurm_job(text),
        }
    }
}

/// By [`Launcher::name`].
impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the launcher of this process says of it, by the [table](self); nothing if there is none.
///
/// # Errors
///
/// [`LauncherError`] names the variable that is malformed, missing or contradicts another.
pub fn from_environment() -> Result<Option<Launched>, LauncherError> {
    read(&environment)
}

/// The same, with a function that returns the value of a variable.
///
/// # Errors
///
/// As of [`from_environment`].
pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Launched>, LauncherError> {
    for launcher in Launcher::ALL {
        if let Some(launched) = launcher.read(variable)? {
            return Ok(Some(launched));
        }
    }
    Ok(None)
}

/// What a launcher calls this run: of the first in the [table](self) that has a name for it. Rank and world size are not looked at.
#[must_use]
pub fn job(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let text = |name: &str| variable(name).filter(|text| !text.is_empty());
    Launcher::ALL.into_iter().find_map(|launcher| launcher.job(&text))
}

/// Name of the job of a job step of Slurm: `slurm-JOB.STEP`, as `squeue --steps` has it. Nothing where either number is not set: all steps of an
/// allocation have the job's.
pub fn slurm_job(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let text = |name: &str| variable(name).filter(|text| !text.is_empty());
    Some(format!("slurm-{}.{}", text("SLURM_JOB_ID")?, text("SLURM_STEP_ID")?))
}

/// Value of a variable of this process, invalid characters replaced.
pub fn environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn number(name: &'static str, value: String, rank: bool) -> Result<u16, LauncherError> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed: Option<u16> = value.parse().ok().filter(|_| digits);
    let valid = if rank { 0..=u16::MAX - 1 } else { 1..=u16::MAX };
    parsed.filter(|number| valid.contains(number)).ok_or_else(|| LauncherError::Number {
        name,
        value: value.chars().take(SHOWN_MAX).collect(),
        rank,
    })
}

#[cfg(test)]
mod tests;
