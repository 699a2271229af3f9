//! `netfold job`: the jobs on the switches.

mod explain;

use std::time::Duration;

use clap::{Args, Subcommand};
use netfold::Builder;
use netfold_control::Mode;
use netfold_server::api::v1;
use tokio_stream::StreamExt as _;

use super::remote::{
    Client, ControllerOptions, Table, clock, counted, event_value, full_name, goodput, job_value, limit,
    mode_word, parse_name, retransmissions, since, stall_title, state_word, wrapped,
};
use crate::error::CliError;
use crate::lifetime::Stop;
use crate::output::{Output, Tone};
use crate::size::{Bytes, grouped, human};

/// Interval between checks for a request to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Jobs on a page of a list.
const PAGE: u32 = 1_000;

const EXAMPLES: &str = "\
Examples:
  netfold job list                              all jobs of all tenants
  netfold job list --tenant red --state running
  netfold job describe red/train                its trees, slots and workers
  netfold job explain red/train                 why it stalls, or has stalled
  netfold job declare red/train --world 8 --mode bfp16
  netfold job declare red/train --world 8 --work 1600 --compute-us 200000 --bytes 400MiB
  netfold job watch --tenant red                events, until Ctrl-C
  netfold job end red/train --message 'maintenance'";

/// Show, declare and end the jobs of a running controller.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct JobCommand {
    #[command(subcommand)]
    action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Action {
    /// List jobs.
    #[command(after_help = EXAMPLES)]
    List {
        /// Only jobs in this state: declared, forming, running or ended. May be given several times.
        #[arg(long, value_name = "STATE", value_parser = state)]
        state: Vec<v1::JobState>,
        /// Only jobs whose name contains this text.
        #[arg(long, value_name = "TEXT", default_value = "")]
        contains: String,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Show one job: trees, slots and workers.
    #[command(after_help = EXAMPLES)]
    Describe {
        /// The job, as in tenant/job.
        job: String,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Explain why a job stalls, or has stalled: who has not contributed, and what each rank did last.
    #[command(after_help = EXAMPLES)]
    Explain {
        /// The job, as in tenant/job.
        job: String,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Declare in advance what a job's workers must agree on.
    #[command(after_help = EXAMPLES)]
    Declare {
        /// The job, as in tenant/job.
        job: String,
        /// Number of workers.
        #[arg(long)]
        world: u16,
        /// Numeric mode: i32, bfp32, bfp16, saturating, wide, half or float.
        #[arg(long, default_value = "bfp16")]
        mode: Mode,
        /// Slots wanted of each tree, a power of two.
        #[arg(long, default_value_t = Builder::SLOTS_DEFAULT)]
        slots: u32,
        /// Classes of operations, a power of two.
        #[arg(long, default_value_t = 1)]
        classes: u8,
        /// Number of trees.
        #[arg(long, default_value_t = 1)]
        trees: u8,
        /// Whether its packets are authenticated.
        #[arg(long)]
        authenticated: bool,
        #[command(flatten)]
        iteration: IterationArgs,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// End a forming or running job; its workers are notified.
    #[command(after_help = EXAMPLES)]
    End {
        /// The job, as in tenant/job.
        job: String,
        /// Why, for its workers.
        #[arg(long, default_value = "")]
        message: String,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Delete the record of a job that is neither forming nor running.
    #[command(after_help = EXAMPLES)]
    Forget {
        /// The job, as in tenant/job.
        job: String,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Print events until stopped.
    #[command(after_help = EXAMPLES)]
    Watch {
        /// Only this job, as in tenant/job.
        job: Option<String>,
        #[command(flatten)]
        options: ControllerOptions,
    },
}

/// What a job does in an iteration, for a controller with `--ranking crux`.
#[derive(Debug, Args)]
struct IterationArgs {
    /// Work of an iteration, in any unit that all jobs share, as GPU milliseconds.
    #[arg(long, requires_all = ["compute_us", "bytes"], value_parser = clap::value_parser!(u64).range(1..))]
    work: Option<u64>,
    /// Compute time of an iteration, in microseconds.
    #[arg(long, value_name = "US", requires = "work")]
    compute_us: Option<u64>,
    /// Time from the start of computing to the first send, in microseconds; the end of computing if not given.
    #[arg(long, value_name = "US", requires = "work")]
    send_after_us: Option<u64>,
    /// Bytes that each worker sends in an iteration, as in 400MiB.
    #[arg(long, value_name = "SIZE", requires = "work")]
    bytes: Option<Bytes>,
}

impl IterationArgs {
    fn message(&self) -> Option<v1::Iteration> {
        let (work, compute_us, bytes) = (self.work?, self.compute_us?, self.bytes?);
        Some(v1::Iteration { work, compute_us, send_after_us: self.send_after_us, bytes: bytes.0 })
    }
}

fn state(word: &str) -> Result<v1::JobState, String> {
    let known = [v1::JobState::Declared, v1::JobState::Forming, v1::JobState::Running, v1::JobState::Ended];
    let found = known.into_iter().find(|state| state_word(*state) == word);
    found.ok_or_else(|| format!("'{word}' is not a state of a job: give declared, forming, running or ended"))
}

impl JobCommand {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        match self.action {
            Action::List { state, contains, options } => list(output, &options, &state, &contains),
            Action::Describe { job, options } => {
                let name = Some(parse_name(&job, options.tenant.as_deref()));
                let client = options.connect()?;
                describe(output, &client.wait(client.jobs().describe(v1::DescribeJobRequest { name }))?)
            }
            Action::Explain { job, options } => explain::run(output, &job, &options),
            Action::Declare {
                job,
                world,
                mode,
                slots,
                classes,
                trees,
                authenticated,
                iteration,
                options,
            } => {
                let name = Some(parse_name(&job, options.tenant.as_deref()));
                let mode = v1::Mode::from_str_name(&format!("MODE_{}", mode.name().to_uppercase()));
                let spec = v1::JobSpec {
                    world: u32::from(world),
                    mode: mode.unwrap_or_default().into(),
                    slots,
                    classes: u32::from(classes),
                    trees: u32::from(trees),
                    authenticated,
                    iteration: iteration.message(),
                };
                let client = options.connect()?;
                let request = v1::DeclareJobRequest { name, spec: Some(spec) };
                let declared = client.wait(client.jobs().declare(request))?;
                output.event(&job_value(&declared))?;
                output.line(format_args!("job '{}' declared", full_name(declared.name.as_ref())))
            }
            Action::End { job, message, options } => {
                let name = Some(parse_name(&job, options.tenant.as_deref()));
                let client = options.connect()?;
                client.wait(client.jobs().end(v1::EndJobRequest { name: name.clone(), message }))?;
                done(output, "job_ended", &full_name(name.as_ref()), "is ending")
            }
            Action::Forget { job, options } => {
                let name = Some(parse_name(&job, options.tenant.as_deref()));
                let client = options.connect()?;
                client.wait(client.jobs().forget(v1::ForgetJobRequest { name: name.clone() }))?;
                done(output, "job_forgotten", &full_name(name.as_ref()), "forgotten")
            }
            Action::Watch { job, options } => watch(output, &options, job.as_deref()),
        }
    }
}

fn done(output: &Output, event: &str, job: &str, what: &str) -> Result<(), CliError> {
    output.event(&serde_json::json!({ "event": event, "job": job }))?;
    output.line(format_args!("job '{job}' {what}"))
}

/// All pages of the list.
pub(super) fn all_jobs(
    client: &Client,
    tenant: Option<&str>,
    states: &[v1::JobState],
    contains: &str,
) -> Result<Vec<v1::Job>, CliError> {
    let mut jobs = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListJobsRequest {
            tenant: tenant.map(str::to_owned),
            states: states.iter().map(|state| *state as i32).collect(),
            contains: contains.to_owned(),
            page_size: PAGE,
            page_token,
        };
        let page = client.wait(client.jobs().list(request))?;
        jobs.extend(page.jobs);
        if page.next_page_token.is_empty() {
            return Ok(jobs);
        }
        page_token = page.next_page_token;
    }
}

fn list(
    output: &Output,
    options: &ControllerOptions,
    states: &[v1::JobState],
    contains: &str,
) -> Result<(), CliError> {
    let client = options.connect()?;
    let jobs = all_jobs(&client, options.tenant.as_deref(), states, contains)?;
    let mut table = Table::new(&[
        "job",
        "state",
        "#workers",
        "mode",
        "#trees",
        "#slots",
        "#goodput",
        "#retransmitted",
        "classes",
        "changed",
        "~last",
    ]);
    for job in &jobs {
        output.event(&job_value(job))?;
        let spec = job.spec.unwrap_or_default();
        table.row([
            full_name(job.name.as_ref()),
            state_word(job.state()),
            spec.world.to_string(),
            mode_word(spec.mode()),
            spec.trees.to_string(),
            grouped(u64::from(job.slots_held)),
            goodput(job.traffic.as_ref()),
            retransmissions(job.traffic.as_ref()),
            job.band.as_ref().map(|band| band_words(band).0).unwrap_or_default(),
            Some(since(job))
                .filter(|since| !since.is_empty())
                .map(|since| format!("{since} ago"))
                .unwrap_or_default(),
            job.last.clone(),
        ]);
    }
    table.print(output, "no jobs")
}

/// Whether a tree shares slots and why, and what it has spilled, of the packets that its workers have sent.
fn sharing(output: &Output, tree: &v1::Tree) -> Result<(), CliError> {
    headed(output, "sharing", &tree.sharing)?;
    let Some(spilled) = tree.spilled else { return Ok(()) };
    let counters = tree.members.iter().filter_map(|member| member.counters);
    let sent: u64 = counters.map(|counters| counters.packets_sent).sum();
    let part =
        if sent > 0 { format!(", {:.1} % of those sent", percent(spilled, sent)) } else { String::new() };
    output.line(format_args!("  spilled   {} contributions to the aggregator{part}", grouped(spilled)))?;
    Ok(())
}

fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all as f64
}

fn describe(output: &Output, job: &v1::Job) -> Result<(), CliError> {
    output.event(&job_value(job))?;
    let spec = job.spec.unwrap_or_default();
    let title = format!("job '{}'", full_name(job.name.as_ref()));
    output.line(format_args!("{}", output.paint(Tone::Strong, &title)))?;
    output.line(format_args!(
        "  state     {}{}{}",
        state_word(job.state()),
        if job.declared { " (declared)" } else { "" },
        if job.changed_s == 0 { String::new() } else { format!(", for {}", since(job)) }
    ))?;
    output.line(format_args!(
        "  requests  {}, {}, {} slots a tree, {}, {}{}",
        counted(spec.world, "worker", "workers"),
        mode_word(spec.mode()),
        grouped(u64::from(spec.slots)),
        counted(spec.classes, "class", "classes"),
        counted(spec.trees, "tree", "trees"),
        if spec.authenticated { ", authenticated packets" } else { "" }
    ))?;
    output.line(format_args!("  holds     {} slots", grouped(u64::from(job.slots_held))))?;
    output.line(format_args!("  epoch     {}", job.epoch))?;
    membership(output, job)?;
    rank_among_jobs(output, job)?;
    traffic(output, job)?;
    pattern(output, job)?;
    paths(output, job)?;
    findings(output, &job.findings)?;
    stalls(output, job)?;
    if !job.last.is_empty() {
        output.line(format_args!("  last      {}", job.last))?;
    }
    for tree in &job.trees {
        output.line(format_args!(
            "\ntree {}: {}, job number {}, epoch {}, {} slots at each switch",
            tree.tree,
            tree.phase,
            limit(tree.number),
            limit(tree.epoch),
            limit(tree.slots)
        ))?;
        let mut places = Table::new(&["  switch", "below", "#first slot", "#slots", "#workers"]);
        for place in &tree.places {
            let parent = if place.parent.is_empty() { "(root)".to_owned() } else { place.parent.clone() };
            places.row([
                format!("  {}", place.switch),
                parent,
                place.first_slot.to_string(),
                format!("{}{}", place.slots, if place.shared { " shared" } else { "" }),
                place.workers.to_string(),
            ]);
        }
        places.print(output, "  no place yet")?;
        sharing(output, tree)?;
        let mut members =
            Table::new(&["  rank", "address", "switch", "state", "#packets sent", "#retransmitted"]);
        for member in &tree.members {
            members.row([
                format!("  {}", member.rank),
                member.endpoint.clone(),
                member.switch.clone(),
                member.state.clone(),
                member.counters.map(|counters| grouped(counters.packets_sent)).unwrap_or_default(),
                member.counters.map(|counters| grouped(counters.packets_retransmitted)).unwrap_or_default(),
            ]);
        }
        members.print(output, "  no workers yet")?;
    }
    groups(output, job)
}

/// Prints the membership of a resizable job.
fn membership(output: &Output, job: &v1::Job) -> Result<(), CliError> {
    let Some(membership) = &job.membership else { return Ok(()) };
    let mut text = format!(
        "generation {}: {}, {} present",
        membership.generation,
        counted(membership.world, "rank", "ranks"),
        membership.present
    );
    if !membership.lost.is_empty() {
        let ranks: Vec<String> = membership.lost.iter().map(u32::to_string).collect();
        text.push_str(&format!(", lost: {}", ranks.join(", ")));
    }
    if membership.asked > 0 {
        text.push_str(&format!(", {} wait for the next generation", membership.asked));
    }
    if membership.joining > 0 {
        text.push_str(&format!(", {} wait to join", membership.joining));
    }
    output.line(format_args!("  members   {text}"))
}

/// Prints its iterations as measured, and what the schedule does about it.
fn pattern(output: &Output, job: &v1::Job) -> Result<(), CliError> {
    if let Some(pattern) = &job.pattern {
        let ms = |micros: u64| micros as f64 / 1e3;
        output.line(format_args!(
            "  pattern   every {:.1} ms: computes {:.1} ms, communicates {:.1} ms; each worker sends {}",
            ms(pattern.period_us),
            ms(pattern.compute_us),
            ms(pattern.send_us),
            human(pattern.bytes),
        ))?;
        output.line(format_args!(
            "            confidence {:.0} %, {} measured by {}",
            100.0 * pattern.confidence,
            counted(u32::try_from(pattern.iterations).unwrap_or(u32::MAX), "iteration", "iterations"),
            counted(pattern.members, "worker", "workers"),
        ))?;
        if pattern.contradicts {
            let text = "its declared iteration differs from this and is ignored: declare it again";
            output.line(format_args!("            {}", output.paint(Tone::Bad, text)))?;
        }
    }
    headed(output, "schedule", &job.schedule)?;
    headed(output, "placement", &job.placement)
}

/// Prints a text of several lines; nothing, if it is empty.
fn headed(output: &Output, heading: &str, text: &str) -> Result<(), CliError> {
    for (at, line) in wrapped(text, COLUMNS_MAX).iter().enumerate() {
        output.line(format_args!("  {:<10}{line}", if at == 0 { heading } else { "" }))?;
    }
    Ok(())
}

/// Prints how its workers use their paths.
fn paths(output: &Output, job: &v1::Job) -> Result<(), CliError> {
    /// What a worker avoids is much the same for all.
    const SHOWN_MAX: usize = 4;
    let Some(paths) = &job.paths else { return Ok(()) };
    output.line(format_args!(
        "  paths     {} a worker, {}; {} avoided, as {} report{}",
        paths.udp_ports,
        paths.policy,
        paths.avoided_count,
        counted(paths.members, "worker", "workers"),
        if paths.members == 1 { "s" } else { "" }
    ))?;
    if paths.exact > 0 {
        let workers = counted(paths.exact, "worker", "workers");
        let verb = if paths.exact == 1 { "uses" } else { "use" };
        output
            .line(format_args!("            {workers} {verb} ports that spread exactly over equal paths"))?;
    }
    for avoided in paths.avoided.iter().take(SHOWN_MAX) {
        let took = match avoided.round_trip_us {
            0 => String::new(),
            micros => format!(", a probe took {:.2} ms", f64::from(micros) / 1e3),
        };
        output.line(format_args!(
            "            rank {} in tree {} sends {:.1} % by path {}{took}",
            avoided.rank,
            avoided.tree,
            100.0 * avoided.share,
            avoided.path
        ))?;
    }
    match (paths.avoided_count as usize).saturating_sub(SHOWN_MAX) {
        0 => Ok(()),
        more => output.line(format_args!("            and {more} more")),
    }
}

/// Characters of a line beside a heading.
const COLUMNS_MAX: usize = 86;

/// Prints its last stalls.
fn stalls(output: &Output, job: &v1::Job) -> Result<(), CliError> {
    for stall in &job.stalls {
        output.line(format_args!("  stalled   {}", stall_title(stall)))?;
        for line in wrapped(&stall.conclusion, COLUMNS_MAX) {
            let tone = if stall.ended.is_empty() { output.paint(Tone::Bad, &line) } else { line };
            output.line(format_args!("            {tone}"))?;
        }
    }
    if job.stalls.is_empty() {
        return Ok(());
    }
    let name = full_name(job.name.as_ref());
    output.line(format_args!("            netfold job explain {name} prints what is known of it"))
}

/// Prints what slows a job or a group down.
fn findings(output: &Output, findings: &[v1::Finding]) -> Result<(), CliError> {
    for finding in findings {
        output.line(format_args!("  slowed    {}", output.paint(Tone::Bad, &finding.text)))?;
    }
    Ok(())
}

/// Prints its groups.
fn groups(output: &Output, job: &v1::Job) -> Result<(), CliError> {
    if job.groups.is_empty() {
        return Ok(());
    }
    output.line(format_args!("\ngroups: {}", job.groups.len()))?;
    let mut table = Table::new(&[
        "  group",
        "state",
        "#workers",
        "mode",
        "#slots",
        "#epoch",
        "#goodput",
        "#retransmitted",
    ]);
    for group in &job.groups {
        let spec = group.spec.unwrap_or_default();
        table.row([
            format!("  {}", group.group),
            state_word(group.state()),
            spec.world.to_string(),
            mode_word(spec.mode()),
            grouped(u64::from(group.slots_held)),
            group.epoch.to_string(),
            goodput(group.traffic.as_ref()),
            retransmissions(group.traffic.as_ref()),
        ]);
    }
    table.print(output, "  no groups")?;
    for group in &job.groups {
        for finding in &group.findings {
            let text = output.paint(Tone::Bad, &finding.text);
            output.line(format_args!("  group '{}' is slowed down: {text}", group.group))?;
        }
    }
    Ok(())
}

/// Prints its goodput and retransmissions, in the last seconds and in all.
fn traffic(output: &Output, job: &v1::Job) -> Result<(), CliError> {
    let Some(traffic) = &job.traffic else { return Ok(()) };
    let totals = traffic.totals.unwrap_or_default();
    output.line(format_args!(
        "  goodput   {} for each worker; {} of packets retransmitted",
        goodput(job.traffic.as_ref()),
        retransmissions(job.traffic.as_ref())
    ))?;
    output.line(format_args!(
        "  in all    {} of tensors, {} packets sent ({} retransmitted), {} results",
        human(totals.tensor_bytes),
        grouped(totals.packets_sent),
        grouped(totals.packets_retransmitted),
        grouped(totals.results_received)
    ))
}

/// Prints its classes of packets, and the iteration that determines them.
fn rank_among_jobs(output: &Output, job: &v1::Job) -> Result<(), CliError> {
    if let Some(band) = &job.band {
        let (classes, dscp) = band_words(band);
        output.line(format_args!("  packets   of classes {classes}, DSCP {dscp}"))?;
    }
    let Some(iteration) = job.spec.and_then(|spec| spec.iteration) else { return Ok(()) };
    output.line(format_args!(
        "  iteration work {}, {} us of computing, sends {} bytes after {} us",
        grouped(iteration.work),
        grouped(iteration.compute_us),
        grouped(iteration.bytes),
        grouped(iteration.send_after_us.unwrap_or(iteration.compute_us))
    ))
}

/// A band's classes, as in `8-11`, and their code points, lowest class first.
fn band_words(band: &v1::Band) -> (String, String) {
    let classes = match band.classes {
        0 | 1 => band.first.to_string(),
        classes => format!("{}-{}", band.first, band.first.saturating_add(classes - 1)),
    };
    let mut points = band.dscp.clone();
    points.dedup();
    let points: Vec<String> = points.iter().map(ToString::to_string).collect();
    (classes, if points.is_empty() { "0".to_owned() } else { points.join(",") })
}

fn watch(output: &Output, options: &ControllerOptions, job: Option<&str>) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let client = options.connect()?;
    let name = job.map(|job| parse_name(job, options.tenant.as_deref()));
    let request = v1::WatchRequest {
        tenant: name.as_ref().map(|name| name.tenant.clone()).or_else(|| options.tenant.clone()),
        job: name.map(|name| name.job).unwrap_or_default(),
    };
    let mut answers = client.wait(client.jobs().watch(request))?;
    while !stop.requested() {
        let Some(next) = client.within(POLL_INTERVAL, answers.next()) else { continue };
        let Some(answer) = next else { break };
        let answer = answer.map_err(|status| client.refused(&status))?;
        match (&answer.event, &answer.job) {
            (Some(event), _) => show(output, event)?,
            (None, Some(job)) => describe(output, job)?,
            (None, None) => {}
        }
    }
    if stop.requested() { Err(CliError::Interrupted) } else { Ok(()) }
}

fn show(output: &Output, event: &v1::Event) -> Result<(), CliError> {
    output.event(&event_value(event))?;
    // Messages are sentences that name their subject.
    output.line(format_args!("{}  {:<16} {}", clock(event.at_ms), event.kind, event.message))
}
