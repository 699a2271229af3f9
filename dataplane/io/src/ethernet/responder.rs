//! Replies to ARP requests and pings, in place of the kernel's network stack, where the kernel does not have our address.

use std::time::Instant;

use netfold_wire::frame::EthernetAddress;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Cidr};

use super::neighbours::Own;
use crate::link::Link;

/// smoltcp's interface, which gets only the frames that need a reply.
pub(super) struct Responder {
    interface: Interface,
    sockets: SocketSet<'static>,
    /// Where a reply is written when the link has no room for it, and is lost.
    lost: Vec<u8>,
    frame_len_max: usize,
    start: Instant,
}

impl Responder {
    /// Replies for `own` with its prefix, at most `frame_len_max` bytes a frame.
    pub(super) fn new(own: Own, prefix_len: u8, frame_len_max: usize, now: Instant) -> Self {
        let hardware = HardwareAddress::Ethernet(EthernetAddress(own.mac.0));
        let mut nothing = Nothing { frame_len_max };
        let mut interface = Interface::new(Config::new(hardware), &mut nothing, smoltcp::time::Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // The list has room for one.
            let _ = addresses.push(IpCidr::Ipv4(Ipv4Cidr::new(own.ip, prefix_len)));
        });
        Self {
            interface,
            sockets: SocketSet::new(Vec::new()),
            lost: vec![0; frame_len_max],
            frame_len_max,
            start: now,
        }
    }

    /// Sends replies beyond our own prefix through `gateway`.
    pub(super) fn set_gateway(&mut self, gateway: std::net::Ipv4Addr) {
        // The table has room for one.
        let _ = self.interface.routes_mut().add_default_ipv4_route(gateway);
    }

    /// Reads a frame, and queues the reply to it on the link. Returns whether there is one.
    pub(super) fn read(&mut self, frame: &[u8], link: &mut impl Link, now: Instant) -> bool {
        let micros = i64::try_from(now.duration_since(self.start).as_micros()).unwrap_or(i64::MAX);
        let mut one = One {
            frame: Some(frame),
            link,
            lost: &mut self.lost,
            frame_len_max: self.frame_len_max,
            answered: false,
        };
        let time = smoltcp::time::Instant::from_micros(micros);
        self.interface.poll_ingress_single(time, &mut one, &mut self.sockets);
        one.answered
    }
}

fn capabilities(frame_len_max: usize) -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ethernet;
    capabilities.max_transmission_unit = frame_len_max;
    capabilities
}

/// A device with one frame to read and a link to write to.
struct One<'a, L> {
    frame: Option<&'a [u8]>,
    link: &'a mut L,
    lost: &'a mut Vec<u8>,
    frame_len_max: usize,
    answered: bool,
}

struct Incoming<'a>(&'a [u8]);

struct Outgoing<'a, L> {
    link: &'a mut L,
    lost: &'a mut Vec<u8>,
    answered: &'a mut bool,
}

impl<L: Link> Device for One<'_, L> {
    type RxToken<'t>
        = Incoming<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Outgoing<'t, L>
    where
        Self: 't;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Incoming<'_>, Outgoing<'_, L>)> {
        let frame = self.frame.take()?;
        let outgoing = Outgoing { link: self.link, lost: self.lost, answered: &mut self.answered };
        Some((Incoming(frame), outgoing))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Outgoing<'_, L>> {
        Some(Outgoing { link: self.link, lost: self.lost, answered: &mut self.answered })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities(self.frame_len_max)
    }
}

impl RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl<L: Link> TxToken for Outgoing<'_, L> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        if let Some(frame) = self.link.frame(len) {
            frame.fill(0);
            let result = write(frame);
            self.link.push();
            *self.answered = true;
            return result;
        }
        if self.lost.len() < len {
            self.lost.resize(len, 0);
        }
        write(&mut self.lost[..len])
    }
}

/// A device that only says how long frames may be: smoltcp asks when an interface is made.
struct Nothing {
    frame_len_max: usize,
}

struct Never;

impl Device for Nothing {
    type RxToken<'t> = Never;
    type TxToken<'t> = Never;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Never, Never)> {
        None
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Never> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities(self.frame_len_max)
    }
}

impl RxToken for Never {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&[])
    }
}

impl TxToken for Never {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        write(&mut vec![0; len])
    }
}
