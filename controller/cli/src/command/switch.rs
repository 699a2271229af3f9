//! `netfold switch`: a software switch with its control port, until it is stopped.

mod counted;
mod dataplane;
mod egress;
mod kernel;
mod p4runtime;
mod remote;
mod stalled;

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use clap::Args;
use netfold_control::{CongestionAlgorithm, Numerics, Refusal};
use netfold_controller::admission::Config;
use netfold_controller::jobs::subject;
use netfold_controller::record::JobName;
use netfold_controller::{JobEvent, ServerError};
use netfold_embedded::{EmbeddedError, EmbeddedSwitch, QueueAddress};
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::pcap::{Captured, Resolution};
use netfold_io::{Cores, IoError, IoSpec, PacketIo, ThreadOpener};
use netfold_listener::policy;
use netfold_p4::ir::Program;
use netfold_p4::profile::Profile;
use netfold_p4::{allreduce, json};
use netfold_switch::{EmptyPipeline, Engine, PAYLOADS, Pipeline, numeric_pipeline, pipeline_for};
use netfold_switch_p4runtime::{Engine as ServedEngine, Server};
use netfold_switch_swx::SwxPipelineError;
use netfold_wire::Dscp;
use netfold_wire::UDP_PORT;

use crate::connections::{ConnectionLog, DescriptorShortage, raise_descriptor_limit};
use crate::error::CliError;
use crate::event::{Event, Listening, Queue};
use crate::lifetime::Stop;
use crate::output::{Output, Tone};
use crate::service;
use crate::size::{self, grouped, human};

use counted::{counters, show_counters};
use dataplane::{Dataplane, Runner};
use egress::EgressOptions;
use kernel::KernelSwitch;
use p4runtime::P4RuntimeOptions;
use stalled::show_stalled;

/// Interval between checks for a request to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Job events buffered for printing; more are dropped, since the control plane must not wait for a terminal.
const EVENTS_MAX: usize = 256;

/// Default payload of a packet, in bytes, and that of DPDK's software pipeline.
const PAYLOAD: u32 = 1408;
const PAYLOAD_SWX: u32 = 256;

const EXAMPLES: &str = "\
Examples:
  netfold switch                                   on this machine only, port 20038
  netfold switch --listen 0.0.0.0:20038            for workers on other hosts
  netfold switch --loss 0.02 --seed 7              drops packets on purpose
  netfold switch --pcap switch.pcap                for Wireshark
  netfold switch --port-rate 200M --congestion dctcp
                                                   slow ports, whose queues set congestion marks
  netfold switch --threads 4 --cores 2-5            four packet threads, each pinned to a core
  netfold switch --io shm:gpu                       for workers on this host, through shared memory
  netfold switch --io xdp-kernel:eth0               the kernel runs the program
  netfold switch --engine swx                       DPDK's software pipeline executes it
  netfold switch --p4runtime 10.0.0.5:9559 --insecure --listen 10.0.0.5:20038 --io shm:gpu,uplink=udp
                                                   a host switch below another: the host sends one stream
  netfold switch --p4runtime 127.0.0.1:9559 --port 1=10.0.0.1:20038 --port 2=10.0.0.2:20038
                                                   without a pipeline, for a P4Runtime controller
  netfold switch list                              the switches of a running controller

Workers use the same port by TCP (to join) and UDP (for data).";

/// Run a software switch for all-reduce until it is stopped; or show and drain the switches of a controller.
///
/// Prints the size of its state, the jobs that start and end, and its counters on SIGINT or SIGTERM.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct SwitchCommand {
    #[command(subcommand)]
    action: Option<remote::Action>,
    /// Address of the data path (UDP) and of the control port (TCP); port 0 uses any free one.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([127, 0, 0, 1], UDP_PORT)))]
    listen: SocketAddr,
    /// Packet threads, each with its own slots, tables and UDP port (the given one and those that follow). The trees of a job with several
    /// are at different threads.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Cores to pin the packet threads to, as in 0,4-7: one for each thread in turn. Not pinned by default.
    #[arg(long, value_name = "LIST")]
    cores: Option<Cores>,
    /// Microseconds for which a packet thread polls for packets after the last one before it sleeps.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    busy_poll: u64,
    /// Packet I/O: udp, af-packet:IFACE, packet-ring:IFACE or af-xdp:IFACE[@QUEUE[-LAST]], the last three with
    /// [,address=IP][,prefix=BITS][,gateway=IP]; dpdk:DEVICE, in programs built with DPDK; or shm:NAME[,uplink=IO], shared memory for
    /// workers on this host, and any but the last two for all others. Threads share the interface or device. May be given several
    /// times: one for each queue in turn. Or xdp-kernel:IFACE[+IFACE..][,address=IP][,mode=native|generic]: the kernel runs the program, where
    /// frames arrive; needs CAP_NET_ADMIN and CAP_BPF.
    #[arg(long, value_name = "IO", default_values_t = [IoSpec::default()])]
    io: Vec<IoSpec>,
    /// Payload of a packet in bytes: 256, 1408 (for an MTU of 1500) or 8192 (for jumbo frames); 1408 by default. With several, as in 1408,8192,
    /// each has packet threads of its own, and a job gets the longest that the paths of all its workers carry.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = payload)]
    payload: Vec<u32>,
    /// How lanes are added: word (jobs of mode i32, bfp32, bfp16), saturating, wide, half or float (jobs of that mode).
    /// Word by default.
    #[arg(long, conflicts_with = "program")]
    numerics: Option<Numerics>,
    /// With --io xdp-kernel: pin the program in this folder of a BPF file system. If this process is killed, jobs go on for 30 s, and `netfold switch detach` removes the program. A switch that stops regularly removes it itself.
    #[arg(long, value_name = "FOLDER")]
    pin: Option<PathBuf>,
    /// What executes the program. DPDK's software pipeline (swx) interprets it, and takes words only; the payload is 256 bytes by default then.
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    engine: EngineChoice,
    /// Run the pipeline in this file, as `netfold p4 emit --target ir --datagram` prints it. It is interpreted, which is
    /// slow, unless code was generated from that very program when this switch was built.
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    program: Option<PathBuf>,
    #[command(flatten)]
    p4: P4RuntimeOptions,
    /// Slots of each queue that jobs can use, a power of two up to the number that the pipeline was built with, 8,192 if it is generated. All
    /// if not given.
    #[arg(long)]
    slots: Option<u32>,
    /// Fraction of packets to drop on purpose, in each direction.
    #[arg(long, default_value_t = 0.0, value_parser = size::loss)]
    loss: f64,
    /// More faults, as in `duplicate=0.01,reorder=0.05,delay=1ms..5ms`; overrides --loss.
    #[arg(long, value_name = "FAULTS")]
    faults: Option<FaultConfig>,
    /// Seed of all faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write every packet to this file, as Wireshark reads it; those of further packet threads to NAME-1, NAME-2 and so on.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Seconds that a job waits for its workers after the first has joined.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    join_timeout: u64,
    /// The workers' congestion-control algorithm: fixed (the window is the number of slots), aimd, dctcp, dcqcn (by marks and losses), swift
    /// (by delay), or mltcp- and one of these, with which trainings that share links come to send in turns.
    #[arg(long, value_name = "ALGORITHM", default_value = "dctcp", value_parser = super::congestion)]
    congestion: CongestionAlgorithm,
    #[command(flatten)]
    multipath: super::multipath::MultipathArgs,
    /// DSCP of packets by class: 1, 2, 4, 8 or 16 code points from 0 to 63, lowest class first; each covers an equal number of the
    /// 16 classes.
    #[arg(long, value_name = "LIST", default_value = "0", value_parser = super::dscp)]
    dscp: Dscp,
    #[command(flatten)]
    egress: EgressOptions,
    /// Also print the counters at this interval, in seconds.
    #[arg(long, value_name = "SECONDS")]
    every: Option<u32>,
    /// Stop when standard input ends, as it does when the process at its other end exits.
    #[arg(long)]
    exit_with_stdin: bool,
}

/// What is to execute the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EngineChoice {
    /// Code that was generated from the program when this command was built, or else the interpreter.
    Auto,
    /// DPDK's software pipeline, in programs built with DPDK.
    Swx,
}

type Make = Box<dyn FnMut() -> Result<Box<dyn Pipeline>, Box<dyn Error + Send + Sync>> + Send>;

/// The initial pipeline of a switch.
struct InitialPipeline {
    /// Makes each queue's pipeline.
    make: Make,
    /// What executes it.
    runner: Runner,
    /// For P4Runtime, if there is a pipeline.
    program: Option<Program>,
}

/// A running switch and its events.
struct Running {
    /// Dropped before the switch.
    server: Option<Server>,
    switch: Dataplane,
    jobs: Receiver<JobEvent>,
    runner: Runner,
}

impl Running {
    /// Packets for a P4Runtime controller that were dropped because none was connected or ready.
    fn controller_dropped(&self) -> u64 {
        self.server.as_ref().map_or(0, |server| server.packets().packets_in_dropped)
    }
}

impl SwitchCommand {
    pub(crate) fn run(mut self, output: &Output) -> Result<(), CliError> {
        if let Some(action) = self.action.take() {
            return action.run(output);
        }
        let stop = Stop::on_signals()?;
        if self.exit_with_stdin {
            stop.with_stdin();
        }
        let shortage = self.raise_descriptor_limit();
        let running = self.start()?;
        self.announce(output, &running)?;
        shortage.map_or(Ok(()), |shortage| shortage.show(output))?;
        service::notify("READY=1");
        let counted = self.attend(output, &stop, &running);
        service::notify("STOPPING=1");
        let dropped = running.controller_dropped();
        let served = running.server.map_or(Ok(()), Server::stop);
        let last = running.switch.stop(|error| self.failed(error));
        counted?;
        let last = last?;
        show_counters(output, &counters(&last, dropped, true))?;
        served.map_err(CliError::P4Runtime)
    }

    /// For the sessions of its own control port, or for P4Runtime.
    fn raise_descriptor_limit(&self) -> Option<DescriptorShortage> {
        if self.p4.address.is_some() {
            return raise_descriptor_limit(0, &[policy::P4RUNTIME]);
        }
        raise_descriptor_limit(Config::new(0).sessions_max, &[policy::WORKERS])
    }

    fn start(&self) -> Result<Running, CliError> {
        self.p4.check()?;
        if let Some(config) = self.kernel()? {
            let (on_event, jobs) = events();
            let switch = Dataplane::Kernel(Box::new(KernelSwitch::start(&config, on_event)?));
            return Ok(Running { server: None, switch, jobs, runner: Runner::Kernel });
        }
        let InitialPipeline { make, runner, program } = self.initial_pipeline()?;
        let (on_event, jobs) = events();
        let mut builder = EmbeddedSwitch::builder();
        let mixed = self.payload.len() > 1;
        if mixed {
            self.check_payloads()?;
        }
        if self.p4.address.is_some() {
            if self.threads != 1 {
                return Err(CliError::Usage(format!(
                    "--threads {} with --p4runtime: a switch under P4Runtime is one device with one pipeline: omit \
                     --threads, or start a switch for each thread",
                    self.threads
                )));
            }
            builder = builder.bare(self.p4.ports.clone());
        }
        if let Some(queues) = self.egress.config()? {
            builder = builder.queues(queues);
        }
        if let Some(slots) = self.slots {
            builder = builder.slots(slots);
        }
        builder = if mixed { builder.payloads(self.payload.clone()) } else { builder.pipeline_by(make) };
        let switch = builder
            .listen(self.listen)
            .threads(self.threads)
            .cores(self.cores.clone().unwrap_or_default())
            .busy_poll(Duration::from_micros(self.busy_poll))
            .io_from(ThreadOpener::new(self.io.clone(), netfold_dpdk::open_threads))
            .join_timeout(Duration::from_secs(self.join_timeout))
            .congestion(self.congestion)
            .multipath(self.multipath.multipath(1))
            .equal_paths(self.multipath.equal_paths()?)
            .dscp(self.dscp)
            .middleware(self.middleware())
            .on_event(on_event)
            .start()
            .map_err(|error| self.failed(error))?;
        let engine = match self.engine {
            EngineChoice::Auto => Default::default(),
            EngineChoice::Swx => ServedEngine(|program| Ok(netfold_switch_swx::pipeline(program)?)),
        };
        let server = self.p4.serve(program, engine, switch.handle())?;
        Ok(Running { server, switch: Dataplane::Threads(switch), jobs, runner })
    }

    /// Whether the switch can have several payloads.
    fn check_payloads(&self) -> Result<(), CliError> {
        let usage = |message: String| Err(CliError::Usage(message));
        let all = self.payload.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        if (1..self.payload.len()).any(|index| self.payload[..index].contains(&self.payload[index])) {
            return usage(format!(
                "--payload {all} names one twice: give each once, and --threads for more threads"
            ));
        }
        if self.p4.address.is_some() {
            return usage(format!(
                "--payload {all} with --p4runtime: a switch under P4Runtime has one pipeline: give one payload"
            ));
        }
        if self.engine != EngineChoice::Auto {
            return usage(format!("--payload {all} with --engine swx: give one payload"));
        }
        if self.numerics.is_some_and(|numerics| numerics != Numerics::Word) {
            return usage(format!(
                "--payload {all} with --numerics: other numerics than word have 1408 bytes only"
            ));
        }
        if self.io.iter().any(|io| *io != IoSpec::default()) {
            return usage(format!(
                "--payload {all} with --io: packet threads of several payloads share no interface: omit --io, or give one payload"
            ));
        }
        Ok(())
    }

    /// The middleware of each queue's packet I/O.
    fn middleware(
        &self,
    ) -> impl FnMut(Box<dyn PacketIo>) -> std::io::Result<Box<dyn PacketIo>> + Send + 'static {
        let (pcap, faults) = (self.pcap.clone(), self.faults());
        let mut queues = 0..;
        move |mut io| {
            let queue = queues.next().unwrap_or(0);
            if let Some(path) = &pcap {
                io = Box::new(Captured::create(io, numbered(path, queue), Resolution::Micro)?);
            }
            if !(faults.rx.is_none() && faults.tx.is_none()) {
                let seed = faults.seed.wrapping_add(queue);
                io = Box::new(Faulty::new(io, FaultConfig { seed, ..faults }));
            }
            Ok(io)
        }
    }

    fn faults(&self) -> FaultConfig {
        let mut faults = self.faults.unwrap_or_else(|| FaultConfig::with_loss(self.seed, self.loss));
        faults.seed = self.seed;
        faults
    }

    fn failed(&self, error: EmbeddedError) -> CliError {
        match error {
            EmbeddedError::Slots { slots, max } => {
                CliError::Usage(format!("--slots {slots} does not fit: a power of two up to {max}"))
            }
            EmbeddedError::Program(error) => self.unfit(error),
            EmbeddedError::Data(IoError::Bind { address, source })
            | EmbeddedError::Control(ServerError::Bind { address, source }) => {
                CliError::listen(address, source)
            }
            EmbeddedError::Pipeline(source) => self.unfit(source),
            EmbeddedError::Core(error) => CliError::Usage(format!("--cores: {error}")),
            EmbeddedError::Data(error) => CliError::Switch(error),
            EmbeddedError::Control(error) => CliError::Control(error),
            EmbeddedError::Middleware(source) => {
                CliError::File { path: self.pcap.clone().unwrap_or_default(), source }
            }
            EmbeddedError::Thread(source) => CliError::Spawn { name: "the switch's thread".into(), source },
            EmbeddedError::Panicked => CliError::SwitchPanicked,
            EmbeddedError::Queues(error) => {
                let cause = error.source().map_or_else(String::new, |source| format!(": {source}"));
                CliError::Usage(format!("--egress: {error}{cause}"))
            }
            other => CliError::Usage(other.to_string()),
        }
    }

    /// The initial pipeline.
    fn initial_pipeline(&self) -> Result<InitialPipeline, CliError> {
        if let Some(path) = &self.program {
            return self.read(path);
        }
        if self.p4.address.is_some() && self.payload.is_empty() && self.numerics.is_none() {
            let lane_words = PAYLOADS.into_iter().max().unwrap_or(0) / 4;
            let make = Box::new(move || Ok(Box::new(EmptyPipeline::new(lane_words)) as Box<dyn Pipeline>));
            return Ok(InitialPipeline { make, runner: Runner::Nothing, program: None });
        }
        let default = if self.engine == EngineChoice::Swx { PAYLOAD_SWX } else { PAYLOAD };
        let payload = self.payload.first().copied().unwrap_or(default);
        let numerics = self.numerics.unwrap_or(Numerics::Word);
        let none = match numerics {
            Numerics::Word => {
                format!("there is no pipeline for --payload {payload}: choose one of {PAYLOADS:?}")
            }
            other => format!(
                "there is no pipeline of {other} numerics for --payload {payload}: choose 1408, or give --program"
            ),
        };
        let program = allreduce::program(&Profile::software_with(payload / 4, numerics));
        let program = program.map_err(|error| CliError::Profile(error.to_string()))?;
        if self.engine == EngineChoice::Swx {
            return swx(program);
        }
        if numeric_pipeline(payload, numerics).is_none() {
            return Err(CliError::Usage(none));
        }
        let make = Box::new(move || numeric_pipeline(payload, numerics).ok_or_else(|| none.clone().into()));
        Ok(InitialPipeline { make, runner: Runner::Software(Engine::Generated), program: Some(program) })
    }

    /// The pipeline in a file.
    fn read(&self, path: &Path) -> Result<InitialPipeline, CliError> {
        let read = |source| CliError::Read { path: path.to_owned(), source };
        let mut text = Vec::new();
        let file = File::open(path).map_err(read)?;
        file.take(json::BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(read)?;
        let program = Program::from_json(&text).map_err(|error| self.unfit(error))?;
        if program.ipv4_checksum.is_some() {
            return Err(self.unfit("it parses Ethernet frames, but UDP delivers datagrams"));
        }
        if self.engine == EngineChoice::Swx {
            return swx(program);
        }
        let (_, engine) = pipeline_for(&program).map_err(|error| self.unfit(error))?;
        let again = program.clone();
        let make = Box::new(move || Ok(pipeline_for(&again)?.0));
        Ok(InitialPipeline { make, runner: Runner::Software(engine), program: Some(program) })
    }

    fn unfit(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> CliError {
        CliError::Program { path: self.program.clone().unwrap_or_default(), source: source.into() }
    }

    /// Description of the data path.
    fn data_path(&self, address: SocketAddr) -> String {
        match self.io.first() {
            Some(IoSpec::Shm(name, None)) => format!("shared memory '{name}', for workers on this host"),
            Some(IoSpec::Shm(name, Some(_))) => {
                format!("shared memory '{name}', and UDP {address} for all others")
            }
            _ => format!("UDP {address}"),
        }
    }

    fn announce(&self, output: &Output, running: &Running) -> Result<(), CliError> {
        let (info, address) = (running.switch.info(), running.switch.data());
        let server = running.server.as_ref().map(|server| server.local_addr().to_string());
        let (lane_bytes, bookkeeping_bytes) = (info.lane_bytes as u64, info.bookkeeping_bytes as u64);
        let state_bytes = running.switch.state_bytes();
        let slot_sets = info.entries;
        let queues: Vec<_> = running.switch.queues().into_iter().map(described).collect();
        output.event(&Event::Listening(Listening {
            address: address.to_string(),
            control: server.is_none().then(|| running.switch.control().to_string()),
            p4runtime: server.clone(),
            payload_bytes: info.lane_words * 4,
            slots: self.slots.filter(|_| server.is_none()).unwrap_or(slot_sets / 2),
            threads: if queues.len() > 1 { queues.clone() } else { Vec::new() },
            slot_sets,
            lane_bytes,
            bookkeeping_bytes,
            state_bytes,
            numerics: info.numerics.name().into(),
            pipeline: format!("{:016x}", info.fingerprint),
            engine: running.runner.name().into(),
        }))?;
        output.line(format_args!("{}", output.paint(Tone::Strong, running.switch.title())))?;
        output.line(format_args!("  data      {}", self.data_path(address)))?;
        show_queues(output, &queues)?;
        match &server {
            Some(server) => {
                let (device, security) = (self.p4.device_id, self.p4.security());
                output.line(format_args!("  control   P4Runtime {server}, device {device}, {security}"))?;
                for (port, peer) in &self.p4.ports {
                    output.line(format_args!("  port      {port} to {peer}"))?;
                }
            }
            None => output.line(format_args!("  control   TCP {}", running.switch.control()))?,
        }
        if let Dataplane::Kernel(switch) = &running.switch {
            switch.show_interfaces(output)?;
        }
        if running.runner == Runner::Nothing {
            output.line(format_args!("  pipeline  none: packets are dropped until a controller sets one"))?;
            return output.line(format_args!("Stop it with Ctrl-C.\n"));
        }
        output.line(format_args!(
            "  state     {}: {}{} slots x 2 sets x ({} of lanes + {} of bookkeeping)",
            human(state_bytes),
            if queues.len() > 1 { format!("{} threads x ", queues.len()) } else { String::new() },
            grouped(u64::from(slot_sets / 2)),
            match has_several_payloads(&queues) {
                true => "a payload".into(),
                false => format!("{} bytes", lane_bytes / u64::from(slot_sets.max(1))),
            },
            bookkeeping_bytes / u64::from(slot_sets.max(1)),
        ))?;
        output.line(format_args!(
            "  numerics  {}: for jobs of mode {}",
            info.numerics,
            info.numerics.modes()
        ))?;
        let how = running.runner.description();
        output.line(format_args!("  pipeline  {} {:016x}, {how}", info.name, info.fingerprint))?;
        output.line(format_args!("Stop it with Ctrl-C.\n"))
    }

    /// Prints events until a stop is requested or the switch ends.
    fn attend(&self, output: &Output, stop: &Stop, running: &Running) -> Result<(), CliError> {
        let every = self.every.map(|seconds| Duration::from_secs(u64::from(seconds.max(1))));
        let mut shown = Instant::now();
        let listeners = running.server.as_ref().map(Server::listener).into_iter();
        let mut connections = ConnectionLog::new(listeners.chain(running.switch.listener()));
        let served = || !running.server.as_ref().is_some_and(Server::is_finished);
        while !stop.requested() && !running.switch.is_finished() && served() {
            connections.show(output)?;
            match running.jobs.recv_timeout(POLL_INTERVAL) {
                Ok(event) => show_job(output, &event)?,
                Err(RecvTimeoutError::Timeout) => {}
                // Without a control port there are no jobs, and nothing to wait for.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL_INTERVAL),
            }
            if every.is_some_and(|every| shown.elapsed() >= every) {
                shown = Instant::now();
                if let Some(counted) = running.switch.counters() {
                    show_counters(output, &counters(&counted, running.controller_dropped(), false))?;
                }
            }
        }
        Ok(())
    }
}

/// A program for DPDK's software pipeline.
fn swx(program: Program) -> Result<InitialPipeline, CliError> {
    // What the pipeline cannot express is the command's matter, and not that of a file.
    netfold_p4::swx::print_with_objects(&program)
        .map_err(|error| CliError::Usage(format!("--engine swx: {error}")))?;
    if !netfold_switch_swx::INCLUDED {
        return Err(CliError::Usage(SwxPipelineError::NotIncluded.to_string()));
    }
    let again = program.clone();
    let make = Box::new(move || Ok(netfold_switch_swx::pipeline(&again)?));
    Ok(InitialPipeline { make, runner: Runner::Swx, program: Some(program) })
}

/// The callback for job events, and where they arrive.
fn events() -> (impl FnMut(&JobEvent) + Send + 'static, Receiver<JobEvent>) {
    let (events, jobs) = mpsc::sync_channel(EVENTS_MAX);
    let on_event = move |event: &JobEvent| {
        // A slow terminal loses lines; it does not delay the control plane.
        let _ = events.try_send(event.clone());
    };
    (on_event, jobs)
}

/// A payload that a switch can have.
pub(crate) fn payload(text: &str) -> Result<u32, String> {
    let known = text.parse().ok().filter(|bytes| PAYLOADS.contains(bytes));
    known.ok_or_else(|| format!("there is no pipeline for this payload: choose from {PAYLOADS:?}"))
}

/// A queue as events have it.
fn described(QueueAddress { data, payload, core }: QueueAddress) -> Queue {
    Queue { address: data.to_string(), payload_bytes: payload, core }
}

fn has_several_payloads(queues: &[Queue]) -> bool {
    queues.iter().any(|queue| queue.payload_bytes != queues[0].payload_bytes)
}

/// Prints the queues' addresses and cores, unless there is one that is not pinned.
fn show_queues(output: &Output, queues: &[Queue]) -> Result<(), CliError> {
    let mixed = has_several_payloads(queues);
    for (index, Queue { address, payload_bytes, core }) in queues.iter().enumerate() {
        let on = core.map(|core| format!(", on core {core}")).unwrap_or_default();
        let on = if mixed { format!("{on}, payload {payload_bytes}") } else { on };
        if queues.len() > 1 || core.is_some() {
            output.line(format_args!("  queue {index:<3} UDP {address}{on}"))?;
        }
    }
    Ok(())
}

/// The capture file of a queue: NAME.pcap, NAME-1.pcap and so on.
fn numbered(path: &Path, queue: u64) -> PathBuf {
    if queue == 0 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{queue}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn show_job(output: &Output, event: &JobEvent) -> Result<(), CliError> {
    match event {
        JobEvent::Started { name, group, tree, spec, placement, .. } => {
            let queue = placement.switches.first().copied().unwrap_or(0);
            output.event(&Event::JobStarted {
                job: name.to_string(),
                group: group.clone(),
                workers: spec.world,
                mode: spec.mode.to_string(),
                slots: placement.job().slots,
                tree: *tree,
                queue,
            })?;
            let place = if spec.trees > 1 || queue > 0 {
                format!(", tree {tree} of {} at queue {queue}", spec.trees)
            } else {
                String::new()
            };
            output.line(format_args!(
                "{}: {} workers, {}, {} slots{place}",
                subject(name, group),
                spec.world,
                spec.mode,
                placement.job().slots
            ))
        }
        JobEvent::Ended { name, group, reason, .. } => {
            output.event(&Event::JobEnded {
                job: name.to_string(),
                group: group.clone(),
                reason: reason.to_string(),
            })?;
            output.line(format_args!("{}: ended, {reason}", subject(name, group)))
        }
        JobEvent::Slowed { .. } | JobEvent::Recovered { .. } => show_slowed(output, event),
        JobEvent::Stalled { .. }
        | JobEvent::Continued { .. }
        | JobEvent::MemberLost { .. }
        | JobEvent::Resized { .. } => show_stalled(output, event),
        JobEvent::NotStarted { name, group, reason, message } if group.is_empty() => {
            refused(output, &name.to_string(), *reason, message)
        }
        JobEvent::NotStarted { name, group, reason, message } => {
            refused(output, &subject(name, group), *reason, message)
        }
        JobEvent::Refused { peer, reason, message } => refused(output, &peer.to_string(), *reason, message),
        JobEvent::SwitchFailed { job, message } => {
            output.event(&Event::Refused {
                who: format!("job {job}"),
                reason: "switch_failed".into(),
                message: message.clone(),
            })?;
            output.line(format_args!("job number {job}: not yet withdrawn: {message}"))
        }
        // A graceful leave is not printed.
        _ => Ok(()),
    }
}

fn show_slowed(output: &Output, event: &JobEvent) -> Result<(), CliError> {
    match event {
        JobEvent::Slowed { name, group, finding } => {
            output.event(&Event::JobSlowed {
                job: full_name(name, group),
                kind: finding.kind.name().into(),
                rank: finding.rank,
                amount: finding.amount,
                text: finding.to_string(),
            })?;
            output.line(format_args!("{}: {finding}", subject(name, group)))
        }
        JobEvent::Recovered { name, group, finding } => {
            output.event(&Event::JobRecovered {
                job: full_name(name, group),
                kind: finding.kind.name().into(),
                rank: finding.rank,
            })?;
            output.line(format_args!(
                "{}: no longer slowed down ({})",
                subject(name, group),
                finding.kind.name()
            ))
        }
        _ => Ok(()),
    }
}

/// A job's name, with that of its group.
fn full_name(name: &JobName, group: &str) -> String {
    if group.is_empty() { name.to_string() } else { format!("{name}/{group}") }
}

fn refused(output: &Output, who: &str, reason: Refusal, message: &str) -> Result<(), CliError> {
    output.event(&Event::Refused {
        who: who.to_owned(),
        reason: reason.name().to_owned(),
        message: message.to_owned(),
    })?;
    output.line(format_args!("refused '{who}': {message}"))
}
