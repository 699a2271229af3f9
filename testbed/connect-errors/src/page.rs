//! docs/connection-errors.md: a section for each mistake, with a table of what each client says.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::mistake::{Client, Mistake};
use crate::ports::Target;

/// Longest time until a client gives its message.
pub const TIME_MAX: Duration = Duration::from_secs(3);

const PAGE: &str = "docs/connection-errors.md";

/// What rewrites a row, for the message of a failed comparison.
const UPDATE: &str = "UPDATE_SNAPSHOTS";

const TABLE_HEAD: &str = "| client | message |\n|---|---|\n";

/// A client's message, and the time from its attempt to connect to the message.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The whole message.
    pub message: String,
    /// The time.
    pub took: Duration,
}

/// A client's messages for all mistakes that it can make.
#[derive(Debug)]
pub struct Row {
    client: Client,
    cells: Vec<(Mistake, String)>,
}

impl Row {
    /// Has `ask` connect the client by each mistake, in the order of the page.
    ///
    /// # Panics
    ///
    /// When an answer takes longer than [`TIME_MAX`].
    pub fn of(client: Client, mut ask: impl FnMut(Mistake) -> (Target, Answer)) -> Self {
        let cells = client.mistakes().map(|mistake| {
            let (target, Answer { message, took }) = ask(mistake);
            println!("{}, {}: {took:?}: {message}", client.name(), mistake.heading());
            assert!(took < TIME_MAX, "{}, {}: {took:?}: {message}", client.name(), mistake.heading());
            (mistake, cell(&message, &target))
        });
        Self { client, cells: cells.collect() }
    }

    /// Compares the row with the page; with `UPDATE_SNAPSHOTS` in the environment, rewrites it there.
    ///
    /// # Panics
    ///
    /// When the two differ, or the page cannot be read or written.
    pub fn check(&self) {
        let path = root().join(PAGE);
        if std::env::var_os(UPDATE).is_some() {
            self.update(&path);
        }
        let page = Page::parse(&read(&path));
        for (mistake, message) in &self.cells {
            let committed = page.cell(*mistake, self.client);
            assert_eq!(
                committed,
                Some(message.as_str()),
                "{PAGE}, '{}', {}: the page differs (left) from the message (right); with {UPDATE}=1 this test rewrites the page",
                mistake.heading(),
                self.client.name()
            );
        }
    }

    /// Writes the row to the page, while no other process does.
    fn update(&self, path: &Path) {
        let lock = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        lock.lock().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut page = Page::parse(&read(path));
        for (mistake, message) in &self.cells {
            page.set(*mistake, self.client, message);
        }
        fs::write(path, page.print()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

/// A message as a cell: without what differs from run to run.
fn cell(message: &str, target: &Target) -> String {
    let port = |address: &str| address.rsplit_once(':').map(|(_, port)| port.to_owned()).unwrap_or_default();
    let mut text = message.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    for address in [Some(&target.address), target.rendezvous.as_ref()].into_iter().flatten() {
        text = text.replace(address, "HOST:PORT").replace(&format!(":{}", port(address)), ":PORT");
    }
    if let Some(ca) = &target.ca {
        text = text.replace(ca, "FILE");
    }
    text.replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks that the page has every cell, as it would be printed.
///
/// # Panics
///
/// When it does not.
pub fn check_completeness() {
    let text = read(&root().join(PAGE));
    let page = Page::parse(&text);
    for mistake in Mistake::ALL {
        for client in Client::ALL {
            let cell = page.cell(mistake, client);
            let cell = cell.unwrap_or_else(|| panic!("{} lacks {}", mistake.heading(), client.name()));
            let reason = client.not_applicable(mistake);
            assert_eq!(cell.strip_prefix("not applicable: "), reason, "{}: {cell}", mistake.heading());
        }
    }
    assert_eq!(page.print(), text, "{PAGE} is not as a test with {UPDATE}=1 would write it");
}

/// Checks that every client of the library gives the library's message, which C programs have.
///
/// # Panics
///
/// When one does not.
pub fn check_bindings() {
    let page = Page::parse(&read(&root().join(PAGE)));
    for mistake in Mistake::ALL {
        let message = page.cell(mistake, Client::C).expect("a complete page");
        for client in [Client::Worker, Client::Python, Client::Torch, Client::Mpi, Client::Nccl] {
            let cell = page.cell(mistake, client).expect("a complete page");
            let same = cell.contains(message) || client.not_applicable(mistake).is_some();
            assert!(same, "{}, {}: {cell}\nC: {message}", mistake.heading(), client.name());
        }
    }
}

/// The page: text, and for each mistake that has a section its heading, text and table.
struct Page {
    before: String,
    sections: Vec<Section>,
}

struct Section {
    heading: String,
    text: String,
    rows: Vec<(String, String)>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self { before: String::new(), sections: Vec::new() };
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                let heading = heading.to_owned();
                page.sections.push(Section { heading, text: String::new(), rows: Vec::new() });
                continue;
            }
            let Some(section) = page.sections.last_mut() else {
                page.before += line;
                page.before.push('\n');
                continue;
            };
            let row = line.strip_prefix("| ").and_then(|rest| rest.strip_suffix(" |")?.split_once(" | "));
            match row {
                Some(("client", "message")) => {}
                Some((client, message)) => section.rows.push((client.into(), message.into())),
                None if line == "|---|---|" => {}
                None => {
                    section.text += line;
                    section.text.push('\n');
                }
            }
        }
        page
    }

    fn cell(&self, mistake: Mistake, client: Client) -> Option<&str> {
        let section = self.sections.iter().find(|section| section.heading == mistake.heading())?;
        let row = section.rows.iter().find(|(name, _)| name == client.name())?;
        Some(&row.1)
    }

    /// Sets a cell. A table that it makes has the cells that are not applicable, too, and the others' rows keep their order.
    fn set(&mut self, mistake: Mistake, client: Client, message: &str) {
        let heading = mistake.heading();
        let section = self.sections.iter_mut().find(|section| section.heading == heading);
        let section = section.unwrap_or_else(|| panic!("{PAGE} has no section '{heading}': write one"));
        let old = std::mem::take(&mut section.rows);
        let kept = |client: Client| old.iter().find(|row| row.0 == client.name()).map(|row| row.1.clone());
        let cell = |other: Client| match other.not_applicable(mistake) {
            Some(reason) => Some(format!("not applicable: {reason}")),
            None if other == client => Some(message.to_owned()),
            None => kept(other),
        };
        let rows = Client::ALL.into_iter().filter_map(|other| Some((other.name().to_owned(), cell(other)?)));
        section.rows = rows.collect();
    }

    fn print(&self) -> String {
        let mut text = self.before.clone();
        for Section { heading, text: prose, rows } in &self.sections {
            let _ = write!(text, "## {heading}\n\n{}\n\n{TABLE_HEAD}", prose.trim());
            for (client, message) in rows {
                let _ = writeln!(text, "| {client} | {message} |");
            }
            text.push('\n');
        }
        text.trim_end().to_owned() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_parsed_and_printed() {
        let text = "# Page\n\nText.\n\n## Wrong port\n\nA port.\n\n| client | message |\n|---|---|\n| C | one \\| two |\n";
        let mut page = Page::parse(text);
        assert_eq!(page.print(), text);
        page.set(Mistake::WrongPort, Client::Worker, "new");
        assert_eq!(page.cell(Mistake::WrongPort, Client::Worker), Some("new"));
        assert_eq!(page.cell(Mistake::WrongPort, Client::C), Some("one \\| two"));
    }

    #[test]
    fn cells_have_nothing_of_one_run() {
        let target = Target {
            address: "127.0.0.1:4711".into(),
            ca: Some("/tmp/a.pem".into()),
            tenant: String::new(),
            token: String::new(),
            rendezvous: None,
        };
        assert_eq!(cell("a  127.0.0.1:4711\nb /tmp/a.pem", &target), "a HOST:PORT b FILE");
    }
}
