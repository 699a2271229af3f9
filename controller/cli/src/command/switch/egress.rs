//! Egress queues of a switch's ports: the options and the file that configure them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use netfold_switch::queue::{CLASSES, ClassConfig, Ecn, Pause, PortConfig, QueueConfig, Rate};
use serde::Deserialize;

use crate::error::CliError;
use crate::size::{Bits, Bytes};

/// Longest file that is read, in bytes.
const FILE_LEN_MAX: usize = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct EgressOptions {
    /// Give every port egress queues, configured by this file (TOML): classes, priorities, weights, marks, trimming, rates.
    #[arg(long, value_name = "FILE")]
    egress: Option<PathBuf>,
    /// Rate limit of every port, in bits a second, as in 200M or 10G; packets are marked when a queue holds more than 1 ms of
    /// transmission. For more options use --egress.
    #[arg(long, value_name = "RATE", conflicts_with = "egress")]
    port_rate: Option<Bits>,
}

impl EgressOptions {
    /// Whether any queues are configured.
    pub(super) fn is_given(&self) -> bool {
        self.egress.is_some() || self.port_rate.is_some()
    }

    /// The configured queues, if any.
    pub(super) fn config(&self) -> Result<Option<QueueConfig>, CliError> {
        if let Some(Bits(rate)) = self.port_rate {
            return Ok(Some(QueueConfig { port: PortConfig::slow(rate), ..QueueConfig::default() }));
        }
        let Some(path) = &self.egress else { return Ok(None) };
        let text =
            std::fs::read_to_string(path).map_err(|source| CliError::Read { path: path.clone(), source })?;
        let parsed = parse(&text);
        parsed.map(Some).map_err(|problem| CliError::Usage(format!("{}: {problem}", path.display())))
    }
}

/// A size in bytes, as a number or with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Size {
    Number(u64),
    Text(String),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    memory: Option<Size>,
    seed: Option<u64>,
    pause: Option<PauseTable>,
    #[serde(default)]
    port: PortTable,
    #[serde(default)]
    ports: BTreeMap<String, PortTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseTable {
    above: Size,
    resume_at: Size,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortTable {
    rate: Option<Size>,
    burst: Option<Size>,
    control: Option<Size>,
    classes: Option<Vec<u8>>,
    #[serde(default)]
    queue: Vec<QueueTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueTable {
    #[serde(default)]
    priority: u8,
    #[serde(default = "one")]
    weight: u8,
    limit: Option<Size>,
    trim_above: Option<Size>,
    pause_above: Option<Size>,
    resume_at: Option<Size>,
    ecn: Option<EcnTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EcnTable {
    k_min: Size,
    k_max: Size,
    #[serde(default = "certain")]
    p_max: f64,
}

const fn one() -> u8 {
    1
}

const fn certain() -> f64 {
    1.0
}

impl Size {
    fn bytes(&self) -> Result<u64, String> {
        match self {
            Self::Number(bytes) => Ok(*bytes),
            Self::Text(text) => text.parse().map(|Bytes(bytes)| bytes),
        }
    }

    fn bits(&self) -> Result<u64, String> {
        match self {
            Self::Number(bits) => Ok(*bits),
            Self::Text(text) => text.parse().map(|Bits(bits)| bits),
        }
    }
}

/// A size in 32 bits; a larger one is saturated.
fn small(size: &Size) -> Result<u32, String> {
    Ok(u32::try_from(size.bytes()?).unwrap_or(u32::MAX))
}

fn parse(text: &str) -> Result<QueueConfig, String> {
    if text.len() > FILE_LEN_MAX {
        return Err(format!("longer than {FILE_LEN_MAX} bytes"));
    }
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut config = QueueConfig { port: file.port.port()?, ..QueueConfig::default() };
    if let Some(memory) = &file.memory {
        config.memory_bytes = memory.bytes()? as usize;
    }
    config.seed = file.seed.unwrap_or(config.seed);
    for (number, table) in &file.ports {
        let port = number.parse().map_err(|_| format!("[ports.{number}]: a port is a number"))?;
        let port_config = table.port().map_err(|problem| format!("[ports.{number}]: {problem}"))?;
        config.ports.insert(port, port_config);
    }
    if let Some(pause) = &file.pause {
        let (above, resume_at) = (pause.above.bytes()? as usize, pause.resume_at.bytes()? as usize);
        config.pause = Some(Pause { above, resume_at });
    }
    Ok(config)
}

impl PortTable {
    fn port(&self) -> Result<PortConfig, String> {
        let mut port = PortConfig::default();
        match (&self.rate, &self.burst) {
            (Some(rate), burst) => {
                let mut rate = Rate::of(rate.bits()?);
                if let Some(burst) = burst {
                    rate.burst_bytes = small(burst)?;
                }
                port.rate = Some(rate);
            }
            (None, Some(_)) => return Err("burst requires rate".into()),
            (None, None) => {}
        }
        if let Some(control) = &self.control {
            port.control_bytes_max = small(control)?;
        }
        if !self.queue.is_empty() {
            port.queues = self.queue.iter().map(QueueTable::class).collect::<Result<_, _>>()?;
            let queues = port.queues.len();
            port.queue_of = std::array::from_fn(|class| (class * queues / CLASSES) as u8);
        }
        if let Some(classes) = &self.classes {
            let given = classes.len();
            port.queue_of = classes.as_slice().try_into().map_err(|_| {
                format!("classes has {given} numbers; it must have {CLASSES}, the queue of each class")
            })?;
        }
        Ok(port)
    }
}

impl QueueTable {
    /// By default it resumes at half of what it pauses above.
    fn pause(&self) -> Result<Option<Pause>, String> {
        let Some(above) = &self.pause_above else {
            return if self.resume_at.is_none() {
                Ok(None)
            } else {
                Err("resume_at requires pause_above".into())
            };
        };
        let above = above.bytes()? as usize;
        let resume_at = self.resume_at.as_ref().map(Size::bytes).transpose()?;
        Ok(Some(Pause { above, resume_at: resume_at.map_or(above / 2, |bytes| bytes as usize) }))
    }

    fn class(&self) -> Result<ClassConfig, String> {
        let default = ClassConfig::default();
        let limit = self.limit.as_ref().map(small).transpose()?;
        let ecn = |table: &EcnTable| {
            Ok::<_, String>(Ecn {
                k_min: small(&table.k_min)?,
                k_max: small(&table.k_max)?,
                p_max: table.p_max,
            })
        };
        Ok(ClassConfig {
            priority: self.priority,
            weight: self.weight,
            bytes_max: limit.unwrap_or(default.bytes_max),
            trim_above: self.trim_above.as_ref().map(small).transpose()?,
            ecn: self.ecn.as_ref().map(ecn).transpose()?,
            pause: self.pause()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: &str = r#"
        memory = "8MiB"
        seed = 7
        pause = { above = "4MiB", resume_at = 1000 }

        [port]
        rate = "200M"
        burst = "32KiB"
        control = 4096
        classes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]

        [[port.queue]]
        weight = 3
        limit = "256KiB"
        trim_above = "64KiB"
        pause_above = "128KiB"
        ecn = { k_min = "16KiB", k_max = "64KiB", p_max = 0.2 }

        [[port.queue]]
        priority = 1

        [ports.3]
    "#;

    #[test]
    fn all_keys_are_parsed() {
        let config = parse(EVERYTHING).unwrap();
        assert_eq!((config.memory_bytes, config.seed), (8 << 20, 7));
        assert_eq!(config.pause, Some(Pause { above: 4 << 20, resume_at: 1000 }));
        let rate = Rate { bits_per_second: 200_000_000, burst_bytes: 32 << 10 };
        assert_eq!((config.port.rate, config.port.control_bytes_max), (Some(rate), 4096));
        assert_eq!((config.port.queue_of[11], config.port.queue_of[12]), (0, 1));
        let low = ClassConfig {
            priority: 0,
            weight: 3,
            bytes_max: 256 << 10,
            trim_above: Some(64 << 10),
            ecn: Some(Ecn { k_min: 16 << 10, k_max: 64 << 10, p_max: 0.2 }),
            pause: Some(Pause { above: 128 << 10, resume_at: 64 << 10 }),
        };
        let high = ClassConfig { priority: 1, ..ClassConfig::default() };
        assert_eq!(config.port.queues, [low, high]);
        assert_eq!(config.ports, [(3, PortConfig::default())].into());
        config.check(1440).unwrap();
        assert_eq!(parse("").unwrap(), QueueConfig::default());
    }

    #[test]
    fn errors_name_the_problem() {
        for (text, problem) in [
            ("[port]\nburst = 1", "burst requires rate"),
            ("[[port.queue]]\nresume_at = 1", "resume_at requires pause_above"),
            ("[port]\nclasses = [1]", "classes has 1 numbers"),
            ("[ports.x]", "[ports.x]: a port is a number"),
            ("memory = \"lots\"", "not a size"),
            ("[port]\nrate = \"fast\"", "not a rate"),
            ("speed = 1", "unknown field"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
