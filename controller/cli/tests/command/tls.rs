//! TLS between controller, switch and workers.

use std::path::PathBuf;

use netfold_testkit::wait::poll_state;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::process::{Process, run, text};

/// A folder of certificates of one authority.
pub(crate) struct Certificates {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("netfold-command-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let certificates = Self { folder, issuer };
        certificates.write("ca.pem", &certificates.issuer.pem());
        certificates
    }

    /// Makes `NAME.pem` and `NAME.key`, of a certificate for `localhost` and 127.0.0.1.
    pub(crate) fn issue(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder.join(file), text).unwrap();
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.folder.join(file).display().to_string()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Waits until the controller at `grpc` has the switch in this state; returns why it is down.
fn wait_switch(grpc: &str, up: bool) -> String {
    poll_state(format_args!("the switch's state up: {up}"), || {
        let (_, lines) = run(&format!("switch describe s1 --controller {grpc}"));
        let switch = &lines[0];
        let reason = switch["down_reason"].as_str().unwrap_or_default().to_owned();
        if switch["up"] == up && (up || reason.contains("TLS")) { Ok(reason) } else { Err(lines) }
    })
}

#[test]
fn a_controller_admits_a_job_to_a_switch_behind_mutual_tls() {
    let files = Certificates::new("switch");
    files.issue("switch");
    files.issue("controller");
    let mut switch = Process::start(&format!(
        "switch --listen 127.0.0.1:0 --p4runtime 127.0.0.1:0 --tls-cert {} --tls-key {} --tls-client-ca {}",
        files.path("switch.pem"),
        files.path("switch.key"),
        files.path("ca.pem")
    ));
    let listening = switch.event("listening");
    let control = |name: &str, tls: &str| {
        let at = text(&listening, "p4runtime");
        let switch = format!("[[switch]]\nname = \"s1\"\np4runtime = \"{at}\"\ntls = {{ {tls} }}\n");
        let host = "[[host]]\nname = \"h1\"\naddresses = [\"127.0.0.0/8\"]\nswitch = \"s1\"\n";
        files.write(name, &format!("{switch}{host}"));
        let any = "127.0.0.1:0";
        let state = files.path("state.redb");
        let mut controller = Process::start(&format!(
            "controller --topology {} --state {state} --workers {any} --listen {any} --http {any} --insecure",
            files.path(name)
        ));
        let controlling = controller.event("controlling");
        (controller, text(&controlling, "workers").to_owned(), text(&controlling, "grpc").to_owned())
    };

    let (mut controller, _, grpc) = control("without.toml", "ca = \"ca.pem\"");
    let reason = wait_switch(&grpc, false);
    assert!(reason.contains("asks for a certificate of the controller"), "{reason}");
    controller.signal("TERM");
    assert!(controller.wait().success());

    let own = "ca = \"ca.pem\", certificate = \"controller.pem\", key = \"controller.key\"";
    let (_controller, workers, grpc) = control("with.toml", own);
    wait_switch(&grpc, true);
    let (_, added) = run(&format!("tenant add red --controller {grpc}"));
    let (code, lines) = run(&format!(
        "bench all-reduce --controller {workers} --tenant red --token {} --workers 2 --bytes 64KiB --warmup 1 \
         --iterations 5",
        text(&added[0], "token")
    ));
    assert_eq!(code, Some(0), "{lines:?}");
}

#[test]
fn a_missing_file_is_an_error_at_the_start() {
    let files = Certificates::new("absent");
    files.write(
        "t.toml",
        "[[switch]]\nname = \"s1\"\np4runtime = \"127.0.0.1:1\"\ntls = { ca = \"gone.pem\" }\n",
    );
    let (code, lines) = run(&format!(
        "controller --topology {} --state {} --workers 127.0.0.1:0 --listen 127.0.0.1:0 --http 127.0.0.1:0 --insecure",
        files.path("t.toml"),
        files.path("state.redb")
    ));
    let error = lines.last().unwrap();
    assert_eq!(code, Some(1), "{error}");
    assert!(error.to_string().contains(&files.path("gone.pem")), "{error}");
}

#[test]
fn workers_join_a_tls_controller_only_by_tls() {
    let (files, other) = (Certificates::new("workers"), Certificates::new("workers-other"));
    files.issue("controller");
    let any = "127.0.0.1:0";
    let mut controller = Process::start(&format!(
        "controller --dev --workers {any} --listen {any} --http {any} --tls-cert {} --tls-key {}",
        files.path("controller.pem"),
        files.path("controller.key")
    ));
    let controlling = controller.event("controlling");
    let workers = text(&controlling, "workers");
    let bench = |how: &str| {
        run(&format!(
            "bench all-reduce --controller {workers} --tenant red --workers 2 --bytes 64KiB --warmup 1 --iterations 5 {how}"
        ))
    };
    let (code, lines) = bench(&format!("--ca {}", files.path("ca.pem")));
    assert_eq!(code, Some(0), "{lines:?}");
    let (_, jobs) =
        run(&format!("job list --controller {} --ca {}", text(&controlling, "grpc"), files.path("ca.pem")));
    assert_eq!(jobs.len(), 1, "{jobs:?}");

    let (code, lines) = bench("");
    let error = lines.last().unwrap();
    assert!(code == Some(1) && error.to_string().contains("this port speaks TLS"), "{error}");
    let (code, lines) = bench(&format!("--ca {}", other.path("ca.pem")));
    let error = lines.last().unwrap();
    assert!(code == Some(1) && error.to_string().contains("is not signed by an authority in"), "{error}");
}
