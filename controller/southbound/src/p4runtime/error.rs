//! What can go wrong between a controller and a switch.

use std::fmt;
use std::time::Duration;

use netfold_p4_runtime::SchemaError;
use netfold_p4_runtime::google::Code;

use super::tls::TlsError;

/// A call of P4Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rpc {
    /// Opening the connection.
    Connect,
    /// StreamChannel: arbitration.
    Stream,
    /// SetForwardingPipelineConfig.
    SetPipeline,
    /// GetForwardingPipelineConfig.
    GetPipeline,
    /// Write.
    Write,
    /// Read.
    Read,
    /// Capabilities.
    Capabilities,
    /// A request of the service `netfold.switch.v1.Ports`.
    Ports,
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Stream => "StreamChannel",
            Self::SetPipeline => "SetForwardingPipelineConfig",
            Self::GetPipeline => "GetForwardingPipelineConfig",
            Self::Write => "Write",
            Self::Read => "Read",
            Self::Capabilities => "Capabilities",
            Self::Ports => "netfold.switch.v1.Ports",
        })
    }
}

/// One update of a Write that the switch refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateFailure {
    /// Position in the list of updates, from 0.
    pub index: usize,
    /// What it was, as in `INSERT into table IngressImpl.job`.
    pub what: String,
    /// Why it was refused.
    pub code: Code,
    /// The switch's own words.
    pub message: String,
}

impl fmt::Display for UpdateFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = match self.code {
            Code::AlreadyExists => "such an entry exists",
            Code::NotFound => "no such entry",
            Code::ResourceExhausted => "no room for it",
            Code::OutOfRange => "a value does not fit its field",
            Code::Unimplemented => "the switch does not offer that",
            _ => "refused",
        };
        write!(f, "{}: {hint} ({})", self.what, self.code.as_str_name())?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

/// A call to a switch that did not do what it should. Every variant names the switch as [`super::ClientConfig`] does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum P4RuntimeError {
    /// The address is neither `host:port` nor `unix:path`.
    #[error("{address} is not the address of a switch: write host:port or unix:path")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        #[source]
        source: tonic::transport::Error,
    },
    /// No thread or event loop could be had.
    #[error("cannot start a thread for switch {switch}")]
    Thread {
        /// The switch.
        switch: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// No server answers at the address.
    #[error(
        "switch {switch} at {address} does not answer within {within:?}: check that it runs and listens there"
    )]
    Connect {
        /// The switch.
        switch: String,
        /// Where it should be.
        address: String,
        /// How long it was tried.
        within: Duration,
        /// The last attempt.
        #[source]
        source: Option<tonic::transport::Error>,
    },
    /// The connection is not secured as the configuration asks for.
    #[error("TLS with switch {switch} at {address} fails")]
    Tls {
        /// The switch.
        switch: String,
        /// Where it is.
        address: String,
        /// Why, and what to do.
        #[source]
        source: Box<TlsError>,
    },
    /// The switch cannot be used at the moment; it is tried again in the background.
    #[error("switch {switch} is down: {reason}")]
    Down {
        /// The switch.
        switch: String,
        /// Why, for people.
        reason: String,
    },
    /// A call took too long. Whether the switch has done it is not known.
    #[error("switch {switch} has not answered {rpc} within {within:?}: check that it is not stuck")]
    Timeout {
        /// The switch.
        switch: String,
        /// The call.
        rpc: Rpc,
        /// How long it was waited for.
        within: Duration,
    },
    /// The connection broke. Whether the switch has done the call is not known.
    #[error("the connection to switch {switch} broke during {rpc}: check that it runs: {message}")]
    Broken {
        /// The switch.
        switch: String,
        /// The call.
        rpc: Rpc,
        /// The transport's message.
        message: String,
    },
    /// Another controller is in charge.
    #[error(
        "another controller is in charge of switch {switch}, with election id {highest:#x}; ours is {ours:#x}: \
         stop it, or use a greater one"
    )]
    NotPrimary {
        /// The switch.
        switch: String,
        /// Our election id.
        ours: u128,
        /// The highest that the switch has received; 0 when it does not report one.
        highest: u128,
    },
    /// The switch cannot run the pipeline. What it ran before, it may have lost.
    #[error("switch {switch} refuses the pipeline: {message} ({}){}", code.as_str_name(), device_hint(message))]
    Pipeline {
        /// The switch.
        switch: String,
        /// Its status.
        code: Code,
        /// Its words.
        message: String,
    },
    /// The device configuration is empty; some switches take that for a request to run nothing.
    #[error("the device configuration for switch {switch} is empty: give it what the compiler wrote")]
    EmptyPipeline {
        /// The switch.
        switch: String,
    },
    /// The device configuration is not what bmv2 runs, or not of this program. The switch was not asked: one wrong
    /// configuration makes bmv2 refuse all that come after it.
    #[error(
        "the device configuration for switch {switch} is not the JSON of this program: {what}; compile it again"
    )]
    DeviceConfig {
        /// The switch.
        switch: String,
        /// What is wrong.
        what: String,
    },
    /// The switch has no pipeline: it was restarted, or never given one.
    #[error("switch {switch} has no pipeline for {rpc}: it may have been restarted; push the pipeline again")]
    NoPipeline {
        /// The switch.
        switch: String,
        /// The call.
        rpc: Rpc,
    },
    /// Some updates of a Write failed; the others were done.
    #[error("switch {switch} refuses {} of {updates} updates, the first: {}", failed.len(), First(failed))]
    Write {
        /// The switch.
        switch: String,
        /// Updates in the Write.
        updates: usize,
        /// Those that failed, in order; not empty.
        failed: Vec<UpdateFailure>,
    },
    /// The switch refused a call as a whole; nothing was done.
    #[error("switch {switch} refuses {rpc}: {message} ({})", code.as_str_name())]
    Refused {
        /// The switch.
        switch: String,
        /// The call.
        rpc: Rpc,
        /// Its status.
        code: Code,
        /// Its words.
        message: String,
    },
    /// The switch answered something that P4Runtime does not allow.
    #[error("switch {switch} answers {rpc} with {what}: it does not follow P4Runtime 1.4")]
    Malformed {
        /// The switch.
        switch: String,
        /// The call.
        rpc: Rpc,
        /// What it answered.
        what: &'static str,
    },
    /// An entry or a P4Info that makes no sense.
    #[error("switch {switch}: what is asked does not fit the pipeline")]
    Schema {
        /// The switch.
        switch: String,
        /// What does not fit.
        #[source]
        source: SchemaError,
    },
    /// The program's description cannot be read back.
    #[error("the program's P4Info is broken: this is a defect of its printer")]
    P4Info(#[source] prost::DecodeError),
    /// A limit of the configuration.
    #[error("switch {switch}: {what}")]
    Config {
        /// The switch.
        switch: String,
        /// What is wrong and what to do.
        what: String,
    },
}

impl P4RuntimeError {
    /// Whether it is unknown if the switch has done what was asked.
    pub const fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Broken { .. } | Self::Tls { .. } | Self::Malformed { .. })
    }
}

/// The first failure of a list that has one.
struct First<'a>(&'a [UpdateFailure]);

impl fmt::Display for First<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.first() {
            Some(failure) => failure.fmt(f),
            None => Ok(()),
        }
    }
}

/// What to do about bmv2's words for a device number that is not its own, which do not name it.
fn device_hint(message: &str) -> &'static str {
    match message.contains("assign device") {
        true => "; start bmv2 with --device-id as the topology's device_id, which is 1 unless given",
        false => "",
    }
}
