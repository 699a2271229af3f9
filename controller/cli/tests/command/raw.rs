//! Switches past the kernel's UDP: what is on the interface while they run, and that nothing is once they do not.

use std::process::Command;
use std::time::Instant;

use crate::process::{PATIENCE, Process, is_root, netfold_within, run, text};

/// A namespace with a pair of virtual interfaces, of which `v0` has an address. Dropping it removes them.
struct Pair(String);

impl Pair {
    fn new() -> Self {
        let pair = Self(format!("netfold-{}-raw", std::process::id()));
        let name = &pair.0;
        pair.command(&format!("ip netns add {name}"));
        pair.command(&format!("ip -n {name} link add v0 type veth peer name v1"));
        pair.command(&format!("ip -n {name} addr add 10.82.0.1/24 dev v0"));
        for interface in ["lo", "v0", "v1"] {
            pair.command(&format!("ip -n {name} link set {interface} up"));
        }
        pair
    }

    fn command(&self, words: &str) -> String {
        let mut parts = words.split_whitespace();
        let output = Command::new(parts.next().unwrap()).args(parts).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What the system says of the interface, but for its counts.
    fn shown(&self) -> String {
        let name = &self.0;
        let link = self.command(&format!("ip -n {name} -d link show v0"));
        let queues = self.command(&format!("ip netns exec {name} tc qdisc show dev v0"));
        format!("{link}{queues}")
    }

    fn switch(&self, listen: &str) -> Process {
        let arguments = format!("switch --listen {listen} --io af-xdp:v0");
        Process::spawn(netfold_within(&self.0, &arguments))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[test]
fn a_switch_on_xdp_leaves_the_interface_as_it_was_however_it_ends() {
    if !is_root() {
        return;
    }
    // A back end that cannot run here has no line.
    let (code, lines) = run("bench io --io af-xdp --rounds 1 --turn-ms 20");
    if lines.is_empty() {
        println!("skipped: no XDP sockets here");
        return;
    }
    assert_eq!((code, text(&lines[0], "io")), (Some(0), "af-xdp"), "{lines:?}");
    let pair = Pair::new();
    let before = pair.shown();
    assert!(!before.contains("xdp"), "{before}");
    for end in ["KILL", "KILL", "TERM"] {
        let mut switch = pair.switch("10.82.0.1:20038");
        switch.event("listening");
        assert!(pair.shown().contains("prog/xdp"), "{}", pair.shown());
        switch.signal(end);
        let ended = switch.wait();
        assert_eq!(ended.success(), end == "TERM", "{ended}");
        let begun = Instant::now();
        while pair.shown() != before {
            assert!(begun.elapsed() < PATIENCE, "after {end}: {}\nbefore: {before}", pair.shown());
        }
    }
}
