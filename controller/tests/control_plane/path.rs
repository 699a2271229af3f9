//! Path validation: no member's packets are admitted, and nothing is sent to its address, before it has shown that it receives there.

use crate::bench::{Bench, config, join};
use crate::fake::Fake;
use netfold_control::{Join, Mode, PathToken, Refusal, SessionEvent, SessionRequest};
use netfold_controller::admission::SessionId;
use std::time::Duration;

/// A job of two whose members are challenged and have not answered.
fn challenged() -> (Bench, Vec<SessionId>) {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config());
    bench.validates = false;
    let members = bench.start("demo", 2, 5000);
    (bench, members)
}

fn answer(bench: &mut Bench, id: SessionId, token: PathToken) {
    bench.say(id, SessionRequest::Path { token });
    bench.run_tasks();
}

/// Whether the switch sends no results and folds no packets.
fn is_closed(bench: &Bench) -> bool {
    let switch = bench.fake.lock();
    switch.groups.is_empty() && switch.admitted().is_empty()
}

#[test]
fn no_address_joins_a_group_before_it_has_returned_its_token() {
    let (mut bench, members) = challenged();
    let challenge = |id| {
        let challenge = |event: &SessionEvent| match event {
            SessionEvent::Path(challenge) => Some(challenge.clone()),
            _ => None,
        };
        bench.received[id].events.iter().find_map(challenge).expect("each member is challenged")
    };
    assert_eq!(challenge(&members[0]), challenge(&members[1]));
    assert_eq!(bench.fake.lock().entries.len(), 2, "a challenge each");
    let tokens: Vec<PathToken> = members.iter().map(|id| bench.path_token(*id).expect("a token")).collect();
    assert_ne!(tokens[0], tokens[1]);

    assert!(is_closed(&bench));
    answer(&mut bench, members[0], tokens[0]);
    // Again, which changes nothing: it stands for no other member.
    answer(&mut bench, members[0], tokens[0]);
    assert!(is_closed(&bench) && bench.received[&members[0]].is_untouched());
    answer(&mut bench, members[1], tokens[1]);
    assert!(!is_closed(&bench) && bench.received[&members[0]].admission().is_some());
    // A delayed repetition.
    answer(&mut bench, members[1], tokens[1]);
    assert!(!bench.received[&members[1]].closed);
    bench.finish();
}

#[test]
fn a_token_is_for_one_member_of_one_job() {
    for (forger, wrong) in [(1, 0), (0, 1)] {
        let (mut bench, members) = challenged();
        let other = bench.path_token(members[wrong]).expect("a token");
        answer(&mut bench, members[forger], other);
        assert_eq!(bench.received[&members[forger]].refusal(), Some(Refusal::Path));
        assert_eq!(bench.received[&members[1 - forger]].refusal(), Some(Refusal::PeersMissing));
        assert!(bench.fake.lock().is_empty(), "the job's place is withdrawn");
        // The same names and addresses have other tokens the next time.
        let again = bench.start("demo", 2, 5000);
        assert_ne!(bench.path_token(again[wrong]), Some(other));
        bench.finish();
    }
}

#[test]
fn members_that_receive_nothing_are_named_in_time() {
    let (mut bench, members) = challenged();
    let token = bench.path_token(members[0]).expect("a token");
    answer(&mut bench, members[0], token);
    bench.pass(Duration::from_millis(4_900));
    assert!(bench.received[&members[1]].is_untouched());
    bench.pass(Duration::from_millis(200));
    for id in &members {
        assert_eq!(bench.received[id].refusal(), Some(Refusal::Path));
        let text = bench.received[id].text();
        assert!(
            text.contains("at rank 1 at 127.0.0.1:5001 (switch 'switch'): check that UDP packets pass"),
            "{text}"
        );
    }
    bench.run_tasks();
    assert!(bench.fake.lock().is_empty());
    bench.finish();
}

#[test]
fn an_address_of_another_host_joins_no_group_by_a_guess() {
    let mut bench = Bench::new(Fake::new(1024, 64, 16), config());
    bench.validates = false;
    let attacker = bench.open().expect("there is room");
    let address = Some([192, 0, 2, 9].into());
    let join = Join { address, ..Join::new("reflect", (0, 1), Mode::Bfp16, 256, 53) };
    bench.say(attacker, SessionRequest::Join(join));
    bench.run_tasks();
    assert!(is_closed(&bench), "nothing is sent to the named address");
    answer(&mut bench, attacker, PathToken(0));
    assert!(is_closed(&bench));
    assert_eq!(
        bench.received[&attacker].refusal(),
        Some(Refusal::Path),
        "the first wrong token ends the session"
    );
    bench.finish();
}

#[test]
fn tokens_out_of_order_are_refused_and_lost_members_end_the_validation() {
    let (mut bench, members) = challenged();
    let stray = bench.open().expect("there is room");
    bench.say(stray, SessionRequest::Path { token: PathToken(1) });
    assert_eq!(bench.received[&stray].refusal(), Some(Refusal::Protocol));
    let forming = bench.open().expect("there is room");
    bench.say(forming, join("other", 0, 2, 6000));
    bench.say(forming, SessionRequest::Path { token: PathToken(1) });
    assert_eq!(bench.received[&forming].refusal(), Some(Refusal::Protocol));

    bench.drop_session(members[1]);
    assert_eq!(bench.received[&members[0]].refusal(), Some(Refusal::PeersMissing));
    bench.run_tasks();
    assert!(bench.fake.lock().is_empty());
    bench.finish();
}

#[test]
fn any_failing_call_of_either_half_leaves_nothing_behind() {
    let mut call = 1;
    loop {
        let mut bench = Bench::new(Fake::new(1024, 64, 16), config());
        bench.fake.lock().failing = Box::new(move |number| number == call);
        let members = bench.start("demo", 2, 5000);
        if bench.received[&members[0]].admission().is_some() {
            bench.finish();
            break;
        }
        assert!(members.iter().all(|id| bench.received[id].refusal() == Some(Refusal::Busy)));
        bench.pass(Duration::from_secs(1));
        bench.run_tasks();
        assert!(bench.fake.lock().is_empty(), "call {call}");
        bench.finish();
        call += 1;
    }
    assert!(call > 6, "ports, ADVANCE, challenges, their deletion, a group and entries: {call}");
}
