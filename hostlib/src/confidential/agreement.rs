//! How ranks that hold the same group key agree on a fresh key, over their own links.
//!
//! Every rank contributes a random nonce. A rank accepts the nonces only if its own is among them, so the key is one that it never had
//! before, whatever others send: no controller, switch or observer can make it compute a keystream twice. Then each rank proves, by a
//! tag, that it has computed the same key.

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::error::Error;
use crate::group_key::{GroupKey, GroupKeyError};

/// Bytes of a nonce.
const NONCE_LEN: usize = 32;

/// What the key is for, at the beginning of HKDF's info.
const PURPOSE: &[u8] = b"netfold confidential v1";

/// A key of 256 bits that is derived from another one.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key([u8; 32]);

impl Key {
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// What all ranks have agreed on: the key from which those of single uses are derived.
pub(crate) struct AgreedKey(Key);

/// The members that agree: ranks of a job, or the leaders of its hosts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Members<'a> {
    /// The job's name.
    pub(crate) job: &'a str,
    /// This member's index.
    pub(crate) index: u16,
    /// Number of members.
    pub(crate) count: u16,
}

/// Agrees on a fresh key. `gather` is called twice, on every member, and returns the members' bytes in order.
///
/// # Errors
///
/// [`Error::GroupKeyDiffers`] with the indices of the members whose group key is another one; [`Error::GroupKey`] without random numbers;
/// [`Error::Control`] where members send what cannot be nonces; and the errors of `gather`.
pub(crate) fn agree(
    group: &GroupKey,
    members: Members<'_>,
    mut gather: impl FnMut(&[u8]) -> Result<Vec<Vec<u8>>, Error>,
) -> Result<AgreedKey, Error> {
    let mut own = [0; NONCE_LEN];
    getrandom::fill(&mut own).map_err(|error| Error::GroupKey(GroupKeyError::Random(error)))?;
    let nonces = gather(&own)?;
    let agreed = AgreedKey::derive(group, members, &own, &nonces)?;
    let confirmation = agreed.key("confirmation");
    let tags = gather(&tag(&confirmation, members.index).finalize().into_bytes())?;
    // The comparison takes as long wherever tags differ.
    let differs = |member: &u16| {
        let theirs = tags.get(usize::from(*member)).map_or(&[][..], Vec::as_slice);
        tag(&confirmation, *member).verify_slice(theirs).is_err()
    };
    let ranks: Vec<u16> = (0..members.count).filter(differs).collect();
    if ranks.is_empty() { Ok(agreed) } else { Err(Error::GroupKeyDiffers { ranks }) }
}

/// HMAC-SHA-256 (RFC 2104) of the member's index, big-endian.
fn tag(key: &Key, member: u16) -> Hmac<Sha256> {
    let keyed = Hmac::<Sha256>::new_from_slice(&key.0).expect("HMAC takes keys of any length");
    keyed.chain_update(member.to_be_bytes())
}

impl AgreedKey {
    /// HKDF-SHA-256 (RFC 5869) of the group key, salted with SHA-256 of all nonces in order. Its info is the purpose, the length of the job's
    /// name (4 bytes), the name, and the number of members (2 bytes).
    fn derive(
        group: &GroupKey,
        members: Members<'_>,
        own: &[u8; NONCE_LEN],
        nonces: &[Vec<u8>],
    ) -> Result<Self, Error> {
        let Members { job, index, count } = members;
        let is_own = nonces.get(usize::from(index)).is_some_and(|nonce| nonce == own);
        let complete =
            nonces.len() == usize::from(count) && nonces.iter().all(|nonce| nonce.len() == NONCE_LEN);
        if !is_own || !complete {
            return Err(Error::Control { what: "the ranks' nonces are not those of this job" });
        }
        let mut salt = Sha256::new();
        nonces.iter().for_each(|nonce| salt.update(nonce));
        let extracted = Hkdf::<Sha256>::new(Some(&salt.finalize()), group.bytes());
        let info = [PURPOSE, &(job.len() as u32).to_be_bytes(), job.as_bytes(), &count.to_be_bytes()];
        let mut key = Key([0; 32]);
        extracted.expand_multi_info(&info, &mut key.0).expect("32 bytes are less than HKDF's limit");
        Ok(Self(key))
    }

    /// The key of one use: HKDF-Expand of the agreed key, with the use as info.
    pub(crate) fn key(&self, usage: &str) -> Key {
        let expand = Hkdf::<Sha256>::from_prk(&self.0.0).expect("32 bytes are the hash's length");
        let mut key = Key([0; 32]);
        expand.expand(usage.as_bytes(), &mut key.0).expect("32 bytes are less than HKDF's limit");
        key
    }
}

impl std::fmt::Debug for Key {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, Mutex};

    /// Runs the agreement on a thread for each member; what each gathers may be changed.
    fn play(
        groups: &[GroupKey],
        job: impl Fn(u16) -> &'static str + Sync,
        change: impl Fn(usize, u16, &mut Vec<Vec<u8>>) + Sync,
    ) -> Vec<Result<AgreedKey, Error>> {
        let count = groups.len();
        let (barrier, board) = (Barrier::new(count), Mutex::new(vec![Vec::new(); count]));
        std::thread::scope(|scope| {
            let member = |index: usize| {
                let (barrier, board, change, job) = (&barrier, &board, &change, &job);
                scope.spawn(move || {
                    let mut round = 0;
                    let members =
                        Members { job: job(index as u16), index: index as u16, count: count as u16 };
                    agree(&groups[index], members, |mine| {
                        board.lock().unwrap()[index] = mine.to_vec();
                        barrier.wait();
                        let mut all = board.lock().unwrap().clone();
                        barrier.wait();
                        change(round, index as u16, &mut all);
                        round += 1;
                        Ok(all)
                    })
                })
            };
            let members: Vec<_> = (0..count).map(member).collect();
            members.into_iter().map(|member| member.join().unwrap()).collect()
        })
    }

    fn group(byte: u8) -> GroupKey {
        GroupKey::from([byte; 32])
    }

    #[test]
    fn members_with_one_group_key_agree_on_a_fresh_key() {
        let agreed = || {
            let all = play(&[group(1), group(1), group(1)], |_| "job", |_, _, _| {});
            let keys: Vec<[u8; 32]> = all.into_iter().map(|agreed| agreed.unwrap().key("use").0).collect();
            assert!(keys.iter().all(|key| *key == keys[0]));
            keys[0]
        };
        assert_ne!(agreed(), agreed());
    }

    #[test]
    fn members_with_another_group_key_are_named() {
        let all = play(&[group(1), group(1), group(2), group(1)], |_| "job", |_, _, _| {});
        let named: Vec<Vec<u16>> = all
            .into_iter()
            .map(|agreed| match agreed.map(drop) {
                Err(Error::GroupKeyDiffers { ranks }) => ranks,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(named, [vec![2], vec![2], vec![0, 1, 3], vec![2]]);
    }

    #[test]
    fn other_jobs_and_changed_nonces_give_other_keys() {
        let jobs = play(&[group(1), group(1)], |rank| ["a", "b"][usize::from(rank)], |_, _, _| {});
        assert!(jobs.iter().all(|agreed| matches!(agreed, Err(Error::GroupKeyDiffers { .. }))));
        let changed = play(
            &[group(1), group(1)],
            |_| "job",
            |round, rank, all| {
                if (round, rank) == (0, 0) {
                    all[1][5] ^= 1;
                }
            },
        );
        assert!(changed.iter().all(|agreed| matches!(agreed, Err(Error::GroupKeyDiffers { .. }))));
    }

    /// Who replays a rank's nonces, or leaves its own out, gets no key.
    #[test]
    fn nonces_without_the_own_one_are_refused() {
        for drop_own in [true, false] {
            let all = play(
                &[group(1)],
                |_| "job",
                |round, _, all| {
                    if round == 0 && drop_own {
                        all[0] = vec![7; NONCE_LEN];
                    } else if round == 0 {
                        all.push(vec![7; NONCE_LEN]);
                    }
                },
            );
            assert!(matches!(all[0], Err(Error::Control { .. })));
        }
    }

    /// Computed by an independent implementation (Python's `hmac` and `hashlib`), from nonces of 32 bytes 0x11 and 32 bytes 0x22, group key of bytes 0x07.
    #[test]
    fn keys_are_those_of_rfc_5869() {
        let nonces = [vec![0x11; 32], vec![0x22; 32]];
        let members = Members { job: "demo", index: 0, count: 2 };
        let agreed = AgreedKey::derive(&group(7), members, &[0x11; 32], &nonces).unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(&agreed.0.0), AGREED);
        assert_eq!(hex(&agreed.key("tree 0").0), TREE_0);
        assert_eq!(hex(&tag(&agreed.key("confirmation"), 1).finalize().into_bytes()), TAG_1);
    }

    const AGREED: &str = "3a4f615145a3b0c4302e3a8fef1f449d302a85555debadb6af9d52b8a6367cb8";
    const TREE_0: &str = "fea53c034ab6db83cd58eecba6ec1ec83ff28b081a530ef2d8edb2a10684c667";
    const TAG_1: &str = "e1635dcff5e4eaa61509bc8d6833255b66d1e4fb1aeee445c482ab54ebffa77a";
}
