//! A disk that loses power, for databases that promise to survive it.
//!
//! What was written since the last sync may be on the disk or not when power is lost, each sector of [`SECTOR`] bytes by itself: writes are torn, and
//! later ones may survive earlier ones. What a sync has returned for is there. A full disk refuses every write.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

/// What a disk writes whole or not at all, in bytes.
pub const SECTOR: usize = 512;

/// A change of the file that no sync has covered.
#[derive(Debug, Clone)]
enum Unsynced {
    Length(usize),
    Bytes(usize, Vec<u8>),
}

#[derive(Debug, Default)]
struct Inner {
    /// What survives a loss of power.
    durable: Vec<u8>,
    /// What reads return.
    current: Vec<u8>,
    unsynced: Vec<Unsynced>,
    full: bool,
    /// Power is lost at the sync after so many others.
    fails_after: Option<u32>,
    off: bool,
}

/// A disk with one file. Clones are handles of the same one.
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<Inner>>);

fn write(to: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if to.len() < at + bytes.len() {
        to.resize(at + bytes.len(), 0);
    }
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A bit that depends on nothing but its arguments: not on the order of writes, which databases may choose at random.
fn coin(seed: u64, sector: usize, times: usize) -> bool {
    let mut mixed = seed ^ (sector as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (times as u64) << 56;
    for _ in 0..3 {
        mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    mixed >> 63 == 1
}

impl Inner {
    fn check(&self) -> io::Result<()> {
        if self.off { Err(io::Error::other("the disk has no power")) } else { Ok(()) }
    }

    fn check_room(&self) -> io::Result<()> {
        self.check()?;
        if self.full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Unsynced::Length(len) => self.durable.resize(len, 0),
                Unsynced::Bytes(at, bytes) => write(&mut self.durable, at, &bytes),
            }
        }
    }

    /// Keeps some of what was not synced.
    fn tear(&mut self, seed: u64) {
        let mut written = BTreeMap::<usize, usize>::new();
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Unsynced::Length(len) if coin(seed, usize::MAX, 0) => self.durable.resize(len, 0),
                Unsynced::Length(_) => {}
                Unsynced::Bytes(at, bytes) => {
                    let mut from = 0;
                    while from < bytes.len() {
                        let sector = (at + from) / SECTOR;
                        let to = ((sector + 1) * SECTOR - at).min(bytes.len());
                        let times = written.entry(sector).or_default();
                        *times += 1;
                        if coin(seed, sector, *times) {
                            write(&mut self.durable, at + from, &bytes[from..to]);
                        }
                        from = to;
                    }
                }
            }
        }
    }
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it refuses writes.
    pub fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// Has power lost during a sync, after `syncs` others.
    pub fn lose_power_after(&self, syncs: u32) {
        self.lock().fails_after = Some(syncs);
    }

    /// Whether it has lost power.
    pub fn is_off(&self) -> bool {
        self.lock().off
    }

    /// Loses power, if it has not, and comes back. `seed` decides what is left of what was written since the last sync.
    pub fn restart(&self, seed: u64) {
        let mut inner = self.lock();
        inner.tear(seed);
        inner.current = inner.durable.clone();
        (inner.off, inner.fails_after) = (false, None);
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let inner = self.lock();
        inner.check()?;
        Ok(inner.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.lock();
        inner.check()?;
        let from = offset as usize;
        let bytes = inner.current.get(from..from + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.lock();
        inner.check_room()?;
        inner.current.resize(len as usize, 0);
        inner.unsynced.push(Unsynced::Length(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.lock();
        inner.check()?;
        match &mut inner.fails_after {
            Some(0) => inner.off = true,
            Some(syncs) => *syncs -= 1,
            None => {}
        }
        inner.check()?;
        inner.sync();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.lock();
        inner.check_room()?;
        write(&mut inner.current, offset as usize, data);
        inner.unsynced.push(Unsynced::Bytes(offset as usize, data.to_vec()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_synced_is_torn_and_the_rest_is_there() {
        let disk = Disk::default();
        disk.write(0, &[1; 8 * SECTOR]).unwrap();
        disk.sync_data().unwrap();
        disk.write(0, &[2; 8 * SECTOR]).unwrap();
        disk.lose_power_after(0);
        assert!(disk.sync_data().is_err() && disk.is_off());
        assert!(disk.len().is_err() && disk.write(0, &[3]).is_err());
        disk.restart(7);
        let mut left = [0; 8 * SECTOR];
        disk.read(0, &mut left).unwrap();
        let sectors: Vec<u8> = left.chunks(SECTOR).map(|sector| sector[0]).collect();
        assert!(left.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        assert!(sectors.contains(&1) && sectors.contains(&2), "{sectors:?}");
    }

    #[test]
    fn a_full_disk_is_read_and_not_written() {
        let disk = Disk::default();
        disk.write(0, &[1; SECTOR]).unwrap();
        disk.set_full(true);
        assert_eq!(disk.write(0, &[2]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(disk.set_len(9).is_err() && disk.sync_data().is_ok());
        let mut byte = [0];
        disk.read(0, &mut byte).unwrap();
        assert_eq!(byte, [1]);
        disk.set_full(false);
        disk.write(0, &[2]).unwrap();
    }
}
