//! Every backend and every middleware keeps the contract of `PacketIo`: one list of checks, run over all of them, and a table that
//! says which passed.
//!
//! A [`Backend`] is a name and a way to make a [`Rig`]: a hub and some spokes, wired up. [`run`] makes a fresh rig for every check. Rigs on
//! real interfaces come from a [`Segment`](segment::Segment): virtual interfaces on a bridge, in a network namespace of their own, which
//! vanishes with the rig. For tests only: a check that fails panics, and [`run`] catches that.

mod beside;
mod checks;
mod device;
#[cfg(target_os = "linux")]
#[cfg(target_os = "linux")]
pub mod segment;
mod table;

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::pcap::{Captured, Resolution};
use netfold_io::{PacketIo, PortId, RxBatch, Transmit};

pub use self::beside::Beside;
pub use self::table::{Outcome, Table, run};

/// Spokes of a rig.
pub const SPOKES: usize = 3;

/// Longest datagram of every rig's backends, in bytes: small enough for every transport, not a multiple of anything.
pub const DATAGRAM_LEN_MAX: usize = 1501;

/// An interface that can be taken away below a backend.
pub trait Interface: Send + Sync {
    /// Takes the link down.
    fn down(&self);
    /// Brings it up again.
    fn up(&self);
    /// Removes the interface for good.
    fn remove(&self);
}

/// A hub that has spoke i as port i, and the spokes, which have the hub as port 0. All carry [`DATAGRAM_LEN_MAX`] bytes at most.
pub struct Rig {
    /// The hub.
    pub hub: Box<dyn PacketIo>,
    /// [`SPOKES`] spokes.
    pub spokes: Vec<Box<dyn PacketIo>>,
    /// The hub's interface, where it has one of its own.
    pub interface: Option<Arc<dyn Interface>>,
    /// Resources that exist as long as the rig.
    pub keep: Box<dyn Any + Send>,
}

impl Rig {
    /// A rig that needs nothing but its ends.
    #[must_use]
    pub fn new(hub: Box<dyn PacketIo>, spokes: Vec<Box<dyn PacketIo>>) -> Self {
        Self { hub, spokes, interface: None, keep: Box::new(()) }
    }

    /// A rig of a hub without peers and spokes that are connected to it: binds every spoke.
    ///
    /// # Panics
    ///
    /// When an end has no address, or the hub refuses it.
    #[must_use]
    pub fn bound(mut hub: Box<dyn PacketIo>, spokes: Vec<Box<dyn PacketIo>>) -> Self {
        for (index, spoke) in spokes.iter().enumerate() {
            let from: SocketAddr = spoke.local_addr().expect("a spoke has an address");
            hub.bind_port(PortId(index as u16), from).expect("the hub takes its spokes");
        }
        Self::new(hub, spokes)
    }

    /// The rig once every end has sent to its peers and has nothing more to take in: links ask for their neighbours first, and some checks
    /// want it quiet.
    ///
    /// # Panics
    ///
    /// When nothing gets through.
    #[must_use]
    pub fn settled(mut self) -> Self {
        for (port, spoke) in self.spokes.iter_mut().enumerate() {
            meet(&mut **spoke, &mut *self.hub, PortId(0));
            meet(&mut *self.hub, &mut **spoke, PortId(port as u16));
        }
        let mut ends: Vec<_> = self.spokes.iter_mut().chain([&mut self.hub]).collect();
        let mut batch = RxBatch::new(64, 1 << 17);
        let mut busy = true;
        while busy {
            busy = false;
            for end in &mut ends {
                while end.wait(Duration::from_millis(2)).expect("wait") {
                    end.receive(&mut batch).expect("receive");
                    busy = true;
                }
            }
        }
        self
    }

    /// The rig with every end wrapped.
    #[must_use]
    pub fn map(self, wrap: impl Fn(Box<dyn PacketIo>) -> Box<dyn PacketIo>) -> Self {
        let Self { hub, spokes, interface, keep } = self;
        Self { hub: wrap(hub), spokes: spokes.into_iter().map(wrap).collect(), interface, keep }
    }
}

/// Sends until something arrives.
fn meet(from: &mut dyn PacketIo, to: &mut dyn PacketIo, port: PortId) {
    let (start, mut batch) = (Instant::now(), RxBatch::new(64, 1 << 17));
    let hello = Transmit { port, offset: 0, len: 0 };
    while to.receive(&mut batch).expect("receive") == 0 {
        from.transmit(&[], &[hello]).expect("transmit");
        to.wait(Duration::from_millis(2)).expect("wait");
        from.wait(Duration::ZERO).expect("wait");
        from.receive(&mut batch).expect("receive");
        assert!(start.elapsed() < checks::HANG_TIMEOUT, "nothing gets through");
    }
}

/// Makes a rig, or says what this machine lacks for it.
type Make = Arc<dyn Fn() -> Result<Rig, String> + Send + Sync>;

/// A way to move packets, to be checked.
#[derive(Clone)]
pub struct Backend {
    name: String,
    make: Make,
}

impl Backend {
    /// A backend that is made by `make`; the error says what is absent here.
    pub fn new(
        name: impl Into<String>,
        make: impl Fn() -> Result<Rig, String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), make: Arc::new(make) }
    }

    /// The same behind middleware.
    #[must_use]
    pub fn behind(
        &self,
        what: &str,
        wrap: impl Fn(Box<dyn PacketIo>) -> Box<dyn PacketIo> + Send + Sync + 'static,
    ) -> Self {
        let make = Arc::clone(&self.make);
        Self::new(format!("{} behind {what}", self.name), move || Ok(make()?.map(&wrap)))
    }

    /// The same behind fault middleware without faults and behind a capture.
    #[must_use]
    pub fn with_middleware(self) -> [Self; 3] {
        let faults = self.behind("no faults", |io| Box::new(Faulty::new(io, FaultConfig::default())));
        let capture = self.behind("a capture", |io| {
            let sink = std::io::sink();
            Box::new(Captured::new(io, sink, Resolution::Nano).expect("a sink takes everything"))
        });
        [self, faults, capture]
    }
}
