//! Register actions as external objects of the pipeline: the registers, and what their actions do, are outside.
//!
//! An object executes register actions on one entry each, as a stateful unit of a chip does in one pass. Its mailbox has the index first, in those of lanes
//! then the packet's number, then the packet's values that the actions use, then their outputs. Actions that follow each other, on entries of the same
//! index, share an object, as long as none uses what one before it has output.

use super::code::Label;
use super::control::start_of_lanes;
use super::expr::{Names, Value};
use super::{INTRINSIC, INTRINSIC_LEN, Printer, refusal};
use crate::check::width;
use crate::ir::*;
use crate::refusal::Refusal;

/// Longest name of an object of several actions: an operand (`e.OBJECT.FIELD`) has at most 63 bytes.
const NAME_MAX: usize = 50;
const OPERAND_MAX: usize = 63;
/// Widest field of a mailbox.
const FIELD_BITS: u32 = 32;
/// Member function of every object.
const FUNCTION: &str = "run";

/// An external object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name, and that of its type.
    pub name: String,
    /// The fields of its mailbox, of 32 bits each, and the widths of their values.
    pub fields: Vec<Field>,
    /// What it does.
    pub does: Does,
}

/// What an external object does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Does {
    /// Actions on cells, in this order.
    Cells(Vec<Touch>),
    /// An action on every lane; the packet's number is the second field. With an output, that goes to the packet's lanes.
    Lanes(Touch),
    /// Adds lanes of zeros to a packet that ends where they begin; the packet's number is the second field.
    AddLanes,
}

/// An action on an entry of a register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// The register.
    pub register: RegisterId,
    /// The action. What it uses of the packet is [`Expr::Param`], with the field's position in the mailbox.
    pub action: RegAction,
    /// The mailbox's field for the output; of lanes, 0 for the packet's lanes.
    pub output: Option<u16>,
}

/// A statement that executes a register action.
pub(super) type Exec<'s> = (RegisterId, u16, &'s Expr, Output);

/// The statement, if it executes a register action.
pub(super) fn exec_of(stmt: &Stmt) -> Option<Exec<'_>> {
    match stmt {
        Stmt::Exec { register, action, index, output } => Some((*register, *action, index, *output)),
        _ => None,
    }
}

/// Whether a value depends on the packet alone.
fn is_of_packet(expr: &Expr) -> bool {
    let is_state =
        matches!(expr, Expr::Cell(_) | Expr::NewCell(_) | Expr::Lane | Expr::LaneVar(_) | Expr::Cond(_));
    !is_state && expr.operands().into_iter().all(is_of_packet)
}

/// The expression with other operands.
fn with_operands(
    expr: &Expr,
    change: &mut impl FnMut(&Expr) -> Result<Expr, Refusal>,
) -> Result<Expr, Refusal> {
    let mut boxed = |inner: &Expr| change(inner).map(Box::new);
    Ok(match expr {
        Expr::Complement(inner) => Expr::Complement(boxed(inner)?),
        Expr::Not(inner) => Expr::Not(boxed(inner)?),
        Expr::Cast(bits, inner) => Expr::Cast(*bits, boxed(inner)?),
        Expr::Binary(op, left, right) => Expr::Binary(*op, boxed(left)?, boxed(right)?),
        Expr::Concat(high, low) => Expr::Concat(boxed(high)?, boxed(low)?),
        Expr::Select(cond, then, otherwise) => Expr::Select(boxed(cond)?, boxed(then)?, boxed(otherwise)?),
        Expr::Valid(_) | Expr::Intrinsic(_) => {
            return Err(refusal(
                "a condition of the packet in a register action",
                "an object is given numbers",
            ));
        }
        Expr::LaneVar(_) | Expr::Lookup(..) | Expr::AnyLane(_) => {
            return Err(refusal("a lane variable or a lookup", "lanes are folded in registers alone"));
        }
        _ => expr.clone(),
    })
}

/// An object that is being made, and the packet's values that it is given.
struct Making {
    object: Object,
    inputs: Vec<(usize, Expr)>,
}

impl Making {
    fn field(&mut self, wanted: &str, bits: u32) -> usize {
        let taken = |name: &str, fields: &[Field]| fields.iter().any(|field| field.name == name);
        let mut name = wanted.to_owned();
        while taken(&name, &self.object.fields) {
            name.push('_');
        }
        self.object.fields.push(Field { name, bits });
        self.object.fields.len() - 1
    }
}

impl Printer<'_> {
    /// Executes the register actions at the start of `stmts`, as many as share an object; returns how many.
    pub(super) fn exec_objects(&mut self, stmts: &[Stmt], drop: Label) -> Result<usize, Refusal> {
        let mut execs: Vec<Exec<'_>> = Vec::new();
        for exec in stmts.iter().map_while(exec_of) {
            if !self.joins(&execs, &exec) {
                break;
            }
            execs.push(exec);
        }
        match execs[..] {
            [exec] if matches!(self.p.register(exec.0).kind, RegisterKind::Lanes(_)) => {
                self.exec_lanes(&exec, drop)?;
            }
            _ => self.exec_cells(&execs, drop)?,
        }
        Ok(execs.len())
    }

    /// Whether an action is executed by the object of those before it.
    fn joins(&self, before: &[Exec<'_>], exec: &Exec<'_>) -> bool {
        let Some((first, _, index, _)) = before.first() else { return true };
        let (register, of_lanes) =
            (self.p.register(exec.0), |register: &Register| matches!(register.kind, RegisterKind::Lanes(_)));
        let action = &register.actions[usize::from(exec.1)];
        let values = action.updates.iter().flat_map(|(_, cases)| cases).chain(&action.output);
        let values: Vec<&Expr> =
            action.conditions.iter().chain(values.map(|case| &case.value)).chain([exec.2]).collect();
        let uses_output = before.iter().any(|(.., output)| match output {
            Output::Place(place) => values.iter().any(|value| value.mentions(&place.value())),
            _ => false,
        });
        let name: usize = before.iter().chain([exec]).map(|exec| self.exec_name(exec).len() + 1).sum();
        exec.2 == *index
            && !of_lanes(register)
            && !of_lanes(self.p.register(*first))
            && register.size == self.p.register(*first).size
            && before.iter().all(|(other, ..)| *other != exec.0)
            && !uses_output
            && name <= NAME_MAX
    }

    fn exec_name(&self, exec: &Exec<'_>) -> String {
        let register = self.p.register(exec.0);
        format!("{}_{}", register.name, register.actions[usize::from(exec.1)].name)
    }

    fn exec_cells(&mut self, execs: &[Exec<'_>], drop: Label) -> Result<(), Refusal> {
        let Some((first, _, index, _)) = execs.first() else { return Ok(()) };
        let index = self.value(index, &Names::default())?;
        self.within(&index, self.p.register(*first).size, drop);
        let names: Vec<String> = execs.iter().map(|exec| self.exec_name(exec)).collect();
        let mut making = Self::making(names.join("_"));
        let mut touches = Vec::new();
        for (register, action, ..) in execs {
            let register_of = self.p.register(*register);
            let cells = register_of.cells();
            let action = &register_of.actions[usize::from(*action)];
            touches.push(Touch {
                register: *register,
                action: self.rewritten(action, &cells, &mut making)?,
                output: None,
            });
        }
        for (number, touch) in touches.iter_mut().enumerate() {
            if !touch.action.output.is_empty() {
                touch.output = Some(making.field(&format!("out{number}"), FIELD_BITS) as u16);
            }
        }
        let outputs: Vec<_> = touches.iter().map(|touch| touch.output).collect();
        making.object.does = Does::Cells(touches);
        let fields = self.call(making, &index, false)?;
        for (output, (.., place)) in outputs.into_iter().zip(execs) {
            match (output, place) {
                (_, Output::None) => {}
                (Some(output), Output::Place(place)) => {
                    let bits = self.place_bits(*place);
                    self.assign_value(*place, &Value::place(fields[usize::from(output)].clone(), bits));
                }
                _ => return Err(refusal("lane variables", "registers output only lanes")),
            }
        }
        Ok(())
    }

    fn exec_lanes(&mut self, exec: &Exec<'_>, drop: Label) -> Result<(), Refusal> {
        let (id, action, index, output) = *exec;
        let register = self.p.register(id);
        let action = &register.actions[usize::from(action)];
        let index = self.value(index, &Names::default())?;
        self.within(&index, register.size, drop);
        if action.uses_lanes(output) {
            let first = self.part_names(Part::Lanes).into_iter().next().unwrap_or_default();
            self.code.jump("jmpnv", drop, &format!("h.{first}"));
        }
        let output = match output {
            Output::None => None,
            Output::Lanes => Some(0),
            _ => return Err(refusal("lane variables", "registers output only lanes")),
        };
        let more = if output.is_some() { "_out" } else { "" };
        let mut making = Self::making(format!("{}{more}", self.exec_name(exec)));
        making.field("packet", FIELD_BITS);
        let action = self.rewritten(action, &register.cells(), &mut making)?;
        making.object.does = Does::Lanes(Touch { register: id, action, output });
        self.call(making, &index, true).map(drop_fields)
    }

    /// Adds the lanes behind the packet, as zeros. Where the packet ends before the place of lanes, it is dropped.
    pub(super) fn add_lanes_by_object(&mut self, drop: Label) -> Result<(), Refusal> {
        let end = self.code.label();
        let names = self.part_names(Part::Lanes);
        let Some(first) = names.first() else { return Ok(()) };
        let at = self.lanes_at()?;
        self.code.jump("jmpv", end, &format!("h.{first}"));
        self.code.jump("jmpneq", drop, &format!("h.{INTRINSIC}.length {at:#x}"));
        // What surrounds the pipeline has room behind every packet.
        for name in &names {
            self.code.run(format!("extract h.{name}"));
        }
        let mut making = Self::making("add_lanes".into());
        making.field("packet", FIELD_BITS);
        making.object.does = Does::AddLanes;
        self.call(making, &Value::constant(0, FIELD_BITS), true)?;
        self.code.put(end);
        Ok(())
    }

    /// Where the lanes are in a packet that has them, without the intrinsic header.
    pub(super) fn lanes_at(&self) -> Result<u32, Refusal> {
        start_of_lanes(self.p)
            .ok_or_else(|| refusal("lanes at several places", "an object finds them at one"))
    }

    fn making(name: String) -> Making {
        let index = Field { name: "index".into(), bits: FIELD_BITS };
        Making {
            object: Object { name, fields: vec![index], does: Does::Cells(Vec::new()) },
            inputs: Vec::new(),
        }
    }

    /// Fills the mailbox and runs the object; returns the operands that are the mailbox's fields.
    fn call(&mut self, making: Making, index: &Value, of_packet: bool) -> Result<Vec<String>, Refusal> {
        let Making { object, inputs } = making;
        let operand = |field: &Field| format!("e.{}.{}", object.name, field.name);
        let fields: Vec<String> = object.fields.iter().map(operand).collect();
        if let Some(long) = fields.iter().find(|field| field.len() > OPERAND_MAX) {
            return Err(refusal(format!("operand '{long}'"), format!("an operand has {OPERAND_MAX} bytes")));
        }
        for (at, value) in inputs {
            let value = self.value(&value, &Names::default())?;
            self.code.run(format!("mov {} {}", fields[at], value.text));
        }
        self.code.run(format!("mov {} {}", fields[0], index.text));
        if of_packet {
            self.code.run(format!("mov {} h.{INTRINSIC}.packet", fields[1]));
        }
        self.code.run(format!("extern e.{}.{FUNCTION}", object.name));
        let objects = self.objects.get_or_insert_default();
        match objects.iter().find(|known| known.name == object.name) {
            Some(known) if *known == object => {}
            Some(_) => {
                return Err(refusal(
                    format!("two register actions named '{}'", object.name),
                    "an object is named after its actions",
                ));
            }
            None => objects.push(object),
        }
        Ok(fields)
    }

    /// The action with fields of the mailbox in place of the packet's values.
    fn rewritten(
        &self,
        action: &RegAction,
        cells: &[Field],
        making: &mut Making,
    ) -> Result<RegAction, Refusal> {
        let mut expr = |value: &Expr| self.rewritten_expr(value, cells, making);
        let mut cases = |cases: &[Case]| -> Result<Vec<Case>, Refusal> {
            let case = |case: &Case| {
                let when = case.when.as_ref().map(&mut expr).transpose()?;
                Ok(Case { when, value: expr(&case.value)? })
            };
            cases.iter().map(case).collect()
        };
        let mut updates = Vec::new();
        for (cell, all) in &action.updates {
            updates.push((*cell, cases(all)?));
        }
        let output = cases(&action.output)?;
        let conditions = action
            .conditions
            .iter()
            .map(|value| self.rewritten_expr(value, cells, making))
            .collect::<Result<_, _>>()?;
        Ok(RegAction { name: action.name.clone(), conditions, updates, output })
    }

    fn rewritten_expr(&self, value: &Expr, cells: &[Field], making: &mut Making) -> Result<Expr, Refusal> {
        let bits = width(self.p, value, cells, &[]);
        if bits == 0 || matches!(value, Expr::Const(..)) || !is_of_packet(value) {
            return with_operands(value, &mut |operand| self.rewritten_expr(operand, cells, making));
        }
        if bits > FIELD_BITS {
            return Err(refusal(
                format!("a value of {bits} bits in a register action"),
                "an object is given numbers of 32 bits",
            ));
        }
        let known = making.inputs.iter().find(|(_, known)| known == value).map(|(at, _)| *at);
        let at = known.unwrap_or_else(|| {
            let name = match value {
                Expr::Field(header, field) => self.p.field(*header, *field).name.as_str(),
                Expr::Meta(meta) => self.p.metadata[usize::from(meta.0)].name.as_str(),
                _ => "value",
            };
            let at = making.field(name, bits);
            making.inputs.push((at, value.clone()));
            at
        });
        Ok(Expr::Param(at as u16))
    }

    fn place_bits(&self, place: LValue) -> u32 {
        match place {
            LValue::Field(header, field) => self.p.field(header, field).bits,
            LValue::Meta(meta) => self.p.metadata[usize::from(meta.0)].bits,
        }
    }
}

fn drop_fields(_: Vec<String>) {}

/// Where lanes are, from the start of the intrinsic header.
pub(super) fn lanes_at(program: &Program) -> usize {
    INTRINSIC_LEN + start_of_lanes(program).unwrap_or(0) as usize
}
