//! Links that are drained while jobs run over two leaves and two spines: jobs move, no rank sees an error, and every sum is right.

use std::net::SocketAddr;

use netfold_io::vacant_address;
use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::wait::poll_state;
use serde_json::Value;

use crate::controller::one;
use crate::process::{Process, netfold, number, run, text};
use crate::upgrade::Job;

/// Two leaves, two spines, and a controller with a database.
struct Fabric {
    folder: TemporaryDirectory,
    workers: SocketAddr,
    grpc: SocketAddr,
    controller: Process,
    _switches: Vec<Process>,
}

impl Fabric {
    fn start() -> Self {
        let folder = TemporaryDirectory::new("links");
        let mut topology = String::new();
        let mut switches = Vec::new();
        for (name, role) in [("leaf1", "leaf"), ("leaf2", "leaf"), ("spine1", "spine"), ("spine2", "spine")] {
            let [data, p4runtime] = [(); 2].map(|()| vacant_address().unwrap());
            let mut switch = Process::start(&format!("switch --listen {data} --p4runtime {p4runtime}"));
            switch.event("listening");
            switches.push(switch);
            topology +=
                &format!("[[switch]]\nname = \"{name}\"\nrole = \"{role}\"\np4runtime = \"{p4runtime}\"\n");
        }
        for host in 1..=2 {
            topology += &format!(
                "[[host]]\nname = \"host{host}\"\naddresses = [\"127.0.{host}.0/24\"]\nswitch = \"leaf{host}\"\n"
            );
            for spine in 1..=2 {
                topology += &format!("[[link]]\na = \"leaf{host}\"\nb = \"spine{spine}\"\nrate = \"10G\"\n");
            }
        }
        folder.write("topology.toml", topology);
        let [workers, grpc] = [(); 2].map(|()| vacant_address().unwrap());
        let controller = start_controller(&folder, workers, grpc);
        let fabric = Self { folder, workers, grpc, controller, _switches: switches };
        fabric.wait_until_up();
        one(&format!("tenant add red --without-token --controller {grpc}"));
        fabric
    }

    fn wait_until_up(&self) {
        poll_state("all switches are up", || {
            let links = self.links();
            if links.len() == 4 && links.iter().all(|link| link["up"] == true) { Ok(()) } else { Err(links) }
        });
    }

    fn restart_controller(&mut self) {
        self.controller.signal("KILL");
        self.controller.wait();
        self.controller = start_controller(&self.folder, self.workers, self.grpc);
        self.wait_until_up();
    }

    /// A job with a rank at each leaf.
    fn job(&self, name: &str) -> Job {
        Job::start_as(&self.workers.to_string(), name, ["--bind 127.0.1.1", "--bind 127.0.2.1"])
    }

    /// What a command that calls the controller prints, and its exit code.
    fn call(&self, command: &str) -> (Option<i32>, Vec<Value>) {
        run(&format!("{command} --controller {}", self.grpc))
    }

    fn links(&self) -> Vec<Value> {
        let (code, links) = self.call("link list");
        assert_eq!(code, Some(0), "{links:?}");
        links
    }

    /// The spine of a job that runs, with a session of each rank.
    fn spine(&self, job: &str) -> String {
        let described = poll_state(format_args!("red/{job} runs"), || {
            let (_, mut lines) = self.call(&format!("job describe red/{job}"));
            let described = lines.remove(0);
            let tree = &described["trees"][0];
            let here = tree["members"]
                .as_array()
                .map_or(0, |members| members.iter().filter(|member| member["state"] == "here").count());
            if tree["phase"] == "running" && here == 2 { Ok(described) } else { Err(described) }
        });
        let root = &described["trees"][0]["places"][0];
        assert_eq!(root["parent"], "", "{described}");
        text(root, "switch").to_owned()
    }

    /// Drains a link, and waits until no job uses it.
    fn free(&self, leaf: &str, spine: &str) {
        let (code, lines) = self.call(&format!("link drain {spine} {leaf} --wait"));
        assert_eq!(code, Some(0), "{lines:?}");
        let link = &lines[0];
        assert_eq!((&link["drained"], number(link, "trees")), (&true.into(), 0.0), "{link}");
    }
}

fn start_controller(folder: &TemporaryDirectory, workers: SocketAddr, grpc: SocketAddr) -> Process {
    let mut controller = Process::start(&format!(
        "controller --topology {} --state {} --insecure --placement measured --workers {workers} --listen {grpc} --http 127.0.0.1:0",
        folder.file("topology.toml"),
        folder.file("state.redb")
    ));
    controller.event("controlling");
    controller
}

#[test]
fn jobs_move_from_a_drained_link_without_an_error_on_any_rank() {
    let mut fabric = Fabric::start();
    let jobs = ["one", "two"].map(|name| (name, fabric.job(name)));
    let before = ["one", "two"].map(|name| fabric.spine(name));
    assert_ne!(before[0], before[1], "two jobs use two spines");
    jobs.iter().for_each(|(_, job)| job.expect_sums());
    // In the middle of the job of the first spine; the other job stays.
    let [spine, other] = &before;
    let epoch = |job: &str| number(&fabric.call(&format!("job describe red/{job}")).1[0], "epoch");
    let epochs = ["one", "two"].map(epoch);
    fabric.free("leaf1", spine);
    assert_eq!(["one", "two"].map(|name| fabric.spine(name)), [other.clone(), other.clone()]);
    assert!(epoch("one") > epochs[0] && epoch("two") == epochs[1]);
    jobs.iter().for_each(|(_, job)| job.expect_sums());
    // The controller is killed: jobs keep their trees, and the link stays drained.
    let epochs = ["one", "two"].map(epoch);
    fabric.restart_controller();
    jobs.iter().for_each(|(_, job)| job.expect_sums());
    let drained = |fabric: &Fabric| -> Vec<String> {
        let links = fabric.links().into_iter().filter(|link| link["drained"] == true);
        links.map(|link| format!("{} {}", text(&link, "a"), text(&link, "b"))).collect()
    };
    assert_eq!(drained(&fabric), [format!("leaf1 {spine}")]);
    assert_eq!(["one", "two"].map(|name| fabric.spine(name)), [other.clone(), other.clone()]);
    let epoch = |job: &str| number(&fabric.call(&format!("job describe red/{job}")).1[0], "epoch");
    assert_eq!(["one", "two"].map(epoch), epochs);
    // Of the other spine's link no tree can do without: the jobs stay, and the command names them.
    let (code, lines) = fabric.call(&format!("link drain leaf2 {other} --wait"));
    let error = lines.last().unwrap();
    assert_eq!((code, text(error, "kind")), (Some(1), "conflict"), "{error}");
    for name in ["red/one: no other tree is possible", "red/two: no other tree is possible"] {
        assert!(text(error, "message").contains(name), "{error}");
    }
    jobs.iter().for_each(|(_, job)| job.expect_sums());
    assert_eq!(["one", "two"].map(epoch), epochs);
    // With the first link back both move there at once.
    let undrained = one(&format!("link undrain leaf1 {spine} --controller {}", fabric.grpc));
    assert_eq!(undrained["drained"], false);
    fabric.free("leaf2", other);
    assert_eq!(["one", "two"].map(|name| fabric.spine(name)), [spine.clone(), spine.clone()]);
    jobs.iter().for_each(|(_, job)| job.expect_sums());
    jobs.iter().for_each(|(_, job)| drop(job.lines()));
}

#[test]
fn links_are_shown_and_unknown_ones_are_errors() {
    let fabric = Fabric::start();
    let job = fabric.job("one");
    let spine = fabric.spine("one");
    job.expect_sums();
    let (code, lines) = fabric.call(&format!("link describe leaf1 {spine}"));
    assert_eq!((code, lines.len()), (Some(0), 1), "{lines:?}");
    let over = &lines[0]["jobs"][0];
    assert_eq!((text(over, "job"), &over["stays"]), ("red/one", &Value::Null), "{over}");
    assert_eq!(number(over, "demand"), number(&lines[0], "demand"));
    let shown = |command: &str| {
        let output = netfold(&format!("{command} --controller {}", fabric.grpc)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(shown("link list").contains("leaf2 - spine2"));
    assert!(shown(&format!("link describe {spine} leaf1")).contains("red/one"));
    for command in ["link drain leaf1 leaf2", "link undrain leaf1 spine9", "link describe a b"] {
        let (code, lines) = fabric.call(command);
        let error = lines.last().unwrap();
        assert_eq!((code, text(error, "kind")), (Some(1), "not_found"), "{command}: {error}");
    }
    let (_, lines) = fabric.call("link drain leaf1 spine9");
    assert!(
        text(lines.last().unwrap(), "message").contains("there are leaf1 - spine1, leaf1 - spine2"),
        "{lines:?}"
    );
    job.lines();
}
