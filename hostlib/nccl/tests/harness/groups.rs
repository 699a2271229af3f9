//! What NCCL's proxy does with `ncclCollNet`.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::time::{Duration, Instant};

use crate::bootstrap::{RankContext, report, until};
use crate::plugin::{CollNet, Handle, log_lines};
use crate::tensor::{REDUCTIONS, expected, input, size_of};
use crate::windows;

/// Time limit of everything that is expected to work.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
const HOST: i32 = 1;
const CUDA: i32 = 2;
/// Elements; above 1003, bytes.
const SIZES: &[usize] = &[0, 1, 3, 1003, 0x8_0000, 0x8_0000 - 4];

type Ptr = *mut c_void;

/// `listen`, handles, `connect`, and `closeListen` where NCCL calls it.
pub(crate) fn connect(place: &RankContext, coll: &CollNet) -> Result<Ptr, i32> {
    let (handle, listener) = coll.listen(0).unwrap();
    let mut handles: Vec<Handle> =
        place.gather(&handle).into_iter().map(|bytes| bytes.try_into().unwrap()).collect();
    let joined = coll.connect(&mut handles, place.rank, listener);
    if joined.is_ok() {
        assert_eq!(coll.0.close("closeListen", listener), 0);
    }
    joined
}

/// An all-reduce with memory of its own.
struct Operation {
    dtype: i32,
    op: i32,
    salt: usize,
    count: usize,
    input: Vec<u8>,
    /// Empty when in place.
    output: Vec<u8>,
    registrations: (Ptr, Ptr),
    request: Ptr,
}

impl Operation {
    fn new(place: &RankContext, (dtype, op): (i32, i32), salt: usize, count: usize, in_place: bool) -> Self {
        let input = input(dtype, place.rank, salt, count);
        let output = if in_place { Vec::new() } else { vec![0x5a; input.len() + 1] };
        let none = std::ptr::null_mut();
        Self { dtype, op, salt, count, input, output, registrations: (none, none), request: none }
    }

    fn post(&mut self, coll: &CollNet, comm: Ptr) -> bool {
        let send = self.input.as_mut_ptr();
        let recv = if self.output.is_empty() { send } else { self.output.as_mut_ptr() };
        let len = self.input.len();
        if self.registrations.0.is_null() {
            let register = |data| coll.0.register(comm, data, len, HOST).unwrap();
            self.registrations = (register(send), register(recv));
        }
        let posted =
            coll.all_reduce(comm, (send, recv), self.count, (self.dtype, self.op), self.registrations);
        self.request = posted.unwrap_or_else(|code| panic!("iallreduce: {code}: {:?}", log_lines().last()));
        !self.request.is_null()
    }

    fn finish(&self, place: &RankContext, coll: &CollNet, comm: Ptr) {
        let bytes = until("an all-reduce", TIMEOUT, || {
            coll.0.test(self.request).unwrap_or_else(|code| panic!("test: {code}: {:?}", log_lines().last()))
        });
        assert_eq!(bytes as usize, self.input.len());
        assert!(coll.0.test(self.request).is_err(), "a request is done once");
        let got = if self.output.is_empty() { &self.input } else { &self.output[..self.input.len()] };
        let right = expected(self.dtype, self.op, place.world, self.salt, self.count);
        let wrong =
            got.chunks(size_of(self.dtype)).zip(right.chunks(size_of(self.dtype))).position(|(a, b)| a != b);
        if let Some(at) = wrong {
            let size = size_of(self.dtype);
            let (got, right) = (&got[at * size..][..size], &right[at * size..][..size]);
            let Self { dtype, op, count, salt, .. } = self;
            panic!("dtype {dtype} op {op} count {count} salt {salt}: element {at} is {got:?}, not {right:?}");
        }
        assert!(self.output.is_empty() || self.output.last() == Some(&0x5a), "written beyond the end");
        coll.0.deregister(comm, self.registrations.0);
        coll.0.deregister(comm, self.registrations.1);
    }
}

/// Does operations as NCCL's proxy does: posts until there is no room, tests the oldest, continues. Returns how many were done.
fn drive(
    place: &RankContext,
    coll: &CollNet,
    comm: Ptr,
    operations: impl Iterator<Item = Operation>,
) -> usize {
    let mut flying: VecDeque<Operation> = VecDeque::new();
    let mut done = 0;
    for mut operation in operations {
        while !operation.post(coll, comm) {
            flying.pop_front().expect("there is room when nothing is in flight").finish(place, coll, comm);
            done += 1;
        }
        flying.push_back(operation);
    }
    for operation in flying {
        operation.finish(place, coll, comm);
        done += 1;
    }
    done
}

/// Everything that works, with one communicator.
pub(crate) fn everything(place: &RankContext, coll: &mut CollNet) {
    assert_eq!(coll.init(), 0);
    assert_eq!(coll.devices(), 1);
    let properties = coll.0.properties(0).unwrap();
    assert_eq!((properties.name.as_str(), properties.pointer_support, properties.max_recvs), ("lo", HOST, 1));
    if place.version >= 11 {
        assert_eq!(properties.max_coll, 1 << 30);
    }
    assert!(coll.0.properties(1).is_err() && coll.0.properties(-1).is_err());
    assert!(coll.0.is_null("makeVDevice"), "makeVDevice is not offered");
    let comm = connect(place, coll).unwrap_or_else(|code| panic!("connect: {code}: {:?}", log_lines()));
    let supported: Vec<(i32, i32)> = (0..12)
        .flat_map(|dtype| (0..4).map(move |op| (dtype, op)))
        .filter(|(d, o)| coll.supports(*d, *o))
        .collect();
    let mut tried: Vec<(i32, i32)> = REDUCTIONS.iter().map(|(dtype, op, _)| (*dtype, *op)).collect();
    tried.sort_unstable();
    assert_eq!(supported, tried, "reduceSupport");
    let start = Instant::now();
    let mut salt = 0;
    let operations = [true, false].into_iter().flat_map(|in_place| {
        REDUCTIONS.iter().flat_map(move |(dtype, op, _)| {
            SIZES.iter().map(move |bytes| {
                (*dtype, *op, if *bytes > 1003 { bytes / size_of(*dtype) } else { *bytes }, in_place)
            })
        })
    });
    // Each version other ones.
    let share = if place.is_thorough() { 1 } else { 5 };
    let operations = operations.skip(place.version as usize % share).step_by(share);
    let done = drive(
        place,
        coll,
        comm,
        operations.map(|(dtype, op, count, in_place)| {
            salt += 1;
            Operation::new(place, (dtype, op), salt, count, in_place)
        }),
    );
    let seconds = start.elapsed().as_secs_f64();
    // Version 6 has neither.
    let windows = if place.version == 6 { 0 } else { windows::everything(place, coll, comm) };
    if place.version > 6 {
        windows::mistakes(coll, comm);
    }
    let limit = fill(place, coll, comm);
    leftovers(place, coll, comm);
    assert!(coll.0.register(comm, std::ptr::dangling_mut(), 64, CUDA).is_err(), "memory of GPUs is refused");
    assert_eq!(coll.0.register_dma_buf(comm), 3, "so are dma-bufs");
    assert!(log_lines().pop().unwrap_or_default().contains("dma-buf memory cannot be registered"));
    place.barrier();
    assert_eq!(coll.0.close("closeColl", comm), 0);
    assert_eq!(coll.finalize(), 0);
    if place.rank > 0 {
        return;
    }
    let path = log_lines().into_iter().find(|line| line.contains("CollNet of")).unwrap_or_default();
    report(&format!("CollNet: {path}"));
    let names: Vec<_> = REDUCTIONS.iter().map(|(.., name)| *name).collect();
    report(&format!(
        "CollNet: {done} all-reduces correct ({}; 0 B to 512 KiB, in place and not) in {seconds:.2} s, {limit} in flight; \
         {windows} windows of all-gathers and reduce-scatters correct",
        names.join(", ")
    ));
}

/// NCCL reduces whole chunks of its staging buffers, and writes no more than the elements that there are: the rest of a chunk is what an
/// earlier request left there.
fn leftovers(place: &RankContext, coll: &CollNet, comm: Ptr) {
    const CHUNK: usize = 16 << 10;
    let (mut send, mut recv) = (vec![0_u8; CHUNK], vec![0_u8; CHUNK]);
    let mut reduce = |send: &mut Vec<u8>, (dtype, op), bits: u32, salt, count| {
        send.chunks_mut(4).for_each(|word| {
            if bits != 0 {
                word.copy_from_slice(&bits.to_ne_bytes())
            }
        });
        let elements = input(dtype, place.rank, salt, count);
        send[..elements.len()].copy_from_slice(&elements);
        let memory = (send.as_ptr(), recv.as_mut_ptr());
        let none = (std::ptr::dangling_mut(), std::ptr::dangling_mut());
        let posted = coll.all_reduce(comm, memory, CHUNK / size_of(dtype), (dtype, op), none);
        let request = posted.unwrap_or_else(|code| panic!("iallreduce: {code}: {:?}", log_lines().last()));
        assert!(!request.is_null());
        until("an all-reduce", TIMEOUT, || coll.0.test(request).unwrap());
        let right = expected(dtype, op, place.world, salt, count);
        assert_eq!(recv[..right.len()], right, "{count} elements of dtype {dtype} after {bits:x}");
    };
    // Words that are NaN, infinite or large in a type that is reduced next: f32, f16, bf16.
    for (salt, bits) in
        [0x7fc0_0000, 0x7f80_0000, 0x7e96_7699, 0x7c00_7c00, 0x7f80_7f80].into_iter().enumerate()
    {
        for next in [(7, 0), (6, 0), (9, 0)] {
            for earlier in [(2, 2), (1, 0), (4, 0)] {
                // No elements of its own: only what fills the chunk.
                reduce(&mut send, earlier, bits, salt, 0);
                reduce(&mut send, next, 0, salt, 1 + 100 * salt);
            }
        }
    }
}

/// Posts until NULL comes back: that many may be in flight.
fn fill(place: &RankContext, coll: &CollNet, comm: Ptr) -> usize {
    let mut flying = Vec::new();
    let limit = if place.version == 6 { 8 } else { 32 };
    for salt in 0..=limit {
        let mut operation = Operation::new(place, (7, 0), 1000 + salt, 257, salt % 2 == 0);
        let posted = operation.post(coll, comm);
        assert_eq!(posted, salt < limit, "request {salt} in flight");
        if posted {
            flying.push(operation);
        }
    }
    // Newest first: requests are independent.
    flying.iter().rev().for_each(|operation| operation.finish(place, coll, comm));
    limit
}

/// The switch is killed while operations are in flight, without an effect on the results.
pub(crate) fn switch_killed(place: &RankContext, coll: &mut CollNet) {
    assert_eq!(coll.init(), 0);
    let comm = connect(place, coll).unwrap_or_else(|code| panic!("connect: {code}: {:?}", log_lines()));
    let operations = (0..120).map(|salt| {
        if salt == 40 && place.rank == 0 {
            report("event");
        }
        Operation::new(place, (7, 0), salt, 0x2_0000, salt % 2 == 0)
    });
    let done = drive(place, coll, comm, operations);
    let again = drive(place, coll, comm, (0..20).map(|salt| Operation::new(place, (2, 0), salt, 999, true)));
    place.barrier();
    assert_eq!(coll.0.close("closeColl", comm), 0);
    assert_eq!(coll.finalize(), 0);
    let line = log_lines().into_iter().find(|line| line.contains("without the switch"));
    let line = line.unwrap_or_else(|| panic!("the log does not mention the switch: {:?}", log_lines()));
    if place.rank > 0 {
        return;
    }
    report(&format!("{} all-reduces correct while the switch was killed: {line}", done + again));
}

/// A refused group, on all ranks.
pub(crate) fn refusal(place: &RankContext, coll: &mut CollNet) {
    assert_eq!(coll.init(), 0);
    let start = Instant::now();
    let code = connect(place, coll).expect_err("this connect must be refused");
    let why = log_lines().pop().unwrap_or_default();
    report(&format!("connect returned {code} after {:.2} s: {why}", start.elapsed().as_secs_f64()));
    assert!(start.elapsed() < Duration::from_secs(25));
    // NCCL continues with its own rings, over the other table of this plugin.
    assert_eq!(coll.finalize(), 0);
}

/// The last rank is killed with operations in flight; the others get an error, and can close.
pub(crate) fn rank_killed(place: &RankContext, coll: &mut CollNet) {
    assert_eq!(coll.init(), 0);
    let comm = connect(place, coll).unwrap_or_else(|code| panic!("connect: {code}: {:?}", log_lines()));
    drive(place, coll, comm, (0..10).map(|salt| Operation::new(place, (7, 0), salt, 4096, true)));
    place.barrier();
    if place.rank + 1 == place.world {
        report("exits");
        std::process::exit(42);
    }
    let start = Instant::now();
    let mut operation = Operation::new(place, (7, 0), 99, 100_000, true);
    assert!(operation.post(coll, comm));
    let code = until("an error", Duration::from_secs(30), || coll.0.test(operation.request).err());
    let why = log_lines().pop().unwrap_or_default();
    report(&format!("test returned {code} after {:.2} s: {why}", start.elapsed().as_secs_f64()));
    assert!(matches!(code, 2 | 6), "a system or remote error");
    // Later calls fail as well, at once or when tested, and nothing hangs.
    let mut later = Operation::new(place, (7, 0), 100, 10, true);
    let recv = later.input.as_mut_ptr();
    match coll.all_reduce(comm, (recv, recv), 10, (7, 0), operation.registrations) {
        Ok(request) => drop(until("an error", TIMEOUT, || coll.0.test(request).err())),
        Err(code) => assert!(matches!(code, 2 | 6)),
    }
    assert_eq!(coll.0.close("closeColl", comm), 0);
    assert_eq!(coll.finalize(), 0);
}
