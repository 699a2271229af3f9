//! The software switch as a P4Runtime device, which any client of P4Runtime 1.4 drives.
//!
//! [`Server::start`] takes the handle of a running [`Switch`](netfold_switch::Switch) and serves it on a thread of its
//! own. The packets' thread sees nothing of it but calls between two bursts.
//!
//! - *Pipelines* are pushed as `netfold p4 emit --target ir --datagram` prints them (the device config) with their P4Info,
//!   which must be the program's. A generated fast path is used where there is one.
//! - *Tables, counters, registers, multicast groups* are written and read by the rules of the specification, 1.4.1. All
//!   atomicity modes are honoured: a batch is one step between two bursts.
//! - *Packets* go to and from the pipeline by the CPU port, as they are: no program here has controller headers.
//! - *What no program here has* (clone sessions, digests, meters, action profiles) answers `UNIMPLEMENTED` when it is
//!   named, and nothing when all of a kind are asked for.
//! - *Ports* are made by a service of our own beside P4Runtime: [`netfold_p4_runtime::ports`].
//!
//! # Example
//!
//! ```
//! use netfold_io::loopback;
//! use netfold_switch::{EmptyPipeline, Switch};
//! use netfold_switch_p4runtime::{Server, ServerConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (io, _workers) = loopback::star(1, 64, 1436);
//! let switch = Switch::bare(Box::new(EmptyPipeline::new(352)), Box::new(io));
//! let handle = switch.handle();
//! let packets = std::thread::spawn(move || switch.run());
//! let server = Server::start(([127, 0, 0, 1], 0).into(), ServerConfig::default(), handle.clone())?;
//! println!("P4Runtime at {}", server.local_addr());
//! server.stop()?;
//! handle.stop();
//! # drop(packets.join());
//! # Ok(()) }
//! ```
#![forbid(unsafe_code)]

mod arbitration;
mod config;
mod device;
mod fault;
mod packets;
mod ports;
mod read;
mod server;
mod service;
mod state;
mod stream;
mod tls;
mod update;

pub use packets::PacketCounters;
pub use server::{CPU_PORT, DEVICE_ID, Server, ServerConfig, ServerError};
pub use tls::Tls;
