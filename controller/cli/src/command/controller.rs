//! `netfold controller`: shares switches among the jobs of several tenants, until it is stopped.

mod election;
mod records;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use netfold_control::CongestionAlgorithm;
use netfold_controller::ServerError;
use netfold_controller::admission::Config;
use netfold_controller::bands::{Banding, Bands, Ranking};
use netfold_controller::equal_paths::EqualPaths;
use netfold_controller::policy::Sharing;
use netfold_controller::rebalance::PlacementPolicy;
use netfold_controller::schedule::Schedule;
use netfold_controller::topology::Topology;
use netfold_controller::view::ControllerEvent;
use netfold_listener::{ListenerCounters, policy};
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
use crate::connections::{ConnectionLog, raise_descriptor_limit};
use crate::error::CliError;
use crate::lifetime::Stop;
use crate::output::{Output, Tone};
use crate::service;
use crate::size::Bits;

/// Interval between checks for a request to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// UDP ports of each worker where the topology has `ecmp = true`, unless another number is given.
const UDP_PORTS_WITH_ECMP: u8 = 16;

/// Longest file of tokens or certificates, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  netfold controller --dev                 for development: a software switch in this process, two tenants, no tokens
  netfold controller --topology fabric.toml --state state.redb --workers 10.0.0.1:20041 \\
      --admin-tokens admins --tls-cert cert.pem --tls-key key.pem --listen 0.0.0.0:20042
  netfold controller --topology fabric.toml --etcd http://10.0.0.5:2379 ...    the same on another host, as a standby
  netfold controller backup state.backup   copy the records of a running controller to a file

Workers join at --workers; see docs/controller.md for everything else.";

/// Run a controller, which shares the switches of a topology among tenants' jobs over P4Runtime, until it is stopped; or back up and
/// restore its records.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ControllerCommand {
    #[command(subcommand)]
    action: Option<records::Action>,
    /// Development mode: one software switch in this process, two tenants without tokens, on loopback addresses only.
    #[arg(long, conflicts_with_all = ["topology", "etcd"])]
    dev: bool,
    /// The switches, hosts and links, as docs/topology.md describes them.
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// The database; created if it does not exist. With --dev the default is a temporary one.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    #[command(flatten)]
    etcd: EtcdOptions,
    /// Address of the workers' port; port 0 uses any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:20041")]
    workers: SocketAddr,
    /// Address of gRPC.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:20042")]
    listen: SocketAddr,
    /// Address of the page and of the metrics.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:20043")]
    http: SocketAddr,
    /// A name under which browsers and Prometheus reach the page, besides localhost and IP addresses: requests for other hosts are refused.
    /// May be given several times.
    #[arg(long, value_name = "NAME", value_parser = page_host)]
    page_host: Vec<String>,
    /// Tokens of administrators, one per line.
    #[arg(long, value_name = "FILE")]
    admin_tokens: Option<PathBuf>,
    /// Tokens of readers, one per line.
    #[arg(long, value_name = "FILE", requires = "admin_tokens")]
    reader_tokens: Option<PathBuf>,
    /// Allow insecure settings: no tokens of administrators, no TLS, and with --dev addresses other than loopback.
    #[arg(long)]
    insecure: bool,
    /// Certificate chain of gRPC, the page and the workers' port, without the root (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Require clients of gRPC and the page to have certificates of this authority (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Seconds that a job waits for its workers after the first has joined.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    join_timeout: u64,
    /// The workers' congestion-control algorithm: fixed (the window is the number of slots), aimd, dctcp, dcqcn (by marks and losses), swift
    /// (by delay), or mltcp- and one of these, with which trainings that share links come to send in turns.
    #[arg(long, value_name = "ALGORITHM", default_value = "dctcp", value_parser = super::congestion)]
    congestion: CongestionAlgorithm,
    #[command(flatten)]
    multipath: super::multipath::MultipathArgs,
    /// Which jobs' packets have precedence at queues with classes: alike (none), priority (by the tenant's priority), crux (by GPU
    /// intensity, of jobs declared with an iteration: `netfold job declare --work`).
    #[arg(long, value_name = "HOW", default_value = "alike", value_parser = ranking)]
    ranking: Ranking,
    /// What to do about jobs that share links, by their measured iterations: off, cassini (delay iterations so that jobs communicate in turns) or
    /// crux (`--ranking crux` by what is measured, not declared).
    #[arg(long, value_name = "HOW", default_value = "off", value_parser = super::schedule)]
    schedule: Schedule,
    /// How the trees of jobs over several switches are placed: static (by the number of trees over each link, and they stay) or measured (by the measured
    /// demand of the jobs over each link; now and then one is moved from the most loaded link to another).
    #[arg(long, value_name = "HOW", default_value = "static", value_parser = placement)]
    placement: PlacementPolicy,
    /// The bands of classes that jobs get by their ranking: a number of equal bands, or the classes of each, the most important first,
    /// as in 12-15,4-11,0-3.
    #[arg(long, value_name = "BANDS", default_value = "4")]
    bands: Bands,
    /// DSCP of packets by class: 1, 2, 4, 8 or 16 code points from 0 to 63, lowest class first; each covers an equal number of the
    /// 16 classes.
    #[arg(long, value_name = "LIST", default_value = "0", value_parser = super::dscp)]
    dscp: Dscp,
    /// Rate of hosts' links, which a topology does not specify, for `--ranking crux`, `--schedule` and `--placement measured`.
    #[arg(long, value_name = "RATE", default_value = "100G")]
    link_rate: Bits,
    /// How jobs share slots: elastic (later jobs find some: a job that cannot give slots up gets an eighth of the free ones at most, others give some
    /// up for them and grow into idle ones), static (first come, first served), priority (jobs of tenants with a lower priority are displaced), best-effort (jobs share the slots of switches that name an aggregator in the
    /// topology, and otherwise as static).
    #[arg(long, value_name = "HOW", default_value = "elastic", value_parser = sharing)]
    sharing: Sharing,
    /// Minimum seconds between two moves of a job.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    settle: u64,
    /// Stop when standard input ends, as it does when the process at its other end exits.
    #[arg(long)]
    exit_with_stdin: bool,
}

/// A running controller.
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

    /// Counters of the P4Runtime server of this process, if it has one.
    fn p4runtime(&self) -> Option<Arc<ListenerCounters>> {
        match self {
            Self::Dev(dev) => Some(dev.p4runtime_listener()),
            Self::Plain(_) => None,
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
    pub(crate) fn run(mut self, output: &Output) -> Result<(), CliError> {
        if let Some(action) = self.action.take() {
            return action.run(output);
        }
        self.check_files()?;
        self.check_ranking()?;
        let stop = Stop::on_signals()?;
        if self.exit_with_stdin {
            stop.with_stdin();
        }
        self.check_security()?;
        // A standby with invalid files must fail now, not when it takes over.
        let (topology, front) = (self.topology()?, self.front()?);
        let sessions_max = Config::controller(0, 0).sessions_max;
        let mut shortage =
            raise_descriptor_limit(sessions_max, &[policy::WORKERS, policy::GRPC, policy::PAGE]);
        while !stop.requested() {
            let state = match &self.state {
                _ if self.etcd.is_wanted() => match self.etcd.wait(&self.name(), &front, output, &stop)? {
                    Some(leadership) => Some(RecordLocation::Etcd(leadership)),
                    None => break,
                },
                state => state.clone().map(RecordLocation::File),
            };
            let running = self.start(state, topology.clone(), front.clone())?;
            let events = running.controller().control().events();
            self.announce(output, &running)?;
            shortage.take().map_or(Ok(()), |shortage| shortage.show(output))?;
            service::notify("READY=1\nSTATUS=leader");
            let attended = attend(output, &stop, &running, events);
            let leadership_lost = running.controller().leadership_lost().map(str::to_owned);
            if leadership_lost.is_none() {
                service::notify("STOPPING=1");
            }
            let stopped = running.stop();
            attended?;
            match leadership_lost {
                // Errors of its last writes do not matter: the next leader continues from the records.
                Some(why) => {
                    output.event(&json!({ "event": "leadership_lost", "message": why }))?;
                    output.line(format_args!("no longer the leader: {why}\n"))?;
                }
                None => return stopped,
            }
        }
        Ok(())
    }

    /// Refuses a controller without switches or without a place for its records.
    fn check_files(&self) -> Result<(), CliError> {
        let missing = match (&self.topology, &self.state) {
            _ if self.dev => return Ok(()),
            (None, _) => "--topology FILE",
            (Some(_), None) if !self.etcd.is_wanted() => "--state FILE, or --etcd",
            _ => return Ok(()),
        };
        Err(CliError::Usage(format!(
            "a controller needs its switches (--topology FILE) and a place for its records (--state FILE, or --etcd): give {missing}; or try \
             one without either: netfold controller --dev"
        )))
    }

    /// Refuses a ranking other than that of the schedule.
    fn check_ranking(&self) -> Result<(), CliError> {
        if self.schedule == Schedule::Crux && self.ranking == Ranking::Priority {
            let message = "--schedule crux ranks jobs by what is measured, --ranking priority by their tenants: give one of the two";
            return Err(CliError::Usage(message.into()));
        }
        Ok(())
    }

    /// This controller's name in the cluster.
    fn name(&self) -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{} ({})", self.workers, host.trim())
    }

    /// Refuses insecure settings unless --insecure was given.
    fn check_security(&self) -> Result<(), CliError> {
        if self.insecure {
            return Ok(());
        }
        let usage = |message: &str| Err(CliError::Usage(message.to_owned()));
        if self.dev {
            let addresses = [self.workers, self.listen, self.http];
            return match addresses.into_iter().find(|address| !address.ip().is_loopback()) {
                Some(address) => Err(CliError::Usage(format!(
                    "{address} can be reached from other machines, and --dev does not authenticate clients: add --insecure if this is intended"
                ))),
                None => Ok(()),
            };
        }
        match (&self.admin_tokens, &self.tls_cert) {
            (None, _) => usage(
                "without --admin-tokens every client is an administrator: add --insecure if this is intended",
            ),
            (_, None) => usage(
                "without --tls-cert and --tls-key tokens are sent in plain text: add --insecure if this is intended",
            ),
            _ => Ok(()),
        }
    }

    /// The frontend's configuration, with all files read.
    fn front(&self) -> Result<FrontendConfig, CliError> {
        Ok(FrontendConfig {
            grpc: self.listen,
            http: Some(self.http),
            page_hosts: self.page_host.clone(),
            access: self.access()?,
            tls: self.tls()?,
        })
    }

    /// How jobs are ranked. A schedule that ranks them is a ranking of its own.
    fn ranking(&self) -> Ranking {
        match self.schedule {
            Schedule::Crux => Ranking::Crux,
            Schedule::Off | Schedule::Cassini => self.ranking,
        }
    }

    fn topology(&self) -> Result<Option<Topology>, CliError> {
        self.topology.as_deref().map(topology_in).transpose()
    }

    /// The equal paths of the fabric, where their hash is known, and the UDP ports of each worker where no number is given.
    fn paths_of(&self, topology: Option<&Topology>) -> Result<(Option<EqualPaths>, u8), CliError> {
        let equal_paths = self.multipath.equal_paths()?.or(topology.and_then(Topology::equal_paths));
        let default_ports = match equal_paths {
            Some(paths) => paths.udp_ports(),
            None if topology.is_some_and(Topology::has_ecmp) => UDP_PORTS_WITH_ECMP,
            None => 1,
        };
        Ok((equal_paths, default_ports))
    }

    fn start(
        &self,
        state: Option<RecordLocation>,
        topology: Option<Topology>,
        front: FrontendConfig,
    ) -> Result<Running, CliError> {
        let has_aggregator =
            |topology: &Topology| topology.switch_ids().any(|switch| topology.aggregator(switch).is_some());
        if self.sharing == Sharing::BestEffort && !topology.as_ref().is_some_and(has_aggregator) {
            return Err(CliError::Usage(
                "--sharing best-effort needs a topology in which a switch names its aggregator: give one `aggregator = \"NAME\"`"
                    .into(),
            ));
        }
        let (equal_paths, default_ports) = self.paths_of(topology.as_ref())?;
        let jobs = JobConfig {
            join_timeout: Duration::from_secs(self.join_timeout),
            congestion: self.congestion,
            multipath: self.multipath.multipath(default_ports),
            equal_paths,
            direct: topology.as_ref().map_or(Vec::new(), |topology| topology.direct().to_vec()),
            banding: Banding {
                ranking: self.ranking(),
                bands: self.bands.clone(),
                dscp: self.dscp,
                link_bps: self.link_rate.0,
            },
            schedule: self.schedule,
            placement: self.placement,
            sharing: self.sharing,
            settle: Duration::from_secs(self.settle),
        };
        match (topology, state) {
            (Some(topology), Some(state)) => {
                let config = ControllerConfig { topology, state, workers: self.workers, front, jobs };
                let controller = Controller::start_over(config, super::testbed::instrument);
                Ok(Running::Plain(Box::new(controller.map_err(failed)?)))
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

/// Prints events until a stop is requested or a part of the controller ends, those of that moment included.
fn attend(
    output: &Output,
    stop: &Stop,
    running: &Running,
    mut events: Receiver<Arc<ControllerEvent>>,
) -> Result<(), CliError> {
    let listeners = running.controller().front().listeners().iter().cloned().chain(running.p4runtime());
    let mut connections = ConnectionLog::new(listeners);
    loop {
        connections.show(output)?;
        let ends = stop.requested() || running.is_finished();
        match events.try_recv() {
            Ok(event) => show(output, &event)?,
            Err(TryRecvError::Lagged(missed)) => {
                output.line(format_args!("{missed} events were not shown"))?
            }
            Err(TryRecvError::Empty | TryRecvError::Closed) if ends => return Ok(()),
            Err(TryRecvError::Empty | TryRecvError::Closed) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Prints an event; with `--json`, an object with the job's and the switch's names.
fn show(output: &Output, event: &ControllerEvent) -> Result<(), CliError> {
    let job = event.job.as_ref().map(ToString::to_string).unwrap_or_default();
    let switch = event.switch.clone().unwrap_or_default();
    output.event(&json!({
        "event": "controller_event", "number": event.number, "at_ms": event.at_ms, "kind": event.kind,
        "job": job, "switch": switch, "epoch": event.epoch, "reason": event.reason.unwrap_or_default(),
        "message": event.message,
    }))?;
    output.line(format_args!(
        "{}  {:<16} {}",
        clock(event.at_ms),
        event.kind,
        sentence(&job, &switch, &event.message)
    ))
}

/// An event's message after the names of its job and its switch, where the message does not name them itself.
fn sentence(job: &str, switch: &str, message: &str) -> String {
    let part_of_name = |letter: char| letter.is_alphanumeric() || "-_./:".contains(letter);
    let named = |name: &str| message.split(|letter| !part_of_name(letter)).any(|word| word == name);
    let missing = |name: &&str| !name.is_empty() && !named(name);
    let about: Vec<&str> = [job, switch].into_iter().filter(missing).collect();
    match about.is_empty() {
        true => message.to_owned(),
        false => format!("{}: {message}", about.join(" at ")),
    }
}

/// A name without a port.
fn page_host(name: &str) -> Result<String, String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    match !name.is_empty() && name.chars().all(is_name) {
        true => Ok(name.to_owned()),
        false => Err("give a DNS name without a port, as in controller.example".to_owned()),
    }
}

fn sharing(name: &str) -> Result<Sharing, String> {
    let names = Sharing::ALL.map(Sharing::name).join(", ");
    Sharing::from_name(name).ok_or_else(|| format!("give one of {names}"))
}

fn ranking(name: &str) -> Result<Ranking, String> {
    let names = Ranking::ALL.map(Ranking::name).join(", ");
    Ranking::from_name(name).ok_or_else(|| format!("give one of {names}"))
}

fn placement(name: &str) -> Result<PlacementPolicy, String> {
    let names = PlacementPolicy::ALL.map(PlacementPolicy::name).join(", ");
    PlacementPolicy::from_name(name).ok_or_else(|| format!("give one of {names}"))
}

/// The topology of a file.
pub(super) fn topology_in(path: &Path) -> Result<Topology, CliError> {
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

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn events_name_their_subject_once() {
        assert_eq!(sentence("", "", "tenant 'red' was added"), "tenant 'red' was added");
        assert_eq!(sentence("", "tor", "switch 'tor' is up"), "switch 'tor' is up");
        assert_eq!(sentence("red/train", "tor", "admitted"), "red/train at tor: admitted");
        assert_eq!(sentence("red/train", "tor", "tor is lost"), "red/train: tor is lost");
        assert_eq!(sentence("", "s1", "switch 's10' is down"), "s1: switch 's10' is down");
    }
}
