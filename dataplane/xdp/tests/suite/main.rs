//! Programs in the kernel: what it accepts, and what is refused with the element of the program.

mod interfaces;
mod state;

use std::sync::Arc;

use netfold_p4::allreduce;
use netfold_p4::ir::Program;
use netfold_p4::profile::{self, Profile};
use netfold_xdp::{Datapath, XdpError};

/// A program in the kernel; `None`, with a line that says so, where the kernel does not permit it.
pub(crate) fn datapath(program: &Arc<Program>) -> Option<Datapath> {
    match Datapath::new(Arc::clone(program)) {
        Ok(datapath) => Some(datapath),
        Err(XdpError::Map { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("skipped: bpf(2) is not permitted");
            None
        }
        Err(error) => panic!("{}: {error}: {error:?}", program.name),
    }
}

pub(crate) fn program(profile: &Profile) -> Arc<Program> {
    Arc::new(allreduce::program(profile).expect("the profile is in range"))
}

#[test]
fn the_kernel_accepts_every_profile_that_is_not_refused() {
    for named in profile::named() {
        let program = program(&named.profile);
        if let Err(refused) = netfold_p4::xdp::lower(&program) {
            println!("{}: {refused}", named.name);
            continue;
        }
        let start = std::time::Instant::now();
        let Some(datapath) = datapath(&program) else { return };
        println!("{}: {:?} instructions, {:?}", named.name, datapath.instructions(), start.elapsed());
    }
}
