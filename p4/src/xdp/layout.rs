//! Where everything is: the packet's parts, a CPU's variables, the cells of a slot, keys and actions of tables, counters.

use std::collections::{BTreeMap, BTreeSet};

use netfold_bpf::Size;

use super::{SLOT_LOCK_BYTES, refusal};
use crate::fields::Containers;
use crate::ir::*;
use crate::refusal::Refusal;
use crate::v1model::visit;

/// A variable of the memory that each CPU has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) offset: i16,
    pub(super) size: Size,
}

/// Bytes for what is behind the lanes of a packet that loses them.
pub(super) const MOVED_BYTES: u32 = 4096;

/// Offsets in the packet, or in a CPU's memory.
pub(super) struct Layout {
    pub(super) containers: Containers,
    /// Offset of each header in the packet.
    headers: Vec<Option<u32>>,
    /// Offset of the lanes.
    pub(super) lanes: Option<u32>,
    /// The header that the parser extracts last, before the lanes.
    pub(super) last_header: HeaderId,
    metadata: Vec<Variable>,
    fields: BTreeMap<(HeaderId, u16), Variable>,
    /// Fields that statements assign.
    assigned: BTreeSet<(HeaderId, u16)>,
    valid: Vec<Variable>,
    pub(super) has_lanes: Variable,
    /// Whether the packet's memory contains the lanes, also those that were removed.
    pub(super) room: Variable,
    /// End of what was extracted.
    pub(super) rest: Variable,
    pub(super) length: Variable,
    pub(super) port: Variable,
    pub(super) checksum_error: Variable,
    pub(super) instance: Variable,
    pub(super) depth: Variable,
    /// How and where the packet is sent.
    pub(super) send: Variable,
    pub(super) to: Variable,
    pub(super) action: Variable,
    pub(super) conditions: [Variable; 2],
    pub(super) old: [Variable; 2],
    pub(super) new: [Variable; 2],
    params: Vec<Variable>,
    /// Bytes that are zero when a packet arrives.
    pub(super) cleared: u32,
    /// What ingress hands over to copies on devices without space for it before the packet.
    pub(super) handover: Variable,
    /// Number of the packet that was handed over last.
    pub(super) number: Variable,
    /// Room for what is behind removed lanes.
    pub(super) moved: i16,
    /// Size of a CPU's memory.
    pub(super) bytes: u32,
    /// Offset of each register's cells in a slot.
    registers: Vec<u32>,
    /// Bytes and number of slots.
    pub(super) slot_bytes: u32,
    pub(super) slots: u32,
    /// Offset of each counter, and bytes of all.
    counters: Vec<u32>,
    pub(super) counter_bytes: u32,
}

#[derive(Default)]
struct Allocator {
    next: u32,
}

impl Allocator {
    fn take(&mut self, bits: u32) -> Variable {
        let size = if bits > 32 { Size::Double } else { Size::Word };
        let offset = self.next.next_multiple_of(size.bytes());
        self.next = offset + size.bytes();
        Variable { offset: offset as i16, size }
    }
}

/// Every place that a block's statements and those of its tables' actions assign.
fn assigned(program: &Program) -> BTreeSet<(HeaderId, u16)> {
    let mut found = BTreeSet::new();
    let mut take = |place: &LValue| {
        if let LValue::Field(header, field) = place {
            found.insert((*header, *field));
        }
    };
    let mut each = |stmt: &Stmt| match stmt {
        Stmt::Assign(place, _) | Stmt::Exec { output: Output::Place(place), .. } => take(place),
        _ => {}
    };
    visit(&program.ingress, &mut each);
    visit(&program.egress, &mut each);
    program.actions.iter().for_each(|action| visit(&action.body, &mut each));
    found
}

/// Every field that an expression of the program reads.
fn read(program: &Program) -> BTreeSet<(HeaderId, u16)> {
    let mut found = BTreeSet::new();
    for state in &program.parser.states {
        if let Next::Select { on, .. } = &state.next {
            found.extend(on.iter().copied());
        }
    }
    let keys = program.tables.iter().flat_map(|table| &table.keys);
    keys.for_each(|key| key.value.fields(&mut found));
    for action in program.registers.iter().flat_map(|register| &register.actions) {
        let updates = action.updates.iter().flat_map(|(_, cases)| cases);
        let values = updates.chain(&action.output).flat_map(|case| case.when.iter().chain([&case.value]));
        action.conditions.iter().chain(values).for_each(|expr| expr.fields(&mut found));
    }
    let mut each = |stmt: &Stmt| match stmt {
        Stmt::Assign(_, value) | Stmt::AssignLane(_, value) => value.fields(&mut found),
        Stmt::If(value, ..)
        | Stmt::Exec { index: value, .. }
        | Stmt::Count(_, value)
        | Stmt::Unicast(value)
        | Stmt::Multicast(value) => value.fields(&mut found),
        _ => {}
    };
    visit(&program.ingress, &mut each);
    visit(&program.egress, &mut each);
    program.actions.iter().for_each(|action| visit(&action.body, &mut each));
    found
}

impl Layout {
    pub(super) fn new(program: &Program) -> Result<Self, Refusal> {
        let (headers, lanes) = offsets(program)?;
        let last_header = program.deparser.iter().rev().find_map(|part| match part {
            Part::Header(header) => Some(*header),
            Part::Lanes => None,
        });
        let last_header = last_header.ok_or_else(|| refusal("a program without headers", "it has one"))?;
        let containers = Containers::new(program);
        let assigned = assigned(program);
        let wanted = tracked(program, &containers, &assigned);
        let mut memory = Allocator::default();
        let word = |memory: &mut Allocator| memory.take(32);
        let params = program.actions.iter().map(|action| action.params.len()).max().unwrap_or(0);
        let params = (0..params).map(|_| memory.take(64)).collect();
        let metadata = program.metadata.iter().map(|meta| memory.take(meta.bits)).collect();
        let fields =
            wanted.into_iter().map(|(h, f)| ((h, f), memory.take(program.field(h, f).bits))).collect();
        let valid = program.headers.iter().map(|_| word(&mut memory)).collect();
        let [has_lanes, room, rest, length, port, checksum_error] =
            std::array::from_fn(|_| word(&mut memory));
        let [instance, depth, send, to, action] = std::array::from_fn(|_| word(&mut memory));
        let conditions = std::array::from_fn(|_| word(&mut memory));
        let old = std::array::from_fn(|_| word(&mut memory));
        let new = std::array::from_fn(|_| word(&mut memory));
        let cleared = memory.next.next_multiple_of(8);
        memory.next = cleared;
        let handover = memory.take(64);
        let number = memory.take(64);
        let moved = memory.next as i16;
        let (registers, slot_bytes, slots) = slots(program)?;
        let sizes = program.counters.iter().map(|counter| counter.size * 8);
        let counters = starts(sizes.clone()).collect();
        Ok(Self {
            containers,
            headers,
            lanes,
            last_header,
            metadata,
            fields,
            assigned,
            valid,
            has_lanes,
            room,
            rest,
            length,
            port,
            checksum_error,
            instance,
            depth,
            send,
            to,
            action,
            conditions,
            old,
            new,
            params,
            cleared,
            handover,
            number,
            moved,
            bytes: memory.next + MOVED_BYTES,
            registers,
            slot_bytes,
            slots,
            counters,
            counter_bytes: sizes.sum(),
        })
    }

    pub(super) fn meta(&self, meta: MetaId) -> Variable {
        self.metadata[usize::from(meta.0)]
    }

    /// The variable of a field; every field that statements mention has one.
    pub(super) fn field(&self, header: HeaderId, field: u16) -> Variable {
        self.fields.get(&(header, field)).copied().unwrap_or(self.has_lanes)
    }

    /// Fields of a header that have a variable.
    pub(super) fn fields_of(&self, header: HeaderId) -> impl Iterator<Item = (u16, Variable)> {
        self.fields.range((header, 0)..=(header, u16::MAX)).map(|((_, field), variable)| (*field, *variable))
    }

    /// Containers of a header that are written back.
    pub(super) fn changed(&self, header: HeaderId) -> BTreeSet<usize> {
        let fields = self.assigned.range((header, 0)..=(header, u16::MAX));
        fields.map(|(header, field)| self.containers.position(*header, *field).container).collect()
    }

    pub(super) fn valid(&self, part: Part) -> Variable {
        match part {
            Part::Header(header) => self.valid[usize::from(header.0)],
            Part::Lanes => self.has_lanes,
        }
    }

    /// Offset of a header in the packet; `None` if the parser does not extract it.
    pub(super) fn header(&self, header: HeaderId) -> Option<u32> {
        self.headers[usize::from(header.0)]
    }

    /// Offset and bytes of a container in the packet.
    pub(super) fn container(&self, header: HeaderId, container: usize) -> (u32, u32) {
        let bytes = |number: usize| self.containers.of(header)[number].bits / 8;
        let before: u32 = (0..container).map(bytes).sum();
        (self.header(header).unwrap_or(0) + before, bytes(container))
    }

    pub(super) fn param(&self, param: u16) -> Variable {
        self.params[usize::from(param)]
    }

    /// Offset of a register's first cell in a slot.
    pub(super) fn register(&self, register: RegisterId) -> u32 {
        self.registers[usize::from(register.0)]
    }

    pub(super) fn counter(&self, counter: CounterId) -> u32 {
        self.counters[usize::from(counter.0)]
    }
}

/// Fields with a variable: those that are read, and all of a container of which one is assigned.
fn tracked(
    program: &Program,
    containers: &Containers,
    assigned: &BTreeSet<(HeaderId, u16)>,
) -> BTreeSet<(HeaderId, u16)> {
    let mut wanted = read(program);
    for (header, field) in assigned {
        let own = containers.position(*header, *field).container;
        let all = 0..program.header(*header).fields.len() as u16;
        wanted.extend(
            all.filter(|other| containers.position(*header, *other).container == own)
                .map(|other| (*header, other)),
        );
    }
    wanted
}

fn starts(sizes: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    sizes.scan(0, |next, size| {
        let start = *next;
        *next += size;
        Some(start)
    })
}

/// Offsets of registers in a slot, its bytes, and how many slots there are.
fn slots(program: &Program) -> Result<(Vec<u32>, u32, u32), Refusal> {
    let bytes = |register: &Register| match &register.kind {
        RegisterKind::Cells(cells) => 4 * cells.len() as u32,
        RegisterKind::Lanes(_) => 4 * program.lane_count(),
    };
    let sizes = program.registers.iter().map(bytes);
    let registers: Vec<u32> = starts(sizes.clone()).map(|start| SLOT_LOCK_BYTES + start).collect();
    let count = program.registers.first().map_or(1, |register| register.size);
    if let Some(other) = program.registers.iter().find(|register| register.size != count) {
        return Err(refusal(
            format!("register '{}' of {} entries beside others of {count}", other.name, other.size),
            "all registers are one array of slots under one lock each",
        ));
    }
    Ok((registers, SLOT_LOCK_BYTES + sizes.sum::<u32>(), count))
}

/// Offsets of the parts in the packet: the same on every way through the parser.
fn offsets(program: &Program) -> Result<(Vec<Option<u32>>, Option<u32>), Refusal> {
    let mut headers = vec![None; program.headers.len()];
    let mut lanes = None;
    let mut at: BTreeMap<u16, u32> = BTreeMap::from([(0, 0)]);
    for index in order(&program.parser) {
        let Some(mut offset) = at.get(&(index as u16)).copied() else { continue };
        let state = &program.parser.states[index];
        for part in &state.extract {
            let (place, bytes, name) = match part {
                Part::Header(header) => {
                    let declared = program.header(*header);
                    (&mut headers[usize::from(header.0)], declared.len_bytes(), declared.name.as_str())
                }
                Part::Lanes => (&mut lanes, program.lane_bytes(), "lanes"),
            };
            if place.is_some_and(|other| other != offset) {
                return Err(refusal(
                    format!("'{name}' at several offsets"),
                    "a part has one place in the packet",
                ));
            }
            *place = Some(offset);
            offset += bytes;
        }
        let targets: Vec<StateId> = match &state.next {
            Next::Accept => vec![],
            Next::Select { cases, otherwise, .. } => {
                cases.iter().map(|(_, target)| *target).chain(*otherwise).collect()
            }
        };
        for target in targets {
            if at.insert(target.0, offset).is_some_and(|other| other != offset) {
                let name = &program.parser.states[usize::from(target.0)].name;
                return Err(refusal(
                    format!("parser state '{name}' at several offsets"),
                    "a part has one place in the packet",
                ));
            }
        }
    }
    in_order(program, &headers, lanes)?;
    Ok((headers, lanes))
}

/// Refuses a deparser that puts parts elsewhere than where they came from.
fn in_order(program: &Program, headers: &[Option<u32>], lanes: Option<u32>) -> Result<(), Refusal> {
    let mut end = 0;
    for part in &program.deparser {
        let (offset, bytes) = match part {
            Part::Header(header) => (headers[usize::from(header.0)], program.header(*header).len_bytes()),
            Part::Lanes => (lanes, program.lane_bytes()),
        };
        if offset.is_some_and(|offset| offset != end) {
            return Err(refusal(
                "a deparser in another order than the parser's",
                "parts stay where they are",
            ));
        }
        end += bytes;
    }
    Ok(())
}

/// The states in an order in which every transition goes forward.
pub(super) fn order(parser: &Parser) -> Vec<usize> {
    crate::swx::order(parser)
}
