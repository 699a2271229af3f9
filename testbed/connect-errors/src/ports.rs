//! The servers that clients connect to.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use netfold_collectives::mesh::{Exchange as _, TcpRendezvous};
use netfold_controller::command::Command;
use netfold_controller::record::{Quota, TenantRecord, TokenHash};
use netfold_server::access::{Access, Token};
use netfold_server::dev::{DevConfig, DevController};
use netfold_server::{FrontendConfig, JobConfig, Tls};
use rustix::net::{AddressFamily, SocketType};

use crate::certificates::Certificates;
use crate::mistake::Mistake;
use crate::version;

/// A tenant with a token.
const TENANT: &str = "acme";

/// At which no program listens.
const VACANT: &str = "127.0.0.1:1";

/// How long the rendezvous of another job waits for its ranks, which never come.
const RENDEZVOUS_TIMEOUT: Duration = Duration::from_secs(600);

/// Time in which a connection over the loopback interface is made, if it is.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);

/// How a client is connected.
#[derive(Debug, Clone)]
pub struct Target {
    /// `HOST:PORT` of the controller.
    pub address: String,
    /// The authority's file, for TLS.
    pub ca: Option<String>,
    /// The tenant.
    pub tenant: String,
    /// Its token, or an administrator's.
    pub token: String,
    /// `HOST:PORT` of a rendezvous, for clients that use one.
    pub rendezvous: Option<String>,
}

/// A controller in plain text, one with TLS, and what is no controller of this version.
pub struct Ports {
    plain: DevController,
    encrypted: DevController,
    certificates: Certificates,
    admin_token: String,
    tenant_token: String,
    unanswered: Unanswered,
    silent: Silent,
}

impl Ports {
    /// Starts all of them.
    ///
    /// # Panics
    ///
    /// When one does not start.
    pub fn start() -> Self {
        let certificates = Certificates::new();
        let token = || Token::generate().expect("the system has random numbers");
        let (admin, tenant) = (token(), token());
        let access = Access::Tokens { admins: vec![admin.hash()], readers: Vec::new() };
        let plain = controller(Ipv4Addr::LOCALHOST, access.clone(), None);
        let tls = Tls {
            certificate: certificates.certificate.clone(),
            key: certificates.key.clone(),
            client_ca: None,
        };
        // At 127.0.0.1, which its certificate is for, and at 127.0.0.2, which it is not for.
        let encrypted = controller(Ipv4Addr::UNSPECIFIED, access, Some(tls));
        for controller in [&plain, &encrypted] {
            add_tenant(controller, tenant.hash());
        }
        let (admin_token, tenant_token) = (admin.reveal(), tenant.reveal());
        let (unanswered, silent) = (Unanswered::new(), Silent::new());
        Self { plain, encrypted, certificates, admin_token, tenant_token, unanswered, silent }
    }

    /// How a worker makes a mistake.
    ///
    /// # Panics
    ///
    /// When workers cannot make it.
    pub fn worker(&self, mistake: Mistake) -> Target {
        let plain = self.plain.controller().workers();
        let target = Target {
            address: plain.to_string(),
            ca: None,
            tenant: TENANT.into(),
            token: self.tenant_token.clone(),
            rendezvous: None,
        };
        let at = |address: SocketAddr| Target { address: address.to_string(), ..target.clone() };
        let ca = Some(self.certificates.authority());
        let encrypted = self.encrypted.controller().workers().port();
        match mistake {
            Mistake::WrongPort => at(self.plain.controller().front().grpc()),
            Mistake::PlaintextToTls => at(localhost(1, encrypted)),
            Mistake::TlsToPlaintext => Target { ca, ..target },
            Mistake::CertificateName => Target { ca, ..at(localhost(2, encrypted)) },
            Mistake::WrongToken => Target { token: self.admin_token.clone(), ..target },
            Mistake::UnknownTenant => Target { tenant: "acne".into(), ..target },
            Mistake::UnknownJob => Target { rendezvous: Some(other_job().to_string()), ..target },
            Mistake::UnknownSwitch => panic!("workers name no switch"),
            Mistake::NothingListens => Target { address: VACANT.into(), ..target },
            Mistake::NoAnswer => at(self.unanswered.address),
            Mistake::Silent => at(self.silent.address),
            Mistake::OlderController => at(version::workers(plain, 1)),
            Mistake::NewerController => at(version::workers(plain, -1)),
        }
    }

    /// How a command that calls the controller's gRPC API makes a mistake.
    pub fn command(&self, mistake: Mistake) -> Target {
        let plain = self.plain.controller();
        let target = Target {
            address: plain.front().grpc().to_string(),
            ca: None,
            tenant: TENANT.into(),
            token: self.admin_token.clone(),
            rendezvous: None,
        };
        let at = |address: SocketAddr| Target { address: address.to_string(), ..target.clone() };
        let ca = Some(self.certificates.authority());
        let encrypted = self.encrypted.controller().front().grpc().port();
        match mistake {
            Mistake::WrongPort => at(plain.workers()),
            Mistake::PlaintextToTls => at(localhost(1, encrypted)),
            Mistake::TlsToPlaintext => Target { ca, ..target },
            Mistake::CertificateName => Target { ca, ..at(localhost(2, encrypted)) },
            Mistake::WrongToken => Target { token: self.tenant_token.to_uppercase(), ..target },
            Mistake::UnknownTenant => Target { tenant: "acne".into(), ..target },
            Mistake::UnknownJob | Mistake::UnknownSwitch => target,
            Mistake::NothingListens => Target { address: VACANT.into(), ..target },
            Mistake::NoAnswer => at(self.unanswered.address),
            Mistake::Silent => at(self.silent.address),
            Mistake::OlderController => at(version::grpc("0.0.1")),
            Mistake::NewerController => at(version::grpc("999.0.0")),
        }
    }
}

fn localhost(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, last], port))
}

fn controller(ip: Ipv4Addr, access: Access, tls: Option<Tls>) -> DevController {
    let any = SocketAddr::from((ip, 0));
    let front = FrontendConfig { grpc: any, http: None, page_hosts: Vec::new(), access, tls };
    let config = DevConfig { state: None, workers: any, front, jobs: JobConfig::default() };
    DevController::start(config).expect("a controller")
}

fn add_tenant(controller: &DevController, token: TokenHash) {
    let quota = Quota::UNLIMITED;
    let record = TenantRecord { name: TENANT.into(), quota, weight: 1, priority: 0, token: Some(token) };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let control = controller.controller().control();
    runtime.block_on(control.execute(Command::AddTenant(record))).expect("a new tenant");
}

/// The rendezvous of another job. Ends with the process.
fn other_job() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound port has an address");
    let mut rendezvous =
        TcpRendezvous::host(listener, "another job", 2, RENDEZVOUS_TIMEOUT).expect("a rendezvous");
    std::thread::spawn(move || rendezvous.all_gather(&[]));
    address
}

/// An address at which the kernel accepts connections, and no program reads or writes.
struct Silent {
    address: SocketAddr,
    _listener: TcpListener,
}

impl Silent {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound port has an address");
        Self { address, _listener: listener }
    }
}

/// An address at which packets are dropped: its listener accepts no more connections.
struct Unanswered {
    address: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl Unanswered {
    fn new() -> Self {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        rustix::net::bind(&socket, &localhost(1, 0)).expect("a free port");
        rustix::net::listen(&socket, 0).expect("a listener");
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().expect("a bound port has an address");
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            waiting.push(stream);
        }
        Self { address, _listener: listener, _waiting: waiting }
    }
}
