//! Unmodified MPI programs, with and without the shim.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netfold_controller::JobEvent;
use netfold_embedded::EmbeddedSwitch;
use netfold_testkit::captured::CapturedProcess;
use netfold_testkit::process::present;

use crate::c::lossy_switch;
use crate::install::{compile, prefix, source};
use crate::process::run;

const RANKS: usize = 4;

/// mpirun's time limit in seconds; and its own, longer, because it ends its processes first.
const LIMIT: u64 = 240;

/// Allows one MPI job at a time: its processes spin.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn tools(test: &str) -> bool {
    let there = present("mpirun", test) && present("mpicc", test);
    if there && !run(Command::new("mpirun").arg("--version")).contains("Open MPI") {
        println!("skipped: {test}: mpirun is not Open MPI's");
        return false;
    }
    there
}

/// A job of four ranks, unless another number is given.
pub(crate) struct Job<'a> {
    program: Vec<PathBuf>,
    /// None without the shim.
    settings: Option<Vec<(&'a str, String)>>,
    /// How the ranks share hosts; empty to detect it.
    hosts: &'a [&'a str],
    /// Where hosts are detected.
    ranks: usize,
}

impl<'a> Job<'a> {
    pub(crate) fn new(program: &Path) -> Self {
        Self { program: vec![program.to_owned()], settings: None, hosts: &[], ranks: RANKS }
    }

    pub(crate) fn ranks(self, ranks: usize) -> Self {
        Self { ranks, ..self }
    }

    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.program.push(argument.into());
        self
    }

    pub(crate) fn shim(mut self, settings: &[(&'a str, &str)]) -> Self {
        self.settings = Some(settings.iter().map(|(name, value)| (*name, (*value).to_owned())).collect());
        self
    }

    /// Uses a switch, with every rank on the named host.
    fn switch(mut self, switch: &EmbeddedSwitch, hosts: &'a [&'a str]) -> Self {
        self = self.shim(&[("NETFOLD_CONTROLLER", &switch.control().to_string())]);
        self.hosts = hosts;
        self
    }

    fn one_program(&self, command: &mut Command, ranks: usize, host: Option<&str>) {
        command.arg("-np").arg(ranks.to_string());
        if let Some(settings) = &self.settings {
            let shim = prefix().join("lib/libnetfold-mpi.so");
            command.arg("-x").arg(format!("LD_PRELOAD={}", shim.display())).args(["-x", "NETFOLD_VERBOSE=2"]);
            for (name, value) in settings {
                command.arg("-x").arg(format!("{name}={value}"));
            }
        }
        if let Some(host) = host {
            command.arg("-x").arg(format!("NETFOLD_HOST_ID={host}"));
        }
        command.args(&self.program);
    }

    /// Runs it, and returns its output.
    pub(crate) fn run(self) -> String {
        let _turn = turn();
        let mut command = Command::new("mpirun");
        command.args(["--allow-run-as-root", "--oversubscribe", "--timeout", &LIMIT.to_string()]);
        if self.hosts.is_empty() {
            self.one_program(&mut command, self.ranks, None);
        }
        for (index, host) in self.hosts.iter().enumerate() {
            if index > 0 {
                command.arg(":");
            }
            self.one_program(&mut command, 1, Some(host));
        }
        CapturedProcess::start(&mut command, Duration::from_secs(LIMIT + 30)).finish().success()
    }
}

/// Calls done by Netfold, which must be equally many on every rank, and calls left to MPI by all ranks.
fn taken(output: &str) -> (u64, u64) {
    let mut all = Vec::new();
    let mut left = 0;
    for line in
        output.lines().filter(|line| line.contains(" collectives of ") && line.contains(" left to MPI"))
    {
        let numbers: Vec<u64> =
            line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        if let [_, taken, _, not] = numbers[..] {
            all.push(taken);
            left += not;
        }
    }
    assert_eq!(all.len(), RANKS, "not every rank has counted:\n{output}");
    assert!(all.iter().all(|taken| *taken == all[0]), "ranks took different calls:\n{output}");
    (all[0], left)
}

const APART: &[&str] = &["a", "b", "c", "d"];
const PAIRS: &[&str] = &["a", "a", "b", "b"];

/// The checksums that the OSU-style loop prints.
fn checksums(output: &str) -> Vec<&str> {
    output.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect()
}

#[test]
fn an_unmodified_loop_has_the_same_results() {
    if !tools("the OSU-style loop") {
        return;
    }
    let loop_ = compile("mpicc", "hostlib/mpi/tests/osu_allreduce.c", "osu_allreduce", &[]);
    let job = || {
        let job = Job::new(&loop_);
        ["-c", "-i", "4", "-x", "1", "-m", "262144"].iter().fold(job, |job, argument| job.argument(argument))
    };
    let plain = job().run();
    assert_eq!(checksums(&plain).len(), 17, "{plain}");
    assert!(!plain.contains("netfold") && !plain.contains("differ"), "{plain}");

    let shared = job().shim(&[]).run();
    assert_eq!(checksums(&shared), checksums(&plain));
    assert!(shared.contains("use shared memory of 4 ranks"), "{shared}");
    // Seven sizes from 4 KiB, five times each, against the ten below, and five reduces of 8 bytes for each size.
    assert_eq!(taken(&shared), (35, 4 * (50 + 85)));

    let all = job().shim(&[("NETFOLD_MPI_MIN_BYTES", "0")]).run();
    assert_eq!(checksums(&all), checksums(&plain));
    assert_eq!(taken(&all), (85 + 85, 0));

    let switch = lossy_switch();
    let switched = job().switch(&switch, APART).run();
    assert_eq!(checksums(&switched), checksums(&plain));
    assert!(switched.contains(&format!("use the switch at {}", switch.control())), "{switched}");
    assert_eq!(taken(&switched).0, 35);
    assert!(switch.stop().unwrap().results > 0);
}

#[test]
fn mpi_does_all_calls_where_netfold_is_unavailable() {
    if !tools("the shim without Netfold") {
        return;
    }
    let loop_ = compile("mpicc", "hostlib/mpi/tests/osu_allreduce.c", "osu_allreduce_left", &[]);
    let job = || ["-c", "-i", "2"].iter().fold(Job::new(&loop_), |job, argument| job.argument(argument));
    let plain = job().run();

    let disabled = job().shim(&[("NETFOLD_MPI", "0")]).run();
    assert_eq!(disabled, plain);

    let invalid = job().shim(&[("NETFOLD_MODE", "fast")]).run();
    assert_eq!(checksums(&invalid), checksums(&plain));
    assert!(invalid.contains("NETFOLD_MODE=fast is not a mode"), "{invalid}");

    let confidential = job().shim(&[("NETFOLD_CONFIDENTIAL", "job.key")]).run();
    assert_eq!(checksums(&confidential), checksums(&plain));
    assert_eq!(confidential.matches("no confidential jobs here").count(), 1, "{confidential}");

    // A control port without a listener.
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let gone = job().switch(&switch, PAIRS);
    switch.stop().unwrap();
    let output = gone.run();
    assert_eq!(checksums(&output), checksums(&plain));
    assert_eq!(output.matches("are left to MPI: ").count(), 1, "{output}");
    assert!(output.contains("cannot reach the control port"), "{output}");
    assert_eq!(taken(&output).0, 0);
}

#[test]
fn all_kinds_of_calls_are_correct_by_netfold_and_by_mpi() {
    if !tools("all kinds of calls") {
        return;
    }
    let program = compile("mpicc", "hostlib/mpi/tests/all_kinds.c", "all_kinds", &[]);
    let plain = Job::new(&program).run();
    assert!(plain.contains("all kinds: passed"), "{plain}");
    let switch = lossy_switch();
    let jobs = [
        Job::new(&program).argument("early_free").shim(&[]),
        Job::new(&program).argument("early_free").shim(&[("NETFOLD_MPI_MIN_BYTES", "1")]),
        Job::new(&program).argument("early_free").switch(&switch, APART),
        Job::new(&program).argument("early_free").switch(&switch, PAIRS),
    ];
    for job in jobs {
        let output = job.run();
        assert!(output.contains("all kinds: passed"), "{output}");
        let (taken, left) = taken(&output);
        assert!(taken > 900 && left > 0, "{taken} taken, {left} left");
        assert!(!output.contains("are left to MPI: "), "{output}");
    }
    assert!(switch.stop().unwrap().results > 0);
}

/// The first communicator of all ranks is the job, and all others are groups of it.
#[test]
fn communicators_are_groups_of_one_job() {
    if !tools("communicators as groups") {
        return;
    }
    let program = compile("mpicc", "hostlib/mpi/tests/all_kinds.c", "all_kinds_groups", &[]);
    let started = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&started);
    let note = move |event: &JobEvent| {
        if let JobEvent::Started { name, group, .. } = event {
            log.lock().unwrap().push((name.to_string(), group.clone()));
        }
    };
    let switch = EmbeddedSwitch::builder().on_event(note).start().unwrap();
    let output = Job::new(&program).switch(&switch, APART).run();
    assert!(output.contains("all kinds: passed"), "{output}");
    let started = started.lock().unwrap();
    let (job, groups): (Vec<_>, Vec<_>) = started.iter().partition(|(_, group)| group.is_empty());
    assert!(job.len() == 1 && groups.len() > 1, "{started:?}");
    assert!(groups.iter().all(|(name, _)| *name == job[0].0), "{started:?}");
}

/// A mistake of the program is an error on every rank, through its error handler, and a new communicator works.
#[test]
fn errors_go_through_the_error_handler() {
    if !tools("errors of MPI programs") {
        return;
    }
    let program = compile("mpicc", "hostlib/mpi/tests/all_kinds.c", "all_kinds_mismatch", &[]);
    let switch = EmbeddedSwitch::builder().start().unwrap();
    for job in [Job::new(&program).shim(&[]), Job::new(&program).switch(&switch, APART)] {
        let output = job.argument("mismatch").run();
        assert!(output.contains("all kinds: passed"), "{output}");
        for rank in 0..RANKS {
            assert!(output.contains(&format!("rank {rank}: Netfold: rank ")), "{output}");
        }
    }
}

#[test]
fn mpi4py_programs_run_unmodified() {
    let python = "/usr/bin/python3";
    if !tools("mpi4py") {
        return;
    }
    let imports = Command::new(python).args(["-c", "import mpi4py, numpy"]).output();
    if !imports.is_ok_and(|output| output.status.success()) {
        println!("skipped: mpi4py: {python} has no mpi4py and numpy");
        return;
    }
    let script = source("hostlib/mpi/tests/mpi4py_allreduce.py");
    let job = || Job::new(Path::new(python)).argument(&script.display().to_string());
    let switch = lossy_switch();
    for (job, shim) in [
        (job(), false),
        (job().shim(&[]), true),
        (job().switch(&switch, APART), true),
        (job().switch(&switch, PAIRS), true),
    ] {
        let output = job.run();
        assert!(output.contains("mpi4py: passed"), "{output}");
        assert!(!shim || taken(&output) == (22, 8), "{output}");
    }
    assert!(switch.stop().unwrap().results > 0);
}
