//! The service `Switches`.

use crate::api::v1;
use netfold_controller::command::Command;
use netfold_controller::server::Control;
use netfold_controller::view::{LinkView, SnapshotScope};
use tonic::{Request, Response, Status};

use super::convert;
use crate::access::{Authorizer, Visibility};
use crate::refusal::{IntoStatus as _, not_found};

pub(super) struct Switches {
    control: Control,
    authorizer: Authorizer,
}

impl Switches {
    pub(super) fn new(control: Control, authorizer: Authorizer) -> Self {
        Self { control, authorizer }
    }

    async fn described(&self, name: String, visibility: &Visibility) -> Result<v1::Switch, Status> {
        let snapshot =
            self.control.snapshot(SnapshotScope::Live).await.map_err(|error| error.into_status())?;
        let switch = snapshot.switches.into_iter().find(|switch| switch.name == name);
        switch.map(|switch| convert::switch(switch, visibility)).ok_or_else(|| not_found("switch", name))
    }
}

#[tonic::async_trait]
impl v1::switches_server::Switches for Switches {
    async fn list(
        &self,
        request: Request<v1::ListSwitchesRequest>,
    ) -> Result<Response<v1::ListSwitchesResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let visibility = self.authorizer.see(&metadata, request.tenant.as_deref()).await?;
        let snapshot =
            self.control.snapshot(SnapshotScope::Live).await.map_err(|error| error.into_status())?;
        Ok(Response::new(v1::ListSwitchesResponse {
            switches: snapshot
                .switches
                .into_iter()
                .map(|switch| convert::switch(switch, &visibility))
                .collect(),
            links: snapshot.links.into_iter().map(|link| convert::link(link, &visibility)).collect(),
            access: convert::access(snapshot.access, &visibility),
        }))
    }

    async fn describe(
        &self,
        request: Request<v1::DescribeSwitchRequest>,
    ) -> Result<Response<v1::Switch>, Status> {
        let (metadata, _, request) = request.into_parts();
        let visibility = self.authorizer.see(&metadata, request.tenant.as_deref()).await?;
        self.described(request.name, &visibility).await.map(Response::new)
    }

    async fn drain(&self, request: Request<v1::DrainSwitchRequest>) -> Result<Response<v1::Switch>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.authorizer.admin(&metadata)?;
        let v1::DrainSwitchRequest { name, drained, evict } = request;
        let command = Command::Drain { switch: name.clone(), drained, evict };
        self.control.execute(command).await.map_err(|error| error.into_status())?;
        self.described(name, &Visibility::Everything).await.map(Response::new)
    }

    async fn drain_link(
        &self,
        request: Request<v1::DrainLinkRequest>,
    ) -> Result<Response<v1::DrainLinkResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.authorizer.admin(&metadata)?;
        let v1::DrainLinkRequest { a, b, drained, evict } = request;
        let command = Command::DrainLink { a: a.clone(), b: b.clone(), drained, evict };
        self.control.execute(command).await.map_err(|error| error.into_status())?;
        let snapshot =
            self.control.snapshot(SnapshotScope::Live).await.map_err(|error| error.into_status())?;
        let named = |link: &LinkView| [(&link.a, &link.b), (&link.b, &link.a)].contains(&(&a, &b));
        let links = snapshot.links.into_iter().filter(named);
        let links = links.map(|link| convert::link(link, &Visibility::Everything)).collect();
        Ok(Response::new(v1::DrainLinkResponse { links }))
    }
}
