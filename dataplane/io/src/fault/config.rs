//! What goes wrong, how often, and how to say it on a command line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Faults of one direction. Probabilities are per datagram, from 0 to 1. The default is no fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Probability that a datagram is lost.
    pub loss: f64,
    /// Probability that a datagram arrives twice. The copy meets reordering and delay of its own.
    pub duplicate: f64,
    /// Probability that a datagram is held back until some later ones have passed it.
    pub reorder: f64,
    /// Most datagrams that pass one that is held back; the number is drawn from 1 to this.
    pub reorder_distance: u32,
    /// Longest time that a datagram is held back for the sake of reordering, when too few follow it.
    pub reorder_hold: Duration,
    /// Probability that a datagram is corrupted, which its UDP checksum shows: it is dropped.
    pub corrupt: f64,
    /// Probability that a datagram is corrupted in a way that its UDP checksum does not show: it is delivered with two bits
    /// changed. Results can then be wrong.
    pub undetected: f64,
    /// Shortest delay of every datagram.
    pub delay_min: Duration,
    /// Longest delay; each is drawn evenly between the two.
    pub delay_max: Duration,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_distance: 8,
            reorder_hold: Duration::from_millis(2),
            corrupt: 0.0,
            undetected: 0.0,
            delay_min: Duration::ZERO,
            delay_max: Duration::ZERO,
        }
    }
}

impl Faults {
    /// Whether datagrams pass as if there were nothing here.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.loss <= 0.0
            && self.duplicate <= 0.0
            && self.reorder <= 0.0
            && self.corrupt <= 0.0
            && self.undetected <= 0.0
            && self.delay_max.is_zero()
    }
}

/// Faults of both directions, and the seed from which all of them follow.
///
/// On a command line: `loss=0.02,duplicate=0.01,delay=1ms..5ms,seed=7`. Keys are `loss`, `duplicate`, `reorder`,
/// `corrupt`, `undetected` (probabilities), `distance` (datagrams), `hold` (duration), `delay` (a duration, or two with `..`
/// between) and `seed`. A key with `rx.` or `tx.` in front speaks of what is received or sent only; without, of both.
/// Later keys override earlier ones. Durations are whole numbers with `ns`, `us`, `ms` or `s`. [`Display`](fmt::Display)
/// writes the same form.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultConfig {
    /// Seed of everything random.
    pub seed: u64,
    /// Faults of what is received.
    pub rx: Faults,
    /// Faults of what is sent.
    pub tx: Faults,
}

impl FaultConfig {
    /// Loss alone, in both directions.
    #[must_use]
    pub fn with_loss(seed: u64, loss: f64) -> Self {
        let faults = Faults { loss, ..Faults::default() };
        Self { seed, rx: faults, tx: faults }
    }
}

/// Why text is no [`FaultConfig`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultParseError {
    /// An item is not of the form key=value.
    #[error("`{0}` is not of the form key=value")]
    Form(String),
    /// No such key.
    #[error(
        "unknown fault `{0}`; use loss, duplicate, reorder, corrupt, undetected, distance, hold, delay (each also \
         with rx. or tx. in front) or seed"
    )]
    Key(String),
    /// A probability is not a number from 0 to 1.
    #[error("`{0}` is not a probability from 0 to 1")]
    Probability(String),
    /// A number is not one.
    #[error("`{0}` is not a whole number of the range allowed")]
    Number(String),
    /// A duration is not one.
    #[error("`{0}` is not a duration such as 250us, 5ms or 1ms..5ms")]
    Duration(String),
}

impl FromStr for FaultConfig {
    type Err = FaultParseError;

    fn from_str(text: &str) -> Result<Self, FaultParseError> {
        let mut config = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').ok_or_else(|| FaultParseError::Form(item.to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            if key == "seed" {
                config.seed = value.parse().map_err(|_| FaultParseError::Number(value.to_owned()))?;
            } else if let Some(key) = key.strip_prefix("rx.") {
                config.rx.set(key, value)?;
            } else if let Some(key) = key.strip_prefix("tx.") {
                config.tx.set(key, value)?;
            } else {
                config.rx.set(key, value)?;
                config.tx.set(key, value)?;
            }
        }
        Ok(config)
    }
}

impl Faults {
    fn set(&mut self, key: &str, value: &str) -> Result<(), FaultParseError> {
        match key {
            "loss" => self.loss = probability(value)?,
            "duplicate" => self.duplicate = probability(value)?,
            "reorder" => self.reorder = probability(value)?,
            "corrupt" => self.corrupt = probability(value)?,
            "undetected" => self.undetected = probability(value)?,
            "distance" => {
                let distance = value.parse().ok().filter(|distance| (1..=1 << 16).contains(distance));
                self.reorder_distance = distance.ok_or_else(|| FaultParseError::Number(value.to_owned()))?;
            }
            "hold" => self.reorder_hold = duration(value)?,
            "delay" => {
                let (min, max) = value.split_once("..").unwrap_or((value, value));
                (self.delay_min, self.delay_max) = (duration(min)?, duration(max)?);
                if self.delay_min > self.delay_max {
                    return Err(FaultParseError::Duration(value.to_owned()));
                }
            }
            _ => return Err(FaultParseError::Key(key.to_owned())),
        }
        Ok(())
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, prefix: &str) -> fmt::Result {
        let default = Self::default();
        for (key, value) in [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
            ("undetected", self.undetected),
        ] {
            if value > 0.0 {
                write!(f, ",{prefix}{key}={value}")?;
            }
        }
        if self.reorder_distance != default.reorder_distance {
            write!(f, ",{prefix}distance={}", self.reorder_distance)?;
        }
        if self.reorder_hold != default.reorder_hold {
            write!(f, ",{prefix}hold={}ns", self.reorder_hold.as_nanos())?;
        }
        if !self.delay_max.is_zero() {
            write!(f, ",{prefix}delay={}ns..{}ns", self.delay_min.as_nanos(), self.delay_max.as_nanos())?;
        }
        Ok(())
    }
}

impl fmt::Display for FaultConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={}", self.seed)?;
        if self.rx == self.tx {
            return self.rx.write(f, "");
        }
        self.rx.write(f, "rx.")?;
        self.tx.write(f, "tx.")
    }
}

fn probability(text: &str) -> Result<f64, FaultParseError> {
    let value = text.parse().ok().filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| FaultParseError::Probability(text.to_owned()))
}

fn duration(text: &str) -> Result<Duration, FaultParseError> {
    let error = || FaultParseError::Duration(text.to_owned());
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
    let number: u64 = text[..digits].parse().map_err(|_| error())?;
    match &text[digits..] {
        "ns" => Ok(Duration::from_nanos(number)),
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        _ => Err(error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_directions_and_one() {
        let config: FaultConfig =
            "loss=0.02, tx.loss=0.5,rx.delay=1ms..5ms,hold=3us,distance=4,seed=9".parse().unwrap();
        assert_eq!((config.seed, config.rx.loss, config.tx.loss), (9, 0.02, 0.5));
        assert_eq!(config.rx.delay_max, Duration::from_millis(5));
        assert!(config.tx.delay_max.is_zero());
        assert_eq!((config.tx.reorder_distance, config.tx.reorder_hold), (4, Duration::from_micros(3)));
        assert_eq!(config.to_string().parse(), Ok(config));
        let config: FaultConfig =
            "duplicate=0.25,reorder=1,corrupt=0.125,undetected=0.5,delay=7ns".parse().unwrap();
        assert_eq!(
            config.to_string(),
            "seed=0,duplicate=0.25,reorder=1,corrupt=0.125,undetected=0.5,delay=7ns..7ns"
        );
        assert_eq!("".parse(), Ok(FaultConfig::default()));
        assert!(FaultConfig::default().rx.is_none() && !config.rx.is_none());
    }

    proptest! {
        #[test]
        fn any_text_is_a_config_or_an_error(text in "(rx.|tx.)?(loss|delay|hold|distance|seed|x)=?[0-9.numse,é=]{0,12}") {
            if let Ok(config) = text.parse::<FaultConfig>() {
                prop_assert_eq!(config.to_string().parse(), Ok(config));
            }
        }
    }

    #[test]
    fn errors_name_the_part() {
        let error = |text: &str| text.parse::<FaultConfig>().unwrap_err();
        assert_eq!(error("loss"), FaultParseError::Form("loss".into()));
        assert_eq!(error("rx.lose=1"), FaultParseError::Key("lose".into()));
        assert_eq!(error("loss=1.5"), FaultParseError::Probability("1.5".into()));
        assert_eq!(error("loss=NaN"), FaultParseError::Probability("NaN".into()));
        assert_eq!(error("distance=0"), FaultParseError::Number("0".into()));
        assert_eq!(error("seed=-1"), FaultParseError::Number("-1".into()));
        for bad in ["5", "ms", "5m", "5ms..1ms", "99999999999999999999s", "1ms..", "é"] {
            assert!(matches!(error(&format!("delay={bad}")), FaultParseError::Duration(_)), "{bad}");
        }
    }
}
