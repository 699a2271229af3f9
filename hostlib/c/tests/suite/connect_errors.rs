//! The rows of docs/connection-errors.md of C programs, and of MPI programs.

use std::process::Command;
use std::time::{Duration, Instant};

use netfold_connect_errors::{Answer, Client, Ports, Row, Target};
use netfold_testkit::captured::CapturedProcess;

use crate::c;
use crate::install::{compile, pkg_config, prefix};
use crate::mpi::{self, Job};

/// Of a program that must end within seconds.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn c_programs() {
    if !c::tools("the messages of C programs") {
        return;
    }
    let mut flags = pkg_config(&["--cflags", "--libs"]);
    flags.extend(["-std=c11", "-pedantic"].map(str::to_owned));
    let program = compile("gcc", "hostlib/c/tests/suite/connect_error.c", "connect_error", &flags);
    let ports = Ports::start();
    let row = Row::of(Client::C, |mistake| {
        let target = ports.worker(mistake);
        let Target { address, ca, tenant, token, rendezvous } = &target;
        let (ca, rendezvous) = (ca.as_deref().unwrap_or_default(), rendezvous.as_deref().unwrap_or_default());
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", prefix().join("lib"));
        command.args([address.as_str(), tenant.as_str(), token.as_str(), ca, rendezvous]);
        let start = Instant::now();
        let message = CapturedProcess::start(&mut command, LIMIT).finish().success();
        let took = start.elapsed();
        (target, Answer { message, took })
    });
    row.check();
}

/// The shim leaves the calls to MPI and says why; the first call takes as long as that.
#[test]
fn mpi_programs() {
    if !mpi::tools("the messages of MPI programs") {
        return;
    }
    let program = compile("mpicc", "hostlib/mpi/tests/osu_allreduce.c", "osu_allreduce_errors", &[]);
    let ports = Ports::start();
    let row = Row::of(Client::Mpi, |mistake| {
        let target = ports.worker(mistake);
        let mut settings = vec![
            ("NETFOLD_CONTROLLER", target.address.as_str()),
            ("NETFOLD_TENANT", target.tenant.as_str()),
            ("NETFOLD_TOKEN", target.token.as_str()),
            ("NETFOLD_SHARED_MEMORY", "0"),
        ];
        if let Some(ca) = &target.ca {
            settings.push(("NETFOLD_CA", ca));
        }
        // One call of 4 KiB, the smallest that the shim takes.
        let job = ["-m", "4096", "-i", "1", "-x", "0"].iter();
        let job = job.fold(Job::new(&program).ranks(2), |job, argument| job.argument(argument));
        let output = job.shim(&settings).run();
        let message = output.lines().find(|line| line.contains("are left to MPI: "));
        let message = message.unwrap_or_else(|| panic!("{mistake:?}: {output}")).to_owned();
        // Size, and the average, least and greatest time of the ranks in microseconds.
        let last = output.lines().find(|line| line.starts_with("4096 "));
        let greatest = last.and_then(|line| line.split_whitespace().last()?.parse::<f64>().ok());
        let greatest = greatest.unwrap_or_else(|| panic!("{mistake:?}: {output}"));
        (target, Answer { message, took: Duration::from_secs_f64(greatest / 1e6) })
    });
    row.check();
}
