//! Why a switch cannot start.

use std::error::Error;
use std::io;
use std::net::IpAddr;

use netfold_controller::ServerError;
use netfold_io::{CoreError, IoError};
use netfold_p4::entry::EntryError;
use netfold_switch::PAYLOADS;
use netfold_switch::queue::QueueConfigError;

use crate::start::QUEUES_MAX;

/// Why a switch cannot start, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// There is no pipeline for packets of this size.
    #[error(
        "there is no pipeline for a payload of {0} bytes: choose one of {PAYLOADS:?}, or 1408 for numerics other than words"
    )]
    Payload(u32),
    /// The pipeline has fewer slots.
    #[error("{slots} slots do not fit: choose a power of two up to {max}")]
    Slots {
        /// Requested slots.
        slots: u32,
        /// Slots of the pipeline.
        max: u32,
    },
    /// The caller's pipeline could not be created.
    #[error("cannot create the pipeline")]
    Pipeline(#[source] Box<dyn Error + Send + Sync>),
    /// The program is not usable by workers.
    #[error("the switch cannot run this program")]
    Program(#[source] EntryError),
    /// The number of queues is out of range.
    #[error("{queues} packet threads are out of range: choose 1 to {QUEUES_MAX}")]
    Threads {
        /// Requested queues.
        queues: usize,
    },
    /// The hash of a packet to and from this switch cannot be computed.
    #[error(
        "the hash of equal paths is over the address at which workers reach the switch: listen at that one instead of {address}"
    )]
    EqualPaths {
        /// Where the switch listens.
        address: IpAddr,
    },
    /// A switch under external control is one device with one pipeline.
    #[error("{queues} packet threads: a switch without a control port of its own has one")]
    Bare {
        /// Requested queues.
        queues: usize,
    },
    /// The queues' consecutive UDP ports exceed 65535.
    #[error(
        "{queues} packet threads need as many UDP ports from {first} on, and 65535 is the last: choose a lower port"
    )]
    Ports {
        /// The first port.
        first: u16,
        /// Requested queues.
        queues: usize,
    },
    /// More cores than threads to pin to them.
    #[error("{cores} cores for {queues} packet threads: name fewer cores, or ask for more threads")]
    Cores {
        /// Given cores.
        cores: usize,
        /// Requested queues.
        queues: usize,
    },
    /// A queue's thread cannot be pinned to its core.
    #[error("cannot pin a packet thread to its core")]
    Core(#[source] CoreError),
    /// The data path cannot be opened, or failed.
    #[error("the switch's data path failed")]
    Data(#[source] IoError),
    /// The control port cannot be opened, or failed.
    #[error("the switch's control port failed")]
    Control(#[source] ServerError),
    /// The configuration of the egress queues is invalid.
    #[error("the configuration of the egress queues is invalid")]
    Queues(#[source] QueueConfigError),
    /// The data path's middleware failed.
    #[error("the middleware of the switch's data path failed")]
    Middleware(#[source] io::Error),
    /// The system cannot create a thread.
    #[error("cannot start the switch's thread; check the process's limits")]
    Thread(#[source] io::Error),
    /// A packet thread panicked: a bug.
    #[error("the switch's thread failed; its panic message is on standard error; please report it")]
    Panicked,
}
