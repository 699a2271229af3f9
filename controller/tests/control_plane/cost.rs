//! What a thousand jobs cost the control plane in processor time, with and without a schedule.
//!
//! `cargo test --release -p netfold-controller --test control_plane cost -- --ignored --nocapture`

use crate::bench::{Bench, config};
use crate::fake::Fake;
use crate::schedule::colliding;
use netfold_control::{
    Join, MemberCounters, Mode, Multipath, PathPolicy, PathReport, PortSet, SessionRequest,
};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::bands::Banding;
use netfold_controller::schedule::Schedule;
use std::net::IpAddr;
use std::time::Duration;

const JOBS: u16 = 1000;
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Simulated time, in heartbeats: five minutes.
const BEATS: u64 = 600;

/// UDP ports of a worker where the fabric has equal paths.
const PORTS: u8 = 16;

/// What members report beyond counters.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reports {
    Nothing,
    Patterns,
    /// Patterns, and how they use equal paths.
    Paths,
}

/// Processor time of this thread.
fn used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with schedstat");
    Duration::from_nanos(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("nanoseconds"))
}

/// Jobs of two ranks; two jobs share each pair of hosts, and so their links.
fn start(schedule: Schedule, reports: Reports) -> (Bench, Vec<[SessionId; 2]>) {
    let banding = Banding { link_bps: 100_000_000, ..Banding::default() };
    let most = usize::from(JOBS);
    let has_paths = reports == Reports::Paths;
    let config = Config {
        schedule,
        banding,
        sessions_max: 4 * most,
        jobs_max: 2 * most,
        jobs_kept: most,
        multipath: has_paths.then_some(Multipath { udp_ports: PORTS, policy: PathPolicy::Weighted }),
        equal_paths: has_paths.then(|| "linux,seed=7,paths=4".parse().expect("equal paths")),
        own_address: Some([10, 255, 0, 1].into()),
        ..config()
    };
    let fake = Fake::new(8192, 4000, 2000);
    fake.lock().limits.multipath = has_paths;
    let mut bench = Bench::new(fake, config);
    let mut jobs = Vec::new();
    for job in 0..JOBS {
        let [high, low] = (job / 2).to_be_bytes();
        let ids = [0, 1].map(|rank: u16| {
            let host: IpAddr = [10, high, low, rank as u8].into();
            let id = bench.open_from(host).expect("there is room for a session");
            let name = format!("job-{job}");
            let udp_ports = if has_paths { PORTS } else { 1 };
            let join = Join::new(name, (rank, 2), Mode::Bfp16, 8, 5000 + job % 2 * u16::from(PORTS));
            bench.say(id, SessionRequest::Join(Join { udp_ports, ..join }));
            id
        });
        bench.run_tasks();
        assert!(bench.received[&ids[0]].admission().is_some(), "job {job} was admitted");
        jobs.push(ids);
    }
    (bench, jobs)
}

fn cost(schedule: Schedule, reports: Reports) -> Duration {
    let (mut bench, jobs) = start(schedule, reports);
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
                if reports != Reports::Nothing {
                    bench.say(
                        *id,
                        SessionRequest::Pattern(colliding(
                            7_000 * beat % 280_000 + 20_000 * (job as u64 % 2),
                        )),
                    );
                }
                if reports == Reports::Paths {
                    let ports = usize::from(PORTS);
                    let ordered = Some(PortSet::first(PORTS));
                    let report =
                        PathReport { sent: vec![9; ports], round_trip_us: vec![100; ports], ordered };
                    bench.say(*id, SessionRequest::Paths(report));
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
    let plain = share(cost(Schedule::Off, Reports::Nothing));
    println!("heartbeats of {JOBS} jobs of 2 ranks: {plain:.2} % of a processor");
    let more = |schedule: Schedule, reports: Reports| {
        let all = share(cost(schedule, reports));
        println!("{reports:?}, --schedule {}: {all:.2} %, {:.2} % more", schedule.name(), all - plain);
    };
    Schedule::ALL.into_iter().for_each(|schedule| more(schedule, Reports::Patterns));
    [Schedule::Off, Schedule::Crux].into_iter().for_each(|schedule| more(schedule, Reports::Paths));
}
