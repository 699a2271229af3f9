//! Messages to posted receives of NCCL's plugin: each is the first message of its tag, whole, and nothing else is written.

use std::collections::BTreeSet;

use nccl_net_netfold::fuzzing::{Receive, receive};

use super::stream;
use crate::input::Input;

const RECEIVES_MAX: usize = 6;
const PIECES_MAX: usize = 12;
const TAGS: usize = 3;
const LEN_MAX: usize = 48;
const HEAD: usize = 16;

fn message(tag: i32, len: u64, data: &[u8]) -> Vec<u8> {
    [&b"nfm\x01"[..], &tag.to_le_bytes(), &len.to_le_bytes(), data].concat()
}

/// Messages, some of which are no messages.
fn script(input: &mut Input<'_>) -> Vec<u8> {
    let mut sent = Vec::new();
    for _ in 0..input.below(PIECES_MAX) {
        let data = input.some(LEN_MAX);
        let mut piece = message(input.below(TAGS) as i32, data.len() as u64, data);
        if input.below(4) == 0 {
            input.disturb(&mut piece);
        }
        sent.extend(piece);
    }
    sent
}

/// What the receives get, by the definition of the protocol; and whether the connection fails.
fn model(sent: &[u8], receives: &mut [Receive]) -> bool {
    let mut pending: BTreeSet<usize> = (0..receives.len()).collect();
    let mut rest = sent;
    while !pending.is_empty() {
        let Some((head, data)) = rest.split_first_chunk::<HEAD>() else { return true };
        let [b'n', b'f', b'm', 1, tag @ ..] = *head else { return true };
        let (tag, len) = tag.split_at(4);
        let tag = i32::from_le_bytes(tag.try_into().expect("4 bytes"));
        let len = u64::from_le_bytes(len.try_into().expect("8 bytes"));
        // A message that is not waited for holds up those behind it.
        let Some(at) = pending.iter().copied().find(|at| receives[*at].tag == tag) else { return false };
        let Receive { buffer, done, .. } = &mut receives[at];
        if len > buffer.len() as u64 {
            return true;
        }
        let len = len as usize;
        let there = len.min(data.len());
        buffer[..there].copy_from_slice(&data[..there]);
        if there < len {
            return true;
        }
        *done = Some(len);
        pending.remove(&at);
        rest = &data[len..];
    }
    false
}

pub(super) fn run(input: &mut Input<'_>) {
    let mut receives: Vec<Receive> = Vec::new();
    for _ in 0..1 + input.below(RECEIVES_MAX) {
        let (tag, len) = (input.below(TAGS) as i32, input.below(LEN_MAX));
        receives.push(Receive { tag, buffer: vec![0; len], done: None });
    }
    let sent = script(input);
    let mut expected = receives.clone();
    let fails = model(&sent, &mut expected);
    let (ours, theirs) = stream(&sent);
    ours.set_nonblocking(true).expect("a socket");
    let failure = receive(ours, &mut receives);
    drop(theirs);
    assert_eq!(receives, expected, "{sent:02x?}");
    assert_eq!(failure.is_some(), fails, "{failure:?}");
    assert!(failure.is_none_or(|failure| !failure.is_empty()));
}
