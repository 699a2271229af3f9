//! A controller that kills itself at a chosen step: at the n-th change of its database or call of a switch's driver, before or after it is made.
//!
//! These are the steps at which the simulation of the whole system kills controllers too; here the process, the database and the switch are
//! real. The environment variable [`FILE`] names a file. While the file contains a number, every step counts it down, and the controller that
//! counts it down to 0 writes the step's name in its place and kills itself by SIGKILL. Without the variable nothing is wrapped; without the file, or when it
//! contains anything else, nothing happens.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use netfold_controller::driver::{DriverError, Limits, SlotState, SwitchDriver};
use netfold_controller::plane::Plane;
use netfold_controller::record::{Change, RecordReader, Store, StoreError};
use netfold_p4::entry::{Replica, TableEntry};
use netfold_p4::profile::Numerics;
use netfold_wire::JobKeys;
use rustix::process::{Signal, getpid, kill_process};

/// The environment variable that names the file. For tests.
pub const FILE: &str = "NETFOLD_FAILPOINT";

/// Counts the steps of a controller's plane, if the environment asks for it.
pub fn count_steps(plane: Plane) -> Plane {
    match std::env::var_os(FILE).filter(|path| !path.is_empty()) {
        Some(path) => wrap(plane, &Failpoint { path: Arc::new(Mutex::new(path.into())), end: kill_self }),
        None => plane,
    }
}

/// The steps of one process.
#[derive(Clone)]
struct Failpoint {
    /// Locked while it is counted down.
    path: Arc<Mutex<PathBuf>>,
    /// Ends the process.
    end: fn(),
}

impl Failpoint {
    /// Carries a step out, as two of those that are counted: before it is made, and after.
    fn step<T>(&self, name: &str, step: impl FnOnce() -> T) -> T {
        self.count("before", name);
        let made = step();
        self.count("after", name);
        made
    }

    fn count(&self, when: &str, name: &str) {
        let path = self.path.lock().unwrap_or_else(PoisonError::into_inner);
        if count_down(&path, when, name).is_some_and(|left| left == 0) {
            (self.end)();
        }
    }
}

/// What is left of the number in the file; `None` if there is none.
fn count_down(path: &Path, when: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let left = text.trim().parse::<u64>().ok()?.checked_sub(1)?;
    let text = if left == 0 { format!("{when} {name}") } else { left.to_string() };
    replace(path, &text).ok().map(|()| left)
}

/// Replaces a file's content at once: others read the old or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let next = path.with_extension("next");
    std::fs::write(&next, text)?;
    std::fs::rename(&next, path)
}

fn kill_self() {
    // A process may always signal itself; it does not return from this.
    let _ = kill_process(getpid(), Signal::KILL);
}

fn wrap(plane: Plane, failpoint: &Failpoint) -> Plane {
    let (of_store, of_drivers) = (failpoint.clone(), failpoint.clone());
    let start = plane.start;
    Plane {
        store: Box::new(CountedStore { store: plane.store, failpoint: of_store }),
        start: Box::new(move |known, status| {
            let counted = |driver| -> Box<dyn SwitchDriver> {
                Box::new(CountedDriver { driver, failpoint: of_drivers.clone() })
            };
            Ok(start(known, status)?.into_iter().map(counted).collect())
        }),
        ..plane
    }
}

struct CountedStore {
    store: Box<dyn Store>,
    failpoint: Failpoint,
}

impl Store for CountedStore {
    fn reader(&mut self) -> Result<RecordReader, StoreError> {
        self.store.reader()
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.failpoint.step("a change of the database", || self.store.apply(changes))
    }
}

struct CountedDriver {
    driver: Box<dyn SwitchDriver>,
    failpoint: Failpoint,
}

impl SwitchDriver for CountedDriver {
    fn limits(&self) -> Limits {
        self.driver.limits()
    }

    fn numerics(&self) -> Numerics {
        self.driver.numerics()
    }

    fn bind_port(&mut self, port: u16, peer: SocketAddr) -> Result<(), DriverError> {
        self.failpoint.step("binding a port", || self.driver.bind_port(port, peer))
    }

    fn authenticate(&mut self, port: u16, keys: &JobKeys) -> Result<(), DriverError> {
        self.failpoint.step("setting keys", || self.driver.authenticate(port, keys))
    }

    fn unbind_port(&mut self, port: u16) -> Result<(), DriverError> {
        self.failpoint.step("unbinding a port", || self.driver.unbind_port(port))
    }

    fn insert(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.failpoint.step("inserting table entries", || self.driver.insert(entries))
    }

    fn delete(&mut self, entries: &[TableEntry]) -> Result<(), DriverError> {
        self.failpoint.step("deleting table entries", || self.driver.delete(entries))
    }

    fn set_group(&mut self, group: u16, replicas: &[Replica]) -> Result<(), DriverError> {
        self.failpoint.step("setting a multicast group", || self.driver.set_group(group, replicas))
    }

    fn delete_group(&mut self, group: u16) -> Result<(), DriverError> {
        self.failpoint.step("deleting a multicast group", || self.driver.delete_group(group))
    }

    fn advance(&mut self, first_slot: u32, slots: u32, chunk: u32) -> Result<u32, DriverError> {
        self.failpoint.step("advancing slots", || self.driver.advance(first_slot, slots, chunk))
    }

    fn release(&mut self, first_slot: u32, slots: u32, epoch: u32) -> Result<(), DriverError> {
        self.failpoint.step("releasing slots", || self.driver.release(first_slot, slots, epoch))
    }

    fn spilled(&mut self, group: u16) -> Result<u64, DriverError> {
        // No step: nothing changes.
        self.driver.spilled(group)
    }

    fn read_slots(&mut self, first_slot: u32, slots: u32) -> Result<Vec<SlotState>, DriverError> {
        // No step: nothing changes.
        self.driver.read_slots(first_slot, slots)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use netfold_controller::record::MemoryStore;
    use netfold_testkit::directory::TemporaryDirectory;

    use super::*;

    #[test]
    fn the_controller_is_killed_at_the_chosen_step_once() {
        static ENDS: AtomicU32 = AtomicU32::new(0);
        let folder = TemporaryDirectory::new("failpoint");
        let file = folder.file("step");
        let failpoint = Failpoint {
            path: Arc::new(Mutex::new(file.clone().into())),
            end: || {
                ENDS.fetch_add(1, Ordering::Relaxed);
            },
        };
        let mut store = CountedStore { store: Box::new(MemoryStore::default()), failpoint };
        let mut apply = || {
            store.apply(&[Change::EpochNext(7)]).expect("memory does not fail");
            (ENDS.load(Ordering::Relaxed), std::fs::read_to_string(&file).unwrap_or_default())
        };
        assert_eq!(apply(), (0, String::new()), "there is no file");
        folder.write("step", "4\n");
        assert_eq!(apply(), (0, "2".into()), "two steps are made");
        assert_eq!(apply(), (1, "after a change of the database".into()));
        assert_eq!(apply().0, 1, "no step is counted any more");
        folder.write("step", "1");
        assert_eq!(apply(), (2, "before a change of the database".into()));
        for text in ["0", "-1", "x", ""] {
            folder.write("step", text);
            assert_eq!(apply(), (2, text.into()));
        }
    }
}
