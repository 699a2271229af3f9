//! The other ends of virtual interfaces.

use netfold_bpf::sys::{Attach, Hook, Link, Program};
use netfold_bpf::{Alu, Instruction, Register, Width};
use netfold_p4::xdp::verdict;

use crate::XdpError;
use crate::datapath::attach;

/// A program on an interface that leaves every frame to the network stack, until this is dropped.
///
/// A virtual interface (veth) takes frames that are redirected to it only if its other end has a program, and drops them silently otherwise: put this on
/// the other end.
#[derive(Debug)]
pub struct PassAll(#[expect(dead_code, reason = "keeps the program on the interface")] Link);

impl PassAll {
    /// Puts the program on an interface of this network namespace.
    ///
    /// # Errors
    ///
    /// [`XdpError::Rejected`] where programs are not permitted, [`XdpError::Attach`].
    pub fn attach(interface: u32) -> Result<Self, XdpError> {
        let code = [
            Instruction::alu_constant(Width::All, Alu::Mov, Register(0), verdict::PASS),
            Instruction::exit(),
        ];
        let program =
            Program::load("netfold_pass", Attach::Receive, &code).map_err(|rejected| XdpError::Rejected {
                block: "passing",
                element: "its start".into(),
                instruction: rejected.instruction,
                log: rejected.log,
                source: rejected.error,
            })?;
        attach(&program, interface, Hook::Driver).map(Self)
    }
}
