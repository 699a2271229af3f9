//! Where connections come from, as limits count it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the connections of one limit have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The upper 64 bits of an IPv6 address: the owner of such a network has all its addresses (RFC 4291 section 2.5.4).
    V6Network(u64),
    /// A user of this host, by number: the peer of a Unix socket.
    User(u32),
}

impl From<IpAddr> for Source {
    /// An IPv4 address that is mapped into IPv6 counts as itself.
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6Network((address.to_bits() >> 64) as u64),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => address.fmt(f),
            Self::V6Network(bits) => {
                write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(*bits) << 64))
            }
            Self::User(number) => write!(f, "user {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_source_and_a_mapped_address_is_ipv4() {
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_eq!(source("2001:db8:1:2::1").to_string(), "2001:db8:1:2::/64");
        assert_eq!(source("192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(Source::User(1000).to_string(), "user 1000");
    }
}
