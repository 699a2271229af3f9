//! Devices: attached and detached while DPDK runs.
#![expect(unsafe_code, reason = "DPDK is a foreign library")]

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys;
use netfold_io::link::ARRIVALS;

use crate::buffers::ring_slot;
use crate::eal::{self, Eal};
use crate::interface_monitor::InterfaceMonitor;
use crate::port::HEADER_LEN;
use crate::{DpdkError, Spec};

/// A device that DPDK has attached; detached when dropped.
#[derive(Debug)]
pub struct Device {
    id: u16,
    name: String,
    raw: NonNull<sys::rte_device>,
    eal: Eal,
    watch: Option<InterfaceMonitor>,
    _rings: Option<Arc<Rings>>,
}

// SAFETY: devices are attached and removed from any thread, one at a time.
unsafe impl Send for Device {}
// SAFETY: as above; everything else reads.
unsafe impl Sync for Device {}

/// The capabilities of a device.
pub(crate) struct Abilities {
    pub(crate) queues_max: u16,
    pub(crate) mtu: (u16, u16),
    /// Whether the driver reports a maximum packet length. Others carry any length.
    pub(crate) states_mtu: bool,
    pub(crate) rss: u64,
    pub(crate) rx_offloads: u64,
    pub(crate) tx_offloads: u64,
    pub(crate) driver: String,
}

impl Device {
    /// Attaches the device of a spec. Interfaces of the kernel (`net_af_packet`) are looked up, and tap interfaces made, in the
    /// network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// [`DpdkError::Privilege`], [`DpdkError::Driver`], [`DpdkError::Device`].
    pub fn attach(eal: &Eal, spec: &Spec) -> Result<Self, DpdkError> {
        let arguments = unique(spec);
        let name = arguments.split(',').next().unwrap_or_default().to_owned();
        privileged(&name)?;
        let wrong = |why| DpdkError::Spec { spec: spec.device.clone(), why };
        let text = CString::new(arguments.as_str()).map_err(|_| wrong("it contains a zero byte"))?;
        eal::take_log();
        let alone = eal::one_at_a_time();
        // SAFETY: DPDK runs, and the string ends with a zero and is alive through the call.
        let rc = unsafe { sys::rte_dev_probe(text.as_ptr()) };
        drop(alone);
        if rc < 0 {
            let log = eal::take_log();
            // DPDK reports "Bad address" for a name that no bus knows.
            return Err(match -rc {
                EFAULT => DpdkError::Driver { device: arguments, log },
                _ => DpdkError::Device { device: arguments, log, source: eal::error(rc) },
            });
        }
        let interface = arguments.split(',').find_map(|argument| argument.strip_prefix("iface="));
        let watch = interface.filter(|_| name.starts_with("net_af_")).and_then(InterfaceMonitor::new);
        let mut device = Self::named(eal, name, None)?;
        device.watch = watch;
        Ok(device)
    }

    /// The port that has this name.
    fn named(eal: &Eal, name: String, rings: Option<Arc<Rings>>) -> Result<Self, DpdkError> {
        let failed = |rc, call| DpdkError::Port {
            device: name.clone(),
            call,
            log: eal::take_log(),
            source: eal::error(rc),
        };
        let text = CString::new(name.as_str())
            .map_err(|_| DpdkError::Spec { spec: name.clone(), why: "it contains a zero byte" })?;
        let mut id = 0;
        // SAFETY: the string ends with a zero, and one number is written.
        let rc = unsafe { sys::rte_eth_dev_get_port_by_name(text.as_ptr(), &mut id) };
        if rc < 0 {
            return Err(failed(rc, "rte_eth_dev_get_port_by_name"));
        }
        let info = info(id).map_err(|rc| failed(rc, "rte_eth_dev_info_get"))?;
        let raw = NonNull::new(info.device).ok_or_else(|| failed(-ENODEV, "rte_eth_dev_info_get"))?;
        Ok(Self { id, name, raw, eal: eal.clone(), watch: None, _rings: rings })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The most queues that it has in both directions.
    ///
    /// # Errors
    ///
    /// [`DpdkError::Port`].
    pub fn queues_max(&self) -> Result<u16, DpdkError> {
        Ok(self.abilities()?.queues_max)
    }

    /// Whether the kernel distributes arrivals among all of its queues, used or not.
    pub(crate) fn deals_to_all(&self) -> bool {
        self.name.starts_with("net_af_packet")
    }

    /// Whether the interface that it depends on has been removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.watch.as_ref().is_some_and(InterfaceMonitor::is_removed)
    }

    pub(crate) fn eal(&self) -> &Eal {
        &self.eal
    }

    /// DPDK's number of its port.
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    pub(crate) fn failed(&self, call: &'static str, rc: i32) -> DpdkError {
        DpdkError::Port { device: self.name.clone(), call, log: eal::take_log(), source: eal::error(rc) }
    }

    pub(crate) fn abilities(&self) -> Result<Abilities, DpdkError> {
        let info = info(self.id).map_err(|rc| self.failed("rte_eth_dev_info_get", rc))?;
        // SAFETY: DPDK's drivers have constant names that end with a zero.
        let driver = unsafe { std::ffi::CStr::from_ptr(info.driver_name) };
        Ok(Abilities {
            queues_max: info.max_rx_queues.min(info.max_tx_queues),
            mtu: (info.min_mtu, info.max_mtu),
            states_mtu: info.max_mtu != u16::MAX || info.max_rx_pktlen > u32::from(u16::MAX),
            rss: info.flow_type_rss_offloads,
            rx_offloads: info.rx_offload_capa,
            tx_offloads: info.tx_offload_capa,
            driver: driver.to_string_lossy().into_owned(),
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _alone = eal::one_at_a_time();
        // SAFETY: the device was attached and not removed; its port is closed, since a `Port` owns its device and closes first.
        unsafe { sys::rte_dev_remove(self.raw.as_ptr()) };
        eal::take_log();
    }
}

const EFAULT: i32 = 14;
const ENODEV: i32 = 19;

fn info(id: u16) -> Result<sys::rte_eth_dev_info, i32> {
    let mut info = MaybeUninit::<sys::rte_eth_dev_info>::zeroed();
    // SAFETY: one such structure is written; a number that no port has is an error.
    let rc = unsafe { sys::rte_eth_dev_info_get(id, info.as_mut_ptr()) };
    // SAFETY: numbers and pointers, for which zero is a value, and now written by DPDK.
    if rc == 0 { Ok(unsafe { info.assume_init() }) } else { Err(rc) }
}

/// Default size of a packet socket's ring in bytes: half of what others have, because it has two, for arrivals and for what is
/// sent. The driver's default is a quarter of that.
const RING_BYTES: usize = ARRIVALS << 10;
/// Least number of frames of such a ring.
const RING_FRAMES_MIN: usize = 512;

/// The device and its arguments: virtual devices without a number get one, and packet sockets as many pairs of queues and as long
/// frames in their rings as requested, and rings for the windows of several workers.
fn unique(spec: &Spec) -> String {
    static ATTACHED: AtomicU64 = AtomicU64::new(1000);
    let (name, rest) = spec.device.split_once(',').unwrap_or((&spec.device, ""));
    let mut text = name.to_owned();
    if name.starts_with("net_") && !name.ends_with(|last: char| last.is_ascii_digit()) {
        text += &ATTACHED.fetch_add(1, Ordering::Relaxed).to_string();
    }
    if !rest.is_empty() {
        text = text + "," + rest;
    }
    if name.starts_with("net_af_packet") {
        if let Some(queues) = spec.queues.filter(|queues| *queues > 1 && !rest.contains("qpairs=")) {
            text += &format!(",qpairs={queues}");
        }
        let slot = ring_slot(usize::from(spec.mtu.unwrap_or(0)) + HEADER_LEN);
        if !["framesz=", "blocksz="].iter().any(|key| rest.contains(key)) {
            if slot > 2048 {
                text += &format!(",framesz={slot},blocksz={slot}");
            }
            if !rest.contains("framecnt=") {
                text += &format!(",framecnt={}", (RING_BYTES / slot).max(RING_FRAMES_MIN));
            }
        }
    }
    text
}

/// The capabilities that drivers need.
const CAPABILITIES: &[(&str, &str, u32)] = &[
    ("net_af_packet", "CAP_NET_RAW", 13),
    ("net_tap", "CAP_NET_ADMIN", 12),
    ("net_af_xdp", "CAP_NET_ADMIN", 12),
];

/// Checks the capabilities of this thread before a driver fails for lack of one with an error of its own.
fn privileged(name: &str) -> Result<(), DpdkError> {
    let Some((_, capability, bit)) = CAPABILITIES.iter().find(|(driver, _, _)| name.starts_with(driver))
    else {
        return Ok(());
    };
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    match effective {
        Some(bits) if bits >> bit & 1 == 0 => Err(DpdkError::Privilege { device: name.into(), capability }),
        _ => Ok(()),
    }
}

/// Rings between two devices. Packets left in them are freed when both are dropped.
#[derive(Debug)]
struct Rings(Vec<NonNull<sys::rte_ring>>);

// SAFETY: DPDK's rings are made to be used from several threads; here they are only emptied, by the last owner.
unsafe impl Send for Rings {}
// SAFETY: as above.
unsafe impl Sync for Rings {}

impl Drop for Rings {
    fn drop(&mut self) {
        for ring in &self.0 {
            loop {
                // SAFETY: the ring is alive, and both devices that used it are dropped.
                let mut left = unsafe { sys::netfold_ring_take(ring.as_ptr()) };
                if left.is_null() {
                    break;
                }
                // SAFETY: a packet in a ring belongs to the ring, and it was just taken out.
                unsafe { sys::rte_pktmbuf_free_bulk(&mut left, 1) };
            }
            // SAFETY: nothing else refers to the ring any more.
            unsafe { sys::rte_ring_free(ring.as_ptr()) };
        }
    }
}

/// Two devices back to back (`net_ring`): what one sends, the other receives. `len` frames fit in each direction, a power of two
/// less one.
///
/// # Errors
///
/// [`DpdkError::Memory`], [`DpdkError::Port`].
pub fn rings(eal: &Eal, len: u32) -> Result<(Device, Device), DpdkError> {
    ring_queues(eal, len, 1)
}

/// The same with several queues: what one sends through a queue, the other receives from the queue of that number.
///
/// # Errors
///
/// As [`rings`]; the driver takes up to 16 queues.
pub fn ring_queues(eal: &Eal, len: u32, queues: u16) -> Result<(Device, Device), DpdkError> {
    static PAIRS: AtomicU64 = AtomicU64::new(0);
    let pair = PAIRS.fetch_add(1, Ordering::Relaxed);
    let ring = |side: char, queue: u16| {
        let memory = || DpdkError::Memory { what: "a ring", log: eal::take_log() };
        let name = CString::new(format!("netfold-{pair}{side}{queue}")).map_err(|_| memory())?;
        let size = len.saturating_add(1).next_power_of_two();
        // A queue has one thread at each end: one producer, one consumer.
        let flags = sys::RING_F_SP_ENQ | sys::RING_F_SC_DEQ;
        // SAFETY: DPDK runs, and the name ends with a zero and is copied.
        NonNull::new(unsafe { sys::rte_ring_create(name.as_ptr(), size, -1, flags) }).ok_or_else(memory)
    };
    let mut rings = Rings(Vec::new());
    for side in ['a', 'b'] {
        for queue in 0..queues {
            rings.0.push(ring(side, queue)?);
        }
    }
    let rings = Arc::new(rings);
    let device = |side: char| {
        let short = format!("{pair}{side}");
        let name = format!("net_ring_{short}");
        let failed = |rc| DpdkError::Port {
            device: name.clone(),
            call: "rte_eth_from_rings",
            log: eal::take_log(),
            source: eal::error(rc),
        };
        let short = CString::new(short).map_err(|_| failed(-ENODEV))?;
        let raw: Vec<_> = rings.0.iter().map(|ring| ring.as_ptr()).collect();
        let (receive, send) = raw.split_at(usize::from(queues));
        let (receive, send) = if side == 'a' { (receive, send) } else { (send, receive) };
        let count = u32::from(queues);
        // SAFETY: so many rings of each kind, which live as long as `rings`, of which the device has a reference; names and pointers
        // are copied.
        let rc = unsafe {
            sys::rte_eth_from_rings(short.as_ptr(), receive.as_ptr(), count, send.as_ptr(), count, 0)
        };
        if rc < 0 { Err(failed(rc)) } else { Device::named(eal, name.clone(), Some(Arc::clone(&rings))) }
    };
    Ok((device('a')?, device('b')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_packet_sockets_hold_what_workers_have_under_way() {
        for (spec, arguments) in [
            ("net_af_packet7,iface=a", "net_af_packet7,iface=a,framecnt=2048"),
            (
                "net_af_packet7,iface=a mtu=9000",
                "net_af_packet7,iface=a,framesz=12288,blocksz=12288,framecnt=512",
            ),
            (
                "net_af_packet7,iface=a mtu=4000",
                "net_af_packet7,iface=a,framesz=4096,blocksz=4096,framecnt=1024",
            ),
            ("net_af_packet7,iface=a,framecnt=64 queues=2", "net_af_packet7,iface=a,framecnt=64,qpairs=2"),
            ("net_af_packet7,iface=a,blocksz=8192", "net_af_packet7,iface=a,blocksz=8192"),
            ("net_tap7,iface=a mtu=9000", "net_tap7,iface=a"),
        ] {
            assert_eq!(unique(&spec.parse().expect("a device")), arguments, "{spec}");
        }
    }
}
