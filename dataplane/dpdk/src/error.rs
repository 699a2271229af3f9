//! Errors of opening a device.

use std::io;

use netfold_io::IoError;

/// Why a DPDK device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// This program was built without DPDK. Build it with the feature `dpdk`.
    #[error(
        "this program was built without DPDK; build it with `--features dpdk`, or use another kind of packet I/O"
    )]
    NotBuilt,
    /// The spec of a device is malformed.
    #[error("'{spec}' cannot be opened as a DPDK device: {why}")]
    Spec {
        /// The spec.
        spec: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Hugepages were requested, and there are too few. Reserve some, or do without.
    #[error(
        "{needed_mb} MB of hugepages are requested and {free_mb} MB are free; write the number of pages to \
         /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages as root, or add `--no-huge`"
    )]
    Hugepages {
        /// Megabytes requested.
        needed_mb: u64,
        /// Megabytes free.
        free_mb: u64,
    },
    /// DPDK runs in this process already, with other options.
    #[error("DPDK was started in this process already, with '{with}'; its options cannot be changed: {why}")]
    Started {
        /// The options that it was started with.
        with: String,
        /// What is different now.
        why: &'static str,
    },
    /// DPDK does not start. Check the options, and its log.
    #[error("DPDK does not start with '{with}'{}", LogSuffix(log))]
    Start {
        /// The options.
        with: String,
        /// What DPDK wrote to its log.
        log: String,
        /// Its error number.
        #[source]
        source: io::Error,
    },
    /// The process may not do what the driver needs. Run it as root, or give the program the capability.
    #[error(
        "{device} needs the capability {capability}; run as root, or give it the capability by `setcap {capability}+ep` or in the launcher; net_ring, net_memif and udp take none"
    )]
    Privilege {
        /// The device.
        device: String,
        /// The capability that is missing.
        capability: &'static str,
    },
    /// No driver knows a device of this name. Check the name, and that DPDK's drivers are installed.
    #[error(
        "no driver of DPDK supports '{device}'; `dpdk-devbind.py --status` lists cards, and virtual devices are called \
         net_af_packet0, net_tap0, net_memif0 or net_ring0{}",
        LogSuffix(log)
    )]
    Driver {
        /// The device.
        device: String,
        /// What DPDK wrote to its log.
        log: String,
    },
    /// The driver cannot use the device. DPDK's log has the reason.
    #[error("DPDK cannot attach '{device}'{}", LogSuffix(log))]
    Device {
        /// The device and its arguments.
        device: String,
        /// What DPDK wrote to its log.
        log: String,
        /// Its error number.
        #[source]
        source: io::Error,
    },
    /// The device has fewer queues. Ask for fewer.
    #[error("{device} has {max} queues, and {asked} are requested")]
    Queues {
        /// The device.
        device: String,
        /// Queues requested.
        asked: u16,
        /// Queues that it has.
        max: u16,
    },
    /// Too many packet threads for one device. Use fewer, or several devices.
    #[error(
        "{asked} packet threads are to share {device}, which takes 1 to {max}; have fewer, or name several devices (`--io`)"
    )]
    Threads {
        /// The device.
        device: String,
        /// Threads requested.
        asked: usize,
        /// The most that it supports.
        max: u16,
    },
    /// The device does not carry packets of that length. Ask for a shorter MTU.
    #[error("{device} carries packets of {min} to {max} bytes, and an MTU of {asked} is requested")]
    Mtu {
        /// The device.
        device: String,
        /// The MTU requested, in bytes.
        asked: u16,
        /// The smallest that the device supports.
        min: u16,
        /// The largest.
        max: u16,
    },
    /// A call on the device failed.
    #[error("{call} failed on {device}{}", LogSuffix(log))]
    Port {
        /// The device.
        device: String,
        /// DPDK's function.
        call: &'static str,
        /// What DPDK wrote to its log.
        log: String,
        /// Its error number.
        #[source]
        source: io::Error,
    },
    /// DPDK has no memory left for packets. Give it more with `-m`, in MB, or open fewer devices.
    #[error("DPDK has no memory for {what}; give it more with `-m <MB>`{}", LogSuffix(log))]
    Memory {
        /// What the memory was for.
        what: &'static str,
        /// What DPDK wrote to its log.
        log: String,
    },
    /// The packet I/O above the device failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl From<DpdkError> for IoError {
    fn from(error: DpdkError) -> Self {
        match error {
            DpdkError::Io(error) => error,
            DpdkError::NotBuilt => {
                let remedy = "build it with `--features dpdk`, or choose af-xdp, packet-ring or udp";
                Self::NotIncluded { spec: "dpdk".into(), remedy }
            }
            other => Self::Os { call: "opening a DPDK device", source: io::Error::other(other) },
        }
    }
}

/// DPDK's log on one line, or nothing.
struct LogSuffix<'a>(&'a str);

impl std::fmt::Display for LogSuffix<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut lines = self.0.lines().map(str::trim).filter(|line| !line.is_empty());
        if let Some(first) = lines.next() {
            write!(f, "; DPDK log: {first}")?;
        }
        lines.try_for_each(|line| write!(f, "; {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_fits_on_a_line() {
        let error = DpdkError::Driver { device: "net_x0".into(), log: "EAL: one\n\nEAL: two \n".into() };
        assert!(error.to_string().ends_with("net_ring0; DPDK log: EAL: one; EAL: two"), "{error}");
        let error = DpdkError::Memory { what: "packets", log: String::new() };
        assert!(error.to_string().ends_with("`-m <MB>`"), "{error}");
    }
}
