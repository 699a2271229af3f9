//! Addresses of another port than the one that is needed, and connections that lack TLS or a token.

use std::os::unix::process::CommandExt as _;

use serde_json::Value;

use crate::process::{Process, netfold, run, text};
use crate::tls::Certificates;

/// Runs a command that must fail with exit code 1; returns its message.
pub(crate) fn failure(arguments: &str) -> String {
    let (code, lines) = run(arguments);
    let error = lines.last().unwrap_or(&Value::Null);
    assert_eq!((code, text(error, "event")), (Some(1), "error"), "{arguments}: {error}");
    text(error, "message").to_owned()
}

fn controller(more: &str) -> (Process, Value) {
    controller_at("127.0.0.1:0", more)
}

fn controller_at(grpc: &str, more: &str) -> (Process, Value) {
    let any = "127.0.0.1:0";
    let start = format!("controller --dev --workers {any} --listen {grpc} --http {any} {more}");
    let mut controller = Process::start(&start);
    let controlling = controller.event("controlling");
    (controller, controlling)
}

const WORKER: &str = "--job test --rank 0 --world 2 --timeout 20 --controller";

#[test]
fn each_command_names_the_port_that_it_was_given_by_mistake() {
    let (_controller, at) = controller("");
    let (workers, grpc) = (text(&at, "workers"), text(&at, "grpc"));
    let page = text(&at, "page").trim_start_matches("http://").trim_end_matches('/');
    let of_workers = failure(&format!("job list --controller {workers}"));
    assert!(of_workers.contains("control port for workers") && of_workers.contains("20042"), "{of_workers}");
    let of_page = failure(&format!("job list --controller {page}"));
    assert!(of_page.contains("not a controller's gRPC API"), "{of_page}");
    let of_switch = failure(&format!("job list --controller {}", text(&at, "p4runtime")));
    assert!(of_switch.contains("a gRPC server, but not a controller's API"), "{of_switch}");
    let of_grpc = failure(&format!("worker {WORKER} {grpc}"));
    assert!(of_grpc.contains("HTTP/2 (gRPC)") && of_grpc.contains("20041"), "{of_grpc}");
    let of_page = failure(&format!("worker {WORKER} {page}"));
    assert!(of_page.contains("HTTP/1"), "{of_page}");
    let nothing = failure("job list --controller 127.0.0.1:1");
    assert!(nothing.contains("no program listens there"), "{nothing}");
}

#[test]
fn each_command_names_the_tls_option_that_is_wrong() {
    let (files, other) = (Certificates::new("addresses"), Certificates::new("addresses-other"));
    files.issue("controller");
    let tls =
        format!("--tls-cert {} --tls-key {}", files.path("controller.pem"), files.path("controller.key"));
    let (_encrypted, at) = controller(&tls);
    let (grpc, own, wrong) = (text(&at, "grpc"), files.path("ca.pem"), other.path("ca.pem"));
    let plain = failure(&format!("job list --controller {grpc}"));
    assert!(plain.contains("it uses TLS") && plain.contains("--ca"), "{plain}");
    let untrusted = failure(&format!("job list --controller {grpc} --ca {wrong}"));
    assert!(untrusted.contains("authority in --ca"), "{untrusted}");
    let plain = failure(&format!("worker {WORKER} {grpc}"));
    assert!(plain.contains("TLS") && plain.contains("NETFOLD_CA"), "{plain}");

    let (_renamed, at) = controller_at("127.0.0.2:0", &tls);
    let name = failure(&format!("job list --controller {} --ca {own}", text(&at, "grpc")));
    assert!(name.contains("certificate is for another name") && name.contains("127.0.0.2"), "{name}");

    let (_mutual, at) = controller(&format!("{tls} --tls-client-ca {own}"));
    let anonymous = failure(&format!("job list --controller {} --ca {own}", text(&at, "grpc")));
    assert!(anonymous.contains("--cert and --key"), "{anonymous}");

    let (_plain, at) = controller("");
    let encrypted = failure(&format!("job list --controller {} --ca {own}", text(&at, "grpc")));
    assert!(encrypted.contains("does not use TLS"), "{encrypted}");
}

#[test]
fn a_missing_token_is_named_by_its_option() {
    let files = Certificates::new("token");
    files.write("admins", "0123456789abcdef0123456789abcdef\n");
    let (_controller, at) = controller(&format!("--insecure --admin-tokens {}", files.path("admins")));
    let message = failure(&format!("job list --controller {}", text(&at, "grpc")));
    assert!(message.contains("--token") && !message.contains("metadata"), "{message}");
}

#[test]
fn a_watch_that_is_interrupted_exits_with_130() {
    let (_controller, at) = controller("");
    let grpc = text(&at, "grpc");
    run(&format!("job declare red/a --world 2 --controller {grpc}"));
    let mut watch = Process::start(&format!("job watch red/a --controller {grpc}"));
    // The watch of one job begins with its state.
    watch.event("job");
    watch.signal("INT");
    assert_eq!(watch.wait().code(), Some(130));
}

/// A service that waits for its client to speak a protocol of its own, or a process that is stopped.
#[test]
fn a_port_that_accepts_connections_and_sends_nothing_is_named() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = port.local_addr().unwrap();
    let files = Certificates::new("silent");
    let ca = files.path("ca.pem");
    // The kernel accepts connections of its backlog.
    for command in [
        format!("job list --controller {at}"),
        format!("job list --controller {at} --ca {ca}"),
        format!("top --once --controller {at}"),
    ] {
        let message = failure(&command);
        assert!(message.contains("accepts connections and sends nothing"), "{command}: {message}");
    }
    let message = failure(&format!("worker {WORKER} {at}"));
    assert!(message.contains("answers no request to join"), "{message}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(netfold("p4 list").stdout(writer).status().unwrap().code(), Some(0));
}

#[test]
fn an_interrupt_of_the_terminal_ends_the_demo_with_130() {
    let mut command = netfold("demo --workers 3 --epochs 500");
    command.process_group(0);
    let mut demo = Process::spawn(command);
    demo.event("epoch");
    let group = format!("-{}", demo.id());
    let sent = std::process::Command::new("kill").args(["-INT", "--", &group]).status().unwrap();
    assert!(sent.success());
    assert_eq!(demo.wait().code(), Some(130));
}
