//! Two jobs that each want all slots of a switch: both run below its aggregator, survive a restart of the controller, and the loss of the aggregator.

mod trees;

use std::net::SocketAddr;

use netfold_io::vacant_address;
use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::namespace;
use netfold_testkit::process::wait_until_ended;
use netfold_testkit::wait::{eventually, poll_state};
use serde_json::Value;

use crate::controller::{one, wait_for};
use crate::process::{Process, children, http_get, namespaces, netfold, number, text};
use crate::upgrade::Job;

/// Slots that each job asks for, and that the switch has.
const SLOTS: u32 = 64;

/// Two switches, of which the second is the first's aggregator, and a controller with a database.
struct Site {
    folder: TemporaryDirectory,
    switch: Process,
    aggregator: Process,
    workers: SocketAddr,
    grpc: SocketAddr,
    page: SocketAddr,
    controller: Process,
}

impl Site {
    fn start() -> Self {
        let folder = TemporaryDirectory::new("best-effort");
        let start = |name: &str| {
            let [data, p4runtime] = [(); 2].map(|()| vacant_address().unwrap());
            let mut switch = Process::start(&format!("switch --listen {data} --p4runtime {p4runtime}"));
            switch.event("listening");
            (switch, format!("[[switch]]\nname = \"{name}\"\np4runtime = \"{p4runtime}\"\n"))
        };
        let ((switch, tor), (aggregator, above)) = (start("tor"), start("agg"));
        let topology = format!(
            "{tor}slots = {SLOTS}\naggregator = \"agg\"\n{above}[[link]]\na = \"tor\"\nb = \"agg\"\n\
             [[host]]\nname = \"here\"\naddresses = [\"127.0.0.0/8\"]\nswitch = \"tor\"\n"
        );
        folder.write("topology.toml", topology);
        let [workers, grpc, page] = [(); 3].map(|()| vacant_address().unwrap());
        let controller = start_controller(&folder, [workers, grpc, page]);
        let site = Self { folder, switch, aggregator, workers, grpc, page, controller };
        for name in ["tor", "agg"] {
            poll_state(format_args!("{name} is up"), || {
                let described = one(&format!("switch describe {name} --controller {grpc}"));
                if described["up"] == true { Ok(()) } else { Err(described) }
            });
        }
        one(&format!("tenant add red --without-token --controller {grpc}"));
        site
    }

    /// What has been spilled of a job that shares all slots, once that is something.
    fn spilled(&self, job: &str) -> Value {
        poll_state(format_args!("spilled contributions of {job}"), || {
            let described = wait_for(&self.grpc.to_string(), job, "running");
            let tree = &described["trees"][0];
            let places = tree["places"].as_array().unwrap();
            let place = |place: &Value| (text(place, "switch").to_owned(), place["shared"] == true);
            let places: Vec<_> = places.iter().map(place).collect();
            assert_eq!(places, [("agg".to_owned(), false), ("tor".to_owned(), true)], "{described}");
            assert_eq!(tree["slots"], SLOTS, "{described}");
            if tree["spilled"].as_u64() > Some(0) { Ok(tree["spilled"].clone()) } else { Err(described) }
        })
    }
}

fn start_controller(folder: &TemporaryDirectory, [workers, grpc, page]: [SocketAddr; 3]) -> Process {
    let mut controller = Process::start(&format!(
        "controller --topology {} --state {} --insecure --sharing best-effort --workers {workers} --listen {grpc} --http {page}",
        folder.file("topology.toml"),
        folder.file("state.redb")
    ));
    controller.event("controlling");
    controller
}

#[test]
fn jobs_that_want_twice_the_slots_share_them_and_survive_their_aggregator() {
    let mut site = Site::start();
    let jobs = ["one", "two"].map(|job| Job::start_as(&site.workers.to_string(), job, ["", ""]));
    for job in ["red/one", "red/two"] {
        site.spilled(job);
    }
    jobs.iter().for_each(Job::expect_sums);
    let (_, metrics) = http_get(site.page, "/metrics");
    let counted = |line: &&str| line.starts_with("netfold_job_spilled_total{") && !line.ends_with(" 0");
    assert_eq!(metrics.lines().filter(counted).count(), 2, "{metrics}");
    let output = netfold(&format!("job describe red/one --controller {}", site.grpc)).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("64 shared") && shown.contains("contributions to the aggregator"), "{shown}");
    assert!(shown.contains("  sharing   shares slots of 'tor' below aggregator 'agg'"), "{shown}");

    // A restarted controller knows which slots are shared, and counts anew.
    site.controller.kill();
    site.controller = start_controller(&site.folder, [site.workers, site.grpc, site.page]);
    for job in ["red/one", "red/two"] {
        site.spilled(job);
    }
    jobs.iter().for_each(Job::expect_sums);

    site.aggregator.kill();
    let displaced =
        |site: &mut Site| text(&site.controller.event("controller_event"), "kind") == "switch_down";
    while !displaced(&mut site) {}
    // Twice, so that there are sums that began after the loss was known.
    for _ in 0..2 {
        jobs.iter().for_each(Job::expect_sums);
    }
    // Both have slots of their own now.
    poll_state("jobs with slots of the switch", || {
        let described = one(&format!("switch describe tor --controller {}", site.grpc));
        let ranges = described["ranges"].as_array().map_or(0, Vec::len);
        if number(&described, "slots_used") == 48.0 && ranges == 2 { Ok(()) } else { Err(described) }
    });
    jobs.iter().for_each(Job::expect_sums);
    site.switch.kill();
    jobs.iter().for_each(Job::expect_sums);
}

#[test]
fn best_effort_sharing_needs_an_aggregator() {
    let output = netfold("controller --dev --sharing best-effort --workers 127.0.0.1:0").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("a switch names its aggregator"), "{text}");
}

#[test]
fn the_experiment_compares_best_effort_with_static_sharing() {
    if !namespace::available() {
        return;
    }
    let mut run = Process::start(
        "testbed spill --rate 50M --bytes 64KiB --compute 20 --iterations 10 --plot /dev/null",
    );
    let trials = [
        ("static", "computing", 4.0),
        ("best_effort", "computing", 8.0),
        ("static", "communicating", 4.0),
        ("best_effort", "communicating", 8.0),
        ("aggregator_killed", "computing", 8.0),
    ];
    for (sharing, workload, slots) in trials {
        for job in ["first", "second"] {
            let row = run.event("spill");
            assert_eq!(
                (text(&row, "sharing"), text(&row, "workload"), text(&row, "job")),
                (sharing, workload, job),
                "{row}"
            );
            assert_eq!((number(&row, "wrong"), number(&row, "slots")), (0.0, slots), "{row}");
            assert!(number(&row, "iterations") >= 10.0, "{row}");
            assert_eq!(row["spilled"].is_null(), sharing == "static", "{row}");
            assert_eq!(row["ratio"].is_null(), sharing != "best_effort", "{row}");
        }
    }
    // Whether the bounds hold in so short a time is for a quiet machine.
    assert!(run.wait().code().is_some());
}

#[test]
fn an_interrupted_experiment_leaves_no_namespaces_or_processes() {
    if !namespace::available() {
        return;
    }
    let mut run = Process::start("testbed spill --rate 50M --iterations 10000");
    let id = run.id();
    // Both switches, four ranks, and the guard of the namespaces.
    eventually("two jobs", || children(id).len() == 7);
    let children = children(id);
    assert_eq!(namespaces(id).len(), 6, "the switch, its aggregator and four hosts");
    run.signal("INT");
    assert_eq!(run.wait().code(), Some(130));
    children.iter().for_each(|process| wait_until_ended(u64::from(*process)));
    eventually("no namespaces", || namespaces(id).is_empty());
}
