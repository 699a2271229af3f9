//! The 128 bytes by which ranks find each other.
//!
//! Bytes: kind and version (8), token (16), family 4 or 6 (1), 0 (1), port (2), address (16), zeros; from byte 64 the state of the
//! connecting side (8), which is zero when the handle is made. Numbers are little-endian.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::abi::HANDLE_LEN;
use crate::result::{Failure, Result};

pub(crate) const TOKEN: usize = 16;
const STATE: std::ops::Range<usize> = 64..72;

/// What a handle is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Point to point.
    Link,
    /// A group for collectives.
    Group,
}

impl Purpose {
    const fn magic(self) -> [u8; 8] {
        match self {
            Self::Link => *b"nfnccl\x01p",
            Self::Group => *b"nfnccl\x01c",
        }
    }
}

/// The address of a listener, and the secret in its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) purpose: Purpose,
    pub(crate) token: [u8; TOKEN],
    pub(crate) address: SocketAddr,
}

impl Endpoint {
    /// With a token of its own.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub(crate) fn new(purpose: Purpose, address: SocketAddr) -> Result<Self> {
        let mut token = [0; TOKEN];
        let filled = getrandom(&mut token, GetRandomFlags::empty());
        match filled {
            Ok(TOKEN) => Ok(Self { purpose, token, address }),
            Ok(_) => Err(Failure::system("no random numbers", "too few")),
            Err(error) => Err(Failure::system("no random numbers", error)),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; HANDLE_LEN] {
        let mut bytes = [0; HANDLE_LEN];
        bytes[..8].copy_from_slice(&self.purpose.magic());
        bytes[8..24].copy_from_slice(&self.token);
        bytes[26..28].copy_from_slice(&self.address.port().to_le_bytes());
        match self.address.ip() {
            IpAddr::V4(ip) => {
                bytes[24] = 4;
                bytes[28..32].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                bytes[24] = 6;
                bytes[28..44].copy_from_slice(&ip.octets());
            }
        }
        bytes
    }

    /// # Errors
    ///
    /// It is not a handle of this plugin, version and purpose.
    pub(crate) fn from_bytes(purpose: Purpose, bytes: &[u8; HANDLE_LEN]) -> Result<Self> {
        if bytes[..8] != purpose.magic() {
            return Err(Failure::argument(
                "the handle was not made by this plugin's listen; use the same version of it on all ranks",
            ));
        }
        let mut token = [0; TOKEN];
        token.copy_from_slice(&bytes[8..24]);
        let mut v6 = [0; 16];
        v6.copy_from_slice(&bytes[28..44]);
        let ip: IpAddr = match bytes[24] {
            4 => Ipv4Addr::new(v6[0], v6[1], v6[2], v6[3]).into(),
            6 => Ipv6Addr::from(v6).into(),
            family => return Err(Failure::argument(format!("the handle's address is of family {family}"))),
        };
        let port = u16::from_le_bytes([bytes[26], bytes[27]]);
        Ok(Self { purpose, token, address: (ip, port).into() })
    }
}

/// The state that the connecting side keeps in its copy of a handle.
pub(crate) fn state(bytes: &[u8; HANDLE_LEN]) -> u64 {
    let mut state = [0; 8];
    state.copy_from_slice(&bytes[STATE]);
    u64::from_le_bytes(state)
}

pub(crate) fn set_state(bytes: &mut [u8; HANDLE_LEN], state: u64) {
    bytes[STATE].copy_from_slice(&state.to_le_bytes());
}

/// A hash of these handles (FNV-1a of 128 bits; the tokens are secret, the hash adds no secrecy).
pub(crate) fn digest(endpoints: &[Endpoint]) -> u128 {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in endpoints.iter().flat_map(|endpoint| endpoint.to_bytes()) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_encode_and_decode() {
        for address in ["10.1.2.3:4567", "[fd00::7]:80"] {
            let made = Endpoint::new(Purpose::Group, address.parse().unwrap()).unwrap();
            let mut bytes = made.to_bytes();
            assert_eq!(Endpoint::from_bytes(Purpose::Group, &bytes).unwrap(), made);
            assert!(Endpoint::from_bytes(Purpose::Link, &bytes).is_err());
            assert_eq!(state(&bytes), 0);
            set_state(&mut bytes, 77);
            assert_eq!(state(&bytes), 77);
            assert_eq!(Endpoint::from_bytes(Purpose::Group, &bytes).unwrap(), made);
        }
        assert!(Endpoint::from_bytes(Purpose::Link, &[0; HANDLE_LEN]).is_err());
    }

    #[test]
    fn the_digest_depends_on_every_handle() {
        let make = |port| Endpoint::new(Purpose::Group, SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let (a, b) = (make(1), make(2));
        assert_eq!(digest(&[a, b]), digest(&[a, b]));
        assert_ne!(digest(&[a, b]), digest(&[b, a]));
        assert_ne!(digest(&[a]), digest(&[make(1)]));
    }
}
