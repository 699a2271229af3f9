//! The validator's contract: what it accepts is printed by every back end, or refused with an error; nothing panics.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use netfold_p4::check::{Problem, check};
use netfold_p4::ir::*;
use netfold_p4::profile::Profile;
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
fn names_what_is_wrong() {
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
    Stmt::Assign(Place::Meta(MetaId(meta)), value)
}

fn exec(register: u16) -> Stmt {
    Stmt::Exec { register: RegisterId(register), action: 0, index: Expr::Const(0, 32), output: Output::None }
}

#[test]
fn the_rust_back_end_says_what_it_cannot_do() {
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
            BinOp::Both,
            BinOp::Either,
        ];
        prop_oneof![
            (proptest::sample::select(ops.to_vec()), inner.clone(), inner.clone())
                .prop_map(|(op, left, right)| Expr::Binary(op, Box::new(left), Box::new(right))),
            (0u32..70, inner.clone()).prop_map(|(bits, inner)| inner.cast(bits)),
            (inner.clone(), inner.clone()).prop_map(|(high, low)| high.concat(low)),
            inner.clone().prop_map(|inner| Expr::Complement(Box::new(inner))),
            inner.prop_map(|inner| Expr::Not(Box::new(inner))),
        ]
    })
}

fn any_stmt() -> impl Strategy<Value = Stmt> {
    let leaf = prop_oneof![
        (0u16..18, any_expr()).prop_map(|(meta, value)| assign(meta, value)),
        (0u16..5, 0u16..17, any_expr())
            .prop_map(|(header, field, value)| Stmt::Assign(Place::Field(HeaderId(header), field), value)),
        (0u16..5).prop_map(|table| Stmt::Apply(TableId(table))),
        (0u16..6, 0u16..8, any_expr()).prop_map(|(register, action, index)| Stmt::Exec {
            register: RegisterId(register),
            action,
            index,
            output: Output::None
        }),
        (0u16..3, any_expr()).prop_map(|(counter, index)| Stmt::Count(CounterId(counter), index)),
        any_expr().prop_map(Stmt::Unicast),
        Just(Stmt::Drop),
        Just(Stmt::Remove(Part::Lanes)),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        (any_expr(), proptest::collection::vec(inner.clone(), 0..3), proptest::collection::vec(inner, 0..3))
            .prop_map(|(cond, then, otherwise)| Stmt::If(cond, then, otherwise))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_is_accepted_is_printed(
        stmts in proptest::collection::vec(any_stmt(), 0..3),
        egress in proptest::collection::vec(any_stmt(), 0..2),
        body in any_expr(),
        condition in any_expr(),
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
        } else {
            prop_assert!(v1model::print(&program).is_err());
        }
    }
}
