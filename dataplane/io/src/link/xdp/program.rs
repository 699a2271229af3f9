//! The XDP program that takes our datagrams out of what arrives, and its way onto the interface.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

pub(super) use netfold_bpf::sys::Hook;
use netfold_bpf::sys::{Attach, Link, Map, MapAttributes, MapType, Program, Put};
use netfold_bpf::{Alu, Helper, Instruction, Jump, MapPart, Register as R, Size, Width};

/// The verdict: let the kernel have it.
const XDP_PASS: i32 = 2;

/// A program on an interface. It leaves the interface when this is dropped, or when the process ends in any way, because nothing but the
/// descriptors holds it.
#[derive(Debug)]
pub(super) struct Attachment {
    map: Map,
    /// Sockets of a queue: one for each UDP port.
    ports: u32,
    _program: Program,
    _link: Link,
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
        let map = Map::create(&MapAttributes {
            kind: MapType::XdpSockets,
            name: "netfold",
            key_bytes: 4,
            value_bytes: 4,
            entries: queues.saturating_mul(count),
            inner: None,
            types: None,
        })?;
        let program = instructions(map.as_fd().as_raw_fd(), ip, ports);
        let program =
            Program::load("netfold", Attach::Receive, &program).map_err(|rejected| rejected.error)?;
        let link = Link::attach(&program, index, hook)?;
        Ok(Self { map, ports: count, _program: program, _link: link })
    }

    /// Has what arrives by `queue` for the port of that number go to `socket`, which must be one of that queue's.
    pub(super) fn steer(&self, queue: u32, port: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let key = queue * self.ports + port;
        self.map.write(&key.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes(), Put::Any)
    }
}

/// What a frame must have to be ours but for its port: how it is read, where, its mask, and the value, as the processor sees it.
fn conditions(ip: Ipv4Addr) -> [(Size, i16, Option<i32>, i32); 5] {
    [
        (Size::Half, 12, None, half([0x08, 0x00])),              // IPv4
        (Size::Byte, 14, None, 0x45),                            // version 4, no options
        (Size::Byte, 23, None, 17),                              // UDP
        (Size::Half, 20, Some(half([0x3f, 0xff])), 0),           // no fragment
        (Size::Word, 30, None, i32::from_ne_bytes(ip.octets())), // to our address
    ]
}

/// Two bytes of a frame as the processor sees them.
fn half(bytes: [u8; 2]) -> i32 {
    u16::from_ne_bytes(bytes).into()
}

/// If the frame is a UDP datagram to `ip` and one of `ports`, redirect it to the socket that its queue has for that port, and if there is
/// none, or it is not: pass.
fn instructions(map: i32, ip: Ipv4Addr, ports: &[u16]) -> Vec<Instruction> {
    const HEADERS: i32 = 14 + 20 + 8;
    /// Instructions from where the port is known on, up to those that pass.
    const REDIRECT: usize = 8;
    let conditions = conditions(ip);
    let checks: usize = conditions.iter().map(|(_, _, mask, _)| 2 + usize::from(mask.is_some())).sum();
    let found = 5 + checks + 1 + 2 * ports.len() + 1;
    let pass = found + REDIRECT;
    // From the instruction at `at` to another.
    let jump = |at: usize, to: usize| (to - at - 1) as i16;
    let mov = |to, value| Instruction::alu_constant(Width::All, Alu::Mov, to, value);
    let mut program = vec![
        Instruction::load(Size::Word, R(2), R(1), 0), // r2 = context.data
        Instruction::load(Size::Word, R(3), R(1), 4), // r3 = context.data_end
        Instruction::alu(Width::All, Alu::Mov, R(4), R(2)),
        Instruction::alu_constant(Width::All, Alu::Add, R(4), HEADERS),
        // Headers that are not there: pass.
        Instruction::jump(Width::All, Jump::Gt, R(4), R(3), jump(4, pass)),
    ];
    for (size, offset, mask, value) in conditions {
        program.push(Instruction::load(size, R(5), R(2), offset));
        if let Some(mask) = mask {
            program.push(Instruction::alu_constant(Width::All, Alu::And, R(5), mask));
        }
        let offset = jump(program.len(), pass);
        program.push(Instruction::jump_constant(Width::Low, Jump::Ne, R(5), value, offset));
    }
    program.push(Instruction::load(Size::Half, R(5), R(2), 36)); // r5 = the port it goes to
    for (number, port) in (0..).zip(ports) {
        program.push(mov(R(2), number)); // r2 = its number
        let (offset, port) = (jump(program.len(), found), half(port.to_be_bytes()));
        program.push(Instruction::jump_constant(Width::Low, Jump::Eq, R(5), port, offset));
    }
    program.push(Instruction::go(jump(found - 1, pass)));
    // found:
    program.push(Instruction::load(Size::Word, R(4), R(1), 16)); // r4 = context.rx_queue_index
    program.push(Instruction::alu_constant(Width::All, Alu::Mul, R(4), ports.len() as i32));
    program.push(Instruction::alu(Width::All, Alu::Add, R(2), R(4)));
    program.extend(Instruction::map(R(1), MapPart::Itself, map));
    program.extend([
        mov(R(3), XDP_PASS), // r3 = what happens without a socket
        Instruction::call(Helper::RedirectMap),
        Instruction::exit(),
        mov(R(0), XDP_PASS), // pass:
        Instruction::exit(),
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
            assert_eq!(program[pass], Instruction::alu_constant(Width::All, Alu::Mov, R(0), XDP_PASS));
            assert_eq!(program[found], Instruction::load(Size::Word, R(4), R(1), 16));
            let targets: Vec<usize> = (program.iter().enumerate())
                .filter(|(_, instruction)| instruction.jumps())
                .map(|(at, instruction)| at + 1 + instruction.offset as usize)
                .collect();
            let hits = targets.iter().filter(|to| **to == found).count();
            assert_eq!((hits, targets.len() - hits), (count.into(), 7));
            assert!(targets.iter().all(|to| *to == found || *to == pass));
        }
    }
}
