//! Classes of packets that jobs have between them: which job has which, and which members are notified.

use crate::bench::{Bench, config, join};
use crate::fake::Fake;
use netfold_control::Band;
use netfold_control::{Credentials, Iteration, Join, Mode, Refusal, Resume, SessionEvent, SessionRequest};
use netfold_controller::admission::{Config, SessionId};
use netfold_controller::bands::{Banding, Ranking};
use netfold_controller::command::{Command, CommandError};
use netfold_controller::jobs::JobEvent;
use netfold_controller::record::{JobName, JobSpec, Quota, TenantRecord};
use netfold_controller::schedule::crux;
use netfold_wire::Dscp;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const COMPUTE_US: u64 = 100_000;
const BYTES: u64 = 1_250_000_000;

fn banded(ranking: Ranking) -> Config {
    let banding = Banding { ranking, dscp: dscp(), ..Banding::default() };
    Config { banding, jobs_kept: 100, ..config() }
}

fn dscp() -> Dscp {
    let mut points = [0; 16];
    points.iter_mut().zip(20..).for_each(|(point, value)| *point = value);
    Dscp::new(&points).expect("16 code points below 64")
}

fn bench(config: Config) -> Bench {
    Bench::new(Fake::new(4096, 64, 16), config)
}

/// An iteration that computes for 100 ms, and then sends for 100 ms on a link of 100 Gbit/s.
fn iteration(work: u64) -> Iteration {
    Iteration { work, compute_us: COMPUTE_US, send_after_us: COMPUTE_US, bytes: BYTES }
}

pub(crate) fn declare(bench: &mut Bench, name: &str, iteration: Iteration) -> Result<(), CommandError> {
    let spec = JobSpec {
        world: 2,
        mode: Mode::Bfp16,
        slots: 256,
        classes: 1,
        trees: 1,
        authenticated: false,
        udp_ports: 1,
        iteration: Some(iteration),
    };
    let name = JobName { tenant: String::new(), job: name.into() };
    bench.act(|coordinator, now| coordinator.execute(now, Command::DeclareJob { name, spec }))
}

/// The classes that the members of a job were admitted with.
fn admitted(bench: &Bench, members: &[SessionId]) -> Band {
    let bands = members.iter().map(|id| bench.received[id].admission().expect("it runs").band);
    let bands: Vec<Option<Band>> = bands.collect();
    assert!(bands.iter().all(|band| *band == bands[0]), "all members receive the same");
    bands[0].expect("jobs are banded")
}

/// The classes that a session was notified of since its admission, in order.
fn notified(bench: &Bench, id: SessionId) -> Vec<u8> {
    let events = bench.received[&id].events.iter();
    events
        .filter_map(|event| match event {
            SessionEvent::Band(band) => Some(band.first()),
            _ => None,
        })
        .collect()
}

fn leave(bench: &mut Bench, members: &[SessionId]) {
    members.iter().for_each(|id| bench.say(*id, SessionRequest::Leave {}));
    bench.run_tasks();
}

#[test]
fn jobs_have_the_bands_of_crux_and_are_notified_of_changes() {
    let mut bench = bench(banded(Ranking::Crux));
    for (name, work) in [("light", 200), ("heavy", 1600), ("middle", 600)] {
        declare(&mut bench, name, iteration(work)).unwrap();
    }
    let light = bench.start("light", 2, 5000);
    let alone = admitted(&bench, &light);
    assert_eq!(alone.dscp(), &dscp());
    bench.say(light[0], SessionRequest::Band {});
    assert_eq!(notified(&bench, light[0]), [alone.first()], "asked and answered");

    let heavy = bench.start("heavy", 2, 6000);
    let middle = bench.start("middle", 2, 7000);
    // The published algorithm's result for the three on one link.
    let job = |work: u64| crux::Job {
        work: work as f64,
        compute_us: COMPUTE_US,
        send_after_us: COMPUTE_US,
        flows: vec![crux::Flow { bytes: BYTES as f64, paths: vec![vec![0]] }],
    };
    let plan = crux::plan(&[200, 1600, 600].map(job), &[12.5e9], 4, 0);
    assert!(plan[1].level < plan[2].level && plan[2].level < plan[0].level, "{plan:?}");
    let view = |bench: &Bench, name: &str| {
        let name = JobName { tenant: String::new(), job: name.into() };
        bench.coordinator.view_job(&name).expect("it runs").band.expect("it is banded")
    };
    let [low, high, mid] = ["light", "heavy", "middle"].map(|name| view(&bench, name));
    assert!(high.first() > mid.last() && mid.first() > low.last(), "{high} {mid} {low}");
    assert_eq!(admitted(&bench, &middle), mid);
    assert!(admitted(&bench, &heavy).first() >= high.first());
    assert_eq!(notified(&bench, light[0]).last(), Some(&low.first()), "it runs, and has other classes");
    assert!(notified(&bench, light[1]).is_empty(), "it has not asked");
    assert!(
        bench.log.iter().any(|event| matches!(event, JobEvent::Banded { name, .. } if name.job == "light"))
    );

    // Nothing is known about an undeclared job.
    let quiet = bench.start("quiet", 2, 8000);
    assert_eq!(admitted(&bench, &quiet).first(), 0);
    leave(&mut bench, &heavy);
    leave(&mut bench, &middle);
    assert_eq!(notified(&bench, light[0]).last(), Some(&alone.first()), "alone as before");
    assert!(notified(&bench, quiet[0]).is_empty());
    bench.finish();
}

#[test]
fn bands_by_priority_follow_the_tenant() {
    let mut bench = bench(Config { tenants: true, ..banded(Ranking::Priority) });
    for (name, priority) in [("red", 0), ("blue", 2)] {
        let tenant =
            TenantRecord { name: name.into(), quota: Quota::UNLIMITED, weight: 1, priority, token: None };
        bench.act(|coordinator, now| coordinator.execute(now, Command::AddTenant(tenant))).unwrap();
    }
    let mut start = |tenant: &str, port: u16| {
        let id = bench.open().unwrap();
        let credentials = Some(Credentials { tenant: tenant.into(), token: String::new() });
        let join = Join::new("job", (0, 1), Mode::Bfp16, 256, port);
        bench.say(id, SessionRequest::Join(Join { credentials, ..join }));
        bench.run_tasks();
        id
    };
    let (red, blue) = (start("red", 5000), start("blue", 5001));
    assert_eq!((admitted(&bench, &[red]).first(), admitted(&bench, &[blue]).first()), (0, 8));
    bench.say(red, SessionRequest::Band {});
    let set =
        Command::SetTenant { name: "red".into(), quota: None, weight: None, priority: Some(9), token: None };
    bench.act(|coordinator, now| coordinator.execute(now, set)).unwrap();
    assert_eq!(notified(&bench, red), [0, 12], "a new priority holds at once");
    bench.finish();
}

#[test]
fn without_a_ranking_no_band_is_announced() {
    let mut bench = bench(config());
    let members = bench.start("job", 2, 5000);
    assert_eq!(bench.received[&members[0]].admission().unwrap().band, None);
    // From a control plane that had bands before.
    bench.say(members[0], SessionRequest::Band {});
    assert_eq!(bench.received[&members[0]].events.last(), Some(&SessionEvent::Band(Band::ALL)));
    let early = bench.open().unwrap();
    bench.say(early, SessionRequest::Band {});
    assert_eq!(bench.received[&early].refusal(), Some(Refusal::Protocol));
    let waiting = bench.join("other", 0, 2, 6000);
    bench.say(waiting, SessionRequest::Band {});
    assert_eq!(bench.received[&waiting].refusal(), Some(Refusal::Protocol));
    bench.finish();
}

#[test]
fn a_restart_restores_the_bands_and_announces_them_again() {
    let lasting = || {
        let grace = 60 * SECOND;
        Config { grace, away: 2 * SECOND, resume: 10 * SECOND, ..banded(Ranking::Crux) }
    };
    let mut bench = bench(lasting());
    declare(&mut bench, "light", iteration(200)).unwrap();
    declare(&mut bench, "heavy", iteration(1600)).unwrap();
    let members = bench.start("light", 1, 5000);
    assert_eq!(
        bench.received[&members[0]].refusal(),
        Some(Refusal::WorldMismatch),
        "a world of two was declared"
    );
    let members = bench.start("light", 2, 5000);
    let heavy = bench.start("heavy", 2, 6000);
    let admission = bench.received[&members[0]].admission().unwrap().clone();
    let low = {
        bench.say(members[0], SessionRequest::Band {});
        notified(&bench, members[0])
    };
    assert!(low[0] < admitted(&bench, &heavy).first());
    let mut bench = bench.restart(lasting());
    bench.run_tasks();
    let id = bench.open().unwrap();
    let (version, job, epoch, ticket) =
        (netfold_wire::VERSION, admission.job, admission.epoch, admission.ticket.unwrap());
    bench.say(id, SessionRequest::Resume(Resume { version, job, epoch, rank: 0, ticket }));
    bench.say(id, SessionRequest::Band {});
    assert_eq!(notified(&bench, id), low);
    bench.finish();
}

#[test]
fn iterations_that_cannot_be_are_refused() {
    let mut bench = bench(banded(Ranking::Crux));
    let good = iteration(1);
    for (wrong, says) in [
        (Iteration { work: 0, ..good }, "work 0"),
        (Iteration { bytes: 0, ..good }, "0 bytes"),
        (Iteration { bytes: u64::MAX, ..good }, "2^53"),
        (Iteration { compute_us: 0, ..good }, "0 us"),
        (Iteration { compute_us: u64::MAX, ..good }, "a day"),
        (Iteration { send_after_us: COMPUTE_US + 1, ..good }, "as much at most"),
    ] {
        let Err(CommandError::Invalid(message)) = declare(&mut bench, "job", wrong) else {
            panic!("{wrong:?} was declared")
        };
        assert!(message.contains(says), "{message}");
    }
    // The extremes that may be declared are planned in bounded time.
    let (most, long) = (Iteration::MOST, Iteration::COMPUTE_US_MAX);
    let extremes = [
        Iteration { work: most, compute_us: 1, send_after_us: 0, bytes: 1 },
        Iteration { work: 1, compute_us: long, send_after_us: 0, bytes: most },
        Iteration { work: 1, compute_us: 1, send_after_us: 1, bytes: 1 },
        Iteration { work: most, compute_us: long, send_after_us: long, bytes: 1 },
    ];
    let begin = std::time::Instant::now();
    for (extreme, port) in extremes.into_iter().zip((5000..).step_by(10)) {
        let name = port.to_string();
        declare(&mut bench, &name, extreme).unwrap();
        let members: Vec<SessionId> = [0, 1]
            .map(|rank| {
                let id = bench.open().unwrap();
                bench.say(id, join(&name, rank, 2, port + rank));
                id
            })
            .into();
        bench.run_tasks();
        admitted(&bench, &members);
    }
    assert!(begin.elapsed() < 5 * SECOND, "{:?}", begin.elapsed());
    bench.finish();
}
