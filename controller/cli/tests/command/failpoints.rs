//! The leader of two controllers over a real etcd is killed by SIGKILL at every step of a job's admission and end, which are the changes of the
//! database and the calls of the switch, before and after each of them. The standby takes over; a job that runs notices nothing,
//! the switch has one leader after the other, and nothing of the job is left over.
//!
//! `NETFOLD_LONG=1` plays all steps, otherwise a few that a seed selects. `SIM_FIRST=n` is the seed.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use netfold_io::vacant_address;
use netfold_testkit::wait::{eventually, poll, poll_state};
use serde_json::Value;

use crate::observer::{self, Primaries};
use crate::process::{Process, number, run, text};
use crate::standby::{Controller, Etcd, topology, wait_for};
use crate::upgrade::Job;

/// Seconds. As short as a lease may be: each kill takes as long.
const LEASE_S: u64 = 2;

/// Steps that are played where not all are.
const STEPS_PLAYED: usize = 6;

/// More steps than any change has.
const NEVER: u64 = 1_000_000;

/// How the job whose admission and end are disturbed ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its workers leave.
    Completed,
    /// By a command.
    Command,
}

impl End {
    /// How workers may report the job's end, first where no leader is killed. Workers whose leader was killed before it sent the admission try again until
    /// the next one has given the place up. Workers that were away when their job was ended are not notified of the reason by the next leader.
    const fn expected(self) -> &'static [&'static str] {
        match self {
            Self::Completed => &["completed"],
            Self::Command => &["ended", "switch_lost", "job_running"],
        }
    }
}

/// What of a job that is set up or removed may remain nowhere.
#[derive(Debug, PartialEq, Eq)]
struct Holding {
    /// Of the switch: ports, table entries, multicast groups.
    switch: Vec<String>,
    /// In etcd, but for the leader's and what changes with every job.
    keys: BTreeSet<String>,
    slots: u64,
}

struct Site {
    etcd: Etcd,
    _switch: Process,
    p4runtime: std::net::SocketAddr,
    controllers: [Controller; 2],
    primaries: Primaries,
}

impl Site {
    /// `None`, with a printed line, if etcd or its client is not installed.
    fn start() -> Option<Self> {
        let etcd = Etcd::start()?;
        let client =
            Command::new("etcdctl").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if client.is_err() {
            println!("skipped: etcdctl is not on PATH (Debian's etcd-client)");
            return None;
        }
        let (data, p4runtime) = (vacant_address().unwrap(), vacant_address().unwrap());
        let mut switch =
            Process::start(&format!("switch --listen {data} --p4runtime {p4runtime} --insecure"));
        switch.event("listening");
        let primaries = Primaries::observe(None, p4runtime);
        let file = topology(&etcd, p4runtime);
        let controllers =
            [0, 1].map(|_| Controller::start_with(&etcd, &file, LEASE_S, Some(etcd.folder.file("step"))));
        Some(Self { etcd, _switch: switch, p4runtime, controllers, primaries })
    }

    /// The workers' ports of both controllers.
    fn workers(&self) -> String {
        self.controllers.each_ref().map(|controller| controller.workers.to_string()).join(",")
    }

    /// Where the leader is called, once it has the switch.
    fn leader(&self) -> String {
        poll_state("a leader that has the switch", || {
            let answers = self.controllers.each_ref().map(|controller| controller.is_ready_as("leader"));
            match answers.iter().position(Result::is_ok) {
                Some(leader) => Ok(self.controllers[leader].grpc.to_string()),
                None => Err(answers),
            }
        })
    }

    /// Calls the leader until a command succeeds or finds nothing; what it prints.
    fn call(&self, command: &str) -> Option<Value> {
        poll_state(command, || {
            let (code, lines) = run(&format!("{command} --controller {}", self.leader()));
            let last = lines.last().cloned().unwrap_or_default();
            match (code, last["kind"].as_str()) {
                (Some(0), _) => Ok(Some(last)),
                (_, Some("not_found")) => Ok(None),
                _ => Err(lines),
            }
        })
    }

    fn holding(&self) -> Holding {
        let mut client = Command::new("etcdctl");
        client.env("ETCDCTL_API", "3").args(["--endpoints", &self.etcd.url]);
        let output = client.args(["get", "--prefix", "/netfold/", "--keys-only"]).output().unwrap();
        let keys = String::from_utf8(output.stdout).unwrap();
        let keys = keys.lines().filter(|key| !key.is_empty() && *key != "/netfold/leader");
        let described = self.call("switch describe s1").expect("the switch is known");
        Holding {
            switch: observer::held(self.p4runtime),
            keys: keys.map(str::to_owned).collect(),
            slots: described["slots_used"].as_u64().unwrap(),
        }
    }

    /// Has the leader killed at a step from now.
    fn arm(&self, step: u64) {
        self.etcd.folder.write("step", step.to_string());
    }

    /// No step is counted from now on. The steps that were left, or the step at which a leader was killed.
    fn disarm(&self) -> Result<u64, String> {
        let file = self.etcd.folder.file("step");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        text.parse().map_err(|_| text)
    }

    /// Starts the controller that was killed again.
    fn restart_killed(&mut self) {
        let controllers = &mut self.controllers;
        let killed = poll("a controller has ended", || {
            controllers.iter_mut().position(|controller| controller.process.has_ended())
        });
        let killed = &mut controllers[killed];
        assert_eq!(killed.process.wait().signal(), Some(9), "by itself");
        killed.start_again();
    }

    /// Has a job admitted and ended, with a leader killed at a step of that; how the job ended, and the step if it was reached. Afterwards all is as before.
    fn play(&mut self, end: End, step: u64, before: &Holding) -> (String, Result<u64, String>) {
        self.arm(step);
        let ended = match end {
            End::Completed => self.completed(),
            End::Command => self.ended_by_command(),
        };
        self.expect_nothing_left(before);
        // The leader has gone past the last step when it replies.
        self.call("job describe red/two");
        let reached = self.disarm();
        if reached.is_err() {
            self.restart_killed();
        }
        self.expect_nothing_left(before);
        self.call("job forget red/two");
        let after = self.holding();
        assert_eq!(&after, before, "after step {step}, {reached:?}");
        (ended, reached)
    }

    fn start_second(&self, iterations: u32) -> Process {
        Process::start(&format!(
            "bench all-reduce --controller {} --tenant red --job two --workers 2 --mode i32 --bytes 64KiB --slots 64 \
             --warmup 0 --iterations {iterations}",
            self.workers()
        ))
    }

    /// Has a job run to its end; how that was.
    fn completed(&self) -> String {
        let mut job = self.start_second(5);
        let status = job.wait();
        let lines = job.rest();
        if !status.success() {
            return error_of(&lines);
        }
        let row = lines.iter().find(|line| line["event"] == "all_reduce").expect("a row");
        assert_eq!(number(row, "wrong"), 0.0, "{row}");
        "completed".into()
    }

    /// Ends a job by a command once it runs; how the workers were notified.
    fn ended_by_command(&self) -> String {
        let mut job = self.start_second(10_000_000);
        poll("the job runs or has failed", || {
            let (_, lines) = run(&format!("job describe red/two --controller {}", self.leader()));
            (lines.iter().any(|line| line["state"] == "running") || job.has_ended()).then_some(())
        });
        eventually("the end of the job", || {
            // A leader that is killed does not reply, and the next one may not know the job any more.
            run(&format!("job end red/two --controller {}", self.leader()));
            job.has_ended()
        });
        assert!(!job.wait().success());
        error_of(&job.rest())
    }

    /// Waits until nothing is held for the job, but that it is remembered.
    fn expect_nothing_left(&self, before: &Holding) {
        poll_state("nothing is left of the job", || {
            let mut now = self.holding();
            now.keys.remove("/netfold/jobs/red/two");
            if now == *before { Ok(()) } else { Err(now) }
        });
    }
}

/// The running job: its epoch, once both ranks have a session.
fn undisturbed(site: &Site, job: &Job) -> Value {
    job.expect_sums();
    poll_state("both ranks have resumed", || {
        let described = site.call("job describe red/one").expect("it is running");
        let members = described["trees"][0]["members"].as_array().cloned().unwrap_or_default();
        let here = members.iter().filter(|member| member["state"] == "here").count();
        if here == 2 { Ok(described["epoch"].clone()) } else { Err(described) }
    })
}

/// The kind of the error that a command ended with, and its message, which is printed.
fn error_of(lines: &[Value]) -> String {
    let error = lines.iter().find(|line| line["event"] == "error");
    let error = error.unwrap_or_else(|| panic!("no error of a kind: {lines:?}"));
    println!("{}", text(error, "message"));
    text(error, "kind").to_owned()
}

/// All, or as many as are played, at equal distances from one that the seed selects.
fn selected<T: Copy>(all: &[T]) -> Vec<T> {
    let seed = std::env::var("SIM_FIRST").map_or(0, |seed| seed.parse().expect("SIM_FIRST is a number"));
    let long = std::env::var_os("NETFOLD_LONG").is_some();
    let played = if long { all.len() } else { all.len().min(STEPS_PLAYED) };
    println!("seed {seed}: {played} of {} steps", all.len());
    (0..played).map(|number| all[(seed + number * all.len() / played) % all.len()]).collect()
}

#[test]
fn a_controller_killed_at_any_step_of_a_change_leaves_nothing_behind() {
    let Some(mut site) = Site::start() else { return };
    wait_for(site.leader().parse().unwrap(), "switch describe s1", "up", &true.into());
    site.call("tenant add red --without-token");
    let empty = site.holding();
    let job = Job::start(&site.workers());
    let epoch = undisturbed(&site, &job);
    // Of the second job of the tenant, so that the first has left all that jobs leave.
    let before = site.holding();
    assert!(before.switch.len() > empty.switch.len() && before.slots > 0, "{before:?}");
    let mut steps = Vec::new();
    for end in [End::Completed, End::Command] {
        let (ended, left) = site.play(end, NEVER, &before);
        assert_eq!(ended, end.expected()[0]);
        steps.extend((1..=NEVER - left.expect("it has fewer steps")).map(|step| (end, step)));
    }
    let mut kills = 0;
    for (end, step) in selected(&steps) {
        let (ended, reached) = site.play(end, step, &before);
        let step_name = reached.as_ref().err().map_or("not reached", String::as_str);
        println!("{end:?}, step {step}: {step_name}; the job: {ended}");
        kills += usize::from(reached.is_err());
        assert!(end.expected().contains(&&*ended), "{ended}");
        assert_eq!(undisturbed(&site, &job), epoch, "it is admitted once");
    }
    assert!(kills > 0, "no leader was killed");

    let ids = site.primaries.rest();
    assert!(ids.is_sorted(), "the switch takes changes from newer leaders only: {ids:x?}");
    assert!(ids.iter().collect::<BTreeSet<_>>().len() > kills, "each leader has the switch: {ids:x?}");
    drop(job);
    poll_state("nothing is left of the job that ran", || {
        let mut now = site.holding();
        now.keys.remove("/netfold/jobs/red/one");
        now.keys.remove("/netfold/epoch_next");
        if now == empty { Ok(()) } else { Err(now) }
    });
}
