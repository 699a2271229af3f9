//! `netfold link`: the links between the switches of a running controller.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use netfold_server::api::v1;

use super::remote::{Client, ControllerOptions, Table, full_name, link_value, percent};
use crate::error::CliError;
use crate::output::{Output, Tone};
use crate::size::{bits_per_second, bytes_per_second};

/// Pause between two looks at a link that is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  netfold link list                          demand and traffic of the links of a running controller
  netfold link describe leaf1 spine2         the jobs over a link, and what each demands
  netfold link drain leaf1 spine2 --wait     no further jobs there; jobs move, and the command waits for that
  netfold link undrain leaf1 spine2";

/// Show the links between a controller's switches, and drain them for maintenance.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LinkCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the links between switches.
    #[command(after_help = EXAMPLES)]
    List {
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Show the jobs over a link.
    #[command(after_help = EXAMPLES)]
    Describe {
        #[command(flatten)]
        ends: Ends,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Make a controller place no further jobs on a link, and move those that run there to other links.
    #[command(after_help = EXAMPLES)]
    Drain {
        #[command(flatten)]
        ends: Ends,
        /// Also withdraw the jobs that cannot be moved: they continue without a switch, if they can.
        #[arg(long)]
        evict: bool,
        /// Wait until no job uses the link; fail if some stay.
        #[arg(long)]
        wait: bool,
        /// Seconds to wait at most.
        #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "wait", value_parser = clap::value_parser!(u64).range(1..=86_400))]
        timeout: u64,
        #[command(flatten)]
        options: ControllerOptions,
    },
    /// Make a controller place jobs on a link again.
    #[command(after_help = EXAMPLES)]
    Undrain {
        #[command(flatten)]
        ends: Ends,
        #[command(flatten)]
        options: ControllerOptions,
    },
}

/// The switches that a link is between.
#[derive(Debug, Args)]
struct Ends {
    /// Name of the switch at one end.
    #[arg(value_name = "LEAF")]
    a: String,
    /// Name of the switch at the other end; all links between the two are meant.
    #[arg(value_name = "SPINE")]
    b: String,
}

impl LinkCommand {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        match self.action {
            Action::List { options } => list(output, &links(&options.connect()?, options.tenant)?),
            Action::Describe { ends, options } => {
                let all = links(&options.connect()?, options.tenant)?;
                let named: Vec<&v1::Link> = all.iter().filter(|link| ends.are_of(link)).collect();
                if named.is_empty() {
                    let message =
                        format!("there is no link '{} - {}': list them to see the names", ends.a, ends.b);
                    return Err(CliError::Refused { reason: "not_found".into(), message });
                }
                named.into_iter().try_for_each(|link| describe(output, link))
            }
            Action::Drain { ends, evict, wait, timeout, options } => {
                let client = options.connect()?;
                let mut drained = drain(&client, &ends, true, evict)?;
                if wait {
                    drained = wait_until_free(&client, &ends, Duration::from_secs(timeout))?;
                }
                drained.iter().try_for_each(|link| output.event(&link_value(link)))?;
                show_drained(output, &ends, &drained)
            }
            Action::Undrain { ends, options } => {
                let links = drain(&options.connect()?, &ends, false, false)?;
                links.iter().try_for_each(|link| output.event(&link_value(link)))?;
                output.line(format_args!("link '{} - {}' takes jobs", ends.a, ends.b))
            }
        }
    }
}

impl Ends {
    fn are_of(&self, link: &v1::Link) -> bool {
        (&link.a, &link.b) == (&self.a, &self.b) || (&link.a, &link.b) == (&self.b, &self.a)
    }
}

fn links(client: &Client, tenant: Option<String>) -> Result<Vec<v1::Link>, CliError> {
    Ok(client.wait(client.switches().list(v1::ListSwitchesRequest { tenant }))?.links)
}

fn drain(client: &Client, ends: &Ends, drained: bool, evict: bool) -> Result<Vec<v1::Link>, CliError> {
    let request = v1::DrainLinkRequest { a: ends.a.clone(), b: ends.b.clone(), drained, evict };
    Ok(client.wait(client.switches().drain_link(request))?.links)
}

/// Waits until no tree uses the links.
fn wait_until_free(client: &Client, ends: &Ends, most: Duration) -> Result<Vec<v1::Link>, CliError> {
    let end = Instant::now() + most;
    loop {
        let mut links = links(client, None)?;
        links.retain(|link| ends.are_of(link));
        let left: u32 = links.iter().map(|link| link.trees).sum();
        if left == 0 {
            return Ok(links);
        }
        let staying: Vec<String> = links.iter().flat_map(|link| &link.jobs).filter_map(stays).collect();
        let all_stay = usize::try_from(left).is_ok_and(|left| left == staying.len());
        if all_stay || Instant::now() >= end {
            return Err(still_used(ends, left, &staying, most));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn still_used(ends: &Ends, trees: u32, staying: &[String], most: Duration) -> CliError {
    let link = format!("link '{} - {}' is drained, and {trees} of its trees stay", ends.a, ends.b);
    let message = match staying.is_empty() {
        true => format!("{link}: they have not been moved within {} s", most.as_secs()),
        false => format!("{link}: {}; end these jobs, or withdraw them by --evict", staying.join("; ")),
    };
    CliError::Refused { reason: "conflict".into(), message }
}

/// Why a tree stays at a drained link, with its job's name.
fn stays(job: &v1::LinkJob) -> Option<String> {
    (!job.stays.is_empty()).then(|| format!("{}: {}", tree_name(job), job.stays))
}

fn tree_name(job: &v1::LinkJob) -> String {
    let name = full_name(job.job.as_ref());
    match job.group.as_str() {
        "" => name,
        group => format!("{name}, group {group}"),
    }
}

fn show_drained(output: &Output, ends: &Ends, links: &[v1::Link]) -> Result<(), CliError> {
    let left: u32 = links.iter().map(|link| link.trees).sum();
    let uses = match left {
        0 => "it is free".to_owned(),
        1 => "1 tree uses it still".to_owned(),
        left => format!("{left} trees use it still"),
    };
    output.line(format_args!("link '{} - {}' takes no more jobs; {uses}", ends.a, ends.b))?;
    for text in links.iter().flat_map(|link| &link.jobs).filter_map(stays) {
        output.line(format_args!("  {text}"))?;
    }
    Ok(())
}

fn state(link: &v1::Link) -> &'static str {
    match (link.up, link.drained) {
        (false, _) => "down",
        (true, true) => "drained",
        (true, false) => "up",
    }
}

fn list(output: &Output, links: &[v1::Link]) -> Result<(), CliError> {
    let mut table = Table::new(&[
        "link",
        "state",
        "#trees",
        "#rate",
        "#demand",
        "#of rate",
        "#measured",
        "#traffic",
        "#retransmitted",
    ]);
    for link in links {
        output.event(&link_value(link))?;
        let traffic = |show: fn(v1::LinkTraffic) -> String| link.traffic.map(show).unwrap_or_default();
        table.row([
            format!("{} - {}", link.a, link.b),
            state(link).to_owned(),
            link.trees.to_string(),
            bits_per_second(link.rate),
            bits_per_second(link.demand),
            share(link.demand, link.rate),
            share(link.demand_measured, link.demand),
            traffic(|traffic| bytes_per_second(traffic.bytes_per_second)),
            traffic(|traffic| percent(traffic.retransmission_ratio)),
        ]);
    }
    table.print(output, "no links between switches")
}

/// A part of a whole in percent; empty where there is no whole.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

fn describe(output: &Output, link: &v1::Link) -> Result<(), CliError> {
    output.event(&link_value(link))?;
    let title = format!("link '{} - {}'", link.a, link.b);
    output.line(format_args!("{}", output.paint(Tone::Strong, &title)))?;
    output.line(format_args!("  state     {}", state(link)))?;
    output.line(format_args!("  rate      {}", bits_per_second(link.rate)))?;
    output.line(format_args!(
        "  demand    {}, {} of the rate; {} measured\n",
        bits_per_second(link.demand),
        share(link.demand, link.rate),
        bits_per_second(link.demand_measured)
    ))?;
    let mut table = Table::new(&["job", "#tree", "#demand", "by", "~stays"]);
    for job in &link.jobs {
        table.row([
            tree_name(job),
            job.tree.to_string(),
            bits_per_second(job.demand),
            job.source.clone(),
            job.stays.clone(),
        ]);
    }
    table.print(output, "no job uses it")?;
    match link.trees as usize - link.jobs.len().min(link.trees as usize) {
        0 => Ok(()),
        more => output.line(format_args!("and {more} more trees")),
    }
}
