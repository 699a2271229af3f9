//! Argument values with units: sizes in bytes, ranges of sizes, probabilities.

use std::str::FromStr;

/// A number of bytes: `4096`, `4KiB`, `64MiB`, `1GB`. `K`, `M` and `G` alone count in powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

/// A number of bits a second: `200M`, `10G`, `1500k`, `10Gbit`. Units count in powers of 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bits(pub(crate) u64);

/// One size, or sizes doubling from the first to the last: `4KiB..64MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "K" | "KiB" => 1 << 10,
            "M" | "MiB" => 1 << 20,
            "G" | "GiB" => 1 << 30,
            "KB" | "kB" => 1000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            _ => {
                return Err(format!("'{text}' is not a size: write bytes, or a unit as in 4KiB, 64MiB, 1GB"));
            }
        };
        let number: u64 =
            number.parse().map_err(|_| format!("'{text}' is not a size: it does not begin with a number"))?;
        number.checked_mul(factor).map(Self).ok_or_else(|| format!("'{text}' is too large"))
    }
}

impl FromStr for Bits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a rate: write bits a second, or a unit as in 200M, 10G");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim();
        let factor: u64 = match unit.strip_suffix("bit").unwrap_or(unit) {
            "" => 1,
            "k" | "K" => 1000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            "T" => 1_000_000_000_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(factor).map(Self).ok_or_else(wrong)
    }
}

impl FromStr for ByteRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let (Bytes(first), Bytes(last)) = (first.parse()?, last.parse()?);
        if first == 0 || first > last {
            return Err(format!(
                "'{text}' is not a range of sizes: write FIRST..LAST with 0 < FIRST <= LAST"
            ));
        }
        Ok(Self { first, last })
    }
}

impl ByteRange {
    /// The sizes: the first, doubled until the last is exceeded.
    pub(crate) fn doubling(self) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(self.first), |size| size.checked_mul(2))
            .take_while(move |&size| size <= self.last)
    }
}

/// A loss probability: 0 to 0.5.
pub(crate) fn loss(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|value| (0.0..=0.5).contains(value)).ok_or_else(|| {
        format!("'{text}' is not a usable loss: write a fraction of packets from 0 to 0.5, as in 0.02")
    })
}

/// A number of bytes for people: three digits and a binary unit.
pub(crate) fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1000.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    match value {
        _ if unit == "B" => format!("{bytes} B"),
        value if value < 9.995 => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}

/// A rate in bytes a second for people: three digits and a decimal unit.
pub(crate) fn bytes_per_second(rate: u64) -> String {
    decimal(rate, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
}

/// The same in bits a second.
pub(crate) fn bits_per_second(rate: u64) -> String {
    decimal(rate, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// A number with three digits, in one of these units, each of which is a thousand of the one before.
fn decimal(number: u64, [base, units @ ..]: [&str; 5]) -> String {
    let mut value = number as f64;
    let mut unit = base;
    for larger in units {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    match value {
        _ if unit == base => format!("{number} {base}"),
        value if value < 9.995 => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}

/// A whole number for people, with thousands separated by spaces.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_units() {
        let parse = |text: &str| text.parse::<Bytes>().map(|Bytes(bytes)| bytes);
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("4KiB"), Ok(4096));
        assert_eq!(parse("4 K"), Ok(4096));
        assert_eq!(parse("64MiB"), Ok(64 << 20));
        assert_eq!(parse("1GB"), Ok(1_000_000_000));
        for wrong in ["", "KiB", "-1", "4kib", "1.5MiB", "99999999999999999999", "18446744073709551615G"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_with_and_without_units() {
        let parse = |text: &str| text.parse::<Bits>().map(|Bits(bits)| bits);
        assert_eq!(parse("9600"), Ok(9600));
        assert_eq!(parse("200M"), Ok(200_000_000));
        assert_eq!(parse("10 Gbit"), Ok(10_000_000_000));
        for wrong in ["", "M", "-1", "1.5G", "200MiB", "99999999T"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_double() {
        let range: ByteRange = "4KiB..64KiB".parse().unwrap();
        assert_eq!(range.doubling().collect::<Vec<_>>(), [4096, 8192, 16384, 32768, 65536]);
        let range: ByteRange = "3..13".parse().unwrap();
        assert_eq!(range.doubling().collect::<Vec<_>>(), [3, 6, 12]);
        assert_eq!("5".parse::<ByteRange>().unwrap().doubling().count(), 1);
        let whole = ByteRange { first: 1, last: u64::MAX };
        assert_eq!(whole.doubling().count(), 64);
        for wrong in ["0..4", "8..4", "..", "4..", "a..b"] {
            assert!(wrong.parse::<ByteRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn losses() {
        assert_eq!(loss("0.02"), Ok(0.02));
        for wrong in ["-0.1", "0.6", "NaN", "2%", ""] {
            assert!(loss(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(human(999), "999 B");
        assert_eq!(human(4096), "4.00 KiB");
        assert_eq!(human(64 << 20), "64.0 MiB");
        assert_eq!(human(u64::MAX), "16777216 TiB");
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
    }
}
