//! Peers that are attached and detached: the list has what was accepted, and no peer twice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use netfold_p4_runtime::ports::{AttachRequest, DetachRequest, Job, JobKeys};
use netfold_switch_p4runtime::fuzzing::Control;

use super::{CPU_PORT, DEVICE, Idle, LANE_WORDS, check, primary};
use crate::input::Input;

const STEPS_MAX: usize = 60;
const PEERS: [&str; 8] = [
    "198.18.0.2:20038",
    "198.18.0.3:20038",
    "198.18.0.2:20039",
    "[::ffff:198.18.0.2]:20038",
    "[fd00::2]:20038",
    "198.18.0.4:0",
    "224.0.0.1:20038",
    "255.255.255.255:1",
];

/// A port, and the jobs that have keys on it.
type Attached = (u32, BTreeSet<(u32, u32)>);

/// The list, by peer.
fn list(control: &Control) -> BTreeMap<SocketAddr, Attached> {
    let ports = control.ports().expect("calls of an idle switch take place");
    let (len, mut numbers) = (ports.len(), BTreeSet::new());
    let listed = ports.into_iter().map(|port| {
        assert!(numbers.insert(port.port) && port.port != u32::from(CPU_PORT) && !port.fixed);
        let jobs = port.authenticated.iter().map(|job| (job.number, job.epoch)).collect();
        (port.peer.parse().expect("an address"), (port.port, jobs))
    });
    let listed: BTreeMap<_, _> = listed.collect();
    assert_eq!(listed.len(), len, "no peer has two ports");
    listed
}

fn peer(input: &mut Input<'_>) -> String {
    match input.below(8) {
        0 => String::from_utf8_lossy(input.some(24)).into_owned(),
        _ => PEERS[input.below(PEERS.len())].into(),
    }
}

fn job(input: &mut Input<'_>) -> Job {
    let number = if input.below(8) == 0 { input.word() } else { input.below(6) as u32 };
    Job { number, epoch: input.below(3) as u32 }
}

fn keys(input: &mut Input<'_>) -> JobKeys {
    let mut key = || vec![input.byte() & 3; if input.below(16) == 0 { 31 } else { 32 }];
    let (receive, send) = (key(), key());
    JobKeys { job: (input.below(16) > 0).then(|| job(input)), receive, send }
}

/// The address of a peer that is attached under this text.
fn canonical(text: &str) -> Option<SocketAddr> {
    let peer: SocketAddr = text.parse().ok()?;
    Some(SocketAddr::new(peer.ip().to_canonical(), peer.port()))
}

pub(super) fn run(input: &mut Input<'_>, switch: &Idle) {
    let control = switch.controlled(LANE_WORDS[usize::from(input.below(4) == 0)]);
    let described = control.describe().expect("calls of an idle switch take place");
    assert_eq!((described.cpu_port, described.boot_id.len()), (CPU_PORT.into(), 32));
    let mut known = BTreeMap::new();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let election_id = if input.below(16) == 0 { None } else { primary() };
        let (peer, with_keys) = (peer(input), input.below(2) == 0);
        let address = canonical(&peer);
        let admitted = election_id.is_some();
        let result = if input.below(3) > 0 {
            let keys = with_keys.then(|| keys(input));
            let of = keys.as_ref().and_then(|keys| keys.job).map(|job| (job.number, job.epoch));
            let request = AttachRequest { peer, device_id: DEVICE, election_id, keys, ..Default::default() };
            control.attach(&request).map(|response| {
                let address = address.expect("an address");
                let (port, jobs) = known.entry(address).or_insert_with(|| (response.port, BTreeSet::new()));
                assert_eq!(*port, response.port, "a peer keeps its port");
                jobs.extend(of);
            })
        } else {
            let keys_of = with_keys.then(|| job(input));
            let of = keys_of.map(|job| (job.number, job.epoch));
            let request =
                DetachRequest { peer, device_id: DEVICE, election_id, keys_of, ..Default::default() };
            control.detach(&request).map(|_| {
                let address = address.expect("an address");
                match (of, known.get_mut(&address)) {
                    (Some(of), Some((_, jobs))) => drop(jobs.remove(&of)),
                    (None, _) => drop(known.remove(&address)),
                    _ => {}
                }
            })
        };
        assert!(admitted || result.is_err(), "only the primary changes ports");
        if let Err(refused) = result {
            check(&refused);
        }
        assert_eq!(list(&control), known, "what was refused changes nothing");
    }
}
