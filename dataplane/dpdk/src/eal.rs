//! DPDK in this process: its one start, and its log.
#![expect(unsafe_code, reason = "DPDK is a foreign library")]

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sys;

use crate::{DpdkError, Huge, Options};

/// The kind of DPDK's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Anonymous hugepages.
    Huge,
    /// Ordinary pages.
    Ordinary,
}

/// DPDK, started in this process. It runs until the process ends, and all of these are the same.
#[derive(Debug, Clone)]
pub struct Eal {
    memory: Memory,
}

struct Started {
    memory: Memory,
    options: Options,
    pci: bool,
    with: String,
}

/// DPDK can be started only once in a process.
static STARTED: Mutex<Option<Started>> = Mutex::new(None);

impl Eal {
    /// Starts DPDK, or returns the running one. `pci`: whether to scan the PCI bus for cards.
    ///
    /// In addition to `options` these are always set: nothing is written to files (`--in-memory`, or `--no-shconf` with ordinary
    /// pages), no telemetry socket, and one core, the first that the process may use.
    ///
    /// # Errors
    ///
    /// [`DpdkError::Hugepages`], [`DpdkError::Start`], and [`DpdkError::Started`] when DPDK runs already with other options.
    pub fn start(options: &Options, pci: bool) -> Result<Self, DpdkError> {
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(started) = &*started {
            return started.serves(options, pci);
        }
        let free_mb = free_hugepages_mb();
        let memory = match options.huge {
            Huge::Never => Memory::Ordinary,
            Huge::WhereFree if free_mb < options.memory_mb => Memory::Ordinary,
            Huge::Always if free_mb < options.memory_mb => {
                return Err(DpdkError::Hugepages { needed_mb: options.memory_mb, free_mb });
            }
            Huge::WhereFree | Huge::Always => Memory::Huge,
        };
        let words = words(options, memory, pci);
        let with = words[1..].join(" ");
        // SAFETY: no argument; the stream that it opens is never closed.
        unsafe { sys::netfold_log_open() };
        // DPDK binds the thread that starts it to a core, so that is one that does nothing else.
        let initialised = std::thread::scope(|scope| scope.spawn(|| init(&words)).join());
        let start = |(log, source)| DpdkError::Start { with: with.clone(), log, source };
        initialised
            .unwrap_or_else(|_| Err((String::new(), io::Error::other("a thread failed"))))
            .map_err(start)?;
        remove_folder();
        *started = Some(Started { memory, options: options.clone(), pci, with });
        Ok(Self { memory })
    }

    /// The kind of its memory.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory
    }
}

impl Started {
    fn serves(&self, options: &Options, pci: bool) -> Result<Eal, DpdkError> {
        let wrong = |why| Err(DpdkError::Started { with: self.with.clone(), why });
        if pci && !self.pci {
            return wrong("the PCI bus was not scanned; open cards first");
        }
        if options.memory_mb > self.options.memory_mb {
            return wrong("more memory is requested");
        }
        if options.huge == Huge::Always && self.memory == Memory::Ordinary {
            return wrong("hugepages are requested");
        }
        if !options.more.is_empty() && options.more != self.options.more {
            return wrong("other options are requested");
        }
        Ok(Eal { memory: self.memory })
    }
}

/// The arguments, the program's name first.
fn words(options: &Options, memory: Memory, pci: bool) -> Vec<String> {
    let mut words =
        vec!["netfold".to_owned(), "--no-telemetry".into(), "-m".into(), options.memory_mb.to_string()];
    words.extend(match memory {
        Memory::Huge => vec!["--in-memory".to_owned()],
        Memory::Ordinary => vec!["--no-huge".into(), "--no-shconf".into()],
    });
    let named = |names: &[&str]| {
        options.more.iter().any(|word| names.iter().any(|name| word.split('=').next() == Some(*name)))
    };
    if !pci && !named(&["--no-pci", "-a", "--allow", "-b", "--block"]) {
        words.push("--no-pci".into());
    }
    if !named(&["-l", "-c", "--lcores"]) {
        words.extend(["--lcores".into(), format!("0@{}", first_core())]);
    }
    if !named(&["--file-prefix"]) {
        words.extend(["--file-prefix".into(), format!("netfold-{}", std::process::id())]);
    }
    words.extend(options.more.iter().cloned());
    words
}

/// Starts DPDK on this thread; returns its log and its error number where it does not start.
fn init(words: &[String]) -> Result<(), (String, io::Error)> {
    let words: Vec<CString> = words.iter().filter_map(|word| CString::new(word.as_str()).ok()).collect();
    let mut pointers: Vec<*mut c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    // SAFETY: `argc` strings and a null pointer, alive through the call; DPDK moves the pointers about and writes to no string.
    // The lock on `STARTED` ensures that DPDK is started once.
    let rc = unsafe { sys::rte_eal_init(words.len() as c_int, pointers.as_mut_ptr()) };
    if rc < 0 { Err((take_log(), io::Error::from_raw_os_error(errno()))) } else { Ok(()) }
}

/// The first core that this process may use.
fn first_core() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let first = list.trim().split([',', '-']).next().and_then(|core| core.parse().ok());
    first.filter(|core| *core < sys::RTE_MAX_LCORE).unwrap_or(0)
}

/// Megabytes of hugepages of all sizes that are free.
fn free_hugepages_mb() -> u64 {
    let sizes = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let free = sizes.filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kb: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages: u64 =
            std::fs::read_to_string(entry.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
        Some(pages * kb)
    });
    free.sum::<u64>() / 1024
}

/// Removes the folder that DPDK creates for files that it is configured not to write.
fn remove_folder() {
    // SAFETY: DPDK has started, and the string is a constant of its own from then on.
    let folder = unsafe { std::ffi::CStr::from_ptr(sys::rte_eal_get_runtime_dir()) };
    let folder = Path::new(folder.to_str().unwrap_or_default());
    // Either fails where the folder is not empty, and then other processes use it, too.
    if std::fs::remove_dir(folder).is_ok()
        && let Some(above) = folder.parent()
    {
        let _ = std::fs::remove_dir(above);
    }
}

/// Held while a device is attached, closed or removed: not every driver supports that from two threads at a time.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static CHANGING: Mutex<()> = Mutex::new(());
    CHANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes DPDK's log of this thread since the last call, the newest part of it.
pub(crate) fn take_log() -> String {
    let mut text = [0_u8; 1024];
    // SAFETY: at most `len` bytes are written to memory of that length.
    let len = unsafe { sys::netfold_log_take(text.as_mut_ptr().cast(), text.len()) };
    String::from_utf8_lossy(&text[..len]).trim().to_owned()
}

/// DPDK's error number of this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: no argument; it reads a variable of this thread.
    unsafe { sys::netfold_errno() }
}

/// The error of a call that returned this.
pub(crate) fn error(rc: c_int) -> io::Error {
    io::Error::from_raw_os_error(if rc < 0 { -rc } else { errno() })
}

/// This thread's number in DPDK, released when the thread ends.
struct Registered(bool);

impl Drop for Registered {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this thread was registered, and is about to end.
            unsafe { sys::rte_thread_unregister() };
        }
    }
}

thread_local! {
    static KNOWN: Cell<bool> = const { Cell::new(false) };
    static NUMBER: Cell<Option<Registered>> = const { Cell::new(None) };
}

/// Registers this thread with DPDK, so that its pools cache buffers for it. Beyond DPDK's maximum of threads there is no cache.
pub(crate) fn register_thread() {
    if KNOWN.get() {
        return;
    }
    KNOWN.set(true);
    // SAFETY: DPDK runs, since only queues of its ports call this, and the thread is not one of DPDK's own.
    let registered = unsafe { sys::rte_thread_register() } == 0;
    NUMBER.set(Some(Registered(registered)));
}
