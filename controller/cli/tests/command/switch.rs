//! `netfold switch` by itself.

use std::net::{TcpListener, UdpSocket};

use crate::process::{Process, netfold, number, run, text};

#[test]
fn announces_its_state_and_counts_unknown_sources() {
    let mut switch = Process::start("switch --listen 127.0.0.1:0 --slots 64");
    let listening = switch.event("listening");
    let state = number(&listening, "state_bytes");
    assert_eq!(state, number(&listening, "lane_bytes") + number(&listening, "bookkeeping_bytes"));
    assert_eq!(number(&listening, "lane_bytes"), number(&listening, "slot_sets") * 1408.0);

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..3 {
        socket.send_to(b"not a netfold packet", text(&listening, "address")).unwrap();
    }
    switch.signal("TERM");
    let counters = switch.event("counters");
    assert_eq!(counters["final"], true);
    assert_eq!(number(&counters, "unknown_source"), 3.0);
    assert_eq!(number(&counters["packets"], "none"), 0.0);
    assert!(switch.wait().success());
}

#[test]
fn threads_share_a_job_of_several_trees() {
    let mut switch = Process::start("switch --listen 127.0.0.1:0 --threads 2 --slots 64");
    let listening = switch.event("listening");
    let queues = listening["threads"].as_array().unwrap();
    assert_eq!((queues.len(), &queues[0]["address"]), (2, &listening["address"]));
    let of_one = number(&listening, "lane_bytes") + number(&listening, "bookkeeping_bytes");
    assert_eq!(number(&listening, "state_bytes"), 2.0 * of_one);
    let control = text(&listening, "control");
    let (code, lines) = run(&format!(
        "worker --switch {control} --trees 2 --job both --rank 0 --world 1 --slots 64 --bytes 1MiB --mode bfp32"
    ));
    assert_eq!(code, Some(0), "{lines:?}");
    let mut places: Vec<_> =
        lines.iter().filter(|line| text(line, "event") == "place").map(|line| text(line, "switch")).collect();
    places.sort_unstable();
    let mut addresses: Vec<_> = queues.iter().map(|queue| text(queue, "address")).collect();
    addresses.sort_unstable();
    assert_eq!(places, addresses);
    let (first, second) = (switch.event("job_started"), switch.event("job_started"));
    assert_ne!(first["queue"], second["queue"]);
    assert_ne!(first["tree"], second["tree"]);
    switch.signal("TERM");
    let counters = switch.event("counters");
    let counted = counters["threads"].as_array().unwrap();
    let sum: f64 = counted.iter().map(|queue| number(queue, "results")).sum();
    assert!(
        counted.iter().all(|queue| number(queue, "results") > 0.0) && sum == number(&counters, "results")
    );
    assert!(switch.wait().success());
}

#[test]
fn ends_with_its_standard_input() {
    // The test gives it an empty one.
    let (code, lines) = run("switch --listen 127.0.0.1:0 --exit-with-stdin");
    assert_eq!(code, Some(0));
    assert_eq!(text(lines.last().unwrap(), "event"), "counters");
}

#[test]
fn a_port_in_use_is_named() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [udp.local_addr().unwrap(), tcp.local_addr().unwrap()] {
        let (code, lines) = run(&format!("switch --listen {address}"));
        let error = lines.last().unwrap();
        assert_eq!((code, text(error, "kind")), (Some(1), "port_in_use"), "{error}");
        assert!(text(error, "message").contains(&address.to_string()), "{error}");
        assert!(text(error, "advice").contains("--listen"), "{error}");
    }
}

#[test]
fn a_foreign_address_and_an_unwritable_capture_are_errors() {
    let (_, lines) = run("switch --listen 192.0.2.1:0");
    assert_eq!(text(lines.last().unwrap(), "kind"), "listen");
    let (_, lines) = run("switch --listen 127.0.0.1:0 --pcap /nowhere/at/all.pcap");
    assert_eq!(text(lines.last().unwrap(), "kind"), "file");
}

/// Prints a program to a temporary file, which is removed when the test ends.
struct Program(std::path::PathBuf);

impl Program {
    fn emit(name: &str, options: &str) -> Self {
        let path = std::env::temp_dir().join(format!("netfold-{name}-{}.json", std::process::id()));
        let emitted = netfold(&format!("p4 emit --target ir {options} -o")).arg(&path).output().unwrap();
        assert!(emitted.status.success());
        Self(path)
    }

    fn refused(&self) -> String {
        let (code, lines) = run(&format!("switch --listen 127.0.0.1:0 --program {}", self.0.display()));
        let error = lines.last().unwrap();
        assert_eq!((code, text(error, "kind")), (Some(1), "program"), "{error}");
        error.to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_pushed_program_is_run_by_generated_code_or_the_interpreter() {
    for (options, engine, slots) in
        [("--datagram", "generated", 8192.0), ("--datagram --slots 512", "interpreter", 512.0)]
    {
        let program = Program::emit(engine, options);
        let mut switch = Process::start(&format!(
            "switch --listen 127.0.0.1:0 --slots 64 --program {}",
            program.0.display()
        ));
        let listening = switch.event("listening");
        assert_eq!(text(&listening, "engine"), engine);
        assert_eq!(number(&listening, "slot_sets"), 2.0 * slots);
        let control = text(&listening, "control");
        let (code, lines) = run(&format!(
            "worker --switch {control} --job one --rank 0 --world 1 --bytes 64KiB --mode bfp16"
        ));
        assert_eq!(code, Some(0), "{lines:?}");
        switch.signal("TERM");
        assert!(switch.wait().success());
    }
}

#[test]
fn a_file_without_a_usable_program_is_an_error() {
    let ethernet = Program::emit("ethernet", "");
    assert!(ethernet.refused().contains("Ethernet"), "{}", ethernet.refused());
    std::fs::write(&ethernet.0, "{\"netfold_ir\":1,\"program\":[]}").unwrap();
    assert!(ethernet.refused().contains("cannot run the program"));
    let (_, lines) = run("switch --listen 127.0.0.1:0 --program /nowhere/at/all.json");
    assert_eq!(text(lines.last().unwrap(), "kind"), "file");
}

#[test]
fn egress_queues_of_a_file_are_counted_and_invalid_ones_are_refused() {
    let file = std::env::temp_dir().join(format!("netfold-egress-{}.toml", std::process::id()));
    std::fs::write(&file, "[port]\nrate = \"50M\"\n[[port.queue]]\necn = { k_min = 15000, k_max = 15000 }")
        .unwrap();
    let mut switch = Process::start(&format!(
        "switch --listen 127.0.0.1:0 --slots 64 --congestion dctcp --egress {}",
        file.display()
    ));
    let listening = switch.event("listening");
    let (code, lines) = run(&format!(
        "worker --switch {} --job slow --rank 0 --world 1 --mode i32 --bytes 1MiB",
        text(&listening, "control")
    ));
    assert_eq!(code, Some(0), "{lines:?}");
    switch.signal("TERM");
    let counters = switch.event("counters");
    let queue = &counters["queues"][0];
    assert_eq!(text(queue, "queue"), "0", "{counters}");
    assert!(number(queue, "sent") > 700.0 && number(queue, "marked") > 0.0, "{counters}");
    assert!(switch.wait().success());
    std::fs::write(&file, "[port]\nrate = \"50M\"\nburst = 10").unwrap();
    let (code, lines) = run(&format!("switch --listen 127.0.0.1:0 --egress {}", file.display()));
    let error = lines.last().unwrap();
    assert_eq!((code, text(error, "kind")), (Some(2), "usage"), "{error}");
    assert!(text(error, "message").contains("burst_bytes is 10"), "{error}");
    let _ = std::fs::remove_file(file);
}
