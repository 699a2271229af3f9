//! Two tenants on one switch, a software switch or bmv2: only the switch and its topology file differ.

use std::fmt::Write as _;
use std::process::Stdio;

use netfold_p4::allreduce;
use netfold_p4::profile::Profile;
use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::namespace::{self, NamespaceSet, veth_between};
use netfold_testkit::wait::poll;
use serde_json::Value;

use crate::process::{Process, netfold_within, number, text};

/// The hosts' addresses are 10.79.0.1 to 10.79.0.4, one at each port of the switch.
const HOSTS: [u8; 4] = [1, 2, 3, 4];
const SWITCH: &str = "10.79.0.254";
const SWITCH_MAC: &str = "02:00:0a:4f:00:fe";
/// The management link's ends: that of the controller, and that of the switch.
const MANAGEMENT: [&str; 2] = ["10.79.9.1", "10.79.9.2"];
/// The switch's P4Runtime server.
const P4RUNTIME: &str = "10.79.9.2:9559";

fn command(words: &str) {
    namespace::command(words).unwrap();
}

fn host_mac(host: u8) -> String {
    format!("02:00:0a:4f:00:{host:02x}")
}

/// Two namespaces, one of the hosts and the controller, one of the switch, and links between them. Dropping it removes them.
struct Network {
    hosts: String,
    switch: String,
    folder: TemporaryDirectory,
    _namespaces: NamespaceSet,
}

impl Network {
    fn new(test: &str) -> Self {
        let mut namespaces = NamespaceSet::new();
        let (hosts, switch) = (namespaces.add("hosts", 0).unwrap(), namespaces.add("switch", 0).unwrap());
        let network = Self { hosts, switch, folder: TemporaryDirectory::new(test), _namespaces: namespaces };
        let (hosts, switch) = (&network.hosts, &network.switch);
        for namespace in [hosts, switch] {
            command(&format!("ip -n {namespace} link set lo up"));
        }
        network.link("ctl", "ctl");
        for (namespace, address) in [hosts, switch].into_iter().zip(MANAGEMENT) {
            command(&format!("ip -n {namespace} addr add {address}/24 dev ctl"));
        }
        for host in HOSTS {
            let (at, address, table) = (format!("e{host}"), format!("10.79.0.{host}"), 100 + host);
            network.link(&at, &format!("p{host}"));
            // Virtual interfaces pass unsegmented GSO packets; bmv2 would treat one as a single packet.
            command(&format!("ip -n {hosts} link set {at} address {} gso_max_segs 1", host_mac(host)));
            command(&format!("ip -n {hosts} addr add {address}/32 dev {at}"));
            command(&format!("ip -n {hosts} rule add from {address} lookup {table}"));
            command(&format!("ip -n {hosts} route add {SWITCH}/32 dev {at} table {table}"));
            command(&format!("ip -n {hosts} neigh add {SWITCH} lladdr {SWITCH_MAC} dev {at} nud permanent"));
        }
        network
    }

    fn link(&self, at_hosts: &str, at_switch: &str) {
        let Self { hosts, switch, .. } = self;
        veth_between((at_hosts, hosts), (at_switch, switch)).unwrap();
    }

    /// Gives the switch's system the switch's address at both ports.
    fn give_address(&self) {
        let switch = &self.switch;
        command(&format!("ip -n {switch} link add br0 address {SWITCH_MAC} type bridge"));
        command(&format!("ip -n {switch} addr add {SWITCH}/24 dev br0"));
        command(&format!("ip -n {switch} link set br0 up"));
        for host in HOSTS {
            command(&format!("ip -n {switch} link set p{host} master br0"));
            let mac = host_mac(host);
            command(&format!("ip -n {switch} neigh add 10.79.0.{host} lladdr {mac} dev br0 nud permanent"));
        }
    }
}

/// The topology file; `kind` are the lines that differ.
fn topology(kind: &str) -> String {
    let mut text = format!("[[switch]]\nname = \"s1\"\np4runtime = \"{P4RUNTIME}\"\n{kind}\n");
    for host in HOSTS {
        let mac = host_mac(host);
        let _ = write!(
            text,
            "[[host]]\nname = \"h{host}\"\naddresses = [\"10.79.0.{host}\"]\nswitch = \"s1\"\n{}\n",
            if kind.contains("bmv2") { format!("port = {host}\nmac = \"{mac}\"\n") } else { String::new() }
        );
    }
    text
}

/// The first object that a command prints, if it prints one.
fn one(network: &Network, arguments: &str) -> Value {
    let output = netfold_within(&network.hosts, arguments).arg("--json").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}

fn start_controller(network: &Network, topology: &str) -> Process {
    let file = network.folder.write("topology.toml", topology);
    let state = network.folder.file("state.redb");
    let arguments = format!("controller --topology {file} --state {state} --insecure");
    Process::spawn(netfold_within(&network.hosts, &arguments))
}

/// Two tenants' concurrent jobs on a running switch, a third job that is refused, and their description.
fn two_tenants_share_it(network: &Network, topology: &str, iterations: u32) {
    let within = |arguments: &str| Process::spawn(netfold_within(&network.hosts, arguments));
    let one = |arguments: &str| one(network, arguments);
    let wait_for = |arguments: &str, done: &dyn Fn(&Value) -> bool| {
        poll(arguments, || Some(one(arguments)).filter(done))
    };
    let mut controller = start_controller(network, topology);
    controller.event("controlling");
    wait_for("switch describe s1", &|switch| switch["up"] == true);
    let token = |tenant: &str| text(&one(&format!("tenant add {tenant} --slots 16")), "token").to_owned();
    let tokens = [("red", token("red")), ("blue", token("blue"))];
    let job = |tenant: usize, job: &str| {
        let (tenant, token) = &tokens[tenant];
        format!(
            "--controller 127.0.0.1:20041 --tenant {tenant} --token {token} --job {job} --bytes 16KiB --slots 16"
        )
    };
    let bench = |tenant: usize, name: &str| {
        within(&format!(
            "bench all-reduce {} --workers 2 --bind 10.79.0.1,10.79.0.2 --warmup 0 --iterations {iterations}",
            job(tenant, name)
        ))
    };
    // These go on until they are interrupted, however long the commands below take.
    let member = |tenant: usize, name: &str, rank: u16| {
        let place = format!("--rank {rank} --world 2 --bind 10.79.0.{}", rank + 1);
        within(&format!("worker {} {place} --iterations 1000000000", job(tenant, name)))
    };
    let mut members = [(0, "one", 0), (0, "one", 1), (1, "two", 0), (1, "two", 1)]
        .map(|(tenant, name, rank)| member(tenant, name, rank));
    let mut firsts = Vec::new();
    for job in ["red/one", "blue/two"] {
        let described = wait_for(&format!("job describe {job}"), &|job| job["state"] == "running");
        assert_eq!(number(&described, "slots_held"), 16.0, "{described}");
        let place = &described["trees"][0]["places"][0];
        assert_eq!((text(place, "switch"), number(place, "slots")), ("s1", 16.0), "{described}");
        firsts.push(number(place, "first_slot"));
    }
    assert_ne!(firsts[0], firsts[1], "two jobs have the same slots");
    let mut third = bench(0, "three");
    let refused = third.event("error");
    assert_eq!(text(&refused, "kind"), "quota", "{refused}");
    assert!(text(&refused, "message").contains("tenant 'red' has 16 of 16 slots"), "{refused}");
    assert_eq!(third.wait().code(), Some(1));
    // Both ran while the third was refused.
    for job in ["red/one", "blue/two"] {
        assert_eq!(one(&format!("job describe {job}"))["state"], "running");
    }
    for member in &mut members {
        let row = member.event("all_reduce");
        assert_eq!(number(&row, "wrong"), 0.0, "{row}");
        member.signal("INT");
    }
    for mut member in members {
        member.wait();
    }
    wait_for("switch describe s1", &|switch| switch["slots_used"] == 0);
    // Their slots serve others, at once and to the end.
    for mut job in [bench(0, "four"), bench(1, "five")] {
        let row = job.event("all_reduce");
        assert_eq!(number(&row, "wrong"), 0.0, "{row}");
        assert_eq!(job.wait().code(), Some(0), "{row}");
        println!("{row}");
    }
    let switch = wait_for("switch describe s1", &|switch| switch["slots_used"] == 0);
    assert!(switch["ranges"].as_array().unwrap().is_empty(), "{switch}");
}

#[test]
fn two_tenants_share_a_software_switch() {
    if !namespace::available() {
        return;
    }
    let network = Network::new("software");
    network.give_address();
    let mut switch = Process::spawn(netfold_within(
        &network.switch,
        &format!("switch --listen {SWITCH}:20038 --p4runtime {P4RUNTIME} --insecure"),
    ));
    switch.event("listening");
    two_tenants_share_it(&network, &topology(""), 2000);
}

/// A bmv2 that runs the program of profile `hardware`, and the lines of its switch in the topology file; `None` where it is not installed.
fn bmv2(network: &Network) -> Option<(netfold_testkit::process::Process, String)> {
    if let Some(tool) = netfold_lab::bmv2::missing_tool() {
        println!("skipped: {tool} is not on PATH (see p4.org)");
        return None;
    }
    let program = allreduce::program(&Profile::hardware()).unwrap();
    network.folder.write("hardware.json", &netfold_lab::bmv2::compile(&program).unwrap().json);
    let mut switch = namespace::command_in(&network.switch, "simple_switch_grpc");
    switch
        .args(["--no-p4", "--device-id", "1"])
        .args(HOSTS.iter().flat_map(|host| ["-i".to_owned(), format!("{host}@p{host}")]))
        .args(["--", "--cpu-port", "510", "--grpc-server-addr", P4RUNTIME])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let kind = format!(
        "kind = \"bmv2\"\nprofile = \"hardware\"\ndevice_config = \"hardware.json\"\ndata = \"{SWITCH}:20038\"\n"
    );
    Some((netfold_testkit::process::Process::spawn(switch), kind))
}

#[test]
fn two_tenants_share_a_bmv2() {
    if !namespace::available() {
        return;
    }
    let network = Network::new("bmv2");
    let Some((_switch, kind)) = bmv2(&network) else { return };
    two_tenants_share_it(&network, &topology(&kind), 40);
}

/// The slots of profile `hardware` are enough for a job of four ranks and 63 groups of two, 16 slots each. The 64th reduces among its ranks.
#[test]
fn a_bmv2_has_as_many_groups_of_a_job_as_slots_for_them() {
    if !namespace::available() {
        return;
    }
    let network = Network::new("groups");
    let Some((_switch, kind)) = bmv2(&network) else { return };
    let mut controller = start_controller(&network, &topology(&kind));
    controller.event("controlling");
    poll("the switch", || (one(&network, "switch describe s1")["up"] == true).then_some(()));
    let held = Profile::hardware().slots / 16 - 1;
    assert!(Profile::hardware().jobs_of(2) > held, "its other tables have room for more");
    // A quota that is larger than the switch, so that it refuses none.
    let token = text(&one(&network, "tenant add red --slots 2048"), "token").to_owned();
    let mut bench = Process::spawn(netfold_within(
        &network.hosts,
        &format!(
            "bench groups --controller 127.0.0.1:20041 --tenant red --token {token} --bind {} \
             --groups {} --size 2 --processes 4 --bytes 16KiB --slots 16",
            HOSTS.map(|host| format!("10.79.0.{host}")).join(","),
            held + 1
        ),
    ));
    let row = bench.event("groups");
    assert_eq!((number(&row, "at_switch"), number(&row, "wrong")), (f64::from(held), 0.0), "{row}");
    assert_eq!(bench.wait().code(), Some(0), "{row}");
    println!("{row}");
}
