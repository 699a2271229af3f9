//! The numbers of every listener, which docs/operations.md lists.

use std::time::Duration;

/// How many connections a listener keeps, and for how long without a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The listener's name: a label of metrics, and what log lines begin with.
    pub name: &'static str,
    /// Most connections at one time.
    pub connections_max: usize,
    /// Most connections of one source that are not authenticated, at most `connections_max`.
    pub source_max: usize,
    /// From accepting to the first complete message.
    pub first_message_timeout: Duration,
}

/// gRPC of a controller.
pub const GRPC: Policy = Policy {
    name: "gRPC",
    connections_max: 1024,
    source_max: 256,
    first_message_timeout: Duration::from_secs(10),
};

/// The page and the metrics of a controller.
pub const PAGE: Policy = Policy {
    name: "page",
    connections_max: 512,
    source_max: 128,
    first_message_timeout: Duration::from_secs(10),
};

/// The workers' port of a controller, and the control port of a switch: connections before they are sessions. TLS handshakes are
/// within the timeout. Sessions have limits of their own.
pub const WORKERS: Policy = Policy {
    name: "workers",
    connections_max: 4096,
    source_max: 1024,
    first_message_timeout: Duration::from_secs(5),
};

/// P4Runtime of a switch.
pub const P4RUNTIME: Policy = Policy {
    name: "P4Runtime",
    connections_max: 128,
    source_max: 64,
    first_message_timeout: Duration::from_secs(10),
};

/// A rank's listeners: the rendezvous, and the links of a mesh until both ranks have identified themselves.
pub const MESH: Policy = Policy {
    name: "mesh",
    connections_max: 256,
    source_max: 128,
    first_message_timeout: Duration::from_secs(5),
};

/// A listening handle of the NCCL plugin, until the other rank has presented its token.
pub const NCCL: Policy = Policy {
    name: "NCCL",
    connections_max: 64,
    source_max: 32,
    first_message_timeout: Duration::from_secs(5),
};

/// The socket at which workers attach to a switch's shared memory. Attached workers have a limit of their own.
pub const SHARED_MEMORY: Policy = Policy {
    name: "shared memory",
    connections_max: 128,
    source_max: 64,
    first_message_timeout: Duration::from_secs(1),
};

/// Every listener.
pub const ALL: [Policy; 7] = [GRPC, PAGE, WORKERS, P4RUNTIME, MESH, NCCL, SHARED_MEMORY];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_source_may_have_all_connections() {
        for policy in ALL {
            assert!(0 < policy.source_max && policy.source_max < policy.connections_max, "{policy:?}");
            assert!(!policy.first_message_timeout.is_zero(), "{policy:?}");
        }
    }
}
