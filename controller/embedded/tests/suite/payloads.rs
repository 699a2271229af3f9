//! A switch of several payloads: jobs get the longest that the paths of all their workers carry.

use std::net::SocketAddr;

use netfold::{Communicator, ReduceOp};
use netfold_embedded::{EmbeddedError, EmbeddedSwitch};
use netfold_io::PacketIo;
use netfold_io::udp::{UdpConfig, UdpIo};
use netfold_testkit::job::{CheckedSum, on_all_ranks};
use netfold_testkit::namespace;

/// Bytes of lanes of a packet, and slots, of a job of three; `short` has a path that carries 1472 bytes.
fn job(switch: SocketAddr, name: &str, short: Option<u16>, trees: u8) -> (u32, u32) {
    let of_ranks = on_all_ranks(3, |rank| {
        let builder = Communicator::builder()
            .job(name)
            .rank(rank)
            .world_size(3)
            .switch(switch)
            .unwrap()
            .trees(trees)
            .join_timeout(crate::TIMEOUT);
        let builder = match short {
            Some(short) if short == rank => builder.io_by(|options| {
                let config = UdpConfig { datagram_len_max: 1472, ..UdpConfig::default() };
                Ok(Box::new(UdpIo::bind(options.local, config)?) as Box<dyn PacketIo>)
            }),
            _ => builder,
        };
        let comm = builder.connect().unwrap();
        let places = comm.attachments();
        for operation in 0..3 {
            let job = CheckedSum { world: 3, elements: 300_000, operation };
            let mut tensor = job.contribution(rank);
            comm.all_reduce(&mut tensor, ReduceOp::Sum).unwrap();
            job.verify(rank, &tensor);
        }
        comm.leave().unwrap();
        assert_eq!(places.len(), usize::from(trees));
        let place = (places[0].payload_bytes, places[0].slots);
        assert!(places.iter().all(|other| (other.payload_bytes, other.slots) == place), "{places:?}");
        place
    });
    assert!(of_ranks.iter().all(|place| *place == of_ranks[0]), "{of_ranks:?}");
    of_ranks[0]
}

#[test]
fn a_job_has_the_longest_packets_that_the_paths_of_all_workers_carry() {
    // The loopback interface carries all lengths.
    let switch = EmbeddedSwitch::builder().payloads(vec![1408, 8192]).start().unwrap();
    let control = switch.control();
    assert_eq!(job(control, "long", None, 1), (8192, 64), "as many bytes as 256 slots of 1408, rounded up");
    for rank in [0, 2] {
        assert_eq!(job(control, "short", Some(rank), 1), (1408, 256));
    }
    assert_eq!(job(control, "trees", None, 2), (1408, 256));
    let payloads: Vec<u32> = switch.queues().map(|queue| queue.payload).collect();
    assert_eq!(payloads, [1408, 8192]);
    let counted = switch.stop_queues().unwrap();
    assert!(counted.iter().all(|queue| queue.results > 0), "{counted:?}");
}

#[test]
fn each_payload_has_as_many_threads() {
    let switch = EmbeddedSwitch::builder().payloads(vec![256, 1408]).threads(2).start().unwrap();
    let payloads: Vec<u32> = switch.queues().map(|queue| queue.payload).collect();
    assert_eq!(payloads, [256, 256, 1408, 1408]);
    assert_eq!(job(switch.control(), "one", None, 1).0, 1408);
    assert_eq!(job(switch.control(), "two", None, 2).0, 256);
    drop(switch);
    let none = EmbeddedSwitch::builder().payloads(Vec::new()).start();
    assert!(matches!(none, Err(EmbeddedError::Threads { queues: 0 })), "{none:?}");
    let unknown = EmbeddedSwitch::builder().payloads(vec![1408, 77]).start();
    assert!(matches!(unknown, Err(EmbeddedError::Payload(77))), "{unknown:?}");
}

/// Run by the next test in its own network namespace.
#[test]
#[ignore = "changes the MTU of the loopback interface; run by the_path_mtu_decides"]
fn of_path_mtu() {
    let switch = EmbeddedSwitch::builder().payloads(vec![1408, 8192]).start().unwrap();
    // 8192 bytes of lanes and headers of 32, 8 and 20 bytes.
    for (mtu, payload) in [(8251, 1408), (8252, 8192), (1500, 1408)] {
        namespace::command(&format!("ip link set lo mtu {mtu}")).unwrap();
        assert_eq!(job(switch.control(), "job", None, 1).0, payload, "MTU {mtu}");
    }
}

#[test]
fn the_path_mtu_decides() {
    namespace::ignored_test("ip link set lo up", "payloads::of_path_mtu");
}
