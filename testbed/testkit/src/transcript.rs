//! Documentation pages as tests: the commands in a page's `console` blocks are run, and their output is compared with the page.
//!
//! A line that begins with `$ ` is a command, continued after a backslash at its end; the lines below it, up to the next command, are its
//! output. `...` stands for any characters within a line, and alone on a line for any lines. Runs of white space are equal to one space. A
//! command without lines below may print anything; one that ends with `&` keeps running, and the page goes on when it has printed what the
//! page shows. All commands of a page run in one shell.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use crate::namespace::{CommandError, NamespaceSet, command, command_in};
use crate::process::Process;
use crate::wait::{HANG_TIMEOUT, poll};

/// A command of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Line of the page, from 1.
    pub line: usize,
    /// The command, as for a shell.
    pub command: String,
    /// The output that the page shows.
    pub expected: Vec<String>,
}

/// The commands in the `console` blocks of a page.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut continued) = (false, false);
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = !inside && line.trim_end() == "```console";
            continued = false;
        } else if let Some(last) = steps.last_mut().filter(|_| inside && continued) {
            continued = line.ends_with('\\');
            last.command.push('\n');
            last.command.push_str(line);
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            continued = command.ends_with('\\');
            steps.push(Step { line: number + 1, command: command.into(), expected: Vec::new() });
        } else if let Some(last) = steps.last_mut().filter(|_| inside) {
            last.expected.push(line.into());
        }
    }
    steps
}

/// A shell for [`play`], in a new one of `namespaces`, where default ports are free, and in a process namespace, so that `pkill` reaches no
/// process of another test and nothing is left running. Programs in the folders `programs` precede all others; variables whose names begin
/// with `NETFOLD_` are removed.
///
/// # Errors
///
/// When the namespace cannot be created.
pub fn isolated_shell(namespaces: &mut NamespaceSet, programs: &[&Path]) -> Result<Command, CommandError> {
    let name = namespaces.add("tutorial", 0)?;
    command(&format!("ip -n {name} link set lo up"))?;
    let mut shell = command_in(&name, "unshare");
    shell.args(["--pid", "--fork", "--kill-child", "--mount-proc", "bash"]);
    let mut path: Vec<_> = programs.iter().map(|folder| folder.display().to_string()).collect();
    path.extend(std::env::var("PATH"));
    shell.env("PATH", path.join(":"));
    for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("NETFOLD_")) {
        shell.env_remove(variable);
    }
    Ok(shell)
}

/// Runs commands in `shell`, a command that reads a script for bash from standard input, and compares their output.
///
/// # Panics
///
/// When a command fails, runs too long or prints something else; names its line.
pub fn play(mut shell: Command, folder: &Path, steps: &[Step]) {
    let (sender, lines) = channel();
    let on_line = move |line: Option<String>| sender.send(line).is_ok();
    let process = Process::start(shell.process_group(0).current_dir(folder), on_line);
    let mut shell = Shell { process: process.unwrap_or_else(|error| panic!("a shell: {error}")), lines };
    for (number, step) in steps.iter().enumerate() {
        let output = folder.join(format!(".step{number}"));
        shell.step(step, &output);
    }
}

struct Shell {
    process: Process,
    lines: Receiver<Option<String>>,
}

impl Shell {
    fn step(&mut self, step: &Step, output: &Path) {
        let Step { line, command, expected } = step;
        let running = command.strip_suffix('&');
        let (body, mark) = running.map_or((command.as_str(), ";"), |body| (body, "&"));
        let to = output.display();
        // The command ends with a line of its own, so that it may end with a comment.
        self.process.write_line(&format!("{{ {body}\n}} > {to} 2>&1 < /dev/null {mark} echo \"ended $?\""));
        let ended = match self.lines.recv_timeout(HANG_TIMEOUT) {
            Ok(Some(ended)) => ended,
            other => panic!("line {line}: `{command}` has not ended ({other:?}):\n{}", read(output)),
        };
        if running.is_some() {
            poll(format_args!("line {line}: `{command}` printing {expected:#?}"), || {
                compare(expected, &read(output), true).is_ok().then_some(())
            });
            return;
        }
        let printed = read(output);
        let fails = expected.iter().any(|line| line.starts_with("error: "));
        assert_eq!(ended == "ended 0", !fails, "line {line}: `{command}`: {ended}\n{printed}");
        if let Err(difference) = compare(expected, &printed, false) {
            panic!("line {line}: `{command}`: {difference}\nprinted:\n{printed}");
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // What it has started runs in its process group.
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).status();
    }
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Whether a page shows what was printed; `more` may follow.
fn compare(expected: &[String], printed: &str, more: bool) -> Result<(), String> {
    let expected: Vec<String> =
        expected.iter().map(|line| squeeze(line)).filter(|line| !line.is_empty()).collect();
    let mut printed = printed.lines().map(squeeze).filter(|line| !line.is_empty());
    let mut any = expected.is_empty();
    for wanted in &expected {
        if wanted == "..." {
            any = true;
            continue;
        }
        let found = if any { printed.find(|line| equal(wanted, line)) } else { printed.next() };
        match found {
            Some(line) if equal(wanted, &line) => any = false,
            Some(line) => return Err(format!("expected '{wanted}', found '{line}'")),
            None => return Err(format!("'{wanted}' is missing")),
        }
    }
    match printed.next() {
        Some(line) if !any && !more => Err(format!("unexpected line '{line}'")),
        _ => Ok(()),
    }
}

fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line is the page's, in which `...` stands for anything.
fn equal(wanted: &str, line: &str) -> bool {
    let Some((first, rest)) = wanted.split_once("...") else { return wanted == line };
    let Some(after) = line.strip_prefix(first) else { return false };
    (0..=after.len()).filter(|at| after.is_char_boundary(*at)).any(|at| equal(rest, &after[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A page

```sh
$ not run
```

```console
$ echo one; echo 'two  2'
one
two ...
$ (echo ready; \\
   exec sleep 100) &
ready
$ false || echo 'error: no'; false
error: no
```
";

    fn bash() -> Command {
        Command::new("bash")
    }

    #[test]
    fn commands_and_their_output_are_found() {
        let found = steps(PAGE);
        let commands: Vec<_> = found.iter().map(|step| (step.line, step.expected.len())).collect();
        assert_eq!(commands, [(8, 2), (11, 1), (14, 1)]);
        assert!(found[1].command.ends_with("sleep 100) &"), "{found:?}");
    }

    #[test]
    fn a_page_is_played() {
        let folder = std::env::temp_dir().join(format!("netfold-transcript-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        play(bash(), &folder, &steps(PAGE));
        let wrong = [Step { line: 3, command: "echo three".into(), expected: vec!["four".into()] }];
        let played = std::panic::catch_unwind(|| play(bash(), &folder, &wrong));
        let message = *played.unwrap_err().downcast::<String>().unwrap();
        assert!(
            message.contains("line 3") && message.contains("expected 'four', found 'three'"),
            "{message}"
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn dots_stand_for_anything_and_other_lines_are_differences() {
        let expected = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let printed = "a 1\nb 22 c\n\nd\n";
        for (lines, ok) in [
            (&["a   1", "b ... c", "d"][..], true),
            (&["...", "d"], true),
            (&["a 1", "..."], true),
            (&[], true),
            (&["a 1"], false),
            (&["a 1", "d"], false),
            (&["a 1", "...", "e"], false),
        ] {
            assert_eq!(compare(&expected(lines), printed, false).is_ok(), ok, "{lines:?}");
        }
        assert!(compare(&expected(&["a 1"]), printed, true).is_ok());
    }
}
