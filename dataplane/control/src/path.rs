//! Path validation: a member proves, before its job starts, that it receives packets at the address that it named.

use core::fmt;
use std::net::IpAddr;

use netfold_wire::PortKeys;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a member needs to validate its path. It sends bare DATA of this job, epoch and key to the switch, which replies with a REJECT for
/// [`Reason::Path`](netfold_wire::Reason::Path); the token in it is the member's proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathChallenge {
    /// Job number on the switch.
    pub job: u16,
    /// Epoch of the membership.
    pub epoch: u32,
    /// Job key.
    pub key: u32,
    /// UDP port of the switch.
    pub udp_port: u16,
    /// Address of the member's switch, where it is not the one of this TCP session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<IpAddr>,
    /// The keys of the worker's packets, from the first on, if the job is authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<PortKeys>,
}

/// 64 bits that a switch sends to one member's address alone: as 16 hexadecimal digits in messages, and in a REJECT as `chunk` (the upper
/// 32 bits) and `bitmap`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PathToken(pub u64);

impl fmt::Debug for PathToken {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PathToken")
    }
}

impl Serialize for PathToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for PathToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let valid = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let token = u64::from_str_radix(&digits, 16).ok().filter(|_| valid);
        token.map(Self).ok_or_else(|| D::Error::custom("a path token is 16 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_survive_their_digits(token: u64) {
            let text = serde_json::to_string(&PathToken(token)).unwrap();
            prop_assert_eq!(text.len(), 18);
            prop_assert_eq!(serde_json::from_str::<PathToken>(&text).unwrap(), PathToken(token));
        }

        #[test]
        fn other_strings_are_refused(text in "[0-9a-f]{0,15}|[0-9a-f]{17,20}|[+ -][0-9a-f]{15}|[0-9a-f]{15}[g-z]") {
            prop_assert!(serde_json::from_str::<PathToken>(&serde_json::to_string(&text).unwrap()).is_err());
        }
    }

    #[test]
    fn tokens_are_not_printed() {
        assert_eq!(format!("{:?}", PathToken(0xab)), "PathToken");
    }
}
