//! A running `simple_switch_grpc`.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::compile::Folder;
use super::{CPU_PORT, SWITCH, find};

/// How a switch is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bmv2Config {
    /// Network interfaces by port. None means that packets go over gRPC, for a [`super::DataPlane`].
    pub interfaces: Vec<(u16, String)>,
    /// Network namespace to run in, as `ip netns` knows it; needs the privilege to enter it.
    pub namespace: Option<String>,
    /// Whether every packet and table hit is logged: slow, and kept for error messages.
    pub log: bool,
    /// How P4Runtime is secured, as far as the switch was built with that; `None`: not at all.
    pub tls: Option<Bmv2Tls>,
    /// How long the switch may take to listen.
    pub ready_within: Duration,
}

/// Files (PEM) by which a switch is known and knows its controllers. The packet server has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bmv2Tls {
    /// The switch's certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority whose certificates controllers must have; `None`: they need none.
    pub client_ca: Option<PathBuf>,
}

impl Default for Bmv2Config {
    /// Packets over gRPC, in this process' namespace.
    fn default() -> Self {
        let ready_within = Duration::from_secs(20);
        Self { interfaces: Vec::new(), namespace: None, log: false, tls: None, ready_within }
    }
}

/// A running switch without a program, as device 1. It ends when this is dropped.
///
/// Its P4Runtime and packet servers listen on Unix sockets in a folder of its own, so that any number of switches run
/// beside each other, and a controller outside the switch's network namespace reaches it.
///
/// The switch is ended by the shell that watches it: a small process that waits for this one's end of a pipe to
/// close. So it also ends when this process is killed.
#[derive(Debug)]
pub struct Bmv2 {
    child: Child,
    log: Arc<Mutex<ProcessLog>>,
    p4runtime: String,
    data_plane: Option<String>,
    /// Last, so that the sockets go after the process.
    _folder: Folder,
}

/// The last lines that a switch has printed.
#[derive(Debug, Default)]
struct ProcessLog {
    lines: std::collections::VecDeque<String>,
}

/// Lines kept for error messages.
const LINES_MAX: usize = 400;

/// Interval between looks at a starting switch.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs the switch as a child and ends it when standard input closes. `$@` is the switch's command line.
const WATCH: &str = r#"
exec 3<&0
"$@" </dev/null & switch=$!
trap 'kill -KILL $switch 2>/dev/null; exit 143' TERM INT HUP
( while read -r _; do :; done; kill -KILL $switch ) <&3 >/dev/null 2>&1 &
exec 3<&-
wait $switch; code=$?
kill $! 2>/dev/null
exit $code
"#;

/// Why a switch does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Bmv2Error {
    /// No temporary folder.
    #[error("cannot create {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The switch, or what starts it, cannot be run.
    #[error("{SWITCH} cannot be run: install it (see p4.org) and put it on PATH")]
    Tool(#[source] io::Error),
    /// The switch ended at once.
    #[error("{SWITCH} has ended ({status}); its log:\n{log}")]
    Ended {
        /// How it ended.
        status: String,
        /// The last it printed.
        log: String,
    },
    /// The switch runs but does not listen.
    #[error("{SWITCH} does not listen after {within:?}; its log:\n{log}")]
    NotReady {
        /// How long it was waited for.
        within: Duration,
        /// The last it printed.
        log: String,
    },
}

impl Bmv2 {
    /// Starts a switch and waits until it listens.
    ///
    /// # Errors
    ///
    /// [`Bmv2Error`] with what the switch printed.
    pub fn start(config: Bmv2Config) -> Result<Self, Bmv2Error> {
        // The shell would start all the same.
        find(SWITCH).ok_or_else(|| Bmv2Error::Tool(io::ErrorKind::NotFound.into()))?;
        let folder = Folder::create("bmv2").map_err(|(path, source)| Bmv2Error::Folder { path, source })?;
        let socket = |name: &str| format!("unix:{}", folder.path().join(name).display());
        let p4runtime = socket("p4runtime");
        let data_plane = config.interfaces.is_empty().then(|| socket("packets"));
        let command = command(&config, &p4runtime, data_plane.as_deref());
        let mut child = Command::new("sh")
            .args(["-c", WATCH, "sh"])
            .args(command)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Bmv2Error::Tool)?;
        let log = Arc::<Mutex<ProcessLog>>::default();
        for output in [child.stdout.take().map(reader), child.stderr.take().map(reader)].into_iter().flatten()
        {
            let log = Arc::clone(&log);
            std::thread::spawn(move || keep(output, &log));
        }
        let mut bmv2 = Self { child, log, p4runtime, data_plane, _folder: folder };
        bmv2.wait_ready(config.ready_within)?;
        Ok(bmv2)
    }

    fn wait_ready(&mut self, within: Duration) -> Result<(), Bmv2Error> {
        let deadline = Instant::now() + within;
        let mut addresses = vec![self.p4runtime.clone()];
        addresses.extend(self.data_plane.clone());
        while !addresses.is_empty() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Bmv2Error::Ended { status: status.to_string(), log: self.log() });
            }
            if Instant::now() >= deadline {
                return Err(Bmv2Error::NotReady { within, log: self.log() });
            }
            addresses.retain(|address| UnixStream::connect(address.trim_start_matches("unix:")).is_err());
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Address of the P4Runtime server, as a controller's client takes it.
    pub fn p4runtime(&self) -> &str {
        &self.p4runtime
    }

    /// Address of the packet server; `None` when the switch has network interfaces instead.
    pub fn data_plane(&self) -> Option<&str> {
        self.data_plane.as_deref()
    }

    /// The last that the switch has printed.
    pub fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    /// Whether the switch still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Bmv2 {
    fn drop(&mut self) {
        // The shell ends the switch when its input closes, and then itself.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn command(config: &Bmv2Config, p4runtime: &str, data_plane: Option<&str>) -> Vec<String> {
    let mut command: Vec<String> = Vec::new();
    if let Some(namespace) = &config.namespace {
        command.extend(["ip", "netns", "exec", namespace].map(String::from));
    }
    command.extend([SWITCH, "--no-p4", "--device-id", "1"].map(String::from));
    if has_thrift() {
        // It cannot be turned off, but it takes any free port.
        command.extend(["--thrift-port", "0"].map(String::from));
    }
    for (port, interface) in &config.interfaces {
        command.extend(["-i".into(), format!("{port}@{interface}")]);
    }
    if config.log {
        command.extend(["--log-console", "-L", "debug"].map(String::from));
    }
    command.extend(["--", "--grpc-server-addr", p4runtime].map(String::from));
    command.extend(["--cpu-port".into(), CPU_PORT.to_string()]);
    // As many as a profile may ask for: a packet of a priority that there is no queue for is dropped.
    command.extend(["--priority-queues", "8"].map(String::from));
    if let Some(Bmv2Tls { certificate, key, client_ca }) = &config.tls {
        let file = |path: &PathBuf| path.display().to_string();
        command.push("--grpc-server-ssl".into());
        command.extend([
            "--grpc-server-cert".into(),
            file(certificate),
            "--grpc-server-key".into(),
            file(key),
        ]);
        if let Some(authority) = client_ca {
            command.extend(["--grpc-server-cacert".into(), file(authority)]);
            command.push("--grpc-server-with-client-auth".into());
        }
    }
    if let Some(address) = data_plane {
        command.extend(["--dp-grpc-server-addr", address].map(String::from));
    }
    command
}

/// Whether the switch was built with Thrift, and so takes a port for it, as its help text shows.
fn has_thrift() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let help = Command::new(SWITCH).arg("--help").output();
        help.is_ok_and(|help| {
            let log = [help.stdout, help.stderr].concat();
            String::from_utf8_lossy(&log).contains("--thrift-port")
        })
    })
}

fn reader(output: impl io::Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::new(output))
}

fn keep(output: Box<dyn BufRead + Send>, log: &Mutex<ProcessLog>) {
    for line in output.split(b'\n').map_while(Result::ok) {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.lines.len() >= LINES_MAX {
            log.lines.pop_front();
        }
        log.lines.push_back(String::from_utf8_lossy(&line).into_owned());
    }
}
