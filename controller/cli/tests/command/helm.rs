//! The Helm chart: rendered by Helm's library, validated by Kubernetes' schemas, and its command lines compared with the command's options.

use std::path::Path;
use std::process::Command;

/// What the checks end with where they cannot run.
const SKIPPED: i32 = 77;

#[test]
fn the_chart_renders_what_kubernetes_and_the_command_accept() {
    let check = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/helm/check.py");
    // An interpreter that has the packages, where python3 has not.
    let python = std::env::var("NETFOLD_TEST_HELM").unwrap_or_else(|_| "python3".into());
    let Ok(done) = Command::new(python).arg(check).arg(env!("CARGO_BIN_EXE_netfold")).output() else {
        println!("skipped: Helm: no python3");
        return;
    };
    let output = String::from_utf8_lossy(&done.stdout);
    if done.status.code() == Some(SKIPPED) {
        println!("{}", output.trim());
        return;
    }
    assert!(done.status.success(), "{output}{}", String::from_utf8_lossy(&done.stderr));
}
