//! The XDP program that takes our datagrams out of what arrives, and its way onto the interface.
//!
//! Sources: bpf(2), linux/bpf.h for the calls' arguments, and the kernel's Documentation/bpf/standardization/instruction-set.rst for the
//! instructions.
#![expect(unsafe_code, reason = "bpf exists only as a system call with pointers in its arguments")]

use std::io;
use std::mem::size_of;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// Where the kernel runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// In the driver, before there is a packet buffer: `XDP_FLAGS_DRV_MODE`.
    Driver = 1 << 2,
    /// Behind every driver, on packet buffers: `XDP_FLAGS_SKB_MODE`.
    Generic = 1 << 1,
}

/// A program on an interface. It leaves the interface when this is dropped, or when the process ends in any way, because nothing but the
/// descriptors holds it.
#[derive(Debug)]
pub(super) struct Attachment {
    map: OwnedFd,
    /// Sockets of a queue: one for each UDP port.
    ports: u32,
    _program: OwnedFd,
    _link: OwnedFd,
}

impl Attachment {
    /// Puts the program for datagrams to `ip` and one of `ports` onto an interface. Queue i may have a socket for each port, for i below
    /// `queues`.
    pub(super) fn new(
        index: u32,
        hook: Hook,
        queues: u32,
        (ip, ports): (Ipv4Addr, &[u16]),
    ) -> io::Result<Self> {
        let count = ports.len() as u32;
        let map = bpf(MAP_CREATE, &[MAP_TYPE_XSKMAP, 4, 4, queues.saturating_mul(count), 0])?;
        let program = load(&instructions(map.as_raw_fd(), ip, ports))?;
        let link = bpf(LINK_CREATE, &[program.as_raw_fd() as u32, index, ATTACH_XDP, hook as u32])?;
        Ok(Self { map, ports: count, _program: program, _link: link })
    }

    /// Has what arrives by `queue` for the port of that number go to `socket`, which must be one of that queue's.
    pub(super) fn steer(&self, queue: u32, port: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        #[repr(C)]
        struct Update {
            map: u32,
            pad: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let (key, value) = (queue * self.ports + port, socket.as_raw_fd());
        let update = Update {
            map: self.map.as_raw_fd() as u32,
            pad: 0,
            key: ptr::from_ref(&key) as u64,
            value: ptr::from_ref(&value) as u64,
            flags: 0,
        };
        call(MAP_UPDATE_ELEM, &update).map(drop)
    }
}

/// Loads a program.
fn load(instructions: &[u64]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        attach: u32,
    }
    let attributes = Load {
        kind: PROG_TYPE_XDP,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        version: 0,
        flags: 0,
        name: *b"netfold\0\0\0\0\0\0\0\0\0",
        interface: 0,
        attach: ATTACH_XDP,
    };
    let fd = call(PROG_LOAD, &attributes)?;
    // SAFETY: the call above returned this descriptor just now, so there is no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A call that returns a descriptor, with arguments that are words.
fn bpf<const N: usize>(command: libc::c_long, words: &[u32; N]) -> io::Result<OwnedFd> {
    let fd = call(command, words)?;
    // SAFETY: the call above returned this descriptor just now, so there is no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Any call of `bpf`. `T` begins like the member of `union bpf_attr` that the command reads.
fn call<T>(command: libc::c_long, attributes: &T) -> io::Result<i32> {
    // SAFETY: pointer and length describe `attributes`. The commands used here read it, and what its addresses point to: slices and
    // values of the callers, which live through the call.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attributes), size_of::<T>()) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as i32) }
}

// Classes, sizes and operations of instructions.
const LDX: u8 = 0x61;
const LDXH: u8 = 0x69;
const LDXB: u8 = 0x71;
const MOV: u8 = 0xbf;
const MOV_K: u8 = 0xb7;
const ADD: u8 = 0x0f;
const ADD_K: u8 = 0x07;
const AND_K: u8 = 0x57;
const MUL_K: u8 = 0x27;
const JGT: u8 = 0x2d;
/// Jump if 32-bit halves differ.
const JNE32_K: u8 = 0x56;
/// Jump if 32-bit halves are the same.
const JEQ32_K: u8 = 0x16;
const JA: u8 = 0x05;
const LD_IMM64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The source "register" of [`LD_IMM64`] that says: the descriptor of a map.
const PSEUDO_MAP_FD: u8 = 1;
/// The helper `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
/// The verdict: let the kernel have it.
const XDP_PASS: i32 = 2;

/// One instruction as the kernel reads it: code (1 byte), destination and source (4 bits each), offset (2), operand (4).
const fn instruction(code: u8, destination: u8, source: u8, offset: i16, operand: i32) -> u64 {
    let registers =
        if cfg!(target_endian = "little") { destination | source << 4 } else { destination << 4 | source };
    let (o, k) = (offset.to_ne_bytes(), operand.to_ne_bytes());
    u64::from_ne_bytes([code, registers, o[0], o[1], k[0], k[1], k[2], k[3]])
}

/// What a frame must have to be ours but for its port: how it is read, where, its mask, and the value, as the processor sees it.
fn conditions(ip: Ipv4Addr) -> [(u8, i16, Option<i32>, i32); 5] {
    [
        (LDXH, 12, None, half([0x08, 0x00])),             // IPv4
        (LDXB, 14, None, 0x45),                           // version 4, no options
        (LDXB, 23, None, 17),                             // UDP
        (LDXH, 20, Some(half([0x3f, 0xff])), 0),          // no fragment
        (LDX, 30, None, i32::from_ne_bytes(ip.octets())), // to our address
    ]
}

/// Two bytes of a frame as the processor sees them.
fn half(bytes: [u8; 2]) -> i32 {
    u16::from_ne_bytes(bytes).into()
}

/// If the frame is a UDP datagram to `ip` and one of `ports`, redirect it to the socket that its queue has for that port, and if there is
/// none, or it is not: pass.
fn instructions(map: i32, ip: Ipv4Addr, ports: &[u16]) -> Vec<u64> {
    const HEADERS: i32 = 14 + 20 + 8;
    /// Instructions from where the port is known on, up to those that pass.
    const REDIRECT: usize = 8;
    let conditions = conditions(ip);
    let checks: usize = conditions.iter().map(|(_, _, mask, _)| 2 + usize::from(mask.is_some())).sum();
    let found = 5 + checks + 1 + 2 * ports.len() + 1;
    let pass = found + REDIRECT;
    // From the instruction at `at` to another.
    let jump = |at: usize, to: usize| (to - at - 1) as i16;
    let mut program = vec![
        instruction(LDX, 2, 1, 0, 0),             // r2 = context.data
        instruction(LDX, 3, 1, 4, 0),             // r3 = context.data_end
        instruction(MOV, 4, 2, 0, 0),             // r4 = r2
        instruction(ADD_K, 4, 0, 0, HEADERS),     // r4 += 42
        instruction(JGT, 4, 3, jump(4, pass), 0), // headers that are not there: pass
    ];
    for (load, offset, mask, value) in conditions {
        program.push(instruction(load, 5, 2, offset, 0));
        if let Some(mask) = mask {
            program.push(instruction(AND_K, 5, 0, 0, mask));
        }
        program.push(instruction(JNE32_K, 5, 0, jump(program.len(), pass), value));
    }
    program.push(instruction(LDXH, 5, 2, 36, 0)); // r5 = the port it goes to
    for (number, port) in (0..).zip(ports) {
        program.push(instruction(MOV_K, 2, 0, 0, number)); // r2 = its number
        program.push(instruction(JEQ32_K, 5, 0, jump(program.len(), found), half(port.to_be_bytes())));
    }
    program.extend([
        instruction(JA, 0, 0, jump(found - 1, pass), 0),
        // found:
        instruction(LDX, 4, 1, 16, 0), // r4 = context.rx_queue_index
        instruction(MUL_K, 4, 0, 0, ports.len() as i32), // r4 *= how many ports there are
        instruction(ADD, 2, 4, 0, 0),  // r2 += r4
        instruction(LD_IMM64, 1, PSEUDO_MAP_FD, 0, map),
        0,
        instruction(MOV_K, 3, 0, 0, XDP_PASS), // r3 = what happens without a socket
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
        instruction(MOV_K, 0, 0, 0, XDP_PASS), // pass:
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_has_its_target() {
        for count in [1, 2, 64] {
            let ports: Vec<u16> = (20_038..20_038 + count).collect();
            let program = instructions(9, Ipv4Addr::new(10, 0, 0, 200), &ports);
            let pass = program.len() - 2;
            let found = pass - 8;
            assert_eq!(program[pass], instruction(MOV_K, 0, 0, 0, XDP_PASS));
            assert_eq!(program[found], instruction(LDX, 4, 1, 16, 0));
            let (mut hits, mut ways_out) = (0, 0);
            for (at, word) in program.iter().enumerate() {
                let bytes = word.to_ne_bytes();
                let to = at + 1 + i16::from_ne_bytes([bytes[2], bytes[3]]) as usize;
                match bytes[0] {
                    JGT | JNE32_K | JA => {
                        assert_eq!(to, pass, "instruction {at}");
                        ways_out += 1;
                    }
                    JEQ32_K => {
                        assert_eq!(to, found, "instruction {at}");
                        hits += 1;
                    }
                    _ => {}
                }
            }
            assert_eq!((hits, ways_out), (count, 7));
        }
    }
}
