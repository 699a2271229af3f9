//! `netfold switch`: a software switch with its control port, until it is told to stop.

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use clap::Args;
use netfold_controller::{JobEvent, ServerError};
use netfold_embedded::{EmbeddedError, EmbeddedSwitch};
use netfold_io::IoError;
use netfold_io::fault::{FaultConfig, Faulty};
use netfold_io::pcap::{Captured, Resolution};
use netfold_p4::ir::Program;
use netfold_p4::json;
use netfold_switch::{Engine, PAYLOADS, Pipeline, SwitchCounters, numeric_pipeline, pipeline_for};
use netfold_wire::UDP_PORT;
use netfold_wire::control::{Numerics, Refusal};

use crate::error::{CliError, refusal_name};
use crate::event::{Counters, Event, Listening};
use crate::lifetime::Stop;
use crate::output::{Output, Tone};
use crate::size::{self, grouped, human};

/// How often the command looks at the request to stop.
const GLANCE: Duration = Duration::from_millis(50);

/// Job events that wait to be printed; more are dropped, since the control plane must not wait for a terminal.
const EVENTS_MAX: usize = 256;

const EXAMPLES: &str = "\
Examples:
  netfold switch                                   on this machine only, port 20038
  netfold switch --listen 0.0.0.0:20038            for workers on other hosts
  netfold switch --loss 0.02 --seed 7              loses packets on purpose
  netfold switch --pcap switch.pcap                for Wireshark

Workers use the same port by TCP (to join) and UDP (for data).";

/// Run a software switch until it is told to stop.
///
/// Prints what state memory it holds, which jobs come and go, and on SIGINT or SIGTERM what it has counted.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SwitchCommand {
    /// Address of the data path (UDP) and of the control port (TCP); port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([127, 0, 0, 1], UDP_PORT)))]
    listen: SocketAddr,
    /// Payload of a packet in bytes: 256, 1408 (for an MTU of 1500) or 8192 (for jumbo frames).
    #[arg(long, default_value_t = 1408)]
    payload: u32,
    /// How lanes are folded: word (jobs of mode i32, bfp32, bfp16), saturating, wide, half or float (jobs of that mode).
    #[arg(long, default_value_t = Numerics::Word, conflicts_with = "program")]
    numerics: Numerics,
    /// Run the pipeline in this file, as `netfold p4 emit --target ir --datagram` prints it. It is interpreted, which is
    /// slow, unless code was generated from that very program when this switch was built.
    #[arg(long, value_name = "FILE", conflicts_with = "payload")]
    program: Option<PathBuf>,
    /// Slots to share out among jobs, a power of two up to what the pipeline was built with.
    #[arg(long, default_value_t = netfold_p4::profile::SLOTS_DEFAULT)]
    slots: u32,
    /// Share of packets to lose on purpose, each way.
    #[arg(long, default_value_t = 0.0, value_parser = size::loss)]
    loss: f64,
    /// More faults, as in `duplicate=0.01,reorder=0.05,delay=1ms..5ms`; overrides --loss.
    #[arg(long, value_name = "FAULTS")]
    faults: Option<FaultConfig>,
    /// Seed of all faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write every packet to this file, as Wireshark reads it.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Seconds that a job waits for its workers, from the first.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    join_timeout: u64,
    /// Print the counters every so many seconds as well.
    #[arg(long, value_name = "SECONDS")]
    every: Option<u32>,
    /// Stop when standard input ends, as it does when the process at its other end is gone.
    #[arg(long)]
    exit_with_stdin: bool,
}

/// A switch that runs, and what it has to say.
struct Running {
    switch: EmbeddedSwitch,
    jobs: Receiver<JobEvent>,
    engine: Engine,
}

impl SwitchCommand {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        let stop = Stop::on_signals()?;
        if self.exit_with_stdin {
            stop.with_stdin();
        }
        let running = self.start()?;
        self.announce(output, &running)?;
        let counted = self.attend(output, &stop, &running);
        let last = running.switch.stop();
        counted?;
        show_counters(output, &counters(&last.map_err(|error| self.failed(error))?, true))
    }

    fn start(&self) -> Result<Running, CliError> {
        let (pipeline, engine) = self.pipeline()?;
        let (events, jobs) = mpsc::sync_channel(EVENTS_MAX);
        let (pcap, faults) = (self.pcap.clone(), self.faults());
        let switch = EmbeddedSwitch::builder()
            .listen(self.listen)
            .pipeline(pipeline)
            .slots(self.slots)
            .join_timeout(Duration::from_secs(self.join_timeout))
            .middleware(move |mut io| {
                if let Some(path) = pcap {
                    io = Box::new(Captured::create(io, path, Resolution::Micro)?);
                }
                if !(faults.rx.is_none() && faults.tx.is_none()) {
                    io = Box::new(Faulty::new(io, faults));
                }
                Ok(io)
            })
            .on_event(move |event| {
                // A terminal that does not keep up costs lines, not the control plane's time.
                let _ = events.try_send(event.clone());
            })
            .start()
            .map_err(|error| self.failed(error))?;
        Ok(Running { switch, jobs, engine })
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
            EmbeddedError::Data(error) => CliError::Switch(error),
            EmbeddedError::Control(error) => CliError::Control(error),
            EmbeddedError::Middleware(source) => {
                CliError::File { path: self.pcap.clone().unwrap_or_default(), source }
            }
            EmbeddedError::Thread(source) => CliError::Spawn { name: "the switch's thread".into(), source },
            EmbeddedError::Panicked => CliError::SwitchPanicked,
            other => CliError::Usage(other.to_string()),
        }
    }

    /// The pipeline that was asked for, and what runs it.
    fn pipeline(&self) -> Result<(Box<dyn Pipeline>, Engine), CliError> {
        let payload = self.payload;
        let Some(path) = &self.program else {
            let pipeline = numeric_pipeline(payload, self.numerics).ok_or_else(|| {
                CliError::Usage(match self.numerics {
                    Numerics::Word => {
                        format!("there is no pipeline for --payload {payload}: choose one of {PAYLOADS:?}")
                    }
                    other => format!(
                        "there is no pipeline of {other} numerics for --payload {payload}: choose 1408, or give --program"
                    ),
                })
            })?;
            return Ok((pipeline, Engine::Generated));
        };
        let read = |source| CliError::Read { path: path.clone(), source };
        let mut text = Vec::new();
        let file = File::open(path).map_err(read)?;
        file.take(json::BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(read)?;
        let program = Program::from_json(&text).map_err(|error| self.unfit(error))?;
        if program.ipv4_checksum.is_some() {
            return Err(self.unfit("it parses Ethernet frames, but over UDP come datagrams"));
        }
        pipeline_for(&program).map_err(|error| self.unfit(error))
    }

    fn unfit(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> CliError {
        CliError::Program { path: self.program.clone().unwrap_or_default(), source: source.into() }
    }

    fn announce(&self, output: &Output, running: &Running) -> Result<(), CliError> {
        let (info, address) = (running.switch.info(), running.switch.data());
        let engine = match running.engine {
            Engine::Generated => "generated",
            Engine::Interpreter => "interpreter",
        };
        let (lane_bytes, bookkeeping_bytes) = (info.lane_bytes as u64, info.bookkeeping_bytes as u64);
        let state_bytes = lane_bytes + bookkeeping_bytes;
        let slot_sets = info.entries;
        output.event(&Event::Listening(Listening {
            address: address.to_string(),
            control: running.switch.control().to_string(),
            payload_bytes: info.lane_words * 4,
            slots: self.slots,
            slot_sets,
            lane_bytes,
            bookkeeping_bytes,
            state_bytes,
            numerics: info.numerics.name().into(),
            pipeline: format!("{:016x}", info.fingerprint),
            engine: engine.into(),
        }))?;
        output.line(format_args!("{}", output.paint(Tone::Strong, "Netfold software switch")))?;
        output.line(format_args!("  data      UDP {address}"))?;
        output.line(format_args!("  control   TCP {}", running.switch.control()))?;
        output.line(format_args!(
            "  state     {}: {} slots x 2 sets x ({} bytes of lanes + {} of bookkeeping)",
            human(state_bytes),
            grouped(u64::from(slot_sets / 2)),
            lane_bytes / u64::from(slot_sets.max(1)),
            bookkeeping_bytes / u64::from(slot_sets.max(1)),
        ))?;
        output.line(format_args!(
            "  numerics  {}: for jobs of mode {}",
            info.numerics,
            info.numerics.modes()
        ))?;
        let how = match running.engine {
            Engine::Generated => "code generated from it",
            Engine::Interpreter => "interpreted",
        };
        output.line(format_args!("  pipeline  {} {:016x}, {how}", info.name, info.fingerprint))?;
        output.line(format_args!("Stop it with Ctrl-C.\n"))
    }

    /// Prints what happens until a stop is asked for or the switch ends.
    fn attend(&self, output: &Output, stop: &Stop, running: &Running) -> Result<(), CliError> {
        let every = self.every.map(|seconds| Duration::from_secs(u64::from(seconds.max(1))));
        let mut shown = Instant::now();
        while !stop.requested() && !running.switch.is_finished() {
            match running.jobs.recv_timeout(GLANCE) {
                Ok(event) => show_job(output, &event)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if every.is_some_and(|every| shown.elapsed() >= every) {
                shown = Instant::now();
                if let Some(counted) = running.switch.counters() {
                    show_counters(output, &counters(&counted, false))?;
                }
            }
        }
        Ok(())
    }
}

fn show_job(output: &Output, event: &JobEvent) -> Result<(), CliError> {
    match event {
        JobEvent::Started { name, world, mode, placement, .. } => {
            output.event(&Event::JobStarted {
                job: name.clone(),
                workers: *world,
                mode: mode.to_string(),
                slots: placement.slots,
            })?;
            output.line(format_args!("job '{name}': {world} workers, {mode}, {} slots", placement.slots))
        }
        JobEvent::Ended { name, reason, .. } => {
            output.event(&Event::JobEnded { job: name.clone(), reason: reason.to_string() })?;
            output.line(format_args!("job '{name}': over, {reason}"))
        }
        JobEvent::NotStarted { name, reason, message } => refused(output, name, *reason, message),
        JobEvent::Refused { peer, reason, message } => refused(output, &peer.to_string(), *reason, message),
        JobEvent::SwitchFailed { job, message } => {
            output.event(&Event::Refused {
                who: format!("job {job}"),
                reason: "switch_failed".into(),
                message: message.clone(),
            })?;
            output.line(format_args!("job number {job}: not withdrawn yet: {message}"))
        }
        // That a member left in peace is not worth a line.
        _ => Ok(()),
    }
}

fn refused(output: &Output, who: &str, reason: Refusal, message: &str) -> Result<(), CliError> {
    output.event(&Event::Refused {
        who: who.to_owned(),
        reason: refusal_name(reason).to_owned(),
        message: message.to_owned(),
    })?;
    output.line(format_args!("refused '{who}': {message}"))
}

fn counters(counted: &SwitchCounters, last: bool) -> Counters {
    Counters {
        last,
        packets_in: counted.io.rx_packets,
        bytes_in: counted.io.rx_bytes,
        packets_out: counted.io.tx_packets,
        bytes_out: counted.io.tx_bytes,
        results: counted.results,
        repeated: counted.repeated,
        unknown_source: counted.unknown_source,
        output_dropped: counted.output_dropped,
        fault_dropped: counted.io.fault_dropped,
        capture_failed: counted.io.capture_failed,
        packets: counted.packets.iter().map(|&(reason, count)| (reason.to_owned(), count)).collect(),
    }
}

fn show_counters(output: &Output, c: &Counters) -> Result<(), CliError> {
    output.event(&Event::Counters(c.clone()))?;
    output.line(format_args!(
        "in {} packets ({}), out {} ({}); {} results, {} repeated",
        grouped(c.packets_in),
        human(c.bytes_in),
        grouped(c.packets_out),
        human(c.bytes_out),
        grouped(c.results),
        grouped(c.repeated)
    ))?;
    let reasons = c.packets.iter().map(|(reason, &count)| (reason.as_str(), count));
    let others = [
        ("unknown source", c.unknown_source),
        ("output full", c.output_dropped),
        ("lost on purpose", c.fault_dropped),
        ("not captured", c.capture_failed),
    ];
    for (reason, count) in reasons.filter(|(reason, _)| *reason != "none").chain(others) {
        if count > 0 {
            output.line(format_args!("  {reason:<16}{:>12}", grouped(count)))?;
        }
    }
    Ok(())
}
