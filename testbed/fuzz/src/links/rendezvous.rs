//! Exchanges of strings by a rendezvous: what rank 0 gathers is what the others have sent, what the others get is what rank 0 has sent,
//! and nothing is kept that is longer than it may be.

use std::time::Duration;

use netfold_collectives::mesh::{EXCHANGE_MAX, Exchange, ExchangeError, fuzzing};

use super::{received, repeated, stream};
use crate::input::Input;

const ROUNDS: usize = 2;
const PIECES_MAX: usize = 12;
/// Nothing waits so long: the others are gone.
const TIMEOUT: Duration = Duration::from_secs(60);

fn put(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    into.extend_from_slice(bytes);
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len) as usize;
    let (taken, rest) = rest.split_at_checked(len).filter(|_| len <= EXCHANGE_MAX)?;
    *bytes = rest;
    Some(taken)
}

/// Strings and other bytes.
fn script(input: &mut Input<'_>) -> Vec<u8> {
    let mut sent = Vec::new();
    for _ in 0..1 + input.below(PIECES_MAX) {
        match input.below(4) {
            0 => sent.extend_from_slice(input.bytes(8)),
            _ => {
                let len = input.below(64);
                put(&mut sent, &repeated(input, len));
            }
        }
    }
    sent
}

pub(super) fn run(input: &mut Input<'_>) {
    let world = 2 + input.below(3);
    let is_first = input.below(2) == 0;
    let rank = if is_first { 0 } else { 1 };
    let with = if is_first { 1..world } else { 0..1 };
    let (mut scripts, mut ends) = (Vec::new(), Vec::new());
    let mut streams: Vec<_> = (0..world).map(|_| None).collect();
    for peer in with {
        let sent = script(input);
        let (ours, theirs) = stream(&sent);
        streams[peer] = Some(ours);
        scripts.push(sent);
        ends.push(theirs);
    }
    let mut exchange = fuzzing::rendezvous("fuzz", rank, streams, TIMEOUT);
    let mut sent: Vec<&[u8]> = scripts.iter().map(|script| &script[..]).collect();
    let mut expected_out = Vec::new();
    for round in 0..ROUNDS {
        let mine = vec![round as u8; input.below(32)];
        let theirs: Option<Vec<&[u8]>> = match is_first {
            true => sent.iter_mut().map(take).collect(),
            false => (0..world).map(|_| take(&mut sent[0])).collect(),
        };
        let own = is_first.then_some(&mine[..]);
        let expected: Option<Vec<&[u8]>> = theirs.map(|theirs| own.into_iter().chain(theirs).collect());
        match exchange.all_gather(&mine) {
            Ok(all) => assert_eq!(Some(all.iter().map(|one| &one[..]).collect()), expected),
            Err(ExchangeError::Lost { rank, .. }) => {
                assert!(expected.is_none() && usize::from(rank) < world);
                if !is_first {
                    put(&mut expected_out, &mine);
                }
                break;
            }
            Err(error) => panic!("{error}"),
        }
        match is_first {
            true => expected.into_iter().flatten().for_each(|one| put(&mut expected_out, one)),
            false => put(&mut expected_out, &mine),
        }
    }
    drop(exchange);
    ends.into_iter().for_each(|theirs| assert_eq!(received(theirs), expected_out));
}
