//! How long a job waits for its admission.
//!
//! Switches and controllers are processes of the program under test on this machine. A round admits one job of so many workers twice:
//! through a controller with a database, which lays a tree over software switches that it drives over P4Runtime, a spine and leaves
//! below it; and, as the bound, at the control port that a software switch has itself, with nothing between it and its tables. Workers
//! are TCP sessions and UDP sockets that are open already; the time runs from the first request until the last of them is admitted, when
//! all slots are cleared, every worker has validated its path, and all tables are written.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use netfold_control::{Credentials, Join, Mode, PathChallenge, SessionEvent, SessionRequest};
use netfold_proto::PathValidation;
use serde::Serialize;
use serde_json::Value;

use crate::process::{self, Output};
use netfold_testkit::process::Process;
use netfold_testkit::sample::Sample;

/// Longest time for a process to start, or for a job to be admitted.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The tenant whose jobs they are.
const TENANT: &str = "bench";

/// What is measured.
#[derive(Debug, Clone)]
pub struct AdmissionConfig {
    /// The program under test.
    pub program: PathBuf,
    /// A folder for the topology and the database, made if it is not there.
    pub folder: PathBuf,
    /// Workers of the job.
    pub workers: u16,
    /// Switches of its tree: one, or a spine and leaves below it, 3 or more.
    pub switches: u16,
    /// Slots of the job, a power of two.
    pub slots: u32,
    /// Admissions to measure of each kind.
    pub rounds: u32,
}

/// What came of it; times in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdmissionRow {
    /// Workers of the job.
    pub workers: u16,
    /// Switches of its tree.
    pub switches: u16,
    /// Slots that it got at each.
    pub slots: u32,
    /// Admissions measured of each kind.
    pub rounds: u32,
    /// Through the controller: median, and 9 of 10 took no longer.
    pub median_ms: f64,
    /// As above.
    pub p90_ms: f64,
    /// The longest.
    pub longest_ms: f64,
    /// Median at the software switch's own control port.
    pub own_median_ms: f64,
    /// Median of the rounds' ratios of the two.
    pub ratio_to_own: f64,
}

/// Why nothing is measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// A process, a file or a connection cannot be had.
    #[error("cannot {what}")]
    Io {
        /// What was to be done.
        what: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A process ended, or did not say what it should.
    #[error("{name} did not say '{event}' within {STALL_TIMEOUT:?}{}", Errors(.errors))]
    Silent {
        /// Which process.
        name: &'static str,
        /// What was waited for.
        event: &'static str,
        /// The last it wrote on standard error.
        errors: String,
    },
    /// A worker received another reply.
    #[error("rank {rank} was not admitted: {reply}")]
    Refused {
        /// Which worker.
        rank: u16,
        /// The reply.
        reply: String,
    },
}

struct Errors<'a>(&'a str);

impl std::fmt::Display for Errors<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

fn cannot(what: &'static str) -> impl FnOnce(io::Error) -> AdmissionError {
    move |source| AdmissionError::Io { what, source }
}

/// A process and its output.
struct Running {
    process: Process,
    name: &'static str,
    output: Receiver<Output>,
}

impl Running {
    fn start(config: &AdmissionConfig, name: &'static str, arguments: &str) -> Result<Self, AdmissionError> {
        let words: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        let (sender, output): (Sender<Output>, _) = mpsc::channel();
        let process = process::start(&config.program, &words, 0, sender);
        Ok(Self { process: process.map_err(cannot("start the program under test"))?, name, output })
    }

    /// The next line that is `wanted`.
    fn wait(
        &mut self,
        event: &'static str,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Result<Value, AdmissionError> {
        let deadline = Instant::now() + STALL_TIMEOUT;
        loop {
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Output { line: Some(line), .. }) if wanted(&line) => return Ok(line),
                Ok(Output { line: Some(_), .. }) => {}
                Ok(Output { line: None, .. }) | Err(_) => {
                    let errors = self.process.stderr();
                    return Err(AdmissionError::Silent { name: self.name, event, errors });
                }
            }
        }
    }

    /// An address that the next line of a kind has.
    fn address(&mut self, event: &'static str, key: &str) -> Result<SocketAddr, AdmissionError> {
        let line = self.wait(event, |line| line["event"] == event)?;
        let address = line[key].as_str().and_then(|text| text.parse().ok());
        let errors = || AdmissionError::Silent { name: self.name, event, errors: line.to_string() };
        address.ok_or_else(errors)
    }
}

/// Switches and controllers, and how to join at them.
struct AdmissionRig {
    own: Running,
    own_address: SocketAddr,
    controller: Running,
    controller_address: SocketAddr,
    credentials: Credentials,
    _switches: Vec<Running>,
}

impl AdmissionRig {
    fn start(config: &AdmissionConfig) -> Result<Self, AdmissionError> {
        let mut own = Running::start(config, "the switch", "switch --listen 127.0.0.1:0")?;
        let own_address = own.address("listening", "control")?;
        let mut switches = Vec::new();
        let mut at = Vec::new();
        for _ in 0..config.switches {
            let mut switch =
                Running::start(config, "a switch", "switch --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0")?;
            at.push(switch.address("listening", "p4runtime")?);
            switches.push(switch);
        }
        std::fs::create_dir_all(&config.folder).map_err(cannot("make a folder for the database"))?;
        let file = config.folder.join("topology.toml");
        std::fs::write(&file, topology(config, &at)).map_err(cannot("write the topology"))?;
        let mut controller = Running::start(
            config,
            "the controller",
            &format!(
                "controller --insecure --topology {} --state {} --workers 127.0.0.1:0 --listen 127.0.0.1:0 \
                 --http 127.0.0.1:0 --exit-with-stdin",
                file.display(),
                config.folder.join("state.redb").display()
            ),
        )?;
        let controlling = controller.wait("controlling", |line| line["event"] == "controlling")?;
        let address = |key: &str| controlling[key].as_str().unwrap_or_default().to_owned();
        let controller_address = address("workers").parse().map_err(|_| AdmissionError::Silent {
            name: "the controller",
            event: "controlling",
            errors: controlling.to_string(),
        })?;
        let mut up = 0;
        controller.wait("switch_up", |line| {
            up += u16::from(line["kind"] == "switch_up");
            up == config.switches
        })?;
        let add = format!("tenant add {TENANT} --controller {}", address("grpc"));
        let mut added = Running::start(config, "tenant add", &add)?;
        let token = added.wait("tenant_added", |line| line["event"] == "tenant_added")?;
        let token = token["token"].as_str().unwrap_or_default().to_owned();
        let credentials = Credentials { tenant: TENANT.into(), token };
        Ok(Self { own, own_address, controller, controller_address, credentials, _switches: switches })
    }
}

/// A spine and leaves, with the workers' loopback addresses dealt to the leaves; or one switch.
fn topology(config: &AdmissionConfig, at: &[SocketAddr]) -> String {
    let mut text = String::new();
    for (number, p4runtime) in at.iter().enumerate() {
        let role = match (number, at.len()) {
            (_, 1) => "any",
            (0, _) => "spine",
            _ => "leaf",
        };
        let _ = writeln!(
            text,
            "[[switch]]\nname = \"s{number}\"\np4runtime = \"{p4runtime}\"\nrole = \"{role}\"\n"
        );
        if number > 0 {
            let _ = writeln!(text, "[[link]]\na = \"s0\"\nb = \"s{number}\"\n");
        }
    }
    for rank in 0..config.workers {
        let (address, switch) = (address(rank), switch_of(config, rank));
        let _ = writeln!(
            text,
            "[[host]]\nname = \"h{rank}\"\naddresses = [\"{address}\"]\nswitch = \"s{switch}\"\n"
        );
    }
    text
}

/// The address that a rank gives.
fn address(rank: u16) -> Ipv4Addr {
    let [high, low] = (rank + 2).to_be_bytes();
    Ipv4Addr::new(127, 78, high, low)
}

fn switch_of(config: &AdmissionConfig, rank: u16) -> u16 {
    match config.switches {
        1 => 0,
        switches => 1 + rank % (switches - 1),
    }
}

/// A worker: its session, which has not joined yet, and the socket of its packets.
struct Member {
    session: BufReader<TcpStream>,
    socket: UdpSocket,
    switch: SocketAddr,
}

/// Workers whose sessions are open.
struct Sessions(Vec<Member>);

impl Member {
    fn open(rank: u16, to: SocketAddr, own: bool) -> io::Result<Self> {
        let session = TcpStream::connect(to)?;
        session.set_read_timeout(Some(STALL_TIMEOUT))?;
        session.set_nodelay(true)?;
        // A switch's own control port expects packets from the session's address.
        let from = if own { Ipv4Addr::LOCALHOST } else { address(rank) };
        let socket = UdpSocket::bind((from, 0))?;
        Ok(Self { session: BufReader::new(session), socket, switch: to })
    }

    /// The next event that is not a heartbeat.
    fn receive(&mut self, rank: u16) -> Result<SessionEvent, AdmissionError> {
        loop {
            let mut line = String::new();
            self.session.read_line(&mut line).map_err(cannot("hear from a control port"))?;
            match serde_json::from_str(&line) {
                Ok(SessionEvent::Alive {}) => {}
                Ok(event) => return Ok(event),
                Err(_) => return Err(AdmissionError::Refused { rank, reply: line }),
            }
        }
    }

    /// Requests the path token from the switch until it arrives, and sends it to the control port.
    fn validate(&mut self, challenge: PathChallenge) -> Result<(), AdmissionError> {
        let switch = (challenge.switch.unwrap_or(self.switch.ip()), challenge.udp_port);
        let begun = Instant::now();
        let now = || netfold_proto::Instant::ZERO + begun.elapsed();
        let mut validation = PathValidation::new(now(), challenge);
        let cannot_validate = || cannot("validate a path");
        while begun.elapsed() < STALL_TIMEOUT {
            if let Some(request) = validation.poll_transmit(now()) {
                self.socket.send_to(&request, switch).map_err(cannot_validate())?;
            }
            let wait = validation.timeout(now()).max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(wait)).map_err(cannot_validate())?;
            let mut reply = [0; 2048];
            let received = self.socket.recv(&mut reply).ok();
            if let Some(token) = received.and_then(|len| validation.token(&reply[..len])) {
                let line = serde_json::to_string(&SessionRequest::Path { token });
                let line = line.map_err(|error| cannot_validate()(error.into()))? + "\n";
                return self.session.get_mut().write_all(line.as_bytes()).map_err(cannot_validate());
            }
        }
        Err(cannot_validate()(io::ErrorKind::TimedOut.into()))
    }
}

impl Sessions {
    fn open(workers: u16, to: SocketAddr, own: bool) -> Result<Self, AdmissionError> {
        let members: io::Result<Vec<_>> = (0..workers).map(|rank| Member::open(rank, to, own)).collect();
        members.map(Self).map_err(cannot("connect to a control port"))
    }

    /// Joins with all, and returns how long it took and the slots that were granted.
    fn admit(
        &mut self,
        request: impl Fn(u16, u16) -> SessionRequest,
    ) -> Result<(Duration, u32), AdmissionError> {
        let mut lines = Vec::with_capacity(self.0.len());
        for (rank, member) in (0..).zip(&self.0) {
            let port = member.socket.local_addr().map_err(cannot("read the port of a socket"))?.port();
            let line = serde_json::to_string(&request(rank, port));
            lines.push(line.map_err(|error| cannot("write JSON")(error.into()))? + "\n");
        }
        let begun = Instant::now();
        for (member, line) in self.0.iter_mut().zip(&lines) {
            member.session.get_mut().write_all(line.as_bytes()).map_err(cannot("join"))?;
        }
        let refused = |rank, event| AdmissionError::Refused { rank, reply: format!("{event:?}") };
        for (rank, member) in (0..).zip(&mut self.0) {
            match member.receive(rank)? {
                SessionEvent::Path(challenge) => member.validate(challenge)?,
                event => return Err(refused(rank, event)),
            }
        }
        let mut slots = 0;
        for (rank, member) in (0..).zip(&mut self.0) {
            match member.receive(rank)? {
                SessionEvent::Admitted(admission) => slots = admission.slots,
                event => return Err(refused(rank, event)),
            }
        }
        Ok((begun.elapsed(), slots))
    }

    /// Leaves with all, and waits until every connection is closed.
    fn leave(mut self) -> Result<(), AdmissionError> {
        let mut line = serde_json::to_vec(&SessionRequest::Leave {}).unwrap_or_default();
        line.push(b'\n');
        for member in &mut self.0 {
            member.session.get_mut().write_all(&line).map_err(cannot("leave"))?;
        }
        for member in &mut self.0 {
            // Remaining lines, until the end.
            let mut reply = String::new();
            while member.session.read_line(&mut reply).is_ok_and(|bytes| bytes > 0) {}
        }
        Ok(())
    }
}

/// A rank's request; its packets come from the port `udp_port`.
fn request(
    config: &AdmissionConfig,
    job: &str,
    credentials: Option<&Credentials>,
    (rank, udp_port): (u16, u16),
) -> SessionRequest {
    let join = Join::new(job, (rank, config.workers), Mode::Bfp16, config.slots, udp_port);
    // A switch of its own knows workers by where they come from.
    let address = credentials.map(|_| address(rank).into());
    SessionRequest::Join(Join { credentials: credentials.cloned(), address, ..join })
}

/// Measures; `on_round` is called after each round.
///
/// # Errors
///
/// [`AdmissionError`], with nothing left running.
pub fn run(config: &AdmissionConfig, mut on_round: impl FnMut(u32)) -> Result<AdmissionRow, AdmissionError> {
    let mut rig = AdmissionRig::start(config)?;
    let mut times: BTreeMap<bool, Vec<f64>> = BTreeMap::new();
    let mut granted = 0;
    // The first round of each connects what is connected once.
    for round in 0..=config.rounds {
        let job = format!("job-{round}");
        for through in [true, false] {
            let (to, running) = match through {
                true => (rig.controller_address, &mut rig.controller),
                false => (rig.own_address, &mut rig.own),
            };
            let mut sessions = Sessions::open(config.workers, to, !through)?;
            let credentials = through.then_some(&rig.credentials);
            let (time, slots) =
                sessions.admit(|rank, udp_port| request(config, &job, credentials, (rank, udp_port)))?;
            sessions.leave()?;
            running.wait("job_ended", |line| line["event"] == "job_ended" || line["kind"] == "job_ended")?;
            if round > 0 {
                times.entry(through).or_default().push(time.as_secs_f64() * 1e3);
            }
            granted = if through { slots } else { granted };
        }
        on_round(round);
    }
    let (through, own) = (times.remove(&true).unwrap_or_default(), times.remove(&false).unwrap_or_default());
    let ratios: Sample = through.iter().zip(&own).map(|(through, own)| through / own).collect();
    let (through, own): (Sample, Sample) = (through.into_iter().collect(), own.into_iter().collect());
    Ok(AdmissionRow {
        workers: config.workers,
        switches: config.switches,
        slots: granted,
        rounds: config.rounds,
        median_ms: through.median(),
        p90_ms: through.percentile(90),
        longest_ms: through.max(),
        own_median_ms: own.median(),
        ratio_to_own: ratios.median(),
    })
}
