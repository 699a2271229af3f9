//! `netfold p4`.

use crate::process::{netfold, number, run, text};

fn stdout(arguments: &str) -> Vec<u8> {
    let output = netfold(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments}");
    output.stdout
}

#[test]
fn output_is_deterministic_and_depends_on_the_profile() {
    let first = stdout("p4 emit --target v1model");
    assert_eq!(first, stdout("p4 emit --target v1model"));
    assert!(first.ends_with(b"main;\n"));
    assert_ne!(first, stdout("p4 emit --target v1model --slots 256"));
    assert_ne!(first, stdout("p4 emit --target v1model --ops sum"));
    assert_ne!(first, stdout("p4 emit --target v1model --datagram"));

    let path = std::env::temp_dir().join(format!("netfold-emit-{}.p4", std::process::id()));
    let output = netfold("p4 emit --target v1model -o").arg(&path).output().unwrap();
    let written = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    assert_eq!(written, first);
}

#[test]
fn tofino_2_takes_256_words_in_four_passes() {
    let printed = String::from_utf8(stdout("p4 emit --target t2na --lanes 256")).unwrap();
    assert!(printed.contains("header pass_t {") && printed.ends_with("main;\n"));
    let (_, lines) = run("p4 estimate --target tofino2 --lanes 256 --workers 8");
    let line = &lines[0];
    let found = ["pipes", "passes", "passes_last", "recirculated"].map(|key| number(line, key));
    assert_eq!(found, [1.0, 4.0, 7.0, 3.375], "{line}");
    let bytes = number(line, "recirculated_bytes");
    assert!(bytes < 2.0 && number(line, "ports_for_hosts") == 1.0 / (1.0 + bytes), "{line}");
}

#[test]
fn info_has_the_size_of_state_and_p4info_the_tables() {
    let (_, lines) = run("p4 info --slots 512");
    // Lanes of both sets, and the bookkeeping on top.
    assert!(number(&lines[0], "state_bytes") > 512.0 * 2.0 * 256.0, "{}", lines[0]);
    let p4info = String::from_utf8(stdout("p4 info --format p4info")).unwrap();
    assert!(p4info.contains("tables {") && p4info.contains("registers {"), "{p4info}");
}

#[test]
fn an_unwritable_file_is_an_error() {
    let (code, lines) = run("p4 emit --target v1model -o /nowhere/at/all.p4");
    let error = lines.last().unwrap();
    assert_eq!((code, text(error, "kind")), (Some(1), "file"), "{error}");
    assert!(text(error, "message").contains("/nowhere/at/all.p4"));
}

#[test]
fn a_profile_that_does_not_fit_a_target_names_those_that_do() {
    for (wrong, target, fits) in [
        ("p4 emit --target tna --profile hardware", "tna", "tofino"),
        ("p4 emit --target tna --profile tofino --ops sum,max --lanes 64", "tna", "tofino"),
        ("p4 emit --target t2na --profile tofino --owners true --lanes 72", "t2na", "tofino"),
        ("p4 emit --target t2na --lanes 256 --slots 8192", "t2na", "tofino"),
        ("p4 emit --target t2na --lanes 256 --owners true", "t2na", "tofino"),
        ("p4 emit --target tna --lanes 256", "tna", "tofino"),
        ("p4 emit --target pna --profile hardware", "pna", "nic"),
        ("p4 emit --target swx --profile float", "swx", "hardware"),
        ("p4 emit --target xdp --profile half", "xdp", "hardware"),
        ("p4 estimate --target tofino1 --profile hardware", "tofino1", "tofino"),
    ] {
        let (code, lines) = run(wrong);
        let message = text(lines.last().unwrap(), "message");
        assert_eq!(code, Some(2), "{wrong}: {message}");
        assert!(message.contains(&format!("does not fit the target {target}")), "{wrong}: {message}");
        let (_, named) =
            message.split_once("profiles that fit without other options: ").expect("the profiles are named");
        assert!(named.contains(fits), "{wrong}: {message}");
    }
}
