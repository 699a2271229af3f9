//! bmv2, the reference P4 switch, as a part of tests: its compiler, its process, and its packets.
//!
//! - [`compile()`] makes of a program what bmv2 runs, by `p4c-bm2-ss`.
//! - [`Bmv2`] is a running `simple_switch_grpc`, at first without a program; a controller pushes one over P4Runtime.
//! - [`DataPlane`] sends and receives its packets over gRPC, so that no network interface and no privilege is needed;
//!   [`FramePort`] is one of its ports, also for a driver's control packets.
//!
//! Both tools must be on `PATH`; [`missing_tool`] names the one that is not.
//!
//! # Example
//!
//! ```no_run
//! use netfold_southbound::p4runtime::{Client, ClientConfig, DriverConfig, PeerPort, P4RuntimeDriver};
//! use netfold_p4::{allreduce, profile::Profile};
//! use netfold_lab::bmv2::{Bmv2, Bmv2Config, DataPlane, FrameControlPort, compile};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let profile = Profile::hardware();
//! let program = allreduce::program(&profile)?;
//! let compiled = compile(&program)?;
//! let bmv2 = Bmv2::start(Bmv2Config::default())?;
//! let plane = DataPlane::connect(&bmv2)?;
//! let control = FrameControlPort::new(plane.port(64));
//! // Worker i has address 10.0.0.i and is at port i.
//! let neighbours = |peer: std::net::SocketAddrV4| {
//!     let number = peer.ip().octets()[3];
//!     Some(PeerPort { port: number.into(), mac: 0x0200_0000_0000 + u64::from(number) })
//! };
//! let config = DriverConfig::new(profile, 64, Box::new(neighbours));
//! let client = Client::connect(bmv2.p4runtime(), ClientConfig::default())?;
//! let driver = P4RuntimeDriver::start(client, &program, compiled.json.clone(), config, Box::new(control))?;
//! # Ok(()) }
//! ```
//!
//! # What bmv2 does not do
//!
//! - Its egress queues hold [`EGRESS_QUEUE`] packets a port and silently drop more, so a sender must
//!   bound what is on its way to one port, multicast copies included.
//! - Its gRPC data plane serves one client at a time.
//! - Its Thrift server, which nothing here uses, listens on a free TCP port of every address and cannot be turned off.

mod cache;
mod compile;
mod control;
mod dataplane;
mod process;

pub use cache::CACHE;
pub use compile::{CompileError, Compiled, compile, compile_text};
pub use control::FrameControlPort;
pub use dataplane::{DataPlane, DataPlaneError, FramePort};
pub use process::{Bmv2, Bmv2Config, Bmv2Error, Bmv2Tls};

use std::path::PathBuf;

/// Packets that bmv2 holds for one port; more are dropped.
pub const EGRESS_QUEUE: usize = 64;

/// The port that leads to the P4Runtime controller, by PacketOut and PacketIn.
pub const CPU_PORT: u16 = 510;

/// The compiler from P4 to what bmv2 runs.
pub const COMPILER: &str = "p4c-bm2-ss";

/// The switch.
pub const SWITCH: &str = "simple_switch_grpc";

/// The first of the tools that is not on `PATH`.
pub fn missing_tool() -> Option<&'static str> {
    [COMPILER, SWITCH].into_iter().find(|tool| find(tool).is_none())
}

/// Where a tool is.
fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file())
}
