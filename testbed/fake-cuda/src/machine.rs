//! A device: its state, and the thread that executes what is appended to its streams.
#![expect(unsafe_code, reason = "calls functions of the program under test, and reads words in its memory")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use netfold_cuda::RawStream;

use crate::memory::Memory;
use crate::options::Options;
use crate::stream::{EventState, HostCall, Kernel, Operation, Role, StreamState};

/// Devices that the driver has.
pub(crate) const DEVICES: usize = 256;

/// Longest part of a copy that is done at once.
const COPY_BYTES: usize = 64 << 10;

/// Most blocks that a kernel does at once.
const KERNEL_BLOCKS: u64 = 64;

/// How often words in memory are looked at.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Illegal address: what a faulty device returns.
const FAULT: i32 = 700;

pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) memory: Memory,
    pub(crate) streams: BTreeMap<usize, StreamState>,
    pub(crate) events: BTreeMap<usize, EventState>,
    /// What the device has failed with.
    pub(crate) fault: Option<String>,
    /// Calls of the function that is to fail.
    pub(crate) calls: u32,
    /// Until when the bus is in use, to the device and to the host.
    bus: [Option<Instant>; 2],
    random: u64,
    /// Streams of the program under test so far.
    copying_streams: usize,
    next_handle: usize,
}

/// A device.
pub(crate) struct Machine {
    ordinal: usize,
    state: Mutex<State>,
    changed: Condvar,
    calls: mpsc::Sender<(usize, HostCall)>,
}

static MACHINES: [OnceLock<Arc<Machine>>; DEVICES] = [const { OnceLock::new() }; DEVICES];

/// A device; `None` when the driver has no such.
pub(crate) fn machine(ordinal: i32) -> Option<&'static Arc<Machine>> {
    let ordinal = usize::try_from(ordinal).ok()?;
    Some(MACHINES.get(ordinal)?.get_or_init(|| Machine::start(ordinal)))
}

/// A device that was used before, with its number.
pub(crate) fn started(ordinal: i32) -> Option<(i32, &'static Arc<Machine>)> {
    let machine = MACHINES.get(usize::try_from(ordinal).ok()?)?.get()?;
    Some((ordinal, machine))
}

/// The device of a stream or event, by its handle.
pub(crate) fn machine_of(handle: usize) -> Option<&'static Arc<Machine>> {
    machine(i32::try_from(handle >> 32).ok()?.checked_sub(1)?)
}

impl Machine {
    fn start(ordinal: usize) -> Arc<Self> {
        let options = Options::from_environment();
        let (calls, requests) = mpsc::channel();
        let state = State {
            options,
            memory: Memory::default(),
            streams: BTreeMap::from([(0, StreamState::new(Role::Caller))]),
            events: BTreeMap::new(),
            fault: None,
            calls: 0,
            bus: [None; 2],
            random: options.seed | 1,
            copying_streams: 0,
            next_handle: 0,
        };
        let machine = Arc::new(Self { ordinal, state: Mutex::new(state), changed: Condvar::new(), calls });
        let (device, host) = (Arc::clone(&machine), Arc::clone(&machine));
        thread::spawn(move || device.execute());
        thread::spawn(move || host.call(&requests));
        machine
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a stream or an event of this device.
    fn handle(&self, state: &mut State) -> usize {
        state.next_handle += 1;
        (self.ordinal + 1) << 32 | state.next_handle
    }

    pub(crate) fn new_stream(&self, copies: bool) -> usize {
        let mut state = self.lock();
        let role = match (copies, state.copying_streams % 6) {
            (false, _) => Role::Caller,
            (true, 0) => Role::CopyIn,
            (true, 1) => Role::CopyOut,
            (true, 4) => Role::Quantize,
            (true, 5) => Role::Results,
            (true, _) => Role::Notice,
        };
        state.copying_streams += usize::from(copies);
        let handle = self.handle(&mut state);
        state.streams.insert(handle, StreamState::new(role));
        handle
    }

    pub(crate) fn new_event(&self) -> usize {
        let mut state = self.lock();
        let handle = self.handle(&mut state);
        state.events.insert(handle, EventState { recorded: 0, reached: 0, role: Role::Caller });
        handle
    }

    /// Appends to a stream; false if there is no such.
    pub(crate) fn append(&self, stream: usize, operation: Operation) -> bool {
        let mut state = self.lock();
        let Some(stream) = state.streams.get_mut(&stream) else { return false };
        stream.operations.push_back(operation);
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Makes the device look at its streams again.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Calls functions of the host, one after the other, as CUDA's driver does.
    fn call(&self, requests: &mpsc::Receiver<(usize, HostCall)>) {
        while let Ok((stream, call)) = requests.recv() {
            // SAFETY: the program under test allows this until its stream has executed the call.
            unsafe { (call.function)(call.data) };
            let mut state = self.lock();
            if let Some(stream) = state.streams.get_mut(&stream) {
                stream.calling = false;
                stream.operations.pop_front();
                stream.start = None;
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Executes what is appended to the streams, a step of any of them at a time.
    fn execute(&self) {
        let mut state = self.lock();
        loop {
            let ready = if state.fault.is_some() { Vec::new() } else { state.ready() };
            if ready.is_empty() {
                let waits = state.fault.is_none()
                    && state.streams.values().any(|stream| !stream.operations.is_empty());
                state = if waits {
                    self.changed.wait_timeout(state, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0
                } else {
                    self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                };
                continue;
            }
            let chosen = ready[state.random(ready.len() as u64) as usize];
            if let Err(fault) = self.step(&mut state, chosen) {
                eprintln!("the fake CUDA device {} failed: {fault}", self.ordinal);
                state.fault = Some(fault);
            }
            // Others may call the driver between two steps.
            drop(state);
            self.changed.notify_all();
            state = self.lock();
        }
    }

    /// Executes a part of a stream's first operation.
    fn step(&self, state: &mut State, stream: usize) -> Result<(), String> {
        let Some(queue) = state.streams.get_mut(&stream) else { return Ok(()) };
        let Some(operation) = queue.operations.pop_front() else { return Ok(()) };
        match operation {
            Operation::Copy { to_host, host, device, bytes } => {
                let part = (state.random(COPY_BYTES as u64) as usize + 1).min(bytes);
                state.memory.copy(to_host, host, device, part)?;
                state.occupy_bus(to_host, part);
                if part < bytes {
                    let rest = Operation::Copy {
                        to_host,
                        host: host + part,
                        device: device + part as u64,
                        bytes: bytes - part,
                    };
                    if let Some(queue) = state.streams.get_mut(&stream) {
                        queue.operations.push_front(rest);
                    }
                    return Ok(());
                }
            }
            Operation::Record { event, time } => {
                if let Some(event) = state.events.get_mut(&event) {
                    event.reached = event.reached.max(time);
                }
            }
            Operation::WaitForEvent { .. } | Operation::WaitForWord { .. } => {}
            Operation::WriteWord { address, value } => write_word(address, value),
            Operation::Kernel(kernel) => kernel(&mut state.memory)?,
            Operation::Launch(mut launch) => {
                let blocks = state.random(KERNEL_BLOCKS) as u32 + 1;
                if !launch.execute(blocks, &mut state.memory)? {
                    if let Some(queue) = state.streams.get_mut(&stream) {
                        queue.operations.push_front(Operation::Launch(launch));
                    }
                    return Ok(());
                }
            }
            Operation::Call(call) => {
                if let Some(queue) = state.streams.get_mut(&stream) {
                    queue.calling = true;
                    queue.operations.push_front(operation);
                }
                let _ = self.calls.send((stream, call));
                return Ok(());
            }
        }
        if let Some(queue) = state.streams.get_mut(&stream) {
            queue.start = None;
        }
        Ok(())
    }

    /// Breaks the device.
    pub(crate) fn fail(&self, fault: &str) {
        self.lock().fault = Some(fault.to_owned());
        self.changed.notify_all();
    }

    /// Blocks until a stream is empty; the device's error.
    pub(crate) fn synchronize(&self, stream: usize) -> i32 {
        let mut state = self.lock();
        loop {
            if state.fault.is_some() {
                return FAULT;
            }
            if state.streams.get(&stream).is_none_or(|stream| stream.operations.is_empty()) {
                return 0;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    /// What a call of `function` returns before it does anything: 0, the error that was asked for, or the device's.
    pub(crate) fn admit(&mut self, function: &str) -> i32 {
        if self.fault.is_some() {
            return FAULT;
        }
        if let Some(failing) = self.options.failing
            && failing.function == function
        {
            self.calls += 1;
            if self.calls > failing.after {
                return failing.code;
            }
        }
        0
    }

    /// A number below `bound` (xorshift64).
    fn random(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound.max(1)
    }

    fn occupy_bus(&mut self, to_host: bool, bytes: usize) {
        if let Some(rate) = self.options.bytes_per_second {
            let bus = &mut self.bus[usize::from(to_host)];
            let now = Instant::now();
            // A short sleep that lasted too long is made up for.
            let from =
                bus.filter(|until| now.duration_since(*until) < Duration::from_millis(1)).unwrap_or(now);
            *bus = Some(from + Duration::from_secs_f64(bytes as f64 / rate));
        }
    }

    /// Streams whose first operation can be executed now.
    fn ready(&mut self) -> Vec<usize> {
        let now = Instant::now();
        let lateness = self.options.lateness.as_nanos() as u64;
        let handles: Vec<usize> = self.streams.keys().copied().collect();
        let mut ready = Vec::new();
        for handle in handles {
            let delay = Duration::from_nanos(if lateness > 0 { self.random(lateness) } else { 0 });
            let Some(stream) = self.streams.get_mut(&handle) else { continue };
            let Some(first) = stream.operations.front() else { continue };
            let start = *stream.start.get_or_insert(now + delay);
            let free = match first {
                Operation::Copy { to_host, .. } => {
                    self.bus[usize::from(*to_host)].is_none_or(|until| until <= now)
                }
                Operation::WaitForEvent { event, time } => {
                    self.events.get(event).is_none_or(|event| event.reached >= *time)
                }
                Operation::WaitForWord { address, value } => {
                    let word = *address as *mut u32;
                    // SAFETY: the word is in pinned memory, as was checked when the wait was appended.
                    let word = unsafe { AtomicU32::from_ptr(word) }.load(Ordering::Acquire);
                    word.wrapping_sub(*value).cast_signed() >= 0
                }
                Operation::Call(_) => !stream.calling,
                Operation::Record { .. }
                | Operation::WriteWord { .. }
                | Operation::Kernel(_)
                | Operation::Launch(_) => true,
            };
            if free && start <= now {
                ready.push(handle);
            }
        }
        ready
    }
}

/// Writes a word of pinned memory, behind everything before it.
pub(crate) fn write_word(address: usize, value: u32) {
    // SAFETY: the word is in pinned memory, aligned, as was checked when the write was appended.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }.store(value, Ordering::Release);
}

/// A device for one test.
#[derive(Debug)]
pub struct FakeDevice {
    ordinal: i32,
}

impl FakeDevice {
    /// A device that no other test has.
    ///
    /// # Panics
    ///
    /// When all devices are taken.
    pub fn take(options: Options) -> Self {
        // Device 0 is for programs that do not ask.
        static NEXT: AtomicI32 = AtomicI32::new(1);
        let ordinal = NEXT.fetch_add(1, Ordering::Relaxed);
        let device = Self { ordinal };
        let mut state = device.machine().lock();
        (state.options, state.random) = (options, options.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        drop(state);
        device
    }

    fn machine(&self) -> &'static Arc<Machine> {
        match machine(self.ordinal) {
            Some(machine) => machine,
            None => panic!("there are {DEVICES} devices; use fewer of them in one process"),
        }
    }

    /// Its number.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Changes how it behaves.
    pub fn configure(&self, change: impl FnOnce(&mut Options)) {
        change(&mut self.machine().lock().options);
    }

    /// Allocates device memory of zeros; its address.
    pub fn allocate(&self, bytes: usize) -> u64 {
        self.machine().lock().memory.allocate(bytes)
    }

    /// Frees device memory.
    pub fn free(&self, address: u64) {
        self.machine().lock().memory.free(address);
    }

    /// A stream of a caller.
    pub fn stream(&self) -> RawStream {
        RawStream::from_raw(self.machine().new_stream(false))
    }

    /// Begins or ends the capture of a stream.
    pub fn capture(&self, stream: RawStream, capturing: bool) {
        if let Some(stream) = self.machine().lock().streams.get_mut(&stream.handle()) {
            stream.capturing = capturing;
        }
    }

    /// Appends a kernel that takes `time` and writes `bytes` to device memory.
    pub fn write(&self, stream: RawStream, address: u64, bytes: Vec<u8>, time: Duration) {
        self.launch(stream, time, move |memory| {
            let Some(to) = memory.device(address, bytes.len()) else {
                return Err(format!("a kernel wrote {} bytes at {address:#x}", bytes.len()));
            };
            to.copy_from_slice(&bytes);
            Ok(())
        });
    }

    /// Appends a kernel that reads device memory; where its bytes come out.
    pub fn read(&self, stream: RawStream, address: u64, bytes: usize) -> mpsc::Receiver<Vec<u8>> {
        let (tx, rx) = mpsc::channel();
        self.launch(stream, Duration::ZERO, move |memory| {
            let Some(from) = memory.device(address, bytes) else {
                return Err(format!("a kernel read {bytes} bytes at {address:#x}"));
            };
            // A test that has failed does not read.
            let _ = tx.send(from.to_vec());
            Ok(())
        });
        rx
    }

    /// The bytes of device memory now, whatever is under way.
    ///
    /// # Panics
    ///
    /// When they are none.
    pub fn peek(&self, address: u64, bytes: usize) -> Vec<u8> {
        match self.machine().lock().memory.device(address, bytes) {
            Some(memory) => memory.to_vec(),
            None => panic!("{bytes} bytes at {address:#x} are not device memory"),
        }
    }

    fn launch(
        &self,
        stream: RawStream,
        time: Duration,
        kernel: impl FnOnce(&mut Memory) -> Result<(), String> + Send + 'static,
    ) {
        let machine = self.machine();
        let kernel: Kernel = Box::new(kernel);
        if !time.is_zero() {
            // Kernels do not occupy the thread that executes: another stream goes on meanwhile.
            let over = Arc::new(AtomicU32::new(0));
            let word = Arc::as_ptr(&over).cast::<u32>() as usize;
            machine.append(stream.handle(), Operation::WaitForWord { address: word, value: 1 });
            thread::spawn(move || {
                thread::sleep(time);
                over.store(1, Ordering::Release);
                // The word must outlive the wait for it.
                std::mem::forget(over);
            });
        }
        machine.append(stream.handle(), Operation::Kernel(kernel));
    }

    /// Breaks the device: nothing is executed any more, and every call fails.
    pub fn fail(&self) {
        self.machine().fail("a test broke it");
    }

    /// What the device failed with.
    pub fn fault(&self) -> Option<String> {
        self.machine().lock().fault.clone()
    }

    /// Blocks until a stream is empty.
    pub fn synchronize(&self, stream: RawStream) {
        self.machine().synchronize(stream.handle());
    }
}
