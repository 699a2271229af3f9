//! Tokens of P4 text.

use crate::TextError;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier or a keyword.
    Word(String),
    /// A number, with its width where the text gives one.
    Number(u64, Option<u32>),
    /// A string.
    Text(String),
    /// An operator or punctuation.
    Sign(&'static str),
}

/// A token and its line, from 1.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    pub(crate) token: Token,
    pub(crate) line: usize,
}

/// Operators and punctuation; one that begins with another stands before it.
const SIGNS: &[&str] = &[
    "&&&", "|+|", "&&", "||", "==", "!=", "<=", ">=", "{", "}", "(", ")", "[", "]", "<", ">", ";", ":", ",",
    ".", "=", "+", "-", "&", "|", "^", "~", "!", "@",
];

/// Splits a text; comments and lines for the preprocessor are left out.
pub(crate) fn tokens(text: &str) -> Result<Vec<Located>, TextError> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line_number = number + 1;
        let code = line.split("//").next().unwrap_or_default();
        if code.trim_start().starts_with('#') {
            continue;
        }
        let mut rest = code.trim_start();
        while !rest.is_empty() {
            let (token, length) = next(rest).ok_or_else(|| TextError {
                line: line_number,
                what: format!("'{}' begins no token", rest.split_whitespace().next().unwrap_or_default()),
            })?;
            found.push(Located { token, line: line_number });
            rest = rest[length..].trim_start();
        }
    }
    Ok(found)
}

/// The first token of a text that is not empty, and its length in bytes.
fn next(text: &str) -> Option<(Token, usize)> {
    let length_while = |text: &str, part: fn(char) -> bool| text.find(|c| !part(c)).unwrap_or(text.len());
    let first = text.chars().next()?;
    if first.is_ascii_digit() {
        let length = length_while(text, |c| c.is_ascii_alphanumeric());
        return Some((number(&text[..length])?, length));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = length_while(text, |c| c.is_ascii_alphanumeric() || c == '_');
        return Some((Token::Word(text[..length].into()), length));
    }
    if let Some(inner) = text.strip_prefix('"') {
        let length = inner.find('"')?;
        return Some((Token::Text(inner[..length].into()), length + 2));
    }
    let sign = SIGNS.iter().find(|sign| text.starts_with(**sign))?;
    Some((Token::Sign(sign), sign.len()))
}

/// A number: decimal or hexadecimal, behind a width and `w` if it has one.
fn number(text: &str) -> Option<Token> {
    let value = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match text.split_once('w') {
        Some((bits, digits)) => Some(Token::Number(value(digits)?, Some(bits.parse().ok()?))),
        None => Some(Token::Number(value(text)?, None)),
    }
}
