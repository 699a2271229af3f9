//! Silent connections, at every listener: they exclude no client, and cost nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use netfold_listener::{Policy, policy};
use netfold_southbound::p4runtime::{Client, ClientConfig};
use netfold_testkit::wait::{eventually, poll};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;

use crate::controller::{one, wait_for};
use crate::process::{Process, http_get, http_get_for, run, text};

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// What processor time is counted in, a second: USER_HZ, which is 100 on every architecture that Linux still has programs for.
const TICKS: f64 = 100.0;

/// Most processor time that a listener may use under attack, as a fraction of one core.
const PROCESSOR_MAX: f64 = 0.05;

/// Connects to `address` from `source`, and sends nothing.
fn silent(address: SocketAddr, source: Ipv4Addr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(IpAddr::V4(source), 0)).unwrap();
        socket.connect(address).await.unwrap().into_std().unwrap()
    })
}

/// So many silent connections from this host.
fn silent_ones(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| silent(address, Ipv4Addr::LOCALHOST)).collect()
}

fn address(value: &Value, key: &str) -> SocketAddr {
    text(value, key).parse().unwrap()
}

/// A development controller, and what it has announced.
fn announced() -> (Process, Value) {
    let any = "127.0.0.1:0";
    let mut process =
        Process::start(&format!("controller --dev --workers {any} --listen {any} --http {any}"));
    let controlling = process.event("controlling");
    (process, controlling)
}

/// Address of the page.
fn page(controlling: &Value) -> SocketAddr {
    let url = text(controlling, "page");
    url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap()
}

/// Processor time of a process's threads with these names, or of all, in seconds.
fn processor_time(process: u32, names: &[&str]) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let ticks = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).ok()?;
        // proc(5): the name in parentheses, then the state; user and system time are the 12th and 13th fields from there.
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let fields: Vec<f64> = rest.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        // The kernel cuts names to 15 bytes. The state is no number.
        let wanted = names.is_empty() || names.iter().any(|wanted| wanted[..wanted.len().min(15)] == *name);
        wanted.then(|| fields[10] + fields[11])
    });
    ticks.sum::<f64>() / TICKS
}

/// The processor time that `work` costs these threads, as a fraction of one core.
fn processor_fraction(process: u32, names: &[&str], work: impl FnOnce()) -> f64 {
    let (before, started) = (processor_time(process, names), Instant::now());
    work();
    (processor_time(process, names) - before) / started.elapsed().as_secs_f64()
}

#[test]
fn silent_connections_do_not_lock_out_grpc_the_page_and_workers() {
    let (controller, controlling) = announced();
    let (workers, grpc, page) =
        (address(&controlling, "workers"), address(&controlling, "grpc"), page(&controlling));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut held: Vec<Vec<TcpStream>> = [(grpc, policy::GRPC), (page, policy::PAGE)]
        .map(|(at, policy)| silent_ones(at, policy.source_max))
        .into();
    // More than nothing, and no request.
    for stream in &held[0] {
        let _ = std::io::Write::write_all(&mut &*stream, preface);
    }
    held.push(silent_ones(workers, policy::WORKERS.source_max + 100));
    assert_eq!(run(&format!("job list --controller {grpc}")).0, Some(0));
    assert_eq!(http_get(page, "/snapshot").0, 200);
    let (code, lines) = run(&format!(
        "bench all-reduce --controller {workers} --tenant red --workers 2 --bytes 4KiB --iterations 1"
    ));
    assert_eq!(code, Some(0), "{lines:?}");
    let (_, metrics) = http_get(page, "/metrics");
    for (listener, reason) in
        [("workers", "source_limit"), ("gRPC", "source_limit"), ("page", "source_limit")]
    {
        let zero = format!("{{listener=\"{listener}\",reason=\"{reason}\"}} 0");
        assert!(metrics.contains(&zero[..zero.len() - 1]) && !metrics.contains(&zero), "{zero}: {metrics}");
    }
    drop((controller, held));
}

#[test]
fn p4runtime_without_descriptors_uses_no_processor_time_and_recovers() {
    let mut switch = Process::start("switch --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0 --payload 256");
    let listening = switch.event("listening");
    let p4runtime = address(&listening, "p4runtime");
    let id = Pid::from_raw(i32::try_from(switch.id()).unwrap());
    let limit = |current| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        prlimit(id, Resource::Nofile, Rlimit { current, maximum }).unwrap()
    };
    // Fewer than are open: every further one fails (EMFILE), while the listener has connections to accept.
    let before = limit(Some(4));
    assert_eq!(before.current, before.maximum, "the command raises its limit");
    let held = silent_ones(p4runtime, 32);
    let used = processor_fraction(switch.id(), &[], || std::thread::sleep(Duration::from_secs(3)));
    assert!(used < PROCESSOR_MAX, "{used} of a core while there are no descriptors");
    limit(before.current);
    // The silent connections are still there.
    let client = Client::connect(&p4runtime.to_string(), ClientConfig::default()).unwrap();
    assert!(client.pipeline().unwrap().is_some());
    drop(held);
    switch.signal("INT");
    assert!(switch.wait().success());
}

#[test]
fn silent_connections_at_p4runtime_and_a_control_port_exclude_no_client() {
    let mut switch = Process::start("switch --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0 --payload 256");
    let p4runtime = address(&switch.event("listening"), "p4runtime");
    let _held = silent_ones(p4runtime, policy::P4RUNTIME.connections_max + 50);
    let client = Client::connect(&p4runtime.to_string(), ClientConfig::default()).unwrap();
    assert!(client.pipeline().unwrap().is_some());
    // A line in the log, not one for each.
    let closed = switch.event("connections_closed");
    assert!(text(&closed, "message").starts_with("P4Runtime connections: "), "{closed}");
    let (mut switch, control) = Process::switch("");
    let _held = silent_ones(control.parse().unwrap(), policy::WORKERS.source_max + 50);
    let member = |rank| {
        format!("worker --switch {control} --job all --rank {rank} --world 2 --bytes 4KiB --iterations 1")
    };
    let mut members = [0, 1].map(|rank| Process::start(&member(rank)));
    assert!(members.iter_mut().all(|member| member.wait().success()));
    switch.signal("INT");
    let lines = switch.rest();
    let closed = lines.iter().filter(|line| line["event"] == "connections_closed").count();
    assert!((1..=3).contains(&closed), "{lines:?}");
    assert!(lines.iter().all(|line| line["event"] != "refused"), "{lines:?}");
}

/// The row of docs/operations.md for a listener.
fn row(policy: Policy) -> String {
    let grouped = |number: usize| match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{thousands},{:03}", number % 1000),
    };
    format!(
        "| {} | {} | {} | {} s |\n",
        policy.name,
        grouped(policy.connections_max),
        grouped(policy.source_max),
        policy.first_message_timeout.as_secs()
    )
}

#[test]
fn the_limits_of_every_listener_are_documented() {
    let rows: String = policy::ALL.into_iter().map(row).collect();
    assert!(PAGE.contains(&rows), "docs/operations.md must have these rows:\n{rows}");
}

/// A worker that reduces until it is stopped.
fn worker(workers: SocketAddr, rank: u16) -> Process {
    Process::start(&format!(
        "worker --controller {workers} --tenant red --job attacked --rank {rank} --world 2 --bytes 1MiB --iterations 100000000"
    ))
}

/// Silent connections at a listener.
const ATTACKERS: usize = 10_000;

/// How long they stay.
const HELD: Duration = Duration::from_secs(10);

/// Names of the threads that accept connections, and serve them.
const THREADS: &[&str] = &["netfold-front", "netfold-control", "p4runtime"];

#[test]
#[ignore = "takes minutes: run it by hand in the release build, with a limit of 12,000 descriptors or more, and --nocapture"]
fn ten_thousand_silent_connections_disturb_nothing() {
    let own = getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own }).unwrap();
    let (controller, controlling) = announced();
    let (workers, grpc) = (address(&controlling, "workers"), address(&controlling, "grpc"));
    let members: Vec<Process> = (0..2).map(|rank| worker(workers, rank)).collect();
    let epoch = wait_for(&grpc.to_string(), "red/attacked", "running")["epoch"].clone();
    let listeners = [
        ("gRPC", grpc),
        ("page", page(&controlling)),
        ("workers", workers),
        ("P4Runtime", address(&controlling, "p4runtime")),
    ];
    for (name, at) in listeners {
        let mut slowest = Duration::ZERO;
        let used = processor_fraction(controller.id(), THREADS, || {
            let held: Vec<TcpStream> = (0..ATTACKERS).map(|index| silent(at, own_address(index))).collect();
            let until = Instant::now() + HELD;
            while Instant::now() < until {
                let started = Instant::now();
                let (code, lines) = run(&format!("job list --controller {grpc}"));
                assert_eq!((code, lines.len()), (Some(0), 1), "{name}: {lines:?}");
                slowest = slowest.max(started.elapsed());
                std::thread::sleep(Duration::from_secs(1));
            }
            drop(held);
        });
        let job = one(&format!("job describe red/attacked --controller {grpc}"));
        assert_eq!((&job["state"], &job["epoch"]), (&Value::from("running"), &epoch), "{name}");
        println!("{name}: {:.1} % of a core, job list within {} ms", used * 100.0, slowest.as_millis());
        assert!(used < PROCESSOR_MAX, "{name}: {used} of a core");
    }
    eventually("all silent connections are closed", || {
        let (_, metrics) = http_get(listeners[1].1, "/metrics");
        ["gRPC", "workers"]
            .iter()
            .all(|name| metrics.contains(&format!("netfold_connections{{listener=\"{name}\"}} 0\n")))
    });
    for member in members {
        member.signal("INT");
    }
}

/// Open descriptors of a process.
fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// Holds silent connections for a time, and observes the process that they are to, and whether a job elsewhere can be listed. Returns after they
/// are closed, and the process has as few descriptors as before.
fn attack<T>(
    listener: &str,
    (process, threads): (u32, &[&str]),
    grpc: SocketAddr,
    connect: impl Fn(usize) -> T,
    meanwhile: impl FnOnce(),
) {
    let (before, mut slowest) = (descriptors(process), Duration::ZERO);
    let mut most = before;
    let used = processor_fraction(process, threads, || {
        let held: Vec<T> = (0..ATTACKERS).map(connect).collect();
        let until = Instant::now() + HELD;
        most = descriptors(process);
        meanwhile();
        while Instant::now() < until {
            let started = Instant::now();
            let (code, lines) = run(&format!("job list --controller {grpc}"));
            assert_eq!((code, lines.len()), (Some(0), 1), "{listener}: {lines:?}");
            slowest = slowest.max(started.elapsed());
            std::thread::sleep(Duration::from_secs(1));
        }
        drop(held);
    });
    eventually("all silent connections are closed", || descriptors(process) <= before);
    println!(
        "{listener}: {:.1} % of a core, job list within {} ms, descriptors {before}, at most {most}",
        used * 100.0,
        slowest.as_millis()
    );
    assert!(used < PROCESSOR_MAX, "{listener}: {used} of a core");
}

/// A loopback address of each connection's own.
fn own_address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 1, (index / 250) as u8, 1 + (index % 250) as u8)
}

#[test]
#[ignore = "takes minutes: run it by hand in the release build, with a limit of 12,000 descriptors or more, and --nocapture"]
fn ten_thousand_silent_connections_disturb_no_shared_memory_and_no_rendezvous() {
    let own = getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own }).unwrap();
    // A job that is listed, and may be at another controller: neither listener is one of a controller's.
    let (_controller, controlling) = announced();
    let (workers, grpc) = (address(&controlling, "workers"), address(&controlling, "grpc"));
    let _listed: Vec<Process> = (0..2).map(|rank| worker(workers, rank)).collect();
    wait_for(&grpc.to_string(), "red/attacked", "running");

    let name = format!("attacked-{}", std::process::id());
    let mut switch = Process::start(&format!("switch --listen 127.0.0.1:0 --io shm:{name}"));
    let control = text(&switch.event("listening"), "control").to_owned();
    let member = |job: &str, rank: u16, iterations: u32| {
        Process::start(&format!(
            "worker --switch {control} --io shm:{name} --job {job} --rank {rank} --world 2 --bytes 1MiB --iterations {iterations}"
        ))
    };
    let mut running = [0, 1].map(|rank| member("running", rank, 100_000_000));
    running.iter_mut().for_each(|worker| drop(worker.event("all_reduce")));
    let at = std::os::unix::net::SocketAddr::from_abstract_name(format!("netfold/shm/{name}")).unwrap();
    let connect = |_| UnixStream::connect_addr(&at).unwrap();
    attack("shared memory", (switch.id(), &["netfold-shm"]), grpc, connect, || {
        let mut members = [0, 1].map(|rank| member("local", rank, 3));
        assert!(members.iter_mut().all(|member| member.wait().success()));
    });
    for worker in &mut running {
        worker.signal("TERM");
        worker.wait();
        let lines = worker.rest();
        let sums = lines.iter().filter(|line| line["event"] == "all_reduce");
        let wrong = sums.clone().filter(|line| line["wrong"] != 0).count();
        println!("the job at the shared-memory switch: {} all-reduces, {wrong} wrong", sums.clone().count());
        assert!(sums.count() > 0 && wrong == 0 && lines.iter().all(|line| line["kind"] != "switch_lost"));
    }

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let rendezvous = free.local_addr().unwrap();
    drop(free);
    let rank = |rank: u16| {
        Process::start(&format!(
            "worker --switch {control} --rendezvous {rendezvous} --io shm:{name} --job met --rank {rank} --world 2 --bytes 4KiB \
             --iterations 2"
        ))
    };
    let mut first = rank(0);
    drop(poll("rank 0 listens", || TcpStream::connect(rendezvous).ok()));
    let connect = |index| silent(rendezvous, own_address(index));
    attack("rendezvous", (first.id(), &[]), grpc, connect, || {});
    // A rank comes while there are silent connections.
    let held: Vec<TcpStream> = (0..ATTACKERS).map(connect).collect();
    let mut second = rank(1);
    assert!(first.wait().success() && second.wait().success());
    drop(held);
}

#[test]
fn the_page_answers_for_configured_names_only() {
    let any = "127.0.0.1:0";
    let mut controller = Process::start(&format!(
        "controller --dev --workers {any} --listen {any} --http {any} --page-host controller.example"
    ));
    let at = page(&controller.event("controlling"));
    for (host, status) in [("controller.example", 200), ("localhost", 200), ("attacker.example", 421)] {
        assert_eq!(http_get_for(at, "/snapshot", host).0, status, "{host}");
    }
    let (code, lines) = run("controller --dev --page-host http://controller.example");
    assert_eq!(code, Some(2), "{lines:?}");
}
