//! Switches and connections that go and come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use netfold_controller::{DriverError, SwitchDriver};
use netfold_p4::allreduce::controller_entry;
use netfold_p4::entry::TableEntry;
use netfold_southbound::p4runtime::ManagedConfig;
use netfold_wire::Kind;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::proxy::Proxy;
use crate::rig::{Device, Holding, Raw, Watched, config, entries, held, peer, replicas};
use crate::steady::admit;

#[test]
fn a_switch_that_was_restarted_is_fresh() {
    let device = Device::start();
    let address = device.address();
    let mut watched = Watched::start(config(address), Vec::new());
    let (_, boot) = watched.up();
    admit(&mut watched.switch, 1, [0, 1]);
    drop(device);
    watched.wait_down();
    let switch = &mut watched.switch;
    let begun = Instant::now();
    assert!(matches!(switch.set_group(2, &[]), Err(DriverError::Unreachable(_))));
    assert!(matches!(switch.bind_port(5, peer(5)), Err(DriverError::Unreachable(_))));
    assert!(matches!(switch.advance(0, 4, 1), Err(DriverError::Unreachable(_))));
    assert!(begun.elapsed() < Duration::from_secs(4), "calls fail at once");

    let device = Device::at(address);
    let (fresh, again) = watched.up();
    assert!(fresh);
    assert_ne!(boot, again);
    let switch = &mut watched.switch;
    let raw = Raw::connect(device.address());
    assert_eq!(raw.holding().entries.len(), 2, "the controller's own alone");
    // What was lost can be withdrawn, without a call to the switch.
    let writes = switch.counts().writes;
    switch.delete(&entries(1, [0, 1])).unwrap();
    switch.delete_group(1).unwrap();
    (0..2).for_each(|port| switch.unbind_port(port).unwrap());
    assert_eq!(switch.counts().writes, writes);
    // And what is half done cannot be finished.
    assert!(matches!(switch.insert(&entries(1, [0, 1])), Err(DriverError::Port { .. })));
    admit(switch, 1, [0, 1]);
    assert_eq!(raw.holding().entries.len(), 2 + 11);
}

#[test]
fn a_controller_learns_that_the_switch_was_restarted_meanwhile() {
    let device = Device::start();
    let mut first = Watched::start(config(device.address()), Vec::new());
    let (_, boot) = first.up();
    admit(&mut first.switch, 1, [0, 1]);
    drop(first);
    drop(device);
    let device = Device::start();
    let config = ManagedConfig { boot, ..config(device.address()) };
    let mut second = Watched::start(config, held(1, [0, 1]));
    assert!(second.up().0);
    assert_eq!(Raw::connect(device.address()).holding().entries.len(), 2);
    second.switch.delete(&entries(1, [0, 1])).unwrap();
}

#[test]
fn a_connection_that_breaks_loses_nothing() {
    let device = Device::start();
    let proxy = Proxy::start(device.address());
    let mut watched = Watched::start(config(proxy.address()), Vec::new());
    watched.up();
    admit(&mut watched.switch, 1, [0, 1]);
    let raw = Raw::connect(device.address());
    let before = raw.holding();
    let counts = watched.switch.counts();
    proxy.cut();
    watched.wait_down();
    assert!(!watched.up().0);
    assert_eq!(raw.holding(), before);
    let after = watched.switch.counts();
    assert_eq!((after.pushes, after.writes), (counts.pushes, counts.writes));
    // Led elsewhere, it finds another switch.
    let other = Device::start();
    proxy.lead_to(other.address());
    proxy.cut();
    assert!(watched.up().0);
}

#[test]
fn removals_while_a_switch_is_unreachable_are_applied_when_it_is_back() {
    let device = Device::start();
    let proxy = Proxy::start(device.address());
    let mut watched = Watched::start(config(proxy.address()), Vec::new());
    watched.up();
    admit(&mut watched.switch, 1, [0, 1]);
    let raw = Raw::connect(device.address());
    let one = raw.holding();
    admit(&mut watched.switch, 2, [2, 3]);
    let both = raw.holding();
    assert_ne!(one, both);
    // There is no server at the switch's address.
    let other = Device::start();
    let nowhere = other.address();
    drop(other);
    proxy.lead_to(nowhere);
    proxy.cut();
    watched.wait_down();
    let switch = &mut watched.switch;
    switch.delete(&entries(2, [2, 3])).unwrap();
    switch.delete_group(2).unwrap();
    [2, 3].into_iter().for_each(|port| switch.unbind_port(port).unwrap());
    assert!(matches!(switch.insert(&entries(2, [2, 3])), Err(DriverError::Unreachable(_))));
    assert_eq!(raw.holding(), both, "it goes on as it was");

    proxy.lead_to(device.address());
    assert!(!watched.up().0, "it has lost nothing");
    assert_eq!(raw.holding(), one);
    admit(&mut watched.switch, 2, [2, 3]);
    assert_eq!(raw.holding(), both);
}

/// What a control plane believes to hold.
#[derive(Default)]
struct Model {
    ports: BTreeSet<u16>,
    groups: BTreeMap<u16, [u16; 2]>,
    jobs: BTreeSet<u16>,
}

fn ports_of(job: u16) -> [u16; 2] {
    [2 * (job - 1), 2 * (job - 1) + 1]
}

impl Model {
    /// One random call, whose result is believed.
    fn step(&mut self, rng: &mut StdRng, switch: &mut impl SwitchDriver) -> bool {
        let job: u16 = rng.random_range(1..=4);
        let ports = ports_of(job);
        let bound = ports.iter().all(|port| self.ports.contains(port));
        let result = match rng.random_range(0..5) {
            0 | 1 if !bound => ports
                .iter()
                .filter(|port| !self.ports.contains(port))
                .copied()
                .collect::<Vec<_>>()
                .into_iter()
                .try_for_each(|port| {
                    switch.bind_port(port, peer(port))?;
                    self.ports.insert(port);
                    Ok(())
                }),
            0..=2 if bound && !self.groups.contains_key(&job) => {
                switch.set_group(job, &replicas(ports)).map(|()| {
                    self.groups.insert(job, ports);
                })
            }
            0..=2 if bound && !self.jobs.contains(&job) => switch.insert(&entries(job, ports)).map(|()| {
                self.jobs.insert(job);
            }),
            3 if self.jobs.contains(&job) => switch.delete(&entries(job, ports)).map(|()| {
                self.jobs.remove(&job);
            }),
            4 if !self.jobs.contains(&job) && self.groups.contains_key(&job) => {
                switch.delete_group(job).map(|()| {
                    self.groups.remove(&job);
                })
            }
            4 if !self.jobs.contains(&job) && bound => ports.into_iter().try_for_each(|port| {
                switch.unbind_port(port)?;
                self.ports.remove(&port);
                Ok(())
            }),
            _ => Ok(()),
        };
        match result {
            Ok(()) => true,
            Err(DriverError::Unreachable(_)) => false,
            Err(error) => panic!("{}", error.chain()),
        }
    }

    /// What the switch holds if it is so, given the ports that it made.
    fn holding(&self, ports: &BTreeMap<String, u32>) -> Holding {
        let mut holding = Holding { ports: ports.clone(), ..Holding::default() };
        let at = |port: u16| ports[&peer(port).to_string()] as u16;
        [Kind::Advance, Kind::Probe].iter().for_each(|kind| holding.add(&controller_entry(510, *kind)));
        let placed = |entry: &TableEntry| {
            let mut entry = entry.clone();
            for field in entry.matches.iter_mut().filter(|field| field.field == 1) {
                field.value = at(field.value as u16).into();
            }
            entry
        };
        for job in &self.jobs {
            entries(*job, ports_of(*job)).iter().for_each(|entry| holding.add(&placed(entry)));
        }
        for (group, ports) in &self.groups {
            let replicas = replicas(*ports).into_iter().map(|r| (at(r.port), r.instance)).collect();
            holding.groups.insert((*group).into(), replicas);
        }
        holding
    }
}

#[test]
fn broken_connections_leave_the_expected_state() {
    let base: u64 = std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (mut cuts, mut failed) = (0, 0);
    for seed in base..base + 8 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let device = Device::start();
        let proxy = Proxy::start(device.address());
        let mut watched = Watched::start(config(proxy.address()), Vec::new());
        watched.eventually_up();
        let raw = Raw::connect(device.address());
        let mut model = Model::default();
        for round in 0..12 {
            proxy.cut_after(rng.random_range(0..3000));
            for _ in 0..12 {
                if !model.step(&mut rng, &mut watched.switch) {
                    failed += 1;
                    watched.eventually_up();
                }
            }
            proxy.cut_after(-1);
            // A call may have found the connection just cut.
            let deadline = Instant::now() + crate::rig::TEST_TIMEOUT;
            while watched.switch.resync().is_err() {
                assert!(Instant::now() < deadline, "seed {seed}, round {round}: {:?}", watched.switch.down());
                watched.eventually_up();
            }
            let there = raw.holding();
            let peers: BTreeSet<String> = model.ports.iter().map(|port| peer(*port).to_string()).collect();
            assert_eq!(
                there.ports.keys().cloned().collect::<BTreeSet<_>>(),
                peers,
                "seed {seed}, round {round}"
            );
            assert_eq!(there, model.holding(&there.ports), "seed {seed}, round {round}");
            cuts += 1;
        }
    }
    println!("{cuts} rounds, {failed} calls failed");
    assert!(failed > 20, "the cuts hit nothing: {failed}");
}
