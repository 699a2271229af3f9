//! Any history of bids and departures, against a model of the specification's chapter 5.

use std::collections::BTreeMap;

use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::v1::{self, MasterArbitrationUpdate};
use netfold_switch_p4runtime::fuzzing::{CLIENTS_MAX, Control, ROLES_MAX};

use super::{DEVICE, Idle, LANE_WORDS, check};
use crate::input::Input;

const STEPS_MAX: usize = 150;
const CLIENTS: usize = 40;
const ROLES: usize = 20;
/// Bytes of a role's name.
const NAME_MAX: usize = 128;

/// The highest bid ever, and the bids of the clients that are there.
#[derive(Default)]
struct Role {
    highest: Option<u128>,
    bids: BTreeMap<u64, Option<u128>>,
}

impl Role {
    fn primary(&self) -> Option<u64> {
        let mut holders = self.bids.iter().filter(|(_, bid)| bid.is_some() && **bid == self.highest);
        let primary = holders.next().map(|(client, _)| *client);
        assert!(holders.next().is_none(), "two clients have one id");
        primary
    }
}

struct Scene {
    control: Control,
    /// The role without a name is there from the start.
    roles: BTreeMap<String, Role>,
    /// Roles of the clients.
    clients: BTreeMap<u64, String>,
}

pub(super) fn run(input: &mut Input<'_>, switch: &Idle) {
    let roles = BTreeMap::from([(String::new(), Role::default())]);
    let mut scene = Scene { control: switch.control(LANE_WORDS[0]), roles, clients: BTreeMap::new() };
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let client = input.below(CLIENTS) as u64;
        match input.below(4) {
            0 => scene.leave(client),
            1 => scene.admission(input),
            _ => scene.bid(client, input),
        }
        let primaries: Vec<u64> = scene.roles.values().filter_map(Role::primary).collect();
        assert_eq!(scene.control.primaries(), primaries);
        assert!(scene.clients.len() <= CLIENTS_MAX && scene.roles.len() <= ROLES_MAX);
    }
}

fn role_name(input: &mut Input<'_>) -> String {
    match input.below(8) {
        0 => "r".repeat(NAME_MAX - 8 + input.below(16)),
        1..4 => format!("role {}", input.below(ROLES)),
        _ => String::new(),
    }
}

/// Few ids, so that they meet; 0 is one, and differs from none.
fn election_id(input: &mut Input<'_>) -> Option<u128> {
    let id = u128::from(input.byte() & 15) << [0, 0, 60, 120][input.below(4)];
    (input.below(8) > 0).then_some(id)
}

impl Scene {
    /// Whether a bid is to be accepted.
    fn accepts(&self, client: u64, update: &MasterArbitrationUpdate, name: &str, id: Option<u128>) -> bool {
        let known = self.clients.get(&client);
        let plain = update.role.as_ref().is_none_or(|role| role.config.is_none() && role.id == 0);
        let held = self.roles.get(name);
        let taken = |role: &Role| role.bids.iter().any(|(other, bid)| *other != client && *bid == id);
        update.device_id == DEVICE
            && (plain && name.len() <= NAME_MAX)
            && known.is_none_or(|known| known == name)
            && (known.is_some() || self.clients.len() < CLIENTS_MAX)
            && (held.is_some() || self.roles.len() < ROLES_MAX)
            && !(id.is_some() && held.is_some_and(taken))
    }

    fn bid(&mut self, client: u64, input: &mut Input<'_>) {
        let (name, id) = (role_name(input), election_id(input));
        let mut role = v1::Role { name: name.clone(), ..Default::default() };
        match input.below(32) {
            0 => role.id = 1,
            1 => role.config = Some(Default::default()),
            _ => {}
        }
        let named = !name.is_empty() || role != v1::Role::default();
        let device_id = if input.below(32) == 0 { 2 } else { DEVICE };
        let role = named.then_some(role);
        let update = MasterArbitrationUpdate {
            device_id,
            role,
            election_id: id.map(Into::into),
            ..Default::default()
        };
        let before = self.control.arbitration();
        let expected = self.accepts(client, &update, &name, id);
        match self.control.bid(client, &update) {
            Ok(notices) => {
                assert!(expected, "{update:?} of {client}: {before}");
                self.clients.insert(client, name.clone());
                let role = self.roles.entry(name.clone()).or_default();
                let was = (role.primary(), role.highest);
                role.bids.insert(client, id);
                role.highest = role.highest.max(id);
                let changed = was != (role.primary(), role.highest);
                let all: Vec<u64> = role.bids.keys().copied().collect();
                self.notified(&name, &notices, if changed { all } else { vec![client] });
            }
            Err(refused) => {
                check(&refused);
                assert!(!expected, "{refused:?}: {update:?} of {client}: {before}");
                assert_eq!(self.control.arbitration(), before, "a refused bid changes nothing");
                // The server ends the stream of a client whose bid it refuses.
                self.leave(client);
            }
        }
    }

    fn leave(&mut self, client: u64) {
        let notices = self.control.leave(client);
        let Some(name) = self.clients.remove(&client) else {
            return assert!(notices.is_empty());
        };
        let role = self.roles.get_mut(&name).expect("its role");
        let was_primary = role.primary() == Some(client);
        role.bids.remove(&client);
        let left = if was_primary { role.bids.keys().copied().collect() } else { Vec::new() };
        self.notified(&name, &notices, left);
    }

    /// Exactly these clients are told of the highest id, and who is primary.
    fn notified(&self, name: &str, notices: &[(u64, MasterArbitrationUpdate)], expected: Vec<u64>) {
        let role = &self.roles[name];
        assert_eq!(notices.iter().map(|(client, _)| *client).collect::<Vec<_>>(), expected);
        for (client, update) in notices {
            assert_eq!(update.election_id.map(u128::from), role.highest);
            assert_eq!(update.role.as_ref().map_or("", |role| &role.name), name);
            let code = match role.primary() {
                Some(primary) if primary == *client => Code::Ok,
                Some(_) => Code::AlreadyExists,
                None => Code::NotFound,
            };
            assert_eq!(update.status.as_ref().map(|status| status.code), Some(code as i32));
        }
    }

    /// A write is admitted by the id of the primary alone; there is no pipeline to write to.
    fn admission(&mut self, input: &mut Input<'_>) {
        let (role, id) = (role_name(input), election_id(input));
        let held = self.roles.get(&role);
        let expected = match held {
            None => Code::NotFound,
            Some(held) if id.is_some() && held.highest == id && held.primary().is_some() => {
                Code::FailedPrecondition
            }
            Some(_) => Code::PermissionDenied,
        };
        let request = v1::WriteRequest {
            device_id: DEVICE,
            role,
            election_id: id.map(Into::into),
            ..Default::default()
        };
        assert_eq!(self.control.write(request).map_err(|(code, _)| code), Err(expected));
    }
}
