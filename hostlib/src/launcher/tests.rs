use super::*;

/// A batch script's variables, and those of a task.
const SCRIPT: &str = "SLURM_JOB_ID=17 SLURM_PROCID=0 SLURM_NTASKS=4";
const TASK: &str = "SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_NTASKS=4";

fn value(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
}

fn launched(text: &str) -> Result<Option<Launched>, LauncherError> {
    read(&|name| value(text, name))
}

/// Launcher, rank, world size and job as text.
fn found(text: &str) -> String {
    let Some(Launched { launcher, rank, world_size, job }) = launched(text).unwrap() else {
        return String::new();
    };
    format!("{launcher} {rank}/{world_size} {}", job.unwrap_or_default())
}

fn refused(text: &str) -> String {
    launched(text).unwrap_err().to_string()
}

#[test]
fn each_launcher_is_found_by_its_variables() {
    assert_eq!(found(""), "");
    assert_eq!(found("RANK=1 WORLD_SIZE=2"), "torchrun 1/2 ");
    assert_eq!(found("RANK=1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=a"), "torchrun 1/2 a");
    assert_eq!(
        found("RANK=1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=a TORCHELASTIC_RESTART_COUNT=3"),
        "torchrun 1/2 a.3"
    );
    assert_eq!(found("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3"), "openmpi 0/3 ");
    assert_eq!(
        found("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3 PMIX_NAMESPACE=20.1"),
        "openmpi 0/3 mpi-20.1"
    );
    assert_eq!(found("PMI_RANK=0 PMI_SIZE=65535"), "pmi 0/65535 ");
    assert_eq!(found(TASK), "slurm 2/4 slurm-17.0");
}

#[test]
fn a_run_has_a_name_without_ranks() {
    let named = |text: &str| job(&|name| value(text, name)).unwrap_or_default();
    assert_eq!(named("TORCHELASTIC_RUN_ID=a SLURM_JOB_ID=17 SLURM_STEP_ID=0"), "a");
    assert_eq!(named("TORCHELASTIC_RUN_ID=none SLURM_JOB_ID=17 SLURM_STEP_ID=0"), "slurm-17.0");
    assert_eq!(named("TORCHELASTIC_RUN_ID=none RANK=x SLURM_JOB_ID=17 SLURM_STEP_ID="), "");
    assert_eq!(
        found("RANK=1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none"),
        "torchrun 1/2 ",
        "all trainings have this"
    );
}

#[test]
fn only_tasks_are_ranks_under_slurm() {
    assert_eq!(found(SCRIPT), "");
    assert_eq!(found("SLURM_JOB_ID=17 SLURM_NTASKS=4"), "", "a shell of salloc");
    assert_eq!(
        found("SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_NTASKS=4"),
        "",
        "mpirun's daemon may pass this on"
    );
}

#[test]
fn the_launcher_that_started_the_process_last_counts() {
    let mpi = "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8";
    assert_eq!(found(&format!("{TASK} {mpi}")), "openmpi 5/8 ");
    assert_eq!(found(&format!("{TASK} {mpi} RANK=0 WORLD_SIZE=1")), "torchrun 0/1 ");
    // Slurm's own PMI names the step, a hydra in the step does not.
    assert_eq!(found(&format!("{TASK} PMI_RANK=2 PMI_SIZE=4")), "pmi 2/4 slurm-17.0");
    assert_eq!(found(&format!("{TASK} PMI_RANK=2 PMI_SIZE=8")), "pmi 2/8 ");
    // Empty variables are not set.
    assert_eq!(found(&format!("{TASK} RANK= WORLD_SIZE=")), "slurm 2/4 slurm-17.0");
}

#[test]
fn malformed_values_are_named() {
    for launcher in Launcher::ALL {
        let (rank, size) = launcher.variables();
        let with = |r: &str, s: &str| format!("SLURM_STEP_ID=0 {rank}={r} {size}={s}");
        for wrong in ["x", "-1", "+1", "1.0", "0x1", "65535", "99999999999999999999"] {
            assert!(refused(&with(wrong, "65535")).contains(&format!("{rank} is '{wrong}'")), "{launcher}");
        }
        for wrong in ["two", "-2", "0", "65536", "2\u{fffd}"] {
            assert!(refused(&with("0", wrong)).contains(&format!("{size} is '{wrong}'")), "{launcher}");
        }
        assert!(refused(&with("4", "4")).contains(&format!("{rank} is 4, which is not below {size}=4")));
        assert!(refused(&with("1", "")).contains(&format!("{rank} is set and {size} is not")), "{launcher}");
        let size_alone = launched(&with("", "4"));
        if launcher == Launcher::Slurm {
            assert_eq!(size_alone, Ok(None));
        } else {
            assert!(
                size_alone.unwrap_err().to_string().contains(&format!("{size} is set and {rank} is not"))
            );
        }
    }
    assert!(refused(&format!("RANK={} WORLD_SIZE=2", "9".repeat(10_000))).len() < 200);
    // A malformed value is no reason to ask the next launcher.
    assert!(refused(&format!("{TASK} RANK=x WORLD_SIZE=2")).contains("RANK"));
}
