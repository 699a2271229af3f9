//! Netfold's control plane: which job may use which slots of which switches, under which number, epoch and key.
//!
//! Workers open a TCP session to the control port and ask to join a job; when every rank has, the job is given a tree of
//! switches and a partition of their slots, and its members are admitted. The messages are [`netfold_control`]. A control
//! plane is either part of one switch's process and forgets everything with it, or a process of its own over many switches, for many
//! tenants, that keeps records of what runs and restarts without disturbing it.
//!
//! # Layers, from the decisions to the sockets
//!
//! | module | job | knows |
//! |---|---|---|
//! | [`slots`], [`fleet`] | what is free, at every switch | numbers |
//! | [`tree`] | what a job needs at every switch of a tree, and how to install it on all or none | the pipeline's entries |
//! | [`topology`] | switches, hosts and links, from a file | names, addresses, ports |
//! | [`policy`] | which job gets which slots of a switch, and which gives some up | numbers |
//! | [`route`] | which switches and links a job's trees take | the topology, what is up and loaded |
//! | [`rebalance`] | what jobs demand of links, and which tree is given up for a better one | numbers |
//! | [`schedule`] | which paths, priorities and shifts in time jobs have that share links | numbers |
//! | [`admission`], [`jobs`] | admission of workers, and the end of jobs: a state machine without I/O or a clock | messages, time as a number |
//! | `membership` | the generations of a resizable job: a state machine for each | sessions as numbers |
//! | [`record`] | what is kept over a restart, and the interface to its storage | serde |
//! | [`flight_record`] | what is known of jobs that stall, and what it says about the cause | slots of switches, reports of ranks |
//! | [`view`], [`command`] | views for operators, and the commands that they issue | serde |
//! | [`executor`], [`driver`] | carries decisions out on the switches; the interface to other kinds of switches | the pipeline's entries |
//! | [`server`], [`message`] | sessions, lines, threads | tokio |
//! | [`plane`] | which switches a control port admits to, and how they are driven | topology, drivers |
//! | [`switch_status`] | what drivers report of their switches | tokio |
//!
//! Drivers for switches over P4Runtime and BF Runtime are in `netfold-southbound`.
//!
//! [`admission::Coordinator`] emits [`executor::SwitchTask`]s and is told their [`executor::TaskOutcome`]s, so that a slow
//! switch delays no session, and no job at other switches: the server runs each task by the [`executor::Executor`] on a thread of its own. What is to be kept comes out of
//! it, too, as [`record::Change`]s, and is durable before any event about it is sent.
//!
//! # Example
//!
//! ```no_run
//! use netfold_controller::{JobEvent, Server, SwitchDriver, admission::Config};
//! # fn serve(driver: Box<dyn SwitchDriver>, unix_time_s: u32) -> Result<(), netfold_controller::ServerError> {
//! let server = Server::bind(([0, 0, 0, 0], 20038).into(), Config::new(unix_time_s), driver)?
//!     .on_event(|event| match event {
//!         JobEvent::Started { name, placement, .. } => println!("{name}: {} slots", placement.job().slots),
//!         JobEvent::Ended { name, reason, .. } => println!("{name}: {reason}"),
//!         _ => {}
//!     })
//!     .spawn()?;
//! println!("workers connect to {}", server.local_addr());
//! server.shutdown()
//! # }
//! ```
//!
//! # What is kept
//!
//! A switch's own control port keeps nothing: epochs stay unique because their floor comes from the caller, see
//! [`admission::Config::epoch_floor`], and the switch is emptied by its end. With [`admission::Config::controller`] and a
//! [`record::Store`], tenants, jobs, places and the next epoch are kept. After a restart, places of jobs that ran are taken
//! up again and their workers resume their sessions; incomplete changes are rolled back; drivers receive what switches are to hold,
//! and remove the rest. Slots need no care, since every job starts behind an ADVANCE.
#![forbid(unsafe_code)]

pub mod admission;
pub mod bands;
pub mod command;
pub mod driver;
mod endpoints;
pub mod equal_paths;
pub mod executor;
pub mod fleet;
pub mod flight_record;
pub mod jobs;
mod membership;
pub mod message;
pub mod plane;
pub mod policy;
pub mod rebalance;
pub mod record;
pub mod route;
pub mod schedule;
pub mod server;
pub mod slots;
pub mod switch_status;
pub mod ticket;
mod timers;
pub mod topology;
mod traffic;
pub mod tree;
pub mod view;

pub use driver::{DriverError, Limits, SlotState, SwitchDriver};
pub use jobs::{EndReason, JobEvent};
pub use plane::Plane;
pub use server::{Server, ServerError, ServerHandle};
