//! Switches whose program the kernel runs.

use std::path::PathBuf;

use netfold_testkit::namespace::{self, NamespaceSet};
use netfold_testkit::wait::poll_state;

use crate::process::{Process, netfold, netfold_within, number, run, text};

const WORKERS: usize = 3;

/// A switch's interface `eth0` and those of the workers at one bridge, each in a namespace of its own.
struct Network {
    namespaces: NamespaceSet,
}

impl Network {
    fn new() -> Self {
        let mut namespaces = NamespaceSet::new();
        let bridge = namespaces.add("bridge", 0).unwrap();
        run_command(&format!("ip -n {bridge} link add br0 type bridge"));
        run_command(&format!("ip -n {bridge} link set br0 up"));
        for host in 0..=WORKERS {
            let name = namespaces.add("host", host).unwrap();
            run_command(&format!("ip link add eth0 netns {name} type veth peer name v{host} netns {bridge}"));
            run_command(&format!("ip -n {bridge} link set v{host} master br0 up"));
            run_command(&format!("ip -n {name} addr add 10.83.0.{}/24 dev eth0", host + 1));
            run_command(&format!("ip -n {name} link set eth0 up"));
        }
        Self { namespaces }
    }

    fn switch(&self, more: &str) -> Process {
        Process::spawn(netfold_within(
            &self.namespaces.name("host", 0),
            &format!("switch --io xdp-kernel:eth0 {more}"),
        ))
    }

    fn workers(&self, more: &str) -> Vec<Process> {
        let worker = |rank: usize| {
            let job = format!("--job kernel --rank {rank} --world {WORKERS} {more}");
            let arguments = format!("worker --switch 10.83.0.1:20038 {job}");
            Process::spawn(netfold_within(&self.namespaces.name("host", rank + 1), &arguments))
        };
        (0..WORKERS).map(worker).collect()
    }

    /// The switch's interface as the system shows it.
    fn interface(&self) -> String {
        run_command(&format!("ip -n {} link show eth0", self.namespaces.name("host", 0)))
    }
}

fn run_command(words: &str) -> String {
    namespace::command(words).unwrap()
}

/// Whether the kernel runs programs here; prints that the test is skipped if not.
fn has_programs() -> bool {
    if !namespace::available() {
        return false;
    }
    let (code, lines) = run("testbed run --io xdp-kernel --workers 2 --elements 1000 --iterations 1");
    let refused = lines.last().is_some_and(|line| line.to_string().contains("not permitted"));
    if code != Some(0) && refused {
        println!("skipped: bpf(2) is not permitted");
        return false;
    }
    assert_eq!(code, Some(0), "{lines:?}");
    true
}

/// Waits for the workers' ends, after which every element must have been right.
fn assert_right(workers: Vec<Process>, iterations: usize) {
    for mut worker in workers {
        let lines = worker.rest();
        assert!(worker.wait().success(), "{lines:?}");
        let done: Vec<_> = lines.iter().filter(|line| text(line, "event") == "all_reduce").collect();
        let wrong: f64 = done.iter().map(|line| number(line, "wrong")).sum();
        assert_eq!((done.len(), wrong), (iterations, 0.0), "{lines:?}");
    }
}

#[test]
fn workers_behind_one_interface_get_their_sums_from_the_kernel() {
    if !has_programs() {
        return;
    }
    let network = Network::new();
    let mut switch = network.switch("--numerics word");
    let listening = switch.event("listening");
    assert_eq!((text(&listening, "address"), text(&listening, "engine")), ("10.83.0.1:20038", "kernel"));
    assert_eq!(text(&listening, "control"), "10.83.0.1:20038");
    assert!(network.interface().contains("xdp"), "{}", network.interface());
    assert_right(network.workers("--bytes 256KiB --iterations 10"), 10);
    let mut second = network.switch("");
    let refused = second.rest();
    assert_eq!(second.wait().code(), Some(1), "{refused:?}");
    assert!(refused.last().unwrap().to_string().contains("it has a program already"), "{refused:?}");
    switch.signal("TERM");
    let counters = switch.event("counters");
    assert!(number(&counters, "results") > 100.0 && number(&counters, "packets_in") > 300.0, "{counters}");
    assert!(switch.wait().success());
    assert!(!network.interface().contains("xdp"), "{}", network.interface());
}

#[test]
fn a_removed_interface_ends_the_switch_with_its_name() {
    if !has_programs() {
        return;
    }
    let network = Network::new();
    let mut switch = network.switch("");
    switch.event("listening");
    run_command(&format!("ip -n {} link del eth0", network.namespaces.name("host", 0)));
    let said = switch.rest();
    assert_eq!(switch.wait().code(), Some(1));
    assert!(said.last().unwrap().to_string().contains("interface 'eth0' was removed"), "{said:?}");
}

/// A BPF file system of the test's own.
struct BpfFolder(PathBuf);

impl BpfFolder {
    fn mount() -> Self {
        let folder = std::env::temp_dir().join(format!("netfold-kernel-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        run_command(&format!("mount -t bpf bpf {}", folder.display()));
        Self(folder)
    }
}

impl Drop for BpfFolder {
    fn drop(&mut self) {
        if namespace::command(&format!("umount -l {}", self.0.display())).is_ok() {
            let _ = std::fs::remove_dir(&self.0);
        }
    }
}

#[test]
fn a_pinned_program_goes_on_aggregating_when_the_process_is_killed() {
    if !has_programs() {
        return;
    }
    let (network, folder) = (Network::new(), BpfFolder::mount());
    let pins = folder.0.join("switch");
    let mut switch = network.switch(&format!("--pin {}", pins.display()));
    switch.event("listening");
    let mut workers = network.workers("--bytes 64KiB --iterations 1000000");
    workers.iter_mut().for_each(|worker| drop(worker.event("all_reduce")));
    switch.kill();
    switch.wait();
    // More than can have ended between the first one and the signal.
    for _ in 0..10 {
        for worker in &mut workers {
            let done = worker.event("all_reduce");
            assert_eq!(number(&done, "wrong"), 0.0, "{done}");
        }
    }
    assert!(network.interface().contains("xdp"), "{}", network.interface());
    let mut refused = network.switch(&format!("--pin {}", pins.display()));
    assert!(refused.rest().last().unwrap().to_string().contains("switch detach"));
    assert_eq!(refused.wait().code(), Some(2));
    let detach = format!("switch detach {}", pins.display());
    assert_eq!(run(&detach).0, Some(0));
    poll_state("the interface without a program", || {
        let shown = network.interface();
        if shown.contains("xdp") { Err(shown) } else { Ok(()) }
    });
    let (code, said) = run(&detach);
    assert_eq!(code, Some(1), "{said:?}");
}

#[test]
fn what_the_kernel_cannot_do_is_refused() {
    for (arguments, expected) in [
        ("--io xdp-kernel:no-such-if", "there is no interface 'no-such-if'"),
        ("--io xdp-kernel:lo", "'lo' is no Ethernet interface"),
        ("--io xdp-kernel:lo --threads 2", "--threads"),
        ("--io xdp-kernel:lo --loss 0.1", "--loss or --faults"),
        ("--io xdp-kernel:lo --pcap x.pcap", "--pcap"),
        ("--io xdp-kernel:lo --port-rate 1G", "--port-rate"),
        ("--io xdp-kernel:lo --p4runtime 127.0.0.1:0", "--p4runtime"),
        ("--io xdp-kernel:lo --dscp 46", "--dscp"),
        ("--io xdp-kernel:lo --slots 3", "--slots 3 does not fit"),
        ("--io xdp-kernel:lo --io udp", "--io a second time"),
        ("--pin here", "--pin is for"),
    ] {
        let (code, lines) = run(&format!("switch {arguments}"));
        let said = lines.last().map(ToString::to_string).unwrap_or_default();
        assert!(code == Some(2) && said.contains(expected), "{arguments}: {code:?} {said}");
    }
    let worker = "worker --switch 127.0.0.1:1 --job a --rank 0 --world 1 --io xdp-kernel:lo,mode=fast";
    assert_eq!(netfold(worker).output().unwrap().status.code(), Some(2));
}

#[test]
fn trees_of_switches_in_the_kernel_sum_correctly_with_losses() {
    if !has_programs() {
        return;
    }
    for options in [
        "--workers 8 --levels 2 --loss 0.01 --bytes 256KiB",
        "--workers 4 --mode saturating --loss 0.01 --bytes 64KiB",
        "--workers 4 --confidential --collective reduce_scatter --bytes 64KiB",
        "--workers 8 --levels 2 --groups 2 --loss 0.01 --bytes 64KiB",
    ] {
        let (code, lines) = run(&format!("testbed run --io xdp-kernel {options}"));
        let last = lines.last().unwrap();
        assert_eq!(code, Some(0), "{options}: {last}");
        assert!(number(last, "wrong") == 0.0 && number(last, "checked") > 0.0, "{options}: {last}");
        let lossless = !options.contains("loss");
        assert!(lossless || number(last, "retransmitted") > 0.0, "{options}: {last}");
    }
    for (options, expected) in [
        ("--mode half", "lanes of 16 bits"),
        ("--payload 8192", "a frame is in one page"),
        ("--authenticated", "choose rings, udp or shm"),
        ("--switch interpreter", "cannot be joined by xdp-kernel"),
    ] {
        let (code, lines) = run(&format!("testbed run --io xdp-kernel {options}"));
        let said = lines.last().unwrap().to_string();
        assert!(matches!(code, Some(1 | 2)) && said.contains(expected), "{options}: {code:?} {said}");
    }
}
