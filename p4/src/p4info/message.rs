//! The subset of protobuf that P4Info needs: a tree of fields that prints as text and as bytes.

use crate::writer::Writer;

/// A message and its field number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    name: &'static str,
    number: u32,
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Number(&'static str, u32, u32),
    Symbol(&'static str, u32, &'static str, u32),
    Bytes(&'static str, u32, Vec<u8>),
    Nested(Message),
}

impl Message {
    pub(super) const fn new(name: &'static str, number: u32) -> Self {
        Self { name, number, fields: Vec::new() }
    }

    pub(super) fn number(mut self, name: &'static str, number: u32, value: u32) -> Self {
        self.fields.push(Field::Number(name, number, value));
        self
    }

    pub(super) fn symbol(
        mut self,
        name: &'static str,
        number: u32,
        symbol: &'static str,
        value: u32,
    ) -> Self {
        self.fields.push(Field::Symbol(name, number, symbol, value));
        self
    }

    pub(super) fn string(self, name: &'static str, number: u32, value: &str) -> Self {
        self.bytes(name, number, value.as_bytes())
    }

    pub(super) fn bytes(mut self, name: &'static str, number: u32, value: &[u8]) -> Self {
        self.fields.push(Field::Bytes(name, number, value.to_vec()));
        self
    }

    pub(super) fn nested(mut self, message: Self) -> Self {
        self.fields.push(Field::Nested(message));
        self
    }

    pub(super) fn text(&self) -> String {
        let mut writer = Writer::default();
        self.write(&mut writer);
        writer.finish()
    }

    fn write(&self, w: &mut Writer) {
        for field in &self.fields {
            match field {
                Field::Number(name, _, value) => w.line(format!("{name}: {value}")),
                Field::Symbol(name, _, symbol, _) => w.line(format!("{name}: {symbol}")),
                Field::Bytes(name, _, value) => w.line(format!("{name}: \"{}\"", escaped(value))),
                Field::Nested(message) => {
                    w.open(format!("{} {{", message.name));
                    message.write(w);
                    w.close("}");
                }
            }
        }
    }

    pub(super) fn binary(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Field numbers ascend on the wire, as serialisers write them.
        let mut fields: Vec<_> = self.fields.iter().collect();
        fields.sort_by_key(|field| field.field_number());
        for field in fields {
            match field {
                Field::Number(_, number, value) | Field::Symbol(_, number, _, value) => {
                    varint(&mut bytes, u64::from(*number) << 3);
                    varint(&mut bytes, u64::from(*value));
                }
                Field::Bytes(_, number, value) => delimited(&mut bytes, *number, value),
                Field::Nested(message) => delimited(&mut bytes, message.number, &message.binary()),
            }
        }
        bytes
    }
}

impl Field {
    const fn field_number(&self) -> u32 {
        match self {
            Self::Number(_, number, _) | Self::Symbol(_, number, _, _) | Self::Bytes(_, number, _) => *number,
            Self::Nested(message) => message.number,
        }
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            0x20..=0x7e => text.push(char::from(*byte)),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            other => text.push_str(&format!("\\{other:03o}")),
        }
    }
    text
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn delimited(bytes: &mut Vec<u8>, number: u32, value: &[u8]) {
    varint(bytes, u64::from(number) << 3 | 2);
    varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_protobuf_writes_them() {
        let message = Message::new("", 0)
            .string("b", 2, "hi")
            .number("a", 1, 300)
            .nested(Message::new("c", 3).number("d", 1, 1));
        assert_eq!(message.binary(), [0x08, 0xac, 0x02, 0x12, 2, b'h', b'i', 0x1a, 2, 0x08, 1]);
        assert_eq!(message.text(), "b: \"hi\"\na: 300\nc {\n    d: 1\n}\n");
        assert_eq!(escaped(&[5, b'"']), "\\005\\\"");
    }
}
