//! Lowers a program to BPF for XDP: the kernel runs it in a network driver, before there is a packet buffer.
//!
//! There are two programs. *Ingress* runs for every frame that arrives; it ends in a redirection to a port, or to all members of a multicast group. *Egress*
//! runs for every copy on the interface that it leaves by, as a program of the map by which the copy was redirected (`BPF_XDP_DEVMAP`), and finds its
//! replica by group, interface, and how many copies of the packet went there before it. What ingress hands over is before the packet (`data_meta`), see [`Handover`].
//!
//! All registers are one array of slots, each under a lock that a packet takes at its first access and releases at its end, so that a slot's packets are as
//! if one ran after the other, on whatever CPUs they arrive. Variables are in memory that each CPU has; header fields are copied there and back, lanes stay in the
//! packet. Tables are hash maps: with wildcards one key for each combination of masks and priority ([`Tuples`]).
//!
//! A frame without all headers of the program is counted as the program says and goes to the kernel's network stack; other frames that the program drops
//! are dropped.

mod code;
mod control;
mod departure;
mod expr;
mod layout;
mod listing;
mod registers;
mod tables;

use netfold_bpf::{Instruction, Register, Size};

pub use self::code::Origin;
use self::code::{Code, Finished, Label};
use self::layout::Layout;
pub use self::listing::print;
pub use self::tables::{ActionValue, TUPLES_MAX, TableMap, Tuples};
use crate::check::check;
use crate::ir::*;
use crate::refusal::{PrintError, Refusal};

/// Name of the target in refusals.
const TARGET: &str = "xdp";

/// Bytes of the lock at the beginning of a slot.
const SLOT_LOCK_BYTES: u32 = 4;
/// Bytes of the longest frame: a page, without the room that the kernel keeps before and behind.
pub const FRAME_BYTES_MAX: u32 = 4096 - 256 - 320;
/// Ports, and multicast groups, at most.
pub const PORTS_MAX: u32 = 4096;
/// Members of a multicast group, at most.
pub const MEMBERS_MAX: u32 = 32;
/// Lanes for which the instructions of a register action are repeated; more are visited by a loop.
const LANES_UNROLLED: u32 = 64;

// Registers: the context, this CPU's memory, the slot, the packet, and intermediate values.
const CONTEXT: Register = Register(6);
const SCRATCH: Register = Register(7);
const SLOT: Register = Register(8);
const PACKET: Register = Register(9);
const FRAME: Register = Register(10);
const TEMPORARIES: [Register; 6] =
    [Register(0), Register(1), Register(2), Register(3), Register(4), Register(5)];

// The stack: the locked slot's address or 0, a small key, a table's key, and a table's key before masks; of a copy that arrives its number, instead of the last.
const LOCKED: i16 = -8;
const SMALL_KEY: i16 = -16;
const KEY: i16 = -96;
const RAW_KEY: i16 = -176;
const NUMBER: i16 = RAW_KEY;

// Offsets in the context (`struct xdp_md`).
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const INGRESS_INTERFACE: i16 = 12;
const EGRESS_INTERFACE: i16 = 20;

/// Verdicts (`enum xdp_action`).
pub mod verdict {
    /// An error, which `xdp:xdp_exception` traces.
    pub const ABORTED: i32 = 0;
    /// Dropped.
    pub const DROP: i32 = 1;
    /// To the network stack, or for a copy: sent.
    pub const PASS: i32 = 2;
    /// To another interface.
    pub const REDIRECT: i32 = 4;
}

/// What ingress hands over to egress: 12 bytes before the packet, in the processor's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// Where the packet goes.
    pub send: crate::interpret::Send,
    /// Packets in the queue that the copy joins: 0, because there is no queue between the two programs.
    pub depth: u32,
    /// Number of the packet among those that its CPU sent: the same in all of its copies, so that egress can count them.
    pub number: u32,
}

impl Handover {
    /// Length in bytes.
    pub const LEN: usize = 12;
    const UNICAST: u32 = 1;
    const MULTICAST: u32 = 2;

    /// The bytes; `None` for a packet that is dropped.
    pub fn to_bytes(self) -> Option<[u8; Self::LEN]> {
        let word = match self.send {
            crate::interpret::Send::Unicast(port) => Self::UNICAST << 16 | u32::from(port),
            crate::interpret::Send::Multicast(group) => Self::MULTICAST << 16 | u32::from(group),
            crate::interpret::Send::Drop => return None,
        };
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&word.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.number.to_ne_bytes());
        Some(bytes)
    }

    /// Reads the bytes.
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let to = word(0) as u16;
        let send = match word(0) >> 16 {
            Self::UNICAST => crate::interpret::Send::Unicast(to),
            Self::MULTICAST => crate::interpret::Send::Multicast(to),
            _ => crate::interpret::Send::Drop,
        };
        Self { send, depth: word(4), number: word(8) }
    }
}

/// A map that the programs use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MapId {
    /// A CPU's variables.
    Scratch,
    /// Interfaces to ports: a frame of another interface goes to the network stack.
    Interfaces,
    /// Ports to interfaces, for copies to one port.
    Ports,
    /// Multicast groups to maps of members' interfaces.
    Groups,
    /// Group, interface, and number of the copy among those of its packet on that interface, to replica ids.
    Members,
    /// Ports to the packet whose copies left there last, and the number of its copies so far.
    Copies,
    /// Registers.
    Slots,
    /// Counters: one value.
    Counters,
    /// Entries of a table.
    Table(TableId),
    /// Combinations of masks of a table with wildcards: one value.
    Tuples(TableId),
}

/// What a map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// By number.
    Array,
    /// By number, a value for each CPU.
    PerCpuArray,
    /// By key.
    Hash,
    /// Interfaces by key, to which packets are redirected.
    DeviceHash,
    /// Maps of interfaces, by number.
    ArrayOfDeviceHashes,
    /// By number, with a lock in front of each value.
    LockedArray,
}

/// A map to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapSpec {
    /// Which one.
    pub id: MapId,
    /// Name: at most 15 characters.
    pub name: String,
    /// What it is.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Entries, at most.
    pub entries: u32,
}

/// A program for the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfProgram {
    /// The instructions, with 0 for the descriptors of maps.
    pub instructions: Vec<Instruction>,
    /// Instructions that need the descriptor of a map.
    pub maps: Vec<(usize, MapId)>,
    /// What the instructions come from, in their order.
    pub origins: Vec<Origin>,
    /// The instruction that reads the interface by which a copy leaves.
    pub egress_interface: Option<usize>,
}

impl BpfProgram {
    /// The element of the program that an instruction comes from.
    pub fn origin(&self, instruction: usize) -> &str {
        let after = self.origins.partition_point(|origin| origin.first <= instruction);
        after.checked_sub(1).map_or("the program's start", |at| &self.origins[at].element)
    }

    /// The program for a test: a test run has no interface to leave by, so that it is the one to arrive by.
    #[must_use]
    pub fn for_test(&self) -> Self {
        let mut program = self.clone();
        if let Some(at) = self.egress_interface {
            program.instructions[at].offset = INGRESS_INTERFACE;
        }
        program
    }
}

/// A program as BPF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xdp {
    /// Maps, in the order in which they are created.
    pub maps: Vec<MapSpec>,
    /// Runs for every frame that arrives.
    pub ingress: BpfProgram,
    /// Runs for every copy that leaves; `None` if the program has no egress.
    pub egress: Option<BpfProgram>,
    /// Maps and entries of each table.
    pub tables: Vec<TableMap>,
    /// Offset of the first cell of each register in a slot, in bytes.
    pub registers: Vec<u32>,
    /// Offset of each counter in the counters' value, in bytes.
    pub counters: Vec<u32>,
}

/// Lowers a program. Deterministic: the same program gives the same instructions.
///
/// # Errors
///
/// When the program is not valid, or has something that BPF for XDP cannot express; see [`Refusal`].
pub fn lower(program: &Program) -> Result<Xdp, PrintError> {
    check(program)?;
    refuse(program)?;
    Ok(lowered(program)?)
}

fn lowered(program: &Program) -> Result<Xdp, Refusal> {
    let layout = Layout::new(program)?;
    let tables = tables::maps(program)?;
    let ingress = Lowering::new(program, &layout, &tables, true).ingress()?;
    let egress = match program.egress.is_empty() {
        true => None,
        false => Some(Lowering::new(program, &layout, &tables, false).egress()?),
    };
    Ok(Xdp {
        maps: maps(&layout, &tables),
        ingress: complete(ingress),
        egress: egress.map(complete),
        registers: (0..program.registers.len()).map(|at| layout.register(RegisterId(at as u16))).collect(),
        counters: (0..program.counters.len()).map(|at| layout.counter(CounterId(at as u16))).collect(),
        tables,
    })
}

fn complete(finished: Finished) -> BpfProgram {
    let Finished { instructions, maps, origins, egress_interface } = finished;
    BpfProgram { instructions, maps, origins, egress_interface }
}

fn maps(layout: &Layout, tables: &[TableMap]) -> Vec<MapSpec> {
    let map = |id, name: &str, kind, key_bytes, value_bytes, entries| MapSpec {
        id,
        name: name.into(),
        kind,
        key_bytes,
        value_bytes,
        entries,
    };
    let mut maps = vec![
        map(MapId::Scratch, "scratch", MapKind::PerCpuArray, 4, layout.bytes, 1),
        map(MapId::Interfaces, "interfaces", MapKind::Hash, 4, 4, PORTS_MAX),
        map(MapId::Ports, "ports", MapKind::DeviceHash, 4, 8, PORTS_MAX),
        map(MapId::Groups, "groups", MapKind::ArrayOfDeviceHashes, 4, 4, PORTS_MAX),
        map(MapId::Members, "members", MapKind::Hash, 12, 4, PORTS_MAX * 2),
        map(MapId::Copies, "copies", MapKind::PerCpuArray, 4, 8, PORTS_MAX),
        map(MapId::Slots, "slots", MapKind::LockedArray, 4, layout.slot_bytes, layout.slots),
        map(MapId::Counters, "counters", MapKind::Array, 4, layout.counter_bytes.max(8), 1),
    ];
    maps.extend(tables.iter().flat_map(TableMap::specs));
    maps
}

/// A construct that this back end does not lower.
fn refusal(construct: impl Into<String>, limit: impl Into<String>) -> Refusal {
    Refusal { target: TARGET, construct: construct.into(), limit: limit.into() }
}

fn refuse(program: &Program) -> Result<(), Refusal> {
    if program.ipv4_checksum.is_none() {
        return Err(refusal("packets without Ethernet and IPv4 headers", "interfaces deliver whole frames"));
    }
    if program.lane_bits() != LANE_BITS {
        return Err(refusal(format!("lanes of {} bits", program.lane_bits()), "lanes are words of 32 bits"));
    }
    if !program.lane_vars.is_empty() || !program.lookups.is_empty() {
        let names: Vec<&str> = program.lane_vars.iter().map(|var| var.name.as_str()).collect();
        return Err(refusal(
            format!("variables of every lane ({})", names.join(", ")),
            "lanes are in the packet and in registers alone",
        ));
    }
    let headers: u32 = program.headers.iter().map(Header::len_bytes).sum();
    let bytes = headers + program.lane_bytes();
    if bytes > FRAME_BYTES_MAX {
        return Err(refusal(
            format!("{} lanes a packet, which make frames of {bytes} bytes", program.lane_count()),
            format!("a frame is in one page, of which the kernel leaves {FRAME_BYTES_MAX} bytes"),
        ));
    }
    Ok(())
}

struct Lowering<'a> {
    p: &'a Program,
    layout: &'a Layout,
    tables: &'a [TableMap],
    code: Code,
    ingress: bool,
    /// Where a packet goes that is dropped at once, and one that a program without egress or after it ends with.
    drop: Label,
    /// The index of the packet's slot, known from the first access on.
    index: Option<Expr>,
    /// Whether the slot may be locked here, and is on every way to here.
    maybe_locked: bool,
    surely_locked: bool,
}

impl<'a> Lowering<'a> {
    fn new(p: &'a Program, layout: &'a Layout, tables: &'a [TableMap], ingress: bool) -> Self {
        let mut code = Code::default();
        let drop = code.label();
        Self {
            p,
            layout,
            tables,
            code,
            ingress,
            drop,
            index: None,
            maybe_locked: false,
            surely_locked: false,
        }
    }
}

/// Accesses that together have `bytes` bytes, the greatest first: offset and size of each.
fn pieces(bytes: u32) -> Vec<(u32, Size)> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    for size in [Size::Double, Size::Word, Size::Half, Size::Byte] {
        while bytes - at >= size.bytes() {
            pieces.push((at, size));
            at += size.bytes();
        }
    }
    pieces
}
