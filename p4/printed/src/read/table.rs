//! Tables.

use super::Reader;
use crate::TextError;
use crate::program::*;

impl Reader {
    pub(super) fn table(&mut self, id: u32) -> Result<(), TextError> {
        let name = self.word()?;
        self.expect("{")?;
        let (mut keys, mut actions) = (Vec::new(), Vec::new());
        let (mut default, mut size, mut entries) = (None, 0, Vec::new());
        while !self.take("}") {
            match self.word()?.as_str() {
                "key" => keys = self.keys()?,
                "actions" => actions = self.actions()?,
                "size" => {
                    self.expect("=")?;
                    size = self.number()? as usize;
                    self.expect(";")?;
                }
                "const" => match self.word()?.as_str() {
                    "default_action" => {
                        self.expect("=")?;
                        default = Some(self.call(&actions)?);
                    }
                    "entries" => entries = self.entries(keys.len(), &actions)?,
                    other => return Err(self.error(format!("constant '{other}' of a table"))),
                },
                other => return Err(self.error(format!("'{other}' in a table"))),
            }
        }
        let default = default.ok_or_else(|| self.error(format!("table '{name}' has no default action")))?;
        if entries.len() > size {
            return Err(self.error(format!("{} entries in table '{name}' of {size}", entries.len())));
        }
        self.names.tables.insert(name.clone(), self.gress.tables.len());
        self.gress.tables.push(Table { name, id, keys, actions, default, size, entries });
        Ok(())
    }

    fn keys(&mut self) -> Result<Vec<Key>, TextError> {
        self.expect("=")?;
        self.expect("{")?;
        let mut keys = Vec::new();
        while !self.take("}") {
            let value = self.expression()?;
            self.expect(":")?;
            let exact = match self.word()?.as_str() {
                "exact" => true,
                "ternary" => false,
                other => return Err(self.error(format!("match kind '{other}'"))),
            };
            let id = self.annotations()?;
            self.expect(";")?;
            keys.push(Key { bits: value.ty.bits, value, id, exact });
        }
        Ok(keys)
    }

    fn actions(&mut self) -> Result<Vec<usize>, TextError> {
        self.expect("=")?;
        self.expect("{")?;
        let mut actions = Vec::new();
        while !self.take("}") {
            let name = self.word()?;
            actions.push(self.action_number(&name)?);
            self.expect(";")?;
        }
        Ok(actions)
    }

    /// An action of the table with its arguments.
    fn call(&mut self, actions: &[usize]) -> Result<(usize, Vec<u64>), TextError> {
        let name = self.word()?;
        let action = self.action_number(&name)?;
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.take(")") {
            arguments.push(self.number()?);
            self.take(",");
        }
        self.expect(";")?;
        let parameters = &self.gress.actions[action].parameters;
        if !actions.contains(&action) || parameters.len() != arguments.len() {
            return Err(self.error(format!("action '{name}' is not one of the table's, with its parameters")));
        }
        Ok((action, arguments))
    }

    fn entries(&mut self, keys: usize, actions: &[usize]) -> Result<Vec<Entry>, TextError> {
        self.expect("=")?;
        self.expect("{")?;
        let mut entries = Vec::new();
        while !self.take("}") {
            if keys == 0 {
                return Err(self.error("entries of a table without keys"));
            }
            let key = self.values(keys)?;
            self.expect(":")?;
            let (action, arguments) = self.call(actions)?;
            entries.push(Entry { key, action, arguments });
        }
        Ok(entries)
    }
}
