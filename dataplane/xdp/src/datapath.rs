//! Loading and test runs; registers and counters.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use netfold_bpf::sys::{self, Attach, Hook, Link, Map, MapAttributes, MapType, Put};
use netfold_bpf::{Instruction, MapPart, Register, btf};
use netfold_p4::interpret::Send;
use netfold_p4::ir::{Program, RegisterKind};
use netfold_p4::p4info::counter_id;
use netfold_p4::xdp::{self, BpfProgram, Handover, MapId, MapKind, MapSpec, Xdp, verdict};

use crate::error::XdpError;
use crate::ports::{Group, INTERFACE_VALUE};
use crate::tables::Tables;

/// Room for a packet in a test run, with what is before it.
const PACKET_BYTES_MAX: usize = 4096;

/// A program in the kernel, with its state.
pub struct Datapath {
    program: Arc<Program>,
    pub(crate) xdp: Xdp,
    pub(crate) maps: BTreeMap<MapId, Map>,
    pub(crate) ingress: sys::Program,
    pub(crate) egress: Option<sys::Program>,
    pub(crate) tables: Tables,
    /// Interface of each port.
    pub(crate) ports: BTreeMap<u16, u32>,
    pub(crate) groups: BTreeMap<u16, Group>,
    pub(crate) links: BTreeMap<u32, Link>,
    /// Egress for test runs.
    test_egress: Option<sys::Program>,
}

/// What ingress did with a packet in a test run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// The destination.
    pub send: Send,
    /// Whether the kernel's network stack gets the packet, which the program drops.
    pub passed: bool,
    /// Length of the packet.
    pub bytes: usize,
    /// Time in the kernel, in nanoseconds.
    pub nanoseconds: u32,
}

/// Attributes of a map. `inner` is a map like those in a map of maps, `types` the type information of a map with locks.
pub(crate) fn attributes<'a>(
    spec: &'a MapSpec,
    inner: Option<&'a Map>,
    types: Option<&'a OwnedFd>,
) -> MapAttributes<'a> {
    MapAttributes {
        kind: match spec.kind {
            MapKind::Array | MapKind::LockedArray => MapType::Array,
            MapKind::PerCpuArray => MapType::PerCpuArray,
            MapKind::Hash => MapType::Hash,
            MapKind::DeviceHash => MapType::DeviceHash,
            MapKind::ArrayOfDeviceHashes => MapType::ArrayOfMaps,
        },
        name: &spec.name,
        key_bytes: spec.key_bytes,
        value_bytes: spec.value_bytes,
        entries: spec.entries,
        inner: inner.map(AsFd::as_fd),
        types: types.map(|types| (types.as_fd(), btf::KEY, btf::VALUE)),
    }
}

fn create(spec: &MapSpec) -> Result<Map, XdpError> {
    let refused = |source| XdpError::Map { name: spec.name.clone(), source };
    let inner = match spec.kind {
        MapKind::ArrayOfDeviceHashes => Some(crate::ports::members().map_err(refused)?),
        _ => None,
    };
    let types = match spec.kind {
        MapKind::LockedArray => {
            Some(sys::load_types(&btf::locked_value((spec.value_bytes - 4) / 4)).map_err(refused)?)
        }
        _ => None,
    };
    Map::create(&attributes(spec, inner.as_ref(), types.as_ref())).map_err(refused)
}

/// Loads a program with the descriptors of its maps.
fn load(
    block: &'static str,
    attach: Attach,
    program: &BpfProgram,
    maps: &BTreeMap<MapId, Map>,
) -> Result<sys::Program, XdpError> {
    let mut instructions: Vec<Instruction> = program.instructions.clone();
    for (at, id) in &program.maps {
        if let Some(map) = maps.get(id) {
            let Instruction { destination, source, .. } = instructions[*at];
            let part = match source {
                1 => MapPart::Itself,
                _ => MapPart::Value(instructions[at + 1].operand as u32),
            };
            let pair = Instruction::map(Register(destination), part, map.as_fd().as_raw_fd());
            instructions[*at..at + 2].copy_from_slice(&pair);
        }
    }
    sys::Program::load(&format!("netfold_{block}"), attach, &instructions).map_err(|rejected| {
        XdpError::Rejected {
            block,
            element: rejected.instruction.map_or("an unknown element", |at| program.origin(at)).to_owned(),
            instruction: rejected.instruction,
            log: rejected.log,
            source: rejected.error,
        }
    })
}

/// Puts a program on an interface.
pub(crate) fn attach(program: &sys::Program, interface: u32, hook: Hook) -> Result<Link, XdpError> {
    Link::attach(program, interface, hook).map_err(|source| XdpError::Attach {
            interface,
            problem: match source.raw_os_error() {
                Some(16) => "it has a program already; `ip link set dev IFACE xdp off` or `netfold switch detach` removes it",
                Some(95) => "its driver cannot run XDP programs",
                Some(34) => "its MTU is too long for XDP: about 3500 bytes are possible",
                Some(19) => "there is no such interface",
                Some(1 | 13) => "it takes CAP_NET_ADMIN; a switch with `--io udp` takes none",
                _ => "see the system's error",
            },
            source,
        })
}

impl Datapath {
    /// Creates the maps and loads the programs. They are on no interface.
    ///
    /// # Errors
    ///
    /// [`XdpError::Print`], [`XdpError::Map`], [`XdpError::Rejected`].
    pub fn new(program: Arc<Program>) -> Result<Self, XdpError> {
        let xdp = xdp::lower(&program)?;
        Self::of(program, xdp)
    }

    /// Like [`Self::new`], of a program that is lowered.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn of(program: Arc<Program>, xdp: Xdp) -> Result<Self, XdpError> {
        let maps = xdp.maps.iter().map(|spec| Ok((spec.id, create(spec)?)));
        let maps = maps.collect::<Result<BTreeMap<_, _>, XdpError>>()?;
        let ingress = load("ingress", Attach::Receive, &xdp.ingress, &maps)?;
        let egress =
            xdp.egress.as_ref().map(|egress| load("egress", Attach::Send, egress, &maps)).transpose()?;
        let tables = Tables::new(&xdp);
        Ok(Self {
            program,
            xdp,
            maps,
            ingress,
            egress,
            tables,
            ports: BTreeMap::new(),
            groups: BTreeMap::new(),
            links: BTreeMap::new(),
            test_egress: None,
        })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Number of instructions of ingress and egress.
    pub fn instructions(&self) -> [usize; 2] {
        let egress = self.xdp.egress.as_ref().map_or(0, |egress| egress.instructions.len());
        [self.xdp.ingress.instructions.len(), egress]
    }

    /// A map that the program has.
    pub(crate) fn map(&self, id: MapId, name: &'static str) -> Result<&Map, XdpError> {
        let source = || std::io::ErrorKind::NotFound.into();
        self.maps.get(&id).ok_or_else(|| XdpError::Change { name, source: source() })
    }

    /// Puts the program on the interface with that number.
    ///
    /// # Errors
    ///
    /// [`XdpError::Attach`].
    pub fn attach(&mut self, interface: u32, hook: Hook) -> Result<(), XdpError> {
        let link = attach(&self.ingress, interface, hook)?;
        self.links.insert(interface, link);
        Ok(())
    }

    /// Takes the program off an interface.
    pub fn detach(&mut self, interface: u32) {
        self.links.remove(&interface);
    }

    fn slot(&self, index: usize) -> Option<Vec<u8>> {
        let spec = self.xdp.maps.iter().find(|map| map.id == MapId::Slots)?;
        let mut value = vec![0; spec.value_bytes as usize];
        let key = u32::try_from(index).ok()?.to_ne_bytes();
        let found = self.maps.get(&MapId::Slots)?.read(&key, &mut value, true).ok()?;
        found.then_some(value)
    }

    /// Widths of a register's cells, and the offset of the first in a slot.
    fn cells(&self, name: &str) -> Option<(Vec<u32>, usize)> {
        let at = self.program.registers.iter().position(|register| register.name == name)?;
        let widths = match &self.program.registers[at].kind {
            RegisterKind::Cells(cells) => cells.iter().map(|cell| cell.bits).collect(),
            RegisterKind::Lanes(bits) => vec![*bits; self.program.lane_count() as usize],
        };
        Some((widths, self.xdp.registers[at] as usize))
    }

    /// Appends the cells (or lanes) of one entry of a register, as they are between two packets of the slot; false when there is no such register or entry.
    pub fn read_register(&self, name: &str, index: usize, out: &mut Vec<u32>) -> bool {
        let (Some((widths, start)), Some(slot)) = (self.cells(name), self.slot(index)) else { return false };
        let words = slot[start..].chunks_exact(4).take(widths.len());
        out.extend(words.map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])));
        true
    }

    /// Overwrites the cells (or lanes) of one entry of a register, each truncated to its width. What packets write to the slot's other registers meanwhile
    /// is lost. False when there is no such register or entry, or the number of values differs.
    pub fn write_register(&mut self, name: &str, index: usize, values: &[u32]) -> bool {
        let (Some((widths, start)), Some(mut slot)) = (self.cells(name), self.slot(index)) else {
            return false;
        };
        if widths.len() != values.len() {
            return false;
        }
        for ((word, value), bits) in slot[start..].chunks_exact_mut(4).zip(values).zip(widths) {
            let mask = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
            word.copy_from_slice(&(value & mask).to_ne_bytes());
        }
        let key = (index as u32).to_ne_bytes();
        self.maps.get(&MapId::Slots).is_some_and(|slots| slots.write(&key, &slot, Put::Locked).is_ok())
    }

    /// The values of the counter with P4Info id `id`; empty when there is none.
    pub fn counters(&self, id: u32) -> Vec<u64> {
        let at = self.program.counters.iter().position(|counter| counter_id(counter.id) == id);
        let spec = self.xdp.maps.iter().find(|map| map.id == MapId::Counters);
        let (Some(at), Some(spec)) = (at, spec) else { return Vec::new() };
        let mut value = vec![0; spec.value_bytes as usize];
        let read = self.maps.get(&MapId::Counters).map(|map| map.read(&[0; 4], &mut value, false));
        if !matches!(read, Some(Ok(true))) {
            return Vec::new();
        }
        let words = value[self.xdp.counters[at] as usize..].chunks_exact(8);
        let words = words.take(self.program.counters[at].size as usize);
        words.map(|word| u64::from_ne_bytes(std::array::from_fn(|at| word[at]))).collect()
    }

    /// Runs ingress in the kernel over a packet that arrived by the loopback interface, which must be a [port](Self::set_port). The packet that is sent is in
    /// `packet`, as far as it fits.
    ///
    /// # Errors
    ///
    /// [`XdpError::Run`], as for packets of less than 14 bytes.
    pub fn test_ingress(&self, packet: &mut Vec<u8>) -> Result<Ran, XdpError> {
        let mut output = [0; PACKET_BYTES_MAX];
        let refused = |source| XdpError::Run { bytes: packet.len(), source };
        let run = self.ingress.test_run(packet, 0, &mut output, 1).map_err(refused)?;
        let before = output.first_chunk::<{ Handover::LEN }>();
        let send = match (run.verdict as i32, before) {
            (verdict::REDIRECT, Some(before)) if run.before == Handover::LEN => {
                Handover::from_bytes(*before).send
            }
            _ => Send::Drop,
        };
        packet.clear();
        packet.extend_from_slice(&output[run.before..run.bytes]);
        let passed = run.verdict as i32 == verdict::PASS;
        Ok(Ran { send, passed, bytes: packet.len(), nanoseconds: run.nanoseconds })
    }

    /// Runs egress in the kernel over a copy, as if it left by the loopback interface. It is not sent if `packet` is empty then.
    ///
    /// # Errors
    ///
    /// [`XdpError::Run`], as for packets of less than 14 bytes; [`XdpError::Rejected`].
    pub fn test_egress(&mut self, handover: Handover, packet: &mut Vec<u8>) -> Result<(), XdpError> {
        let Some(egress) = &self.xdp.egress else { return Ok(()) };
        let program = match self.test_egress.take() {
            Some(program) => program,
            None => load("egress", Attach::Receive, &egress.for_test(), &self.maps)?,
        };
        let mut input = handover.to_bytes().map_or(Vec::new(), Vec::from);
        let before = input.len();
        input.extend_from_slice(packet);
        let mut output = [0; PACKET_BYTES_MAX];
        let run = program.test_run(&input, before, &mut output, 1);
        self.test_egress = Some(program);
        let run = run.map_err(|source| XdpError::Run { bytes: packet.len(), source })?;
        packet.clear();
        if run.verdict as i32 == verdict::PASS {
            packet.extend_from_slice(&output[run.before..run.bytes]);
        }
        Ok(())
    }

    /// The value of a map of interfaces: the interface, and the program that runs for copies on it.
    pub(crate) fn interface_value(&self, interface: u32) -> [u8; INTERFACE_VALUE as usize] {
        let program = self.egress.as_ref().map_or(0, |egress| egress.as_fd().as_raw_fd());
        let mut value = [0; INTERFACE_VALUE as usize];
        value[..4].copy_from_slice(&interface.to_ne_bytes());
        value[4..].copy_from_slice(&program.to_ne_bytes());
        value
    }
}

impl fmt::Debug for Datapath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datapath").field("program", &self.program.name).finish_non_exhaustive()
    }
}
