//! `netfold controller`: shares switches among the jobs of several tenants, until it is told to stop.

mod election;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use netfold_control::CongestionAlgorithm;
use netfold_controller::ServerError;
use netfold_controller::bands::{Banding, Bands, Ranking};
use netfold_controller::policy::Sharing;
use netfold_controller::topology::Topology;
use netfold_controller::view::Occurrence;
use netfold_server::access::{Access, hashes};
use netfold_server::dev::{DevConfig, DevController, DevError, TENANTS};
use netfold_server::{
    Controller, ControllerConfig, ControllerError, FrontendConfig, FrontendError, JobConfig, RecordLocation,
    Tls,
};
use netfold_wire::Dscp;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use self::election::EtcdOptions;
use super::remote::clock;
use crate::error::CliError;
use crate::lifetime::Stop;
use crate::output::{Output, Tone};
use crate::size::Bits;

/// How often the command looks at the request to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Longest file of tokens or certificates, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  netfold controller --dev                 to try things: a software switch in this process, two tenants, no tokens
  netfold controller --topology fabric.toml --state state.redb --workers 10.0.0.1:20041 \\
      --admin-tokens admins --tls-cert cert.pem --tls-key key.pem --listen 0.0.0.0:20042
  netfold controller --topology fabric.toml --etcd http://10.0.0.5:2379 ...    and the same on another host, to stand by

Workers join at --workers; see docs/controller.md for everything else.";

/// Run a controller until it is told to stop: switches of a topology, shared among tenants.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ControllerCommand {
    /// Try things: one software switch in this process, two tenants without tokens, on loopback addresses only.
    #[arg(long, conflicts_with = "topology")]
    dev: bool,
    /// The switches, hosts and links, as docs/topology.md describes them.
    #[arg(long, value_name = "FILE", required_unless_present = "dev")]
    topology: Option<PathBuf>,
    /// The database; made if it is not there. With --dev, one that goes with the process unless given.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["dev", "etcd"])]
    state: Option<PathBuf>,
    #[command(flatten)]
    etcd: EtcdOptions,
    /// Address of the port where workers join; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:20041")]
    workers: SocketAddr,
    /// Address of gRPC.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:20042")]
    listen: SocketAddr,
    /// Address of the page and of the metrics.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:20043")]
    http: SocketAddr,
    /// Tokens of administrators, one a line.
    #[arg(long, value_name = "FILE")]
    admin_tokens: Option<PathBuf>,
    /// Tokens of readers, one a line.
    #[arg(long, value_name = "FILE", requires = "admin_tokens")]
    reader_tokens: Option<PathBuf>,
    /// Allow what is not safe: no tokens of administrators, no TLS, and with --dev other addresses than loopback.
    #[arg(long)]
    insecure: bool,
    /// Certificate of gRPC, the page and the workers' port, with those between it and the root (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Ask clients of gRPC and the page for certificates of this authority (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Seconds that a job waits for its workers, from the first.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    join_timeout: u64,
    /// By what workers decide how much to have in flight: fixed (as much as they have slots), aimd, dctcp, dcqcn (by marks and losses), swift
    /// (by delay), or mltcp- and one of these, under which trainings that share links come to send in turns.
    #[arg(long, value_name = "LAW", default_value = "dctcp", value_parser = super::congestion)]
    congestion: CongestionAlgorithm,
    /// Which jobs' packets go first at queues that tell classes apart: alike (no job's), priority (by the priority of its tenant), crux (by
    /// GPU intensity, of jobs that are declared with an iteration: `netfold job declare --work`).
    #[arg(long, value_name = "HOW", default_value = "alike", value_parser = ranking)]
    ranking: Ranking,
    /// The bands of classes that jobs get by their ranking: how many equal ones, or their classes of 0 to 15, the most important first,
    /// as in 12-15,4-11,0-3.
    #[arg(long, value_name = "BANDS", default_value = "4")]
    bands: Bands,
    /// What the IP headers of packets say of their class: 1, 2, 4, 8 or 16 code points of 0 to 63, lowest class first, each for as many of
    /// the 16 classes.
    #[arg(long, value_name = "LIST", default_value = "0", value_parser = super::dscp)]
    dscp: Dscp,
    /// Rate of hosts' links, of which a topology does not speak, for `--ranking crux`.
    #[arg(long, value_name = "RATE", default_value = "100G")]
    link_rate: Bits,
    /// How jobs share slots that there are too few of: static (the first have them), elastic (those with the most for their tenant's
    /// weight give some up, and jobs grow into idle ones), priority (tenants' of lower priority make room).
    #[arg(long, value_name = "HOW", default_value = "static", value_parser = sharing)]
    sharing: Sharing,
    /// Seconds that a job is left in peace before it is moved again.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    settle: u64,
    /// Stop when standard input ends, as it does when the process at its other end is gone.
    #[arg(long)]
    exit_with_stdin: bool,
}

/// What runs.
enum Running {
    Dev(Box<DevController>),
    Plain(Box<Controller>),
}

impl Running {
    fn controller(&self) -> &Controller {
        match self {
            Self::Dev(dev) => dev.controller(),
            Self::Plain(controller) => controller,
        }
    }

    fn is_finished(&self) -> bool {
        match self {
            Self::Dev(dev) => dev.is_finished(),
            Self::Plain(controller) => controller.is_finished(),
        }
    }

    fn stop(self) -> Result<(), CliError> {
        match self {
            Self::Dev(dev) => dev.stop().map_err(dev_failed),
            Self::Plain(controller) => controller.stop().map_err(failed),
        }
    }
}

impl ControllerCommand {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        let stop = Stop::on_signals()?;
        if self.exit_with_stdin {
            stop.with_stdin();
        }
        self.safe()?;
        // A standby that cannot take over is to say so now, and not when it is needed.
        let (topology, front) = (self.topology()?, self.front()?);
        while !stop.requested() {
            let state = match &self.state {
                _ if self.etcd.is_wanted() => match self.etcd.wait(&self.name(), output, &stop)? {
                    Some(leadership) => Some(RecordLocation::Etcd(leadership)),
                    None => break,
                },
                state => state.clone().map(RecordLocation::File),
            };
            let running = self.start(state, topology.clone(), front.clone())?;
            let events = running.controller().control().occurrences();
            self.announce(output, &running)?;
            let attended = attend(output, &stop, &running, events);
            let deposed = running.controller().leadership_lost().map(str::to_owned);
            let stopped = running.stop();
            attended?;
            match deposed {
                // What it could not keep any more is the next leader's business.
                Some(why) => {
                    output.event(&json!({ "event": "deposed", "message": why }))?;
                    output.line(format_args!("no longer in charge: {why}\n"))?;
                }
                None => return stopped,
            }
        }
        Ok(())
    }

    /// What this controller is called among several.
    fn name(&self) -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{} ({})", self.workers, host.trim())
    }

    /// Refuses what is not safe and was not said to be wanted.
    fn safe(&self) -> Result<(), CliError> {
        if self.insecure {
            return Ok(());
        }
        let usage = |message: &str| Err(CliError::Usage(message.to_owned()));
        if self.dev {
            let addresses = [self.workers, self.listen, self.http];
            return match addresses.into_iter().find(|address| !address.ip().is_loopback()) {
                Some(address) => Err(CliError::Usage(format!(
                    "{address} can be reached from other machines, and --dev asks nobody who they are: say --insecure if that is meant"
                ))),
                None => Ok(()),
            };
        }
        match (&self.admin_tokens, &self.tls_cert) {
            (None, _) => {
                usage("without --admin-tokens everybody is an administrator: say --insecure if that is meant")
            }
            (_, None) => usage(
                "without --tls-cert and --tls-key tokens travel in plain text: say --insecure if that is meant",
            ),
            _ => Ok(()),
        }
    }

    /// Where and how it is reached, with all files read.
    fn front(&self) -> Result<FrontendConfig, CliError> {
        Ok(FrontendConfig {
            grpc: self.listen,
            http: Some(self.http),
            access: self.access()?,
            tls: self.tls()?,
        })
    }

    fn topology(&self) -> Result<Option<Topology>, CliError> {
        self.topology.as_deref().map(topology_in).transpose()
    }

    fn start(
        &self,
        state: Option<RecordLocation>,
        topology: Option<Topology>,
        front: FrontendConfig,
    ) -> Result<Running, CliError> {
        let jobs = JobConfig {
            join_timeout: Duration::from_secs(self.join_timeout),
            congestion: self.congestion,
            banding: Banding {
                ranking: self.ranking,
                bands: self.bands.clone(),
                dscp: self.dscp,
                link_bps: self.link_rate.0,
            },
            sharing: self.sharing,
            settle: Duration::from_secs(self.settle),
        };
        match (topology, state) {
            (Some(topology), Some(state)) => {
                let config = ControllerConfig { topology, state, workers: self.workers, front, jobs };
                Ok(Running::Plain(Box::new(Controller::start(config).map_err(failed)?)))
            }
            _ => {
                let config = DevConfig { state: self.state.clone(), workers: self.workers, front, jobs };
                Ok(Running::Dev(Box::new(DevController::start(config).map_err(dev_failed)?)))
            }
        }
    }

    fn access(&self) -> Result<Access, CliError> {
        let tokens = |path: &PathBuf| {
            let text = String::from_utf8(read(path)?).unwrap_or_default();
            hashes(&text).map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))
        };
        match &self.admin_tokens {
            None => Ok(Access::Open),
            Some(path) => Ok(Access::Tokens {
                admins: tokens(path)?,
                readers: self.reader_tokens.as_ref().map(tokens).transpose()?.unwrap_or_default(),
            }),
        }
    }

    fn tls(&self) -> Result<Option<Tls>, CliError> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let client_ca = self.tls_client_ca.as_deref().map(read).transpose()?;
        Ok(Some(Tls { certificate: read(certificate)?, key: read(key)?, client_ca }))
    }

    fn announce(&self, output: &Output, running: &Running) -> Result<(), CliError> {
        let controller = running.controller();
        let (workers, grpc) = (controller.workers(), controller.front().grpc());
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        let page =
            controller.front().http().map(|address| format!("{scheme}://{address}/")).unwrap_or_default();
        let (switch, tenants, state) = match running {
            Running::Dev(dev) => (Some(dev), &TENANTS[..], Some(dev.state())),
            Running::Plain(_) => (None, &[][..], self.state.as_deref()),
        };
        let state = match state {
            Some(path) => path.display().to_string(),
            None => self.etcd.endpoints.join(","),
        };
        output.event(&json!({
            "event": "controlling", "workers": workers.to_string(), "grpc": grpc.to_string(), "page": page, "state": state,
            "p4runtime": switch.map(|dev| dev.p4runtime().to_string()), "data": switch.map(|dev| dev.data().to_string()),
            "tenants": tenants, "dev": self.dev,
        }))?;
        output.line(format_args!("{}", output.paint(Tone::Strong, "Netfold controller")))?;
        let encrypted = if self.tls_cert.is_some() { "TLS over " } else { "" };
        output.line(format_args!("  workers   {encrypted}TCP {workers}"))?;
        output.line(format_args!("  gRPC      {grpc}"))?;
        output.line(format_args!("  page      {page}, metrics at {page}metrics"))?;
        output.line(format_args!("  state     {state}"))?;
        if let Some(dev) = switch {
            output.line(format_args!("  switch    UDP {}, P4Runtime {}", dev.data(), dev.p4runtime()))?;
            let limits = if self.sharing == Sharing::Static { ", with half the slots each" } else { "" };
            output.line(format_args!("  tenants   {}, without tokens{limits}", tenants.join(" and ")))?;
            output.line(format_args!("\nIn other terminals:"))?;
            output.line(format_args!(
                "  netfold bench all-reduce --controller {workers} --tenant red --workers 2 --bytes 1MiB --iterations 200"
            ))?;
            output.line(format_args!("  netfold job list --controller {grpc}"))?;
            output.line(format_args!("  netfold top --controller {grpc}"))?;
        }
        output.line(format_args!("\nStop it with Ctrl-C.\n"))
    }
}

/// Prints what happens until a stop is asked for or a part of it ends.
fn attend(
    output: &Output,
    stop: &Stop,
    running: &Running,
    mut events: Receiver<Arc<Occurrence>>,
) -> Result<(), CliError> {
    while !stop.requested() && !running.is_finished() {
        match events.try_recv() {
            Ok(event) => show(output, &event)?,
            Err(TryRecvError::Lagged(missed)) => {
                output.line(format_args!("{missed} events were not shown"))?
            }
            Err(TryRecvError::Empty | TryRecvError::Closed) => std::thread::sleep(POLL_INTERVAL),
        }
    }
    Ok(())
}

/// A line of the log: with `--json`, an object with the job's and the switch's names.
fn show(output: &Output, event: &Occurrence) -> Result<(), CliError> {
    let job = event.job.as_ref().map(ToString::to_string).unwrap_or_default();
    let switch = event.switch.clone().unwrap_or_default();
    output.event(&json!({
        "event": "controller_event", "number": event.number, "at_ms": event.at_ms, "kind": event.kind,
        "job": job, "switch": switch, "epoch": event.epoch, "reason": event.reason.unwrap_or_default(),
        "message": event.message,
    }))?;
    let about: Vec<&str> =
        [job.as_str(), switch.as_str()].into_iter().filter(|name| !name.is_empty()).collect();
    output.line(format_args!(
        "{}  {:<16} {}: {}",
        clock(event.at_ms),
        event.kind,
        about.join(" at "),
        event.message
    ))
}

fn sharing(name: &str) -> Result<Sharing, String> {
    let names = Sharing::ALL.map(Sharing::name).join(", ");
    Sharing::from_name(name).ok_or_else(|| format!("give one of {names}"))
}

fn ranking(name: &str) -> Result<Ranking, String> {
    let names = Ranking::ALL.map(Ranking::name).join(", ");
    Ranking::from_name(name).ok_or_else(|| format!("give one of {names}"))
}

fn topology_in(path: &Path) -> Result<Topology, CliError> {
    let unfit = |source: Box<dyn std::error::Error + Send + Sync>| CliError::Topology {
        path: path.to_owned(),
        source,
    };
    let text = String::from_utf8(read_up_to(path, netfold_controller::topology::FILE_LEN_MAX as u64)?)
        .map_err(|error| unfit(error.into()))?;
    let topology = Topology::from_toml(&text).map_err(|error| unfit(error.into()))?;
    Ok(topology.relative_to(path.parent().unwrap_or(Path::new(""))))
}

fn read(path: impl AsRef<Path>) -> Result<Vec<u8>, CliError> {
    read_up_to(path.as_ref(), FILE_LEN_MAX)
}

fn read_up_to(path: &Path, len_max: u64) -> Result<Vec<u8>, CliError> {
    use std::io::Read as _;
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(len_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > len_max {
        return Err(failed(std::io::Error::other(format!("it is longer than {len_max} bytes"))));
    }
    Ok(bytes)
}

fn failed(error: ControllerError) -> CliError {
    match error {
        ControllerError::Workers(ServerError::Bind { address, source })
        | ControllerError::Frontend(FrontendError::Bind { address, source }) => {
            CliError::listen(address, source)
        }
        other => CliError::Controller(Box::new(other)),
    }
}

fn dev_failed(error: DevError) -> CliError {
    match error {
        DevError::Controller(error) => failed(error),
        other => CliError::Controller(Box::new(other)),
    }
}
