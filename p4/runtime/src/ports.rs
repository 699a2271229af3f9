//! `netfold.switch.v1`, the service `Ports`: the peers at the ports of a switch whose links are UDP.
//!
//! P4Runtime does not define ports: on hardware they exist, and an ARP table says which address is behind each. A software
//! switch over UDP has neither, so this service makes a peer's address a port. It is Netfold's own and is served on the
//! listener of P4Runtime; a client that gets `UNIMPLEMENTED` from it is connected to another kind of switch.
//!
//! Every request is a [`Call`], which names its path and its response, so that a stub over any transport is one function.

pub use crate::proto::netfold::switch::v1::*;

/// Full name of the gRPC service, as used in request paths.
pub const SERVICE: &str = "netfold.switch.v1.Ports";

/// A request of the service.
pub trait Call: prost::Message + Default + Send + Sync + 'static {
    /// The response.
    type Response: prost::Message + Default + Send + Sync + 'static;
    /// Path of the gRPC request.
    const PATH: &'static str;
}

macro_rules! calls {
    ($($request:ident -> $response:ident: $path:literal),+ $(,)?) => {
        $(
            impl Call for $request {
                type Response = $response;
                const PATH: &'static str = concat!("/netfold.switch.v1.Ports/", $path);
            }
        )+
    };
}

calls! {
    AttachRequest -> AttachResponse: "Attach",
    DetachRequest -> DetachResponse: "Detach",
    ListRequest -> ListResponse: "List",
    DescribeRequest -> DescribeResponse: "Describe",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_service() {
        for path in [AttachRequest::PATH, DetachRequest::PATH, ListRequest::PATH, DescribeRequest::PATH] {
            let service = path.strip_prefix('/').and_then(|path| path.rsplit_once('/')).map(|(name, _)| name);
            assert_eq!(service, Some(SERVICE));
        }
    }
}
