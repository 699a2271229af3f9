//! Drives the built plugin as NCCL does: from a file, by its tables, in a process for each rank, for every version.
//!
//! `cargo test -p netfold-nccl --test harness` prints what each rank did; words on the command line select scenarios by their
//! names. The order of calls is NCCL's: `init`, `devices`, `getProperties`, `listen`, handles, `connect`, `closeListen`,
//! `reduceSupport`, `regMr`, `iallreduce` and `test`, `deregMr`, `closeColl`, `finalize`, `dlclose`.
#![allow(unsafe_code, reason = "does what NCCL does, in C")]
#![allow(clippy::unwrap_used, reason = "a test without the test runner: it fails by panicking")]

mod bootstrap;
mod connect_errors;
mod groups;
mod links;
mod parent;
mod plugin;
mod tensor;
mod windows;

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

use netfold_controller::JobEvent;
use netfold_embedded::EmbeddedSwitch;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_testkit::process::Process;

use bootstrap::RankContext;
use parent::{Ranks, ScenarioOutcome};
use plugin::Library;

pub(crate) const VERSIONS: [u32; 4] = [6, 8, 11, 12];
const WORLD: usize = 4;
const SEED: u64 = 20_261_121;

fn main() -> ExitCode {
    if std::env::var("HARNESS_SCENARIO").is_ok_and(|scenario| scenario == "switch") {
        SwitchProcess::serve();
        return ExitCode::SUCCESS;
    }
    if std::env::var_os("HARNESS_SCENARIO").is_some() {
        run_rank(&RankContext::from_environment());
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if std::env::args().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let plugin = plugin_file();
    println!("plugin: {}; switch with 1 % loss each way, seed {SEED}", plugin.display());
    exports(&plugin);
    for (name, run) in scenarios() {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            println!("\n{name}");
            run(&plugin);
        }
    }
    let _ = std::fs::remove_dir_all(plugin.parent().unwrap());
    println!("\nall scenarios passed");
    ExitCode::SUCCESS
}

type Scenario = Box<dyn Fn(&Path)>;

fn scenarios() -> Vec<(String, Scenario)> {
    let mut all: Vec<(String, Scenario)> = Vec::new();
    for version in VERSIONS {
        let run = move |plugin: &Path| life_cycle(plugin, version);
        all.push((
            format!("version {version}: {WORLD} ranks, CollNet through the switch, unload, load, net"),
            Box::new(run),
        ));
    }
    all.push((
        "version 12: the switch is killed during operations".into(),
        Box::new(|plugin| switch_killed(plugin, 12)),
    ));
    all.push(("version 12: no switch is configured".into(), Box::new(|plugin| refused(plugin, &[]))));
    all.push((
        "version 12: the switch is unreachable".into(),
        Box::new(|plugin| refused(plugin, &[("NETFOLD_CONTROLLER", &closed_port())])),
    ));
    all.push((
        "version 12: too few ranks".into(),
        Box::new(|plugin| {
            refused(plugin, &[("NETFOLD_CONTROLLER", "127.0.0.1:1"), ("NETFOLD_NCCL_MIN_RANKS", "5")]);
        }),
    ));
    all.push(("version 12: connection errors".into(), Box::new(connect_errors::scenario)));
    all.push(("version 12: ranks are configured differently".into(), Box::new(differing)));
    all.push(("version 12: a rank does not connect".into(), Box::new(absent)));
    all.push(("version 12: without a switch, when that is allowed".into(), Box::new(by_ring)));
    all.push(("version 12: a rank is killed".into(), Box::new(rank_killed)));
    all.push(("version 8: a peer is killed".into(), Box::new(peer_killed)));
    for version in VERSIONS {
        all.push((
            format!("version {version}: misuse"),
            Box::new(move |plugin| {
                expect_zero(Ranks::start(plugin, "misuse", version, 2, |_| Vec::new()).run(|| ()));
            }),
        ));
    }
    all
}

/// The library that cargo built beside this program, under the name that NCCL looks for.
fn plugin_file() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let built = program
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("libnccl_net_netfold.so"))
        .find(|path| path.is_file())
        .expect("cargo builds the plugin before its tests");
    let folder = std::env::temp_dir().join(format!("netfold-nccl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let plugin = folder.join("libnccl-net-netfold.so");
    std::fs::copy(built, &plugin).unwrap();
    plugin
}

/// The library exports the supported versions' tables, and no others.
fn exports(plugin: &Path) {
    let library = Library::open(plugin, 12);
    let found: Vec<String> = (2..=14)
        .flat_map(|version| ["ncclNetPlugin", "ncclCollNetPlugin"].map(|name| format!("{name}_v{version}")))
        .filter(|name| library.symbol(name).is_some())
        .collect();
    println!("exports: {}", found.join(" "));
    assert_eq!(found.len(), 2 * VERSIONS.len());
    library.close();
}

fn switch(loss: bool) -> EmbeddedSwitch {
    switch_with(loss, |_| {})
}

fn switch_with(loss: bool, on_event: impl FnMut(&JobEvent) + Send + 'static) -> EmbeddedSwitch {
    EmbeddedSwitch::builder()
        .on_event(on_event)
        .middleware(move |io| {
            let rate = if loss { 0.01 } else { 0.0 };
            Ok(Box::new(Faulty::new(io, FaultConfig::with_loss(SEED, rate))))
        })
        .start()
        .expect("a switch")
}

fn controller(address: SocketAddr) -> Vec<(String, String)> {
    vec![("NETFOLD_CONTROLLER".into(), address.to_string())]
}

/// The job whose groups the communicators of [`life_cycle`] are.
const JOB: &str = "training";

fn life_cycle(plugin: &Path, version: u32) {
    let started = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&started);
    let switch = switch_with(true, move |event| {
        if let JobEvent::Started { name, group, .. } = event {
            log.lock().unwrap().push((name.to_string(), group.clone()));
        }
    });
    let address = switch.control();
    let variables = |_| [controller(address), vec![("NETFOLD_JOB".into(), JOB.into())]].concat();
    let outcome = Ranks::start(plugin, "everything", version, WORLD, variables).run(|| ());
    let started = started.lock().unwrap();
    let groups: BTreeSet<&str> = started.iter().map(|(_, group)| group.as_str()).collect();
    println!("  groups of job {JOB}: {}", groups.len());
    assert!(started.iter().all(|(name, group)| name == JOB && group.starts_with("nccl-")), "{started:?}");
    assert!(!groups.is_empty(), "communicators are groups: {started:?}");
    let counters = switch.counters().expect("the switch runs");
    println!(
        "  switch: {} packets in, {} results, {} of them repeated",
        counters.io.rx_packets, counters.results, counters.repeated
    );
    assert!(
        counters.results > 0 && counters.repeated > 0,
        "data pass through the switch, and some packets are lost"
    );
    expect_zero(outcome);
}

/// The switch is a process of its own, which is killed.
fn switch_killed(plugin: &Path, version: u32) {
    let mut switch = SwitchProcess::start();
    let address = switch.address;
    let outcome = Ranks::start(plugin, "switch-killed", version, WORLD, |_| controller(address)).run(|| {
        switch.kill();
        println!("  the switch was killed");
    });
    assert!(switch.killed, "the ranks request that the switch is killed");
    expect_zero(outcome);
}

struct SwitchProcess {
    process: Process,
    address: SocketAddr,
    killed: bool,
}

impl SwitchProcess {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("HARNESS_SCENARIO", "switch").stdin(Stdio::piped());
        let mut process = Process::spawn(command);
        let line = process.line().expect("the switch prints its address");
        Self { process, address: line.trim().parse().expect("the switch prints its address"), killed: false }
    }

    fn kill(&mut self) {
        self.process.kill();
        self.killed = true;
    }

    /// Runs a switch until the process that started it ends.
    fn serve() {
        let switch = switch(true);
        bootstrap::report(&switch.control().to_string());
        let _ = std::io::stdin().read_line(&mut String::new());
    }
}

fn expect_zero(outcome: ScenarioOutcome) {
    show(&outcome);
    assert!(outcome.codes.iter().all(|code| *code == Some(0)), "exit codes {:?}", outcome.codes);
}

/// The first rank's lines, and those of others that differ.
fn show(outcome: &ScenarioOutcome) {
    for (rank, lines) in outcome.lines.iter().enumerate() {
        for line in lines.iter().filter(|line| rank == 0 || !outcome.lines[0].contains(line)) {
            println!("  rank {rank}: {line}");
        }
    }
    println!("  {:.2} s", outcome.took.as_secs_f64());
}

fn refused(plugin: &Path, variables: &[(&str, &str)]) {
    let variables: Vec<(String, String)> =
        variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    expect_zero(Ranks::start(plugin, "refusal", 12, WORLD, |_| variables.clone()).run(|| ()));
}

fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn differing(plugin: &Path) {
    let switch = switch(false);
    let address = switch.control();
    let mode = |rank| if rank == 2 { "bfp16" } else { "bfp32" };
    let variables = |rank| {
        let mut variables = controller(address);
        variables.push(("NETFOLD_MODE".into(), mode(rank).into()));
        variables
    };
    expect_zero(Ranks::start(plugin, "refusal", 12, WORLD, variables).run(|| ()));
    // Only some ranks have a switch.
    let variables = |rank| if rank == 1 { Vec::new() } else { controller(address) };
    expect_zero(Ranks::start(plugin, "refusal", 12, WORLD, variables).run(|| ()));
}

fn absent(plugin: &Path) {
    let switch = switch(false);
    let address = switch.control();
    let variables = |_| {
        let mut variables = controller(address);
        variables.push(("NETFOLD_NCCL_CONNECT_TIMEOUT".into(), "3".into()));
        variables
    };
    let outcome = Ranks::start(plugin, "absence", 12, WORLD, variables).run(|| ());
    expect_zero(outcome);
}

fn by_ring(plugin: &Path) {
    let variables = |_| vec![("NETFOLD_NCCL_REQUIRE_SWITCH".into(), "0".into())];
    expect_zero(Ranks::start(plugin, "some", 12, WORLD, variables).run(|| ()));
}

fn rank_killed(plugin: &Path) {
    let switch = switch(false);
    let address = switch.control();
    let outcome = Ranks::start(plugin, "rank-killed", 12, WORLD, |_| controller(address)).run(|| ());
    show(&outcome);
    assert_eq!(outcome.codes, [Some(0), Some(0), Some(0), Some(42)]);
}

fn peer_killed(plugin: &Path) {
    let outcome = Ranks::start(plugin, "peer-killed", 8, 3, |_| Vec::new()).run(|| ());
    show(&outcome);
    assert_eq!(outcome.codes, [Some(42), Some(0), Some(0)]);
}

/// One rank of a scenario.
fn run_rank(place: &RankContext) {
    let library = Library::open(&place.plugin, place.version);
    let (mut net, mut coll) = (library.net(), library.collnet());
    assert_eq!((net.0.name(), coll.0.name()), ("netfold".into(), "netfold".into()));
    match place.scenario.as_str() {
        "everything" | "some" => {
            // NCCL initialises in the caller's thread and does the rest in threads of its own.
            assert_eq!(net.init(), 0);
            let here = place.clone();
            std::thread::spawn(move || groups::everything(&here, &mut coll))
                .join()
                .expect("the CollNet part");
            assert_eq!(net.finalize(), 0);
            library.close();
            let again = Library::open(&place.plugin, place.version);
            let (here, mut net) = (place.clone(), again.net());
            std::thread::spawn(move || links::everything(&here, &mut net)).join().expect("the net part");
            again.close();
        }
        "switch-killed" => groups::switch_killed(place, &mut coll),
        "refusal" => groups::refusal(place, &mut coll),
        "absence" => {
            if place.rank == 1 {
                // Sends a handle and never connects.
                assert_eq!(coll.init(), 0);
                place.gather(&coll.listen(0).unwrap().0);
            } else {
                groups::refusal(place, &mut coll);
            }
        }
        "rank-killed" => groups::rank_killed(place, &mut coll),
        "peer-killed" => links::peer_killed(place, &mut net),
        "misuse" => links::misuse(place, &mut net),
        other => panic!("no scenario {other}"),
    }
}
