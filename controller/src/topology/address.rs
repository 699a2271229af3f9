//! Prefixes of addresses, and Ethernet addresses, as they are written in the file.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The addresses that begin with the same bits: `10.1.0.0/28`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

/// The bits of an address, the first one highest.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// A mask of the `len` highest bits.
fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

impl Prefix {
    /// The addresses that share their first `len` bits with this one; `None` when it has fewer.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        if len > width(address) {
            return None;
        }
        let kept = bits(address) & mask(len);
        let address = match address {
            IpAddr::V4(_) => Ipv4Addr::from_bits((kept >> 96) as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(kept).into(),
        };
        Some(Self { address, len })
    }

    /// All addresses of IPv6, or of IPv4.
    pub const fn everything(ipv6: bool) -> Self {
        let address =
            if ipv6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
        Self { address, len: 0 }
    }

    /// Bits that its addresses share.
    pub const fn len(&self) -> u8 {
        self.len
    }

    /// Whether it holds every address of its family.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether its addresses are those of IPv6.
    pub const fn is_ipv6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// The bits that its addresses share, the first one highest; zeros behind them.
    pub(super) fn bits(&self) -> u128 {
        bits(self.address)
    }

    /// Whether it holds an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && bits(address) & mask(self.len) == bits(self.address)
    }
}

impl fmt::Display for Prefix {
    /// As in the file: a single address has no length behind it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        if self.len == width(self.address) { Ok(()) } else { write!(f, "/{}", self.len) }
    }
}

/// The text is no prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// It is no address, or there is no such length.
    #[error("write an address or a range of them, such as \"10.1.0.0/28\"")]
    Form,
    /// Bits behind the prefix are set; the prefix without them.
    #[error("there are bits behind the prefix: write {0} for the range, or the address alone")]
    Loose(Prefix),
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// Strict: bits behind the prefix must be zero, since `10.1.0.7/28` is more likely a mistake than a range.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| PrefixError::Form)?;
        let len = match len {
            Some(len) if len.bytes().all(|byte| byte.is_ascii_digit()) => {
                len.parse().map_err(|_| PrefixError::Form)?
            }
            Some(_) => return Err(PrefixError::Form),
            None => width(address),
        };
        let prefix = Self::new(address, len).ok_or(PrefixError::Form)?;
        if prefix.address == address { Ok(prefix) } else { Err(PrefixError::Loose(prefix)) }
    }
}

/// An Ethernet address, in the low 48 bits; written `02:00:0a:01:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub u64);

impl Mac {
    /// The locally administered address that is made of an IPv4 address: `02:00`, then its four bytes.
    pub const fn of(address: Ipv4Addr) -> Self {
        Self(0x0200_0000_0000 | address.to_bits() as u64)
    }

    /// Whether a network interface may have it: it is neither a group's nor all zeros.
    pub const fn is_station(self) -> bool {
        self.0 != 0 && self.0 >> 48 == 0 && self.0 & 0x0100_0000_0000 == 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, _, a, b, c, d, e, g] = self.0.to_be_bytes();
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text is no Ethernet address of a network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write the address of a network interface, such as \"02:00:0a:01:00:01\"")]
pub struct MacError;

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let mut bits = 0;
        let mut bytes = 0;
        for byte in text.split([':', '-']) {
            if byte.len() != 2 || !byte.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(MacError);
            }
            bits = bits << 8 | u64::from_str_radix(byte, 16).map_err(|_| MacError)?;
            bytes += 1;
            if bytes > 6 {
                return Err(MacError);
            }
        }
        let mac = Self(bits);
        if bytes == 6 && mac.is_station() { Ok(mac) } else { Err(MacError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_what_begins_alike() {
        let prefix: Prefix = "10.1.0.16/28".parse().unwrap();
        assert!(
            prefix.contains("10.1.0.16".parse().unwrap()) && prefix.contains("10.1.0.31".parse().unwrap())
        );
        assert!(
            !prefix.contains("10.1.0.32".parse().unwrap()) && !prefix.contains("::a01:10".parse().unwrap())
        );
        assert_eq!(prefix.to_string(), "10.1.0.16/28");
        let one: Prefix = "fd00::7".parse().unwrap();
        assert!(one.contains("fd00::7".parse().unwrap()) && !one.contains("fd00::8".parse().unwrap()));
        assert_eq!((one.to_string().as_str(), one.len()), ("fd00::7", 128));
        assert!(Prefix::everything(false).contains([9, 9, 9, 9].into()));
        assert!(!Prefix::everything(true).contains([9, 9, 9, 9].into()));
    }

    #[test]
    fn prefixes_are_written_exactly() {
        assert_eq!("10.1.0.7/28".parse::<Prefix>(), Err(PrefixError::Loose("10.1.0.0/28".parse().unwrap())));
        for text in ["", "10.1.0", "10.1.0.0/33", "10.1.0.0/", "10.1.0.0/+8", "::/129", "a/8", "10.1.0.0/8/8"]
        {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError::Form), "{text}");
        }
    }

    #[test]
    fn ethernet_addresses_are_those_of_stations() {
        let mac: Mac = "02:00:0A:01:00:fe".parse().unwrap();
        assert_eq!((mac, mac.to_string().as_str()), (Mac::of([10, 1, 0, 254].into()), "02:00:0a:01:00:fe"));
        for text in [
            "",
            "02:00:0a:01:00",
            "02:00:0a:01:00:01:02",
            "00:00:00:00:00:00",
            "01:00:5e:00:00:01",
            "2:0:a:1:0:1",
        ] {
            assert_eq!(text.parse::<Mac>(), Err(MacError), "{text}");
        }
    }
}
