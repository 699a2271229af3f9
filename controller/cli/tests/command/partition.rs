//! Two controllers over one etcd in network namespaces, which lose each other, etcd, or processor time: the switch never takes changes
//! from two of them, and a job continues.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::namespace::{self, NamespaceSet, command, command_in, veth_between};
use netfold_testkit::process as testkit;
use netfold_testkit::wait::poll;
use serde_json::Value;

use crate::observer::Primaries;
use crate::process::{Process, netfold_within, number, text};

/// Seconds; a leader without renewal stops after three quarters of it.
const LEASE_S: u64 = 4;

/// Two networks, each a bridge: `manage` joins etcd and the controllers, `data` the controllers, the switch and the workers' host.
struct Site {
    etcd: String,
    controllers: [String; 2],
    switch: String,
    host: String,
    hub: String,
    _namespaces: NamespaceSet,
}

impl Site {
    const ETCD: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 1);
    const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 1);
    const HOST: Ipv4Addr = Ipv4Addr::new(10, 84, 0, 2);

    fn new() -> Self {
        let mut namespaces = NamespaceSet::new();
        let hub = namespaces.add("hub", 0).unwrap();
        for bridge in ["manage", "data"] {
            run(&format!("ip -n {hub} link add {bridge} type bridge"));
            run(&format!("ip -n {hub} link set {bridge} up"));
        }
        let mut add = |kind: &str, number: usize, networks: &[(&str, Ipv4Addr)]| {
            let name = namespaces.add(kind, number).unwrap();
            run(&format!("ip -n {name} link set lo up"));
            for (network, address) in networks {
                let port = port(network, kind, number);
                veth_between((network, &name), (&port, &hub)).unwrap();
                run(&format!("ip -n {hub} link set {port} master {network}"));
                run(&format!("ip -n {name} addr add {address}/24 dev {network}"));
            }
            name
        };
        let etcd = add("etcd", 0, &[("manage", Self::ETCD)]);
        let switch = add("switch", 0, &[("data", Self::SWITCH)]);
        let host = add("host", 0, &[("data", Self::HOST)]);
        // A job on a slow link leaves the processors to the controllers.
        run(&format!(
            "ip netns exec {host} tc qdisc add dev data root tbf rate 50mbit burst 80kb latency 100ms"
        ));
        let controllers = [0, 1].map(|number| {
            let (manage, data) = (Ipv4Addr::new(10, 83, 0, 10 + number), Self::controller(number));
            add("control", number.into(), &[("manage", manage), ("data", data)])
        });
        Self { etcd, controllers, switch, host, hub, _namespaces: namespaces }
    }

    const fn controller(number: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 84, 0, 10 + number)
    }

    /// Whether a controller reaches etcd and the other controller; the switch and the workers it reaches in any case.
    fn set_managed(&self, controller: usize, on: bool) {
        let state = if on { "up" } else { "down" };
        run(&format!("ip -n {} link set {} {state}", self.hub, port("manage", "control", controller)));
    }

    fn start_etcd(&self, folder: &TemporaryDirectory) -> testkit::Process {
        let clients = format!("http://{}:2379", Self::ETCD);
        let peers = "http://127.0.0.1:2380";
        let mut etcd = command_in(&self.etcd, "etcd");
        etcd.args(["--name", "one", "--data-dir"])
            .arg(folder.file("etcd"))
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers])
            .args(["--initial-cluster", &format!("one={peers}")])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        testkit::Process::spawn(etcd)
    }

    fn start_controller(&self, number: usize, topology: &str) -> Process {
        let address = Self::controller(number as u8);
        let etcd = Self::ETCD;
        Process::spawn(netfold_within(
            &self.controllers[number],
            &format!(
                "controller --topology {topology} --etcd http://{etcd}:2379 --etcd-lease {LEASE_S} --insecure \
                 --workers {address}:20041 --listen {address}:20042"
            ),
        ))
    }

    /// The switch, and who observes its primaries.
    fn start_switch(&self) -> (Process, Primaries) {
        let address = Self::SWITCH;
        let arguments = format!("switch --listen {address}:20038 --p4runtime {address}:9559 --insecure");
        let mut switch = Process::spawn(netfold_within(&self.switch, &arguments));
        switch.event("listening");
        (switch, Primaries::observe(Some(&self.host), SocketAddr::from((address, 9559))))
    }

    fn topology(folder: &TemporaryDirectory) -> String {
        let topology = format!(
            "[[switch]]\nname = \"s1\"\np4runtime = \"{}:9559\"\n\
             [[host]]\nname = \"host\"\naddresses = [\"{}\"]\nswitch = \"s1\"\n",
            Self::SWITCH,
            Self::HOST
        );
        folder.write("topology.toml", topology)
    }

    /// Two workers that do not end, each after its first sum.
    fn start_workers(&self) -> [Process; 2] {
        let both = [0, 1].map(|number| format!("{}:20041", Self::controller(number))).join(",");
        let mut workers = [0, 1].map(|rank| {
            let arguments = format!(
                "worker --controller {both} --tenant red --job one --rank {rank} --world 2 --mode i32 --bytes 1MiB \
                 --iterations 10000000"
            );
            Process::spawn(netfold_within(&self.host, &arguments))
        });
        workers.iter_mut().for_each(|worker| drop(worker.event("all_reduce")));
        workers
    }

    /// Runs `netfold --json` on the workers' host to its end; returns its lines.
    fn run(&self, arguments: &str) -> Vec<Value> {
        let mut process = Process::spawn(netfold_within(&self.host, arguments));
        process.wait();
        process.rest()
    }

    /// Results that the workers of the job have received, as the leader knows.
    fn results(&self, leader: usize) -> Option<u64> {
        let address = Self::controller(leader as u8);
        let lines = self.run(&format!("job describe red/one --controller {address}:20042"));
        let running = lines.iter().find(|line| line["state"] == "running")?;
        running["traffic"]["totals"]["results_received"].as_u64()
    }

    /// Waits until the leader knows of progress of the job that was made after this call.
    fn expect_progress(&self, leader: usize) {
        let before = poll("the leader knows of the job", || self.results(leader));
        poll("the job continues", || self.results(leader).filter(|results| *results > before));
    }
}

/// The hub's interface to a namespace.
fn port(network: &str, kind: &str, number: usize) -> String {
    format!("{}-{kind}{number}", &network[..1])
}

fn run(words: &str) -> String {
    command(words).unwrap()
}

/// A worker's lines to its end: sums, none of them wrong.
fn expect_sums(worker: &mut Process) {
    // Not INT, which a process ignores where its parent was started in the background.
    worker.signal("TERM");
    worker.wait();
    let lines = worker.rest();
    let sums = lines.iter().filter(|line| line["event"] == "all_reduce");
    assert!(sums.clone().count() > 0, "{lines:?}");
    sums.for_each(|line| assert_eq!(number(line, "wrong"), 0.0, "{line}"));
}

#[test]
fn a_switch_never_has_two_leaders() {
    if !namespace::available() {
        return;
    }
    if std::process::Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: etcd is not on PATH (Debian's etcd-server)");
        return;
    }
    let (site, folder) = (Site::new(), TemporaryDirectory::new("partition"));
    let _etcd = site.start_etcd(&folder);
    let (_switch, primaries) = site.start_switch();
    let topology = Site::topology(&folder);
    let mut controllers = [0, 1].map(|number| {
        let mut controller = site.start_controller(number, &topology);
        controller.event(if number == 0 { "controlling" } else { "standby" });
        controller
    });
    let mut ids = vec![primaries.next_after(0)];
    site.run(&format!("tenant add red --without-token --controller {}:20042", Site::controller(0)));
    let mut workers = site.start_workers();
    // Each leader in turn loses etcd and its standby, but neither the switch nor the workers; or is stopped for longer than its lease.
    for (round, stopped) in [false, true, false, true].into_iter().enumerate() {
        let (leader, standby) = (round % 2, (round + 1) % 2);
        site.expect_progress(leader);
        if stopped {
            controllers[leader].signal("STOP");
        } else {
            site.set_managed(leader, false);
            // It does not act for longer than its lease allows, though the switch would still take its changes.
            let lost = controllers[leader].event("leadership_lost");
            assert!(!text(&lost, "message").is_empty(), "{lost}");
        }
        controllers[standby].event("controlling");
        ids.push(primaries.next_after(ids[round]));
        site.expect_progress(standby);
        if stopped {
            controllers[leader].signal("CONT");
            controllers[leader].event("leadership_lost");
        } else {
            site.set_managed(leader, true);
        }
        let waiting = controllers[leader].event("standby");
        println!("round {round}: {waiting}; primary {:#x}", ids[round + 1]);
    }
    site.expect_progress(0);

    ids.extend(primaries.rest());
    assert!(ids.is_sorted(), "the switch takes changes from newer leaders only: {ids:x?}");
    ids.dedup();
    assert_eq!(ids.len(), 5, "each leader has the switch once: {ids:x?}");
    workers.iter_mut().for_each(expect_sums);
}
