//! Statements to text.

use std::fmt;

use super::{Comparison, Masked, Pattern, Script, Statement};

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statements.iter().try_for_each(|(_, statement)| writeln!(f, "{statement}"))
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { table, priority, keys, action, params } => {
                write!(f, "add {table}")?;
                if let Some(priority) = priority {
                    write!(f, " {priority}")?;
                }
                for (name, value) in keys {
                    write!(f, " {name}:{value}")?;
                }
                write!(f, " {action}(")?;
                for (i, (name, value)) in params.iter().enumerate() {
                    write!(f, "{}{name}:{value:#x}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Self::GroupCreate(group) => write!(f, "mc_mgrp_create {group}"),
            Self::NodeCreate { instance, ports } => {
                write!(f, "mc_node_create {instance}")?;
                ports.iter().try_for_each(|port| write!(f, " {port}"))
            }
            Self::NodeAssociate { group, node } => write!(f, "mc_node_associate {group} {node}"),
            Self::Packet { port, bytes } => {
                write!(f, "packet {port} ")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Expect { port, pattern: None } => write!(f, "expect {port}"),
            Self::Expect { port, pattern: Some(pattern) } => write!(f, "expect {port} {pattern}"),
            Self::CheckCounter { name, index, condition: None } => {
                write!(f, "check_counter \"{name}\"({index})")
            }
            Self::CheckCounter { name, index, condition: Some((comparison, number)) } => {
                write!(f, "check_counter \"{name}\"({index}) packets {comparison} {number}")
            }
            Self::RegisterRead { name, index } => write!(f, "register_read {name} {index}"),
            Self::Wait => f.write_str("wait"),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = Self::ALL.iter().find(|(known, _)| known == self).map_or("==", |(_, sign)| *sign);
        f.write_str(sign)
    }
}

impl fmt::Display for Masked {
    /// As many digits as the mask has, since of a ternary key only the digits that are written count: hexadecimal ones where the mask
    /// has whole nibbles, else binary ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nibbles = (0..16).all(|nibble| matches!(self.mask >> (4 * nibble) & 15, 0 | 15));
        let (prefix, bits) = if nibbles { ("0x", 4) } else { ("0b", 1) };
        let digits = (64 - self.mask.leading_zeros()).div_ceil(bits);
        f.write_str(prefix)?;
        // An open digit in front.
        if digits == 0 || self.wild && u64::MAX.checked_shr(64 - bits * digits) == Some(self.mask) {
            f.write_str("*")?;
        }
        let low = (1 << bits) - 1;
        (0..digits).rev().try_for_each(|digit| match self.mask >> (bits * digit) & low {
            0 => f.write_str("*"),
            _ => write!(f, "{:x}", self.value >> (bits * digit) & low),
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.nibbles.iter().try_for_each(|nibble| match nibble {
            Some(nibble) => write!(f, "{nibble:x}"),
            None => f.write_str("*"),
        })?;
        f.write_str(if self.exact { "$" } else { "" })
    }
}
