//! All-reduces with a network stage behind the leader, here a thread that works on segments asynchronously.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use netfold_collectives::shared::{Network, Segment, SharedError};
use netfold_collectives::{DType, ReduceOp};

use crate::shared::ranks::{config, fold, group, tensor};

/// Another host with the same sum: the network's result is twice what it is given.
struct Twin {
    work: Option<Sender<Segment>>,
    done: Receiver<Segment>,
    thread: Option<JoinHandle<()>>,
    started: Vec<(usize, usize)>,
    finished: usize,
    in_flight_max: usize,
    fails_at: Option<usize>,
    abandoned: bool,
}

impl Twin {
    fn new(fails_at: Option<usize>) -> Self {
        let (work, inbox) = channel::<Segment>();
        let (outbox, done) = channel();
        let thread = std::thread::spawn(move || {
            for mut segment in inbox {
                let bytes = segment.bytes_mut();
                let copy = bytes.to_vec();
                netfold_collectives::reduce::reduce(ReduceOp::Sum, DType::I32, bytes, &copy).unwrap();
                if outbox.send(segment).is_err() {
                    return;
                }
            }
        });
        Self {
            work: Some(work),
            done,
            thread: Some(thread),
            started: Vec::new(),
            finished: 0,
            in_flight_max: 0,
            fails_at,
            abandoned: false,
        }
    }

    fn stop(&mut self) {
        self.work = None;
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Network for Twin {
    fn start(&mut self, index: usize, segment: Segment) -> Result<(), Vec<u8>> {
        assert_eq!(index, self.started.len(), "in order");
        self.started.push((segment.offset_bytes(), segment.len()));
        self.in_flight_max = self.in_flight_max.max(self.started.len() - self.finished);
        self.work.as_ref().unwrap().send(segment).unwrap();
        Ok(())
    }

    fn finish(&mut self, index: usize) -> Result<Segment, Vec<u8>> {
        if self.fails_at == Some(index) {
            return Err(b"switch 10.0.0.1 is unreachable".to_vec());
        }
        assert_eq!(index, self.finished, "in order");
        let segment = self.done.recv().unwrap();
        assert_eq!(segment.offset_bytes(), self.started[index].0);
        self.finished += 1;
        Ok(segment)
    }

    fn abandon(&mut self) {
        self.abandoned = true;
        self.stop();
    }
}

/// The network argument of ranks other than the leader.
struct Nothing;

impl Network for Nothing {
    fn start(&mut self, _: usize, _: Segment) -> Result<(), Vec<u8>> {
        panic!("only the leader has a network")
    }
    fn finish(&mut self, _: usize) -> Result<Segment, Vec<u8>> {
        panic!("only the leader has a network")
    }
    fn abandon(&mut self) {
        panic!("only the leader has a network")
    }
}

#[test]
fn the_network_replaces_the_sum() {
    for world in [1u16, 2, 3, 4, 8] {
        for count in [0usize, 1, 1000, 1025, 3 * 1024, 20_000, 100_001] {
            let tensors: Vec<_> = (0..world).map(|rank| tensor(DType::I32, count, u64::from(rank))).collect();
            let local = fold(DType::I32, ReduceOp::Sum, &tensors);
            let expected = fold(DType::I32, ReduceOp::Sum, &[local.clone(), local]);
            group(config(world), world, |mut shared| {
                for _ in 0..2 {
                    let mut bytes = tensors[usize::from(shared.local_rank())].clone();
                    // The leader divides averages by the number of all ranks, so here they are sums.
                    if shared.local_rank() != 0 {
                        shared
                            .hierarchical_all_reduce(DType::I32, ReduceOp::Avg, &mut bytes[..], &mut Nothing)
                            .unwrap();
                    } else {
                        let mut twin = Twin::new(None);
                        shared
                            .hierarchical_all_reduce(DType::I32, ReduceOp::Avg, &mut bytes[..], &mut twin)
                            .unwrap();
                        twin.stop();
                        assert_eq!(twin.finished, twin.started.len());
                        assert_eq!(twin.started.iter().map(|(_, len)| len).sum::<usize>(), bytes.len());
                        assert!(count < 20_000 || twin.in_flight_max == 5, "{}", twin.in_flight_max);
                    }
                    assert!(bytes == expected, "{count} elements, rank {} of {world}", shared.local_rank());
                    shared.all_reduce(DType::I32, ReduceOp::Max, &mut bytes[..]).unwrap();
                    assert!(bytes == expected, "behind it: {count} elements");
                }
            });
        }
    }
}

#[test]
fn a_network_failure_is_reported_on_every_rank() {
    for fails_at in [0, 7, 24] {
        group(config(4), 4, |mut shared| {
            let mut bytes = vec![1; 100_000];
            let result = if shared.local_rank() == 0 {
                let mut twin = Twin::new(Some(fails_at));
                let result =
                    shared.hierarchical_all_reduce(DType::I32, ReduceOp::Sum, &mut bytes[..], &mut twin);
                assert!(twin.abandoned);
                result
            } else {
                shared.hierarchical_all_reduce(DType::I32, ReduceOp::Sum, &mut bytes[..], &mut Nothing)
            };
            let is_it = |result: &Result<(), SharedError>| matches!(result, Err(SharedError::Network { message }) if message == b"switch 10.0.0.1 is unreachable");
            assert!(is_it(&result), "{result:?}");
            assert!(is_it(&shared.barrier()), "for good");
        });
    }
}

#[test]
fn a_lost_rank_abandons_the_network() {
    group(config(3), 3, |mut shared| {
        shared.barrier().unwrap();
        let mut bytes = vec![1; 100_000];
        match shared.local_rank() {
            0 => {
                let mut twin = Twin::new(None);
                let result =
                    shared.hierarchical_all_reduce(DType::I32, ReduceOp::Sum, &mut bytes[..], &mut twin);
                assert!(matches!(result, Err(SharedError::PeerLost { local_rank: 2 })), "{result:?}");
                assert!(twin.abandoned);
            }
            1 => {
                let result =
                    shared.hierarchical_all_reduce(DType::I32, ReduceOp::Sum, &mut bytes[..], &mut Nothing);
                assert!(matches!(result, Err(SharedError::PeerLost { local_rank: 2 })), "{result:?}");
            }
            _ => {}
        }
    });
}
