//! The systemd units and the container's files: valid for systemd, their command lines start the service and notify systemd, and their
//! paths and ports are those of the tree and of the program.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use netfold_testkit::directory::TemporaryDirectory;
use netfold_testkit::process::{Process, present};
use netfold_testkit::wait::poll_state;

use crate::tls::Certificates;

const NETFOLD: &str = env!("CARGO_BIN_EXE_netfold");

/// Where the units expect the program, its settings and its state.
const PROGRAM: &str = "/usr/bin/netfold";
const SETTINGS: &str = "/etc/netfold/";
const STATE: &str = "/var/lib/netfold/";

/// Reads a file of the package's folder `packaging`.
fn packaged(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a file of the units.
fn read(name: &str) -> String {
    packaged(&format!("systemd/{name}"))
}

/// The assignments of a unit, or of a file of environment variables: continued lines joined, comments left out.
fn assignments(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\\\n", " ");
    let lines =
        joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '[']));
    let assignment = |line: &str| {
        let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("no assignment: {line}"));
        (key.to_owned(), value.trim().to_owned())
    };
    lines.map(assignment).collect()
}

/// A service as systemd would start it.
struct Service {
    /// The last command.
    command: String,
    environment: BTreeMap<String, String>,
    /// Credentials by their identifiers, with the paths of their files.
    credentials: Vec<(String, String)>,
}

impl Service {
    /// A unit with a file of variables and drop-ins.
    fn new(unit: &str, variables: &str, drop_ins: &[&str]) -> Self {
        let mut service =
            Self { command: String::new(), environment: BTreeMap::new(), credentials: Vec::new() };
        let files = std::iter::once(unit).chain(drop_ins.iter().copied());
        for (key, value) in files.flat_map(|file| assignments(&read(file))) {
            let pair = |separator| {
                let (name, value) = value.split_once(separator).unwrap_or_else(|| panic!("{key}={value}"));
                (name.to_owned(), value.to_owned())
            };
            match key.as_str() {
                "ExecStart" => service.command.clone_from(&value),
                "Environment" => service.environment.extend([pair('=')]),
                "LoadCredential" => service.credentials.push(pair(':')),
                "EnvironmentFile" => {
                    assert_eq!(value, format!("-{SETTINGS}{variables}"));
                }
                _ => {}
            }
        }
        for (name, _) in assignments(&read(variables)) {
            let known = service.environment.contains_key(&name) || name == "P4RUNTIME_ADDRESS";
            assert!(known, "{variables}: the unit has no {name}");
        }
        service
    }

    /// Any free ports in place of the default addresses.
    fn on_free_ports(mut self) -> Self {
        for (name, value) in &mut self.environment {
            if name.ends_with("_ADDRESS") {
                assert!(value.starts_with("127.0.0.1:"), "{name}={value}: the default is a loopback address");
                "127.0.0.1:0".clone_into(value);
            }
        }
        self
    }

    /// The words of the command line: `${NAME}` is replaced within a word, `$NAME` becomes a word for each of its words.
    fn words(&self, settings: &str, state: &str) -> Vec<String> {
        let value = |name: &str| {
            self.environment.get(name).unwrap_or_else(|| panic!("{}: no {name}", self.command)).clone()
        };
        let mut words = Vec::new();
        for word in self.command.split_whitespace() {
            if let Some(name) = word.strip_prefix('$').filter(|name| !name.starts_with('{')) {
                words.extend(value(name).split_whitespace().map(str::to_owned));
                continue;
            }
            let mut word = word.replace(SETTINGS, settings).replace(STATE, state);
            while let Some((before, rest)) = word.clone().split_once("${") {
                let (name, after) = rest.split_once('}').unwrap();
                word = format!("{before}{}{after}", value(name));
            }
            words.push(word);
        }
        assert_eq!(words.remove(0), PROGRAM);
        words
    }
}

/// Starts a service, waits until it notifies systemd, stops it, and waits for its end.
fn starts_and_stops(mut service: Service, settings: &str) {
    let folder = TemporaryDirectory::new("unit");
    for (name, file) in &service.credentials {
        std::fs::copy(file.replace(SETTINGS, settings), folder.path().join(name)).unwrap();
    }
    service.environment.insert("CREDENTIALS_DIRECTORY".into(), folder.path().display().to_string());
    notifies(&service.words(settings, &format!("{}/", folder.path().display())), &folder);
}

/// Runs netfold with these arguments until it notifies systemd, stops it, and waits for its end.
fn notifies(arguments: &[String], folder: &TemporaryDirectory) {
    let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut command = Command::new(NETFOLD);
    command.args(arguments).env("NOTIFY_SOCKET", folder.path().join("notify"));
    let mut process = Process::spawn({
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command
    });
    let wait_for = |process: &mut Process, state: &str| {
        poll_state(state, || {
            let mut text = [0; 256];
            match socket.recv(&mut text) {
                Ok(len) => {
                    let text = String::from_utf8_lossy(&text[..len]).into_owned();
                    text.lines().any(|line| line == state).then_some(()).ok_or(text)
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    assert!(!process.has_ended(), "{arguments:?}: {}", process.stderr());
                    Err(String::new())
                }
                Err(error) => panic!("{error}"),
            }
        });
    };
    wait_for(&mut process, "READY=1");
    process.signal("TERM");
    wait_for(&mut process, "STOPPING=1");
    let status = process.wait();
    assert!(status.success(), "{status}: {}", process.stderr());
}

/// A folder with the settings that the units name.
fn settings() -> Certificates {
    let files = Certificates::new("units");
    ["controller", "switch"].iter().for_each(|name| files.issue(name));
    files.write("admin-tokens", "0123456789abcdef0123456789abcdef\n");
    // Port 1 is never listened on: a controller does not wait for its switches.
    files.write("topology.toml", "[[switch]]\nname = \"tor\"\np4runtime = \"127.0.0.1:1\"\n");
    files
}

#[test]
fn services_start_notify_systemd_and_stop() {
    let files = settings();
    let settings = files.path("");
    for (unit, variables, drop_ins) in [
        ("netfold-controller.service", "controller.env", &[][..]),
        ("netfold-switch.service", "switch.env", &[]),
        ("netfold-switch.service", "switch.env", &["switch-p4runtime.conf"]),
    ] {
        starts_and_stops(Service::new(unit, variables, drop_ins).on_free_ports(), &settings);
    }
}

#[test]
fn systemd_accepts_the_units() {
    if !present("systemd-analyze", "the units are not verified") {
        return;
    }
    for (unit, drop_ins) in [
        ("netfold-controller.service", &[][..]),
        ("netfold-switch.service", &[]),
        ("netfold-switch.service", &["switch-p4runtime.conf", "switch-raw-links.conf"]),
    ] {
        let folder = TemporaryDirectory::new("verified");
        let path = folder.write(unit, read(unit).replace(PROGRAM, NETFOLD));
        let drop_in_folder = PathBuf::from(format!("{path}.d"));
        std::fs::create_dir(&drop_in_folder).unwrap();
        for drop_in in drop_ins {
            std::fs::write(drop_in_folder.join(drop_in), read(drop_in).replace(PROGRAM, NETFOLD)).unwrap();
        }
        // It warns of what it ignores, and succeeds.
        let output = Command::new("systemd-analyze").args(["verify", "--man=no", &path]).output().unwrap();
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && warnings.is_empty(), "{unit} {drop_ins:?}: {warnings}");
        let args = ["security", "--offline=yes", "--threshold=25", &path];
        if drop_ins.is_empty() {
            let output = Command::new("systemd-analyze").args(args).output().unwrap();
            assert!(output.status.success(), "{unit}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[test]
fn the_arguments_of_a_unit_are_those_that_systemd_passes() {
    let command = "/usr/bin/netfold a ${B}/c \\\n  --d ${E} $F\n";
    let parsed = assignments(&format!("[Service]\n# no\nExecStart={command}"));
    let environment =
        [("B", "b b"), ("E", ""), ("F", "f  g")].map(|(name, value)| (name.into(), value.into()));
    let service =
        Service { command: parsed[0].1.clone(), environment: environment.into(), credentials: Vec::new() };
    assert_eq!(service.words("", ""), ["a", "b b/c", "--d", "", "f", "g"]);
}

/// The commands in the compose file, each a list of JSON.
fn compose_commands(key: &str) -> Vec<Vec<String>> {
    let text = packaged("container/compose.yaml");
    let lists =
        text.lines().filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": ").map(str::to_owned));
    lists.map(|list| serde_json::from_str(&list).unwrap_or_else(|error| panic!("{list}: {error}"))).collect()
}

#[test]
fn the_commands_of_the_compose_file_start_their_services() {
    let commands = compose_commands("command");
    assert_eq!(
        commands.iter().map(|command| command[0].as_str()).collect::<Vec<_>>(),
        ["switch", "controller"]
    );
    let topology = packaged("container/topology.toml");
    let switch = commands[0].iter().position(|word| word == "--p4runtime").map(|at| &commands[0][at + 1]);
    assert!(topology.contains(switch.unwrap()), "the topology names the switch of the compose file");
    for mut command in commands {
        let folder = TemporaryDirectory::new("compose");
        folder.write("topology.toml", topology.replace(":9559", ":1"));
        for word in &mut command {
            // Any free port, and the files of this test.
            if word.parse::<std::net::SocketAddr>().is_ok() {
                "127.0.0.1:0".clone_into(word);
            }
            let settings = format!("{}/", folder.path().display());
            *word = word.replace(SETTINGS, &settings).replace(STATE, &settings);
        }
        if command[0] == "controller" {
            let ports = ["--workers", "--listen", "--http"].map(|option| [option, "127.0.0.1:0"]);
            command.extend(ports.concat().into_iter().map(str::to_owned));
        }
        notifies(&command, &folder);
    }
    for check in compose_commands("test") {
        assert_eq!(check[..2], ["CMD", PROGRAM]);
        let help = Command::new(NETFOLD).args(&check[2..]).arg("--help").output().unwrap();
        assert!(help.status.success(), "{check:?}");
    }
}

#[test]
fn the_container_is_built_from_the_tree_and_has_the_programs_ports() {
    let text = packaged("container/Containerfile");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lines = |key: &str| -> Vec<Vec<String>> {
        let words = text.lines().filter_map(|line| line.strip_prefix(key));
        words.map(|rest| rest.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let mut copied: Vec<String> =
        lines("COPY ").iter().flat_map(|words| words[..words.len() - 1].to_vec()).collect();
    copied.retain(|path| !path.starts_with("--from") && !path.starts_with('/'));
    for path in &copied {
        assert!(root.join(path).exists(), "COPY {path}");
    }
    // Every member of the workspace is needed to resolve it.
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    for member in members.split('"').skip(1).step_by(2) {
        let folder = member.split('/').next().unwrap();
        assert!(copied.iter().any(|path| path == folder), "COPY {folder} {folder}");
    }
    let toolchain =
        manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    assert!(text.contains(&format!("/rust:{toolchain}-")), "the image has Rust {toolchain}");

    let help = ["switch", "controller"].map(|command| {
        let output = Command::new(NETFOLD).args([command, "--help"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    });
    for port in lines("EXPOSE ").concat() {
        let (port, _) = port.split_once('/').unwrap();
        // P4Runtime's port is IANA's, and no default.
        let known = port == "9559" || help.concat().contains(&format!(":{port}]"));
        assert!(known, "EXPOSE {port} is no default of the program");
    }
    let state = Path::new(STATE).display().to_string();
    assert!(text.contains(&format!("VOLUME {}", state.trim_end_matches('/'))));
}
