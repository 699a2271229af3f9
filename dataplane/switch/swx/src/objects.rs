//! The external objects of a program: its registers, and the actions on them.

use netfold_dpdk::swx::{Externs, Packets};
use netfold_p4::ir::{Program, Register, RegisterKind};
use netfold_p4::swx::{Does, Touch, WithObjects};
use netfold_switch::SimdLevel;
use netfold_switch::action::Action;

/// Field of a mailbox that has the packet's number, in objects that work on lanes.
const PACKET: usize = 1;

/// The entries of a register, cell after cell.
struct Storage {
    name: String,
    /// Width in bits of each cell of an entry.
    widths: Vec<u32>,
    cells: Vec<u32>,
}

impl Storage {
    fn new(program: &Program, register: &Register) -> Self {
        let widths: Vec<u32> = match &register.kind {
            RegisterKind::Cells(cells) => cells.iter().map(|cell| cell.bits).collect(),
            RegisterKind::Lanes(bits) => vec![*bits; program.lane_count() as usize],
        };
        let cells = vec![0; register.size as usize * widths.len()];
        Self { name: register.name.clone(), widths, cells }
    }

    fn entry(&self, index: usize) -> Option<&[u32]> {
        let start = index.checked_mul(self.widths.len())?;
        self.cells.get(start..start.checked_add(self.widths.len())?)
    }

    fn entry_mut(&mut self, index: usize) -> Option<&mut [u32]> {
        let start = index.checked_mul(self.widths.len())?;
        self.cells.get_mut(start..start.checked_add(self.widths.len())?)
    }
}

/// An action, the register that it is on, and the mailbox's field for its output.
struct Ready {
    register: usize,
    action: Action,
    output: Option<usize>,
}

enum Object {
    Cells(Vec<Ready>),
    Lanes(Box<Ready>),
    AddLanes,
}

/// All objects of a program.
pub(crate) struct Objects {
    registers: Vec<Storage>,
    objects: Vec<Object>,
    /// Where lanes are in a packet.
    lanes_at: usize,
    lane_bytes: usize,
    level: SimdLevel,
}

impl Objects {
    /// The objects of a printed program, its registers zeroed. The error is the name of an object whose actions cannot be executed.
    pub(crate) fn new(program: &Program, printed: &WithObjects) -> Result<Self, String> {
        let ready = |touch: &Touch, object: &netfold_p4::swx::Object| -> Result<Ready, String> {
            let cells = program.register(touch.register).cells();
            let action = Action::new(&touch.action, &cells, &object.fields, touch.output.is_some());
            let action = action.ok_or_else(|| object.name.clone())?;
            let register = usize::from(touch.register.0);
            Ok(Ready { register, action, output: touch.output.map(usize::from) })
        };
        let objects = printed.objects.iter().map(|object| {
            Ok(match &object.does {
                Does::Cells(touches) => {
                    Object::Cells(touches.iter().map(|touch| ready(touch, object)).collect::<Result<_, _>>()?)
                }
                Does::Lanes(touch) => Object::Lanes(Box::new(ready(touch, object)?)),
                Does::AddLanes => Object::AddLanes,
            })
        });
        Ok(Self {
            objects: objects.collect::<Result<_, String>>()?,
            registers: program.registers.iter().map(|register| Storage::new(program, register)).collect(),
            lanes_at: printed.lanes_at,
            lane_bytes: program.lane_bytes() as usize,
            level: SimdLevel::detect(),
        })
    }

    pub(crate) fn set_simd(&mut self, level: SimdLevel) {
        self.level = level.min(SimdLevel::detect());
    }

    /// The cells, or lanes, of an entry.
    pub(crate) fn read(&self, name: &str, index: usize) -> Option<&[u32]> {
        self.registers.iter().find(|register| register.name == name)?.entry(index)
    }

    /// Overwrites an entry; whether it exists and has as many values.
    pub(crate) fn write(&mut self, name: &str, index: usize, values: &[u32]) -> bool {
        let register = self.registers.iter_mut().find(|register| register.name == name);
        let Some(register) = register.filter(|register| register.widths.len() == values.len()) else {
            return false;
        };
        let masks: Vec<u32> =
            register.widths.iter().map(|bits| u32::MAX >> (32 - (*bits).clamp(1, 32))).collect();
        let Some(entry) = register.entry_mut(index) else { return false };
        for ((cell, value), mask) in entry.iter_mut().zip(values).zip(masks) {
            *cell = value & mask;
        }
        true
    }
}

impl Externs for Objects {
    fn call(&mut self, object: usize, mailbox: &mut [u32], packets: &mut Packets<'_>) {
        let Self { registers, objects, lanes_at, lane_bytes, level } = self;
        let (Some(object), Some(index)) = (objects.get_mut(object), mailbox.first()) else { return };
        let index = *index as usize;
        let number = mailbox.get(PACKET).copied().unwrap_or(u32::MAX);
        if matches!(object, Object::AddLanes) && !packets.grow(number, *lane_bytes as u32) {
            return;
        }
        let packet = packets.get(number);
        let lanes = || packet.and_then(|packet| packet.get_mut(*lanes_at..*lanes_at + *lane_bytes));
        match object {
            Object::Cells(all) => {
                for Ready { register, action, output } in all {
                    let Some(entry) = registers[*register].entry_mut(index) else { return };
                    let value = action.touch(entry, mailbox);
                    if let Some(field) = output.and_then(|field| mailbox.get_mut(field)) {
                        *field = value;
                    }
                }
            }
            Object::Lanes(ready) => {
                let Ready { register, action, .. } = &mut **ready;
                let (Some(entry), Some(lanes)) = (registers[*register].entry_mut(index), lanes()) else {
                    return;
                };
                action.fold(entry, lanes.as_chunks_mut().0, mailbox, *level);
            }
            Object::AddLanes => {
                if let Some(lanes) = lanes() {
                    lanes.fill(0);
                }
            }
        }
    }
}
