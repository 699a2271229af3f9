//! Processes with a time limit.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const GLANCE: Duration = Duration::from_millis(10);

/// Whether a program is there. Says on standard output which test it was needed for if it is not.
pub(crate) fn present(program: &str, test: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {test}: {program} is absent");
    }
    found
}

/// A path in the folder for what tests write.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A process whose output goes to a file.
pub(crate) struct Running {
    child: Child,
    output: PathBuf,
    said: String,
    deadline: Instant,
}

/// What a process did.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Standard output and standard error.
    pub(crate) text: String,
    said: String,
}

impl Running {
    /// Starts a process that may take so long.
    pub(crate) fn start(command: &mut Command, limit: Duration) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let output = scratch(&format!("output-{}-{number}", std::process::id()));
        let file = File::create(&output).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let said = format!("{command:?}");
        let child = command.spawn().unwrap_or_else(|error| panic!("{said}: {error}"));
        Self { child, output, said, deadline: Instant::now() + limit }
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > self.deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("{} takes too long; it said:\n{}", self.said, self.text());
            }
            thread::sleep(GLANCE);
        };
        let text = self.text();
        let _ = fs::remove_file(&self.output);
        Ended { status, text, said: self.said }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }
}

impl Ended {
    /// What it said, if it ended well.
    pub(crate) fn good(self) -> String {
        assert!(self.status.success(), "{}: {}\n{}", self.said, self.status, self.text);
        self.text
    }
}

/// Runs a command to its good end, at most ten minutes: for compilers.
pub(crate) fn run(command: &mut Command) -> String {
    Running::start(command, Duration::from_secs(600)).end().good()
}
