//! Topology files: what they mean, and the errors of those that cannot be used.

use std::net::IpAddr;
use std::path::Path;

use netfold_control::Refusal;
use netfold_controller::route::{NetworkState, RouteRequest, SwitchState, choose};
use netfold_controller::topology::{
    Element, Kind, Mac, Problem, RATE_DEFAULT, Role, SwitchId, Topology, TopologyError,
};

const LEAF_SPINE: &str = r#"
[[switch]]
name = "leaf1"
role = "leaf"
p4runtime = "10.0.0.1:9559"

[[switch]]
name = "leaf2"
role = "leaf"
p4runtime = "[fd00::2]:9559"
slots = 512
tls = { ca = "ca.pem", server_name = "leaf2.fabric" }

[[switch]]
name = "spine1"
role = "spine"
p4runtime = "spine1.fabric:9559"
data = "10.0.0.3:20038"

[[host]]
name = "gpu1"
addresses = ["10.1.0.0/28", "10.9.0.1"]
switch = "leaf1"

[[host]]
name = "gpu2"
addresses = ["10.1.0.0/24"]
switch = "leaf1"

[[host]]                # the same host in another plane, with the same addresses
name = "gpu2"
switch = "leaf2"

[[link]]
a = "leaf1"
b = "spine1"

[[link]]
a = "leaf2:3"
b = "spine1"
rate = "2.5G"

[[link]]
a = "spine1"
b = "leaf1"
"#;

const BMV2: &str = r#"
[[switch]]
name = "s1"
kind = "bmv2"
profile = "hardware"
device_config = "hardware.json"
p4runtime = "127.0.0.1:50051"
data = "10.0.1.254:20038"

[[switch]]
name = "s2"
kind = "bmv2"
profile = "hardware"
device_config = "/etc/netfold/hardware.json"
p4runtime = "127.0.0.1:50051"
device_id = 2
data = "10.0.2.254:20038"
mac = "02:aa:00:00:00:02"
cpu_port = 64

[[host]]
name = "h1"
addresses = ["10.0.1.1"]
switch = "s1"
port = 1
mac = "02:00:0a:00:01:01"

[[link]]
a = "s1:9"
b = "s2:9"
mac_b = "02:aa:00:00:09:02"
"#;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn a_topology_says_whether_its_fabric_has_equal_paths() {
    let with = |key: &str| Topology::from_toml(&format!("{key}\n{LEAF_SPINE}"));
    assert!(!with("").unwrap().has_ecmp());
    assert!(with("ecmp = true").unwrap().has_ecmp());
    assert!(!with("ecmp = false").unwrap().has_ecmp());
    let wrong = with("ecmp = 16").unwrap_err().to_string();
    assert!(wrong.starts_with("line 1:"), "{wrong}");
    let known =
        with(r#"ecmp = { hash = "linux", seed = 7, paths = 4, rate = "40G", direct = ["10.1.0.0/28"] }"#)
            .unwrap();
    let paths = known.equal_paths().expect("the hash is known");
    assert!(known.has_ecmp() && paths.to_string() == "linux,seed=7,paths=4");
    assert_eq!(paths.rate_bps, Some(40_000_000_000));
    assert_eq!(known.direct(), ["10.1.0.0/28".parse().unwrap()]);
    assert_eq!(with("ecmp = true").unwrap().equal_paths(), None);
    for (wrong, reason) in [
        (r#"{ hash = "linux", paths = 4 }"#, "line 1: the topology: ecmp: give the seed of hash linux"),
        (r#"{ hash = "md5", paths = 4 }"#, "line 1: the topology: ecmp: hash 'md5' is not known"),
        (r#"{ hash = "crc32", paths = 1 }"#, "line 1: the topology: ecmp: give the number of equal paths"),
        (r#"{ hash = "crc32", paths = 2, rate = "fast" }"#, "line 1: the topology: rate"),
        (r#"{ hash = "crc32", paths = 2, direct = ["x"] }"#, "line 1: the topology: direct"),
        (
            r#"{ hash = "crc32", paths = 2, seeds = 1 }"#,
            "line 1: the topology: ecmp is true, false, or a table",
        ),
    ] {
        let message = with(&format!("ecmp = {wrong}")).unwrap_err().to_string();
        assert!(message.starts_with(reason), "{message}");
    }
}

#[test]
fn a_leaf_spine_is_read_as_it_is_written() {
    let topology = Topology::from_toml(LEAF_SPINE).unwrap();
    let [leaf1, leaf2, spine1] = [SwitchId(0), SwitchId(1), SwitchId(2)];
    assert_eq!(topology.switch_named("spine1"), Some(spine1));
    assert_eq!(topology.switch_named("spine2"), None);
    let second = topology.switch(leaf2);
    assert_eq!((second.role, second.kind, second.device_id), (Role::Leaf, Kind::Software, 1));
    assert_eq!((second.slots, second.cpu_port, second.data), (Some(512), 510, None));
    assert!(!second.has_ethernet());
    assert_eq!(second.tls.as_ref().unwrap().server_name.as_deref(), Some("leaf2.fabric"));

    let name = |text| topology.host_of(address(text)).map(|host| topology.host(host).name.as_str());
    assert_eq!(name("10.1.0.15"), Some("gpu1"), "the longest prefix");
    assert_eq!(name("10.1.0.16"), Some("gpu2"));
    assert_eq!(name("10.9.0.1"), Some("gpu1"));
    assert_eq!(name("::ffff:10.9.0.1"), Some("gpu1"), "IPv4 in IPv6's clothes");
    assert_eq!(name("10.9.0.2"), None);
    let both = topology.member(address("10.1.0.99")).unwrap();
    assert_eq!(both.planes.iter().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(topology.switches_of(both.host).collect::<Vec<_>>(), [leaf1, leaf2]);
    assert_eq!(topology.leaf_of(both.host), leaf1);
    assert!(
        topology.attachment(both.host, leaf2).is_some() && topology.attachment(both.host, spine1).is_none()
    );

    let links: Vec<_> = topology.links_between(leaf1, spine1).map(|link| link.index()).collect();
    assert_eq!(links, [0, 2]);
    let around: Vec<_> = topology.neighbours(spine1).iter().map(|(link, to)| (link.index(), *to)).collect();
    assert_eq!(around, [(0, leaf1), (1, leaf2), (2, leaf1)]);
    let rates: Vec<_> = topology.links().iter().map(|link| link.rate_bps).collect();
    assert_eq!(rates, [RATE_DEFAULT, 2_500_000_000, RATE_DEFAULT]);
}

#[test]
fn switches_with_ports_of_their_own_have_one_worker_of_a_job_at_each() {
    let topology = Topology::from_toml(BMV2).unwrap();
    let network = NetworkState::idle(&topology, SwitchState::idle(1024, 64));
    let member = topology.member(address("10.0.1.1")).unwrap();
    assert!(choose(&topology, &network, &RouteRequest::new(&[member], 16)).is_ok());
    let error = choose(&topology, &network, &RouteRequest::new(&[member, member], 16)).unwrap_err();
    let expected = "ranks 0, 1 are at port 1 of switch \"s1\", which distinguishes a job's workers by their ports: \
                    let the ranks of a host share memory, or run one rank at each port";
    assert_eq!((error.to_string().as_str(), error.refusal()), (expected, Refusal::Path));
    // A software switch distinguishes them by their addresses.
    let topology = Topology::from_toml(LEAF_SPINE).unwrap();
    let network = NetworkState::idle(&topology, SwitchState::idle(1024, 64));
    let member = topology.member(address("10.1.0.16")).unwrap();
    assert!(choose(&topology, &network, &RouteRequest::new(&[member, member], 16)).is_ok());
}

#[test]
fn ports_and_ethernet_addresses_are_known_where_there_are_frames() {
    let topology = Topology::from_toml(BMV2).unwrap().relative_to(Path::new("/srv/lab"));
    let [s1, s2] = [SwitchId(0), SwitchId(1)];
    let link = topology.links_between(s1, s2).next().unwrap();
    assert_eq!(topology.hop(s1, link), (Some(9), Some("02:aa:00:00:09:02".parse().unwrap())));
    assert_eq!(topology.hop(s2, link), (Some(9), Some(Mac::of([10, 0, 1, 254].into()))));
    let configs: Vec<_> =
        topology.switches().iter().map(|switch| switch.device_config.as_deref().unwrap()).collect();
    assert_eq!(configs, [Path::new("/srv/lab/hardware.json"), Path::new("/etc/netfold/hardware.json")]);
}

#[test]
fn one_switch_is_there_for_every_address() {
    let topology = Topology::single("dev", None).unwrap();
    for text in ["127.0.0.1", "192.0.2.7", "::1"] {
        let host = topology.host_of(address(text)).unwrap();
        assert_eq!(topology.leaf_of(host), SwitchId(0));
    }
    let error = Topology::single("a b", None).unwrap_err();
    assert_eq!((error.line, error.problem), (None, Problem::Name));
}

#[test]
fn the_examples_of_the_documentation_can_be_used() {
    let page = include_str!("../../../docs/topology.md");
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let switches: Vec<usize> =
        examples.iter().map(|text| Topology::from_toml(text).expect("an example").switches().len()).collect();
    assert_eq!(switches, [1, 1, 4, 2]);
}

/// Reads a file with one change and returns the error.
fn spoilt(text: &str, from: &str, to: &str) -> TopologyError {
    assert!(text.contains(from), "{from}");
    let text = text.replacen(from, to, 1);
    match Topology::from_toml(&text) {
        Ok(_) => panic!("{to:?} instead of {from:?} was taken"),
        Err(error) => error,
    }
}

#[test]
fn every_mistake_is_named_with_its_line() {
    let all = [
        (LEAF_SPINE, "slots = 512", "slot = 512", 11, "unknown field `slot`"),
        (LEAF_SPINE, "slots = 512", "slots = \"many\"", 11, "expected u32"),
        (LEAF_SPINE, "slots = 512", "slots = 0", 7, "switch \"leaf2\": slots = 0"),
        (LEAF_SPINE, "role = \"spine\"", "role = \"core\"", 16, "unknown variant `core`"),
        (LEAF_SPINE, "name = \"leaf2\"", "name = \"leaf1\"", 7, "the name is taken"),
        (LEAF_SPINE, "name = \"leaf2\"", "name = \"leaf:2\"", 7, "a name has 1 to 64"),
        (LEAF_SPINE, "10.0.0.1:9559", "10.0.0.1", 2, "p4runtime = \"10.0.0.1\": write a host and a port"),
        (LEAF_SPINE, "10.0.0.1:9559", "spine1.fabric:9559", 14, "is device 1 of spine1.fabric:9559"),
        (LEAF_SPINE, "10.0.0.3:20038", "10.0.0.3", 14, "write an address and a UDP port"),
        (LEAF_SPINE, "10.0.0.3:20038", "0.0.0.0:20038", 14, "the address and the UDP port"),
        (LEAF_SPINE, "10.1.0.0/28", "10.1.0.1/28", 20, "write 10.1.0.0/28 for the range"),
        (LEAF_SPINE, "10.1.0.0/28", "10.1.0.0/33", 20, "an address or a range of them"),
        (LEAF_SPINE, "10.1.0.0/28", "10.1.0.0/24", 25, "belongs to host \"gpu1\" already"),
        (LEAF_SPINE, "addresses = [\"10.1.0.0/24\"]\n", "", 25, "it has no addresses"),
        (LEAF_SPINE, "switch = \"leaf2\"", "switch = \"leaf1\"", 30, "attached to switch \"leaf1\" twice"),
        (LEAF_SPINE, "switch = \"leaf2\"", "switch = \"leaf3\"", 30, "there is no switch \"leaf3\""),
        (LEAF_SPINE, "switch = \"leaf2\"", "switch = \"spine1\"", 30, "is a spine"),
        (
            LEAF_SPINE,
            "switch = \"leaf2\"",
            "mac = \"02:00:00:00:00:01\"\nswitch = \"leaf2\"",
            30,
            "not frames",
        ),
        (LEAF_SPINE, "b = \"spine1\"", "b = \"leaf1\"", 34, "both ends are at switch \"leaf1\""),
        (LEAF_SPINE, "b = \"spine1\"", "b = \"leaf2\"", 34, "are both leaves"),
        (LEAF_SPINE, "a = \"leaf2:3\"", "a = \"leaf2:x\"", 38, "a switch and its port"),
        (LEAF_SPINE, "a = \"leaf2:3\"", "a = \"leaf2:0\"", 38, "there is no port 0"),
        (LEAF_SPINE, "2.5G", "fast", 38, "bits a second"),
        (LEAF_SPINE, "2.5G", "0", 38, "more than 0 bits a second"),
        (BMV2, "data = \"10.0.1.254:20038\"\n", "", 2, "data is missing"),
        (BMV2, "10.0.1.254:20038", "10.0.2.254:20038", 10, "reach switch \"s1\" already"),
        (BMV2, "profile = \"hardware\"\n", "", 2, "profile is missing"),
        (BMV2, "profile = \"hardware\"", "profile = \"hard\"", 2, "it is one of hardware, tofino"),
        (BMV2, "profile = \"hardware\"", "profile = \"datagram\"", 2, "carries datagrams"),
        (BMV2, "device_config = \"hardware.json\"\n", "", 2, "device_config is missing"),
        (BMV2, "device_id = 2\n", "", 10, "is device 1 of 127.0.0.1:50051"),
        (BMV2, "port = 1\n", "", 21, "port is missing"),
        (BMV2, "port = 1\n", "port = 510\n", 21, "is its cpu_port"),
        (BMV2, "port = 1\n", "port = 9\n", 28, "port 9 of switch \"s1\" is used by host \"h1\" already"),
        (BMV2, "s2:9", "s2:64", 28, "is its cpu_port"),
        (BMV2, "s2:9", "s2", 28, "b is missing"),
        (BMV2, "mac = \"02:00:0a:00:01:01\"\n", "", 21, "mac is missing"),
        (BMV2, "02:aa:00:00:09:02", "03:aa:00:00:09:02", 28, "mac_b = \"03:aa:00:00:09:02\""),
        (BMV2, "kind = \"bmv2\"", "kind = \"software\"", 2, "device_config is of no use here"),
    ];
    let mut otherwise = Vec::new();
    for (text, from, to, line, what) in all {
        let error = spoilt(text, from, to);
        let said = error.to_string();
        if !said.contains(what) || error.line != Some(line) {
            otherwise.push(format!("{to:?} at line {line}, {what:?}: {said}"));
        }
    }
    assert!(otherwise.is_empty(), "{otherwise:#?}");
    assert!(spoilt(LEAF_SPINE, "[[link]]", "[[link").to_string().starts_with("line 34: the topology: "));
    let none = Topology::from_toml("").unwrap_err();
    assert_eq!((none.element, none.problem), (Element::Whole, Problem::NoSwitch));
}

const SHARED: &str = r#"
[[switch]]
name = "tor"
p4runtime = "127.0.0.1:9559"
aggregator = "agg"

[[switch]]
name = "agg"
p4runtime = "127.0.0.1:9560"

[[switch]]
name = "spine"
p4runtime = "127.0.0.1:9561"

[[host]]
name = "h1"
addresses = ["10.0.0.1"]
switch = "tor"

[[host]]
name = "h2"
addresses = ["10.0.0.2"]
switch = "spine"

[[link]]
a = "tor"
b = "agg:1"

[[link]]
a = "tor"
b = "spine"

[[link]]
a = "agg:2"
b = "spine"
"#;

#[test]
fn a_switch_names_its_aggregator() {
    let topology = Topology::from_toml(SHARED).expect("it is a topology");
    let [tor, aggregator, spine] = ["tor", "agg", "spine"].map(|name| topology.switch_named(name).unwrap());
    let named = topology.aggregator(tor).expect("it names one");
    assert_eq!((named.switch, named.link.index()), (aggregator, 0));
    assert_eq!((topology.aggregator(aggregator), topology.aggregator(spine)), (None, None));
    let best_effort = [tor, aggregator, spine].map(|switch| topology.program_profile(switch).best_effort);
    assert_eq!(best_effort, [true, true, false]);
    // It is the root of no other tree: only `tor` and `spine` can be.
    let members = ["10.0.0.1", "10.0.0.2"].map(|address| topology.member(address.parse().unwrap()).unwrap());
    let mut network = NetworkState::idle(&topology, SwitchState::idle(64, 352));
    network.switches[aggregator.index()].slots_free = 1 << 15;
    let chosen = choose(&topology, &network, &RouteRequest::new(&members, 64)).expect("there is a tree");
    assert!(!chosen.switches.contains(&aggregator), "{chosen:?}");
}

#[test]
fn what_cannot_be_an_aggregator_is_refused_with_a_remedy() {
    let named = |name: &str| format!("aggregator = {name:?}");
    let bmv2 = "name = \"agg\"\nkind = \"bmv2\"\nprofile = \"best-effort\"\ndevice_config = \"a.json\"\n\
                data = \"10.0.0.9:20038\"";
    let all = [
        (named("agg"), named("other"), "there is no switch \"other\": use the name of a [[switch]]"),
        (named("agg"), named("tor"), "a switch is not its own aggregator: name another"),
        (
            "name = \"agg\"".into(),
            format!("name = \"agg\"\n{}", named("spine")),
            "names an aggregator itself",
        ),
        (named("agg"), named("spine"), "hosts are attached to that switch: name one without"),
        (
            "b = \"agg:1\"".into(),
            "b = \"spine\"".into(),
            "no link leads to it: describe one in a [[link]] table",
        ),
        ("name = \"agg\"".into(), bmv2.into(), "an aggregator is a software switch: name one"),
        (
            "name = \"agg\"".into(),
            "name = \"agg\"\nprofile = \"datagram\"".into(),
            "is not for best-effort jobs: give profile = \"best-effort\"",
        ),
    ];
    for (from, to, what) in all {
        let text = SHARED.replacen(&from, &to, 1);
        let error = Topology::from_toml(&text).expect_err(what);
        assert!(error.to_string().contains(what), "{to}: {error}");
        assert!(error.line.is_some(), "{error}");
    }
}

proptest::proptest! {
    #[test]
    fn no_file_makes_the_reader_panic(
        cut in 0_usize..LEAF_SPINE.len(),
        len in 0_usize..40,
        insert in "[\\[\\]=\"a-z0-9:./\n ]{0,12}",
        bmv2: bool,
    ) {
        let text = if bmv2 { BMV2 } else { LEAF_SPINE };
        let text: Vec<char> = text.chars().collect();
        let cut = cut.min(text.len());
        let end = (cut + len).min(text.len());
        let spoilt: String =
            text[..cut].iter().copied().chain(insert.chars()).chain(text[end..].iter().copied()).collect();
        if let Err(error) = Topology::from_toml(&spoilt) {
            let lines = spoilt.split('\n').count();
            proptest::prop_assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
        }
    }
}
