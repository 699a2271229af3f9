//! `netfold p4`: prints the aggregation pipeline.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use netfold_p4::estimate::{self, Estimate};
use netfold_p4::ir::{Program, RegisterKind};
use netfold_p4::profile::{self, Encapsulation, Profile};
use netfold_p4::queueing::{self, Support};
use netfold_p4::tna::{self, Chip};
use netfold_p4::{allreduce, p4info, pna, swx, v1model, xdp};
use netfold_wire::{LaneOp, LaneOps, Numerics};
use serde::Serialize;

use crate::error::CliError;
use crate::output::Output;
use crate::size::{grouped, human};

const EMIT_EXAMPLES: &str = "\
Examples:
  netfold p4 emit --target v1model                       to standard output
  netfold p4 emit --target v1model --lanes 16 --workers 8 -o small.p4
  netfold p4 emit --target v1model -o all_reduce.p4 && p4c-bm2-ss all_reduce.p4 -o all_reduce.json";

const INFO_EXAMPLES: &str = "\
Examples:
  netfold p4 info                                        the pipeline's registers and tables
  netfold p4 info --format p4info > all_reduce.p4info.txt";

const ESTIMATE_EXAMPLES: &str = "\
Examples:
  netfold p4 estimate --target tofino1                   the target's own profile: 64 words a packet
  netfold p4 estimate --target tofino1 --lanes 256       four pipes
  netfold p4 estimate --target tofino2 --lanes 256       four passes through one pipe
  netfold p4 estimate --target tofino2 --ops sum,max --json";

const LIST_EXAMPLES: &str = "\
Examples:
  netfold p4 list                                        the named profiles
  netfold p4 list --json                                 one object per line, with key `profile`";

/// Print the aggregation pipeline as a P4 program for a target, or describe it.
#[derive(Debug, Args)]
pub(crate) struct P4 {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    #[command(after_help = EMIT_EXAMPLES)]
    Emit(Emit),
    #[command(after_help = INFO_EXAMPLES)]
    Info(Info),
    #[command(after_help = ESTIMATE_EXAMPLES)]
    Estimate(EstimateOptions),
    /// List the named profiles of the pipeline and the P4 targets that each fits.
    #[command(after_help = LIST_EXAMPLES)]
    List,
}

/// Print the pipeline as a program for a target: P4_16 for v1model, TNA, T2NA or PNA, a specification for DPDK's software pipeline, or BPF for XDP.
///
/// The same options always give the same bytes.
#[derive(Debug, Args)]
struct Emit {
    /// The target.
    #[arg(long, value_enum)]
    target: Target,
    #[command(flatten)]
    profile: ProfileOptions,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Print the pipeline's registers and tables with their sizes, or its P4Info for control planes.
#[derive(Debug, Args)]
struct Info {
    /// The output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    profile: ProfileOptions,
}

/// Estimate the pipeline's resources on a Tofino: stages, stateful units, RAMs, passes. An error with the reason if it
/// cannot fit.
#[derive(Debug, Args)]
struct EstimateOptions {
    /// The chip.
    #[arg(long, value_enum)]
    target: ChipName,
    #[command(flatten)]
    profile: ProfileOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ChipName {
    /// Tofino 1.
    Tofino1,
    /// Tofino 2.
    Tofino2,
}

impl From<ChipName> for Chip {
    fn from(name: ChipName) -> Self {
        match name {
            ChipName::Tofino1 => Self::Tofino1,
            ChipName::Tofino2 => Self::Tofino2,
        }
    }
}

/// An estimate, with `--json`.
#[derive(Serialize)]
struct Estimated<'a> {
    event: &'static str,
    #[serde(flatten)]
    estimate: &'a Estimate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// P4_16 for bmv2's simple_switch, through p4c-bm2-ss.
    V1model,
    /// P4_16 for Tofino 1.
    Tna,
    /// P4_16 for Tofino 2.
    T2na,
    /// P4_16 for NICs, through p4c-dpdk.
    Pna,
    /// A specification for DPDK's software pipeline (SWX).
    Swx,
    /// The same with registers as external objects, which what runs the pipeline must have, as `netfold switch --engine swx` does.
    SwxObjects,
    /// BPF instructions for XDP, the kernel's driver path, with the element that each comes from.
    Xdp,
    /// The pipeline as data, in JSON: what `netfold switch --program` reads.
    Ir,
}

impl Target {
    /// The target's name and the printed program, or why the target cannot run it.
    fn print(self, profile: &Profile, program: &Program) -> (&'static str, Result<String, String>) {
        let tofino = |chip| {
            estimate::estimate(profile, chip).map_err(|refusal| refusal.to_string())?;
            tna::print(program, chip).map_err(|refusal| refusal.to_string())
        };
        match self {
            Self::V1model => ("v1model", v1model::print(program).map_err(|refusal| refusal.to_string())),
            Self::Tna => ("tna", tofino(Chip::Tofino1)),
            Self::T2na => ("t2na", tofino(Chip::Tofino2)),
            Self::Pna => ("pna", pna::print(program).map_err(|refusal| refusal.to_string())),
            Self::Swx => ("swx", swx::print(program).map_err(|refusal| refusal.to_string())),
            Self::SwxObjects => {
                let printed = swx::print_with_objects(program).map_err(|refusal| refusal.to_string());
                ("swx-objects", printed.map(|printed| printed.text))
            }
            Self::Xdp => ("xdp", xdp::print(program).map_err(|refusal| refusal.to_string())),
            Self::Ir => ("ir", Ok(program.to_json())),
        }
    }

    /// The error for a profile that this target cannot run: the reason, and the named profiles that it can.
    fn refusal(self, reason: &str) -> CliError {
        let fits = |profile: &Profile| {
            allreduce::program(profile).is_ok_and(|program| self.print(profile, &program).1.is_ok())
        };
        let name = self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        does_not_fit(&name, reason, fits)
    }
}

/// The error for a profile that does not fit a target. `fits` says of a profile whether it does.
fn does_not_fit(target: &str, reason: &str, fits: impl Fn(&Profile) -> bool) -> CliError {
    let named = profile::named().into_iter().filter(|named| fits(&named.profile));
    let names: Vec<_> = named.map(|named| named.name).collect();
    CliError::Target(format!(
        "this profile does not fit the target {target}: {reason}; profiles that fit without other options: {} (--profile)",
        names.join(", ")
    ))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// An overview for people.
    Text,
    /// P4Info in protobuf's text format.
    P4info,
}

/// The pipeline's profile: a named one, with changes by options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Profile")]
struct ProfileOptions {
    /// A profile of `netfold p4 list` [default: hardware; tofino for Tofino, nic for PNA].
    #[arg(long, value_name = "NAME", value_parser = profile_name)]
    profile: Option<Profile>,
    /// 32-bit words of lanes per packet.
    #[arg(long)]
    lanes: Option<u32>,
    /// Slots of the switch, a power of two; each has two sets.
    #[arg(long)]
    slots: Option<u32>,
    /// Concurrent jobs.
    #[arg(long)]
    jobs: Option<u32>,
    /// Children of a job at one switch, at most.
    #[arg(long)]
    workers: Option<u32>,
    /// Lane operations, by code: sum, min, max, and, or, xor, sum16, min16, max16, sum8, min8, max8.
    #[arg(long, value_delimiter = ',', value_parser = lane_op)]
    ops: Option<Vec<LaneOp>>,
    /// How lanes are summed: word, saturating, wide, half or float. [default: as in the profile]
    #[arg(long, value_name = "NAME")]
    numerics: Option<Numerics>,
    /// Egress queues; 1 means no priorities.
    #[arg(long)]
    priorities: Option<u32>,
    /// Queue depth in packets at which ECN marks; 0 never marks.
    #[arg(long)]
    ecn_depth: Option<u32>,
    /// Queue depth in packets from which droppable data is trimmed at egress; 0 never trims.
    #[arg(long)]
    trim_depth: Option<u32>,
    /// Addresses whose packets are forwarded unchanged; 0 for a switch that forwards nothing.
    #[arg(long)]
    transit: Option<u32>,
    /// Whether a job's switch can have a parent.
    #[arg(long, value_name = "BOOL")]
    hierarchy: Option<bool>,
    /// Whether the lanes of a result can go to one member alone.
    #[arg(long, value_name = "BOOL")]
    owners: Option<bool>,
    /// Parse Netfold datagrams without Ethernet, IPv4 and UDP, as the software switch on sockets does.
    #[arg(long)]
    datagram: bool,
}

impl ProfileOptions {
    /// The profile; `default_profile` if none is named.
    fn profile_or(&self, default_profile: Profile) -> Profile {
        // What the software switch has code for, if nothing else is given.
        let default_profile =
            if self.datagram { Profile::software(default_profile.lane_words) } else { default_profile };
        let mut profile = self.profile.clone().unwrap_or(default_profile);
        let numbers = [
            (&mut profile.lane_words, self.lanes),
            (&mut profile.slots, self.slots),
            (&mut profile.jobs, self.jobs),
            (&mut profile.workers, self.workers),
            (&mut profile.priorities, self.priorities),
            (&mut profile.ecn_depth, self.ecn_depth),
            (&mut profile.trim_depth, self.trim_depth),
            (&mut profile.transit, self.transit),
        ];
        for (parameter, given) in numbers {
            *parameter = given.unwrap_or(*parameter);
        }
        profile.hierarchy = self.hierarchy.unwrap_or(profile.hierarchy);
        profile.owners = self.owners.unwrap_or(profile.owners);
        profile.numerics = self.numerics.unwrap_or(profile.numerics);
        profile.ops = self.ops.clone().unwrap_or(profile.ops);
        if self.datagram {
            profile.encapsulation = Encapsulation::Datagram;
            (profile.ecn_depth, profile.trim_depth, profile.transit) = (0, 0, 0);
        }
        profile
    }

    fn profile(&self) -> Profile {
        self.profile_or(Profile::hardware())
    }

    fn program(&self) -> Result<Program, CliError> {
        program_of(&self.profile())
    }
}

fn program_of(profile: &Profile) -> Result<Program, CliError> {
    allreduce::program(profile).map_err(|error| CliError::Profile(error.to_string()))
}

fn profile_name(name: &str) -> Result<Profile, String> {
    profile::by_name(name).ok_or_else(|| {
        let names: Vec<_> = profile::named().iter().map(|named| named.name).collect();
        format!("there is no profile of that name: choose one of {}", names.join(", "))
    })
}

/// A profile of the list, with `--json`.
#[derive(Serialize)]
struct Listed {
    event: &'static str,
    profile: &'static str,
    about: &'static str,
    encapsulation: &'static str,
    lane_words: u32,
    slots: u32,
    jobs: u32,
    workers: u32,
    hierarchy: bool,
    numerics: &'static str,
    ops: Vec<&'static str>,
    /// The targets for which `emit` prints it; for the others it reports an error.
    targets: Vec<&'static str>,
}

/// The P4 targets that a profile can be printed for.
fn targets(profile: &Profile) -> Result<Vec<&'static str>, CliError> {
    let program = program_of(profile)?;
    let printed = [Target::V1model, Target::Tna, Target::T2na, Target::Pna, Target::Swx, Target::Xdp]
        .map(|target| target.print(profile, &program));
    Ok(printed.into_iter().filter(|(_, text)| text.is_ok()).map(|(target, _)| target).collect())
}

fn list(output: &Output) -> Result<(), CliError> {
    for profile::NamedProfile { name, about, profile } in profile::named() {
        let targets = targets(&profile)?;
        output.event(&Listed {
            event: "profile",
            profile: name,
            about,
            encapsulation: match profile.encapsulation {
                Encapsulation::Ethernet => "ethernet",
                Encapsulation::Datagram => "datagram",
            },
            lane_words: profile.lane_words,
            slots: profile.slots,
            jobs: profile.jobs,
            workers: profile.workers,
            hierarchy: profile.hierarchy,
            numerics: profile.numerics.name(),
            targets: targets.clone(),
            ops: profile.ops.iter().map(|op| op.name()).collect(),
        })?;
        output.line(format_args!("{name:<12} {:<28} {about}", targets.join(" ")))?;
    }
    Ok(())
}

/// A printed text, with `--json`.
#[derive(Serialize)]
struct Printed<'a> {
    event: &'static str,
    format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

/// The overview of a pipeline, with `--json`.
#[derive(Serialize)]
struct Overview {
    event: &'static str,
    name: String,
    lane_words: u32,
    slots: u32,
    workers: u32,
    jobs: u32,
    /// Jobs or process groups of 2 ranks that the tables hold.
    jobs_of_2: u32,
    /// The same of 4 ranks.
    jobs_of_4: u32,
    state_bytes: u64,
    tables: Vec<Table>,
    registers: usize,
    counters: usize,
    /// The queueing features of each target.
    queueing: Vec<Support>,
}

#[derive(Serialize)]
struct Table {
    name: String,
    size: u32,
    keys: usize,
    actions: usize,
}

impl P4 {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        match self.what {
            What::Emit(emit) => emit.run(output),
            What::Info(info) => info.run(output),
            What::Estimate(options) => options.run(output),
            What::List => list(output),
        }
    }
}

impl Emit {
    fn run(self, output: &Output) -> Result<(), CliError> {
        let default_profile = match self.target {
            Target::V1model | Target::Swx | Target::SwxObjects | Target::Xdp | Target::Ir => None,
            Target::Tna | Target::T2na => Some(Profile::tofino()),
            Target::Pna => profile::by_name("nic"),
        };
        let profile = self.profile.profile_or(default_profile.unwrap_or_else(Profile::hardware));
        let program = program_of(&profile)?;
        let (name, text) = match self.target {
            Target::Ir => ("ir", program.to_json()),
            target => {
                let (name, printed) = target.print(&profile, &program);
                (name, printed.map_err(|reason| target.refusal(&reason))?)
            }
        };
        if let Some(path) = &self.output {
            std::fs::File::create(path)
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(|source| CliError::File { path: path.clone(), source })?;
        }
        print(output, name, &text, self.output)
    }
}

impl EstimateOptions {
    fn run(self, output: &Output) -> Result<(), CliError> {
        let profile = self.profile.profile_or(Profile::tofino());
        let chip = self.target.into();
        let estimate = estimate::estimate(&profile, chip).map_err(|refusal| {
            let name = self.target.to_possible_value().map(|value| value.get_name().to_owned());
            let fits = |profile: &Profile| estimate::estimate(profile, chip).is_ok();
            does_not_fit(&name.unwrap_or_default(), &refusal.to_string(), fits)
        })?;
        output.event(&Estimated { event: "p4_estimate", estimate: &estimate })?;
        output.line(format_args!("{}", estimate.to_string().trim_end_matches('\n')))
    }
}

impl Info {
    fn run(self, output: &Output) -> Result<(), CliError> {
        let program = self.profile.program()?;
        if self.format == Format::P4info {
            return print(output, "p4info", &p4info::text(&program), None);
        }
        let overview = overview(&program, &self.profile.profile());
        output.event(&overview)?;
        output.line(format_args!("{}: {}", program.name, program.about))?;
        output.line(format_args!(
            "  {} lanes of 32 bits, {} slots x 2 sets, up to {} jobs of {} workers",
            overview.lane_words, overview.slots, overview.jobs, overview.workers
        ))?;
        output.line(format_args!(
            "  tables for {} jobs or process groups of 2 ranks, {} of 4",
            overview.jobs_of_2, overview.jobs_of_4
        ))?;
        output.line(format_args!(
            "  {} of state in {} registers, {} counters",
            human(overview.state_bytes),
            overview.registers,
            overview.counters
        ))?;
        for table in &overview.tables {
            output.line(format_args!(
                "  table {:<16} {:>8} entries, {} keys, {} actions",
                table.name,
                grouped(u64::from(table.size)),
                table.keys,
                table.actions
            ))?;
        }
        for Support { target, feature, source, how } in &overview.queueing {
            let (feature, source) = (feature.name(), source.name());
            output.line(format_args!("  queues of {target:<9} {feature:<11} {source:<8} {how}"))?;
        }
        Ok(())
    }
}

/// Prints a text, or with `--json` one event that holds it. A text written to a file is not repeated.
fn print(output: &Output, format: &'static str, text: &str, file: Option<PathBuf>) -> Result<(), CliError> {
    let named = file.as_ref().map(|path| path.display().to_string());
    output.event(&Printed {
        event: "p4",
        format,
        text: named.is_none().then_some(text),
        file: named,
        bytes: text.len(),
    })?;
    if file.is_some() { Ok(()) } else { output.line(format_args!("{}", text.trim_end_matches('\n'))) }
}

/// A lane operation by its name.
pub(crate) fn lane_op(text: &str) -> Result<LaneOp, String> {
    let named = LaneOp::ALL.iter().copied().find(|op| op.name() == text);
    named.ok_or_else(|| format!("unknown lane operation '{text}': expected one of {}", LaneOps::ALL))
}

fn overview(program: &Program, profile: &Profile) -> Overview {
    let cells = |register: &netfold_p4::ir::Register| match &register.kind {
        RegisterKind::Cells(fields) => fields.len() as u64,
        RegisterKind::Lanes(_) => u64::from(program.lane_count()),
    };
    Overview {
        event: "p4_info",
        name: program.name.clone(),
        lane_words: profile.lane_words,
        slots: profile.slots,
        workers: profile.workers,
        jobs: profile.jobs,
        jobs_of_2: profile.jobs_of(2),
        jobs_of_4: profile.jobs_of(4),
        // A target stores every cell in 32 bits.
        state_bytes: program
            .registers
            .iter()
            .map(|register| u64::from(register.size) * cells(register) * 4)
            .sum(),
        tables: program
            .tables
            .iter()
            .map(|table| Table {
                name: table.name.clone(),
                size: table.size,
                keys: table.keys.len(),
                actions: table.actions.len(),
            })
            .collect(),
        registers: program.registers.len(),
        counters: program.counters.len(),
        queueing: queueing::support(),
    }
}
