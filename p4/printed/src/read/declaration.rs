//! Parsers, controls, and what they declare.

use super::{INTRINSIC, Names, Reader, TypeName};
use crate::TextError;
use crate::lex::Token;
use crate::program::*;

/// What kind of block a control is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Pipeline,
    Deparser,
}

impl Reader {
    /// A variable of this gress.
    pub(super) fn declare(&mut self, name: String, ty: Type, header: Option<usize>) -> usize {
        self.gress.fields.push(Field { name, ty, header });
        self.gress.fields.len() - 1
    }

    /// A parameter or variable of the action that is read.
    pub(super) fn declare_local(&mut self, name: &str, ty: Type) -> usize {
        let field = self.declare(name.into(), ty, None);
        self.names.locals.insert(name.into(), field);
        field
    }

    /// Parameters of a parser or control; tells what kind of block they make it.
    fn parameters(&mut self) -> Result<Block, TextError> {
        let mut block = Block::Pipeline;
        self.expect("(")?;
        while !self.take(")") {
            let mut ty = self.word()?;
            if matches!(ty.as_str(), "in" | "out" | "inout") {
                ty = self.word()?;
            }
            let name = self.word()?;
            self.take(",");
            match ty.as_str() {
                "packet_in" => {}
                "packet_out" => block = Block::Deparser,
                _ => self.instance(&ty, &name)?,
            }
        }
        Ok(block)
    }

    /// Fields of a struct under the name of a parameter, which is the same in all blocks of a gress.
    fn instance(&mut self, ty: &str, name: &str) -> Result<(), TextError> {
        if let Some((_, fields)) = INTRINSIC.iter().find(|(known, _)| *known == ty) {
            for (field, bits) in *fields {
                self.field(format!("{name}.{field}"), Type::unsigned(*bits), None);
            }
            return Ok(());
        }
        let members =
            self.structs.get(ty).cloned().ok_or_else(|| self.error(format!("type '{ty}' is not known")))?;
        for (member, label) in members {
            let path = format!("{name}.{label}");
            match member {
                TypeName::Bits(ty) => self.field(path, ty, None),
                TypeName::Named(header) => self.header_instance(&header, path)?,
            }
        }
        Ok(())
    }

    fn field(&mut self, path: String, ty: Type, header: Option<usize>) {
        if !self.names.fields.contains_key(&path) {
            let field = self.declare(path.clone(), ty, header);
            self.names.fields.insert(path, field);
        }
    }

    fn header_instance(&mut self, header: &str, path: String) -> Result<(), TextError> {
        if self.names.headers.contains_key(&path) {
            return Ok(());
        }
        let members = self.headers.get(header).cloned();
        let members = members.ok_or_else(|| self.error(format!("header '{header}' is not known")))?;
        let (number, first) = (self.gress.headers.len(), self.gress.fields.len());
        for (ty, label) in &members {
            let TypeName::Bits(ty) = ty else {
                return Err(self.error(format!("'{label}' in header '{header}' is not made of bits")));
            };
            self.field(format!("{path}.{label}"), *ty, Some(number));
        }
        self.gress.headers.push(Header { first, count: members.len() });
        self.names.headers.insert(path, number);
        Ok(())
    }

    pub(super) fn parser(&mut self) -> Result<(), TextError> {
        self.word()?;
        self.parameters()?;
        self.expect("{")?;
        while !self.take("}") {
            match self.word()?.as_str() {
                "Checksum" => self.checksum()?,
                "state" => {
                    let state = self.state()?;
                    self.gress.states.push(state);
                }
                other => return Err(self.error(format!("'{other}' in a parser"))),
            }
        }
        let known =
            |name: &String| name == "accept" || self.gress.states.iter().any(|state| state.name == *name);
        let targets = self.gress.states.iter().flat_map(|state| &state.cases).map(|(_, target)| target);
        match targets.clone().find(|target| !known(target)) {
            Some(target) => Err(self.error(format!("parser state '{target}' does not exist"))),
            None => Ok(()),
        }
    }

    fn checksum(&mut self) -> Result<(), TextError> {
        self.expect("(")?;
        self.expect(")")?;
        let name = self.word()?;
        self.names.checksums.push(name);
        self.expect(";")
    }

    fn state(&mut self) -> Result<State, TextError> {
        let name = self.word()?;
        self.expect("{")?;
        let mut body = Vec::new();
        while !self.is_word("transition") {
            body.extend(self.statement()?);
        }
        self.expect_word("transition")?;
        let (mut on, mut cases) = (Vec::new(), Vec::new());
        if self.is_word("select") {
            self.expect_word("select")?;
            self.expect("(")?;
            loop {
                on.push(self.expression()?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
            self.expect("{")?;
            while !self.take("}") {
                let values = if self.is_word("default") {
                    self.expect_word("default")?;
                    Vec::new()
                } else {
                    self.values(on.len())?
                };
                self.expect(":")?;
                cases.push((values, self.word()?));
                self.expect(";")?;
            }
        } else {
            cases.push((Vec::new(), self.word()?));
            self.expect(";")?;
        }
        self.expect("}")?;
        Ok(State { name, body, on, cases })
    }

    /// A control; true if it ends a gress.
    pub(super) fn control(&mut self) -> Result<bool, TextError> {
        self.word()?;
        let block = self.parameters()?;
        self.expect("{")?;
        loop {
            let id = self.annotations()?;
            match self.word()?.as_str() {
                "Checksum" => self.checksum()?,
                "Counter" => self.counter(id)?,
                "Register" => self.register()?,
                word @ ("RegisterAction" | "RegisterAction2") => {
                    let outputs = if word == "RegisterAction" { 1 } else { 2 };
                    self.register_action(outputs)?;
                }
                "action" => self.action(id)?,
                "table" => self.table(id)?,
                "apply" => break,
                other => return Err(self.error(format!("'{other}' in a control"))),
            }
        }
        let body = self.block()?;
        self.expect("}")?;
        match block {
            Block::Pipeline => self.gress.apply = body,
            Block::Deparser => self.gress.deparser = body,
        }
        Ok(block == Block::Deparser)
    }

    fn counter(&mut self, id: u32) -> Result<(), TextError> {
        self.expect("<")?;
        self.bits()?;
        self.expect(",")?;
        self.bits()?;
        self.expect(">")?;
        self.expect("(")?;
        let size = self.number()? as usize;
        self.expect(",")?;
        self.expect_word("CounterType_t")?;
        self.expect(".")?;
        self.expect_word("PACKETS")?;
        self.expect(")")?;
        let name = self.word()?;
        self.expect(";")?;
        self.names.counters.insert(name, self.counters.len());
        self.counters.push(Counter { id, size });
        Ok(())
    }

    /// The cells of a register's type, by name; the one of a register of plain words has none.
    fn cells(&mut self, ty: &TypeName) -> Result<Vec<(String, Type)>, TextError> {
        match ty {
            TypeName::Bits(ty) => Ok(vec![(String::new(), *ty)]),
            TypeName::Named(name) => {
                let members = self.structs.get(name).cloned();
                let members = members.ok_or_else(|| self.error(format!("type '{name}' is not known")))?;
                let cell = |(ty, label): (TypeName, String)| match ty {
                    TypeName::Bits(ty) => Ok((label, ty)),
                    TypeName::Named(other) => Err(self.error(format!("cell of type '{other}'"))),
                };
                members.into_iter().map(cell).collect()
            }
        }
    }

    fn register(&mut self) -> Result<(), TextError> {
        self.expect("<")?;
        let ty = self.type_name()?;
        self.expect(",")?;
        self.bits()?;
        self.expect(">")?;
        self.expect("(")?;
        let size = self.number()? as usize;
        self.expect(")")?;
        let name = self.word()?;
        self.expect(";")?;
        let cells = self.cells(&ty)?.into_iter().map(|(_, ty)| ty).collect();
        self.names.registers.insert(name.clone(), self.registers.len());
        self.registers.push(Register { name, cells, size });
        Ok(())
    }

    fn register_action(&mut self, outputs: usize) -> Result<(), TextError> {
        self.names.locals.clear();
        self.expect("<")?;
        let ty = self.type_name()?;
        self.expect(",")?;
        self.bits()?;
        for _ in 0..outputs {
            self.expect(",")?;
            self.bits()?;
        }
        self.expect(">")?;
        self.expect("(")?;
        let register = self.word()?;
        let register = self.names.registers.get(&register).copied();
        let register = register.ok_or_else(|| self.error("a register that is not known"))?;
        self.expect(")")?;
        let name = self.word()?;
        for sign in ["=", "{"] {
            self.expect(sign)?;
        }
        for word in ["void", "apply"] {
            self.expect_word(word)?;
        }
        self.expect("(")?;
        self.expect_word("inout")?;
        if self.type_name()? != ty {
            return Err(self.error(format!("'{name}' has another type than its register")));
        }
        let parameter = self.word()?;
        let cells = self.cells(&ty)?;
        if cells.iter().map(|(_, ty)| *ty).ne(self.registers[register].cells.iter().copied()) {
            return Err(self.error(format!("'{name}' has other cells than its register")));
        }
        let local = |(label, ty): (String, Type)| {
            let path = if label.is_empty() { parameter.clone() } else { format!("{parameter}.{label}") };
            self.declare_local(&path, ty)
        };
        let cells = cells.into_iter().map(local).collect();
        let mut outs = Vec::new();
        while self.take(",") {
            self.expect_word("out")?;
            let ty = self.bits()?;
            let output = self.word()?;
            outs.push(self.declare_local(&output, ty));
        }
        self.expect(")")?;
        let body = self.block()?;
        self.expect("}")?;
        self.expect(";")?;
        if outs.len() != outputs {
            return Err(self.error(format!("'{name}' has {} outputs", outs.len())));
        }
        self.names.register_actions.insert(name.clone(), self.gress.register_actions.len());
        self.gress.register_actions.push(RegisterAction { register, name, cells, outputs: outs, body });
        Ok(())
    }

    fn action(&mut self, id: u32) -> Result<(), TextError> {
        self.names.locals.clear();
        let name = self.word()?;
        self.expect("(")?;
        let mut parameters = Vec::new();
        while !self.take(")") {
            self.annotations()?;
            let ty = self.bits()?;
            let parameter = self.word()?;
            parameters.push(self.declare_local(&parameter, ty));
            self.take(",");
        }
        let body = self.block()?;
        self.names.actions.insert(name.clone(), self.gress.actions.len());
        self.gress.actions.push(Action { name, id, parameters, body });
        Ok(())
    }

    /// An action's number; `NoAction` is the architecture's.
    pub(super) fn action_number(&mut self, name: &str) -> Result<usize, TextError> {
        let Names { actions, .. } = &mut self.names;
        if name == "NoAction" && !actions.contains_key(name) {
            actions.insert(name.into(), self.gress.actions.len());
            let nothing = Action { name: name.into(), id: 0, parameters: Vec::new(), body: Vec::new() };
            self.gress.actions.push(nothing);
        }
        let found = self.names.actions.get(name).copied();
        found.ok_or_else(|| self.error(format!("action '{name}' is not known")))
    }

    /// Values and masks of a set of so many keys.
    pub(super) fn values(&mut self, count: usize) -> Result<Vec<(u64, u64)>, TextError> {
        let parenthesised = self.take("(");
        let mut values = Vec::new();
        loop {
            values.push(self.value_and_mask()?);
            if !parenthesised || !self.take(",") {
                break;
            }
        }
        if parenthesised {
            self.expect(")")?;
        }
        match values.len() == count {
            true => Ok(values),
            false => Err(self.error(format!("{} values for {count} keys", values.len()))),
        }
    }

    fn value_and_mask(&mut self) -> Result<(u64, u64), TextError> {
        match self.next()? {
            Token::Word(word) if word == "_" => Ok((0, 0)),
            Token::Word(word) if word == "true" => Ok((1, 1)),
            Token::Word(word) if word == "false" => Ok((0, 1)),
            Token::Number(value, _) if self.take("&&&") => {
                let mask = self.number()?;
                Ok((value & mask, mask))
            }
            Token::Number(value, _) => Ok((value, u64::MAX)),
            other => Err(self.error(format!("{other:?} where a value is expected"))),
        }
    }
}
