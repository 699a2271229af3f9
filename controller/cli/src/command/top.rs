//! `netfold top`: a live overview of a running controller.

mod view;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use clap::Args;
use netfold_server::api::v1;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use tokio_stream::StreamExt as _;
use tonic::Streaming;

use super::job::all_jobs;
use super::remote::{Client, ControllerOptions, event_value, job_value, link_values, switch_value};
use crate::error::CliError;
use crate::lifetime::Stop;
use crate::output::Output;
use view::Scene;

/// Size of a frame printed as text, in characters.
const WIDTH: u16 = 100;
const HEIGHT_MAX: u16 = 60;

/// Most events shown.
const EVENTS_MAX: usize = 50;

/// Timeout of waiting for a key.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  netfold top                          until q is pressed
  netfold top --once                   one frame as text
  netfold top --tenant red --every 5   one tenant's jobs, every 5 s";

/// Show a controller's switches, jobs and events, live, until q is pressed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopCommand {
    /// Print one frame as text and end.
    #[arg(long)]
    once: bool,
    /// Seconds between updates.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    every: u32,
    #[command(flatten)]
    options: ControllerOptions,
}

impl TopCommand {
    pub(crate) fn run(self, output: &Output) -> Result<(), CliError> {
        let client = self.options.connect()?;
        if output.is_json() {
            return self.fetch(&client)?.events(output);
        }
        if self.once || !io::stdout().is_terminal() {
            let scene = self.fetch(&client)?;
            return output.line(format_args!("{}", text(&scene)?));
        }
        self.live(&client)
    }

    /// Fetches the current state.
    fn fetch(&self, client: &Client) -> Result<Scene, CliError> {
        let tenant = self.options.tenant.clone();
        let live = [v1::JobState::Forming, v1::JobState::Running];
        let jobs = all_jobs(client, tenant.as_deref(), &live, "")?;
        let listed = client.wait(client.switches().list(v1::ListSwitchesRequest { tenant }))?;
        Ok(Scene {
            controller: self.options.controller.clone(),
            switches: listed.switches,
            links: listed.links,
            access: listed.access,
            jobs,
            events: Vec::new(),
        })
    }

    fn watch(&self, client: &Client) -> Result<Streaming<v1::WatchResponse>, CliError> {
        let request = v1::WatchRequest { tenant: self.options.tenant.clone(), job: String::new() };
        client.wait(client.jobs().watch(request))
    }

    fn live(&self, client: &Client) -> Result<(), CliError> {
        let stop = Stop::on_signals()?;
        let mut answers = self.watch(client)?;
        let mut scene = self.fetch(client)?;
        let every = Duration::from_secs(u64::from(self.every));
        let mut terminal = ratatui::try_init().map_err(CliError::Output)?;
        let mut shown = || -> Result<(), CliError> {
            let mut fetched = Instant::now();
            while !stop.requested() && !quit_requested()? {
                while let Some(Some(answer)) = client.within(Duration::ZERO, answers.next()) {
                    let answer = answer.map_err(|status| client.refused(&status))?;
                    scene.events.extend(answer.event);
                    let excess = scene.events.len().saturating_sub(EVENTS_MAX);
                    scene.events.drain(..excess);
                }
                if fetched.elapsed() >= every {
                    fetched = Instant::now();
                    let events = std::mem::take(&mut scene.events);
                    scene = Scene { events, ..self.fetch(client)? };
                }
                terminal.draw(|frame| view::draw(frame, &scene)).map_err(CliError::Output)?;
            }
            Ok(())
        };
        let ended = shown();
        ratatui::restore();
        ended
    }
}

/// Polls for a key; returns whether it requests the end.
fn quit_requested() -> Result<bool, CliError> {
    if !event::poll(POLL_INTERVAL).map_err(CliError::Output)? {
        return Ok(false);
    }
    Ok(match event::read().map_err(CliError::Output)? {
        Event::Key(key) => {
            let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
        }
        _ => false,
    })
}

/// A frame as text, with as many lines as it needs.
fn text(scene: &Scene) -> Result<String, CliError> {
    let height = scene.height(WIDTH).min(HEIGHT_MAX);
    let backend = TestBackend::new(WIDTH, height);
    let failed = |_| CliError::Output(io::Error::other("cannot draw a frame"));
    let mut terminal = Terminal::new(backend).map_err(failed)?;
    terminal.draw(|frame| view::draw(frame, scene)).map_err(failed)?;
    let buffer = terminal.backend().buffer();
    let lines = (0..height).map(|y| {
        let line: String = (0..WIDTH).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned()
    });
    Ok(lines.collect::<Vec<_>>().join("\n").trim_end().to_owned())
}

impl Scene {
    fn events(&self, output: &Output) -> Result<(), CliError> {
        self.switches.iter().try_for_each(|switch| output.event(&switch_value(switch)))?;
        link_values(&self.links, &self.access).try_for_each(|link| output.event(&link))?;
        self.jobs.iter().try_for_each(|job| output.event(&job_value(job)))?;
        self.events.iter().try_for_each(|event| output.event(&event_value(event)))
    }
}
