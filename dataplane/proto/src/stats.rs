//! A worker's counters.

use core::fmt;
use core::time::Duration;

macro_rules! causes {
    ($($(#[$meta:meta])* $variant:ident $text:literal),+ $(,)?) => {
        /// Why an incoming datagram changed nothing.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Ignored { $($(#[$meta])* $variant),+ }

        impl Ignored {
            /// Every cause, in the order of [`WorkerStats::ignored`].
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name used in counters.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

causes! {
    /// No Netfold header: too short, another version, or a field without meaning.
    Malformed "malformed",
    /// A kind that no switch sends to a worker.
    Kind "kind",
    /// Another job.
    Job "job",
    /// Another epoch of the job.
    Epoch "epoch",
    /// Wrong job key.
    Key "key",
    /// Slot, set and chunk do not belong together.
    Slot "slot",
    /// The chunk was finished before: a duplicate or a delayed packet.
    Late "late",
    /// The chunk was never sent.
    Unsent "unsent",
    /// Length, flags, operation or exponent differ from those of the chunk that was sent.
    Shape "shape",
    /// It lacks a worker's contribution.
    Incomplete "incomplete",
    /// The switch has this rank's contribution, and waits for others.
    Waiting "waiting",
    /// The job is over.
    Closed "closed",
    /// It depends on the descriptors of its operation, which are not there yet. It is requested again.
    Early "early",
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A total of times, and how many they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
}

impl Waits {
    pub(crate) fn note(&mut self, time: Duration) {
        self.count += 1;
        self.total += time;
    }

    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.total += other.total;
    }
}

/// Counters of one worker, since it was made. Packets and bytes are datagrams: Netfold header and lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerStats {
    /// Datagrams handed out for sending, first transmissions and retransmissions.
    pub sent: u64,
    /// Bytes handed out for sending.
    pub sent_bytes: u64,
    /// Retransmissions: the sum of the next three.
    pub retransmitted: u64,
    /// Retransmissions because the retransmission timer expired.
    pub retransmitted_timeout: u64,
    /// Retransmissions because chunks sent later were acknowledged first.
    pub retransmitted_early: u64,
    /// Retransmissions of the oldest chunk during a silence, to determine whether chunks are lost or delayed.
    pub retransmitted_probe: u64,
    /// Datagrams handed out at the same time as the one before, unless [separated](crate::Worker::part): a transport may send them as one.
    pub sent_together: u64,
    /// Results taken.
    pub results: u64,
    /// Results taken of chunks that were last handed out together with others.
    pub results_together: u64,
    /// Bytes of results taken.
    pub result_bytes: u64,
    /// Time from a chunk's first transmission to its result, and of how many chunks. Chunks that were lost are left out, so a rank that waits
    /// less than the others is the one for which they wait.
    pub waits: Waits,
    /// The same of descriptors alone, with which operations begin.
    pub starts: Waits,
    /// Results taken that were marked on the way, or carried the congestion flag.
    pub congested: u64,
    /// Data chunks whose block held a NaN or an infinity on some rank.
    pub non_finite: u64,
    /// Data chunks whose first sum saturated, and which were repeated with full headroom.
    pub saturated: u64,
    /// Data chunks that were delivered by predicted exponents.
    pub predicted: u64,
    /// Data chunks that were repeated because some rank did not predict the exponent.
    pub mispredicted: u64,
    /// Data chunks whose result lacks some rank's contribution, in operations that tolerate it.
    pub partial: u64,
    /// Data chunks whose result lacks this rank's contribution.
    pub left_out: u64,
    /// Data chunks whose slot was closed before all ranks had contributed.
    pub closed: u64,
    /// CLOSE packets sent: to query a slot's contributors, or to close it.
    pub asked: u64,
    /// Operations finished.
    pub ops_done: u64,
    /// Datagrams ignored, by cause, in the order of [`Ignored::ALL`].
    pub ignored: [u64; Ignored::ALL.len()],
    /// Smoothed time from sending a chunk to its result; zero before the first sample.
    pub rtt_smoothed: Duration,
    /// Mean deviation of it.
    pub rtt_variation: Duration,
    /// Its recent low.
    pub rtt_low: Duration,
    /// Retransmission timeout, back-off included.
    pub rto: Duration,
    /// Chunks that may be in flight.
    pub window: u32,
}

impl WorkerStats {
    /// Adds another worker's counters. The round-trip estimates and the window stay this one's.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.retransmitted += other.retransmitted;
        self.retransmitted_timeout += other.retransmitted_timeout;
        self.retransmitted_early += other.retransmitted_early;
        self.retransmitted_probe += other.retransmitted_probe;
        self.sent_together += other.sent_together;
        self.results += other.results;
        self.results_together += other.results_together;
        self.result_bytes += other.result_bytes;
        self.waits.add(other.waits);
        self.starts.add(other.starts);
        self.congested += other.congested;
        self.non_finite += other.non_finite;
        self.saturated += other.saturated;
        self.predicted += other.predicted;
        self.mispredicted += other.mispredicted;
        self.partial += other.partial;
        self.left_out += other.left_out;
        self.closed += other.closed;
        self.asked += other.asked;
        self.ops_done += other.ops_done;
        for (count, more) in self.ignored.iter_mut().zip(other.ignored) {
            *count += more;
        }
    }

    /// Datagrams ignored for `cause`.
    pub fn ignored_for(&self, cause: Ignored) -> u64 {
        self.ignored[cause as usize]
    }

    /// Datagrams ignored for any cause.
    pub fn ignored_total(&self) -> u64 {
        self.ignored.iter().sum()
    }
}
