//! Arguments: help for every command, and errors that name the problem.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use netfold_testkit::directory::TemporaryDirectory;

use crate::process::{netfold, run, text};

const COMMANDS: [&str; 17] = [
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
    "controller",
    "job list",
    "tenant add",
    "top",
    "completions",
    "man",
    "version",
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
        "switch --payload 1408,1000",
        "switch --payload 1408,1408",
        "switch --payload 1408,8192 --p4runtime 127.0.0.1:0",
        "switch --payload 1408,8192 --numerics float",
        "switch --payload 1408,8192 --io shm:x",
        "bench star --payload 1",
        "switch --slots 1000",
        "switch --slots 16384",
        "switch --faults loss=much",
        "switch --threads 0",
        "switch --threads 65 --listen 127.0.0.1:0",
        "switch --threads 2 --listen 127.0.0.1:65535",
        "switch --threads 2 --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0",
        "switch --path-hash md5,paths=4",
        "switch --path-hash linux,paths=4",
        "switch --path-hash crc32,paths=4 --paths 2",
        "switch --path-hash crc32,paths=4 --path-policy spray",
        "switch --path-hash crc32,paths=4 --listen 0.0.0.0:0",
        "switch --path-hash crc32,paths=4 --listen [::]:0",
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
        assert_eq!((code, lines.len()), (Some(2), 1), "{wrong}: {lines:?}");
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

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = netfold(&format!("completions {shell}")).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{shell}");
        for word in ["controller", "declare", "slots", "p4runtime"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(run("completions tcsh").0, Some(2));
}

/// Each page has its sections, and each command that one names has a page of its own.
fn check_pages(folder: &Path) {
    let mut named = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let page = std::fs::read_to_string(&path).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            let (_, text) = page.split_once(&format!("\n.SH {section}\n")).unwrap_or_default();
            assert!(!text.split(".SH").next().unwrap().trim().is_empty(), "{}: {section}", path.display());
        }
        let commands = page.lines().filter_map(|line| line.strip_prefix("netfold\\-")?.strip_suffix("(1)"));
        for command in commands.map(|command| command.replace('\\', "")) {
            let there = folder.join(format!("netfold-{command}.1")).is_file();
            assert!(there || command.ends_with("help"), "{}: {command} has no page", path.display());
            named += 1;
        }
    }
    assert!(named > 40, "pages name {named} commands");
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = std::env::temp_dir().join(format!("netfold-man-{}", std::process::id()));
    let output = netfold("man --output").arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (page, words) in [
        ("netfold.1", "aggregation for distributed training"),
        ("netfold-switch.1", "listen"),
        ("netfold-bench-all-reduce.1", "Slots of the job"),
        ("netfold-job-declare.1", "Number of workers"),
    ] {
        let text =
            std::fs::read_to_string(folder.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.starts_with(".ie") && text.contains(words), "{page}: {text}");
    }
    check_pages(&folder);
    std::fs::remove_dir_all(folder).unwrap();
    for (command, title) in
        [("man", ".TH netfold 1"), ("man bench all-reduce", ".TH netfold-bench-all-reduce 1")]
    {
        let (code, lines) = run(command);
        assert!(code == Some(0) && text(&lines[0], "text").contains(title), "{}", lines[0]);
    }
    let (code, lines) = run("man bench nothing");
    assert_eq!(code, Some(2), "{lines:?}");
    assert!(
        text(&lines[0], "message").contains("there is no command 'netfold bench nothing'"),
        "{}",
        lines[0]
    );
}

#[test]
fn no_pager_is_started_on_a_terminal() {
    let folder = TemporaryDirectory::new("pager");
    let started = folder.file("started");
    let pager = folder.write("pager", format!("#!/bin/sh\ntouch {started}\n"));
    std::fs::set_permissions(&pager, std::fs::Permissions::from_mode(0o755)).unwrap();
    for command in ["man bench all-reduce", "help bench"] {
        // It gives the command a terminal.
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command"]);
        script.arg(format!("{} {command}", env!("CARGO_BIN_EXE_netfold"))).arg("/dev/null");
        for variable in ["PAGER", "MANPAGER", "NETFOLD_PAGER"] {
            script.env(variable, &pager);
        }
        let Ok(output) = script.env("TERM", "xterm").stdin(Stdio::null()).output() else {
            println!("skipped: terminals, without `script` (Debian's bsdutils)");
            return;
        };
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("all-reduce"), "{command}: {shown}");
        assert!(!Path::new(&started).exists(), "{command} started a pager");
    }
}

#[test]
fn version_has_what_is_compared_before_an_upgrade() {
    let (code, lines) = run("version");
    assert_eq!((code, text(&lines[0], "version")), (Some(0), env!("CARGO_PKG_VERSION")));
    assert_eq!(lines[0]["protocol"], netfold_wire::VERSION, "{}", lines[0]);
    assert_eq!(lines[0]["database"], netfold_server::store::SCHEMA, "{}", lines[0]);
    let (_, switch) = run("switch --listen 127.0.0.1:0 --exit-with-stdin");
    assert_eq!(lines[0]["pipeline"], switch[0]["pipeline"], "a switch of this build has other code");
    let short = netfold("--version").output().unwrap();
    assert_eq!(String::from_utf8(short.stdout).unwrap(), format!("netfold {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_log_level_follows_options() {
    let log = |options: &str| {
        let one = "worker --switch 127.0.0.1:1 --rendezvous 127.0.0.1:0 --job log --rank 0 --world 1";
        let output = netfold(&format!("{one} {options}")).env_remove("RUST_LOG").output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let info = "info: rank 0 of 1";
    assert!(log("-v").contains(info), "{}", log("-v"));
    assert!(!log("").contains(info) && !log("-q").contains(info));
    assert_eq!(run("version -q -v").0, Some(2), "one excludes the other");
}

#[test]
fn the_log_is_json_if_asked_for() {
    let mut command =
        netfold("worker --switch 127.0.0.1:1 --rendezvous 127.0.0.1:0 --job log --rank 0 --world 1 -v");
    let output = command.env_remove("RUST_LOG").env("NETFOLD_LOG_FORMAT", "json").output().unwrap();
    let lines = String::from_utf8(output.stderr).unwrap();
    let parse = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|_| panic!("no JSON: {line}"))
    };
    // The command's own error, if it fails, is no message of the log.
    let entries: Vec<_> = lines.lines().filter(|line| !line.starts_with("error: ")).map(parse).collect();
    let found = entries.iter().find(|entry| text(entry, "message").starts_with("rank 0 of 1"));
    let entry = found.unwrap_or_else(|| panic!("not logged: {lines}"));
    assert_eq!((text(entry, "event"), text(entry, "level")), ("log", "info"), "{entry}");
    assert!(
        text(entry, "target").starts_with("netfold") && entry["at_ms"].as_u64() > Some(1_700_000_000_000),
        "{entry}"
    );
    assert_eq!(run("version --log-format xml").0, Some(2));
}
