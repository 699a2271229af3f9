//! What a switch is to run: a program in the target's form, and what the control plane has to know of it.

use std::sync::Arc;

use netfold_p4::allreduce;
use netfold_p4::profile::{Profile, ProfileError};
use netfold_p4_runtime::config::P4Info;
use netfold_p4_runtime::{Schema, SchemaError, p4info, v1};

use super::driver::{DeviceFormat, check_bmv2};

/// A pipeline to be run by a switch.
///
/// On the switch it carries a cookie, the program's fingerprint, by which it is known again: a switch that runs the
/// very pipeline is left undisturbed.
#[derive(Debug, Clone)]
pub struct Pipeline {
    pub(super) profile: Profile,
    pub(super) info: P4Info,
    pub(super) schema: Arc<Schema>,
    pub(super) device_config: Vec<u8>,
    pub(super) cookie: u64,
}

/// Why there is no such pipeline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// No program has such a profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The device configuration is empty; some switches take that for a request to run nothing.
    #[error("the device configuration is empty: give it what the compiler wrote")]
    Empty,
    /// The device configuration is not what bmv2 runs, or not of this program.
    #[error("the device configuration is not the JSON of this program: {0}; compile it again")]
    DeviceConfig(String),
    /// The program's description cannot be read back.
    #[error("the program's P4Info is broken: this is a defect of its printer")]
    P4Info(#[source] prost::DecodeError),
    /// The program's description makes no sense.
    #[error("the program's P4Info is broken: this is a defect of its printer")]
    Schema(#[source] SchemaError),
}

impl Pipeline {
    /// The all-reduce program of a profile, for Netfold's own switch: the program itself is what is pushed.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Profile`].
    pub fn software(profile: Profile) -> Result<Self, PipelineError> {
        let program = allreduce::program(&profile)?;
        Self::new(profile, program.to_json().into_bytes(), DeviceFormat::Opaque)
    }

    /// The all-reduce program of a profile, with what the target's compiler has made of it.
    ///
    /// # Errors
    ///
    /// [`PipelineError`], when the two do not belong together as far as that can be checked.
    pub fn new(
        profile: Profile,
        device_config: Vec<u8>,
        format: DeviceFormat,
    ) -> Result<Self, PipelineError> {
        let program = allreduce::program(&profile)?;
        let info = p4info(&program).map_err(PipelineError::P4Info)?;
        if device_config.is_empty() {
            return Err(PipelineError::Empty);
        }
        if format == DeviceFormat::Bmv2 {
            check_bmv2(&info, &device_config).map_err(PipelineError::DeviceConfig)?;
        }
        let schema = Arc::new(Schema::new(&info).map_err(PipelineError::Schema)?);
        Ok(Self { profile, info, schema, device_config, cookie: program.fingerprint() })
    }

    /// The profile of the program.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    pub(super) fn message(&self) -> v1::ForwardingPipelineConfig {
        v1::ForwardingPipelineConfig {
            p4info: Some(self.info.clone()),
            p4_device_config: self.device_config.clone(),
            cookie: Some(v1::Cookie { cookie: self.cookie }),
        }
    }

    /// Whether a pipeline on a switch, of which `there` has all but the device configuration, is this one. `None`: it
    /// has no cookie, so its device configuration decides.
    pub(super) fn is(&self, there: &v1::ForwardingPipelineConfig) -> Option<bool> {
        if there.p4info.as_ref() != Some(&self.info) {
            return Some(false);
        }
        there.cookie.map(|cookie| cookie.cookie == self.cookie)
    }
}
