//! Checks of a backend whose interface goes down, comes back, or is removed.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use netfold_io::{IoError, PacketIo, RxBatch};

use crate::checks::{Check, HANG_TIMEOUT, packet};
use crate::{Interface, Rig};

/// What every backend with an interface of its own does.
pub(crate) const ALL: &[Check] = &[
    ("link_down_and_up", link_down_and_up),
    ("device_removed_while_waiting", device_removed_while_waiting),
    ("device_removed_while_sending", device_removed_while_sending),
];

fn interface(rig: &Rig) -> Arc<dyn Interface> {
    Arc::clone(rig.interface.as_ref().expect("asked before"))
}

/// Sends from a spoke until something arrives at the hub.
fn get_through(rig: &mut Rig) {
    let (start, mut batch) = (Instant::now(), rig.hub.capabilities().batch());
    loop {
        rig.spokes[0].transmit(b"through", &[packet(0, 0, 7)]).expect("transmit");
        rig.hub.wait(Duration::from_millis(2)).expect("wait");
        if rig.hub.receive(&mut batch).expect("receive") > 0 {
            return;
        }
        rig.spokes[0].receive(&mut batch).expect("receive");
        assert!(start.elapsed() < HANG_TIMEOUT, "nothing gets through");
    }
}

fn link_down_and_up(mut rig: Rig) {
    let interface = interface(&rig);
    get_through(&mut rig);
    interface.down();
    let mut batch = rig.hub.capabilities().batch();
    for _ in 0..20 {
        rig.hub.receive(&mut batch).expect("a link that is down is quiet");
        rig.hub.transmit(b"lost", &[packet(0, 0, 4)]).expect("a link that is down takes or holds");
        rig.hub.wait(Duration::from_millis(1)).expect("a link that is down can be waited for");
    }
    interface.up();
    get_through(&mut rig);
}

/// Calls until the backend says that it is broken for good.
fn until_broken(mut call: impl FnMut() -> Result<(), IoError>) {
    let start = Instant::now();
    loop {
        match call() {
            Ok(()) => assert!(start.elapsed() < HANG_TIMEOUT, "it was not detected"),
            Err(IoError::Os { .. }) => return,
            Err(other) => panic!("{other}"),
        }
    }
}

fn device_removed_while_waiting(mut rig: Rig) {
    let interface = interface(&rig);
    get_through(&mut rig);
    let Rig { mut hub, .. } = rig;
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let mut batch = RxBatch::new(64, 1 << 18);
            let start = Instant::now();
            until_broken(|| {
                hub.wait(HANG_TIMEOUT)?;
                hub.receive(&mut batch).map(drop)
            });
            assert!(start.elapsed() < HANG_TIMEOUT, "it is reported at once");
            until_broken(|| hub.receive(&mut batch).map(drop)); // and stays so
        });
        interface.remove();
        waiting.join().expect("an error, no panic");
    });
}

fn device_removed_while_sending(mut rig: Rig) {
    let interface = interface(&rig);
    get_through(&mut rig);
    interface.remove();
    let Rig { mut hub, .. } = rig;
    let packets = vec![packet(0, 0, 100); 500];
    let mut batch = RxBatch::new(64, 1 << 18);
    until_broken(|| {
        hub.transmit(&[7; 100], &packets)?;
        hub.wait(Duration::from_millis(1))?;
        hub.receive(&mut batch).map(drop)
    });
}
