//! Starts the ranks of a scenario as processes, and plays NCCL's bootstrap: it passes handles between them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Longest time for a scenario.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(120);

/// A message of a rank on its standard output.
enum RankMessage {
    /// Bytes for all other ranks, in hexadecimal; each waits for all.
    Gather(String),
    /// For people.
    Line(String),
    /// Requests the scenario's event.
    Event,
    /// Its output has ended.
    End,
}

/// The outcome of a scenario: the ranks' exit codes, and what each printed.
pub(crate) struct ScenarioOutcome {
    pub(crate) codes: Vec<Option<i32>>,
    pub(crate) lines: Vec<Vec<String>>,
    pub(crate) took: Duration,
}

pub(crate) struct Ranks {
    children: Vec<Child>,
    inputs: Vec<Option<ChildStdin>>,
    messages: Receiver<(usize, RankMessage)>,
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Ranks {
    /// Starts the processes.
    pub(crate) fn start(
        plugin: &Path,
        scenario: &str,
        version: u32,
        world: usize,
        mut variables: impl FnMut(usize) -> Vec<(String, String)>,
    ) -> Self {
        let (tx, messages) = channel();
        let mut ranks = Self { children: Vec::new(), inputs: Vec::new(), messages };
        for rank in 0..world {
            let mut command = Command::new(std::env::current_exe().unwrap());
            for name in [
                "NETFOLD_CONTROLLER",
                "NETFOLD_JOB",
                "SLURM_JOB_ID",
                "NETFOLD_CA",
                "NETFOLD_TENANT",
                "NETFOLD_TOKEN",
                "NETFOLD_MODE",
                "NCCL_SOCKET_IFNAME",
                "NETFOLD_NCCL_REQUIRE_SWITCH",
            ] {
                command.env_remove(name);
            }
            command
                .env("HARNESS_PLUGIN", plugin)
                .env("HARNESS_SCENARIO", scenario)
                .env("HARNESS_VERSION", version.to_string())
                .env("HARNESS_RANK", rank.to_string())
                .env("HARNESS_WORLD", world.to_string())
                .env("NETFOLD_IFNAME", "lo")
                .env("NETFOLD_NCCL_CONNECT_TIMEOUT", "20")
                .envs(variables(rank))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let mut child = command.spawn().expect("this program can be started again");
            ranks.inputs.push(child.stdin.take());
            let output = BufReader::new(child.stdout.take().unwrap());
            let tx: Sender<(usize, RankMessage)> = tx.clone();
            std::thread::spawn(move || {
                for line in output.lines().map_while(Result::ok) {
                    let message = match line.split_once(' ') {
                        Some(("gather", bytes)) => RankMessage::Gather(bytes.to_owned()),
                        _ if line == "event" => RankMessage::Event,
                        _ => RankMessage::Line(line),
                    };
                    let _ = tx.send((rank, message));
                }
                let _ = tx.send((rank, RankMessage::End));
            });
            ranks.children.push(child);
        }
        ranks
    }

    /// Serves the ranks until all have ended; `event` is called when the first one asks for it.
    pub(crate) fn run(mut self, event: impl FnOnce()) -> ScenarioOutcome {
        let start = Instant::now();
        let world = self.children.len();
        let mut event = Some(event);
        let mut gathered: Vec<Option<String>> = vec![None; world];
        let mut ended = vec![false; world];
        let mut lines = vec![Vec::new(); world];
        while !ended.iter().all(|ended| *ended) {
            let left = SCENARIO_TIMEOUT.saturating_sub(start.elapsed());
            let Ok((rank, said)) = self.messages.recv_timeout(left) else {
                panic!("ranks {ended:?} have not ended within {SCENARIO_TIMEOUT:?}; they said {lines:#?}");
            };
            match said {
                RankMessage::Gather(bytes) => gathered[rank] = Some(bytes),
                RankMessage::Line(line) => lines[rank].push(line),
                RankMessage::Event => event.take().into_iter().for_each(|event| event()),
                RankMessage::End => ended[rank] = true,
            }
            // Who has ended is not waited for; the others see that nothing came.
            if (0..world).all(|rank| ended[rank] || gathered[rank].is_some())
                && gathered.iter().any(Option::is_some)
            {
                let all: Vec<String> =
                    gathered.iter_mut().map(|bytes| bytes.take().unwrap_or("-".into())).collect();
                let text = all.join(" ") + "\n";
                for input in self.inputs.iter_mut().flatten() {
                    let _ = input.write_all(text.as_bytes());
                }
            }
        }
        let codes = self.children.iter_mut().map(|child| child.wait().unwrap().code()).collect();
        ScenarioOutcome { codes, lines, took: start.elapsed() }
    }
}
