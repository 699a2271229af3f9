//! `netfold testbed rank`: a process of other commands.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use netfold_io::fault::FaultConfig;
use netfold_lab::rank::{self, RankConfig};

use crate::error::CliError;
use crate::lifetime;

/// A rank of a job under test: computes, reduces and checks until its standard input ends.
#[derive(Debug, Args)]
pub(super) struct Rank {
    #[arg(long)]
    switch: SocketAddr,
    #[arg(long)]
    tenant: Option<String>,
    #[arg(long)]
    job: String,
    #[arg(long)]
    rank: u16,
    #[arg(long)]
    world: u16,
    #[arg(long)]
    slots: u32,
    #[arg(long)]
    bytes: u64,
    #[arg(long)]
    compute_us: u64,
    #[arg(long)]
    begin_unix_ms: u64,
    #[arg(long)]
    rendezvous: Option<SocketAddr>,
    #[arg(long)]
    faults: FaultConfig,
}

impl Rank {
    pub(super) fn run(self) -> Result<(), CliError> {
        lifetime::exit_with_stdin();
        let config = RankConfig {
            switch: self.switch,
            tenant: self.tenant,
            job: self.job,
            rank: self.rank,
            world: self.world,
            slots: self.slots,
            bytes: self.bytes,
            compute: Duration::from_micros(self.compute_us),
            begin_unix_ms: self.begin_unix_ms,
            rendezvous: self.rendezvous,
            faults: self.faults,
        };
        rank::work(&config).map_err(|error| CliError::testbed("the rank", error))
    }
}
