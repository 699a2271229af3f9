//! BPF: instructions as data ([`Instruction`]), and on Linux the system call `bpf` as safe functions: maps, programs, links, test runs, and files
//! that keep them (`sys`), and the type information that maps with a lock need ([`btf`]).
//!
//! Sources: bpf(2), linux/bpf.h for the calls' arguments, and the kernel's Documentation/bpf/standardization/instruction-set.rst for the
//! instructions.

pub mod btf;
mod instruction;
#[cfg(target_os = "linux")]
pub mod sys;

pub use instruction::{Alu, Helper, Instruction, Jump, MapPart, Register, Size, Width};
