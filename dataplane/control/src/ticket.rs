//! The credential with which a worker resumes its session.

use core::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What authorizes a member to resume its session: 256 bits that only the control port and that member know. They are sent in
/// [`Admission::ticket`](crate::Admission::ticket) and [`Resume`](crate::Resume) alone, as 64 hexadecimal digits, and are never part of a packet.
#[derive(Clone, PartialEq, Eq)]
pub struct ResumeTicket(pub [u8; 32]);

impl fmt::Debug for ResumeTicket {
    /// Without the ticket.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeTicket")
    }
}

impl Serialize for ResumeTicket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for ResumeTicket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let invalid = || D::Error::custom("a ticket is 64 hexadecimal digits");
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let mut ticket = [0; 32];
        if pairs.len() != ticket.len() || !rest.is_empty() {
            return Err(invalid());
        }
        for (byte, pair) in ticket.iter_mut().zip(pairs) {
            let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
            let (high, low) = high.zip(low).ok_or_else(invalid)?;
            // Two digits are below 256.
            *byte = (high << 4 | low) as u8;
        }
        Ok(Self(ticket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tickets_survive_their_digits(bytes: [u8; 32]) {
            let text = serde_json::to_string(&ResumeTicket(bytes)).unwrap();
            prop_assert_eq!(text.len(), 66);
            prop_assert_eq!(serde_json::from_str::<ResumeTicket>(&text).unwrap(), ResumeTicket(bytes));
        }

        #[test]
        fn other_strings_are_refused(text in "[0-9a-f]{0,63}|[0-9a-f]{65,70}|[0-9a-f]{63}[g-zA-Z +-]") {
            let text = serde_json::to_string(&text).unwrap();
            if let Ok(ticket) = serde_json::from_str::<ResumeTicket>(&text) {
                // Upper-case digits are digits.
                prop_assert!(text.bytes().any(|digit| digit.is_ascii_uppercase()), "{text} {ticket:?}");
            }
        }
    }
}
