//! Switches on raw packet I/O: the state of the interface while they run, and that it is restored when they end.

use std::time::{Duration, Instant};

use netfold_testkit::namespace::{self, NamespaceSet};
use netfold_testkit::wait::poll_state;
use serde_json::Value;

use crate::process::{Process, netfold, netfold_within, number, run, text};

/// A namespace with a pair of virtual interfaces of two queues, where `v0` has an address. Dropping it removes them.
struct Pair {
    name: String,
    _namespaces: NamespaceSet,
}

impl Pair {
    fn new() -> Self {
        let mut namespaces = NamespaceSet::new();
        let name = namespaces.add("pair", 0).unwrap();
        let queues = "numrxqueues 2 numtxqueues 2";
        run_command(&format!("ip -n {name} link add v0 {queues} type veth peer name v1 {queues}"));
        run_command(&format!("ip -n {name} addr add 10.82.0.1/24 dev v0"));
        for interface in ["lo", "v0", "v1"] {
            run_command(&format!("ip -n {name} link set {interface} up"));
        }
        Self { name, _namespaces: namespaces }
    }

    /// The interface's state in the system, without its counters.
    fn shown(&self) -> String {
        let name = &self.name;
        let link = run_command(&format!("ip -n {name} -d link show v0"));
        let queues = run_command(&format!("ip netns exec {name} tc qdisc show dev v0"));
        format!("{link}{queues}")
    }

    fn switch(&self, more: &str) -> Process {
        let arguments = format!("switch --listen 10.82.0.1:20038 --io af-xdp:v0 {more}");
        Process::spawn(netfold_within(&self.name, &arguments))
    }

    /// Moves `v1` to the other pair's namespace, in place of its own `v0`, with an address.
    fn reach(&self, far: &Self) {
        let (here, there) = (&self.name, &far.name);
        run_command(&format!("ip -n {there} link del v0"));
        run_command(&format!("ip -n {here} link set v1 netns {there}"));
        run_command(&format!("ip -n {there} addr add 10.82.0.2/24 dev v1"));
        run_command(&format!("ip -n {there} link set v1 up"));
    }
}

fn run_command(words: &str) -> String {
    namespace::command(words).unwrap()
}

/// Whether XDP sockets are available; prints that the test is skipped if not.
fn has_xdp() -> bool {
    if !namespace::available() {
        return false;
    }
    // A back end that cannot run here prints no line; any other its settings and a row.
    let (code, lines) = run("bench io --io af-xdp --rounds 1 --turn-ms 20");
    if lines.is_empty() {
        println!("skipped: no XDP sockets here");
        return false;
    }
    assert_eq!((code, text(&lines[1], "io")), (Some(0), "af-xdp"), "{lines:?}");
    true
}

#[test]
fn a_switch_on_xdp_restores_the_interface_however_it_ends() {
    if !has_xdp() {
        return;
    }
    let pair = Pair::new();
    let before = pair.shown();
    assert!(!before.contains("xdp"), "{before}");
    for (threads, end) in [(1, "KILL"), (1, "KILL"), (1, "TERM"), (2, "KILL"), (2, "KILL"), (2, "TERM")] {
        let mut switch = pair.switch(&format!("--threads {threads}"));
        switch.event("listening");
        assert!(pair.shown().contains("prog/xdp"), "{}", pair.shown());
        switch.signal(end);
        let ended = switch.wait();
        assert_eq!(ended.success(), end == "TERM", "{ended}");
        poll_state(format_args!("after {end}, the interface as before: {before}"), || {
            let shown = pair.shown();
            if shown == before { Ok(()) } else { Err(shown) }
        });
    }
}

/// Restarts a switch several times and returns how long each start took, from the start of the process until workers may join.
fn restarts(start: impl Fn() -> Process) -> Vec<Duration> {
    let restart = |_| {
        let begun = Instant::now();
        let mut switch = start();
        switch.event("listening");
        let took = begun.elapsed();
        switch.signal("TERM");
        assert!(switch.wait().success());
        took
    };
    (0..10).map(restart).collect()
}

/// The kernel releases the queue and the hook of the previous process asynchronously.
#[test]
fn a_switch_listens_again_whenever_it_is_restarted() {
    let udp = restarts(|| Process::spawn(netfold("switch --listen 127.0.0.1:0 --io udp")));
    println!("from start to listening: udp {udp:?}");
    if has_xdp() {
        let pair = Pair::new();
        let xdp = restarts(|| pair.switch(""));
        println!("from start to listening: af-xdp {xdp:?}");
    }
}

/// Each packet thread has a queue of the interface and a port; a packet that arrives by another thread's queue still reaches its thread.
#[test]
fn threads_share_an_interface_and_every_element_is_correct() {
    if !has_xdp() {
        return;
    }
    let (near, far) = (Pair::new(), Pair::new());
    near.reach(&far);
    let mut switch = near.switch("--threads 2 --loss 0.01 --slots 64");
    two_trees_are_correct(&mut switch, &far.name);

    // A third thread would have no queue.
    let mut refused = near.switch("--threads 3");
    let said = refused.rest();
    assert_eq!(refused.wait().code(), Some(1), "{said:?}");
    assert!(text(said.last().unwrap(), "message").contains("receive queue"), "{said:?}");
}

/// A job of two trees, one at each thread of a switch that drops packets, whose workers are in a namespace and use UDP.
/// Returns the counters of the threads.
fn two_trees_are_correct(switch: &mut Process, workers: &str) -> Vec<Value> {
    const RANKS: usize = 3;
    let listening = switch.event("listening");
    let places: Vec<_> =
        listening["threads"].as_array().unwrap().iter().map(|at| text(at, "address")).collect();
    assert_eq!(places, ["10.82.0.1:20038", "10.82.0.1:20039"]);
    let worker = |rank| {
        let job = format!("--job both --rank {rank} --world {RANKS} --trees 2 --slots 64 --mode bfp32");
        let arguments = format!("worker --switch 10.82.0.1:20038 {job} --bytes 1MiB --iterations 3");
        Process::spawn(netfold_within(workers, &arguments))
    };
    let mut workers: Vec<_> = (0..RANKS).map(worker).collect();
    for worker in &mut workers {
        let lines = worker.rest();
        assert!(worker.wait().success(), "{lines:?}");
        let done: Vec<_> = lines.iter().filter(|line| text(line, "event") == "all_reduce").collect();
        assert!(done.len() == 3 && done.iter().all(|line| number(line, "wrong") == 0.0), "{lines:?}");
    }
    switch.signal("TERM");
    let counters = switch.event("counters");
    assert!(number(&counters, "fault_dropped") > 0.0 && number(&counters, "repeated") > 0.0, "{counters}");
    let threads = counters["threads"].as_array().unwrap();
    for thread in threads {
        assert!(number(thread, "results") > 100.0, "{counters}");
        assert!(number(thread, "crossed") <= number(thread, "packets_in"), "{counters}");
    }
    assert!(switch.wait().success());
    threads.clone()
}

/// Virtual interfaces pass GSO packets unsegmented, and a packet socket drops them. Workers detect it, and send single packets.
#[test]
fn workers_whose_gso_packets_stay_unsegmented_send_single_packets() {
    if !namespace::available() {
        return;
    }
    for io in ["packet-ring", "af-packet"] {
        let (near, far) = (Pair::new(), Pair::new());
        near.reach(&far);
        let arguments = format!("switch --listen 10.82.0.1:20038 --io {io}:v0");
        let mut switch = Process::spawn(netfold_within(&near.name, &arguments));
        switch.event("listening");
        let worker = |rank| {
            let job = format!("--job gso --rank {rank} --world 2 --mode bfp32");
            let arguments = format!("worker --switch 10.82.0.1:20038 {job} --bytes 1MiB --iterations 4");
            Process::spawn(netfold_within(&far.name, &arguments))
        };
        let mut workers = [worker(0), worker(1)];
        for worker in &mut workers {
            let lines = worker.rest();
            assert!(worker.wait().success(), "{lines:?}");
            let done: Vec<_> = lines.iter().filter(|line| text(line, "event") == "all_reduce").collect();
            assert!(done.len() == 4 && done.iter().all(|line| number(line, "wrong") == 0.0), "{lines:?}");
            // With GSO packets each operation takes a thousand times as long as with single packets, because all are lost: the first
            // operation detects it. The bound is between the two orders of magnitude, for a loaded machine.
            let took: Vec<_> = done.iter().map(|line| number(line, "time_us")).collect();
            println!("{io}: us {took:.0?}");
            assert!(took[1..].iter().all(|us| *us < 5e6), "{lines:?}");
            assert!(
                lines.iter().any(|line| text(line, "event") == "done" && number(line, "retransmits") > 0.0),
                "{lines:?}"
            );
        }
        switch.signal("TERM");
        let counters = switch.event("counters");
        assert!(switch.wait().success());
        println!("{io}: {counters}");
    }
}

/// Threads also share a device of DPDK, with a queue for each thread, and with one queue for both. The kernel keeps answering ARP for the
/// address, by which workers reach the control port.
#[cfg(feature = "dpdk")]
#[test]
fn threads_share_a_dpdk_device_and_every_element_is_correct() {
    if !namespace::available() {
        return;
    }
    for queues in [2, 1] {
        let (near, far) = (Pair::new(), Pair::new());
        near.reach(&far);
        // Unsegmented GSO packets would pass too, and are no valid packets.
        run_command(&format!("ip -n {} link set v1 gso_max_segs 1", far.name));
        let device = format!("dpdk:net_af_packet0,iface=v0,qpairs={queues} --no-huge");
        let mut command =
            netfold_within(&near.name, "switch --listen 10.82.0.1:20038 --threads 2 --loss 0.01 --slots 64");
        command.args(["--io", &device]);
        let before = near.shown();
        let mut switch = Process::spawn(command);
        let threads = two_trees_are_correct(&mut switch, &far.name);
        if queues == 1 {
            let crossed: Vec<_> = threads.iter().map(|thread| number(thread, "crossed")).collect();
            assert!(crossed[0] == 0.0 && crossed[1] > 100.0, "the first has the queue: {crossed:?}");
        }
        assert_eq!(near.shown(), before);
    }
}
