//! Queues of a port as links of whole frames.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use netfold_io::link::{Link, LinkProperties};
use netfold_io::{IoCounters, IoError, PortId, RxBatch};
use rustix::event::epoll;

use crate::bell::Bell;
use crate::buffers::BURST;
use crate::eal::Eal;
use crate::port::HEADER_LEN;
use crate::share::Share;
use crate::spec::QUEUES_MAX;
use crate::{Arrivals, Device, DpdkError, Outbox, Port, PortConfig, Queue, Spec};

/// Frames that are queued at most before they are sent.
const QUEUED_MAX: usize = 256;
/// How long `wait` looks at the queue again and again before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// Calls of `receive` in vain after which somebody who never sleeps is told that the interface is gone.
const IDLE_MAX: u32 = 4096;
/// The longest sleep of a thread that only others wake.
const LOOK: Duration = Duration::from_millis(100);
/// Sleeps between two looks at a device without interrupts: the first, doubled each time up to the last.
const NAP_MIN: Duration = Duration::from_micros(20);
const NAP_MAX: Duration = Duration::from_micros(500);

/// Queues of a DPDK port, for one thread. Frames are copied out of DPDK's buffers and into them, once each.
///
/// It receives by all of its queues and sends by the first. Links that [share](Self::share) a port may have none, and are served by the
/// others.
///
/// In [`IoCounters`] the calls of the system are those that the driver is known to make: one each time that frames are sent for
/// `net_af_packet`, one for each frame for `net_tap`, none for all others.
#[derive(Debug)]
pub struct Dpdk {
    port: Arc<Port>,
    queues: Vec<Queue>,
    share: Option<Share>,
    /// The queue or lane that is looked at first.
    next: usize,
    arrivals: Arrivals,
    /// Whether those came by another thread's queue.
    crossed: bool,
    /// Whether something was handed over since `wait` last looked.
    dealt: bool,
    outbox: Outbox,
    bell: Arc<Bell>,
    /// Readable when one of several queues has something.
    interrupts: Option<OwnedFd>,
    /// Whether the interface below is gone.
    gone: bool,
    /// Calls of `receive` in a row that found nothing.
    idle: u32,
    /// Whether a frame found no room since the last `wait`.
    refused: bool,
    frame_len_max: usize,
    calls: SystemCalls,
    counters: IoCounters,
}

/// When a driver calls the system.
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

    /// The same for so many threads, a link each, that are told apart by their ports at `address`: see [`share`](Self::share). Unless the spec
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
    /// [`DpdkError::Io`] when there is no event descriptor to be had.
    pub fn new(queue: Queue) -> Result<Self, DpdkError> {
        Self::of(Arc::clone(queue.port()), vec![queue], None, Arc::new(Bell::new()?))
    }

    /// Deals the queues of one port out to so many threads in turn, a link each. A link has the datagrams to the UDP port that it
    /// [hears](Link::hear_port) at `address`, by whichever queue they arrive, and ARP; the first has pings, too. A device with rules is
    /// asked to put each thread's datagrams into its own queue; what arrives elsewhere the thread that finds it hands over. A thread
    /// beyond the queues has what others find, and sends by them. So all have to be driven.
    ///
    /// # Errors
    ///
    /// [`DpdkError::Threads`] for no thread, more than 64, or no queue; [`DpdkError::Io`] when there is no event descriptor to be had.
    pub fn share(queues: Vec<Queue>, threads: usize, address: Ipv4Addr) -> Result<Vec<Self>, DpdkError> {
        let port = queues.first().map(|queue| Arc::clone(queue.port()));
        let Some(port) = port.filter(|_| (1..=usize::from(QUEUES_MAX)).contains(&threads)) else {
            return Err(DpdkError::Threads { device: "the port".into(), asked: threads, max: QUEUES_MAX });
        };
        if threads == 1 {
            return Ok(vec![Self::of(port, queues, None, Arc::new(Bell::new()?))?]);
        }
        let bells = (0..threads).map(|_| Ok(Arc::new(Bell::new()?))).collect::<Result<Vec<_>, IoError>>()?;
        let shares = Share::among(&bells, queues.len().min(threads), address);
        let mut own: Vec<Vec<Queue>> = (0..threads).map(|_| Vec::new()).collect();
        for (index, queue) in queues.into_iter().enumerate() {
            own[index % threads].push(queue);
        }
        let links = own.into_iter().zip(shares).zip(bells);
        links.map(|((queues, share), bell)| Self::of(Arc::clone(&port), queues, Some(share), bell)).collect()
    }

    fn of(
        port: Arc<Port>,
        queues: Vec<Queue>,
        share: Option<Share>,
        bell: Arc<Bell>,
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
            bell,
            interrupts,
            gone: false,
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

    /// Takes a burst from the next queue or lane that has something for this thread, if nothing is left here. What others are to have is handed
    /// over. Whether there is something now.
    fn fill(&mut self) -> bool {
        let own = self.queues.len();
        let count = own + self.share.as_ref().map_or(0, |share| share.takers.len());
        let mut index = self.next;
        for _ in 0..count {
            if self.arrivals.first().is_some() {
                break;
            }
            self.crossed = index >= own;
            match (self.queues.get_mut(index), &mut self.share) {
                (Some(queue), share) => {
                    if !self.arrivals.fill(queue) {
                        // Nothing has come.
                    } else {
                        if self.calls == SystemCalls::PerFrame {
                            self.counters.rx_calls += self.arrivals.len() as u64;
                        }
                        if let Some(share) = share {
                            self.dealt |= share.deal(&mut self.arrivals);
                        }
                    }
                }
                (None, Some(share)) => share.takers[index - own].take(&mut self.arrivals),
                (None, None) => {}
            }
            index = if index + 1 < count { index + 1 } else { 0 };
            self.next = index;
        }
        self.arrivals.first().is_some()
    }

    /// Whether something has arrived, or there is room that was missed before. What is queued still is offered again.
    fn ready(&mut self) -> bool {
        self.send();
        if self.fill() {
            return true;
        }
        let room = self.refused && self.has_room();
        self.refused &= !room;
        room
    }

    /// Whether there is a place and a buffer for one more frame, and who sends it will have a place, too.
    fn has_room(&mut self) -> bool {
        let queued = self.outbox.len();
        let passes = self.share.as_ref().and_then(Share::passes).is_none_or(|places| queued < places);
        passes && self.outbox.has_room()
    }

    /// An error once the interface below is gone. Nothing else tells.
    fn look(&mut self) -> Result<(), IoError> {
        self.gone = self.gone || self.port.device().gone();
        let source = || std::io::Error::new(std::io::ErrorKind::NotFound, "the interface is gone");
        if self.gone { Err(IoError::Os { call: "dpdk", source: source() }) } else { Ok(()) }
    }

    /// Asks all queues to tell of the next arrival; false where they do not. A thread without queues is told by others.
    fn arm(&mut self) -> bool {
        self.queues.iter_mut().all(Queue::arm)
    }

    /// Sleeps once, for `left` at most where something tells of arrivals and nothing else is waited for, else for `nap`. True
    /// when the waker fired.
    fn sleep(&mut self, left: Duration, nap: Duration) -> Result<bool, IoError> {
        let armed = self.outbox.is_empty() && !self.refused && self.arm();
        // What arrived before that is not told any more.
        let woken = armed && (self.fill() || self.dealt);
        let mut rang = Ok(false);
        if !woken {
            self.look()?;
            self.counters.sleeps += 1;
            let told = match &self.queues[..] {
                [queue] => queue.interrupt(),
                _ => self.interrupts.as_ref().map(AsFd::as_fd),
            };
            rang = match armed {
                // Somebody has to notice that the interface goes.
                true if self.queues.is_empty() => self.bell.sleep(left.min(LOOK), None),
                true => self.bell.sleep(left, told),
                false => self.bell.sleep(nap, None),
            };
        }
        if armed {
            self.queues.iter_mut().for_each(Queue::disarm);
        }
        rang
    }

    /// Sends what is queued, here and by those who send by this thread's queue, or has another thread send it.
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

/// Starts a device for so many threads: as many queues as the spec says, or one for each thread if it has them.
fn start(spec: &Spec, threads: u16) -> Result<Vec<Queue>, DpdkError> {
    let eal = Eal::start(&spec.options, !spec.name().starts_with("net_"))?;
    let wanted = spec.queues.unwrap_or(threads);
    let device = Device::attach(&eal, &Spec { queues: Some(wanted), ..spec.clone() })?;
    let max = device.queues_max()?;
    let queues = match spec.queues {
        // What nobody reads would be lost.
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
        LinkProperties { name: "dpdk", mac, frame_len_max, burst_max: 2 * BURST }
    }

    fn hear_port(&mut self, port: u16) -> Result<(), IoError> {
        self.share.as_mut().map_or(Ok(()), |share| share.hear(port, self.queues.first()))
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
                        // ARP is not its thread's alone.
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
        if self.gone || self.idle == IDLE_MAX {
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
        if self.bell.take() || self.ready() {
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
                // Others are under load, and by this queue.
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
            if self.bell.take() || self.ready() {
                return Ok(true);
            }
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.bell))
    }

    fn counters(&self) -> IoCounters {
        let mut counters = self.counters;
        counters.rx_dropped = self.share.as_ref().map_or(0, Share::dropped);
        // Of several links of a port one says what the device has counted.
        if self.queues.first().is_some_and(|queue| queue.index() == 0) {
            let stats = self.port.stats();
            counters.tx_failed = stats.tx_errors;
            counters.rx_dropped += stats.rx_missed;
        }
        counters
    }
}
