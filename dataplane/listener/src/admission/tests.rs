use super::*;
use proptest::prelude::*;

const POLICY: Policy = Policy {
    name: "test",
    connections_max: 8,
    source_max: 4,
    first_message_timeout: Duration::from_secs(10),
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Admits a connection, which evicts none.
fn admit(admission: &mut ConnectionAdmission, seconds: u64, user: u32) -> ConnectionId {
    let admitted = admission.admit(at(seconds), Source::User(user)).unwrap();
    assert_eq!(admitted.evicted, None);
    admitted.id
}

#[test]
fn silent_connections_exclude_no_other_of_the_same_source() {
    let mut admission = ConnectionAdmission::new(POLICY);
    let first: Vec<ConnectionId> = (0..4).map(|second| admit(&mut admission, second, 1)).collect();
    // The oldest gives way, not one of another source.
    let other = admit(&mut admission, 4, 2);
    let newer = admission.admit(at(5), Source::User(1)).unwrap();
    assert_eq!(newer.evicted, Some(first[0]));
    let newest = admission.admit(at(6), Source::User(1)).unwrap();
    assert_eq!(newest.evicted, Some(first[1]));
    assert_eq!(admission.counters().closed(Closure::SourceLimit), 2);
    assert_eq!(admission.counters().last(), Some(Source::User(1)));
    admission.close(other);
    assert_eq!(admission.len(), 4);
    assert_eq!(admission.counters().open(), 4);
}

#[test]
fn at_the_total_limit_the_source_with_the_most_gives_way() {
    let mut admission = ConnectionAdmission::new(POLICY);
    let few = admit(&mut admission, 0, 1);
    let _ = admit(&mut admission, 1, 2);
    let _ = admit(&mut admission, 2, 2);
    let many: Vec<ConnectionId> = (3..7).map(|second| admit(&mut admission, second, 3)).collect();
    let _ = admit(&mut admission, 7, 4);
    assert_eq!(admission.len(), POLICY.connections_max);
    // The oldest of all is of a source with few connections, and stays.
    let admitted = admission.admit(at(8), Source::User(5)).unwrap();
    assert_eq!(admitted.evicted, Some(many[0]));
    assert!(admission.connections.contains_key(&few));
    assert_eq!(admission.counters().closed(Closure::TotalLimit), 1);
}

#[test]
fn requests_and_authentication_protect_from_eviction() {
    let mut admission = ConnectionAdmission::new(POLICY);
    let ids: Vec<ConnectionId> = (0..4).map(|second| admit(&mut admission, second, 1)).collect();
    admission.request_began(ids[0]);
    admission.authenticated(ids[1]);
    // The authenticated one does not count against its source.
    let fifth = admit(&mut admission, 4, 1);
    let admitted = admission.admit(at(5), Source::User(1)).unwrap();
    assert_eq!(admitted.evicted, Some(ids[2]), "the oldest that is idle");
    for id in [ids[3], fifth, admitted.id] {
        admission.request_began(id);
    }
    assert_eq!(admission.admit(at(6), Source::User(1)), Err(Closure::SourceBusy));
    // Idle again, it is as old as its last request.
    admission.request_ended(at(7), ids[3]);
    admission.request_ended(at(8), ids[0]);
    let admitted = admission.admit(at(9), Source::User(1)).unwrap();
    assert_eq!(admitted.evicted, Some(ids[3]));
}

#[test]
fn when_all_are_in_use_a_new_one_is_refused() {
    let mut admission = ConnectionAdmission::new(POLICY);
    for user in 0..8 {
        let id = admit(&mut admission, 0, user);
        if user % 2 == 0 { admission.request_began(id) } else { admission.authenticated(id) }
    }
    assert_eq!(admission.admit(at(1), Source::User(9)), Err(Closure::TotalBusy));
    assert_eq!(admission.counters().closed(Closure::TotalBusy), 1);
    assert_eq!(admission.evict_for_shortage(), None);
}

#[test]
fn a_connection_without_a_message_is_closed_at_its_deadline() {
    let mut admission = ConnectionAdmission::new(POLICY);
    let silent = admit(&mut admission, 0, 1);
    let later = admit(&mut admission, 1, 1);
    let talking = admit(&mut admission, 2, 1);
    admission.request_began(talking);
    admission.request_ended(at(3), talking);
    assert_eq!(admission.next_deadline(), Some(at(10)));
    assert_eq!(admission.expire(Duration::from_millis(9_999)), None);
    assert_eq!(admission.expire(at(10)), Some(silent));
    assert_eq!(admission.expire(at(10)), None);
    // A clock that goes backwards changes nothing.
    assert_eq!(admission.expire(at(3)), None);
    assert_eq!(admission.expire(at(11)), Some(later));
    assert_eq!((admission.next_deadline(), admission.len()), (None, 1));
    assert_eq!(admission.counters().closed(Closure::Deadline), 2);
}

#[test]
fn a_shortage_closes_idle_connections_one_at_a_time() {
    let mut admission = ConnectionAdmission::new(POLICY);
    let ids: Vec<ConnectionId> = (0..3).map(|second| admit(&mut admission, second, 1)).collect();
    admission.request_began(ids[0]);
    assert_eq!(admission.evict_for_shortage(), Some(ids[1]));
    assert_eq!(admission.evict_for_shortage(), Some(ids[2]));
    assert_eq!(admission.evict_for_shortage(), None);
    let counters = admission.counters();
    assert_eq!((counters.closed(Closure::Shortage), counters.closed(Closure::AcceptFailed)), (2, 3));
}

/// What may happen to a listener; connections are named by their order.
#[derive(Debug, Clone)]
enum Step {
    Admit { user: u32 },
    Begin(usize),
    End(usize),
    Authenticate(usize),
    Close(usize),
    Wait { seconds: u64 },
    Shortage,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u32..5).prop_map(|user| Step::Admit { user }),
        1 => (0_usize..64).prop_map(Step::Begin),
        1 => (0_usize..64).prop_map(Step::End),
        1 => (0_usize..64).prop_map(Step::Authenticate),
        1 => (0_usize..64).prop_map(Step::Close),
        1 => (0_u64..6).prop_map(|seconds| Step::Wait { seconds }),
        1 => Just(Step::Shortage),
    ]
}

/// One connection as the model has it: a plain list, searched whole.
#[derive(Debug, Clone, Copy)]
struct Modelled {
    id: ConnectionId,
    user: u32,
    since: u64,
    deadline: Option<u64>,
    requests: u32,
    authenticated: bool,
}

/// The policy as its documentation states it.
#[derive(Debug, Default)]
struct Model(Vec<Modelled>);

impl Model {
    fn of(&self, user: u32) -> usize {
        self.0.iter().filter(|one| one.user == user && !one.authenticated).count()
    }

    fn oldest(&self, user: Option<u32>) -> Option<ConnectionId> {
        let evictable = |one: &&Modelled| !one.authenticated && one.requests == 0;
        let user = user.or_else(|| {
            // Of several with the most, the one whose connection is idle for longest.
            let rank = |one: &&Modelled| (self.of(one.user), Reverse((one.since, one.id)));
            self.0.iter().filter(evictable).max_by_key(rank).map(|one| one.user)
        })?;
        let own = self.0.iter().filter(evictable).filter(|one| one.user == user);
        own.min_by_key(|one| (one.since, one.id)).map(|one| one.id)
    }

    fn remove(&mut self, id: ConnectionId) {
        self.0.retain(|one| one.id != id);
    }

    /// What the machine must answer.
    fn admit(&mut self, user: u32) -> Result<Option<ConnectionId>, Closure> {
        let evicted = if self.of(user) >= POLICY.source_max {
            Some(self.oldest(Some(user)).ok_or(Closure::SourceBusy)?)
        } else if self.0.len() >= POLICY.connections_max {
            Some(self.oldest(None).ok_or(Closure::TotalBusy)?)
        } else {
            None
        };
        evicted.into_iter().for_each(|id| self.remove(id));
        Ok(evicted)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_agrees_with_the_model(steps in proptest::collection::vec(step(), 0..200)) {
        let mut admission = ConnectionAdmission::new(POLICY);
        let mut model = Model::default();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Admit { user } => {
                    let expected = model.admit(user);
                    let admitted = admission.admit(at(now), Source::User(user));
                    prop_assert_eq!(admitted.map(|admitted| admitted.evicted), expected);
                    if let Ok(Admitted { id, .. }) = admitted {
                        let deadline = Some(now + POLICY.first_message_timeout.as_secs());
                        model.0.push(Modelled { id, user, since: now, deadline, requests: 0, authenticated: false });
                    }
                }
                Step::Begin(index) => if let Some(one) = model.0.get_mut(index) {
                    admission.request_began(one.id);
                    one.deadline = None;
                    one.requests += 1;
                }
                Step::End(index) => if let Some(one) = model.0.get_mut(index) {
                    admission.request_ended(at(now), one.id);
                    if one.deadline.is_none() {
                        one.requests = one.requests.saturating_sub(1);
                        one.since = now;
                    }
                }
                Step::Authenticate(index) => if let Some(one) = model.0.get_mut(index) {
                    admission.authenticated(one.id);
                    one.authenticated = true;
                }
                Step::Close(index) => if let Some(one) = model.0.get(index).copied() {
                    admission.close(one.id);
                    model.remove(one.id);
                }
                Step::Wait { seconds } => {
                    now += seconds;
                    while let Some(id) = admission.expire(at(now)) {
                        let one = model.0.iter().find(|one| one.id == id);
                        prop_assert!(one.is_some_and(|one| one.deadline.is_some_and(|deadline| deadline <= now)));
                        model.remove(id);
                    }
                }
                Step::Shortage => {
                    let expected = model.oldest(None);
                    prop_assert_eq!(admission.evict_for_shortage(), expected);
                    expected.into_iter().for_each(|id| model.remove(id));
                }
            }
            prop_assert_eq!(admission.len(), model.0.len());
            prop_assert!(admission.len() <= POLICY.connections_max);
            prop_assert_eq!(admission.next_deadline(), model.0.iter().filter_map(|one| one.deadline).min().map(at));
        }
    }
}
