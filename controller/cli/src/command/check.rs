//! `netfold check`: a host, the way to a switch and the links between hosts, before a job.

mod report;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use netfold::{Builder, Communicator, TcpRendezvous};
use netfold_check::host::{Needs, Readings};
use netfold_check::pairs::{self, Clock, PairsConfig, PairsError, Prediction};
use netfold_check::{Finding, Severity, switch};
use netfold_controller::equal_paths::EqualPaths;
use netfold_io::IoSpec;

use super::controller::topology_in;
use super::joining::JoinOptions;
use super::launched;
use super::switch::payload;
use crate::error::CliError;
use crate::output::Output;

/// In this time it is counted how much processor time a hypervisor gives to others.
const STEAL_INTERVAL: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  netfold check                                       this host: limits, permissions, clock, processors
  netfold check --switch tor:20038                    also the way to a switch
  netfold check --controller tor:20041 --tenant red   the same through a controller
  netfold check --io af-xdp:eth0                      what XDP sockets need
  netfold check --pairs --rank R --world 8 --rendezvous host0:20040
                                                      on each of 8 hosts: also the links between them

See docs/check.md for each finding. The exit code is 0 if nothing was found, and 1 otherwise.";

/// Check this host, the way to a switch and the links between hosts before a job, and say how to correct what is found.
///
/// Each finding has what was measured, the limit and a remedy. The way to a switch is checked by a job of one rank, which joins, reduces at most
/// 4 MiB and leaves. Between hosts each pair in turn measures round-trip time, clock offset, the longest datagram, UDP ports, loss and rate.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// A switch's own control port, HOST:PORT.
    #[arg(long, value_name = "ADDR", conflicts_with = "controller")]
    switch: Option<String>,
    #[command(flatten)]
    joining: JoinOptions,
    /// Packet I/O that the job will use, as for `netfold worker`.
    #[arg(long, value_name = "IO", default_value_t)]
    io: IoSpec,
    /// Bytes of lanes of the job's packets, as of `netfold switch`.
    #[arg(long, value_name = "BYTES", default_value = "1408", value_parser = payload)]
    payload: u32,
    /// Measure between this and all other hosts, on each of which the same command runs with another rank.
    #[arg(long, requires = "rendezvous")]
    pairs: bool,
    /// This host's rank, from 0. By the launcher (srun, mpirun, torchrun) if not given.
    #[arg(long, requires = "pairs")]
    rank: Option<u16>,
    /// Number of hosts. By the launcher if not given.
    #[arg(long, requires = "pairs", value_parser = clap::value_parser!(u16).range(2..=i64::from(pairs::WORLD_MAX)))]
    world: Option<u16>,
    /// Address at which the hosts find each other, HOST:PORT, on the host of rank 0.
    #[arg(long, value_name = "ADDR", requires = "pairs")]
    rendezvous: Option<String>,
    /// This host's address for the other hosts' packets; the one that leads to rank 0 by default.
    #[arg(long, value_name = "IP", requires = "pairs")]
    address: Option<IpAddr>,
    /// The hash by which the fabric spreads flows over its equal paths, as for `netfold switch`: it is checked whether UDP ports take the paths that it
    /// predicts.
    #[arg(long, value_name = "HASH,...", requires = "pairs", conflicts_with = "topology")]
    path_hash: Option<EqualPaths>,
    /// A topology file, whose `ecmp` is the hash.
    #[arg(long, value_name = "FILE", requires = "pairs")]
    topology: Option<PathBuf>,
    /// Seconds to wait for the other hosts.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(30..=86_400))]
    timeout: u64,
}

impl Check {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        let place = if self.pairs { Some(self.place()?) } else { None };
        let paths = self.equal_paths()?;
        let readings = Readings::take(Path::new("/"), STEAL_INTERVAL);
        let unread = readings.unread();
        let mut findings = readings.judge(&Needs::new((&self.io).into()));
        if let Some(address) = self.switch.as_ref().or(self.joining.controller.as_ref()) {
            let (measured, found) = switch::check(address, self.builder(), self.payload);
            report::switch(output, &measured)?;
            findings.extend(found);
        }
        let pairs = place.map_or(Ok(Vec::new()), |place| self.check_pairs(output, place, paths));
        // What this host lacks may be why the others are not reached.
        findings.extend(pairs.as_deref().unwrap_or_default().iter().cloned());
        report::findings(output, &findings, &unread)?;
        pairs?;
        report::clean(output, &findings)?;
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
        match findings.len() - errors {
            0 if errors == 0 => Ok(()),
            warnings => Err(CliError::Checked { errors, warnings }),
        }
    }

    /// A member of a job there, as `netfold worker` builds it.
    fn builder(&self) -> Result<Builder, netfold::Error> {
        let io = self.io.clone();
        let mut builder = Communicator::builder().io_by(move |opening| Ok(netfold_dpdk::open(&io, opening)?));
        if let Some(switch) = &self.switch {
            builder = builder.switch(switch.as_str())?;
        }
        self.joining.apply(builder)
    }

    /// Rank and number of hosts.
    fn place(&self) -> Result<(u16, u16), CliError> {
        let place = launched::place(self.rank, self.world)?.ok_or_else(|| {
            CliError::Usage(
                "--pairs needs --rank and --world, or srun, mpirun or torchrun, which set them".into(),
            )
        })?;
        if !(2..=pairs::WORLD_MAX).contains(&place.world) {
            let (world, most) = (place.world, pairs::WORLD_MAX);
            return Err(CliError::Usage(format!(
                "the launcher has {world} ranks; --pairs is for 2 to {most} hosts"
            )));
        }
        Ok((place.rank, place.world))
    }

    fn check_pairs(
        &self,
        output: &Output,
        (rank, world): (u16, u16),
        paths: Option<EqualPaths>,
    ) -> Result<Vec<Finding>, CliError> {
        let meeting = resolve(self.rendezvous.as_deref().unwrap_or_default())
            .map_err(|source| CliError::Job { rank, source })?;
        let predict = |from, to| paths.and_then(|paths| paths.path(from, to));
        let config = PairsConfig {
            bind: self.address,
            payload_bytes: self.payload,
            clock: Clock::default(),
            prediction: paths.is_some().then_some(Prediction(&predict)),
        };
        let timeout = Duration::from_secs(self.timeout);
        let bar = output.bar(1, "{spinner} {msg}");
        bar.set_message(format!("{world} hosts check each other"));
        let exchange = TcpRendezvous::new(meeting, "netfold check", rank, world, timeout);
        let reports = exchange
            .map_err(PairsError::Exchange)
            .and_then(|mut exchange| pairs::measure(&mut exchange, &config))
            .map_err(CliError::Pairs)?;
        bar.finish_and_clear();
        report::pairs(output, &reports)?;
        Ok(pairs::judge(&reports, self.payload))
    }
}

impl Check {
    /// The equal paths of the fabric, where their hash is given.
    fn equal_paths(&self) -> Result<Option<EqualPaths>, CliError> {
        let Some(file) = &self.topology else { return Ok(self.path_hash) };
        let paths = topology_in(file)?.equal_paths();
        let missing = || {
            CliError::Usage(format!(
                "--topology {}: it names no hash of equal paths; give `ecmp = {{ hash = ..., paths = ... }}` there, or --path-hash",
                file.display()
            ))
        };
        paths.map(Some).ok_or_else(missing)
    }
}

/// The first address of a name.
fn resolve(address: &str) -> Result<SocketAddr, netfold::Error> {
    let unresolved =
        |source| netfold::Error::Address { address: address.to_owned(), source: Arc::new(source) };
    let first = address.to_socket_addrs().map_err(unresolved)?.next();
    first.ok_or_else(|| unresolved(std::io::ErrorKind::NotFound.into()))
}
