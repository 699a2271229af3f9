//! Errors.

use std::io;
use std::path::PathBuf;

use netfold_p4::refusal::PrintError;

/// Why a program cannot be loaded, attached or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdpError {
    /// The target cannot express the program.
    #[error(transparent)]
    Print(#[from] PrintError),
    /// The kernel creates no such map. It takes CAP_BPF, and memory for all entries.
    #[error(
        "the kernel refuses map '{name}'; run as root, or with CAP_BPF and CAP_NET_ADMIN, and with memory for all its entries; a switch with `--io udp` takes none of these"
    )]
    Map {
        /// The map.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The kernel's verifier rejects the program. This is a defect of the program's translation, or of an old kernel: Linux 6.1 is needed.
    #[error("the kernel rejects the {block} program at {element}{}: {log}", at(*.instruction))]
    Rejected {
        /// `ingress` or `egress`.
        block: &'static str,
        /// The element of the program that the instruction comes from.
        element: String,
        /// The last instruction that the verifier looked at.
        instruction: Option<usize>,
        /// The end of the verifier's log.
        log: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The interface does not take the program.
    #[error("interface {interface} does not take the program: {problem}")]
    Attach {
        /// The interface's number.
        interface: u32,
        /// What to do.
        problem: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The group has a member at a port that does not exist, or too many members, or its number is too high.
    #[error("multicast group {group}: {problem}")]
    Group {
        /// The group.
        group: u16,
        /// What is wrong.
        problem: &'static str,
    },
    /// A map does not take a change.
    #[error("map '{name}' refuses a change")]
    Change {
        /// The map.
        name: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A test run is refused.
    #[error("the kernel does not run the program over {bytes} bytes")]
    Run {
        /// Length of the packet.
        bytes: usize,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file of the pinned objects cannot be made or opened.
    #[error("{}: pinned objects are in a folder of a BPF file system (mount -t bpf bpf /sys/fs/bpf)", .path.display())]
    Pin {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

fn at(instruction: Option<usize>) -> String {
    instruction.map_or_else(String::new, |number| format!(" (instruction {number})"))
}
