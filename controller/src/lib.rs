//! Netfold's control plane: who may use which slots of a switch, under which number, epoch and key.
//!
//! This first version runs in the process of one software switch. A worker opens a TCP session to the control port and
//! asks to join a job; when every rank has, the job is given a static partition of the slots and its members are
//! admitted. The messages are [`netfold_wire::control`].
//!
//! # Layers, from the decisions to the sockets
//!
//! | module | job | knows |
//! |---|---|---|
//! | [`slots`], [`pool`] | what is free | numbers |
//! | [`tree`] | what a job needs at every switch of a tree, and how to install it on all or none | the pipeline's entries |
//! | [`topology`] | switches, hosts and links, from a file | names, addresses, ports |
//! | [`route`] | which switches and links a job's trees take | the topology, what is up and loaded |
//! | [`admission`], [`jobs`] | who gets it, and when it ends: a state machine without I/O and without a clock | messages, time as a number |
//! | [`executor`], [`driver`] | makes it so on a switch; the seam to other kinds of switches | the pipeline's entries |
//! | [`server`], [`message`] | sessions, lines, threads | tokio |
//! | [`p4runtime`] | a driver for switches that offer P4Runtime | tonic |
//!
//! [`admission::Coordinator`] emits [`executor::Task`]s and is told their [`executor::Outcome`]s, so that a slow
//! switch never delays a session: the server runs an [`executor::Executor`] on a thread of its own. A controller for
//! tenants or several switches replaces the server and the pool, and keeps what is between them.
//!
//! # Example
//!
//! ```no_run
//! use netfold_controller::{JobEvent, Server, SwitchDriver, admission::Config};
//! # fn serve(driver: Box<dyn SwitchDriver>, unix_time_s: u32) -> Result<(), netfold_controller::ServerError> {
//! let server = Server::bind(([0, 0, 0, 0], 20038).into(), Config::new(unix_time_s), driver)?
//!     .on_event(|event| match event {
//!         JobEvent::Started { name, placement, .. } => println!("{name}: {} slots", placement.slots),
//!         JobEvent::Ended { name, reason, .. } => println!("{name}: {reason}"),
//!         _ => {}
//!     })
//!     .spawn()?;
//! println!("workers connect to {}", server.local_addr());
//! server.shutdown()
//! # }
//! ```
//!
//! # What is stored
//!
//! Nothing. Epochs stay unique over restarts because their floor comes from the caller; see
//! [`admission::Config::epoch_floor`]. A switch that outlives its controller must be emptied of entries by its driver
//! before the next controller starts; its slots need not be, since every job starts behind an ADVANCE.
#![forbid(unsafe_code)]

pub mod admission;
pub mod command;
pub mod driver;
pub mod executor;
pub mod jobs;
pub mod message;
pub mod p4runtime;
pub mod pool;
pub mod record;
pub mod route;
pub mod server;
pub mod slots;
mod timers;
pub mod topology;
pub mod tree;
pub mod view;

pub use driver::{DriverError, Limits, SwitchDriver};
pub use jobs::{EndReason, JobEvent};
pub use server::{Server, ServerError, ServerHandle};
