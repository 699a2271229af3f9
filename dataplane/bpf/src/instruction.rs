//! Instructions, their encoding, and their text.

use std::fmt;

/// A register of the virtual machine, 0 to 10: 0 to 5 do not survive calls, and 10 is the frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register(pub u8);

/// Bytes of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
    /// 8 bytes.
    Double,
}

impl Size {
    const fn code(self) -> u8 {
        match self {
            Self::Byte => 0x10,
            Self::Half => 0x08,
            Self::Word => 0x00,
            Self::Double => 0x18,
        }
    }

    /// Number of bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
            Self::Double => 8,
        }
    }
}

/// Whether an operation is on the low 32 bits, and then clears the others of its result, or on all 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    Low,
    /// 64 bits.
    All,
}

/// An arithmetic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Alu {
    /// Sum.
    Add = 0x00,
    /// Difference.
    Sub = 0x10,
    /// Product.
    Mul = 0x20,
    /// Bitwise or.
    Or = 0x40,
    /// Bitwise and.
    And = 0x50,
    /// Shift left.
    Shl = 0x60,
    /// Logical shift right.
    Shr = 0x70,
    /// Bitwise exclusive or.
    Xor = 0xa0,
    /// Copy.
    Mov = 0xb0,
    /// Shift right that keeps the sign.
    SignedShr = 0xc0,
}

impl Alu {
    const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+=",
            Self::Sub => "-=",
            Self::Mul => "*=",
            Self::Or => "|=",
            Self::And => "&=",
            Self::Shl => "<<=",
            Self::Shr => ">>=",
            Self::Xor => "^=",
            Self::Mov => "=",
            Self::SignedShr => "s>>=",
        }
    }
}

/// A comparison that decides a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Jump {
    /// Equal.
    Eq = 0x10,
    /// Unsigned greater.
    Gt = 0x20,
    /// Unsigned greater or equal.
    Ge = 0x30,
    /// Not equal.
    Ne = 0x50,
    /// Two's complement greater.
    SignedGt = 0x60,
    /// Two's complement greater or equal.
    SignedGe = 0x70,
    /// Unsigned less.
    Lt = 0xa0,
    /// Unsigned less or equal.
    Le = 0xb0,
    /// Two's complement less.
    SignedLt = 0xc0,
    /// Two's complement less or equal.
    SignedLe = 0xd0,
}

impl Jump {
    const fn symbol(self) -> &'static str {
        match self {
            Self::Eq => "==",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::Ne => "!=",
            Self::SignedGt => "s>",
            Self::SignedGe => "s>=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::SignedLt => "s<",
            Self::SignedLe => "s<=",
        }
    }

    /// The comparison that holds exactly where this one does not.
    #[must_use]
    pub const fn negated(self) -> Self {
        match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Gt => Self::Le,
            Self::Le => Self::Gt,
            Self::Ge => Self::Lt,
            Self::Lt => Self::Ge,
            Self::SignedGt => Self::SignedLe,
            Self::SignedLe => Self::SignedGt,
            Self::SignedGe => Self::SignedLt,
            Self::SignedLt => Self::SignedGe,
        }
    }
}

/// A function of the kernel that programs call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `bpf_map_lookup_elem`.
    MapLookup = 1,
    /// `bpf_redirect_map`.
    RedirectMap = 51,
    /// `bpf_xdp_adjust_meta`.
    AdjustMeta = 54,
    /// `bpf_xdp_adjust_tail`.
    AdjustTail = 65,
    /// `bpf_spin_lock`.
    SpinLock = 93,
    /// `bpf_spin_unlock`.
    SpinUnlock = 94,
    /// `bpf_xdp_load_bytes`, from Linux 5.18 on.
    LoadBytes = 189,
    /// `bpf_xdp_store_bytes`, from Linux 5.18 on.
    StoreBytes = 190,
}

impl Helper {
    const ALL: [Self; 8] = [
        Self::MapLookup,
        Self::RedirectMap,
        Self::AdjustMeta,
        Self::AdjustTail,
        Self::SpinLock,
        Self::SpinUnlock,
        Self::LoadBytes,
        Self::StoreBytes,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::MapLookup => "map_lookup_elem",
            Self::RedirectMap => "redirect_map",
            Self::AdjustMeta => "xdp_adjust_meta",
            Self::AdjustTail => "xdp_adjust_tail",
            Self::SpinLock => "spin_lock",
            Self::SpinUnlock => "spin_unlock",
            Self::LoadBytes => "xdp_load_bytes",
            Self::StoreBytes => "xdp_store_bytes",
        }
    }
}

/// What an instruction that names a map loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapPart {
    /// The map, for calls.
    Itself,
    /// The address of the byte at this offset in the only value of an array.
    Value(u32),
}

/// One instruction of 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Class, operation, and source or mode.
    pub code: u8,
    /// Register that is changed, compared, or the base of a store.
    pub destination: u8,
    /// Register that is read, or the kind of a 64-bit constant.
    pub source: u8,
    /// Offset of memory, or of a jump from the next instruction.
    pub offset: i16,
    /// Constant.
    pub operand: i32,
}

const LDX: u8 = 0x61;
const ST: u8 = 0x62;
const STX: u8 = 0x63;
const ALU32: u8 = 0x04;
const ALU64: u8 = 0x07;
const JMP: u8 = 0x05;
const JMP32: u8 = 0x06;
const LD_IMM64: u8 = 0x18;
const TO_BE: u8 = 0xdc;
const ATOMIC_ADD: u8 = 0xdb;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const BY_REGISTER: u8 = 0x08;

impl Instruction {
    const fn new(code: u8, destination: u8, source: u8, offset: i16, operand: i32) -> Self {
        Self { code, destination, source, offset, operand }
    }

    /// `destination = *(base + offset)`.
    pub const fn load(size: Size, destination: Register, base: Register, offset: i16) -> Self {
        Self::new(LDX | size.code(), destination.0, base.0, offset, 0)
    }

    /// `*(base + offset) = source`.
    pub const fn store(size: Size, base: Register, offset: i16, source: Register) -> Self {
        Self::new(STX | size.code(), base.0, source.0, offset, 0)
    }

    /// `*(base + offset) = value`.
    pub const fn store_constant(size: Size, base: Register, offset: i16, value: i32) -> Self {
        Self::new(ST | size.code(), base.0, 0, offset, value)
    }

    /// `destination op= source`.
    pub const fn alu(width: Width, op: Alu, destination: Register, source: Register) -> Self {
        Self::new(alu_class(width) | op as u8 | BY_REGISTER, destination.0, source.0, 0, 0)
    }

    /// `destination op= value`; the value is sign-extended for 64 bits.
    pub const fn alu_constant(width: Width, op: Alu, destination: Register, value: i32) -> Self {
        Self::new(alu_class(width) | op as u8, destination.0, 0, 0, value)
    }

    /// Converts the low 16, 32 or 64 bits between the processor's order and big-endian, and clears the others.
    pub const fn big_endian(register: Register, bits: i32) -> Self {
        Self::new(TO_BE, register.0, 0, 0, bits)
    }

    /// `*(base + offset) += source`, 64 bits, atomically.
    pub const fn atomic_add(base: Register, offset: i16, source: Register) -> Self {
        Self::new(ATOMIC_ADD, base.0, source.0, offset, 0)
    }

    /// A jump by `offset` instructions from the next one.
    pub const fn go(offset: i16) -> Self {
        Self::new(JMP, 0, 0, offset, 0)
    }

    /// A jump if `left` compares so with `right`.
    pub const fn jump(width: Width, when: Jump, left: Register, right: Register, offset: i16) -> Self {
        Self::new(jump_class(width) | when as u8 | BY_REGISTER, left.0, right.0, offset, 0)
    }

    /// A jump if `left` compares so with a constant.
    pub const fn jump_constant(width: Width, when: Jump, left: Register, right: i32, offset: i16) -> Self {
        Self::new(jump_class(width) | when as u8, left.0, 0, offset, right)
    }

    /// A constant of 64 bits: two instructions.
    pub const fn constant(destination: Register, value: u64) -> [Self; 2] {
        let [low, high] = [value as u32 as i32, (value >> 32) as u32 as i32];
        [Self::new(LD_IMM64, destination.0, 0, 0, low), Self::new(0, 0, 0, 0, high)]
    }

    /// A map or the address of its value: two instructions. `descriptor` is the map's file descriptor.
    pub const fn map(destination: Register, part: MapPart, descriptor: i32) -> [Self; 2] {
        let (kind, offset) = match part {
            MapPart::Itself => (1, 0),
            MapPart::Value(offset) => (2, offset as i32),
        };
        [Self::new(LD_IMM64, destination.0, kind, 0, descriptor), Self::new(0, 0, 0, 0, offset)]
    }

    /// A call; arguments are in registers 1 to 5, the result in 0.
    pub const fn call(helper: Helper) -> Self {
        Self::new(CALL, 0, 0, 0, helper as i32)
    }

    /// The end; the verdict is in register 0.
    pub const fn exit() -> Self {
        Self::new(EXIT, 0, 0, 0, 0)
    }

    /// Whether the instruction has a jump's offset.
    pub const fn jumps(self) -> bool {
        matches!(self.code & 7, JMP | JMP32) && self.code != CALL && self.code != EXIT
    }

    /// The instruction as the kernel reads it.
    pub const fn encode(self) -> u64 {
        let Self { code, destination, source, offset, operand } = self;
        let registers = if cfg!(target_endian = "little") {
            destination | source << 4
        } else {
            destination << 4 | source
        };
        let (o, k) = (offset.to_ne_bytes(), operand.to_ne_bytes());
        u64::from_ne_bytes([code, registers, o[0], o[1], k[0], k[1], k[2], k[3]])
    }
}

const fn alu_class(width: Width) -> u8 {
    match width {
        Width::Low => ALU32,
        Width::All => ALU64,
    }
}

const fn jump_class(width: Width) -> u8 {
    match width {
        Width::Low => JMP32,
        Width::All => JMP,
    }
}

const OPERATIONS: [Alu; 10] =
    [Alu::Add, Alu::Sub, Alu::Mul, Alu::Or, Alu::And, Alu::Shl, Alu::Shr, Alu::Xor, Alu::Mov, Alu::SignedShr];

const COMPARISONS: [Jump; 10] = [
    Jump::Eq,
    Jump::Gt,
    Jump::Ge,
    Jump::Ne,
    Jump::SignedGt,
    Jump::SignedGe,
    Jump::Lt,
    Jump::Le,
    Jump::SignedLt,
    Jump::SignedLe,
];

/// Bits of an access, by the size in a code.
const fn bits(code: u8) -> u32 {
    match code & 0x18 {
        0x10 => 8,
        0x08 => 16,
        0x00 => 32,
        _ => 64,
    }
}

impl fmt::Display for Instruction {
    /// The form of the kernel's verifier: `w` are the low halves of `r`. Jumps are relative.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, destination: d, source: s, offset, operand: k } = *self;
        let memory = |base: u8| format!("*(u{}*)(r{base} {offset:+})", bits(code));
        match (code, code & 7) {
            (0, _) => write!(f, "(high half {k:#x})"),
            (TO_BE, _) => write!(f, "r{d} = be{k} r{d}"),
            (ATOMIC_ADD, _) => write!(f, "lock *(u64*)(r{d} {offset:+}) += r{s}"),
            (EXIT, _) => f.write_str("exit"),
            (CALL, _) => match Helper::ALL.iter().find(|helper| **helper as i32 == k) {
                Some(helper) => write!(f, "call {}", helper.name()),
                None => write!(f, "call {k}"),
            },
            (LD_IMM64, _) => write!(f, "r{d} = {k:#x} ll"),
            (JMP, _) => write!(f, "goto {offset:+}"),
            (_, 1) => write!(f, "r{d} = {}", memory(s)),
            (_, 2) => write!(f, "{} = {k}", memory(d)),
            (_, 3) => write!(f, "{} = r{s}", memory(d)),
            (_, class @ (ALU32 | ALU64)) => {
                let name = if class == ALU32 { 'w' } else { 'r' };
                let op = OPERATIONS.iter().find(|op| **op as u8 == code & 0xf0);
                let op = op.map_or("?=", |op| op.symbol());
                match code & BY_REGISTER {
                    0 if k.unsigned_abs() > 0xffff => write!(f, "{name}{d} {op} {k:#x}"),
                    0 => write!(f, "{name}{d} {op} {k}"),
                    _ => write!(f, "{name}{d} {op} {name}{s}"),
                }
            }
            (_, class) => {
                let name = if class == JMP32 { 'w' } else { 'r' };
                let when = COMPARISONS.iter().find(|when| **when as u8 == code & 0xf0);
                let when = when.map_or("?", |when| when.symbol());
                match code & BY_REGISTER {
                    0 => write!(f, "if {name}{d} {when} {k} goto {offset:+}"),
                    _ => write!(f, "if {name}{d} {when} {name}{s} goto {offset:+}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_and_texts_are_the_kernels() {
        let (a, b) = (Register(1), Register(2));
        for (instruction, bytes, text) in [
            (
                Instruction::load(Size::Half, a, b, -4),
                [0x69, 0x21, 0xfc, 0xff, 0, 0, 0, 0],
                "r1 = *(u16*)(r2 -4)",
            ),
            (
                Instruction::store(Size::Double, a, 8, b),
                [0x7b, 0x21, 8, 0, 0, 0, 0, 0],
                "*(u64*)(r1 +8) = r2",
            ),
            (Instruction::alu(Width::Low, Alu::Add, a, b), [0x0c, 0x21, 0, 0, 0, 0, 0, 0], "w1 += w2"),
            (
                Instruction::alu_constant(Width::All, Alu::Mov, a, -1),
                [0xb7, 1, 0, 0, 255, 255, 255, 255],
                "r1 = -1",
            ),
            (Instruction::big_endian(a, 32), [0xdc, 1, 0, 0, 32, 0, 0, 0], "r1 = be32 r1"),
            (
                Instruction::jump(Width::All, Jump::Gt, a, b, 3),
                [0x2d, 0x21, 3, 0, 0, 0, 0, 0],
                "if r1 > r2 goto +3",
            ),
            (
                Instruction::jump_constant(Width::Low, Jump::Ne, a, 7, -2),
                [0x56, 1, 0xfe, 0xff, 7, 0, 0, 0],
                "if w1 != 7 goto -2",
            ),
            (Instruction::call(Helper::RedirectMap), [0x85, 0, 0, 0, 51, 0, 0, 0], "call redirect_map"),
            (Instruction::atomic_add(a, 0, b), [0xdb, 0x21, 0, 0, 0, 0, 0, 0], "lock *(u64*)(r1 +0) += r2"),
            (Instruction::exit(), [0x95, 0, 0, 0, 0, 0, 0, 0], "exit"),
        ] {
            if cfg!(target_endian = "little") {
                assert_eq!(instruction.encode().to_ne_bytes(), bytes, "{text}");
            }
            assert_eq!(instruction.to_string(), text);
        }
        assert!(Instruction::go(1).jumps() && !Instruction::exit().jumps());
        assert!(!Instruction::call(Helper::SpinLock).jumps() && !Instruction::big_endian(a, 16).jumps());
    }
}
