//! The life cycle of a group: creation, joining, waiting for each other, failing together.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::shared::error::SharedError;
use crate::shared::handle::{SharedHandle, is_ours};
use crate::shared::layout::{Layout, MAGIC, VERSION, WORLD_MAX};
use crate::shared::mapping::Mapping;
use crate::shared::plan::Scratch;
use crate::shared::state::{GroupFailure, GroupState};
use crate::shared::{sys, wake};

/// How to make a group.
#[derive(Debug, Clone)]
pub struct SharedConfig {
    world: u16,
    directory: PathBuf,
    segment_bytes: usize,
    join_timeout: Duration,
    stall_timeout: Duration,
}

impl SharedConfig {
    /// For `world` ranks of one host, in `/dev/shm`, with the defaults of the setters below.
    pub fn new(world: u16) -> Self {
        Self {
            world,
            directory: PathBuf::from("/dev/shm"),
            segment_bytes: 256 << 10,
            join_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(300),
        }
    }

    /// Where the file has a name until all have joined: a tmpfs that all ranks see.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Length of the segments in which tensors are processed, in bytes (default 256 KiB); rounded, bounded, and less when there
    /// are many ranks.
    pub fn segment_bytes(mut self, segment_bytes: usize) -> Self {
        self.segment_bytes = segment_bytes;
        self
    }

    /// How long the first collective of this rank waits for the others to join (default 60 s).
    pub fn join_timeout(mut self, timeout: Duration) -> Self {
        self.join_timeout = timeout;
        self
    }

    /// How long a rank waits for one whose process runs but makes no progress (default 300 s). A rank that ends is detected at once.
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall_timeout = timeout;
        self
    }
}

/// One rank's membership of a group of ranks of one host. Every collective is called by all ranks, in the same order, and blocks
/// until this rank's part is done.
#[derive(Debug)]
pub struct SharedGroup {
    pub(crate) state: Arc<GroupState>,
    pub(crate) layout: Layout,
    pub(crate) rank: u16,
    file: File,
    path: PathBuf,
    /// The number of steps that this rank has published. Equal on all ranks between operations.
    pub(crate) step: u32,
    /// Operations begun; their parity chooses descriptors and small inputs.
    pub(crate) operations: u32,
    /// The step that all ranks must have reached before slots are written again.
    pub(crate) slots_free_at: u32,
    pub(crate) in_call: bool,
    pub(crate) scratch: Scratch,
    /// Memory of segments that came back from the network.
    pub(crate) spare: Vec<Vec<u8>>,
    all_joined: bool,
    processes: Vec<Option<OwnedFd>>,
    join_timeout: Duration,
    stall_timeout: Duration,
    yield_timeout: Duration,
    spins: u32,
}

/// Aborts a group's calls from any thread.
#[derive(Debug, Clone)]
pub struct SharedAborter {
    state: Arc<GroupState>,
    rank: u16,
}

impl SharedAborter {
    /// The collective that is running on this rank, if any, and all later ones return [`SharedError::Aborted`], at once; the
    /// other ranks see this one lost. In a child of fork this does nothing.
    pub fn abort(&self) {
        if self.state.mapping.is_own_process() {
            self.state.aborted.store(true, Ordering::SeqCst);
            self.state.fail(GroupFailure::Lost(self.rank), &[]);
        }
    }
}

impl SharedGroup {
    /// Makes a group and takes its rank 0, the leader. The handle goes to the other ranks; see [`SharedGroup::join`]. Does not
    /// wait for them: the first collective does.
    ///
    /// The file has a name only until all have joined, or this rank's join timeout. All memory is allocated here.
    ///
    /// # Errors
    ///
    /// [`SharedError::World`]; [`SharedError::Unavailable`] when there is no such directory, no room, or no support for unnamed
    /// files and locks on open file descriptions (both are Linux's).
    pub fn create(config: SharedConfig) -> Result<(Self, SharedHandle), SharedError> {
        if config.world == 0 || config.world > WORLD_MAX {
            return Err(SharedError::World { world: config.world });
        }
        let layout = Layout::new(config.world, config.segment_bytes);
        let unavailable = |source| SharedError::Unavailable {
            directory: config.directory.clone(),
            len_bytes: layout.len(),
            source,
        };
        sweep(&config.directory);
        let token = sys::token().map_err(unavailable)?;
        let handle = SharedHandle { layout, token, path: SharedHandle::path_in(&config.directory, &token) };
        let (file, mapping) = new_segment(&handle, &config.directory).map_err(unavailable)?;
        let mut shared = Self::new(handle.layout, 0, file, mapping, handle.path.clone());
        shared.join_timeout = config.join_timeout;
        shared.stall_timeout = config.stall_timeout;
        shared.register();
        Ok((shared, handle))
    }

    /// Takes `local_rank` (not 0) of the group that `handle` names.
    ///
    /// The file must be a regular one that only this user may open, of the right length, and begin with the header
    /// that the handle describes.
    ///
    /// # Errors
    ///
    /// [`SharedError::Rank`]; [`SharedError::Open`] when there is no such file here; [`SharedError::WrongSegment`] when it is not the
    /// segment that rank 0 made; [`SharedError::AlreadyJoined`].
    pub fn join(handle: &SharedHandle, local_rank: u16) -> Result<Self, SharedError> {
        let layout = handle.layout;
        if local_rank == 0 || local_rank >= layout.world {
            return Err(SharedError::Rank { local_rank, world: layout.world });
        }
        let open = |source| SharedError::Open { path: handle.path.clone(), source };
        let foreign = |what| SharedError::WrongSegment { path: handle.path.clone(), what };
        let file = open_existing(&handle.path).map_err(open)?;
        let metadata = file.metadata().map_err(open)?;
        if !metadata.is_file() || metadata.uid() != sys::user() || metadata.mode() & 0o077 != 0 {
            return Err(foreign("not a private file of this user"));
        }
        if metadata.len() != layout.len() as u64 {
            return Err(foreign("wrong length"));
        }
        let mapping = Mapping::new(&file, layout.len()).map_err(open)?;
        if !header_agrees(&mapping, handle) {
            return Err(foreign("wrong header"));
        }
        if !sys::lock_byte(&file, Layout::lock(local_rank)).map_err(open)? {
            return Err(SharedError::AlreadyJoined { local_rank });
        }
        if mapping.word(Layout::joined(local_rank)).load(Ordering::Acquire) != 0 {
            return Err(SharedError::AlreadyJoined { local_rank });
        }
        let mut shared = Self::new(layout, local_rank, file, mapping, handle.path.clone());
        shared.register();
        Ok(shared)
    }

    fn new(layout: Layout, rank: u16, file: File, mapping: Mapping, path: PathBuf) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // Spinning helps only if the awaited rank runs meanwhile.
        let spins = if usize::from(layout.world) <= cores { SPINS } else { 0 };
        Self {
            state: Arc::new(GroupState::new(mapping, layout)),
            layout,
            rank,
            file,
            path,
            step: 0,
            operations: 0,
            slots_free_at: 0,
            in_call: false,
            scratch: Scratch::default(),
            spare: Vec::new(),
            all_joined: false,
            processes: Vec::new(),
            join_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(300),
            yield_timeout: YIELD_TIMEOUT,
            spins,
        }
    }

    /// Publishes the identity of this process, then that it has joined.
    fn register(&mut self) {
        let mapping = &self.state.mapping;
        mapping.word(Layout::process(self.rank)).store(std::process::id(), Ordering::Relaxed);
        mapping.long(Layout::namespace(self.rank)).store(namespace(), Ordering::Relaxed);
        mapping.word(Layout::joined(self.rank)).store(1, Ordering::SeqCst);
        sys::futex_wake(mapping.word(Layout::joined(self.rank)));
        if self.first_absent().is_none() {
            self.unlink();
        }
    }

    /// This rank.
    pub fn local_rank(&self) -> u16 {
        self.rank
    }

    /// Number of ranks.
    pub fn world(&self) -> u16 {
        self.layout.world
    }

    /// Bytes of shared memory that the group takes.
    pub fn len_bytes(&self) -> usize {
        self.layout.len()
    }

    /// As [`SharedConfig::join_timeout`], for this rank.
    pub fn set_join_timeout(&mut self, timeout: Duration) {
        self.join_timeout = timeout;
    }

    /// As [`SharedConfig::stall_timeout`], for this rank.
    pub fn set_stall_timeout(&mut self, timeout: Duration) {
        self.stall_timeout = timeout;
    }

    /// Aborts this rank's calls from another thread.
    pub fn aborter(&self) -> SharedAborter {
        SharedAborter { state: Arc::clone(&self.state), rank: self.rank }
    }

    /// Waits until all ranks have joined. The first collective does this by itself.
    ///
    /// # Errors
    ///
    /// [`SharedError::NotJoined`] after the join timeout, and then for good; any other failure of the group.
    pub fn wait_joined(&mut self) -> Result<(), SharedError> {
        if self.all_joined {
            return Ok(());
        }
        let start = Instant::now();
        while let Some(absent) = self.first_absent() {
            self.state.check(self.rank)?;
            if start.elapsed() >= self.join_timeout {
                self.unlink();
                self.state.fail(GroupFailure::Lost(absent), &[]);
                return Err(SharedError::NotJoined { local_rank: absent, waited: self.join_timeout });
            }
            sys::futex_wait(self.state.mapping.word(Layout::joined(absent)), 0, CHECK_INTERVAL);
        }
        self.unlink();
        self.processes = (0..self.layout.world).map(|peer| self.process_of(peer)).collect();
        self.all_joined = true;
        Ok(())
    }

    fn first_absent(&self) -> Option<u16> {
        let joined = |rank: &u16| self.state.mapping.word(Layout::joined(*rank)).load(Ordering::Acquire) == 1;
        (0..self.layout.world).find(|rank| !joined(rank))
    }

    /// Takes the name from the file; idempotent, as names are never used twice.
    fn unlink(&self) {
        // A missing file is fine, and other errors cannot be reported to anyone.
        let _ = fs::remove_file(&self.path);
    }

    /// The descriptor of a peer's process, if it is another process in this namespace.
    fn process_of(&self, peer: u16) -> Option<OwnedFd> {
        let mapping = &self.state.mapping;
        let pid = mapping.word(Layout::process(peer)).load(Ordering::Relaxed);
        let here = mapping.long(Layout::namespace(peer)).load(Ordering::Relaxed) == namespace();
        if here && pid != std::process::id() { sys::process(pid) } else { None }
    }

    /// Whether a peer's process has ended or left the group.
    ///
    /// The kernel drops the lock when the last copy of the descriptor is closed. Children of fork have copies, so the
    /// process itself is checked, too, where it is visible.
    fn is_lost(&self, peer: u16) -> bool {
        let ended =
            self.processes.get(usize::from(peer)).and_then(Option::as_ref).is_some_and(sys::has_ended);
        ended || !sys::is_locked(&self.file, Layout::lock(peer), 1).unwrap_or(true)
    }

    /// Publishes that this rank has done one more step.
    pub(crate) fn publish(&mut self) {
        self.step = self.step.wrapping_add(1);
        let mapping = &self.state.mapping;
        let (step, sleepers) = (Layout::step(self.rank), Layout::sleepers(self.rank));
        wake::publish(mapping.word(step), mapping.word(sleepers), self.step);
    }

    /// Waits until all ranks have done `target` steps. Everything that they wrote before is then visible here.
    pub(crate) fn wait_all(&mut self, target: u32) -> Result<(), SharedError> {
        let world = u32::from(self.layout.world);
        for offset in 1..world {
            let peer = ((u32::from(self.rank) + offset) % world) as u16;
            let seen = self.state.mapping.word(Layout::step(peer)).load(Ordering::Acquire);
            if !self.has_reached(peer, seen, target)? {
                self.wait_for(peer, target)?;
            }
        }
        Ok(())
    }

    /// Whether `seen`, which `peer` published, is `target` or later.
    fn has_reached(&self, peer: u16, seen: u32, target: u32) -> Result<bool, SharedError> {
        // Ranks are never further apart than one operation's pipeline and the arrival at the next.
        if seen.wrapping_sub(self.step).cast_signed().unsigned_abs() > STEPS_APART_MAX {
            self.state.fail(GroupFailure::Corrupt(peer), &[]);
            self.state.check(self.rank)?;
        }
        Ok(seen.wrapping_sub(target).cast_signed() >= 0)
    }

    /// Whether `peer` has done `target` steps, or why no rank waits for it any more. What a peer did before the group failed counts:
    /// of two ranks that make different calls, the one that detects it first may have left when the other checks.
    fn reached_or_failed(&self, peer: u16, target: u32) -> Result<bool, SharedError> {
        let fine = self.state.check(self.rank);
        // Read after the failure word, which is written after a rank's last step.
        let seen = self.state.mapping.word(Layout::step(peer)).load(Ordering::Acquire);
        if self.has_reached(peer, seen, target)? { Ok(true) } else { fine.map(|()| false) }
    }

    /// Spins, then yields, then sleeps.
    fn wait_for(&self, peer: u16, target: u32) -> Result<(), SharedError> {
        let word = self.state.mapping.word(Layout::step(peer));
        for _ in 0..self.spins {
            if self.has_reached(peer, word.load(Ordering::Acquire), target)? {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let start = Instant::now();
        loop {
            if self.reached_or_failed(peer, target)? {
                return Ok(());
            }
            for _ in 0..4 {
                std::thread::yield_now();
                if self.has_reached(peer, word.load(Ordering::Acquire), target)? {
                    return Ok(());
                }
            }
            if start.elapsed() >= self.yield_timeout {
                return self.sleep_for(peer, target);
            }
        }
    }

    fn sleep_for(&self, peer: u16, target: u32) -> Result<(), SharedError> {
        let word = self.state.mapping.word(Layout::step(peer));
        let mut last_progress = (Instant::now(), word.load(Ordering::Acquire));
        loop {
            if self.reached_or_failed(peer, target)? {
                return Ok(());
            }
            let seen = self.state.sleep(
                peer,
                |seen| !self.has_reached(peer, seen, target).unwrap_or(true),
                CHECK_INTERVAL,
            );
            if self.has_reached(peer, seen, target)? {
                return Ok(());
            }
            if self.is_lost(peer) {
                // A step that it published between the check and its end counts.
                if self.has_reached(peer, word.load(Ordering::Acquire), target)? {
                    return Ok(());
                }
                self.state.fail(GroupFailure::Lost(peer), &[]);
            }
            if seen != last_progress.1 {
                last_progress = (Instant::now(), seen);
            } else if last_progress.0.elapsed() >= self.stall_timeout {
                self.state.fail(GroupFailure::Stalled(peer), &[]);
            }
        }
    }
}

impl Drop for SharedGroup {
    fn drop(&mut self) {
        if !self.state.mapping.is_own_process() {
            return;
        }
        if self.rank == 0 && !self.all_joined {
            self.unlink();
        }
        sys::unlock_byte(&self.file, Layout::lock(self.rank));
        sys::futex_wake(self.state.mapping.word(Layout::step(self.rank)));
    }
}

/// How long a waiting rank sleeps before it checks whether the awaited process still runs.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Checks of a peer's step before yielding, if there are processors enough: some microseconds, because the scheduler may have
/// put both on one.
const SPINS: u32 = 150;

/// How long a waiting rank keeps yielding before it sleeps: some context switches. Longer is no faster, and since Linux 6.18 a
/// yield forfeits the rest of the time slice, so that another runnable thread gets the processor for milliseconds.
const YIELD_TIMEOUT: Duration = Duration::from_micros(50);

/// Distance in steps between ranks that only a corrupted segment can show.
const STEPS_APART_MAX: u32 = 1 << 24;

/// The id of this process's PID namespace; 0 when it is unknown.
fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino())
}

/// An unnamed file of full length with its header, locked for rank 0 before it is visible, then named.
fn new_segment(handle: &SharedHandle, directory: &Path) -> io::Result<(File, Mapping)> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC)
        .open(directory)?;
    sys::allocate(&file, handle.layout.len())?;
    let mapping = Mapping::new(&file, handle.layout.len())?;
    mapping.long(Layout::MAGIC_AT).store(MAGIC, Ordering::Relaxed);
    mapping.word(Layout::VERSION_AT).store(VERSION, Ordering::Relaxed);
    mapping.word(Layout::WORLD_AT).store(u32::from(handle.layout.world), Ordering::Relaxed);
    mapping.word(Layout::SEGMENT_BYTES_AT).store(handle.layout.segment_bytes as u32, Ordering::Relaxed);
    for (at, word) in token_words(&handle.token) {
        mapping.long(at).store(word, Ordering::Relaxed);
    }
    if !sys::lock_byte(&file, Layout::lock(0))? {
        return Err(io::Error::from(io::ErrorKind::ResourceBusy));
    }
    sys::link(&file, &handle.path)?;
    Ok((file, mapping))
}

fn header_agrees(mapping: &Mapping, handle: &SharedHandle) -> bool {
    mapping.long(Layout::MAGIC_AT).load(Ordering::Relaxed) == MAGIC
        && mapping.word(Layout::VERSION_AT).load(Ordering::Relaxed) == VERSION
        && mapping.word(Layout::WORLD_AT).load(Ordering::Relaxed) == u32::from(handle.layout.world)
        && mapping.word(Layout::SEGMENT_BYTES_AT).load(Ordering::Relaxed)
            == handle.layout.segment_bytes as u32
        && token_words(&handle.token)
            .iter()
            .all(|(at, word)| mapping.long(*at).load(Ordering::Relaxed) == *word)
}

fn token_words(token: &[u8; 16]) -> [(usize, u64); 2] {
    let word = |half: &[u8]| half.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    [(Layout::TOKEN_AT, word(&token[..8])), (Layout::TOKEN_AT + 8, word(&token[8..]))]
}

fn open_existing(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Removes the files of groups whose ranks were all killed before they had all joined: files of this user, with names like
/// ours, that are not locked. A segment in use is locked before it has a name.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_ours(path)) {
        let Ok(file) = open_existing(&path) else { continue };
        let ours = file.metadata().is_ok_and(|found| found.is_file() && found.uid() == sys::user());
        if ours && matches!(sys::is_locked(&file, 0, 0), Ok(false)) {
            // Another rank may have removed it first.
            let _ = fs::remove_file(&path);
        }
    }
}
