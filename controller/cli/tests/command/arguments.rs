//! Arguments: help for every command, and errors that name the problem.

use crate::process::{netfold, run, text};

const COMMANDS: [&str; 10] = [
    "",
    "demo",
    "switch",
    "worker",
    "bench",
    "bench all-reduce",
    "bench fold",
    "bench quantize",
    "p4 emit --target v1model",
    "p4 info",
];

#[test]
fn every_command_has_help_and_every_subcommand_an_example() {
    for command in COMMANDS {
        let output = netfold(&format!("{command} --help")).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command}");
        assert!(help.contains("--json") && help.contains("Usage: netfold"), "{command}: {help}");
        assert!(command == "bench" || help.contains("Examples"), "{command}: {help}");
    }
}

#[test]
fn wrong_arguments_are_errors_of_kind_usage() {
    for wrong in [
        "",
        "dance",
        "demo --workers 0",
        "demo --workers 33",
        "demo --loss 0.9",
        "demo --mode i32",
        "demo --mode fp8",
        "demo --batch 0",
        "demo --batch 99999",
        "demo --epochs 0",
        "switch --listen nowhere",
        "switch --payload 1000",
        "switch --slots 1000",
        "switch --slots 2048",
        "switch --faults loss=much",
        "switch --threads 0",
        "switch --threads 65 --listen 127.0.0.1:0",
        "switch --threads 2 --listen 127.0.0.1:65535",
        "switch --threads 2 --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0",
        "switch --cores 5-1",
        "switch --cores 0,1 --listen 127.0.0.1:0",
        "switch --cores 1023 --listen 127.0.0.1:0",
        "worker --switch 127.0.0.1:1 --job x --rank 0 --world 1 --trees 9",
        "worker --switch 127.0.0.1:1 --job x --rank 0 --world 1 --cores x",
        "bench all-reduce --trees 2 --bytes 4KiB",
        "bench io --threads 0",
        "worker --switch 127.0.0.1:1 --job x --rank 2 --world 2",
        "worker --switch 127.0.0.1:1 --job x --rank 0",
        "worker --switch 127.0.0.1:1 --job x --rank 0 --world 1 --train --bytes 4KiB",
        "worker --switch 127.0.0.1:1 --job x --rank 0 --world 1 --epochs 3",
        "bench all-reduce --bytes 8KiB..4KiB",
        "bench all-reduce --bytes 4kb",
        "bench all-reduce --bytes 2",
        "bench all-reduce --op max",
        "bench all-reduce --transport carrier-pigeon",
        "bench all-reduce --payload 100 --bytes 4KiB",
        "bench all-reduce --slots 3 --bytes 4KiB",
        "bench quantize --payload 3",
        "p4 emit",
        "p4 emit --target tofino9",
        "p4 info --lanes 1",
        "p4 info --slots 1000",
    ] {
        let (code, lines) = run(wrong);
        let error = lines.last().unwrap_or_else(|| panic!("'{wrong}' printed nothing"));
        assert_eq!(text(error, "event"), "error", "{wrong}");
        assert_eq!(text(error, "kind"), "usage", "{wrong}: {error}");
        assert!(!text(error, "message").is_empty(), "{wrong}");
        assert!(matches!(code, Some(1 | 2)), "{wrong}: {code:?}");
    }
}

#[test]
fn without_json_errors_are_text() {
    let output = netfold("switch --payload 1000").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.starts_with("error: ") && error.contains("1408"), "{error}");
    assert!(output.stdout.is_empty());

    let output = netfold("worker --switch 127.0.0.1:1 --job x --rank 0 --world 1").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("cause: ") && error.contains("127.0.0.1:1"), "{error}");
}
