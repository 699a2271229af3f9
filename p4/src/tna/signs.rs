//! Conditions on the signs of differences, which a match stage compares as bits: the differences become variables, computed in a stage before.

use crate::ir::*;

/// Variables, each of which takes a difference of two values that do not change.
pub(super) type Differences = Vec<(LValue, Expr)>;

/// The condition with a variable in place of each difference, of which it is known whether it is negative: `0 > a - b`, and `0 > (a - b) | (c - d)`,
/// which holds if either is negative.
pub(super) fn by_signs(cond: &Expr, program: &mut Program, known: &mut Differences) -> Expr {
    match cond {
        Expr::Not(inner) => !by_signs(inner, program, known),
        Expr::Binary(BinOp::SignedGt, zero, value) if matches!(**zero, Expr::Const(0, _)) => match &**value {
            Expr::Binary(BinOp::Or, left, right) => {
                let negative = |side: &Expr| (**zero).clone().signed_gt(side.clone());
                let left = by_signs(&negative(left), program, known);
                left.either(by_signs(&negative(right), program, known))
            }
            Expr::Binary(BinOp::Sub, left, _) => {
                let bits = crate::check::width(program, left, &[], &[]);
                let difference = variable(value, bits, program, known);
                (**zero).clone().signed_gt(difference)
            }
            _ => cond.clone(),
        },
        Expr::Binary(op @ (BinOp::Both | BinOp::Either), left, right) => {
            let left = by_signs(left, program, known);
            Expr::Binary(*op, Box::new(left), Box::new(by_signs(right, program, known)))
        }
        other => other.clone(),
    }
}

/// The same of all conditions of a block.
pub(super) fn in_block(block: &[Stmt], program: &mut Program, known: &mut Differences) -> Vec<Stmt> {
    let mut stmt = |stmt: &Stmt| match stmt {
        Stmt::If(cond, then, otherwise) => {
            let cond = by_signs(cond, program, known);
            let then = in_block(then, program, known);
            Stmt::If(cond, then, in_block(otherwise, program, known))
        }
        other => other.clone(),
    };
    block.iter().map(&mut stmt).collect()
}

/// The variable for a difference, which is declared if there is none.
fn variable(value: &Expr, bits: u32, program: &mut Program, known: &mut Differences) -> Expr {
    if let Some((place, _)) = known.iter().find(|(_, other)| other == value) {
        return place.value();
    }
    let place = LValue::Meta(MetaId(program.metadata.len() as u16));
    program.metadata.push(Meta { name: format!("x_sign_{}", known.len()), bits });
    known.push((place, value.clone()));
    place.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_has_one_variable() {
        let meta = |id| Expr::Meta(MetaId(id));
        let zero = || Expr::Const(0, 16);
        let names = ["a", "b", "c"].map(|name| Meta { name: name.into(), bits: 16 });
        let mut program = Program { metadata: names.to_vec(), ..Program::default() };
        let mut known = Differences::new();
        let outside = zero().signed_gt((meta(0) - meta(1)) | (meta(2) - meta(0)));
        let cond = meta(0).ne(zero()).both(outside);
        let expected = meta(0).ne(zero()).both(zero().signed_gt(meta(3)).either(zero().signed_gt(meta(4))));
        for _ in 0..2 {
            assert_eq!(by_signs(&cond, &mut program, &mut known), expected);
        }
        let differences =
            [(LValue::Meta(MetaId(3)), meta(0) - meta(1)), (LValue::Meta(MetaId(4)), meta(2) - meta(0))];
        assert_eq!(known, differences);
        assert_eq!(program.metadata.len(), 5);
    }
}
