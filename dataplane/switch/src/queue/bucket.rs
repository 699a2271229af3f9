//! A token bucket in integers.

use std::time::Duration;

use super::config::Rate;

/// Units of credit per byte: a rate in bits per second earns that number of units per nanosecond.
const BYTE: u128 = 8_000_000_000;

/// The bucket. In any interval `t` no more than `burst + rate * t` leaves.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    rate: u128,
    burst: u128,
    credit: u128,
    at: Duration,
}

impl Bucket {
    /// A bucket that is full at time 0.
    pub(super) fn new(rate: Rate) -> Self {
        let burst = u128::from(rate.burst_bytes) * BYTE;
        Self { rate: u128::from(rate.bits_per_second), burst, credit: burst, at: Duration::ZERO }
    }

    /// Takes credit for `len` bytes if there is enough; otherwise returns when there will be. A time earlier than before earns none.
    pub(super) fn take(&mut self, now: Duration, len: u32) -> Result<(), Duration> {
        if let Some(passed) = now.checked_sub(self.at) {
            self.credit = self.burst.min(self.credit + passed.as_nanos() * self.rate);
            self.at = now;
        }
        let price = u128::from(len) * BYTE;
        if self.credit >= price {
            self.credit -= price;
            return Ok(());
        }
        let nanos = (price - self.credit).div_ceil(self.rate);
        Err(self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// Returns the credit for `len` bytes that did not leave.
    pub(super) fn give_back(&mut self, len: u32) {
        self.credit = self.burst.min(self.credit + u128::from(len) * BYTE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_earned_to_the_nanosecond_and_kept_up_to_the_burst() {
        // 8 Mbit/s: a byte a microsecond.
        let mut bucket = Bucket::new(Rate { bits_per_second: 8_000_000, burst_bytes: 1000 });
        assert_eq!(bucket.take(Duration::ZERO, 1000), Ok(()));
        assert_eq!(bucket.take(Duration::ZERO, 1), Err(Duration::from_micros(1)));
        assert_eq!(bucket.take(Duration::from_nanos(999), 1), Err(Duration::from_micros(1)));
        assert_eq!(bucket.take(Duration::from_micros(1), 1), Ok(()));
        assert_eq!(bucket.take(Duration::ZERO, 1), Err(Duration::from_micros(2)), "time does not go back");
        assert_eq!(bucket.take(Duration::from_secs(3600), 1000), Ok(()));
        assert_eq!(bucket.take(Duration::from_secs(3600), 1).unwrap_err().subsec_nanos(), 1000);
    }
}
