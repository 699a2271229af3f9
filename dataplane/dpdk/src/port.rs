//! Ports: devices that are configured and running, and their queues.
#![expect(unsafe_code, reason = "DPDK is a foreign library")]

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::sys;

use crate::device::{Abilities, Device};
use crate::dispatch::TRANSFERS_MAX;
use crate::{DpdkError, Outbox, Pool, eal};

/// Bytes of an Ethernet header.
pub(crate) const HEADER_LEN: usize = 14;

/// The configuration of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortConfig {
    /// Bytes of a packet without its Ethernet header; `None` for what the device has now.
    pub mtu: Option<u16>,
    /// Queues in each direction.
    pub queues: u16,
    /// Frames that fit a queue in each direction; the device may make it more or less.
    pub descriptors: u16,
    /// Threads that share the port ([`Dpdk::share`](crate::Dpdk::share)), which takes memory for packets in transfer.
    pub threads: u16,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self { mtu: None, queues: 1, descriptors: 1024, threads: 1 }
    }
}

impl PortConfig {
    /// The number of buffers needed, so that no queue, thread or lane can exhaust another's.
    fn buffers(&self) -> u32 {
        // The capacity of both directions of a queue, a thread's cache and frames to send, and packets in transfer to it.
        let (queues, threads) = (u32::from(self.queues), u32::from(self.threads.max(self.queues)));
        let passing = if self.threads > 1 { u32::from(self.threads) * TRANSFERS_MAX } else { 0 };
        queues * 2 * u32::from(self.descriptors) + threads * 1024 + passing
    }
}

/// How the device chooses the queue of an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steering {
    /// There is one queue.
    One,
    /// The device's hash over addresses and UDP ports (RSS): one source port, one queue.
    Hash,
    /// The device's own rule, which it does not report.
    Device,
}

/// Whether there is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Whether packets can pass.
    pub up: bool,
    /// Speed in Mbit/s; `u32::MAX` where the device does not know.
    pub speed_mbps: u32,
}

/// The counters of a port since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped because a receive queue was full.
    pub rx_missed: u64,
    /// Packets received with errors.
    pub rx_errors: u64,
    /// Packets for which there was no buffer.
    pub rx_no_buffer: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

/// A device that is running. Stopped and closed when its last queue is dropped.
#[derive(Debug)]
pub struct Port {
    device: Device,
    pool: Arc<Pool>,
    mac: [u8; 6],
    mtu: u16,
    driver: String,
    steering: Steering,
    interrupts: bool,
    counts_interrupts: bool,
}

impl Port {
    /// Configures and starts a device. Returns it with its queues.
    ///
    /// # Errors
    ///
    /// [`DpdkError::Queues`], [`DpdkError::Mtu`], [`DpdkError::Memory`], [`DpdkError::Port`].
    pub fn start(device: Device, config: &PortConfig) -> Result<(Arc<Self>, Vec<Queue>), DpdkError> {
        let abilities = device.abilities()?;
        let name = || device.name().to_owned();
        if config.queues == 0 || config.queues > abilities.queues_max {
            return Err(DpdkError::Queues {
                device: name(),
                asked: config.queues,
                max: abilities.queues_max,
            });
        }
        let mut mtu = config.mtu.unwrap_or(0);
        if config.mtu.is_none() {
            // SAFETY: one number is written.
            let rc = unsafe { sys::rte_eth_dev_get_mtu(device.id(), &mut mtu) };
            if rc < 0 {
                return Err(device.failed("rte_eth_dev_get_mtu", rc));
            }
        }
        let (min, max) = abilities.mtu;
        if mtu < min || mtu > max {
            return Err(DpdkError::Mtu { device: name(), asked: mtu, min, max });
        }
        let mut mac = sys::rte_ether_addr { addr_bytes: [0; 6] };
        // SAFETY: one address is written.
        let rc = unsafe { sys::rte_eth_macaddr_get(device.id(), &mut mac) };
        if rc < 0 {
            return Err(device.failed("rte_eth_macaddr_get", rc));
        }
        let frame_len_max = usize::from(mtu) + HEADER_LEN;
        let pool = Pool::new(device.eal(), config.buffers(), frame_len_max)?;
        // Cards have a colon in their address. Virtual drivers without interrupts must not be configured twice.
        let interrupts = device.name().contains(':') || abilities.driver == "net_tap";
        let id = device.id();
        let mut port = Self {
            device,
            pool,
            mac: if mac.addr_bytes == [0; 6] { own_address(id) } else { mac.addr_bytes },
            mtu,
            steering: abilities.steering(config.queues),
            interrupts,
            counts_interrupts: false,
            driver: abilities.driver.clone(),
        };
        let started = port.bring_up(config, &abilities);
        if port.interrupts && started.is_err() {
            // Only an attempt shows whether a card's driver supports interrupts.
            port.interrupts = false;
            port.bring_up(config, &abilities)?;
        } else {
            started?;
        }
        port.counts_interrupts = port.interrupts && port.interrupt(0).is_some_and(is_event);
        let port = Arc::new(port);
        let queues = (0..config.queues).map(|index| Queue { port: Arc::clone(&port), index });
        let queues = queues.collect();
        Ok((port, queues))
    }

    fn bring_up(&self, config: &PortConfig, abilities: &Abilities) -> Result<(), DpdkError> {
        let id = self.device.id();
        let checked = |call, rc| if rc < 0 { Err(self.device.failed(call, rc)) } else { Ok(()) };
        // SAFETY: a structure of numbers and pointers, for which zero is a value and means DPDK's default.
        let mut conf: sys::rte_eth_conf = unsafe { MaybeUninit::zeroed().assume_init() };
        if abilities.states_mtu {
            conf.rxmode.mtu = u32::from(self.mtu);
        }
        if self.steering == Steering::Hash {
            conf.rxmode.mq_mode = sys::RTE_ETH_MQ_RX_RSS;
            conf.rx_adv_conf.rss_conf.rss_hf = abilities.rss & sys::NETFOLD_RSS_UDP;
        }
        conf.rxmode.offloads = abilities.rx_offloads & sys::NETFOLD_RX_SCATTER;
        conf.txmode.offloads = abilities.tx_offloads & sys::NETFOLD_TX_SEGMENTS;
        conf.intr_conf.set_rxq(u32::from(self.interrupts));
        // SAFETY: the port is stopped: it was just attached, or bringing it up has failed.
        let rc = unsafe { sys::rte_eth_dev_configure(id, config.queues, config.queues, &conf) };
        checked("rte_eth_dev_configure", rc)?;
        let (mut receive, mut send) = (config.descriptors, config.descriptors);
        // SAFETY: two numbers are read and written.
        let rc = unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, &mut receive, &mut send) };
        checked("rte_eth_dev_adjust_nb_rx_tx_desc", rc)?;
        // SAFETY: no pointer.
        let socket = unsafe { sys::rte_eth_dev_socket_id(id) } as u32;
        for queue in 0..config.queues {
            // SAFETY: the port is configured with that many queues; its pool lives as long as the port, and no configuration
            // means the driver's own.
            let rc = unsafe {
                sys::rte_eth_rx_queue_setup(id, queue, receive, socket, std::ptr::null(), self.pool.raw())
            };
            checked("rte_eth_rx_queue_setup", rc)?;
            // SAFETY: as above.
            let rc = unsafe { sys::rte_eth_tx_queue_setup(id, queue, send, socket, std::ptr::null()) };
            checked("rte_eth_tx_queue_setup", rc)?;
        }
        // SAFETY: the port is configured and has its queues.
        checked("rte_eth_dev_start", unsafe { sys::rte_eth_dev_start(id) })?;
        if self.interrupts && self.interrupt(0).is_none() {
            // SAFETY: the port runs, and no queue of it has been given out.
            unsafe { sys::rte_eth_dev_stop(id) };
            return Err(self.device.failed("rte_eth_dev_rx_intr_ctl_q_get_fd", -1));
        }
        Ok(())
    }

    /// The descriptor that is readable when a queue has something, where the device has one.
    fn interrupt(&self, queue: u16) -> Option<BorrowedFd<'_>> {
        // SAFETY: no pointer; a queue without one is an error.
        let fd = unsafe { sys::rte_eth_dev_rx_intr_ctl_q_get_fd(self.device.id(), queue) };
        // SAFETY: the descriptor is the device's, which lives as long as this is borrowed.
        (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its driver's name.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Its Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Bytes of a packet without its Ethernet header.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// How the device chooses the queue of an arriving packet.
    #[must_use]
    pub fn steering(&self) -> Steering {
        self.steering
    }

    /// The buffers that it receives into.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Whether there is a link.
    #[must_use]
    pub fn link_state(&self) -> LinkState {
        let mut link = MaybeUninit::<sys::rte_eth_link>::zeroed();
        // SAFETY: one such structure is written.
        unsafe { sys::rte_eth_link_get_nowait(self.device.id(), link.as_mut_ptr()) };
        // SAFETY: numbers, for which zero is a value.
        let link = unsafe { link.assume_init() };
        LinkState { up: link.link_status() != 0, speed_mbps: link.link_speed }
    }

    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        let mut stats = MaybeUninit::<sys::rte_eth_stats>::zeroed();
        // SAFETY: one such structure is written.
        unsafe { sys::rte_eth_stats_get(self.device.id(), stats.as_mut_ptr()) };
        // SAFETY: numbers, for which zero is a value.
        let stats = unsafe { stats.assume_init() };
        PortStats {
            rx_packets: stats.ipackets,
            tx_packets: stats.opackets,
            rx_missed: stats.imissed,
            rx_errors: stats.ierrors,
            rx_no_buffer: stats.rx_nombuf,
            tx_errors: stats.oerrors,
        }
    }
}

/// A rule of the device: datagrams to a port arrive at one queue. Removed when dropped, and with the process.
#[derive(Debug)]
pub(crate) struct Rule {
    raw: NonNull<sys::rte_flow>,
    port: Arc<Port>,
}

// SAFETY: DPDK makes and removes rules from any thread, under a lock of its own where the driver has none.
unsafe impl Send for Rule {}

impl Rule {
    /// Directs datagrams to a UDP port to `queue` from now on, where the device supports that.
    pub(crate) fn new(queue: &Queue, udp_port: u16) -> Option<Self> {
        let port = Arc::clone(&queue.port);
        // SAFETY: the port runs and has this queue; the structures that name the rule are copied.
        let raw = NonNull::new(unsafe { sys::netfold_steer(port.device.id(), udp_port, queue.index) });
        eal::take_log();
        raw.map(|raw| Self { raw, port })
    }
}

impl Drop for Rule {
    fn drop(&mut self) {
        // SAFETY: the rule is this value's, and its port, which it keeps, runs.
        unsafe { sys::netfold_unsteer(self.port.device.id(), self.raw.as_ptr()) };
        eal::take_log();
    }
}

impl Abilities {
    fn steering(&self, queues: u16) -> Steering {
        match queues {
            1 => Steering::One,
            _ if self.rss & sys::NETFOLD_RSS_UDP != 0 => Steering::Hash,
            _ => Steering::Device,
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _alone = eal::one_at_a_time();
        if self.driver == "net_memif" {
            // When the other end disconnects, the driver tears this one down on a thread of DPDK's, and must not see it closed meanwhile.
            // SAFETY: the port is this value's; no queue of it is left, since each keeps its port.
            unsafe { sys::netfold_close_there(self.device.id()) };
            eal::take_log();
            return;
        }
        // SAFETY: the port is this value's; no queue of it is left, since each keeps its port.
        unsafe { sys::rte_eth_dev_stop(self.device.id()) };
        // SAFETY: as above, and stopped.
        unsafe { sys::rte_eth_dev_close(self.device.id()) };
        eal::take_log();
    }
}

/// One queue of a port, in each direction. There is one such value for each, and only its owner uses the queue.
#[derive(Debug)]
pub struct Queue {
    port: Arc<Port>,
    index: u16,
}

impl Queue {
    /// Its port.
    #[must_use]
    pub fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// Its number.
    #[must_use]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// An outbox for this queue, with buffers of the port's pool.
    #[must_use]
    pub fn outbox(&self, queued_max: usize) -> Outbox {
        Outbox::new(Arc::clone(&self.port.pool), queued_max)
    }

    /// Writes received packets to the front of `buffers`, and returns their number. The caller owns them.
    pub(crate) fn receive(&mut self, buffers: &mut [*mut sys::rte_mbuf]) -> usize {
        eal::register_thread();
        let (id, count) = (self.port.device.id(), buffers.len().min(usize::from(u16::MAX)) as u16);
        // SAFETY: the port runs and has this queue, which nothing else uses; at most `count` pointers are written.
        usize::from(unsafe { sys::netfold_rx_burst(id, self.index, buffers.as_mut_ptr(), count) })
    }

    /// Sends packets, which the caller owns, and returns how many were taken. The caller no longer owns those.
    pub(crate) fn send(&mut self, buffers: &mut [*mut sys::rte_mbuf]) -> usize {
        eal::register_thread();
        let (id, count) = (self.port.device.id(), buffers.len().min(usize::from(u16::MAX)) as u16);
        // SAFETY: the port runs and has this queue, which nothing else uses; `count` pointers to packets are read.
        usize::from(unsafe { sys::netfold_tx_burst(id, self.index, buffers.as_mut_ptr(), count) })
    }

    /// Requests an interrupt at the next arrival; false where the device has none.
    pub(crate) fn arm(&mut self) -> bool {
        if self.port.interrupts {
            // SAFETY: no pointer. Devices whose descriptor is always armed have no such function, which is no error here.
            unsafe { sys::rte_eth_dev_rx_intr_enable(self.port.device.id(), self.index) };
        }
        self.port.interrupts
    }

    /// The descriptor that is readable after something has arrived, once armed.
    pub(crate) fn interrupt(&self) -> Option<BorrowedFd<'_>> {
        self.port.interrupt(self.index)
    }

    /// Disables interrupts, and clears a pending one.
    pub(crate) fn disarm(&mut self) {
        // SAFETY: as in `arm`.
        unsafe { sys::rte_eth_dev_rx_intr_disable(self.port.device.id(), self.index) };
        if self.port.counts_interrupts
            && let Some(descriptor) = self.interrupt()
        {
            // Without an interrupt there is nothing to read, and that does not wait.
            let _ = rustix::io::read(descriptor, &mut [0; 8]);
        }
    }
}

/// An address for a port that has none (rings): locally administered, and another one for each port and process of a machine.
fn own_address(id: u16) -> [u8; 6] {
    let ([.., a, b, c], [.., d]) = (std::process::id().to_be_bytes(), id.to_be_bytes());
    [0x02, 0x4e, a, b, c, d]
}

/// Whether a descriptor counts interrupts and is readable until the count is read; else it is what packets are read from.
fn is_event(descriptor: BorrowedFd<'_>) -> bool {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    std::fs::read_link(path).is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
}
