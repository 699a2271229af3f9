//! The code points (DSCP, RFC 2474) in the IP headers of each class of packets, for equipment that does not read the Netfold header.

use crate::{CLASSES_MAX, Packet};

const CLASSES: usize = CLASSES_MAX as usize;

/// The largest DSCP.
pub const DSCP_MAX: u8 = 63;

/// Why code points are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DscpError {
    /// A code point that has more than six bits.
    #[error("a DSCP of {0}: give 0 to {DSCP_MAX}")]
    CodePoint(u8),
    /// Too few or too many code points.
    #[error("{0} code points: give one for each of the {CLASSES_MAX} classes, lowest first")]
    CodePoints(usize),
}

/// The DSCP of packets, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Dscp([u8; CLASSES]);

impl Dscp {
    /// 0 in every class: best effort.
    pub const NONE: Self = Self([0; CLASSES]);

    /// One code point for each class, lowest class first.
    ///
    /// # Errors
    /// [`DscpError::CodePoint`], [`DscpError::CodePoints`].
    pub fn new(code_points: &[u8]) -> Result<Self, DscpError> {
        let all = code_points.try_into().map_err(|_| DscpError::CodePoints(code_points.len()))?;
        match code_points.iter().find(|point| **point > DSCP_MAX) {
            Some(point) => Err(DscpError::CodePoint(*point)),
            None => Ok(Self(all)),
        }
    }

    /// The code point of a class; 0 for a class that does not exist.
    #[inline]
    pub fn of(&self, class: u8) -> u8 {
        self.0.get(usize::from(class)).copied().unwrap_or(0)
    }

    /// The code point of a datagram, by its header; that of the lowest class if the datagram is no Netfold packet.
    #[inline]
    pub fn of_datagram(&self, datagram: &[u8]) -> u8 {
        self.of(Packet::new_checked(datagram).map_or(0, |packet| packet.class()))
    }

    /// The code point of all classes, if they have the same one.
    pub fn uniform(&self) -> Option<u8> {
        self.0.iter().all(|point| *point == self.0[0]).then_some(self.0[0])
    }

    /// One code point for each class, lowest class first.
    pub const fn code_points(&self) -> &[u8; CLASSES] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header;

    #[test]
    fn wrong_code_points_are_refused() {
        assert_eq!(Dscp::new(&[0; 15]), Err(DscpError::CodePoints(15)));
        assert_eq!(Dscp::new(&[64; 16]), Err(DscpError::CodePoint(64)));
    }

    #[test]
    fn a_datagram_has_the_code_point_of_its_class() {
        let mut points = [0; 16];
        points.iter_mut().zip(40..).for_each(|(point, value)| *point = value);
        let dscp = Dscp::new(&points).unwrap();
        assert_eq!((dscp.of(0), dscp.of(15), dscp.of(16), dscp.uniform()), (40, 55, 0, None));
        assert_eq!(Dscp::new(&[46; 16]).unwrap().uniform(), Some(46));
        let mut datagram = [0; header::LEN];
        Packet::new_unchecked(&mut datagram[..]).set_version(crate::VERSION);
        for class in 0..16 {
            Packet::new_unchecked(&mut datagram[..]).set_class(class);
            assert_eq!(dscp.of_datagram(&datagram), 40 + class);
        }
        assert_eq!(dscp.of_datagram(b"short"), 40);
    }
}
