//! The largest job: 32 x 32 x 32 workers through 1,057 switches, real workers and the real program, with some packets
//! lost on every kind of link.

use std::sync::Arc;
use std::time::Duration;

use netfold_control::Mode;
use netfold_controller::Limits;
use netfold_controller::tree::{Shape, Site, TreeJob, TreePlan};
use netfold_p4::allreduce::{self, job_entries, node_entries};
use netfold_p4::interpret::{Interpreter, Send};
use netfold_p4::profile::{Encapsulation, Profile};
use netfold_proto::{
    Codec, CodedChunk, Collective, Contributors, DType, Descriptor, Importance, Instant, OpId, OpSpec,
    Worker, WorkerConfig, WorkerEvent,
};
use netfold_wire::{LaneOp, WORLD_MAX, header};

const LANES: usize = 16;
const CHUNKS: u32 = 2;

/// One packet in so many is lost.
const LOST_EVERY: u64 = 9_973;

/// Rank `rank`'s lane: the first counts ranks, the others identify them.
fn lane(rank: u16, chunk: u32, lane: usize) -> i32 {
    if lane == 0 { 1 } else { i32::from(rank).wrapping_mul(lane as i32 * 40_503).wrapping_add(chunk as i32) }
}

struct Tensor {
    rank: u16,
    expected: Arc<Vec<Vec<i32>>>,
    taken: u32,
}

impl Codec for Tensor {
    fn exponent(&mut self, _: OpId, _: u32) -> u8 {
        unreachable!("integers have no exponents")
    }

    fn pack(&mut self, CodedChunk { chunk, .. }: CodedChunk, lanes: &mut [u8]) {
        for (at, word) in lanes.chunks_exact_mut(4).enumerate() {
            word.copy_from_slice(&lane(self.rank, chunk, at).to_be_bytes());
        }
    }

    fn unpack(&mut self, CodedChunk { chunk, .. }: CodedChunk, contributors: Contributors, lanes: &[u8]) {
        assert_eq!(contributors, Contributors { count: WORLD_MAX, own: true });
        let sum: Vec<i32> =
            lanes.chunks_exact(4).map(|word| i32::from_be_bytes(word.try_into().expect("4 bytes"))).collect();
        assert_eq!(sum, self.expected[chunk as usize], "rank {} chunk {chunk}", self.rank);
        self.taken += 1;
    }
}

#[derive(Clone, Copy)]
enum End {
    Rank(usize),
    Switch(usize, u16),
}

struct Tree {
    switches: Vec<Interpreter>,
    plan: TreePlan,
    /// What is at each port of each switch.
    ends: Vec<Vec<End>>,
    workers: Vec<(Worker, Tensor)>,
    /// Packets on their way.
    flying: Vec<(End, Vec<u8>)>,
    sent: u64,
    now: Instant,
}

fn plan(shape: &Shape) -> TreePlan {
    let limits = Limits {
        slots: 2,
        lane_words: LANES as u32,
        ports_max: 33,
        groups_max: 2,
        entries: u32::MAX,
        udp_port: 0,
        sees_source: false,
        bounded_loss: true,
        owners: true,
        lane_ops: netfold_wire::LaneOps::ALL,
        multipath: false,
        authenticates: false,
    };
    let site = Site { limits, address: None, first_slot: 0, first_port: 0, first_group: 1, shared: None };
    let job = TreeJob { job: 9, epoch: 2, key: 77, slots: 2, udp_ports: 1 };
    TreePlan::new(job, shape, &vec![site; shape.above.len()], &vec![None; shape.workers.len()])
        .expect("it fits")
}

fn switches(plan: &TreePlan) -> Vec<Interpreter> {
    let profile = Profile {
        encapsulation: Encapsulation::Datagram,
        lane_words: LANES as u32,
        slots: 2,
        jobs: 1,
        ecn_depth: 0,
        ..Profile::hardware()
    };
    let program = Arc::new(allreduce::program(&profile).expect("a right profile"));
    let switch = |place: &netfold_controller::tree::SwitchPlan| {
        let mut switch = Interpreter::new(Arc::clone(&program)).expect("a valid program");
        let children = place.children.iter().flat_map(|child| job_entries(&place.node, child));
        for entry in node_entries(&place.node).into_iter().chain(children) {
            switch.insert(&entry).expect("32 children fit");
        }
        switch
    };
    plan.switch_plans().iter().map(switch).collect()
}

/// Switches below come first among a switch's ports, then ranks, then the switch above.
fn ends(shape: &Shape) -> Vec<Vec<End>> {
    let mut ends: Vec<Vec<End>> = vec![Vec::new(); shape.above.len()];
    let mut at_parent = vec![0; shape.above.len()];
    for (switch, above) in shape.above.iter().enumerate() {
        if let Some(above) = *above {
            at_parent[switch] = ends[above].len() as u16;
            // Every switch has 32 children, so its parent is at port 32.
            ends[above].push(End::Switch(switch, 32));
        }
    }
    for (rank, leaf) in shape.workers.iter().enumerate() {
        ends[*leaf].push(End::Rank(rank));
    }
    for (switch, above) in shape.above.iter().enumerate() {
        ends[switch].extend(above.map(|above| End::Switch(above, at_parent[switch])));
    }
    ends
}

fn workers(plan: &TreePlan) -> Vec<(Worker, Tensor)> {
    let sum = |chunk, at| (0..WORLD_MAX).fold(0_i32, |sum, rank| sum.wrapping_add(lane(rank, chunk, at)));
    let expected: Arc<Vec<Vec<i32>>> =
        Arc::new((0..CHUNKS).map(|chunk| (0..LANES).map(|at| sum(chunk, at)).collect()).collect());
    let elements = u64::from(CHUNKS) * LANES as u64;
    let descriptor = Descriptor {
        collective: Collective::AllReduce,
        dtype: DType::I32,
        mode: Mode::I32,
        elements,
        ..Descriptor::BARRIER
    };
    let spec = OpSpec {
        descriptor,
        data_chunks: CHUNKS,
        exponents: false,
        class: 0,
        importance: Importance::NONE,
        lane_op: LaneOp::Sum,
        sharing: netfold_proto::Sharing::All,
    };
    let worker = |rank| {
        let config = WorkerConfig::new(plan.admission(rank, 1, 0), rank, WORLD_MAX);
        let mut worker = Worker::new(config).expect("a right configuration");
        worker.submit(spec).expect("nothing is pending");
        (worker, Tensor { rank, expected: Arc::clone(&expected), taken: 0 })
    };
    (0..WORLD_MAX).map(worker).collect()
}

impl Tree {
    fn send(&mut self, to: End, bytes: Vec<u8>) {
        self.sent += 1;
        if !self.sent.is_multiple_of(LOST_EVERY) {
            self.flying.push((to, bytes));
        }
    }

    fn poll(&mut self, rank: usize) {
        let mut buffer = [0; header::LEN + 4 * LANES];
        let (switch, port) = self.plan.workers()[rank];
        loop {
            let (worker, tensor) = &mut self.workers[rank];
            let Some(len) = worker.poll_transmit(self.now, &mut buffer, tensor) else { break };
            self.send(End::Switch(switch, port), buffer[..len].to_vec());
        }
    }

    /// Delivers everything that flies, and what comes of it.
    fn settle(&mut self) {
        while let Some((to, bytes)) = self.flying.pop() {
            match to {
                End::Rank(rank) => {
                    let (worker, tensor) = &mut self.workers[rank];
                    worker.handle_packet(self.now, &bytes, tensor);
                    self.poll(rank);
                }
                End::Switch(switch, port) => {
                    let outcome = self.switches[switch].process(port, &bytes);
                    let ports: Vec<u16> = match outcome.send {
                        Send::Drop => vec![],
                        Send::Unicast(port) => vec![port],
                        Send::Multicast(number) => {
                            let groups = &self.plan.switch_plans()[switch].groups;
                            let group =
                                groups.iter().find(|group| group.group == number).expect("of the plan");
                            group.replicas.iter().map(|replica| replica.port).collect()
                        }
                    };
                    for port in ports {
                        self.send(self.ends[switch][usize::from(port)], outcome.bytes.clone());
                    }
                }
            }
        }
    }
}

#[test]
fn all_32768_workers_get_the_sum() {
    let shape = Shape::regular(3, 32, WORLD_MAX).expect("the largest tree");
    let plan = plan(&shape);
    let mut tree = Tree {
        switches: switches(&plan),
        ends: ends(&shape),
        workers: workers(&plan),
        plan,
        flying: Vec::new(),
        sent: 0,
        now: Instant::ZERO,
    };
    assert_eq!(tree.switches.len(), 1057);
    for round in 0.. {
        assert!(round < 40, "it settles");
        for rank in 0..tree.workers.len() {
            tree.poll(rank);
        }
        tree.settle();
        let deadlines = tree.workers.iter().filter_map(|(worker, _)| worker.next_deadline());
        let Some(next) = deadlines.min() else { break };
        // Those that wait for the same lost packet are woken together.
        tree.now = next + Duration::from_millis(100);
        let now = tree.now;
        tree.workers.iter_mut().for_each(|(worker, _)| worker.handle_timeout(now));
    }
    for (rank, (worker, tensor)) in tree.workers.iter_mut().enumerate() {
        assert_eq!(worker.poll_event(), Some(WorkerEvent::OpDone(OpId(0))), "rank {rank}");
        assert_eq!(tensor.taken, CHUNKS);
    }
    println!("{} packets, one in {LOST_EVERY} lost", tree.sent);
}
