//! Keys of authenticated packets (docs/protocol.md, "Authenticated packets").

use core::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of the tag at the end of an authenticated datagram.
pub const TAG_LEN: usize = 8;

/// What the tags of one sender's packets are computed with: 256 bits. In messages 64 hexadecimal digits, over encrypted or local connections
/// alone; never part of a packet.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PacketKey(#[serde(with = "crate::hex")] pub [u8; 32]);

impl fmt::Debug for PacketKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketKey")
    }
}

/// The keys of one end of a link: the peer has the same two, the other way round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortKeys {
    /// Of the packets that arrive here.
    pub receive: PacketKey,
    /// Of the packets that leave from here.
    pub send: PacketKey,
}

/// The keys of one job's packets at one end of a link. Links between switches carry the packets of several jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobKeys {
    /// Job number.
    pub job: u16,
    /// Epoch of the job's membership.
    pub epoch: u32,
    /// The keys.
    pub keys: PortKeys,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_survive_their_digits(bytes: [u8; 32]) {
            let text = serde_json::to_string(&PacketKey(bytes)).unwrap();
            prop_assert_eq!(text.len(), 66);
            prop_assert_eq!(serde_json::from_str::<PacketKey>(&text).unwrap(), PacketKey(bytes));
        }

        #[test]
        fn other_strings_are_refused(text in "[0-9a-f]{0,63}|[0-9a-f]{65,70}|[0-9a-f]{63}[g-z +-]") {
            let error = serde_json::from_str::<PacketKey>(&serde_json::to_string(&text).unwrap()).unwrap_err();
            prop_assert!(error.to_string().starts_with("expected 64 hexadecimal digits"), "{}", error);
        }
    }

    #[test]
    fn keys_are_not_printed() {
        assert_eq!(format!("{:?}", PacketKey([0xab; 32])), "PacketKey");
    }
}
