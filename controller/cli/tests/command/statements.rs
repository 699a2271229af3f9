//! What the pages say of the command: options, default ports, events and kinds of errors are those of the binary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use netfold_testkit::directory::TemporaryDirectory;
use netfold_wire::UDP_PORT;

use crate::process::netfold;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file with this extension below a folder.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![root().join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The help of every command by its words, `netfold` excluded.
fn helps() -> BTreeMap<String, String> {
    let folder = TemporaryDirectory::new("helps");
    let output = netfold("man --format markdown --output").arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pages = std::fs::read_dir(folder.path()).unwrap();
    let helps = pages.map(|entry| {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let (title, help) = text.split_once('\n').unwrap();
        (title.trim_start_matches("# netfold").trim().to_owned(), help.to_owned())
    });
    helps.collect()
}

/// The options of a help text; `-x` and `--long`.
fn options(help: &str) -> BTreeSet<&str> {
    let lines = help.lines().filter(|line| line.trim_start().starts_with('-'));
    let words = lines.flat_map(|line| {
        line.split([' ', ',', '=', '['])
            .take_while(|word| word.is_empty() || word.starts_with('-') || word.starts_with('<'))
    });
    words.filter(|word| word.starts_with('-')).collect()
}

/// The commands `netfold ...` of a page, each on one line.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced {
            found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
            continue;
        }
        let mut whole = line.to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            whole.push_str(lines.next().unwrap_or_default());
        }
        found.push(whole);
    }
    found.retain(|text| text.contains("netfold "));
    found
}

/// The words of a command from `netfold` to its end.
fn words(text: &str) -> Vec<&str> {
    let start = text.split_whitespace().skip_while(|word| *word != "netfold").skip(1);
    start.take_while(|word| !word.starts_with(['#', '|', '>', '&', ';'])).collect()
}

#[test]
fn options_on_the_pages_exist() {
    let helps = helps();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    let pages =
        files("docs", "md").into_iter().chain([root().join("README.md"), root().join("CHANGELOG.md")]);
    for page in pages {
        for text in commands(&std::fs::read_to_string(&page).unwrap()) {
            let words = words(&text);
            let deepest = (0..=words.len().min(2)).rev().map(|count| words[..count].join(" "));
            let command = deepest.into_iter().find(|command| helps.contains_key(command)).unwrap();
            let known = options(&helps[&command]);
            for option in words.iter().filter(|word| word.starts_with("--") && word.len() > 2) {
                let option = option.split('=').next().unwrap().trim_end_matches([',', '.', ')', ']', ':']);
                checked += 1;
                if !command.is_empty() && !known.contains(option) {
                    wrong.push(format!("{}: netfold {command} has no {option}", page.display()));
                }
            }
        }
    }
    assert!(checked > 150, "{checked}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The default of an option that is an address: its port.
fn default_port(help: &str, option: &str) -> u16 {
    let (_, after) =
        help.split_once(&format!("{option} <")).unwrap_or_else(|| panic!("no {option} in {help}"));
    let (_, default) = after.split_once("[default: ").unwrap();
    let address = default.split(']').next().unwrap();
    address.rsplit(':').next().unwrap().parse().unwrap_or_else(|_| panic!("{option}: {address}"))
}

#[test]
fn default_ports_on_the_pages_are_those_of_the_commands() {
    let helps = helps();
    let of = |command: &str, option| default_port(&helps[command], option);
    let [workers, grpc, page] = ["--workers", "--listen", "--http"].map(|option| of("controller", option));
    assert_eq!(of("switch", "--listen"), UDP_PORT);
    let controller = read("docs/controller.md");
    for (name, port) in [("workers", workers), ("gRPC", grpc), ("page", page)] {
        assert!(controller.contains(&format!("| {name} | 127.0.0.1:{port} |")), "docs/controller.md: {name}");
    }
    assert!(controller.contains(&format!("by default UDP port {UDP_PORT}")));
    let tutorial = read("docs/tutorials/operator.md");
    for port in [workers, grpc, page] {
        assert!(tutorial.contains(&format!("| {port} |")), "docs/tutorials/operator.md: {port}");
    }
    let advice = format!(
        "a controller's port {workers} (or a switch's {UDP_PORT}); `netfold job` and `top` use {grpc}"
    );
    assert!(read("docs/troubleshooting.md").contains(&advice), "docs/troubleshooting.md: {advice}");
    // Numbers of four digits or more in the figures are ports.
    for (figure, ports) in [
        ("controller-ports", vec![workers, grpc, page, UDP_PORT, 9559]),
        ("worker-and-switch", vec![UDP_PORT]),
    ] {
        let text = read(format!("docs/diagrams/{figure}.svg"));
        let texts = text.split("<text").skip(1).filter_map(|text| text.split('>').nth(1)?.split('<').next());
        let numbers =
            texts.flat_map(|text| text.split(|c: char| !c.is_ascii_digit())).filter(|word| word.len() >= 4);
        let shown: BTreeSet<u16> = numbers.map(|number| number.parse().unwrap()).collect();
        assert_eq!(shown, BTreeSet::from_iter(ports), "{figure}");
    }
}

/// The string literals behind each occurrence of a text in the command's code.
fn literals_after(before: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files("controller/cli/src", "rs") {
        let code = std::fs::read_to_string(file).unwrap();
        let names = code.split(before).skip(1).filter_map(|after| after.split('"').next());
        found.extend(names.map(str::to_owned));
    }
    found
}

#[test]
fn every_event_in_the_code_is_documented() {
    let pages = read("docs/operations.md") + &read("docs/controller.md");
    let mut names = literals_after("\"event\": \"");
    names.extend(literals_after(" event: \""));
    assert!(names.len() > 35, "{names:?}");
    let missing: Vec<_> = names.iter().filter(|name| !pages.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The names in the first column of the table of error kinds.
fn listed_kinds() -> BTreeSet<String> {
    let page = read("docs/operations.md");
    let table = page.split_once("| kind | meaning |").unwrap().1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn kinds_of_errors_are_listed_and_no_others() {
    let own = read("controller/cli/src/error.rs");
    let own = own.split_once("fn kind(").unwrap().1.split_once("fn advice(").unwrap().0;
    let library = read("hostlib/src/error.rs");
    let library = library.split_once("fn kind(").unwrap().1.split_once("\n    }\n").unwrap().0;
    let mut kinds = results(own);
    kinds.extend(results(library));
    assert!(kinds.len() > 40, "{kinds:?}");
    // A demo that disagrees has printed its summary, and no error.
    kinds.remove("disagrees");
    let listed = listed_kinds();
    let missing: Vec<_> = kinds.difference(&listed).collect();
    assert!(missing.is_empty(), "docs/operations.md lacks the kinds {missing:?}");
    let refusals = refusals();
    let outdated: Vec<_> =
        listed.iter().filter(|kind| !kinds.contains(*kind) && !refusals.contains(*kind)).collect();
    assert!(outdated.is_empty(), "docs/operations.md lists {outdated:?}, which no error has");
}

/// The literals that the arms of a `match` result in.
fn results(code: &str) -> BTreeSet<String> {
    code.split("=> \"").skip(1).filter_map(|after| after.split('"').next()).map(str::to_owned).collect()
}

/// The names of `netfold_control::Refusal`.
fn refusals() -> BTreeSet<String> {
    let code = read("dataplane/control/src/lib.rs");
    let names = code.split_once("impl Refusal {").unwrap().1.split_once("\n}\n").unwrap().0;
    results(names)
}

#[test]
fn refusals_on_the_protocol_page_are_those_of_the_code() {
    let page = read("docs/protocol.md");
    let list = page.split_once("Reasons of a refusal: ").unwrap().1.split_once('.').unwrap().0;
    let listed: BTreeSet<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert_eq!(listed, refusals());
}
