//! Admission under random histories: the invariants hold whatever the workers and the switch do.

use crate::bench::{Bench, config};
use crate::fake::Fake;
use netfold_control::{Join, MemberCounters, Mode, PathToken, SessionRequest};
use netfold_controller::admission::SessionId;
use netfold_controller::bands::Ranking;
use netfold_controller::command::Command;
use netfold_controller::policy::Sharing;
use netfold_controller::record::JobName;
use proptest::prelude::*;
use std::time::Duration;

#[derive(Debug, Clone)]
enum Step {
    /// A whole job joins.
    All {
        name: u8,
        group: u8,
        world: u16,
        slots: u32,
        port: u16,
    },
    /// One worker joins, perhaps against the others.
    One {
        name: u8,
        group: u8,
        rank: u16,
        world: u16,
        slots: u32,
        port: u16,
    },
    /// A job is ended by a command, with its groups.
    End(u8),
    Leave(prop::sample::Index),
    Alive(prop::sample::Index),
    Band(prop::sample::Index),
    Close(prop::sample::Index),
    /// Whether workers validate their paths from now on, and a worker that sends a token of its own making.
    Validate(bool),
    Token(prop::sample::Index),
    /// Every open session sends a heartbeat.
    AllAlive,
    RunTask,
    RunTasks,
    Pass(u64),
    /// So many of 16 calls fail from now on.
    Fail(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let slots = || (0_u32..11).prop_map(|bits| 1 << bits);
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (0_u8..4, 0_u8..3, 1_u16..5, slots(), 0_u16..12)
            .prop_map(|(name, group, world, slots, port)| Step::All { name, group, world, slots, port }),
        3 => (0_u8..4, 0_u8..3, 0_u16..4, 1_u16..5, slots(), 0_u16..12)
            .prop_map(|(name, group, rank, world, slots, port)| Step::One { name, group, rank, world, slots, port }),
        1 => (0_u8..4).prop_map(Step::End),
        3 => index().prop_map(Step::Leave),
        1 => index().prop_map(Step::Alive),
        1 => index().prop_map(Step::Band),
        2 => index().prop_map(Step::Close),
        1 => any::<bool>().prop_map(Step::Validate),
        1 => index().prop_map(Step::Token),
        3 => Just(Step::AllAlive),
        4 => Just(Step::RunTask),
        2 => Just(Step::RunTasks),
        3 => (0_u64..4000).prop_map(Step::Pass),
        1 => (0_u8..9).prop_map(Step::Fail),
    ]
}

struct History {
    bench: Bench,
    sessions: Vec<SessionId>,
}

impl History {
    fn take(&mut self, index: prop::sample::Index) -> Option<SessionId> {
        (!self.sessions.is_empty()).then(|| self.sessions[index.index(self.sessions.len())])
    }

    fn join(&mut self, (name, group): (u8, u8), rank: u16, world: u16, slots: u32, port: u16) {
        let Ok(id) = self.bench.open() else { return };
        let (job, mode, udp_port) = (format!("job{name}"), Mode::Bfp32, 5000 + port);
        let join = Join::new(job, (rank, world), mode, slots, udp_port);
        // Half of the jobs can be moved.
        let group = if group == 0 { String::new() } else { format!("group{group}") };
        let join = Join { movable: name.is_multiple_of(2), group, ..join };
        self.bench.say(id, SessionRequest::Join(join));
        self.sessions.push(id);
    }

    /// Nothing of a job that was ended by a command forms or runs.
    fn end(&mut self, name: u8) {
        let name = JobName { tenant: String::new(), job: format!("job{name}") };
        let command = Command::EndJob { name: name.clone(), message: "test".into() };
        // There may be no such job.
        let _ = self.bench.act(|coordinator, now| coordinator.execute(now, command));
        let view = self.bench.coordinator.view_job(&name);
        assert!(view.is_none_or(|view| view.trees.is_empty() && view.groups.is_empty()));
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::All { name, group, world, slots, port } => {
                (0..world).for_each(|rank| self.join((name, group), rank, world, slots, port + rank));
            }
            Step::One { name, group, rank, world, slots, port } => {
                self.join((name, group), rank, world, slots, port);
            }
            Step::End(name) => self.end(name),
            Step::Leave(index) => {
                if let Some(id) = self.take(index) {
                    self.bench.say(id, SessionRequest::Leave {});
                }
            }
            Step::Alive(index) => {
                let packets_sent = index.index(usize::MAX) as u64;
                let counters = MemberCounters { packets_sent, ..MemberCounters::default() };
                if let Some(id) = self.take(index) {
                    self.bench.say(id, SessionRequest::Alive { counters: Some(counters) });
                }
            }
            Step::Band(index) => {
                if let Some(id) = self.take(index) {
                    self.bench.say(id, SessionRequest::Band {});
                }
            }
            Step::Close(index) => {
                if let Some(id) = self.take(index) {
                    self.bench.drop_session(id);
                }
            }
            Step::Validate(validates) => self.bench.validates = validates,
            Step::Token(index) => {
                if let Some(id) = self.take(index) {
                    self.bench.say(id, SessionRequest::Path { token: PathToken(7) });
                }
            }
            Step::AllAlive => {
                self.sessions.clone().into_iter().for_each(|id| self.bench.say(id, SessionRequest::ALIVE))
            }
            Step::RunTask => {
                self.bench.run_task();
            }
            Step::RunTasks => self.bench.run_tasks(),
            Step::Pass(ms) => self.bench.pass(Duration::from_millis(ms)),
            Step::Fail(of_16) => {
                let mut state = 12_345_u32;
                self.bench.fake.lock().failing = Box::new(move |_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 28) < u32::from(of_16)
                });
            }
        }
        let closed: Vec<_> = self.bench.closed(&self.sessions).into_iter().collect();
        self.sessions.retain(|id| !closed.contains(id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn invariants_hold_in_any_history(
        slots in prop::sample::select(vec![16_u32, 100, 256, 1024]),
        sharing in prop::sample::select(Sharing::ALL.to_vec()),
        ports in 2_u16..16,
        groups in 1_u16..5,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut config = config();
        config.sharing = sharing;
        config.settle = Duration::from_secs(3);
        config.banding.ranking = Ranking::Priority;
        config.sessions_max = 24;
        config.jobs_max = 4;
        config.pending_joins_max = 10;
        let bench = Bench::new(Fake::new(slots, ports, groups), config);
        let mut history = History { bench, sessions: Vec::new() };
        steps.into_iter().for_each(|step| history.run(step));
        // With a switch that works again, every join gets its answer within the longest wait.
        history.bench.fake.lock().failing = Box::new(|_| false);
        for _ in 0..12 {
            history.bench.run_tasks();
            history.bench.pass(Duration::from_secs(4));
        }
        for (id, received) in &history.bench.received {
            prop_assert!(received.closed, "{:?} is open still: {:?}", id, received);
        }
        prop_assert!(history.bench.coordinator.is_idle());
        prop_assert!(history.bench.coordinator.is_unused());
        history.bench.finish();
    }
}
