//! P4Info: the description of a program for control planes.
//!
//! Text follows protobuf's text format of `p4.config.v1.P4Info` (P4Runtime specification 1.4.1, chapter 6); the binary
//! form is written from the published field numbers. Both come from one description, so they cannot disagree.

mod message;

use std::collections::BTreeSet;

use crate::ir::*;
pub use crate::object_id::{action_id, counter_id, register_id, table_id};
use crate::v1model;
use message::Message;

/// P4Info in protobuf text format.
pub fn text(program: &Program) -> String {
    describe(program).text()
}

/// P4Info as a serialised protobuf message.
pub fn binary(program: &Program) -> Vec<u8> {
    describe(program).binary()
}

/// Name of an object within its control, as the P4 compiler forms it, and its alias.
fn preamble(id: u32, control: &str, name: &str) -> Message {
    let full = if control.is_empty() { name.to_string() } else { format!("{control}.{name}") };
    Message::new("preamble", 1).number("id", 1, id).string("name", 2, &full).string("alias", 3, name)
}

fn describe(program: &Program) -> Message {
    let mut info = Message::new("", 0);
    info = info.nested(Message::new("pkg_info", 1).string("arch", 5, "v1model"));
    let (ingress, egress) = (v1model::applied(&program.ingress), v1model::applied(&program.egress));
    let placed = ingress.iter().map(|t| ("IngressImpl", *t)).chain(egress.iter().map(|t| ("EgressImpl", *t)));
    for (control, table) in placed {
        info = info.nested(describe_table(program, control, program.table(table)));
    }
    let mut described = Vec::new();
    // A control declares its actions before its tables, in order of the program.
    for (control, tables) in [("IngressImpl", ingress), ("EgressImpl", egress)] {
        let actions: BTreeSet<ActionId> =
            tables.iter().flat_map(|table| program.table(*table).actions.clone()).collect();
        for id in actions {
            if !described.contains(&id) {
                described.push(id);
                info = info.nested(describe_action(control, program.action(id)));
            }
        }
    }
    for counter in &program.counters {
        let unit = Message::new("spec", 2).symbol("unit", 1, "PACKETS", 2);
        info = info.nested(
            Message::new("counters", 5)
                .nested(preamble(counter_id(counter.id), "IngressImpl", &counter.name))
                .nested(unit)
                .number("size", 3, counter.size),
        );
    }
    for register in &program.registers {
        for (id, name, bits) in instances(program, register) {
            info = info.nested(describe_register(register_id(id), &name, bits, register.size));
        }
    }
    info.nested(Message::new("type_info", 200))
}

/// A register of P4Info: one cell, or one lane, of every entry of a register of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterCell {
    /// P4Info id.
    pub id: u32,
    /// The program's register.
    pub register: RegisterId,
    /// Index of the entry's cell or lane.
    pub cell: usize,
    /// Width.
    pub bits: u32,
    /// Entries.
    pub size: u32,
}

/// Every register of a program's P4Info.
pub fn register_cells(program: &Program) -> Vec<RegisterCell> {
    let mut cells = Vec::new();
    for (register, at) in program.registers.iter().zip(0..) {
        for (cell, (id, _, bits)) in instances(program, register).into_iter().enumerate() {
            let (id, register) = (register_id(id), RegisterId(at));
            cells.push(RegisterCell { id, register, cell, bits, size: program.register(register).size });
        }
    }
    cells
}

/// The P4 registers that one register of the IR becomes: id, name and width.
fn instances(program: &Program, register: &Register) -> Vec<(u32, String, u32)> {
    match &register.kind {
        RegisterKind::Cells(cells) => cells
            .iter()
            .zip(register.id..)
            .map(|(cell, id)| (id, format!("{}_{}", register.name, cell.name), cell.bits))
            .collect(),
        RegisterKind::Lanes(bits) => {
            let digits = v1model::lane_digits(program);
            (0..program.lane_count())
                .map(|lane| (register.id + lane, format!("{}_{lane:0digits$}", register.name), *bits))
                .collect()
        }
    }
}

fn describe_table(program: &Program, control: &str, table: &Table) -> Message {
    let mut message = Message::new("tables", 2).nested(preamble(table_id(table.id), control, &table.name));
    for key in &table.keys {
        let (kind, value) = match key.kind {
            MatchKind::Exact => ("EXACT", 2),
            MatchKind::Ternary => ("TERNARY", 4),
        };
        message = message.nested(
            Message::new("match_fields", 2)
                .number("id", 1, key.id)
                .string("name", 2, &key.name)
                .number("bitwidth", 4, crate::check::width(program, &key.value, &[], &[]))
                .symbol("match_type", 5, kind, value),
        );
    }
    for action in &table.actions {
        let id = action_id(program.action(*action).id);
        message = message.nested(Message::new("action_refs", 3).number("id", 1, id));
    }
    let (default, args) = &table.default;
    let default = program.action(*default);
    message = message.number("const_default_action_id", 4, action_id(default.id));
    let mut initial = Message::new("initial_default_action", 5).number("action_id", 1, action_id(default.id));
    for (i, (value, param)) in args.iter().zip(&default.params).enumerate() {
        let bytes = &value.to_be_bytes()[8 - param.bits.div_ceil(8) as usize..];
        initial = initial.nested(
            Message::new("arguments", 4).number("param_id", 2, i as u32 + 1).bytes("value", 3, bytes),
        );
    }
    message.nested(initial).number("size", 8, table.size)
}

fn describe_action(control: &str, action: &Action) -> Message {
    let mut message =
        Message::new("actions", 3).nested(preamble(action_id(action.id), control, &action.name));
    for (i, param) in action.params.iter().enumerate() {
        message = message.nested(
            Message::new("params", 2)
                .number("id", 1, i as u32 + 1)
                .string("name", 2, &param.name)
                .number("bitwidth", 4, param.bits),
        );
    }
    message
}

fn describe_register(id: u32, name: &str, bits: u32, size: u32) -> Message {
    let bit = Message::new("bit", 1).number("bitwidth", 1, bits);
    let bitstring = Message::new("bitstring", 1).nested(bit);
    Message::new("registers", 11)
        .nested(preamble(id, "IngressImpl", name))
        .nested(Message::new("type_spec", 2).nested(bitstring))
        .number("size", 3, size)
}
