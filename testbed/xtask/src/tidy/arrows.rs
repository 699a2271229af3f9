//! The direction of every dependency between the workspace's packages.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{metadata, tree};

/// What each package may depend on, build dependencies included. A new package must be entered here and in
/// docs/architecture.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("netfold-testkit", &[]),
    ("netfold-wire", &[]),
    ("netfold-listener", &[]),
    ("netfold-control", &["netfold-wire"]),
    ("netfold-proto", &["netfold-wire", "netfold-control"]),
    ("netfold-bpf", &[]),
    ("netfold-io", &["netfold-wire", "netfold-listener", "netfold-bpf"]),
    ("netfold-io-conformance", &["netfold-io", "netfold-testkit"]),
    ("netfold-dpdk", &["netfold-io"]),
    ("netfold-p4", &["netfold-wire", "netfold-bpf"]),
    ("netfold-p4-printed", &["netfold-p4"]),
    ("netfold-xdp", &["netfold-bpf", "netfold-p4"]),
    ("netfold-p4-runtime", &["netfold-p4"]),
    ("netfold-switch", &["netfold-wire", "netfold-io", "netfold-p4"]),
    (
        "netfold-switch-p4runtime",
        &[
            "netfold-wire",
            "netfold-listener",
            "netfold-io",
            "netfold-p4",
            "netfold-p4-runtime",
            "netfold-switch",
        ],
    ),
    ("netfold-switch-swx", &["netfold-dpdk", "netfold-p4", "netfold-switch"]),
    ("netfold-controller", &["netfold-wire", "netfold-listener", "netfold-control", "netfold-p4"]),
    (
        "netfold-southbound",
        &["netfold-wire", "netfold-p4", "netfold-p4-runtime", "netfold-xdp", "netfold-controller"],
    ),
    ("netfold-collectives", &["netfold-wire", "netfold-listener"]),
    (
        "netfold-embedded",
        &[
            "netfold-wire",
            "netfold-listener",
            "netfold-control",
            "netfold-io",
            "netfold-p4",
            "netfold-switch",
            "netfold-controller",
        ],
    ),
    (
        "netfold-server",
        &[
            "netfold-wire",
            "netfold-listener",
            "netfold-control",
            "netfold-p4",
            "netfold-switch",
            "netfold-switch-p4runtime",
            "netfold-controller",
            "netfold-southbound",
            "netfold-embedded",
        ],
    ),
    (
        "netfold-connect-errors",
        &["netfold-wire", "netfold-controller", "netfold-server", "netfold-collectives", "netfold-testkit"],
    ),
    ("netfold-cuda", &[]),
    (
        "netfold",
        &[
            "netfold-wire",
            "netfold-control",
            "netfold-proto",
            "netfold-io",
            "netfold-collectives",
            "netfold-cuda",
        ],
    ),
    ("netfold-fake-cuda", &["netfold-cuda", "netfold"]),
    ("netfold-c", &["netfold"]),
    ("netfold-check", &["netfold-wire", "netfold-io", "netfold"]),
    ("netfold-nccl", &["netfold", "netfold-listener"]),
    ("netfold-python", &["netfold", "netfold-embedded"]),
    ("netfold-train", &[]),
    (
        "netfold-simulate",
        &[
            "netfold-wire",
            "netfold-control",
            "netfold-proto",
            "netfold-io",
            "netfold-p4",
            "netfold-switch",
            "netfold-controller",
            "netfold-server",
            "netfold",
            "netfold-testkit",
            "netfold-train",
        ],
    ),
    (
        "netfold-measure",
        &[
            "netfold-wire",
            "netfold-control",
            "netfold-proto",
            "netfold-io",
            "netfold-dpdk",
            "netfold-bpf",
            "netfold-p4",
            "netfold-xdp",
            "netfold-switch",
            "netfold",
            "netfold-testkit",
        ],
    ),
    (
        "netfold-lab",
        &[
            "netfold-wire",
            "netfold-listener",
            "netfold-control",
            "netfold-io",
            "netfold-dpdk",
            "netfold-p4",
            "netfold-p4-runtime",
            "netfold-switch",
            "netfold-switch-p4runtime",
            "netfold-switch-swx",
            "netfold-controller",
            "netfold-southbound",
            "netfold-embedded",
            "netfold",
            "netfold-measure",
            "netfold-xdp",
            "netfold-testkit",
        ],
    ),
    (
        "netfold-cli",
        &[
            "netfold-wire",
            "netfold-listener",
            "netfold-control",
            "netfold-proto",
            "netfold-io",
            "netfold-dpdk",
            "netfold-p4",
            "netfold-p4-runtime",
            "netfold-switch",
            "netfold-xdp",
            "netfold-switch-p4runtime",
            "netfold-switch-swx",
            "netfold-controller",
            "netfold-southbound",
            "netfold-embedded",
            "netfold-server",
            "netfold",
            "netfold-check",
            "netfold-lab",
            "netfold-measure",
            "netfold-simulate",
            "netfold-testkit",
            "netfold-train",
        ],
    ),
    ("xtask", &["netfold-wire", "netfold-proto"]),
];

/// The packages that may use an asynchronous runtime: the data path is synchronous, and uses connection admission without the feature that
/// needs one. The laboratory talks gRPC to bmv2's own
/// data plane, on a thread of its own; so is the software switch's P4Runtime server, apart from the thread of the packets.
const ASYNC: &[&str] = &[
    "netfold-listener",
    "netfold-controller",
    "netfold-southbound",
    "netfold-server",
    "netfold-switch-p4runtime",
    "netfold-cli",
    "netfold-connect-errors",
    "netfold-lab",
];

/// Packages whose library must forbid unsafe code for good.
const NO_UNSAFE: &[(&str, &str)] = &[
    ("netfold-listener", "dataplane/listener/src/lib.rs"),
    ("netfold-wire", "dataplane/wire/src/lib.rs"),
    ("netfold-control", "dataplane/control/src/lib.rs"),
    ("netfold-proto", "dataplane/proto/src/lib.rs"),
    ("netfold-controller", "controller/src/lib.rs"),
    ("netfold-southbound", "controller/southbound/src/lib.rs"),
    ("netfold-embedded", "controller/embedded/src/lib.rs"),
    ("netfold-server", "controller/server/src/lib.rs"),
    ("netfold-check", "hostlib/check/src/lib.rs"),
    ("netfold-collectives", "hostlib/collectives/src/mesh.rs"),
    ("netfold-p4-printed", "p4/printed/src/lib.rs"),
    ("netfold-p4-runtime", "p4/runtime/src/lib.rs"),
    ("netfold-switch-p4runtime", "dataplane/switch/p4runtime/src/lib.rs"),
    ("netfold-switch-swx", "dataplane/switch/swx/src/lib.rs"),
    ("netfold-xdp", "dataplane/xdp/src/lib.rs"),
];

/// Arrows that point the wrong way.
pub(super) fn check() -> Result<Vec<String>> {
    let metadata = metadata::metadata()?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut problems: Vec<String> = packages.iter().flat_map(wrong_arrows).collect();
    for (name, path) in NO_UNSAFE {
        let text = tree::text(path.as_ref()).unwrap_or_default();
        if !text.contains("#![forbid(unsafe_code)]") {
            problems.push(format!("{path}: {name} must forbid unsafe code"));
        }
    }
    Ok(problems)
}

fn wrong_arrows(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{name}: enter the package in the table of dependency arrows")];
    };
    let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut problems = Vec::new();
    for dependency in dependencies {
        // Tests may reach up; what is shipped may not.
        if dependency["kind"].as_str() == Some("dev") {
            continue;
        }
        let to = dependency["name"].as_str().unwrap_or_default();
        let internal = ARROWS.iter().any(|(known, _)| *known == to);
        if internal && !allowed.contains(&to) {
            problems.push(format!("{name} must not depend on {to}"));
        }
        if to == "tokio" && !ASYNC.contains(&name) {
            problems.push(format!("{name} must not depend on tokio: the data path is synchronous"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_itself_has_no_cycle() {
        let mut known: Vec<&str> = Vec::new();
        for (name, allowed) in ARROWS {
            assert!(allowed.iter().all(|to| known.contains(to)), "{name} comes before what it depends on");
            known.push(name);
        }
    }

    #[test]
    fn wrong_arrows_are_told() {
        let package = |name: &str, to: &str, kind: Value| serde_json::json!({"name": name, "dependencies": [{"name": to, "kind": kind}]});
        assert_eq!(wrong_arrows(&package("netfold-wire", "netfold-io", Value::Null)).len(), 1);
        assert_eq!(wrong_arrows(&package("netfold-proto", "tokio", Value::Null)).len(), 1);
        assert_eq!(wrong_arrows(&package("netfold-new", "serde", Value::Null)).len(), 1);
        assert!(wrong_arrows(&package("netfold-proto", "netfold-switch", "dev".into())).is_empty());
        assert!(wrong_arrows(&package("netfold-proto", "netfold-wire", Value::Null)).is_empty());
    }
}
