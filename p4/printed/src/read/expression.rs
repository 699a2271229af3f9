//! Expressions.

use super::Reader;
use crate::TextError;
use crate::lex::Token;
use crate::program::*;

/// Operators by precedence, the loosest first.
const LEVELS: &[&[(&str, Op)]] = &[
    &[("||", Op::Either)],
    &[("&&", Op::Both)],
    &[("|", Op::Or)],
    &[("^", Op::Xor)],
    &[("&", Op::And)],
    &[("==", Op::Eq), ("!=", Op::Ne)],
    &[("<=", Op::Le), (">=", Op::Ge), ("<", Op::Lt), (">", Op::Gt)],
    &[("+", Op::Add), ("-", Op::Sub), ("|+|", Op::SaturatingAdd)],
];

/// Whether a number without a width is one of the type; negative ones are as of 64 bits.
const fn fits(value: u64, ty: Type) -> bool {
    let most = ones(ty.bits) >> ty.signed as u32;
    value <= most || ty.signed && value.wrapping_neg() <= most + 1
}

const BOOLEAN: Type = Type::unsigned(1);

impl Reader {
    pub(super) fn expression(&mut self) -> Result<Expr, TextError> {
        self.level(0)
    }

    fn level(&mut self, level: usize) -> Result<Expr, TextError> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        while let Some((_, op)) = operators.iter().find(|(sign, _)| self.is_sign(sign)) {
            self.at += 1;
            let right = self.level(level + 1)?;
            left = self.binary(*op, left, right)?;
        }
        Ok(left)
    }

    fn binary(&self, op: Op, left: Expr, right: Expr) -> Result<Expr, TextError> {
        let ty = match (left.ty.bits, right.ty.bits) {
            (0, 0) => return Err(self.error("an operation on two numbers without a width")),
            (0, _) => right.ty,
            _ => left.ty,
        };
        for side in [&left, &right] {
            let is_of_type = match side.kind {
                Kind::Const(value) if side.ty.bits == 0 => fits(value, ty),
                _ => side.ty == ty,
            };
            if !is_of_type {
                return Err(self.error(format!("operands {:?} and {:?} of {op:?}", left.ty, right.ty)));
            }
        }
        let ty = match op {
            Op::Eq | Op::Ne | Op::Lt | Op::Gt | Op::Le | Op::Ge | Op::Both | Op::Either => BOOLEAN,
            _ => ty,
        };
        Ok(Expr { ty, kind: Kind::Binary(op, Box::new(left), Box::new(right)) })
    }

    fn unary(&mut self) -> Result<Expr, TextError> {
        if self.take("~") {
            let inner = self.unary()?;
            return Ok(Expr { ty: inner.ty, kind: Kind::Complement(Box::new(inner)) });
        }
        if self.take("!") {
            let inner = self.unary()?;
            return Ok(Expr { ty: BOOLEAN, kind: Kind::Not(Box::new(inner)) });
        }
        if self.take("(") {
            if self.is_word("bit") || self.is_word("int") {
                let ty = self.bits()?;
                self.expect(")")?;
                let inner = self.unary()?;
                return Ok(Expr { ty, kind: Kind::Cast(Box::new(inner)) });
            }
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.take("-") {
            let value = self.number()?.wrapping_neg();
            return Ok(Expr { ty: Type::unsigned(0), kind: Kind::Const(value) });
        }
        if let Some(Token::Number(value, bits)) = self.peek().cloned() {
            self.at += 1;
            let bits = bits.unwrap_or(0);
            if bits > 64 || (bits > 0 && value > ones(bits)) {
                return Err(self.error(format!("{value} of {bits} bits")));
            }
            return Ok(Expr { ty: Type::unsigned(bits), kind: Kind::Const(value) });
        }
        self.named()
    }

    /// A field, or what a function or an object yields.
    fn named(&mut self) -> Result<Expr, TextError> {
        let path = self.path()?;
        let (object, method) = path.rsplit_once('.').unwrap_or(("", &path));
        if self.take("(") {
            let expr = match method {
                "isValid" => Expr { ty: BOOLEAN, kind: Kind::Valid(self.header_named(object)?) },
                "verify" => Expr { ty: BOOLEAN, kind: Kind::Verify },
                "update" => Expr { ty: Type::unsigned(16), kind: Kind::Update(self.list()?) },
                "min" | "max" => {
                    let left = self.expression()?;
                    self.expect(",")?;
                    let right = self.expression()?;
                    self.binary(if method == "min" { Op::Min } else { Op::Max }, left, right)?
                }
                _ => return Err(self.error(format!("function '{path}'"))),
            };
            self.expect(")")?;
            return Ok(expr);
        }
        let field = self.field_of(&path)?;
        let ty = self.gress.fields[field].ty;
        let whole = Expr { ty, kind: Kind::Field(field) };
        Ok(match self.slice(ty.bits)? {
            Some((high, low)) => {
                Expr { ty: Type::unsigned(high - low + 1), kind: Kind::Slice(Box::new(whole), low) }
            }
            None => whole,
        })
    }

    /// Fields in braces.
    fn list(&mut self) -> Result<Vec<usize>, TextError> {
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.take("}") {
            let path = self.path()?;
            fields.push(self.field_of(&path)?);
            self.take(",");
        }
        Ok(fields)
    }
}
