//! Drawing of `netfold top`, independent of the terminal.

use std::cmp::Reverse;

use netfold_server::api::v1;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

use super::super::remote::{
    clock, counted, full_name, goodput, mode_word, percent, retransmissions, since, stall_title, state_word,
    wrapped,
};
use crate::size::{bytes_per_second, grouped};

/// Width of a switch's bar, in characters.
const BAR: u32 = 32;

/// Colours of jobs, by their index.
const COLOURS: [Color; 6] =
    [Color::Cyan, Color::Magenta, Color::Yellow, Color::Green, Color::Blue, Color::LightRed];

/// Most links shown: those with the most traffic.
const LINKS_MAX: usize = 12;

/// Most jobs whose stalls are shown, and most lines of each.
const STALLED_MAX: usize = 3;
const STALL_LINES_MAX: usize = 4;

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
    pub(super) fn height(&self, width: u16) -> u16 {
        let stalls = match self.stall_lines(width).len() {
            0 => 0,
            lines => lines + 2,
        };
        let rows = self.switches.len().max(1) + self.jobs.len().max(1) + self.links_shown().max(1) + stalls;
        // A title, and two borders and a heading of each part.
        u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(1 + 3 + 3 + 3 + 2 + EVENT_LINES)
    }

    /// What is known of the jobs that stall, in lines for a frame of that width; nothing if there are none.
    fn stall_lines(&self, width: u16) -> Vec<Line<'static>> {
        let stalled: Vec<_> = self.jobs.iter().filter_map(|job| Some((job, lasting_stall(job)?))).collect();
        let bad = Style::new().fg(Color::Red);
        let mut lines = Vec::new();
        for (job, stall) in stalled.iter().take(STALLED_MAX) {
            let name = full_name(job.name.as_ref());
            let text = format!("{name}, {}: {}", stall_title(stall), stall.conclusion);
            // There are two borders.
            let columns = usize::from(width).saturating_sub(2);
            let mut parts = wrapped(&text, columns);
            if parts.len() > STALL_LINES_MAX {
                const MORE: &str = " ...";
                parts = wrapped(&text, columns.saturating_sub(MORE.len()));
                parts.truncate(STALL_LINES_MAX);
                parts[STALL_LINES_MAX - 1].push_str(MORE);
            }
            lines.extend(parts.into_iter().map(|part| Line::from(Span::styled(part, bad))));
        }
        let Some((first, _)) = stalled.first() else { return lines };
        let more = match stalled.len().saturating_sub(STALLED_MAX) {
            0 => String::new(),
            more => format!("{} too; ", counted(more as u32, "more job stalls", "more jobs stall")),
        };
        let name = full_name(first.name.as_ref());
        lines.push(Line::from(format!("{more}all that is known: netfold job explain {name}")));
        lines
    }

    fn links_shown(&self) -> usize {
        (self.links.len() + self.access.len()).min(LINKS_MAX)
    }
}

/// A stall of a job that lasts, if there is one.
fn lasting_stall(job: &v1::Job) -> Option<&v1::Stall> {
    job.stalls.iter().find(|stall| stall.ended.is_empty())
}

/// Draws a frame.
pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene) {
    let rows = |count: usize| u16::try_from(count.max(1)).unwrap_or(u16::MAX).saturating_add(3);
    let stalled = scene.stall_lines(frame.area().width);
    let stall_rows = if stalled.is_empty() { 0 } else { rows(stalled.len()) - 1 };
    let [title, switches, jobs, stalls, links, events] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Max(rows(scene.switches.len())),
        Constraint::Max(rows(scene.jobs.len())),
        Constraint::Length(stall_rows),
        Constraint::Max(rows(scene.links_shown())),
        Constraint::Min(EVENT_LINES + 2),
    ])
    .areas(frame.area());
    draw_title(frame, title, scene);
    draw_switches(frame, switches, scene);
    draw_jobs(frame, jobs, scene);
    if !stalled.is_empty() {
        let block = Block::new().borders(Borders::ALL).title("stalls");
        frame.render_widget(Paragraph::new(stalled).block(block), stalls);
    }
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
        let bad = Style::new().fg(Color::Red);
        let state = match (lasting_stall(job), job.findings.first()) {
            (Some(_), _) => Span::styled("stalled", bad),
            (None, Some(_)) => Span::styled("slowed", bad),
            (None, None) => Span::raw(state_word(job.state())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn stalled(job: &str, conclusion: &str, ended: &str) -> v1::Job {
        let stall = v1::Stall {
            group: String::new(),
            tree: 0,
            began_ms: 61_005,
            as_of_ms: 63_305,
            ended: ended.to_owned(),
            conclusion: conclusion.to_owned(),
        };
        let name = v1::JobName { tenant: "red".into(), job: job.into() };
        v1::Job { name: Some(name), stalls: vec![stall], ..v1::Job::default() }
    }

    /// The lines of a frame, of such a width.
    fn drawn(jobs: Vec<v1::Job>, width: u16) -> Vec<String> {
        let (switches, links, access, events) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let scene = Scene { controller: "here".into(), switches, links, access, jobs, events };
        let height = scene.height(width);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &scene)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(line).collect()
    }

    #[test]
    fn the_cause_of_a_stall_is_below_the_jobs() {
        let conclusion = "rank 2 has not contributed to chunk 7, and it has reported nothing for 2.7 s: its process is stopped or its host is unreachable";
        for width in [60, 100, 200] {
            let lines =
                drawn(vec![stalled("train", conclusion, ""), stalled("past", "over", "continued")], width);
            let inner = |line: &String| line.trim_matches(['│', ' ']).to_owned();
            let text = lines.iter().map(inner).collect::<Vec<_>>().join(" ");
            let all = format!(
                "red/train, tree 0, from 00:01:01 on, for 2.3 s: {conclusion} all that is known: netfold job explain red/train └"
            );
            assert!(text.contains(&all), "{width}: {text}");
            assert!(!text.contains("over"), "of those that last: {text}");
            assert_eq!(text.matches(" stalled ").count(), 1, "{text}");
            assert!(lines.last().unwrap().starts_with('└'), "the height fits: {lines:?}");
        }
        assert!(!drawn(vec![stalled("past", "over", "continued")], 100).concat().contains("stalls"));
    }

    #[test]
    fn many_and_long_stalls_leave_space_and_control_characters_are_not_printed() {
        let conclusion = format!("\x1b[2J\x1b]0;title\x07{}", "word ".repeat(500));
        let jobs = (0..40).map(|job| stalled(&format!("job{job}"), &conclusion, "")).collect();
        let lines = drawn(jobs, 100);
        let shown = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
        assert_eq!(shown("word "), STALLED_MAX * STALL_LINES_MAX, "{lines:?}");
        assert_eq!((shown(" ..."), shown("37 more jobs stall too")), (STALLED_MAX, 1), "{lines:?}");
        assert!(!lines.concat().contains(|letter: char| letter.is_control()), "{lines:?}");
    }
}
