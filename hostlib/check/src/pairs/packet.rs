//! Packets between ranks that check each other: requests, and replies that are never longer.
//!
//! All have [`LEN`] bytes, requests zeros behind them up to the length that is probed. Numbers are big-endian.
//!
//! ```text
//! 0 magic (8) | 8 cookie (16) | 24 kind (1) 0 (1) | 26 rank (2) | 28 number (4) | 32 received (8) | 40 sent (8)
//! ```

/// Begins each packet. Netfold's own begin with another byte, so that a switch that receives one drops it.
const MAGIC: [u8; 8] = *b"\x7fnfcheck";

/// Bytes of a packet.
pub(super) const LEN: usize = 48;

const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// What only the ranks of a check know: packets without it are ignored.
pub(super) type Cookie = [u8; 16];

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// The rank that sends it.
    pub(super) rank: u16,
    /// Its number, which the reply repeats.
    pub(super) number: u32,
}

/// A reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reply {
    /// The rank that replies.
    pub(super) rank: u16,
    /// Number of the request.
    pub(super) number: u32,
    /// When the request was received and the reply sent, nanoseconds since 1970 by that rank's clock.
    pub(super) received_ns: i64,
    pub(super) sent_ns: i64,
}

fn emit(cookie: &Cookie, kind: u8, (rank, number): (u16, u32), (received, sent): (i64, i64)) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..24].copy_from_slice(cookie);
    bytes[24] = kind;
    bytes[26..28].copy_from_slice(&rank.to_be_bytes());
    bytes[28..32].copy_from_slice(&number.to_be_bytes());
    bytes[32..40].copy_from_slice(&received.to_be_bytes());
    bytes[40..48].copy_from_slice(&sent.to_be_bytes());
    bytes
}

/// The bytes from `at` on, of a packet whose length was checked.
fn bytes<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..at + N)?.try_into().ok()
}

/// Whether a packet is of this check and kind.
fn is(packet: &[u8], cookie: &Cookie, kind: u8) -> bool {
    packet.len() >= LEN && packet[..8] == MAGIC && packet[8..24] == *cookie && packet[24] == kind
}

impl Request {
    /// The beginning of the packet.
    pub(super) fn emit(self, cookie: &Cookie) -> [u8; LEN] {
        emit(cookie, REQUEST, (self.rank, self.number), (0, 0))
    }

    /// The request of a packet, if it is one of this check.
    pub(super) fn parse(packet: &[u8], cookie: &Cookie) -> Option<Self> {
        let (rank, number) = (bytes(packet, 26)?, bytes(packet, 28)?);
        let request = Self { rank: u16::from_be_bytes(rank), number: u32::from_be_bytes(number) };
        is(packet, cookie, REQUEST).then_some(request)
    }
}

impl Reply {
    /// The packet.
    pub(super) fn emit(self, cookie: &Cookie) -> [u8; LEN] {
        emit(cookie, REPLY, (self.rank, self.number), (self.received_ns, self.sent_ns))
    }

    /// The reply of a packet, if it is one of this check.
    pub(super) fn parse(packet: &[u8], cookie: &Cookie) -> Option<Self> {
        let reply = Self {
            rank: u16::from_be_bytes(bytes(packet, 26)?),
            number: u32::from_be_bytes(bytes(packet, 28)?),
            received_ns: i64::from_be_bytes(bytes(packet, 32)?),
            sent_ns: i64::from_be_bytes(bytes(packet, 40)?),
        };
        (packet.len() == LEN && is(packet, cookie, REPLY)).then_some(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_those_of_one_check() {
        let (cookie, other) = ([7; 16], [8; 16]);
        let request = Request { rank: 3, number: 70_000 };
        let mut long = request.emit(&cookie).to_vec();
        long.resize(1440, 0);
        assert_eq!(Request::parse(&long, &cookie), Some(request));
        assert_eq!(Request::parse(&long, &other), None);
        assert_eq!(Request::parse(&long[..LEN - 1], &cookie), None);
        assert_eq!(Reply::parse(&long, &cookie), None);
        let reply = Reply { rank: 1, number: 2, received_ns: -3, sent_ns: i64::MAX };
        assert_eq!(Reply::parse(&reply.emit(&cookie), &cookie), Some(reply));
        assert_eq!(Request::parse(&reply.emit(&cookie), &cookie), None);
        let longer = [&reply.emit(&cookie)[..], &[0]].concat();
        assert_eq!(Reply::parse(&longer, &cookie), None);
        assert!(
            netfold_wire::Packet::new_checked(&long[..])
                .map_or(true, |packet| { netfold_wire::Repr::parse(&packet).is_err() })
        );
    }
}
