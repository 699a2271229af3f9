//! Scripts that P4Testgen derives from a printed program: one packet for each path through it that it finds, with entries and the output that P4
//! prescribes.
//!
//! A test of P4Testgen is one packet to a switch without state. Registers are 0, and a packet to a multicast group is dropped, since there are no groups.
//! So its tests cover the parser, checks, tables and the first contribution to a slot; what depends on earlier packets is for random sequences.

use std::process::Command;
use std::{fs, io};

use netfold_p4::check::CheckError;
use netfold_p4::ir::Program;
use netfold_p4::v1model;
use netfold_testkit::directory::TemporaryDirectory;

use super::{Script, Statement, StfError};

/// The tool.
const TOOL: &str = "p4testgen";

/// Ports of packets: what every target has.
const PORTS: &str = "0:15";

/// Bits of a port in v1model; the last drops a packet, and is none elsewhere.
const PORT_MASK: u64 = 0x1ff;

/// Bits of a packet: from an Ethernet header, so that every target takes it.
const BITS: &str = "112:12000";

/// What P4Testgen has written for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The scripts by name, with their text.
    pub scripts: Vec<(String, String, Script)>,
    /// Statements of the program that they reach, and all of its statements.
    pub statements: [u32; 2],
}

/// Why there are no scripts.
#[derive(Debug, thiserror::Error)]
pub enum TestgenError {
    /// The program is not valid.
    #[error("the program is not printed")]
    Print(#[from] CheckError),
    /// Files cannot be written or read, or the tool does not start.
    #[error("{TOOL} does not run")]
    Io(#[from] io::Error),
    /// The tool failed.
    #[error("{TOOL}: {0}")]
    Failed(String),
    /// A script of the tool is not one of ours.
    #[error("{name}: {source}\n{text}")]
    Script {
        /// Its name.
        name: String,
        /// Its text.
        text: String,
        /// What is wrong.
        source: StfError,
    },
}

/// Whether the tool is on the PATH.
pub fn is_present() -> bool {
    Command::new(TOOL).arg("--version").output().is_ok()
}

/// Has P4Testgen write at most `tests` scripts for the program as it is printed for v1model: the same ones each time.
///
/// # Errors
///
/// [`TestgenError`], also when the tool is absent: see [`is_present`].
pub fn generate(program: &Program, tests: u32) -> Result<Generated, TestgenError> {
    let text = v1model::print(program)?;
    let dir = TemporaryDirectory::new("testgen");
    let source = dir.path().join("program.p4");
    fs::write(&source, text)?;
    let mut command = Command::new(TOOL);
    command.args(["--target", "bmv2", "--arch", "v1model", "--std", "p4-16", "--test-backend", "STF"]);
    command.args(["--seed", "1", "--path-selection", "RANDOM_BACKTRACK", "--track-coverage", "STATEMENTS"]);
    command.args(["--port-ranges", PORTS, "--packet-size-range", BITS]);
    command.args(["--max-tests", &tests.to_string(), "--out-dir"]).arg(dir.path());
    let output = command.arg(&source).output()?;
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let covered = said.lines().filter_map(covered).next_back();
    let (true, Some(statements)) = (output.status.success(), covered) else {
        return Err(TestgenError::Failed(said));
    };
    let mut scripts = Vec::new();
    for entry in fs::read_dir(dir.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "stf") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (text, script) = read(&name, &fs::read_to_string(&path)?)?;
            if !drops_by_port(&script) {
                scripts.push((name, text, script));
            }
        }
    }
    scripts.sort_by(|(one, ..), (other, ..)| (one.len(), one).cmp(&(other.len(), other)));
    Ok(Generated { scripts, statements })
}

/// Whether an entry forwards to the port that drops.
fn drops_by_port(script: &Script) -> bool {
    script.statements.iter().any(|(_, statement)| match statement {
        Statement::Add { params, .. } => {
            params.iter().any(|(name, port)| name == "port" && *port == PORT_MASK)
        }
        _ => false,
    })
}

/// Reads a script of P4Testgen's, which has quotes around all names, ours only around those of counters, and ports in actions of more bits than
/// v1model has, which sends to the lower 9. Returns the text as well.
///
/// # Errors
///
/// [`TestgenError::Script`].
pub fn read(name: &str, text: &str) -> Result<(String, Script), TestgenError> {
    let text = text.replace('"', "");
    match Script::parse(&text) {
        Ok(mut script) => {
            for (_, statement) in &mut script.statements {
                if let Statement::Add { params, .. } = statement {
                    let ports = params.iter_mut().filter(|(name, _)| name == "port");
                    ports.for_each(|(_, port)| *port &= PORT_MASK);
                }
            }
            Ok((text, script))
        }
        Err(source) => Err(TestgenError::Script { name: name.to_owned(), text, source }),
    }
}

/// The numbers of a line `... Nodes covered: 0.84 (234/278) ...`.
fn covered(line: &str) -> Option<[u32; 2]> {
    let (_, counts) = line.split_once("Nodes covered: ")?;
    let (_, counts) = counts.split_once('(')?;
    let (counts, _) = counts.split_once(')')?;
    let (reached, all) = counts.split_once('/')?;
    Some([reached.parse().ok()?, all.parse().ok()?])
}
