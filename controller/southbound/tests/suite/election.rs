//! Several controllers of one switch.

use netfold_controller::{DriverError, SwitchDriver};
use netfold_southbound::p4runtime::ManagedConfig;

use crate::rig::{Device, Watched, config, held, peer};
use crate::steady::admit;

fn with(device: &Device, election_id: u128) -> ManagedConfig {
    ManagedConfig { election_id, ..config(device.address()) }
}

#[test]
fn the_higher_id_is_primary_while_connected() {
    let device = Device::start();
    let mut low = Watched::start(with(&device, 5), Vec::new());
    low.up();
    admit(&mut low.switch, 1, [0, 1]);
    let mut high = Watched::start(with(&device, 1 << 70), held(1, [0, 1]));
    assert!(!high.up().0);
    assert_eq!((high.switch.counts().pushes, high.switch.counts().writes), (0, 0));
    let reason = low.wait_down();
    assert!(reason.contains("another controller is in charge of switch s1"), "{reason}");
    assert!(matches!(low.switch.bind_port(7, peer(7)), Err(DriverError::Unreachable(_))));
    high.switch.bind_port(3, peer(3)).unwrap();

    // It does not outbid the other controller; once that has disconnected, it takes over with a higher id.
    drop(high);
    assert!(!low.up().0);
    low.switch.bind_port(7, peer(7)).unwrap();
    // The other is back, and waits.
    let high = Watched::start(with(&device, 1 << 70), held(1, [0, 1]));
    assert!(high.wait_down().contains("another controller"));
    assert!(low.switch.down().is_none());
    drop(low);
    assert!(!high.up().0);
}

#[test]
fn an_id_that_is_in_use_is_reported() {
    let device = Device::start();
    let first = Watched::start(with(&device, 9), Vec::new());
    first.up();
    let second = Watched::start(with(&device, 9), Vec::new());
    let reason = second.wait_down();
    assert!(reason.contains("Election id already exists"), "{reason}");
    drop(first);
    second.up();
}
