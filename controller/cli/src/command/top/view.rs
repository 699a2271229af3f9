//! Drawing of `netfold top`, independent of the terminal.

use std::cmp::Reverse;

use netfold_server::api::v1;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

use super::super::remote::{
    clock, counted, full_name, goodput, mode_word, percent, retransmissions, since, state_word,
};
use crate::size::{bytes_per_second, grouped};

/// Width of a switch's bar, in characters.
const BAR: u32 = 32;

/// Colours of jobs, by their index.
const COLOURS: [Color; 6] =
    [Color::Cyan, Color::Magenta, Color::Yellow, Color::Green, Color::Blue, Color::LightRed];

/// Most links shown: those with the most traffic.
const LINKS_MAX: usize = 12;

/// Least number of lines for events, and their number in a frame printed as text.
const EVENT_LINES: u16 = 3;

/// The state of a controller at one time.
pub(super) struct Scene {
    pub(super) controller: String,
    pub(super) switches: Vec<v1::Switch>,
    pub(super) links: Vec<v1::Link>,
    pub(super) access: Vec<v1::AccessLink>,
    pub(super) jobs: Vec<v1::Job>,
    /// The oldest first.
    pub(super) events: Vec<v1::Event>,
}

impl Scene {
    /// Lines that the whole frame takes.
    pub(super) fn height(&self) -> u16 {
        let rows = self.switches.len().max(1) + self.jobs.len().max(1) + self.links_shown().max(1);
        // A title, and two borders and a heading of each part.
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(1 + 3 + 3 + 3 + 2 + EVENT_LINES)
    }

    fn links_shown(&self) -> usize {
        (self.links.len() + self.access.len()).min(LINKS_MAX)
    }
}

/// Draws a frame.
pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene) {
    let rows = |count: usize| u16::try_from(count.max(1)).unwrap_or(u16::MAX).saturating_add(3);
    let [title, switches, jobs, links, events] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Max(rows(scene.switches.len())),
        Constraint::Max(rows(scene.jobs.len())),
        Constraint::Max(rows(scene.links_shown())),
        Constraint::Min(EVENT_LINES + 2),
    ])
    .areas(frame.area());
    draw_title(frame, title, scene);
    draw_switches(frame, switches, scene);
    draw_jobs(frame, jobs, scene);
    draw_links(frame, links, scene);
    draw_events(frame, events, scene);
}

fn heading(cells: &[&'static str]) -> Row<'static> {
    Row::new(cells.to_vec()).style(Style::new().add_modifier(Modifier::BOLD))
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let up = scene.switches.iter().filter(|switch| switch.up).count();
    let links = scene.links.iter().filter(|link| link.up).count();
    let text = format!(
        "netfold at {}   {up} of {} switches up, {links} of {} links, {} jobs   q quits",
        scene.controller,
        scene.switches.len(),
        scene.links.len(),
        scene.jobs.len()
    );
    frame.render_widget(Paragraph::new(text), area);
}

fn draw_switches(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let rows = scene.switches.iter().map(|switch| {
        let (state, colour) = match (switch.up, switch.drained) {
            (false, _) => ("down", Color::Red),
            (true, true) => ("drained", Color::Yellow),
            (true, false) => ("up", Color::Green),
        };
        Row::new(vec![
            Cell::from(switch.name.clone()),
            Cell::from(switch.kind.clone()),
            Cell::from(Span::styled(state, Style::new().fg(colour))),
            Cell::from(bar(switch, &scene.jobs)),
            Cell::from(
                Line::from(format!(
                    "{} of {}",
                    grouped(u64::from(switch.slots_used)),
                    grouped(u64::from(switch.slots))
                ))
                .right_aligned(),
            ),
            Cell::from(Line::from(format!("{} of {}", switch.ports_used, switch.ports)).right_aligned()),
        ])
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(BAR as u16),
        Constraint::Length(15),
        Constraint::Length(13),
    ];
    let table = Table::new(rows, widths)
        .header(heading(&["switch", "kind", "state", "slots by job", "slots used", "ports used"]))
        .block(Block::new().borders(Borders::ALL).title("switches"));
    frame.render_widget(table, area);
}

/// A switch's slots in order: each character stands for an equal number of slots, in the colour and letter of the job that
/// holds most of them.
fn bar(switch: &v1::Switch, jobs: &[v1::Job]) -> Line<'static> {
    let slots = switch.slots.max(1);
    let spans = (0..BAR).map(|column| {
        let first = u64::from(column) * u64::from(slots) / u64::from(BAR);
        let end = (u64::from(column + 1) * u64::from(slots) / u64::from(BAR)).max(first + 1);
        let held = switch.ranges.iter().filter_map(|range| {
            let (from, to) = (u64::from(range.first), u64::from(range.first) + u64::from(range.slots));
            let common = to.min(end).saturating_sub(from.max(first));
            (common > 0).then_some((common, range))
        });
        match held.max_by_key(|(common, _)| *common) {
            None => Span::raw("·"),
            Some((_, range)) => {
                match jobs.iter().position(|job| job.name == range.job && range.job.is_some()) {
                    Some(index) => {
                        Span::styled(letter(index), Style::new().fg(COLOURS[index % COLOURS.len()]))
                    }
                    None => Span::raw("#"),
                }
            }
        }
    });
    Line::from(spans.collect::<Vec<_>>())
}

/// A job's letter, by its index in the list.
fn letter(index: usize) -> String {
    char::from(b'A' + (index % 26) as u8).to_string()
}

fn draw_jobs(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let rows = scene.jobs.iter().enumerate().map(|(index, job)| {
        let spec = job.spec.unwrap_or_default();
        let mark = Span::styled(letter(index), Style::new().fg(COLOURS[index % COLOURS.len()]));
        let state = match job.findings.first() {
            Some(_) => Span::styled("slowed", Style::new().fg(Color::Red)),
            None => Span::raw(state_word(job.state())),
        };
        Row::new(vec![
            Cell::from(mark),
            Cell::from(full_name(job.name.as_ref())),
            Cell::from(state),
            Cell::from(Line::from(spec.world.to_string()).right_aligned()),
            Cell::from(mode_word(spec.mode())),
            Cell::from(Line::from(grouped(u64::from(job.slots_held))).right_aligned()),
            Cell::from(Line::from(goodput(job.traffic.as_ref())).right_aligned()),
            Cell::from(Line::from(retransmissions(job.traffic.as_ref())).right_aligned()),
            Cell::from(Line::from(since(job)).right_aligned()),
        ])
    });
    let widths = [
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(13),
        Constraint::Length(7),
    ];
    let table = Table::new(rows, widths)
        .header(heading(&[
            "",
            "job",
            "state",
            "workers",
            "mode",
            "slots",
            "goodput",
            "retransmitted",
            "since",
        ]))
        .block(Block::new().borders(Borders::ALL).title("jobs"));
    frame.render_widget(table, area);
}

/// The links with the most traffic: between switches, and of hosts to switches.
fn draw_links(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let between = scene.links.iter().map(|link| {
        let (state, colour) = match (link.up, link.drained) {
            (false, _) => ("down", Color::Red),
            (true, true) => ("drained", Color::Yellow),
            (true, false) => ("up", Color::Green),
        };
        let name = format!("{} - {}", link.a, link.b);
        (
            name,
            Span::styled(state, Style::new().fg(colour)),
            counted(link.trees, "tree", "trees"),
            link.rate,
            link.traffic,
        )
    });
    let access = scene.access.iter().map(|link| {
        let name = format!("{} - {}", link.host, link.switch);
        (name, Span::raw(""), counted(link.workers, "worker", "workers"), 0, link.traffic)
    });
    let mut all: Vec<_> = between.chain(access).collect();
    all.sort_by_key(|(.., traffic)| Reverse(traffic.map_or(0, |traffic| traffic.bytes_per_second)));
    let rows = all.into_iter().take(LINKS_MAX).map(|(name, state, carries, rate, traffic)| {
        let right = |text: String| Cell::from(Line::from(text).right_aligned());
        let shown = |show: &dyn Fn(v1::LinkTraffic) -> String| right(traffic.map(show).unwrap_or_default());
        let used = |traffic: v1::LinkTraffic| match rate {
            0 => String::new(),
            rate => percent(8.0 * traffic.bytes_per_second as f64 / rate as f64),
        };
        Row::new(vec![
            Cell::from(name),
            Cell::from(state),
            right(carries),
            shown(&|traffic| bytes_per_second(traffic.bytes_per_second)),
            shown(&used),
            shown(&|traffic| percent(traffic.retransmission_ratio)),
        ])
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(7),
        Constraint::Length(12),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Length(13),
    ];
    let table = Table::new(rows, widths)
        .header(heading(&["link", "state", "carries", "traffic", "of rate", "retransmitted"]))
        .block(Block::new().borders(Borders::ALL).title("links, by the workers' counters"));
    frame.render_widget(table, area);
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let lines_max = usize::from(area.height.saturating_sub(2));
    let lines: Vec<Line<'_>> = scene
        .events
        .iter()
        .rev()
        .take(lines_max)
        .map(|event| Line::from(format!("{}  {:<16} {}", clock(event.at_ms), event.kind, event.message)))
        .collect();
    let text = if lines.is_empty() { vec![Line::from("no events yet")] } else { lines };
    let block = Block::new().borders(Borders::ALL).title("events, newest first");
    frame.render_widget(Paragraph::new(text).block(block), area);
}
