//! The HTTP server of a controller that is not the leader: probes, and a metric that says so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use netfold_listener::acceptor::Acceptor;
use netfold_listener::policy;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

use crate::access::Access;
use crate::etcd::CandidateStatus;
use crate::frontend::{FrontendConfig, FrontendError, listen};
use crate::health::{self, HEALTHZ, READYZ};
use crate::host;
use crate::listener;
use crate::metrics;
use crate::response::{Body, content, is_authorized, read_only, text, unauthorized};
use crate::tls::Tls;

/// The running server, on a thread of its own, at the address that the page has when this controller is the leader. Dropping it frees the
/// address.
#[derive(Debug)]
pub struct StandbyServer {
    address: SocketAddr,
    status: watch::Sender<Option<CandidateStatus>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What every connection shares.
#[derive(Clone)]
struct Standby {
    access: Arc<Access>,
    hosts: Arc<[String]>,
    status: watch::Receiver<Option<CandidateStatus>>,
}

impl StandbyServer {
    /// Serves at the page's address; `None` if there is none.
    ///
    /// # Errors
    /// [`FrontendError`], with nothing left running.
    pub fn start(config: &FrontendConfig) -> Result<Option<Self>, FrontendError> {
        let Some(address) = config.http else { return Ok(None) };
        let tls = config.tls.as_ref().map(Tls::for_http).transpose().map_err(FrontendError::Tls)?;
        let (socket, address) = listen(address)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(FrontendError::Thread)?;
        let acceptor = {
            let _within = runtime.enter();
            Acceptor::new(socket, policy::PAGE).map_err(FrontendError::Thread)?
        };
        let (status, receiver) = watch::channel(None);
        let (stop, stopped) = oneshot::channel::<()>();
        let standby = Standby {
            access: Arc::new(config.access.clone()),
            hosts: config.page_hosts.clone().into(),
            status: receiver,
        };
        let answer = move |request, _| {
            let standby = standby.clone();
            async move { standby.answer(&request) }
        };
        let thread = std::thread::Builder::new()
            .name("netfold-standby".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = listener::serve(acceptor, tls, answer) => {}
                        _ = stopped => {}
                    }
                });
            })
            .map_err(FrontendError::Thread)?;
        Ok(Some(Self { address, status, stop: Some(stop), thread: Some(thread) }))
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets what readiness reports.
    pub fn set_status(&self, status: &CandidateStatus) {
        self.status.send_replace(Some(status.clone()));
    }
}

impl Drop for StandbyServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been printed; the address is free in any case.
            let _ = thread.join();
        }
    }
}

impl Standby {
    fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        let refused = host::refusal(request, &self.hosts);
        let authorized = is_authorized(&self.access, request) && refused.is_none();
        match (request.uri().path(), refused) {
            (_, Some(refused)) if request.method() != Method::GET => refused,
            _ if request.method() != Method::GET && authorized => read_only(),
            _ if request.method() != Method::GET => unauthorized(),
            (HEALTHZ, _) => health::standby_liveness().response(),
            (READYZ, _) => health::standby_readiness(self.status.borrow().as_ref(), authorized).response(),
            (_, Some(refused)) => refused,
            _ if !authorized => unauthorized(),
            ("/metrics", None) => match metrics::standby() {
                Ok(scrape) => content(metrics::MEDIA_TYPE, scrape),
                Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written\n"),
            },
            _ => text(StatusCode::SERVICE_UNAVAILABLE, self.elsewhere()),
        }
    }

    fn elsewhere(&self) -> String {
        match self.status.borrow().as_ref() {
            Some(CandidateStatus::Leader(name)) if !name.is_empty() => {
                format!("this controller is a standby: controller {name} is the leader\n")
            }
            _ => "this controller is a standby, and knows no leader at the moment\n".to_owned(),
        }
    }
}
