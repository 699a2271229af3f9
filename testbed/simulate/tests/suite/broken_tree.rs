//! The simulator finds what is wrong with leaves that are: each breaks one rule of hierarchy.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};

use netfold_simulate::sim::{self, JobSetup, ReferenceSwitch, Scenario, SimSwitch};
use netfold_wire::{Kind, Packet, header};

type Out = Vec<(u16, Vec<u8>)>;

/// A correct switch below a parent, behind a faulty packet handler.
struct Leaf<F> {
    switch: ReferenceSwitch,
    parent: Option<u16>,
    fault: F,
}

/// What a fault is given: the switch, the port to its parent, the packet's port, the packet, what to send.
trait Fault: FnMut(&mut ReferenceSwitch, u16, u16, &[u8], &mut Out) {}
impl<F: FnMut(&mut ReferenceSwitch, u16, u16, &[u8], &mut Out)> Fault for F {}

impl<F: Fault> SimSwitch for Leaf<F> {
    fn process(&mut self, port: u16, datagram: &[u8], out: &mut Out) {
        match self.parent {
            Some(parent) => (self.fault)(&mut self.switch, parent, port, datagram, out),
            None => self.switch.process(port, datagram, out),
        }
    }

    fn digest(&self, slots: Range<u32>) -> u64 {
        self.switch.digest(slots)
    }

    fn slots(&self) -> u32 {
        self.switch.slots()
    }
}

/// The simulator's finding for leaves with that fault, over some seeds; `None` when it finds nothing.
fn verdict<F: Fault>(fault: impl Fn() -> F) -> Option<String> {
    (0..60).find_map(|seed| {
        let scenario = Scenario::tree_from_seed(seed);
        let leaf = |jobs: &[JobSetup; 2]| {
            let switch = ReferenceSwitch::new(1024, scenario.lane_words, jobs);
            Leaf { switch, parent: jobs[0].parent, fault: fault() }
        };
        let mut leaves: Vec<_> = scenario.jobs().iter().map(leaf).collect();
        let mut switches: Vec<&mut dyn SimSwitch> = leaves.iter_mut().map(|leaf| leaf as _).collect();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| sim::run_tree(scenario, &mut switches)));
        let message = outcome.err()?;
        Some(message.downcast_ref::<String>().cloned().unwrap_or_default())
    })
}

fn assert_found<F: Fault>(fault: impl Fn() -> F, expected: &str) {
    let message = verdict(fault).expect("the fault is found");
    assert!(message.contains(expected), "found for another reason: {message}");
}

fn kind(bytes: &[u8]) -> Option<u8> {
    Packet::new_checked(bytes).ok().map(|packet| packet.kind())
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let right = || {
        |switch: &mut ReferenceSwitch, _: u16, port: u16, bytes: &[u8], out: &mut Out| {
            switch.process(port, bytes, out);
        }
    };
    assert_eq!(verdict(right), None);
}

#[test]
fn a_leaf_that_forgets_what_it_has_settled_is_found() {
    // A duplicate of a settled chunk goes up once more, with the result in the place of the fold.
    let fault = || {
        let mut workers = 0;
        move |switch: &mut ReferenceSwitch, parent: u16, port: u16, bytes: &[u8], out: &mut Out| {
            let start = out.len();
            switch.process(port, bytes, out);
            if let Some((_, fold)) = out[start..].first().filter(|(to, _)| *to == parent) {
                workers = Packet::new_unchecked(&fold[..]).count();
            }
            let repeated = out.len() == start + 1 && kind(&out[start].1) == Some(Kind::Result as u8);
            if repeated && port != parent {
                let (to, reply) = &mut out[start];
                *to = parent;
                let mut packet = Packet::new_unchecked(&mut reply[..]);
                packet.set_kind_raw(Kind::Data as u8);
                packet.set_count(workers);
            }
        }
    };
    assert_found(fault, "two folds of chunk");
}

#[test]
fn a_leaf_that_folds_a_result_instead_of_overwriting_is_found() {
    let fault = || {
        let mut folds: HashMap<u32, Vec<u8>> = HashMap::new();
        move |switch: &mut ReferenceSwitch, parent: u16, port: u16, bytes: &[u8], out: &mut Out| {
            let mut bytes = bytes.to_vec();
            if port == parent && kind(&bytes) == Some(Kind::Result as u8) {
                let chunk = Packet::new_unchecked(&bytes[..]).chunk();
                let fold = folds.get(&chunk).cloned().unwrap_or_default();
                for (lane, word) in bytes[header::LEN..].chunks_exact_mut(4).zip(fold.chunks_exact(4)) {
                    let number = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                    lane.copy_from_slice(&number(lane).wrapping_add(number(word)).to_be_bytes());
                }
            }
            let start = out.len();
            switch.process(port, &bytes, out);
            for (_, bytes) in out[start..].iter().filter(|(_, bytes)| kind(bytes) == Some(Kind::Data as u8)) {
                folds.insert(Packet::new_unchecked(&bytes[..]).chunk(), bytes[header::LEN..].to_vec());
            }
        }
    };
    assert_found(fault, "differ");
}

#[test]
fn a_leaf_that_sends_results_before_its_parent_is_found() {
    // Its own fold goes to the children as if it were the whole sum.
    let fault = || {
        |switch: &mut ReferenceSwitch, parent: u16, port: u16, bytes: &[u8], out: &mut Out| {
            let start = out.len();
            switch.process(port, bytes, out);
            if let Some((to, reply)) = out[start..].first_mut()
                && *to == parent
            {
                *to = port;
                let mut packet = Packet::new_unchecked(&mut reply[..]);
                packet.set_kind_raw(Kind::Result as u8);
            }
        }
    };
    assert!(verdict(fault).is_some());
}

#[test]
fn a_leaf_that_sends_up_only_once_is_found() {
    let fault = || {
        let mut sent: HashMap<u32, bool> = HashMap::new();
        move |switch: &mut ReferenceSwitch, parent: u16, port: u16, bytes: &[u8], out: &mut Out| {
            let start = out.len();
            switch.process(port, bytes, out);
            let up = out[start..].first().filter(|(to, _)| *to == parent);
            let chunk = up.map(|(_, bytes)| Packet::new_unchecked(&bytes[..]).chunk());
            if chunk.is_some_and(|chunk| sent.insert(chunk, true).is_some()) {
                out.truncate(start);
            }
        }
    };
    assert_found(fault, "finished");
}
