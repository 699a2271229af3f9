//! What fuzz targets and simulations call in place of the server. No part of the interface.

use netfold_p4::ir::Program;
use netfold_p4_runtime::google::Code;
use netfold_p4_runtime::ports::{
    AttachRequest, AttachResponse, DescribeRequest, DescribeResponse, DetachRequest, DetachResponse,
    ListRequest, Port,
};
use netfold_p4_runtime::v1;
use netfold_switch::Handle;
use std::sync::Arc;

use crate::config::Engine;
use crate::device::Device;
use crate::fault::Fault;
use crate::ports::Ports;

pub use crate::arbitration::{CLIENTS_MAX, ROLES_MAX};

/// Code and message of what was refused.
pub type Refused = (Code, String);

fn refused(fault: Fault) -> Refused {
    (fault.code, fault.message)
}

fn each(results: Vec<Result<(), Fault>>) -> Vec<Result<(), Refused>> {
    results.into_iter().map(|result| result.map_err(refused)).collect()
}

/// The entities of a Read, and the status of each pattern.
pub type Found = (Vec<v1::Entity>, Vec<Result<(), Refused>>);

/// A device and its ports, as the services call them. Errors are what a client gets.
#[derive(Clone)]
pub struct Control {
    device: Arc<Device>,
    ports: Arc<Ports>,
}

impl Control {
    /// The control of a switch, with the device number 1.
    pub fn new(handle: &Handle, cpu_port: u16) -> Result<Self, Refused> {
        let device = Arc::new(Device::new(1, handle.clone(), Engine::default()).map_err(refused)?);
        Ok(Self { device, ports: Arc::new(Ports::new(handle.clone(), cpu_port).map_err(refused)?) })
    }

    /// Records the program that the switch runs.
    pub fn adopt(&self, program: &Program) -> Result<(), Refused> {
        self.device.adopt(program).map_err(refused)
    }

    /// The state of the arbitration, to be compared.
    pub fn arbitration(&self) -> String {
        format!("{:?}", *self.device.arbiter())
    }

    /// A client's bid; returns the clients that are notified.
    pub fn bid(
        &self,
        client: u64,
        update: &v1::MasterArbitrationUpdate,
    ) -> Result<Vec<(u64, v1::MasterArbitrationUpdate)>, Refused> {
        let _quiet = self.device.quiesce();
        let notices = self.device.arbiter().bid(client, update).map_err(refused)?;
        Ok(notices.into_iter().map(|notice| (notice.client, notice.update)).collect())
    }

    /// A client's end; returns the clients that are notified.
    pub fn leave(&self, client: u64) -> Vec<(u64, v1::MasterArbitrationUpdate)> {
        let notices = self.device.arbiter().leave(client);
        notices.into_iter().map(|notice| (notice.client, notice.update)).collect()
    }

    /// The primaries of all roles.
    pub fn primaries(&self) -> Vec<u64> {
        self.device.arbiter().primaries().collect()
    }

    /// SetForwardingPipelineConfig.
    pub fn set_pipeline(&self, request: v1::SetForwardingPipelineConfigRequest) -> Result<(), Refused> {
        self.device.set_pipeline(request).map_err(refused)
    }

    /// GetForwardingPipelineConfig.
    pub fn pipeline(
        &self,
        request: v1::GetForwardingPipelineConfigRequest,
    ) -> Result<v1::GetForwardingPipelineConfigResponse, Refused> {
        self.device.pipeline(request).map_err(refused)
    }

    /// PacketOut; returns the errors of those that were not sent.
    pub fn packets_out(&self, client: u64, packets: Vec<v1::PacketOut>) -> Result<Vec<Refused>, Refused> {
        let errors = self.device.packets_out(client, packets).map_err(refused)?;
        Ok(errors.into_iter().map(|(fault, _)| refused(fault)).collect())
    }

    /// Write; returns the status of each update.
    pub fn write(&self, request: v1::WriteRequest) -> Result<Vec<Result<(), Refused>>, Refused> {
        self.device.write(request).map(each).map_err(refused)
    }

    /// Read.
    pub fn read(&self, request: &v1::ReadRequest) -> Result<Found, Refused> {
        let found = self.device.read(request).map_err(refused)?;
        let mut entities = found.entities;
        for (id, cells) in &found.registers {
            let (generation, all) = (found.generation, cells.cell.size as usize);
            entities.extend(self.device.registers(generation, *id, cells, 0, all).map_err(refused)?);
        }
        Ok((entities, each(found.results)))
    }

    /// Attach, of the service `Ports`.
    pub fn attach(&self, request: &AttachRequest) -> Result<AttachResponse, Refused> {
        let admitted = self.device.admit(request.device_id, 0, &request.role, request.election_id);
        admitted.and_then(|()| self.ports.attach(request)).map_err(refused)
    }

    /// Detach, of the service `Ports`.
    pub fn detach(&self, request: &DetachRequest) -> Result<DetachResponse, Refused> {
        let admitted = self.device.admit(request.device_id, 0, &request.role, request.election_id);
        admitted.and_then(|()| self.ports.detach(request)).map_err(refused)
    }

    /// List, of the service `Ports`.
    pub fn ports(&self) -> Result<Vec<Port>, Refused> {
        self.ports.list(&ListRequest::default()).map(|response| response.ports).map_err(refused)
    }

    /// Describe, of the service `Ports`.
    pub fn describe(&self) -> Result<DescribeResponse, Refused> {
        self.ports.describe(&DescribeRequest::default()).map_err(refused)
    }
}

#[cfg(feature = "grpc")]
impl Control {
    /// Serves connections that were made by other means than the server's listener, until the switch ends.
    ///
    /// # Errors
    ///
    /// What ended the server.
    pub async fn serve<C>(
        &self,
        handle: &Handle,
        cpu_port: u16,
        incoming: impl tokio_stream::Stream<Item = std::io::Result<C>>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
    where
        C: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        C: tonic::transport::server::Connected<ConnectInfo: Clone + Send + Sync>,
    {
        let packets = Arc::default();
        let from_pipeline =
            crate::packets::open(handle, cpu_port, &packets).map_err(|fault| fault.message)?;
        let service =
            crate::service::Service::new(Arc::clone(&self.device), Arc::clone(&self.ports), packets);
        let transport = crate::server::transport(None)?;
        Ok(crate::server::serve_incoming(transport, incoming, service, from_pipeline).await?)
    }
}
