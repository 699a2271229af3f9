//! The text of a pipeline's specification (`.spec`), read and checked line by line.
//!
//! DPDK 22.11 reads a specification only to generate C from it, which needs headers that are not installed. So it is read here, and given to DPDK call
//! by call ([`super::build`]). DPDK executes what it is given without bounds, so what is accepted here is limited: an unknown instruction or operand, a
//! jump backwards, a header emitted twice, and an extraction in an action are errors.

use std::collections::{BTreeMap, BTreeSet};

use super::SwxError;

/// Widest field that an instruction reads or writes, and widest field of all.
const OPERAND_BITS_MAX: u32 = 64;
const FIELD_BITS_MAX: u32 = 2040;

/// A structure type: fields of whole bytes.
#[derive(Debug)]
pub(super) struct Struct {
    pub(super) line: u32,
    pub(super) name: String,
    /// Names, and widths in bits.
    pub(super) fields: Vec<(String, u32)>,
}

impl Struct {
    pub(super) fn bytes(&self) -> usize {
        self.fields.iter().map(|(_, bits)| *bits as usize / 8).sum()
    }
}

/// Something with a name and the name of a structure type, or none.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) line: u32,
    pub(super) name: String,
    pub(super) of: Option<String>,
}

/// A register array.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) line: u32,
    pub(super) name: String,
    pub(super) size: u32,
    pub(super) initial: u64,
}

/// An action, and its instructions with their lines.
#[derive(Debug)]
pub(super) struct Action {
    pub(super) is: Instance,
    pub(super) code: Vec<(u32, String)>,
}

/// A table.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) line: u32,
    pub(super) name: String,
    /// Names with `m.` or `h.`, and whether the match is exact (otherwise a wildcard).
    pub(super) keys: Vec<(String, bool)>,
    pub(super) actions: Vec<String>,
    pub(super) default: String,
    /// Names and values of the default action's arguments.
    pub(super) default_args: Option<String>,
    pub(super) default_const: bool,
    pub(super) size: u32,
}

/// A specification.
#[derive(Debug, Default)]
pub(super) struct Spec {
    pub(super) structs: Vec<Struct>,
    pub(super) headers: Vec<Instance>,
    pub(super) metadata: Option<Instance>,
    /// External objects, of types: the mailbox of type `TYPE` is structure `TYPE_t`.
    pub(super) objects: Vec<Instance>,
    pub(super) arrays: Vec<Array>,
    pub(super) actions: Vec<Action>,
    pub(super) tables: Vec<Table>,
    pub(super) apply: Vec<(u32, String)>,
}

/// Lines that have words, with their numbers from 1.
struct Lines<'t> {
    rest: Vec<(u32, Vec<&'t str>)>,
    at: usize,
}

fn wrong(line: u32, what: impl Into<String>) -> SwxError {
    SwxError::Spec { line, what: what.into() }
}

fn number<T: TryFrom<u64>>(line: u32, word: &str) -> Result<T, SwxError> {
    let value = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    let value = value.ok().and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| wrong(line, format!("'{word}' is not a number, or too large")))
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let line = |(number, line): (u32, &'t str)| {
            let words = line.split_whitespace().take_while(|word| !word.starts_with([';', '#']));
            (number, words.collect::<Vec<_>>())
        };
        let lines = (1..).zip(text.lines()).map(line);
        Self { rest: lines.filter(|(_, words)| !words.is_empty()).collect(), at: 0 }
    }

    fn next(&mut self) -> Option<(u32, Vec<&'t str>)> {
        let line = self.rest.get(self.at).cloned();
        self.at += 1;
        line
    }

    /// The lines up to the one that closes the block opened in line `opened`.
    fn block(&mut self, opened: u32) -> Result<Vec<(u32, Vec<&'t str>)>, SwxError> {
        let mut block = Vec::new();
        loop {
            match self.next() {
                None => return Err(wrong(opened, "the block has no closing brace")),
                Some((_, words)) if words == ["}"] => return Ok(block),
                Some(line) => block.push(line),
            }
        }
    }
}

impl Spec {
    /// Reads a specification.
    pub(super) fn parse(text: &str) -> Result<Self, SwxError> {
        let mut lines = Lines::new(text);
        let mut spec = Self::default();
        while let Some((line, words)) = lines.next() {
            spec.item(line, &words, &mut lines)?;
        }
        let actions = spec.actions.iter().map(|action| &action.is);
        for instance in spec.headers.iter().chain(&spec.metadata).chain(actions) {
            if let Some(of) = &instance.of
                && spec.structure(of).is_none()
            {
                return Err(wrong(instance.line, format!("'{of}' is no structure ({})", instance.name)));
            }
        }
        for object in &spec.objects {
            let mailbox = spec.mailbox(object).ok_or_else(|| {
                wrong(object.line, format!("external object '{}' has no mailbox '<its type>_t'", object.name))
            })?;
            if let Some((name, _)) = mailbox.fields.iter().find(|(_, bits)| *bits != 32) {
                return Err(wrong(mailbox.line, format!("field '{name}' of a mailbox has not 32 bits")));
            }
        }
        super::operands::check(&spec)?;
        Ok(spec)
    }

    fn item(&mut self, line: u32, words: &[&str], lines: &mut Lines<'_>) -> Result<(), SwxError> {
        match words {
            ["struct", name, "{"] => self.structs.push(structure(line, name, lines)?),
            ["header", name, "instanceof", of] => self.headers.push(instance(line, name, Some(of))),
            ["metadata", "instanceof", of] => {
                if self.metadata.replace(instance(line, "metadata", Some(of))).is_some() {
                    return Err(wrong(line, "a second metadata structure"));
                }
            }
            ["extobj", name, "instanceof", of] => self.objects.push(instance(line, name, Some(of))),
            ["regarray", name, "size", size, "initval", initial] => self.arrays.push(Array {
                line,
                name: (*name).to_owned(),
                size: number(line, size)?,
                initial: number(line, initial)?,
            }),
            ["action", name, "args", "none", "{"] => {
                let is = instance(line, name, None);
                self.actions.push(Action { is, code: code(lines.block(line)?) });
            }
            ["action", name, "args", "instanceof", of, "{"] => {
                let is = instance(line, name, Some(of));
                self.actions.push(Action { is, code: code(lines.block(line)?) });
            }
            ["table", name, "{"] => self.tables.push(table(line, name, lines)?),
            ["apply", "{"] => self.apply = code(lines.block(line)?),
            [word @ ("extfunc" | "learner" | "selector" | "metarray" | "mirroring" | "rss"), ..] => {
                return Err(wrong(line, format!("'{word}' is not supported by this loader")));
            }
            [word, ..] => return Err(wrong(line, format!("'{word}' does not begin an item"))),
            [] => {}
        }
        Ok(())
    }

    /// The structure type of that name.
    pub(super) fn structure(&self, name: &str) -> Option<&Struct> {
        self.structs.iter().find(|structure| structure.name == name)
    }

    /// The mailbox of an external object.
    pub(super) fn mailbox(&self, object: &Instance) -> Option<&Struct> {
        self.structure(&format!("{}_t", object.of.as_deref()?))
    }

    /// Bytes of every header together: more is not emitted with one packet.
    pub(super) fn header_bytes(&self) -> usize {
        let of = self.headers.iter().filter_map(|header| self.structure(header.of.as_deref()?));
        of.map(Struct::bytes).sum()
    }

    /// The fields that are operands, of each name before a dot: `h.NAME`, `e.NAME`, and `m`.
    pub(super) fn fields(&self) -> BTreeMap<String, BTreeSet<&str>> {
        let of = |instance: &Instance| instance.of.as_deref().and_then(|of| self.structure(of));
        let headers = self.headers.iter().map(|header| (format!("h.{}", header.name), of(header)));
        let objects = self.objects.iter().map(|object| (format!("e.{}", object.name), self.mailbox(object)));
        let metadata = ("m".to_owned(), self.metadata.as_ref().and_then(of));
        fn operands(structure: &Struct) -> BTreeSet<&str> {
            let narrow = structure.fields.iter().filter(|(_, bits)| *bits <= OPERAND_BITS_MAX);
            narrow.map(|(name, _)| name.as_str()).collect()
        }
        headers
            .chain(objects)
            .chain([metadata])
            .map(|(name, structure)| (name, structure.map(operands).unwrap_or_default()))
            .collect()
    }
}

fn instance(line: u32, name: &str, of: Option<&str>) -> Instance {
    Instance { line, name: name.to_owned(), of: of.map(str::to_owned) }
}

fn code(lines: Vec<(u32, Vec<&str>)>) -> Vec<(u32, String)> {
    lines.into_iter().map(|(line, words)| (line, words.join(" "))).collect()
}

fn structure(line: u32, name: &str, lines: &mut Lines<'_>) -> Result<Struct, SwxError> {
    let mut fields = Vec::new();
    for (line, words) in lines.block(line)? {
        let [kind, field] = words[..] else { return Err(wrong(line, "a field is 'bit<BITS> NAME'")) };
        let bits = kind.strip_prefix("bit<").and_then(|bits| bits.strip_suffix('>'));
        let bits: u32 = number(line, bits.ok_or_else(|| wrong(line, format!("'{kind}' is not bit<BITS>")))?)?;
        if bits == 0 || bits > FIELD_BITS_MAX || !bits.is_multiple_of(8) {
            return Err(wrong(
                line,
                format!("field '{field}' has {bits} bits, not whole bytes up to {FIELD_BITS_MAX} bits"),
            ));
        }
        fields.push((field.to_owned(), bits));
    }
    Ok(Struct { line, name: name.to_owned(), fields })
}

fn table(line: u32, name: &str, lines: &mut Lines<'_>) -> Result<Table, SwxError> {
    let mut table = Table { line, name: name.to_owned(), ..Table::default() };
    loop {
        let Some((line, words)) = lines.next() else {
            return Err(wrong(table.line, format!("table '{name}' has no closing brace")));
        };
        match words[..] {
            ["}"] => return Ok(table),
            ["key", "{"] => {
                for (line, words) in lines.block(line)? {
                    table.keys.push(match words[..] {
                        [field, "exact"] => (field.to_owned(), true),
                        [field, "wildcard"] => (field.to_owned(), false),
                        _ => return Err(wrong(line, "a key is 'FIELD exact' or 'FIELD wildcard'")),
                    });
                }
            }
            ["actions", "{"] => {
                for (line, words) in lines.block(line)? {
                    let [action] = words[..] else { return Err(wrong(line, "an action is one name")) };
                    table.actions.push(action.to_owned());
                }
            }
            ["default_action", action, "args", ref args @ ..] => {
                table.default = action.to_owned();
                let (args, last) = match args.split_last() {
                    Some((&"const", args)) => (args, true),
                    _ => (args, false),
                };
                table.default_const = last;
                table.default_args = (args != ["none"]).then(|| args.join(" "));
            }
            ["size", size] => table.size = number(line, size)?,
            [word, ..] => {
                return Err(wrong(line, format!("'{word}' in a table is not supported by this loader")));
            }
            [] => {}
        }
    }
}
