//! Two jobs whose workers are at two switches below a root. Each switch has an aggregator above it, where a job shares its slots.

use super::*;

/// Two leaves, their aggregators, the root, and its aggregator.
const NODES: usize = 6;
const LEAVES: usize = 2;
const ROOT: usize = 4;
const ABOVE_ROOT: usize = 5;

/// First of the slots that jobs share at a switch; those of a job's own are below it.
const SHARED_BASE: u32 = 8;

/// The aggregator of a leaf, or of the root.
fn aggregator_of(node: usize) -> usize {
    if node == ROOT { ABOVE_ROOT } else { node + LEAVES }
}

/// A job's tree: whether it shares the slots of each leaf and of the root, and how many workers each leaf has.
#[derive(Debug, Clone, Copy)]
struct Tree {
    job: u16,
    shares: [bool; LEAVES + 1],
    workers: [u8; LEAVES],
}

/// Something below a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    Worker(u8),
    Node(usize),
}

impl Tree {
    fn world(&self) -> u8 {
        self.workers.iter().sum()
    }

    fn is_shared(&self, node: usize) -> bool {
        match node {
            0 | 1 => self.shares[node],
            ROOT => self.shares[LEAVES],
            _ => false,
        }
    }

    fn nodes(&self) -> Vec<usize> {
        let switches = [0, 1, ROOT].into_iter();
        switches
            .flat_map(|node| [Some(node), self.is_shared(node).then(|| aggregator_of(node))])
            .flatten()
            .collect()
    }

    fn parent(&self, node: usize) -> Option<usize> {
        match node {
            _ if self.is_shared(node) => Some(aggregator_of(node)),
            ROOT | ABOVE_ROOT => None,
            _ => Some(ROOT),
        }
    }

    fn below(&self, node: usize) -> Vec<Below> {
        if node < LEAVES {
            let first = if node == 0 { 0 } else { self.workers[0] };
            return (first..first + self.workers[node]).map(Below::Worker).collect();
        }
        let children = self.nodes().into_iter().filter(|child| self.parent(*child) == Some(node));
        children.map(Below::Node).collect()
    }

    fn is_aggregator(&self, node: usize) -> bool {
        matches!(self.below(node)[..], [Below::Node(child)] if self.is_shared(child))
    }

    fn workers_below(&self, node: usize) -> u16 {
        match node {
            ROOT | ABOVE_ROOT => self.world().into(),
            _ => self.workers[node % LEAVES].into(),
        }
    }

    /// The job at a node, as its controller describes it there.
    fn node(&self, node: usize) -> Node {
        let contributors = match self.below(node)[..] {
            [Below::Node(shared)] if self.is_shared(shared) => self.below(shared).len(),
            ref below => below.len(),
        };
        let [at_switch, _] = nodes(self.job, self.world());
        let parent =
            self.parent(node).map(|_| Parent { port: UP, source: 0, group: UP_GROUP + self.job, rank: 0 });
        Node {
            base: if self.is_shared(node) { SHARED_BASE } else { u32::from(self.job) * SLOTS },
            children: contributors as u8,
            workers: self.workers_below(node),
            parent,
            ..at_switch
        }
    }

    /// The entries of the job at a node.
    fn entries(&self, node: usize) -> Vec<TableEntry> {
        let here = self.node(node);
        let children = (0..self.below(node).len() as u8).map(|rank| child(port(self.job, rank), rank));
        if self.is_aggregator(node) {
            children.flat_map(|below| aggregator_entries(&here, &below)).collect()
        } else if self.is_shared(node) {
            let children = children.flat_map(|child| shared_job_entries(&here, &child));
            shared_node_entries(&here).into_iter().chain(children).collect()
        } else {
            let children = children.flat_map(|child| allreduce::job_entries(&here, &child));
            allreduce::node_entries(&here).into_iter().chain(children).collect()
        }
    }
}

/// Where a packet arrives.
#[derive(Debug, Clone, Copy)]
enum To {
    Node(usize, u16),
    Worker(u16, u8),
}

struct Forest {
    rng: Xoshiro256PlusPlus,
    nodes: Vec<Interpreter>,
    trees: [Tree; 2],
    rounds: u32,
    waits: Vec<Vec<[u32; SLOTS as usize]>>,
    under_way: Vec<(To, Vec<u8>)>,
    loss: f64,
    timeouts: f64,
}

impl Forest {
    fn new(seed: u64, trees: [Tree; 2], rounds: u32, loss: f64) -> Self {
        let program = Arc::new(allreduce::program(&profile()).expect("the profile is valid"));
        let mut nodes: Vec<Interpreter> = (0..NODES)
            .map(|_| Interpreter::new(Arc::clone(&program)).expect("the program is valid"))
            .collect();
        for node in &mut nodes {
            let entry = controller_entry(CONTROLLER, Kind::Advance);
            node.insert(&entry).expect("the entry is the program's");
        }
        for tree in &trees {
            for at in tree.nodes() {
                for entry in tree.entries(at) {
                    nodes[at].insert(&entry).unwrap_or_else(|error| panic!("{tree:?} at {at}: {error}"));
                }
                if !tree.is_shared(at) {
                    advance(&mut nodes[at], tree.job);
                }
            }
        }
        let waits = trees.map(|tree| vec![[0; SLOTS as usize]; usize::from(tree.world())]).into();
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { rng, nodes, trees, rounds, waits, under_way: Vec::new(), loss, timeouts: 0.02 }
    }

    fn send(&mut self, to: To, bytes: Vec<u8>) {
        if !self.rng.random_bool(self.loss) {
            self.under_way.push((to, bytes));
        }
    }

    fn contribute(&mut self, job: u16, worker: u8, slot: usize, again: bool) {
        let tree = self.trees[usize::from(job) - 1];
        let round = self.waits[usize::from(job) - 1][usize::from(worker)][slot];
        if round >= self.rounds {
            return;
        }
        let lanes = Network::lanes(job, worker, slot, round);
        let mut bytes = packet(job, tree.world(), slot as u16, round, &lanes);
        if again {
            let mut header = Packet::new_unchecked(&mut bytes[..]);
            header.set_flags(header.flags().with(Flags::RESEND));
        }
        let (leaf, rank) = if worker < tree.workers[0] { (0, worker) } else { (1, worker - tree.workers[0]) };
        self.send(To::Node(leaf, port(job, rank)), bytes);
    }

    fn deliver(&mut self, to: To, bytes: &[u8]) {
        let (node, arrived) = match to {
            To::Node(node, port) => (node, port),
            To::Worker(job, worker) => return self.result(job, worker, bytes),
        };
        let outcome = self.nodes[node].process(arrived, bytes);
        let job = read(bytes).0.job;
        let tree = self.trees[usize::from(job) - 1];
        let below = tree.below(node);
        let at = |below: &Below| match *below {
            Below::Worker(rank) => To::Worker(job, rank),
            Below::Node(child) => To::Node(child, UP),
        };
        let receivers: Vec<To> = match outcome.send {
            Send::Drop => return,
            Send::Multicast(group) if group == UP_GROUP + job => {
                let parent = tree.parent(node).expect("only nodes below a parent send up");
                let rank = tree.below(parent).iter().position(|below| *below == Below::Node(node));
                vec![To::Node(parent, port(job, rank.unwrap() as u8))]
            }
            Send::Multicast(group) => {
                assert_eq!(group, job);
                below.iter().map(at).collect()
            }
            Send::Unicast(out) => {
                assert_eq!(out, arrived, "a reply");
                vec![at(&below[usize::from(out - 10 * job)])]
            }
        };
        receivers.into_iter().for_each(|to| self.send(to, outcome.bytes.clone()));
    }

    fn result(&mut self, job: u16, worker: u8, bytes: &[u8]) {
        let (repr, lanes) = read(bytes);
        let (tree, slot) = (self.trees[usize::from(job) - 1], usize::from(repr.slot));
        let wait = self.waits[usize::from(job) - 1][usize::from(worker)][slot];
        let chunk = FIRST.wrapping_add(slot as u32 + SLOTS * wait);
        if repr.kind != Kind::Result || repr.chunk != chunk {
            return;
        }
        let all = (0..tree.world()).map(|worker| Network::lanes(job, worker, slot, wait));
        let sum = all.reduce(|a, b| a.iter().zip(b).map(|(a, b)| a.wrapping_add(b)).collect()).unwrap();
        assert_eq!(lanes, sum, "job {job}, slot {slot}, round {wait}");
        let own = tree.workers[usize::from(worker >= tree.workers[0])];
        assert_eq!((repr.bitmap, repr.count), ((1 << own) - 1, u16::from(tree.world())));
        self.waits[usize::from(job) - 1][usize::from(worker)][slot] += 1;
        self.contribute(job, worker, slot, false);
    }

    fn finished(&self) -> bool {
        self.waits.iter().flatten().flatten().all(|round| *round >= self.rounds)
    }

    /// Runs both jobs to their end, and returns how many contributions were spilled at each switch.
    fn run(mut self) -> [u64; LEAVES + 1] {
        for tree in self.trees {
            for worker in 0..tree.world() {
                (0..SLOTS as usize).for_each(|slot| self.contribute(tree.job, worker, slot, false));
            }
        }
        for _ in 0..400_000 {
            if self.finished() {
                let counter = p4info::counter_id(id::SPILLED);
                return [0, 1, ROOT].map(|node| self.nodes[node].counters(counter).iter().sum());
            }
            if self.under_way.is_empty() || self.rng.random_bool(self.timeouts) {
                assert!(self.timeouts > 0.0, "a worker waits for a retransmission: {:?}", self.waits);
                // Some worker's timer expires.
                let tree = *self.trees.iter().choose(&mut self.rng).unwrap();
                let worker = self.rng.random_range(0..tree.world());
                let slot = self.rng.random_range(0..SLOTS as usize);
                self.contribute(tree.job, worker, slot, true);
                continue;
            }
            // Packets overtake each other, and come twice.
            let at = self.rng.random_range(0..self.under_way.len().min(6));
            let (to, bytes) = self.under_way[at].clone();
            if self.loss == 0.0 || self.rng.random_bool(0.9) {
                self.under_way.remove(at);
            }
            self.deliver(to, &bytes);
        }
        panic!("it does not end: {:?}", self.waits);
    }
}

/// The controller moves a job's own slots to just before the first chunk.
fn advance(node: &mut Interpreter, job: u16) {
    for index in 0..2 * SLOTS {
        let place = ((2 * SLOTS * u32::from(job) + index) as u16 / 2, (index % 2) as u8);
        // In steps, because a newer number is less than 2^31 ahead.
        for chunk in [FIRST / 3, FIRST / 3 * 2, FIRST - 1] {
            node.process(CONTROLLER, &advance_to(place, 0, chunk));
        }
    }
}

fn tree(job: u16, shares: [bool; LEAVES + 1], workers: [u8; LEAVES]) -> Tree {
    Tree { job, shares, workers }
}

/// Where the slots of some switches of a tree are shared, and where those of all are.
#[test]
fn jobs_at_several_switches_get_exact_sums_over_lossy_links() {
    let mut spilled = [0; LEAVES + 1];
    for seed in 0..96_u64 {
        let bits = |shift: u64| [0, 1, 2].map(|bit| seed >> (shift + bit) & 1 == 0);
        let workers = [1 + (seed % 3) as u8, 1 + (seed / 3 % 3) as u8];
        // Of every second pair both jobs share the slots of all switches.
        let shares = if seed % 2 == 0 { [[true; 3]; 2] } else { [bits(1), bits(4)] };
        let trees = [tree(1, shares[0], workers), tree(2, shares[1], [workers[1], workers[0]])];
        let counted = Forest::new(seed, trees, 8, 0.05).run();
        spilled.iter_mut().zip(counted).for_each(|(all, counted)| *all += counted);
    }
    println!("{spilled:?} contributions were spilled at the two leaves and the root");
    assert!(spilled.iter().all(|spilled| *spilled > 500), "{spilled:?}");
}

/// Where nothing is lost: a contribution that takes a slot waits for none that was spilled.
#[test]
fn no_chunk_of_a_tree_waits_for_a_retransmission_over_reliable_links() {
    let mut spilled = [0; LEAVES + 1];
    for seed in 0..40_u64 {
        let workers = [2 + (seed % 2) as u8, 2 + (seed / 2 % 2) as u8];
        let trees = [tree(1, [true; 3], workers), tree(2, [true; 3], workers)];
        let mut forest = Forest::new(seed, trees, 20, 0.0);
        forest.timeouts = 0.0;
        let counted = forest.run();
        spilled.iter_mut().zip(counted).for_each(|(all, counted)| *all += counted);
    }
    println!("{spilled:?} contributions were spilled at the two leaves and the root");
    assert!(spilled.iter().all(|spilled| *spilled > 500), "{spilled:?}");
}

/// An aggregator below a parent, packet by packet.
#[test]
fn an_aggregator_below_a_parent_is_an_inner_node() {
    let trees = [tree(1, [true, false, false], [2, 1]), tree(2, [false; 3], [1, 1])];
    let mut aggregator = Forest::new(1, trees, 1, 0.0).nodes.swap_remove(aggregator_of(0));
    let lanes = [0, 1].map(|worker| Network::lanes(1, worker, 0, 0));
    let both: Vec<u32> = lanes[0].iter().zip(&lanes[1]).map(|(a, b)| a.wrapping_add(*b)).collect();
    let named = |bitmap, lanes: &[u32]| {
        let mut bytes = packet(1, 3, 0, 0, lanes);
        Packet::new_unchecked(&mut bytes[..]).set_bitmap(bitmap);
        bytes
    };
    let up = Send::Multicast(UP_GROUP + 1);
    assert_eq!(aggregator.process(10, &named(0b01, &lanes[0])).send, Send::Drop, "one was spilled");
    // The sum of all replaces it, and goes up as the sum of two workers.
    let sent = aggregator.process(10, &named(0b11, &both));
    let (repr, sum) = read(&sent.bytes);
    assert_eq!((sent.send, repr.kind, repr.bitmap, repr.count), (up, Kind::Data, 0b11, 2));
    assert_eq!(sum, both);
    // Until the result is there, whatever is named has it sent up again.
    for (bitmap, lanes) in [(0b10, &lanes[1]), (0b11, &both)] {
        let again = aggregator.process(10, &named(bitmap, lanes));
        assert_eq!((again.send, read(&again.bytes).1), (up, both.clone()), "{bitmap:b}");
    }
    // The parent's result is stored, and one copy goes down.
    let total: Vec<u32> = both.iter().map(|lane| lane.wrapping_add(5)).collect();
    let mut result = packet(1, 3, 0, 0, &total);
    Packet::new_unchecked(&mut result[..]).set_kind_raw(Kind::Result as u8);
    let down = aggregator.process(UP, &result);
    let (repr, sum) = read(&down.bytes);
    assert_eq!((down.send, repr.bitmap, repr.count, sum), (Send::Multicast(1), 0b11, 3, total.clone()));
    assert_eq!(aggregator.process(UP, &result).send, Send::Drop, "it is settled");
    for (bitmap, lanes) in [(0b01, &lanes[0]), (0b11, &both)] {
        let reply = aggregator.process(10, &named(bitmap, lanes));
        let (repr, sum) = read(&reply.bytes);
        assert_eq!((reply.send, repr.kind, repr.count), (Send::Unicast(10), Kind::Result, 3), "{bitmap:b}");
        assert_eq!(sum, total, "{bitmap:b}");
    }
    let counted = |reason: Reason| aggregator.counters(p4info::counter_id(id::PACKETS))[reason as usize];
    assert_eq!((counted(Reason::Unexpected), counted(Reason::Duplicate)), (0, 1));
}
