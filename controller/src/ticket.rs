//! Secrets of a place: resume tickets, which authorize a member to continue its session on another connection, path tokens, and the keys of
//! authenticated packets.
//!
//! A place has one random key, which is stored with it; the others are derived from it, so a controller that has restarted, or a
//! standby, has them without having stored any. Job number, epoch and job key are in every packet and authorize nothing here.

use hmac::{Hmac, KeyInit, Mac};
use netfold_control::{PathToken, ResumeTicket};
use netfold_wire::PacketKey;
use rand::Rng;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;

/// The key from which the tickets, path tokens and packet keys of a place are derived: 256 random bits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketKey([u8; 32]);

impl TicketKey {
    /// A key from a cryptographically secure generator.
    pub fn generate(rng: &mut impl Rng) -> Self {
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        Self(key)
    }

    /// The ticket of a rank: HMAC-SHA-256 (RFC 2104) of the rank, big-endian.
    pub fn ticket(&self, rank: u16) -> ResumeTicket {
        ResumeTicket(self.mac(rank).finalize().into_bytes().into())
    }

    /// Whether a ticket is the rank's, in a time that does not depend on where it differs.
    pub fn verifies(&self, rank: u16, ticket: &ResumeTicket) -> bool {
        self.mac(rank).verify_slice(&ticket.0).is_ok()
    }

    /// The ticket of a rank of one generation of a resizable job: HMAC-SHA-256 of `member`, the generation and the rank, big-endian.
    pub fn member_ticket(&self, generation: u32, rank: u16) -> ResumeTicket {
        ResumeTicket(self.member_mac(generation, rank).finalize().into_bytes().into())
    }

    /// Whether a ticket is that of a rank of a generation, in a time that does not depend on where it differs.
    pub fn verifies_member(&self, (generation, rank): (u32, u16), ticket: &ResumeTicket) -> bool {
        self.member_mac(generation, rank).verify_slice(&ticket.0).is_ok()
    }

    /// The token by which a rank validates its path: the first 64 bits of HMAC-SHA-256 of `path` and the rank, big-endian.
    pub fn path_token(&self, rank: u16) -> PathToken {
        let mac = self.keyed().chain_update(b"path").chain_update(rank.to_be_bytes());
        let bytes: [u8; 32] = mac.finalize().into_bytes().into();
        PathToken(bytes[..8].iter().fold(0, |token, byte| token << 8 | u64::from(*byte)))
    }

    /// The key of the packets that one sender of the place's tree sends: HMAC-SHA-256 of `packets`, the kind of sender and its number,
    /// big-endian.
    pub fn packet_key(&self, sender: PacketSender) -> PacketKey {
        let (kind, number) = match sender {
            PacketSender::Worker(rank) => (0, rank),
            PacketSender::Switch(switch) => (1, switch),
            PacketSender::Results(switch) => (2, switch),
        };
        let mac = self.keyed().chain_update(b"packets").chain_update([kind]);
        PacketKey(mac.chain_update((number as u64).to_be_bytes()).finalize().into_bytes().into())
    }

    fn keyed(&self) -> Hmac<Sha256> {
        Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length")
    }

    fn member_mac(&self, generation: u32, rank: u16) -> Hmac<Sha256> {
        let mac = self.keyed().chain_update(b"member").chain_update(generation.to_be_bytes());
        mac.chain_update(rank.to_be_bytes())
    }

    fn mac(&self, rank: u16) -> Hmac<Sha256> {
        self.keyed().chain_update(rank.to_be_bytes())
    }
}

/// Who sends authenticated packets, by its number in the plan of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketSender {
    /// A worker, of this rank, to its switch.
    Worker(usize),
    /// A switch, to its parent.
    Switch(usize),
    /// A switch, to all its children.
    Results(usize),
}

impl fmt::Debug for TicketKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn tickets_are_for_one_rank_of_one_place() {
        let (key, other) = (TicketKey([7; 32]), TicketKey([8; 32]));
        assert!(key.verifies(3, &key.ticket(3)));
        assert!(!key.verifies(2, &key.ticket(3)));
        assert!(!other.verifies(3, &key.ticket(3)));
        for bit in 0..256 {
            let mut ticket = key.ticket(3);
            ticket.0[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(3, &ticket), "bit {bit}");
        }
    }

    #[test]
    fn tickets_are_hmac_sha_256_of_the_rank() {
        // printf '\000\003' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0707...07
        let ticket = serde_json::to_string(&TicketKey([7; 32]).ticket(3)).unwrap();
        assert_eq!(ticket, format!("\"{}\"", EXPECTED));
    }

    #[test]
    fn each_sender_of_each_place_has_a_packet_key_of_its_own() {
        use PacketSender::{Results, Switch, Worker};
        let senders = [Worker(0), Worker(1), Worker(256), Switch(0), Switch(1), Results(0), Results(1)];
        let keys: BTreeSet<[u8; 32]> = [TicketKey([7; 32]), TicketKey([8; 32])]
            .iter()
            .flat_map(|place| senders.map(|sender| place.packet_key(sender).0))
            .collect();
        assert_eq!(keys.len(), 2 * senders.len());
        // printf 'packets\001\000\000\000\000\000\000\000\003' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0707...07
        let key = serde_json::to_string(&TicketKey([7; 32]).packet_key(Switch(3))).unwrap();
        assert_eq!(
            key,
            format!("\"{}\"", "318336b6bb8718bfb75e869b12495eb5da6d2e25b961cb56bdf817106f0c2062")
        );
    }

    #[test]
    fn path_tokens_are_another_hmac() {
        // printf 'path\000\003' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0707...07
        let token = serde_json::to_string(&TicketKey([7; 32]).path_token(3)).unwrap();
        assert_eq!(token, "\"232e42c3416aaaa3\"");
        assert_ne!(TicketKey([7; 32]).path_token(2), TicketKey([7; 32]).path_token(3));
    }

    const EXPECTED: &str = "f11eba7e1a974e9c23dec563c73b1140993df3001ba0ce51c313c8cae26f5770";

    #[test]
    fn keys_are_not_printed() {
        assert_eq!(format!("{:?}", TicketKey([0xab; 32])), "TicketKey");
        let text = format!("{:?}", TicketKey([0xab; 32]).ticket(0));
        assert_eq!(text, "ResumeTicket");
    }
}
