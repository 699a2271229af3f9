//! The plugin from NCCL's side: a file to dlopen, and tables found by name. Nothing here is shared with the plugin's sources:
//! members are found by their position in the lists below, and properties by their offset in bytes, so that a layout that is wrong in
//! the plugin does not look right here.
#![allow(unsafe_code, reason = "does what NCCL does, in C")]

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::mem::transmute;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Mutex;

pub(crate) const HANDLE_LEN: usize = 128;
pub(crate) type Handle = [u8; HANDLE_LEN];
type Ptr = *mut c_void;
type Function = *const c_void;

const NET: &[&str] = &[
    "name",
    "init",
    "devices",
    "getProperties",
    "listen",
    "connect",
    "accept",
    "regMr",
    "regMrDmaBuf",
    "deregMr",
    "isend",
    "irecv",
    "iflush",
    "test",
    "closeSend",
    "closeRecv",
    "closeListen",
    "getDeviceMr",
    "irecvConsumed",
    "makeVDevice",
    "finalize",
    "setNetAttr",
];

const COLLNET_V6: &[&str] = &[
    "name",
    "init",
    "devices",
    "getProperties",
    "listen",
    "connect",
    "reduceSupport",
    "regMr",
    "regMrDmaBuf",
    "deregMr",
    "iallreduce",
    "iflush",
    "test",
    "closeColl",
    "closeListen",
];

const COLLNET: &[&str] = &[
    "name",
    "init",
    "devices",
    "getProperties",
    "listen",
    "connect",
    "reduceSupport",
    "regMr",
    "regMrDmaBuf",
    "deregMr",
    "iallreduce",
    "iallgather",
    "ireducescatter",
    "iflush",
    "test",
    "closeColl",
    "closeListen",
    "makeVDevice",
    "finalize",
];

/// Lines that the plugin has given to the logger.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What NCCL passes is variadic. On the machines that this runs on, a function of six plain arguments is called alike.
unsafe extern "C" fn logger(
    _: c_int,
    _: c_ulong,
    _: *const c_char,
    _: c_int,
    format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: the plugin passes C strings.
    let (format, text) = unsafe { (CStr::from_ptr(format), CStr::from_ptr(text)) };
    assert_eq!(format, c"%s", "a message must not be a format");
    LOG.lock().unwrap().push(text.to_string_lossy().into_owned());
}

pub(crate) fn log_lines() -> Vec<String> {
    LOG.lock().unwrap().clone()
}

/// A loaded plugin.
pub(crate) struct Library {
    handle: Ptr,
    pub(crate) version: u32,
}

impl Library {
    pub(crate) fn open(path: &Path, version: u32) -> Self {
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a C string; the library's constructors are Rust's.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        // SAFETY: after a failure there is a message.
        assert!(!handle.is_null(), "{:?}", unsafe { CStr::from_ptr(libc::dlerror()) });
        Self { handle, version }
    }

    pub(crate) fn close(self) {
        // SAFETY: opened above, and not used any more.
        assert_eq!(unsafe { libc::dlclose(self.handle) }, 0);
    }

    /// Whether a data symbol is exported.
    pub(crate) fn symbol(&self, name: &str) -> Option<*const Function> {
        let name = CString::new(name).unwrap();
        // SAFETY: an open library and a C string.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!found.is_null()).then_some(found.cast())
    }

    pub(crate) fn net(&self) -> Net {
        let members = match self.version {
            6 => &NET[..17],
            8 => &NET[..19],
            _ => NET,
        };
        Net(self.table("ncclNetPlugin", members))
    }

    pub(crate) fn collnet(&self) -> CollNet {
        let members = match self.version {
            6 => COLLNET_V6,
            8 => &COLLNET[..17],
            _ => COLLNET,
        };
        CollNet(self.table("ncclCollNetPlugin", members))
    }

    fn table(&self, name: &str, members: &'static [&'static str]) -> Table {
        let symbol = format!("{name}_v{}", self.version);
        let base = self.symbol(&symbol).unwrap_or_else(|| panic!("{symbol} is not exported"));
        Table { base, members, version: self.version, context: null_mut() }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Table {
    base: *const Function,
    members: &'static [&'static str],
    pub(crate) version: u32,
    context: Ptr,
}

// SAFETY: tables are constant, and plugins are called from several threads.
unsafe impl Send for Table {}

/// What the plugin says about a device.
#[derive(Debug)]
pub(crate) struct Properties {
    pub(crate) name: String,
    pub(crate) pointer_support: i32,
    pub(crate) speed: i32,
    pub(crate) max_comms: i32,
    pub(crate) max_recvs: i32,
    pub(crate) max_p2p: u64,
    pub(crate) max_coll: u64,
}

/// Calls a member with C's conventions: `call!(table, "name", (types), (arguments))`.
macro_rules! call {
    ($table:expr, $member:expr, ($($type:ty),*), ($($argument:expr),*)) => {{
        let function: unsafe extern "C" fn($($type),*) -> c_int =
            // SAFETY: the member has this type in this version of the table.
            unsafe { transmute::<Function, _>($table.required($member)) };
        // SAFETY: arguments as NCCL passes them.
        unsafe { function($($argument),*) }
    }};
}

impl Table {
    fn member(&self, name: &str) -> Function {
        let index = self.members.iter().position(|member| *member == name).unwrap();
        // SAFETY: the table has as many members.
        unsafe { *self.base.add(index) }
    }

    fn required(&self, name: &str) -> Function {
        let function = self.member(name);
        assert!(!function.is_null(), "{name} is NULL");
        function
    }

    pub(crate) fn is_null(&self, name: &str) -> bool {
        !self.members.contains(&name) || self.member(name).is_null()
    }

    pub(crate) fn name(&self) -> String {
        // SAFETY: the first member is a C string.
        unsafe { CStr::from_ptr(self.member("name").cast()) }.to_string_lossy().into_owned()
    }

    fn init(&mut self, is_net: bool) -> c_int {
        let logger = logger as Function;
        let out: *mut Ptr = &raw mut self.context;
        match (self.version, is_net) {
            (6 | 8, _) => call!(self, "init", (Function), (logger)),
            (_, true) => {
                let mut config: c_int = -1;
                let config: *mut c_int = &raw mut config;
                call!(
                    self,
                    "init",
                    (*mut Ptr, u64, *mut c_int, Function, Ptr),
                    (out, 77, config, logger, null_mut())
                )
            }
            (_, false) => call!(self, "init", (*mut Ptr, u64, Function), (out, 77, logger)),
        }
    }

    fn finalize(&self) -> c_int {
        if self.version >= 11 { call!(self, "finalize", (Ptr), (self.context)) } else { 0 }
    }

    fn devices(&self) -> c_int {
        let mut count = -1;
        assert_eq!(call!(self, "devices", (*mut c_int), (&raw mut count)), 0);
        count
    }

    pub(crate) fn properties(&self, device: c_int) -> Result<Properties, c_int> {
        let mut bytes = [0xaa_u8; 256];
        let result = call!(self, "getProperties", (c_int, *mut u8), (device, bytes.as_mut_ptr()));
        if result != 0 {
            return Err(result);
        }
        let size = match self.version {
            6 => 48,
            8 => 64,
            11 => 112,
            _ => 128,
        };
        assert!(bytes[size..].iter().all(|byte| *byte == 0xaa), "writes behind the structure");
        let word = |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        // SAFETY: the first member is a C string of the plugin's.
        let name = unsafe { CStr::from_ptr(long(0) as *const c_char) }.to_string_lossy().into_owned();
        // Offsets of speed, maxComms, maxRecvs, maxP2pBytes, maxCollBytes.
        let (speed, comms, recvs, p2p) = match self.version {
            6 => (28, 40, 44, 0),
            8 => (32, 44, 48, 0),
            11 => (36, 48, 52, 88),
            _ => (36, 48, 52, 104),
        };
        if self.version == 12 {
            assert_eq!((bytes[124..126].to_vec(), bytes[126..128].to_vec()), (vec![0xff; 2], vec![0xff; 2]));
        }
        Ok(Properties {
            name,
            pointer_support: word(24),
            speed: word(speed),
            max_comms: word(comms),
            max_recvs: word(recvs),
            max_p2p: if p2p == 0 { 0 } else { long(p2p) },
            max_coll: if p2p == 0 { 0 } else { long(p2p + 8) },
        })
    }

    fn listen(&self, device: c_int) -> Result<(Handle, Ptr), c_int> {
        let (mut handle, mut listener) = ([0u8; HANDLE_LEN], null_mut());
        let (bytes, out): (*mut u8, *mut Ptr) = (handle.as_mut_ptr(), &raw mut listener);
        let result = match self.version {
            6 | 8 => call!(self, "listen", (c_int, *mut u8, *mut Ptr), (device, bytes, out)),
            _ => call!(self, "listen", (Ptr, c_int, *mut u8, *mut Ptr), (self.context, device, bytes, out)),
        };
        if result == 0 { Ok((handle, listener)) } else { Err(result) }
    }

    pub(crate) fn register(&self, comm: Ptr, data: *mut u8, size: usize, kind: c_int) -> Result<Ptr, c_int> {
        let mut out = null_mut();
        let result = match self.version {
            6 => call!(
                self,
                "regMr",
                (Ptr, *mut u8, c_int, c_int, *mut Ptr),
                (comm, data, size as c_int, kind, &raw mut out)
            ),
            _ => call!(
                self,
                "regMr",
                (Ptr, *mut u8, usize, c_int, *mut Ptr),
                (comm, data, size, kind, &raw mut out)
            ),
        };
        if result == 0 { Ok(out) } else { Err(result) }
    }

    /// The result of `regMrDmaBuf`.
    pub(crate) fn register_dma_buf(&self, comm: Ptr) -> c_int {
        let mut out = null_mut();
        let arguments = (comm, std::ptr::dangling_mut(), 4096, 2, 0, 5, &raw mut out);
        let (comm, data, size, kind, offset, file, out) = arguments;
        call!(
            self,
            "regMrDmaBuf",
            (Ptr, *mut u8, usize, c_int, u64, c_int, *mut Ptr),
            (comm, data, size, kind, offset, file, out)
        )
    }

    pub(crate) fn deregister(&self, comm: Ptr, registration: Ptr) {
        assert_eq!(call!(self, "deregMr", (Ptr, Ptr), (comm, registration)), 0);
    }

    /// The size once the request is done.
    pub(crate) fn test(&self, request: Ptr) -> Result<Option<c_int>, c_int> {
        let (mut done, mut size) = (-1, -1);
        let (done_at, size_at): (*mut c_int, *mut c_int) = (&raw mut done, &raw mut size);
        match call!(self, "test", (Ptr, *mut c_int, *mut c_int), (request, done_at, size_at)) {
            0 => Ok((done == 1).then_some(size)),
            result => Err(result),
        }
    }

    pub(crate) fn close(&self, what: &str, object: Ptr) -> c_int {
        call!(self, what, (Ptr), (object))
    }
}

/// `ncclNet`.
#[derive(Clone, Copy)]
pub(crate) struct Net(pub Table);

impl Net {
    pub(crate) fn init(&mut self) -> c_int {
        self.0.init(true)
    }

    pub(crate) fn finalize(&self) -> c_int {
        self.0.finalize()
    }

    pub(crate) fn devices(&self) -> c_int {
        self.0.devices()
    }

    pub(crate) fn listen(&self, device: c_int) -> Result<(Handle, Ptr), c_int> {
        self.0.listen(device)
    }

    /// Null while there is no connection yet.
    pub(crate) fn connect(&self, handle: &mut Handle) -> Result<Ptr, c_int> {
        let table = &self.0;
        let (mut comm, mut device_comm) = (null_mut(), null_mut());
        let (bytes, out, device): (*mut u8, *mut Ptr, *mut Ptr) =
            (handle.as_mut_ptr(), &raw mut comm, &raw mut device_comm);
        let result = match table.version {
            6 => call!(table, "connect", (c_int, *mut u8, *mut Ptr), (0, bytes, out)),
            8 => call!(table, "connect", (c_int, *mut u8, *mut Ptr, *mut Ptr), (0, bytes, out, device)),
            _ => call!(
                table,
                "connect",
                (Ptr, c_int, *mut u8, *mut Ptr, *mut Ptr),
                (table.context, 0, bytes, out, device)
            ),
        };
        if result == 0 { Ok(comm) } else { Err(result) }
    }

    pub(crate) fn accept(&self, listener: Ptr) -> Result<Ptr, c_int> {
        let table = &self.0;
        let (mut comm, mut device) = (null_mut(), null_mut());
        let out: *mut Ptr = &raw mut comm;
        let result = match table.version {
            6 => call!(table, "accept", (Ptr, *mut Ptr), (listener, out)),
            _ => call!(table, "accept", (Ptr, *mut Ptr, *mut Ptr), (listener, out, &raw mut device)),
        };
        if result == 0 { Ok(comm) } else { Err(result) }
    }

    /// Null means "try again".
    pub(crate) fn send(&self, comm: Ptr, data: &[u8], tag: c_int, registration: Ptr) -> Result<Ptr, c_int> {
        let table = &self.0;
        let mut request = null_mut();
        let (start, out): (*const u8, *mut Ptr) = (data.as_ptr(), &raw mut request);
        let result = match table.version {
            6 | 8 => call!(
                table,
                "isend",
                (Ptr, *const u8, c_int, c_int, Ptr, *mut Ptr),
                (comm, start, data.len() as c_int, tag, registration, out)
            ),
            _ => call!(
                table,
                "isend",
                (Ptr, *const u8, usize, c_int, Ptr, Ptr, *mut Ptr),
                (comm, start, data.len(), tag, registration, null_mut(), out)
            ),
        };
        if result == 0 { Ok(request) } else { Err(result) }
    }

    pub(crate) fn receive(
        &self,
        comm: Ptr,
        count: c_int,
        data: &mut [u8],
        tag: c_int,
        registration: Ptr,
    ) -> Result<Ptr, c_int> {
        let table = &self.0;
        // NCCL passes a hint where the request will be.
        let mut request = if table.version >= 11 { std::ptr::without_provenance_mut(1) } else { null_mut() };
        let (mut start, mut tag, mut registration) = (data.as_mut_ptr(), tag, registration);
        let (starts, tags, registrations): (*mut *mut u8, *mut c_int, *mut Ptr) =
            (&raw mut start, &raw mut tag, &raw mut registration);
        let out: *mut Ptr = &raw mut request;
        let result = match table.version {
            6 | 8 => {
                let mut size = data.len() as c_int;
                let sizes: *mut c_int = &raw mut size;
                call!(
                    table,
                    "irecv",
                    (Ptr, c_int, *mut *mut u8, *mut c_int, *mut c_int, *mut Ptr, *mut Ptr),
                    (comm, count, starts, sizes, tags, registrations, out)
                )
            }
            _ => {
                let mut size = data.len();
                let sizes: *mut usize = &raw mut size;
                let mut phandle = null_mut();
                let phandles: *mut Ptr = &raw mut phandle;
                call!(
                    table,
                    "irecv",
                    (Ptr, c_int, *mut *mut u8, *mut usize, *mut c_int, *mut Ptr, *mut Ptr, *mut Ptr),
                    (comm, count, starts, sizes, tags, registrations, phandles, out)
                )
            }
        };
        if result == 0 { Ok(request) } else { Err(result) }
    }
}

/// `ncclCollNet`.
#[derive(Clone, Copy)]
pub(crate) struct CollNet(pub Table);

impl CollNet {
    pub(crate) fn init(&mut self) -> c_int {
        self.0.init(false)
    }

    pub(crate) fn finalize(&self) -> c_int {
        self.0.finalize()
    }

    pub(crate) fn devices(&self) -> c_int {
        self.0.devices()
    }

    pub(crate) fn listen(&self, device: c_int) -> Result<(Handle, Ptr), c_int> {
        self.0.listen(device)
    }

    pub(crate) fn connect(&self, handles: &mut [Handle], rank: usize, listener: Ptr) -> Result<Ptr, c_int> {
        let mut pointers: Vec<*mut u8> = handles.iter_mut().map(|handle| handle.as_mut_ptr()).collect();
        let mut comm = null_mut();
        let result = call!(
            self.0,
            "connect",
            (*mut *mut u8, c_int, c_int, Ptr, *mut Ptr),
            (pointers.as_mut_ptr(), handles.len() as c_int, rank as c_int, listener, &raw mut comm)
        );
        if result == 0 {
            assert!(!comm.is_null());
            return Ok(comm);
        }
        assert!(comm.is_null(), "a refused connect leaves no communicator");
        Err(result)
    }

    pub(crate) fn supports(&self, dtype: c_int, op: c_int) -> bool {
        let mut supported = -1;
        assert_eq!(
            call!(self.0, "reduceSupport", (c_int, c_int, *mut c_int), (dtype, op, &raw mut supported)),
            0
        );
        assert!(matches!(supported, 0 | 1));
        supported == 1
    }

    /// Null means "try again".
    pub(crate) fn all_reduce(
        &self,
        comm: Ptr,
        (send, recv): (*const u8, *mut u8),
        count: usize,
        (dtype, op): (c_int, c_int),
        registrations: (Ptr, Ptr),
    ) -> Result<Ptr, c_int> {
        let mut request = null_mut();
        let out: *mut Ptr = &raw mut request;
        let result = match self.0.version {
            6 | 8 => call!(
                self.0,
                "iallreduce",
                (Ptr, *const u8, *mut u8, c_int, c_int, c_int, Ptr, Ptr, *mut Ptr),
                (comm, send, recv, count as c_int, dtype, op, registrations.0, registrations.1, out)
            ),
            _ => call!(
                self.0,
                "iallreduce",
                (Ptr, *const u8, *mut u8, usize, c_int, c_int, Ptr, Ptr, *mut Ptr),
                (comm, send, recv, count, dtype, op, registrations.0, registrations.1, out)
            ),
        };
        if result == 0 { Ok(request) } else { Err(result) }
    }

    /// `send` is what the window has of this rank's part. Null means "try again".
    pub(crate) fn all_gather(
        &self,
        comm: Ptr,
        send: *mut u8,
        recv: *mut u8,
        window: Window,
    ) -> Result<Ptr, c_int> {
        let Window { bytes_per_rank, offset, bytes } = window;
        let mut request = null_mut();
        let mut part = Part::new(self.0.version, recv, bytes);
        let (parts, out): (*mut Part, *mut Ptr) = (&raw mut part, &raw mut request);
        let result = call!(
            self.0,
            "iallgather",
            (Ptr, *mut u8, c_int, *mut Part, usize, usize, usize, Ptr, *mut Ptr),
            (comm, send, 1, parts, bytes_per_rank, offset, bytes, null_mut(), out)
        );
        if result == 0 { Ok(request) } else { Err(result) }
    }

    /// `recv` is for what the window has of this rank's part. Null means "try again".
    pub(crate) fn reduce_scatter(
        &self,
        comm: Ptr,
        send: *mut u8,
        recv: *mut u8,
        window: Window,
        (dtype, op): (c_int, c_int),
    ) -> Result<Ptr, c_int> {
        let Window { bytes_per_rank, offset, bytes } = window;
        let mut request = null_mut();
        let mut part = Part::new(self.0.version, send, bytes);
        let (parts, out): (*mut Part, *mut Ptr) = (&raw mut part, &raw mut request);
        let result = call!(
            self.0,
            "ireducescatter",
            (Ptr, c_int, *mut Part, *mut u8, usize, usize, usize, c_int, c_int, Ptr, *mut Ptr),
            (comm, 1, parts, recv, bytes_per_rank, offset, bytes, dtype, op, null_mut(), out)
        );
        if result == 0 { Ok(request) } else { Err(result) }
    }
}

/// A window of the tensor of all ranks, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) bytes_per_rank: usize,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// `ncclNetSGE`: registration, address, size. In version 8 the size has 32 bits, and NCCL leaves the rest as it is.
#[repr(C)]
struct Part([usize; 3]);

impl Part {
    fn new(version: u32, address: *mut u8, bytes: usize) -> Self {
        let rest = if version == 8 { 0x5a5a_5a5a << 32 } else { 0 };
        Self([0, address.expose_provenance(), bytes | rest])
    }
}
