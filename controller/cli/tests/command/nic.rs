//! Switches whose workers are processes of the same host, through shared memory; and such a switch below another, in the role of a NIC.

use std::fmt::Write as _;

use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::namespace::{self, NamespaceSet, veth_between};
use netfold_testkit::wait::eventually;
use serde_json::Value;

use crate::process::{Process, netfold_within, number, run, text};

/// A name that no other run of these tests has.
fn name(of: &str) -> String {
    format!("test-{}-{of}", std::process::id())
}

/// A switch for workers of this host, and the address that they join at.
fn switch(name: &str) -> (Process, String) {
    Process::switch(&format!("--io shm:{name}"))
}

fn worker(control: &str, name: &str, job: &str, (rank, world): (u16, u16), more: &str) -> Process {
    Process::start(&format!(
        "worker --switch {control} --io shm:{name} --job {job} --rank {rank} --world {world} {more}"
    ))
}

#[test]
fn ranks_of_a_host_are_summed_through_shared_memory() {
    let name = name("alone");
    let (mut running, control) = switch(&name);
    for (job, more) in
        [("bfp16", "--bytes 100003 --iterations 3"), ("i32", "--bytes 3MiB --iterations 2 --mode i32")]
    {
        let mut workers: Vec<_> = (0..3).map(|rank| worker(&control, &name, job, (rank, 3), more)).collect();
        for worker in &mut workers {
            let done = worker.event("done");
            // A rank that is not scheduled for a timeout may send chunks again, also over a lossless transport.
            assert_eq!(number(&done, "wrong"), 0.0, "{done}");
            assert!(worker.wait().success());
        }
    }
    // The data path has stopped, so that a worker cannot connect.
    running.signal("TERM");
    let counters = running.event("counters");
    assert_eq!(
        (number(&counters, "output_dropped"), number(&counters, "unknown_source")),
        (0.0, 0.0),
        "{counters}"
    );
    assert!(running.wait().success());
    let (code, lines) = run(&format!("worker --switch {control} --io shm:{name} --job x --rank 0 --world 1"));
    assert_eq!((code, text(lines.last().unwrap(), "kind")), (Some(1), "connect"), "{lines:?}");
}

#[test]
fn a_killed_switch_can_be_replaced_under_its_name() {
    let name = name("killed");
    for _ in 0..2 {
        let (mut running, control) = switch(&name);
        let endless = "--bytes 64KiB --iterations 1000000";
        let mut workers: Vec<_> =
            (0..2).map(|rank| worker(&control, &name, "orphaned", (rank, 2), endless)).collect();
        workers.iter_mut().for_each(|worker| {
            worker.event("all_reduce");
        });
        // Its name is in use.
        let (code, lines) = run(&format!("switch --listen 127.0.0.1:0 --io shm:{name}"));
        let error = lines.last().unwrap();
        assert!(
            code == Some(1) && text(error, "message").contains("data path")
                || error.to_string().contains("another switch has this name"),
            "{error}"
        );
        running.kill(); // SIGKILL
        for worker in &mut workers {
            let error = worker.event("error");
            assert_eq!(text(&error, "kind"), "switch_lost", "{error}");
        }
    }
    let left = std::fs::read_dir("/dev/shm").map(|entries| {
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().contains(&name)).count()
    });
    assert_eq!(left.unwrap_or(0), 0, "files remain");
}

#[test]
fn an_unknown_name_is_a_clear_error() {
    let (_switch, control) = switch(&name("there"));
    let mut unknown = worker(&control, &name("absent"), "x", (0, 1), "");
    let error = unknown.event("error");
    assert!(error.to_string().contains("no such switch on this host"), "{error}");
    assert_eq!(unknown.wait().code(), Some(1));
    let (code, lines) = run("switch --listen 127.0.0.1:0 --io shm:a,uplink=shm:b");
    assert_eq!((code, text(lines.last().unwrap(), "kind")), (Some(2), "usage"), "{lines:?}");
}

#[test]
fn a_tree_over_shared_memory_is_correct_under_loss() {
    for levels in [1, 2] {
        let (code, lines) = run(&format!(
            "testbed run --io shm --levels {levels} --workers 6 --loss 0.01 --bytes 256KiB --iterations 2"
        ));
        let summary = lines.last().unwrap();
        assert_eq!((code, text(summary, "event")), (Some(0), "testbed_run"), "{lines:?}");
        assert_eq!(
            (number(summary, "wrong"), number(summary, "checked")),
            (0.0, 2.0 * 6.0 * 65_536.0),
            "{summary}"
        );
        assert!(number(summary, "retransmitted") > 0.0, "rings lose packets too: {summary}");
    }
}

/// Two hosts with three ranks each, a switch on each host, and one above: each host sends one stream.
#[test]
fn a_switch_on_each_host_sends_one_stream_up() {
    let folder = TemporaryDirectory::new("nic");
    // 127.0.0.2 and .3 are the hosts, .4 is the switch above.
    let start = |ip: u8, io: &str| {
        let mut switch =
            Process::start(&format!("switch --listen 127.0.0.{ip}:0 --p4runtime 127.0.0.{ip}:0 {io}"));
        let address = text(&switch.event("listening"), "p4runtime").to_owned();
        (switch, address)
    };
    let names = [2, 3].map(|ip| name(&format!("host{ip}")));
    let hosts = [2, 3].map(|ip| start(ip, &format!("--io shm:{},uplink=udp", names[usize::from(ip) - 2])));
    let (mut above, address) = start(4, "");
    let mut topology = format!("[[switch]]\nname = \"tor\"\nrole = \"spine\"\np4runtime = \"{address}\"\n");
    for (ip, (_, address)) in [2, 3].iter().zip(&hosts) {
        let _ = write!(
            topology,
            "[[switch]]\nname = \"nic{ip}\"\nrole = \"leaf\"\np4runtime = \"{address}\"\n\
             [[host]]\nname = \"h{ip}\"\naddresses = [\"127.0.0.{ip}\"]\nswitch = \"nic{ip}\"\n\
             [[link]]\na = \"nic{ip}\"\nb = \"tor\"\n"
        );
    }
    let topology = folder.write("topology.toml", topology);
    let any = "127.0.0.1:0";
    let mut controller = Process::start(&format!(
        "controller --topology {} --state {} --workers {any} --listen {any} --http {any} --insecure",
        topology,
        folder.file("state.redb")
    ));
    let controlling = controller.event("controlling");
    let (joins, grpc) = (text(&controlling, "workers"), text(&controlling, "grpc"));
    let one = |arguments: &str| -> Value { run(&format!("{arguments} --controller {grpc}")).1.remove(0) };
    let token = text(&one("tenant add red"), "token").to_owned();
    eventually("switches that are up", || {
        ["tor", "nic2", "nic3"].iter().all(|name| one(&format!("switch describe {name}"))["up"] == true)
    });
    // 3 MiB in packets of 1408 bytes, four times.
    const CHUNKS: f64 = 4.0 * 2235.0;
    let mut workers: Vec<_> = (0..6)
        .map(|rank| {
            let host = rank % 2;
            Process::start(&format!(
                "worker --controller {joins} --tenant red --token {token} --bind 127.0.0.{} --io shm:{} --job one \
                 --rank {rank} --world 6 --bytes 3MiB --iterations 4 --mode i32",
                host + 2,
                names[host]
            ))
        })
        .collect();
    let mut sent = 0.0;
    for worker in &mut workers {
        let done = worker.event("done");
        assert_eq!(number(&done, "wrong"), 0.0, "{done}");
        sent += number(&done, "packets_sent");
        assert!(worker.wait().success());
    }
    assert!(sent >= 6.0 * CHUNKS, "{sent}");
    above.signal("TERM");
    let counters = above.event("counters");
    println!("workers sent {sent} packets");
    check_one_stream_each(&counters, CHUNKS);
}

/// Checks that a switch has received one stream of so many chunks from each of two hosts, and sent one to each.
fn check_one_stream_each(counters: &Value, chunks: f64) {
    let (came, went) = (number(counters, "packets_in"), number(counters, "packets_out"));
    // On busy cores timers expire before results come, so retransmissions are counted and not bounded: of contributions to sums that lack
    // another host (`duplicate`), and to complete ones, each of which is answered by a retransmission of the result (`repeated`).
    let repeated = number(counters, "repeated");
    let retransmitted = repeated + number(&counters["packets"], "duplicate");
    println!("two hosts sent {came} packets, {retransmitted} of them retransmitted, and received {went}");
    // One stream from each host, and a twentieth for descriptors and probes.
    let one_each = 2.0 * chunks..2.1 * chunks;
    assert!(
        one_each.contains(&(came - retransmitted)) && one_each.contains(&(went - repeated)),
        "{counters}"
    );
}

/// A host and a rack's switch in network namespaces of their own, with a link of 200 Mbit/s between them. Dropping it removes them.
struct Rack {
    host: String,
    tor: String,
    _namespaces: NamespaceSet,
}

impl Rack {
    const HOST: [&str; 2] = ["10.81.0.2", "10.81.0.3"];
    const TOR: &str = "10.81.0.1";

    fn new() -> Self {
        let mut namespaces = NamespaceSet::new();
        let (host, tor) = (namespaces.add("host", 0).unwrap(), namespaces.add("tor", 0).unwrap());
        for namespace in [&host, &tor] {
            run_command(&format!("ip -n {namespace} link set lo up"));
        }
        veth_between(("eth0", &host), ("eth0", &tor)).unwrap();
        for (namespace, addresses) in [(&host, &Self::HOST[..]), (&tor, &[Self::TOR][..])] {
            for address in addresses {
                run_command(&format!("ip -n {namespace} addr add {address}/24 dev eth0"));
            }
            run_command(&format!(
                "ip netns exec {namespace} tc qdisc add dev eth0 root tbf rate 200mbit burst 80kb latency 100ms"
            ));
        }
        Self { host, tor, _namespaces: namespaces }
    }

    /// Bytes that the host has sent and received.
    fn bytes(&self) -> [f64; 2] {
        let output = run_command(&format!("ip -n {} -s -j link show eth0", self.host));
        let shown: Value = serde_json::from_str(&output).unwrap();
        ["tx", "rx"].map(|way| number(&shown[0]["stats64"][way], "bytes"))
    }
}

fn run_command(words: &str) -> String {
    namespace::command(words).unwrap()
}

/// Switches and a controller on a rack, and what they need.
struct Running<'a> {
    rack: &'a Rack,
    /// The name of the host's own switch.
    own: String,
    token: String,
    _processes: [Process; 3],
    _folder: TemporaryDirectory,
}

impl<'a> Running<'a> {
    fn on(rack: &'a Rack) -> Self {
        let folder = TemporaryDirectory::new("rack");
        let (tor, [folded, direct], own) = (Rack::TOR, Rack::HOST, name("rack"));
        let start = |namespace: &str, ip: &str, io: &str| {
            let arguments = format!("switch --listen {ip}:20038 --p4runtime {ip}:9559 --insecure {io}");
            let mut switch = Process::spawn(netfold_within(namespace, &arguments));
            switch.event("listening");
            switch
        };
        let above = start(&rack.tor, tor, "");
        let below = start(&rack.host, folded, &format!("--io shm:{own},uplink=udp"));
        let topology = format!(
            "[[switch]]\nname = \"tor\"\np4runtime = \"{tor}:9559\"\n\
             [[switch]]\nname = \"own\"\nrole = \"leaf\"\np4runtime = \"{folded}:9559\"\n\
             [[host]]\nname = \"folded\"\naddresses = [\"{folded}\"]\nswitch = \"own\"\n\
             [[host]]\nname = \"direct\"\naddresses = [\"{direct}\"]\nswitch = \"tor\"\n\
             [[host]]\nname = \"rack\"\naddresses = [\"{tor}\"]\nswitch = \"tor\"\n\
             [[link]]\na = \"own\"\nb = \"tor\"\n"
        );
        let topology = folder.write("topology.toml", topology);
        let arguments = format!(
            "controller --topology {} --state {} --workers {tor}:20041 --insecure",
            topology,
            folder.file("state.redb")
        );
        let mut controller = Process::spawn(netfold_within(&rack.tor, &arguments));
        controller.event("controlling");
        let one = |arguments: &str| {
            let output = netfold_within(&rack.tor, arguments).arg("--json").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            said.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok()).unwrap_or_default()
        };
        let token = text(&one("tenant add red"), "token").to_owned();
        eventually("switches that are up", || {
            ["tor", "own"].iter().all(|name| one(&format!("switch describe {name}"))["up"] == true)
        });
        Self { rack, own, token, _processes: [controller, below, above], _folder: folder }
    }

    /// All-reduces by four ranks of the host, at `bind` over `io`, and one at the rack's switch: megabytes that the host sent and received,
    /// and the median of the times in milliseconds.
    fn job(&self, job: &str, bind: &str, io: &str) -> [f64; 3] {
        let (Self { rack, token, .. }, tor) = (self, Rack::TOR);
        let before = rack.bytes();
        let worker = |rank: usize| {
            let (namespace, bind, io) = if rank < 4 { (&rack.host, bind, io) } else { (&rack.tor, tor, "") };
            let arguments = format!(
                "worker --controller {tor}:20041 --tenant red --token {token} --bind {bind} {io} --job {job} --rank {rank} \
                 --world 5 --bytes 4MiB --iterations 5 --slots 64"
            );
            Process::spawn(netfold_within(namespace, &arguments))
        };
        let mut workers: Vec<_> = (0..5).map(worker).collect();
        let mut times: Vec<_> =
            (0..5).map(|_| number(&workers[0].event("all_reduce"), "time_us") / 1000.0).collect();
        for worker in &mut workers {
            let done = worker.event("done");
            assert_eq!(number(&done, "wrong"), 0.0, "{done}");
            assert!(worker.wait().success());
        }
        times.sort_by(f64::total_cmp);
        let after = rack.bytes();
        let [sent, received] = [0, 1].map(|way| (after[way] - before[way]) / 1e6);
        let (min, median, max) = (times[0], times[2], times[4]);
        println!(
            "{job}: {sent:.1} MB sent, {received:.1} MB received, {median:.0} ms ({min:.0} to {max:.0})"
        );
        [sent, received, median]
    }
}

/// Four ranks of a host behind its own switch, compared with four that each send to the rack's switch: bytes on the link.
#[test]
fn four_ranks_behind_a_host_switch_send_one_stream() {
    if !namespace::available() {
        return;
    }
    let rack = Rack::new();
    let running = Running::on(&rack);
    let [folded, direct] = Rack::HOST;
    let direct = running.job("direct", direct, "");
    let folded = running.job("folded", folded, &format!("--io shm:{}", running.own));
    assert!(folded[0] < 0.35 * direct[0] && folded[1] < 0.35 * direct[1], "{folded:?}, {direct:?}");
}
