//! What a tenant has of the network while another one attacks: its links, and its throughput.

use std::net::SocketAddr;
use std::time::Duration;

use netfold_proto::{Collective, Tolerance};
use netfold_wire::{Kind, Packet};

use super::engine::MeshState;
use super::plan::{HOSTS_PER_LEAF, JobPlan, OpPlan};
use super::world::{Event, World};

/// How long a job that comes after all faults may take.
const PROBE: Duration = Duration::from_secs(60);

/// How long the adversary prepares its attack on a job's throughput.
const PREPARATION: Duration = Duration::from_secs(3);

/// Interval of its packets then: more than its link carries.
const FLOOD_INTERVAL: Duration = Duration::from_micros(2);

/// The time of the attacked job's operations, at most, as a multiple of their time alone, and what control messages and the first retransmission may add.
const SLOWER: u32 = 2;
const MORE: Duration = Duration::from_millis(10);

impl World {
    /// A job's packets are sent to an address.
    pub(super) fn note_place(&mut self, endpoint: SocketAddr, job: u16, epoch: u32) {
        self.places.entry(endpoint).or_default().insert((job, epoch));
    }

    /// **Links of its own**: a switch sends a rank only results of jobs that it takes part in. What answers a packet with a forged source is bounded by
    /// the packet.
    pub(super) fn check_link(&self, to: SocketAddr, datagram: &[u8]) {
        let Ok(packet) = Packet::new_checked(datagram) else { return };
        if packet.kind() == Kind::Result as u8 && self.sockets.contains_key(&to) {
            let of = (packet.job(), packet.epoch());
            let known = self.places.get(&to).is_some_and(|places| places.contains(&of));
            assert!(known, "a switch sends {to} a result of job {} in epoch {}", of.0, of.1);
        }
    }

    /// **Convergence** and **fair throughput**: a new job over all leaves runs, and no slower than it must when the adversary sends as much as
    /// its link carries.
    pub(super) fn probe(&mut self) {
        // What random loss costs differs from run to run.
        let data = self.plan.data;
        let undetected = std::mem::take(&mut self.plan.undetected);
        (self.plan.data.loss, self.plan.data.corruption, self.plan.data.reordering) = (0.0, 0.0, 0.0);
        let alone = self.run_probe(false);
        if self.plan.adversary {
            let attack = self.now + PREPARATION + PROBE;
            self.adversary_resumes(attack);
            self.play(self.now + PREPARATION, |_| false);
            let attacked = self.run_probe(true);
            self.note(|| {
                format!("a job took {alone:?} alone, and {attacked:?} while another tenant attacked")
            });
            assert!(
                attacked <= SLOWER * alone + MORE,
                "a job took {alone:?} alone, and {attacked:?} while another tenant attacked"
            );
            self.slowed = self.slowed.max(attacked.as_secs_f64() / alone.as_secs_f64());
            self.adversary_resumes(self.now);
        }
        (self.plan.data, self.plan.undetected) = (data, undetected);
    }

    /// Runs a job over all leaves, and returns how long its operations took.
    fn run_probe(&mut self, attacked: bool) -> Duration {
        let leaves = 0..self.plan.leaves;
        let hosts = leaves.flat_map(|leaf| [leaf * HOSTS_PER_LEAF, leaf * HOSTS_PER_LEAF + 1]);
        let hosts: Vec<usize> = hosts.collect();
        let job = self.plan.jobs.len();
        let op = |op| OpPlan { collective: Collective::AllReduce, elements: 3_000, floats: op % 2 == 0 };
        let (starts, world) = (vec![self.now; hosts.len()], hosts.len() as u16);
        self.plan.jobs.push(JobPlan {
            of: None,
            hosts,
            linked: false,
            group_key: None,
            tolerance: Tolerance::NONE,
            ops: (0..8).map(op).collect(),
            slots: 64,
            starts,
            think: Duration::ZERO,
            idle_timeout: None,
        });
        self.meshes.push(std::sync::Arc::new(std::sync::Mutex::new(MeshState::new(world))));
        let start = self.now;
        let first = self.ranks.len();
        (0..world).for_each(|rank| self.add_rank(job, rank, start));
        self.play(start + PROBE, |world| world.ranks[first..].iter().all(|rank| rank.admitted.is_some()));
        self.adversary_floods(attacked);
        self.play(start + PROBE, |world| world.ranks[first..].iter().all(|rank| rank.is_done()));
        self.adversary_floods(false);
        self.play(start + PROBE, |world| world.ranks[first..].iter().all(|rank| rank.is_over()));
        for rank in &self.ranks[first..] {
            assert!(
                rank.succeeded() && rank.is_over(),
                "rank {} of a job after all faults: {:?}",
                rank.rank,
                rank.outcome
            );
        }
        let ranks = || self.ranks[first..].iter();
        let begun = ranks().filter_map(|rank| rank.admitted).max().unwrap_or_default();
        let ended = ranks().filter_map(|rank| rank.delivered).max().unwrap_or_default();
        ended.saturating_sub(begun)
    }

    /// One packet of a flood, and the next.
    pub(super) fn flood(&mut self) {
        if self.adversary.floods() {
            self.adversary_sends();
            self.at(self.now + FLOOD_INTERVAL, Event::Flood);
        }
    }
}
