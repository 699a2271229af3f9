//! Standard clients as black boxes. `NETFOLD_TEST_P4RUNTIME_SHELL` and `NETFOLD_TEST_FINSY` name Python interpreters that
//! have p4runtime-shell and finsy (two, since they need different versions of protobuf).

use std::fs;
use std::path::Path;
use std::process::Command;

use netfold_io::loopback;
use netfold_p4::{allreduce, p4info, profile::by_name};
use netfold_switch::{EmptyPipeline, Switch};
use netfold_switch_p4runtime::{Server, ServerConfig};
use netfold_wire::{Kind, Repr, header};

/// Runs a client's script, at a path from this package, against an empty switch; returns what it printed, or `None` without the client.
fn run(variable: &str, script: &str, more: &[String]) -> Option<String> {
    let Ok(python) = std::env::var(variable) else {
        println!("skipped: {script}, {variable} names no interpreter");
        return None;
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let script = path.file_name().unwrap().to_string_lossy();
    let program = allreduce::program(&by_name("small").unwrap()).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (info, config) = (folder.join(format!("{script}.txtpb")), folder.join(format!("{script}.json")));
    fs::write(&info, p4info::text(&program)).unwrap();
    fs::write(&config, program.to_json()).unwrap();
    let (io, _workers) = loopback::star(2, 64, 1440);
    let switch = Switch::bare(Box::new(EmptyPipeline::new(352)), Box::new(io));
    let handle = switch.handle();
    let thread = std::thread::spawn(move || switch.run());
    let server = Server::start(([127, 0, 0, 1], 0).into(), ServerConfig::default(), handle.clone()).unwrap();
    let mut client = Command::new("timeout");
    client.args(["120", &python]).arg(path).arg(server.local_addr().to_string()).arg(info).arg(config);
    client.args(more);
    let output = client.output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    server.stop().unwrap();
    handle.stop();
    let _ = thread.join();
    assert!(output.status.success(), "{text}");
    Some(text)
}

/// An ADVANCE of slot 0 to a chunk, in hexadecimal.
fn advance(chunk: u32) -> String {
    let repr = Repr::from_controller(Kind::Advance, (0, 0), chunk);
    let mut bytes = [0; header::LEN];
    repr.emit(&mut header::Packet::new_unchecked(&mut bytes[..]));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn p4runtime_shell() {
    let printed =
        run("NETFOLD_TEST_P4RUNTIME_SHELL", "tests/clients/p4runtime_shell.py", &[9, 3].map(advance));
    assert!(printed.is_none_or(|text| text.contains(" ok")));
}

#[test]
fn finsy() {
    let printed = run("NETFOLD_TEST_FINSY", "tests/clients/finsy_client.py", &[9, 3].map(advance));
    assert!(printed.is_none_or(|text| text.contains(" ok")));
}

#[test]
fn the_session_of_the_p4_tutorial() {
    let page = include_str!("../../../../../docs/tutorials/p4.md");
    let shown = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let printed = run("NETFOLD_TEST_P4RUNTIME_SHELL", "../../../p4/examples/session.py", &[]);
    let Some(printed) = printed else { return };
    let printed: Vec<&str> = printed.lines().collect();
    for line in shown.lines() {
        assert!(printed.contains(&line), "the page shows '{line}', printed is {printed:#?}");
    }
}
