//! The system call `bpf`: maps, programs, links, test runs, and files that keep them.
#![expect(unsafe_code, reason = "bpf exists only as a system call with pointers in its arguments")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use crate::Instruction;

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const OBJ_PIN: libc::c_long = 6;
const OBJ_GET: libc::c_long = 7;
const PROG_TEST_RUN: libc::c_long = 10;
const BTF_LOAD: libc::c_long = 18;
const LINK_CREATE: libc::c_long = 28;
const LINK_DETACH: libc::c_long = 34;

const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const ATTACH_XDP_DEVMAP: u32 = 33;

/// Names of kernel objects have at most 15 bytes.
const NAME_BYTES: usize = 16;

/// Kinds of maps (`enum bpf_map_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum MapType {
    /// By key.
    Hash = 1,
    /// By number.
    Array = 2,
    /// By number, a value for each CPU.
    PerCpuArray = 6,
    /// Maps by number.
    ArrayOfMaps = 12,
    /// XDP sockets by number.
    XdpSockets = 17,
    /// Interfaces by key.
    DeviceHash = 25,
}

/// What a map is created with.
#[derive(Debug, Clone, Copy)]
pub struct MapAttributes<'a> {
    /// Its kind.
    pub kind: MapType,
    /// Name: letters, digits and underscores; 15 bytes of it are used.
    pub name: &'a str,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Entries, at most.
    pub entries: u32,
    /// A map like those in a map of maps.
    pub inner: Option<BorrowedFd<'a>>,
    /// Type information, and the types of key and value in it.
    pub types: Option<(BorrowedFd<'a>, u32, u32)>,
}

/// How a value is put into a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Put {
    /// Whether the key exists or not.
    Any = 0,
    /// Only if the key does not exist.
    New = 1,
    /// Under the value's lock; the key exists.
    Locked = 4,
}

/// A map. It exists as long as a descriptor, a program or a file holds it.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key_bytes: u32,
    /// 0 if values cannot be accessed: those of a map with a value for each CPU.
    value_bytes: u32,
}

impl Map {
    /// Creates a map.
    ///
    /// # Errors
    ///
    /// The system's, as for want of CAP_BPF or of memory.
    pub fn create(attributes: &MapAttributes<'_>) -> io::Result<Self> {
        #[repr(C)]
        struct Create {
            kind: u32,
            key_bytes: u32,
            value_bytes: u32,
            entries: u32,
            flags: u32,
            inner: u32,
            node: u32,
            name: [u8; NAME_BYTES],
            interface: u32,
            types: u32,
            key_type: u32,
            value_type: u32,
        }
        let (types, key_type, value_type) =
            attributes.types.map_or((0, 0, 0), |(fd, key, value)| (fd.as_raw_fd() as u32, key, value));
        let create = Create {
            kind: attributes.kind as u32,
            key_bytes: attributes.key_bytes,
            value_bytes: attributes.value_bytes,
            entries: attributes.entries,
            flags: 0,
            inner: attributes.inner.map_or(0, |fd| fd.as_raw_fd() as u32),
            node: 0,
            name: name(attributes.name),
            interface: 0,
            types,
            key_type,
            value_type,
        };
        let fd = descriptor(MAP_CREATE, &create)?;
        Ok(Self::of(fd, attributes))
    }

    /// A map that exists, for instance from a file ([`open`]), which was created with these attributes.
    ///
    /// # Errors
    ///
    /// The system's if it is no map, and `InvalidData` if the map's key or value has another size.
    pub fn adopt(fd: OwnedFd, attributes: &MapAttributes<'_>) -> io::Result<Self> {
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))?;
        let number = |wanted: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(wanted)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse::<u32>().ok())
        };
        let sizes = (number("key_size"), number("value_size"), number("map_type"));
        if sizes != (Some(attributes.key_bytes), Some(attributes.value_bytes), Some(attributes.kind as u32)) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is another map"));
        }
        Ok(Self::of(fd, attributes))
    }

    fn of(fd: OwnedFd, attributes: &MapAttributes<'_>) -> Self {
        let value_bytes = if attributes.kind == MapType::PerCpuArray { 0 } else { attributes.value_bytes };
        Self { fd, key_bytes: attributes.key_bytes, value_bytes }
    }

    fn check(&self, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        let fits = key.len() == self.key_bytes as usize
            && self.value_bytes > 0
            && value.is_none_or(|value| value.len() == self.value_bytes as usize);
        if fits { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn element(&self, key: &[u8], value: u64, flags: u64) -> Element {
        Element { map: self.fd.as_raw_fd() as u32, pad: 0, key: key.as_ptr() as u64, value, flags }
    }

    /// Reads the value of a key; false if there is none. `locked` reads it under its lock.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if key or value have not the map's sizes, or the system's.
    pub fn read(&self, key: &[u8], value: &mut [u8], locked: bool) -> io::Result<bool> {
        self.check(key, Some(value))?;
        let flags = if locked { Put::Locked as u64 } else { 0 };
        found(call(MAP_LOOKUP_ELEM, &self.element(key, value.as_mut_ptr() as u64, flags)))
    }

    /// Writes the value of a key.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if key or value have not the map's sizes; `AlreadyExists`; the system's, `E2BIG` if the map is full.
    pub fn write(&self, key: &[u8], value: &[u8], put: Put) -> io::Result<()> {
        self.check(key, Some(value))?;
        call(MAP_UPDATE_ELEM, &self.element(key, value.as_ptr() as u64, put as u64)).map(drop)
    }

    /// Removes a key; false if it did not exist.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the key has not the map's size, or the system's.
    pub fn remove(&self, key: &[u8]) -> io::Result<bool> {
        self.check(key, None)?;
        found(call(MAP_DELETE_ELEM, &self.element(key, 0, 0)))
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[repr(C)]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn found(result: io::Result<i32>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Loads type information.
///
/// # Errors
///
/// The system's.
pub fn load_types(bytes: &[u8]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        types: u64,
        log: u64,
        bytes: u32,
        log_bytes: u32,
        log_level: u32,
        pad: u32,
    }
    let (types, bytes) = (bytes.as_ptr() as u64, bytes.len() as u32);
    descriptor(BTF_LOAD, &Load { types, log: 0, bytes, log_bytes: 0, log_level: 0, pad: 0 })
}

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attach {
    /// On what an interface receives.
    Receive,
    /// On what a map of interfaces sends.
    Send,
}

/// An XDP program. It exists as long as a descriptor, a link, a map or a file holds it.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// What a test run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestRun {
    /// The program's verdict.
    pub verdict: u32,
    /// Nanoseconds of the program, on the average of all repetitions.
    pub nanoseconds: u32,
    /// Bytes before the packet.
    pub before: usize,
    /// Bytes before the packet and of the packet.
    pub bytes: usize,
}

/// The kernel's refusal of a program.
#[derive(Debug)]
pub struct Rejected {
    /// The system's error.
    pub error: io::Error,
    /// The end of the verifier's log; empty if it has not come that far.
    pub log: String,
    /// The last instruction that the verifier looked at.
    pub instruction: Option<usize>,
}

impl Program {
    /// Loads a program whose maps are named by their descriptors.
    ///
    /// # Errors
    ///
    /// [`Rejected`], with what the verifier says.
    pub fn load(name: &str, attach: Attach, instructions: &[Instruction]) -> Result<Self, Rejected> {
        /// Bytes of the verifier's log, of which kernels from 6.4 on keep the end.
        const LOG_BYTES: usize = 1 << 24;
        /// Lines of the log that are reported.
        const LINES: usize = 12;
        let error = match Self::try_load(name, attach, instructions, &mut []) {
            Ok(program) => return Ok(program),
            Err(error) => error,
        };
        let mut log = vec![0; LOG_BYTES];
        if let Ok(program) = Self::try_load(name, attach, instructions, &mut log) {
            return Ok(program);
        }
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]);
        let instruction = log.lines().rev().find_map(|line| line.split_once(": (")?.0.trim().parse().ok());
        let mut lines: Vec<&str> = log.lines().rev().take(LINES).collect();
        lines.reverse();
        Err(Rejected { error, log: lines.join("\n"), instruction })
    }

    fn try_load(name_of: &str, attach: Attach, code: &[Instruction], log: &mut [u8]) -> io::Result<Self> {
        #[repr(C)]
        struct Load {
            kind: u32,
            count: u32,
            instructions: u64,
            license: u64,
            log_level: u32,
            log_bytes: u32,
            log: u64,
            version: u32,
            flags: u32,
            name: [u8; NAME_BYTES],
            interface: u32,
            attach: u32,
        }
        let words: Vec<u64> = code.iter().map(|instruction| instruction.encode()).collect();
        let load = Load {
            kind: PROG_TYPE_XDP,
            count: words.len() as u32,
            instructions: words.as_ptr() as u64,
            license: c"Apache-2.0".as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_bytes: log.len() as u32,
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            version: 0,
            flags: 0,
            name: name(name_of),
            interface: 0,
            attach: match attach {
                Attach::Receive => ATTACH_XDP,
                Attach::Send => ATTACH_XDP_DEVMAP,
            },
        };
        descriptor(PROG_LOAD, &load).map(Self)
    }

    /// A program that exists, for instance from a file.
    pub const fn adopt(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Runs the program over a packet in memory, `repeat` times, of which each sees what the one before left. `input` begins with `before` bytes
    /// before the packet, a multiple of 4 and at most 32. `output` is filled from its start.
    ///
    /// # Errors
    ///
    /// The system's: `EINVAL` for a packet below 14 bytes or above what a page holds, `ENOSPC` if `output` is too short.
    pub fn test_run(
        &self,
        input: &[u8],
        before: usize,
        output: &mut [u8],
        repeat: u32,
    ) -> io::Result<TestRun> {
        #[repr(C)]
        #[derive(Default)]
        struct Context {
            data: u32,
            data_end: u32,
            data_meta: u32,
            ingress_interface: u32,
            queue: u32,
            egress_interface: u32,
        }
        #[repr(C)]
        #[derive(Default)]
        struct Run {
            program: u32,
            verdict: u32,
            input_bytes: u32,
            output_bytes: u32,
            input: u64,
            output: u64,
            repeat: u32,
            nanoseconds: u32,
            context_in_bytes: u32,
            context_out_bytes: u32,
            context_in: u64,
            context_out: u64,
            flags: u32,
            cpu: u32,
            batch: u32,
            pad: u32,
        }
        /// `lo` of this process's network namespace.
        const LOOPBACK: u32 = 1;
        let (data, data_end) = (before as u32, input.len() as u32);
        let given = Context { data, data_end, ingress_interface: LOOPBACK, ..Context::default() };
        let mut left = Context::default();
        let mut run = Run {
            program: self.0.as_raw_fd() as u32,
            input_bytes: input.len() as u32,
            output_bytes: output.len() as u32,
            input: input.as_ptr() as u64,
            output: output.as_mut_ptr() as u64,
            repeat,
            context_in_bytes: size_of::<Context>() as u32,
            context_out_bytes: size_of::<Context>() as u32,
            context_in: ptr::from_ref(&given) as u64,
            context_out: ptr::from_mut(&mut left) as u64,
            ..Run::default()
        };
        call_mut(PROG_TEST_RUN, &mut run)?;
        Ok(TestRun {
            verdict: run.verdict,
            nanoseconds: run.nanoseconds,
            before: (left.data as usize).min(output.len()),
            bytes: (run.output_bytes as usize).min(output.len()),
        })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Where the kernel runs a program on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// In the driver, before there is a packet buffer: `XDP_FLAGS_DRV_MODE`.
    Driver = 1 << 2,
    /// Behind every driver, on packet buffers: `XDP_FLAGS_SKB_MODE`.
    Generic = 1 << 1,
}

/// A program on an interface. It leaves the interface when no descriptor and no file holds the link.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Attaches a program to the interface with that number.
    ///
    /// # Errors
    ///
    /// The system's: `EBUSY` if the interface has a program, `EOPNOTSUPP` if its driver cannot run any.
    pub fn attach(program: &Program, interface: u32, hook: Hook) -> io::Result<Self> {
        let program = program.as_fd().as_raw_fd() as u32;
        descriptor(LINK_CREATE, &[program, interface, ATTACH_XDP, hook as u32]).map(Self)
    }

    /// A link that exists, for instance from a file.
    pub const fn adopt(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Takes the program off the interface, whatever holds the link.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn detach(&self) -> io::Result<()> {
        call(LINK_DETACH, &[self.0.as_raw_fd() as u32]).map(drop)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[repr(C)]
struct Object {
    path: u64,
    fd: u32,
    flags: u32,
}

/// Makes a file in a BPF file system that keeps an object.
///
/// # Errors
///
/// The system's: `EPERM` if the folder is in no BPF file system.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    let object = Object { path: text.as_ptr() as u64, fd: object.as_raw_fd() as u32, flags: 0 };
    call(OBJ_PIN, &object).map(drop)
}

/// Opens what a file in a BPF file system keeps.
///
/// # Errors
///
/// The system's.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    descriptor(OBJ_GET, &Object { path: text.as_ptr() as u64, fd: 0, flags: 0 })
}

/// A name for the kernel: what it does not allow becomes an underscore.
fn name(text: &str) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    for (place, byte) in name[..NAME_BYTES - 1].iter_mut().zip(text.bytes()) {
        *place = if byte.is_ascii_alphanumeric() { byte } else { b'_' };
    }
    name
}

/// A call that returns a descriptor.
fn descriptor<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: the call above returned this descriptor just now, so there is no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A call whose arguments the kernel only reads. `T` has no padding, and begins like the member of `union bpf_attr` that the command reads.
fn call<T>(command: libc::c_long, attributes: &T) -> io::Result<i32> {
    // SAFETY: pointer and length describe `attributes`. The commands used with this function read it, and access what its addresses point to: slices
    // and values of the callers, which live through the call, are as long as the kernel takes them to be, and are borrowed as it accesses them.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attributes), size_of::<T>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as i32) }
}

/// A call whose arguments the kernel changes.
fn call_mut<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: as in `call`, with an exclusive borrow.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_mut(attributes), size_of::<T>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as i32) }
}
