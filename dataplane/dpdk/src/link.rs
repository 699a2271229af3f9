//! Queues of a port as links of whole frames.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use netfold_io::link::{Link, LinkProperties};
use netfold_io::{IoCounters, IoError, PortId, RxBatch};
use rustix::event::epoll;

use crate::buffers::BURST;
use crate::dispatch::Dispatcher;
use crate::eal::Eal;
use crate::event_waker::EventWaker;
use crate::port::HEADER_LEN;
use crate::spec::QUEUES_MAX;
use crate::{Arrivals, Device, DpdkError, Outbox, Port, PortConfig, Queue, Spec};

/// Frames that are queued at most before they are sent.
const QUEUED_MAX: usize = 256;
/// How long `wait` polls the queue before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// Empty calls of `receive` after which a thread that never sleeps checks whether the interface was removed.
const IDLE_MAX: u32 = 4096;
/// The longest sleep of a thread that only other threads wake.
const LOOK: Duration = Duration::from_millis(100);
/// Sleeps between two polls of a device without interrupts: the first, doubled each time up to the last.
const NAP_MIN: Duration = Duration::from_micros(20);
const NAP_MAX: Duration = Duration::from_micros(500);

/// Queues of a DPDK port, for one thread. Frames are copied out of DPDK's buffers and into them, once each.
///
/// It receives from all of its queues and sends through the first. Links that [share](Self::share) a port may have none, and are served by the
/// others.
///
/// In [`IoCounters`] the system calls are those that the driver is known to make: one each time that frames are sent for
/// `net_af_packet`, one for each frame for `net_tap`, none for all others.
#[derive(Debug)]
pub struct Dpdk {
    port: Arc<Port>,
    queues: Vec<Queue>,
    share: Option<Dispatcher>,
    /// The queue or lane that is polled first.
    next: usize,
    arrivals: Arrivals,
    /// Whether those were transferred from another thread.
    crossed: bool,
    /// Whether something was transferred since the last `wait`.
    dealt: bool,
    outbox: Outbox,
    waker: Arc<EventWaker>,
    /// Readable when one of several queues has something.
    interrupts: Option<OwnedFd>,
    /// Whether the interface was removed.
    interface_removed: bool,
    /// Consecutive empty calls of `receive`.
    idle: u32,
    /// Whether a frame found no room since the last `wait`.
    refused: bool,
    frame_len_max: usize,
    calls: SystemCalls,
    counters: IoCounters,
}

/// When a driver makes system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SystemCalls {
    Never,
    PerBurstSent,
    PerFrame,
}

impl Dpdk {
    /// Starts DPDK if it does not run, attaches a device and starts it: one link for each queue, one queue unless the spec says more.
    ///
    /// # Errors
    ///
    /// [`DpdkError`].
    pub fn open(spec: &Spec) -> Result<Vec<Self>, DpdkError> {
        let spec = Spec { queues: spec.queues.or(Some(1)), ..spec.clone() };
        start(&spec, 1)?.into_iter().map(Self::new).collect()
    }

    /// The same for `threads` threads, a link each, that are distinguished by their ports at `address`: see [`share`](Self::share). Unless the spec
    /// says how many, the device has a queue for each thread, or as many as it can.
    ///
    /// # Errors
    ///
    /// [`DpdkError`].
    pub fn open_threads(spec: &Spec, threads: usize, address: Ipv4Addr) -> Result<Vec<Self>, DpdkError> {
        let count = u16::try_from(threads).ok().filter(|threads| (1..=QUEUES_MAX).contains(threads));
        let too_many = DpdkError::Threads { device: spec.name().into(), asked: threads, max: QUEUES_MAX };
        Self::share(start(spec, count.ok_or(too_many)?)?, threads, address)
    }

    /// The link of one queue.
    ///
    /// # Errors
    ///
    /// [`DpdkError::Io`] when no event descriptor can be created.
    pub fn new(queue: Queue) -> Result<Self, DpdkError> {
        Self::of(Arc::clone(queue.port()), vec![queue], None, Arc::new(EventWaker::new()?))
    }

    /// Distributes the queues of one port among `threads` threads in turn, a link each. A link gets the datagrams to the UDP port that it
    /// [claims](Link::hear_port) at `address`, from whichever queue they arrive at, and ARP; the first gets pings, too. A device that supports rules is
    /// asked to put each thread's datagrams into its own queue; the others are transferred by the thread that receives them. A thread
    /// without a queue gets its packets from the others, and sends through them. So all links have to be polled.
    ///
    /// # Errors
    ///
    /// [`DpdkError::Threads`] for no thread, more than 64, or no queue; [`DpdkError::Io`] when no event descriptor can be created.
    pub fn share(queues: Vec<Queue>, threads: usize, address: Ipv4Addr) -> Result<Vec<Self>, DpdkError> {
        let port = queues.first().map(|queue| Arc::clone(queue.port()));
        let Some(port) = port.filter(|_| (1..=usize::from(QUEUES_MAX)).contains(&threads)) else {
            return Err(DpdkError::Threads { device: "the port".into(), asked: threads, max: QUEUES_MAX });
        };
        if threads == 1 {
            return Ok(vec![Self::of(port, queues, None, Arc::new(EventWaker::new()?))?]);
        }
        let wakers =
            (0..threads).map(|_| Ok(Arc::new(EventWaker::new()?))).collect::<Result<Vec<_>, IoError>>()?;
        let shares = Dispatcher::among(&wakers, queues.len().min(threads), address);
        let mut own: Vec<Vec<Queue>> = (0..threads).map(|_| Vec::new()).collect();
        for (index, queue) in queues.into_iter().enumerate() {
            own[index % threads].push(queue);
        }
        let links = own.into_iter().zip(shares).zip(wakers);
        links
            .map(|((queues, share), waker)| Self::of(Arc::clone(&port), queues, Some(share), waker))
            .collect()
    }

    fn of(
        port: Arc<Port>,
        queues: Vec<Queue>,
        share: Option<Dispatcher>,
        waker: Arc<EventWaker>,
    ) -> Result<Self, DpdkError> {
        let frame_len_max = usize::from(port.mtu()) + HEADER_LEN;
        let calls = match port.driver() {
            "net_af_packet" => SystemCalls::PerBurstSent,
            "net_tap" => SystemCalls::PerFrame,
            _ => SystemCalls::Never,
        };
        let interrupts = if queues.len() > 1 { any_of(&queues)? } else { None };
        Ok(Self {
            outbox: Outbox::new(Arc::clone(port.pool()), QUEUED_MAX),
            port,
            queues,
            share,
            next: 0,
            arrivals: Arrivals::default(),
            crossed: false,
            dealt: false,
            waker,
            interrupts,
            interface_removed: false,
            idle: 0,
            refused: false,
            frame_len_max,
            calls,
            counters: IoCounters::default(),
        })
    }

    /// The port of the queues.
    #[must_use]
    pub fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// Queues that it receives by.
    #[must_use]
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// Takes a burst from the next queue or lane that has something for this thread, if nothing is left here. Other threads' packets are
    /// transferred. Returns whether there is something now.
    fn fill(&mut self) -> bool {
        let own = self.queues.len();
        let count = own + self.share.as_ref().map_or(0, |share| share.consumers.len());
        let mut index = self.next;
        for _ in 0..count {
            if self.arrivals.first().is_some() {
                break;
            }
            self.crossed = index >= own;
            match (self.queues.get_mut(index), &mut self.share) {
                (Some(queue), share) => {
                    if !self.arrivals.fill(queue) {
                        // Nothing was received.
                    } else {
                        if self.calls == SystemCalls::PerFrame {
                            self.counters.rx_calls += self.arrivals.len() as u64;
                        }
                        if let Some(share) = share {
                            self.dealt |= share.dispatch(&mut self.arrivals);
                        }
                    }
                }
                (None, Some(share)) => share.consumers[index - own].take(&mut self.arrivals),
                (None, None) => {}
            }
            index = if index + 1 < count { index + 1 } else { 0 };
            self.next = index;
        }
        self.arrivals.first().is_some()
    }

    /// Whether something has arrived, or there is room that was lacking before. Frames that are still queued are offered again.
    fn ready(&mut self) -> bool {
        self.send();
        if self.fill() {
            return true;
        }
        let room = self.refused && self.has_room();
        self.refused &= !room;
        room
    }

    /// Whether there is room and a buffer for one more frame, also at the thread that sends it.
    fn has_room(&mut self) -> bool {
        let queued = self.outbox.len();
        let passes = self.share.as_ref().and_then(Dispatcher::passes).is_none_or(|places| queued < places);
        passes && self.outbox.has_room()
    }

    /// An error once the interface was removed, which the driver does not report.
    fn look(&mut self) -> Result<(), IoError> {
        self.interface_removed = self.interface_removed || self.port.device().is_removed();
        let source = || std::io::Error::new(std::io::ErrorKind::NotFound, "the interface was removed");
        if self.interface_removed { Err(IoError::Os { call: "dpdk", source: source() }) } else { Ok(()) }
    }

    /// Arms the interrupts of all queues; false where there are none. A thread without queues is woken by others.
    fn arm(&mut self) -> bool {
        self.queues.iter_mut().all(Queue::arm)
    }

    /// Sleeps once, for at most `left` where arrivals are signalled and nothing else is awaited, else for `nap`. True
    /// when the waker fired.
    fn sleep(&mut self, left: Duration, nap: Duration) -> Result<bool, IoError> {
        let armed = self.outbox.is_empty() && !self.refused && self.arm();
        // Arrivals before that are not signalled any more.
        let woken = armed && (self.fill() || self.dealt);
        let mut rang = Ok(false);
        if !woken {
            self.look()?;
            self.counters.sleeps += 1;
            let arrivals = match &self.queues[..] {
                [queue] => queue.interrupt(),
                _ => self.interrupts.as_ref().map(AsFd::as_fd),
            };
            rang = match armed {
                // The removal of the interface has to be detected here.
                true if self.queues.is_empty() => self.waker.sleep(left.min(LOOK), None),
                true => self.waker.sleep(left, arrivals),
                false => self.waker.sleep(nap, None),
            };
        }
        if armed {
            self.queues.iter_mut().for_each(Queue::disarm);
        }
        rang
    }

    /// Sends what is queued, here and by threads that send through this one, or transfers it to the thread that sends it.
    fn send(&mut self) {
        if let Some(share) = &mut self.share {
            if share.sends_by_another(&mut self.outbox) {
                return;
            }
            share.collect(&mut self.outbox);
        }
        let Some(queue) = self.queues.first_mut().filter(|_| !self.outbox.is_empty()) else { return };
        let sent = self.outbox.flush(queue) as u64;
        self.counters.tx_calls += match self.calls {
            SystemCalls::Never => 0,
            SystemCalls::PerBurstSent => u64::from(sent > 0),
            SystemCalls::PerFrame => sent,
        };
    }
}

/// Starts a device for `threads` threads: with the spec's number of queues, or one for each thread if it has them.
fn start(spec: &Spec, threads: u16) -> Result<Vec<Queue>, DpdkError> {
    let eal = Eal::start(&spec.options, !spec.name().starts_with("net_"))?;
    let wanted = spec.queues.unwrap_or(threads);
    let device = Device::attach(&eal, &Spec { queues: Some(wanted), ..spec.clone() })?;
    let max = device.queues_max()?;
    let queues = match spec.queues {
        // Packets in queues without a reader would be lost.
        _ if device.deals_to_all() && wanted < max => max,
        None => wanted.min(max),
        Some(queues) => queues,
    };
    let config = PortConfig { mtu: spec.mtu, queues, threads, ..PortConfig::default() };
    Ok(Port::start(device, &config)?.1)
}

/// A descriptor that is readable when that of one of these queues is; `None` where they have none.
fn any_of(queues: &[Queue]) -> Result<Option<OwnedFd>, IoError> {
    let os = |call| move |source: rustix::io::Errno| IoError::Os { call, source: source.into() };
    let Some(interrupts) = queues.iter().map(Queue::interrupt).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let any = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(os("epoll_create"))?;
    for interrupt in interrupts {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&any, interrupt, data, epoll::EventFlags::IN).map_err(os("epoll_ctl"))?;
    }
    Ok(Some(any))
}

impl Link for Dpdk {
    fn properties(&self) -> LinkProperties {
        let (mac, frame_len_max) = (self.port.mac(), self.frame_len_max);
        LinkProperties { name: "dpdk", mac, frame_len_max, bits_per_second: None, burst_max: 2 * BURST }
    }

    fn hear_port(&mut self, port: u16) -> Result<(), IoError> {
        self.share.as_mut().map_or(Ok(()), |share| share.claim_port(port, self.queues.first()))
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        batch.clear();
        if self.share.is_some() {
            self.send();
        }
        let len_max = self.frame_len_max.min(batch.bytes_left());
        while self.fill() {
            while let Some(packet) = self.arrivals.first() {
                let len = packet.len();
                if len > len_max {
                    self.counters.truncated += 1;
                } else {
                    let Some(memory) = batch.spare(len) else { return Ok(batch.len()) };
                    if packet.copy_to(memory) {
                        // ARP does not belong to one thread.
                        let crossed = self.crossed && memory.get(12..14) != Some(&[8, 6]);
                        self.counters.rx_crossed += u64::from(crossed);
                        batch.commit(PortId(0), len, 0);
                    } else {
                        self.counters.truncated += 1;
                    }
                }
                self.arrivals.pop();
            }
            if batch.packets_left() == 0 {
                break;
            }
        }
        self.idle = if batch.is_empty() { self.idle + 1 } else { 0 };
        if self.interface_removed || self.idle == IDLE_MAX {
            self.idle = 0;
            self.look()?;
        }
        Ok(batch.len())
    }

    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.frame_len_max {
            return None;
        }
        if !self.has_room() {
            self.refused = true;
            return None;
        }
        self.outbox.frame(len)
    }

    fn push(&mut self) {
        self.outbox.push();
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.send();
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, IoError> {
        if self.waker.take() || self.ready() {
            return Ok(true);
        }
        if timeout.is_zero() {
            return Ok(false);
        }
        let start = Instant::now();
        let (mut busy, mut nap) = (start, NAP_MIN);
        loop {
            let now = Instant::now();
            if now - start >= timeout {
                return Ok(false);
            }
            if std::mem::take(&mut self.dealt) {
                // Other threads are under load, and use this queue.
                (busy, nap) = (now, NAP_MIN);
            }
            if now - busy < SPIN {
                std::hint::spin_loop();
            } else {
                let left = timeout - (now - start);
                if self.sleep(left, left.min(nap))? {
                    return Ok(true);
                }
                nap = (2 * nap).min(NAP_MAX);
            }
            if self.waker.take() || self.ready() {
                return Ok(true);
            }
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.waker))
    }

    fn counters(&self) -> IoCounters {
        let mut counters = self.counters;
        counters.rx_dropped = self.share.as_ref().map_or(0, Dispatcher::dropped);
        // Of several links of a port one reports the device's counters.
        if self.queues.first().is_some_and(|queue| queue.index() == 0) {
            let stats = self.port.stats();
            counters.tx_failed = stats.tx_errors;
            counters.rx_dropped += stats.rx_missed;
        }
        counters
    }
}
