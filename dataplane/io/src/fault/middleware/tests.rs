use super::super::Faults;
use super::*;
use crate::{Loopback, loopback};

fn pair(config: FaultConfig, held_max: usize) -> (Faulty<Loopback>, Loopback) {
    let (hub, mut spokes) = loopback::star(1, 4096, 64);
    (Faulty::with_held_max(spokes.remove(0), config, held_max), hub)
}

fn send(io: &mut impl PacketIo, number: u32) -> usize {
    io.transmit(&number.to_be_bytes(), &[Transmit { port: PortId(0), offset: 0, len: 4 }]).unwrap()
}

/// Everything that arrives until `count` datagrams have, or nothing comes for a while.
fn collect(io: &mut impl PacketIo, count: usize) -> Vec<u32> {
    let mut batch = RxBatch::new(64, 4096);
    let mut numbers = Vec::new();
    while numbers.len() < count {
        if io.receive(&mut batch).unwrap() == 0 && !io.wait(Duration::from_secs(10)).unwrap() {
            break;
        }
        numbers.extend(
            batch.packets().iter().map(|packet| u32::from_be_bytes(batch.bytes(packet).try_into().unwrap())),
        );
    }
    numbers
}

#[test]
fn receive_loss_follows_the_seed() {
    let received = |seed| {
        let config =
            FaultConfig { seed, rx: Faults { loss: 0.3, ..Faults::default() }, ..FaultConfig::default() };
        let (mut io, mut hub) = pair(config, 16);
        for number in 0..1000 {
            assert_eq!(send(&mut hub, number), 1);
        }
        drop(hub); // so that the end is seen
        let mut batch = RxBatch::new(7, 60);
        let mut numbers = Vec::new();
        while io.receive(&mut batch).is_ok() {
            numbers.extend(batch.packets().iter().map(|packet| batch.bytes(packet).to_vec()));
        }
        assert_eq!(io.rx_faults().lost + numbers.len() as u64, 1000);
        assert_eq!(io.counters().fault_dropped, io.rx_faults().lost);
        numbers
    };
    let first = received(1);
    assert!((600..800).contains(&first.len()), "{}", first.len());
    assert_eq!(first, received(1));
    assert_ne!(first, received(2));
}

#[test]
fn delayed_packets_leave_while_the_sender_waits() {
    let faults = Faults {
        delay_min: Duration::from_millis(3),
        delay_max: Duration::from_millis(6),
        ..Faults::default()
    };
    let (mut io, mut hub) = pair(FaultConfig { seed: 3, rx: faults, tx: faults }, 64);
    let start = Instant::now();
    assert_eq!(send(&mut io, 7), 1);
    assert_eq!(hub.receive(&mut RxBatch::new(1, 64)).unwrap(), 0);
    let echo = std::thread::spawn(move || {
        let numbers = collect(&mut hub, 1);
        send(&mut hub, numbers[0]);
        hub
    });
    assert_eq!(collect(&mut io, 1), [7]);
    assert!(start.elapsed() >= Duration::from_millis(6), "both ways are delayed");
    drop(echo.join().unwrap());
}

#[test]
fn a_full_line_causes_back_pressure_and_reports_room() {
    let faults = Faults {
        delay_min: Duration::from_millis(2),
        delay_max: Duration::from_millis(2),
        ..Faults::default()
    };
    let (mut io, mut hub) = pair(FaultConfig { tx: faults, ..FaultConfig::default() }, 8);
    let mut sent = 0;
    let mut refused = 0;
    while sent < 100 {
        if send(&mut io, sent) == 1 {
            sent += 1;
        } else {
            refused += 1;
            assert!(io.wait(Duration::from_secs(10)).unwrap());
        }
    }
    while io.tx.held() > 0 {
        io.wait(Duration::from_millis(1)).unwrap();
    }
    assert_eq!(collect(&mut hub, 100), (0..100).collect::<Vec<_>>());
    assert!(refused > 0 && io.counters().backpressure == refused);
}

#[test]
fn counters_of_all_send_faults_balance() {
    let faults = "loss=0.1,duplicate=0.1,reorder=0.2,corrupt=0.1,undetected=0.1,delay=0ns..50us,hold=100us";
    let config = FaultConfig { rx: Faults::default(), ..faults.parse().unwrap() };
    let (mut io, mut hub) = pair(config, 4096);
    for number in 0..2000 {
        assert_eq!(send(&mut io, number), 1);
    }
    while io.tx.held() > 0 {
        io.wait(Duration::from_millis(1)).unwrap();
    }
    let counters = io.tx_faults();
    let expected = 2000 + counters.duplicated - counters.dropped();
    assert_eq!(collect(&mut hub, expected as usize).len() as u64, expected);
    assert_eq!(io.counters().tx_packets, expected);
    assert!(counters.reordered > 100 && counters.duplicated > 100 && counters.corrupt > 100);
}

#[test]
fn datagrams_of_a_closed_peer_arrive_although_sending_fails() {
    let faults = Faults {
        delay_min: Duration::from_millis(1),
        delay_max: Duration::from_millis(1),
        ..Faults::default()
    };
    let (mut io, mut hub) = pair(FaultConfig { tx: faults, ..FaultConfig::default() }, 8);
    assert_eq!(send(&mut io, 1), 1);
    assert_eq!(send(&mut hub, 2), 1);
    drop(hub);
    while io.tx.next_release().is_some_and(|at| at > io.now()) {
        std::thread::yield_now();
    }
    assert!(io.wait(Duration::from_secs(10)).unwrap());
    assert_eq!(collect(&mut io, 1), [2]);
    assert!(matches!(io.receive(&mut RxBatch::new(1, 64)), Err(IoError::PeerClosed)));
    assert!(matches!(
        io.transmit(b"x", &[Transmit { port: PortId(0), offset: 0, len: 1 }]),
        Err(IoError::PeerClosed)
    ));
}
