//! The switch whose program the kernel runs, and a forwarder of a few BPF instructions, on the pair of interfaces. Packets are processed by a kernel thread
//! of the interface (threaded NAPI), which has a core of its own as the threads of other back ends do.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_bpf::sys::{Attach, Hook, Link, Program};
use netfold_bpf::{Alu, Instruction, Jump, Register as R, Size, Width};
use netfold_p4::allreduce::{self, Address, Behind, Child, child_entry, job_entries};
use netfold_p4::entry::Replica;
use netfold_p4::profile::{Numerics, Profile};
use netfold_testkit::namespace::{command, script, within};
use netfold_wire::UDP_PORT;
use netfold_xdp::{Datapath, PassAll};
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use super::backend::{CROWD, HUB, HUB_IP, HUB_MAC, absent, crowd, pair};
use super::crowd::{Crowd, Workers};
use super::frames::{WORKERS_MAC, worker_address};
use super::hub::{self, What, node};
use super::{IoBenchError, IoConfig, PAYLOAD_BYTES, Turn, WORKERS};

/// The switch's port for all workers.
const PORT: u16 = 1;

/// How long the kernel has to start its thread.
const THREAD_TIME: Duration = Duration::from_secs(2);

/// A program on the pair's one end, and the workers at the other.
struct OnPair {
    workers: Box<dyn Workers>,
    /// The kernel's thread that runs the program.
    thread: i32,
    /// What lives as long.
    _keep: Vec<Box<dyn Any + Send>>,
}

/// One turn of the switch or of the forwarder.
pub(super) fn turn(config: &IoConfig, what: What) -> Result<Turn, IoBenchError> {
    if config.queues > 1 || config.authenticated {
        let why = "it is measured on one interface, without authentication";
        return Err(IoBenchError::Absent(why.into()));
    }
    let (namespaces, name) = pair()?;
    command(&format!("ip -n {name} addr add {HUB_IP}/24 dev {HUB}")).map_err(|error| absent(&error))?;
    let measured = std::thread::scope(|scope| {
        let turn = || within(&name, || on_pair(&name, config.window, what)).map_err(|error| absent(&error));
        let turn = scope.spawn(move || drive(config, what, turn()??));
        turn.join().unwrap_or(Err(IoBenchError::Ended("workers' thread")))
    });
    drop(namespaces);
    measured
}

fn drive(config: &IoConfig, what: What, on_pair: OnPair) -> Result<Turn, IoBenchError> {
    let cores = hub::cores();
    hub::pin(cores.of(0));
    if let Some((core, thread)) = cores.of(1).zip(Pid::from_raw(on_pair.thread)) {
        let mut set = CpuSet::new();
        set.set(core);
        // Without it the figures spread more, and are no less true.
        let _ = sched_setaffinity(Some(thread), &set);
    }
    let mut crowd = Crowd::new(on_pair.workers, config.window);
    crowd.drive(config.turn / 4)?;
    let (before, cpu, begun) = (crowd.returned(), run_time(on_pair.thread), Instant::now());
    crowd.drive(config.turn)?;
    let (took, cpu) = (begun.elapsed().as_secs_f64(), (run_time(on_pair.thread) - cpu).as_secs_f64());
    let packets = (crowd.returned() - before) as f64;
    if packets == 0.0 {
        return Err(IoBenchError::Silent(what.name()));
    }
    Ok(Turn {
        mpps: packets / took / 1e6,
        cycles: cpu * hub::clock_hz() / packets,
        calls: 0.0,
        busy: cpu / took,
        retransmitted: crowd.retransmitted(),
    })
}

/// Both ends, in the namespace of the pair.
fn on_pair(namespace: &str, window: u32, what: What) -> Result<OnPair, IoBenchError> {
    let before = threads();
    let interfaces = netfold_io::link::interfaces();
    let index = |name| interfaces.iter().find(|interface| interface.name == name).map_or(0, |at| at.index);
    let failed = |error: netfold_xdp::XdpError| absent(&error);
    let mut keep: Vec<Box<dyn Any + Send>> = vec![Box::new(PassAll::attach(index(CROWD)).map_err(failed)?)];
    let workers = crowd(window).map_err(|error| absent(&error))?;
    match what {
        What::Switch => {
            let mut datapath = switch(window, index(HUB))?;
            datapath.attach(index(HUB), Hook::Driver).map_err(failed)?;
            keep.push(Box::new(datapath));
        }
        What::Forwarder => {
            let refused = |error: std::io::Error| IoBenchError::Absent(format!("no XDP here: {error}"));
            let program = Program::load("forwarder", Attach::Receive, &forwarder());
            let program = program.map_err(|rejected| refused(rejected.error))?;
            let link = Link::attach(&program, index(HUB), Hook::Driver).map_err(refused)?;
            keep.push(Box::new((program, link)));
        }
    }
    // Only an interface with a program has what can be given a thread.
    script(&format!("ip netns exec {namespace} tee /sys/class/net/{HUB}/threaded"), "1")
        .map_err(|error| absent(&error))?;
    let begun = Instant::now();
    let thread = loop {
        if let Some(thread) = threads().difference(&before).next() {
            break *thread;
        }
        if begun.elapsed() > THREAD_TIME {
            return Err(IoBenchError::Absent(
                "the kernel has no thread for the interface (threaded NAPI)".into(),
            ));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    Ok(OnPair { workers, thread, _keep: keep })
}

/// The program, with a job of all workers, who share the port.
fn switch(window: u32, interface: u32) -> Result<Datapath, IoBenchError> {
    let program = allreduce::program(&Profile::kernel(PAYLOAD_BYTES / 4, Numerics::Word));
    let program = program.map_err(|error| absent(&error))?;
    let mut datapath = Datapath::new(Arc::new(program)).map_err(|error| absent(&error))?;
    datapath.set_port(PORT, interface).map_err(|error| absent(&error))?;
    let node = node(window);
    let bits = |mac: [u8; 6]| mac.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte));
    let own = Address { mac: bits(HUB_MAC), ip: HUB_IP.to_bits(), port: UDP_PORT };
    let mut replicas = Vec::new();
    for rank in 0..WORKERS {
        let at = worker_address(rank);
        let instance = rank + 1;
        let behind = Some(Behind { instance, first: rank, last: rank });
        let child = Child { port: PORT, source: at.ip().to_bits(), rank: rank as u8, behind };
        let to = Address { mac: bits(WORKERS_MAC), ip: at.ip().to_bits(), port: at.port() };
        for entry in job_entries(&node, &child).into_iter().chain([child_entry(instance, to, own)]) {
            datapath.insert(&entry)?;
        }
        replicas.push(Replica { port: PORT, instance });
    }
    datapath.set_group(node.group, &replicas).map_err(|error| absent(&error))?;
    Ok(datapath)
}

/// Returns every IPv4 frame to where it came from: Ethernet addresses, IPv4 addresses and UDP ports change places. The checksums stay right.
fn forwarder() -> Vec<Instruction> {
    const HEADERS: i32 = 14 + 20 + 8;
    let mut code = vec![
        Instruction::load(Size::Word, R(2), R(1), 0),
        Instruction::load(Size::Word, R(3), R(1), 4),
        Instruction::alu(Width::All, Alu::Mov, R(4), R(2)),
        Instruction::alu_constant(Width::All, Alu::Add, R(4), HEADERS),
    ];
    // Each exchange reads two places and writes them the other way round.
    let mut exchanges = Vec::new();
    for (size, one, other) in
        [(Size::Word, 0, 6), (Size::Half, 4, 10), (Size::Word, 26, 30), (Size::Half, 34, 36)]
    {
        exchanges.extend([
            Instruction::load(size, R(4), R(2), one),
            Instruction::load(size, R(5), R(2), other),
            Instruction::store(size, R(2), one, R(5)),
            Instruction::store(size, R(2), other, R(4)),
        ]);
    }
    let result =
        |verdict| [Instruction::alu_constant(Width::All, Alu::Mov, R(0), verdict), Instruction::exit()];
    let sent = result(XDP_TX);
    let behind = (exchanges.len() + sent.len()) as i16;
    code.push(Instruction::jump(Width::All, Jump::Gt, R(4), R(3), behind + 2));
    code.push(Instruction::load(Size::Half, R(4), R(2), 12));
    code.push(Instruction::jump_constant(Width::All, Jump::Ne, R(4), i32::from(0x0800u16.to_be()), behind));
    code.extend(exchanges);
    code.extend(sent);
    code.extend(result(netfold_p4::xdp::verdict::PASS));
    code
}

/// The verdict that sends a frame back by the interface that it came by (`enum xdp_action`).
const XDP_TX: i32 = 3;

/// The kernel's threads for interfaces of this name.
fn threads() -> BTreeSet<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let named = |id: &i32| {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        name.starts_with(&format!("napi/{HUB}-"))
    };
    processes.filter_map(|process| process.file_name().to_str()?.parse().ok()).filter(named).collect()
}

/// How long a thread of the kernel has run so far.
fn run_time(thread: i32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{thread}/schedstat")).unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
