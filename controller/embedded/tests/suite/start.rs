//! Starting and stopping a switch.

use std::net::{Ipv4Addr, SocketAddr};

use netfold::{Communicator, Error, ReduceOp};
use netfold_embedded::{EmbeddedError, EmbeddedSwitch};
use netfold_testkit::job::{CheckedSum, on_all_ranks};
use netfold_testkit::namespace;

fn worker(switch: SocketAddr, rank: u16) {
    let comm = Communicator::builder()
        .job("embedded")
        .rank(rank)
        .world_size(2)
        .switch(switch)
        .unwrap()
        .join_timeout(crate::TIMEOUT)
        .connect()
        .unwrap();
    let job = CheckedSum { world: 2, elements: 5000, operation: 0 };
    let mut tensor = job.contribution(rank);
    comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
    comm.leave().unwrap();
    job.verify(rank, &tensor);
}

#[test]
fn workers_join_and_sum() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    let control = switch.control();
    assert!(control.ip().is_loopback() && control.port() != 0);
    on_all_ranks(2, |rank| worker(control, rank));
    assert!(!switch.is_finished());
    assert!(switch.counters().unwrap().results > 0);
    assert!(switch.stop().unwrap().results > 0);
}

/// A worker of a job of one.
fn alone(switch: SocketAddr) -> Result<Communicator, Error> {
    Communicator::builder().job("alone").rank(0).world_size(1).switch(switch).unwrap().connect()
}

/// Run by the next test in its own network namespace.
#[test]
#[ignore = "needs a loopback interface with an MTU of 1467; run by packets_that_exceed_the_path_mtu_are_an_error"]
fn short_mtu() {
    let switch = EmbeddedSwitch::builder().start().unwrap();
    // 1408 bytes of lanes and headers of 32, 8 and 20 bytes.
    match alone(switch.control()) {
        Err(error @ Error::Mtu { need: 1468, mtu: 1467, .. }) => {
            assert!(error.to_string().contains(&switch.data().to_string()), "{error}");
        }
        other => panic!("{other:?}"),
    }
    drop(switch);
    let short = EmbeddedSwitch::builder().payload(256).start().unwrap();
    let comm = alone(short.control()).unwrap();
    let mut tensor = vec![2; 5000];
    comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
    comm.leave().unwrap();
}

#[test]
fn packets_that_exceed_the_path_mtu_are_an_error() {
    namespace::ignored_test("ip link set lo mtu 1467 && ip link set lo up", "start::short_mtu");
}

#[test]
fn invalid_settings_are_refused_with_nothing_left_running() {
    assert!(matches!(EmbeddedSwitch::builder().payload(77).start(), Err(EmbeddedError::Payload(77))));
    assert!(matches!(EmbeddedSwitch::builder().slots(3).start(), Err(EmbeddedError::Slots { slots: 3, .. })));
    let first = EmbeddedSwitch::builder().start().unwrap();
    let taken = EmbeddedSwitch::builder().listen(first.data()).start();
    assert!(matches!(taken, Err(EmbeddedError::Data(_))), "{taken:?}");
    let free = EmbeddedSwitch::builder().listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).start();
    assert_ne!(free.unwrap().control().port(), 0);
}
