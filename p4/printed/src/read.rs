//! Reads the subset of P4_16 that the printer of Tofino programs writes. What is not in that subset is an error.

mod declaration;
mod expression;
mod statement;
mod table;

use std::collections::HashMap;

use crate::TextError;
use crate::lex::{Located, Token, tokens};
use crate::program::*;

/// Fields of the architecture's metadata that programs use: type, and names and widths.
const INTRINSIC: &[(&str, &[(&str, u32)])] = &[
    ("ingress_intrinsic_metadata_t", &[("ingress_port", 9)]),
    ("ingress_intrinsic_metadata_from_parser_t", &[]),
    ("ingress_intrinsic_metadata_for_deparser_t", &[("drop_ctl", 3)]),
    (
        "ingress_intrinsic_metadata_for_tm_t",
        &[("ucast_egress_port", 9), ("mcast_grp_a", 16), ("bypass_egress", 1), ("qid", 5)],
    ),
    ("egress_intrinsic_metadata_t", &[("egress_rid", 16), ("enq_qdepth", 19)]),
    ("egress_intrinsic_metadata_from_parser_t", &[]),
    ("egress_intrinsic_metadata_for_deparser_t", &[]),
    ("egress_intrinsic_metadata_for_output_port_t", &[]),
];

/// Members of a struct or a header: type and name.
type Members = Vec<(TypeName, String)>;

/// A type as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TypeName {
    Bits(Type),
    Named(String),
}

/// Names of one gress.
#[derive(Debug, Default)]
struct Names {
    fields: HashMap<String, usize>,
    headers: HashMap<String, usize>,
    actions: HashMap<String, usize>,
    tables: HashMap<String, usize>,
    register_actions: HashMap<String, usize>,
    registers: HashMap<String, usize>,
    counters: HashMap<String, usize>,
    /// Parameters and variables of the action that is read.
    locals: HashMap<String, usize>,
    checksums: Vec<String>,
}

/// The reader.
struct Reader {
    tokens: Vec<Located>,
    at: usize,
    headers: HashMap<String, Members>,
    structs: HashMap<String, Members>,
    registers: Vec<Register>,
    counters: Vec<Counter>,
    gress: Gress,
    names: Names,
}

/// Reads a program.
pub(crate) fn program(text: &str) -> Result<Program, TextError> {
    let mut reader = Reader {
        tokens: tokens(text)?,
        at: 0,
        headers: HashMap::new(),
        structs: HashMap::new(),
        registers: Vec::new(),
        counters: Vec::new(),
        gress: Gress::default(),
        names: Names::default(),
    };
    let mut found: Vec<Gress> = Vec::new();
    loop {
        match reader.word()?.as_str() {
            "header" => {
                let (name, members) = reader.members()?;
                reader.headers.insert(name, members);
            }
            "struct" => {
                let (name, members) = reader.members()?;
                reader.structs.insert(name, members);
            }
            "parser" => {
                reader.names = Names::default();
                reader.gress = Gress::default();
                reader.parser()?;
            }
            "control" => {
                if reader.control()? {
                    found.push(std::mem::take(&mut reader.gress));
                }
            }
            "Pipeline" => break,
            other => return Err(reader.error(format!("'{other}' begins no declaration"))),
        }
    }
    reader.pipeline()?;
    match <[Gress; 2]>::try_from(found) {
        Ok([ingress, egress]) => {
            Ok(Program { ingress, egress, registers: reader.registers, counters: reader.counters })
        }
        Err(found) => Err(reader.error(format!("{} pipelines; ingress and egress are needed", found.len()))),
    }
}

impl Reader {
    fn error(&self, what: impl Into<String>) -> TextError {
        let last = self.tokens.last().map_or(0, |located| located.line);
        let line = self.tokens.get(self.at.saturating_sub(1)).map_or(last, |located| located.line);
        TextError { line, what: what.into() }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|located| &located.token)
    }

    fn next(&mut self) -> Result<Token, TextError> {
        let token = self.peek().cloned();
        self.at += 1;
        token.ok_or_else(|| self.error("the text ends"))
    }

    fn word(&mut self) -> Result<String, TextError> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => Err(self.error(format!("{other:?} where a name is expected"))),
        }
    }

    fn number(&mut self) -> Result<u64, TextError> {
        match self.next()? {
            Token::Number(value, _) => Ok(value),
            other => Err(self.error(format!("{other:?} where a number is expected"))),
        }
    }

    fn small(&mut self) -> Result<u32, TextError> {
        let value = self.number()?;
        u32::try_from(value).map_err(|_| self.error(format!("{value} is too large")))
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    /// Skips the sign if it is next.
    fn take(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), TextError> {
        if self.take(sign) {
            return Ok(());
        }
        let found = self.next()?;
        Err(self.error(format!("{found:?} where '{sign}' is expected")))
    }

    fn expect_word(&mut self, word: &str) -> Result<(), TextError> {
        let found = self.word()?;
        if found == word { Ok(()) } else { Err(self.error(format!("'{found}' where '{word}' is expected"))) }
    }

    /// The annotation `@id(N)` if one is next, or 0; `@hidden` and `@name` are skipped.
    fn annotations(&mut self) -> Result<u32, TextError> {
        let mut id = 0;
        while self.take("@") {
            match self.word()?.as_str() {
                "id" => {
                    self.expect("(")?;
                    id = self.small()?;
                    self.expect(")")?;
                }
                "name" => {
                    self.expect("(")?;
                    self.next()?;
                    self.expect(")")?;
                }
                "hidden" => {}
                other => return Err(self.error(format!("annotation '{other}'"))),
            }
        }
        Ok(id)
    }

    fn type_name(&mut self) -> Result<TypeName, TextError> {
        let name = self.word()?;
        if name != "bit" && name != "int" {
            return Ok(TypeName::Named(name));
        }
        self.expect("<")?;
        let bits = self.small()?;
        self.expect(">")?;
        if !(1..=64).contains(&bits) {
            return Err(self.error(format!("{bits} bits; 1 to 64 are supported")));
        }
        Ok(TypeName::Bits(Type { bits, signed: name == "int" }))
    }

    fn bits(&mut self) -> Result<Type, TextError> {
        match self.type_name()? {
            TypeName::Bits(ty) => Ok(ty),
            TypeName::Named(name) => Err(self.error(format!("type '{name}' where bits are expected"))),
        }
    }

    /// A name with its members.
    fn members(&mut self) -> Result<(String, Members), TextError> {
        let name = self.word()?;
        self.expect("{")?;
        let mut members = Vec::new();
        while !self.take("}") {
            let ty = self.type_name()?;
            members.push((ty, self.word()?));
            self.expect(";")?;
        }
        Ok((name, members))
    }

    /// The end of the text: the blocks in the architecture's order.
    fn pipeline(&mut self) -> Result<(), TextError> {
        self.expect("(")?;
        for block in [
            "IngressParserImpl",
            "IngressImpl",
            "IngressDeparserImpl",
            "EgressParserImpl",
            "EgressImpl",
            "EgressDeparserImpl",
        ] {
            self.expect_word(block)?;
            self.expect("(")?;
            self.expect(")")?;
            if block != "EgressDeparserImpl" {
                self.expect(",")?;
            }
        }
        self.expect(")")?;
        self.expect_word("pipe")?;
        self.expect(";")?;
        for word in ["Switch", "main"] {
            self.expect_word(word)?;
            if word == "Switch" {
                self.expect("(")?;
                self.expect_word("pipe")?;
                self.expect(")")?;
            }
        }
        self.expect(";")
    }
}
