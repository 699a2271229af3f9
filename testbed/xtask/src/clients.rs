//! Virtual environments with the P4Runtime clients that the software switch is tested with. They want different versions
//! of protobuf, so each has one of its own; both are kept between runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::{metadata, process};

/// One client.
struct Client {
    name: &'static str,
    /// Variable by which its tests are told of an interpreter that has it.
    variable: &'static str,
    /// Calls of `pip install`, one after the other.
    steps: &'static [&'static [&'static str]],
    /// What to import to see that it is there.
    module: &'static str,
}

const CLIENTS: &[Client] = &[
    Client {
        name: "p4runtime-shell",
        variable: "NETFOLD_TEST_P4RUNTIME_SHELL",
        // A dependency is built from source, by a setuptools that still has pkg_resources.
        steps: &[
            &["setuptools<80", "wheel", "pbr"],
            &["--no-build-isolation", "p4runtime-shell==0.0.6", "protobuf==3.20.3"],
        ],
        module: "p4runtime_sh.shell",
    },
    Client {
        name: "finsy",
        variable: "NETFOLD_TEST_FINSY",
        steps: &[&["finsy==0.30.0", "protobuf>=6.33,<7"]],
        module: "finsy",
    },
];

/// Interpreters to try. The second is Debian's, for when the first cannot make virtual environments.
const PYTHONS: &[&str] = &["python3", "/usr/bin/python3"];

/// What an interpreter needs: finsy's syntax, and what makes environments.
const NEEDED: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";

/// Makes the environments that are missing. Returns variables and interpreters; says what is left out.
pub(crate) fn interpreters() -> Result<Vec<(&'static str, PathBuf)>> {
    let folder = metadata::target_folder()?.join("clients");
    let python = PYTHONS.iter().find(|python| process::works(python, &["-c", NEEDED]));
    let mut found = Vec::new();
    for client in CLIENTS {
        if std::env::var_os(client.variable).is_some() {
            continue;
        }
        let place = folder.join(client.name);
        let there = place.join("bin/python");
        match python {
            _ if client.is_ready(&place) => found.push((client.variable, there)),
            Some(python) if client.make(python, &place) => found.push((client.variable, there)),
            Some(_) => println!("skipped: {}, which pip cannot install", client.name),
            None => println!(
                "skipped: {}, without a Python of 3.10 or later that makes environments (python3-venv)",
                client.name
            ),
        }
    }
    Ok(found)
}

/// Makes the environments and prints the variables, for tests that are run by hand.
pub(crate) fn run() -> Result<()> {
    for (variable, python) in interpreters()? {
        println!("export {variable}={}", python.display());
    }
    Ok(())
}

impl Client {
    /// What stands in an environment that is complete.
    fn stamp(&self) -> String {
        format!("{:?}\n", self.steps)
    }

    fn is_ready(&self, place: &Path) -> bool {
        fs::read_to_string(place.join("complete")).is_ok_and(|stamp| stamp == self.stamp())
            && self.imports(place)
    }

    fn imports(&self, place: &Path) -> bool {
        let mut python = Command::new(place.join("bin/python"));
        succeeds(python.args(["-c", &format!("import {}", self.module)]))
    }

    fn make(&self, python: &str, place: &Path) -> bool {
        println!("making an environment with {} in {}", self.name, place.display());
        let _ = fs::remove_dir_all(place);
        let made = succeeds(Command::new(python).args(["-m", "venv"]).arg(place));
        let pip = |step: &[&str]| {
            let mut pip = Command::new(place.join("bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2"]);
            succeeds(pip.args(step))
        };
        made && self.steps.iter().all(|step| pip(step))
            && self.imports(place)
            && fs::write(place.join("complete"), self.stamp()).is_ok()
    }
}

fn succeeds(command: &mut Command) -> bool {
    // A PYTHONPATH for another interpreter would hide what is missing.
    command.env_remove("PYTHONPATH").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
