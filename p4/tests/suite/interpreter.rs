//! The interpreter on constructs that the all-reduce program does not use, or not at their limits.

use netfold_p4::entry::{EntryError, FieldMatch, TableEntry};
use netfold_p4::interpret::{InterpretError, Interpreter, Send};
use netfold_p4::ir::*;
use netfold_p4::p4info;

const NUMBERS: HeaderId = HeaderId(0);

fn field(index: u16) -> Expr {
    Expr::Field(NUMBERS, index)
}

fn put(index: u16, value: Expr) -> Stmt {
    Stmt::Assign(LValue::Field(NUMBERS, index), value)
}

fn byte(value: u64) -> Expr {
    Expr::Const(value, 8)
}

/// A program whose packets are four bytes `a`, `b`, `c`, `d`, two 16-bit lanes behind them, then payload.
fn program(ingress: Vec<Stmt>) -> Program {
    let named = |names: &[&str], bits| names.iter().map(|n| Field { name: (*n).into(), bits }).collect();
    let mut ingress = ingress;
    ingress.push(Stmt::Unicast(Expr::Intrinsic(Intrinsic::IngressPort)));
    Program {
        name: "numbers".into(),
        about: "for tests".into(),
        headers: vec![Header { name: "numbers".into(), fields: named(&["a", "b", "c", "d"], 8) }],
        lanes: Some(Lanes { name: "lanes".into(), count: 2, bits: 16 }),
        metadata: vec![Meta { name: "m".into(), bits: 32 }],
        lane_vars: vec![Meta { name: "v".into(), bits: 16 }, Meta { name: "w".into(), bits: 8 }],
        parser: Parser {
            states: vec![State {
                name: "start".into(),
                extract: vec![Part::Header(NUMBERS), Part::Lanes],
                next: Next::Accept,
            }],
        },
        deparser: vec![Part::Header(NUMBERS), Part::Lanes],
        ingress,
        ..Program::default()
    }
}

fn run(program: Program, packet: &[u8]) -> Vec<u8> {
    let outcome = Interpreter::new(program.into()).unwrap().process(3, packet);
    assert_eq!(outcome.send, Send::Unicast(3));
    outcome.bytes
}

#[test]
fn arithmetic_wraps_and_large_shifts_yield_zero() {
    let op = |op, left: Expr, right: Expr| Expr::Binary(op, Box::new(left), Box::new(right));
    let cases = [
        (field(0) + field(1), 0x2c),
        (field(1) - field(0), 0x9c),
        (op(BinOp::Shl, field(0), byte(7)), 0),
        (op(BinOp::Shl, field(0), byte(8)), 0),
        (op(BinOp::Shr, field(0), byte(200)), 0),
        (op(BinOp::SignedShr, field(0), byte(200)), 0xff),
        (op(BinOp::SignedShr, field(0), byte(1)), 0xe4),
        (op(BinOp::SignedShr, field(1), byte(9)), 0),
        (Expr::Complement(Box::new(field(0))), 0x37),
        (field(0).gt(field(1)).select(byte(1), byte(2)), 1),
        (field(0).signed_gt(field(1)).select(byte(1), byte(2)), 2),
        (field(0).concat(field(1)).cast(12).cast(8), 0x64),
        (field(0).cast(4).cast(8), 8),
    ];
    for (value, expected) in cases {
        // a = 200 (-56), b = 100.
        let text = format!("{value:?}");
        let bytes = run(program(vec![put(3, value)]), &[200, 100, 0, 0, 0, 1, 0, 2, 9]);
        assert_eq!(bytes, [200, 100, 0, expected, 0, 1, 0, 2, 9], "{text}");
    }
}

#[test]
fn parsing_ends_at_the_first_part_that_does_not_fit() {
    let has = |part| Expr::Valid(part).select(byte(1), byte(0));
    let steps = vec![put(0, has(Part::Lanes)), put(1, has(Part::Header(NUMBERS)))];
    assert_eq!(run(program(steps.clone()), &[7, 7, 7, 7, 1, 2, 3]), [0, 1, 7, 7, 1, 2, 3]);
    assert_eq!(run(program(steps), &[7, 7, 7]), [7, 7, 7]);
}

#[test]
fn removed_parts_read_as_zero_at_any_position() {
    let m = LValue::Meta(MetaId(0));
    let steps = vec![
        Stmt::Assign(m, field(0).cast(32)),
        Stmt::Remove(Part::Header(NUMBERS)),
        put(0, byte(5)),
        Stmt::Assign(m, m.value() + field(0).cast(32)),
        Stmt::AssignLane(LaneLValue::Lane, m.value().cast(16)),
    ];
    assert_eq!(run(program(steps), &[9, 0, 0, 0, 1, 1, 1, 1, 8]), [0, 9, 0, 9, 8]);
    let mut swapped = program(vec![]);
    swapped.deparser.reverse();
    assert_eq!(run(swapped, &[1, 2, 3, 4, 5, 6, 7, 8]), [5, 6, 7, 8, 1, 2, 3, 4]);
}

/// A lane register of 8 bits, and actions over it.
fn lane_register(size: u32) -> Register {
    let action = |name: &str, updates, output| RegAction {
        name: name.into(),
        conditions: vec![Expr::Cell(0).eq(Expr::Const(0, 8)), Expr::Lane.gt(Expr::Const(0xff, 16))],
        updates,
        output,
    };
    let add = vec![
        Case::when(1, Expr::Const(0xee, 8)),
        Case::always(Expr::Cell(0).saturating_add(Expr::LaneVar(LaneVarId(1)))),
    ];
    Register {
        name: "held".into(),
        id: 1,
        size,
        kind: RegisterKind::Lanes(8),
        actions: vec![action(
            "add",
            vec![(0, add)],
            vec![Case::when(0, Expr::NewCell(0)), Case::always(Expr::Cell(0))],
        )],
    }
}

#[test]
fn lane_state_sees_old_cells_in_conditions_and_new_ones_in_the_output() {
    let v = LaneVarId(0);
    let w = LaneVarId(1);
    let mut program = program(vec![
        Stmt::AssignLane(LaneLValue::Var(w), Expr::Lane.cast(8)),
        Stmt::Exec {
            register: RegisterId(0),
            action: 0,
            index: field(0).cast(32),
            output: Output::LaneVar(w),
        },
        Stmt::AssignLane(LaneLValue::Var(v), Expr::Lookup(LookupId(0), Box::new(Expr::LaneVar(w)))),
        put(1, Expr::AnyLane(Box::new(Expr::LaneVar(w).eq(Expr::Const(100, 8)))).select(byte(1), byte(0))),
        Stmt::AssignLane(LaneLValue::Lane, Expr::LaneVar(v)),
    ]);
    program.lookups.push(Lookup {
        name: "decode".into(),
        key_bits: 8,
        value_bits: 16,
        entries: vec![(100, 0xff, 0xabcd), (0x40, 0xc0, 1), (0, 0, 2)],
        default: 3,
    });
    program.registers.push(lane_register(2));
    let mut interpreter = Interpreter::new(program.into()).unwrap();
    let mut go = |packet: &[u8]| interpreter.process(0, packet);
    assert_eq!(go(&[1, 0, 0, 0, 0, 100, 0, 5]).bytes, [1, 1, 0, 0, 0xab, 0xcd, 0, 2]);
    // The output is the old cell, the sum saturates at 127, and a wide lane overwrites.
    assert_eq!(go(&[1, 0, 0, 0, 0, 50, 1, 0]).bytes, [1, 1, 0, 0, 0xab, 0xcd, 0, 2]);
    // An entry that does not exist, and lanes that are absent: dropped, nothing changed.
    assert_eq!(go(&[2, 0, 0, 0, 0, 1, 0, 1]).send, Send::Drop);
    assert_eq!(go(&[1, 0, 0, 0]).send, Send::Drop);
    assert_eq!(interpreter.read_register("held", 1), Some(&[127, 0xee][..]));
    assert!(interpreter.write_register("held", 0, &[0x1ff, 2]));
    assert_eq!(interpreter.read_register("held", 0), Some(&[0xff, 2][..]));
    assert!(!interpreter.write_register("held", 2, &[0, 0]) && !interpreter.write_register("held", 0, &[0]));
    assert_eq!(interpreter.read_register("held", 2), None);
}

#[test]
fn tables_prefer_priority_and_actions_assign_in_order() {
    let mut program = program(vec![Stmt::Apply(TableId(0))]);
    let param = Field { name: "p".into(), bits: 8 };
    program.actions = vec![
        Action {
            name: "swap".into(),
            id: 1,
            params: vec![param],
            body: vec![put(1, Expr::Param(0)), put(2, field(1) + byte(1))],
        },
        Action { name: "none".into(), id: 2, params: vec![], body: vec![] },
    ];
    let key = |name: &str, id, at| Key { name: name.into(), id, value: field(at), kind: MatchKind::Ternary };
    program.tables.push(Table {
        name: "t".into(),
        id: 1,
        keys: vec![key("x", 1, 0), key("y", 2, 3)],
        actions: vec![ActionId(0), ActionId(1)],
        default: (ActionId(0), vec![77]),
        size: 2,
    });
    let entry = |value, mask, priority, param| TableEntry {
        table: p4info::table_id(1),
        matches: vec![FieldMatch { field: 1, value, mask }],
        priority,
        action: p4info::action_id(1),
        params: vec![param],
    };
    let mut interpreter = Interpreter::new(program.into()).unwrap();
    let second = |it: &mut Interpreter, first| it.process(0, &[first, 0, 0, 0]).bytes[1..3].to_vec();
    assert_eq!(second(&mut interpreter, 5), [77, 78]);
    interpreter.insert(&entry(4, 4, 1, 10)).unwrap();
    interpreter.insert(&entry(5, 0xff, 2, 20)).unwrap();
    assert_eq!(interpreter.insert(&entry(5, 0xff, 3, 20)), Err(EntryError::Full(2)));
    assert_eq!((second(&mut interpreter, 5), second(&mut interpreter, 6)), (vec![20, 21], vec![10, 11]));
    interpreter.delete(&entry(5, 0xff, 2, 0)).unwrap();
    assert_eq!(second(&mut interpreter, 5), [10, 11]);
    assert_eq!(interpreter.delete(&entry(5, 0xff, 2, 0)), Err(EntryError::NotFound));
}

#[test]
fn the_last_destination_of_a_packet_is_used() {
    let outcome = |last: Vec<Stmt>| {
        let mut program = program(vec![]);
        program.ingress = last;
        Interpreter::new(program.into()).unwrap().process(1, &[0; 8])
    };
    let port = || Stmt::Unicast(Expr::Const(9, 16));
    let group = || Stmt::Multicast(Expr::Const(4, 16));
    assert_eq!(outcome(vec![]).send, Send::Drop);
    assert_eq!(outcome(vec![group(), port()]).send, Send::Unicast(9));
    assert_eq!(outcome(vec![Stmt::Drop, group()]).send, Send::Multicast(4));
    assert_eq!(outcome(vec![group(), Stmt::Drop]).send, Send::Drop);
    assert_eq!(outcome(vec![Stmt::Priority(Expr::Const(6, 3)), port()]).class, 6);
}

#[test]
fn state_has_a_limit() {
    let mut program = program(vec![]);
    program.registers.push(lane_register(1 << 20));
    let error = Interpreter::with_limit(program.clone().into(), 1 << 20).unwrap_err();
    assert!(matches!(error, InterpretError::State { needed, .. } if needed == 8 << 20), "{error}");
    program.registers[0].size = 0;
    assert!(matches!(Interpreter::new(program.into()), Err(InterpretError::Check(_))));
}
