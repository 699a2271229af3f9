//! Why a command failed: what happened, what caused it and what to do about it.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

use netfold_controller::ServerError;
use netfold_io::IoError;
use netfold_measure::admission::AdmissionError;
use netfold_measure::all_reduce::BenchError;
use netfold_measure::fold::FoldError;
use netfold_measure::io::IoBenchError;
use netfold_train::{ConfigError, DigitsError};

use crate::exit::Exit;

/// Why a command failed. The message states what happened, the sources the cause, and [`CliError::advice`] what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Arguments that do not parse or do not fit together.
    #[error("{0}")]
    Usage(String),
    /// An address to listen on is used by another program.
    #[error("cannot listen on {address}: the port is in use")]
    PortInUse { address: SocketAddr, source: io::Error },
    /// An address to listen on cannot be bound for another reason.
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// Standard output cannot be written.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// Signal handlers cannot be installed.
    #[error("cannot install signal handlers")]
    Signals(#[source] io::Error),
    /// The switch's packet input or output failed.
    #[error("the switch's packet I/O failed")]
    Switch(#[source] IoError),
    /// The kernel refuses the switch's program.
    #[error("the kernel does not run the switch's program")]
    Kernel(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The switch's control port failed.
    #[error("the switch's control port failed")]
    Control(#[source] ServerError),
    /// The switch's P4Runtime server failed.
    #[error("the switch's P4Runtime server failed")]
    P4Runtime(#[source] netfold_switch_p4runtime::ServerError),
    /// The switch's thread ended unexpectedly.
    #[error("the switch's thread ended: its message is above")]
    SwitchPanicked,
    /// A switch within this process could not be started.
    #[error("cannot start a switch in this process")]
    Embedded(#[source] netfold_embedded::EmbeddedError),
    /// The comparison with other libraries failed.
    #[error("cannot measure the star of hosts")]
    Star(#[source] netfold_measure::star::StarError),
    /// A program of a comparison failed.
    #[error("the comparison failed")]
    Peer(#[source] netfold_measure::peers::PeerError),
    /// Something is not as a job needs it. The findings have been printed.
    #[error(
        "not all is as a job needs it (errors: {errors}, warnings: {warnings}); each finding has a remedy"
    )]
    Checked { errors: usize, warnings: usize },
    /// Ranks cannot check each other.
    #[error("the pairs of ranks were not checked")]
    Pairs(#[source] netfold_check::pairs::PairsError),
    /// A worker's job failed.
    #[error("rank {rank} failed")]
    Job { rank: u16, source: netfold::Error },
    /// The sum of a layer has a wrong length.
    #[error("the sum of a layer has a wrong length; this is a bug, please report it")]
    Length,
    /// The training's settings are inconsistent.
    #[error(transparent)]
    Training(#[from] ConfigError),
    /// The built-in data set is invalid.
    #[error("the built-in data set is invalid; this is a bug, please report it")]
    Digits(#[from] DigitsError),
    /// A benchmark failed.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The pipeline's benchmark failed.
    #[error("the pipeline's benchmark failed")]
    Fold(#[from] FoldError),
    /// Packet I/O could not be measured.
    #[error("cannot measure packet I/O")]
    IoBench(#[source] Box<IoBenchError>),
    /// Jobs could not be measured.
    #[error(transparent)]
    Jobs(#[from] netfold_measure::jobs::JobsError),
    /// Admission could not be measured.
    #[error("cannot measure admission")]
    Admission(#[source] Box<AdmissionError>),
    /// A result is wrong.
    #[error("{wrong} elements of the results are wrong; this is a bug, please report it")]
    Wrong { wrong: u64 },
    /// Results are wrong where lanes were corrupted on purpose.
    #[cfg(feature = "testbed")]
    #[error(
        "{wrong} elements of the results are wrong, which the fault `undetected` can cause: nothing detects what passes \
         the UDP checksum; use `corrupt` for corruption that is detected"
    )]
    Corrupted { wrong: u64 },
    #[cfg(feature = "testbed")]
    /// Expectations of a script were not met. They have been printed.
    #[error("{failed} expectations were not met")]
    Unmet { failed: usize },
    /// A part of the testbed could not be built, or failed.
    #[cfg(feature = "testbed")]
    #[error("{part} failed")]
    Testbed { part: &'static str, source: Box<dyn Error + Send + Sync> },
    #[cfg(feature = "testbed")]
    /// Errors while processes were killed. The table has shown them.
    #[error("{broken} elements, operations or records were wrong, failed or lost; see the table")]
    Survived { broken: u64 },
    #[cfg(feature = "testbed")]
    /// Something was not found, or was found that was not there. The table has shown it.
    #[error(
        "with {rows} disturbances not everything was found, or something else was, or elements were wrong; see the table"
    )]
    Diagnosed { rows: u32 },
    #[cfg(feature = "testbed")]
    /// The job in the fabric did not continue as required.
    #[error("the job did not continue as required: {problems}")]
    Fabric { problems: String },
    /// What was measured on a test network is not as required.
    #[cfg(feature = "testbed")]
    #[error("not within the bounds: {problems}")]
    OutOfBounds { problems: String },
    /// A child process cannot be started or waited for.
    #[error("cannot run {name}")]
    Spawn { name: String, source: io::Error },
    /// A child process ended unexpectedly.
    #[error("{name} ended unexpectedly ({status}{})", reported_message(.reported.as_ref()))]
    ChildDied { name: String, status: ExitStatus, reported: Option<(String, String)> },
    /// The children sent no event within the timeout.
    #[error("the switch and the workers sent no event for {seconds} s")]
    Silent { seconds: u64 },
    /// The training does not agree with its reference. The summary has shown it.
    #[error("the training does not agree with its reference")]
    Disagrees,
    /// A profile does not fit a target.
    #[error("{0}")]
    Target(String),
    /// A profile has no pipeline.
    #[error("there is no such pipeline: {0}")]
    Profile(String),
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file does not hold a program that this switch can run.
    #[error("cannot run the program in {}", path.display())]
    Program { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    /// A topology file is invalid.
    #[error("cannot use the topology in {}", path.display())]
    Topology { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    /// A group key cannot be created.
    #[error(transparent)]
    GroupKey(netfold::GroupKeyError),
    /// The controller failed.
    #[error("the controller failed")]
    Controller(#[source] Box<dyn Error + Send + Sync>),
    /// A backup cannot be used.
    #[error("cannot use the backup {}", path.display())]
    Backup { path: PathBuf, source: netfold_server::backup::BackupError },
    /// A backup was not restored.
    #[error(transparent)]
    Restore(netfold_server::backup::RestoreError),
    /// A backup was not restored to etcd.
    #[error(transparent)]
    RestoreToEtcd(netfold_server::etcd::EtcdRestoreError),
    /// The controller cannot be reached.
    #[error("cannot reach a controller at {address}: {reason}")]
    NoController { address: String, reason: String },
    /// A controller refused a call.
    #[error("{message}")]
    Refused { reason: String, message: String },
    /// SIGINT or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}

fn reported_message(reported: Option<&(String, String)>) -> String {
    reported.map(|(_, message)| format!(": {message}")).unwrap_or_default()
}

impl CliError {
    /// A failure to listen on an address, distinguished by its cause.
    pub(crate) fn listen(address: SocketAddr, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::AddrInUse {
            Self::PortInUse { address, source }
        } else {
            Self::Listen { address, source }
        }
    }

    /// A failure of a part of the testbed, such as "the experiment".
    #[cfg(feature = "testbed")]
    pub(crate) fn testbed(part: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Testbed { part, source: source.into() }
    }

    /// A stable name for programs; listed in `docs/operations.md`.
    pub(crate) fn kind(&self) -> &str {
        match self {
            Self::Usage(_) | Self::Training(_) | Self::Profile(_) | Self::Target(_) => "usage",
            Self::PortInUse { .. } => "port_in_use",
            Self::Listen { .. } => "listen",
            Self::File { .. } | Self::Read { .. } | Self::GroupKey(_) => "file",
            Self::Program { .. } => "program",
            Self::Output(_) => "output",
            Self::Signals(_) => "signals",
            Self::Switch(_)
            | Self::Kernel(_)
            | Self::Control(_)
            | Self::P4Runtime(_)
            | Self::SwitchPanicked
            | Self::Embedded(_) => "switch",
            Self::Job { source: netfold::Error::Refused { reason, .. }, .. } => reason.name(),
            Self::Job { source, .. } => source.kind(),
            Self::Checked { .. } => "check",
            Self::Pairs(_) => "mesh",
            Self::Length | Self::Digits(_) => "bug",
            Self::Bench(error) => error.kind(),
            Self::Star(_) | Self::Peer(_) => "bench",
            Self::Fold(_) => "bug",
            Self::Wrong { .. } => "wrong",
            #[cfg(feature = "testbed")]
            Self::Corrupted { .. } => "wrong",
            #[cfg(feature = "testbed")]
            Self::Unmet { .. } => "unmet",
            Self::Admission(_) | Self::IoBench(_) => "bench",
            Self::Jobs(error) => error.kind(),
            #[cfg(feature = "testbed")]
            Self::Testbed { .. } | Self::Survived { .. } | Self::Fabric { .. } => "testbed",
            #[cfg(feature = "testbed")]
            Self::Diagnosed { .. } | Self::OutOfBounds { .. } => "testbed",
            Self::Spawn { .. } => "spawn",
            Self::ChildDied { .. } => "child_died",
            Self::Silent { .. } => "silent",
            Self::Disagrees => "disagrees",
            Self::Topology { .. } => "topology",
            Self::Controller(_) => "controller",
            Self::Backup { .. } => "backup",
            Self::Restore(_) | Self::RestoreToEtcd(_) => "restore",
            Self::NoController { .. } => "no_controller",
            Self::Refused { reason, .. } => reason,
            Self::Interrupted => "interrupted",
        }
    }

    /// Advice, if the message does not contain it.
    pub(crate) fn advice(&self) -> Option<String> {
        Some(match self {
            Self::PortInUse { .. } => {
                "choose another port with --listen, --p4runtime or the option that names it (port 0 uses any free one), or stop the program that uses it".into()
            }
            Self::Listen { .. } => "give an address of this machine and a port above 1023, as in 0.0.0.0:20038".into(),
            Self::File { .. } => "choose a path that can be written".into(),
            Self::GroupKey(_) => "choose a path that does not exist yet and can be written: keys are not overwritten".into(),
            Self::Program { .. } => {
                "the switch runs the datagram form of the all-reduce program: print one with `netfold p4 emit --target ir --datagram`".into()
            }
            Self::ChildDied { reported: Some((kind, _)), .. } if kind == "peer_lost" => {
                "a worker was killed or crashed; run the command again".into()
            }
            Self::ChildDied { .. } => "run the command again; a signal in the status means that the process was killed".into(),
            Self::Silent { .. } => "the machine may be overloaded; try fewer --workers or fewer --epochs".into(),
            _ => return None,
        })
    }

    /// How the process exits.
    pub(crate) fn exit(&self) -> Exit {
        match self.kind() {
            "usage" | "argument" => Exit::Usage,
            "interrupted" => Exit::Interrupted,
            // The reader has what it wanted, as `head` does.
            _ if self.is_closed_pipe() => Exit::Success,
            _ => Exit::Failure,
        }
    }

    /// Whether the error is not printed: the reader has closed the pipe, or the summary has shown it.
    pub(crate) fn silent(&self) -> bool {
        self.is_closed_pipe() || matches!(self, Self::Disagrees)
    }

    fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
