//! Text to statements.

use super::{Comparison, Masked, Pattern, Script, Statement};

/// Longest script in bytes: it may come from anyone.
pub(super) const TEXT_MAX: usize = 64 << 20;

/// A line that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct StfError {
    /// Line, from 1; 0 for the whole text.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

type Parsed<T> = Result<T, String>;

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    ///
    /// The first line that is not understood.
    pub fn parse(text: &str) -> Result<Self, StfError> {
        if text.len() > TEXT_MAX {
            let problem = format!("{} bytes are more than a script may have ({TEXT_MAX})", text.len());
            return Err(StfError { line: 0, problem });
        }
        let mut statements = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line_number = number + 1;
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let statement = statement(line).map_err(|problem| StfError { line: line_number, problem })?;
            statements.push((line_number, statement));
        }
        Ok(Self { statements })
    }
}

fn statement(line: &str) -> Parsed<Statement> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match word.to_ascii_lowercase().as_str() {
        "add" => add(rest),
        "packet" => {
            let (port, data) = port_and_data(rest)?;
            Ok(Statement::Packet { port, bytes: bytes(&data)? })
        }
        "expect" => {
            let (port, data) = port_and_data(rest)?;
            Ok(Statement::Expect { port, pattern: (!data.is_empty()).then(|| pattern(&data)).transpose()? })
        }
        "mc_mgrp_create" => Ok(Statement::GroupCreate(number(rest)?)),
        "mc_node_create" => {
            let mut words = rest.split_whitespace();
            let instance = number(words.next().unwrap_or_default())?;
            let ports = words.map(number).collect::<Parsed<Vec<u16>>>()?;
            if ports.is_empty() {
                return Err("a node needs a port: mc_node_create INSTANCE PORT ...".into());
            }
            Ok(Statement::NodeCreate { instance, ports })
        }
        "mc_node_associate" => {
            let [group, node] = words(rest, "mc_node_associate GROUP NODE")?;
            Ok(Statement::NodeAssociate { group: number(group)?, node: number(node)? })
        }
        "check_counter" => check_counter(rest),
        "register_read" => {
            let [name, index] = words(rest, "register_read NAME INDEX")?;
            Ok(Statement::RegisterRead { name: name.into(), index: number(index)? })
        }
        "wait" | "no_packet" => Ok(Statement::Wait),
        other => Err(format!(
            "statement '{other}' is unknown or not supported: use add, packet, expect, mc_mgrp_create, mc_node_create, \
             mc_node_associate, check_counter, register_read, wait"
        )),
    }
}

fn words<'a, const N: usize>(text: &'a str, form: &str) -> Parsed<[&'a str; N]> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.try_into().map_err(|_| format!("expected: {form}"))
}

fn add(text: &str) -> Parsed<Statement> {
    const FORM: &str = "expected: add TABLE [PRIORITY] KEY:VALUE ... ACTION(PARAM:VALUE, ...)";
    let (head, call) = match text.find('(') {
        Some(open) => text.split_at(open),
        None => return Err(FORM.into()),
    };
    let mut words: Vec<&str> = head.split_whitespace().collect();
    let action = words.pop().filter(|word| !word.contains(':')).ok_or(FORM)?;
    let mut words = words.into_iter().peekable();
    let table = words.next().ok_or(FORM)?;
    let priority = match words.peek() {
        Some(word) if !word.contains(':') => Some(number(words.next().unwrap_or_default())?),
        _ => None,
    };
    let keys = words
        .map(|word| {
            let (name, value) = word.rsplit_once(':').ok_or(FORM)?;
            Ok((name.to_owned(), masked(value)?))
        })
        .collect::<Parsed<_>>()?;
    let params = call.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or(FORM)?;
    let params = params
        .split(',')
        .filter(|param| !param.trim().is_empty())
        .map(|param| {
            let (name, value) = param.split_once(':').ok_or(FORM)?;
            Ok((name.trim().to_owned(), number(value.trim())?))
        })
        .collect::<Parsed<_>>()?;
    Ok(Statement::Add { table: table.into(), priority, keys, action: action.into(), params })
}

/// A number in decimal, hexadecimal or binary that fits its type.
fn number<T: TryFrom<u64>>(text: &str) -> Parsed<T> {
    let (digits, radix) = match (text.get(..2), text.get(2..)) {
        (Some("0x" | "0X"), Some(digits)) => (digits, 16),
        (Some("0b" | "0B"), Some(digits)) => (digits, 2),
        _ => (text, 10),
    };
    // The standard library takes a sign.
    let value = u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'));
    let value = value.ok_or_else(|| format!("'{text}' is not a number"))?;
    T::try_from(value).map_err(|_| format!("{value} is too large here"))
}

/// A value whose hexadecimal or binary digits may be `*`. Of a ternary key only the digits that are written count.
fn masked(text: &str) -> Parsed<Masked> {
    let (radix, digits) = match (text.get(..2), text.get(2..)) {
        (Some("0x" | "0X"), Some(digits)) => (4, digits),
        (Some("0b" | "0B"), Some(digits)) => (1, digits),
        _ => return Ok(Masked { value: number(text)?, mask: u64::MAX, wild: false }),
    };
    if digits.is_empty() || digits.len() * radix > 64 {
        return Err(format!("'{text}' has no digits, or more than 64 bits"));
    }
    let (mut value, mut mask) = (0, 0);
    for digit in digits.chars() {
        let found = digit.to_digit(1 << radix);
        if found.is_none() && digit != '*' {
            return Err(format!("'{digit}' in '{text}' is no digit"));
        }
        // Shifted in two steps, because one of the width of the type is none.
        value = (value << (radix - 1)) << 1 | u64::from(found.unwrap_or(0));
        mask = (mask << (radix - 1)) << 1 | if found.is_some() { (1 << radix) - 1 } else { 0 };
    }
    Ok(Masked { value, mask, wild: digits.contains('*') })
}

fn port_and_data(text: &str) -> Parsed<(u16, String)> {
    let (port, data) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    Ok((number(port)?, data.split_whitespace().collect()))
}

fn bytes(text: &str) -> Parsed<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err("a packet has an even number of hexadecimal digits".into());
    }
    let pair = |at: usize| {
        let pair = text.get(at..at + 2).unwrap_or_default();
        let byte = u8::from_str_radix(pair, 16).ok().filter(|_| !pair.starts_with('+'));
        byte.ok_or_else(|| format!("'{pair}' is no hexadecimal byte"))
    };
    (0..text.len()).step_by(2).map(pair).collect()
}

fn pattern(text: &str) -> Parsed<Pattern> {
    let (digits, exact) = match text.strip_suffix('$') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let nibble = |digit: char| match digit {
        '*' => Ok(None),
        _ => match digit.to_digit(16) {
            Some(digit) => Ok(Some(digit as u8)),
            None => Err(format!("'{digit}' is neither a hexadecimal digit nor '*'")),
        },
    };
    Ok(Pattern { nibbles: digits.chars().map(nibble).collect::<Parsed<_>>()?, exact })
}

fn check_counter(text: &str) -> Parsed<Statement> {
    const FORM: &str = "expected: check_counter NAME(INDEX) [packets == NUMBER]";
    let (name, rest) = text.split_once('(').ok_or(FORM)?;
    let (index, rest) = rest.split_once(')').ok_or(FORM)?;
    let rest = rest.trim();
    let condition = match rest.strip_prefix("packets") {
        None if rest.is_empty() => None,
        None => return Err(FORM.into()),
        Some(rest) => {
            let rest = rest.trim();
            let (comparison, sign) =
                Comparison::ALL.iter().find(|(_, sign)| rest.starts_with(sign)).ok_or(FORM)?;
            Some((*comparison, number(rest[sign.len()..].trim())?))
        }
    };
    let name = name.trim().trim_matches('"');
    Ok(Statement::CheckCounter { name: name.into(), index: number(index.trim())?, condition })
}
