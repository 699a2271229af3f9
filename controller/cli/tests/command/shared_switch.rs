//! Two tenants on one switch, a software switch or bmv2: only the switch and its topology file differ.

use std::fmt::Write as _;
use std::process::Stdio;

use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::namespace::{self, NamespaceSet, veth_between};
use netfold_testkit::wait::poll;
use serde_json::Value;

use crate::process::{Process, netfold_within, number, text};

/// The hosts' addresses are 10.79.0.1 and 10.79.0.2, one at each port of the switch.
const HOSTS: [u8; 2] = [1, 2];
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

/// Two namespaces, one of the hosts and the controller, one of the switch, and three links between them. Dropping it removes them.
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

/// Two tenants' concurrent jobs on a running switch, a third job that is refused, and their description.
fn two_tenants_share_it(network: &Network, topology: &str, iterations: u32) {
    let within = |arguments: &str| Process::spawn(netfold_within(&network.hosts, arguments));
    let one = |arguments: &str| -> Value {
        let output = netfold_within(&network.hosts, arguments).arg("--json").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        said.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    };
    let wait_for = |arguments: &str, done: &dyn Fn(&Value) -> bool| {
        poll(arguments, || Some(one(arguments)).filter(done))
    };
    let file = network.folder.write("topology.toml", topology);
    let state = network.folder.file("state.redb");
    let mut controller = within(&format!("controller --topology {file} --state {} --insecure", state));
    controller.event("controlling");
    wait_for("switch describe s1", &|switch| switch["up"] == true);
    let token = |tenant: &str| text(&one(&format!("tenant add {tenant} --slots 16")), "token").to_owned();
    let tokens = [("red", token("red")), ("blue", token("blue"))];
    let bench = |tenant: usize, job: &str| {
        let (tenant, token) = &tokens[tenant];
        within(&format!(
            "bench all-reduce --controller 127.0.0.1:20041 --tenant {tenant} --token {token} --job {job} --workers 2 \
             --bind 10.79.0.1,10.79.0.2 --bytes 16KiB --slots 16 --warmup 0 --iterations {iterations}"
        ))
    };
    let mut jobs = [bench(0, "one"), bench(1, "two")];
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
    for job in &mut jobs {
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

#[test]
fn two_tenants_share_a_bmv2() {
    if !namespace::available() {
        return;
    }
    if let Some(tool) = netfold_lab::bmv2::missing_tool() {
        println!("skipped: {tool} is not on PATH (see p4.org)");
        return;
    }
    let network = Network::new("bmv2");
    let text =
        netfold_within(&network.hosts, "p4 emit --target v1model --profile hardware").output().unwrap();
    let program = network.folder.write("hardware.p4", text.stdout);
    command(&format!(
        "p4c-bm2-ss --std p4-16 {program} -o {}/hardware.json",
        network.folder.path().display()
    ));
    let mut switch = namespace::command_in(&network.switch, "simple_switch_grpc");
    switch
        .args(["--no-p4", "--device-id", "1", "-i", "1@p1", "-i", "2@p2"])
        .args(["--", "--cpu-port", "510", "--grpc-server-addr", P4RUNTIME])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let _switch = netfold_testkit::process::Process::spawn(switch);
    let kind = format!(
        "kind = \"bmv2\"\nprofile = \"hardware\"\ndevice_config = \"hardware.json\"\ndata = \"{SWITCH}:20038\"\n"
    );
    two_tenants_share_it(&network, &topology(&kind), 40);
}
