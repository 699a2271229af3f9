//! The software switch as a P4Runtime device for any client of P4Runtime 1.4.
//!
//! [`Server::start`] takes the handle of a running [`Switch`](netfold_switch::Switch) and serves it on its own
//! thread. The packets' thread is only affected by calls between two bursts.
//!
//! - *Pipelines* have the form that `netfold p4 emit --target ir --datagram` prints (the device config), with the P4Info of
//!   the program. The generated pipeline is used if there is one.
//! - *Tables, counters, registers, multicast groups* are written and read according to the specification 1.4.1. All
//!   atomicity modes are supported: a batch is applied between two bursts.
//! - *Packets* go to and from the pipeline through the CPU port, without controller headers, which no program defines.
//! - *Entities that no program has* (clone sessions, digests, meters, action profiles): a request that names one returns
//!   `UNIMPLEMENTED`; a read of all of the kind returns none.
//! - *Ports* are managed by Netfold's own service beside P4Runtime: [`netfold_p4_runtime::ports`].
//!
//! # Example
//!
//! ```
//! use netfold_io::loopback;
//! use netfold_switch::{EmptyPipeline, Switch};
//! use netfold_switch_p4runtime::{Server, ServerConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (io, _workers) = loopback::star(1, 64, 1440);
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
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "grpc")]
mod packets;
mod ports;
mod read;
#[cfg(feature = "grpc")]
mod server;
#[cfg(feature = "grpc")]
mod service;
mod state;
#[cfg(feature = "grpc")]
mod status;
#[cfg(feature = "grpc")]
mod stream;
#[cfg(feature = "grpc")]
mod tls;
mod update;

pub use config::Engine;
#[cfg(feature = "grpc")]
pub use packets::PacketCounters;
#[cfg(feature = "grpc")]
pub use server::{CPU_PORT, DEVICE_ID, Server, ServerConfig, ServerError};
#[cfg(feature = "grpc")]
pub use tls::Tls;
