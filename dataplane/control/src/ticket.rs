//! The credential with which a worker resumes its session.

use core::fmt;

use serde::{Deserialize, Serialize};

/// What authorizes a member to resume its session: 256 bits that only the control port and that member know. They are sent in
/// [`Admission::ticket`](crate::Admission::ticket) and [`Resume`](crate::Resume) alone, as 64 hexadecimal digits, and are never part of a packet.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResumeTicket(#[serde(with = "netfold_wire::hex")] pub [u8; 32]);

impl fmt::Debug for ResumeTicket {
    /// Without the ticket.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeTicket")
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
