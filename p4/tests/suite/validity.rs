//! The validator's contract: what it accepts is printed by every back end, or refused with an error; nothing panics.

use netfold_p4::check::{Problem, check};
use netfold_p4::interpret::Interpreter;
use netfold_p4::ir::*;
use netfold_p4::json::{self, JsonError};
use netfold_p4::profile::{self, Profile};
use netfold_p4::{allreduce, p4info, rust, v1model};
use proptest::prelude::*;

fn program() -> Program {
    allreduce::program(&Profile::hardware()).unwrap()
}

fn problem(change: impl FnOnce(&mut Program)) -> Problem {
    let mut program = program();
    change(&mut program);
    let error = check(&program).expect_err("the change makes the program invalid");
    assert!(!error.at.is_empty() && !error.to_string().is_empty());
    assert!(v1model::print(&program).is_err() && rust::generate(&program).is_err());
    error.problem
}

#[test]
fn errors_name_the_problem() {
    assert_eq!(problem(|p| p.headers[0].fields[0].bits = 47), Problem::Bytes(111));
    assert_eq!(problem(|p| p.metadata[0].name = "Port".into()), Problem::Name("Port".into()));
    assert_eq!(problem(|p| p.metadata[0].name = "table".into()), Problem::Name("table".into()));
    assert_eq!(problem(|p| p.metadata[1].name = "port".into()), Problem::NameTwice("port".into()));
    assert_eq!(problem(|p| p.registers[1].id = 1), Problem::Id(1));
    assert_eq!(problem(|p| p.parser.states[3].next = loop_to(0)), Problem::Loop);
    assert_eq!(
        problem(|p| p.ingress.insert(0, assign(0, Expr::Const(1, 8)))),
        Problem::Type { expected: 16, found: 8 }
    );
    assert_eq!(
        problem(|p| p.ingress.insert(0, assign(0, Expr::Const(1 << 16, 16)))),
        Problem::Constant(1 << 16, 16)
    );
    assert_eq!(problem(|p| p.ingress.push(exec(0))), Problem::Twice("claim".into()));
    assert_eq!(problem(|p| p.egress.push(exec(0))), Problem::Context("a register outside ingress"));
    assert_eq!(problem(|p| p.ingress.push(Stmt::Apply(TableId(0)))), Problem::Twice("job".into()));
    assert_eq!(problem(|p| p.ingress.push(assign(0, Expr::Cell(0)))), Problem::Context("register state"));
    assert_eq!(problem(|p| p.ingress.push(assign(0, Expr::Param(0)))), Problem::Context("a parameter"));
    let third = |p: &mut Program| p.registers[0].actions[0].conditions.push(Expr::Valid(Part::Lanes));
    assert_eq!(problem(third), Problem::Limit { what: "conditions", found: 3, most: 2 });
}

fn loop_to(state: u16) -> Next {
    Next::Select { on: vec![], cases: vec![], otherwise: Some(StateId(state)) }
}

fn assign(meta: u16, value: Expr) -> Stmt {
    Stmt::Assign(LValue::Meta(MetaId(meta)), value)
}

fn exec(register: u16) -> Stmt {
    Stmt::Exec { register: RegisterId(register), action: 0, index: Expr::Const(0, 32), output: Output::None }
}

#[test]
fn the_rust_back_end_reports_unsupported_constructs() {
    let mut program = program();
    program.ingress.push(Stmt::Remove(Part::Header(HeaderId(0))));
    check(&program).unwrap();
    let error = rust::generate(&program).unwrap_err();
    assert_eq!(error, rust::RustError::Remove("ethernet".into()));
    v1model::print(&program).unwrap();
    program.ingress.pop();
    program.deparser.swap(0, 1);
    assert_eq!(rust::generate(&program).unwrap_err(), rust::RustError::Order);
}

/// An expression that may or may not be well typed, over handles that may or may not exist.
fn any_expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        (any::<u64>(), 0u32..70).prop_map(|(value, bits)| Expr::Const(value & 0xff, bits)),
        (0u16..5, 0u16..17).prop_map(|(header, field)| Expr::Field(HeaderId(header), field)),
        (0u16..18).prop_map(|meta| Expr::Meta(MetaId(meta))),
        Just(Expr::Intrinsic(Intrinsic::IngressPort)),
        Just(Expr::Intrinsic(Intrinsic::PacketLength)),
        Just(Expr::Intrinsic(Intrinsic::QueueDepth)),
        Just(Expr::Intrinsic(Intrinsic::Instance)),
        Just(Expr::Valid(Part::Lanes)),
        (0u8..3).prop_map(Expr::Cell),
        (0u8..3).prop_map(Expr::Cond),
        Just(Expr::Lane),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        let ops = [
            BinOp::Add,
            BinOp::Sub,
            BinOp::And,
            BinOp::Or,
            BinOp::Eq,
            BinOp::Ne,
            BinOp::Gt,
            BinOp::SignedGt,
            BinOp::Max,
            BinOp::SignedMin,
            BinOp::Shl,
            BinOp::Shr,
            BinOp::SignedShr,
            BinOp::SaturatingAdd,
            BinOp::Both,
            BinOp::Either,
        ];
        prop_oneof![
            (proptest::sample::select(ops.to_vec()), inner.clone(), inner.clone())
                .prop_map(|(op, left, right)| Expr::Binary(op, Box::new(left), Box::new(right))),
            (0u32..70, inner.clone()).prop_map(|(bits, inner)| inner.cast(bits)),
            (inner.clone(), inner.clone()).prop_map(|(high, low)| high.concat(low)),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(cond, then, otherwise)| cond.select(then, otherwise)),
            inner.clone().prop_map(|inner| Expr::AnyLane(Box::new(inner))),
            inner.clone().prop_map(|inner| Expr::Complement(Box::new(inner))),
            inner.prop_map(|inner| Expr::Not(Box::new(inner))),
        ]
    })
}

fn any_stmt() -> impl Strategy<Value = Stmt> {
    let leaf = prop_oneof![
        (0u16..18, any_expr()).prop_map(|(meta, value)| assign(meta, value)),
        (0u16..5, 0u16..17, any_expr())
            .prop_map(|(header, field, value)| Stmt::Assign(LValue::Field(HeaderId(header), field), value)),
        (0u16..5).prop_map(|table| Stmt::Apply(TableId(table))),
        (0u16..6, 0u16..8, any_expr()).prop_map(|(register, action, index)| Stmt::Exec {
            register: RegisterId(register),
            action,
            index,
            output: Output::None
        }),
        (0u16..3, any_expr()).prop_map(|(counter, index)| Stmt::Count(CounterId(counter), index)),
        any_expr().prop_map(Stmt::Unicast),
        any_expr().prop_map(|value| Stmt::AssignLane(LaneLValue::Lane, value)),
        Just(Stmt::Drop),
        Just(Stmt::Remove(Part::Lanes)),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        (any_expr(), proptest::collection::vec(inner.clone(), 0..3), proptest::collection::vec(inner, 0..3))
            .prop_map(|(cond, then, otherwise)| Stmt::If(cond, then, otherwise))
    })
}

/// A packet that gets some way into the parser.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..400);
    (bytes, any::<bool>()).prop_map(|(mut bytes, near)| {
        let right: [(usize, &[u8]); 3] = [(12, &[8, 0, 0x45]), (20, &[0, 0, 64, 17]), (36, &[0x4e, 0x46])];
        for (at, values) in right.into_iter().filter(|_| near) {
            if let Some(place) = bytes.get_mut(at..at + values.len()) {
                place.copy_from_slice(values);
            }
        }
        bytes
    })
}

/// Runs the program, also as read back from JSON, over some packets.
fn interpret(program: Program, packets: &[Vec<u8>]) {
    let read = Program::from_json(program.to_json().as_bytes()).unwrap();
    assert_eq!(read, program);
    let mut interpreter = Interpreter::new(read.into()).unwrap();
    for packet in packets {
        let outcome = interpreter.process(1, packet);
        assert!(outcome.bytes.len() <= packet.len());
        assert!(interpreter.egress(1, 7, &outcome.bytes).len() <= packet.len());
    }
}

/// JSON that was a program before some of its bytes were changed is refused, or runs.
#[test]
fn mutated_json_is_refused_or_runs() {
    let text = allreduce::program(&Profile { slots: 4, ..Profile::hardware() }).unwrap().to_json();
    let numbers: Vec<_> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut refused, mut run) = (0, 0);
    for _ in 0..3_000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=draw(3) {
            if draw(4) == 0 {
                let at = draw(bytes.len());
                bytes[at] = b"0123456789,:[]{}\"-"[draw(18)];
            } else {
                let at = numbers[draw(numbers.len())];
                bytes[at] = b'0' + draw(10) as u8;
            }
        }
        match Program::from_json(&bytes) {
            Ok(program) => {
                run += 1;
                let Ok(mut interpreter) = Interpreter::with_limit(program.into(), 1 << 24) else { continue };
                for len in [0, 70, 326] {
                    let outcome = interpreter.process(1, &vec![draw(256) as u8; len]);
                    interpreter.egress(1, 1, &outcome.bytes);
                }
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(refused > 100 && run > 100, "{refused} refused, {run} run");
    for (text, wanted) in [
        ("", "not the JSON"),
        ("{\"netfold_ir\":2}", "format 2"),
        ("{\"netfold_ir\":1,\"program\":{}}", "not the JSON"),
    ] {
        assert!(Program::from_json(text.as_bytes()).unwrap_err().to_string().contains(wanted), "{text}");
    }
    let nested = "[".repeat(1 << 20);
    assert!(matches!(Program::from_json(nested.as_bytes()), Err(JsonError::Syntax(_))));
    let long = vec![b' '; json::BYTES_MAX + 1];
    assert!(matches!(Program::from_json(&long), Err(JsonError::Length { .. })));
}

/// Every named program survives a round trip through JSON.
#[test]
fn json_keeps_programs() {
    for named in profile::named() {
        let program = allreduce::program(&named.profile).unwrap();
        let read = Program::from_json(program.to_json().as_bytes()).unwrap();
        assert_eq!(read.fingerprint(), program.fingerprint(), "{}", named.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_accepted_program_is_printed(
        stmts in proptest::collection::vec(any_stmt(), 0..3),
        egress in proptest::collection::vec(any_stmt(), 0..2),
        body in any_expr(),
        condition in any_expr(),
        packets in proptest::collection::vec(any_packet(), 4),
    ) {
        let mut program = allreduce::program(&Profile { lane_words: 64, ..Profile::hardware() }).unwrap();
        program.ingress.extend(stmts);
        program.egress.extend(egress);
        // Half of the time also disturb an action body and a register action.
        if let Expr::Const(value, _) = &body && value % 2 == 0 {
            program.actions[0].body[0] = assign(7, body.clone());
            program.registers[0].actions[0].conditions[0] = condition;
        }
        if check(&program).is_ok() {
            let text = v1model::print(&program).expect("a valid program prints");
            prop_assert!(text.contains("V1Switch"));
            let _refused_or_generated = rust::generate(&program);
            prop_assert!(!p4info::text(&program).is_empty());
            interpret(program, &packets);
        } else {
            prop_assert!(v1model::print(&program).is_err());
        }
    }
}
