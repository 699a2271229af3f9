//! What a thousand jobs cost the control plane in processor time, with and without a schedule.
//!
//! `cargo test --release -p netfold-controller --test control_plane cost -- --ignored --nocapture`

use crate::bench::{Bench, config};
use crate::fake::Fake;
use crate::schedule::colliding;
use netfold_control::{Join, MemberCounters, Mode, SessionRequest};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::bands::Banding;
use netfold_controller::schedule::Schedule;
use std::net::IpAddr;
use std::time::Duration;

const JOBS: u16 = 1000;
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Simulated time, in heartbeats: five minutes.
const BEATS: u64 = 600;

/// Processor time of this thread.
fn used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with schedstat");
    Duration::from_nanos(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("nanoseconds"))
}

/// Jobs of two ranks; two jobs share each pair of hosts, and so their links.
fn start(schedule: Schedule) -> (Bench, Vec<[SessionId; 2]>) {
    let banding = Banding { link_bps: 100_000_000, ..Banding::default() };
    let most = usize::from(JOBS);
    let config =
        Config { schedule, banding, sessions_max: 4 * most, jobs_max: 2 * most, jobs_kept: most, ..config() };
    let mut bench = Bench::new(Fake::new(8192, 4000, 2000), config);
    let mut jobs = Vec::new();
    for job in 0..JOBS {
        let [high, low] = (job / 2).to_be_bytes();
        let ids = [0, 1].map(|rank: u16| {
            let host: IpAddr = [10, high, low, rank as u8].into();
            let id = bench.open_from(host).expect("there is room for a session");
            let name = format!("job-{job}");
            let join = Join::new(name, (rank, 2), Mode::Bfp16, 8, 5000 + job % 2);
            bench.say(id, SessionRequest::Join(join));
            id
        });
        bench.run_tasks();
        assert!(bench.received[&ids[0]].admission().is_some(), "job {job} was admitted");
        jobs.push(ids);
    }
    (bench, jobs)
}

fn cost(schedule: Schedule, patterns: bool) -> Duration {
    let (mut bench, jobs) = start(schedule);
    let begun = used();
    for beat in 0..BEATS {
        for (job, members) in jobs.iter().enumerate() {
            for id in members {
                let counters = MemberCounters {
                    tensor_bytes: 1_000_000 * beat,
                    packets_sent: 1_000 * beat,
                    results_received: 1_000 * beat,
                    ..MemberCounters::default()
                };
                bench.say(*id, SessionRequest::Alive { counters: Some(counters) });
                if patterns {
                    bench.say(
                        *id,
                        SessionRequest::Pattern(colliding(
                            7_000 * beat % 280_000 + 20_000 * (job as u64 % 2),
                        )),
                    );
                }
            }
        }
        bench.pass(HEARTBEAT);
        // What was sent is of no interest, and would fill memory.
        bench.received.values_mut().for_each(|received| received.events.truncate(4));
    }
    used() - begun
}

#[test]
#[ignore = "a measurement that asserts no figure: run it alone, in release mode"]
fn what_a_thousand_jobs_cost() {
    let simulated = HEARTBEAT * BEATS as u32;
    let share = |used: Duration| 100.0 * used.as_secs_f64() / simulated.as_secs_f64();
    let plain = share(cost(Schedule::Off, false));
    println!("heartbeats of {JOBS} jobs of 2 ranks: {plain:.2} % of a processor");
    for schedule in Schedule::ALL {
        let all = share(cost(schedule, true));
        println!(
            "with measured patterns, --schedule {}: {all:.2} %, {:.2} % more",
            schedule.name(),
            all - plain
        );
    }
}
