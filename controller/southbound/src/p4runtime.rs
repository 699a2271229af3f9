//! Control of switches over P4Runtime: bmv2 today, and any other switch that offers it.
//!
//! - [`Managed`]: a switch that is kept in its desired state, over broken connections, restarts of either side and
//!   other controllers; [`connect()`] makes one of a switch in a topology. What a controller uses.
//! - [`Pipeline`]: what such a switch is to run. [`PeerPorts`] and [`Attachment`]: how it gets to its peers.
//! - [`Client`]: the calls of one controller to one switch, in blocking form; it stays in charge by its open stream.
//! - [`P4RuntimeDriver`]: a [`SwitchDriver`](netfold_controller::SwitchDriver) on top that takes a switch over by emptying it; what the testbed
//!   uses for switches of its own.
//! - [`ControlPort`]: where ADVANCE and PROBE packets go in and out, if not over the stream; over UDP with
//!   [`UdpControlPort`].
//!
//! # Life of a driver that empties
//!
//! 1. [`Client::connect`] waits for the switch and becomes its primary controller.
//! 2. [`P4RuntimeDriver::start`] empties the switch of multicast groups, pushes the pipeline (which empties the tables)
//!    and admits the control port.
//! 3. A control plane uses it as any driver. Ports that it binds are its own numbers; the driver's [`PeerLookup`] know
//!    which port of the switch a peer is at.
//!
//! # Example
//!
//! ```no_run
//! use netfold_southbound::p4runtime::{Client, ClientConfig, DriverConfig, P4RuntimeDriver, UdpControlPort};
//! use netfold_p4::{allreduce, profile::Profile};
//! # fn peers() -> netfold_southbound::p4runtime::PeerLookup { Box::new(|_| None) }
//!
//! # fn run(device_config: Vec<u8>) -> Result<(), Box<dyn std::error::Error>> {
//! let profile = Profile::hardware();
//! let program = allreduce::program(&profile)?;
//! let client = Client::connect("127.0.0.1:9559", ClientConfig::default())?;
//! let control = UdpControlPort::connect("10.0.0.254:0".parse()?, "10.0.0.1:20038".parse()?)?;
//! let config = DriverConfig::new(profile, 64, peers());
//! let driver = P4RuntimeDriver::start(client, &program, device_config, config, Box::new(control))?;
//! # Ok(()) }
//! ```

mod call;
mod client;
mod connect;
mod control;
mod driver;
mod error;
mod managed;
mod packets;
mod peers;
mod pipeline;
mod slot_packets;
mod stream;
mod tables;
mod tls;

pub(crate) use client::Executor;
pub use client::{Client, ClientConfig, ELECTION_ID};
pub use connect::{ConnectError, configure, connect, peer_table};
pub use control::{ControlPort, UdpControlPort};
pub use driver::{DeviceFormat, DriverConfig, P4RuntimeDriver, PeerLookup, PeerPort};
pub use error::{P4RuntimeError, Rpc, UpdateFailure};
pub(crate) use managed::{Bound, Desired, port_error};
pub use managed::{CPU_PORT, Counts, Managed, ManagedConfig, Repaired, SwitchEvent};
pub(crate) use peers::PortError;
pub use peers::{Attachment, PeerPorts, PeerTable};
pub use pipeline::{Pipeline, PipelineError};
pub(crate) use slot_packets::{advance, read_slots};
pub use tls::TlsError;
