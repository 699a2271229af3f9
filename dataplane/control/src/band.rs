//! The packet classes that a job may use.
//!
//! The packet header has [`CLASSES_MAX`] classes. A job numbers the classes of its operations from 0; a [`Band`] is the contiguous range of
//! packet classes that they are spread over, so that switch queues serve one job's packets before another's and keep the order within each.
//! [`Dscp`] has the same effect on equipment that reads only IP headers (RFC 2474).

use netfold_wire::{CLASSES_MAX, Dscp};
use serde::{Deserialize, Serialize};

/// Why a range of classes is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BandError {
    /// The range is empty, or extends beyond the last class.
    #[error(
        "{classes} classes from {first} on: give 1 or more, and none above {last}",
        last = CLASSES_MAX - 1
    )]
    Range {
        /// The lowest class.
        first: u8,
        /// The number of classes.
        classes: u8,
    },
}

/// The packet classes of a job, one or more in a row, and the DSCP of all classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "BandMessage", into = "BandMessage")]
pub struct Band {
    first: u8,
    classes: u8,
    dscp: Dscp,
}

/// A band as JSON.
#[derive(Serialize, Deserialize)]
struct BandMessage {
    first: u8,
    classes: u8,
    #[serde(default, with = "code_points", skip_serializing_if = "is_best_effort")]
    dscp: Dscp,
}

fn is_best_effort(dscp: &Dscp) -> bool {
    *dscp == Dscp::NONE
}

/// [`Dscp`] as a JSON list, lowest class first.
mod code_points {
    use serde::{Deserializer, Serializer};

    use super::{Deserialize, Dscp, Serialize};

    pub(super) fn serialize<S: Serializer>(dscp: &Dscp, serializer: S) -> Result<S::Ok, S::Error> {
        dscp.code_points().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Dscp, D::Error> {
        let code_points = Vec::<u8>::deserialize(deserializer)?;
        Dscp::new(&code_points).map_err(serde::de::Error::custom)
    }
}

impl Band {
    /// All classes, without DSCP: the band of a job for which none is configured.
    pub const ALL: Self = Self { first: 0, classes: CLASSES_MAX, dscp: Dscp::NONE };

    /// `classes` classes from `first` on, without DSCP.
    ///
    /// # Errors
    /// [`BandError::Range`].
    pub const fn new(first: u8, classes: u8) -> Result<Self, BandError> {
        if classes == 0 || classes > CLASSES_MAX || first > CLASSES_MAX - classes {
            return Err(BandError::Range { first, classes });
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

    /// The number of classes.
    pub const fn classes(&self) -> u8 {
        self.classes
    }

    /// The DSCP of all classes, also of those in which the job may still have packets from an earlier band.
    pub const fn dscp(&self) -> &Dscp {
        &self.dscp
    }

    /// The packet class of operation class `class` of a job with `of` classes. A job's classes are spread over the whole band, so that
    /// higher ones get higher queues however a switch divides the packet classes among its queues. Where the job has more classes than
    /// the band, adjacent ones have the same packet class.
    pub fn class_of(&self, class: u8, of: u8) -> u8 {
        let of = of.clamp(1, CLASSES_MAX);
        // At most 15 * 16.
        self.first + class.min(of - 1) * self.classes / of
    }

    /// How many packet classes from [`Self::class_of`] on are that operation class's own: 1 where it shares its packet class.
    pub fn span_of(&self, class: u8, of: u8) -> u8 {
        let of = of.clamp(1, CLASSES_MAX);
        let class = class.min(of - 1);
        // The next class begins at most at 16 * 16.
        let end = (u16::from(class) + 1) * u16::from(self.classes) / u16::from(of);
        (u16::from(self.first) + end).saturating_sub(self.class_of(class, of).into()).max(1) as u8
    }
}

impl Default for Band {
    fn default() -> Self {
        Self::ALL
    }
}

impl std::fmt::Display for Band {
    /// `8-11`, or `8` for a band of one class.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.classes {
            1 => write!(f, "{}", self.first),
            _ => write!(f, "{}-{}", self.first, self.last()),
        }
    }
}

impl TryFrom<BandMessage> for Band {
    type Error = BandError;
    fn try_from(message: BandMessage) -> Result<Self, BandError> {
        Ok(Self::new(message.first, message.classes)?.marked(message.dscp))
    }
}

impl From<Band> for BandMessage {
    fn from(band: Band) -> Self {
        Self { first: band.first, classes: band.classes, dscp: band.dscp }
    }
}

#[cfg(test)]
mod tests {
    use netfold_wire::dscp::DSCP_MAX;
    use proptest::prelude::*;

    use super::*;

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
        let spans = |band: Band, of: u8| (0..of).map(|class| band.span_of(class, of)).collect::<Vec<_>>();
        assert_eq!((spans(Band::ALL, 1), spans(Band::ALL, 4)), (vec![16], vec![4; 4]));
        assert_eq!(
            (spans(quarter, 1), spans(quarter, 2), spans(quarter, 8)),
            (vec![4], vec![2; 2], vec![1; 8])
        );
        assert_eq!(spans(Band::new(13, 3).unwrap(), 2), [1, 2]);
    }

    #[test]
    fn a_range_outside_the_classes_and_wrong_code_points_are_refused() {
        for (first, classes) in [(0, 0), (0, 17), (16, 1), (15, 2), (1, 16), (255, 255)] {
            assert_eq!(Band::new(first, classes), Err(BandError::Range { first, classes }));
            let text = format!(r#"{{"first":{first},"classes":{classes}}}"#);
            let error = serde_json::from_str::<Band>(&text).unwrap_err().to_string();
            assert!(error.contains("none above 15"), "{error}");
        }
        for dscp in ["[64,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]", "[1,2]", "[]", "7", "null", "[256]"] {
            let text = format!(r#"{{"first":0,"classes":4,"dscp":{dscp}}}"#);
            assert!(serde_json::from_str::<Band>(&text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn spreading_keeps_order_and_band(first in 0_u8..16, classes in 1_u8..=16, of in 0_u8..=32, low: u8, high: u8) {
            let Ok(band) = Band::new(first, classes) else { return Ok(()) };
            let (low, high) = (low.min(high), low.max(high));
            let spread = [low, high].map(|class| band.class_of(class, of));
            prop_assert!(band.first() <= spread[0] && spread[0] <= spread[1] && spread[1] <= band.last());
            let spans = [low, high].map(|class| band.span_of(class, of));
            prop_assert!(spread[1] + spans[1] - 1 <= band.last());
            // A class's own packet classes precede those of the next class, unless both have only one.
            prop_assert!(spread[0] == spread[1] || spread[0] + spans[0] <= spread[1]);
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
