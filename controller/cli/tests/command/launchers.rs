//! Workers that take rank, world size and the job's name from their launcher.

use std::path::Path;
use std::process::Command;

use crate::process::{Process, netfold, text};

/// Variables of launchers, which the environment of the tests may have, too.
const VARIABLES: [&str; 12] = [
    "RANK",
    "WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "NETFOLD_JOB",
];

/// A command with these variables of launchers, NAME=VALUE, and no others.
fn launched(arguments: &str, variables: &str) -> Command {
    let mut command = netfold(arguments);
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.envs(variables.split_whitespace().filter_map(|pair| pair.split_once('=')));
    command
}

/// The job, and the world size, of two ranks with the variables of `rank`.
fn job_of(control: &str, options: &str, rank: impl Fn(u16) -> String) -> (String, u64) {
    let arguments = format!("worker --switch {control} --bytes 4KiB --iterations 2 {options}");
    let mut ranks = [0, 1].map(|number| Process::spawn(launched(&arguments, &rank(number))));
    let joined: Vec<_> = ranks.iter_mut().map(|rank| rank.event("joined")).collect();
    for (number, (process, joined)) in ranks.iter_mut().zip(&joined).enumerate() {
        assert_eq!(joined["rank"], number);
        assert_eq!(process.event("done")["wrong"], 0);
        assert!(process.wait().success());
    }
    assert_eq!(text(&joined[0], "job"), text(&joined[1], "job"));
    (text(&joined[0], "job").to_owned(), joined[0]["workers"].as_u64().unwrap())
}

#[test]
fn workers_take_what_no_option_gives_from_their_launcher() {
    let (_switch, control) = Process::switch("--payload 256 --slots 256");
    let step = |rank| format!("SLURM_JOB_ID=17 SLURM_STEP_ID=3 SLURM_PROCID={rank} SLURM_NTASKS=2");
    assert_eq!(job_of(&control, "", step), ("slurm-17.3".into(), 2));
    assert_eq!(job_of(&control, "--job named", step), ("named".into(), 2));
    assert_eq!(job_of(&control, "", |rank| format!("{} NETFOLD_JOB=set", step(rank))), ("set".into(), 2));
    let torchrun = |rank| format!("{} RANK={rank} WORLD_SIZE=2 TORCHELASTIC_RUN_ID=run", step(7 - rank));
    assert_eq!(job_of(&control, "", torchrun), ("run".into(), 2));
    // Options are stronger, and the variables that they replace are not read.
    let wrong = |rank: u16| format!("RANK={rank} WORLD_SIZE=many");
    let mut alone = Process::spawn(launched(
        &format!("worker --switch {control} --bytes 4KiB --iterations 1 --rank 0 --world 1 --job alone"),
        &wrong(5),
    ));
    assert_eq!(alone.event("joined")["workers"], 1);
    assert!(alone.wait().success());
}

/// The message of a command that is refused as a usage error before anything is connected.
fn refused(arguments: &str, variables: &str) -> String {
    let mut process = Process::spawn(launched(arguments, variables));
    let error = process.event("error");
    assert_eq!((process.wait().code(), text(&error, "kind")), (Some(2), "usage"), "{error}");
    text(&error, "message").to_owned()
}

#[test]
fn contradictory_and_missing_variables_are_usage_errors() {
    let worker = "worker --switch 127.0.0.1:1";
    for (variables, named) in [
        ("", "give --rank and --world"),
        // A batch script is one process, whatever it will start.
        ("SLURM_JOB_ID=17 SLURM_PROCID=0 SLURM_NTASKS=4", "give --rank and --world"),
        ("RANK=1", "RANK is set and WORLD_SIZE is not"),
        ("RANK=2 WORLD_SIZE=2", "RANK is 2, which is not below WORLD_SIZE=2"),
        ("OMPI_COMM_WORLD_RANK=-1 OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK is '-1'"),
        ("SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=x", "SLURM_NTASKS is 'x'"),
        ("RANK=0 WORLD_SIZE=33", "33 ranks"),
        ("PMI_RANK=0 PMI_SIZE=2", "give --job NAME"),
    ] {
        let message = refused(worker, variables);
        assert!(message.contains(named), "{variables}: {message}");
    }
    let job = format!("{worker} --job x");
    assert!(refused(&format!("{job} --rank 1"), "").contains("--world is not"));
    assert!(refused(&format!("{job} --rank 2"), "RANK=0 WORLD_SIZE=2").contains("--rank 2 does not fit"));
    let pairs = "check --pairs --rendezvous 127.0.0.1:1";
    assert!(refused(pairs, "").contains("--pairs needs --rank and --world"));
    assert!(refused(pairs, "RANK=0 WORLD_SIZE=1").contains("2 to 256 hosts"));
    assert!(refused("bench perf", "RANK=0 WORLD_SIZE=zero").contains("WORLD_SIZE is 'zero'"));
}

#[test]
fn srun_starts_workers_without_a_script() {
    let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hostlib/python/tests/slurm_cluster.py");
    let netfold = env!("CARGO_BIN_EXE_netfold");
    // The switch is on the login node; the shell ends it with the namespaces.
    let script = format!(
        "{netfold} switch --listen 10.77.0.1:20038 --payload 256 --slots 256 --json > /dev/null &\n\
         srun -N2 -n3 {netfold} worker --switch 10.77.0.1:20038 --bytes 64KiB --iterations 3 --json\n\
         srun -N2 {netfold} worker --switch 10.77.0.1:20038 --bytes 64KiB --iterations 3 --json\n"
    );
    let mut command = Command::new("python3");
    command.arg(cluster).args(["--", "sh", "-e", "-c", &script]);
    for name in VARIABLES {
        command.env_remove(name);
    }
    let Ok(done) = command.output() else {
        println!("skipped: Slurm: no python3");
        return;
    };
    let (output, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    if done.status.code() == Some(77) {
        println!("{}", output.trim());
        return;
    }
    assert!(done.status.success(), "{output}{errors}");
    let joined = |parts: &[&str]| {
        let lines = output.lines().filter(|line| line.contains(r#""event":"joined""#));
        lines.filter(|line| parts.iter().all(|part| line.contains(part))).count()
    };
    // Outside an allocation each srun is a job of its own.
    let jobs = [r#""job":"slurm-1.0""#, r#""job":"slurm-2.0""#].map(|job| joined(&[job]));
    assert_eq!(jobs, [3, 2], "{output}");
    assert_eq!((joined(&[r#""workers":3"#]), joined(&[r#""workers":2"#])), (3, 2), "{output}");
    assert_eq!(output.matches(r#""event":"done""#).count(), 5, "{output}");
}

#[test]
fn ranks_of_mpirun_need_no_options() {
    let (_switch, control) = Process::switch("--payload 256 --slots 256");
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "--host", "localhost:2", "-np", "2"]);
    command
        .arg(env!("CARGO_BIN_EXE_netfold"))
        .args(["worker", "--switch", &control, "--bytes", "4KiB", "--json"]);
    for name in VARIABLES {
        command.env_remove(name);
    }
    let Ok(done) = command.output() else {
        println!("skipped: mpirun is not on PATH (Debian's openmpi-bin)");
        return;
    };
    let output = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{output}{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(output.matches(r#""job":"mpi-"#).count(), 2, "{output}");
}
