//! Which of the classes of packets are a job's, and what the IP headers of each class say.
//!
//! The header tells [`CLASSES_MAX`] classes apart. A job has classes of its own making, lowest first; a [`Band`] is the run of packet
//! classes that they are spread over, so that queues put one job's packets before another's and keep the order within each. [`Dscp`] is
//! the same for equipment that sees IP headers alone (RFC 2474).

use serde::{Deserialize, Serialize};

use crate::{CLASSES_MAX, Packet};

const CLASSES: usize = CLASSES_MAX as usize;

/// Most that a DSCP can be.
pub const DSCP_MAX: u8 = 63;

/// Why classes or code points are not what a job can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClassError {
    /// Classes that are none, or beyond the last.
    #[error(
        "{classes} classes from {first} on: give 1 or more, and none above {last}",
        last = CLASSES_MAX - 1
    )]
    Range {
        /// The lowest.
        first: u8,
        /// How many.
        classes: u8,
    },
    /// A code point that has more than six bits.
    #[error("a DSCP of {0}: give 0 to {DSCP_MAX}")]
    CodePoint(u8),
    /// Too few or too many code points.
    #[error("{0} code points: give one for each of the {CLASSES_MAX} classes, lowest first")]
    CodePoints(usize),
}

/// The DSCP of packets, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Dscp([u8; CLASSES]);

impl Dscp {
    /// 0 in every class: best effort.
    pub const NONE: Self = Self([0; CLASSES]);

    /// One code point for each class, lowest class first.
    ///
    /// # Errors
    /// [`ClassError::CodePoint`], [`ClassError::CodePoints`].
    pub fn new(code_points: &[u8]) -> Result<Self, ClassError> {
        let all = code_points.try_into().map_err(|_| ClassError::CodePoints(code_points.len()))?;
        match code_points.iter().find(|point| **point > DSCP_MAX) {
            Some(point) => Err(ClassError::CodePoint(*point)),
            None => Ok(Self(all)),
        }
    }

    /// That of a class; 0 of one that does not exist.
    #[inline]
    pub fn of(&self, class: u8) -> u8 {
        self.0.get(usize::from(class)).copied().unwrap_or(0)
    }

    /// That of a datagram, by its header; of what is no packet that of the lowest class.
    #[inline]
    pub fn of_datagram(&self, datagram: &[u8]) -> u8 {
        self.of(Packet::new_checked(datagram).map_or(0, |packet| packet.class()))
    }

    /// The one that all classes have, if they have the same.
    pub fn uniform(&self) -> Option<u8> {
        self.0.iter().all(|point| *point == self.0[0]).then_some(self.0[0])
    }

    /// Lowest class first.
    pub const fn code_points(&self) -> &[u8; CLASSES] {
        &self.0
    }

    fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

impl TryFrom<Vec<u8>> for Dscp {
    type Error = ClassError;
    fn try_from(code_points: Vec<u8>) -> Result<Self, ClassError> {
        Self::new(&code_points)
    }
}

impl From<Dscp> for Vec<u8> {
    fn from(dscp: Dscp) -> Self {
        dscp.0.to_vec()
    }
}

/// The classes of packets that are a job's, one or more in a row, and the DSCP of all classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Said", into = "Said")]
pub struct Band {
    first: u8,
    classes: u8,
    dscp: Dscp,
}

/// A band on the wire.
#[derive(Serialize, Deserialize)]
struct Said {
    first: u8,
    classes: u8,
    #[serde(default, skip_serializing_if = "Dscp::is_none")]
    dscp: Dscp,
}

impl Band {
    /// All classes, and no DSCP: what a job has of which nothing is said.
    pub const ALL: Self = Self { first: 0, classes: CLASSES_MAX, dscp: Dscp::NONE };

    /// So many classes from `first` on, without DSCP.
    ///
    /// # Errors
    /// [`ClassError::Range`].
    pub const fn new(first: u8, classes: u8) -> Result<Self, ClassError> {
        if classes == 0 || classes > CLASSES_MAX || first > CLASSES_MAX - classes {
            return Err(ClassError::Range { first, classes });
        }
        Ok(Self { first, classes, dscp: Dscp::NONE })
    }

    /// The same classes with these code points.
    #[must_use]
    pub const fn marked(self, dscp: Dscp) -> Self {
        Self { dscp, ..self }
    }

    /// The lowest class.
    pub const fn first(&self) -> u8 {
        self.first
    }

    /// The highest class.
    pub const fn last(&self) -> u8 {
        self.first + self.classes - 1
    }

    /// How many there are.
    pub const fn classes(&self) -> u8 {
        self.classes
    }

    /// The DSCP of all classes, also of those that the job may still have packets in from an earlier band.
    pub const fn dscp(&self) -> &Dscp {
        &self.dscp
    }

    /// What a job's class of operations, of so many, is in packets. A job's classes are spread over all of the band, so that whatever
    /// queues a switch has for those, evenly, higher ones of a job get higher ones; where there are more of them, neighbours share one.
    pub fn class_of(&self, class: u8, of: u8) -> u8 {
        let of = of.clamp(1, CLASSES_MAX);
        // At most 15 * 16.
        self.first + class.min(of - 1) * self.classes / of
    }
}

impl Default for Band {
    fn default() -> Self {
        Self::ALL
    }
}

impl std::fmt::Display for Band {
    /// `8-11`, or `8` where there is one.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.classes {
            1 => write!(f, "{}", self.first),
            _ => write!(f, "{}-{}", self.first, self.last()),
        }
    }
}

impl TryFrom<Said> for Band {
    type Error = ClassError;
    fn try_from(said: Said) -> Result<Self, ClassError> {
        Ok(Self::new(said.first, said.classes)?.marked(said.dscp))
    }
}

impl From<Band> for Said {
    fn from(band: Band) -> Self {
        Self { first: band.first, classes: band.classes, dscp: band.dscp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header;
    use proptest::prelude::*;

    #[test]
    fn classes_of_a_job_are_spread_over_its_band() {
        let spread = |band: Band, of: u8| (0..of).map(|class| band.class_of(class, of)).collect::<Vec<_>>();
        assert_eq!(spread(Band::ALL, 1), [0]);
        assert_eq!(spread(Band::ALL, 2), [0, 8]);
        assert_eq!(spread(Band::ALL, 4), [0, 4, 8, 12]);
        assert_eq!(spread(Band::ALL, 16), (0..16).collect::<Vec<_>>());
        assert_eq!(Band::ALL.class_of(200, 16), 15);
        let quarter = Band::new(8, 4).unwrap();
        assert_eq!(spread(quarter, 1), [8]);
        assert_eq!(spread(quarter, 2), [8, 10]);
        assert_eq!(spread(quarter, 8), [8, 8, 9, 9, 10, 10, 11, 11]);
        assert_eq!(spread(Band::new(13, 3).unwrap(), 4), [13, 13, 14, 15]);
    }

    #[test]
    fn what_is_no_band_is_refused() {
        for (first, classes) in [(0, 0), (0, 17), (16, 1), (15, 2), (1, 16), (255, 255)] {
            assert_eq!(Band::new(first, classes), Err(ClassError::Range { first, classes }));
            let text = format!(r#"{{"first":{first},"classes":{classes}}}"#);
            let error = serde_json::from_str::<Band>(&text).unwrap_err().to_string();
            assert!(error.contains("none above 15"), "{error}");
        }
        assert_eq!(Dscp::new(&[0; 15]), Err(ClassError::CodePoints(15)));
        assert_eq!(Dscp::new(&[64; 16]), Err(ClassError::CodePoint(64)));
        for dscp in ["[64,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]", "[1,2]", "[]", "7", "[256]"] {
            let text = format!(r#"{{"first":0,"classes":4,"dscp":{dscp}}}"#);
            assert!(serde_json::from_str::<Band>(&text).is_err(), "{text}");
        }
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

    proptest! {
        #[test]
        fn spreading_keeps_order_and_band(first in 0_u8..16, classes in 1_u8..=16, of in 0_u8..=32, low: u8, high: u8) {
            let Ok(band) = Band::new(first, classes) else { return Ok(()) };
            let (low, high) = (low.min(high), low.max(high));
            let spread = [low, high].map(|class| band.class_of(class, of));
            prop_assert!(band.first() <= spread[0] && spread[0] <= spread[1] && spread[1] <= band.last());
        }

        #[test]
        fn any_bytes_are_a_band_or_an_error(text in r#"\{("first":[0-9]{1,3},?)?("classes":[0-9]{1,3},?)?("dscp":\[([0-9]{1,2},?){0,17}\])?\}"#) {
            if let Ok(band) = serde_json::from_str::<Band>(&text) {
                prop_assert!(band.last() < CLASSES_MAX);
                prop_assert!(band.dscp().code_points().iter().all(|point| *point <= DSCP_MAX));
                prop_assert_eq!(serde_json::from_str::<Band>(&serde_json::to_string(&band).unwrap()).unwrap(), band);
            }
        }
    }
}
