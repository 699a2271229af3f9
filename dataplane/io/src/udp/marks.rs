//! What the IP headers of datagrams say beside addresses: the DSCP of their class, and whether marks of long queues are heeded.

use std::net::SocketAddr;

use libc::c_int;
use netfold_wire::Dscp;

/// The ECN bits of a packet whose sender is ECN-capable (RFC 3168 section 5).
const ECT_0: u8 = 0b10;

/// The marks of all datagrams that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks {
    pub(super) ecn_capable: bool,
    pub(super) dscp: Dscp,
}

impl Marks {
    fn ecn(&self) -> u8 {
        if self.ecn_capable { ECT_0 } else { 0 }
    }

    /// The second byte of the IPv4 header, or the traffic class of IPv6, of packets of a class.
    pub(super) fn of_class(&self, class: u8) -> u8 {
        self.dscp.of(class) << 2 | self.ecn()
    }

    /// The same for a datagram.
    pub(super) fn of_datagram(&self, datagram: &[u8]) -> u8 {
        self.dscp.of_datagram(datagram) << 2 | self.ecn()
    }

    /// Whether classes differ.
    pub(super) fn differ(&self) -> bool {
        self.dscp.uniform().is_none()
    }
}

/// The socket option and control message that has it, of sockets at such an address.
pub(super) const fn option(local: SocketAddr) -> (c_int, c_int) {
    option_of(local.is_ipv6())
}

/// The same by family.
pub(super) const fn option_of(ipv6: bool) -> (c_int, c_int) {
    if ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_point_and_ecn_share_a_byte() {
        let dscp = Dscp::new(&[0, 46, 10, 63, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap();
        let marks = Marks { ecn_capable: true, dscp };
        assert_eq!([0, 1, 3, 15].map(|class| marks.of_class(class)), [0x02, 0xba, 0xfe, 0x06]);
        assert!(marks.differ());
        let plain = Marks::default();
        assert!(!plain.differ() && plain.of_datagram(b"") == 0);
    }
}
