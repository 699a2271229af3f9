//! Two jobs with a rank at each of two leaves, which want all slots of these and of the spine above: each switch has an aggregator.

use super::*;

/// Switches, and their aggregators.
const SHARED: [(&str, &str); 3] = [("leaf1", "agg1"), ("leaf2", "agg2"), ("spine", "top")];

/// Six switches, and a controller.
struct Fabric {
    _folder: TemporaryDirectory,
    workers: SocketAddr,
    grpc: SocketAddr,
    controller: Process,
    switches: Vec<(&'static str, Process)>,
}

impl Fabric {
    fn start() -> Self {
        let folder = TemporaryDirectory::new("best-effort-trees");
        let mut topology = String::new();
        let mut switches = Vec::new();
        let mut start = |name: &'static str, more: &str| {
            let [data, p4runtime] = [(); 2].map(|()| vacant_address().unwrap());
            let mut switch = Process::start(&format!("switch --listen {data} --p4runtime {p4runtime}"));
            switch.event("listening");
            switches.push((name, switch));
            format!("[[switch]]\nname = \"{name}\"\np4runtime = \"{p4runtime}\"\n{more}")
        };
        for (name, aggregator) in SHARED {
            topology += &start(name, &format!("slots = {SLOTS}\naggregator = \"{aggregator}\"\n"));
            topology += &start(aggregator, "");
        }
        for (a, b) in SHARED.into_iter().chain([("leaf1", "spine"), ("leaf2", "spine")]) {
            topology += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\n");
        }
        for host in 1..=2 {
            topology += &format!(
                "[[host]]\nname = \"host{host}\"\naddresses = [\"127.0.{host}.0/24\"]\nswitch = \"leaf{host}\"\n"
            );
        }
        folder.write("topology.toml", topology);
        let [workers, grpc, page] = [(); 3].map(|()| vacant_address().unwrap());
        let controller = start_controller(&folder, [workers, grpc, page]);
        let fabric = Self { _folder: folder, workers, grpc, controller, switches };
        for (name, _) in &fabric.switches {
            poll_state(format_args!("{name} is up"), || {
                let described = one(&format!("switch describe {name} --controller {grpc}"));
                if described["up"] == true { Ok(()) } else { Err(described) }
            });
        }
        one(&format!("tenant add red --without-token --controller {grpc}"));
        fabric
    }

    /// Waits until a job that shares the slots of all switches has spilled contributions.
    fn expect_spilled(&self, job: &str) {
        poll_state(format_args!("spilled contributions of {job}"), || {
            let described = wait_for(&self.grpc.to_string(), job, "running");
            let tree = &described["trees"][0];
            let places = tree["places"].as_array().unwrap();
            let place = |place: &Value| (text(place, "switch").to_owned(), place["shared"] == true);
            let places: Vec<_> = places.iter().map(place).collect();
            let all = [
                ("top", false),
                ("spine", true),
                ("agg1", false),
                ("agg2", false),
                ("leaf1", true),
                ("leaf2", true),
            ];
            assert_eq!(places, all.map(|(name, shared)| (name.to_owned(), shared)), "{described}");
            assert_eq!(tree["slots"], SLOTS, "{described}");
            if tree["spilled"].as_u64() > Some(0) { Ok(()) } else { Err(described) }
        });
    }
}

#[test]
fn jobs_at_two_switches_share_the_slots_of_both_and_of_the_spine() {
    let mut fabric = Fabric::start();
    let bound = ["--bind 127.0.1.1", "--bind 127.0.2.1"];
    let jobs = ["one", "two"].map(|job| Job::start_as(&fabric.workers.to_string(), job, bound));
    for job in ["red/one", "red/two"] {
        fabric.expect_spilled(job);
    }
    jobs.iter().for_each(Job::expect_sums);
    let output = netfold(&format!("job describe red/one --controller {}", fabric.grpc)).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("shares slots of 'spine' below aggregator 'top', of 'leaf1' below"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");

    let at = fabric.switches.iter().position(|(name, _)| *name == "agg1").unwrap();
    fabric.switches[at].1.kill();
    while text(&fabric.controller.event("controller_event"), "kind") != "switch_down" {}
    // Twice, so that there are sums that began after the loss was known.
    for _ in 0..2 {
        jobs.iter().for_each(Job::expect_sums);
    }
}
