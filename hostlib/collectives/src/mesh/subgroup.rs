//! An exchange over a mesh, so that subgroups of its ranks can have meshes of their own.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::mesh::error::{ExchangeError, MeshError};
use crate::mesh::exchange::Exchange;
use crate::mesh::group::Mesh;

/// An [`Exchange`] among some ranks of a [`Mesh`], or all of them. Ranks that are not in the group need not take part.
#[derive(Debug)]
pub struct MeshExchange<'a> {
    mesh: &'a mut Mesh,
    members: Vec<u16>,
    index: u16,
    timeout: Duration,
}

impl<'a> MeshExchange<'a> {
    /// The group of `members`, ranks of the mesh, which become ranks 0, 1, ... of the exchange in the order given: the same
    /// on every member. Each exchange ends after `timeout`, which then ends the mesh, too.
    ///
    /// # Errors
    ///
    /// [`MeshError::NoSuchRank`] for a member that is not in the mesh or is named twice, and when this rank is no member.
    pub fn new(mesh: &'a mut Mesh, members: &[u16], timeout: Duration) -> Result<Self, MeshError> {
        let world = mesh.world();
        for (at, rank) in members.iter().enumerate() {
            if *rank >= world || members[..at].contains(rank) {
                return Err(MeshError::NoSuchRank { rank: *rank, world });
            }
        }
        let mine = mesh.rank();
        let index = members.iter().position(|rank| *rank == mine);
        let index = index.ok_or(MeshError::NoSuchRank { rank: mine, world: members.len() as u16 })? as u16;
        Ok(Self { mesh, members: members.to_vec(), index, timeout })
    }
}

impl Exchange for MeshExchange<'_> {
    fn rank(&self) -> u16 {
        self.index
    }

    fn world(&self) -> u16 {
        self.members.len() as u16
    }

    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let deadline = Instant::now() + self.timeout;
        self.mesh.gather_among(&self.members, mine, Some(deadline)).map_err(|error| match error {
            MeshError::Exchange(error) => error,
            error => ExchangeError::Mesh(Arc::new(error)),
        })
    }

    fn local_ip(&self) -> Option<IpAddr> {
        Some(self.mesh.local_ip())
    }
}
