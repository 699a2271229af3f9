//! A running `netfold --json` and what it has printed so far.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitStatus, Stdio};

use netfold_testkit::namespace::command_in;
use netfold_testkit::process as testkit;
use serde_json::Value;

/// `netfold` with these arguments, words separated by spaces.
pub(crate) fn netfold(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netfold"));
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    command
}

/// The same in a network namespace.
pub(crate) fn netfold_within(namespace: &str, arguments: &str) -> Command {
    let mut command = command_in(namespace, env!("CARGO_BIN_EXE_netfold"));
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    command
}

/// Runs `netfold --json` to its end; returns its exit code and its lines.
pub(crate) fn run(arguments: &str) -> (Option<i32>, Vec<Value>) {
    let mut process = Process::start(arguments);
    let status = process.wait();
    (status.code(), process.rest())
}

/// The status and the body of an HTTP request; status 0 if there is no answer.
pub(crate) fn http_get(address: SocketAddr, path: &str) -> (u16, String) {
    http_get_for(address, path, "localhost")
}

/// The same for a host.
pub(crate) fn http_get_for(address: SocketAddr, path: &str, host: &str) -> (u16, String) {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        // A broken connection is no answer.
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .and_then(|()| stream.read_to_string(&mut answer));
    }
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned()))
}

/// A running `netfold --json`, killed when dropped.
pub(crate) struct Process(testkit::Process);

impl Process {
    pub(crate) fn start(arguments: &str) -> Self {
        Self::spawn(netfold(arguments))
    }

    /// A command of netfold's, to which `--json` is added.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.arg("--json");
        Self(testkit::Process::spawn(command))
    }

    /// A switch on any free port, and the address that workers need.
    pub(crate) fn switch(more: &str) -> (Self, String) {
        let mut switch = Self::start(&format!("switch --listen 127.0.0.1:0 {more}"));
        let control = text(&switch.event("listening"), "control").to_owned();
        (switch, control)
    }

    /// Waits for the next event of a kind, skipping others.
    pub(crate) fn event(&mut self, kind: &str) -> Value {
        self.0.expect(format_args!("'{kind}'"), |line| Some(json(line)).filter(|line| line["event"] == kind))
    }

    /// The next event of this kind; `pass` gets those before.
    pub(crate) fn event_after(&mut self, kind: &str, pass: impl Fn(&Value)) -> Value {
        self.0.expect(format_args!("'{kind}'"), |line| {
            let line = json(line);
            if line["event"] == kind {
                return Some(line);
            }
            pass(&line);
            None
        })
    }

    /// All lines to the end of the process, except those waited for or skipped.
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        self.0.rest().iter().map(|line| json(line)).collect()
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.0.wait()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.has_ended()
    }

    /// Ends it by SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.0.kill();
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        self.0.signal(name);
    }
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))
}

/// A key that must hold text.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("'{key}' is no text in {value}"))
}

/// A key that must hold a number.
pub(crate) fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("'{key}' is no number in {value}"))
}

/// The namespaces that a process has made, by name.
pub(crate) fn namespaces(process: u32) -> Vec<String> {
    let names = std::fs::read_dir("/var/run/netns").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("netfold-{process}-"))).collect()
}

/// The parent of a process.
fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The processes that a process has started, and that have not ended.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|process| parent_of(*process) == Some(parent)).collect()
}
