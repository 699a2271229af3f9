//! Arbitration between controllers by election ids and roles (specification 1.4.1, chapter 5), as a state machine without I/O.

use std::collections::BTreeMap;

use netfold_p4_runtime::google::{Code, Status};
use netfold_p4_runtime::v1::{MasterArbitrationUpdate, Role as RoleMessage};

use crate::fault::Fault;

/// Roles that are remembered; the default role, without a name, is one of them.
pub const ROLES_MAX: usize = 16;

/// Longest name of a role, in bytes.
const ROLE_NAME_MAX: usize = 128;

/// Clients that take part at the same time.
pub const CLIENTS_MAX: usize = 32;

/// A notification for a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Notice {
    pub(crate) client: u64,
    pub(crate) update: MasterArbitrationUpdate,
}

/// The controllers of one role.
#[derive(Debug, Default)]
struct Role {
    /// The highest id that was ever bid, also by clients that have left.
    highest: Option<u128>,
    /// Clients, by number, and their bids.
    clients: BTreeMap<u64, Option<u128>>,
}

impl Role {
    /// The client whose bid is the highest ever.
    fn primary(&self) -> Option<u64> {
        let highest = self.highest?;
        self.clients.iter().find(|(_, bid)| **bid == Some(highest)).map(|(client, _)| *client)
    }
}

/// All roles of one device.
#[derive(Debug)]
pub(crate) struct Arbiter {
    device_id: u64,
    roles: BTreeMap<String, Role>,
    /// Role of each client.
    clients: BTreeMap<u64, String>,
}

impl Arbiter {
    pub(crate) fn new(device_id: u64) -> Self {
        // The role without a name exists from the start.
        let roles = BTreeMap::from([(String::new(), Role::default())]);
        Self { device_id, roles, clients: BTreeMap::new() }
    }

    /// A client's first or later bid. Returns the notifications to send.
    ///
    /// # Errors
    ///
    /// The error ends the client's stream; call [`Self::leave`] then.
    pub(crate) fn bid(
        &mut self,
        client: u64,
        update: &MasterArbitrationUpdate,
    ) -> Result<Vec<Notice>, Fault> {
        let role = role_of(update)?;
        let bid = update.election_id.map(u128::from);
        self.check(client, update.device_id, &role, bid)?;
        self.clients.insert(client, role.clone());
        let held = self.roles.entry(role.clone()).or_default();
        let before = (held.primary(), held.highest);
        held.clients.insert(client, bid);
        held.highest = held.highest.max(bid);
        let changed = before != (held.primary(), held.highest);
        let notified: Vec<u64> = if changed { held.clients.keys().copied().collect() } else { vec![client] };
        Ok(notified.into_iter().map(|to| self.notice(&role, to)).collect())
    }

    fn check(&self, client: u64, device_id: u64, role: &str, bid: Option<u128>) -> Result<(), Fault> {
        let known = self.clients.get(&client);
        if device_id != self.device_id {
            let text = format!("there is no device {device_id} here; this one is {}", self.device_id);
            let code = if known.is_some() { Code::FailedPrecondition } else { Code::NotFound };
            return Err(Fault::new(code, text));
        }
        if known.is_some_and(|known| known != role) {
            return Err(Fault::new(Code::FailedPrecondition, "a stream cannot change its role"));
        }
        if known.is_none() && self.clients.len() >= CLIENTS_MAX {
            return Err(Fault::new(Code::ResourceExhausted, format!("{CLIENTS_MAX} clients are connected")));
        }
        let held = self.roles.get(role);
        if held.is_none() && self.roles.len() >= ROLES_MAX {
            return Err(Fault::new(Code::ResourceExhausted, format!("{ROLES_MAX} roles are in use")));
        }
        let taken = |(other, theirs): (&u64, &Option<u128>)| *other != client && *theirs == bid;
        if bid.is_some() && held.is_some_and(|held| held.clients.iter().any(taken)) {
            return Err(Fault::invalid("Election id already exists"));
        }
        Ok(())
    }

    /// Removes a client. Returns the notifications to send: to all clients, if it was the primary.
    pub(crate) fn leave(&mut self, client: u64) -> Vec<Notice> {
        let Some(role) = self.clients.remove(&client) else { return Vec::new() };
        let Some(held) = self.roles.get_mut(&role) else { return Vec::new() };
        let was_primary = held.primary() == Some(client);
        held.clients.remove(&client);
        if !was_primary {
            return Vec::new();
        }
        let notified: Vec<u64> = held.clients.keys().copied().collect();
        notified.into_iter().map(|to| self.notice(&role, to)).collect()
    }

    /// Checks that a request with this role and id comes from the primary.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND` for a role that no client has had, `PERMISSION_DENIED` for clients other than the primary.
    pub(crate) fn authorize(&self, role: &str, bid: Option<u128>) -> Result<(), Fault> {
        let held = self.roles.get(role);
        let held = held.ok_or_else(|| Fault::not_found(format!("no client has had the role '{role}'")))?;
        if bid.is_some() && held.highest == bid && held.primary().is_some() {
            return Ok(());
        }
        Err(Fault::new(
            Code::PermissionDenied,
            "Not primary: only the stream with the highest election id is",
        ))
    }

    /// Whether a client is the primary of its role.
    pub(crate) fn is_primary(&self, client: u64) -> bool {
        let role = self.clients.get(&client).and_then(|role| self.roles.get(role));
        role.is_some_and(|role| role.primary() == Some(client))
    }

    /// The primaries, at most one per role.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = u64> + '_ {
        self.roles.values().filter_map(Role::primary)
    }

    fn notice(&self, name: &str, client: u64) -> Notice {
        let role = self.roles.get(name);
        let (code, message) = match role.and_then(Role::primary) {
            Some(primary) if primary == client => (Code::Ok, "you are the primary"),
            Some(_) => (Code::AlreadyExists, "another client is the primary"),
            None => (Code::NotFound, "there is no primary"),
        };
        let update = MasterArbitrationUpdate {
            device_id: self.device_id,
            role: (!name.is_empty()).then(|| RoleMessage { name: name.to_owned(), ..RoleMessage::default() }),
            election_id: role.and_then(|role| role.highest).map(Into::into),
            status: Some(Status { code: code as i32, message: message.to_owned(), details: Vec::new() }),
        };
        Notice { client, update }
    }
}

/// The name of the role that a bid is for.
fn role_of(update: &MasterArbitrationUpdate) -> Result<String, Fault> {
    let Some(role) = &update.role else { return Ok(String::new()) };
    if role.config.is_some() {
        return Err(Fault::invalid("role.config is not supported: every role covers the whole pipeline"));
    }
    if role.id != 0 {
        return Err(Fault::invalid("numeric roles are not supported: give the role a name"));
    }
    if role.name.len() > ROLE_NAME_MAX {
        return Err(Fault::invalid(format!("a role's name has at most {ROLE_NAME_MAX} bytes")));
    }
    Ok(role.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bid(id: u128) -> MasterArbitrationUpdate {
        MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(id.into()),
            ..MasterArbitrationUpdate::default()
        }
    }

    /// Notifications as client, code, highest id.
    fn summary(notices: &[Notice]) -> Vec<(u64, i32, Option<u128>)> {
        let of = |notice: &Notice| {
            let update = &notice.update;
            (notice.client, update.status.as_ref().unwrap().code, update.election_id.map(u128::from))
        };
        notices.iter().map(of).collect()
    }

    const OK: i32 = Code::Ok as i32;
    const BACKUP: i32 = Code::AlreadyExists as i32;
    const VACANT: i32 = Code::NotFound as i32;

    #[test]
    fn the_highest_id_is_primary_until_a_higher_one_arrives() {
        let mut arbiter = Arbiter::new(1);
        assert_eq!(summary(&arbiter.bid(1, &bid(10)).unwrap()), [(1, OK, Some(10))]);
        assert_eq!(summary(&arbiter.bid(2, &bid(9)).unwrap()), [(2, BACKUP, Some(10))]);
        assert!(arbiter.authorize("", Some(10)).is_ok());
        assert_eq!(arbiter.authorize("", Some(9)).unwrap_err().code, Code::PermissionDenied);
        assert_eq!(arbiter.authorize("", None).unwrap_err().code, Code::PermissionDenied);
        let high = 1 << 100;
        assert_eq!(
            summary(&arbiter.bid(2, &bid(high)).unwrap()),
            [(1, BACKUP, Some(high)), (2, OK, Some(high))]
        );
        assert!(arbiter.authorize("", Some(10)).is_err() && arbiter.is_primary(2));
        // A repeated bid is answered and changes nothing.
        assert_eq!(summary(&arbiter.bid(2, &bid(high)).unwrap()), [(2, OK, Some(high))]);
    }

    #[test]
    fn no_lower_id_succeeds_a_primary_that_left() {
        let mut arbiter = Arbiter::new(1);
        arbiter.bid(1, &bid(10)).unwrap();
        arbiter.bid(2, &bid(9)).unwrap();
        assert_eq!(summary(&arbiter.leave(1)), [(2, VACANT, Some(10))]);
        assert!(
            arbiter.authorize("", Some(10)).is_err(),
            "its requests are refused after its stream has ended"
        );
        assert_eq!(summary(&arbiter.bid(2, &bid(9)).unwrap()), [(2, VACANT, Some(10))]);
        assert_eq!(summary(&arbiter.bid(2, &bid(10)).unwrap()), [(2, OK, Some(10))]);
        assert!(arbiter.leave(7).is_empty());
    }

    #[test]
    fn a_primary_may_step_down() {
        let mut arbiter = Arbiter::new(1);
        arbiter.bid(1, &bid(10)).unwrap();
        arbiter.bid(2, &bid(5)).unwrap();
        assert_eq!(
            summary(&arbiter.bid(1, &bid(4)).unwrap()),
            [(1, VACANT, Some(10)), (2, VACANT, Some(10))]
        );
        let mut none = bid(0);
        none.election_id = None;
        assert_eq!(summary(&arbiter.bid(1, &none).unwrap()), [(1, VACANT, Some(10))]);
    }

    #[test]
    fn ids_are_unique_per_role_and_roles_are_independent() {
        let mut arbiter = Arbiter::new(1);
        arbiter.bid(1, &bid(0)).unwrap();
        assert!(arbiter.is_primary(1), "an id of 0 is valid");
        let refused = arbiter.bid(2, &bid(0)).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::InvalidArgument, "Election id already exists")
        );
        let mut other = bid(0);
        other.role = Some(RoleMessage { name: "reader".into(), ..RoleMessage::default() });
        assert_eq!(summary(&arbiter.bid(2, &other).unwrap()), [(2, OK, Some(0))]);
        assert_eq!(arbiter.authorize("writer", Some(0)).unwrap_err().code, Code::NotFound);
        assert!(arbiter.authorize("reader", Some(0)).is_ok());
        assert_eq!(arbiter.bid(2, &bid(0)).unwrap_err().code, Code::FailedPrecondition);
    }

    #[test]
    fn invalid_bids_are_refused() {
        let mut arbiter = Arbiter::new(1);
        let mut wrong = bid(1);
        wrong.device_id = 2;
        assert_eq!(arbiter.bid(1, &wrong).unwrap_err().code, Code::NotFound);
        let mut wrong = bid(1);
        wrong.role = Some(RoleMessage { config: Some(Default::default()), ..RoleMessage::default() });
        assert_eq!(arbiter.bid(1, &wrong).unwrap_err().code, Code::InvalidArgument);
        for client in 0..CLIENTS_MAX as u64 {
            arbiter.bid(client, &bid(client.into())).unwrap();
        }
        assert_eq!(arbiter.bid(99, &bid(99)).unwrap_err().code, Code::ResourceExhausted);
    }

    #[test]
    fn roles_are_bounded() {
        let mut arbiter = Arbiter::new(1);
        for client in 0..ROLES_MAX as u64 {
            let mut update = bid(1);
            update.role = Some(RoleMessage { name: format!("r{client}"), ..RoleMessage::default() });
            let last = client as usize == ROLES_MAX - 1;
            assert_eq!(arbiter.bid(1, &update).is_err(), last, "the role without a name counts");
            arbiter.leave(1);
        }
    }
}
