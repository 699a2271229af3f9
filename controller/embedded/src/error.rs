//! Why a switch does not come up.

use std::error::Error;
use std::io;

use netfold_controller::ServerError;
use netfold_io::{CoreError, IoError};
use netfold_p4::entry::EntryError;
use netfold_switch::PAYLOADS;
use netfold_switch::queue::QueueConfigError;

use crate::start::QUEUES_MAX;

/// Why a switch does not come up, or did not stay up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// There is no pipeline for packets of this size.
    #[error(
        "there is no pipeline for a payload of {0} bytes: choose one of {PAYLOADS:?}, or 1408 for other numerics than words"
    )]
    Payload(u32),
    /// The pipeline has not as many slots.
    #[error("{slots} slots do not fit: choose a power of two up to {max}")]
    Slots {
        /// Slots asked for.
        slots: u32,
        /// Slots of the pipeline.
        max: u32,
    },
    /// There is no pipeline, for a reason of whoever makes them.
    #[error("there is no pipeline")]
    Pipeline(#[source] Box<dyn Error + Send + Sync>),
    /// The program is not one that workers can use.
    #[error("the switch cannot run this program")]
    Program(#[source] EntryError),
    /// Not so many queues.
    #[error("{queues} packet threads: choose 1 to {QUEUES_MAX}")]
    Threads {
        /// Queues asked for.
        queues: usize,
    },
    /// A switch that somebody else controls is one device with one pipeline.
    #[error("{queues} packet threads at a switch without a control port of its own: it has one")]
    Bare {
        /// Queues asked for.
        queues: usize,
    },
    /// The queues' UDP ports follow each other, and there are not so many.
    #[error(
        "{queues} packet threads take as many UDP ports from {first} on, and 65535 is the last: choose a lower port"
    )]
    Ports {
        /// The first port.
        first: u16,
        /// Queues asked for.
        queues: usize,
    },
    /// More cores than threads to keep on them.
    #[error("{cores} cores for {queues} packet threads: name fewer cores, or ask for more threads")]
    Cores {
        /// Cores named.
        cores: usize,
        /// Queues asked for.
        queues: usize,
    },
    /// A queue's thread cannot be kept on its core.
    #[error("a queue cannot have the core that was named")]
    Core(#[source] CoreError),
    /// The data path cannot be opened, or failed.
    #[error("the switch's data path failed")]
    Data(#[source] IoError),
    /// The control port cannot be opened, or failed.
    #[error("the switch's control port failed")]
    Control(#[source] ServerError),
    /// The queues of the ports cannot be so.
    #[error("the switch cannot have such queues")]
    Queues(#[source] QueueConfigError),
    /// The data path's middleware cannot work.
    #[error("the middleware of the switch's data path failed")]
    Middleware(#[source] io::Error),
    /// The system refused a thread.
    #[error("cannot start the switch's thread; check the process's limits")]
    Thread(#[source] io::Error),
    /// A packet thread panicked: a bug.
    #[error("the switch's thread failed; its panic message is on standard error; please report it")]
    Panicked,
}
