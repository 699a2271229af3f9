//! The output of `--json`: one of these events per line. `docs/operations.md` describes every key; scripts may rely on them.
//!
//! `netfold demo` reads the events of the processes it starts by the same definitions.

use serde::{Deserialize, Serialize};

/// One line of output of `switch`, `worker` and `demo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A switch is ready.
    Listening(Listening),
    /// A job has begun on a switch.
    JobStarted {
        job: String,
        /// The job's group that has begun, if it is not the job itself.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        group: String,
        workers: u16,
        mode: String,
        slots: u32,
        /// Which of the job's trees.
        #[serde(default)]
        tree: u8,
        /// Which of the switch's queues it is at.
        #[serde(default)]
        queue: usize,
    },
    /// A job has ended on a switch.
    JobEnded {
        job: String,
        /// The job's group that has ended, if it is not the job itself.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        group: String,
        reason: String,
    },
    /// Something slows a job down; `text` says what, and what to do.
    JobSlowed { job: String, kind: String, rank: Option<u16>, amount: f64, text: String },
    /// It is over.
    JobRecovered { job: String, kind: String, rank: Option<u16> },
    /// A job has had no result for a while; `text` says why, as far as it is known, and `ranks` have not contributed to `chunk`.
    JobStalled { job: String, tree: u8, seconds: f64, chunk: Option<u32>, ranks: Vec<u16>, text: String },
    /// It has results again, after so many seconds.
    JobContinued { job: String, tree: u8, seconds: f64 },
    /// A resizable job has another generation; `lost` are ranks of the one before.
    JobResized { job: String, generation: u32, workers: u16, lost: Vec<u16> },
    /// A switch refused a worker, or a job failed to start.
    Refused { who: String, reason: String, message: String },
    /// A switch's counters since its start.
    Counters(Counters),
    /// A worker takes part in its job.
    Joined { job: String, rank: u16, workers: u16, mode: String },
    /// A worker's job has shrunk or grown; `lost` are ranks of the generation before.
    Resized { job: String, generation: u32, rank: u16, workers: u16, lost: Vec<u16> },
    /// A place that a job has at a switch.
    Place(Place),
    /// One all-reduce of a worker's loop.
    AllReduce(AllReduce),
    /// Loss and accuracy of the model before the first epoch (0) and after each.
    Epoch(Epoch),
    /// A worker has finished.
    Done(Done),
    /// The demo has started a process.
    Started { name: String, pid: u32 },
    /// The demo's training compared with its reference.
    Summary(Summary),
    /// What a rank of `bench groups` has measured, for the process that started it.
    GroupsRank(GroupsRank),
    /// The command failed.
    Error { kind: String, message: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Listening {
    /// UDP address of the data path.
    pub(crate) address: String,
    /// TCP address of the control port, which workers are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) control: Option<String>,
    /// TCP address of the P4Runtime server, if it replaces the control port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p4runtime: Option<String>,
    pub(crate) payload_bytes: u32,
    /// Of each queue; so are the next three.
    pub(crate) slots: u32,
    pub(crate) slot_sets: u32,
    pub(crate) lane_bytes: u64,
    pub(crate) bookkeeping_bytes: u64,
    /// Of all packet threads.
    pub(crate) state_bytes: u64,
    /// The packet threads, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) threads: Vec<Queue>,
    /// How lanes are added.
    pub(crate) numerics: String,
    /// Digest of the pipeline, in hexadecimal.
    pub(crate) pipeline: String,
    /// What runs it: `generated` code or the `interpreter`; `none` if there is no pipeline yet.
    pub(crate) engine: String,
}

/// What a rank of `bench groups` has measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GroupsRank {
    pub(crate) rank: u16,
    /// Groups that it was in, and those of them whose data go through a switch.
    pub(crate) groups: u32,
    pub(crate) at_switch: u32,
    /// Wrong elements.
    pub(crate) wrong: u64,
    /// Time until all groups were connected.
    pub(crate) split_s: f64,
    pub(crate) before: Held,
    pub(crate) with_groups: Held,
    pub(crate) after: Held,
}

/// What a process holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) threads: u64,
    pub(crate) descriptors: u64,
    /// Resident memory, in bytes.
    pub(crate) memory: u64,
}

/// Address and core of a queue of a switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Queue {
    /// UDP address.
    pub(crate) address: String,
    /// Payload of its packets.
    pub(crate) payload_bytes: u32,
    /// The core to which its thread is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) core: Option<usize>,
}

/// Counters of one packet thread of a switch.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct ThreadCounters {
    pub(crate) packets_in: u64,
    pub(crate) packets_out: u64,
    pub(crate) results: u64,
    pub(crate) output_dropped: u64,
    pub(crate) input_dropped: u64,
    /// Packets that arrived by a queue of the interface that belongs to another thread.
    #[serde(default)]
    pub(crate) crossed: u64,
}

/// Over all queues of a switch.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Whether the switch stops after this.
    #[serde(rename = "final")]
    pub(crate) last: bool,
    pub(crate) packets_in: u64,
    pub(crate) bytes_in: u64,
    pub(crate) packets_out: u64,
    pub(crate) bytes_out: u64,
    pub(crate) results: u64,
    pub(crate) repeated: u64,
    pub(crate) unknown_source: u64,
    pub(crate) output_dropped: u64,
    /// Packets that the system dropped because the switch did not read them in time.
    #[serde(default)]
    pub(crate) input_dropped: u64,
    pub(crate) fault_dropped: u64,
    /// Packets of authenticated jobs without the right tag.
    #[serde(default)]
    pub(crate) unauthenticated: u64,
    pub(crate) capture_failed: u64,
    /// Packets for a P4Runtime controller that were dropped because none was connected or ready.
    pub(crate) controller_dropped: u64,
    /// Packets by reason of the drop; `none`: added or acknowledged.
    pub(crate) packets: std::collections::BTreeMap<String, u64>,
    /// The queues that have carried a packet; empty in a switch without queues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) queues: Vec<QueueCounts>,
    /// How often full queues made the switch pause receiving.
    #[serde(default)]
    pub(crate) pauses: u64,
    /// Counters of each packet thread, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) threads: Vec<ThreadCounters>,
}

/// Counters of one queue of a port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct QueueCounts {
    pub(crate) port: u16,
    /// Its number, or `control`.
    pub(crate) queue: String,
    pub(crate) enqueued: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) marked: u64,
    pub(crate) trimmed: u64,
    pub(crate) dropped: u64,
    pub(crate) flushed: u64,
    /// How often senders of its classes were asked to pause.
    #[serde(default)]
    pub(crate) pauses: u64,
    pub(crate) held_bytes: u64,
    pub(crate) held_bytes_max: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) job: String,
    /// Which of the job's trees the switch is in.
    pub(crate) tree: u8,
    /// Address of the data path.
    pub(crate) switch: String,
    pub(crate) slots: u32,
    pub(crate) payload_bytes: u32,
    /// Number of the job at the switch.
    pub(crate) number: u16,
    pub(crate) epoch: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AllReduce {
    pub(crate) rank: u16,
    pub(crate) iteration: u32,
    pub(crate) bytes: u64,
    pub(crate) count: u64,
    pub(crate) time_us: f64,
    #[serde(rename = "algbw_MBps")]
    pub(crate) algbw: f64,
    #[serde(rename = "busbw_MBps")]
    pub(crate) busbw: f64,
    pub(crate) wrong: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Epoch {
    pub(crate) rank: u16,
    pub(crate) epoch: u32,
    pub(crate) train_loss: f64,
    pub(crate) test_loss: f64,
    pub(crate) test_accuracy: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) rank: u16,
    pub(crate) seconds: f64,
    /// Digest of the trained model, in hexadecimal; absent after a loop of all-reduces.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) digest: Option<String>,
    /// Tensor elements that were summed.
    pub(crate) elements: u64,
    /// Datagrams sent, retransmissions included.
    pub(crate) packets_sent: u64,
    /// Results received.
    pub(crate) packets_received: u64,
    pub(crate) retransmits: u64,
    /// Bytes sent: Netfold header and lanes.
    pub(crate) wire_bytes: u64,
    /// Bytes of the same elements as `f32` without any header.
    pub(crate) f32_bytes: u64,
    pub(crate) wrong: u64,
    /// The part of each of several trees in the operations at the end, of 1.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) tree_shares: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) agrees: bool,
    pub(crate) final_loss: f64,
    pub(crate) reference_loss: f64,
    pub(crate) seconds: f64,
    pub(crate) wire_bytes: u64,
    pub(crate) f32_bytes: u64,
    pub(crate) retransmits: u64,
    pub(crate) workers: u16,
    pub(crate) mode: String,
    pub(crate) loss: f64,
    pub(crate) epochs: u32,
    /// Largest difference of the training losses at any epoch, over the reference's.
    pub(crate) loss_difference: f64,
    pub(crate) test_accuracy: f64,
    pub(crate) reference_accuracy: f64,
    /// Whether all workers hold the same model, bit for bit.
    pub(crate) identical: bool,
    pub(crate) packets_up: u64,
    pub(crate) packets_down: u64,
}
