//! The streams of a job: one for each class of operations, over one transport.
//!
//! A job's slots are divided among its classes in equal parts, and each class numbers the chunks of its own part. So a class
//! never waits for another's slots, and each rank sends chunks of the highest class first. The switch sees one job.

use std::collections::VecDeque;

use netfold_control::{Band, MemberCounters, PathReport, PortSet};
use netfold_io::Paused;
use netfold_proto::paths::Paths;
use netfold_proto::{
    Handled, Importance, Instant, OpId, OpSpec, OutstandingChunk, SlotShare, SubmitError, Worker,
    WorkerConfig, WorkerEvent, WorkerStats,
};
use netfold_wire::{Flags, Kind, Packet};

use crate::confidential::{Key, Masks};
use crate::error::Error;
use crate::failover;
use crate::lower::SwitchOperation;
use crate::peers::Peers;
use crate::report::micros;
use crate::tensors::Tensors;

/// The streams of one rank.
pub(crate) struct Streams {
    /// By class.
    all: Vec<Stream>,
    /// Slots of each.
    slots_per_class: u32,
    /// Number of the next operation, over all classes.
    next: u64,
    /// How classes appear in packets.
    band: Band,
    /// Importance classes of each class.
    importance: u8,
    /// What neighbours ask not to be sent.
    paused: Paused,
    /// The job is confidential, and the ranks have not agreed on this attachment's key: nothing may be sent.
    awaits_key: bool,
    /// Where packets are sent from several UDP ports.
    paths: Option<Paths>,
}

/// An operation whose results are all there.
pub(crate) struct FinishedOp {
    class: usize,
    op: OpId,
}

struct Stream {
    worker: Worker,
    tensors: Tensors,
    /// Numbers of its operations, over all classes, oldest first.
    order: VecDeque<u64>,
}

/// Counters of packets sent in batches, since the beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BatchStats {
    /// Packets sent in the same moment as the one before.
    pub(crate) sent_together: u64,
    /// Results of such packets.
    pub(crate) results_together: u64,
    /// All results.
    pub(crate) results: u64,
}

impl Streams {
    /// One stream for each of `classes` classes of a job, each of `importance` importance classes; `config` is that of a single one. Those of a confidential job take operations after
    /// [`Self::mask`] only.
    ///
    /// # Errors
    ///
    /// A configuration that no worker can run by; or fewer slots than classes.
    pub(crate) fn new(
        config: &WorkerConfig,
        (classes, importance): (u8, u8),
        confidential: bool,
    ) -> Result<Self, Error> {
        let slots_per_class = config.admission.slots / u32::from(classes.max(1));
        if slots_per_class == 0 {
            return Err(Error::Control { what: "the switch granted fewer slots than there are classes" });
        }
        let stream = |class: u8| {
            let first = u32::from(class) * slots_per_class;
            let share = SlotShare { first, count: slots_per_class };
            // What is known of masks (ADR 25) is for chunks that every rank packs by the agreed exponent.
            let config = WorkerConfig { share, predict: !confidential, ..config.clone() };
            let lane_bytes = config.admission.lane_words as usize * 4;
            let tensors = Tensors::new(config.world, lane_bytes).shifted(config.admission.shift);
            Ok(Stream { worker: Worker::new(config)?, tensors, order: VecDeque::new() })
        };
        let all = (0..classes.max(1)).map(stream).collect::<Result<Vec<_>, Error>>()?;
        let band = config.admission.band.unwrap_or_default();
        let paths = config.admission.multipath.map(|multipath| {
            // Ranks begin at different paths.
            let paths = Paths::new(multipath, config.admission.slots, config.rank.into());
            paths.map_err(|_| Error::Control {
                what: "a number of UDP ports that is no power of two up to 64",
            })
        });
        let paths = paths.transpose()?;
        Ok(Self {
            all,
            slots_per_class,
            next: 0,
            band,
            importance,
            paused: Paused::default(),
            awaits_key: confidential,
            paths,
        })
    }

    /// From how many UDP ports packets are sent.
    pub(crate) fn path_count(&self) -> u8 {
        self.paths.as_ref().map_or(1, Paths::count)
    }

    /// How much was sent by each path, where there are several.
    pub(crate) fn path_report(&self) -> Option<PathReport> {
        self.paths.as_ref().map(Paths::report)
    }

    /// Sends from these UDP ports from now on, as far as they can be relied on. Ignores those that are not there.
    pub(crate) fn use_ports(&mut self, now: Instant, ports: PortSet) {
        self.paths.iter_mut().for_each(|paths| paths.use_ports(now, ports));
    }

    /// Masks what is sent from now on, and removes the masks from results. `key` is this attachment's alone.
    pub(crate) fn mask(&mut self, key: &Key) {
        let WorkerConfig { rank, world, .. } = *self.config();
        let lane_bytes = self.lane_bytes();
        for (class, stream) in (0..).zip(&mut self.all) {
            stream.tensors.mask(Masks::new(key.bytes(), class, (rank, world), lane_bytes));
        }
        self.awaits_key = false;
    }

    /// What is submitted from now on is of these classes of packets. What is under way stays as it is: each packet counts for itself, so
    /// ranks may change at different moments.
    pub(crate) fn set_band(&mut self, band: Band) {
        self.band = band;
    }

    /// From now on retains results that other ranks may lack when the switch is lost.
    pub(crate) fn retain_results(&mut self) {
        for stream in &mut self.all {
            stream.tensors.retain_results(self.slots_per_class as usize);
        }
    }

    /// Continues the numbering of another worker's streams.
    pub(crate) fn continue_from(&mut self, others: &Self) {
        self.next = others.next;
        for stream in &mut self.all {
            stream.tensors.continue_from(others.next);
        }
    }

    /// What all of them have in common.
    pub(crate) fn config(&self) -> &WorkerConfig {
        self.all[0].worker.config()
    }

    fn lane_bytes(&self) -> usize {
        self.config().admission.lane_words as usize * 4
    }

    /// Operations not finished.
    pub(crate) fn len(&self) -> usize {
        self.all.iter().map(|stream| stream.tensors.len()).sum()
    }

    /// Operations that are taken whatever their class.
    pub(crate) fn capacity(&self) -> usize {
        let most = self.all.iter().map(|stream| stream.tensors.len()).max();
        self.config().ops_max.saturating_sub(most.unwrap_or(0))
    }

    /// Chunks sent whose results have not come.
    pub(crate) fn outstanding(&self) -> u32 {
        self.all.iter().map(|stream| stream.worker.outstanding()).sum()
    }

    /// Whether packets wait for input that is still to arrive.
    pub(crate) fn awaits_input(&self) -> bool {
        self.all.iter().any(|stream| stream.worker.awaits_input())
    }

    /// Results taken.
    pub(crate) fn results(&self) -> u64 {
        self.all.iter().map(|stream| stream.worker.stats().results).sum()
    }

    /// Number of the next operation, over all classes: the same on all ranks.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// When a result was last taken, or the first chunk sent after nothing was outstanding, in any class.
    pub(crate) fn progress_at(&self) -> Instant {
        self.all.iter().map(|stream| stream.worker.progress_at()).max().unwrap_or(Instant::ZERO)
    }

    /// When a packet was last received, whatever it was.
    pub(crate) fn received_at(&self) -> Option<Instant> {
        self.all.iter().filter_map(|stream| stream.worker.received_at()).max()
    }

    /// When a result was last taken, and the number of its chunk.
    pub(crate) fn last_result(&self) -> Option<(Instant, u32)> {
        let last = |stream: &Stream| Some((stream.worker.progress_at(), stream.worker.last_result()?));
        self.all.iter().filter_map(last).max()
    }

    /// Of the classes that lack results the one that waits longest, and its first chunk that is outstanding.
    pub(crate) fn oldest_outstanding(&self) -> Option<(u8, OutstandingChunk)> {
        let oldest = |(class, stream): (u8, &Stream)| Some((class, stream.worker.oldest_outstanding()?));
        (0..).zip(&self.all).filter_map(oldest).min_by_key(|(_, oldest)| oldest.first_sent_at)
    }

    /// Ends a batch: packets sent next do not count as sent together with earlier ones.
    pub(crate) fn end_batch(&mut self) {
        self.paths.iter_mut().for_each(Paths::end_run);
        self.all.iter_mut().for_each(|stream| stream.worker.part());
    }

    /// Counters of packets that were sent in batches, and of all results.
    pub(crate) fn batch_stats(&self) -> BatchStats {
        self.all.iter().map(|stream| stream.worker.stats()).fold(BatchStats::default(), |sum, stats| {
            BatchStats {
                sent_together: sum.sent_together + stats.sent_together,
                results_together: sum.results_together + stats.results_together,
                results: sum.results + stats.results,
            }
        })
    }

    /// Counters of all together, and the round trips of the class that took the most results.
    pub(crate) fn stats(&self) -> WorkerStats {
        let results = |class: &usize| self.all[*class].worker.stats().results;
        let busiest = (0..self.all.len()).max_by_key(results).unwrap_or(0);
        let mut sum = *self.all[busiest].worker.stats();
        for class in (0..self.all.len()).filter(|class| *class != busiest) {
            sum.add(self.all[class].worker.stats());
        }
        sum
    }

    /// Counters for the control port.
    pub(crate) fn counters(&self) -> MemberCounters {
        let mut counters = MemberCounters::default();
        for Stream { worker, tensors, .. } in &self.all {
            let stats = worker.stats();
            counters.tensor_bytes += tensors.bytes_done(|op| worker.missing(op));
            counters.packets_sent += stats.sent;
            counters.bytes_sent += stats.sent_bytes;
            counters.packets_retransmitted += stats.retransmitted;
            counters.packets_overtaken += stats.retransmitted_early;
            counters.results_received += stats.results;
            counters.waits += stats.waits.count;
            counters.wait_us += micros(stats.waits.total);
            counters.starts += stats.starts.count;
            counters.start_wait_us += micros(stats.starts.total);
        }
        counters
    }

    /// Takes an operation, or settles it with the error that forbids it.
    pub(crate) fn submit(&mut self, mut operation: SwitchOperation) {
        if self.awaits_key {
            // Not reached: the ranks agree on a key before operations are taken.
            return operation.fail(Error::EngineFailed);
        }
        let number = self.next;
        self.next += 1;
        // Operations are made before it is known which attachment executes them.
        operation.request.cut_for(self.lane_bytes());
        let classes = u8::try_from(self.all.len()).unwrap_or(u8::MAX);
        let Some(stream) = self.all.get_mut(usize::from(operation.request.spec.class)) else {
            // Not reached: classes are checked where operations are submitted.
            return operation.fail(Error::EngineFailed);
        };
        let own = operation.request.spec.class;
        let class = self.band.class_of(own, classes);
        // In range: the builder checks the number of classes, and a band's span is at most 16.
        let importance = Importance::new(self.importance, self.band.span_of(own, classes));
        let importance = importance.unwrap_or(Importance::NONE);
        match stream.worker.submit(OpSpec { class, importance, ..operation.request.spec }) {
            Ok(op) => {
                let starts = stream.worker.starts(op).unwrap_or_default();
                stream.tensors.push(op, starts, operation);
                stream.order.push_back(number);
            }
            Err(SubmitError::Aborted(reason)) => operation.fail(reason.into()),
            Err(SubmitError::Spec(error)) => operation.fail(error.into()),
            // Not reached: no more are submitted than there is room for.
            Err(_) => operation.fail(Error::EngineFailed),
        }
    }

    /// Takes a datagram from the switch, which arrived by a path, and which the network may have marked.
    #[inline]
    pub(crate) fn handle_packet(&mut self, now: Instant, path: u8, datagram: &[u8], marked: bool) {
        let handled = self.handle(now, datagram, marked);
        if self.paths.is_some() {
            self.learn(now, path, datagram, marked, handled);
        }
    }

    /// What a packet says of paths.
    fn learn(&mut self, now: Instant, path: u8, datagram: &[u8], marked: bool, handled: Handled) {
        let Some((paths, packet)) = self.paths.as_mut().zip(Packet::new_checked(datagram).ok()) else {
            return;
        };
        if handled == Handled::Result {
            let marked = marked || packet.flags().contains(Flags::CONGESTION);
            paths.on_result(now, packet.slot(), path, marked);
        } else if packet.kind() == Kind::Stale as u8 {
            let admission = &self.all[0].worker.config().admission;
            if (packet.job(), packet.epoch(), packet.key()) == (admission.job, admission.epoch, admission.key)
            {
                paths.on_answer(now, packet.bitmap());
            }
        }
    }

    #[inline]
    fn handle(&mut self, now: Instant, datagram: &[u8], marked: bool) -> Handled {
        let class = if self.all.len() == 1 { 0 } else { self.class_of(datagram) };
        let Stream { worker, tensors, .. } = &mut self.all[class];
        if marked {
            worker.note_mark();
        }
        worker.handle_packet(now, datagram, tensors)
    }

    /// The stream that has the datagram's slot; what is no packet of any is for the first to refuse and count.
    fn class_of(&self, datagram: &[u8]) -> usize {
        let slot = Packet::new_checked(datagram).map_or(0, |packet| u32::from(packet.slot()));
        let class = (slot / self.slots_per_class) as usize;
        if class < self.all.len() { class } else { 0 }
    }

    /// Holds packets of these priorities back from now on, and with each what its class of operations sends behind it.
    pub(crate) fn set_paused(&mut self, paused: Paused) {
        self.paused = paused;
    }

    /// Writes the next datagram to send, of the highest class that has any; its length, and its path.
    #[inline]
    pub(crate) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<(usize, u8)> {
        let paused = self.paused;
        let held = |stream: &mut Stream| {
            paused.priorities != 0
                && stream.worker.next_class(&mut stream.tensors).is_some_and(|class| paused.holds(class))
        };
        let mut polled = self.all.iter_mut().rev().filter_map(|stream| match held(stream) {
            true => None,
            false => stream.worker.poll_transmit(now, buffer, &mut stream.tensors),
        });
        let len = polled.next()?;
        let path = self.paths.as_mut().map_or(0, |paths| {
            let slot = Packet::new_checked(&buffer[..len]).map_or(0, |packet| packet.slot());
            paths.next(now, slot)
        });
        Some((len, path))
    }

    /// Writes a packet that shows how long a path takes, if one is due and something is outstanding; its length and its path.
    pub(crate) fn poll_path_probe(&mut self, now: Instant, buffer: &mut [u8]) -> Option<(usize, u8)> {
        let paths = self.paths.as_mut()?;
        if paths.next_probe_at().is_none_or(|at| at > now) {
            return None;
        }
        let class = self.band.first();
        let all = &self.all;
        if all.iter().all(|stream| stream.worker.outstanding() == 0) {
            return None;
        }
        let (path, tag) = paths.poll_probe(now)?;
        let len = all.iter().find_map(|stream| stream.worker.write_path_probe(class, tag, buffer))?;
        Some((len, path))
    }

    /// Writes a packet that a reachable switch answers, and which changes nothing there; its length. `None` while nothing is outstanding.
    pub(crate) fn write_liveness_probe(&self, buffer: &mut [u8]) -> Option<usize> {
        let class = self.band.first();
        self.all.iter().find_map(|stream| stream.worker.write_liveness_probe(class, buffer))
    }

    /// When [`Self::handle_timeout`] must be called next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.all.iter().filter_map(|stream| stream.worker.next_deadline()).min()
    }

    /// When [`Self::poll_path_probe`] must be called next, while something is outstanding.
    pub(crate) fn next_path_probe_at(&self) -> Option<Instant> {
        self.paths.as_ref()?.next_probe_at().filter(|_| self.outstanding() > 0)
    }

    /// Retransmits after a timeout, or fails the job.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        // A class may wait long for ranks that have much to send in a higher one: it has not stalled while any class moves.
        let progress = self.all.iter().filter(|stream| stream.worker.stats().results > 0);
        let progress = progress.map(|stream| stream.worker.progress_at()).max();
        for stream in &mut self.all {
            if let Some(at) = progress {
                stream.worker.note_progress(at);
            }
            if stream.worker.next_deadline().is_some_and(|deadline| deadline <= now) {
                stream.worker.handle_timeout(now);
            }
        }
    }

    /// An operation that is done, for [`Self::finish`]; the error that ends the job, if it is over.
    pub(crate) fn poll_done(&mut self) -> Result<Option<FinishedOp>, Error> {
        for (class, stream) in self.all.iter_mut().enumerate().rev() {
            match stream.worker.poll_event() {
                None => {}
                Some(WorkerEvent::OpDone(op)) => return Ok(Some(FinishedOp { class, op })),
                Some(WorkerEvent::Aborted(reason)) => return Err(reason.into()),
                Some(_) => return Err(Error::EngineFailed),
            }
        }
        Ok(None)
    }

    /// Gives the operation's tensor back; its number.
    pub(crate) fn finish(&mut self, FinishedOp { class, op }: FinishedOp) -> Option<u64> {
        let stream = &mut self.all[class];
        let number = stream.order.pop_front();
        stream.tensors.finish(op);
        number
    }

    /// Agrees with all ranks what is done, and finishes without the switch every operation that has begun on any of them, in order of
    /// submission. Returns those that have not: other ranks may not have submitted them yet.
    pub(crate) fn reconcile(&mut self, peers: &mut dyn Peers) -> Result<VecDeque<SwitchOperation>, Error> {
        let rank = self.config().rank;
        // Ranks may need any of it.
        self.all.iter().try_for_each(|stream| stream.tensors.wait_for_input())?;
        let mut outcomes = Vec::with_capacity(self.all.len());
        let mut begun = Vec::with_capacity(self.all.len());
        for Stream { worker, tensors, .. } in &mut self.all {
            let reconciled = failover::reconcile_slots(rank, worker.positions(), tensors, peers)?;
            begun.push(tensors.begun(&reconciled));
            outcomes.push(reconciled);
        }
        let oldest = |all: &[Stream], begun: &[usize]| {
            (0..all.len())
                .filter(|class| begun[*class] > 0)
                .min_by_key(|class| all[*class].order.front().copied())
        };
        while let Some(class) = oldest(&self.all, &begun) {
            let stream = &mut self.all[class];
            begun[class] -= 1;
            stream.order.pop_front();
            stream.tensors.finish_oldest(peers, &outcomes[class])?;
        }
        let mut left: Vec<(u64, SwitchOperation)> = Vec::new();
        for Stream { tensors, order, .. } in &mut self.all {
            left.extend(order.drain(..).zip(tensors.withdraw_all()));
        }
        left.sort_by_key(|(number, _)| *number);
        Ok(left.into_iter().map(|(_, operation)| operation).collect())
    }

    /// Executes an operation that no stream has taken among the ranks.
    pub(crate) fn execute(
        &mut self,
        peers: &mut dyn Peers,
        mut operation: SwitchOperation,
    ) -> Result<(), Error> {
        self.next += 1;
        operation.request.cut_for(self.lane_bytes());
        self.all[0].tensors.execute(peers, operation)
    }

    /// Settles all operations with an error.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.all.iter_mut().for_each(|stream| stream.tensors.fail(error));
    }
}
