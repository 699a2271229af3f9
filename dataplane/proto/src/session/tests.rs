use netfold_control::{Join, Mode, ResumeTicket};
use proptest::prelude::*;

use super::*;

const GRACE: Duration = Duration::from_secs(60);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn membership(grace: Duration) -> Membership {
    let resume =
        Resume { version: netfold_wire::VERSION, job: 7, epoch: 9, rank: 0, ticket: ResumeTicket([3; 32]) };
    Membership {
        resume: (!grace.is_zero()).then_some(resume),
        grace,
        banded: false,
        patterns: false,
        path_reports: false,
    }
}

fn actions(session: &mut MemberSession) -> Vec<SessionAction> {
    std::iter::from_fn(|| session.poll_action()).collect()
}

fn lost(session: &MemberSession) -> String {
    match session.end() {
        Some(SessionEnd::Lost(SessionFailure::SwitchLost { message })) => message.clone(),
        end => panic!("{end:?}"),
    }
}

/// Lets time pass to `until` with nothing to read, and returns what the session did at which time.
fn idle(session: &mut MemberSession, until: u64) -> Vec<(u64, SessionAction)> {
    let mut all = Vec::new();
    while session.end().is_none() && session.deadline() <= at(until) {
        let now = session.deadline();
        session.handle_idle(now);
        all.extend(actions(session).into_iter().map(|action| (now.as_nanos() / 1_000_000, action)));
    }
    all
}

#[test]
fn heartbeats_are_sent_and_silence_is_a_loss() {
    let mut session = MemberSession::new(at(0), membership(Duration::ZERO));
    let sent = idle(&mut session, 10_000);
    let beats: Vec<_> = (1..6).map(|beat| (500 * beat, SessionAction::Heartbeat)).collect();
    assert_eq!(sent, beats);
    assert_eq!(lost(&session), "its control port sent no heartbeat");
    assert_eq!(session.now, at(3_000), "after a lease");
}

#[test]
fn a_pause_of_the_process_begins_the_lease_anew() {
    let mut session = MemberSession::new(at(0), membership(Duration::ZERO));
    session.handle_idle(at(60_000));
    assert_eq!((actions(&mut session), session.end()), (vec![SessionAction::Heartbeat], None));
    idle(&mut session, 62_999);
    assert_eq!(session.end(), None);
    idle(&mut session, 63_000);
    assert_eq!(lost(&session), "its control port sent no heartbeat");
}

#[test]
fn heartbeats_are_sent_while_events_arrive() {
    let mut session = MemberSession::new(at(0), membership(Duration::ZERO));
    for ms in (0..2_000).step_by(100) {
        session.handle_event(at(ms), SessionEvent::Alive {});
    }
    assert_eq!(actions(&mut session), vec![SessionAction::Heartbeat; 3]);
}

#[test]
fn a_broken_session_is_resumed() {
    let mut session = MemberSession::new(at(0), Membership { banded: true, ..membership(GRACE) });
    assert_eq!(actions(&mut session), [SessionAction::Send(SessionRequest::Band {})]);
    session.handle_close(at(100), true);
    let timeout = RESUME_TIMEOUT;
    let connect = SessionAction::Connect { timeout };
    let reason = "the control connection closed";
    assert_eq!(
        actions(&mut session),
        [SessionAction::Disconnect, SessionAction::Broke { reason }, connect.clone()],
    );
    assert!(!session.is_connected());
    session.handle_connect_failure(at(110));
    let attempt = [(130, SessionAction::Disconnect), (130, connect)];
    assert_eq!(idle(&mut session, 130), attempt, "the first back-off");
    session.handle_connected(at(140));
    let resume = membership(GRACE).resume.unwrap();
    assert_eq!(actions(&mut session), [SessionAction::Send(SessionRequest::Resume(resume))]);
    let busy = SessionEvent::Refused { reason: Refusal::Busy, message: String::new() };
    session.handle_event(at(150), busy);
    assert_eq!(idle(&mut session, 190).len(), 2, "the second back-off is 40 ms");
    session.handle_connected(at(190));
    session.handle_event(at(200), SessionEvent::PeerLeft { rank: 3 });
    session.handle_event(at(200), SessionEvent::Resumed {});
    let all = actions(&mut session);
    let away = Duration::from_millis(100);
    assert!(
        all.ends_with(&[
            SessionAction::PeerLeft { rank: 3 },
            SessionAction::Resumed { away },
            SessionAction::Send(SessionRequest::Band {}),
        ]),
        "{all:?}"
    );
    assert!(session.is_connected() && session.end().is_none());
}

#[test]
fn the_grace_period_bounds_the_attempts() {
    let mut session = MemberSession::new(at(0), membership(Duration::from_secs(5)));
    session.handle_close(at(0), false);
    let mut attempts = 0;
    while session.end().is_none() {
        for action in actions(&mut session) {
            if matches!(action, SessionAction::Connect { .. }) {
                attempts += 1;
                session.handle_connect_failure(session.now);
            }
        }
        session.handle_idle(session.deadline());
    }
    assert_eq!(session.now, at(5_000));
    assert_eq!(lost(&session), "the control connection closed, and did not come back in time");
    assert_eq!(attempts, 10, "20 ms, doubling to a second");
}

#[test]
fn a_refusal_to_resume_is_a_loss() {
    let mut session = MemberSession::new(at(0), membership(GRACE));
    session.handle_close(at(0), true);
    session.handle_connected(at(1));
    let message = "no such place".to_string();
    session.handle_event(at(2), SessionEvent::Refused { reason: Refusal::Protocol, message });
    assert_eq!(lost(&session), "its controller refused to resume the session: no such place");
}

#[test]
fn a_leave_request_is_repeated_until_it_is_heard() {
    let mut session = MemberSession::new(at(0), membership(GRACE));
    session.leave(at(10), true);
    session.handle_close(at(20), false);
    assert!(session.end().is_none());
    session.handle_connected(at(30));
    session.handle_event(at(40), SessionEvent::Resumed {});
    session.leave(at(40), true);
    session.handle_event(at(41), SessionEvent::Alive {});
    session.handle_close(at(50), true);
    assert_eq!(session.end(), Some(&SessionEnd::Done));

    let mut session = MemberSession::new(at(0), membership(Duration::ZERO));
    session.leave(at(10), false);
    assert_eq!(session.end(), Some(&SessionEnd::Done), "without a grace period there is no second attempt");
}

#[test]
fn a_member_waits_for_its_admission() {
    let join = Join::new("a", (2, 4), Mode::Bfp16, 64, 0);
    let mut joining = Joining::new(at(0), &join, Duration::from_secs(30));
    assert_eq!(joining.deadline(), at(500));
    for ms in [500, 1_000, 1_500] {
        assert_eq!(joining.handle_idle(at(ms)), Ok(()));
    }
    assert_eq!(joining.clone().handle_idle(at(2_000)), Err(SessionFailure::SilentPort));
    assert_eq!(joining.clone().handle_idle(at(9_000)), Ok(()), "this process was stopped");
    assert!(matches!(joining.handle_event(at(1_900), SessionEvent::Alive {}), Ok(JoinStep::Waiting)));
    assert_eq!(joining.handle_idle(at(2_400)), Ok(()));
    let waited = Duration::from_secs(30);
    assert_eq!(joining.handle_idle(at(30_000)), Err(SessionFailure::JoinTimeout { waited }));
}

#[derive(Debug, Clone)]
enum Step {
    Event(SessionEvent),
    Close(bool),
    SendFails,
    Idle,
    Connected,
    ConnectFails,
    Leave(bool),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Step> {
    let refused = |reason| SessionEvent::Refused { reason, message: String::new() };
    prop_oneof![
        Just(Step::Event(SessionEvent::Alive {})),
        Just(Step::Event(SessionEvent::Resumed {})),
        Just(Step::Event(SessionEvent::PeerLeft { rank: 1 })),
        Just(Step::Event(refused(Refusal::Busy))),
        any::<bool>().prop_map(Step::Close),
        Just(Step::SendFails),
        Just(Step::Idle),
        Just(Step::Connected),
        Just(Step::ConnectFails),
        any::<bool>().prop_map(Step::Leave),
        (0..4_000_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    /// Whatever happens: a session has a connection, an attempt under way or one that is due, or has ended; and it ends within its grace
    /// period and a lease after the last sign of its port.
    #[test]
    fn a_session_ends_when_its_port_is_gone(grace in 0..20_000_u64, steps in prop::collection::vec(steps(), 0..60)) {
        let mut session = MemberSession::new(at(0), membership(Duration::from_millis(grace)));
        let mut now = 0;
        for step in steps {
            match step {
                Step::Event(event) if session.is_connected() => session.handle_event(at(now), event),
                Step::Close(by_port) => session.handle_close(at(now), by_port),
                Step::SendFails => session.handle_send_failure(),
                Step::Idle => session.handle_idle(at(now)),
                Step::Connected => session.handle_connected(at(now)),
                Step::ConnectFails => session.handle_connect_failure(at(now)),
                Step::Leave(sent) => session.leave(at(now), sent),
                Step::Pass(ms) => now += ms,
                Step::Event(_) => {}
            }
            actions(&mut session);
        }
        let gone = now;
        let mut calls = 0;
        while session.end().is_none() {
            now = now.max(session.deadline().as_nanos().div_ceil(1_000_000));
            session.handle_idle(at(now));
            for action in actions(&mut session) {
                if matches!(action, SessionAction::Connect { .. }) {
                    session.handle_connect_failure(at(now));
                }
            }
            calls += 1;
            prop_assert!(calls < 100, "a session that does not wait");
        }
        prop_assert!(now <= gone + grace + LEASE_MS + 2 * HEARTBEAT_MS + 1, "{now} {gone}");
    }
}
