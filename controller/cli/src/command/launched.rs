//! Rank, world size and job name of a process: by its options, else by its launcher.

use netfold::launcher::{self, Launched};

use crate::error::CliError;

/// One rank of several processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rank: u16,
    pub(crate) world: u16,
    /// What the launcher calls the run, if it has a name for it.
    pub(crate) job: Option<String>,
}

/// The place that `--rank` and `--world` give, each from the launcher if it is not given; nothing without options and launcher.
///
/// # Errors
///
/// When a rank is not below the world size, only one of the two is known, or the launcher's variables are malformed or contradict each other.
/// They are not read if both options are given.
pub(crate) fn place(rank: Option<u16>, world: Option<u16>) -> Result<Option<Place>, CliError> {
    let launched = match (rank, world) {
        (Some(_), Some(_)) => None,
        _ => launcher::from_environment()
            .map_err(|error| CliError::Usage(format!("{error}; correct it, or give --rank and --world")))?,
    };
    merge((rank, world), launched, || launcher::job(&launcher::environment))
}

fn merge(
    options: (Option<u16>, Option<u16>),
    launched: Option<Launched>,
    job: impl FnOnce() -> Option<String>,
) -> Result<Option<Place>, CliError> {
    let place = match (options, launched) {
        ((Some(rank), Some(world)), _) => Place { rank, world, job: job() },
        ((rank, world), Some(launched)) => Place {
            rank: rank.unwrap_or(launched.rank),
            world: world.unwrap_or(launched.world_size),
            job: launched.job,
        },
        ((None, None), None) => return Ok(None),
        ((Some(_), None), None) => return Err(alone("--rank", "--world")),
        ((None, Some(_)), None) => return Err(alone("--world", "--rank")),
    };
    let Place { rank, world, .. } = place;
    if rank >= world {
        return Err(CliError::Usage(format!(
            "--rank {rank} does not fit --world {world}: ranks are 0 to {}",
            i32::from(world) - 1
        )));
    }
    Ok(Some(place))
}

fn alone(given: &str, missing: &str) -> CliError {
    CliError::Usage(format!(
        "{given} is given and {missing} is not, and no launcher has set it (srun, mpirun or torchrun); give {missing}, too"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched() -> Option<Launched> {
        let value = |name: &str| match name {
            "SLURM_PROCID" => Some("1".into()),
            "SLURM_NTASKS" => Some("4".into()),
            "SLURM_JOB_ID" => Some("17".into()),
            "SLURM_STEP_ID" => Some("0".into()),
            _ => None,
        };
        launcher::read(&value).unwrap()
    }

    fn merged(rank: Option<u16>, world: Option<u16>, launched: Option<Launched>) -> String {
        match merge((rank, world), launched, || Some("named".into())) {
            Ok(Some(Place { rank, world, job })) => format!("{rank}/{world} {}", job.unwrap_or_default()),
            Ok(None) => "none".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn options_are_stronger_than_the_launcher() {
        assert_eq!(merged(None, None, None), "none");
        assert_eq!(merged(None, None, launched()), "1/4 slurm-17.0");
        assert_eq!(merged(Some(0), Some(1), launched()), "0/1 named");
        assert_eq!(merged(Some(3), None, launched()), "3/4 slurm-17.0");
        assert_eq!(merged(None, Some(2), launched()), "1/2 slurm-17.0");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert!(merged(Some(4), None, launched()).starts_with("--rank 4 does not fit --world 4"));
        assert!(merged(None, Some(1), launched()).starts_with("--rank 1 does not fit --world 1"));
        assert!(merged(Some(0), None, None).starts_with("--rank is given and --world is not"));
        assert!(merged(None, Some(2), None).starts_with("--world is given and --rank is not"));
        assert!(merged(Some(0), Some(0), None).contains("does not fit"));
    }
}
