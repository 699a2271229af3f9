//! `netfold.switch.v1`, the service `Ports`: who is at which port of a switch whose links are UDP.
//!
//! P4Runtime leaves ports to others: on hardware they are there, and a neighbour table says who is behind each. A software
//! switch over UDP has neither, so this service makes a peer's address a port. It stands beside P4Runtime on the same
//! listener and is ours; a client that gets `UNIMPLEMENTED` from it talks to another kind of switch.
//!
//! Every request is a [`Call`], which names its path and its answer, so that a stub over any transport is one function.

/// Full name of the gRPC service, as it stands in request paths.
pub const SERVICE: &str = "netfold.switch.v1.Ports";

/// A request of the service.
pub trait Call: prost::Message + Default + Send + Sync + 'static {
    /// What is answered.
    type Answer: prost::Message + Default + Send + Sync + 'static;
    /// Path of the gRPC request.
    const PATH: &'static str;
}

/// Makes a peer a port: the lowest free number from 1 on, or the one that it has already.
///
/// Refused with `INVALID_ARGUMENT` (no address, or one that the data path cannot send to), `RESOURCE_EXHAUSTED` (no
/// number is free) and `UNIMPLEMENTED` (the switch's links are not UDP).
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct AttachRequest {
    /// The peer's address and UDP port, as in `10.0.0.1:20038` or `[fd00::1]:20038`.
    #[prost(string, tag = "1")]
    pub peer: String,
}

/// Answer to an [`AttachRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct AttachResponse {
    /// The peer's port.
    #[prost(uint32, tag = "1")]
    pub port: u32,
}

/// Takes a peer's port away; done as well when it has none. Entries and groups that name the port stay.
///
/// Refused with `INVALID_ARGUMENT` (no address) and `PERMISSION_DENIED` (a port that the switch was started with).
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct DetachRequest {
    /// The peer's address, as in [`AttachRequest::peer`].
    #[prost(string, tag = "1")]
    pub peer: String,
}

/// Answer to a [`DetachRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct DetachResponse {}

/// Asks for all ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct ListRequest {}

/// All ports, by number.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ListResponse {
    /// The ports that have a peer.
    #[prost(message, repeated, tag = "1")]
    pub ports: Vec<Port>,
}

/// A port and who is there.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Port {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub port: u32,
    /// The peer's address.
    #[prost(string, tag = "2")]
    pub peer: String,
    /// Whether the switch was started with it, so that it cannot be detached.
    #[prost(bool, tag = "3")]
    pub fixed: bool,
}

/// Asks for what a controller must know of the switch beside its pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct DescribeRequest {}

/// What a controller must know of the switch beside its pipeline.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct DescribeResponse {
    /// Address and UDP port at which peers send, as the switch knows it: the unspecified address where it listens on all.
    /// Empty when its links are not UDP.
    #[prost(string, tag = "1")]
    pub data_address: String,
    /// 32-bit lanes of the longest packet that the data path takes, whatever pipeline runs.
    #[prost(uint32, tag = "2")]
    pub lane_words_max: u32,
    /// The highest number that a port can have.
    #[prost(uint32, tag = "3")]
    pub ports_max: u32,
    /// Port of the packets to and from the controller, which no peer gets.
    #[prost(uint32, tag = "4")]
    pub cpu_port: u32,
    /// A text that is another after each start of the switch: what was written before is gone then.
    #[prost(string, tag = "5")]
    pub boot_id: String,
}

macro_rules! calls {
    ($($request:ident -> $answer:ident: $path:literal),+ $(,)?) => {
        $(
            impl Call for $request {
                type Answer = $answer;
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
