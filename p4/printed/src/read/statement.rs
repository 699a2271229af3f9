//! Statements.

use super::Reader;
use crate::TextError;
use crate::lex::Token;
use crate::program::*;

impl Reader {
    /// Statements in braces.
    pub(super) fn block(&mut self) -> Result<Vec<Stmt>, TextError> {
        self.expect("{")?;
        let mut body = Vec::new();
        while !self.take("}") {
            body.extend(self.statement()?);
        }
        Ok(body)
    }

    /// A statement; none where it does nothing here.
    pub(super) fn statement(&mut self) -> Result<Option<Stmt>, TextError> {
        if self.is_word("if") {
            return self.branch().map(Some);
        }
        if self.is_word("bit") {
            let ty = self.bits()?;
            let name = self.word()?;
            self.expect("=")?;
            let value = self.expression()?;
            self.expect(";")?;
            let field = self.declare_local(&name, ty);
            return self.assignment(Place { field, high: ty.bits - 1, low: 0 }, value).map(Some);
        }
        let path = self.path()?;
        if self.take("(") {
            let call = self.called(&path)?;
            self.expect(")")?;
            self.expect(";")?;
            return Ok(call);
        }
        let place = self.place(&path)?;
        self.expect("=")?;
        let stmt = match self.execution()? {
            Some((action, index, more)) => {
                let places = std::iter::once(place).chain(more).collect();
                self.execute(action, index, places)?
            }
            None => {
                let value = self.expression()?;
                self.assignment(place, value)?
            }
        };
        self.expect(";")?;
        Ok(Some(stmt))
    }

    fn branch(&mut self) -> Result<Stmt, TextError> {
        self.expect_word("if")?;
        self.expect("(")?;
        let cond = self.expression()?;
        self.expect(")")?;
        let then = self.block()?;
        let otherwise = if self.is_word("else") {
            self.expect_word("else")?;
            if self.is_word("if") { vec![self.branch()?] } else { self.block()? }
        } else {
            Vec::new()
        };
        Ok(Stmt::If(cond, then, otherwise))
    }

    /// Names with dots between them.
    pub(super) fn path(&mut self) -> Result<String, TextError> {
        let mut path = self.word()?;
        while self.take(".") {
            path.push('.');
            path.push_str(&self.word()?);
        }
        Ok(path)
    }

    pub(super) fn field_of(&self, path: &str) -> Result<usize, TextError> {
        let found = self.names.locals.get(path).or_else(|| self.names.fields.get(path));
        found.copied().ok_or_else(|| self.error(format!("'{path}' is not known")))
    }

    fn header_of(&mut self) -> Result<usize, TextError> {
        let path = self.path()?;
        self.header_named(&path)
    }

    pub(super) fn header_named(&self, path: &str) -> Result<usize, TextError> {
        let found = self.names.headers.get(path).copied();
        found.ok_or_else(|| self.error(format!("header '{path}' is not known")))
    }

    /// A field or some bits of it.
    fn place(&mut self, path: &str) -> Result<Place, TextError> {
        let field = self.field_of(path)?;
        let bits = self.gress.fields[field].ty.bits;
        let (high, low) = self.slice(bits)?.unwrap_or((bits - 1, 0));
        Ok(Place { field, high, low })
    }

    /// `[high:low]` of so many bits, if it is next.
    pub(super) fn slice(&mut self, bits: u32) -> Result<Option<(u32, u32)>, TextError> {
        if !self.take("[") {
            return Ok(None);
        }
        let high = self.small()?;
        self.expect(":")?;
        let low = self.small()?;
        self.expect("]")?;
        match high < bits && low <= high {
            true => Ok(Some((high, low))),
            false => Err(self.error(format!("bits {high} to {low} of {bits}"))),
        }
    }

    fn assignment(&self, place: Place, value: Expr) -> Result<Stmt, TextError> {
        let field = &self.gress.fields[place.field];
        let bits = place.high - place.low + 1;
        let fits = match value.kind {
            Kind::Const(number) if value.ty.bits == 0 => number <= ones(bits),
            _ => value.ty.bits == bits && (bits < field.ty.bits || value.ty.signed == field.ty.signed),
        };
        if fits {
            return Ok(Stmt::Assign(place, value));
        }
        Err(self.error(format!("{:?} is assigned to {bits} bits of '{}'", value.ty, field.name)))
    }

    /// A call whose result is not used, behind its parenthesis.
    fn called(&mut self, path: &str) -> Result<Option<Stmt>, TextError> {
        let (object, method) = path.rsplit_once('.').unwrap_or(("", path));
        Ok(match method {
            "extract" if self.is_intrinsic() => {
                self.path()?;
                None
            }
            "extract" => Some(Stmt::Extract(self.header_of()?)),
            "emit" => Some(Stmt::Emit(self.header_of()?)),
            "advance" => {
                self.expect_word("PORT_METADATA_SIZE")?;
                None
            }
            "add" if self.names.checksums.iter().any(|name| name == object) => {
                Some(Stmt::Sum(self.header_of()?))
            }
            "setValid" | "setInvalid" => {
                Some(Stmt::SetValid(self.header_named(object)?, method == "setValid"))
            }
            "count" => {
                let counter = self.names.counters.get(object).copied();
                let counter =
                    counter.ok_or_else(|| self.error(format!("counter '{object}' is not known")))?;
                Some(Stmt::Count(counter, self.expression()?))
            }
            "apply" => {
                let table = self.names.tables.get(object).copied();
                Some(Stmt::Apply(table.ok_or_else(|| self.error(format!("table '{object}' is not known")))?))
            }
            "execute" => {
                let (action, index, more) = self.arguments(object)?;
                Some(self.execute(action, index, more)?)
            }
            _ if object.is_empty() => {
                let action = self.action_number(method)?;
                if !self.gress.actions[action].parameters.is_empty() {
                    return Err(self.error(format!("action '{method}' is called without its arguments")));
                }
                Some(Stmt::Run(action))
            }
            _ => return Err(self.error(format!("call of '{path}'"))),
        })
    }

    /// Whether metadata of the architecture is next, which precedes the packet's bytes.
    fn is_intrinsic(&self) -> bool {
        matches!(self.peek(), Some(Token::Word(word)) if word.ends_with("_intr_md"))
    }

    /// The execution of a register action, up to the semicolon, if it is next.
    fn execution(&mut self) -> Result<Option<(usize, Expr, Vec<Place>)>, TextError> {
        let start = self.at;
        if let (Ok(name), true) = (self.word(), self.take("."))
            && self.is_word("execute")
        {
            self.expect_word("execute")?;
            self.expect("(")?;
            let found = self.arguments(&name)?;
            self.expect(")")?;
            return Ok(Some(found));
        }
        self.at = start;
        Ok(None)
    }

    /// Arguments of an execution: the index, and the target of a second output.
    fn arguments(&mut self, name: &str) -> Result<(usize, Expr, Vec<Place>), TextError> {
        let action = self.names.register_actions.get(name).copied();
        let action = action.ok_or_else(|| self.error(format!("register action '{name}' is not known")))?;
        let index = self.expression()?;
        let mut places = Vec::new();
        while self.take(",") {
            let path = self.path()?;
            places.push(self.place(&path)?);
        }
        Ok((action, index, places))
    }

    fn execute(&self, action: usize, index: Expr, places: Vec<Place>) -> Result<Stmt, TextError> {
        let declared = &self.gress.register_actions[action];
        let width = |place: &Place| place.high - place.low + 1;
        let outputs = declared.outputs.iter().map(|output| self.gress.fields[*output].ty.bits);
        let fits = places.is_empty() || outputs.eq(places.iter().map(width));
        match fits {
            true => Ok(Stmt::Execute(action, index, places)),
            false => Err(self.error(format!("targets of the outputs of '{}'", declared.name))),
        }
    }
}
