//! The connection to a controller.

use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use netfold_server::VERSION_HEADER;
use netfold_server::api::v1::jobs_client::JobsClient;
use netfold_server::api::v1::records_client::RecordsClient;
use netfold_server::api::v1::switches_client::SwitchesClient;
use netfold_server::api::v1::tenants_client::TenantsClient;
use tokio::runtime::{Builder, Runtime};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt as _;

use super::diagnosis::{SILENT, diagnose, innermost, is_silent, missing_call};
use crate::error::CliError;

/// Timeouts of the connection and of a call.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
pub(in crate::command) const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Timeout of the connection with its TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(2000);

/// After this, a call that is not answered is a reason to ask whether the port answers at all.
const PROBE_AFTER: Duration = Duration::from_millis(1000);

/// Longest accepted response, in bytes.
const RESPONSE_LEN_MAX: usize = 32 << 20;

/// The controller's address, and the caller's credentials.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Controller")]
pub(in crate::command) struct ControllerOptions {
    /// Address of the controller's gRPC, as `netfold controller` prints it.
    #[arg(long, value_name = "ADDR", env = "NETFOLD_API", default_value = "127.0.0.1:20042")]
    pub(in crate::command) controller: String,
    /// Token of an administrator, a reader or the tenant.
    #[arg(long, value_name = "TOKEN", env = "NETFOLD_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The default tenant, whose token is sent.
    #[arg(long, value_name = "NAME", env = "NETFOLD_TENANT")]
    pub(in crate::command) tenant: Option<String>,
    /// Authority of the controller's certificate (PEM): use TLS.
    #[arg(long, value_name = "FILE", env = "NETFOLD_CA")]
    ca: Option<PathBuf>,
    /// This client's certificate (PEM), for controllers that require one.
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["ca", "cert"])]
    key: Option<PathBuf>,
}

/// Adds the token to every call.
#[derive(Clone)]
pub(in crate::command) struct Credentials(Option<MetadataValue<Ascii>>);

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

type Authorised = InterceptedService<Channel, Credentials>;

/// A connection and its runtime.
pub(in crate::command) struct Client {
    /// HOST:PORT, and whether the connection uses TLS: for error messages.
    address: String,
    tls: bool,
    runtime: Runtime,
    channel: Channel,
    credentials: Credentials,
}

impl ControllerOptions {
    /// Connects.
    pub(in crate::command) fn connect(&self) -> Result<Client, CliError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| CliError::Spawn { name: "the client's runtime".into(), source })?;
        let credentials = Credentials(self.token.as_deref().map(bearer).transpose()?);
        let endpoint = self.endpoint()?;
        let (address, tls) = (self.address().to_owned(), self.ca.is_some());
        let connecting = async { tokio::time::timeout(HANDSHAKE_TIMEOUT, endpoint.connect()).await };
        let channel = match runtime.block_on(connecting) {
            Ok(connected) => connected.map_err(|error| no_controller(&address, tls, &error))?,
            Err(_) => return Err(silent(&address)),
        };
        Ok(Client { address, tls, runtime, channel, credentials })
    }

    /// HOST:PORT.
    fn address(&self) -> &str {
        self.controller.trim_start_matches("http://").trim_start_matches("https://")
    }

    fn endpoint(&self) -> Result<Endpoint, CliError> {
        let address = self.address();
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        let wrong = |_| CliError::Usage(format!("'{}' is not an address: write HOST:PORT", self.controller));
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(wrong)?;
        let endpoint =
            endpoint.connect_timeout(CONNECT_TIMEOUT).http2_keep_alive_interval(Duration::from_secs(20));
        let Some(authority) = &self.ca else { return Ok(endpoint) };
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(authority)?));
        if let (Some(certificate), Some(key)) = (&self.cert, &self.key) {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        endpoint.tls_config(tls).map_err(|error| {
            let reason = format!("its certificates cannot be used: {}", innermost(&error));
            CliError::Usage(format!("--ca, --cert or --key: {reason}"))
        })
    }
}

fn silent(address: &str) -> CliError {
    CliError::NoController { address: address.to_owned(), reason: SILENT.into() }
}

fn no_controller(address: &str, tls: bool, error: &(dyn Error + 'static)) -> CliError {
    CliError::NoController { address: address.to_owned(), reason: diagnose(address, tls, error) }
}

fn bearer(token: &str) -> Result<MetadataValue<Ascii>, CliError> {
    let mut value: MetadataValue<Ascii> = format!("Bearer {}", token.trim())
        .parse()
        .map_err(|_| CliError::Usage("a token is one line of visible ASCII characters".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|source| CliError::Read { path: path.to_owned(), source })
}

impl Client {
    pub(in crate::command) fn jobs(&self) -> JobsClient<Authorised> {
        JobsClient::with_interceptor(self.channel.clone(), self.credentials.clone())
            .max_decoding_message_size(RESPONSE_LEN_MAX)
    }

    pub(in crate::command) fn tenants(&self) -> TenantsClient<Authorised> {
        TenantsClient::with_interceptor(self.channel.clone(), self.credentials.clone())
            .max_decoding_message_size(RESPONSE_LEN_MAX)
    }

    pub(in crate::command) fn switches(&self) -> SwitchesClient<Authorised> {
        SwitchesClient::with_interceptor(self.channel.clone(), self.credentials.clone())
            .max_decoding_message_size(RESPONSE_LEN_MAX)
    }

    pub(in crate::command) fn records(&self) -> RecordsClient<Authorised> {
        RecordsClient::with_interceptor(self.channel.clone(), self.credentials.clone())
    }

    /// Waits for a response.
    pub(in crate::command) fn wait<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, CliError> {
        let mut call = pin!(call);
        let answered = match self.within(PROBE_AFTER, call.as_mut()) {
            Some(answer) => Some(answer),
            None if is_silent(&self.address) => return Err(silent(&self.address)),
            None => self.within(CALL_TIMEOUT - PROBE_AFTER, call),
        };
        match answered {
            Some(answer) => answer.map(Response::into_inner).map_err(|status| self.refused(&status)),
            None => Err(self.no_answer()),
        }
    }

    /// The error of a call that has taken [`CALL_TIMEOUT`].
    pub(in crate::command) fn no_answer(&self) -> CliError {
        CliError::Refused {
            reason: "no_answer".into(),
            message: format!(
                "the controller at {} did not respond within {} s",
                self.address,
                CALL_TIMEOUT.as_secs()
            ),
        }
    }

    /// Waits for a future with a timeout; `None` if it expired.
    pub(in crate::command) fn within<T>(&self, time: Duration, future: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async { tokio::time::timeout(time, future).await.ok() })
    }

    /// The error of a call that failed: the controller's refusal, or why there is no connection to it.
    pub(in crate::command) fn refused(&self, status: &Status) -> CliError {
        let details = status.get_details_error_info();
        // The client's own failures have a source; what a server sends has none.
        if let (None, Some(source)) = (&details, status.source()) {
            return no_controller(&self.address, self.tls, source);
        }
        let reason = match details {
            None if status.code() == Code::Unimplemented => {
                let release = status.metadata().get(VERSION_HEADER).and_then(|header| header.to_str().ok());
                return missing_call(&self.address, release);
            }
            Some(info) => info.reason.to_lowercase(),
            None => format!("{:?}", status.code()).to_lowercase(),
        };
        let message = match reason.as_str() {
            "token_missing" => format!(
                "the controller at {} requires a token: give --token, or set NETFOLD_TOKEN; a tenant's own also needs --tenant",
                self.address
            ),
            _ => format!("the controller at {}: {}", self.address, status.message()),
        };
        CliError::Refused { reason, message }
    }
}
