//! The gRPC services: each call is [authorised](crate::access), converted to a command or query of the control plane, executed,
//! and its result converted back. No decision is made here.

mod convert;
mod flight_record;
mod jobs;
mod records;
mod switches;
mod tenants;

use crate::api::DESCRIPTOR;
use crate::api::v1::jobs_server::JobsServer;
use crate::api::v1::records_server::RecordsServer;
use crate::api::v1::switches_server::SwitchesServer;
use crate::api::v1::tenants_server::TenantsServer;
use netfold_controller::server::Control;
use tonic::codegen::http::{HeaderValue, Response};
use tonic::service::Routes;

use crate::access::{Access, Authorizer};

/// Longest request, in bytes.
pub const REQUEST_LEN_MAX: usize = 16 << 10;

/// Longest response, in bytes.
const RESPONSE_LEN_MAX: usize = 32 << 20;

/// Header of every response with the controller's release, so that a client of another release can name both where a call does not exist.
pub const VERSION_HEADER: &str = "netfold-version";

/// Most concurrent watchers.
pub const WATCHERS_MAX: usize = 256;

/// All services over a control plane, reflection among them.
pub(crate) fn routes(control: &Control, access: &Access) -> Routes {
    let authorizer = Authorizer::new(access.clone(), control.clone());
    macro_rules! limited {
        ($server:expr) => {
            $server.max_decoding_message_size(REQUEST_LEN_MAX).max_encoding_message_size(RESPONSE_LEN_MAX)
        };
    }
    let jobs = limited!(JobsServer::new(jobs::Jobs::new(control.clone(), authorizer.clone())));
    let tenants = limited!(TenantsServer::new(tenants::Tenants::new(control.clone(), authorizer.clone())));
    let switches =
        limited!(SwitchesServer::new(switches::Switches::new(control.clone(), authorizer.clone())));
    let records = limited!(RecordsServer::new(records::Records::new(control.clone(), authorizer)));
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTOR)
        .build_v1()
        .expect("the descriptor is that of the interface, compiled with it");
    Routes::new(jobs).add_service(tenants).add_service(switches).add_service(records).add_service(reflection)
}

/// Names this release in a response.
pub(crate) fn with_version<B>(mut response: Response<B>) -> Response<B> {
    response.headers_mut().insert(VERSION_HEADER, HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    response
}
