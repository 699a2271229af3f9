//! Which instructions a specification may have, and what their operands must name.

use std::collections::{BTreeMap, BTreeSet};

use super::SwxError;
use super::spec::{Spec, Struct};

/// What a word behind a mnemonic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// A field that is written: of a header, metadata, or of a mailbox.
    Target,
    /// A field, an argument of the action, or a number.
    Source,
    /// A metadata field.
    Metadata,
    /// A metadata field or a number: an output port.
    Port,
    /// A header.
    Header,
    /// A field of a header.
    HeaderField,
    /// A header, or a field of one.
    Summand,
    Array,
    Table,
    Action,
    /// The function of an external object.
    Function,
    Label,
}

impl Word {
    fn expected(self) -> &'static str {
        match self {
            Self::Target => "a field of a header, of metadata or of a mailbox",
            Self::Source => "a field, an argument or a number",
            Self::Metadata => "a field of metadata",
            Self::Port => "a field of metadata or a number",
            Self::Header => "a header",
            Self::HeaderField => "a field of a header",
            Self::Summand => "a header or a field of one",
            Self::Array => "a register array",
            Self::Table => "a table",
            Self::Action => "an action",
            Self::Function => "function 'run' of an external object",
            Self::Label => "a label further down",
        }
    }
}

/// The mnemonics that are accepted, with their operands; those of the third column only outside actions.
const INSTRUCTIONS: &[(&str, &[Word], bool)] = {
    use Word::*;
    &[
        ("rx", &[Metadata], true),
        ("tx", &[Port], true),
        ("drop", &[], false),
        ("extract", &[Header], true),
        ("emit", &[Header], true),
        ("validate", &[Header], false),
        ("invalidate", &[Header], false),
        ("mov", &[Target, Source], false),
        ("add", &[Target, Source], false),
        ("sub", &[Target, Source], false),
        ("and", &[Target, Source], false),
        ("or", &[Target, Source], false),
        ("xor", &[Target, Source], false),
        ("shl", &[Target, Source], false),
        ("shr", &[Target, Source], false),
        ("ckadd", &[HeaderField, Summand], false),
        ("regrd", &[Target, Array, Source], false),
        ("regwr", &[Array, Source, Source], false),
        ("regadd", &[Array, Source, Source], false),
        ("table", &[Table], true),
        ("extern", &[Function], true),
        ("jmp", &[Label], false),
        ("jmpv", &[Label, Header], false),
        ("jmpnv", &[Label, Header], false),
        ("jmph", &[Label], true),
        ("jmpnh", &[Label], true),
        ("jmpa", &[Label, Action], true),
        ("jmpna", &[Label, Action], true),
        ("jmpeq", &[Label, Source, Source], false),
        ("jmpneq", &[Label, Source, Source], false),
        ("jmplt", &[Label, Source, Source], false),
        ("jmpgt", &[Label, Source, Source], false),
        ("return", &[], false),
    ]
};

/// Names that operands may have.
struct Known<'s> {
    /// Fields by what is before their dot: `h.NAME`, `e.NAME`, `m`, and `t` in an action with arguments.
    fields: BTreeMap<String, BTreeSet<&'s str>>,
    arrays: BTreeSet<&'s str>,
    tables: BTreeSet<&'s str>,
    actions: BTreeSet<&'s str>,
}

/// Checks every instruction.
pub(super) fn check(spec: &Spec) -> Result<(), SwxError> {
    let mut known = Known {
        fields: spec.fields(),
        arrays: spec.arrays.iter().map(|array| array.name.as_str()).collect(),
        tables: spec.tables.iter().map(|table| table.name.as_str()).collect(),
        actions: spec.actions.iter().map(|action| action.is.name.as_str()).collect(),
    };
    for action in &spec.actions {
        known.fields.remove("t");
        if let Some(of) = action.is.of.as_deref().and_then(|of| spec.structure(of)) {
            known.fields.insert("t".into(), of.fields.iter().map(|(name, _)| name.as_str()).collect());
        }
        known.block(&action.code, true)?;
    }
    known.fields.remove("t");
    if spec.apply.is_empty() {
        return Err(SwxError::Spec { line: 0, what: "there is no 'apply' block".into() });
    }
    known.block(&spec.apply, false)
}

/// The most bytes that a program extracts on any way through it, which a packet's slot has room for. Every jump goes forward.
pub(super) fn extracted_bytes(spec: &Spec) -> usize {
    let bytes: BTreeMap<String, usize> = spec
        .headers
        .iter()
        .map(|header| {
            let structure = header.of.as_deref().and_then(|of| spec.structure(of));
            (format!("h.{}", header.name), structure.map_or(0, Struct::bytes))
        })
        .collect();
    // Most bytes from each label to an end, from the last instruction on.
    let (mut from, mut behind) = (BTreeMap::new(), 0usize);
    for (_, text) in spec.apply.iter().rev() {
        let (label, words) = split(text);
        let jump = |to: &str| from.get(to).copied().unwrap_or(0);
        behind = match words[..] {
            ["extract", header] => behind + bytes.get(header).copied().unwrap_or(0),
            ["drop" | "tx", ..] => 0,
            ["jmp", to] => jump(to),
            [mnemonic, to, ..] if mnemonic.starts_with("jmp") => behind.max(jump(to)),
            _ => behind,
        };
        if let Some(label) = label {
            from.insert(label, behind);
        }
    }
    behind
}

/// Where an instruction belongs, if it is elsewhere. DPDK does not look: it would go on behind the last instruction of an action, or return to nowhere.
fn misplaced(mnemonic: &str, at: usize, last: bool, in_action: bool) -> Option<&'static str> {
    match mnemonic {
        "rx" if at > 0 => Some("'rx' is the first instruction of 'apply' alone"),
        "return" if !in_action => Some("only an action returns"),
        "return" | "drop" => None,
        _ if last && in_action => Some("an action ends with 'return' or 'drop'"),
        _ => None,
    }
}

/// The label before an instruction, if any, and the instruction's words.
pub(super) fn split(text: &str) -> (Option<&str>, Vec<&str>) {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [label, ":", ..] => (Some(label), words[2..].to_vec()),
        _ => (None, words),
    }
}

impl Known<'_> {
    fn block(&self, code: &[(u32, String)], in_action: bool) -> Result<(), SwxError> {
        let mut labels = BTreeMap::new();
        for (at, (line, text)) in code.iter().enumerate() {
            if let (Some(label), _) = split(text)
                && labels.insert(label, at).is_some()
            {
                return Err(SwxError::Spec { line: *line, what: format!("label '{label}' is used twice") });
            }
        }
        let mut emitted = BTreeSet::new();
        for (at, (line, text)) in code.iter().enumerate() {
            let wrong = |what: String| SwxError::Spec { line: *line, what };
            let (_, words) = split(text);
            let [mnemonic, operands @ ..] = &words[..] else {
                return Err(wrong("a label without an instruction".into()));
            };
            let known = INSTRUCTIONS.iter().find(|(name, ..)| name == mnemonic);
            let Some((_, kinds, outside)) = known else {
                return Err(wrong(format!("instruction '{mnemonic}' is not supported by this loader")));
            };
            if *outside && in_action {
                return Err(wrong(format!("instruction '{mnemonic}' does not belong in an action")));
            }
            if let Some(where_else) = misplaced(mnemonic, at, at + 1 == code.len(), in_action) {
                return Err(wrong(format!("'{mnemonic}' is there, and {where_else}")));
            }
            if kinds.len() != operands.len() {
                return Err(wrong(format!("'{mnemonic}' has {} operands", kinds.len())));
            }
            for (kind, operand) in kinds.iter().zip(operands) {
                let good = match kind {
                    Word::Label => labels.get(operand).is_some_and(|to| *to > at),
                    kind => self.names(*kind, operand),
                };
                if !good {
                    let expected = kind.expected();
                    return Err(wrong(format!("'{operand}' is not {expected} ({mnemonic})")));
                }
            }
            if *mnemonic == "emit" && !emitted.insert(operands[0]) {
                return Err(wrong(format!("'emit' of {} is there twice", operands[0])));
            }
        }
        Ok(())
    }

    fn names(&self, kind: Word, word: &str) -> bool {
        let number = || word.starts_with(|c: char| c.is_ascii_digit());
        match kind {
            Word::Target => !word.starts_with("t.") && self.field(word),
            Word::Source => number() || self.field(word),
            Word::Metadata => word.starts_with("m.") && self.field(word),
            Word::Port => number() || word.starts_with("m.") && self.field(word),
            Word::Header => word.starts_with("h.") && self.fields.contains_key(word),
            Word::HeaderField => word.starts_with("h.") && self.field(word),
            Word::Summand => word.starts_with("h.") && (self.fields.contains_key(word) || self.field(word)),
            Word::Array => self.arrays.contains(word),
            Word::Table => self.tables.contains(word),
            Word::Action => self.actions.contains(word),
            Word::Function => word
                .strip_suffix(".run")
                .is_some_and(|object| object.starts_with("e.") && self.fields.contains_key(object)),
            Word::Label => false,
        }
    }

    fn field(&self, word: &str) -> bool {
        let Some((of, field)) = word.rsplit_once('.') else { return false };
        self.fields.get(of).is_some_and(|fields| fields.contains(field))
    }
}
