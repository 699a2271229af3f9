//! The simulator finds what is wrong with switches that are: each breaks one rule.

use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};

use netfold_simulate::sim::{self, ReferenceSwitch, Scenario, SimSwitch};
use netfold_wire::{Flags, Kind, Packet, header};

type Out = Vec<(u16, Vec<u8>)>;

/// A correct switch behind a faulty packet handler.
struct Broken<F> {
    switch: ReferenceSwitch,
    fault: F,
}

impl<F: FnMut(&mut ReferenceSwitch, u16, &[u8], &mut Out)> SimSwitch for Broken<F> {
    fn process(&mut self, port: u16, datagram: &[u8], out: &mut Out) {
        (self.fault)(&mut self.switch, port, datagram, out);
    }

    fn digest(&self, slots: Range<u32>) -> u64 {
        self.switch.digest(slots)
    }

    fn slots(&self) -> u32 {
        self.switch.slots()
    }
}

/// The simulator's finding for a switch with that fault, over some seeds; `None` when it finds nothing.
fn verdict<F: FnMut(&mut ReferenceSwitch, u16, &[u8], &mut Out)>(fault: impl Fn() -> F) -> Option<String> {
    (0..60).find_map(|seed| {
        let scenario = Scenario::from_seed(seed);
        let jobs = [scenario.job.clone(), scenario.other_job.clone()];
        let switch = ReferenceSwitch::new(1024, scenario.lane_words, &jobs);
        let mut broken = Broken { switch, fault: fault() };
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| sim::run(scenario, &mut broken)));
        let message = outcome.err()?;
        Some(message.downcast_ref::<String>().cloned().unwrap_or_default())
    })
}

fn assert_found<F: FnMut(&mut ReferenceSwitch, u16, &[u8], &mut Out)>(fault: impl Fn() -> F, expected: &str) {
    let message = verdict(fault).expect("the fault is found");
    assert!(message.contains(expected), "found for another reason: {message}");
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    assert_eq!(
        verdict(|| |switch: &mut ReferenceSwitch, port, bytes: &[u8], out: &mut Out| switch
            .process(port, bytes, out)),
        None
    );
}

#[test]
fn a_contribution_added_for_another_rank_is_found() {
    // Takes retransmissions for those of the next port: one contribution twice, another not at all.
    let fault = || {
        |switch: &mut ReferenceSwitch, port: u16, bytes: &[u8], out: &mut Out| {
            let resend =
                Packet::new_checked(bytes).is_ok_and(|packet| packet.flags().contains(Flags::RESEND));
            switch.process(if resend { port ^ 1 } else { port }, bytes, out);
        }
    };
    assert!(verdict(fault).is_some());
}

#[test]
fn results_that_differ_are_found() {
    let fault = || {
        let mut count = 0u32;
        move |switch: &mut ReferenceSwitch, port, bytes: &[u8], out: &mut Out| {
            switch.process(port, bytes, out);
            for (_, bytes) in out.iter_mut().filter(|(_, bytes)| bytes.len() > header::LEN) {
                count += 1;
                bytes[60] ^= u8::from(count.is_multiple_of(97));
            }
        }
    };
    assert_found(fault, "differ");
}

#[test]
fn a_switch_that_never_repeats_results_is_found() {
    let fault = || {
        |switch: &mut ReferenceSwitch, port, bytes: &[u8], out: &mut Out| {
            let start = out.len();
            switch.process(port, bytes, out);
            let resend =
                Packet::new_checked(bytes).is_ok_and(|packet| packet.flags().contains(Flags::RESEND));
            if resend && out.len() == start + 1 {
                out.truncate(start);
            }
        }
    };
    assert_found(fault, "finished");
}

#[test]
fn a_single_set_is_found() {
    let fault = || {
        |switch: &mut ReferenceSwitch, port, bytes: &[u8], out: &mut Out| {
            let mut bytes = bytes.to_vec();
            let set = Packet::new_checked(&bytes[..]).map_or(0, |packet| packet.set());
            if bytes.len() >= header::LEN {
                Packet::new_unchecked(&mut bytes[..]).set_set(0);
            }
            let start = out.len();
            switch.process(port, &bytes, out);
            for (_, bytes) in &mut out[start..] {
                Packet::new_unchecked(&mut bytes[..]).set_set(set);
            }
        }
    };
    assert!(verdict(fault).is_some());
}

#[test]
fn an_unauthenticated_packet_that_is_admitted_is_found() {
    let fault = || {
        |switch: &mut ReferenceSwitch, port: u16, bytes: &[u8], out: &mut Out| {
            switch.process(if port >= 100 { 0 } else { port }, bytes, out);
        }
    };
    assert_found(fault, "a forged packet changed a slot");
}

#[test]
fn an_early_result_is_found() {
    // Returns an incomplete sum and marks it as that of both ranks of a pair.
    let fault = || {
        |switch: &mut ReferenceSwitch, port: u16, bytes: &[u8], out: &mut Out| {
            let start = out.len();
            switch.process(port, bytes, out);
            let data = Packet::new_checked(bytes).is_ok_and(|packet| packet.kind() == Kind::Data as u8);
            if data && out.len() == start && port == 1 {
                let mut bytes = bytes.to_vec();
                let mut packet = Packet::new_unchecked(&mut bytes[..]);
                packet.set_kind_raw(Kind::Result as u8);
                packet.set_flags(packet.flags().without(Flags::RESEND));
                packet.set_bitmap(0b11);
                packet.set_count(2);
                out.push((port, bytes));
            }
        }
    };
    assert!(verdict(fault).is_some());
}
