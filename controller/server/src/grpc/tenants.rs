//! The service `Tenants`.

use crate::api::v1;
use netfold_controller::command::Command;
use netfold_controller::record::TenantRecord;
use netfold_controller::server::Control;
use netfold_controller::view::SnapshotScope;
use tonic::{Code, Request, Response, Status};

use super::convert;
use crate::access::{Authorizer, Token};
use crate::refusal::{IntoStatus as _, Reason, invalid, not_found, refuse};

pub(super) struct Tenants {
    control: Control,
    authorizer: Authorizer,
}

impl Tenants {
    pub(super) fn new(control: Control, authorizer: Authorizer) -> Self {
        Self { control, authorizer }
    }

    async fn execute(&self, command: Command) -> Result<(), Status> {
        self.control.execute(command).await.map_err(|error| error.into_status())
    }
}

fn named(name: &str) -> Result<&str, Status> {
    if name.is_empty() { Err(invalid("the request names no tenant: set `name`")) } else { Ok(name) }
}

fn new_token() -> Result<Token, Status> {
    Token::generate().map_err(|error| {
        let message = format!("the system has no random numbers for a token: {error}");
        refuse(Code::Unavailable, Reason::NoRandomness, message)
    })
}

#[tonic::async_trait]
impl v1::tenants_server::Tenants for Tenants {
    async fn add(
        &self,
        request: Request<v1::AddTenantRequest>,
    ) -> Result<Response<v1::AddTenantResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.authorizer.admin(&metadata)?;
        named(&request.name)?;
        let token = if request.without_token { None } else { Some(new_token()?) };
        let record = TenantRecord {
            name: request.name,
            quota: convert::quota(request.quota),
            weight: request.weight.max(1),
            priority: priority(request.priority)?,
            token: token.as_ref().map(Token::hash),
        };
        self.execute(Command::AddTenant(record.clone())).await?;
        let token = token.map(Token::reveal).unwrap_or_default();
        Ok(Response::new(v1::AddTenantResponse { tenant: Some(convert::new_tenant(&record)), token }))
    }

    async fn set(&self, request: Request<v1::SetTenantRequest>) -> Result<Response<v1::Tenant>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.authorizer.admin(&metadata)?;
        let name = named(&request.name)?.to_owned();
        let quota = request.quota.map(|quota| convert::quota(Some(quota)));
        let weight = (request.weight > 0).then_some(request.weight);
        let priority = request.priority.map(priority).transpose()?;
        self.execute(Command::SetTenant { name: name.clone(), quota, weight, priority, token: None }).await?;
        let snapshot =
            self.control.snapshot(SnapshotScope::Live).await.map_err(|error| error.into_status())?;
        let tenant = snapshot.tenants.into_iter().find(|tenant| tenant.name == name);
        tenant.map(convert::tenant).map(Response::new).ok_or_else(|| not_found("tenant", name))
    }

    async fn remove(
        &self,
        request: Request<v1::RemoveTenantRequest>,
    ) -> Result<Response<v1::RemoveTenantResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.authorizer.admin(&metadata)?;
        let name = named(&request.name)?.to_owned();
        self.execute(Command::RemoveTenant(name)).await?;
        Ok(Response::new(v1::RemoveTenantResponse {}))
    }

    async fn list(
        &self,
        request: Request<v1::ListTenantsRequest>,
    ) -> Result<Response<v1::ListTenantsResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let visibility = self.authorizer.see(&metadata, request.tenant.as_deref()).await?;
        let snapshot =
            self.control.snapshot(SnapshotScope::Live).await.map_err(|error| error.into_status())?;
        let wanted = |name: &String| {
            visibility.includes(name) && request.tenant.as_ref().is_none_or(|tenant| tenant == name)
        };
        let tenants = snapshot.tenants.into_iter().filter(|tenant| wanted(&tenant.name));
        Ok(Response::new(v1::ListTenantsResponse { tenants: tenants.map(convert::tenant).collect() }))
    }

    async fn rotate_token(
        &self,
        request: Request<v1::RotateTokenRequest>,
    ) -> Result<Response<v1::RotateTokenResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.authorizer.admin(&metadata)?;
        let name = named(&request.name)?.to_owned();
        let token = new_token()?;
        let token_hash = Some(token.hash());
        let set = Command::SetTenant { name, quota: None, weight: None, priority: None, token: token_hash };
        self.execute(set).await?;
        Ok(Response::new(v1::RotateTokenResponse { token: token.reveal() }))
    }
}

fn priority(asked: u32) -> Result<u8, Status> {
    let outside = || Status::invalid_argument(format!("priority {asked} is outside 0 to 255"));
    u8::try_from(asked).map_err(|_| outside())
}
