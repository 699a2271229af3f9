//! Builders, which connect communicators.

use std::ffi::{c_char, c_void};
use std::net::IpAddr;
use std::time::Duration;

use netfold::quantize::Rounding;
use netfold::{Builder, Communicator, GroupKey, Mode};

use crate::communicator::netfold_comm;
use crate::exchange::{CallerExchange, Gather, ip_towards};
use crate::guard::{exclusive, guard, put, text};
use crate::result::{Failure, netfold_result};
use crate::tolerance::parse_tolerance;

/// How floating-point tensors are encoded on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum netfold_mode {
    /// Integers alone.
    I32 = 0,
    /// Block floating point, 32 bits an element.
    Bfp32 = 1,
    /// Block floating point, 16 bits an element.
    Bfp16 = 2,
    /// Block floating point, 32 bits an element, at a switch whose sums saturate.
    Saturating = 3,
    /// Block floating point, 16 bits an element, at a switch with 32-bit sums.
    Wide = 4,
    /// binary16 without conversion, at a switch that supports it.
    Half = 5,
    /// binary32 without conversion, at a switch that supports it.
    Float = 6,
}

/// How floating-point numbers are rounded to the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub enum netfold_rounding {
    /// To the nearest.
    Nearest = 0,
    /// Up or down at random, so that the expected value is exact.
    Stochastic = 1,
}

/// The settings of a communicator. Used by one thread at a time.
pub struct netfold_builder {
    /// None after a setter failed.
    builder: Option<Builder>,
    rank: Option<u16>,
    world: Option<u16>,
    switch: Option<String>,
    local_ip: Option<IpAddr>,
    gather: Option<Gather>,
}

/// Gathers `len` bytes of every rank, in order of rank, into `all`, which has room for `len` times the world size: an MPI_Allgather
/// of bytes. Returns 0 on success. Called on the thread that connects.
pub type netfold_all_gather_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, mine: *const u8, all: *mut u8, len: usize) -> i32>;

/// Makes a builder with nothing set.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_new(out: *mut *mut netfold_builder) -> netfold_result {
    guard(|| {
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let builder = netfold_builder {
            builder: Some(Communicator::builder()),
            rank: None,
            world: None,
            switch: None,
            local_ip: None,
            gather: None,
        };
        // SAFETY: by this function's contract.
        unsafe { put(out, Box::into_raw(Box::new(builder)), "out") }
    })
}

/// Frees a builder that was not connected, or does nothing for NULL.
///
/// # Safety
///
/// `builder` is null, or a builder that was neither connected nor freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_free(builder: *mut netfold_builder) {
    if !builder.is_null() {
        // SAFETY: made by Box::into_raw, and freed once by this function's contract.
        drop(unsafe { Box::from_raw(builder) });
    }
}

/// Applies `edit` to the builder, which is unusable after a failure.
///
/// # Safety
///
/// `builder` is null or a builder that was not freed, and is used by nothing else meanwhile.
pub(crate) unsafe fn edit(
    builder: *mut netfold_builder,
    edit: impl FnOnce(&mut netfold_builder, Builder) -> Result<Builder, Failure>,
) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let builder = unsafe { exclusive(builder, "builder") }?;
        let old = builder
            .builder
            .take()
            .ok_or_else(|| Failure::argument("a setter of the builder failed before; free it"))?;
        builder.builder = Some(edit(builder, old)?);
        Ok(())
    })
}

/// Name of the job, 1 to 64 bytes of UTF-8, the same on all ranks.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_job(
    builder: *mut netfold_builder,
    name: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.job(text(name, "name")?))) }
}

/// Makes this a group of the job: some of its workers, with ranks and a world size of their own. The name has 1 to 64 bytes of UTF-8 without a
/// slash, the same on all ranks of the group, and is unique in the job. A controller lists a group under its job and ends it with its job.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_group(
    builder: *mut netfold_builder,
    name: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.group(text(name, "name")?))) }
}

/// This worker's rank, from 0, each once.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_rank(
    builder: *mut netfold_builder,
    rank: u16,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe {
        edit(builder, |all, builder| {
            all.rank = Some(rank);
            Ok(builder.rank(rank))
        })
    }
}

/// Number of workers, the same on all ranks.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_world_size(
    builder: *mut netfold_builder,
    workers: u16,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe {
        edit(builder, |all, builder| {
            all.world = Some(workers);
            Ok(builder.world_size(workers))
        })
    }
}

/// Writes the netfold_mode of a name, such as "bfp16", to `*out`.
///
/// # Safety
///
/// `name` is null or a C string. `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_mode_from_name(name: *const c_char, out: *mut i32) -> netfold_result {
    guard(|| {
        // SAFETY: by this function's contract.
        let mode: Mode = unsafe { text(name, "name") }?.parse().map_err(Failure::argument)?;
        // SAFETY: by this function's contract.
        unsafe { put(out, i32::from(mode.code()), "out") }
    })
}

/// How floating-point tensors are encoded (a netfold_mode), the same on all ranks. The default is NETFOLD_MODE_BFP32.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_mode(
    builder: *mut netfold_builder,
    mode: i32,
) -> netfold_result {
    let known = u8::try_from(mode).ok().and_then(Mode::from_code);
    let mode = known.ok_or_else(|| Failure::argument(format!("{mode} is not a mode; give a netfold_mode")));
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.mode(mode?))) }
}

/// How floating-point numbers are rounded (a netfold_rounding) in modes of block floating point. The default is
/// NETFOLD_ROUNDING_NEAREST. `seed` matters to NETFOLD_ROUNDING_STOCHASTIC alone: the same seed gives the same results; ranks
/// may have the same one, or differ.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_rounding(
    builder: *mut netfold_builder,
    rounding: i32,
    seed: u64,
) -> netfold_result {
    let rounding = match rounding {
        0 => Ok(Rounding::Nearest),
        1 => Ok(Rounding::Stochastic { seed }),
        _ => Err(Failure::argument(format!("{rounding} is not a rounding; give a netfold_rounding"))),
    };
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.rounding(rounding?))) }
}

/// The fraction of each rank's contributions, from 0 to 1, that sums and averages of floating-point numbers may lack, the same on
/// all ranks: queues in the network may then trim packets instead of dropping them. With `rescale` a sum that lacks contributions is
/// multiplied by the number of ranks over the number of contributors; else what is missing counts as zero. With `without_stragglers`
/// ranks also complete sums without stragglers' contributions. Every rank receives the same bits. netfold_work_left_out returns how
/// much was missing. The default is 0: every contribution is in every sum.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_tolerance(
    builder: *mut netfold_builder,
    tolerance: f64,
    rescale: bool,
    without_stragglers: bool,
) -> netfold_result {
    let tolerance = parse_tolerance(tolerance, rescale, without_stragglers);
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.tolerance(tolerance?))) }
}

/// Makes the job confidential: switches, and observers of the network, see masked lanes only. `file` holds the group key as 64
/// hexadecimal digits (`netfold group-key` creates one), the same on all ranks, and must not be accessible to other users. It is read now.
/// Needs a rendezvous or an exchange, the mode i32, bfp32 or bfp16, and no tolerance. Ranks with another key are
/// NETFOLD_RESULT_MISMATCH at netfold_builder_connect, with the first of them as netfold_last_error_peer.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `file` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_confidential(
    builder: *mut netfold_builder,
    file: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe {
        edit(builder, |_, builder| {
            let key = GroupKey::from_file(text(file, "file")?).map_err(netfold::Error::from)?;
            Ok(builder.confidential(key))
        })
    }
}

/// Has packets between workers and switches authenticated, or not, the default. The same on all ranks. Needs a control session over TLS
/// or on this machine; switches that do not authenticate packets refuse at netfold_builder_connect.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_authenticated(
    builder: *mut netfold_builder,
    authenticated: bool,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.authenticated(authenticated))) }
}

/// Has CUDA devices quantise the sums and averages of floats in their memory (netfold_comm_start_cuda), or not, the default: in mode bfp16 half as many
/// bytes cross the bus. The same on all ranks. Needs NETFOLD_MODE_BFP16 or NETFOLD_MODE_BFP32, no tolerance, and at netfold_builder_connect
/// devices of compute capability 7.0 or later.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_device_quantization(
    builder: *mut netfold_builder,
    on: bool,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.device_quantization(on))) }
}

/// Number of the switch's slots to request, a power of two: the chunks in flight. The default is 256.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_slots(
    builder: *mut netfold_builder,
    slots: u32,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.slots(slots))) }
}

/// Classes of operations, a power of two, 1 to 16, the same on all ranks: through a switch, what is started in a higher class (see
/// netfold_comm_start_in_class) overtakes what was started before in a lower one. The default is 1.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_classes(
    builder: *mut netfold_builder,
    classes: u8,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.classes(classes))) }
}

/// Importance classes of chunks of floating-point numbers, 1 to 8: packets of larger numbers are of higher classes, so that queues that
/// distinguish classes send them first, and may trim those of smaller numbers first. Sums are the same. The default is 1.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_importance(
    builder: *mut netfold_builder,
    classes: u8,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.importance(classes))) }
}

/// Address of the switch's control port, "HOST:PORT". Names are resolved now.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_switch(
    builder: *mut netfold_builder,
    address: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe {
        edit(builder, |all, builder| {
            let address = text(address, "address")?;
            let builder = builder.switch(address.to_owned())?;
            all.switch = Some(address.to_owned());
            Ok(builder)
        })
    }
}

/// Address of a controller's port for workers, "HOST:PORT", instead of a switch's control port; the controller places jobs on its switches. It may
/// restart while the job runs, and ranks that are linked (by an exchange or a rendezvous) and have lost their switch rejoin.
/// Names are resolved now.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_controller(
    builder: *mut netfold_builder,
    address: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe {
        edit(builder, |all, builder| {
            let address = text(address, "address")?;
            let builder = builder.controller(address.to_owned())?;
            all.switch = Some(address.to_owned());
            Ok(builder)
        })
    }
}

/// Uses TLS to the controller: its certificate must be signed by an authority in this file (PEM) and be for the host in
/// the controller's address. The file is read for each connection. Sets nothing for a switch's own port, which has no TLS.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `file` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_controller_ca(
    builder: *mut netfold_builder,
    file: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.controller_ca(text(file, "file")?))) }
}

/// The job's tenant and its token, from the controller's administrator.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `name` and `token` are null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_tenant(
    builder: *mut netfold_builder,
    name: *const c_char,
    token: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.tenant(text(name, "name")?, text(token, "token")?))) }
}

/// Number of trees of switches for the job, 1 to 8, the same on all ranks. The default is 1.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_trees(
    builder: *mut netfold_builder,
    trees: u8,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.trees(trees))) }
}

/// How long to wait for the other ranks to join, in milliseconds. The default is 60,000.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_join_timeout(
    builder: *mut netfold_builder,
    timeout_ms: u64,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.join_timeout(Duration::from_millis(timeout_ms)))) }
}

/// How long an operation may make no progress before the job fails, in milliseconds. The default is 60,000.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_stall_timeout(
    builder: *mut netfold_builder,
    timeout_ms: u64,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.stall_timeout(Duration::from_millis(timeout_ms)))) }
}

/// How long a thread that waits for results polls for packets before it sleeps, in microseconds. The default is 0. Polling takes a whole core
/// while results are awaited: it is for hosts with a core to spare for each rank.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_busy_poll(
    builder: *mut netfold_builder,
    time_us: u64,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.busy_poll(Duration::from_micros(time_us)))) }
}

/// After how long without an operation the ranks give the slots of their switch back, in milliseconds, to request them again for the next
/// operation; 0 for never. The default is 10 s for groups, and never for jobs.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_idle_timeout(
    builder: *mut netfold_builder,
    timeout_ms: u64,
) -> netfold_result {
    let timeout = if timeout_ms == 0 { Duration::MAX } else { Duration::from_millis(timeout_ms) };
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.idle_timeout(timeout))) }
}

/// Address at which rank 0 listens and where the others find it, "HOST:PORT", the same on all ranks. With it (or an exchange)
/// ranks of one host reduce in shared memory, a switch is optional, hosts do everything that a switch cannot, and the job survives the loss
/// of a switch. Names are resolved now.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_rendezvous(
    builder: *mut netfold_builder,
    address: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.rendezvous(text(address, "address")?.to_owned())?)) }
}

/// Ranks find each other by `gather`, over a channel that they have already, instead of a rendezvous. Every
/// rank calls it equally often while it connects, and each time with the same `len`, unless one fails: `gather` must end in
/// bounded time then, too. `context` is passed on as it is.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `gather` is null, or behaves as netfold_all_gather_fn requires, with
/// `context`, until netfold_builder_connect or netfold_builder_free returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_exchange(
    builder: *mut netfold_builder,
    gather: netfold_all_gather_fn,
    context: *mut c_void,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe {
        edit(builder, |all, builder| {
            let call = gather.ok_or_else(|| Failure::null("gather"))?;
            all.gather = Some(Gather { call, context });
            Ok(builder)
        })
    }
}

/// This host's IP address, at which the other ranks can reach it: needed with an exchange, ranks on several hosts, and no switch.
/// The default is the address from which this host reaches the switch, or the loopback's.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `address` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_local_ip(
    builder: *mut netfold_builder,
    address: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe {
        edit(builder, |all, builder| {
            let address = text(address, "address")?;
            let ip = address.parse();
            all.local_ip =
                Some(ip.map_err(|_| Failure::argument(format!("{address:?} is not an IP address")))?);
            Ok(builder)
        })
    }
}

/// Names this rank's host: ranks with the same name share memory. The default is the system's identity, or
/// the variable NETFOLD_HOST_ID.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone; `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_host(
    builder: *mut netfold_builder,
    name: *const c_char,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.host(text(name, "name")?))) }
}

/// Whether ranks of one host reduce in shared memory first, the same on all ranks. The default is true.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_shared_memory(
    builder: *mut netfold_builder,
    on: bool,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.shared_memory(on))) }
}

/// Whether hosts do by themselves, in a ring over TCP, what a switch refuses or cannot complete, the same on all ranks. The
/// default is true; without, it is an error.
///
/// # Safety
///
/// `builder` is null or a builder in use by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_set_fall_back(
    builder: *mut netfold_builder,
    on: bool,
) -> netfold_result {
    // SAFETY: by this function's contract.
    unsafe { edit(builder, |_, builder| Ok(builder.fall_back(on))) }
}

/// Joins the job, waits for all ranks, and writes the communicator to `*out`. Frees the builder in any case.
///
/// # Safety
///
/// `builder` is null, or a builder that was neither connected nor freed; `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netfold_builder_connect(
    builder: *mut netfold_builder,
    out: *mut *mut netfold_comm,
) -> netfold_result {
    guard(|| {
        if builder.is_null() {
            return Err(Failure::null("builder"));
        }
        // SAFETY: made by Box::into_raw, and consumed once by this function's contract.
        let builder = unsafe { Box::from_raw(builder) };
        if out.is_null() {
            return Err(Failure::null("out"));
        }
        let comm = Box::into_raw(Box::new(netfold_comm(connect(*builder)?, None)));
        // SAFETY: by this function's contract.
        unsafe { put(out, comm, "out") }
    })
}

fn connect(all: netfold_builder) -> Result<Communicator, Failure> {
    let mut builder =
        all.builder.ok_or_else(|| Failure::argument("a setter of the builder failed before"))?;
    if let Some(gather) = all.gather {
        let rank = all.rank.ok_or_else(|| Failure::argument("set the rank: an exchange needs it"))?;
        let world = all.world.ok_or_else(|| Failure::argument("set the world size: an exchange needs it"))?;
        let local_ip = all.local_ip.or_else(|| ip_towards(all.switch.as_deref()?));
        builder = builder.exchange(Box::new(CallerExchange::new(rank, world, gather, local_ip)?));
    }
    Ok(builder.connect()?)
}
