//! Upgrades while a job runs, in the order that docs/operations.md gives: the controller is restarted on its database, switches are drained and
//! restarted, and no rank sees an error or a wrong element. Old and new program are the same build.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use netfold_io::vacant_address;
use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::process as testkit;
use netfold_testkit::wait::{eventually, poll_state};
use serde_json::Value;

use crate::controller::{one, wait_for};
use crate::process::{Process, netfold, number, text};

/// Two linked ranks that do all-reduces without end, and all that they have printed.
pub(crate) struct Job {
    ranks: [(testkit::Process, Arc<Mutex<Vec<Value>>>); 2],
}

impl Job {
    /// The job `red/one`, by these controllers.
    pub(crate) fn start(controllers: &str) -> Self {
        Self::start_as(controllers, "one", ["", ""])
    }

    /// A job of the tenant `red`, whose ranks have these further options.
    pub(crate) fn start_as(controllers: &str, job: &str, options: [&str; 2]) -> Self {
        let rendezvous = vacant_address().unwrap();
        let ranks = [0, 1].map(|rank| {
            let mut command = netfold(&format!(
                "worker --controller {controllers} --tenant red --job {job} --rank {rank} --world 2 --rendezvous {rendezvous} \
                 --mode i32 --bytes 64KiB --slots 64 --iterations 1000000000 {} --json",
                options[rank]
            ));
            let lines = Arc::new(Mutex::new(Vec::new()));
            let printed = Arc::clone(&lines);
            let on_line = move |line: Option<String>| {
                let line = line.map(|line| serde_json::from_str(&line).unwrap_or(Value::String(line)));
                printed.lock().unwrap_or_else(PoisonError::into_inner).extend(line);
                true
            };
            (testkit::Process::start(&mut command, on_line).unwrap(), lines)
        });
        Self { ranks }
    }

    /// What the ranks have printed so far, checked: no error, and no wrong element.
    pub(crate) fn lines(&self) -> [Vec<Value>; 2] {
        let lines = self
            .ranks
            .each_ref()
            .map(|(_, lines)| lines.lock().unwrap_or_else(PoisonError::into_inner).clone());
        for line in lines.iter().flatten() {
            let wrong = line["event"] == "all_reduce" && number(line, "wrong") != 0.0;
            assert!(!wrong && line["event"] != "error" && line.is_object(), "{line}");
        }
        lines
    }

    fn all_reduces(&self) -> [usize; 2] {
        self.lines().map(|lines| lines.iter().filter(|line| line["event"] == "all_reduce").count())
    }

    /// Waits until each rank has completed an all-reduce that it began after this call, all of them correct.
    pub(crate) fn expect_sums(&self) {
        // One may be complete and not printed, and another may have begun.
        let before = self.all_reduces();
        eventually("all-reduces", || {
            self.all_reduces().iter().zip(before).all(|(now, before)| *now > before + 2)
        });
    }
}

/// Switches, a controller with a database, and where they listen.
struct Site {
    folder: TemporaryDirectory,
    /// Data and P4Runtime.
    addresses: Vec<[SocketAddr; 2]>,
    switches: Vec<Process>,
    workers: SocketAddr,
    grpc: SocketAddr,
    controller: Process,
}

impl Site {
    /// With so many switches, all of which reach every worker.
    fn start(switches: usize) -> Self {
        let folder = TemporaryDirectory::new("upgrade");
        let addresses: Vec<_> = (0..switches).map(|_| [(); 2].map(|()| vacant_address().unwrap())).collect();
        let topology = addresses.iter().enumerate().map(|(number, [_, p4runtime])| {
            // The same host in a plane for each switch, where it has the same addresses.
            let addresses = if number == 0 { "addresses = [\"127.0.0.0/8\"]\n" } else { "" };
            format!(
                "[[switch]]\nname = \"s{number}\"\np4runtime = \"{p4runtime}\"\n\
                 [[host]]\nname = \"here\"\n{addresses}switch = \"s{number}\"\n"
            )
        });
        folder.write("topology.toml", topology.collect::<String>());
        let [workers, grpc] = [(); 2].map(|()| vacant_address().unwrap());
        let switches = addresses.iter().map(|at| start_switch(*at)).collect();
        let controller = start_controller(&folder, workers, grpc);
        let site = Self { folder, addresses, switches, workers, grpc, controller };
        (0..site.switches.len()).for_each(|number| site.wait_until_up(number));
        site.call("tenant add red --without-token");
        site
    }

    /// What a command that calls the controller prints.
    fn call(&self, command: &str) -> Value {
        one(&format!("{command} --controller {}", self.grpc))
    }

    fn wait_until_up(&self, switch: usize) {
        poll_state(format_args!("s{switch} is up"), || {
            let described = self.call(&format!("switch describe s{switch}"));
            if described["up"] == true { Ok(()) } else { Err(described) }
        });
    }

    /// The job, once it runs on a switch and both ranks have a session.
    fn running(&self) -> Value {
        let described = poll_state("red/one runs, with both ranks", || {
            let described = wait_for(&self.grpc.to_string(), "red/one", "running");
            let members = described["trees"][0]["members"].as_array().unwrap();
            let here = members.iter().filter(|member| member["state"] == "here").count();
            if here == 2 { Ok(described) } else { Err(described) }
        });
        assert_eq!(described["trees"].as_array().unwrap().len(), 1, "{described}");
        described
    }

    /// The number of the switch that the job uses.
    fn switch_of(&self, described: &Value) -> usize {
        let name = text(&described["trees"][0]["places"][0], "switch");
        (0..self.switches.len()).find(|number| name == format!("s{number}")).unwrap()
    }

    /// Takes a switch out of service; the job that runs there is to continue without it.
    fn drain(&self, switch: usize) {
        let drained = self.call(&format!("switch drain s{switch} --evict"));
        assert_eq!(drained["drained"], true, "{drained}");
        poll_state(format_args!("s{switch} has no job"), || {
            let described = self.call(&format!("switch describe s{switch}"));
            if described["slots_used"] == 0 { Ok(()) } else { Err(described) }
        });
    }

    /// Stops a switch and starts it again.
    fn restart_switch(&mut self, switch: usize, job: &Job) {
        let old = &mut self.switches[switch];
        old.signal("TERM");
        assert!(old.wait().success());
        job.expect_sums();
        self.switches[switch] = start_switch(self.addresses[switch]);
        self.wait_until_up(switch);
        let undrained = self.call(&format!("switch undrain s{switch}"));
        assert_eq!(undrained["drained"], false, "{undrained}");
    }
}

fn start_controller(folder: &TemporaryDirectory, workers: SocketAddr, grpc: SocketAddr) -> Process {
    let mut controller = Process::start(&format!(
        "controller --topology {} --state {} --insecure --workers {workers} --listen {grpc} --http 127.0.0.1:0",
        folder.file("topology.toml"),
        folder.file("state.redb")
    ));
    controller.event("controlling");
    controller
}

fn start_switch([data, p4runtime]: [SocketAddr; 2]) -> Process {
    let mut switch = Process::start(&format!("switch --listen {data} --p4runtime {p4runtime}"));
    switch.event("listening");
    switch
}

#[test]
fn a_controller_is_upgraded_while_a_job_runs() {
    let mut site = Site::start(1);
    let job = Job::start(&site.workers.to_string());
    let before = site.running();
    job.expect_sums();
    site.controller.signal("TERM");
    assert!(site.controller.wait().success());
    job.expect_sums();
    site.controller = start_controller(&site.folder, site.workers, site.grpc);
    let after = site.running();
    for key in ["epoch", "number", "slots", "places"] {
        assert_eq!(after["trees"][0][key], before["trees"][0][key], "{key}");
    }
    job.expect_sums();
    // Through the switch: a resumed rank's counters are those since its admission.
    let results = |described: &Value| described["traffic"]["totals"]["results_received"].as_u64();
    poll_state("results of the switch, reported to the new controller", || {
        let now = site.running();
        if results(&now) > results(&after) { Ok(()) } else { Err(now) }
    });
    assert_eq!(site.running()["epoch"], before["epoch"]);
    job.lines();
}

#[test]
fn the_only_switch_is_upgraded_while_a_job_continues_among_its_ranks() {
    let mut site = Site::start(1);
    let job = Job::start(&site.workers.to_string());
    let before = site.running();
    job.expect_sums();
    site.drain(0);
    job.expect_sums();
    site.restart_switch(0, &job);
    let after = site.running();
    assert!(number(&after, "epoch") > number(&before, "epoch"), "{after}");
    job.expect_sums();
    job.lines();
}

#[test]
fn switches_are_upgraded_in_turn_while_a_job_moves_between_them() {
    let mut site = Site::start(2);
    let job = Job::start(&site.workers.to_string());
    let first = site.switch_of(&site.running());
    for switch in [first, 1 - first] {
        job.expect_sums();
        site.drain(switch);
        assert_eq!(site.switch_of(&site.running()), 1 - switch);
        site.restart_switch(switch, &job);
    }
    // It is back where it began.
    let after = site.running();
    assert_eq!(site.switch_of(&after), first, "{after}");
    job.expect_sums();
    job.lines();
}
