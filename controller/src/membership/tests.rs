use super::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

const SECOND: Duration = Duration::from_secs(1);

fn key() -> TicketKey {
    TicketKey::generate(&mut StdRng::seed_from_u64(1))
}

/// A job whose ranks have the sessions of their numbers.
fn job(world: u16) -> Membership {
    let mut job = Membership::new(JobName { tenant: String::new(), job: "train".into() }, world, key());
    for rank in 0..world {
        job.enroll(SessionId(rank.into()), rank, world).unwrap();
    }
    job
}

fn request(joining: u16, port: u16) -> Resize {
    Resize { generation: 0, joining, timeout_ms: 1000, meeting: Some(([127, 0, 0, 1], port).into()) }
}

fn ranks(decision: &Decision) -> Vec<(u64, u16)> {
    decision.ranks.iter().map(|(id, rank)| (id.0, *rank)).collect()
}

#[test]
fn survivors_keep_their_order_and_those_that_join_come_after_them() {
    let mut job = job(4);
    job.disconnect(0, None);
    job.enter(SessionId(9)).unwrap();
    job.enter(SessionId(8)).unwrap();
    job.enter(SessionId(7)).unwrap();
    for rank in [3, 1] {
        job.ask(SECOND, rank, request(2, 100 + rank));
        assert!(job.decide(100).is_none(), "not all have asked");
    }
    job.ask(SECOND, 2, request(2, 102));
    let decision = job.decide(100).unwrap();
    assert_eq!(ranks(&decision), [(1, 0), (2, 1), (3, 2), (9, 3), (8, 4)]);
    for (_, resized) in &decision.resized {
        assert_eq!((resized.generation, resized.world, resized.survivors), (2, 5, 3));
        assert_eq!(resized.lost, [0]);
        assert_eq!(resized.meeting, Some(([127, 0, 0, 1], 101).into()), "that of the new rank 0");
    }
    assert_eq!(job.counts(), (5, 0, 1));
}

/// A member that is connected is not left out, whatever the others ask for; one that is lost for this control plane is.
#[test]
fn no_member_is_left_out_by_the_word_of_others() {
    let mut job = job(3);
    for rank in [0, 1] {
        job.ask(SECOND, rank, request(0, 1));
    }
    assert!(job.decide(100).is_none());
    assert_eq!(job.give_up(SECOND, 100), [], "the time is not over");
    let notified = job.give_up(2 * SECOND, 100);
    assert_eq!(notified.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(notified[0].1.missing, [2]);
    assert_eq!((job.generation, job.next_deadline()), (1, None));
    for rank in [0, 1] {
        job.ask(3 * SECOND, rank, request(0, 1));
    }
    job.disconnect(2, Some(5 * SECOND));
    assert!(job.decide(100).is_none(), "it may resume");
    assert_eq!(job.next_deadline(), Some(4 * SECOND));
    assert_eq!(job.expire(5 * SECOND), [2]);
    assert_eq!(ranks(&job.decide(100).unwrap()), [(0, 0), (1, 1)]);
}

#[test]
fn the_decision_is_repeated_for_those_that_have_not_received_it_and_others_are_excluded() {
    let mut job = job(3);
    let tickets: Vec<_> = (0..3).map(|rank| job.ticket(rank)).collect();
    job.disconnect(1, None);
    job.ask(SECOND, 0, request(0, 1));
    job.ask(SECOND, 2, request(0, 1));
    let decision = job.decide(100).unwrap();
    // After a restart everything is as it was stored.
    let mut restarted = Membership::restore(job.record(), 10 * SECOND);
    for job in [&mut job, &mut restarted] {
        let (rank, resumed) = job.resume(SessionId(5), (1, 2), &tickets[2]).unwrap();
        let Resumed::Moved { resized, .. } = resumed else { panic!("{resumed:?}") };
        assert_eq!((rank, &*resized), (1, &decision.resized[1].1));
        let excluded = job.resume(SessionId(6), (1, 1), &tickets[1]).unwrap_err();
        assert_eq!(excluded.reason, Refusal::Excluded);
        let forged = job.resume(SessionId(6), (1, 0), &tickets[1]).unwrap_err();
        assert_eq!(forged.reason, Refusal::Credentials);
        let ticket = job.ticket(1);
        assert_ne!(ticket, tickets[1], "tickets are of one generation");
        let (_, same) = job.resume(SessionId(7), (2, 1), &ticket).unwrap();
        assert_eq!(same, Resumed::Same { replaced: Some(SessionId(5)) });
    }
}

#[test]
fn bounds_and_different_requests_are_refused_with_the_reason() {
    let mut job = job(2);
    let reason = |job: &mut Membership| {
        assert!(job.decide(3).is_none());
        job.give_up(9 * SECOND, 3).first().map(|(_, refused)| refused.message.clone()).unwrap()
    };
    job.ask(SECOND, 0, request(1, 1));
    job.ask(SECOND, 1, request(2, 1));
    assert!(reason(&mut job).contains("different numbers"));
    for rank in [0, 1] {
        job.ask(SECOND, rank, request(2, 1));
    }
    assert!(reason(&mut job).contains("more than 3 workers"));
    for rank in [0, 1] {
        job.ask(SECOND, rank, request(1, 1));
    }
    assert!(reason(&mut job).contains("0 of 1 new members"));
    for id in 0..JOINING_MAX as u64 {
        job.enter(SessionId(100 + id)).unwrap();
    }
    assert_eq!(job.enter(SessionId(9)).unwrap_err().reason, Refusal::Busy);
    let taken = job.enroll(SessionId(9), 1, 2).unwrap_err();
    assert_eq!(taken.reason, Refusal::RankTaken);
    assert_eq!(job.enroll(SessionId(9), 1, 3).unwrap_err().reason, Refusal::WorldMismatch);
    job.leave(0);
    assert!(!job.is_over());
    job.disconnect(1, None);
    assert!(job.is_over());
}
