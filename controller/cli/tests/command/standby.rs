//! Two controllers over one etcd: the leader is killed during a job, and the standby takes over without disturbing the job.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Instant;

use netfold_io::vacant_address;
use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::process;
use netfold_testkit::wait::{poll, poll_state};

use crate::controller::{self, dev, one};
use crate::process::{Process, http_get, netfold, number, run, text};
use crate::upgrade::Job;

/// A folder of this test alone, and the etcd that has its data there.
pub(crate) struct Etcd {
    _process: process::Process,
    pub(crate) folder: TemporaryDirectory,
    pub(crate) url: String,
}

impl Etcd {
    pub(crate) fn start() -> Option<Self> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: etcd is not on PATH (Debian's etcd-server)");
            return None;
        }
        let folder = TemporaryDirectory::new("standby");
        let (url, peer) = (
            format!("http://{}", vacant_address().unwrap()),
            format!("http://{}", vacant_address().unwrap()),
        );
        let mut etcd = Command::new("etcd");
        etcd.args(["--name", "one", "--data-dir"])
            .arg(folder.file("etcd"))
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("one={peer}")])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        Some(Self { _process: process::Process::spawn(etcd), folder, url })
    }
}

pub(crate) struct Controller {
    command: String,
    failpoint: Option<String>,
    pub(crate) process: Process,
    pub(crate) workers: SocketAddr,
    pub(crate) grpc: SocketAddr,
    http: SocketAddr,
}

impl Controller {
    fn start(etcd: &Etcd, topology: &str) -> Self {
        Self::start_with(etcd, topology, 4, None)
    }

    /// With a lease of so many seconds, and the file of its failpoint.
    pub(crate) fn start_with(etcd: &Etcd, topology: &str, lease: u64, failpoint: Option<String>) -> Self {
        let [workers, grpc, http] = [(); 3].map(|()| vacant_address().unwrap());
        let command = format!(
            "controller --topology {topology} --etcd {} --etcd-lease {lease} --insecure --workers {workers} \
             --listen {grpc} --http {http}",
            etcd.url
        );
        let process = spawn(&command, failpoint.as_deref());
        Self { process, command, failpoint, workers, grpc, http }
    }

    /// Stops it.
    fn stop(&mut self) {
        self.process.signal("TERM");
        assert!(self.process.wait().success());
    }

    /// Starts it again after it was stopped.
    pub(crate) fn start_again(&mut self) {
        self.process = spawn(&self.command, self.failpoint.as_deref());
    }

    /// Waits until it is ready in this role.
    fn ready_as(&self, role: &str) {
        poll_state(format_args!("ready as {role}"), || self.is_ready_as(role));
    }

    /// Whether it is ready in this role; if not, its answer.
    pub(crate) fn is_ready_as(&self, role: &str) -> Result<(), (u16, String)> {
        let (status, body) = http_get(self.http, "/readyz");
        let is_ready = status == 200 && body.contains(&format!("\"role\":\"{role}\""));
        if is_ready { Ok(()) } else { Err((status, body)) }
    }
}

fn spawn(command: &str, failpoint: Option<&str>) -> Process {
    let mut command = netfold(command);
    command.envs(failpoint.map(|file| ("NETFOLD_FAILPOINT", file)));
    Process::spawn(command)
}

pub(crate) fn wait_for(grpc: SocketAddr, what: &str, key: &str, value: &serde_json::Value) {
    poll(format_args!("{what}: {key} is {value}"), || {
        let (_, lines) = run(&format!("{what} --controller {grpc}"));
        lines.iter().any(|line| &line[key] == value).then_some(())
    });
}

/// A topology of one switch at a P4Runtime address.
pub(crate) fn topology(etcd: &Etcd, p4runtime: SocketAddr) -> String {
    let any = "[[host]]\nname = \"any\"\naddresses = [\"127.0.0.0/8\"]\nswitch = \"s1\"\n";
    etcd.folder
        .write("topology.toml", format!("[[switch]]\nname = \"s1\"\np4runtime = \"{p4runtime}\"\n{any}"))
}

#[test]
fn a_controller_in_etcd_continues_from_a_backup_of_one_with_a_file() {
    let Some(etcd) = Etcd::start() else { return };
    let file = etcd.folder.file("state.backup");
    let (_source, _, grpc) = dev("");
    one(&format!("job declare blue/later --world 4 --controller {grpc}"));
    one(&format!("controller backup {file} --controller {grpc}"));
    let restore = format!("controller restore {file} --etcd {}", etcd.url);
    let restored = one(&restore);
    assert_eq!((text(&restored, "event"), text(&restored, "state")), ("restored", &*etcd.url));

    // Its switch need not be reachable.
    let mut controller = Controller::start(&etcd, &topology(&etcd, vacant_address().unwrap()));
    controller.process.event("controlling");
    let declared = one(&format!("job describe blue/later --controller {}", controller.grpc));
    assert_eq!(declared["declared"], true, "{declared}");
    let (code, lines) = run(&format!("{restore} --replace"));
    let error = lines.last().unwrap();
    assert_eq!((code, text(error, "kind")), (Some(1), "restore"), "{error}");
    assert!(text(error, "message").contains("is the leader: stop all controllers"), "{error}");
}

#[test]
fn a_standby_takes_over_when_the_leader_is_killed() {
    let Some(etcd) = Etcd::start() else { return };
    let (data, p4runtime) = (vacant_address().unwrap(), vacant_address().unwrap());
    let mut switch = Process::start(&format!("switch --listen {data} --p4runtime {p4runtime} --insecure"));
    switch.event("listening");
    let file = &topology(&etcd, p4runtime);

    let mut first = Controller::start(&etcd, file);
    first.process.event("controlling");
    let mut second = Controller::start(&etcd, file);
    let leader = loop {
        let standby = second.process.event("standby");
        if !text(&standby, "leader").is_empty() {
            break text(&standby, "leader").to_owned();
        }
    };
    assert!(leader.contains(&first.workers.to_string()), "{leader}");
    wait_for(first.grpc, "switch describe s1", "up", &true.into());
    first.ready_as("leader");
    second.ready_as("standby");
    let (code, lines) = run(&format!("tenant add red --without-token --controller {}", first.grpc));
    assert_eq!(code, Some(0), "{lines:?}");
    let bench = |job: &str, iterations: u32| {
        Process::start(&format!(
            "bench all-reduce --controller {},{} --tenant red --job {job} --workers 2 --mode i32 --bytes 64KiB --slots 64 \
             --warmup 0 --iterations {iterations}",
            first.workers, second.workers
        ))
    };
    let mut job = bench("one", 3_000);
    // A worker that has not received its admission cannot resume. A result is a sum of both.
    poll("both workers are admitted", || {
        let (_, lines) = run(&format!("job describe red/one --controller {}", first.grpc));
        let results = lines.iter().find_map(|line| line["traffic"]["totals"]["results_received"].as_u64());
        results.filter(|results| *results > 0)
    });
    first.process.signal("KILL");
    let killed = Instant::now();
    second.process.event("controlling");
    println!("leader {:?} after the other was killed, with a lease of 4 s", killed.elapsed());
    wait_for(second.grpc, "switch describe s1", "up", &true.into());
    second.ready_as("leader");
    // A new job is admitted beside the old one, of the tenant that was added at the former leader.
    let mut new = bench("two", 100);
    for job in [&mut new, &mut job] {
        let row = job.event("all_reduce");
        assert_eq!(number(&row, "wrong"), 0.0, "{row}");
        assert!(job.wait().success());
    }
    wait_for(second.grpc, "job describe red/one", "state", &"ended".into());
    second.process.signal("TERM");
    assert!(second.process.wait().success());
}

#[test]
fn controllers_are_upgraded_one_after_the_other() {
    let Some(etcd) = Etcd::start() else { return };
    let (data, p4runtime) = (vacant_address().unwrap(), vacant_address().unwrap());
    let mut switch = Process::start(&format!("switch --listen {data} --p4runtime {p4runtime} --insecure"));
    switch.event("listening");
    let file = &topology(&etcd, p4runtime);
    let mut leader = Controller::start(&etcd, file);
    leader.process.event("controlling");
    let mut standby = Controller::start(&etcd, file);
    standby.process.event("standby");
    wait_for(leader.grpc, "switch describe s1", "up", &true.into());
    one(&format!("tenant add red --without-token --controller {}", leader.grpc));
    let job = Job::start(&format!("{},{}", leader.workers, standby.workers));
    let before = controller::wait_for(&leader.grpc.to_string(), "red/one", "running");
    job.expect_sums();

    // The standby first, which the leader and the job do not notice.
    standby.stop();
    standby.start_again();
    standby.ready_as("standby");
    job.expect_sums();
    assert_eq!(one(&format!("job describe red/one --controller {}", leader.grpc))["epoch"], before["epoch"]);
    // Then the leader, which hands over when it is stopped.
    leader.stop();
    standby.ready_as("leader");
    leader.start_again();
    leader.ready_as("standby");
    let after = controller::wait_for(&standby.grpc.to_string(), "red/one", "running");
    assert_eq!(after["epoch"], before["epoch"]);
    poll("both ranks have resumed", || {
        let described = one(&format!("job describe red/one --controller {}", standby.grpc));
        let members = described["trees"][0]["members"].as_array().cloned().unwrap_or_default();
        (members.len() == 2 && members.iter().all(|member| member["state"] == "here")).then_some(())
    });
    job.expect_sums();
}
