//! Links of a certain rate, by the kernel's queueing disciplines.

use netfold_testkit::namespace::{CommandError, command, script};

/// Room for bursts in the shapers, in bytes: above the 64 KiB of one segmented send, which tbf would otherwise cut into packets itself.
const BURST: u32 = 80 << 10;

/// Room for packets that wait in a shaper, in bytes.
const LIMIT: u32 = 1 << 20;

/// Shapes what a device in a namespace sends, in one queue, to a rate in bits a second.
pub(crate) fn shape(namespace: &str, device: &str, rate_bps: f64) -> Result<(), CommandError> {
    tc(namespace, &format!("qdisc add {}", token_bucket(device, rate_bps)))
}

/// Changes the rates of shaped devices in a namespace.
pub(crate) fn reshape(namespace: &str, devices: &[String], rate_bps: f64) -> Result<(), CommandError> {
    let lines: String =
        devices.iter().map(|device| format!("qdisc change {}\n", token_bucket(device, rate_bps))).collect();
    script(&format!("ip netns exec {namespace} tc -batch -"), &lines).map(drop)
}

fn token_bucket(device: &str, rate_bps: f64) -> String {
    format!("dev {device} root tbf rate {rate_bps:.0}bit burst {BURST} limit {LIMIT}")
}

/// Shapes what a device in a namespace sends to a rate, in two queues: packets with the code point `dscp` are sent first, all others while there are none.
pub(crate) fn shape_by_class(
    namespace: &str,
    device: &str,
    rate_bps: f64,
    dscp: u8,
) -> Result<(), CommandError> {
    let dev = format!("dev {device}");
    // Each class may have all of the rate; what none is guaranteed goes to the important one first.
    let rates = |part: f64| format!("rate {:.0}bit ceil {rate_bps:.0}bit", rate_bps * part);
    let bursts = format!("burst {BURST} cburst {BURST}");
    // The upper six bits of the byte.
    let tos = dscp << 2;
    let commands = [
        format!("qdisc add {dev} root handle 1: htb default 20"),
        format!("class add {dev} parent 1: classid 1:1 htb {} {bursts}", rates(1.0)),
        format!("class add {dev} parent 1:1 classid 1:10 htb {} {bursts} prio 0", rates(0.98)),
        format!("class add {dev} parent 1:1 classid 1:20 htb {} {bursts} prio 1", rates(0.02)),
        format!("filter add {dev} parent 1: protocol ip prio 1 u32 match ip tos {tos:#x} 0xfc flowid 1:10"),
    ];
    commands.iter().try_for_each(|words| tc(namespace, words))
}

fn tc(namespace: &str, words: &str) -> Result<(), CommandError> {
    command(&format!("ip netns exec {namespace} tc {words}")).map(drop)
}
