//! A controller and its switch in the middle of a star. Sessions are encrypted, as those of authenticated jobs have to be.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use netfold_testkit::directory::TemporaryDirectory;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::StarError;
use super::network::Star;
use crate::all_reduce::Controlled as Joining;
use crate::peers::{PeerError, Process};

/// The tenant of the measured jobs.
const TENANT: &str = "bench";

/// Where the switch accepts its controller: nothing of it leaves the host.
const P4RUNTIME: &str = "127.0.0.1:9559";

/// A switch, its controller, and the certificate of the controller's authority; they end when this is dropped.
pub(crate) struct Controlled {
    _switch: Process,
    _controller: Process,
    ca: String,
}

impl Controlled {
    /// Starts both, and adds the tenant.
    ///
    /// # Errors
    ///
    /// [`StarError`], when one of them does not start.
    pub(crate) fn start(
        star: &Star,
        program: &str,
        busy_poll: &str,
        deadline: Instant,
    ) -> Result<Self, StarError> {
        let folder = star.folder();
        certify(folder)?;
        let mut command = star.on_switch(program);
        command.args(["--json", "switch", "--exit-with-stdin", "--listen", &Star::switch().to_string()]);
        command.args(["--p4runtime", P4RUNTIME, "--busy-poll", busy_poll]);
        let mut switch = Process::start("the switch", &mut command)?;
        switch.expect(deadline, |line| line.contains("\"listening\"").then_some(()))?;
        let topology = format!(
            "[[switch]]\nname = \"star\"\np4runtime = \"{P4RUNTIME}\"\ndata = \"{}\"\nrole = \"leaf\"\n\n\
             [[host]]\nname = \"hosts\"\naddresses = [\"{}\"]\nswitch = \"star\"\n",
            Star::switch(),
            Star::NETWORK
        );
        let (topology, state) = (write(folder, "star.toml", &topology)?, folder.file("state.redb"));
        // Of the controller of an earlier turn.
        let _ = std::fs::remove_file(&state);
        let mut command = star.on_switch(program);
        command.args(["--json", "controller", "--exit-with-stdin", "--insecure"]);
        command.args(["--topology", &topology, "--state", &state, "--workers", &workers().to_string()]);
        command.args(["--tls-cert", &folder.file("cert.pem"), "--tls-key", &folder.file("key.pem")]);
        let mut controller = Process::start("the controller", &mut command)?;
        controller.expect(deadline, |line| line.contains("\"controlling\"").then_some(()))?;
        let mut command = star.on_switch(program);
        command.args(["tenant", "add", TENANT, "--without-token"]);
        command.args(["--controller", "https://localhost:20042", "--ca", &folder.file("ca.pem")]);
        let added =
            command.output().map_err(|source| PeerError::Start { name: "netfold tenant".into(), source })?;
        if !added.status.success() {
            let stderr = String::from_utf8_lossy(&added.stderr).into_owned();
            return Err(
                PeerError::Process { name: "netfold tenant".into(), what: "failed".into(), stderr }.into()
            );
        }
        Ok(Self { _switch: switch, _controller: controller, ca: folder.file("ca.pem") })
    }

    /// The options with which `netfold bench perf` joins an authenticated job there.
    pub(crate) fn arguments(&self) -> [String; 7] {
        let controller = workers().to_string();
        ["--controller", &controller, "--ca", &self.ca, "--tenant", TENANT, "--authenticated"]
            .map(str::to_owned)
    }

    /// How workers join there, in jobs whose names begin with `job`.
    pub(crate) fn joining(&self, job: &str) -> Joining {
        Joining {
            controller: workers().to_string(),
            ca: Some(PathBuf::from(&self.ca)),
            tenant: Some((TENANT.into(), String::new())),
            job: job.into(),
            trees: 1,
            bind: Vec::new(),
            rendezvous: false,
        }
    }
}

/// Where workers join.
fn workers() -> SocketAddr {
    SocketAddr::new(Star::address_of_switch(), 20041)
}

/// Writes a file, and returns its path.
fn write(folder: &TemporaryDirectory, name: &str, content: &str) -> Result<String, StarError> {
    let path = folder.file(name);
    let written = std::fs::write(&path, content);
    written.map_err(|source| PeerError::File { path: path.clone().into(), source })?;
    Ok(path)
}

/// Writes the certificates of an authority and of the controller, and the controller's key.
fn certify(folder: &TemporaryDirectory) -> Result<(), StarError> {
    let [ca, certificate, key] = certificates().map_err(StarError::Certificate)?;
    write(folder, "ca.pem", &ca)?;
    write(folder, "cert.pem", &certificate)?;
    write(folder, "key.pem", &key).map(drop)
}

/// The certificates of an authority and of the controller, and the controller's key.
fn certificates() -> Result<[String; 3], rcgen::Error> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), Star::address_of_switch().to_string()];
    let certificate = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
    Ok([issuer.pem(), certificate.pem(), key.serialize_pem()])
}
