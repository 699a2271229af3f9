//! Network namespaces: named ones, which other processes can enter, and those of a thread.
//!
//! All need the privilege to make them (CAP_SYS_ADMIN). A test that cannot run without it asks [`available`], which fails instead where
//! the environment variable `REQUIRE_NET_ADMIN` is set.
#![expect(unsafe_code, reason = "entering a new namespace is an unsafe call of rustix")]

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// A command of the system that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{command}` failed: {message}")]
pub struct CommandError {
    /// The command, words separated by spaces.
    pub command: String,
    /// What it wrote on standard error, or why it could not be started.
    pub message: String,
}

/// Runs a command, words separated by spaces; returns its standard output.
///
/// # Errors
///
/// The command, and what it wrote on standard error.
pub fn command(words: &str) -> Result<String, CommandError> {
    script(words, "")
}

/// Runs a command, words separated by spaces, that reads `input`; returns its standard output.
///
/// # Errors
///
/// As [`command`].
pub fn script(words: &str, input: &str) -> Result<String, CommandError> {
    let failed = |message: String| CommandError { command: words.into(), message };
    let output = output(words, input).map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

fn output(words: &str, input: &str) -> io::Result<Output> {
    let mut parts = words.split_whitespace();
    let mut command = Command::new(parts.next().unwrap_or_default());
    command.args(parts).stdout(Stdio::piped()).stderr(Stdio::piped());
    if input.is_empty() {
        return command.stdin(Stdio::null()).output();
    }
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    child.wait_with_output()
}

/// A command of the program in a named namespace.
pub fn command_in(namespace: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

/// Named network namespaces, removed with their interfaces when dropped, and with the processes in them when this process is killed.
#[derive(Debug)]
pub struct NamespaceSet {
    prefix: String,
    names: Vec<String>,
    /// A directory that is removed, too, when this process is killed.
    directory: Option<PathBuf>,
    /// A process that waits for the end of this one.
    guard: Option<Child>,
}

/// Waits for the end of its input, which this process holds open as long as it lives; then ends what runs in the namespaces whose names begin
/// with `$1`, and removes them, and the directory `$2`.
const GUARD: &str = r#"trap '' INT TERM HUP
cat > /dev/null
for path in /var/run/netns/"$1"-*; do
    name=${path##*/}
    for process in $(ip netns pids "$name" 2> /dev/null); do kill -KILL "$process" 2> /dev/null; done
    ip netns del "$name" 2> /dev/null
done
[ -z "$2" ] || rm -rf -- "$2""#;

impl Default for NamespaceSet {
    fn default() -> Self {
        Self::new()
    }
}

impl NamespaceSet {
    /// An empty set, with names that no other set has. Removes the namespaces that processes left behind which have ended.
    pub fn new() -> Self {
        static SETS: AtomicU32 = AtomicU32::new(0);
        remove_of(|owner| !Path::new(&format!("/proc/{owner}")).exists());
        let set = SETS.fetch_add(1, Ordering::Relaxed);
        Self {
            prefix: format!("netfold-{}-{set}", std::process::id()),
            names: Vec::new(),
            directory: None,
            guard: None,
        }
    }

    /// The name of a namespace: its kind is one word of lower-case letters.
    pub fn name(&self, kind: impl Display, number: usize) -> String {
        format!("{}-{kind}{number}", self.prefix)
    }

    /// Makes a namespace without IPv6, so that it sends no neighbour discovery and no router solicitations; returns its name.
    ///
    /// # Errors
    ///
    /// [`CommandError`], usually because the process is not root.
    pub fn add(&mut self, kind: impl Display, number: usize) -> Result<String, CommandError> {
        let name = self.name(kind, number);
        if self.guard.is_none() {
            self.guard = Some(self.start_guard()?);
        }
        command(&format!("ip netns add {name}"))?;
        self.names.push(name.clone());
        command(&format!(
            "ip netns exec {name} sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
        ))?;
        Ok(name)
    }
}

impl NamespaceSet {
    /// Has a directory removed, with what is in it by then, when this process is killed or this is dropped. Before the first namespace is added.
    #[must_use]
    pub fn with_directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// The guard is in a process group of its own, so that what is typed at a terminal does not reach it.
    fn start_guard(&self) -> Result<Child, CommandError> {
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "netfold-guard", &self.prefix]).args(&self.directory).process_group(0);
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        guard.spawn().map_err(|error| CommandError { command: "sh".into(), message: error.to_string() })
    }
}

impl Drop for NamespaceSet {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| remove(name));
        if let Some(mut guard) = self.guard.take() {
            // Closes its input, and waits.
            let _ = guard.wait();
        }
    }
}

/// Where `ip netns` keeps the names of namespaces.
const DIRECTORY: &str = "/var/run/netns";

/// Removes the namespaces of [`NamespaceSet`]s of the processes for which `owner` is true, with their interfaces.
pub fn remove_of(owner: impl Fn(u32) -> bool) {
    for entry in std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner_of(&name).is_some_and(&owner) {
            remove(&name);
        }
    }
}

/// A failure is not reported: what is left shows in `ip netns`.
fn remove(name: &str) {
    let _ = command(&format!("ip netns del {name}"));
}

/// The process whose set has a namespace of this name; `None` when it is of no set.
fn owner_of(name: &str) -> Option<u32> {
    let mut parts = name.strip_prefix("netfold-")?.split('-');
    let (process, set, label) = (parts.next()?, parts.next()?, parts.next()?);
    let number = label.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    let labelled = number.len() < label.len() && number.parse::<u32>().is_ok();
    (labelled && set.parse::<u32>().is_ok() && parts.next().is_none()).then(|| process.parse().ok())?
}

/// Calls a function on a thread of its own within a named namespace.
///
/// # Errors
///
/// When there is no such namespace, it cannot be entered, or the function panicked.
pub fn within<T: Send>(namespace: &str, call: impl FnOnce() -> T + Send) -> io::Result<T> {
    let path = format!("{DIRECTORY}/{namespace}");
    let enter = move || -> io::Result<T> {
        let file = File::open(path)?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(call())
    };
    let entered = thread::scope(|scope| scope.spawn(enter).join());
    entered.unwrap_or_else(|_| Err(io::Error::other("a thread failed")))
}

type Call = Box<dyn FnOnce() + Send>;

/// A namespace without a name, entered by one thread that runs what it is given. The kernel removes the namespace and the interfaces in it
/// once the thread and all sockets that were opened in it are gone, however the process ends.
#[derive(Debug)]
pub struct Namespace {
    calls: Sender<Call>,
}

impl Namespace {
    /// A new namespace with nothing but a loopback interface that is down.
    ///
    /// # Errors
    ///
    /// The system's, usually because the process is not root.
    pub fn new() -> io::Result<Self> {
        let (calls, queue) = channel::<Call>();
        let (ready, entered) = channel();
        thread::Builder::new().name("namespace".into()).spawn(move || {
            let result = unshare();
            let failed = result.is_err();
            if ready.send(result).is_err() || failed {
                return;
            }
            for call in queue {
                call();
            }
        })?;
        entered.recv().map_err(|_| io::Error::other("the thread ended"))??;
        Ok(Self { calls })
    }

    /// Calls `f` within the namespace and returns its result. Sockets that it opens stay in the namespace.
    ///
    /// # Panics
    ///
    /// When `f` does, or an earlier one did.
    pub fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        let call = move || {
            // The receiver is gone only if the caller has panicked.
            let _ = done.send(f());
        };
        self.calls.send(Box::new(call)).expect("the namespace's thread has panicked before");
        result.recv().expect("the call within the namespace panicked")
    }

    /// Runs a command within the namespace, words separated by spaces; returns its standard output.
    ///
    /// # Errors
    ///
    /// As [`command`].
    pub fn command(&self, words: &str) -> Result<String, CommandError> {
        self.script(words, "")
    }

    /// Runs a command within the namespace, words separated by spaces, that reads `input`.
    ///
    /// # Errors
    ///
    /// As [`command`].
    pub fn script(&self, words: &str, input: &str) -> Result<String, CommandError> {
        let (words, input) = (words.to_owned(), input.to_owned());
        self.run(move || script(&words, &input))
    }
}

/// Puts the calling thread into a new network namespace.
fn unshare() -> io::Result<()> {
    // SAFETY: only the network namespace changes, and that of this thread alone; no file descriptor is affected.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from)
}

/// Reports that a test is skipped because there is no network namespace to run it in.
///
/// # Panics
///
/// Where `REQUIRE_NET_ADMIN` is set: there, such tests must run.
pub fn skip(reason: impl Display) {
    assert!(std::env::var_os("REQUIRE_NET_ADMIN").is_none(), "no network namespace to test in: {reason}");
    println!("skipped: no network namespace to test in: {reason}");
}

/// Whether this process can make network namespaces; reports that the test is skipped if not.
///
/// # Panics
///
/// As [`skip`].
pub fn available() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("this process is not root's");
    }
    root
}

/// Runs a test on a thread in an empty network namespace, or skips it where there can be none.
///
/// # Panics
///
/// When the test does, and as [`skip`].
pub fn alone(test: impl FnOnce() + Send) {
    let enter = || match unshare() {
        Ok(()) => test(),
        Err(error) => skip(error),
    };
    let ended = thread::scope(|scope| scope.spawn(enter).join());
    if let Err(panic) = ended {
        std::panic::resume_unwind(panic);
    }
}

/// Runs an ignored test of the calling test executable in a process in a network namespace of its own, which needs no privilege where the
/// system lets users make namespaces. `prepare` is a shell script that is run there first.
///
/// # Panics
///
/// When the test fails, and as [`skip`] where there can be no namespace or `prepare` fails.
pub fn ignored_test(prepare: &str, test: &str) {
    let script = format!("{prepare} && echo READY && exec \"$0\" --exact --ignored {test}");
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", &script]);
    let output = std::env::current_exe().and_then(|executable| command.arg(executable).output());
    match output {
        Ok(output) if output.stdout.starts_with(b"READY") => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
        }
        Ok(output) => skip(String::from_utf8_lossy(&output.stderr)),
        Err(error) => skip(error),
    }
}

/// Makes a pair of virtual interfaces, `near` in the calling thread's namespace and `far` too, both up.
///
/// # Errors
///
/// As [`command`].
pub fn veth_pair(near: &str, far: &str, mtu: u16) -> Result<(), CommandError> {
    command(&format!("ip link add {near} mtu {mtu} type veth peer name {far} mtu {mtu}"))?;
    command(&format!("ip link set {near} up"))?;
    command(&format!("ip link set {far} up")).map(drop)
}

/// Makes a pair of virtual interfaces, each `(interface, namespace)`, both up.
///
/// # Errors
///
/// As [`command`].
pub fn veth_between(near: (&str, &str), far: (&str, &str)) -> Result<(), CommandError> {
    command(&format!(
        "ip link add {} netns {} type veth peer name {} netns {}",
        near.0, near.1, far.0, far.1
    ))?;
    command(&format!("ip -n {} link set {} up", near.1, near.0))?;
    command(&format!("ip -n {} link set {} up", far.1, far.0)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_sets_are_removed() {
        assert_eq!(owner_of("netfold-123-0-w17"), Some(123));
        assert_eq!(owner_of("netfold-4294967295-2-host0"), Some(u32::MAX));
        for other in [
            "netfold",
            "netfold-1-0",
            "netfold-x-0-w1",
            "netfold-1-x-w1",
            "netfold-1-0-1",
            "netfold-1-0-w",
            "mine-1-0-w1",
            "netfold-1-0-w1-x",
        ] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_command_that_fails_is_named_with_its_message() {
        assert_eq!(command("echo one two"), Ok("one two\n".into()));
        assert_eq!(script("cat", "input"), Ok("input".into()));
        let error = command("cat /nonexistent").unwrap_err();
        assert!(error.command == "cat /nonexistent" && error.message.contains("No such file"), "{error}");
    }

    #[test]
    fn namespaces_have_their_own_interfaces() {
        if !available() {
            return;
        }
        alone(|| {
            veth_pair("near", "far", 1500).unwrap();
            assert!(command("ip -br link show near").unwrap().contains("UP"));
        });
        let mut set = NamespaceSet::new();
        let (one, other) = (set.add("kit", 1).unwrap(), set.add("kit", 2).unwrap());
        veth_between(("near", &one), ("far", &other)).unwrap();
        assert!(within(&other, || command("ip -br link show far").unwrap()).unwrap().contains("UP"));
        drop(set);
        assert!(within(&one, || ()).is_err(), "it is removed");
    }
}
