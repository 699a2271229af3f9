//! With what a measurement was made: program, machine and parameters, printed before its results.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::thread;

use clap::{ArgMatches, Command};
use serde::Serialize;

/// The program, the machine and the parameters of a command.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    event: &'static str,
    /// The command without the program's name, as in `bench fold`.
    command: String,
    version: &'static str,
    /// Name and release of the operating system's kernel.
    kernel: String,
    /// The processor's model; its architecture if the kernel does not name it.
    cpu: String,
    /// Cores that this process may use.
    cores: usize,
    /// The value of every option, those not given included, by the option's name.
    parameters: BTreeMap<String, String>,
}

impl Settings {
    /// The settings of a parsed command line of `program`.
    pub(crate) fn new(program: &Command, matches: &ArgMatches) -> Self {
        let (mut command, mut matches, mut words) = (program, matches, Vec::new());
        while let Some((name, inner)) = matches.subcommand() {
            let Some(subcommand) = command.find_subcommand(name) else { break };
            (command, matches) = (subcommand, inner);
            words.push(name);
        }
        let kernel = |file: &str| first_line(&format!("/proc/sys/kernel/{file}"));
        Self {
            event: "settings",
            command: words.join(" "),
            version: env!("CARGO_PKG_VERSION"),
            kernel: [kernel("ostype"), kernel("osrelease")].map(Option::unwrap_or_default).join(" "),
            cpu: cpu(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            parameters: parameters(command, matches),
        }
    }
}

/// As comments of a table.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, command, kernel, cpu, cores, .. } = self;
        writeln!(f, "# netfold {version}, {command}; {kernel}; {cpu}, {cores} cores")?;
        write!(f, "#")?;
        for (name, value) in self.parameters.iter().filter(|(_, value)| *value != "false") {
            write!(f, " {name}={value}")?;
        }
        writeln!(f)
    }
}

fn first_line(file: &str) -> Option<String> {
    fs::read_to_string(file).ok()?.lines().next().map(|line| line.trim().to_owned())
}

fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    let model = fields.find(|(name, _)| name.trim() == "model name");
    model.map_or(std::env::consts::ARCH.into(), |(_, model)| model.trim().to_owned())
}

/// The values of a command's options, defaults included. Hidden options, which only this program gives itself, and options whose value is
/// hidden in help because it is a secret are left out.
fn parameters(command: &Command, matches: &ArgMatches) -> BTreeMap<String, String> {
    let shown = command.get_arguments().filter(|option| {
        !option.is_hide_set() && !option.is_hide_env_values_set() && !option.is_global_set()
    });
    shown
        .filter_map(|option| {
            let id = option.get_id().as_str();
            let values = matches.try_get_raw(id).ok().flatten()?;
            let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
            Some((option.get_long().unwrap_or(id).to_owned(), values.join(",")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::*;

    fn program() -> Command {
        let test = Command::new("test")
            .arg(Arg::new("bytes").long("bytes").default_value("4KiB"))
            .arg(Arg::new("cores").long("cores").value_delimiter(','))
            .arg(Arg::new("quick").long("quick").action(ArgAction::SetTrue))
            .arg(Arg::new("inner").long("inner").hide(true))
            .arg(Arg::new("token").long("token").hide_env_values(true));
        let json = Arg::new("json").long("json").global(true).action(ArgAction::SetTrue);
        Command::new("netfold").arg(json).subcommand(Command::new("bench").subcommand(test))
    }

    #[test]
    fn parameters_have_defaults_and_no_secrets() {
        let words = "netfold bench test --json --cores 1,2 --inner x --token secret".split(' ');
        let matches = program().try_get_matches_from(words).unwrap();
        let settings = Settings::new(&program(), &matches);
        assert_eq!(settings.command, "bench test");
        let parameters: Vec<_> =
            settings.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(parameters, ["bytes=4KiB", "cores=1,2", "quick=false"]);
        assert!(!settings.cpu.is_empty() && settings.cores > 0, "{settings:?}");
        assert!(settings.to_string().ends_with("\n# bytes=4KiB cores=1,2\n"), "{settings}");
    }
}
