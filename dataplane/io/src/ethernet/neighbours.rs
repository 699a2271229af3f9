//! Ethernet addresses of the hosts that frames go to next: peers themselves, or the gateway to them (RFC 826).

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use netfold_wire::frame::{ArpPacket, EthernetAddress, EthernetFrame, EthernetProtocol};
use smoltcp::wire::{ArpOperation, ArpRepr};

use crate::link::Link;

/// How long datagrams for a new neighbour are held back before they are dropped instead.
pub(super) const RESOLVE_TIMEOUT: Duration = Duration::from_millis(500);
/// Between the first question and the second; doubles from then on.
const RETRY_LEAST: Duration = Duration::from_millis(10);
const RETRY_MOST: Duration = Duration::from_secs(1);
/// How old a reply may be before the request is repeated. The old entry holds until there is a new one.
const REFRESH: Duration = Duration::from_secs(30);
/// Bytes of an ARP frame for IPv4.
const ARP_LEN: usize = 14 + 28;

/// Names an entry of [`Neighbours`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop(usize);

#[derive(Debug, Clone)]
struct Neighbour {
    ip: Ipv4Addr,
    mac: Option<EthernetAddress>,
    /// Peers behind it.
    users: u32,
    ask_next: Instant,
    retry: Duration,
    /// Until when to wait for the first reply.
    resolve_by: Instant,
}

/// The neighbours that peers are reached by. As many as peers at most.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    entries: Vec<Option<Neighbour>>,
    unresolved: usize,
    /// The earliest `ask_next`; `None` without entries.
    due: Option<Instant>,
}

/// What to do with a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Send it there.
    At(EthernetAddress),
    /// The reply is pending.
    Soon,
    /// There was no reply.
    Silent,
}

/// The sender of requests: the interface's own addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    pub(super) mac: EthernetAddress,
    pub(super) ip: Ipv4Addr,
}

impl Neighbours {
    /// Counts one more user of the neighbour `ip`, and asks for it when it is new.
    pub(super) fn add(&mut self, ip: Ipv4Addr, own: Own, link: &mut impl Link, now: Instant) -> Hop {
        let known =
            self.entries.iter_mut().position(|entry| entry.as_ref().is_some_and(|known| known.ip == ip));
        if let Some(index) = known {
            if let Some(entry) = &mut self.entries[index] {
                entry.users += 1;
            }
            return Hop(index);
        }
        let new = Neighbour {
            ip,
            mac: None,
            users: 1,
            ask_next: now,
            retry: RETRY_LEAST,
            resolve_by: now + RESOLVE_TIMEOUT,
        };
        self.unresolved += 1;
        self.due = Some(now);
        let free = self.entries.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[index] = Some(new);
        self.ask(own, link, now);
        Hop(index)
    }

    /// Counts one user less, and forgets a neighbour without any.
    pub(super) fn remove(&mut self, hop: Hop) {
        let Some(place) = self.entries.get_mut(hop.0) else { return };
        let Some(entry) = place else { return };
        entry.users -= 1;
        if entry.users == 0 {
            self.unresolved -= usize::from(entry.mac.is_none());
            *place = None;
        }
    }

    /// Whether a neighbour has not replied yet.
    pub(super) fn has_unresolved(&self) -> bool {
        self.unresolved > 0
    }

    /// When [`ask`](Self::ask) has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The Ethernet address behind `hop`, where it is known.
    pub(super) fn mac(&self, hop: Hop) -> Option<EthernetAddress> {
        self.entries.get(hop.0)?.as_ref()?.mac
    }

    /// What to do with a datagram for `hop` at `now`.
    pub(super) fn reach(&self, hop: Hop, now: Instant) -> Reach {
        match self.entries.get(hop.0).and_then(Option::as_ref) {
            Some(Neighbour { mac: Some(mac), .. }) => Reach::At(*mac),
            Some(entry) if now < entry.resolve_by => Reach::Soon,
            _ => Reach::Silent,
        }
    }

    /// Puts the questions that are due. A full queue puts them off to the next time.
    pub(super) fn ask(&mut self, own: Own, link: &mut impl Link, now: Instant) {
        for entry in self.entries.iter_mut().flatten().filter(|entry| entry.ask_next <= now) {
            // What is not sent now is as good as lost: the next question is due soon enough.
            if let Some(frame) = link.frame(ARP_LEN) {
                write_request(frame, own, entry.ip);
                link.push();
            }
            entry.ask_next = now + entry.retry;
            entry.retry = (entry.retry * 2).min(RETRY_MOST);
        }
        self.due = self.entries.iter().flatten().map(|entry| entry.ask_next).min();
    }

    /// Learns a neighbour's address from an ARP frame, request or reply. Only what we asked for is kept, so
    /// strangers cannot fill the table.
    pub(super) fn learn(&mut self, frame: &[u8], own: Own, now: Instant) {
        let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return };
        let Ok(packet) = ArpPacket::new_checked(ethernet.payload()) else { return };
        let Ok(ArpRepr::EthernetIpv4 { source_hardware_addr: mac, source_protocol_addr: ip, .. }) =
            ArpRepr::parse(&packet)
        else {
            return;
        };
        if !mac.is_unicast() || mac == own.mac {
            return;
        }
        for entry in self.entries.iter_mut().flatten().filter(|entry| entry.ip == ip) {
            self.unresolved -= usize::from(entry.mac.is_none());
            entry.mac = Some(mac);
            entry.retry = RETRY_LEAST;
            entry.ask_next = now + REFRESH;
        }
        self.due = self.entries.iter().flatten().map(|entry| entry.ask_next).min();
    }
}

/// Writes an ARP request for `ip`.
fn write_request(frame: &mut [u8], own: Own, ip: Ipv4Addr) {
    let mut ethernet = EthernetFrame::new_unchecked(frame);
    ethernet.set_dst_addr(EthernetAddress::BROADCAST);
    ethernet.set_src_addr(own.mac);
    ethernet.set_ethertype(EthernetProtocol::Arp);
    let request = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: own.mac,
        source_protocol_addr: own.ip,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: ip,
    };
    request.emit(&mut ArpPacket::new_unchecked(ethernet.payload_mut()));
}
