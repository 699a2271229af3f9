//! Settings from the environment.

use std::time::Duration;

use netfold::Mode;

/// How CollNet works in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The job whose groups communicators are: `NETFOLD_JOB`, or the job step of Slurm. Without either each communicator is a job of its own, since the
    /// plugin learns nothing that all communicators of a training have in common.
    pub(crate) job: Option<String>,
    /// `NETFOLD_CONTROLLER`: the controller's port for workers, or a switch's own, `HOST:PORT`.
    pub(crate) controller: Option<String>,
    /// `NETFOLD_CA`: file of the authorities that may have signed the controller's certificate.
    pub(crate) controller_ca: Option<String>,
    /// `NETFOLD_TENANT` and `NETFOLD_TOKEN`: the tenant of the job.
    pub(crate) tenant: Option<(String, String)>,
    /// `NETFOLD_MODE`: how floating-point tensors are encoded.
    pub(crate) mode: Mode,
    /// `NETFOLD_NCCL_REQUIRE_SWITCH`: whether `connect` refuses when no switch can be used.
    pub(crate) require_switch: bool,
    /// `NETFOLD_AUTHENTICATED`: whether packets between ranks and switches are authenticated.
    pub(crate) authenticated: bool,
    /// `NETFOLD_NCCL_MIN_RANKS`: smallest group that is not refused.
    pub(crate) min_ranks: u16,
    /// `NETFOLD_NCCL_CONNECT_TIMEOUT`: how long `connect` may take.
    pub(crate) connect_timeout: Duration,
    /// `NETFOLD_NCCL_STALL_TIMEOUT`: how long an operation may make no progress.
    pub(crate) stall_timeout: Duration,
}

impl Settings {
    /// # Errors
    ///
    /// A message for an invalid value, and where a confidential job is asked for: there is none.
    pub(crate) fn from_environment() -> Result<Self, String> {
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let text =
            |name: &str| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let number = |name: &str, default: u64| match text(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{name}={text} is not a number")),
        };
        if text("NETFOLD_CONFIDENTIAL").is_some() {
            return Err("NETFOLD_CONFIDENTIAL is set, and there are no confidential jobs here: NCCL sends most data by itself, in clear. \
                        Unset it to use the plugin"
                .into());
        }
        let flag = |name: &str, default: bool| match text(name).as_deref() {
            None => Ok(default),
            Some("1") => Ok(true),
            Some("0") => Ok(false),
            Some(other) => Err(format!("{name}={other} is neither 0 nor 1")),
        };
        let require_switch = flag("NETFOLD_NCCL_REQUIRE_SWITCH", true)?;
        let mode = match text("NETFOLD_MODE") {
            None => Mode::Bfp32,
            Some(name) => name.parse().map_err(|error| format!("NETFOLD_MODE: {error}"))?,
        };
        let min_ranks = number("NETFOLD_NCCL_MIN_RANKS", 2)?.clamp(2, u64::from(u16::MAX)) as u16;
        // At most a day, which cannot overflow a clock.
        let seconds = |name, default| number(name, default).map(|s| Duration::from_secs(s.clamp(1, 86_400)));
        Ok(Self {
            job: text("NETFOLD_JOB").or_else(|| netfold::launcher::slurm_job(&text)),
            controller: text("NETFOLD_CONTROLLER"),
            controller_ca: text("NETFOLD_CA"),
            tenant: text("NETFOLD_TENANT").map(|tenant| (tenant, text("NETFOLD_TOKEN").unwrap_or_default())),
            mode,
            require_switch,
            authenticated: flag("NETFOLD_AUTHENTICATED", false)?,
            min_ranks,
            connect_timeout: seconds("NETFOLD_NCCL_CONNECT_TIMEOUT", 30)?,
            stall_timeout: seconds("NETFOLD_NCCL_STALL_TIMEOUT", 1800)?,
        })
    }

    /// Why a group of `world` ranks is refused before connecting.
    pub(crate) fn refusal(&self, world: u16) -> Option<String> {
        if world < self.min_ranks {
            return Some(format!("{world} ranks are fewer than NETFOLD_NCCL_MIN_RANKS={}", self.min_ranks));
        }
        (self.require_switch && self.controller.is_none()).then(|| {
            "NETFOLD_CONTROLLER is not set (NETFOLD_NCCL_REQUIRE_SWITCH=0 allows groups without a switch)"
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn defaults_refuse_without_a_switch() {
        let settings = read(&[]).unwrap();
        assert!(settings.require_switch && settings.mode == Mode::Bfp32);
        assert!(settings.refusal(4).unwrap().contains("NETFOLD_CONTROLLER"));
        assert_eq!(read(&[("NETFOLD_NCCL_REQUIRE_SWITCH", "0")]).unwrap().refusal(4), None);
        assert_eq!(read(&[("NETFOLD_CONTROLLER", "tor:20038")]).unwrap().refusal(2), None);
    }

    #[test]
    fn a_job_is_named_by_the_user_or_by_slurm() {
        let step = [("SLURM_JOB_ID", "17"), ("SLURM_STEP_ID", "0")];
        assert_eq!(read(&[]).unwrap().job, None);
        assert_eq!(read(&step[..1]).unwrap().job, None, "all steps of an allocation have this");
        assert_eq!(read(&step).unwrap().job.as_deref(), Some("slurm-17.0"));
        let named = [step[0], step[1], ("NETFOLD_JOB", "llm")];
        assert_eq!(read(&named).unwrap().job.as_deref(), Some("llm"));
    }

    #[test]
    fn small_groups_are_refused() {
        let settings = read(&[("NETFOLD_CONTROLLER", "tor:1"), ("NETFOLD_NCCL_MIN_RANKS", "8")]).unwrap();
        assert!(settings.refusal(7).unwrap().contains("MIN_RANKS=8"));
        assert_eq!(settings.refusal(8), None);
    }

    #[test]
    fn invalid_values_are_reported() {
        assert!(read(&[("NETFOLD_MODE", "fast")]).unwrap_err().contains("NETFOLD_MODE"));
        assert!(read(&[("NETFOLD_NCCL_MIN_RANKS", "x")]).unwrap_err().contains("NETFOLD_NCCL_MIN_RANKS=x"));
        assert!(read(&[("NETFOLD_NCCL_REQUIRE_SWITCH", "yes")]).is_err());
        assert!(read(&[("NETFOLD_AUTHENTICATED", "yes")]).unwrap_err().contains("NETFOLD_AUTHENTICATED=yes"));
        let confidential = read(&[("NETFOLD_CONTROLLER", "tor:1"), ("NETFOLD_CONFIDENTIAL", "job.key")]);
        assert!(confidential.unwrap_err().contains("in clear"));
    }
}
